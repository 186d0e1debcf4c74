"""The ends: four ways, one last tick that closes all."""

import pytest

from flownb.core.commands import CloseRequest, DisarmTimer, FinishRun, Publish, StopStep
from flownb.core.invariants import broken
from flownb.core.outstanding import outstanding
from flownb.core.state import Abandoned
from flownb.core.ticks import (
    Ask,
    CancelRequested,
    EventArrived,
    GateClosed,
    GateOpened,
    Sleep,
    StepFailed,
    StepFinished,
    StepsGranted,
    Terms,
    TimerFired,
    WaitOpened,
)
from flownb.core.values import Failure
from flownb.testing import event, feed, finish, out, says, spec, started, step

FLOW = spec(
    step("begin", "Start", fans="A"),
    step("work", "A", ("B", "Stop"), num_workers=2),
    step("sum", gathers="B"),
    types=(event("Ask", answer="Reply"),),
)


def full(terms=None):
    """One of each: asking, sleeping, running twice, queued; the gate is closed with a budget; a join is open."""
    state, _ = feed(started(FLOW, terms=terms))
    state, _ = finish(state, "begin", *(out("A", n) for n in range(5)), fan=True)
    state, _ = feed(state, says(state, "work", WaitOpened, mark=1, wait=Ask(out("Ask"), due_at=60.0)))
    state, _ = feed(state, says(state, "work", WaitOpened, n=1, mark=1, wait=Sleep(30.0)))
    return feed(state, GateClosed(1.0), StepsGranted(1.0, 5))[0]


CLOSING = (
    StopStep(1, 4, 1),
    StopStep(1, 5, 1),
    StopStep(1, 2, 1),
    StopStep(1, 3, 1),
    DisarmTimer(1),
    DisarmTimer(2),
    CloseRequest(1, "closed"),
)


def test_a_cancelled_run_closes_all_that_is_open():
    """R2.41, R5.49, R5.50: steps stopped, timers and questions closed, in the tick itself."""
    state, commands = feed(full(), CancelRequested(5.0, "enough", "ann"))

    assert commands == (*CLOSING, Publish("cancelled", info={"reason": "enough", "by": "ann"}), FinishRun())
    assert (state.status, state.reason, state.by) == ("cancelled", "enough", "ann")


def test_a_failed_run_closes_all_that_is_open():
    """R2.41, R3.35: but for the delivery that failed."""
    state = full()
    state, commands = feed(state, says(state, "work", StepFailed, n=2, failure=Failure("E", "no")))

    rest = tuple(c for c in CLOSING if c != StopStep(1, 4, 1))
    assert commands == (*rest, Publish("failed", None, 1, {"type": "E", "message": "no"}, 4), FinishRun())
    assert (state.status, state.failure, state.failed_step) == ("failed", Failure("E", "no"), 1)
    assert state.end.failed_delivery == 4


def test_a_completed_run_closes_all_that_is_open():
    """R2.36, R2.41: the first stop wins."""
    state, commands = finish(full(), "work", out("Stop", 1), n=2)

    rest = tuple(c for c in CLOSING if c != StopStep(1, 4, 1))
    assert commands == (*rest, Publish("stop", out("Stop", 1), 1), FinishRun())
    assert (state.status, state.result) == ("completed", out("Stop", 1))


@pytest.mark.parametrize("n", [2, 3])
def test_an_end_leaves_nothing_open_and_lists_what_it_cut_off(n):
    """R2.41, R2.42: queues, waits, timers, requests, joins; the gate is no matter any more."""
    state, _ = finish(full(), "work", out("Stop"), n=n)

    assert broken(state) == []
    assert outstanding(state) == (FinishRun(),)
    assert (state.busy, state.sleeps, state.budget, state.gate) == (0, 0, 0, ())
    assert len(state.joins) == len(state.timers) == len(state.requests) == 0
    assert state.abandoned == (
        Abandoned(1, 7 - n, "running"),
        Abandoned(1, 2, "waiting"),
        Abandoned(1, 3, "waiting"),
        Abandoned(1, 6, "queued"),
    )


def test_a_failed_result_is_no_result():
    """R2.38: `result` is empty unless the run is completed, whatever its value would be."""
    assert feed(full(), CancelRequested(5.0))[0].result is None
    completed, _ = finish(full(), "work", out("Stop", None), n=2)
    assert completed.result == out("Stop", None)


def test_a_step_that_nothing_reached_is_as_it_was():
    """R1.6: an end touches what is there."""
    before = full()
    after, _ = feed(before, CancelRequested(5.0))
    assert after.steps[2] is before.steps[2]


ENDS = {
    "stop": lambda s: says(s, "work", StepFinished, n=2, outs=(out("Stop"),)),
    "failed": lambda s: says(s, "work", StepFailed, n=2, failure=Failure("E", "no")),
    "cancelled": lambda s: CancelRequested(5.0),
    "timed_out": lambda s: TimerFired(5.0, 0),
}


@pytest.mark.parametrize("what", ENDS)
def test_each_way_to_end_has_a_terminal_event_of_its_own(what):
    """R5.55 to R5.60, R2.46: four of them; it is the last that is published, once."""
    state, _ = feed(full(Terms(timeout_s=60.0)), GateOpened(2.0))
    _, commands = feed(state, ENDS[what](state))
    assert [c.what for c in commands if isinstance(c, Publish)] == [what]
    assert [type(c) for c in commands[-2:]] == [Publish, FinishRun]


@pytest.mark.parametrize("status", ["cancelled", "cancelling"])
def test_what_nobody_took_is_listed_at_the_end(status):
    """R2.32: in order, what was for one step too; the names that senders gave are kept with it (R2.33)."""
    flow = spec(
        step("work", "Start", waits=True),
        step("tidy", "Cancelled", on_cancel=True),
    )
    state, _ = feed(started(flow), *(EventArrived(1.0, out("Later", n), key=f"k{n}") for n in range(2)))
    state, _ = feed(state, EventArrived(1.0, out("Later", 2), "work"))
    state, _ = feed(state, CancelRequested(2.0, out=out("Cancelled") if status == "cancelling" else None))
    assert state.status == status
    assert [kept.value for kept in state.mailbox] == [0, 1, 2]
    assert list(state.side.keys) == ["k0", "k1"]
