"""Sleeps and questions: workers given back, outcomes handed over, deadlines, withdrawals."""

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
from flownb.core.state import Delivery, Did, Ended, Ledger, Outcome, Request, Timer, Tries, Wait, Wake
from flownb.core.ticks import (
    Ask,
    EventArrived,
    QuietNoticed,
    RequestAnswered,
    RequestDisposed,
    RunOpened,
    Sleep,
    StepFinished,
    TimerFired,
    WaitOpened,
    WaitWithdrawn,
)
from flownb.core.values import Limit
from flownb.testing import event, feed, finish, out, says, spec, started, step

ASK = event("Ask", answer="Reply")
FLOW = spec(step("begin", "Start", fans="A"), step("work", "A", "Stop", num_workers=1), types=(ASK,))


def running(n=1):
    """Step "work", one worker, has been sent A(0) to A(n-1)."""
    return finish(feed(started(FLOW))[0], "begin", *(out("A", i) for i in range(n)), fan=True)[0]


def waits(state, wait, *, mark=1, n=0):
    return feed(state, says(state, "work", WaitOpened, n=n, mark=mark, wait=wait))


def work(state):
    return state.steps[1]


def waits_of(*waits):
    return Table.of((wait.mark, wait) for wait in waits)


def ledger_of(*entries, marks=1):
    return Ledger(Chain.of(entries), marks=marks)


def second(**fields):
    """Delivery 2, "work" on A(0), on its first attempt since 0."""
    return Delivery(2, 1, out("A", 0), 2, **{"chain": 2, "rank": 2, "tries": Tries(), **fields})


def woken(commands):
    return [(c.delivery.id, c.wakes) for c in commands if isinstance(c, WakeStep)]


def test_a_sleeping_delivery_gives_its_worker_back():
    """R4.26, R4.37: the timer is in the state, with an absolute time; the next one in the queue starts."""
    state, commands = waits(running(2), Sleep(60.0, "60"))

    timer = Timer(1, 60.0, "sleep", ref=2, step=1, mark=1)
    assert commands == (
        ArmTimer(timer),
        StartStep(Delivery(3, 1, out("A", 1), cause=2, at=0.0, start=1, worker=0, chain=2, rank=3)),
    )
    assert dict(state.timers.items()) == {1: timer}
    ledger = ledger_of(Did("sleep", 3, 1, None, "60", 1))
    asleep = second(at=0.0, start=1, ledger=ledger, waits=waits_of(Wait(1, "sleep", 1)))
    assert dict(work(state).waiting.items()) == {2: asleep}
    assert state.sleeps == 1


def test_a_woken_delivery_goes_ahead_of_the_queue():
    """R4.26, R3.63: it takes the next free worker, and its code goes on only then."""
    state, _ = waits(running(3), Sleep(60.0))
    state, commands = feed(state, TimerFired(60.0, 1))
    assert commands == ()  # delivery 3 has the only worker
    assert state.sleeps == 0
    state, commands = finish(state, "work", n=1)

    slept = Outcome("slept")
    ledger = ledger_of(Did("sleep", 3, 1, None, "", 1), Ended(1, slept))
    goes_on = second(at=60.0, start=1, worker=0, ledger=ledger, chain=0)
    assert commands == (WakeStep(goes_on, (Wake(1, slept),)),)
    assert [d.id for d in work(state).queue] == [4]


def test_a_question_that_is_asked_waits_for_its_answer():
    """R4.39, R4.40, R4.42: the asker alone gets it."""
    state, commands = waits(running(), Ask(out("Ask", "?"), name="first", token="hash"))

    request = Request(1, out("Ask", "?"), step=1, opened=3, opened_at=0.0, delivery=2, mark=1, kind="ask", token="hash")
    assert commands == (OpenRequest(request), Publish("request", out("Ask", "?"), 1, {"request": 1}, 2))
    state, commands = feed(state, RequestAnswered(5.0, 1, out("Reply", "yes"), "ann"))
    answered = Outcome("answered", out("Reply", "yes"))
    ledger = ledger_of(Did("ask", 3, 1, out("Ask", "?"), "first", 1), Ended(1, answered))
    goes_on = second(at=5.0, start=1, worker=0, ledger=ledger, chain=0, tries=Tries(asked_s=5.0))
    assert commands == (CloseRequest(1, "answered"), WakeStep(goes_on, (Wake(1, answered),)))
    assert len(state.requests) == 0


