"""A run's own life: its start, a lost driver, the gate's reasons, quiet, and what comes from outside."""

import pytest

from flownb.core.commands import FinishRun, Publish, StartStep
from flownb.core.life import MAILBOX_LIMIT, ends_in, lives
from flownb.core.outstanding import is_quiet
from flownb.core.state import Delivery, is_open, shown_status, user_value
from flownb.core.ticks import (
    CancelRequested,
    ChildFinished,
    EventArrived,
    GateClosed,
    GateOpened,
    QuietNoticed,
    RunChild,
    RunOpened,
    RunStarted,
    Sleep,
    StepFailed,
    StepFinished,
    StepsGranted,
    TimerFired,
    WaitOpened,
)
from flownb.core.values import Failure
from flownb.testing import event, feed, finish, out, says, spec, started, step

FLOW = spec(step("begin", "Start", "A"), step("work", "A", "Stop", num_workers=2))


def test_a_run_starts_with_its_start_event():
    """R1.33, R2.34: gate and user's state as the first tick says."""
    first = RunStarted(5.0, "r1", FLOW, out("Start", 1), ("person",), {"n": out("Value", 3)})
    state, commands = feed(first)

    assert commands == (StartStep(Delivery(1, 0, out("Start", 1), 1, 5.0, start=1, worker=0, chain=1, rank=1)),)
    assert (state.run_id, state.started_at, state.gate) == ("r1", 5.0, ("person",))
    assert user_value(state, "n") == 3
    assert lives(state) == [state.steps[0].active[1]]


def test_a_lost_driver_s_work_starts_again():
    """R1.20, R3.60, R3.17: the same attempts, in the old order, each with a higher start number."""
    flow = spec(step("begin", "Start", fans="A"), step("work", "A", num_workers=2))
    state, _ = finish(feed(started(flow))[0], "begin", *(out("A", n) for n in range(3)), fan=True)
    state, commands = feed(state, RunOpened(9.0, "another", 2))

    assert commands == tuple(
        StartStep(Delivery(n + 2, 1, out("A", n), 2, 9.0, start=2, worker=n, chain=2, rank=n + 2)) for n in range(2)
    )
    assert [d.id for d in state.steps[1].queue] == [4]


def test_woken_waits_go_before_lost_work():
    """R3.63: then what the lost driver was running, then the queue."""
    flow = spec(step("begin", "Start", fans="A"), step("work", "A", num_workers=1))
    state, _ = finish(feed(started(flow))[0], "begin", *(out("A", n) for n in range(3)), fan=True)
    state, _ = feed(state, says(state, "work", WaitOpened, mark=1, wait=Sleep(5.0)))
    state, _ = feed(state, TimerFired(5.0, 1))
    state, commands = feed(state, RunOpened(6.0, "another"))

    assert [(c.delivery.id, c.delivery.start) for c in commands] == [(2, 2)]
    state, commands = finish(state, "work")
    assert [(c.delivery.id, c.delivery.start) for c in commands] == [(3, 2)]
    state, commands = finish(state, "work")
    assert [(c.delivery.id, c.delivery.start) for c in commands] == [(4, 1)]


def test_taking_over_twice_starts_twice():
    """R1.20: each take-over fences the one before."""
    state, _ = feed(started(FLOW), RunOpened(1.0, "b"), RunOpened(2.0, "c"))
    assert state.steps[0].active[1].start == 3


def test_the_gate_has_a_set_of_reasons():
    """R5.23: each is lifted only by its own tick; closing twice for one reason is once."""
    state, _ = feed(started(FLOW), GateClosed(0.0), GateClosed(0.0, "breakpoint"), GateClosed(0.0))
    assert state.gate == ("person", "breakpoint")
    state, _ = feed(state, GateOpened(0.0, "budget"))
    assert state.gate == ("person", "breakpoint")
    state, _ = feed(state, GateOpened(0.0, "person"))
    assert (state.gate, is_open(state), shown_status(state)) == (("breakpoint",), False, "paused")
    state, _ = feed(state, GateOpened(0.0, "breakpoint"))
    assert (state.gate, is_open(state), shown_status(state)) == ((), True, "running")


