"""A join that does not wait for all: `Collect(Take(n))`."""

import asyncio
from typing import Annotated

from workflows import Workflow, step
from workflows.collect import All, Collect, Take
from workflows.events import Event, StartEvent, StopEvent


class Ask(Event):
    no: int


class Offer(Event):
    no: int


finished: list[int] = []


class Buyer(Workflow):
    @step
    async def ask(self, ev: StartEvent) -> list[Ask]:
        return [Ask(no=no) for no in range(ev.n)]

    @step(num_workers=8)
    async def shop(self, ev: Ask) -> Offer:
        await asyncio.sleep(0.02 * ev.no)
        finished.append(ev.no)
        return Offer(no=ev.no)


class Fastest(Buyer):
    @step
    async def buy(self, offers: Annotated[list[Offer], Collect(Take(2))]) -> StopEvent:
        return StopEvent(result=sorted(offer.no for offer in offers))


class Every(Buyer):
    @step
    async def buy(self, offers: Annotated[list[Offer], Collect(All())]) -> StopEvent:
        return StopEvent(result=sorted(offer.no for offer in offers))


class Bought(Event):
    no: int


class Patient(Buyer):
    """The others go on after the first two; the run ends when all have been asked."""

    @step
    async def buy(self, offers: Annotated[list[Offer], Collect(Take(2))]) -> Bought:
        return Bought(no=len(offers))

    @step
    async def wait(self, ev: Bought) -> StopEvent:
        while len(finished) < 4:
            await asyncio.sleep(0.005)
        return StopEvent(result=ev.no)


async def main() -> object:
    fastest = [await Fastest(timeout=10).run(n=n) for n in (4, 1)]
    every = await Every(timeout=10).run(n=3)
    finished.clear()
    return fastest, every, await Patient(timeout=10).run(n=4), finished


RIGHT = ([[0, 1], [0]], [0, 1, 2], 2, [0, 1, 2, 3])
