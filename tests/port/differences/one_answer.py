"""R4.34: an event resolves one waiter of a step, so equal waits take as many events; theirs resolves all."""

import asyncio

from workflows import Context, Workflow, step
from workflows.events import Event, HumanResponseEvent, StartEvent, StopEvent


class Item(Event):
    no: int


class Done(Event):
    answer: str


class Branches(Workflow):
    @step
    async def split(self, ev: StartEvent) -> list[Item]:
        return [Item(no=no) for no in range(2)]

    @step
    async def wait(self, ctx: Context, ev: Item) -> Done:
        reply = await ctx.wait_for_event(HumanResponseEvent)
        return Done(answer=reply.response)

    @step
    async def join(self, ev: list[Done]) -> StopEvent:
        return StopEvent(result=sorted(done.answer for done in ev))


async def main() -> object:
    handler = Branches(timeout=10).run()
    await asyncio.sleep(0.05)
    for response in ("one", "two"):
        if not handler.is_done():
            await handler.send_event(HumanResponseEvent(response=response))
            await asyncio.sleep(0.05)
    return await handler


THEIRS = ["one", "one"]
OURS = ["one", "two"]