def test_granted_steps_pass_a_closed_gate():
    """R5.24: so many work ticks; control ticks cost nothing; closing again takes them back."""
    state, _ = feed(started(FLOW), GateClosed(0.0), StepsGranted(0.0, 2))
    assert is_open(state)
    state, _ = finish(state, "begin", out("A"))
    state, _ = feed(state, GateOpened(0.0, "breakpoint"))
    assert state.budget == 1
    state, _ = feed(state, TimerFired(0.0, 99))
    assert (state.budget, is_open(state)) == (0, False)
    state, _ = feed(state, StepsGranted(0.0, 2), GateClosed(0.0, "budget"))
    assert (state.budget, is_open(state)) == (0, False)


def test_a_paused_run_can_be_cancelled():
    """R5.20."""
    state, _ = feed(started(FLOW), GateClosed(0.0), CancelRequested(0.0, "enough"))
    assert (state.status, shown_status(state)) == ("cancelled", "cancelled")


# From outside


def test_an_outside_event_goes_to_the_steps_that_take_it():
    """R1.32, R2.11."""
    state, commands = feed(started(FLOW), EventArrived(1.0, out("A", 1)))
    assert commands == (StartStep(Delivery(2, 1, out("A", 1), 2, 1.0, start=1, worker=0, chain=1, rank=2)),)
    assert len(state.mailbox) == 0


def test_an_outside_event_may_be_for_one_step():
    """R2.13."""
    flow = spec(step("begin", "Start"), step("x", "A"), step("y", "A"))
    _, commands = feed(started(flow), EventArrived(1.0, out("A"), "y"))
    assert [c.delivery.step for c in commands] == [2]


def test_an_outside_stop_ends_the_run():
    """R2.39: though no step takes it."""
    state, commands = feed(started(FLOW), EventArrived(1.0, out("Stop", 5)))
    assert commands[1:] == (Publish("stop", out("Stop", 5), -1), FinishRun())
    assert state.result == out("Stop", 5)


def test_the_mailbox_keeps_order_and_has_a_limit():
    """R2.30, R2.31: what comes above it is counted, not kept."""
    state, _ = feed(started(FLOW))
    for n in range(MAILBOX_LIMIT + 1):
        state, commands = feed(state, EventArrived(1.0, out("Later", n)))
        assert commands == ()

    assert [kept.value for kept in state.mailbox] == list(range(MAILBOX_LIMIT))
    assert state.ignored == 1


# Quiet


def quiet(flow, *outs, **fields):
    state, _ = finish(feed(started(flow))[0], "begin", *outs)
    assert is_quiet(state)
    return feed(state, QuietNoticed(9.0))


def test_a_quiet_run_with_an_open_question_waits_for_it():
    """R5.34, R5.40: and says for what, once."""
    flow = spec(step("begin", "Start", "Ask"), types=(event("Ask", answer="Reply"),))
    state, commands = quiet(flow, out("Ask", "?"))

    assert commands == (Publish("idle", info={"waits_for": ("begin asks Ask (request 1)",)}),)
    assert (state.status, shown_status(state)) == ("waiting", "waiting")
    again, commands = feed(state, QuietNoticed(9.0))
    assert commands == ()
    assert again.ignored == 1


def test_a_quiet_run_that_takes_outside_events_waits_for_them():
    """R5.34, R5.35."""
    flow = spec(step("begin", "Start"), step("hears", "Order"), outside="Order")
    _, commands = quiet(flow)
    assert commands == (Publish("idle", info={"waits_for": ("hears takes Order from outside",)}),)


