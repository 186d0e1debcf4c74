"""Breakpoints that hold starts back, single steps, promises of the outside, and quiet with all of them."""

import pytest

from flownb.core.commands import Publish, StartStep, WakeStep
from flownb.core.outstanding import is_quiet, is_still
from flownb.core.state import Hold
from flownb.core.ticks import (
    Ask,
    BreakpointHit,
    CancelRequested,
    EventArrived,
    GateClosed,
    GateOpened,
    HoldChanged,
    QuietNoticed,
    RequestAnswered,
    RunOpened,
    Sleep,
    StepFailed,
    StepFinished,
    StepsGranted,
    TimerFired,
    WaitOpened,
)
from flownb.core.values import Failure
from flownb.testing import event, feed, finish, out, says, spec, started, step
from flownb.testing.feed import started_of, work_of

FLOW = spec(
    step("begin", "Start", fans="A"),
    step("work", "A", "B", num_workers=2),
    step("use", "B", "Stop"),
    types=(event("Ask", answer="Reply"),),
    stalled="wait",
)
NO = Failure("E", "no")


def fanned(n=3, *, held=(), flow=FLOW):
    state, _ = feed(started(flow))
    outs = tuple(out("A", i) for i in range(n))
    return feed(state, says(state, "begin", StepFinished, outs=outs, fan=True, held=held))


def starts(commands):
    return [(c.delivery.id, c.delivery.start) for c in commands if isinstance(c, StartStep)]


# Breakpoints before a start


def test_a_breakpoint_holds_starts_back():
    """R5.25: the delivery stays, marked; what is not meant starts, also past it."""
    state, commands = fanned(4, held=(2, 5))
    assert starts(commands) == [(3, 1), (4, 1)]
    work = work_of(state, "work")
    assert dict(state.side.held.items()) == {2: 1}
    assert (work.waiting[2].held, work.waiting[2].start, [d.id for d in work.queue]) == (True, 0, [5])
    assert state.busy == 3
    assert not is_still(state)


def test_a_run_with_a_held_start_is_not_quiet():
    """R5.33: nor with the gate that the breakpoint closed."""
    state, _ = fanned(1, held=(2,))
    assert state.busy == 0
    assert not is_quiet(state)
    after, _ = feed(state, QuietNoticed(1.0))
    assert (after.status, after.ignored) == ("running", 1)


def test_a_held_start_starts_when_the_breakpoint_is_lifted():
    """R5.25, R5.23: by its own tick alone, ahead of the queue."""
    state, _ = fanned(4, held=(2,))
    state, _ = feed(state, BreakpointHit(1.0, 1, "before work"), GateClosed(1.0, "person"))
    assert state.gate == ("breakpoint", "person")
    state, commands = feed(state, GateOpened(2.0, "person"))
    assert (commands, len(state.side.held)) == ((), 1)
    state, commands = feed(state, GateOpened(2.0, "breakpoint"))
    assert (commands, len(state.side.held), state.busy) == ((), 0, 4)  # both workers are busy
    state, commands = finish(state, "work", n=1)
    assert starts(commands) == [(2, 1)]
    assert not work_of(state, "work").active[2].held
    _, commands = finish(state, "work", n=1)
    assert starts(commands) == [(5, 1)]


def test_a_granted_step_lets_held_starts_go():
    """R5.24: without opening the gate."""
    state, _ = fanned(2, held=(2, 3))
    state, _ = feed(state, BreakpointHit(1.0, 1))
    state, commands = feed(state, StepsGranted(2.0, 1))
    assert starts(commands) == [(2, 1), (3, 1)]
    assert (state.gate, state.budget) == (("breakpoint",), 1)


def test_a_held_start_may_be_held_again():
    """R5.25: another breakpoint stands before the same start."""
    state, _ = fanned(1, held=(2,))
    state, commands = feed(state, GateOpened(2.0, "breakpoint", held=(2,)))
    assert commands == ()
    assert list(state.side.held) == [2]
    state, commands = feed(state, GateOpened(3.0, "breakpoint"))
    assert starts(commands) == [(2, 1)]


