"""Fan-out by a returned list, fan-in by a `list[...]` parameter."""

import asyncio

from workflows import Workflow, step
from workflows.events import Event, StartEvent, StopEvent


class Task(Event):
    no: int


class Part(Event):
    no: int


class Squares(Workflow):
    @step
    async def split(self, ev: StartEvent) -> list[Task]:
        return [Task(no=no) for no in range(ev.n)]

    @step(num_workers=8)
    async def work(self, ev: Task) -> Part | None:
        await asyncio.sleep(0.001 * (5 - ev.no % 5))
        if ev.no % 3 == 2:
            return None
        return Part(no=ev.no**2)

    @step
    async def join(self, parts: list[Part]) -> StopEvent:
        return StopEvent(result=sorted(part.no for part in parts))


class Mixed(Workflow):
    """The join takes what two kinds of branches give."""

    @step
    async def split(self, ev: StartEvent) -> list[Task | Part]:
        return [Task(no=1), Part(no=100), Task(no=2)]

    @step
    async def work(self, ev: Task) -> Part:
        return Part(no=-ev.no)

    @step
    async def join(self, parts: list[Part]) -> StopEvent:
        return StopEvent(result=sorted(part.no for part in parts))


async def main() -> object:
    return [
        await Squares(timeout=10).run(n=6),
        await Squares(timeout=10).run(n=0),
        await Mixed(timeout=10).run(),
    ]


RIGHT = [[0, 1, 9, 16], [], [-2, -1, 100]]
