"""The dispatch: every tick has its handler, and nothing comes after the end."""

import typing

import pytest

from flownb.core import ticks as t
from flownb.core.life import first_state
from flownb.core.reduce import HANDLERS, begin, fold, reduce
from flownb.core.values import Failure
from flownb.testing import feed, finish, out, says, spec, started, step

FLOW = spec(step("work", "Start", "Stop"))


def test_every_tick_has_a_handler():
    """R1.32, R1.33: the union is closed; control and work ticks together are all of it."""
    assert set(HANDLERS) == set(typing.get_args(t.AnyTick))
    assert {*t.CONTROL, *t.WORK} == set(HANDLERS)
    assert not set(t.CONTROL) & set(t.WORK)


def test_the_same_tick_gives_the_same_answer():
    """R1.4: `reduce` is a function; the state that it was given is as it was."""
    state, _ = feed(started(FLOW))
    tick = says(state, "work", t.StepFinished, outs=(out("Stop", 1),))
    before = fold([started(FLOW)])

    assert reduce(state, tick) == reduce(state, tick)
    assert state == before


def test_time_never_runs_backwards():
    """R1.2: a host's clock that was set back gives the moment of the tick before."""
    state, _ = feed(started(FLOW, at=100.0))

    assert feed(state, t.GateClosed(90.0))[0].at == 100.0
    assert feed(state, t.GateClosed(110.0))[0].at == 110.0


def test_each_tick_counts():
    """R1.1: seq is its place in the journal, from 1, late ones too."""
    journal = [started(FLOW), t.GateClosed(0.0), t.TimerFired(0.0, 7), t.GateOpened(0.0)]
    assert [feed(journal[: n + 1])[0].seq for n in range(4)] == [1, 2, 3, 4]


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
def test_nothing_comes_after_the_end(end):
    """R1.10, R2.41: the reducer refuses every tick of an ended run."""
    state, _ = feed(started(FLOW))
    ends = {
        "completed": says(state, "work", t.StepFinished, outs=(out("Stop"),)),
        "failed": says(state, "work", t.StepFailed, failure=Failure("E", "no")),
        "cancelled": t.CancelRequested(0.0),
    }
    ended, _ = feed(state, ends[end])
    assert ended.status == end

    for tick in (*ends.values(), t.RunOpened(0.0, "another"), t.QuietNoticed(0.0), started(FLOW)):
        with pytest.raises(ValueError, match=f"Run 'run' is {end}: its last tick is 2"):
            reduce(ended, tick)


def test_a_journal_begins_with_its_start():
    """R1.33: RunStarted is the first tick, and only the first."""
    with pytest.raises(ValueError, match="begins with RunStarted, not with GateClosed"):
        fold([t.GateClosed(0.0)])
    with pytest.raises(ValueError, match="begins with RunStarted, not with NoneType"):
        fold([])
    with pytest.raises(ValueError, match="has begun already"):
        fold([started(FLOW), started(FLOW)])


def test_fold_is_reduce_again_and_again():
    """R1.3."""
    state, _ = feed(started(FLOW))
    last = says(state, "work", t.StepFinished, outs=(out("Stop", 1),))

    assert fold([started(FLOW), last]) == finish(state, "work", out("Stop", 1))[0]
    assert begin(started(FLOW)) == reduce(first_state(started(FLOW)), started(FLOW))