def test_a_breakpoint_holds_next_attempts_and_lost_work_too():
    """R5.25, R3.29: whatever starts code; it keeps its place ahead of the queue."""
    state, _ = fanned(4)
    state, _ = feed(state, says(state, "work", StepFailed, failure=NO, retry_at=5.0))  # 2; 4 starts
    state, _ = feed(state, TimerFired(5.0, 1))
    state, commands = feed(state, StepFinished(6.0, "work", 3, 1, held=(2,)))
    assert starts(commands) == [(5, 1)]
    assert work_of(state, "work").waiting[2].held
    state, commands = feed(state, RunOpened(7.0, "another", held=(4,)))
    assert starts(commands) == [(5, 2)]
    assert list(state.side.held) == [2, 4]
    state, commands = feed(state, GateOpened(8.0, "breakpoint"))
    assert starts(commands) == [(2, 2)]
    _, commands = finish(state, "work", n=2)
    assert starts(commands) == [(4, 2)]


def test_a_breakpoint_does_not_hold_code_that_goes_on():
    """R5.25: a woken delivery is no start."""
    state, _ = fanned(1)
    state, _ = feed(state, says(state, "work", WaitOpened, mark=1, wait=Sleep(5.0)))
    state, commands = feed(state, TimerFired(5.0, 1, held=(2,)))
    assert [type(c) for c in commands] == [WakeStep]
    assert len(state.side.held) == 0


def test_a_wait_of_a_held_delivery_ends_without_starting_it():
    """R5.25, R4.29: lost while it waited, it would start again when the answer comes."""
    state, _ = fanned(1)
    state, _ = feed(state, says(state, "work", WaitOpened, mark=1, wait=Ask(out("Ask"))))
    state, _ = feed(state, says(state, "work", WaitOpened, mark=2, wait=Ask(out("Ask"))))
    state, _ = feed(state, RunOpened(1.0, "another"))
    state, commands = feed(state, RequestAnswered(2.0, 1, out("Reply"), held=(2,)))
    assert starts(commands) == []
    state, commands = feed(state, RequestAnswered(3.0, 2, out("Reply")))
    assert starts(commands) == []
    assert list(state.side.held) == [2]
    _, commands = feed(state, GateOpened(4.0, "breakpoint"))
    assert starts(commands) == [(2, 2)]


def test_held_starts_end_with_the_run():
    """R2.41, R2.42."""
    state, _ = fanned(1, held=(2,))
    state, _ = feed(state, CancelRequested(1.0))
    assert len(state.side.held) == 0
    assert [(a.delivery, a.where) for a in state.abandoned] == [(2, "waiting")]


def test_a_breakpoint_of_a_slow_step_takes_no_moment_of_it():
    """R3.4, R5.25: the next one starts in its place."""
    flow = spec(step("begin", "Start", fans="A"), step("work", "A", rate=0.1))
    state, commands = fanned(3, held=(2,), flow=flow)
    assert starts(commands) == [(3, 1)]
    assert work_of(state, "work").ready_at == 10.0
    assert [d.id for d in work_of(state, "work").queue] == [4]


# Promises of the outside


def test_a_hold_keeps_a_run_from_being_quiet():
    """R5.38: until it is released; a waiting run notices its quiet anew (R5.40)."""
    state, _ = finish(feed(started(FLOW))[0], "begin")
    state, _ = feed(state, HoldChanged(1.0, 1, "a webhook"))
    assert dict(state.side.holds.items()) == {1: Hold("a webhook")}
    assert not is_quiet(state)
    early, _ = feed(state, QuietNoticed(2.0))
    assert early.ignored == 1
    state, _ = feed(state, HoldChanged(3.0, 1))
    assert is_quiet(state)


def test_a_hold_on_a_waiting_run_makes_it_run():
    """R5.38, R5.40: idle is published again when it is released."""
    state, _ = finish(feed(started(FLOW))[0], "begin")
    state, commands = feed(state, QuietNoticed(1.0))
    assert commands == (Publish("idle", info={"waits_for": ()}),)
    state, _ = feed(state, HoldChanged(2.0, 1, "a webhook"))
    assert state.status == "running"
    state, commands = feed(state, HoldChanged(3.0, 1), QuietNoticed(4.0))
    assert commands == (Publish("idle", info={"waits_for": ()}),)


