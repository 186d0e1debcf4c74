"""R6.39: a run that goes on from a dict has as long left on its timers as when the dict was made; theirs counts the
time in between, and what fell due meanwhile runs at once."""

import asyncio
import json
import time

from workflows import Context, Workflow, step
from workflows.events import StartEvent, StopEvent
from workflows.retry_policy import retry_policy, stop_after_attempt, wait_fixed

begun: list[float] = []


class Flaky(Workflow):
    @step(retry_policy=retry_policy(wait=wait_fixed(1.5), stop=stop_after_attempt(2)))
    async def work(self, ctx: Context, ev: StartEvent) -> StopEvent:
        begun.append(time.monotonic())
        if len(begun) == 1:
            raise ConnectionError("busy")
        return StopEvent()


async def main() -> object:
    flow = Flaky(timeout=10)
    handler = flow.run()
    while not begun:
        await asyncio.sleep(0.005)
    await asyncio.sleep(0.05)
    kept = json.dumps(handler.ctx.to_dict())
    await handler.cancel_run()
    await asyncio.sleep(1.5)
    resumed = time.monotonic()
    await flow.run(ctx=Context.from_dict(flow, json.loads(kept)))
    return len(begun), begun[1] - resumed > 0.25


THEIRS = (2, False)
OURS = (2, True)
