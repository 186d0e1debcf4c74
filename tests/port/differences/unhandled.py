"""R5.36: a run that nobody can move any more fails with the reason; theirs hangs until its time limit."""

import time

from workflows import Workflow, step
from workflows.errors import WorkflowRuntimeError, WorkflowTimeoutError
from workflows.events import Event, StartEvent, StopEvent


class Stray(Event):
    pass


class Lost(Workflow):
    @step
    async def begin(self, ev: StartEvent) -> StopEvent:
        return Stray()


async def main() -> object:
    begun = time.monotonic()
    try:
        await Lost(timeout=2.0).run()
    except (WorkflowRuntimeError, WorkflowTimeoutError) as error:
        return type(error).__name__, "Stray" in str(error), time.monotonic() - begun < 1.5


THEIRS = ("WorkflowTimeoutError", False, False)
OURS = ("WorkflowStalled", True, True)
