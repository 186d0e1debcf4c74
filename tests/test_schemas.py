"""Types of answers made of a stored schema, where the class is not there (R4.46)."""

import datetime
from typing import Annotated, Any, Literal

import pytest
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, SecretStr, TypeAdapter, ValidationError

from flownb.schemas import schema_of, type_of, without_made


class Card(BaseModel):
    model_config = ConfigDict(regex_engine="python-re")
    kind: Literal["card"] = "card"
    number: str = Field(pattern=r"^(?=\d)\d{4}$")


class Cash(BaseModel):
    kind: Literal["cash"] = "cash"
    amount: float


class Order(BaseModel):
    day: datetime.date = datetime.date(2026, 12, 24)
    due: AwareDatetime | None = None
    at: datetime.time
    pays: list[Annotated[Card | Cash, Field(discriminator="kind")]]
    key: SecretStr
    count: int = Field(1, ge=1, le=9)


def made(kind: Any) -> Any:
    schema = schema_of(kind)
    assert schema is not None
    return type_of(schema)


def test_moments_tabs_and_defaults_are_what_they_were():
    """R4.46: enough to draw the same form, and what is answered fits the class."""
    kind = made(Order)
    found = kind(at="08:30", due="2026-12-24T18:30+01:00", pays=[{"kind": "cash", "amount": 2}], key="k")
    assert (found.day, found.at) == (datetime.date(2026, 12, 24), datetime.time(8, 30))
    assert type(found.pays[0]).__name__ == "Cash"
    plain = without_made(found)
    assert plain["pays"] == [{"kind": "cash", "amount": 2.0}] and plain["key"] == SecretStr("k")
    assert Order.model_validate(plain).due == datetime.datetime(2026, 12, 24, 17, 30, tzinfo=datetime.UTC)
    with pytest.raises(ValidationError) as wrong:
        kind(at="x", pays=[{"kind": "card", "number": "12"}], key="k", count=10)
    assert [error["loc"] for error in wrong.value.errors()] == [("at",), ("pays", 0, "card", "number"), ("count",)]


def test_odd_schemas_are_any_value():
    class Odd(BaseModel):
        model_config = ConfigDict(populate_by_name=True)
        hidden: int = Field(1, alias="_hidden")
        dotted: int = Field(2, alias="a.b-c")

    kind = made(Odd)
    assert TypeAdapter(kind).validate_python({"_hidden": 3}) == {"_hidden": 3}
    assert made(dict[str, int]) == dict[str, Any]
    assert type_of({}) is Any and type_of({"$ref": "#/$defs/Gone"}) is Any


def test_without_made_leaves_all_else():
    card = Card(number="1234")
    value = {"a": [card, (made(Cash)(amount=1),)], "b": made(Cash)(amount=2)}
    plain = without_made(value)
    assert plain["a"][0] is card and plain["b"] == {"kind": "cash", "amount": 2.0}
