"""R4.5: surplus events of a type wait for the next round of `collect_events`; theirs are dropped."""

import asyncio

from workflows import Context, Workflow, step
from workflows.events import Event, StartEvent, StopEvent


class Left(Event):
    n: int


class Right(Event):
    n: int


class Pair(Event):
    pair: tuple[int, int]


class Last(Event):
    pass


class Pairs(Workflow):
    @step
    async def begin(self, ctx: Context, ev: StartEvent) -> Left | Right | Last:
        for event in (Left(n=1), Left(n=2), Right(n=1), Right(n=2)):
            ctx.send_event(event, step="pair")
        return Last()

    @step(num_workers=1)
    async def pair(self, ctx: Context, ev: Left | Right) -> Pair | None:
        two = ctx.collect_events(ev, [Left, Right])
        return Pair(pair=(two[0].n, two[1].n)) if two else None

    @step(num_workers=1)
    async def gather(self, ctx: Context, ev: Pair) -> StopEvent | None:
        pairs = [*await ctx.store.get("pairs", default=[]), ev.pair]
        await ctx.store.set("pairs", pairs)
        return StopEvent(result=pairs) if len(pairs) == 2 else None

    @step
    async def give_up(self, ctx: Context, ev: Last) -> StopEvent:
        await asyncio.sleep(0.3)
        return StopEvent(result=await ctx.store.get("pairs"))


async def main() -> object:
    return await Pairs(timeout=10).run()


THEIRS = [(1, 1)]
OURS = [(1, 1), (2, 2)]
