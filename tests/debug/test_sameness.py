"""What of a tick matters between two runs."""

import dataclasses
import enum
from typing import Any, get_args

import numpy as np
import pandas as pd
import pytest
from msgspec.structs import replace
from pydantic import SecretStr

from flownb import Event
from flownb.core import ticks as t
from flownb.core.values import Failure, Out
from flownb.debug.sameness import DRIVING, TITLED, content, differences, is_alike, line_of, title_of, words_of
from flownb.events import StepFailedEvent
from flownb.runtime.results import value_out
from tests.runtime.flows import Approve, Done, Item


def out(event: Event) -> Out:
    return value_out(event)


def finished(*events: Event, **more: Any) -> t.StepFinished:
    return t.StepFinished(1.0, "work", 1, 1, tuple(map(out, events)), **more)


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Point:
    x: int
    y: Any = None


class Opaque:
    pass


class Broken:
    def __repr__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("one", "same", "other"),
    [
        (1, 1, 2),
        ("a", "a", "b"),
        (float("nan"), float("nan"), 1.0),
        (1, 1, True),
        ([1, {"a": {2}}], [1, {"a": {2}}], [1, {"a": {3}}]),
        ((1,), (1,), [1]),
        (Item(no=1), Item(no=1), Done(no=1)),
        (Item(no=1, more=[1]), Item(no=1, more=[1]), Item(no=1, more=[2])),
        (Point(1, [2]), Point(1, [2]), Point(1, [3])),
        (Colour.RED, Colour.RED, "RED"),
        (Failure("a", "b"), Failure("a", "b"), Failure("a", "c")),
        (np.arange(3), np.arange(3), np.arange(4)),
        (np.array([None, "a"]), np.array([None, "a"]), np.array([None, "b"])),
        (np.arange(3.0), np.arange(3.0), np.arange(3)),
        (pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": [1, 3]})),
        (pd.Series([1, 2], name="x"), pd.Series([1, 2], name="x"), pd.Series([1, 2], name="y")),
        (pd.Timestamp("2024-01-01"), pd.Timestamp("2024-01-01"), pd.Timestamp("2024-01-02")),
        (SecretStr("a"), SecretStr("b"), "a"),
        (ValueError("a"), ValueError("b"), KeyError("a")),
    ],
)
def test_equal_content_is_the_same(one: Any, same: Any, other: Any):
    """R2.6: without a user's `==`; tables by their data, secrets and texts of errors not at all."""
    assert content(one) == content(same)
    assert content(one) != content(other)
    hash(content(one))


def test_an_object_of_which_nothing_is_known_counts_by_identity():
    """R2.6: as between two values in memory."""
    one = Opaque()
    assert content(one) == content(one) != content(Opaque())


def test_a_failure_event_is_known_by_step_event_type_and_attempts():
    """R3.36: not by its times."""

    def failed(**more: Any) -> StepFailedEvent:
        fields = {"step_name": "a", "input_event": Item(no=1), "exception": ValueError("x"), "attempts": 1}
        return StepFailedEvent(**{**fields, "elapsed_seconds": 1.0, "failed_at": 2.0, **more})

    assert content(failed()) == content(failed(elapsed_seconds=5.0, failed_at=9.0, exception=ValueError("y")))
    assert content(failed()) != content(failed(attempts=2))
    assert content(failed()) != content(failed(exception=KeyError("x")))


def test_times_and_ids_do_not_matter():
    """R6.43: nor who answered, nor what a failure's text is."""
    pairs: list[tuple[Any, dict[str, Any]]] = [
        (finished(Done(no=1)), {"at": 9.0, "delivery": 7, "start": 3}),
        (t.RequestAnswered(1.0, 1, value_out(True), "ann"), {"request": 5, "by": "bob", "how": "policy"}),
        (t.StepFailed(1.0, "work", 1, 1, Failure("m:E", "a", "b")), {"failure": Failure("m:E", "c", "d")}),
        (t.ValueRecorded(1.0, "work", 1, 1, "now", value_out(1.0)), {"out": value_out(2.0)}),
        (t.WaitOpened(1.0, "work", 1, 1, 1, t.Sleep(5.0, "2 s")), {"wait": t.Sleep(9.0, "2 s"), "mark": 4}),
        (t.WaitOpened(1.0, "work", 1, 1, 1, t.Ask(out(Approve()))), {"wait": t.Ask(out(Approve()), 3.0)}),
    ]
    for tick, others in pairs:
        assert is_alike(tick, replace(tick, **others))
        assert differences(tick, replace(tick, **others)) == ""


