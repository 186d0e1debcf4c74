"""What pydantic finds wrong, at the fields of a form: {dotted path: words}."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from flownb.forms.fields import REQUIRED, FieldSpec, at

_OWN_WORDS = ("value_error", "assertion_error")


def place(error: ValidationError, fields: Sequence[FieldSpec], *, inside: str = "") -> dict[str, str]:
    """The words of an error by the path of the field where they belong, such as "rows.2.score".

    What lies inside a field of JSON text is named in front of the words: "city: please fill this in". What belongs to
    no field, as the checks of the model itself, is at "".

    Args:
        error: What a type said.
        fields: Those of the form.
        inside: The name of the field that the type belongs to, where it is not the form's own.
    """
    said: dict[str, list[str]] = {}
    for item in error.errors(include_url=False, include_input=False):
        path, inner = _path((inside, *item["loc"]) if inside else item["loc"], fields)
        if item["type"] == "missing":
            text = REQUIRED if not inner else "please fill this in"
        else:
            cause = item.get("ctx", {}).get("error")
            text = str(cause) if item["type"] in _OWN_WORDS and cause else item["msg"]
        said.setdefault(path, []).append(f"{inner}: {text}" if inner else text)
    return {path: "; ".join(dict.fromkeys(texts)) for path, texts in said.items()}


def _path(loc: Sequence[Any], fields: Sequence[FieldSpec]) -> tuple[str, str]:
    """The dotted path of the innermost field at a place, and what lies inside that."""
    path, rest = "", list(loc)
    while rest:
        spec = next((spec for spec in fields if spec.name == rest[0]), None)
        if spec is None:
            break
        path = at(path, rest.pop(0))
        fields = spec.fields
        while spec is not None and rest:
            if spec.kind in ("rows", "chips") and isinstance(rest[0], int):
                path, spec = at(path, rest.pop(0)), spec.item
                fields = spec.fields if spec is not None else ()
            elif spec.kind == "tabs" and spec.discriminator:
                tag = rest.pop(0)
                branches = [branch for branch in spec.branches if str(branch.value) == str(tag)] or spec.branches
                fields, spec = branches[0].fields, None
            else:
                break
    return path, ".".join(str(part) for part in rest)
