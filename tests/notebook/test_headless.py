"""Notebooks executed where nobody looks: a question fails in words, answers given ahead pass, exports show all."""

import base64
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter

DEFINITION = """
import builtins
from typing import Literal
from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Workflow

inputs = []
builtins.input = lambda *args: inputs.append(args)

class Verdict(HumanResponseEvent):
    decision: Literal["drop", "keep"]

class Odd(InputRequiredEvent[Verdict]):
    rows: int

flow = Workflow("penguins")

@flow.step
def find_odd(ev: StartEvent) -> Odd:
    return Odd(rows=7)

@flow.step
def apply(ev: Verdict) -> StopEvent:
    return StopEvent(result=f"decided: {ev.decision}")
"""
INPUTS = "print('inputs:', inputs)"


def executed(folder: Path, cells: Sequence[str]) -> Any:
    """The notebook of these cells after nbclient has executed them, failed ones included."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = NotebookClient(
        notebook, timeout=30, allow_errors=True, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    client.execute()
    return notebook


def text_of(cell: Any) -> str:
    """What a cell shows, as text."""
    shown = []
    for output in cell.outputs:
        data = output.get("data", {})
        shown.append(output.get("text") or data.get("text/plain") or f"{output.get('ename')}: {output.get('evalue')}")
    return "\n".join(shown)


@pytest.mark.parametrize("wait", ["await run", "run.result()"])
def test_a_question_that_nobody_can_answer_fails_in_words(wait: str, tmp_path: Path):
    """C079: within 5 s, the question is named and what to do is said; `input()` is never called."""
    cell = f"import time\nrun = flow.run()\ntry:\n    print({wait})\nfinally:\n    gave_up_at = time.time()"
    after = "print(gave_up_at - run.debug.ticks[-1].at)"  # the run was quiet then
    notebook = executed(tmp_path, [DEFINITION, cell, INPUTS, "print('alive')", after])

    said = text_of(notebook.cells[1])
    assert "NobodyToAnswer" in said
    assert "find_odd asks Odd(rows=7)" in said
    assert "with_options(answers=" in said
    assert "run.answer(" in said
    assert float(text_of(notebook.cells[4])) < 5
    assert text_of(notebook.cells[2]).strip() == "inputs: []"
    assert text_of(notebook.cells[3]).strip() == "alive"


def test_answers_given_ahead_pass(tmp_path: Path):
    """C079 (b): answers of the author, as data, whether meant always or only where nobody looks."""
    given = "flow.with_options(answers={Odd: Verdict(decision='drop')}, answers_if='headless').run()"
    by_name = "flow.with_options(answers={Odd: {'decision': 'keep'}}).run()"

    notebook = executed(tmp_path, [DEFINITION, f"print(await {given})", f"print({by_name}.result())"])

    assert "decided: drop" in text_of(notebook.cells[1])
    assert "decided: keep" in text_of(notebook.cells[2])


def test_nbconvert_execute_fails_soon_and_says_why(tmp_path: Path):
    """The command line itself, as in a nightly job: an exit code and the words, no hang."""
    awaits = "import time\nbegun = time.monotonic()\ntry:\n    await flow.run()\nfinally:\n"
    awaits += "    print('gave up after', time.monotonic() - begun, 's')"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in (DEFINITION, awaits)])
    (tmp_path / "asks.ipynb").write_text(nbformat.writes(notebook), encoding="utf-8")
    command = [sys.executable, "-m", "nbconvert", "--execute", "--to", "html", str(tmp_path / "asks.ipynb")]

    done = subprocess.run(command, check=False, capture_output=True, encoding="utf-8", timeout=100)

    assert done.returncode != 0
    assert "find_odd asks Odd(rows=7)" in done.stderr
    assert "with_options(answers=" in done.stderr
    took = re.search(r"gave up after ([\d.]+) s", done.stderr)  # nbconvert itself takes longer
    assert took is not None and float(took[1]) < 5


def test_an_export_shows_steps_and_states_without_a_kernel_and_a_network(tmp_path: Path):
    """C091: words and a picture of the same facts; no `Widget(...)`, nothing to fetch."""
    run = "run = flow.with_options(answers={Odd: {'decision': 'keep'}}).run(run_id='night-1')"
    notebook = executed(tmp_path, [DEFINITION, run, "print(await run)", "flow.view.graph()"])

    shown = notebook.cells[1].outputs
    assert [sorted(output["data"]) for output in shown] == [["text/html", "text/plain"]]
    words = shown[0]["data"]["text/plain"]
    assert "night-1 of penguins: completed at tick" in words
    assert "done: start, find_odd, apply, stop" in words
    html = shown[0]["data"]["text/html"]
    assert len(html) < 30_000
    picture = base64.b64decode(re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', html)[0]).decode()
    for name in ("find_odd", "apply", "done"):
        assert f">{name}<" in picture
    assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", html + picture)

    page, _ = HTMLExporter().from_notebook_node(notebook)
    assert words in page
    assert "VBox(" not in page and "RunView(" not in page
    assert "workflow penguins: find_odd, apply" in page
