"""API §4, §7: start fields that do not fit are a `WorkflowValidationError` in words; a start event and fields together
are refused. Theirs: a `WorkflowRuntimeError`; a warning, the fields dropped."""

import warnings

from workflows import Workflow, step
from workflows.events import StartEvent, StopEvent


class Begin(StartEvent):
    n: int


class Fields(Workflow):
    @step
    async def end(self, ev: Begin) -> StopEvent:
        return StopEvent(result=ev.n)


async def outcome(*args: object, **fields: object) -> object:
    try:
        return await Fields(timeout=10).run(**fields)
    except Exception as error:
        return type(error).__name__


async def main() -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [await outcome(n="one"), await outcome(start_event=Begin(n=1), n=2)]


THEIRS = ["WorkflowRuntimeError", 1]
OURS = ["WorkflowValidationError", "WorkflowConfigurationError"]
