"""What the core knows of a user's values: a name, a role, and nothing else."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any, Literal
from zlib import crc32

from msgspec import Struct

Role = Literal["event", "start", "stop", "request", "answer", "failure", "closed", "engine", "value"]
"""What an event is to the engine. A plain `Event` hint takes only "event" and "answer"; "value" marks plain data."""

StepName = str
RunId = str


class Limit(Struct, frozen=True, omit_defaults=True):
    """How long a question that was returned or sent may stay open."""

    #: Unix seconds.
    due_at: float
    #: Taken at the deadline; without it the question's branch hears of its end.
    default: Out | None = None


class Out(Struct, frozen=True, eq=False, omit_defaults=True):
    """One user value on its way through a run, opaque to the core.

    Two of them are equal if key and role are, and the values are the same object or alike field by field; an
    opaque object (a frame, an array) counts by identity, since its own `==` may answer with anything.
    """

    #: `module:qualname` of the value's class.
    key: str
    value: Any
    role: Role = "event"
    #: Keys of the bases up to `Event`, nearest first; empty where the spec already knows `key`.
    bases: tuple[str, ...] = ()
    #: Of a question.
    limit: Limit | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Out):
            return NotImplemented
        return (
            self.key == other.key
            and self.role == other.role
            and self.limit == other.limit
            and alike(self.value, other.value)
        )

    def __ne__(self, other: object) -> bool:
        # Struct has a `!=` of its own, which knows nothing of the `==` above.
        return not self == other


class Failure(Struct, frozen=True, omit_defaults=True):
    """What is kept of an exception: words, never the live object."""

    type: str
    message: str
    traceback: str = ""


MISSING: Any = type("Missing", (), {"__repr__": lambda self: "MISSING"})()
"""Stands for a field that is not there."""


def field_of(value: object, name: str) -> Any:
    """A field of a model, declared or not, `MISSING` if it has none: read without calling any code of the user's."""
    fields = getattr(value, "__dict__", None)
    if isinstance(fields, dict) and name in fields:
        return fields[name]
    extra = getattr(value, "__pydantic_extra__", None)
    return extra.get(name, MISSING) if isinstance(extra, dict) else MISSING


def meets(required: object, found: object) -> bool:
    """Whether a field is what a waiter requires: numbers and texts by `==`, all else as `alike` says."""
    if isinstance(required, _PLAIN) and isinstance(found, _PLAIN):
        return _equal(required, found)
    return alike(required, found)


def fingerprint(value: object) -> int | None:
    """A number that is equal for values that `meets` finds equal, in every process; None for what is not plain."""
    if value is None:
        return 0
    if isinstance(value, (int, float, complex, Decimal)):
        return hash(value) & 0xFFFFFFFF if _equal(value, value) else 1
    if isinstance(value, str):
        return crc32(str.encode(value, "utf-8", "surrogatepass"))
    return crc32(value) if isinstance(value, bytes) else None


_PLAIN = (int, float, complex, str, bytes, bool, type(None), dt.date, dt.time, dt.timedelta, Decimal)


def alike(a: object, b: object) -> bool:
    """Whether two user values are the same to the engine, without ever calling a user's `==`.

    Plain values and containers by content, objects with a `__dict__` (models) by class name and fields, all else
    by identity. What holds itself, or is nested too deeply to be gone through, is only the same as itself.
    """
    if a is b:
        return True
    try:
        return _alike(a, b)
    except RecursionError:
        return False


def _alike(a: object, b: object) -> bool:
    if isinstance(a, _PLAIN) or isinstance(b, _PLAIN):
        return type(a) is type(b) and (_equal(a, b) or not (_equal(a, a) or _equal(b, b)))
    if isinstance(a, (set, frozenset)) and isinstance(b, (set, frozenset)):
        return type(a) is type(b) and all(isinstance(v, _PLAIN) for v in (*a, *b)) and a == b
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return len(a) == len(b) and all(k in b and alike(v, b[k]) for k, v in a.items())
    if isinstance(a, Struct) and isinstance(b, Struct):
        return bool(a == b)
    return _same_model(a, b)


def _equal(a: object, b: object) -> bool:
    try:
        return bool(a == b)
    except ArithmeticError:  # a Decimal that signals: no number, as any other NaN
        return False


def _same_model(a: object, b: object) -> bool:
    # Cells are run again: the class of an equal event may be another object with the same name.
    one, two = type(a), type(b)
    if (one.__module__, one.__qualname__) != (two.__module__, two.__qualname__):
        return False
    if not hasattr(one, "model_fields"):
        return False
    extra_a, extra_b = getattr(a, "__pydantic_extra__", None) or {}, getattr(b, "__pydantic_extra__", None) or {}
    return alike(a.__dict__, b.__dict__) and alike(extra_a, extra_b)