def test_differences_are_told_in_words():
    """R6.43: kind, step, events, failure type."""
    one = finished(Done(no=1))
    told = {
        differences(one, finished(Done(no=2))): "result was Done(no=1), and is Done(no=2)",
        differences(one, finished()): "result was Done(no=1), and is None",
        differences(one, finished(Done(no=1), fan=True)): "result was Done(no=1), and is [Done(no=1)]",
        differences(one, replace(one, step="other")): "step was work, and is other",
        differences(one, t.StepFailed(1.0, "work", 1, 1, Failure("builtins:ValueError", ""))): (
            "StepFinished of work: Done(no=1) became StepFailed of work: ValueError, given up"
        ),
        differences(
            t.StateWritten(1.0, "work", 1, 1, {"a": value_out(1)}),
            t.StateWritten(1.0, "work", 1, 1, {"a": value_out(1)}, ("b",)),
        ): "dropped was nothing, and is without b",
        differences(finished(Item(no=1, x=Opaque())), finished(Item(no=1, x=Opaque()))).partition(" (")[0]: (
            "result was Item"
        ),
    }
    for said, wanted in list(told.items())[:-1]:
        assert said == wanted


def test_every_kind_of_tick_is_driving_or_has_a_line_and_a_title():
    """A new tick is one of the two, by a decision."""
    edited = t.EventEdited(1.0, "work", 2, (out(Item(no=2)),), (out(Item(no=1)),), "ann")
    assert line_of(edited) == "EventEdited of work: Item(no=2), in the place of Item(no=1)"
    assert line_of(t.EventDropped(1.0, "work", 2, (out(Item(no=1)),))) == "EventDropped of work: Item(no=1)"
    left = {t.QuietNoticed, t.RequestHeld, t.HoldChanged, t.TimerFired}
    for kind in get_args(t.AnyTick):
        assert issubclass(kind, DRIVING) or issubclass(kind, TITLED) or kind in left, kind
    assert title_of(finished(Done(no=1), Done(no=2), Item(no=1))) == "StepFinished of work: 2 Done, Item"
    assert title_of(t.WaitOpened(1.0, "work", 1, 1, 1, t.Ask(out(Approve())))) == "WaitOpened of work: Ask, Approve"
    assert title_of(t.WaitOpened(1.0, "w", 1, 1, 1, t.Await("m:Ping"))) == "WaitOpened of w: Await, Ping"
    assert title_of(t.WaitOpened(1.0, "w", 1, 1, 1, t.RunChild("m:Child", out(Item(no=1))))).startswith(
        "WaitOpened of w: RunChild, Child"
    )
    assert title_of(t.StateWritten(1.0, "w", 1, 1, {"a": value_out(1)}, ("b",))) == "StateWritten of w: a, -b"
    assert title_of(t.StepFailed(1.0, "w", 1, 1, Failure("m:Bad", ""))) == "StepFailed of w: Bad"


def test_lines_are_short_whatever_a_value_says():
    """A user's `__repr__` may do anything."""
    assert words_of(Broken()) == "<Broken, whose repr raises ValueError>"
    assert len(words_of("x" * 1000)) == 100
    assert len(line_of(finished(*[Item(no=i) for i in range(200)], fan=True))) < 300
    assert words_of("a\n  b") == "'a\\n b'"


def test_what_holds_itself_has_content_too():
    """A tree whose nodes know their parents: equal ones are equal, and it ends."""

    def tree(leaf: int) -> dict[str, Any]:
        root: dict[str, Any] = {"name": "root", "children": []}
        root["children"].append({"leaf": leaf, "parent": root})
        return root

    assert content(tree(1)) == content(tree(1))
    assert content(tree(1)) != content(tree(2))
    assert content(tree(1)) != content(tree(1)["children"][0])
