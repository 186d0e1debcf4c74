"""The panel in a cell's output, as a person sees it, and a workflow that has everything to look at.

`Panel` reads and clicks one panel. `Panel.record` starts a clock in the page that notes every change of what is drawn,
since a state that lasts 0.2 s is gone before a test has asked for it.
"""

from __future__ import annotations

from typing import Any

from lab_harness import Lab
from playwright.sync_api import Locator

EVENTS = """
import asyncio, datetime
from typing import Literal
from pydantic import Field
from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Workflow, options

options.user = "ann"

class Survey(StartEvent):
    parts: int = 8
    takes: float = 0.5

class Rows(Event):
    n: int

class Part(Event):
    i: int
    takes: float

class Scored(Event):
    i: int
    odd: int

class Table(Event):
    odd: int

class Verdict(HumanResponseEvent):
    decision: Literal["drop", "keep", "mark"]
    limit: float = Field(2.5, ge=0, le=10, description="Standard deviations.")
    until: datetime.date = Field(description="The next survey.")
    season: Literal["2007", "2008", "2009", "2010", "2011"] = "2009"
    note: str | None = None
    mail: bool = False

class Review(InputRequiredEvent[Verdict]):
    prefix: str = "What shall become of measurements that look odd?"
    rows: int = 344
    islands: list[str] = ["Biscoe", "Dream", "Torgersen"]
"""

FLOW = 'flow = Workflow("penguins")'

LOAD = """
@flow.step
async def load(ev: Survey, ctx: Context) -> Rows:
    print("reading 344 rows")
    ctx.state.set("survey", {"parts": ev.parts, "takes": ev.takes})
    await asyncio.sleep(ev.takes)
    return Rows(n=344)

@flow.step
async def split(ev: Rows, ctx: Context) -> list[Part]:
    survey = ctx.state.get("survey")
    await asyncio.sleep(survey["takes"])
    return [Part(i=i, takes=survey["takes"]) for i in range(survey["parts"])]
"""

SCORE = """
@flow.step(num_workers=2)
async def score(ev: Part) -> Scored:
    print("part", ev.i)
    await asyncio.sleep(ev.takes)
    return Scored(i=ev.i, odd=ev.i % 3)

@flow.step
def gather(ev: list[Scored]) -> Table:
    return Table(odd=sum(part.odd for part in ev))
"""

REVIEW = """
@flow.step
def review(ev: Survey) -> Review:
    return Review()

@flow.step
async def report(ev: Table | Verdict, ctx: Context) -> StopEvent | None:
    async with ctx.state.edit() as s:
        s[type(ev).__name__] = ev.model_dump(mode="json")
        if "Table" in s and "Verdict" in s:
            v = s["Verdict"]
            text = f"{v['decision']} beyond {v['limit']} until {v['until']}, {v['season']}, {v['note']}, {v['mail']}"
            return StopEvent(result=f"{s['Table']['odd']} odd: {text}")
"""

#: Cells that define the workflow, one after the other.
DEFINITION = [EVENTS, FLOW, LOAD, SCORE, REVIEW]


