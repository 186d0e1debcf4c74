"""Waits for an event: resolved by the first that fits, out of the mailbox too; timed out; shown as a question."""

import pytest

from flownb.core.commands import (
    ArmTimer,
    CloseRequest,
    DisarmTimer,
    FinishRun,
    OpenRequest,
    Publish,
    StartStep,
    StopStep,
    WakeStep,
)
from flownb.core.outstanding import is_quiet
from flownb.core.persist import Chain, Table
from flownb.core.state import Did, Ended, Ledger, Outcome, Timer, Tries, Wait, Waiter, Wake
from flownb.core.ticks import (
    Ask,
    Await,
    EventArrived,
    EventsSent,
    QuietNoticed,
    RequestAnswered,
    RequestDisposed,
    RequestHeld,
    RunOpened,
    Sleep,
    StepFailed,
    TimerFired,
    WaitOpened,
    WaitWithdrawn,
)
from flownb.core.values import Failure, Limit
from flownb.events import Event
from flownb.testing import event, feed, finish, out, says, spec, started, step
from flownb.testing.feed import key, started_of, work_of


class Row(Event):
    n: int = 0


FLOW = spec(
    step("begin", "Start", fans="A"),
    step("work", "A", "B", waits=True, num_workers=1),
    step("hears", "Reply", num_workers=1),
    step("use", "B", "Stop"),
    types=(event("Ask", answer="Reply"),),
    stalled="wait",
)
EVENT = Await(key("Row"))


def running(n=1, flow=FLOW):
    return finish(feed(started(flow, at=1.0))[0], "begin", *(out("A", i) for i in range(n)), fan=True)[0]


def waits(state, wait=EVENT, *, mark=1, n=0, at=None):
    return feed(state, says(state, "work", WaitOpened, n=n, mark=mark, wait=wait, at=at))


def row(n=0):
    return out("Row", Row(n=n))


def woken(commands):
    return [(c.delivery.id, c.wakes) for c in commands if isinstance(c, WakeStep)]


def came(what, mark=1):
    return (Wake(mark, Outcome("came", what)),)


def test_a_wait_for_an_event_is_in_the_state():
    """R1.7, R4.23, R4.36: what it looks for, its deadline as an absolute time; the worker is given back."""
    wait = Await(key("Row"), {"n": out("Value", 5)}, 60.0, "mine")
    state, commands = waits(running(2), wait)

    timer = Timer(1, 60.0, "wait", ref=1, step=1, mark=1)
    assert commands == (ArmTimer(timer), StartStep(work_of(state, "work").active[3]))
    assert dict(state.side.waiters.items()) == {
        1: Waiter(1, 1, 2, 1, key("Row"), {"n": out("Value", 5)}, due_at=60.0, timer=1)
    }
    d = work_of(state, "work").waiting[2]
    assert d.waits == Table.of([(1, Wait(1, "event", 1))])
    assert d.ledger == Ledger(
        Chain.of([Did("event", 3, 1, None, f"{key('Row')} mine", 1, {"n": out("Value", 5)})]), marks=1
    )
    assert state.sleeps == 0


def test_the_event_that_comes_is_the_outcome():
    """R4.30, R4.35: its deadline goes; the event is not routed to the waiter's step nor kept anywhere."""
    state, _ = waits(running(), Await(key("Row"), due_at=60.0))
    state, commands = feed(state, EventArrived(5.0, row(1)))

    assert [type(c) for c in commands] == [DisarmTimer, WakeStep]
    assert woken(commands) == [(2, came(row(1)))]
    assert next(iter(work_of(state, "work").active[2].ledger.did)) == Ended(1, Outcome("came", row(1)))
    assert (len(state.timers), len(state.side.waiters), len(state.mailbox), state.unhandled) == (0, 0, 0, 0)
    again, commands = feed(state, EventArrived(6.0, row(2)))
    assert commands == ()
    assert list(again.mailbox) == [row(2)]


