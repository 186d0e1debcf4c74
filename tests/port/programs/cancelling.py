"""Cancelling a run from outside."""

import asyncio

from workflows import Context, Workflow, step
from workflows.errors import WorkflowCancelledByUser
from workflows.events import StartEvent, StopEvent, WorkflowCancelledEvent

ended: list[str] = []


class Long(Workflow):
    @step
    async def work(self, ctx: Context, ev: StartEvent) -> StopEvent:
        await ctx.store.set("half", "done")
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            ended.append("cancelled inside")
            raise
        return StopEvent(result="too late")


async def main() -> object:
    handler = Long(timeout=10).run()
    await asyncio.sleep(0.05)
    before = handler.is_done()
    await handler.cancel_run()
    try:
        await handler
    except WorkflowCancelledByUser:
        outcome = "cancelled"
    else:
        outcome = "not cancelled"
    events = [type(ev) is WorkflowCancelledEvent async for ev in handler.stream_events()]
    kept = await handler.ctx.store.get("half")
    return before, handler.is_done(), outcome, events, kept, ended


RIGHT = (False, True, "cancelled", [True], "done", ["cancelled inside"])
