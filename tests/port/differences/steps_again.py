"""R3.7, R2.21: defining a step again (its cell is run again) replaces it; theirs refuses the second one."""

from workflows import Workflow, step
from workflows.errors import WorkflowValidationError
from workflows.events import StartEvent, StopEvent


class Cells(Workflow):
    pass


@step(workflow=Cells)
async def end(ev: StartEvent) -> StopEvent:
    return StopEvent(result="first")


async def main() -> object:
    def cell() -> None:
        @step(workflow=Cells)
        async def end(ev: StartEvent) -> StopEvent:
            return StopEvent(result="second")

    try:
        cell()
    except WorkflowValidationError:
        return "refused"
    return await Cells(timeout=10).run()


THEIRS = "refused"
OURS = "second"
