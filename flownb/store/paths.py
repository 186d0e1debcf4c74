"""Where in a value something stands, in words: `rows[3].client`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flownb.store.shapes import Shapes

LENGTH = 120


def path_to(value: object, culprit: object, shapes: Shapes) -> str:
    """The way from a value to an object inside it, "" if that is the value itself or is not found."""
    steps = _search(value, culprit, shapes, [id(value)]) or []
    path = "".join(steps).removeprefix(".")
    return path if len(path) <= LENGTH else path[: LENGTH - 1] + "…"


def _search(value: object, culprit: object, shapes: Shapes, above: list[int]) -> list[str] | None:
    if value is culprit:
        return []
    for step, inner in _inside(value, shapes):
        if id(inner) in above:  # a container that contains itself
            return [step] if inner is culprit else None
        found = _search(inner, culprit, shapes, [*above, id(inner)])
        if found is not None:
            return [step, *found]
    return None


def _inside(value: Any, shapes: Shapes) -> Iterator[tuple[str, Any]]:
    if type(value) in (list, tuple):
        yield from ((f"[{i}]", v) for i, v in enumerate(value))
    elif type(value) in (set, frozenset):
        yield from (("{…}", v) for v in value)
    elif type(value) is dict:
        yield from ((f"[{k!r}]", v) for k, v in value.items())
        yield from ((f".key({k!r})", k) for k in value)
    elif (shape := shapes.of(type(value))) is not None and shape.flavour != "enum":
        parts = shape.take_apart(value)
        for group in (parts.fields, parts.extra, parts.private, parts.other):
            yield from ((f".{name}", v) for name, v in (group or {}).items())
