"""Cancel with `@on_cancel` steps, and suspend."""

import pytest

from flownb.core.commands import ArmTimer, DisarmTimer, FinishRun, Publish, StartStep, StopChild, StopStep, Suspend
from flownb.core.outstanding import outstanding
from flownb.core.state import Abandoned, Delivery, Timer
from flownb.core.ticks import (
    Ask,
    Await,
    CancelRequested,
    ChildFinished,
    DefinitionAdopted,
    EventArrived,
    EventsSent,
    GateClosed,
    QuietNoticed,
    RequestAnswered,
    RunChild,
    RunOpened,
    RunSuspended,
    Sleep,
    StepFailed,
    StepFinished,
    Terms,
    TimerFired,
    WaitOpened,
)
from flownb.core.values import Failure
from flownb.testing import event, feed, finish, out, says, spec, started, step
from flownb.testing.feed import key, work_of

FLOW = spec(
    step("begin", "Start", fans="A"),
    step("work", "A", "B", num_workers=2),
    step("sum", gathers="B", returns="Stop"),
    step("tidy", "Cancelled", on_cancel=True),
    step("tell", "Cancelled", on_cancel=True, num_workers=1),
    types=(event("Ask", answer="Reply"),),
)
NO = Failure("E", "no")
CANCEL = CancelRequested(20.0, "enough", "ann", out("Cancelled", "why"))


def running(n=3, **fields):
    return finish(feed(started(FLOW, **fields))[0], "begin", *(out("A", i) for i in range(n)), fan=True)[0]


def cancelling(**fields):
    return feed(running(**fields), CANCEL)


def test_a_cancel_runs_the_steps_that_tidy_up_and_only_them():
    """R5.49, R5.51: all else is stopped in that tick; they have their own grace, as a timer in the state."""
    state, commands = cancelling()

    handlers = [
        Delivery(n + 5, n + 3, out("Cancelled", "why"), 3, 20.0, start=1, worker=0, chain=1, rank=n + 5) for n in (0, 1)
    ]
    assert commands == (
        StopStep(1, 2, 1),
        StopStep(1, 3, 1),
        ArmTimer(Timer(1, 30.0, "grace")),
        *map(StartStep, handlers),
    )
    assert (state.status, state.reason, state.by) == ("cancelling", "enough", "ann")
    assert state.abandoned == (Abandoned(1, 2, "running"), Abandoned(1, 3, "running"), Abandoned(1, 4, "queued"))
    assert (len(state.joins), state.busy) == (0, 2)


def test_a_cancel_for_which_there_is_no_event_ends_at_once():
    """R5.50: as without such steps."""
    state, commands = feed(running(), CancelRequested(20.0, "enough", "ann"))
    assert (state.status, commands[-1]) == ("cancelled", FinishRun())


def test_when_they_are_done_the_run_is_over():
    """R5.51: in the tick of the last one; the grace is taken away."""
    state, _ = cancelling()
    state, commands = finish(state, "tidy")
    assert (commands, state.status) == ((), "cancelling")
    state, commands = finish(state, "tell")
    assert commands == (
        DisarmTimer(1),
        Publish("cancelled", info={"reason": "enough", "by": "ann"}),
        FinishRun(),
    )
    assert state.status == "cancelled"
    assert [a.delivery for a in state.abandoned] == [2, 3, 4]


def test_nothing_that_they_send_or_return_is_routed():
    """R5.51: not even a stop."""
    state, _ = cancelling()
    state, commands = feed(state, says(state, "tidy", EventsSent, outs=(out("A"), out("Stop"))))
    assert (commands, state.ignored, state.status) == ((), 1, "cancelling")
    state, commands = finish(state, "tidy", out("A"), out("Stop"), fan=True)
    assert (commands, state.status) == ((), "cancelling")
    state, _ = feed(state, EventArrived(21.0, out("Stop")), EventArrived(21.0, out("A"), key="k"))
    assert (state.ignored, state.status, state.result) == (3, "cancelling", None)


def test_their_grace_ends_them():
    """R5.51, R5.52: what still runs is stopped and listed too."""
    state, _ = cancelling(terms=Terms(grace_s=3.0))
    assert state.timers[1].due_at == 23.0
    state, _ = finish(state, "tidy")
    state, commands = feed(state, TimerFired(23.0, 1))
    assert commands[0] == StopStep(4, 6, 1)
    assert commands[-1] == FinishRun()
    assert state.status == "cancelled"
    assert state.abandoned[-1] == Abandoned(4, 6, "running")


@pytest.mark.parametrize("tick", [RunOpened(21.0, "another"), RunSuspended(21.0, "shutdown")])
def test_a_driver_that_stops_in_between_ends_the_run(tick):
    """R5.51: a restart, or a suspend, for there is nothing to come back to."""
    state, commands = feed(cancelling()[0], tick)
    assert (state.status, state.reason, commands[-1]) == ("cancelled", "enough", FinishRun())
    assert [c for c in commands if isinstance(c, StopStep)] == [StopStep(3, 5, 1), StopStep(4, 6, 1)]


def test_a_second_cancel_changes_nothing():
    """R5.54: the first reason stands."""
    state, commands = feed(cancelling()[0], CancelRequested(21.0, "again", "bob"))
    assert (commands, state.ignored, state.reason) == ((), 1, "enough")


