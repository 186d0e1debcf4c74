"""Copies on delivery: a step may change what it was given, and nobody else sees it.

Containers, dataclasses and models are copied, all the way down, and what is the same object twice, or inside itself,
is so in the copy; opaque objects (a frame, an array, a client) are shared. A plan per class is made once, so that an
event of atomic fields costs one dict copy.
"""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import decimal
import enum
import uuid
from collections import deque
from collections.abc import Callable
from pathlib import PurePath
from types import NoneType
from typing import Any
from weakref import WeakKeyDictionary

from pydantic import BaseModel

from flownb.store.shapes import set_extra, set_fields, set_names, set_private

_ATOMIC: frozenset[type] = frozenset(
    (
        *(int, float, complex, str, bytes, bool, NoneType, decimal.Decimal, uuid.UUID, range, type),
        *(dt.datetime, dt.date, dt.time, dt.timedelta),
    )
)
_set = object.__setattr__

#: What was copied on the way, by the id of the original.
Memo = dict[int, Any]
Copier = Callable[[Any, Memo], Any]


def copied(value: Any) -> Any:
    """The value as its receiver may change it."""
    kind = type(value)
    if kind in _ATOMIC:
        return value
    if hasattr(kind, "__flownb_kind__"):
        fields, extra = value.__dict__, value.__pydantic_extra__
        if not extra and "frozen" not in kind.model_config:
            for part in fields.values():
                if type(part) not in _ATOMIC:
                    break
            else:  # the common event: nothing in it but plain fields
                new = object.__new__(kind)
                set_fields(new, fields.copy())
                set_names(new, value.__pydantic_fields_set__.copy())
                set_extra(new, None if extra is None else {})
                private = value.__pydantic_private__
                set_private(new, private.copy() if private else private)
                return new
        return _copy_model(value, {})
    return _copy(value, {})


def is_flat(model: BaseModel) -> bool:
    """Whether all that a model holds is plain values, which nobody can change."""
    held = (*model.__dict__.values(), *(model.__pydantic_extra__ or {}).values())
    return not model.__pydantic_private__ and all(type(value) in _ATOMIC for value in held)


def _copy(value: Any, memo: Memo) -> Any:
    kind = type(value)
    if kind in _ATOMIC:
        return value
    if hasattr(kind, "__flownb_kind__"):
        return _copy_model(value, memo)
    if kind is list:
        return _copy_list(value, memo)
    if kind is dict:
        return _copy_dict(value, memo)
    plan = _plans.get(kind, _MISSING)
    if plan is _MISSING:
        plan = _plans[kind] = _plan_of(kind)
    return value if plan is None else plan(value, memo)


_MISSING: Any = object()
#: How instances of a class are copied; None: they are shared.
_plans: WeakKeyDictionary[type, Copier | None] = WeakKeyDictionary()


def _plan_of(kind: type) -> Copier | None:
    if hasattr(kind, "__pydantic_validator__") and issubclass(kind, BaseModel):
        return _copy_model
    if dataclasses.is_dataclass(kind):
        return _copy_dataclass
    for base, plan in _CONTAINERS.items():
        if issubclass(kind, base):
            return plan
    return None


# Containers. A subclass keeps its type and its own attributes (the factory of a defaultdict, the length of a deque):
# it makes the shallow copy itself, in which the items are then replaced.


def _copy_list(value: list[Any], memo: Memo) -> Any:
    done = memo.get(id(value))
    if done is not None:
        return done
    new: list[Any] = [] if type(value) is list else copy.copy(value)
    memo[id(value)] = new
    list.__setitem__(new, slice(None), [v if type(v) in _ATOMIC else _copy(v, memo) for v in list.__iter__(value)])
    return new


def _copy_dict(value: dict[Any, Any], memo: Memo) -> Any:
    done = memo.get(id(value))
    if done is not None:
        return done
    new: dict[Any, Any] = value.copy() if type(value) is dict else copy.copy(value)
    memo[id(value)] = new
    for key, item in dict.items(value):
        if type(item) not in _ATOMIC:
            dict.__setitem__(new, key, _copy(item, memo))
    return new


def _copy_deque(value: deque[Any], memo: Memo) -> Any:
    done = memo.get(id(value))
    if done is not None:
        return done
    new = copy.copy(value)
    memo[id(value)] = new
    for i, item in enumerate(deque.__iter__(value)):
        if type(item) not in _ATOMIC:
            deque.__setitem__(new, i, _copy(item, memo))
    return new


def _copy_tuple(value: tuple[Any, ...], memo: Memo) -> Any:
    done = memo.get(id(value))
    if done is not None:
        return done
    items = [_copy(item, memo) for item in tuple.__iter__(value)]
    if all(new is old for new, old in zip(items, tuple.__iter__(value), strict=True)):
        return value
    done = memo.get(id(value))  # it holds itself, inside a list
    if done is not None:
        return done
    new: Any = tuple.__new__(type(value), items)
    if hasattr(value, "__dict__"):
        new.__dict__.update(value.__dict__)
    memo[id(value)] = new
    return new


def _copy_flat(value: Any, memo: Memo) -> Any:
    """What holds only values that nobody can change."""
    done = memo.get(id(value))
    if done is None:
        done = memo[id(value)] = copy.copy(value)
    return done


_CONTAINERS: dict[type, Copier] = {
    list: _copy_list,
    dict: _copy_dict,
    tuple: _copy_tuple,
    set: _copy_flat,
    bytearray: _copy_flat,
    deque: _copy_deque,
}


# Dataclasses and models.


def _copy_dataclass(value: Any, memo: Memo) -> Any:
    done = memo.get(id(value))
    if done is not None:
        return done
    kind = type(value)
    names = [field.name for field in dataclasses.fields(kind) if hasattr(value, field.name)]
    if kind.__dataclass_params__.frozen and all(type(getattr(value, name)) in _ATOMIC for name in names):
        return value
    new = copy.copy(value)
    memo[id(value)] = new
    for name in names:
        item = getattr(value, name)
        if type(item) not in _ATOMIC:
            _set(new, name, _copy(item, memo))
    return new


#: Frozen models: whether their instances can be shared. All others are copied, so they need no entry.
_safe: WeakKeyDictionary[type, bool] = WeakKeyDictionary()


def _is_safe(kind: type[BaseModel]) -> bool:
    """A frozen model of atomic fields cannot be changed, so it can be shared."""
    if kind.model_config.get("extra") == "allow":
        return False
    return all(
        isinstance(f.annotation, type) and (f.annotation in _ATOMIC or issubclass(f.annotation, (enum.Enum, PurePath)))
        for f in kind.model_fields.values()
    )


def _copy_model(model: Any, memo: Memo) -> Any:
    kind = type(model)
    if kind.model_config.get("frozen"):
        safe = _safe.get(kind)
        if safe is None:
            safe = _safe[kind] = _is_safe(kind)
        if safe:
            return model
    done = memo.get(id(model))
    if done is not None:
        return done
    new = memo[id(model)] = object.__new__(kind)
    fields = model.__dict__.copy()
    for name, value in fields.items():
        if type(value) not in _ATOMIC:
            fields[name] = _copy(value, memo)
    _set(new, "__dict__", fields)
    _set(new, "__pydantic_fields_set__", model.__pydantic_fields_set__.copy())
    extra = model.__pydantic_extra__
    _set(new, "__pydantic_extra__", _copy_dict(extra, memo) if extra else extra if extra is None else {})
    private = model.__pydantic_private__
    _set(new, "__pydantic_private__", dict(private) if private else private)
    return new
