"""What is wrong with a definition is said before anything runs."""

from workflows import Context, Workflow, step
from workflows.errors import WorkflowConfigurationError, WorkflowRuntimeError, WorkflowValidationError
from workflows.events import Event, StartEvent, StopEvent

DEFINITION = (WorkflowValidationError, WorkflowConfigurationError)


class Made(Event):
    pass


class Missing(Event):
    pass


class NobodyMakes(Workflow):
    @step
    async def begin(self, ev: StartEvent) -> StopEvent:
        return StopEvent()

    @step
    async def never(self, ev: Missing) -> StopEvent:
        return StopEvent()


class NoStart(Workflow):
    @step
    async def end(self, ev: Made) -> StopEvent:
        return StopEvent()


class Wrong(Workflow):
    @step
    async def begin(self, ev: StartEvent) -> StopEvent:
        return "words"


class Lost(Workflow):
    """Sends to a step that is not there, and to one that does not take the event."""

    @step
    async def begin(self, ctx: Context, ev: StartEvent) -> Made:
        said = []
        for name in ("nowhere", "begin"):
            try:
                ctx.send_event(Made(), step=name)
            except Exception as error:
                said.append(name in str(error))
        return Made(said=said)

    @step
    async def end(self, ev: Made) -> StopEvent:
        return StopEvent(result=ev.said)


async def main() -> object:
    said = []
    for flow, word in ((NobodyMakes, "Missing"), (NoStart, "StartEvent")):
        try:
            await flow(timeout=10).run()
        except DEFINITION as error:
            said.append(word in str(error))
    try:
        await Wrong(timeout=10).run()
    except WorkflowRuntimeError as error:
        said.append("begin" in str(error) and "str" in str(error))
    return said, await Lost(timeout=10).run()


RIGHT = ([True, True, True], [True, True])
