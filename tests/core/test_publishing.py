"""What one tick puts on the stream, with where it came from."""

import pytest

from flownb.core import ticks as t
from flownb.core.commands import Publish
from flownb.core.publishing import Published, publications
from flownb.core.reduce import begin, reduce
from flownb.core.state import RunState
from flownb.core.values import Failure
from flownb.testing.feed import finish, out, spec, started, step

CHAIN = spec(step("load", "Start", "Row"), step("work", "Row", "Stop"))


def play() -> RunState:
    """`work` runs delivery 2, which tick 2 sent."""
    return finish(begin(started(CHAIN))[0], "load", out("Row"))[0]


def published(state: RunState, tick: t.AnyTick) -> list[Published]:
    after, commands = reduce(state, tick)
    return publications(state, tick, after, commands)


def test_an_item_says_where_it_comes_from_and_what_led_to_it():
    """R2.47: number, step and delivery, source, cause."""
    item = Publish("event", out("One"), 1, delivery=2)
    assert published(play(), t.StreamWritten(5.0, "work", 2, 1, out("One"))) == [
        Published(3, 0, item, 5.0, "work", 2, "step", 2)
    ]


def test_the_items_of_a_tick_are_numbered_in_order():
    found = published(play(), t.StepFinished(5.0, "work", 2, 1, (out("Odd"), out("More"))))
    assert [(p.seq, p.n, p.item.what, p.delivery) for p in found] == [(3, 0, "unhandled", 2), (3, 1, "unhandled", 2)]


def test_the_end_by_a_step_names_the_delivery_that_brought_it():
    (end,) = published(play(), t.StepFinished(5.0, "work", 2, 1, (out("Stop"),)))
    assert (end.item.what, end.step, end.delivery, end.source, end.cause) == ("stop", "work", 2, "step", 2)


@pytest.mark.parametrize(("is_last", "idle"), [(True, True), (False, False)])
def test_an_event_that_nobody_took_says_whether_anything_moves_still(is_last: bool, idle: bool):
    """R2.26."""
    tick = (
        t.StepFinished(5.0, "work", 2, 1, (out("Odd"),)) if is_last else t.EventsSent(5.0, "work", 2, 1, (out("Odd"),))
    )
    (found,) = published(play(), tick)
    assert (found.item.what, found.facts) == ("unhandled", {"idle": idle})


def test_a_failure_says_how_often_its_step_was_tried():
    """R5.56."""
    odd = Failure("m:Odd", "no")
    state, _ = reduce(play(), t.StepFailed(5.0, "work", 2, 1, odd, 5.0))
    (found,) = published(state, t.StepFailed(6.0, "work", 2, 2, odd))
    assert (found.item.what, found.step, found.delivery, found.facts) == ("failed", "work", 2, {"attempts": 2})


def test_a_failure_of_the_engine_itself_has_no_attempts():
    flow = spec(step("load", "Start", "Row"))
    state, _ = finish(begin(started(flow))[0], "load")
    (found,) = published(state, t.QuietNoticed(5.0))
    assert (found.item.what, found.step, found.source, found.facts) == ("failed", "", "engine", {})


def test_the_first_tick_and_a_person_are_named_too():
    first = started(spec(step("work", "Row")))
    state, commands = begin(first)
    (found,) = publications(None, first, state, commands)
    assert (found.item.what, found.source, found.cause) == ("unhandled", "outside", 0)
    (found,) = published(play(), t.CancelRequested(5.0, "off", "ann"))
    assert (found.item.what, found.step, found.delivery, found.source) == ("cancelled", "", 0, "outside")


def test_a_step_that_rewinds_is_named_with_its_delivery():
    """R3.54."""
    state, _ = reduce(play(), t.StreamWritten(5.0, "work", 2, 1, out("One")))
    (found,) = published(state, t.StreamRewound(6.0, "work", 2, 1))
    assert (found.item.what, found.step, found.delivery, found.item.info) == ("rewound", "work", 2, {"written": 1})
