"""The past of a run whose code is elsewhere: every moment of it, in words, and probed."""

from collections.abc import Callable

from flownb import Store
from flownb.debug.probe import Row
from flownb.store.marks import UnknownEvent
from tests.stored.other import Other

Open = Callable[..., Store]
Start = Callable[..., Other]

CODE = """
class Page(Event):
    no: int
strange = Workflow('strange')
@strange.step
async def split(ev: Begin) -> list[Page]:
    return [Page(no=i) for i in range(3)]
@strange.step
async def count(ev: Page, ctx: Context) -> Done:
    ctx.state.set(f'seen{ev.no}', ev.no)
    return Done(no=ev.no)
@strange.step
async def total(ev: list[Done]) -> StopEvent:
    raise ValueError('no total')
run = strange.with_options(store=store).run(run_id='r')
"""


def test_a_run_of_classes_that_this_process_does_not_know(place: str, other: Start, open_store: Open):
    """C062, PANEL §4: states, words and probes are those of the process that ran it; it failed there."""
    process = other(place)
    process.do(CODE)
    process.wait("run.is_done()")
    ticks = process.give("len(run.debug.ticks)")
    states = process.give("[run.debug.at(k).state for k in range(1, len(run.debug.ticks) + 1)]")
    told = process.give("[run.debug.at(k).told for k in range(1, len(run.debug.ticks) + 1)]")
    steps = process.give("[run.debug.at(k).steps for k in range(1, len(run.debug.ticks) + 1)]")
    effects = process.give("[run.debug.at(k).effects for k in range(1, len(run.debug.ticks) + 1)]")

    for where in (open_store(place), open_store(f"{place}.2")):
        if not where.runs():
            where.import_(open_store(place).export("r", f"{place}.zip"))
        run = where.run("r")
        assert (run.status, len(run.debug.ticks)) == ("failed", ticks)
        moments = [run.debug.at(k) for k in range(1, ticks + 1)]
        assert [moment.state for moment in moments] == states
        assert [moment.steps for moment in moments] == steps
        assert [moment.effects for moment in moments] == effects
        assert [moment.is_past for moment in moments] == [True] * (ticks - 1) + [False]
        assert isinstance(run.debug.ticks[1].outs[0].value, UnknownEvent)
        assert moments[1].told.startswith("split finished with a list of 3, Page(no=0), Page(no=1) and Page(no=2): ")
        assert [moment.told for moment in moments] == told
        assert told[-1] == (
            "total failed with ValueError('no total'), attempt 1, given Done(no=0), Done(no=1) and Done(no=2): "
            "the run fails"
        )
        assert list(run.debug.probe("event.no", start=2, stop=2)) == [Row(2, 0), Row(2, 1), Row(2, 2)]
        assert run.debug.probe("len(state)").values[-1] == 3
        assert len(run.debug.story("Page")) == 7
