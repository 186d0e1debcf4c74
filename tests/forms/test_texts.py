"""What is typed and what it stands for: both ways, for every kind of leaf."""

import datetime
import decimal
import enum
import math
import uuid
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, SecretStr, TypeAdapter

from flownb.forms.fields import MISSING
from flownb.forms.texts import text_of, value_of, zone_of
from flownb.forms.tree import fields_of


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


def spec_of(annotation: Any) -> Any:
    return fields_of(type("Answer", (BaseModel,), {"__annotations__": {"x": annotation}}))[0]


WORDS = st.text(min_size=1).filter(str.strip)
ZONES = st.sampled_from(
    [None, datetime.UTC, datetime.timezone(datetime.timedelta(hours=-3, minutes=-30)), ZoneInfo("Europe/Berlin")]
)
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text())
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)


@pytest.mark.parametrize(
    ("annotation", "values"),
    [
        (str, WORDS),
        (Annotated[str, Field(max_length=10_000)], WORDS),
        (int, st.integers()),
        (float, st.floats(allow_nan=False)),
        (bool, st.booleans()),
        (Level, st.sampled_from(Level)),
        (Literal[1, "1", True, "", "a"], st.sampled_from([1, "1", True, "", "a"])),
        (datetime.date, st.dates()),
        (datetime.time, st.times()),
        (datetime.datetime, st.datetimes(timezones=ZONES, allow_imaginary=False)),
        (datetime.timedelta, st.timedeltas(datetime.timedelta(-10_000), datetime.timedelta(10_000))),
        (decimal.Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
        (uuid.UUID, st.uuids()),
        (dict[str, Any], st.dictionaries(st.text(), JSON)),
        (Any, JSON.filter(lambda value: value is not None)),
        (int | str, st.integers() | WORDS),
    ],
    ids=str,
)
@given(data=st.data())
def test_a_value_written_and_read_again_is_the_value(annotation: Any, values: Any, data: st.DataObject) -> None:
    """For each kind: its text, read and checked by its type, is the same value of the same type."""
    value = data.draw(values)
    spec = spec_of(annotation)

    read = TypeAdapter(annotation).validate_python(value_of(spec, text_of(spec, value)))

    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        # Not by ==: Python finds the hour that comes twice unequal to itself in any other zone.
        assert (read.timestamp(), read.utcoffset()) == (value.timestamp(), value.utcoffset())
        return
    assert (type(read), read) == (type(value), value)
    if isinstance(value, float):
        assert math.copysign(1, read) == math.copysign(1, value)


@given(text=st.text())
@pytest.mark.parametrize("kind", [int, float, datetime.date, datetime.time, datetime.datetime, Level, dict, SecretStr])
def test_no_text_breaks_the_reading(kind: Any, text: str) -> None:
    """Whatever is typed: a value, nothing, or words for the person."""
    try:
        value_of(spec_of(kind), text)
    except ValueError as error:
        assert str(error)[0].isupper() and str(error).endswith(".")


@pytest.mark.parametrize("kind", [int, float, datetime.date, datetime.time, datetime.datetime, dict, decimal.Decimal])
def test_blanks_are_nothing(kind: Any) -> None:
    """An empty box is no value; a blank in front of a number is no part of it."""
    assert value_of(spec_of(kind), "") is value_of(spec_of(kind), " \n") is MISSING
    assert value_of(spec_of(int), " 12 ") == 12


def test_texts_that_cannot_be_read_stay_texts_and_the_type_refuses_them() -> None:
    """So the words of the error are those of the type."""
    hostile = ["1.0", "1e400", "12 apples", "9" * 5000, "0x10", "</script>"]
    assert [value_of(spec_of(int), text) for text in hostile] == hostile
    assert value_of(spec_of(int), "1.5") == 1.5
    assert value_of(spec_of(datetime.date), "31.12.2026") == "31.12.2026"
    assert value_of(spec_of(datetime.datetime), "2026-06-31 10:00") == "2026-06-31 10:00"


def test_json_that_is_none_says_where() -> None:
    """Line and column; nesting that no reader could follow has words of its own."""
    with pytest.raises(ValueError, match=r"This is not JSON \(line 1, column 5\)\."):
        value_of(spec_of(dict), '{"a"')
    with pytest.raises(ValueError, match="nested too deeply"):
        value_of(spec_of(dict), "[" * 200_000)
    assert value_of(spec_of(int | str), "seven") == "seven"
    assert text_of(spec_of(int | str), "7") == '"7"'


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("2026-07-01 18:30 Europe/Berlin", 2),
        ("2026-07-01T18:30:00+02:00", 2),
        ("2026-07-01 18:30:00.5 -0330", -3.5),
        ("2026-07-01 18:30Z", 0),
        ("2026-07-01 18:30 utc", 0),
    ],
)
def test_a_moment_has_its_zone(text: str, offset: float) -> None:
    """By name, by offset, after a blank or not."""
    read = value_of(spec_of(datetime.datetime), text)
    assert read.utcoffset() == datetime.timedelta(hours=offset)


@pytest.mark.parametrize(
    "name", ["Middle/Earth", "../../etc/passwd", "/etc/passwd", "+99:00", "\x00", "Europe", "x" * 999]
)
def test_a_zone_that_does_not_exist_is_refused_in_words(name: str) -> None:
    """No name of a zone reads a file outside the database."""
    with pytest.raises(ValueError, match="There is no time zone"):
        zone_of(name)


def test_the_hour_that_comes_twice_keeps_its_offset() -> None:
    """At the end of summer time only the offset tells which 02:30 is meant."""
    berlin = ZoneInfo("Europe/Berlin")
    twice = [datetime.datetime(2026, 10, 25, 2, 30, tzinfo=berlin, fold=fold) for fold in (0, 1)]
    texts = [text_of(spec_of(datetime.datetime), moment) for moment in twice]
    assert texts == ["2026-10-25 02:30 Europe/Berlin", "2026-10-25 02:30 +01:00"]
    read = [value_of(spec_of(datetime.datetime), text).timestamp() for text in texts]
    assert read == [moment.timestamp() for moment in twice]


def test_a_secret_is_never_written() -> None:
    """Neither its own field nor JSON has a text for it."""
    assert text_of(spec_of(SecretStr), SecretStr("hunter2")) == ""
    assert text_of(spec_of(dict), {"a": [SecretStr("hunter2")]}) == ""
    assert value_of(spec_of(SecretStr), " hunter2 ") == " hunter2 "


def test_a_label_names_its_choice_and_nothing_else_does() -> None:
    """A page that is older than the type cannot choose something else by its place in the list."""
    spec = spec_of(Literal["approve", "reject"])
    assert value_of(spec, "reject") == "reject"
    with pytest.raises(ValueError, match="Please choose one"):
        value_of(spec, "1")
