"""The run's time limit: active time, or all of it."""

import pytest

from flownb.core.commands import ArmTimer, DisarmTimer, FinishRun, Publish, StopStep
from flownb.core.state import Timer, active_time
from flownb.core.ticks import (
    Ask,
    Await,
    CancelRequested,
    ChildChanged,
    EventArrived,
    GateClosed,
    GateOpened,
    QuietNoticed,
    RequestAnswered,
    RunChild,
    RunOpened,
    RunSuspended,
    Sleep,
    StepFailed,
    Terms,
    TimerFired,
    WaitOpened,
)
from flownb.core.values import Failure
from flownb.testing import event, feed, finish, out, says, spec, started, step
from flownb.testing.feed import key

FLOW = spec(
    step("begin", "Start"),
    step("work", "A", "Stop", num_workers=1),
    outside="A",
    types=(event("Ask", answer="Reply"),),
    stalled="wait",
)
LIMIT = Terms(timeout_s=60.0)
WALL = Terms(timeout_s=60.0, timeout_clock="wall")


def running(terms=LIMIT, *, at=100.0):
    return feed(started(FLOW, at=at, terms=terms))


def limit(due_at):
    return ArmTimer(Timer(0, due_at, "timeout"))


def waits(state, wait, at, mark=1):
    return feed(state, says(state, "begin", WaitOpened, mark=mark, wait=wait, at=at))


def test_without_a_limit_there_is_no_clock():
    """R5.44: off by default."""
    state, commands = feed(started(FLOW, at=100.0))
    assert not any(isinstance(c, ArmTimer) for c in commands)
    state, _ = feed(state, GateClosed(130.0))
    assert (len(state.timers), active_time(state)) == (0, 0.0)


@pytest.mark.parametrize("at", [0.0, 100.0])
def test_a_limit_is_a_timer_in_the_state(at):
    """R1.7, R1.8: armed with the start, at an absolute time, once; also at the very beginning of time."""
    state, commands = running(at=at)
    assert commands[-1] == limit(at + 60.0)
    state, commands = feed(state, EventArrived(at, out("A")))
    assert not any(isinstance(c, ArmTimer) for c in commands)
    assert state.timers[0].due_at == at + 60.0


def test_the_clock_stands_while_the_run_is_paused():
    """R5.45, R5.46: and goes on from there."""
    state, _ = running()
    state, commands = feed(state, GateClosed(130.0))
    assert commands == (DisarmTimer(0),)
    assert (active_time(state), active_time(state, 999.0)) == (30.0, 30.0)
    state, commands = feed(state, GateOpened(500.0))
    assert commands == (limit(530.0),)
    assert (active_time(state, 510.0), active_time(state, 400.0)) == (40.0, 30.0)


@pytest.mark.parametrize(
    ("wait", "counts"),
    [
        (Sleep(900.0), True),
        (Ask(out("Ask"), due_at=900.0), False),
        (Await(key("Row"), due_at=900.0), False),
        (RunChild("test:other", out("Start")), True),
    ],
)
def test_waiting_for_people_or_the_outside_does_not_count(wait, counts):
    """R5.45, R5.46: a sleep and an active child do."""
    state, commands = waits(running()[0], wait, 130.0)
    assert (DisarmTimer(0) not in commands) is counts
    assert active_time(state, 200.0) == (100.0 if counts else 30.0)


def test_an_answer_starts_the_clock_again():
    """R5.45: with what is left."""
    state, _ = waits(running()[0], Ask(out("Ask")), 130.0)
    state, _ = feed(state, QuietNoticed(131.0))
    assert state.status == "waiting"
    state, commands = feed(state, RequestAnswered(1_000.0, 1, out("Reply")))
    assert limit(1_030.0) in commands
    state, commands = finish(state, "begin", at=1_010.0)
    assert commands == (DisarmTimer(0),)
    assert active_time(state) == 40.0


def test_a_child_that_waits_for_the_outside_does_not_count():
    """R5.45, R6.22: until it goes on."""
    state, _ = waits(running()[0], RunChild("test:other", out("Start")), 130.0)
    state, commands = feed(state, ChildChanged(140.0, 1, False))
    assert (commands, active_time(state, 200.0)) == ((DisarmTimer(0),), 40.0)
    _, commands = feed(state, ChildChanged(500.0, 1, True))
    assert commands == (limit(520.0),)


