"""R4.23: a wait inside `try: ... except Exception:` still waits; theirs is an exception that the block swallows."""

from workflows import Context, Workflow, step
from workflows.events import HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent


class Careful(Workflow):
    @step
    async def ask(self, ctx: Context, ev: StartEvent) -> StopEvent:
        try:
            answer = await ctx.wait_for_event(
                HumanResponseEvent, waiter_id="w", waiter_event=InputRequiredEvent(prefix="Sure?")
            )
        except Exception as error:
            return StopEvent(result=type(error).__name__)
        return StopEvent(result=answer.response)


async def main() -> object:
    handler = Careful(timeout=10).run()
    async for ev in handler.stream_events():
        if isinstance(ev, InputRequiredEvent):
            handler.ctx.send_event(HumanResponseEvent(response="yes"))
    return await handler


THEIRS = "WaitingForEvent"
OURS = "yes"