def test_an_event_that_a_waiter_takes_goes_to_the_other_steps_too():
    """R4.30, R4.33: to those that take its type, but not to the step whose waiter took it."""
    flow = spec(
        step("begin", "Start", fans="A"),
        step("work", ("A", "Row"), waits=True),
        step("also", "Row"),
        step("waits", "A", waits=True),
    )
    state = running(flow=flow)
    state, _ = waits(state)
    state, commands = feed(state, EventArrived(5.0, row(1)))
    assert [(type(c), c.delivery.step) for c in commands] == [(WakeStep, 1), (StartStep, 2)]

    state, commands = feed(state, EventArrived(6.0, row(2)))
    assert [c.delivery.step for c in commands] == [1, 2]
    assert [type(c) for c in commands] == [StartStep, StartStep]


def test_an_event_that_only_a_waiter_takes_is_not_unhandled():
    """R2.25, R4.30: sent by a step."""
    state, _ = waits(running(2))
    state, commands = feed(state, says(state, "work", EventsSent, n=1, outs=(row(1),)))
    assert commands == ()  # 3 has the worker
    assert (state.unhandled, list(work_of(state, "work").front)) == (0, [2])


TWO = spec(
    step("begin", "Start", fans="A"),
    step("work", "A", waits=True),
    step("also", "A", waits=True),
    step("takes", "Row"),
)


def test_an_event_for_one_step_wakes_its_waiter_alone():
    """R2.13, R2.14: a step that does not take the type can be sent it while it waits for it."""
    state, _ = waits(running(flow=TWO))
    state, _ = feed(state, says(state, "also", WaitOpened, mark=1, wait=EVENT))
    state, commands = feed(state, EventArrived(5.0, row(1), "also"))
    assert [(type(c), c.delivery.step) for c in commands] == [(WakeStep, 2)]
    assert len(state.side.waiters) == 1


def test_an_event_for_one_step_may_come_before_its_wait():
    """R2.30, R2.13, R2.14: it is kept for that step, whoever else waits for its type."""
    state, commands = feed(
        running(flow=TWO), EventArrived(5.0, out("Later"), "also"), EventArrived(5.0, row(1), "also")
    )
    assert commands == ()
    assert (list(state.mailbox), state.unhandled) == ([out("Later"), row(1)], 0)
    state, commands = waits(state)
    assert commands == ()
    state, commands = feed(state, says(state, "also", WaitOpened, mark=1, wait=EVENT))
    assert [(c.delivery.step, c.wakes) for c in commands] == [(2, came(row(1)))]
    assert list(state.mailbox) == [out("Later")]
    state, commands = feed(state, EventArrived(6.0, row(2), "work"))
    assert [(c.delivery.step, c.wakes) for c in commands] == [(1, came(row(2)))]


@pytest.mark.parametrize("to", ["takes", "nowhere"])
def test_an_event_for_a_step_that_can_never_take_it_is_unhandled(to):
    """R2.14, R1.4: the door refuses it; a tick that has it all the same does no harm."""
    state, commands = feed(running(flow=TWO), EventArrived(5.0, out("Other"), to))
    assert [(c.what, c.info["step"]) for c in commands] == [("unhandled", to)]
    assert (state.unhandled, len(state.mailbox)) == (1, 0)


def test_a_delivery_may_send_what_it_waits_for_itself():
    """R4.30: it is woken by its own event."""
    state, _ = waits(running())
    state, commands = feed(state, says(state, "work", EventsSent, outs=(row(1),)))
    assert woken(commands) == [(2, came(row(1)))]
    d = work_of(state, "work").active[2]
    assert [type(entry) for entry in d.ledger.did] == [Ended, Did, Did]


