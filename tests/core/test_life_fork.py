"""Forks: a run of its own that shares the ticks of another, as if the time since had not passed."""

import pytest

from flownb.core.commands import ArmTimer, OpenRequest, StartChild, StartStep
from flownb.core.outstanding import is_quiet
from flownb.core.persist import Names
from flownb.core.reduce import begin, fold, is_first
from flownb.core.ticks import (
    Ask,
    Await,
    BreakpointHit,
    CancelRequested,
    ChildChanged,
    EventArrived,
    GateClosed,
    GateOpened,
    HoldChanged,
    Parent,
    QuietNoticed,
    RequestAnswered,
    RunChild,
    RunForked,
    RunSuspended,
    Sleep,
    StateWritten,
    StepFailed,
    StepFinished,
    StepsGranted,
    Terms,
    TimerFired,
    WaitOpened,
)
from flownb.core.values import Failure, Limit
from flownb.testing import event, feed, finish, out, says, spec, started, step
from flownb.testing.feed import key, started_of, work_of

FLOW = spec(
    step("begin", "Start", fans="A"),
    step("work", "A", ("B", "Ask"), num_workers=2),
    step("sum", gathers="B", returns="Stop"),
    step("slow", "Order", rate=0.01),
    types=(event("Ask", answer="Reply"),),
    stalled="wait",
)
NO = Failure("E", "no")


def forked(run, at, **fields):
    """The fork of a run after its last tick."""
    return feed(run, RunForked(at, "fork", run.run_id, run.seq, **fields))


def running(n=3, **fields):
    first = started(FLOW, at=100.0, **fields)
    return finish(feed(first)[0], "begin", *(out("A", i) for i in range(n)), fan=True)[0]


def waits(state, wait, *, n=0, mark=1, at=None):
    return feed(state, says(state, "work", WaitOpened, n=n, mark=mark, wait=wait, at=at))[0]


def test_a_fork_is_a_run_of_its_own():
    """R6.37, R1.33, R1.1: its id, no parent; its seq follows the shared ticks; the other one is as it was."""
    before = running(parent=Parent("above", 3), terms=Terms(max_starts=7))
    state, _ = forked(before, 200.0)
    assert (state.run_id, state.seq, state.head.parent) == ("fork", before.seq + 1, None)
    assert (state.started_at, state.head.terms) == (100.0, Terms(max_starts=7))
    assert (before.run_id, before.head.parent) == ("run", Parent("above", 3))


def test_what_ran_at_the_point_of_the_fork_starts_again():
    """R6.38, R3.17: the same attempts, as after a lost driver; what is queued stays queued."""
    state, commands = forked(running(), 200.0)
    assert [(c.delivery.id, c.delivery.attempt, c.delivery.start, c.delivery.at) for c in commands] == [
        (2, 1, 2, 200.0),
        (3, 1, 2, 200.0),
    ]
    assert [d.id for d in work_of(state, "work").queue] == [4]


def test_a_fork_moves_every_due_time():
    """R6.39: by the time that passed since its last shared tick: sleeps, deadlines, waits, next attempts, rates."""
    state = running(6)
    state = waits(state, Sleep(150.0))  # timer 1
    state = waits(state, Ask(out("Ask"), due_at=160.0), n=1)  # 2
    state = waits(state, Await(key("Row"), due_at=170.0), n=2)  # 3
    state, _ = finish(state, "work", out("Ask", limit=Limit(180.0)), n=3)  # 4
    state, _ = feed(state, says(state, "work", StepFailed, n=3, failure=NO, retry_at=190.0, at=110.0))  # 5
    state, _ = feed(state, EventArrived(110.0, out("Order")), EventArrived(110.0, out("Order")))  # 6
    assert [t.due_at for t in state.timers.values()] == [150.0, 160.0, 170.0, 180.0, 190.0, 210.0]
    state, commands = forked(state, 1_110.0)

    assert [(t.id, t.due_at) for t in state.timers.values()] == [
        (1, 1_150.0),
        (2, 1_160.0),
        (3, 1_170.0),
        (4, 1_180.0),
        (5, 1_190.0),
        (6, 1_210.0),
    ]
    assert [c.timer for c in commands if isinstance(c, ArmTimer)] == list(state.timers.values())
    assert [r.due_at for r in state.requests.values()] == [1_160.0, 1_180.0]
    assert state.side.waiters[1].due_at == 1_170.0
    assert work_of(state, "slow").ready_at == 1_210.0
    d = started_of(state, "work")[3]
    assert (d.tries.due_at, d.tries.first_at) == (1_190.0, 1_100.0)
    state, commands = feed(state, TimerFired(1_190.0, 5))
    assert [(c.delivery.id, c.delivery.attempt) for c in commands] == [(6, 2)]


