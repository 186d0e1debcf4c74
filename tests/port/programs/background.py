"""Sending events in from outside, and a run with an id of one's own."""

import asyncio

from workflows import Context, Workflow, step
from workflows.events import Event, HumanResponseEvent, StartEvent, StopEvent


class Ready(Event):
    pass


class Number(HumanResponseEvent):
    n: int


class Sums(Workflow):
    @step
    async def begin(self, ctx: Context, ev: StartEvent) -> None:
        await ctx.store.set("wanted", ev.wanted)
        ctx.write_event_to_stream(Ready())

    @step(num_workers=1)
    async def add(self, ctx: Context, ev: Number) -> StopEvent | None:
        async with ctx.store.edit_state() as state:
            total = state["total"] = state.get("total", 0) + ev.n
            wanted = state["wanted"]
        return StopEvent(result=total) if total >= wanted else None


async def main() -> object:
    flow = Sums(timeout=10)
    handler = flow.run(run_id="sums-1", wanted=10)
    async for ev in handler.stream_events():
        if isinstance(ev, Ready):
            for n in (1, 2, 3, 4):
                await handler.send_event(Number(n=n))
                await asyncio.sleep(0.005)
    return handler.run_id, await handler


RIGHT = ("sums-1", 10)
