"""A workflow inside a workflow: given to the constructor and run by a step."""

from workflows import Context, Workflow, step
from workflows.events import Event, StartEvent, StopEvent


class Query(Event):
    text: str


class Reflection(Workflow):
    @step
    async def reflect(self, ctx: Context, ev: StartEvent) -> StopEvent:
        return StopEvent(result=f"{ev.query} (improved)")


class Main(Workflow):
    def __init__(self, reflection: Workflow, **settings: object) -> None:
        super().__init__(**settings)
        self.reflection = reflection

    @step
    async def begin(self, ctx: Context, ev: StartEvent) -> Query:
        better = await self.reflection.run(query=ev.query)
        return Query(text=better)

    @step
    async def end(self, ctx: Context, ev: Query) -> StopEvent:
        return StopEvent(result=ev.text)


async def main() -> object:
    return await Main(reflection=Reflection(timeout=10), timeout=10).run(query="why")


RIGHT = "why (improved)"
