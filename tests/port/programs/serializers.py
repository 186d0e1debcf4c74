"""A context as a dict, with a serializer that is named, and events of one's own inside."""

from pydantic import BaseModel
from workflows import Context, Workflow, step
from workflows.context import JsonSerializer
from workflows.events import Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent


class Address(BaseModel):
    town: str


class Order(Event):
    no: int
    address: Address


class Ask(InputRequiredEvent):
    order: Order


class Reply(HumanResponseEvent):
    ok: bool


class Orders(Workflow):
    @step
    async def begin(self, ctx: Context, ev: StartEvent) -> Ask:
        order = Order(no=7, address=Address(town="Riga"), note="by hand")
        await ctx.store.set("order", order)
        return Ask(order=order)

    @step
    async def end(self, ctx: Context, ev: Reply) -> StopEvent:
        order = await ctx.store.get("order")
        return StopEvent(result=(type(order).__name__, order.no, order.address.town, order.note, ev.ok))


async def main() -> object:
    flow = Orders(timeout=10)
    handler = flow.run()
    async for ev in handler.stream_events():
        if isinstance(ev, Ask):
            break
    kept = handler.ctx.to_dict(serializer=JsonSerializer())
    await handler.cancel_run()
    handler = flow.run(ctx=Context.from_dict(flow, kept, serializer=JsonSerializer()))
    await handler.send_event(Reply(ok=True))
    return await handler


RIGHT = ("Order", 7, "Riga", "by hand", True)
