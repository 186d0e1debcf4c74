"""An answer's type becomes a tree of fields: what each kind is made of, its words and its limits."""

import datetime
import decimal
import enum
import subprocess
import sys
import uuid
from typing import Annotated, Any, Literal, NewType

import annotated_types
import pytest
from pydantic import (
    AwareDatetime,
    BaseModel,
    Field,
    FutureDatetime,
    NaiveDatetime,
    PositiveInt,
    RootModel,
    SecretBytes,
    SecretStr,
)

from flownb.events import HumanResponseEvent
from flownb.forms.answers import AnswerType
from flownb.forms.fields import MISSING, SOLE
from flownb.forms.tree import as_json, fields_of
from flownb.schemas import schema_of, type_of


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
        (datetime.datetime, "datetime"),
        (AwareDatetime, "datetime"),
        (datetime.time, "time"),
        (uuid.UUID, "text"),
        (decimal.Decimal, "text"),
        (Address, "group"),
        (list[int], "chips"),
        (set[Species], "chips"),
        (tuple[datetime.date, ...], "chips"),
        (list[Address], "rows"),
        (Address | Parcel, "tabs"),
        (list[int | None], "json"),
        (list[list[int]], "json"),
        (tuple[int, str], "json"),
        (Address | int, "json"),
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
    """A factory that wants the other fields is left to the model; what has no text begins empty."""

    class Answer(BaseModel):
        day: datetime.date = Field(default_factory=lambda: datetime.date(2026, 12, 24))
        tags: list[str] = ["a", "ü"]
        when: datetime.datetime = datetime.datetime(2026, 12, 24, 18, 30)
        later: int = Field(default_factory=lambda data: data["nothing"])
        opaque: Any = object()

    *known, later, opaque = fields_of(Answer)
    assert [spec.default for spec in known] == [
        datetime.date(2026, 12, 24),
        ["a", "ü"],
        datetime.datetime(2026, 12, 24, 18, 30),
    ]
    assert (later.default, later.required) == (MISSING, False)
    assert not opaque.required
    assert AnswerType(Answer).begin() == {
        "day": "2026-12-24",
        "tags": ["a", "ü"],
        "when": "2026-12-24 18:30",
        "later": "",
        "opaque": "",
    }


def test_a_json_field_says_what_to_write() -> None:
    """The outline of the schema, nested models included, short."""
    assert as_json(one(Address)).help == 'JSON: {"city": string, "zip": integer}'
    assert as_json(one(list[Address])).help == 'JSON: [{"city": string, "zip": integer}, …]'
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


def test_half_a_surrogate_pair_becomes_a_question_mark() -> None:
    """Such a text cannot be sent to a browser; all others pass as they are."""
    (spec,) = fields_of(Literal["\ud83d", "🐧"], prompt="\ud83d?")
    assert (spec.label, [choice.label for choice in spec.choices]) == ("??", ["?", "🐧"])
    assert spec.choices[0].value == "\ud83d"


def test_fields_need_no_widgets() -> None:
    """The module is pure: a headless process may read a form's fields."""
    modules = "flownb.forms.answers, flownb.forms.payload, flownb.forms.registry"
    code = f"import {modules}, sys; sys.exit('ipywidgets' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ---- trees


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


class Shape(BaseModel):
    name: str
    parts: "list[Shape]" = []
    within: "Shape | None" = None


def outline(spec: Any) -> Any:
    """A tree as nested values: (name, kind, what it holds)."""
    if spec.kind == "group":
        return spec.name, "group", [outline(part) for part in spec.fields]
    if spec.item is not None:
        return spec.name, spec.kind, outline(spec.item)
    if spec.branches:
        return spec.name, "tabs", {b.label: [outline(part) for part in b.fields] for b in spec.branches}
    return spec.name, spec.kind


def test_models_lists_and_unions_make_a_tree() -> None:
    """A nested model is a group, a list of models are rows, a list of scalars chips, a union of models tabs."""

    class Answer(BaseModel):
        to: Address | None = None
        tags: Annotated[list[Annotated[str, Field(max_length=9)]], Field(min_length=1, max_length=3)]
        parcels: list[Parcel] = Field(max_length=2, description="What to send")
        pet: Annotated[Cat | Dog, Field(discriminator="kind")]
        pets: list[Annotated[Cat | Dog, Field(discriminator="kind")]]

    address = [("city", "text"), ("zip", "int")]
    pets = {"cat": [("lives", "int")], "dog": [("name", "text")]}
    assert [outline(spec) for spec in fields_of(Answer)] == [
        ("to", "group", address),
        ("tags", "chips", ("", "text")),
        ("parcels", "rows", ("", "group", [("to", "group", address), ("grams", "int")])),
        ("pet", "tabs", pets),
        ("pets", "rows", ("", "tabs", pets)),
    ]
    to, tags, parcels, pet, _ = fields_of(Answer)
    assert (to.optional, to.required) == (True, False)
    assert (tags.least, tags.most, tags.help) == (1, 3, "1 to 3 items")
    assert tags.item is not None and tags.item.longest == 9
    assert (parcels.most, parcels.help) == (2, "What to send · at most 2 rows")
    assert (pet.discriminator, [branch.value for branch in pet.branches]) == ("kind", ["cat", "dog"])


def test_a_plain_union_of_models_has_tabs_by_the_names_of_the_classes() -> None:
    """Equal names get numbers; beside anything but models it is JSON."""
    other = type("Address", (BaseModel,), {"__annotations__": {"street": str}})
    assert [branch.label for branch in one(Address | Parcel).branches] == ["Address", "Parcel"]
    assert [branch.label for branch in one(Address | other).branches] == ["1. Address", "2. Address"]
    spec = one(Cat | Dog)
    assert spec.discriminator == ""
    assert [part.name for part in spec.branches[0].fields] == ["kind", "lives"]


