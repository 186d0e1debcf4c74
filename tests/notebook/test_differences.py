"""What differs between two states, as paths."""

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, Field, SecretStr

from flownb.notebook.differences import ROWS, differences


class Doc(BaseModel):
    title: str
    tags: list[str] = []
    key: str = Field("k", repr=False)


@dataclass
class Point:
    x: int
    y: int


@pytest.mark.parametrize(
    ("before", "after", "rows"),
    [
        ({}, {"n": 1}, [["n", None, "1"]]),
        ({"n": 1}, {}, [["n", "1", None]]),
        ({"n": 1}, {"n": 1}, []),
        ({"n": 1}, {"n": "1"}, [["n", "1", "'1'"]]),
        ({"d": {"a": 1, "b": 2}}, {"d": {"a": 1, "b": 3}}, [["d.b", "2", "3"]]),
        ({"d": {"a b": 1}}, {"d": {"a b": 2}}, [["d[a b]", "1", "2"]]),
        ({"l": [1, 2]}, {"l": [1, 3, 4]}, [["l[1]", "2", "3"], ["l[2]", None, "4"]]),
        (
            {"d": Doc(title="a")},
            {"d": Doc(title="b", tags=["x"])},
            [["d.title", "'a'", "'b'"], ["d.tags[0]", None, "'x'"]],
        ),
        ({"d": Doc(title="a", key="1")}, {"d": Doc(title="a", key="2")}, []),
        ({"p": Point(1, 2)}, {"p": Point(1, 3)}, [["p.y", "2", "3"]]),
        ({"l": [1]}, {"l": (1,)}, [["l", "[1]", "(1,)"]]),
        ({"s": SecretStr("a")}, {"s": SecretStr("b")}, [["s", "••••••", "••••••"]]),
    ],
)
def test_rows_name_the_deepest_place_that_differs(before: Any, after: Any, rows: Any):
    assert differences(before, after) == rows


def test_a_value_that_cannot_be_compared_counts_as_different():
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise RuntimeError("no")

        __hash__ = object.__hash__

    assert [row[0] for row in differences({"o": Odd()}, {"o": Odd()})] == ["o"]


def test_more_rows_than_are_shown_are_said():
    found = differences({"d": {}}, {"d": {str(i): i for i in range(ROWS + 5)}})
    assert len(found) == ROWS + 1
    assert found[-1] == ["…", "more than is shown here", None]


def test_a_long_list_is_compared_as_a_whole():
    """A thousand items: one row, not a thousand comparisons deep."""
    found = differences({"l": list(range(1000))}, {"l": list(range(1001))})
    assert [row[0] for row in found] == ["l"]
