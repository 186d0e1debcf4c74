"""What a run owes, and what it waits for, from its state alone."""

from typing import Any

import pytest
from msgspec.structs import replace

from flownb.core.commands import ArmTimer, FinishRun, OpenRequest, StartStep
from flownb.core.life import NAMED
from flownb.core.outstanding import describe, is_quiet, is_still, outstanding, waits_for, why_stalled
from flownb.core.persist import Table
from flownb.core.state import Hold
from flownb.core.ticks import (
    Ask,
    Await,
    CancelRequested,
    Collect,
    EventArrived,
    QuietNoticed,
    RunChild,
    RunOpened,
    Sleep,
    StepFinished,
    WaitOpened,
)
from flownb.testing import event, feed, finish, out, says, spec, started, step

FLOW = spec(
    step("begin", "Start", fans="A"),
    step("work", "A", "Stop", num_workers=3),
    types=(event("Ask", answer="Reply"),),
)


def test_a_new_driver_gets_every_start_timer_and_question():
    """R1.7, R1.8, R1.15, R3.60: what is queued waits for a worker, what waits for its timer or answer."""
    state, _ = finish(feed(started(FLOW))[0], "begin", *(out("A", n) for n in range(6)), fan=True)
    state, _ = feed(state, says(state, "work", WaitOpened, mark=1, wait=Sleep(30.0)))
    state, _ = feed(state, says(state, "work", WaitOpened, n=1, mark=1, wait=Ask(out("Ask"), 60.0)))
    state, commands = feed(state, RunOpened(9.0, "another"))

    assert [c.delivery.id for c in commands] == [4, 5, 6]
    assert outstanding(state) == (
        *commands,
        *(ArmTimer(timer) for timer in state.timers.values()),
        *(OpenRequest(request) for request in state.requests.values()),
    )
    assert len(outstanding(state)) == 6
    assert all(isinstance(c, StartStep) for c in commands)


def test_an_ended_run_owes_its_end():
    """R1.18: again and again, which is safe."""
    state, _ = feed(started(FLOW), CancelRequested(0.0))
    assert outstanding(state) == (FinishRun(),)


def test_a_run_says_who_can_move_it():
    """R5.34, R5.39: open questions, the outside's own too, and types that come from outside."""
    flow = spec(step("begin", "Start", "Ask"), step("x", "Order"), step("y", "Order"), outside="Order")
    state, _ = finish(feed(started(flow))[0], "begin", out("Ask"))
    state, _ = feed(state, EventArrived(1.0, out("AskMore")))

    assert waits_for(state) == [
        "begin asks Ask (request 1)",
        "the start asks AskMore (request 2)",
        "x takes Order from outside",
        "y takes Order from outside",
    ]


def test_a_stalled_run_says_why():
    """R5.36: the unhandled event, the mailbox, steps never reached; or that all is done without a stop."""
    state, _ = feed(started(FLOW))
    assert why_stalled(state) == "never reached: begin, work"
    state, _ = finish(state, "begin", out("Lost"))
    state, _ = feed(state, EventArrived(1.0, out("Later")), EventArrived(1.0, out("Latest")))
    assert why_stalled(state) == (
        "no step took the last Lost, which step 'begin' sent though its hint says list[A]; "
        "the mailbox holds Later, Latest, which nobody waits for; never reached: work"
    )
    done, _ = finish(feed(started(spec(step("begin", "Start"))))[0], "begin")
    assert why_stalled(done) == "every step is done and none returned a StopEvent"


@pytest.mark.parametrize(
    ("hints", "said"),
    [
        ({"returns": "A"}, "A"),
        ({"returns": ("A", "B"), "fans": "C"}, "A | B | list[C]"),
        ({}, "None"),
        ({"returns": "Lost"}, ""),
        ({"fans": "Lost"}, ""),
    ],
)
def test_a_stalled_run_names_the_hint_that_was_not_kept(hints: dict[str, Any], said: str):
    """R5.36: of the step that sent the last event that nobody took."""
    flow = spec(step("begin", "Start", **hints), step("work", "A", "Stop"))
    state, _ = finish(feed(started(flow))[0], "begin", out("Lost"))
    named = f", which step 'begin' sent though its hint says {said}" if said else ""
    assert why_stalled(state) == f"no step took the last Lost{named}; never reached: work"


def test_a_delivery_is_named_by_what_it_carries():
    """One event, a list of events, an empty list."""
    assert [describe(o) for o in (out("m:A"), (out("m:A"), out("m:B")), ())] == ["A", "2 × A", "[]"]


def test_a_run_waits_for_whoever_can_move_it():
    """R5.34, R5.39: waiters and children by their steps; a shown question is named once."""
    flow = spec(step("begin", "Start", fans="A"), step("work", "A", waits=True, num_workers=None))
    state, _ = finish(feed(started(flow))[0], "begin", *(out("A", n) for n in range(3)), fan=True)
    waits = (
        Await("test:Row", due_at=60.0),
        Await("test:Row", question=out("Ask")),
        RunChild("test:other", out("Start")),
    )
    for n, wait in enumerate(waits):
        state, _ = feed(state, says(state, "work", WaitOpened, n=n, mark=1, wait=wait))

    assert waits_for(state) == [
        "work asks Ask (request 1)",
        "work waits for Row",
        "work waits for child run/4/1",
    ]


def test_a_quiet_run_names_the_first_of_very_many():
    """R5.34, R1.6: the others are more; who asks for all of them gets all."""
    flow = spec(step("begin", "Start", fans="Ask"), stalled="wait")
    state, _ = finish(feed(started(flow))[0], "begin", *(out("Ask") for _ in range(NAMED + 1)), fan=True)
    assert len(waits_for(state)) == NAMED + 1
    assert waits_for(state, NAMED) == [*waits_for(state)[:NAMED], "and more"]
    assert waits_for(state, NAMED + 1) == waits_for(state)
    _, commands = feed(state, QuietNoticed(1.0))
    assert commands[0].info["waits_for"] == tuple(waits_for(state, NAMED))


def test_a_stalled_run_names_what_was_collected_and_misses_the_rest():
    """R5.36: which collect misses what."""
    flow = spec(step("begin", "Start", fans="A"), step("gather", "A"))
    state, _ = finish(feed(started(flow))[0], "begin", out("A"), out("A"), fan=True)
    wants = (("test:A", 2), ("test:B", 1))
    for d in state.steps[1].active.values():
        collect = Collect("mine", wants, d.out, "test:A")
        state, _ = feed(state, StepFinished(0.0, "gather", d.id, d.start, collects=(collect,)))

    assert why_stalled(state) == "step gather has collected 2 × A and misses the rest"


def test_what_keeps_a_run_from_being_quiet():
    """R5.33: each of these alone: queue or running, sleep, active child, hold, held start; and a closed gate."""
    state, _ = finish(feed(started(FLOW))[0], "begin")
    assert is_still(state) and is_quiet(state)
    side = state.side
    for moving in (
        replace(state, busy=1),
        replace(state, sleeps=1),
        replace(state, side=replace(side, working=1)),
        replace(state, side=replace(side, holds=Table.of([(1, Hold("x"))]))),
        replace(state, side=replace(side, held=Table.of([(1, 0)]))),
    ):
        assert not is_still(moving)
        assert not is_quiet(moving)
    for still in (replace(state, gate=("person",)), replace(state, status="waiting")):
        assert is_still(still)
        assert not is_quiet(still)
