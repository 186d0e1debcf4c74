"""R3.13: sends and stream writes work in plain `def` steps; theirs need an event loop there."""

import gc
import warnings

from workflows import Context, Workflow, step
from workflows.events import Event, StartEvent, StopEvent


class Word(Event):
    text: str


class Plain(Workflow):
    @step
    def begin(self, ctx: Context, ev: StartEvent) -> Word | StopEvent:
        try:
            ctx.write_event_to_stream(Word(text="written"))
            ctx.send_event(Word(text="sent"))
        except RuntimeError as error:
            return StopEvent(result=str(error))
        return None

    @step
    def end(self, ev: Word) -> StopEvent:
        return StopEvent(result=ev.text)


async def main() -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # theirs leaves a coroutine behind that nobody awaited
        handler = Plain(timeout=10).run()
        written = [ev.text async for ev in handler.stream_events() if isinstance(ev, Word)]
        result = await handler
        del handler
        gc.collect()
    return written, result


THEIRS = ([], "no running event loop")
OURS = (["written"], "sent")