def test_a_next_attempt_counts_and_so_does_the_queue():
    """R5.45: waiting to retry is active."""
    state, _ = running()
    tick = says(state, "begin", StepFailed, failure=Failure("E", "no"), retry_at=900.0, at=130.0)
    state, commands = feed(state, tick)
    assert DisarmTimer(0) not in commands
    assert active_time(state, 140.0) == 40.0


def test_a_crash_counts_up_to_the_last_tick():
    """R5.46: what was down does not count; the timer is moved."""
    state, _ = running()
    state, _ = feed(state, EventArrived(120.0, out("A")))
    state, commands = feed(state, RunOpened(1_000.0, "another"))
    assert commands[0] == DisarmTimer(0)
    assert commands[-1] == limit(1_040.0)
    assert active_time(state) == 20.0


def test_a_suspended_run_does_not_count():
    """R5.46: until it is opened."""
    state, _ = running()
    state, commands = feed(state, RunSuspended(130.0))
    assert DisarmTimer(0) in commands
    state, commands = feed(state, RunOpened(1_000.0, "another"))
    assert commands[-1] == limit(1_030.0)
    assert active_time(state) == 30.0


def test_the_wall_clock_counts_all():
    """R5.47: pauses, people, a suspended run, a crash."""
    state, _ = running(WALL)
    state, _ = waits(state, Ask(out("Ask")), 110.0)
    state, _ = feed(state, GateClosed(120.0), RunSuspended(130.0))
    assert state.timers[0].due_at == 160.0
    state, commands = feed(state, RunOpened(140.0, "another"), GateOpened(141.0))
    assert (commands, state.timers[0].due_at, active_time(state, 150.0)) == ((), 160.0, 50.0)
    ended, _ = feed(state, TimerFired(160.0, 0))
    assert ended.status == "timed_out"


def test_a_run_that_took_too_long_says_what_was_going_on():
    """R5.48, R5.57, R2.41: limit, active steps, open questions; its clock stands."""
    flow = spec(
        step("begin", "Start", "Ask", fans="A"),
        step("work", "A", num_workers=1),
        types=(event("Ask", answer="Reply"),),
    )
    state, _ = finish(feed(started(flow, at=100.0, terms=LIMIT))[0], "begin", out("A"), out("A"), out("Ask"), fan=True)
    state, _ = feed(state, EventArrived(110.0, out("AskMore")))
    state, _ = finish(state, "work", at=120.0)
    state, commands = feed(state, TimerFired(160.0, 0))

    message = (
        "Run 'run' of workflow 'flow' took longer than 60.0 s. Active: work. "
        "Open questions: begin asks test:Ask; the start asks test:AskMore. "
        "Give more time with timeout=, or look at the active steps."
    )
    assert state.failure == Failure("flownb.errors:WorkflowTimeoutError", message)
    info = {
        "timeout": 60.0,
        "elapsed": 60.0,
        "active": ("work",),
        "requests": ("begin asks test:Ask", "the start asks test:AskMore"),
    }
    assert commands[0] == StopStep(1, 3, 1)
    assert commands[-2:] == (Publish("timed_out", info=info), FinishRun())
    assert (state.status, state.active_s, state.since) == ("timed_out", 60.0, None)


def test_a_run_that_took_too_long_while_nothing_ran_says_so():
    """R5.48: a sleep counts, and is no active step."""
    state, _ = waits(running()[0], Sleep(900.0), 110.0)
    state, _ = feed(state, TimerFired(160.0, 0))
    assert "Active: no step. Open questions: none." in state.failure.message


def test_an_end_stops_the_clock():
    """R2.41: the time up to it is what the run took."""
    state, commands = feed(running()[0], CancelRequested(130.0))
    assert DisarmTimer(0) in commands
    assert active_time(state, 999.0) == 30.0


def test_a_limit_that_is_used_up_fires_at_once():
    """R5.45: never in the past."""
    state, _ = running()
    state, _ = feed(state, GateClosed(200.0))
    _, commands = feed(state, GateOpened(300.0))
    assert commands == (limit(300.0),)


def test_the_clock_of_a_run_that_begins_paused_does_not_run():
    """R5.46."""
    state, commands = feed(started(FLOW, at=100.0, terms=LIMIT, gate=("person",)))
    assert not any(isinstance(c, ArmTimer) for c in commands)
    _, commands = feed(state, GateOpened(150.0))
    assert commands == (limit(210.0),)
