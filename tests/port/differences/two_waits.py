"""R4.27, R4.34: two waits of one type are two waits and take two answers; theirs give both the first one."""

import asyncio

from workflows import Context, Workflow, step
from workflows.events import HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent


class Twice(Workflow):
    @step
    async def ask(self, ctx: Context, ev: StartEvent) -> StopEvent:
        first = await ctx.wait_for_event(HumanResponseEvent, waiter_event=InputRequiredEvent(prefix="one"))
        second = await ctx.wait_for_event(HumanResponseEvent, waiter_event=InputRequiredEvent(prefix="two"))
        return StopEvent(result=[first.response, second.response])


async def main() -> object:
    handler = Twice(timeout=10).run()
    answers = iter(["r1", "r2"])
    async for ev in handler.stream_events():
        if isinstance(ev, InputRequiredEvent):
            await asyncio.sleep(0.01)
            await handler.send_event(HumanResponseEvent(response=next(answers)))
    return await handler


THEIRS = ["r1", "r1"]
OURS = ["r1", "r2"]
