"""At most so many runs of one workflow at a time."""

import asyncio

from workflows import Workflow, step
from workflows.events import StartEvent, StopEvent

running = 0
most = 0


class Limited(Workflow):
    @step
    async def work(self, ev: StartEvent) -> StopEvent:
        global running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return StopEvent(result=ev.n)


async def main() -> object:
    global most
    flow = Limited(timeout=10, num_concurrent_runs=2)
    limited = await asyncio.gather(*[flow.run(n=n) for n in range(6)]), most
    most = 0
    flow = Limited(timeout=10)
    free = await asyncio.gather(*[flow.run(n=n) for n in range(6)]), most
    return limited, free


RIGHT = (([0, 1, 2, 3, 4, 5], 2), ([0, 1, 2, 3, 4, 5], 6))
