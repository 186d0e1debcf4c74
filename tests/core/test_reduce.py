"""The dispatch: every tick has its handler, and nothing comes after the end."""

import typing

import pytest
from msgspec.structs import replace

from flownb.core import ticks as t
from flownb.core.commands import Publish
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


UNKNOWN = [
    t.StepFinished(5.0, "work", 99, 1, (out("Stop"),)),
    t.StepFinished(5.0, "nowhere", 1, 1, (out("Stop"),)),
    t.StepFinished(5.0, "work", 1, 7, (out("Stop"),)),
    t.StepFailed(5.0, "work", 99, 1, Failure("E", "no")),
    t.EventsSent(5.0, "work", 99, 1, (out("Stop"),)),
    t.StreamWritten(5.0, "work", 99, 1, out("A")),
    t.StreamRewound(5.0, "work", 99, 1),
    t.StateWritten(5.0, "work", 99, 1, {"a": out("Value")}),
    t.ValueRecorded(5.0, "work", 99, 1, "now", out("Value")),
    *(
        t.WaitOpened(5.0, "work", 99, 1, 1, wait)
        for wait in (t.Sleep(9.0), t.Ask(out("Ask")), t.Await("test:A"), t.RunChild("test:other", out("Start")))
    ),
    t.WaitWithdrawn(5.0, "work", 99, 1, 1),
    t.WaitWithdrawn(5.0, "work", 1, 1, 99),
    t.TimerFired(5.0, 99),
    t.RequestAnswered(5.0, 99, out("Reply")),
    t.RequestAnswered(5.0, 99, out("Reply"), decision="retry"),
    t.RequestDisposed(5.0, 99),
    t.RequestDisposed(5.0, 99, superseded=True),
    t.RequestHeld(5.0, 99),
    t.ChildChanged(5.0, 99, True),
    t.ChildFinished(5.0, 99, "completed", out("Stop")),
    t.HoldChanged(5.0, 99),
    t.HoldChanged(5.0, 1, "late", 99),
    t.QuietNoticed(5.0),
]


@pytest.mark.parametrize("tick", UNKNOWN, ids=lambda tick: type(tick).__name__)
@pytest.mark.parametrize("status", ["running", "suspended", "cancelling"])
def test_a_tick_that_names_what_is_not_there_is_only_counted(tick, status):
    """R1.4, R3.19: the reducer is total; it refuses what comes after the end, and nothing else that may arrive."""
    flow = spec(step("work", "Start", "Stop"), step("tidy", "Cancelled", on_cancel=True))
    before, _ = feed(started(flow))
    if status == "suspended":
        before, _ = feed(before, t.RunSuspended(0.0))
    elif status == "cancelling":
        before, _ = feed(before, t.CancelRequested(0.0, out=out("Cancelled")))
    after, commands = feed(before, tick)

    assert commands == ()
    assert after == replace(before, seq=before.seq + 1, at=5.0, counts=replace(before.counts, ignored=1))


def test_what_may_not_come_is_refused_before_it_is_a_tick():
    """R1.10, R1.33, R6.44: a second beginning, a definition without a place for work; the state stays as it was."""
    state, _ = feed(started(FLOW))
    for tick in (started(FLOW), t.DefinitionAdopted(1.0, spec(step("other", "Start", "Stop")))):
        with pytest.raises(ValueError, match=r"has begun already|has no place for the work of work"):
            reduce(state, tick)
    assert state == fold([started(FLOW)])


def test_what_ended_in_a_tick_is_not_started_by_it():
    """R1.14: a stop beside other events, a failure under unhandled="error"; only what runs is stopped."""
    flow = spec(step("begin", "Start", ("A", "Stop"), fans="A"), step("work", "A"), unhandled="error")
    for last, status in (("Stop", "completed"), ("Lost", "failed")):
        state, _ = feed(started(flow))
        tick = says(state, "begin", t.EventsSent, outs=(out("A"), out("A"), out(last)))
        ended, commands = feed(state, tick)
        assert ended.status == status
        assert [type(c).__name__ for c in commands if not isinstance(c, Publish)] == ["StopStep", "FinishRun"]
        assert [a.where for a in ended.abandoned] == ["running", "queued", "queued"]
