"""R2.3: a step that changes its event changes it for nobody else; theirs hands the same object to all."""

from workflows import Context, Workflow, step
from workflows.events import Event, StartEvent, StopEvent


class Data(Event):
    numbers: list[int]


class Seen(Event):
    numbers: list[int]


class Shared(Workflow):
    @step
    async def begin(self, ev: StartEvent) -> Data:
        return Data(numbers=[1])

    @step
    async def a_changes(self, ev: Data) -> Seen:
        ev.numbers.append(99)
        return Seen(numbers=list(ev.numbers))

    @step
    async def b_looks(self, ev: Data) -> Seen:
        return Seen(numbers=list(ev.numbers))

    @step
    async def end(self, ctx: Context, ev: Seen) -> StopEvent | None:
        both = ctx.collect_events(ev, [Seen, Seen])
        return StopEvent(result=sorted(one.numbers for one in both)) if both else None


async def main() -> object:
    return await Shared(timeout=10).run()


THEIRS = [[1, 99], [1, 99]]
OURS = [[1], [1, 99]]
