"""Testing a workflow with `WorkflowTestRunner`: its events, how many of each type, its result."""

from workflows import Context, Workflow, step
from workflows.events import Event, StartEvent, StepStateChanged, StopEvent
from workflows.testing import WorkflowTestRunner


class Begin(StartEvent):
    n: int


class Word(Event):
    n: int


class Counting(Workflow):
    @step
    async def count(self, ctx: Context, ev: Begin) -> StopEvent:
        for n in range(ev.n):
            ctx.write_event_to_stream(Word(n=n))
        await ctx.store.set("n", ev.n)
        return StopEvent(result=ev.n)


async def main() -> object:
    runner = WorkflowTestRunner(Counting(timeout=10))
    shown = await runner.run(start_event=Begin(n=3), expose_internal=False)
    all_but = await runner.run(start_event=Begin(n=2), exclude_events=[StepStateChanged, StopEvent])
    again = await runner.run(start_event=Begin(n=1), ctx=all_but.ctx, expose_internal=False, exclude_events=[Word])
    return (
        [(type(ev).__name__) for ev in shown.collected],
        {kind.__name__: n for kind, n in shown.event_types.items()},
        shown.result,
        [ev.n for ev in all_but.collected if isinstance(ev, Word)],
        any(isinstance(ev, (StepStateChanged, StopEvent)) for ev in all_but.collected),
        [(type(ev).__name__) for ev in again.collected],
        await again.ctx.store.get("n"),
    )


RIGHT = (["Word"] * 3 + ["StopEvent"], {"Word": 3, "StopEvent": 1}, 3, [0, 1], False, ["StopEvent"], 1)
