"""Controls of a user's own: which one is taken for a type."""

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

import flownb
from flownb.forms import registry
from flownb.forms.registry import builder_of, register_field
from flownb.forms.tree import fields_of


class Colour(str):
    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return handler(str)


class Dark(Colour):
    pass


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    before = dict(registry._builders)
    yield
    registry._builders.clear()
    registry._builders.update(before)


def builder(name: str) -> Any:
    def build(field: Any, value: Any) -> str:
        return name

    return build


def found(annotation: Any) -> Any:
    (spec,) = fields_of(type("Answer", (BaseModel,), {"__annotations__": {"x": annotation}}))
    build = builder_of(spec)
    return build(spec, None) if build is not None else None


def test_the_last_registration_of_the_nearest_class_wins() -> None:
    """By method resolution order, through `Optional`; a type without one has none."""
    register_field(Colour, builder("first"))
    register_field(Colour, builder("second"))
    assert [found(Colour), found(Dark), found(Colour | None), found(str)] == ["second", "second", "second", None]
    register_field(Dark, builder("dark"))
    assert [found(Colour), found(Dark)] == ["second", "dark"]


def test_html_pages_and_terminals_ask_for_text() -> None:
    """The kind of the field is the one that it has without a control of its own."""
    register_field(Colour, builder("colour"))
    (spec,) = fields_of(type("Answer", (BaseModel,), {"__annotations__": {"x": Colour}}))
    assert spec.kind == "text"


def test_what_cannot_be_registered_is_refused_in_words() -> None:
    """A class and a function are needed."""
    with pytest.raises(TypeError, match="takes a class"):
        register_field(Colour | None, builder("x"))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="builder of Colour"):
        register_field(Colour, "x")  # type: ignore[arg-type]


def test_it_is_a_public_name() -> None:
    """`from flownb import register_field`."""
    assert flownb.register_field is register_field
