"""Questions that a re-run changes, whose countdown is held, or that ask what became of a lost delivery."""

import pytest

from flownb.core.commands import (
    ArmTimer,
    CloseRequest,
    DisarmTimer,
    FinishRun,
    OpenRequest,
    Publish,
    StartStep,
    StopChild,
    WakeStep,
)
from flownb.core.outstanding import is_quiet, outstanding
from flownb.core.state import UNKNOWN, Ended, Outcome, Wake
from flownb.core.ticks import (
    Ask,
    Await,
    EventArrived,
    HoldChanged,
    QuietNoticed,
    RequestAnswered,
    RequestDisposed,
    RequestHeld,
    RunChild,
    RunOpened,
    Sleep,
    StepFailed,
    StepFinished,
    TimerFired,
    WaitOpened,
    WaitWithdrawn,
)
from flownb.core.values import Failure, Limit
from flownb.testing import event, feed, finish, out, says, spec, started, step
from flownb.testing.feed import key, work_of

ASK = event("Ask", answer="Reply")
FLOW = spec(
    step("begin", "Start", fans="A"),
    step("work", "A", ("B", "Ask"), num_workers=1, idempotent=False),
    step("use", ("B", "Reply"), "Stop"),
    types=(ASK,),
    stalled="wait",
)


def running(n=1, flow=FLOW):
    return finish(feed(started(flow, at=1.0))[0], "begin", *(out("A", i) for i in range(n)), fan=True)[0]


def waits(state, wait, *, mark=1, n=0, at=None):
    return feed(state, says(state, "work", WaitOpened, n=n, mark=mark, wait=wait, at=at))


def woken(commands):
    return [(c.delivery.id, c.wakes) for c in commands if isinstance(c, WakeStep)]


# The countdown


def test_a_held_question_waits_for_ever():
    """R4.56: no deadline takes it away; its timer is gone, an answer is as good as ever."""
    state, _ = waits(running(), Ask(out("Ask"), due_at=60.0))
    state, commands = feed(state, RequestHeld(5.0, 1, "ann"))
    assert commands == (DisarmTimer(1),)
    assert (state.requests[1].due_at, state.requests[1].timer) == (None, 0)
    late, commands = feed(state, TimerFired(60.0, 1))
    assert (commands, late.ignored) == ((), 1)
    _, commands = feed(state, RequestAnswered(99.0, 1, out("Reply")))
    assert woken(commands) == [(2, (Wake(1, Outcome("answered", out("Reply"))),))]


def test_a_returned_question_is_held_too():
    """R4.56."""
    state, _ = finish(running(), "work", out("Ask", limit=Limit(60.0, out("Reply"))))
    state, commands = feed(state, RequestHeld(5.0, 1))
    assert commands == (DisarmTimer(1),)
    assert outstanding(state) == (OpenRequest(state.requests[1]),)


def test_a_question_without_a_countdown_is_not_held():
    """R4.56, R1.4: nor one that is unknown."""
    state, _ = waits(running(), Ask(out("Ask")))
    for number in (1, 7):
        after, commands = feed(state, RequestHeld(5.0, number))
        assert (commands, after.ignored) == ((), 1)


# What a re-run asks instead


def test_a_superseded_question_is_closed_and_the_new_one_names_it():
    """R4.70, R4.80: its code runs again from the top and asks something else; an old answer finds nobody (R4.71)."""
    state, _ = waits(running(), Ask(out("Ask", "old")))
    state, _ = waits(state, Sleep(5.0), mark=2)
    state, _ = feed(state, RunOpened(2.0, "another"), TimerFired(5.0, 1))
    assert work_of(state, "work").active[2].start == 2
    state, commands = feed(state, RequestDisposed(6.0, 1, "superseded", superseded=True))
    assert commands == (CloseRequest(1, "superseded"),)
    state, commands = waits(state, Ask(out("Ask", "new"), supersedes=1), mark=3)
    assert (state.requests[2].supersedes, list(state.requests)) == (1, [2])
    assert [type(c) for c in commands] == [OpenRequest, Publish]
    late, commands = feed(state, RequestAnswered(7.0, 1, out("Reply")))
    assert (commands, late.ignored) == ((), 1)
    outcomes = [entry for entry in work_of(state, "work").waiting[2].ledger.did if isinstance(entry, Ended)]
    assert outcomes == [Ended(1, Outcome("superseded")), Ended(2, Outcome("slept"))]