def test_the_time_that_passed_is_no_time_that_people_took():
    """R6.39, R3.31: neither in the clock of a policy nor in what is left out of it."""
    state = waits(running(1), Ask(out("Ask")), at=110.0)
    state, _ = feed(state, GateClosed(120.0))
    state, _ = forked(state, 1_120.0)
    state, _ = feed(state, RequestAnswered(1_125.0, 1, out("Reply")))
    d = work_of(state, "work").active[2]
    assert (d.tries.first_at, d.tries.asked_s) == (1_100.0, 15.0)


def test_a_fork_opens_its_questions_anew():
    """R6.40: under its own id, so their tokens are its own; one that was given by a caller stays with the other run."""
    state = waits(running(1), Ask(out("Ask", "?"), token="hash"))
    state, commands = forked(state, 200.0)
    request = state.requests[1]
    assert (request.token, request.due_at) == ("", None)
    assert commands == (OpenRequest(request),)


def test_a_fork_runs_unfinished_children_anew():
    """R6.40: as runs of its own, from their beginning; finished ones are in the ledger."""
    state = waits(running(1), RunChild("test:other", out("Start")))
    state = waits(state, RunChild("test:other", out("Start"), 2), mark=2)
    state, _ = feed(state, ChildChanged(110.0, 1, False), ChildChanged(110.0, 2, False))
    state, commands = forked(state, 200.0)
    assert [c.child.run_id for c in commands if isinstance(c, StartChild)] == ["fork/2/1", "fork/2/2"]
    assert state.side.working == 2
    assert all(child.active for child in state.side.children.values())
    again, commands = feed(state, RunForked(300.0, "second", "fork", state.seq))
    assert [c.child.run_id for c in commands if isinstance(c, StartChild)] == ["second/2/1", "second/2/2"]
    assert [child.run_id for child in again.side.children.values()] == ["second/2/1", "second/2/2"]


def test_a_fork_may_have_other_events_and_another_state():
    """R6.37, R6.41: of what is queued, starts again or waits; an unknown delivery changes nothing."""
    state = waits(running(4), Sleep(150.0))
    state, _ = feed(state, says(state, "work", StateWritten, changes={"n": out("Value", 1)}))
    other = {n: out("A", f"other {n}") for n in (2, 3, 5, 99)}
    state, commands = forked(state, 200.0, events=other, state={"m": out("Value", 2)})
    work = work_of(state, "work")
    assert work.waiting[2].out == out("A", "other 2")
    assert [d.out.value for d in work.active.values()] == ["other 3", 2]
    assert [d.out.value for d in work.queue] == ["other 5"]
    assert state.user == Names.of([("m", out("Value", 2))])
    assert [c.delivery.out.value for c in commands if isinstance(c, StartStep)] == ["other 3", 2]


def test_a_fork_keeps_the_state_unless_it_is_given_one():
    """R6.37."""
    state, _ = feed(running(1), says(running(1), "work", StateWritten, changes={"n": out("Value", 1)}))
    assert forked(state, 200.0)[0].user == state.user
    assert forked(state, 200.0, state={})[0].user == Names()


def test_a_fork_has_its_own_gate():
    """R5.23, R6.37: that of the other run is not lifted by anybody here; its budget neither."""
    state, _ = feed(running(), GateClosed(110.0), StepsGranted(110.0, 5))
    free, _ = forked(state, 200.0)
    assert (free.gate, free.budget) == ((), 0)
    paused, _ = forked(state, 200.0, gate=("breakpoint",))
    assert paused.gate == ("breakpoint",)


