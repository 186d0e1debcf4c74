"""A limit for the whole run."""

import asyncio

from workflows import Workflow, step
from workflows.errors import WorkflowTimeoutError
from workflows.events import Event, StartEvent, StopEvent, WorkflowTimedOutEvent


class Next(Event):
    pass


class Long(Workflow):
    @step
    async def quick(self, ev: StartEvent) -> Next:
        return Next()

    @step
    async def slow(self, ev: Next) -> StopEvent:
        await asyncio.sleep(30)
        return StopEvent()


async def main() -> object:
    handler = Long(timeout=0.1).run()
    told = [ev async for ev in handler.stream_events()]
    try:
        await handler
    except WorkflowTimeoutError as error:
        outcome = "slow" in str(error)
    else:
        outcome = None
    return outcome, [(type(ev) is WorkflowTimedOutEvent, ev.timeout, ev.active_steps) for ev in told]


RIGHT = (True, [(True, 0.1, ["slow"])])
