"""R3.43: a `CancelledError` of the step's own code fails the step; theirs loses the step and hangs until its limit."""

import asyncio

from workflows import Workflow, step
from workflows.errors import WorkflowTimeoutError
from workflows.events import StartEvent, StopEvent


class Inner(Workflow):
    @step
    async def work(self, ev: StartEvent) -> StopEvent:
        task = asyncio.ensure_future(asyncio.sleep(10))
        task.cancel()
        await task
        return StopEvent()


async def main() -> object:
    handler = Inner(timeout=2.0).run()
    try:
        await handler
    except WorkflowTimeoutError:
        return "timed out"
    except Exception as error:
        return type(error.__cause__ or error).__name__


THEIRS = "timed out"
OURS = "CancelledError"