def test_a_step_that_tidies_up_may_wait():
    """R5.51: sleep, ask, wait and run a child within its grace; the run is not over before."""
    state, _ = cancelling()
    state, _ = finish(state, "tell")
    waits = (Sleep(22.0), Ask(out("Ask")), Await(key("Row")), RunChild("test:other", out("Start")))
    for mark, wait in enumerate(waits, 1):
        state, _ = feed(state, says(state, "tidy", WaitOpened, mark=mark, wait=wait))
    assert (state.status, state.busy) == ("cancelling", 0)
    quiet, _ = feed(state, QuietNoticed(21.0))
    assert (quiet.status, quiet.ignored) == ("cancelling", 1)
    state, commands = feed(state, RequestAnswered(21.0, 1, out("Reply")))
    assert commands[-1].wakes[0].outcome.out == out("Reply")
    state, _ = feed(state, TimerFired(22.0, 2), ChildFinished(22.0, 1, "completed", out("Stop")))
    assert state.status == "cancelling"
    state, _ = finish(state, "tidy")
    assert state.status == "cancelled"


def test_a_step_that_tidies_up_may_fail():
    """R5.51: it fails nothing else; it may be tried again while there is time."""
    state, _ = cancelling()
    state, _ = feed(state, says(state, "tidy", StepFailed, failure=NO, failed=out("Failed")))
    assert (state.status, work_of(state, "tidy").failed) == ("cancelling", 1)
    state, _ = feed(state, says(state, "tell", StepFailed, failure=NO, retry_at=25.0))
    assert state.status == "cancelling"
    state, commands = feed(state, TimerFired(25.0, 2))
    assert [(c.delivery.attempt, c.delivery.start) for c in commands] == [(2, 2)]
    state, _ = finish(state, "tell")
    assert (state.status, state.failure) == ("cancelled", None)


def test_what_the_cancelled_steps_still_say_is_late():
    """R5.52, R3.19."""
    state, commands = feed(cancelling()[0], StepFinished(21.0, "work", 2, 1, (out("Stop"),)))
    assert (commands, state.ignored, state.status) == ((), 1, "cancelling")


@pytest.mark.parametrize("clock", ["active", "wall"])
def test_the_time_limit_does_not_beat_a_cancel(clock):
    """R5.51, R5.55: its own grace counts, and its end is a cancel."""
    state, commands = cancelling(terms=Terms(timeout_s=100.0, timeout_clock=clock))
    assert DisarmTimer(0) in commands
    assert [timer.kind for timer in state.timers.values()] == ["grace"]


def test_a_cancel_stops_children_and_closes_a_paused_run():
    """R5.20, R5.49: the gate is no matter any more."""
    state = running()
    state, _ = feed(state, says(state, "work", WaitOpened, mark=1, wait=RunChild("test:other", out("Start"))))
    state, commands = feed(state, GateClosed(5.0), CANCEL)
    assert StopChild(1, "cancelling") in commands
    assert state.gate == ()


def test_newer_definitions_route_nothing_while_it_is_cancelled():
    """R5.51, R2.23: what the mailbox holds stays there."""
    state, _ = feed(running(), EventArrived(1.0, out("Later")), CANCEL)
    newer = spec(*FLOW.steps, step("hears", "Later"), types=(event("Ask", answer="Reply"),))
    state, commands = feed(state, DefinitionAdopted(21.0, newer))
    assert (commands, list(state.mailbox)) == ((), [out("Later")])


# Suspend


def test_a_suspended_run_keeps_all_and_owes_all():
    """R5.53: nobody drives it until it is opened."""
    state = running()
    state, _ = feed(state, says(state, "work", WaitOpened, mark=1, wait=Sleep(50.0)))
    after, commands = feed(state, RunSuspended(5.0, "shutdown", "ann"))
    assert commands == (Suspend(),)
    assert (after.status, after.reason, after.by) == ("suspended", "shutdown", "ann")
    assert (after.steps, outstanding(after)) == (state.steps, outstanding(state))


def test_an_opened_run_goes_on():
    """R5.53, R3.60: what was torn down runs again; why it was suspended is of no matter any more."""
    state, _ = feed(running(), RunSuspended(5.0, "shutdown", "ann"))
    state, commands = feed(state, RunOpened(9.0, "another"))
    assert (state.status, state.reason, state.by) == ("running", "", "")
    assert [(c.delivery.id, c.delivery.start) for c in commands] == [(2, 2), (3, 2)]


def test_suspending_twice_is_once():
    """R5.54: the later reason stands; a suspended run is not quiet and can be cancelled."""
    state, _ = feed(running(), RunSuspended(5.0, "one"))
    state, commands = feed(state, RunSuspended(6.0, "two"))
    assert (commands, state.status, state.reason) == ((Suspend(),), "suspended", "two")
    ended, _ = feed(state, CancelRequested(7.0, "enough"))
    assert (ended.status, ended.reason) == ("cancelled", "enough")


def test_a_suspended_run_that_waits_stays_suspended():
    """R5.53: also when it is noticed to be quiet."""
    flow = spec(step("begin", "Start"), stalled="wait")
    state, _ = finish(feed(started(flow))[0], "begin")
    state, _ = feed(state, RunSuspended(5.0))
    after, _ = feed(state, QuietNoticed(6.0))
    assert (after.status, after.ignored) == ("suspended", 1)
