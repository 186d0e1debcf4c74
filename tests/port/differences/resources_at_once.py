"""R6.17: steps that need the same resource for the first time at once wait for one making of it; theirs takes it for a
circle."""

import asyncio
from typing import Annotated

from workflows import Workflow, step
from workflows.events import Event, StartEvent, StopEvent
from workflows.resource import Resource

made: list[int] = []


async def get_model() -> list[int]:
    await asyncio.sleep(0.02)
    made.append(1)
    return made


class Item(Event):
    no: int


class Done(Event):
    no: int


class Uses(Workflow):
    @step
    async def split(self, ev: StartEvent) -> list[Item]:
        return [Item(no=no) for no in range(3)]

    @step
    async def work(self, ev: Item, model: Annotated[list, Resource(get_model)]) -> Done:
        return Done(no=ev.no)

    @step
    async def join(self, ev: list[Done]) -> StopEvent:
        return StopEvent(result=sorted(done.no for done in ev))


async def main() -> object:
    try:
        result = await Uses(timeout=10).run()
    except Exception as error:
        return "Circular" in str(error)
    return result, len(made)


THEIRS = True
OURS = ([0, 1, 2], 1)
