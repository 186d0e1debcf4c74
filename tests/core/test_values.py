"""What the engine takes for the same value, without calling a user's `==`."""

import datetime as dt
import math
from decimal import Decimal
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from flownb.core.values import MISSING, Limit, Out, alike, field_of, fingerprint, meets
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
        (Decimal("NaN"), Decimal("sNaN")),
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


def test_what_holds_itself_is_only_the_same_as_itself():
    one: list[object] = [1]
    other: list[object] = [1]
    one.append(one)
    other.append(other)
    assert alike(one, one) and not alike(one, other)
    assert alike([one], [one]) and not alike({"a": one}, {"a": other})


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


# What a waiter requires


class Sly:
    """An object whose attributes are code."""

    __slots__ = ()

    def __getattr__(self, name):
        if name in ("__dict__", "__pydantic_extra__"):
            raise AttributeError(name)
        raise AssertionError("a user's code was called")


class Computed(Event):
    n: int = 1

    @property
    def twice(self):
        raise AssertionError("a user's code was called")


def test_a_field_is_read_without_calling_any_code():
    """R4.31, R1.4: declared or not; a property is no field; what has none gives MISSING."""
    reading = Reading(celsius=1, site="x")
    assert (field_of(reading, "celsius"), field_of(reading, "site")) == (1, "x")
    assert field_of(reading, "nothing") is MISSING
    assert field_of(Computed(), "twice") is MISSING
    assert field_of(Computed(), "n") == 1
    assert [field_of(value, "n") for value in (None, 1, {"n": 1}, Sly(), Hostile())] == [MISSING] * 5
    assert repr(MISSING) == "MISSING"


@pytest.mark.parametrize(
    ("required", "found", "fit"),
    [
        (1, 1.0, True),
        (1, True, True),
        (Decimal("1.50"), 1.5, True),
        (1 + 0j, 1, True),
        ("a", "a", True),
        (b"a", "a", False),
        (None, None, True),
        (None, 0, False),
        (float("nan"), float("nan"), False),
        (Decimal("sNaN"), Decimal("sNaN"), False),
        (Decimal("sNaN"), 1, False),
        ([1], [1], True),
        ([1], [1.0], False),
        ((1,), [1], False),
        (Reading(celsius=1), Reading(celsius=1), True),
        (opaque, opaque, True),
        (opaque, Hostile(), False),
        (opaque, 1, False),
    ],
)
def test_numbers_and_texts_meet_a_requirement_by_their_value(required, found, fit):
    """R4.31: all else by content, as an answer is compared; no user's `==` is called."""
    assert bool(meets(required, found)) is fit


plain = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.text(),
    st.binary(),
    st.sampled_from([1, 1.0, True, Decimal(1), 1 + 0j, 0, 0.0, -0.0, False, "", b"", "\ud800"]),
)


@given(plain, plain)
def test_values_that_meet_each_other_have_one_fingerprint(one, other):
    """R4.31: else the index would miss a waiter."""
    if meets(one, other):
        assert fingerprint(one) == fingerprint(other) is not None


@pytest.mark.parametrize("value", [[1], (1,), {}, {1}, dt.date(2026, 1, 1), opaque, Reading(celsius=1)])
def test_what_is_not_plain_has_no_fingerprint(value):
    """R4.31: such waiters of a step stand together and are looked at one by one."""
    assert fingerprint(value) is None


def test_texts_have_the_same_fingerprint_in_every_process():
    """R1.4: texts are no subject of a process's own hash."""
    assert (fingerprint("flow"), fingerprint(b"flow"), fingerprint(None)) == (crc32(b"flow"), crc32(b"flow"), 0)
    assert fingerprint(float("nan")) == fingerprint(Decimal("sNaN")) == 1
