"""R5.55: the end of a run by failure, cancel or limit is an event of its own on the stream, no `StopEvent`: that is
a result. Theirs are all subclasses of `StopEvent`."""

from workflows import Workflow, step
from workflows.events import StartEvent, StopEvent


class Fails(Workflow):
    @step
    async def work(self, ev: StartEvent) -> StopEvent:
        raise LookupError("no book")


async def main() -> object:
    handler = Fails(timeout=10).run()
    told = [(type(ev).__name__, isinstance(ev, StopEvent)) async for ev in handler.stream_events()]
    try:
        await handler
    except LookupError:
        return told


THEIRS = [("WorkflowFailedEvent", True)]
OURS = [("WorkflowFailedEvent", False)]