def test_a_reply_may_come_before_the_wait():
    """R2.30: out of the mailbox, the oldest that fits; the others stay in their order."""
    state = running()
    state, _ = feed(state, *(EventArrived(2.0, what) for what in (out("Other"), row(1), row(2), row(2))))
    assert len(state.mailbox) == 4
    state, commands = waits(state, Await(key("Row"), {"n": out("Value", 2)}))

    assert woken(commands) == [(2, came(row(2)))]
    assert list(state.mailbox) == [out("Other"), row(1), row(2)]
    assert (len(state.side.waiters), state.busy) == (0, 1)
    state, commands = waits(state, Await(key("Row"), {"n": out("Value", 9)}), mark=2)
    assert commands == ()
    assert len(state.mailbox) == 3


def test_a_late_event_out_of_the_mailbox_begins_a_new_chain_of_causes():
    """R5.70: it came from outside, though the step's own tick hands it over."""
    state = feed(running(), EventArrived(2.0, row(1)))[0]
    state, _ = waits(state, Await(key("Row"), question=out("Ask")))
    assert work_of(state, "work").active[2].chain == 0


def test_a_wait_that_times_out_says_so():
    """R4.36: the deadline is in the state, and is no sleep: a run that only waits for it is quiet (R5.33)."""
    state, _ = waits(running(), Await(key("Row"), due_at=60.0))
    assert is_quiet(state)
    state, commands = feed(state, QuietNoticed(2.0), TimerFired(60.0, 1))

    assert woken(commands) == [(2, (Wake(1, Outcome("timed_out")),))]
    assert (len(state.side.waiters), len(state.timers), state.status) == (0, 0, "running")


def test_several_waits_of_one_delivery_each_take_an_event():
    """R4.27, R4.26: two of one type; the second reaches the code that runs already."""
    state, _ = waits(running())
    state, _ = waits(state, mark=2)
    state, commands = feed(state, EventArrived(2.0, row(1)))
    assert woken(commands) == [(2, came(row(1)))]
    state, commands = feed(state, EventArrived(3.0, row(2)))
    assert woken(commands) == [(2, came(row(2), 2))]
    assert work_of(state, "work").active[2].waits == Table()


def test_a_wait_that_is_given_up_takes_no_event():
    """R4.28: withdrawn, its deadline with it."""
    state, _ = waits(running(), Await(key("Row"), due_at=60.0))
    state, commands = feed(state, says(state, "work", WaitWithdrawn, mark=1))
    assert commands == (DisarmTimer(1),)
    state, commands = feed(state, EventArrived(2.0, row(1)))
    assert commands == ()
    assert len(state.mailbox) == 1


def test_a_wait_that_ended_just_now_is_not_opened_again():
    """R4.27: the code awaits a handle whose outcome is on its way."""
    state, _ = waits(running())
    state, _ = feed(state, EventArrived(2.0, row(1)))
    after, commands = waits(state)
    assert commands == ()
    assert after.steps == state.steps
    assert after.ignored == 0


def test_a_delivery_that_ends_takes_no_event_any_more():
    """R4.41: its open waits end with it; so does the event that it sends itself in that tick not wake it."""
    state, _ = waits(running())
    state, commands = finish(state, "work", row(1))
    assert [c.what for c in commands] == ["unhandled"]
    assert (len(state.side.waiters), state.busy) == (0, 0)


def test_a_lost_driver_leaves_waits_for_events_open():
    """R4.29, R1.7: then it starts from the top, the event in its ledger."""
    state, _ = waits(running(), Await(key("Row"), due_at=60.0))
    state, commands = feed(state, RunOpened(2.0, "another"))
    assert commands == ()
    state, commands = feed(state, EventArrived(3.0, row(1)))
    assert [(type(c).__name__) for c in commands] == ["DisarmTimer", "StartStep"]
    assert commands[1].delivery.start == 2
    assert Ended(1, Outcome("came", row(1))) in list(commands[1].delivery.ledger.did)


def test_a_failed_attempt_keeps_its_wait_for_an_event():
    """R3.51: an event that comes before the next attempt is in its ledger."""
    state, _ = waits(running())
    state, _ = feed(state, says(state, "work", StepFailed, failure=Failure("E", "no"), retry_at=60.0))
    state, commands = feed(state, EventArrived(3.0, row(1)))
    assert commands == ()
    assert (len(state.mailbox), len(state.side.waiters)) == (0, 0)
    _, commands = feed(state, TimerFired(60.0, 1))
    assert Ended(1, Outcome("came", row(1))) in list(commands[0].delivery.ledger.did)


