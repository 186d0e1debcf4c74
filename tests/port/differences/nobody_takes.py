"""R8.8: a returned event that no step takes is a warning (an error with `unhandled="error"`); theirs refuses to run."""

import warnings

from workflows import Workflow, step
from workflows.errors import WorkflowValidationError
from workflows.events import Event, StartEvent, StopEvent


class Made(Event):
    pass


class NobodyTakes(Workflow):
    @step
    async def begin(self, ev: StartEvent) -> StopEvent | Made:
        return StopEvent(result="done")


async def main() -> object:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            outcome = await NobodyTakes(timeout=10).run()
        except WorkflowValidationError as error:
            outcome = "Made" in str(error)
    return outcome, ["Made" in str(one.message) for one in caught]


THEIRS = (True, [])
OURS = ("done", [True])
