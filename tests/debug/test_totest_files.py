"""A run as a test: `run.debug.to_test`."""

import ast
from pathlib import Path
from typing import Any

from flownb import StartEvent, StopEvent, Workflow, step


class Once(Workflow[int]):
    """A workflow that cannot be made again: it holds something that there is one of."""

    made = 0

    def __init__(self) -> None:
        type(self).made += 1
        if self.made > 1:
            raise RuntimeError("the port is taken")
        super().__init__()

    @step
    async def answer(self, ev: StartEvent) -> StopEvent:
        return StopEvent(result=1)


def test_a_workflow_that_cannot_be_made_again_is_asked_for(tmp_path: Path):
    """What the constructor raises is the user's, and no reason to write no test: its fixture asks for the workflow."""
    run: Any = Once().run()
    assert run.result(20) == 1
    text = run.debug.to_test(tmp_path / "test_once.py").read_text("utf-8")
    assert "def flow():" in text and "Once()" not in text


def test_the_recording_is_found_whatever_the_file_is_called(tmp_path: Path):
    """A name outside the first 65,536 characters is written as it is: JSON's two halves are none of it in Python."""
    flow = Workflow[int]("answers")

    @flow.step
    async def answer(ev: StartEvent) -> StopEvent:
        return StopEvent(result=1)

    run = flow.run()
    assert run.result(20) == 1
    test = run.debug.to_test(tmp_path / "test_\U0001f600.py")
    (call,) = [
        node.value
        for node in ast.parse(test.read_text("utf-8")).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
    ]
    assert isinstance(call.args[0], ast.Constant)
    assert test.with_name(str(call.args[0].value)).exists()
