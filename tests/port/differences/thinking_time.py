"""R5.45, R5.46: a run's time limit does not count while all wait for people; theirs does."""

import asyncio

from workflows import Workflow, step
from workflows.errors import WorkflowTimeoutError
from workflows.events import HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent


class Slow(Workflow):
    @step
    async def ask(self, ev: StartEvent) -> InputRequiredEvent:
        return InputRequiredEvent(prefix="Well?")

    @step
    async def end(self, ev: HumanResponseEvent) -> StopEvent:
        return StopEvent(result=ev.response)


async def main() -> object:
    handler = Slow(timeout=0.2).run()
    try:
        async for ev in handler.stream_events():
            if isinstance(ev, InputRequiredEvent):
                await asyncio.sleep(0.4)
                await handler.send_event(HumanResponseEvent(response="at last"))
        return await handler
    except WorkflowTimeoutError:
        return "timed out"


THEIRS = "timed out"
OURS = "at last"
