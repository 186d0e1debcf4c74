"""The guard against endless loops: starts along one chain of causes since anybody from outside was in it."""

import pytest

from flownb.core.commands import FinishRun, Publish, StartStep
from flownb.core.ticks import (
    Ask,
    Await,
    ChildFinished,
    EventArrived,
    EventsSent,
    GateOpened,
    RequestAnswered,
    RequestDisposed,
    RunChild,
    Sleep,
    StepFailed,
    StepsGranted,
    StreamWritten,
    Terms,
    TimerFired,
    WaitOpened,
)
from flownb.core.values import Failure
from flownb.testing import event, feed, finish, out, says, spec, started, step
from flownb.testing.feed import key, started_of

FLOW = spec(
    step("begin", "Start", ("A", "Ask"), fans="A"),
    step("work", ("A", "Reply"), ("A", "Ask", "B"), num_workers=None),
    step("sum", gathers="B", returns="A"),
    types=(event("Ask", answer="Reply"),),
)
FEW = Terms(max_starts=5)


def looping(n, terms=FEW):
    """The loop has started n steps, `begin` among them."""
    state, _ = finish(feed(started(FLOW, terms=terms))[0], "begin", out("A"))
    for _ in range(n - 2):
        state, _ = finish(state, "work", out("A"))
    return state


def chain(state):
    return started_of(state, "work")[0].chain


def test_a_chain_that_is_too_long_fails_the_run():
    """R5.70, R5.71: at more than so many starts, in words."""
    state = looping(5)
    assert (state.status, chain(state)) == ("running", 5)
    state, commands = finish(state, "work", out("A"))
    assert (state.status, state.failed_step, commands[-1]) == ("failed", -1, FinishRun())
    assert state.failure == Failure(
        "flownb.errors:Livelock",
        "Run 'run' of workflow 'flow' started more than 5 steps one after the other, each caused by the one before, "
        "and nothing from outside among them. If this is right, raise max_starts=.",
    )
    assert not any(isinstance(c, StartStep) for c in commands)


def test_a_chain_that_is_too_long_may_pause_the_run():
    """R5.71, R5.23: the gate closes for that reason; who opens it gives as many starts again."""
    state = looping(5, Terms(max_starts=5, livelock="pause"))
    state, commands = finish(state, "work", out("A"))
    assert (state.gate, state.status) == (("livelock",), "running")
    assert [c.delivery.chain for c in commands] == [6]
    again, _ = feed(state, StepsGranted(1.0, 3), GateOpened(1.0, "person"))
    again, _ = finish(again, "work", out("A"))
    assert (again.gate, again.budget) == (("livelock",), 0)  # one step passes, and it trips again
    state, _ = feed(state, GateOpened(1.0, "livelock"))
    assert (state.gate, state.head.terms.max_starts) == ((), 10)
    for _ in range(4):
        state, _ = finish(state, "work", out("A"))
    assert (state.gate, chain(state)) == ((), 10)
    state, _ = finish(state, "work", out("A"))
    assert state.gate == ("livelock",)


def test_opening_a_gate_that_is_open_grants_nothing():
    """R5.23: a reason is lifted once."""
    state, _ = feed(looping(2), GateOpened(1.0, "livelock"), GateOpened(1.0, "livelock"))
    assert state.head.terms.max_starts == 5


def test_a_fan_out_of_equal_items_is_no_chain():
    """R5.72: however many, each is one start further."""
    state, _ = finish(feed(started(FLOW, terms=FEW))[0], "begin", *(out("A", 1) for _ in range(1_000)), fan=True)
    assert state.status == "running"
    assert {d.chain for d in started_of(state, "work")} == {2}
    state, _ = feed(state, says(state, "work", EventsSent, outs=tuple(out("A", 1) for _ in range(1_000))))
    assert max(d.chain for d in started_of(state, "work")) == 3


def test_a_join_is_one_start_further_than_the_longest_of_its_causes():
    """R5.70: the fan-out, or what came of it; whoever ends last."""
    begun, _ = feed(started(FLOW, terms=Terms(max_starts=100)))
    state, _ = finish(begun, "begin", out("A"), out("A"), fan=True)
    for n in range(7):
        state, _ = finish(state, "work", out("A"), n=min(n, 1))
    state, _ = finish(state, "work", out("B"), n=1)
    state, _ = finish(state, "work", out("B"))
    assert started_of(state, "sum")[0].chain == 10
    assert finish(begun, "begin", fan=True)[1][0].delivery.chain == 2