class Panel:
    """The n-th panel in the output of cell `cell`."""

    def __init__(self, lab: Lab, cell: int, nth: int = 0) -> None:
        self.lab, self.cell, self.nth = lab, cell, nth
        self.box: Locator = lab.output(cell).locator(".flownb-panel").nth(nth)
        self.view: Locator = self.box.locator(".flownb").first  # behind it stand those of runs that were made in it

    # ---- what is drawn

    def wait_drawn(self, timeout: float = 20.0) -> None:
        """Wait until the graph is laid out and something has been published."""
        self.view.locator("svg .fl-node").first.wait_for(state="attached", timeout=timeout * 1000)
        self._wait("panel => panel.dataset.status", timeout)

    def status(self) -> str:
        """The run's status as the view knows it."""
        return self.view.get_attribute("data-status") or ""

    def wait_status(self, status: str, timeout: float = 20.0) -> None:
        """Wait until the view shows this status."""
        self._wait(f"panel => panel.dataset.status === {status!r}", timeout)

    def ticks(self) -> int:
        """How many ticks the run has, by the slider's label ("3 / 39")."""
        text = self.view.locator(".fl-tick").text_content() or "0 / 0"
        return int(text.rpartition("/")[2].replace(",", ""))

    def wait_ticks(self, at_least: int, timeout: float = 10.0) -> None:
        """Wait until the run has so many ticks."""
        code = "panel => Number(panel.querySelector('.fl-tick').textContent.split('/')[1].replaceAll(',', ''))"
        self._wait(f"panel => ({code})(panel) >= {at_least}", timeout)

    def rows(self) -> list[str]:
        """The tick rows that are in sight, as "run started"."""
        return [
            " ".join(text.split()) for text in self.view.locator(".fl-ticks .fl-tr > :nth-child(2)").all_inner_texts()
        ]

    def node(self, label: str) -> Locator:
        """The drawn node of a step."""
        return self.view.locator(".fl-node").filter(has=self.lab.page.locator(f".name:text-is('{label}')"))

    def wait_node(self, label: str, state: str, timeout: float = 15.0) -> None:
        """Wait until a step's node is in a state: "idle", "running", "done" ..."""
        self.node(label).and_(self.lab.page.locator(f".s-{state}")).wait_for(state="attached", timeout=timeout * 1000)

    # ---- what is done

    def step(self) -> None:
        """Click Step."""
        self.verb("Step").click()

    def verb(self, name: str) -> Locator:
        """A button of the controls, by its words."""
        return self.view.locator(".fl-ctrl").get_by_role("button", name=name, exact=True)

    def unfold(self) -> None:
        """Open a compact panel."""
        self.view.locator("button[aria-label='open the panel']").click()

    def tab(self, name: str) -> None:
        """Open a tab of the inspector."""
        self.view.locator(f".fl-tabs [role=tab]:has-text('{name}')").click()

    def field(self, label: str) -> Locator:
        """The form's field whose label begins so."""
        return self.box.locator(".fl-field").filter(has_text=label)

    def send(self) -> None:
        """Click "Send answer" in the open form."""
        self.box.locator(".flownb-send:enabled").click()

    # ---- what was drawn

    def record(self) -> None:
        """From now on note every change of the nodes' states, of the bars and of the number of ticks."""
        self.lab.page.evaluate(_RECORD, [self.cell, self.nth])

    def recorded(self) -> dict[str, Any]:
        """`{"nodes": {label: [state, ...]}, "bars": {label: [[done, failed, running, queued], ...]}, "ticks":
        [[ms, ticks], ...]}`, each without repeats."""
        found: dict[str, Any] = self.lab.page.evaluate("() => window.flownbSeen")
        return found

    def _wait(self, code: str, timeout: float) -> None:
        handle = self.view.element_handle(timeout=timeout * 1000)
        self.lab.page.wait_for_function(code, arg=handle, timeout=timeout * 1000)


_RECORD = """([cell, nth]) => {
    const seen = window.flownbSeen = { nodes: {}, bars: {}, ticks: [] };
    const note = (list, value) => {
        if (JSON.stringify(list.at(-1)) !== JSON.stringify(value)) list.push(value);
    };
    clearInterval(window.flownbClock);
    window.flownbClock = setInterval(() => {
        const panel = document.querySelectorAll(".jp-Notebook .jp-Cell")[cell]?.querySelectorAll(".flownb")[nth];
        if (!panel) return;
        for (const node of panel.querySelectorAll("svg .fl-node")) {
            const label = node.querySelector(".name")?.textContent ?? "";
            const state = /s-(\\w+)/.exec(node.getAttribute("class"))?.[1] ?? "";
            note((seen.nodes[label] ??= []), state);
            const bar = ["done", "failed", "run", "queued"].map((s) => node.querySelectorAll(`.b-${s}`).length);
            if (bar.some(Boolean)) note((seen.bars[label] ??= []), bar);
        }
        const ticks = Number(panel.querySelector(".fl-tick").textContent.split("/")[1].replaceAll(",", ""));
        if (seen.ticks.at(-1)?.[1] !== ticks) seen.ticks.push([performance.now(), ticks]);
    }, 15);
}"""
