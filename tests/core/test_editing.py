"""A person's hand in a run: what waits is another event, or goes nowhere."""

from flownb.core.commands import CloseRequest, DisarmTimer, Publish, StartStep, StopStep
from flownb.core.outstanding import why_stalled
from flownb.core.state import RunState
from flownb.core.ticks import (
    Ask,
    CancelRequested,
    EventArrived,
    EventDropped,
    EventEdited,
    EventsSent,
    Hand,
    QuietNoticed,
    StepFailed,
    StepFinished,
    TimerFired,
    WaitOpened,
)
from flownb.core.values import Failure
from flownb.testing import feed, finish, out, says, spec, started, step
from flownb.testing.feed import work_of

FLOW = spec(
    step("begin", "Start", fans="A"),
    step("work", "A", "B", num_workers=1),
    step("join", gathers="B", returns="Stop"),
)


def fanned(n: int = 3) -> RunState:
    """One `A` at work, the others queued."""
    return finish(feed(started(FLOW))[0], "begin", *(out("A", i) for i in range(n)), fan=True)[0]


def queued(state: RunState, name: str = "work") -> list[object]:
    return [(d.id, d.out.value) for d in work_of(state, name).queue]  # type: ignore[union-attr]


def edited(delivery: int, new: str = "new", name: str = "work") -> EventEdited:
    return EventEdited(9.0, name, delivery, (out("A", new),), (out("A"),), "ann")


def dropped(delivery: int, name: str = "work") -> EventDropped:
    return EventDropped(9.0, name, delivery, (out("A", "old"),), "ann")


# -- a delivery that has not begun


def test_what_waits_for_a_worker_is_edited_where_it_stands():
    """R5.29: its place in the queue stays."""
    state, commands = feed(fanned(), edited(3))
    assert commands == ()
    assert queued(state) == [(3, "new"), (4, 2)]
    state, commands = finish(state, "work", out("B", 0))
    assert [command.delivery.out.value for command in commands if type(command) is StartStep] == ["new"]


def test_what_begins_again_from_its_top_can_be_edited():
    """R5.29: a failed attempt has let go of its event."""
    state, _ = finish(feed(started(FLOW))[0], "begin", out("A", 0), fan=True)
    state, _ = feed(state, says(state, "work", StepFailed, failure=Failure("E", "no"), retry_at=20.0))
    state, _ = feed(state, edited(2))
    state, commands = feed(state, TimerFired(20.0, 1))
    assert [(c.delivery.attempt, c.delivery.out.value) for c in commands if type(c) is StartStep] == [(2, "new")]


def test_an_edit_that_comes_too_late_changes_nothing():
    """R3.19, R5.29: of what runs, of what waits with its code, and of what is gone."""
    state = fanned()
    for late in (edited(2), edited(99), edited(3, name="no such step")):
        before = state
        state, commands = feed(state, late)
        assert (commands, state.ignored) == ((), before.ignored + 1)
        assert state.steps == before.steps
    asking, _ = feed(state, says(state, "work", WaitOpened, mark=1, wait=Ask(out("AskIt"))))
    assert feed(asking, edited(2))[0].steps == asking.steps


def test_several_events_of_one_delivery_are_edited_together():
    """R5.29: of a step that gathers."""
    flow = spec(step("begin", "Start", fans="A"), step("join", gathers="A", returns="Stop", num_workers=1))
    state, _ = finish(feed(started(flow))[0], "begin", out("A", 1), out("A", 2), fan=True)
    state, _ = feed(state, says(state, "join", StepFailed, failure=Failure("E", "no"), retry_at=20.0))
    given = (out("A", 7), out("A", 8))
    state, _ = feed(state, EventEdited(9.0, "join", 2, given, (), "ann"))
    _, commands = feed(state, TimerFired(20.0, 1))
    assert [c.delivery.out for c in commands if type(c) is StartStep] == [given]


# -- a delivery that goes nowhere


def test_a_dropped_delivery_ends_its_branch_as_unhandled():
    """R5.30: the join does not wait for it, and the stream says who dropped it."""
    state, commands = feed(fanned(), dropped(3))
    assert commands == (Publish("unhandled", out("A", "old"), 1, {"key": "test:A", "step": None, "dropped_by": "ann"}),)
    assert (queued(state), state.unhandled) == ([(4, 2)], 1)
    state, _ = finish(state, "work", out("B", 0))
    state, commands = finish(state, "work", out("B", 2))
    assert [[o.value for o in c.delivery.out] for c in commands if type(c) is StartStep] == [[0, 2]]


def test_the_last_branch_may_be_the_one_that_is_dropped():
    """R5.30, R4.39."""
    state, _ = finish(fanned(2), "work", out("B", 0))
    state, commands = feed(state, dropped(3))
    assert [[o.value for o in c.delivery.out] for c in commands if type(c) is StartStep] == [[0]]
    assert StopStep(1, 3, 1) in commands, "it ran by then"


def test_a_dropped_delivery_takes_what_it_waits_for_with_it():
    """R5.30, R6.46: questions, timers, the next attempt."""
    state = fanned(1)
    asks, _ = feed(state, says(state, "work", WaitOpened, mark=1, wait=Ask(out("AskIt"), due_at=50.0)))
    _, commands = feed(asks, dropped(2))
    assert CloseRequest(1, "withdrawn") in commands and DisarmTimer(1) in commands
    again, _ = feed(state, says(state, "work", StepFailed, failure=Failure("E", "no"), retry_at=20.0))
    after, commands = feed(again, dropped(2))
    assert DisarmTimer(1) in commands
    assert after.sleeps == 0


