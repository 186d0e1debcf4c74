"""Where one event goes: an end, a person, steps, or nobody."""

import pytest
from msgspec.structs import replace

from flownb.core.commands import ArmTimer, OpenRequest, Publish, StartStep
from flownb.core.spec import EVENT
from flownb.core.state import Delivery, Request, Timer
from flownb.core.ticks import EventArrived, EventsSent
from flownb.core.values import Limit
from flownb.testing import event, feed, finish, out, says, spec, started, step
from flownb.testing.feed import key

ASK = event("Ask", answer="Reply")


def arrives(flow, what, **fields):
    return feed(feed(started(flow))[0], EventArrived(0.0, what, **fields))


def started_steps(commands):
    return [command.delivery.step for command in commands if isinstance(command, StartStep)]


def test_an_event_goes_to_every_step_that_takes_it():
    """R2.11, R2.12: a broadcast, in the order of definition, in the tick of the result."""
    flow = spec(step("begin", "Start", "A"), step("x", "A"), step("y", "B"), step("z", "A"))
    state, commands = finish(feed(started(flow))[0], "begin", out("A", 1))

    assert commands == (
        StartStep(Delivery(2, 1, out("A", 1), cause=2, at=0.0, start=1, worker=0, chain=2, rank=1)),
        StartStep(Delivery(3, 3, out("A", 1), cause=2, at=0.0, start=1, worker=0, chain=2, rank=1)),
    )
    assert state.next_delivery == 4


def test_what_one_tick_starts_is_in_step_order():
    """R2.46: whatever the order of the events that it sent."""
    flow = spec(step("begin", "Start", ("A", "B")), step("b", "B"), step("a", "A"))
    _, commands = finish(feed(started(flow))[0], "begin", out("A"), out("B"), fan=True)

    assert started_steps(commands) == [1, 2]


def test_an_event_sent_to_one_step_goes_nowhere_else():
    """R2.13."""
    flow = spec(step("begin", "Start", "A"), step("x", "A"), step("y", "A"))
    state, _ = feed(started(flow))
    state, commands = feed(state, says(state, "begin", EventsSent, outs=(out("A"),), target="y"))

    assert started_steps(commands) == [2]


def test_an_undeclared_event_goes_by_its_bases():
    """R2.19: routed by its runtime type; a join gathers it by its bases too."""
    flow = spec(step("begin", "Start", fans="A"), step("a", "A", "B"), step("sum", gathers="B", returns="Stop"))
    state, _ = finish(feed(started(flow))[0], "begin", out("New", bases=(key("A"), EVENT)), fan=True)
    state, commands = finish(state, "a", out("Newer", 5, bases=(key("B"), EVENT)))

    assert [command.delivery.out for command in commands] == [(out("Newer", 5, bases=(key("B"), EVENT)),)]


@pytest.mark.parametrize("unhandled", ["warn", "ignore"])
def test_an_event_that_no_step_takes_is_published_and_counted(unhandled):
    """R2.25 to R2.27: the run goes on."""
    flow = spec(step("begin", "Start", "Lost"), unhandled=unhandled)
    state, commands = finish(feed(started(flow))[0], "begin", out("Lost", 1))

    assert commands == (Publish("unhandled", out("Lost", 1), 0, {"key": key("Lost"), "step": None}),)
    assert (state.unhandled, state.lost, state.status) == (1, key("Lost"), "running")


def test_a_run_may_fail_for_an_event_that_no_step_takes():
    """R2.28: its policy says so; the words name event and mend."""
    flow = spec(step("begin", "Start", "Lost"), unhandled="error")
    state, commands = finish(feed(started(flow))[0], "begin", out("Lost"))

    assert state.status == "failed"
    assert state.failed_step == 0
    assert state.failure.type == "flownb.errors:WorkflowRuntimeError"
    assert "No step of workflow 'flow' takes 'test:Lost'" in state.failure.message
    assert [command.what for command in commands if isinstance(command, Publish)] == ["unhandled", "failed"]


def test_an_outside_event_that_nobody_takes_fails_nothing():
    """R2.50: it is in the mailbox, even under unhandled="error"."""
    flow = spec(step("begin", "Start"), unhandled="error")
    state, commands = arrives(flow, out("Later", 1))

    assert commands == ()
    assert list(state.mailbox) == [out("Later", 1)]
    assert (state.unhandled, state.status) == (0, "running")


def test_a_returned_question_is_open_and_goes_to_steps_that_take_it_too():
    """R2.29, R4.39, R4.43: never unhandled."""
    flow = spec(step("begin", "Start", "Ask"), step("logs", "Ask"), types=(ASK,))
    state, commands = finish(feed(started(flow))[0], "begin", out("Ask", "?"), at=5.0)

    request = Request(1, out("Ask", "?"), step=0, opened=2, opened_at=5.0)
    assert commands == (
        OpenRequest(request),
        Publish("request", out("Ask", "?"), 0, {"request": 1}),
        StartStep(Delivery(2, 1, out("Ask", "?"), cause=2, at=5.0, start=1, worker=0, chain=2, rank=1)),
    )
    assert dict(state.requests.items()) == {1: request}
    assert state.unhandled == 0


def test_a_question_may_have_a_deadline_and_a_default():
    """R1.7, R4.54: the deadline is a timer in the state, with an absolute time."""
    flow = spec(step("begin", "Start", "Ask"), types=(ASK,))
    asked = out("Ask", "?", limit=Limit(60.0, out("Reply", "no")))
    state, commands = finish(feed(started(flow))[0], "begin", asked)

    request = Request(1, asked, 0, 2, 0.0, due_at=60.0, timer=1, default=out("Reply", "no"))
    timer = Timer(1, 60.0, "deadline", ref=1)
    assert commands == (OpenRequest(request), Publish("request", asked, 0, {"request": 1}), ArmTimer(timer))
    assert dict(state.timers.items()) == {1: timer}