def test_a_model_inside_itself_ends_in_json() -> None:
    """One level of it is drawn, what lies deeper is JSON text; so is what lies too deep without recursion."""

    class Answer(BaseModel):
        shape: Shape

    inner = [("name", "text"), ("parts", "json"), ("within", "json")]
    expected = [("name", "text"), ("parts", "rows", ("", "group", inner)), ("within", "group", inner)]
    assert outline(fields_of(Answer)[0]) == ("shape", "group", expected)
    model: Any = Address
    for _ in range(5):
        model = type("Around", (BaseModel,), {"__annotations__": {"inner": model}})
    depth, spec = 0, fields_of(model)[0]
    while spec.kind == "group":
        depth, spec = depth + 1, spec.fields[0]
    assert (depth, spec.kind) == (3, "json")


@pytest.mark.parametrize(
    ("annotation", "zone", "help"),
    [
        (datetime.datetime, "allowed", ""),
        (AwareDatetime, "needed", "with its time zone"),
        (NaiveDatetime, "refused", "without a time zone"),
        (FutureDatetime, "allowed", ""),
        (Annotated[datetime.datetime, annotated_types.Timezone(None)], "refused", "without a time zone"),
        (Annotated[datetime.datetime, annotated_types.Timezone(...)], "needed", "with its time zone"),
    ],
)
def test_a_datetime_says_whether_it_wants_a_zone(annotation: Any, zone: str, help: str) -> None:
    """pydantic's own types and annotated-types both say it."""
    assert (one(annotation).kind, one(annotation).zone, one(annotation).help) == ("datetime", zone, help)


def test_a_field_says_whether_it_hides_a_secret() -> None:
    """Also where the secret lies deep inside, or in a JSON text."""

    class Login(BaseModel):
        user: str
        key: SecretBytes

    hiding = [SecretStr, SecretStr | None, Login, list[Login], list[SecretStr], dict[str, SecretStr], Login | Address]
    assert [one(annotation).hides for annotation in hiding] == [True] * len(hiding)
    assert [one(annotation).hides for annotation in (str, Address, list[str], dict[str, int])] == [False] * 4


def test_few_choices_are_told_from_many() -> None:
    """Up to four are radio buttons."""
    assert one(Literal["a", "b", "c", "d"]).few
    assert not one(Literal["a", "b", "c", "d", "e"]).few
    assert not one(str).few


def test_days_and_moments_have_their_limits_in_words() -> None:
    """`ge`, `le` and their kin on a date."""
    spec = one(Annotated[datetime.date, Field(ge=datetime.date(2026, 1, 1), lt=datetime.date(2027, 1, 1))])
    assert spec.help == "from 2026-01-01, before 2027-01-01"


def test_a_bare_answer_is_asked_for_its_response() -> None:
    """A model without fields that takes any has one text box, `response`, labelled with the question."""
    (spec,) = fields_of(HumanResponseEvent, prompt="What now?")
    assert (spec.name, spec.label, spec.kind) == ("response", "What now?", "text")
    assert AnswerType(HumanResponseEvent).read({"response": "go"}).answer.response == "go"
    empty = type("Empty", (BaseModel,), {})
    assert fields_of(empty) == []


def test_a_stored_schema_gives_the_same_tree() -> None:
    """R4.46: another process draws the same form, as far as the schema says what the class said."""

    class Answer(BaseModel):
        text: str = Field(max_length=20, examples=["Heidelberg"], description="Where")
        long: str = Field("", json_schema_extra={"widget": "textarea"})
        key: SecretStr
        n: int = Field(ge=1, le=5)
        share: float | None = Field(None, gt=0)
        day: datetime.date
        at: datetime.time
        when: datetime.datetime
        id: uuid.UUID
        level: Literal["a", "b"] = "a"
        species: Species
        tags: list[str] = Field(["q"], min_length=1, max_length=3)
        ages: list[Annotated[int, Field(ge=0)]] = []
        parcels: list[Parcel] = []
        to: Address
        pet: Annotated[Cat | Dog, Field(discriminator="kind")]
        either: Cat | Address | None = None
        shape: Shape
        more: dict[str, int] = {}

    def told(specs: Any) -> Any:
        return [(outline(s), s.label, s.help, s.required, s.optional, s.low, s.high, s.least, s.most) for s in specs]

    drop = {"shape", "more"}  # an outline of what lies deeper than a type has been made for
    schema = schema_of(Answer)
    assert schema is not None
    stored = [spec for spec in fields_of(type_of(schema)) if spec.name not in drop]
    assert told(stored) == told(spec for spec in fields_of(Answer) if spec.name not in drop)
    assert [spec.placeholder for spec in stored] == [s.placeholder for s in fields_of(Answer) if s.name not in drop]
    assert [outline(spec) for spec in fields_of(type_of(schema))] == [outline(spec) for spec in fields_of(Answer)]


def test_a_stored_schema_of_a_model_in_itself_ends() -> None:
    """R4.46: its type takes what the class takes, and its form ends."""
    schema = schema_of(Shape)
    assert schema is not None
    deep = {"name": "a", "parts": [{"name": "b", "parts": [{"name": "c", "parts": [{"name": "d"}]}]}]}
    assert AnswerType(type_of(schema)).check(deep).problems == {}
    assert [outline(spec) for spec in fields_of(type_of(schema))] == [outline(spec) for spec in fields_of(Shape)]
