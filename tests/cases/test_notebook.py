"""Cases of the tag *notebook* (and one of *hitl*) in a real kernel without a front end, as nbconvert runs it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert import HTMLExporter

ROOT = Path(__file__).resolve().parents[2]

DEFINE = """
from typing import Literal
from flownb import *
class Rows(StartEvent): n: int = 3
class Row(Event): no: int
class Verdict(HumanResponseEvent): decision: Literal["keep", "drop"]
class Odd(InputRequiredEvent[Verdict]): no: int
class Done(Event): no: int
flow = Workflow("kernel")
@flow.step
def split(ev: Rows) -> list[Row]: return [Row(no=i) for i in range(ev.n)]
@flow.step
async def work(ev: Row) -> Done:
    print("working on", ev.no)
    return Done(no=ev.no)
@flow.step
def total(ev: list[Done]) -> StopEvent: return StopEvent(result=[d.no for d in ev])
asks = Workflow("asks")
@asks.step
def find(ev: Rows) -> Odd: return Odd(no=ev.n)
@asks.step
def decide(ev: Verdict) -> StopEvent: return StopEvent(result=ev.decision)
"""


class Kernel:
    """Cells run one after the other; each gives the text of its outputs."""

    def __init__(self, folder: Path) -> None:
        self.book = nbformat.v4.new_notebook()
        self.client = NotebookClient(self.book, timeout=60, resources={"metadata": {"path": str(folder)}})

    def run(self, source: str) -> str:
        cell = nbformat.v4.new_code_cell(source.strip())
        self.book.cells.append(cell)
        self.client.execute_cell(cell, len(self.book.cells) - 1)
        return "".join(self._text(output) for output in cell.outputs)

    def _text(self, output: Any) -> str:
        return output.get("text", "") or output.get("data", {}).get("text/plain", "")


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    made = Kernel(tmp_path)
    with made.client.setup_kernel():
        made.run(DEFINE)
        yield made


def test_c081_the_same_two_lines_work_in_a_cell_and_in_a_script(kernel: Kernel):
    """`await` and `.result()` in a cell, `.result()` in a script, `asyncio.run` in a script."""
    assert kernel.run("run = flow.run(n=2)\nprint(await run)").endswith("[0, 1]\n")
    assert kernel.run("run = flow.run(n=4)\nprint(run.result())").endswith("[0, 1, 2, 3]\n")
    strict = "import warnings\nwith warnings.catch_warnings(action='error'):\n    print(await flow.run(n=1))"
    assert kernel.run(strict).endswith("[0]\n")
    for way in ("flow.run(n=2).result()", "asyncio.run(main())"):
        script = f"{DEFINE}\nimport asyncio\nasync def main(): return await flow.run(n=2)\nprint({way})"
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.stdout.endswith("[0, 1]\n"), done.stderr) == (True, "")


def test_c083_running_the_cell_of_the_events_again_keeps_the_old_workflow_alive(kernel: Kernel):
    again = "class Row(Event): no: int\nclass Done(Event):\n    no: int\n    more: str = 'new'"
    assert kernel.run("print(await flow.run(n=2))").endswith("[0, 1]\n")
    kernel.run(again)
    assert kernel.run("print(await flow.run(n=3))").endswith("[0, 1, 2]\n")
    # Sent to a run that waits: an event of the new class, and one of the class before it.
    kernel.run(
        """
waits = Workflow("waits", accepts=[Row])
@waits.step
def begin(ev: Rows) -> None: ...
@waits.step
def take(ev: Row) -> StopEvent: return StopEvent(result=(isinstance(ev, Row), ev.no))
run, old = waits.run(), Row(no=7)
"""
    )
    kernel.run(again)
    assert kernel.run("run.send_event(old)\nprint(await run)").endswith("(True, 7)\n")
    assert kernel.run("run = waits.run()\nrun.send_event(Row(no=8))\nprint(await run)").endswith("(True, 8)\n")


@pytest.mark.parametrize("wait", ["await run", "run.result()"])
def test_c079_without_answers_the_cell_fails_soon_and_says_what_to_do(kernel: Kernel, wait: str):
    with pytest.raises(CellExecutionError) as caught:
        kernel.run(f"import time\nrun = asks.run(n=5)\ntry:\n    {wait}\nfinally:\n    gave_up_at = time.time()")
    assert float(kernel.run("print(gave_up_at - run.debug.ticks[-1].at)")) < 5  # after the run was quiet
    said = str(caught.value)
    assert "NobodyToAnswer" in said
    assert "find asks Odd(no=5)" in said
    assert "with_options(answers=" in said
    # The run itself stays open (R4.66), and the next cell works.
    assert kernel.run("print(run.status)").endswith("waiting\n")
    assert kernel.run("run.answer(decision='keep')\nprint(await run)").endswith("keep\n")


def test_c079_with_answers_it_passes(kernel: Kernel):
    given = "run = asks.with_options(answers={Odd: Verdict(decision='drop')}, answers_if='headless').run()"
    assert kernel.run(f"{given}\nprint(await run)").endswith("drop\n")


def test_what_a_step_prints_goes_to_its_log_and_into_no_cell(kernel: Kernel):
    """PANEL §7."""
    shown = kernel.run("run = flow.with_options(panel='off').run(n=3)\n_ = await run")
    assert "working on" not in shown
    assert kernel.run("print(run.logs('work'))").split() == [
        "working",
        "on",
        "0",
        "working",
        "on",
        "1",
        "working",
        "on",
        "2",
    ]


def test_the_run_goes_on_while_a_cell_sleeps(kernel: Kernel):
    """The engine has a thread of its own: the cell gives the kernel's loop back only when the run is over."""
    kernel.run("import time")
    sleeps = "end = time.monotonic() + 20\nwhile not run.is_done() and time.monotonic() < end: time.sleep(.1)"
    shown = kernel.run(f"run = flow.with_options(panel='off').run(n=3)\n{sleeps}\nprint(run.status)")
    assert shown == "completed\n"


