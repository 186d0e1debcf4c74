"""What a receiver may change is copied, what is opaque is shared (R2.3, R2.4)."""

import datetime as dt
import enum
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel, ConfigDict, PrivateAttr

from flownb import Event
from flownb.runtime.copying import copied


class Inner(BaseModel):
    names: list[str]


class Full(Event):
    deep: dict[str, list[int]]
    inner: Inner
    pair: tuple[list[int], int] = ([1], 2)
    some: set[int] = {1}
    _hidden: int = PrivateAttr(default=5)


class Colour(enum.Enum):
    RED = 1


class Still(BaseModel):
    model_config = ConfigDict(frozen=True)
    at: dt.date
    where: Path
    colour: Colour = Colour.RED


class StillWithList(BaseModel):
    model_config = ConfigDict(frozen=True)
    rows: list[int]


def test_containers_and_models_are_copied_all_the_way_down():
    one = Full(deep={"a": [1]}, inner=Inner(names=["x"]), note={"k": [1]})
    two = copied(one)
    two.deep["a"].append(2)
    two.inner.names.append("y")
    two.pair[0].append(9)
    two.some.add(2)
    two["note"]["k"].append(2)
    two.deep["b"] = []
    assert (one.deep, one.inner.names, one.pair, one.some, one["note"]) == (
        {"a": [1]},
        ["x"],
        ([1], 2),
        {1},
        {"k": [1]},
    )


def test_a_copy_is_a_whole_model():
    one = Full(deep={}, inner=Inner(names=[]), more=1)
    one._hidden = 8
    two = copied(one)
    assert type(two) is Full
    assert two == one
    assert two._hidden == 8
    assert two.model_fields_set == one.model_fields_set
    assert two.model_dump() == one.model_dump()


def test_opaque_objects_are_shared():
    class Frame:
        pass

    frame = Frame()
    assert copied({"frame": frame})["frame"] is frame


@pytest.mark.parametrize("value", [1, 1.5, "x", b"x", None, True, dt.date(2026, 1, 2), Path("a"), Colour.RED])
def test_atoms_are_themselves(value: Any):
    assert copied(value) is value


def test_a_frozen_model_of_atoms_is_shared_one_with_a_list_is_not():
    still = Still(at=dt.date(2026, 1, 2), where=Path("a"))
    assert copied(still) is still
    rows = StillWithList(rows=[1])
    copied(rows).rows.append(2)
    assert rows.rows == [1]


@dataclass
class Point:
    rows: list[int]
    name: str = ""


@dataclass(frozen=True)
class Fixed:
    at: dt.date
    n: int = 0


@dataclass(frozen=True, slots=True)
class FixedRows:
    rows: list[int]


@dataclass
class Node:
    above: Any = None
    below: list[Any] = field(default_factory=list)


class Names(list[str]):
    label = ""


class Pair(NamedTuple):
    rows: list[int]
    n: int


@pytest.mark.parametrize(
    ("value", "rows"),
    [
        (defaultdict(list, {"a": [1]}), lambda v: v["a"]),
        (OrderedDict(a=[1]), lambda v: v["a"]),
        (deque([[1]], maxlen=3), lambda v: v[0]),
        (Point([1], "p"), lambda v: v.rows),
        (FixedRows([1]), lambda v: v.rows),
        (Pair([1], 2), lambda v: v.rows),
        ({"deep": [(Point([1]),)]}, lambda v: v["deep"][0][0].rows),
    ],
    ids=lambda v: type(v).__name__,
)
def test_containers_of_every_kind_keep_their_type_and_are_copied(value: Any, rows: Any):
    """R2.3."""
    new = copied(value)
    assert type(new) is type(value)
    assert new == value
    rows(new).append(2)
    assert rows(value) == [1]


def test_what_a_container_is_beside_its_items_is_kept():
    assert copied(defaultdict(list))["new"] == []
    assert copied(deque([1, 2], maxlen=2)).maxlen == 2
    assert list(copied(OrderedDict(b=[1], a=[2]))) == ["b", "a"]
    assert copied(Counter("aab")) == Counter("aab")
    names = Names(["x"])
    names.label = "mine"
    new = copied(names)
    assert (type(new), list(new), new.label) == (Names, ["x"], "mine")
    changed = bytearray(b"ab")
    copied(changed).extend(b"c")
    assert changed == b"ab"


def test_frozen_dataclasses_of_plain_values_and_tuples_of_them_are_shared():
    fixed, pair = Fixed(dt.date(2026, 1, 1)), (1, ("a", None))
    assert copied(fixed) is fixed
    assert copied(pair) is pair


def test_what_is_one_object_stays_one_and_may_hold_itself():
    rows = [1]
    new = copied({"a": rows, "b": rows})
    assert new["a"] is new["b"] is not rows
    top = Node()
    top.below.append(Node(above=top))
    again = copied(top)
    assert again is not top
    assert again.below[0].above is again
    ring: list[Any] = []
    ring.append((ring,))
    turned = copied(ring)
    assert turned is not ring
    assert turned[0][0] is turned