def test_an_answer_in_time_takes_the_deadline_away():
    """R4.54: the timer goes with its question."""
    state, commands = waits(running(), Ask(out("Ask"), due_at=60.0))
    assert ArmTimer(Timer(1, 60.0, "deadline", ref=1)) in commands
    state, commands = feed(state, RequestAnswered(5.0, 1, out("Reply", "yes")))

    assert commands[:2] == (CloseRequest(1, "answered"), DisarmTimer(1))
    assert len(state.timers) == 0


@pytest.mark.parametrize(
    ("default", "how", "outcome"),
    [
        (out("Reply", "no"), "default", Outcome("default", out("Reply", "no"))),
        (None, "expired", Outcome("expired", None, "deadline")),
    ],
)
def test_at_the_deadline_the_default_is_taken_or_the_asker_hears_of_it(default, how, outcome):
    """R4.54, R4.55: a default is recorded as one, never as a person's word."""
    state, _ = waits(running(), Ask(out("Ask"), due_at=60.0, default=default))
    state, commands = feed(state, TimerFired(60.0, 1))

    assert [type(c) for c in commands] == [CloseRequest, WakeStep]
    assert commands[0] == CloseRequest(1, how)
    assert woken(commands) == [(2, (Wake(1, outcome),))]
    assert len(state.timers) == len(state.requests) == 0


def test_a_policy_may_take_the_default_early():
    """R4.54: recorded as a default too."""
    state, _ = waits(running(), Ask(out("Ask")))
    _, commands = feed(state, RequestAnswered(1.0, 1, out("Reply", "no"), how="default"))

    assert commands[0] == CloseRequest(1, "default")
    assert woken(commands) == [(2, (Wake(1, Outcome("default", out("Reply", "no"))),))]


def test_a_question_may_be_disposed_of():
    """R4.52: its asker gets the reason."""
    state, _ = waits(running(), Ask(out("Ask")))
    _, commands = feed(state, RequestDisposed(1.0, 1, "moot", "ann"))

    assert commands[0] == CloseRequest(1, "disposed")
    assert woken(commands) == [(2, (Wake(1, Outcome("disposed", None, "moot")),))]


def test_what_is_closed_already_is_ignored():
    """R3.19, R4.48, R4.53: a second answer, a timer of the past, a withdrawal of what is over."""
    state, _ = waits(running(), Ask(out("Ask")))
    state, _ = feed(state, RequestAnswered(1.0, 1, out("Reply")))
    late = (
        RequestAnswered(2.0, 1, out("Reply")),
        RequestDisposed(2.0, 1),
        TimerFired(2.0, 1),
        says(state, "work", WaitWithdrawn, mark=1),
    )
    for n, tick in enumerate(late, 1):
        after, commands = feed(state, *late[:n])
        assert commands == ()
        assert (after.ignored, after.steps) == (n, state.steps)
        assert tick is late[n - 1]


def test_several_waits_are_several_waits():
    """R4.25, R4.26, R4.27: it holds a worker from the first resolved one on; the other reaches its running code."""
    state, _ = waits(running(), Sleep(10.0), mark=1)
    state, _ = waits(state, Sleep(20.0), mark=2)
    assert work(state).waiting[2].waits == waits_of(Wait(1, "sleep", 1), Wait(2, "sleep", 2))
    assert state.sleeps == 2
    state, commands = feed(state, TimerFired(10.0, 1))
    assert woken(commands) == [(2, (Wake(1, Outcome("slept")),))]
    assert work(state).active[2].waits == waits_of(Wait(2, "sleep", 2))
    state, commands = feed(state, TimerFired(20.0, 2))

    assert woken(commands) == [(2, (Wake(2, Outcome("slept")),))]
    slept = [Did("sleep", 3, 1, None, "", 1), Did("sleep", 4, 1, None, "", 2)]
    ended = [Ended(1, Outcome("slept")), Ended(2, Outcome("slept"))]
    goes_on = second(at=10.0, start=1, worker=0, ledger=ledger_of(*slept, *ended, marks=2), chain=0)
    assert commands[0].delivery == work(state).active[2] == goes_on


