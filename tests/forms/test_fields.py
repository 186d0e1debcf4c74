"""An answer's type becomes fields, and what was typed becomes an answer or an error at its field."""

import datetime
import decimal
import enum
import subprocess
import sys
import uuid
from typing import Annotated, Any, Literal, NewType

import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PositiveInt,
    RootModel,
    SecretStr,
    field_validator,
    model_validator,
)

from flownb.forms.fields import MISSING, REQUIRED, SOLE, AnswerType, fields_of


class Species(enum.Enum):
    ADELIE = "Adelie"
    GENTOO = "Gentoo"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Address(BaseModel):
    city: str
    zip: int = 69117


Rows = NewType("Rows", int)


def one(annotation: Any, default: Any = ...) -> Any:
    """The only field of a model that has it."""
    model = type("Answer", (BaseModel,), {"__annotations__": {"x": annotation}, "x": Field(default)})
    return fields_of(model)[0]


@pytest.mark.parametrize(
    ("annotation", "kind"),
    [
        (str, "text"),
        (Annotated[str, Field(max_length=201)], "area"),
        (Annotated[str, Field(json_schema_extra={"widget": "textarea"})], "area"),
        (int, "int"),
        (PositiveInt, "int"),
        (Rows, "int"),
        (float, "float"),
        (bool, "bool"),
        (Literal["a", "b"], "choice"),
        (Species, "choice"),
        (Level, "choice"),
        (datetime.date, "date"),
        (SecretStr, "secret"),
        (datetime.datetime, "text"),
        (datetime.time, "text"),
        (uuid.UUID, "text"),
        (decimal.Decimal, "text"),
        (Address, "json"),
        (list[int], "json"),
        (dict[str, int], "json"),
        (int | str, "json"),
        (Any, "json"),
        (object, "json"),
    ],
)
def test_each_type_has_a_kind_and_the_same_one_when_none_is_allowed(annotation: Any, kind: str) -> None:
    """`Optional` changes no control; what no control fits is JSON text."""
    assert (one(annotation).kind, one(annotation).optional) == (kind, False)
    if annotation is not Any:
        assert (one(annotation | None).kind, one(annotation | None).optional) == (kind, True)


def test_a_field_says_its_label_help_bounds_example_and_default() -> None:
    """Title or name, description and limits in words, the first example as placeholder."""

    class Answer(BaseModel):
        amount: float = Field(120, ge=0, le=10_000, description="EUR", title="How much", examples=[99.5])
        row_count: int = Field(gt=0, lt=10, multiple_of=3)
        at_least: int = Field(5, ge=1)
        text: str = Field(max_length=20, examples=["Heidelberg"])

    amount, count, least, text = fields_of(Answer)
    assert (amount.label, amount.help, amount.placeholder) == ("How much", "EUR · 0 to 10 000", "99.5")
    assert (amount.default, amount.required, amount.low, amount.high) == (120, False, 0, 10_000)
    assert (count.label, count.help) == ("Row count", "more than 0, less than 10 · a multiple of 3")
    assert (count.default, count.required, count.low, count.high) == (MISSING, True, 1, 9)
    assert (least.help, least.low, least.high) == ("at least 1", 1, None)
    assert (text.help, text.placeholder) == ("at most 20 characters", "Heidelberg")


def test_limits_inside_optional_and_annotated_are_found() -> None:
    """Wrappers may stand in any order."""
    spec = one(Annotated[Annotated[int, Field(ge=1, description="rows")] | None, Field(le=5)], None)

    assert (spec.kind, spec.optional, spec.low, spec.high, spec.help) == ("int", True, 1, 5, "rows · 1 to 5")


def test_choices_keep_their_values_and_have_different_labels() -> None:
    """A str is shown as it is, other values as Python writes them, equal labels get numbers."""
    assert [(c.label, c.value) for c in one(Species).choices] == [
        ("Adelie", Species.ADELIE),
        ("Gentoo", Species.GENTOO),
    ]
    assert [c.label for c in one(Level).choices] == ["LOW", "HIGH"]
    assert [c.label for c in one(Literal["", 3]).choices] == ["(empty)", "3"]
    assert [c.label for c in one(Literal[1, "1"]).choices] == ["1. 1", "2. '1'"]


def test_defaults_are_filled_in_also_from_factories() -> None:
    """A factory that wants the other fields is left to the model; JSON fields begin with JSON text."""

    class Answer(BaseModel):
        day: datetime.date = Field(default_factory=lambda: datetime.date(2026, 12, 24))
        tags: list[str] = ["a", "ü"]
        when: datetime.datetime = datetime.datetime(2026, 12, 24, 18, 30)
        later: int = Field(default_factory=lambda data: data["nothing"])
        opaque: Any = object()

    day, tags, when, later, opaque = fields_of(Answer)
    assert day.default == datetime.date(2026, 12, 24)
    assert tags.default == '[\n  "a",\n  "ü"\n]'
    assert when.default == "2026-12-24T18:30:00"
    assert (later.default, later.required) == (MISSING, False)
    assert (opaque.default, opaque.required) == (MISSING, False)


def test_a_json_field_says_what_to_write() -> None:
    """The outline of the schema, nested models included, short."""
    assert one(Address).help == 'JSON: {"city": string, "zip": integer}'
    assert one(list[Address]).help == 'JSON: [{"city": string, "zip": integer}, …]'
    assert one(dict[str, int | None]).help == 'JSON: {"…": integer or null}'
    assert one(int | str).help == "JSON: integer or string"


def test_an_answer_that_is_no_model_has_one_field_labelled_by_the_prompt() -> None:
    """A long or many-line prompt stands above instead; a lone bool is no checkbox, which would answer by itself."""
    (spec,) = fields_of(int, prompt="How many rows?")
    assert (spec.name, spec.label, spec.kind, spec.required) == (SOLE, "How many rows?", "int", True)
    assert [field.label for field in fields_of(str, prompt="two\nlines")] == ["Answer"]
    assert [(c.label, c.value) for c in fields_of(bool, prompt="Send it?")[0].choices] == [
        ("Approve", True),
        ("Reject", False),
    ]
    assert fields_of(RootModel[int], prompt="n?")[0].kind == "json"


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
    assert set(problems) == {"n", "address", "day"}
    assert problems["n"].startswith("Input should be a valid integer")
    assert problems["address"].startswith("city: please fill this in; zip: Input should be a valid integer")
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
    assert (spec.name, spec.kind, spec.default) == (
        SOLE,
        "json",
        '{\n  "day": "2026-01-02",\n  "tags": [\n    1\n  ]\n}',
    )
    assert asked.check({SOLE: {"a": 1}}).answer == Answer(a=1)
    assert asked.check({SOLE: {"a": "x"}}).problems[SOLE].startswith("a: Input should be a valid integer")


def test_half_a_surrogate_pair_becomes_a_question_mark() -> None:
    """Such a text cannot be sent to a browser; all others pass as they are."""
    (spec,) = fields_of(Literal["\ud83d", "🐧"], prompt="\ud83d?")
    assert (spec.label, [choice.label for choice in spec.choices]) == ("??", ["?", "🐧"])
    assert spec.choices[0].value == "\ud83d"


def test_fields_need_no_widgets() -> None:
    """The module is pure: a headless process may read a form's fields."""
    code = "import flownb.forms.fields, flownb.forms.payload, sys; sys.exit('ipywidgets' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