def test_stream_writes_are_no_starts():
    """R5.72."""
    state = looping(5)
    for _ in range(20):
        state, _ = feed(state, says(state, "work", StreamWritten, out=out("A")))
    assert (state.status, chain(state)) == ("running", 5)


ENDS = {
    "a sleep": (Sleep(9.0), TimerFired(9.0, 1)),
    "an answer": (Ask(out("Ask")), RequestAnswered(9.0, 1, out("Reply"))),
    "a default": (Ask(out("Ask"), due_at=9.0, default=out("Reply")), TimerFired(9.0, 1)),
    "a deadline": (Ask(out("Ask"), due_at=9.0), TimerFired(9.0, 1)),
    "a disposal": (Ask(out("Ask")), RequestDisposed(9.0, 1)),
    "an event": (Await(key("Row")), EventArrived(9.0, out("Row"))),
    "a timeout": (Await(key("Row"), due_at=9.0), TimerFired(9.0, 1)),
}


@pytest.mark.parametrize("what", ENDS)
def test_whoever_waits_begins_a_new_chain(what):
    """R5.70, R5.72: a polling loop never trips; people, the outside and timers count as that."""
    wait, end = ENDS[what]
    state = looping(5)
    state, _ = feed(state, says(state, "work", WaitOpened, mark=1, wait=wait), end)
    assert chain(state) == 0
    state, _ = finish(state, "work", out("A"))
    assert (state.status, chain(state)) == ("running", 1)


def test_a_wait_that_ends_while_its_code_runs_begins_a_new_chain_too():
    """R5.70: what it sends from then on."""
    state = looping(5)
    for mark in (1, 2):
        state, _ = feed(state, says(state, "work", WaitOpened, mark=mark, wait=Sleep(9.0)))
    state, _ = feed(state, TimerFired(9.0, 1), TimerFired(9.0, 2))
    assert chain(state) == 0


def test_a_polling_loop_never_trips():
    """R5.72: a hundred rounds of sleep and again."""
    state = looping(2)
    for n in range(100):
        state, _ = feed(state, says(state, "work", WaitOpened, mark=1, wait=Sleep(n + 1.0)), TimerFired(n + 1.0, n + 1))
        state, _ = finish(state, "work", out("A"))
    assert state.status == "running"


def test_an_event_of_another_step_lengthens_the_chain_of_whom_it_wakes():
    """R5.70: the longer one of both counts, for no one from outside was in it."""
    flow = spec(step("begin", "Start", fans=("A", "X")), step("work", "A", "A"), step("waits", "X", ("A", "Row")))
    for rounds, expected in ((4, 6), (0, 2)):
        state, _ = finish(feed(started(flow))[0], "begin", out("A"), out("X"), fan=True)
        state, _ = feed(state, says(state, "waits", WaitOpened, mark=1, wait=Await(key("Row"))))
        for _ in range(rounds):
            state, _ = finish(state, "work", out("A"))
        state, _ = feed(state, says(state, "work", EventsSent, outs=(out("Row"),)))
        assert started_of(state, "waits")[0].chain == expected


def test_a_child_is_nobody_from_outside():
    """R5.70: what the step runs itself leaves its chain as it is."""
    state = looping(4)
    wait = RunChild("test:other", out("Start"))
    state, _ = feed(state, says(state, "work", WaitOpened, mark=1, wait=wait))
    state, _ = feed(state, ChildFinished(9.0, 1, "completed", out("Stop")))
    assert chain(state) == 4


def test_a_delayed_attempt_begins_a_new_chain():
    """R5.70: a timer is in it; one that is due at once goes on in the old one."""
    state = looping(5)
    no = Failure("E", "no")
    delayed, _ = feed(state, says(state, "work", StepFailed, failure=no, retry_at=9.0), TimerFired(9.0, 1))
    assert chain(delayed) == 0
    at_once, _ = feed(state, says(state, "work", StepFailed, failure=no, retry_at=0.0))
    assert chain(at_once) == 5


def test_the_outside_begins_a_new_chain():
    """R5.70: an event, and the answer to a question that was returned."""
    state = looping(5)
    state, commands = feed(state, EventArrived(9.0, out("A")))
    assert [c.delivery.chain for c in commands] == [1]
    state, commands = finish(state, "work", out("Ask"))
    assert [type(c) for c in commands][1:] == [Publish]
    _, commands = feed(state, RequestAnswered(9.0, 1, out("Reply")))
    assert commands[-1].delivery.chain == 1