def test_c049_an_interrupted_cell_ends_its_run_and_the_next_cell_begins_anew(kernel: Kernel):
    """Within a second; no step counts on, the interrupt is no failure that is retried, the loop lives."""
    kernel.run(
        """
import asyncio, threading, time
counts, late = {"async": 0, "plain": 0}, threading.Event()
slow = Workflow("slow")
@slow.step
async def one(ev: Rows) -> None:
    while True:
        counts["async"] += 1
        await asyncio.sleep(.05)
@slow.step
def two(ev: Rows) -> StopEvent:
    counts["plain"] += 1
    late.wait(20)  # no thread can be stopped
    return StopEvent(result="too late")
run = slow.run()
"""
    )
    kernel.run(
        """
import os, signal
def interrupt():
    global interrupted_at
    interrupted_at = time.time()
    os.kill(os.getpid(), signal.SIGINT)
while min(counts.values()) < 1: await asyncio.sleep(.01)
"""
    )
    with pytest.raises(CellExecutionError, match="KeyboardInterrupt"):
        kernel.run("threading.Timer(.5, interrupt).start()\nawait run")
    assert kernel.run("print(0 <= run.debug.ticks[-1].at - interrupted_at < 1)") == "True\n"
    said = kernel.run("before = dict(counts); await asyncio.sleep(.3); print(run.status, counts == before)")
    assert said.endswith("cancelled True\n")
    said = kernel.run("late.set(); await asyncio.sleep(.1); print(run.status, run.get_stop_event())")
    assert said.endswith("cancelled None\n")
    assert kernel.run("print(await flow.run(n=2))").endswith("[0, 1]\n")


def test_c089_after_a_restart_the_saved_output_and_the_store_show_the_last_state(kernel: Kernel, tmp_path: Path):
    """A readable picture with run id and state is in the file; a new kernel reads the journal. (The page's side, where
    old buttons do no harm, is in `tests/browser/test_job.py` and `test_kernel.py`.)"""
    kernel.run("run = flow.run(n=2, run_id='kept')\nprint(await run)")
    saved = [output["data"] for output in kernel.book.cells[-1].outputs if "data" in output]
    (twin,) = [data for data in saved if "flownb-twin-" in data["text/html"]]
    assert "run kept of kernel: completed at tick" in twin["text/plain"]
    assert "<img alt=" in twin["text/html"] and "total" in twin["text/html"]

    after = Kernel(tmp_path)
    with after.client.setup_kernel():
        after.run(DEFINE)
        shown = after.run(
            """
from flownb.core.reduce import fold
store = Store(".flownb/runs.db")
state = fold(store.history("kept"))
print([(row.run_id, row.status) for row in store.runs()], state.status, [step.done for step in state.steps])
"""
        )
    assert shown == "[('kept', 'completed')] completed [1, 2, 1]\n"


def test_c091_an_export_shows_what_the_panel_showed(kernel: Kernel):
    """Words and a picture, no `Widget(...)`; what is in them is in `tests/notebook/test_headless.py`."""
    kernel.run("run = flow.run(n=2, run_id='shown')\nprint(await run)")
    kernel.run("flow.view.graph()")
    page, _ = HTMLExporter().from_notebook_node(kernel.book)
    assert "run shown of kernel: completed at tick" in page
    assert "workflow kernel: split, work, total" in page
    assert page.count("data:image/svg+xml;base64,") >= 2
    assert "VBox(" not in page and "RunView(" not in page
