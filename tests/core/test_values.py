"""What the engine takes for the same value, without calling a user's `==`."""

import datetime as dt
import math
from decimal import Decimal

import pytest
from msgspec import Struct

from flownb.core.values import Limit, Out, alike
from flownb.events import Event


class Hostile:
    """An object whose `==` must not be asked."""

    def __eq__(self, other):
        raise AssertionError("a user's == was called")

    __hash__ = None


class Point(Struct):
    x: int


class Reading(Event):
    celsius: float


def again():
    """The class as it is after its cell was run a second time."""

    class Reading(Event):
        celsius: float

    Reading.__module__, Reading.__qualname__ = globals()["Reading"].__module__, "Reading"
    return Reading


opaque = Hostile()


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1, 1),
        ("é", "é"),
        (None, None),
        (math.nan, float("nan")),
        ([1, [2]], [1, [2]]),
        ((1,), (1,)),
        ({"a": [1]}, {"a": [1]}),
        (Point(1), Point(1)),
        (Reading(celsius=1, site="x"), Reading(celsius=1, site="x")),
        (opaque, opaque),
        ([opaque], [opaque]),
    ],
)
def test_values_with_equal_contents_are_alike(a, b):
    """R2.6: plain values, containers and models by content, an opaque object by identity."""
    assert alike(a, b)
    assert Out("k", a) == Out("k", b)
    assert (Out("k", a) != Out("k", b)) is False


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1, 2),
        (1, 1.0),
        (1, True),
        (0, None),
        ("1", 1),
        ([1], (1,)),
        ([1], [1, 2]),
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {}),
        ({}, []),
        (Point(1), Point(2)),
        (Reading(celsius=1), Reading(celsius=2)),
        (Reading(celsius=1, site="x"), Reading(celsius=1, site="y")),
        (Hostile(), Hostile()),
        (Hostile(), 1),
        (Reading(celsius=1), Event(celsius=1)),
    ],
)
def test_values_with_other_contents_are_not_alike(a, b):
    """R2.6: also where Python's own `==` is lenient (1 and True) or would raise."""
    assert not alike(a, b)
    assert Out("k", a) != Out("k", b)
    assert (Out("k", a) == Out("k", b)) is False


def test_a_cell_that_is_run_again_makes_events_alike():
    """R2.20: a class is known by its name, not by identity."""
    assert alike(Reading(celsius=1), again()(celsius=1))
    assert not alike(Reading(celsius=1), again()(celsius=2))


def test_an_event_is_more_than_its_value():
    """Key, role and limit count too; what is no event is never equal to one."""
    assert Out("a", 1) != Out("b", 1)
    assert Out("a", 1) != Out("a", 1, "stop")
    assert Out("a", 1, limit=Limit(1.0)) != Out("a", 1)
    assert Out("a", 1) != 1
    assert Out("a", 1).__eq__(1) is NotImplemented


def test_days_moments_amounts_and_sets_are_the_same_by_content():
    """R4.47: the same date given twice is the same answer."""
    day, moment = dt.date(2026, 12, 24), dt.datetime(2026, 12, 24, 18, 0, tzinfo=dt.UTC)
    assert alike(day, dt.date(2026, 12, 24)) and not alike(day, dt.date(2026, 12, 25))
    assert alike(moment, dt.datetime(2026, 12, 24, 18, 0, tzinfo=dt.UTC)) and not alike(moment, day)
    assert alike(Decimal("1.0"), Decimal("1.0")) and not alike(Decimal(1), 1)
    assert alike({1, 2}, {2, 1}) and not alike({1}, {2}) and not alike({1}, frozenset({1}))


def test_a_set_of_opaque_things_is_no_other_set():
    """R2.6: to compare such sets their members' `==` would have to be asked."""
    first, second = Point, Reading
    assert not alike({first}, {second})
