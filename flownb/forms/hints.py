"""The help below a field: its limits, and what to write, in words."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from typing import Any, Final

from flownb.forms.fields import Kind, Zone
from flownb.forms.shape import Shape

_LIMITS: Final = (("ge", "at least"), ("gt", "more than"), ("le", "at most"), ("lt", "less than"))
_DAYS: Final = (("ge", "from"), ("gt", "after"), ("le", "until"), ("lt", "before"))


def bounds(shape: Shape, kind: Kind) -> list[str]:
    """The limits of a value or of a number of items, such as ["0 to 10 000", "a multiple of 5"]."""
    if kind in ("date", "time", "datetime"):
        limits = [(shape.limit(name), word) for name, word in _DAYS]
        return [", ".join(f"{word} {limit}" for limit, word in limits if isinstance(limit, _MOMENTS))]
    if any(shape.number(name) is not None for name in ("ge", "gt", "le", "lt", "multiple_of")):
        ge, le, step = shape.number("ge"), shape.number("le"), shape.number("multiple_of")
        if ge is not None and le is not None:
            words = f"{_number(ge)} to {_number(le)}"
        else:
            said = [(shape.number(name), word) for name, word in _LIMITS]
            words = ", ".join(f"{word} {_number(limit)}" for limit, word in said if limit is not None)
        return [words, f"a multiple of {_number(step)}" if step is not None else ""]
    if kind in ("text", "area", "secret", "chips", "rows", "json"):
        unit = "character" if kind in ("text", "area", "secret") else "row" if kind == "rows" else "item"
        return [_amount(shape.count("min_length"), shape.count("max_length"), unit)]
    return []


_MOMENTS: Final = (datetime.date, datetime.time)


def _amount(least: int | None, most: int | None, unit: str) -> str:
    if least is not None and most is not None and least:
        return _plural(most, unit) if least == most else f"{_number(least)} to {_plural(most, unit)}"
    if most is not None:
        return f"at most {_plural(most, unit)}"
    return f"at least {_plural(least, unit)}" if least is not None and least > 1 else ""


def _plural(number: int, unit: str) -> str:
    return f"{_number(number)} {unit}{'' if number == 1 else 's'}"


def _number(value: float) -> str:
    return f"{value:,}".replace(",", " ").removesuffix(".0")


def expects(kind: Kind, schema: Mapping[str, Any], zone: Zone) -> str:
    """What to write, for a text with a form of its own."""
    if kind == "datetime":
        return {"needed": "with its time zone", "refused": "without a time zone", "allowed": ""}[zone]
    if kind == "text":
        return "such as 01:30:00" if schema.get("format") == "duration" else ""
    if kind != "json":
        return ""
    outline = _outline(schema, schema.get("$defs", {}), depth=3)
    return f"JSON: {outline}" if outline else "JSON"


def _outline(schema: Mapping[str, Any], defs: Mapping[str, Any], *, depth: int) -> str:
    """A schema in a few characters, such as `{"city": string, "zip": integer}`; "" if there is nothing to say."""
    if depth == 0:
        return "…"
    if ref := str(schema.get("$ref", "")).rpartition("/")[2]:
        schema = {**defs.get(ref, {}), **{key: value for key, value in schema.items() if key != "$ref"}}
    for key in ("anyOf", "oneOf"):
        if key in schema:
            parts = dict.fromkeys(_outline(part, defs, depth=depth - 1) or "any" for part in schema[key][:6])
            return " or ".join(parts)
    if "enum" in schema:
        return " or ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"][:6])
    if "const" in schema:
        return json.dumps(schema["const"], ensure_ascii=False)
    if properties := schema.get("properties"):
        shown = [
            f"{json.dumps(name)}: {_outline(part, defs, depth=depth - 1) or 'any'}" for name, part in properties.items()
        ]
        return "{" + ", ".join(shown[:8]) + (", …" if len(shown) > 8 else "") + "}"
    kind = schema.get("type", "")
    if kind == "array":
        items = schema.get("items")
        return f"[{_outline(items, defs, depth=depth - 1) or 'any'}, …]" if isinstance(items, dict) else "[…]"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f'{{"…": {_outline(values, defs, depth=depth - 1) or "any"}}}' if isinstance(values, dict) else "{…}"
    return str(kind)