def test_a_delivery_whose_only_wait_is_superseded_goes_on():
    """R4.80: its code runs, so it holds a worker, over the limit if need be; if it is lost, it starts again."""
    state, _ = waits(running(2), Ask(out("Ask", "old")))
    alive, commands = feed(state, RequestDisposed(2.0, 1, "superseded", superseded=True))
    assert commands == (CloseRequest(1, "superseded"),)
    assert {d.id: d.worker for d in work_of(alive, "work").active.values()} == {2: 1, 3: 0}
    assert alive.busy == 2

    lost, _ = feed(state, RunOpened(2.0, "another"))
    lost, commands = feed(lost, RequestDisposed(3.0, 1, "superseded", superseded=True))
    assert commands == (CloseRequest(1, "superseded"),)
    assert (lost.busy, list(work_of(lost, "work").again)) == (2, [2])
    _, commands = finish(lost, "work", n=1)
    assert [(c.delivery.id, c.delivery.start) for c in commands] == [(2, 2)]


def test_a_superseded_question_of_an_attempt_to_come_wakes_nobody():
    """R4.80, R3.28."""
    state, _ = waits(running(), Ask(out("Ask", "old")))
    state, _ = feed(state, says(state, "work", StepFailed, failure=Failure("E", "no"), retry_at=60.0))
    state, commands = feed(state, RequestDisposed(2.0, 1, "superseded", superseded=True))
    assert commands == (CloseRequest(1, "superseded"),)
    assert (state.busy, state.sleeps) == (0, 1)


def test_a_returned_question_cannot_be_superseded():
    """R4.80: no code waits for it, so it is disposed of like any other."""
    state, _ = finish(running(), "work", out("Ask"))
    state, commands = feed(state, RequestDisposed(2.0, 1, "superseded", superseded=True))
    assert commands[0] == CloseRequest(1, "disposed")
    assert state.failure.type == "flownb.errors:RequestDisposed"


# What became of a lost delivery


def lost(n=2, *waits_open):
    """Delivery 2 ran when its driver was lost, and must not simply run again."""
    state = running(n)
    for mark, wait in enumerate(waits_open, 1):
        state, _ = waits(state, wait, mark=mark)
    return feed(state, RunOpened(9.0, "another", unknown={2: out("AskWhat", "what became of it?")}))


def test_a_delivery_of_unknown_outcome_is_held_as_a_question():
    """R3.62: its worker is free, it does not start; the run waits for the answer (R5.34)."""
    state, commands = lost()
    request = state.requests[1]
    assert (request.kind, request.delivery, request.mark, request.opened) == ("unknown", 2, UNKNOWN, 3)
    assert commands == (
        OpenRequest(request),
        Publish("request", out("AskWhat", "what became of it?"), 1, {"request": 1}, 2),
        StartStep(work_of(state, "work").active[3]),
    )
    state, _ = finish(state, "work", n=1)
    assert is_quiet(state)
    state, commands = feed(state, QuietNoticed(10.0))
    assert commands[0].info["waits_for"] == ("work asks AskWhat (request 1)",)


def test_what_was_not_running_is_not_asked_about():
    """R3.62: a delivery that waits or is queued runs no risk."""
    state, _ = waits(running(2), Sleep(50.0))
    _, commands = feed(state, RunOpened(9.0, "another", unknown={2: out("AskWhat"), 9: out("AskWhat")}))
    assert [type(c) for c in commands] == [StartStep]


def test_a_lost_delivery_may_run_again():
    """R3.62, R3.60: the same attempt, with the next start number, ahead of the queue; a person begins a new chain."""
    state, _ = lost()
    state, commands = feed(state, RequestAnswered(20.0, 1, out("Value"), decision="retry"))
    assert commands == (CloseRequest(1, "answered"),)
    state, commands = finish(state, "work", n=1)
    assert [(c.delivery.id, c.delivery.attempt, c.delivery.start, c.delivery.chain) for c in commands] == [(2, 1, 2, 0)]


def test_a_lost_delivery_may_be_done():
    """R3.62: with an event, which goes on as if it had returned it."""
    state, _ = lost()
    state, commands = feed(state, RequestAnswered(20.0, 1, out("B", "by hand"), decision="done"))
    assert [type(c) for c in commands] == [CloseRequest, StartStep]
    d = commands[1].delivery
    assert (d.out, d.step, d.chain) == (out("B", "by hand"), 2, 1)
    assert (work_of(state, "work").done, work_of(state, "work").failed) == (1, 0)