def test_an_event_in_a_branch_that_a_waiter_elsewhere_takes_drops_out():
    """R4.13: the branch ends there; the waiter's own goes on."""
    flow = spec(step("begin", "Start", fans="A"), step("work", "A", ("B", "Row"), waits=True), step("sum", gathers="B"))
    state = running(2, flow)
    state, _ = waits(state)
    state, commands = finish(state, "work", row(1), n=1)
    assert woken(commands) == [(2, came(row(1)))]
    assert state.joins[1].pending == 1
    _, commands = finish(state, "work", out("B", 0))
    assert [c.delivery.out for c in commands] == [(out("B", 0),)]


# Shown as a question meanwhile


def shown(state, **fields):
    return waits(state, Await(key("Row"), question=out("Ask", "?"), **fields))


def test_a_wait_may_show_a_question():
    """R4.24, R4.38: once, with the wait; the request names it."""
    state, commands = shown(running(), due_at=60.0)
    request = state.requests[1]
    assert (request.kind, request.delivery, request.mark, request.due_at) == ("event", 2, 1, None)
    assert state.side.waiters[1].request == 1
    assert commands == (
        OpenRequest(request),
        Publish("request", out("Ask", "?"), 1, {"request": 1}, 2),
        ArmTimer(Timer(1, 60.0, "wait", 1, 1, 1)),
    )


def test_the_answer_to_a_shown_question_is_the_event():
    """R4.51: whatever the wait requires; no other step gets it."""
    state, _ = shown(running(), due_at=60.0, requires={"n": out("Value", 5)})
    state, commands = feed(state, RequestAnswered(31.0, 1, row(7)))

    assert [type(c) for c in commands] == [CloseRequest, DisarmTimer, WakeStep]
    assert commands[0] == CloseRequest(1, "answered")
    assert woken(commands) == [(2, came(row(7)))]
    assert work_of(state, "work").active[2].tries == Tries(1.0, 30.0)  # a person let it wait (R3.31)


def test_an_event_that_fits_answers_the_shown_question():
    """R4.30, R4.51: the question is closed with the event as its answer; people let it wait (R3.31)."""
    state, _ = shown(running())
    state, commands = feed(state, EventArrived(11.0, row(1)))
    assert commands[0] == CloseRequest(1, "answered", row(1))
    assert woken(commands) == [(2, came(row(1)))]
    assert len(state.requests) == 0
    assert work_of(state, "work").active[2].tries.asked_s == 10.0


def test_a_shown_question_expires_with_its_wait():
    """R4.36."""
    state, _ = shown(running(), due_at=60.0)
    state, commands = feed(state, TimerFired(60.0, 1))
    assert commands[0] == CloseRequest(1, "expired")
    assert woken(commands) == [(2, (Wake(1, Outcome("timed_out")),))]
    assert len(state.requests) == 0


def test_a_shown_question_that_is_disposed_of_ends_its_wait():
    """R4.52: the asker gets the reason; an event that comes then is for nobody."""
    state, _ = shown(running(), due_at=60.0)
    state, commands = feed(state, RequestDisposed(2.0, 1, "moot"))
    assert [type(c) for c in commands] == [CloseRequest, DisarmTimer, WakeStep]
    assert woken(commands) == [(2, (Wake(1, Outcome("disposed", None, "moot")),))]
    assert (len(state.side.waiters), len(state.timers)) == (0, 0)


def test_a_shown_question_that_is_given_up_is_withdrawn():
    """R4.28, R4.75."""
    state, _ = shown(running())
    state, commands = feed(state, says(state, "work", WaitWithdrawn, mark=1))
    assert commands == (CloseRequest(1, "withdrawn"),)
    assert len(state.side.waiters) == 0


