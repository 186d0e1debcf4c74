"""The dispatch: every tick has its handler, and nothing comes after the end."""

import typing

import pytest
from msgspec.structs import replace

from flownb.core import ticks as t
from flownb.core.commands import Publish
from flownb.core.life import first_state
from flownb.core.reduce import HANDLERS, begin, fold, reduce
from flownb.core.state import shown_status
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


@pytest.mark.parametrize("first", ["the stop", "the cancel"])
def test_the_journal_decides_races(first):
    """R1.5, R2.37, R1.34: what is reduced first ends the run; the other one is refused, in every replay."""
    state, _ = feed(started(FLOW))
    stop, cancel = says(state, "work", t.StepFinished, outs=(out("Stop", 1),)), t.CancelRequested(0.0, "enough")
    order = (stop, cancel) if first == "the stop" else (cancel, stop)
    ended, _ = feed(state, order[0])
    assert ended.status == ("completed" if first == "the stop" else "cancelled")
    assert fold([started(FLOW), order[0]]) == ended
    with pytest.raises(ValueError, match="its last tick is 2"):
        reduce(ended, order[1])


def test_commands_are_no_part_of_what_a_run_is():
    """R1.13, R1.3: they are derived; a fold that acts on none comes to the same state, and derives the same again."""
    journal = [started(FLOW), t.GateClosed(0.0), t.RunOpened(1.0, "another")]
    told = [begin(journal[0])[1]]
    state, _ = begin(journal[0])
    for tick in journal[1:]:
        state, commands = reduce(state, tick)
        told.append(commands)
    assert fold(journal) == state
    assert [feed(journal[: n + 1])[1] for n in range(3)] == [tuple(commands) for commands in told]


class Opaque:
    """A value that nobody may look into."""

    def _refuse(self, *args):
        raise AssertionError("the core looked into a user's value")

    __getattr__ = __eq__ = __bool__ = __len__ = __iter__ = __repr__ = _refuse
    __hash__ = None


def test_a_users_value_is_opaque():
    """R1.35, R1.4: routed, gathered, recorded, written, asked and answered, its code is never called."""
    flow = spec(
        step("begin", "Start", fans="A"),
        step("work", "A", ("B", "Ask"), waits=True),
        step("hears", "Reply", "B"),
        step("sum", gathers="B", returns="Stop"),
    )
    value = Opaque()

    def secret(name):
        return out(name, value)

    state, _ = reduce(*_first(replace(started(flow), out=secret("Start"))))
    ticks = (
        (t.StepFinished, "begin", {"outs": (secret("A"), secret("A")), "fan": True}),
        (t.StreamWritten, "work", {"out": secret("A")}),
        (t.StateWritten, "work", {"changes": {"a": secret("Value")}}),
        (t.ValueRecorded, "work", {"name": "now", "out": secret("Value")}),
        (t.WaitOpened, "work", {"mark": 1, "wait": t.Ask(secret("Ask"))}),
        (t.WaitOpened, "work", {"mark": 2, "wait": t.Await("test:Row")}),
        (t.EventsSent, "work", {"outs": (secret("Lost"), secret("Row"))}),
        (t.StepFinished, "work", {"outs": (secret("B"),)}),
        (t.StepFinished, "work", {"outs": (secret("Ask"),)}),
    )
    for kind, name, fields in ticks:
        state, _ = reduce(state, says(state, name, kind, **fields))
    state, _ = reduce(state, t.RequestAnswered(1.0, 2, secret("Reply")))
    state, _ = reduce(state, says(state, "hears", t.StepFinished, outs=(secret("B"),)))
    state, _ = reduce(state, says(state, "sum", t.StepFinished, outs=(secret("Stop"),)))
    assert state.status == "completed"
    assert state.result.value is value


def _first(tick):
    return first_state(tick), tick


@pytest.mark.parametrize(
    ("ticks", "shown"),
    [
        ((), "running"),
        ((t.GateClosed(1.0),), "paused"),
        ((t.RunSuspended(1.0),), "suspended"),
        ((t.GateClosed(1.0), t.RunSuspended(1.0)), "suspended"),
        ((t.CancelRequested(1.0, out=out("Cancelled")),), "cancelling"),
        ((t.CancelRequested(1.0),), "cancelled"),
        ((t.StepFinished(1.0, "work", 1, 1, (out("Stop"),)),), "completed"),
        ((t.StepFailed(1.0, "work", 1, 1, Failure("E", "no")),), "failed"),
        ((t.TimerFired(61.0, 0),), "timed_out"),
        ((t.StepFinished(1.0, "work", 1, 1), t.QuietNoticed(1.0)), "waiting"),
    ],
)
def test_a_run_has_one_status(ticks, shown):
    """R1.47: but for those that a driver adds (blocked, definition_changed)."""
    flow = spec(step("work", "Start", "Stop"), step("tidy", "Cancelled", on_cancel=True), stalled="wait")
    state, _ = feed(started(flow, terms=t.Terms(timeout_s=60.0)), *ticks)
    assert shown_status(state) == shown