def test_a_lost_delivery_may_be_skipped():
    """R3.62, R5.33: None is no event; a waiting run is quiet anew."""
    state, _ = lost(1)
    state, _ = feed(state, QuietNoticed(10.0))
    assert state.status == "waiting"
    state, commands = feed(state, RequestAnswered(20.0, 1, out("Value", None), decision="done"))
    assert commands == (CloseRequest(1, "answered"),)
    assert (is_quiet(state), work_of(state, "work").done) == (True, 1)


def test_a_lost_delivery_may_have_failed():
    """R3.62: then the run fails, saying who said so."""
    state, _ = lost()
    state, commands = feed(state, RequestAnswered(20.0, 1, out("Value"), "ann", decision="fail"))
    assert commands[-1] == FinishRun()
    assert state.failure == Failure(
        "flownb.errors:StepLost", "Step 'work' was lost while it ran, and ann said that it failed."
    )
    assert (state.failed_step, state.end.failed_delivery, work_of(state, "work").failed) == (1, 2, 1)
    nobody, _ = feed(lost()[0], RequestAnswered(20.0, 1, out("Value"), decision="fail"))
    assert "and somebody said" in nobody.failure.message


def test_a_lost_delivery_that_is_done_may_end_the_run():
    """R2.39."""
    state, _ = feed(lost()[0], RequestAnswered(20.0, 1, out("Stop", 5), decision="done"))
    assert (state.status, state.result) == ("completed", out("Stop", 5))


def test_a_lost_delivery_in_a_branch_pays_its_join():
    """R4.22: done or skipped, the join fires."""
    flow = spec(step("begin", "Start", fans="A"), step("work", "A", "B", idempotent=False), step("sum", gathers="B"))
    for answer, gathered in ((out("B", 1), (out("B", 1),)), (out("Value"), ())):
        state, _ = feed(running(1, flow), RunOpened(9.0, "another", unknown={2: out("AskWhat")}))
        assert state.joins[1].pending == 1
        _, commands = feed(state, RequestAnswered(20.0, 1, answer, decision="done"))
        assert commands[-1].delivery.out == gathered


def test_nobody_can_dispose_of_what_became_of_a_delivery():
    """R3.62: somebody has to say it."""
    state, _ = lost()
    for superseded in (False, True):
        after, commands = feed(state, RequestDisposed(10.0, 1, "moot", superseded=superseded))
        assert (commands, after.ignored) == ((), 1)


def test_a_lost_delivery_does_not_start_because_of_its_other_waits():
    """R3.62: it held a worker, with another wait open; first somebody says what became of it."""
    state, _ = waits(running(1), Sleep(50.0))
    state, _ = waits(state, Sleep(5.0), mark=2)
    state, _ = feed(state, TimerFired(5.0, 2))
    state, _ = feed(state, RunOpened(9.0, "another", unknown={2: out("AskWhat")}))
    state, commands = feed(state, TimerFired(50.0, 1))
    assert (commands, state.busy) == ((), 0)
    again, commands = feed(state, RunOpened(51.0, "a third"))
    assert commands == ()
    _, commands = feed(again, RequestAnswered(60.0, 1, out("Value"), decision="retry"))
    assert [type(c) for c in commands] == [CloseRequest, StartStep]
    assert Ended(1, Outcome("slept")) in list(commands[1].delivery.ledger.did)


def test_a_lost_delivery_that_is_over_leaves_nothing_behind():
    """R4.41, R5.38: its waits, children and holds go with it."""
    state = running(1)
    state, _ = waits(state, Sleep(50.0), mark=1)
    state, _ = waits(state, Ask(out("Ask")), mark=2)
    state, _ = waits(state, Await(key("Row")), mark=3)
    state, _ = waits(state, RunChild("test:other", out("Start")), mark=4)
    state, _ = waits(state, Sleep(5.0), mark=5)
    state, _ = feed(state, HoldChanged(4.0, 1, "a webhook", 2), TimerFired(5.0, 2))
    state, _ = feed(state, RunOpened(9.0, "another", unknown={2: out("AskWhat")}))
    question = next(r.id for r in state.requests.values() if r.kind == "unknown")
    state, commands = feed(state, RequestAnswered(20.0, question, out("Value"), decision="done"))

    assert commands == (
        CloseRequest(2, "answered"),
        DisarmTimer(1),
        CloseRequest(1, "withdrawn"),
        StopChild(1, "withdrawn"),
    )
    side = state.side
    assert (state.sleeps, len(side.waiters), len(side.children), side.working, len(side.holds)) == (0, 0, 0, 0, 0)


