"""Fan-out with `send_event`, a limited number of workers, and `collect_events` at the end."""

import asyncio

from workflows import Context, Workflow, step
from workflows.events import Event, StartEvent, StopEvent


class Page(Event):
    no: int


class Words(Event):
    no: int
    count: int


class Counting(Workflow):
    running = 0
    most = 0

    @step
    async def split(self, ctx: Context, ev: StartEvent) -> Page | None:
        await ctx.store.set("pages", ev.pages)
        for no in range(ev.pages):
            ctx.send_event(Page(no=no))
        return None

    @step(num_workers=3)
    async def count(self, ev: Page) -> Words:
        cls = type(self)
        cls.running += 1
        cls.most = max(cls.most, cls.running)
        await asyncio.sleep(0.005 if ev.no % 2 else 0.01)
        cls.running -= 1
        return Words(no=ev.no, count=ev.no * 10)

    @step
    async def total(self, ctx: Context, ev: Words) -> StopEvent | None:
        words = ctx.collect_events(ev, [Words] * await ctx.store.get("pages"))
        if words is None:
            return None
        return StopEvent(result=sorted((word.no, word.count) for word in words))


async def main() -> object:
    result = await Counting(timeout=10).run(pages=8)
    return result, Counting.most


RIGHT = ([(no, no * 10) for no in range(8)], 3)