def test_waits_that_end_before_there_is_a_worker_are_handed_over_together():
    """R4.26: once, in the order in which they ended."""
    state, _ = waits(running(2), Sleep(10.0), mark=1)
    state, _ = waits(state, Ask(out("Ask")), mark=2)
    state, _ = feed(state, RequestAnswered(5.0, 1, out("Reply")), TimerFired(10.0, 1))
    assert list(work(state).front) == [2]
    _, commands = finish(state, "work", n=1)

    assert woken(commands) == [(2, (Wake(2, Outcome("answered", out("Reply"))), Wake(1, Outcome("slept"))))]


def test_a_wait_opened_while_it_is_due_keeps_it_due():
    """R4.25, R4.26: what another task of its code opens loses it neither its place nor its outcomes."""
    state, _ = waits(running(2), Sleep(10.0), mark=1)
    state, _ = feed(state, TimerFired(10.0, 1))
    state, _ = waits(state, Sleep(20.0), mark=2)
    assert (state.busy, list(work(state).front)) == (2, [2])
    state, commands = finish(state, "work", n=1)

    assert woken(commands) == [(2, (Wake(1, Outcome("slept")),))]
    assert work(state).active[2].waits == waits_of(Wait(2, "sleep", 2))


def test_awaiting_an_open_wait_again_gives_the_worker_back():
    """R4.26: "until it awaits again"; nothing new is opened."""
    state, _ = waits(running(2), Sleep(10.0), mark=1)
    state, _ = waits(state, Sleep(20.0), mark=2)
    state, _ = finish(state, "work", n=1)
    state, _ = feed(state, TimerFired(10.0, 1))
    assert 2 in work(state).active
    state, commands = waits(state, Sleep(0.0), mark=2)

    assert commands == ()
    assert work(state).waiting[2].waits == waits_of(Wait(2, "sleep", 2))
    assert (work(state).workers, state.sleeps, state.ids.timer) == (0, 1, 3)


def test_a_wait_that_the_code_gives_up_is_withdrawn():
    """R4.28, R4.75: its question too; the code runs already, so it holds a worker, over the limit if need be."""
    state, _ = waits(running(2), Ask(out("Ask"), due_at=60.0))
    state, commands = feed(state, says(state, "work", WaitWithdrawn, mark=1))

    assert commands == (CloseRequest(1, "withdrawn"), DisarmTimer(1))
    assert {d.id: d.worker for d in work(state).active.values()} == {2: 1, 3: 0}
    assert len(state.requests) == len(state.timers) == 0
    state, commands = finish(state, "work", n=0)
    assert commands == ()  # nothing starts before it is within its limit again


def test_a_withdrawn_sleep_takes_its_timer_away():
    """R4.28: first of several, the others given up; it goes on waiting for what is left."""
    state, _ = waits(running(), Sleep(10.0), mark=1)
    state, _ = waits(state, Ask(out("Ask")), mark=2)
    state, commands = feed(state, says(state, "work", WaitWithdrawn, mark=1))

    assert commands == (DisarmTimer(1),)
    assert work(state).waiting[2].waits == waits_of(Wait(2, "ask", 1))
    assert next(iter(work(state).waiting[2].ledger.did)) == Ended(1, Outcome("cancelled"))
    assert state.sleeps == 0


def test_a_wait_may_be_withdrawn_while_the_code_runs_or_is_due():
    """R4.28: in both places it stays where it is."""
    active, _ = waits(running(), Sleep(10.0), mark=1)
    active, _ = waits(active, Sleep(20.0), mark=2)
    active, _ = feed(active, TimerFired(10.0, 1))
    active, _ = feed(active, says(active, "work", WaitWithdrawn, mark=2))
    assert work(active).active[2].waits == Table()

    due, _ = waits(running(2), Sleep(10.0), mark=1)
    due, _ = waits(due, Sleep(20.0), mark=2)
    due, _ = feed(due, TimerFired(10.0, 1))
    due, _ = feed(due, says(due, "work", WaitWithdrawn, mark=2))
    assert (work(due).waiting[2].waits, list(work(due).front)) == (Table(), [2])


