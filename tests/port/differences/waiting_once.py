"""R4.23: a wait really waits, what stands before it runs once; theirs runs the step again from its top."""

from workflows import Context, Workflow, step
from workflows.events import HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent

charged: list[int] = []


class Charge(Workflow):
    @step
    async def ask(self, ctx: Context, ev: StartEvent) -> StopEvent:
        charged.append(1)
        answer = await ctx.wait_for_event(
            HumanResponseEvent, waiter_id="w", waiter_event=InputRequiredEvent(prefix="Sure?")
        )
        return StopEvent(result=answer.response)


async def main() -> object:
    handler = Charge(timeout=10).run()
    async for ev in handler.stream_events():
        if isinstance(ev, InputRequiredEvent):
            handler.ctx.send_event(HumanResponseEvent(response="yes"))
    return await handler, len(charged)


THEIRS = ("yes", 2)
OURS = ("yes", 1)