def test_a_held_shown_question_counts_down_no_more():
    """R4.56: the countdown is that of the wait."""
    state, _ = shown(running(), due_at=60.0)
    state, commands = feed(state, RequestHeld(2.0, 1, "ann"))
    assert commands == (DisarmTimer(1),)
    assert (state.side.waiters[1].due_at, state.side.waiters[1].timer) == (None, 0)
    again, commands = feed(state, RequestHeld(3.0, 1, "ann"))
    assert (commands, again.ignored) == ((), 1)
    _, commands = feed(state, EventArrived(99.0, row(1)))
    assert woken(commands) == [(2, came(row(1)))]


def test_a_superseded_shown_question_takes_its_wait_with_it():
    """R4.80: its code asks something else."""
    state, _ = shown(running(), due_at=60.0)
    state, _ = waits(state, Sleep(99.0), mark=2)
    state, commands = feed(state, RequestDisposed(2.0, 1, "superseded", superseded=True))
    assert commands == (CloseRequest(1, "superseded"), DisarmTimer(1))
    d = work_of(state, "work").waiting[2]
    assert (list(d.waits), len(state.side.waiters)) == ([2], 0)
    assert next(iter(d.ledger.did)) == Ended(1, Outcome("superseded"))


# An end in the same tick


def test_what_the_ending_tick_woke_is_not_woken():
    """R1.14, R2.43: an event wakes a waiter, and the stop behind it ends the run; only what was running is stopped."""
    state, _ = waits(running(2))
    state, _ = feed(state, says(state, "work", WaitOpened, n=1, mark=1, wait=EVENT))
    state, _ = waits(state, Sleep(40.0), mark=2)
    state, _ = feed(state, EventArrived(2.0, row(0)))  # 2 runs, and sleeps on
    state, _ = waits(state, EVENT, mark=3)
    state, _ = feed(state, TimerFired(40.0, 1))
    assert sorted(work_of(state, "work").active) == [2]
    outs = row(1), row(2), out("Ask", "?"), out("Stop")
    state, commands = feed(state, says(state, "work", EventsSent, outs=outs))

    kinds = [type(c) for c in commands]
    assert WakeStep not in kinds
    assert kinds == [OpenRequest, Publish, StopStep, StopStep, CloseRequest, Publish, FinishRun]
    assert (state.status, state.end.abandoned[0].where) == ("completed", "running")


def test_a_deadline_of_the_ending_tick_is_not_armed():
    """R1.14: the question that was sent with it is on the stream, and closed."""
    state = running()
    outs = out("Ask", "?", limit=Limit(60.0)), out("Stop")
    state, commands = feed(state, says(state, "work", EventsSent, outs=outs))
    assert [type(c) for c in commands] == [OpenRequest, Publish, StopStep, CloseRequest, Publish, FinishRun]
    assert commands[3] == CloseRequest(1, "closed")


@pytest.mark.parametrize("wait", [EVENT, Ask(out("Ask")), Sleep(9.0)])
def test_a_wait_of_a_delivery_that_is_gone_opens_nothing(wait):
    """R3.18: it is counted, no timer, request or waiter is made."""
    state, _ = finish(running(), "work")
    after, commands = feed(state, WaitOpened(2.0, "work", 2, 1, 1, wait))
    assert (commands, after.ignored, after.ids) == ((), 1, state.ids)


def test_started_deliveries_are_told_apart_by_what_they_wait_for():
    """R4.31: two of one step that wait for different values."""
    flow = spec(step("begin", "Start", fans="A"), step("work", "A", waits=True))
    state = running(2, flow)
    state, _ = waits(state, Await(key("Row"), {"n": out("Value", 1)}))
    state, _ = waits(state, Await(key("Row"), {"n": out("Value", 2)}), n=1)
    _, commands = feed(state, EventArrived(2.0, row(2)))
    assert woken(commands) == [(3, came(row(2)))]
    assert [d.id for d in started_of(state, "work")] == [2, 3]
