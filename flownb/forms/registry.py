"""Controls of a user's own for a type, in the forms of a notebook."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flownb.forms.fields import FieldSpec

#: Makes the control of one field: (the field, the value to begin with or None) -> a widget.
Builder = Callable[[FieldSpec, Any], Any]

_builders: dict[type, Builder] = {}


def register_field(kind: type, builder: Builder) -> None:
    """Draw fields of a type with a control of your own, in the forms of a notebook.

        import ipywidgets
        from flownb import register_field

        class Colour(str): ...                      # with whatever pydantic needs to validate it

        def colour_picker(field, value):
            return ipywidgets.ColorPicker(description=field.label, value=value or "black")

        register_field(Colour, colour_picker)

    HTML pages and terminals do not know the control: there such a field is asked for as text or JSON, as without it.

    Args:
        kind: The type, as it stands in the answer's model, with or without `Optional` and `Annotated`. Its subclasses
            get the control too, unless one of them has its own. What was registered last for a type wins.
        builder: Called with the field (its `label`, `help`, `required`, `placeholder`) and the value to begin with (the
            default or what a draft holds; None: nothing). It gives a new ipywidgets widget that has

            * `value`: what the answer's type takes, or None for "nothing chosen yet";
            * its label (`description=field.label`), since the form draws none;
            * `disabled`, if it can be switched off once the question is answered.

            The form shows help and errors below it, tells None from "not set" by a toggle, and closes it.

    Raises:
        TypeError: `kind` is no class, or `builder` cannot be called.
    """
    if not isinstance(kind, type):
        raise TypeError(f"register_field takes a class, got {kind!r}. A union or a Literal has its parts registered.")
    if not callable(builder):
        raise TypeError(f"The builder of {kind.__name__} must be a function of a field and a value, got {builder!r}.")
    _builders[kind] = builder


def builder_of(spec: FieldSpec) -> Builder | None:
    """The builder registered for a field's type, or for the nearest of its bases."""
    bases = spec.type.__mro__ if isinstance(spec.type, type) else ()
    return next((_builders[base] for base in bases if base in _builders), None)


__all__ = ["Builder", "builder_of", "register_field"]
