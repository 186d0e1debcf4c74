"""Resources: made by a function, given to steps by their hints, made once or each time."""

from typing import Annotated

from workflows import Workflow, step
from workflows.events import Event, StartEvent, StopEvent
from workflows.resource import Resource

made = {"memory": 0, "ticket": 0, "base": 0}


def get_base() -> str:
    made["base"] += 1
    return "base"


async def get_memory(base: Annotated[str, Resource(get_base)]) -> list[str]:
    made["memory"] += 1
    return [base]


def get_ticket() -> dict[str, int]:
    made["ticket"] += 1
    return {"no": made["ticket"]}


Memory = Annotated[list, Resource(get_memory)]
Ticket = Annotated[dict, Resource(get_ticket, cache=False)]


class Middle(Event):
    pass


class Remembers(Workflow):
    @step
    async def first(self, ev: StartEvent, memory: Memory, ticket: Ticket) -> Middle:
        memory.append(f"first {ticket['no']}")
        return Middle()

    @step
    async def second(self, ev: Middle, memory: Memory, ticket: Ticket) -> StopEvent:
        memory.append(f"second {ticket['no']}")
        return StopEvent(result=list(memory))


async def main() -> object:
    flow = Remembers(timeout=10)
    return await flow.run(), await flow.run(), made


RIGHT = (
    ["base", "first 1", "second 2"],
    ["base", "first 1", "second 2", "first 3", "second 4"],
    {"memory": 1, "ticket": 4, "base": 1},
)
