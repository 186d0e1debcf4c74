"""R2.8: a step that takes a base class takes its subclasses too; theirs only with `accept_event_subclasses=True`."""

from workflows import Workflow, step
from workflows.events import Event, StartEvent, StopEvent, UnhandledEvent


class Animal(Event):
    pass


class Dog(Animal):
    pass


class Zoo(Workflow):
    @step
    async def begin(self, ev: StartEvent) -> Animal | StopEvent:
        return Dog() if ev.dog else Animal()

    @step
    async def feed(self, ev: Animal) -> StopEvent:
        return StopEvent(result=f"fed the {type(ev).__name__}")


async def main() -> object:
    results = [await Zoo(timeout=10).run(dog=False)]
    handler = Zoo(timeout=0.1).run(dog=True)
    unhandled = [ev async for ev in handler.stream_events(expose_internal=True) if isinstance(ev, UnhandledEvent)]
    try:
        results.append(await handler)
    except Exception as error:
        results.append(type(error).__name__)
    return results, len(unhandled)


THEIRS = (["fed the Animal", "WorkflowTimeoutError"], 1)
OURS = (["fed the Animal", "fed the Dog"], 0)
