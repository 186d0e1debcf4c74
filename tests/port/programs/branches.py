"""Branches: a step that returns one of several events, and two branches that meet in one step."""

from workflows import Workflow, step
from workflows.events import Event, StartEvent, StopEvent


class Even(Event):
    n: int


class Odd(Event):
    n: int


class Checked(Event):
    text: str


class Parity(Workflow):
    @step
    async def decide(self, ev: StartEvent) -> Even | Odd:
        return Odd(n=ev.n) if ev.n % 2 else Even(n=ev.n)

    @step
    async def even(self, ev: Even) -> Checked:
        return Checked(text=f"{ev.n} is even")

    @step
    async def odd(self, ev: Odd) -> Checked:
        return Checked(text=f"{ev.n} is odd")

    @step
    async def tell(self, ev: Checked) -> StopEvent:
        return StopEvent(result=ev.text)


async def main() -> object:
    flow = Parity(timeout=10)
    return [await flow.run(n=n) for n in range(3)]


RIGHT = ["0 is even", "1 is odd", "2 is even"]