def test_what_a_breakpoint_holds_can_be_dropped():
    """R5.25, R5.30."""
    state, _ = feed(fanned(2), says(fanned(2), "work", StepFinished, outs=(out("B"),), held=(3,)))
    assert state.side.held.n == 1
    state, _ = feed(state, dropped(3))
    assert state.side.held.n == 0


def test_a_drop_of_what_is_gone_is_late():
    """R3.19."""
    state, commands = feed(fanned(), dropped(99), dropped(2, "nowhere"))
    assert (commands, state.ignored, state.unhandled) == ((), 2, 0)


def test_a_waiting_run_is_quiet_anew_without_what_was_dropped():
    """R5.30, R5.36: nobody moves it any more, and the reason says why."""
    flow = spec(step("begin", "Start", "A"), step("work", "A", "Stop"))
    state, _ = finish(feed(started(flow))[0], "begin", out("A"))
    state, _ = feed(state, says(state, "work", WaitOpened, mark=1, wait=Ask(out("AskIt"))), QuietNoticed(5.0))
    assert state.status == "waiting"
    state, _ = feed(state, dropped(2))
    assert state.status == "running"
    assert "somebody dropped the last A" in why_stalled(state)
    state, _ = feed(state, QuietNoticed(9.0))
    assert state.status == "failed" and "somebody dropped the last A" in state.failure.message  # type: ignore[union-attr]


def test_what_is_dropped_while_a_run_is_cancelled_routes_nothing():
    """R5.51."""
    flow = spec(
        step("begin", "Start", fans="A"),
        step("work", "A", "B", num_workers=1),
        step("join", gathers="B", returns="Stop"),
        step("tidy", "Gone", on_cancel=True),
    )
    state, _ = finish(feed(started(flow))[0], "begin", out("A", 0), out("A", 1), fan=True)
    state, _ = feed(state, CancelRequested(5.0, "enough", "ann", out("Gone")))
    assert state.status == "cancelling"
    tidy = next(iter(work_of(state, "tidy").active.values()))
    state, _ = feed(state, EventDropped(6.0, "tidy", tidy.id, (out("Gone"),), "ann"))
    assert state.status == "cancelled"


# -- before the gate


def test_an_edited_send_is_in_the_ledger_as_its_code_sent_it():
    """R3.49, R5.29: code that runs again is not taken for one that sends something new."""
    flow = spec(step("begin", "Start", "A"), step("work", "A", "Stop"))
    state, _ = feed(started(flow))
    hand = Hand("ann", (out("A", "old"),))
    state, commands = feed(state, says(state, "begin", EventsSent, outs=(out("A", "new"),), hand=hand))
    (did,) = work_of(state, "begin").active[1].ledger.did  # type: ignore[union-attr]
    assert did.out == out("A", "old")  # type: ignore[union-attr]
    assert [c.delivery.out.value for c in commands if type(c) is StartStep] == ["new"]


def test_a_dropped_send_goes_nowhere_and_was_sent():
    """R5.30, R3.49: its branch goes on with its sender."""
    state = fanned(1)
    hand = Hand("ann", (out("B", "old"),), is_dropped=True)
    state, commands = feed(state, says(state, "work", EventsSent, outs=(), hand=hand))
    assert commands == (Publish("unhandled", out("B", "old"), 1, {"key": "test:B", "step": None, "dropped_by": "ann"}),)
    (did,) = work_of(state, "work").active[2].ledger.did  # type: ignore[union-attr]
    assert did.out == out("B", "old")  # type: ignore[union-attr]
    state, commands = finish(state, "work", out("B", 1))
    assert [[o.value for o in c.delivery.out] for c in commands if type(c) is StartStep] == [[1]]


def test_a_dropped_event_from_outside_goes_nowhere_and_has_come():
    """R5.30, R2.33: the same once more changes nothing."""
    flow = spec(step("begin", "Start", "A"), step("work", "C", "Stop"), outside="C")
    state, _ = finish(feed(started(flow))[0], "begin")
    came = EventArrived(5.0, out("C"), key="once", hand=Hand("ann", (out("C"),), is_dropped=True))
    state, commands = feed(state, came)
    assert commands == (Publish("unhandled", out("C"), -1, {"key": "test:C", "step": None, "dropped_by": "ann"}),)
    again, commands = feed(state, EventArrived(6.0, out("C"), key="once"))
    assert (commands, again.ignored) == ((), 1)
    waits, _ = feed(state, QuietNoticed(7.0))
    after, _ = feed(waits, EventArrived(8.0, out("C"), hand=Hand("ann", (out("C"),), is_dropped=True)))
    assert (waits.status, after.status) == ("waiting", "running")


def test_a_timer_that_is_fired_by_hand_is_done_with():
    """R5.31, R3.4: of a rate too, which comes too early otherwise."""
    slow = spec(step("begin", "Start", fans="A"), step("work", "A", rate=0.5, num_workers=None))
    state, _ = finish(feed(started(slow, at=10.0))[0], "begin", out("A"), out("A"), fan=True)
    early = TimerFired(11.0, 1, hand=Hand("ann", early_s=1.0))
    state, commands = feed(state, early)
    assert [c.delivery.id for c in commands if type(c) is StartStep] == [3]
