"""API §8: an event sent to a run that is over is refused (`WorkflowDone`); theirs drops it silently."""

from workflows import Workflow, step
from workflows.errors import WorkflowDone
from workflows.events import Event, StartEvent, StopEvent


class Late(Event):
    pass


class Short(Workflow):
    @step
    async def end(self, ev: StartEvent) -> StopEvent:
        return StopEvent()


async def main() -> object:
    handler = Short(timeout=10).run()
    await handler
    try:
        await handler.send_event(Late())
    except WorkflowDone:
        return "refused"
    return "dropped"


THEIRS = "dropped"
OURS = "refused"