def test_starts_that_a_breakpoint_held_back_start_in_the_fork():
    """R6.38, R5.25: unless it stands at a breakpoint itself."""
    state, _ = feed(started(FLOW, at=100.0))
    outs = (out("A", 0), out("A", 1))
    state, _ = feed(state, says(state, "begin", StepFinished, outs=outs, fan=True, held=(2, 3)))
    state, _ = feed(state, BreakpointHit(100.0, 1))
    free, commands = forked(state, 200.0)
    assert [(c.delivery.id, c.delivery.start) for c in commands] == [(2, 1), (3, 1)]
    assert len(free.side.held) == 0
    paused, commands = forked(state, 200.0, gate=("breakpoint",))
    assert (commands, list(paused.side.held)) == ((), [2, 3])
    _, commands = feed(paused, GateOpened(300.0, "breakpoint"))
    assert [c.delivery.id for c in commands] == [2, 3]


def test_a_fork_of_a_suspended_or_waiting_run_goes_on():
    """R6.37: it is driven, and notices by itself that it is quiet."""
    state, _ = feed(running(), RunSuspended(110.0, "shutdown"))
    state, _ = forked(state, 200.0)
    assert (state.status, state.reason) == ("running", "")
    state = waits(running(1), Ask(out("Ask")))
    state, _ = feed(state, QuietNoticed(110.0))
    state, _ = forked(state, 200.0)
    assert is_quiet(state)


def test_promises_to_the_other_run_are_none_to_the_fork():
    """R5.38: nobody outside knows of it."""
    state = waits(running(1), Ask(out("Ask")))
    state, _ = feed(state, HoldChanged(110.0, 1, "a webhook"), HoldChanged(110.0, 2, "a task", 2))
    assert len(forked(state, 200.0)[0].side.holds) == 0


@pytest.mark.parametrize("clock", ["active", "wall"])
def test_the_time_before_a_fork_is_no_active_time(clock):
    """R6.39, R5.46: what its limit had left at its last shared tick is left."""
    state = running(terms=Terms(timeout_s=60.0, timeout_clock=clock))
    state, _ = feed(state, GateClosed(110.0), GateOpened(110.0))
    state, commands = forked(state, 1_000.0)
    assert (state.active_s, state.since, state.timers[0].due_at) == (10.0, 1_000.0, 1_050.0)
    assert [c.timer for c in commands if isinstance(c, ArmTimer)] == [state.timers[0]]


def test_a_fork_of_a_snapshot_begins_a_journal():
    """R6.34, R1.33: with the state that it holds; its seqs count from 1."""
    snapshot = waits(running(), Sleep(150.0))
    first = RunForked(200.0, "fork", "run", snapshot.seq, snapshot=snapshot)
    assert is_first(first)
    assert not is_first(RunForked(200.0, "fork", "run", 3))
    state, commands = begin(first)
    assert (state.run_id, state.seq) == ("fork", 1)
    assert [c.delivery.id for c in commands if isinstance(c, StartStep)] == [3, 4]
    assert fold([first, TimerFired(250.0, 1)]).seq == 2
    with pytest.raises(ValueError, match="begins with RunStarted, not with RunForked"):
        fold([RunForked(200.0, "fork", "run", 3)])


def test_a_snapshot_that_is_opened_as_its_own_run_is_the_same_run():
    """R6.34: no time is given back, callers' tokens and promises stay."""
    snapshot = waits(running(1), Ask(out("Ask"), due_at=150.0, token="hash"))
    snapshot, _ = feed(snapshot, HoldChanged(110.0, 1, "a webhook"))
    state, _ = begin(RunForked(1_000.0, "run", "run", snapshot.seq, snapshot=snapshot))
    assert (state.requests[1].due_at, state.requests[1].token) == (150.0, "hash")
    assert len(state.side.holds) == 1


def test_a_fork_that_is_cancelled_is_cancelled():
    """R2.41: and the other run is not."""
    state = running()
    ended, _ = feed(forked(state, 200.0)[0], CancelRequested(201.0))
    assert (ended.status, state.status) == ("cancelled", "running")
