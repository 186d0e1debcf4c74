"""R4.36: the time limit of a wait is part of the snapshot; theirs is forgotten, the run hangs until its own."""

import json

from workflows import Context, Workflow, step
from workflows.errors import WorkflowTimeoutError
from workflows.events import HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent


class Waits(Workflow):
    @step
    async def wait(self, ctx: Context, ev: StartEvent) -> StopEvent:
        try:
            await ctx.wait_for_event(
                HumanResponseEvent, waiter_id="w", waiter_event=InputRequiredEvent(prefix="?"), timeout=0.2
            )
        except TimeoutError:
            return StopEvent(result="nobody came")
        return StopEvent(result="somebody came")


async def main() -> object:
    flow = Waits(timeout=3.0)
    handler = flow.run()
    async for ev in handler.stream_events():
        if isinstance(ev, InputRequiredEvent):
            break
    kept = json.dumps(handler.ctx.to_dict())
    await handler.cancel_run()
    try:
        return await flow.run(ctx=Context.from_dict(flow, json.loads(kept)))
    except WorkflowTimeoutError:
        return "the run timed out"


THEIRS = "the run timed out"
OURS = "nobody came"