def test_a_step_that_ends_with_open_waits_withdraws_them():
    """R4.41, R4.74, R4.75: an asked question closes with its delivery; one that ends while due leaves no trace."""
    state, _ = waits(running(2), Ask(out("Ask")), mark=1)
    state, _ = waits(state, Sleep(10.0), mark=2)
    ended, commands = finish(state, "work", n=0)
    assert commands == (CloseRequest(1, "withdrawn"), DisarmTimer(1))
    assert (ended.sleeps, ended.busy) == (0, 1)

    due, _ = feed(state, TimerFired(10.0, 1))
    due, _ = finish(due, "work", n=0)
    assert due.busy == 1
    due, commands = finish(due, "work")
    assert commands == ()
    assert (due.busy, list(work(due).front)) == (0, [])


def test_a_lost_driver_leaves_waits_open():
    """R4.29: no user code runs until one of them is resolved; then it starts from its top, the ledger in hand."""
    state, _ = waits(running(), Sleep(10.0), mark=1)
    state, _ = waits(state, Ask(out("Ask")), mark=2)
    state, commands = feed(state, RunOpened(1.0, "another"))
    assert commands == ()
    state, commands = feed(state, RequestAnswered(5.0, 1, out("Reply")))

    asked = [Did("sleep", 3, 1, None, "", 1), Did("ask", 4, 1, out("Ask"), "", 2)]
    ledger = ledger_of(*asked, Ended(2, Outcome("answered", out("Reply"))), marks=2)
    left = waits_of(Wait(1, "sleep", 1))
    again = second(at=5.0, start=2, worker=0, ledger=ledger, waits=left, chain=0, tries=Tries(asked_s=5.0))
    assert commands == (CloseRequest(1, "answered"), StartStep(again))


# Questions that were returned: no delivery waits for them.

RETURNED = spec(step("begin", "Start", "Ask"), step("hears", "Reply", "Stop"), types=(ASK,))
TOLD = spec(step("begin", "Start", "Ask"), step("told", "Closed", "Stop"), types=(ASK,))


def asked(flow, limit=None):
    state, _ = feed(started(flow))
    return finish(state, "begin", out("Ask", "?", limit=limit))[0]


def test_the_answer_of_a_returned_question_is_an_event():
    """R4.39, R4.42: routed like any other; a waiting run goes on."""
    state, _ = feed(asked(RETURNED), QuietNoticed(1.0))
    assert state.status == "waiting"
    state, commands = feed(state, RequestAnswered(2.0, 1, out("Reply", "yes")))

    assert commands == (
        CloseRequest(1, "answered"),
        StartStep(Delivery(2, 1, out("Reply", "yes"), cause=4, at=2.0, start=1, worker=0, chain=1, rank=2)),
    )
    assert state.status == "running"


def test_an_answer_may_end_the_run():
    """R2.39: if it is a stop."""
    state, commands = feed(asked(RETURNED), RequestAnswered(2.0, 1, out("Stop", 1)))
    assert commands == (CloseRequest(1, "answered"), Publish("stop", out("Stop", 1), 0), FinishRun())
    assert state.status == "completed"


def test_a_run_whose_last_answer_nobody_takes_is_quiet_anew():
    """R5.33, R5.36: it must not hang as "waiting" for a question that is closed."""
    state, _ = feed(asked(spec(step("begin", "Start", "Ask"), types=(ASK,))), QuietNoticed(1.0))
    state, _ = feed(state, RequestAnswered(2.0, 1, out("Reply")))
    assert is_quiet(state)
    state, _ = feed(state, QuietNoticed(3.0))

    assert state.status == "failed"
    assert state.failure.type == "flownb.errors:WorkflowStalled"


def test_a_returned_question_takes_its_default_at_the_deadline():
    """R4.54."""
    state = asked(RETURNED, Limit(60.0, out("Reply", "default")))
    _, commands = feed(state, TimerFired(60.0, 1))
    assert [type(c) for c in commands] == [CloseRequest, StartStep]
    assert commands[0] == CloseRequest(1, "default")
    assert commands[1].delivery.out == out("Reply", "default")


