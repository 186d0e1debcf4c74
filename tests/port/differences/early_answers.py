"""R2.30: an event from outside that nobody takes yet waits for who comes later; theirs is lost."""

import asyncio

from workflows import Context, Workflow, step
from workflows.events import HumanResponseEvent, StartEvent, StopEvent

begun, sent = asyncio.Event(), asyncio.Event()


class Late(Workflow):
    @step
    async def wait(self, ctx: Context, ev: StartEvent) -> StopEvent:
        begun.set()
        await sent.wait()
        try:
            reply = await ctx.wait_for_event(HumanResponseEvent, waiter_id="w", timeout=0.1)
        except TimeoutError:
            return StopEvent(result="nothing came")
        return StopEvent(result=reply.response)


async def main() -> object:
    handler = Late(timeout=10).run()
    await begun.wait()
    await handler.send_event(HumanResponseEvent(response="early"))
    await asyncio.sleep(0.02)  # it comes, and finds nobody
    sent.set()
    return await handler


THEIRS = "nothing came"
OURS = "early"