def test_a_question_from_outside_is_asked_too():
    """R4.39: its opener is the outside, step -1."""
    flow = spec(step("begin", "Start"), types=(ASK,))
    _, commands = arrives(flow, out("Ask", "?"))

    assert commands == (
        OpenRequest(Request(1, out("Ask", "?"), step=-1, opened=2, opened_at=0.0)),
        Publish("request", out("Ask", "?"), -1, {"request": 1}),
    )


def test_a_start_event_sent_later_is_an_ordinary_event():
    """R2.15: it begins nothing, it is taken by who takes it."""
    flow = spec(step("begin", "Start"))
    state, commands = arrives(flow, out("Start", 2))

    assert started_steps(commands) == [0]
    assert state.steps[0].active[2].out == out("Start", 2)


def test_a_question_that_is_sent_to_one_step_is_open_and_goes_to_that_step():
    """R2.13, R2.29, R4.39: a target narrows who gets the event, not what a question is."""
    flow = spec(step("begin", "Start", "Stop"), step("x", "AskA"), step("y", "AskA"))
    state, _ = feed(started(flow))
    state, commands = feed(state, says(state, "begin", EventsSent, outs=(out("AskA"),), target="y"))

    assert [type(c).__name__ for c in commands] == ["OpenRequest", "Publish", "StartStep"]
    assert commands[-1].delivery.step == 2
    assert [r.question.key for r in state.requests.values()] == ["test:AskA"]


def test_an_event_for_one_step_skips_joins_and_other_steps():
    """R2.13, R4.13: a branch in which it is sent goes on in that step alone."""
    flow = spec(
        step("begin", "Start", fans="A"), step("work", "A", "B"), step("one", "B"), step("other", "B"),
        step("sum", gathers="B"),
    )  # fmt: skip
    state, _ = finish(feed(started(flow))[0], "begin", out("A"), fan=True)
    state, commands = feed(state, says(state, "work", EventsSent, outs=(out("B"),), target="other"))
    assert started_steps(commands) == [3]
    assert state.joins[1].got.n == 0
    state, _ = finish(state, "work")
    assert state.joins[1].pending == 1


def test_an_event_sent_to_a_step_that_does_not_take_it_is_unhandled():
    """R2.14, R2.26: it is named; though others would take it."""
    flow = spec(step("begin", "Start", "A"), step("x", "A"), step("y", "B"))
    state, _ = feed(started(flow))
    for target in ("y", "nowhere"):
        state, commands = feed(state, says(state, "begin", EventsSent, outs=(out("A"),), target=target))
        assert commands == (Publish("unhandled", out("A"), 0, {"key": key("A"), "step": target}),)
    assert state.unhandled == 2


def test_what_a_branch_sends_may_be_taken_by_a_step_and_a_join():
    """R2.11, R4.8: both get it, also while steps take sets or wait for events."""
    plain = (step("begin", "Start", fans="A"), step("work", "A", "B"), step("logs", "B"), step("sum", gathers="B"))
    for more in ((), (step("pair", slots=("X", "Y")),)):
        state, _ = finish(feed(started(spec(*plain, *more)))[0], "begin", out("A"), fan=True)
        state, commands = finish(state, "work", out("B", 1))
        assert started_steps(commands) == [2]
        assert state.joins[1].got.n == 1
        _, commands = finish(state, "logs")
        assert [c.delivery.out for c in commands] == [(out("B", 1),)]


def test_a_set_in_a_branch_and_a_lost_event_beside_it():
    """R2.25, R4.13: with slotted steps too, what nobody takes is unhandled, and its branch ends."""
    flow = spec(
        step("begin", "Start", fans="A"),
        step("work", "A", "B"),
        step("pair", slots=("X", "Y")),
        step("sum", gathers="B"),
    )
    state, _ = finish(feed(started(flow))[0], "begin", out("A"), fan=True)
    state, commands = finish(state, "work", out("Lost"), out("Ask"), fan=True)
    assert [c.what for c in commands if isinstance(c, Publish)] == ["unhandled", "request"]
    assert (state.unhandled, state.joins[1].pending) == (1, 1)


def test_the_start_may_be_a_question_or_an_end():
    """R2.34, R4.39: whatever its role, it is routed like any event."""
    asked = spec(step("begin", "AskFirst"), start="AskFirst")
    first = replace(started(asked), out=out("AskFirst", "?"))
    state, commands = feed(first)
    assert [type(c) for c in commands] == [OpenRequest, Publish, StartStep]
    state, commands = feed(replace(first, out=out("Stop", 1)))
    assert (state.status, state.result) == ("completed", out("Stop", 1))


def test_an_end_reaches_no_step():
    """R2.10: not even one that takes any event, or its base."""
    flow = spec(step("begin", "Start", "Stop"), step("any", EVENT), types=(event("Stop", bases="A"),))
    state, commands = finish(feed(started(flow))[0], "begin", out("Stop", 1))
    assert started_steps(commands) == []
    assert (state.status, state.result) == ("completed", out("Stop", 1))


@pytest.mark.parametrize("fan", [True, False])
def test_all_that_a_step_returns_is_sent_with_its_result(fan):
    """R2.16, R2.48, R2.12: every element of a list in one tick, in its order; one event alone likewise."""
    flow = spec(step("begin", "Start", "A", fans="A"), step("work", "A", num_workers=None))
    outs = tuple(out("A", n) for n in range(3 if fan else 1))
    state, commands = finish(feed(started(flow))[0], "begin", *outs, fan=fan)
    assert [c.delivery.out for c in commands] == list(outs)
    assert (state.steps[0].done, state.seq) == (1, 2)
