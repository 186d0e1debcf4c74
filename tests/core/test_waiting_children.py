"""Children: runs that a step runs and waits for."""

import pytest

from flownb.core.commands import DisarmTimer, StartChild, StartStep, StopChild, WakeStep
from flownb.core.outstanding import is_quiet, outstanding, waits_for
from flownb.core.persist import Chain, Table
from flownb.core.state import Child, Did, Ended, Ledger, Outcome, Wait, Wake
from flownb.core.ticks import (
    CancelRequested,
    ChildChanged,
    ChildFinished,
    QuietNoticed,
    RunChild,
    RunOpened,
    StepFailed,
    TimerFired,
    WaitOpened,
    WaitWithdrawn,
)
from flownb.core.values import Failure
from flownb.testing import feed, finish, out, says, spec, started, step
from flownb.testing.feed import work_of

FLOW = spec(step("begin", "Start", fans="A"), step("work", "A", "Stop", num_workers=1, runs="other"))
NO = Failure("builtins:ValueError", "no")


def running(n=1):
    return finish(feed(started(FLOW))[0], "begin", *(out("A", i) for i in range(n)), fan=True)[0]


def runs(state, mark=1, *, n=0, number=1, attempt=1):
    wait = RunChild("test:other", out("Start", mark), number, attempt)
    return feed(state, says(state, "work", WaitOpened, n=n, mark=mark, wait=wait))


def woken(commands):
    return [(c.delivery.id, c.wakes) for c in commands if isinstance(c, WakeStep)]


def test_a_child_has_an_id_of_its_own_and_its_step_waits():
    """R6.18, R6.20, R1.7: parent, delivery and number; the worker is given back."""
    state, commands = runs(running(2))
    child = Child(1, "run/2/1", "test:other", out("Start", 1), step=1, delivery=2, mark=1)
    assert commands == (StartChild(child), StartStep(work_of(state, "work").active[3]))
    d = work_of(state, "work").waiting[2]
    assert d.waits == Table.of([(1, Wait(1, "child", 1))])
    assert d.ledger == Ledger(
        Chain.of([Did("child", 3, 1, out("Start", 1), "test:other", 1, number=1, tries=1)]), marks=1
    )
    assert (state.side.working, waits_for(state)) == (1, ["work waits for child run/2/1"])


def test_a_second_try_of_a_child_has_its_number():
    """R6.20: ".2"; its siblings count on."""
    state, _ = runs(running())
    state, _ = runs(state, 2, number=2)
    state, _ = feed(state, ChildFinished(1.0, 1, "failed", failure=NO))
    state, _ = runs(state, 3, number=1, attempt=2)
    assert [child.run_id for child in state.side.children.values()] == ["run/2/2", "run/2/1.2"]


def test_a_run_with_an_active_child_is_not_quiet():
    """R5.33, R6.22: it is, while all its children wait for the outside; it waits for them (R5.34)."""
    state, _ = runs(running())
    assert not is_quiet(state)
    early, _ = feed(state, QuietNoticed(1.0))
    assert (early.ignored, early.status) == (1, "running")
    state, commands = feed(state, ChildChanged(2.0, 1, False))
    assert commands == ()
    assert is_quiet(state)
    state, commands = feed(state, QuietNoticed(3.0))
    assert commands[0].info["waits_for"] == ("work waits for child run/2/1",)
    state, _ = feed(state, ChildChanged(4.0, 1, True))
    assert (state.status, state.side.working) == ("running", 1)


@pytest.mark.parametrize(
    "tick", [ChildChanged(2.0, 1, True), ChildChanged(2.0, 7, False), ChildFinished(2.0, 7, "failed")]
)
def test_a_change_that_is_none_is_ignored(tick):
    """R1.4: of an unknown child, or to what it is already."""
    state, _ = runs(running())
    after, commands = feed(state, tick)
    assert (commands, after.ignored, after.side) == ((), 1, state.side)


