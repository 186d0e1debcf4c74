"""R1.2: moments are Unix seconds, in `StepFailedEvent.failed_at` too; theirs is a `datetime`."""

from workflows import Workflow, catch_error, step
from workflows.events import StartEvent, StepFailedEvent, StopEvent


class Fails(Workflow):
    @step
    async def work(self, ev: StartEvent) -> StopEvent:
        raise LookupError("no book")

    @catch_error
    async def handle(self, ev: StepFailedEvent) -> StopEvent:
        return StopEvent(result=type(ev.failed_at).__name__)


async def main() -> object:
    return await Fails(timeout=10).run()


THEIRS = "datetime"
OURS = "float"