# Marks, and what comes late


def test_a_withdrawal_is_for_one_mark():
    """R4.28, R1.4: an unknown mark, or one that is over, is only counted."""
    state, _ = waits(running(), Sleep(50.0))
    after, commands = feed(state, says(state, "work", WaitWithdrawn, mark=7))
    assert (commands, after.ignored) == ((), 1)


def test_a_new_deadline_belongs_to_its_question_alone():
    """R1.41: numbers count on; two questions of one delivery have two timers."""
    state, first = waits(running(), Ask(out("Ask", 1), due_at=60.0))
    state, second = waits(state, Ask(out("Ask", 2), due_at=70.0), mark=2)
    assert [c.timer.id for c in (*first, *second) if isinstance(c, ArmTimer)] == [1, 2]
    state, commands = feed(state, TimerFired(60.0, 1))
    assert commands[0] == CloseRequest(1, "expired")
    assert list(state.timers) == [2]


@pytest.mark.parametrize(
    "tick",
    [
        RequestAnswered(2.0, 9, out("Reply")),
        RequestDisposed(2.0, 9),
        RequestDisposed(2.0, 9, superseded=True),
        TimerFired(2.0, 9),
        StepFinished(2.0, "work", 9, 1),
        EventArrived(2.0, out("A"), key="again"),
    ],
)
def test_what_nobody_knows_is_ignored(tick):
    """R1.4, R3.19, R2.33."""
    state, _ = feed(running(), EventArrived(2.0, out("Other"), key="again"))
    after, commands = feed(state, tick)
    assert (commands, after.ignored, after.steps, after.mailbox) == ((), 1, state.steps, state.mailbox)


def test_a_question_whose_end_only_a_list_gathers_goes_on_in_its_branch():
    """R4.76, R4.20: list[... | RequestClosedEvent] takes it; one that belongs to another fan-out does not."""
    flow = spec(
        step("begin", "Start", "Ask", fans="A"),
        step("work", "A", ("B", "Ask")),
        step("sum", gathers=("B", "Closed")),
        types=(ASK,),
    )
    state, _ = finish(running(2, flow), "work", out("Ask"))
    state, commands = feed(state, RequestDisposed(2.0, 1, closed=out("Closed", "why")))
    assert commands == (CloseRequest(1, "disposed"),)
    _, commands = finish(state, "work", out("B"))
    assert [c.delivery.out for c in commands] == [(out("Closed", "why"), out("B"))]

    state, _ = finish(feed(started(flow))[0], "begin", out("Ask"))
    state, _ = feed(state, RequestDisposed(2.0, 1, closed=out("Closed")))
    assert state.failure.type == "flownb.errors:RequestDisposed"

    stray = spec(
        step("begin", "Start", fans="A"),
        step("work", "A", "B"),
        step("sum", gathers="B"),
        step("other", "X", fans="Closed"),
        step("ends", gathers="Closed"),
        types=(ASK,),
    )
    state, _ = finish(running(1, stray), "work", out("Ask"))
    state, _ = feed(state, RequestDisposed(2.0, 1, closed=out("Closed")))
    assert state.failure.type == "flownb.errors:RequestDisposed"


def test_a_recovered_branch_that_asks_keeps_its_budget():
    """R3.38: the question is one of the causes of what its answer leads to."""
    flow = spec(
        step("begin", "Start", fans="A"),
        step("work", ("A", "Reply"), "B"),
        step("rescue", "Failed", "Ask", catches=(), max_recoveries=1),
        step("sum", gathers="B"),
        types=(ASK,),
    )
    state = running(1, flow)
    state, _ = feed(state, says(state, "work", StepFailed, failure=Failure("E", "no"), failed=out("Failed")))
    state, _ = finish(state, "rescue", out("Ask"))
    state, _ = feed(state, RequestAnswered(2.0, 1, out("Reply")))
    state, _ = feed(state, says(state, "work", StepFailed, failure=Failure("E", "again"), failed=out("Failed")))
    assert (state.status, state.failure.message) == ("failed", "again")