def test_releasing_what_nobody_holds_is_ignored():
    """R1.4: a waiting run stays as it is."""
    state, _ = finish(feed(started(FLOW))[0], "begin")
    state, _ = feed(state, QuietNoticed(1.0))
    state, _ = feed(state, HoldChanged(2.0, 7))
    assert (state.ignored, state.status) == (1, "waiting")


def test_a_hold_of_a_step_ends_with_its_delivery():
    """R5.38: however it ends; those of others stay."""
    state, _ = fanned(2)
    state, _ = feed(state, HoldChanged(1.0, 1, "x", 2), HoldChanged(1.0, 2, "y", 3), HoldChanged(1.0, 3, "z"))
    state, _ = finish(state, "work")
    assert list(state.side.holds) == [2, 3]
    state, _ = finish(state, "work")
    assert list(state.side.holds) == [3]


@pytest.mark.parametrize("delivery", [2, 99])
def test_a_hold_of_a_delivery_that_is_gone_is_late(delivery):
    """R3.18: nobody would end it, and the run could never be quiet."""
    state, _ = finish(fanned(1)[0], "work")
    after, _ = feed(state, HoldChanged(1.0, 1, "late", delivery))
    assert (after.ignored, len(after.side.holds)) == (1, 0)


def test_a_hold_of_lost_code_is_late():
    """R3.18: the driver that ran it is gone."""
    state, _ = fanned(1)
    state, _ = feed(state, says(state, "work", WaitOpened, mark=1, wait=Sleep(50.0)), RunOpened(1.0, "another"))
    after, _ = feed(state, HoldChanged(2.0, 1, "late", 2))
    assert (after.ignored, len(after.side.holds)) == (1, 0)


# Quiet


def test_a_paused_run_is_not_stalled_by_a_granted_step():
    """R5.33, R5.24: quiet means that the gate is open."""
    state, _ = finish(feed(started(spec(step("begin", "Start"))))[0], "begin")
    state, _ = feed(state, GateClosed(1.0), StepsGranted(1.0, 1), QuietNoticed(1.0))
    assert (state.status, state.ignored) == ("running", 1)


def test_continuing_invents_no_answer():
    """R5.22, R5.21, R5.19, R5.14: opening the gate moves nothing that waits, an answer does not open it."""
    state, _ = fanned(1)
    state, _ = feed(state, says(state, "work", WaitOpened, mark=1, wait=Ask(out("Ask"))))
    state, commands = feed(state, GateClosed(1.0), GateOpened(2.0))
    assert commands == ()
    assert len(state.requests) == 1
    state, _ = feed(state, GateClosed(3.0), StepsGranted(3.0), RequestAnswered(4.0, 1, out("Reply")))
    assert state.gate == ("person",)


def test_stepping_changes_nothing_of_what_a_free_run_does():
    """R5.32: the same work ticks give the same deliveries, in the same places, with the same numbers."""
    free, _ = fanned(3)
    free, _ = finish(free, "work", out("B"))
    paused, _ = feed(started(FLOW), GateClosed(0.0), StepsGranted(0.0, 2))
    outs = tuple(out("A", i) for i in range(3))
    paused, _ = feed(paused, says(paused, "begin", StepFinished, outs=outs, fan=True, held=(2, 3)))
    paused, _ = feed(
        paused, BreakpointHit(0.0, 1), StepsGranted(0.0, 1), GateOpened(0.0), GateOpened(0.0, "breakpoint")
    )
    paused, _ = finish(paused, "work", out("B"))
    for state in (free, paused):
        assert [(d.id, d.out) for d in started_of(state, "work")] == [(3, out("A", 1)), (4, out("A", 2))]
    assert (free.ids, free.next_delivery) == (paused.ids, paused.next_delivery)


def test_an_outside_event_while_a_breakpoint_stands_before_its_start_keeps_the_run_awake():
    """R5.25, R5.33: a waiting run that gets one is not waiting any more."""
    flow = spec(step("begin", "Start"), step("hears", "Order"), outside="Order")
    state, _ = finish(feed(started(flow))[0], "begin")
    state, _ = feed(state, QuietNoticed(1.0))
    state, commands = feed(state, EventArrived(2.0, out("Order"), held=(2,)))
    assert (commands, state.status, state.busy) == ((), "running", 0)
    assert not is_quiet(state)
