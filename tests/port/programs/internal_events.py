"""The events of the engine itself: which step ran, which event nobody took."""

from workflows import Context, Workflow, step
from workflows.events import Event, StartEvent, StepState, StepStateChanged, StopEvent, UnhandledEvent


class One(Event):
    pass


class Stray(Event):
    pass


class Short(Workflow):
    @step
    async def begin(self, ev: StartEvent) -> One:
        return One()

    @step
    async def end(self, ctx: Context, ev: One) -> StopEvent:
        return StopEvent(result="done")


class Strays(Workflow):
    @step
    async def begin(self, ctx: Context, ev: StartEvent) -> One:
        ctx.send_event(Stray())
        return One()

    @step
    async def end(self, ev: One) -> StopEvent:
        return StopEvent(result="done")


async def main() -> object:
    handler = Short(timeout=10).run()
    seen = [ev async for ev in handler.stream_events(expose_internal=True)]
    states = [ev for ev in seen if isinstance(ev, StepStateChanged)]
    ran = [ev.name for ev in states if ev.step_state == StepState.RUNNING]
    over = [ev.name for ev in states if ev.step_state == StepState.NOT_RUNNING]

    handler = Strays(timeout=10).run()
    stray = [ev.event_type for ev in [ev async for ev in handler.stream_events(True)] if isinstance(ev, UnhandledEvent)]
    quiet = [type(ev).__name__ async for ev in Short(timeout=10).run().stream_events()]
    return ran, over, type(seen[-1]).__name__, stray, quiet


RIGHT = (["begin", "end"], ["begin", "end"], "StopEvent", ["Stray"], ["StopEvent"])
