"""What a receiver may change is copied, what is opaque is shared (R2.3, R2.4)."""

import datetime as dt
import enum
from pathlib import Path
from typing import Any

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
