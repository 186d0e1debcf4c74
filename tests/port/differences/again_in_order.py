"""R3.60, R6.38: work in progress at a snapshot runs again in its old order; theirs in the reverse one."""

import asyncio

from workflows import Context, Workflow, step
from workflows.events import Event, StartEvent, StopEvent

begun: list[int] = []
hold = True


class Item(Event):
    no: int


class Done(Event):
    no: int


class Work(Workflow):
    @step
    async def split(self, ctx: Context, ev: StartEvent) -> Item | None:
        for no in range(3):
            ctx.send_event(Item(no=no))
        return None

    @step(num_workers=3)
    async def work(self, ev: Item) -> Done:
        begun.append(ev.no)
        if hold:
            await asyncio.sleep(30)
        return Done(no=ev.no)

    @step
    async def end(self, ctx: Context, ev: Done) -> StopEvent | None:
        return StopEvent() if ctx.collect_events(ev, [Done] * 3) else None


async def main() -> object:
    global hold
    hold = True
    flow = Work(timeout=10)
    handler = flow.run()
    while len(begun) < 3:
        await asyncio.sleep(0.005)
    kept = handler.ctx.to_dict()
    await handler.cancel_run()
    hold = False
    await flow.run(ctx=Context.from_dict(flow, kept))
    return begun


THEIRS = [0, 1, 2, 2, 1, 0]
OURS = [0, 1, 2, 0, 1, 2]
