"""What a form holds becomes an answer, or an error at its field."""

import datetime
import enum
from typing import Annotated, Any, Literal, NewType

import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    field_validator,
    model_validator,
)

from flownb.forms.answers import AnswerType
from flownb.forms.fields import REQUIRED, SOLE
from flownb.forms.tree import fields_of


class Species(enum.Enum):
    ADELIE = "Adelie"
    GENTOO = "Gentoo"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Address(BaseModel):
    city: str
    zip: int = 69117


class Parcel(BaseModel):
    to: Address
    grams: int


Rows = NewType("Rows", int)


@pytest.mark.parametrize(
    ("answer", "typed", "value"),
    [
        (bool, True, True),
        (str, "ü", "ü"),
        (int, "12", 12),
        (Literal["a", "b"], "b", "b"),
        (datetime.date, datetime.date(2026, 1, 2), datetime.date(2026, 1, 2)),
        (Species, Species.GENTOO, Species.GENTOO),
        (int | None, None, None),
        (RootModel[int], 3, RootModel[int](3)),
    ],
)
def test_an_answer_that_is_no_model_is_the_plain_value(answer: Any, typed: Any, value: Any) -> None:
    """The one field named "answer" is the answer."""
    assert AnswerType(answer).check({SOLE: typed}).answer == value


def test_errors_stand_at_their_fields_and_the_rest_at_the_form() -> None:
    """Nested places are named, a model's own check belongs to no field, pydantic's prefixes are gone."""

    class Answer(BaseModel):
        n: int
        address: Address | None = None
        day: str = "mon"

        @field_validator("day")
        @classmethod
        def must_be_a_day(cls, day: str) -> str:
            if day != "mon":
                raise ValueError("Not a day.")
            return day

        @model_validator(mode="after")
        def must_fit(self) -> "Answer":
            raise ValueError("They do not fit.")

    asked = AnswerType(Answer)
    problems = asked.check({"n": "x", "address": {"zip": "y"}, "day": "sun"}).problems
    assert set(problems) == {"n", "address.city", "address.zip", "day"}
    assert problems["n"].startswith("Input should be a valid integer")
    assert problems["address.city"] == REQUIRED
    assert problems["address.zip"].startswith("Input should be a valid integer")
    assert problems["day"] == "Not a day."
    assert asked.check({}).problems == {"n": REQUIRED}
    assert asked.check({"n": 1}).problems == {"": "They do not fit."}


def test_a_validator_that_raises_anything_else_is_an_error_of_the_form() -> None:
    """pydantic lets a TypeError through; a form must not die of it."""

    def broken(value: int) -> int:
        raise TypeError("broken")

    assert AnswerType(Annotated[int, AfterValidator(broken)]).check({SOLE: 1}).problems == {"": "TypeError: broken"}


def test_strict_models_aliases_and_names_like_attributes_can_be_answered() -> None:
    """A person types text, forms go by field names, and only declared fields are sent."""

    class Answer(BaseModel):
        model_config = ConfigDict(strict=True, extra="allow")
        when: datetime.datetime
        n: int = Field(alias="N")

    got = AnswerType(Answer).check({"when": "2026-12-24 18:30", "n": "3"}).answer
    assert got == Answer.model_construct(when=datetime.datetime(2026, 12, 24, 18, 30), n=3)
    with pytest.warns(UserWarning, match="shadows"):
        shadow = type("Shadow", (BaseModel,), {"__annotations__": {"json": str, "copy": int}})
    assert [spec.name for spec in fields_of(shadow)] == ["json", "copy"]
    checked = AnswerType(shadow).check({"json": "{}", "copy": 2})
    assert checked.answer.__dict__ == {"json": "{}", "copy": 2}


def test_a_whole_model_can_be_asked_for_as_one_json_text() -> None:
    """For models with more fields than a form can hold."""

    class Answer(BaseModel):
        a: int
        day: datetime.date = datetime.date(2026, 1, 2)
        tags: list[int] = [1]

    asked = AnswerType(Answer, whole=True)
    (spec,) = asked.fields
    assert (spec.name, spec.kind) == (SOLE, "json")
    assert asked.begin() == {SOLE: '{\n  "day": "2026-01-02",\n  "tags": [\n    1\n  ]\n}'}
    assert asked.check({SOLE: {"a": 1}}).answer == Answer(a=1)
    assert asked.check({SOLE: {"a": "x"}}).problems[SOLE].startswith("a: Input should be a valid integer")