@pytest.mark.parametrize(
    ("tick", "outcome"),
    [
        (ChildFinished(5.0, 1, "completed", out("Stop", 7)), Outcome("finished", out("Stop", 7))),
        (ChildFinished(5.0, 1, "failed", failure=NO), Outcome("failed", failure=NO)),
        (ChildFinished(5.0, 1, "timed_out", failure=NO), Outcome("failed", failure=NO)),
        (ChildFinished(5.0, 1, "cancelled", failure=NO), Outcome("cancelled", failure=NO)),
    ],
)
@pytest.mark.parametrize("active", [True, False])
def test_the_end_of_a_child_is_one_tick_of_its_parent(tick, outcome, active):
    """R6.21, R6.26: whether it moved or waited; its step goes on with what came of it."""
    state, _ = runs(running())
    if not active:
        state, _ = feed(state, ChildChanged(2.0, 1, False), QuietNoticed(3.0))
    state, commands = feed(state, tick)
    assert woken(commands) == [(2, (Wake(1, outcome),))]
    assert (len(state.side.children), state.side.working, state.status) == (0, 0, "running")
    assert next(iter(work_of(state, "work").active[2].ledger.did)) == Ended(1, outcome)


def test_parallel_children_end_one_by_one():
    """R6.26: the first one wakes the code, the others reach it as it runs."""
    state, _ = runs(running())
    for n in (2, 3):
        state, _ = runs(state, n, number=n)
    state, commands = feed(state, ChildFinished(5.0, 2, "completed", out("Stop", 2)))
    assert woken(commands) == [(2, (Wake(2, Outcome("finished", out("Stop", 2))),))]
    state, commands = feed(state, ChildFinished(6.0, 3, "completed", out("Stop", 3)))
    assert woken(commands) == [(2, (Wake(3, Outcome("finished", out("Stop", 3))),))]
    assert list(work_of(state, "work").active[2].waits) == [1]


def test_the_losers_of_a_race_are_stopped():
    """R6.28, R4.28: the code gives them up."""
    state, _ = runs(running())
    state, _ = runs(state, 2, number=2)
    state, _ = feed(state, ChildChanged(4.0, 2, False), ChildFinished(5.0, 1, "completed", out("Stop")))
    state, commands = feed(state, says(state, "work", WaitWithdrawn, mark=2))
    assert commands == (StopChild(2, "withdrawn"),)
    assert (len(state.side.children), state.side.working) == (0, 0)


def test_children_end_with_their_step():
    """R6.27, R2.41: when it returns, fails for good, or the run is cancelled."""
    state, _ = runs(running(2))
    _, commands = finish(state, "work", n=0)
    assert StopChild(1, "withdrawn") in commands
    ended, commands = feed(state, says(state, "work", StepFailed, failure=NO))
    assert StopChild(1, "withdrawn") in commands
    assert ended.status == "failed"
    ended, commands = feed(state, CancelRequested(1.0))
    assert StopChild(1, "cancelled") in commands
    assert (len(ended.side.children), ended.side.working) == (0, 0)


def test_a_late_end_of_a_stopped_child_is_ignored():
    """R1.4: its own cancel takes its time."""
    state, _ = runs(running())
    state, _ = feed(state, says(state, "work", StepFailed, failure=NO, retry_at=60.0))
    after, commands = feed(state, ChildFinished(5.0, 1, "cancelled"))
    assert (commands, after.ignored) == ((), 1)


def test_a_lost_driver_goes_on_with_children():
    """R1.15, R6.18: the next one drives them too; the step starts again when one is over."""
    state, _ = runs(running())
    state, commands = feed(state, RunOpened(2.0, "another"))
    assert commands == ()
    assert outstanding(state) == (StartChild(state.side.children[1]),)
    _, commands = feed(state, ChildFinished(5.0, 1, "completed", out("Stop")))
    assert [type(c) for c in commands] == [StartStep]
    assert commands[0].delivery.start == 2


def test_a_child_that_ends_before_the_next_attempt_starts_nothing():
    """R3.28: no child outlives its attempt, so its end comes late."""
    state, _ = runs(running())
    state, commands = feed(state, says(state, "work", StepFailed, failure=NO, retry_at=60.0))
    assert StopChild(1, "withdrawn") in commands
    state, commands = feed(state, ChildFinished(5.0, 1, "completed", out("Stop")))
    assert commands == ()
    _, commands = feed(state, TimerFired(60.0, 1))
    assert [type(c) for c in commands] == [StartStep]
    assert DisarmTimer(1) not in commands
