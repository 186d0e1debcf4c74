"""R5.64: a step's state tells which event, delivery and attempt it is about, and names types `module:qualname`; theirs
names the type in two spellings and has no more than that."""

from workflows import Workflow, step
from workflows.events import StartEvent, StepStateChanged, StopEvent


class Short(Workflow):
    @step
    async def end(self, ev: StartEvent) -> StopEvent:
        return StopEvent()


async def main() -> object:
    handler = Short(timeout=10).run()
    seen = [ev async for ev in handler.stream_events(expose_internal=True) if isinstance(ev, StepStateChanged)]
    await handler
    names = sorted({ev.input_event_name.split(".")[-1].split(":")[-1] for ev in seen})
    return names, all(hasattr(ev, "attempt") and hasattr(ev, "delivery") and hasattr(ev, "seq") for ev in seen)


THEIRS = (["StartEvent", "StartEvent'>"], False)
OURS = (["StartEvent"], True)
