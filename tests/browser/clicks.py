"""Where clicks arrive: a run asks by a form, then by buttons of the panel, while its cell awaits, blocks, or is over.

`EXPECTED` is the documented truth, measured in real JupyterLab by `python -m tests.kernels.matrix`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

from lab_harness import Lab, make_notebook
from panel_page import Panel
from playwright.sync_api import TimeoutError as PlaywrightTimeout

Subshells = Literal["default", "disabled"]
Mode = Literal["await", "block", "background"]
#: "clicks": both arrive and the cell gets the result. "words": the cell fails in words, and the run stays open.
#: Anything else is a fault, as it was seen.
Outcome = str

MODES: tuple[Mode, ...] = ("await", "block", "background")
SETTINGS = {"disabled": {"@jupyterlab/apputils-extension:kernels-settings": {"commsOverSubshells": "disabled"}}}

#: Without the fast lane, by kernel and JupyterLab's `commsOverSubshells`; with it there are clicks everywhere.
EXPECTED: dict[str, dict[Subshells, dict[Mode, Outcome]]] = {
    "6.31": {
        "default": {"await": "words", "block": "words", "background": "clicks"},
        "disabled": {"await": "words", "block": "words", "background": "clicks"},
    },
    "7.0": {
        "default": {"await": "clicks", "block": "clicks", "background": "clicks"},
        "disabled": {"await": "words", "block": "words", "background": "clicks"},
    },
    "7.3": {
        "default": {"await": "clicks", "block": "clicks", "background": "clicks"},
        "disabled": {"await": "words", "block": "words", "background": "clicks"},
    },
    "7.4": {
        "default": {"await": "clicks", "block": "words", "background": "clicks"},
        "disabled": {"await": "clicks", "block": "words", "background": "clicks"},
    },
}
NEWEST = "7.4"


def expected(kernel: str, subshells: Subshells, mode: Mode, *, lane: bool) -> Outcome:
    """What is to happen."""
    return "clicks" if lane else EXPECTED[kernel][subshells][mode]


DEFINED = """
import time
import flownb, ipykernel
from flownb import Context, StartEvent, StopEvent, Workflow

asks = Workflow("asks")

@asks.step
async def ask(ev: StartEvent, ctx: Context) -> StopEvent:
    which = await ctx.ask("Which penguin?")
    return StopEvent(result=f"{which} {await ctx.ask('Sure?', bool)}")

print("ipykernel", ipykernel.__version__)
"""
WAITS = """
{lane}
run = asks.run()
try:
    print("got", {wait})
finally:
    print("after", round(time.time() - run.debug.ticks[-1].at, 1), "s")
"""
LANE = "assert flownb.enable_fast_lane() and flownb.enable_fast_lane()"
WAIT = {"await": "await run", "block": "run.result()", "background": "run.status"}
BEHIND = "print('behind', run.status)"
LATER = "print('later', await run)"
#: Nothing that is awaited takes longer, on a busy machine too.
PATIENCE_S = 40.0


@dataclass(frozen=True)
class Seen:
    """What happened."""

    outcome: Outcome
    #: What the cell said.
    said: str = ""
    #: Seconds from the run's last tick to the words.
    after_s: float = 0.0


def try_clicks(lab: Lab, name: str, kernel: str, mode: Mode, *, lane: bool) -> Seen:
    """Open a fresh notebook, let a cell wait for a run that asks, and answer by keyboard and mouse.

    A cell stands behind the one that waits. Where the cell fails in words, the run is answered between two cells, as
    the words say.
    """
    cells = [DEFINED, WAITS.format(lane=LANE if lane else "", wait=WAIT[mode]), BEHIND, LATER]
    make_notebook(lab.server.root / f"{name}.ipynb", cells, kernel=kernel)
    lab.open(f"{name}.ipynb")
    try:
        lab.run(0)
        lab.run(1, wait=False)
        if mode == "background":
            lab.wait_done(1)
        else:
            lab.run(2, wait=False)
        return _answer(lab, mode)
    finally:
        lab.shut_down()


def _answer(lab: Lab, mode: Mode) -> Seen:
    panel = Panel(lab, 1)
    panel.box.locator(".flownb-form input:enabled").wait_for(timeout=1000 * PATIENCE_S)
    if mode != "background":
        _give_time(lab, 4.5)
    try:
        type_answer(lab, panel)
        panel.send()
        panel.box.get_by_role("button", name="Approve").click(timeout=1000 * PATIENCE_S)
        lab.wait_done(1, timeout=PATIENCE_S)
    except PlaywrightTimeout:
        return Seen("deadlock", lab.text(1))
    said = lab.text(1)
    if mode == "background" or "NobodyToAnswer" in said:
        lab.run(3)
        is_right = "later Gentoo True" in lab.text(3)
    else:
        lab.wait_done(2, timeout=PATIENCE_S)
        is_right = "got Gentoo True" in said and "behind completed" in lab.text(2)
    if not is_right:
        return Seen("wrong result", said + lab.text(2) + lab.text(3))
    return _words(said) if "NobodyToAnswer" in said else Seen("clicks", said)


def _give_time(lab: Lab, most_s: float) -> None:
    """Nobody clicks for a moment: time in which a cell fails that takes itself for deaf."""
    end = time.monotonic() + most_s
    while time.monotonic() < end and "*" in lab.prompt(1):
        lab.page.wait_for_timeout(100)


def _words(said: str) -> Seen:
    """The cell ended by itself, and the run was answered after it: whether the words tell what to do."""
    told = ("ask asks Question(", "No click can arrive here", "enable_fast_lane()", "with_options(answers=")
    after = float(said.split("after ")[1].split(" s", maxsplit=1)[0])
    return Seen("words" if all(words in said for words in told) else "wrong words", said, after)


def type_answer(lab: Lab, panel: Panel) -> None:
    """Type letter by letter, and wait until the kernel has handled each: ipywidgets holds a letter back until the one
    before it was handled, but not a click on another widget, and so would a person on a machine this busy."""
    lab.page.evaluate(_WATCH)
    panel.box.locator(".flownb-form input:enabled").click()
    lab.page.keyboard.type("Gentoo", delay=60)
    lab.page.wait_for_function(_HANDLED, timeout=1000 * PATIENCE_S)


#: Notes which changes of widgets the page has sent and the kernel has not yet called done.
_WATCH = """() => {
    const open = (window.flownbUnhandled = new Set());
    window.flownbNews = Infinity;
    window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.anyMessage.connect((_, { msg, direction }) => {
        const kind = msg.header.msg_type;
        if (direction === "send" && kind === "comm_msg" && msg.content.data.method === "update") {
            window.flownbNews = performance.now();
            open.add(msg.header.msg_id);
        } else if (direction === "recv" && kind === "status" && msg.content.execution_state === "idle") {
            open.delete(msg.parent_header.msg_id);
        }
    });
}"""
_HANDLED = "() => window.flownbUnhandled.size === 0 && performance.now() - window.flownbNews > 300"
