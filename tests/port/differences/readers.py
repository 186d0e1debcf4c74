"""R5.62: any number of readers read the stream, each from its beginning; theirs allows one."""

from workflows import Context, Workflow, step
from workflows.errors import WorkflowRuntimeError
from workflows.events import Event, StartEvent, StopEvent


class Word(Event):
    text: str


class Talks(Workflow):
    @step
    async def talk(self, ctx: Context, ev: StartEvent) -> StopEvent:
        ctx.write_event_to_stream(Word(text="a"))
        return StopEvent()


async def main() -> object:
    handler = Talks(timeout=10).run()
    seen = []
    for _ in range(2):
        try:
            seen.append([type(ev).__name__ async for ev in handler.stream_events()])
        except WorkflowRuntimeError:
            seen.append("refused")
    await handler
    return seen


THEIRS = [["Word", "StopEvent"], "refused"]
OURS = [["Word", "StopEvent"], ["Word", "StopEvent"]]
