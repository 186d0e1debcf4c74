"""R4.9: a join gets what the branches gave in the order of the branches; theirs in the order in which they ended."""

import asyncio

from workflows import Workflow, step
from workflows.events import Event, StartEvent, StopEvent


class Item(Event):
    no: int


class Done(Event):
    no: int


class Ordered(Workflow):
    @step
    async def split(self, ev: StartEvent) -> list[Item]:
        return [Item(no=no) for no in range(3)]

    @step
    async def work(self, ev: Item) -> Done:
        await asyncio.sleep(0.03 * (3 - ev.no))
        return Done(no=ev.no)

    @step
    async def join(self, ev: list[Done]) -> StopEvent:
        return StopEvent(result=[done.no for done in ev])


async def main() -> object:
    return await Ordered(timeout=10).run()


THEIRS = [2, 1, 0]
OURS = [0, 1, 2]
