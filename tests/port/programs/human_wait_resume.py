"""Going on from a dict while a step waits inside: the start event is not needed again."""

import json

from workflows import Context, Workflow, step
from workflows.events import Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent


class Begin(StartEvent):
    names: list[str]


class Item(Event):
    name: str


class Approved(Event):
    name: str
    ok: bool


class Ask(InputRequiredEvent):
    name: str


class Reply(HumanResponseEvent):
    name: str
    ok: bool


class Approvals(Workflow):
    """Two branches wait at once; one is answered before, the other after the break."""

    @step
    async def split(self, ctx: Context, ev: Begin) -> Item | None:
        await ctx.store.set("n", len(ev.names))
        for name in ev.names:
            ctx.send_event(Item(name=name))
        return None

    @step
    async def approve(self, ctx: Context, ev: Item) -> Approved:
        reply = await ctx.wait_for_event(
            Reply, waiter_id=ev.name, waiter_event=Ask(name=ev.name), requirements={"name": ev.name}
        )
        return Approved(name=ev.name, ok=reply.ok)

    @step
    async def end(self, ctx: Context, ev: Approved) -> StopEvent | None:
        found = ctx.collect_events(ev, [Approved] * await ctx.store.get("n"))
        return StopEvent(result=sorted([one.name, one.ok] for one in found)) if found else None


async def main() -> object:
    flow = Approvals(timeout=10)
    handler = flow.run(start_event=Begin(names=["a", "b"]))
    asked = set()
    async for ev in handler.stream_events():
        if isinstance(ev, Ask):
            asked.add(ev.name)
            if len(asked) == 2:
                break
    kept = json.dumps(handler.ctx.to_dict())
    await handler.cancel_run()

    handler = flow.run(ctx=Context.from_dict(flow, json.loads(kept)))
    await handler.send_event(Reply(name="b", ok=False))
    await handler.send_event(Reply(name="a", ok=True))
    return sorted(asked), await handler


RIGHT = (["a", "b"], [["a", True], ["b", False]])
