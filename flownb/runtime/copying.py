"""Copies on delivery: a step may change what it was given, and nobody else sees it.

Containers and models are copied, all the way down; opaque objects (a frame, an array, a client) are shared. A plan
per class is made once, so that an event of atomic fields costs one dict copy.
"""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import uuid
from pathlib import PurePath
from types import NoneType
from typing import Any
from weakref import WeakKeyDictionary

from pydantic import BaseModel

_ATOMIC: frozenset[type] = frozenset(
    (
        *(int, float, complex, str, bytes, bool, NoneType, decimal.Decimal, uuid.UUID, range, type),
        *(dt.datetime, dt.date, dt.time, dt.timedelta),
    )
)
_set = object.__setattr__


def copied(value: Any) -> Any:
    """The value as its receiver may change it."""
    kind = type(value)
    if kind in _ATOMIC:
        return value
    if hasattr(kind, "__flownb_kind__"):
        return _copy(value)
    if kind is list:
        return [copied(v) for v in value]
    if kind is dict:
        return {k: copied(v) for k, v in value.items()}
    if kind is tuple:
        return tuple([copied(v) for v in value])
    if kind is set:
        return set(value)
    if hasattr(kind, "__pydantic_validator__") and isinstance(value, BaseModel):
        return _copy(value)
    return value


#: Frozen classes: whether their instances can be shared. All others are copied, so they need no entry.
_safe: WeakKeyDictionary[type, bool] = WeakKeyDictionary()


def _copy(model: Any) -> Any:
    kind = type(model)
    if kind.model_config.get("frozen"):
        safe = _safe.get(kind)
        if safe is None:
            safe = _safe[kind] = _is_safe(kind)
        if safe:
            return model
    return _copy_model(model)


def _is_safe(kind: type[BaseModel]) -> bool:
    """A frozen model of atomic fields cannot be changed, so it can be shared."""
    if kind.model_config.get("extra") == "allow":
        return False
    return all(
        isinstance(f.annotation, type) and (f.annotation in _ATOMIC or issubclass(f.annotation, (enum.Enum, PurePath)))
        for f in kind.model_fields.values()
    )


def _copy_model(model: Any) -> Any:
    kind = type(model)
    new = object.__new__(kind)
    fields = model.__dict__.copy()
    for name, value in fields.items():
        if type(value) not in _ATOMIC:
            fields[name] = copied(value)
    _set(new, "__dict__", fields)
    _set(new, "__pydantic_fields_set__", model.__pydantic_fields_set__.copy())
    extra = model.__pydantic_extra__
    _set(
        new, "__pydantic_extra__", None if extra is None else {k: copied(v) for k, v in extra.items()} if extra else {}
    )
    private = model.__pydantic_private__
    _set(new, "__pydantic_private__", dict(private) if private else private)
    return new