@pytest.mark.parametrize(
    ("how", "tick", "words", "disarms"),
    [
        ("expired", TimerFired(60.0, 1, out("Closed")), "AnswerTimeout", ()),
        ("disposed", RequestDisposed(60.0, 1, "moot", "", out("Closed")), "RequestDisposed", (DisarmTimer(1),)),
    ],
)
def test_a_returned_question_without_an_answer_needs_a_step_that_takes_its_end(how, tick, words, disarms):
    """R4.76: else the run fails, in words."""
    _, commands = feed(asked(TOLD, Limit(60.0)), tick)
    assert commands[:-1] == (CloseRequest(1, how), *disarms)
    assert commands[-1].delivery.out == out("Closed")

    state, commands = feed(asked(RETURNED, Limit(60.0)), tick)
    assert state.status == "failed"
    assert (state.failure.type, state.failed_step) == (f"flownb.errors:{words}", 0)
    assert "Question 1 (test:Ask)" in state.failure.message
    assert commands[-1] == FinishRun()


def test_the_end_of_a_question_that_ends_the_run_pays_no_join():
    """R2.36, R2.41: the end closes the joins; an answer that stops, or that unhandled="error" refuses, in a branch."""
    flow = spec(
        step("begin", "Start", fans="A"),
        step("work", "A", ("B", "Ask")),
        step("told", "Closed", "B", num_workers=1),
        step("sum", gathers="B"),
        types=(ASK,),
        unhandled="error",
    )
    state, _ = finish(feed(started(flow))[0], "begin", out("A"), fan=True)
    state, _ = finish(state, "work", out("Ask", limit=Limit(9.0)))

    assert feed(state, RequestAnswered(1.0, 1, out("Stop")))[0].status == "completed"
    assert feed(state, RequestAnswered(1.0, 1, out("Lost")))[0].status == "failed"
    told, commands = feed(state, TimerFired(9.0, 1, out("Closed")))
    assert [type(c) for c in commands] == [CloseRequest, StartStep]
    assert told.joins[1].pending == 1


def test_a_question_from_outside_expires_like_any_other():
    """R4.76: there is no step to name."""
    state, _ = feed(feed(started(RETURNED))[0], EventArrived(0.0, out("Ask", limit=Limit(9.0))))
    state, commands = feed(state, TimerFired(9.0, 1))
    assert (state.status, state.failed_step) == ("failed", -1)
    assert StopStep(0, 1, 1) in commands


def test_a_step_that_took_a_late_worker_is_no_trouble():
    """R4.28: two withdrawals at once hold two workers over the limit; the lost driver's successor starts one."""
    state, _ = waits(running(2), Sleep(10.0))
    state, _ = feed(state, says(state, "work", WaitWithdrawn, mark=1))
    assert len(work(state).active) == 2
    state, commands = feed(state, RunOpened(1.0, "another"))

    assert [(c.delivery.id, c.delivery.start) for c in commands] == [(2, 2)]
    assert (list(work(state).front), list(work(state).again)) == ([], [3])
    late, _ = feed(state, StepFinished(2.0, "work", 3, 1))
    assert late.ignored == 1


def test_the_end_of_a_question_moves_a_waiting_run():
    """R4.76, R5.33: its branch hears of it; if nothing comes of that, the run is quiet anew."""
    state, _ = feed(asked(TOLD), QuietNoticed(1.0))
    assert state.status == "waiting"
    state, commands = feed(state, RequestDisposed(2.0, 1, closed=out("Closed")))
    assert [type(c) for c in commands] == [CloseRequest, StartStep]
    assert state.status == "running"
    paired = spec(step("begin", "Start", "Ask"), step("told", slots=("Closed", "X")), types=(ASK,))
    state, _ = feed(asked(paired), QuietNoticed(1.0))
    state, commands = feed(state, RequestDisposed(2.0, 1, closed=out("Closed")))
    assert commands == (CloseRequest(1, "disposed"),)
    assert is_quiet(state)
