"""Any value in one short, harmless line."""

import collections
import dataclasses
import datetime
import enum
import pathlib
import time
from typing import Any

import msgspec
import numpy
import pandas
import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretBytes, SecretStr

from flownb.forms.payload import rows
from flownb.preview import MASK, preview

Point = collections.namedtuple("Point", "x y")


class Colour(enum.Enum):
    RED = 1


class Plain:
    pass


class Doc(BaseModel):
    model_config = ConfigDict(extra="allow", arbitrary_types_allowed=True)
    doc: str
    frame: Any = None
    key: SecretStr = SecretStr("hunter2")
    hidden: str = Field("hunter2", repr=False)


@dataclasses.dataclass
class Data:
    a: int
    b: str = dataclasses.field(default="x", repr=False)


class Record(msgspec.Struct):
    a: int


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (None, "None"),
        (0.83, "0.83"),
        (True, "True"),
        ("a17", "'a17'"),
        ("two\nlines", r"'two\nlines'"),
        (b"\x00", r"b'\x00'"),
        (2**64, "18446744073709551616"),
        (Colour.RED, "Colour.RED"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (datetime.timedelta(seconds=90), "0:01:30"),
        (pathlib.PurePosixPath("/tmp/x"), "'/tmp/x'"),
        (ValueError("no"), "ValueError: no"),
        ([1, "a", None], "[1, 'a', None]"),
        ((1,), "(1,)"),
        (Point(1, 2), "Point(x=1, y=2)"),
        (set(), "set()"),
        ({3}, "{3}"),
        (frozenset({3}), "frozenset({3})"),
        ({"a": [1, {"b": 2}]}, "{'a': [1, {'b': 2}]}"),
        (collections.deque([1]), "deque([1])"),
        (collections.OrderedDict(a=1), "OrderedDict({'a': 1})"),
        (Data(1), "Data(a=1)"),
        (Record(1), "Record(a=1)"),
        (Plain(), "Plain object"),
        (Plain, "class Plain"),
        (len, "<built-in function len>"),
        (lambda: None, "<function <lambda>>"),
        (SecretStr("hunter2"), MASK),
        (SecretBytes(b"hunter2"), MASK),
        ({"key": SecretStr("hunter2")}, f"{{'key': {MASK}}}"),
        (Doc(doc="a17", frame=1, more=[2]), f"Doc(doc='a17', frame=1, key={MASK}, more=[2])"),
        (numpy.float64(0.5), "0.5"),
        (numpy.zeros((3, 4)), "ndarray float64 3×4"),
        (numpy.zeros(1204, dtype="int8"), "ndarray int8 1 204"),
        (pandas.DataFrame(numpy.zeros((1204, 6))), "DataFrame 1 204 × 6"),
        (pandas.Series([1.0]), "Series float64 1"),
    ],
)
def test_values_in_one_line(value: object, line: str) -> None:
    """What a reader needs to know them by: values if small, sizes if large, never a secret."""
    assert preview(value) == line


def test_long_values_are_cut_with_a_count() -> None:
    """The count is of the whole, the line is never longer than the limit."""
    assert preview("x" * 10_000, 40) == "'" + "x" * 17 + "…' (10 000 characters)"
    assert preview(b"x" * 10_000, 40) == "b'" + "x" * 21 + "…' (10 000 bytes)"
    assert preview(list(range(1000)), 30) == "[0, 1, 2, 3, 4, 5, … 994 more]"
    assert preview({n: n for n in range(1000)}, 30) == "{0: 0, 1: 1, 2: 2, … 997 more}"
    assert preview(10**5000) == "int of about 5 001 digits"
    assert preview([[[[[1]]]]]) == "[[[[…]]]]"
    for value in ("x" * 500, list(range(500)), {"k" * 300: "v" * 300}, [["x" * 300]], "\n" * 500, Doc(doc="x" * 500)):
        for limit in (8, 30, 120):
            assert len(preview(value, limit)) <= limit


def test_a_value_that_holds_itself_ends() -> None:
    """Depth is limited, so circles are."""
    circle: list[Any] = []
    circle.append(circle)
    assert preview(circle) == "[[[[…]]]]"


class Raises:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Lies:
    def __repr__(self) -> str:
        return 3  # type: ignore[return-value]

    @property
    def __class__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("no")


class Lines:
    def __repr__(self) -> str:
        return "one\ntwo\x00\x1b[31m\u202e</script>"


class Long:
    asked = False

    def __len__(self) -> int:
        return 10_000_000

    def __repr__(self) -> str:
        Long.asked = True
        return "x" * 10_000_000


class BadList(list[int]):
    def __repr__(self) -> str:
        raise RuntimeError("no")

    def __iter__(self) -> Any:
        raise RuntimeError("no")

    def __len__(self) -> int:
        raise RuntimeError("no")


class BadStr(str):
    def __getitem__(self, key: Any) -> str:
        raise RuntimeError("no")

    def __str__(self) -> str:
        raise RuntimeError("no")


def test_hostile_objects_become_words() -> None:
    """A repr that raises, lies, has lines or control characters, or would be huge."""
    assert preview(Raises()) == "Raises (its text raised RuntimeError)"
    assert preview([1, Raises()]) == "[1, Raises (its text raised RuntimeError)]"
    line = preview(Lies())  # outside the assert, which would look at the object itself
    assert line == "Lies (its text raised TypeError)"
    assert preview(Lines()) == r"one two\x00\x1b[31m\u202e</script>"
    assert preview(Long()) == "Long of 10 000 000 items"
    assert not Long.asked
    assert preview(BadList([1, 2])) == "BadList([1, 2])"
    assert preview(BadStr("abc")) == "'abc'"
    assert preview("\ud83d") == r"'\ud83d'"


def test_a_large_value_costs_little() -> None:
    """No full repr of what is not shown: each of these has tens of megabytes."""
    ten = "x" * 10_000_000
    values = [ten, [ten] * 100, {"k": ten}, list(range(5_000_000)), Doc(doc=ten), numpy.zeros(5_000_000), ten.encode()]
    begin = time.thread_time()
    lines = [preview(value) for value in values]
    assert time.thread_time() - begin < 0.5
    assert all(len(line) <= 120 for line in lines)


def test_rows_of_an_event_are_its_fields_and_then_the_undeclared_ones() -> None:
    """A field that its class hides from the repr is hidden here."""
    event = Doc(doc="a17", frame=pandas.DataFrame(numpy.zeros((2, 3))), **{"n\n<b>": 2})

    assert rows(event) == [
        ("doc", "'a17'"),
        ("frame", "DataFrame 2 × 3"),
        ("key", MASK),
        ("hidden", "(not shown)"),
        ("n <b>", "2"),
    ]


def test_rows_of_other_things() -> None:
    """Mappings and plain objects with fields have rows, all else is one value; many are counted out."""
    assert rows({"a": 1}) == [("a", "1")]
    assert rows(Data(1)) == [("a", "1"), ("b", "(not shown)")]
    assert rows(3) == [("value", "3")]
    many = rows(Doc(doc="x", **{f"f{n}": n for n in range(500)}))
    assert len(many) == 101
    assert many[-1][0] == "…"
