"""A step with several event parameters fires when one of each has come."""

from workflows import Workflow, step
from workflows.events import Event, StartEvent, StopEvent


class Bread(Event):
    kind: str


class Cheese(Event):
    kind: str


class Order(Event):
    kind: str


class Kitchen(Workflow):
    @step
    async def begin(self, ev: StartEvent) -> Order:
        return Order(kind=ev.kind)

    @step
    async def bread(self, ev: Order) -> Bread:
        return Bread(kind=f"{ev.kind} bread")

    @step
    async def cheese(self, ev: Order) -> Cheese:
        return Cheese(kind=f"{ev.kind} cheese")

    @step
    async def plate(self, bread: Bread, cheese: Cheese) -> StopEvent:
        return StopEvent(result=f"{bread.kind} with {cheese.kind}")


async def main() -> object:
    return await Kitchen(timeout=10).run(kind="white")


RIGHT = "white bread with white cheese"