def test_any_other_quiet_run_is_stalled():
    """R5.36: it fails, in words that say what was last and what to do."""
    state, commands = quiet(FLOW, out("Lost", 1))

    assert state.status == "failed"
    assert state.failure.type == "flownb.errors:WorkflowStalled"
    assert state.failure.message == (
        "Run 'run' of workflow 'flow' cannot go on: no step took the last Lost, which step 'begin' sent though its "
        "hint says A; never reached: work. "
        "Let a step return a StopEvent on this way, or name the events that come from outside in accepts=[...]."
    )
    assert commands[-1] == FinishRun()


def test_a_stalled_run_may_be_kept_open():
    """R5.37: waiting, for nobody."""
    flow = spec(step("begin", "Start"), stalled="wait")
    state, commands = quiet(flow)
    assert commands == (Publish("idle", info={"waits_for": ()}),)
    assert state.status == "waiting"
    woken, _ = feed(state, EventArrived(10.0, out("Start", 2)))
    assert woken.status == "running"


@pytest.mark.parametrize("what", ["running", "sleeping"])
def test_a_run_that_moves_by_itself_is_not_quiet(what):
    """R5.33: a notice that came too late changes nothing."""
    state, _ = feed(started(FLOW))
    if what == "sleeping":
        state, _ = feed(state, says(state, "begin", WaitOpened, mark=1, wait=Sleep(99.0)))
    assert not is_quiet(state)
    after, commands = feed(state, QuietNoticed(1.0))

    assert commands == ()
    assert (after.status, after.ignored) == ("running", 1)


def test_a_paused_run_is_not_quiet():
    """R5.33: the gate must be open."""
    state, _ = finish(feed(started(FLOW))[0], "begin")
    assert is_quiet(state)
    assert not is_quiet(feed(state, GateClosed(1.0))[0])


# What is on its way


def test_the_ends_that_are_on_their_way_are_found():
    """R6.31, R3.18: of live starts and open children; what is late, or goes on, is none."""
    state, _ = finish(feed(started(FLOW))[0], "begin", out("A"))
    state, _ = feed(state, EventArrived(1.0, out("A")))
    state, _ = feed(state, says(state, "work", WaitOpened, n=1, mark=1, wait=RunChild("test:other", out("Start"))))
    ticks = [
        StepFinished(2.0, "work", 2, 1),
        StepFailed(2.0, "work", 3, 1, Failure("E", "no")),
        StepFinished(2.0, "work", 2, 7),
        StepFinished(2.0, "work", 99, 1),
        StepFinished(2.0, "nowhere", 2, 1),
        TimerFired(2.0, 1),
        ChildFinished(2.0, 1, "completed"),
        ChildFinished(2.0, 99, "completed"),
    ]
    assert ends_in(state, ticks) == ((2, 3), (1,))
    lost, _ = feed(state, RunOpened(3.0, "another"))
    assert ends_in(lost, ticks) == ((), (1,))


def test_what_is_settled_is_not_started_again():
    """R6.31, R3.60: its end comes next; running or waiting, it keeps its worker, its place and its start number."""
    flow = spec(step("begin", "Start", fans="A"), step("work", "A", num_workers=2))
    state, _ = finish(feed(started(flow))[0], "begin", *(out("A", n) for n in range(5)), fan=True)
    state, _ = feed(state, says(state, "work", WaitOpened, mark=1, wait=Sleep(5.0)))  # 2; 3 and 4 run
    state, _ = feed(state, TimerFired(5.0, 1))
    state, commands = feed(state, RunOpened(6.0, "another", settled=(2, 4)))
    assert [(c.delivery.id, c.delivery.start, c.delivery.worker) for c in commands if isinstance(c, StartStep)] == []
    assert [(d.id, d.worker, d.start) for d in state.steps[1].active.values()] == [(2, 1, 1), (4, 0, 1)]
    state, commands = finish(state, "work", n=2)
    assert [(c.delivery.id, c.delivery.start) for c in commands] == [(3, 2)]
