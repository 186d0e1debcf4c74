"""A person in the loop, inside one step: `wait_for_event` with a question, and with requirements."""

from workflows import Context, Workflow, step
from workflows.events import HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent


class Order(Workflow):
    @step
    async def order(self, ctx: Context, ev: StartEvent) -> StopEvent:
        answer = await ctx.wait_for_event(
            HumanResponseEvent,
            waiter_id=f"pay {ev.amount}",
            waiter_event=InputRequiredEvent(prefix=f"Pay {ev.amount}?", user_name=ev.user),
            requirements={"user_name": ev.user},
        )
        return StopEvent(result=f"{ev.user} said {answer.response}")


class Slow(Workflow):
    @step
    async def wait(self, ctx: Context, ev: StartEvent) -> StopEvent:
        try:
            await ctx.wait_for_event(HumanResponseEvent, waiter_id="never", timeout=0.05)
        except TimeoutError:
            return StopEvent(result="nobody came")
        return StopEvent(result="somebody came")


async def main() -> object:
    handler = Order(timeout=10).run(amount=30, user="ann")
    asked = []
    async for ev in handler.stream_events():
        if isinstance(ev, InputRequiredEvent):
            asked.append(ev.prefix)
            handler.ctx.send_event(HumanResponseEvent(response="no", user_name="bob"))
            handler.ctx.send_event(HumanResponseEvent(response="yes", user_name="ann"))
    return asked, await handler, await Slow(timeout=10).run()


RIGHT = (["Pay 30?"], "ann said yes", "nobody came")
