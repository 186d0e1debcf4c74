"""R2.14, R4.15: `send_event` cannot add to a fan-out. One to the join by name raises at the call, one without a name is
unhandled and the join does not see it. Theirs: fails the run later; a line in the log."""

from workflows import Context, Workflow, step
from workflows.events import Event, StartEvent, StopEvent, UnhandledEvent


class Item(Event):
    no: int


class Done(Event):
    no: int


class Sends(Workflow):
    @step
    async def split(self, ctx: Context, ev: StartEvent) -> list[Item]:
        if ev.to is None:
            ctx.send_event(Done(no=99))
        else:
            try:
                ctx.send_event(Done(no=99), step=ev.to)
            except Exception as error:
                raise LookupError("refused at the call") from error
        return [Item(no=no) for no in range(2)]

    @step
    async def work(self, ev: Item) -> Done:
        return Done(no=ev.no)

    @step
    async def join(self, ev: list[Done]) -> StopEvent:
        return StopEvent(result=sorted(done.no for done in ev))


async def main() -> object:
    handler = Sends(timeout=10).run(to=None)
    seen = [ev async for ev in handler.stream_events(True)]
    result = await handler
    try:
        await Sends(timeout=10).run(to="join")
    except Exception as error:
        named = type(error).__name__
    return result, any(isinstance(ev, UnhandledEvent) for ev in seen), named


THEIRS = ([0, 1], False, "WorkflowRuntimeError")
OURS = ([0, 1], True, "LookupError")
