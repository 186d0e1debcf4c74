"""State with a model, and edits of several workers at once: none is lost, a failed one leaves no trace."""

import asyncio

from pydantic import BaseModel, Field
from workflows import Context, Workflow, step
from workflows.events import Event, StartEvent, StopEvent


class Address(BaseModel):
    town: str = "nowhere"


class Totals(BaseModel):
    sum: int = 0
    seen: list[int] = Field(default_factory=list)
    address: Address = Field(default_factory=Address)


class Item(Event):
    n: int


class Added(Event):
    pass


class Summing(Workflow):
    @step
    async def split(self, ctx: Context[Totals], ev: StartEvent) -> Item | None:
        await ctx.store.set("address.town", ev.town)
        for n in range(10):
            ctx.send_event(Item(n=n))
        return None

    @step(num_workers=4)
    async def add(self, ctx: Context[Totals], ev: Item) -> Added:
        try:
            async with ctx.store.edit_state() as state:
                state.sum += 1000
                raise KeyError("changed my mind")
        except KeyError:
            pass
        async with ctx.store.edit_state() as state:
            before = state.sum
            await asyncio.sleep(0.001)
            state.sum = before + ev.n
            state.seen.append(ev.n)
        return Added()

    @step
    async def end(self, ctx: Context[Totals], ev: Added) -> StopEvent | None:
        if ctx.collect_events(ev, [Added] * 10) is None:
            return None
        state = await ctx.store.get_state()
        return StopEvent(result=(type(state).__name__, state.sum, sorted(state.seen), state.address.town))


async def main() -> object:
    return await Summing(timeout=10).run(town="Riga")


RIGHT = ("Totals", 45, list(range(10)), "Riga")
