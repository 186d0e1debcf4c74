"""How instances of a user's class are taken apart for a journal and put together again, without running its code.

A class is only ever found among those that this process has defined: by the codec's lookup, in the hints of a class
found so or among the subclasses of such a one, or because an instance was written. A name in a journal never imports
anything.

    class Order(Event):
        __version__ = 2  # 1 if it is not stated
        amount_cents: int

        @classmethod
        def upgrade(cls, version, data):  # the one code of a class that reading runs
            if version < 2:
                data["amount_cents"] = round(100 * data.pop("amount"))
            return data

What an older version wrote goes through `upgrade`, if the class has one: its declared and undeclared fields in one
dict, which it gives back as fields of today, and no validator runs on them. From one version to the next but one it
goes by its own `if`s. Fields that are only new, with a default, or only gone need no version.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, Literal, cast, get_args, get_type_hints

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

Flavour = Literal["model", "dataclass", "tuple", "enum"]
#: The version of a class that does not state one.
VERSION = 1
_set = object.__setattr__
_MISSING = object()
# The slots of a model; `object.__setattr__` looks for them each time, which doubles what it costs to make one.
set_fields = vars(BaseModel)["__dict__"].__set__
set_names = vars(BaseModel)["__pydantic_fields_set__"].__set__
set_extra = vars(BaseModel)["__pydantic_extra__"].__set__
set_private = vars(BaseModel)["__pydantic_private__"].__set__


class UnknownClass(LookupError):
    """A stored key names no class here, or one that the stored fields do not fit; the message is a sentence.

    Args:
        missing: The fields that the class needs and the stored value has not.
    """

    def __init__(self, message: str, missing: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.missing = missing


def class_key(kind: type) -> str:
    """`module:qualname`; the parameters of a subscripted generic model do not belong to it."""
    origin = getattr(kind, "__pydantic_generic_metadata__", {}).get("origin") or kind
    return f"{origin.__module__}:{origin.__qualname__}"


def _stated(kind: type, name: str) -> object:
    """What a class or a base of it has under a name, as it stands there; None for nothing."""
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)


def version_of(kind: type) -> int:
    """The `__version__` that a class or a base of it states, a whole number from 1; 1 without one."""
    stated = getattr(kind, "__version__", VERSION)
    return stated if type(stated) is int and stated > 0 else VERSION


def flavour_of(kind: type) -> Flavour | None:
    """How instances of a class are stored; None if they have no codec."""
    if issubclass(kind, enum.Enum):
        return "enum"
    if issubclass(kind, tuple):
        is_named = kind.__bases__[0] is tuple and hasattr(kind, "_fields")
        return "tuple" if is_named else None
    if issubclass(kind, (dict, list, set, frozenset, str, bytes, int, float, complex)):
        return None
    if issubclass(kind, BaseModel):
        return "model"
    # An own `__new__` would have to run to make an instance.
    return "dataclass" if dataclasses.is_dataclass(kind) and kind.__new__ is object.__new__ else None


class Parts:
    """One instance taken apart: mappings of names to values."""

    __slots__ = ("extra", "fields", "fields_set", "other", "private")

    def __init__(
        self,
        fields: dict[str, Any],
        extra: dict[str, Any] | None = None,
        private: dict[str, Any] | None = None,
        other: dict[str, Any] | None = None,
        fields_set: list[str] | None = None,
    ) -> None:
        self.fields, self.extra, self.private, self.other, self.fields_set = (
            fields,
            extra,
            private,
            other,
            fields_set,
        )


class Shape:
    """What is read off a class once.

    Raises:
        TypeError: Its instances have no codec.
    """

    __slots__ = (
        *("flavour", "is_model", "is_simple", "key", "kind", "names", "order", "takes_extra", "upgrade", "version"),
    )

    def __init__(self, kind: type) -> None:
        flavour = flavour_of(kind)
        if flavour is None:
            raise TypeError(f"Instances of {kind!r} have no codec.")
        self.kind, self.flavour = kind, flavour
        self.key = class_key(kind)
        self.version = version_of(kind)
        #: `upgrade(version, data)` of the class, None without one.
        self.upgrade: Callable[[int, dict[str, Any]], Any] | None = None
        if isinstance(_stated(kind, "upgrade"), classmethod):
            self.upgrade = cast(Any, kind).upgrade
        #: The declared fields.
        self.order = tuple(_field_names(kind, flavour))
        self.names = frozenset(self.order)
        self.is_model = flavour == "model"
        #: A model without private attributes: one that is made by `from_fields` lacks nothing.
        self.is_simple = issubclass(kind, BaseModel) and not kind.__private_attributes__
        self.takes_extra = issubclass(kind, BaseModel) and kind.model_config.get("extra") == "allow"

    def from_fields(self, fields: dict[str, Any]) -> Any:
        """A model that has exactly its declared fields, all of them given."""
        model: Any = object.__new__(self.kind)
        set_fields(model, fields)
        set_extra(model, {} if self.takes_extra else None)
        set_names(model, set(fields))
        set_private(model, None)
        return model

    def take_apart(self, value: Any) -> Parts:
        """Declared fields and whatever else the instance holds; cached properties are left out."""
        if self.flavour == "tuple":
            return Parts(value._asdict())
        attributes: dict[str, Any] = getattr(value, "__dict__", {})
        other = {k: v for k, v in attributes.items() if k not in self.names and not self._is_cached(k)}
        if self.flavour == "dataclass":
            return Parts({k: getattr(value, k) for k in self.order if hasattr(value, k)}, other=other or None)
        extra, given = value.__pydantic_extra__, value.__pydantic_fields_set__
        fields = {k: v for k, v in attributes.items() if k in self.names}
        everything = self.names if not extra else self.names | extra.keys()
        fields_set = None if given == everything else sorted(given)
        return Parts(fields, extra or None, value.__pydantic_private__ or None, other or None, fields_set)

    def put_together(self, parts: Parts) -> Any:
        """The instance again: no validator and no `__init__` runs. Fields that are new since then get their default,
        those that are gone are dropped, or kept as undeclared ones where the class takes such.

        Raises:
            UnknownClass: The class has a required field that is not there.
        """
        if self.is_model:
            return self._model(parts)
        kind, fields = cast(Any, self.kind), parts.fields
        if self.flavour == "tuple":
            self._fill(fields, kind._field_defaults.get)
            return tuple.__new__(kind, [fields[name] for name in self.order])
        declared = {f.name: f for f in dataclasses.fields(kind)}
        self._fill(fields, lambda name, missing: _dataclass_default(declared[name], missing))
        value = object.__new__(kind)
        for name in self.order:
            _set(value, name, fields[name])
        for name, other in (parts.other or {}).items():
            _set(value, name, other)
        return value

    def upgraded(self, version: int, parts: Parts) -> Parts:
        """What an older version of the class wrote, as it would write it today.

        Raises:
            UnknownClass: It was written by a newer version, or the class's own `upgrade` fails.
        """
        if version > self.version:
            raise UnknownClass(f"It was written by version {version} of {self.key!r}; here is version {self.version}.")
        if self.upgrade is None:
            return parts
        given = {*parts.fields, *(parts.extra or ())} if parts.fields_set is None else {*parts.fields_set}
        old = {**parts.fields, **(parts.extra or {})}
        before = {*old}
        try:
            new = self.upgrade(version, old)
        except Exception as error:  # a user's code may do anything
            raise UnknownClass(
                f"`upgrade` of {self.key!r} cannot take what version {version} wrote: {type(error).__name__}: {error}"
            ) from error
        if type(new) is not dict:
            raise UnknownClass(f"`upgrade` of {self.key!r} gives a {type(new).__name__}, not a dict of its fields.")
        fields = {k: new[k] for k in self.order if k in new}
        extra = {k: v for k, v in new.items() if k not in self.names} if self.takes_extra else None
        fields_set = sorted(k for k in new if k in given or k not in before) if self.is_model else None
        return Parts(fields, extra or None, parts.private, parts.other, fields_set)

    def _model(self, parts: Parts) -> Any:
        kind = cast(type[BaseModel], self.kind)
        fields, extra = parts.fields, parts.extra
        given = None if parts.fields_set is None else set(parts.fields_set)
        if fields.keys() != self.names:
            stored = fields
            fields = {k: v for k, v in stored.items() if k in self.names}
            if self.takes_extra:
                extra = {k: v for k, v in stored.items() if k not in self.names} | (extra or {})
            self._fill(fields, lambda name, missing: _model_default(kind, name, fields, missing))
            given = (set(stored) if given is None else given) & {*self.names, *(extra or ())}
        if given is None:
            given = {*self.names, *(extra or ())}
        model = object.__new__(kind)
        _set(model, "__dict__", fields if not parts.other else fields | parts.other)
        _set(model, "__pydantic_extra__", (extra or {}) if self.takes_extra else None)
        _set(model, "__pydantic_fields_set__", given)
        _set(model, "__pydantic_private__", _private(kind, parts.private))
        return model

    def _fill(self, fields: dict[str, Any], default: Callable[[str, Any], Any]) -> None:
        if fields.keys() >= self.names:
            return
        missing = []
        for name in self.order:
            if name not in fields:
                value = default(name, _MISSING)
                if value is _MISSING:
                    missing.append(name)
                else:
                    fields[name] = value
        if missing:
            needed = f"a field {missing[0]!r}" if len(missing) == 1 else f"fields {', '.join(map(repr, missing))}"
            raise UnknownClass(
                f"Class {self.key!r} needs {needed}, which the stored value has not. Give it a default, or the class a "
                "new `__version__` and an `upgrade`.",
                tuple(missing),
            )

    def _is_cached(self, name: str) -> bool:
        return isinstance(getattr(self.kind, name, None), cached_property)


def _field_names(kind: Any, flavour: Flavour) -> Iterable[str]:
    if flavour == "model":
        return cast(Iterable[str], kind.model_fields)
    if flavour == "dataclass":
        return [f.name for f in dataclasses.fields(kind)]
    return cast(Iterable[str], kind._fields) if flavour == "tuple" else ()


def _dataclass_default(field: dataclasses.Field[Any], missing: Any) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else missing


def _model_default(kind: type[BaseModel], name: str, so_far: dict[str, Any], missing: Any) -> Any:
    field = kind.model_fields[name]
    if field.is_required():
        return missing
    if getattr(field, "default_factory_takes_validated_data", False):
        return field.get_default(call_default_factory=True, validated_data=so_far)
    return field.get_default(call_default_factory=True)


def _private(kind: type[BaseModel], stored: dict[str, Any] | None) -> dict[str, Any] | None:
    if not kind.__private_attributes__:
        return None
    found = dict(stored or {})
    for name, attribute in kind.__private_attributes__.items():
        if name not in found and (default := attribute.get_default()) is not PydanticUndefined:
            found[name] = default
    return found


class Shapes:
    """The classes that values may be of.

    Args:
        lookup: The class that a key means now, None if this process has not defined one.
    """

    def __init__(self, lookup: Callable[[str], type | None]) -> None:
        self._lookup = lookup
        # By key, so that the class of a cell that was run again replaces the old one.
        self.by_key: dict[str, Shape] = {}

    def of(self, kind: type) -> Shape | None:
        """The shape of a class; None if its instances have no codec."""
        key = class_key(kind)
        found = self.by_key.get(key)
        if found is None or found.kind is not kind:
            flavour = flavour_of(kind)
            if flavour is None:
                return None
            for near in _hinted(kind):
                self._add(near)
            found = self._add(kind)
        return found

    def named(self, key: str) -> Shape:
        """The shape of the class that a stored key means.

        Raises:
            UnknownClass: There is none.
        """
        kind, found = self._lookup(key), self.by_key.get(key)
        if kind is not None and (found is None or found.kind is not kind):
            found = self.of(kind)
        if found is None:
            found = self._derived(key)
        if found is None:
            raise UnknownClass(f"No class {key!r} is defined here.")
        return found

    def _derived(self, key: str) -> Shape | None:
        """The newest subclass of that name of a class that is known: it may stand where that one is hinted."""
        todo = [shape.kind for shape in self.by_key.values() if shape.flavour != "enum"]
        seen: set[type] = set()
        found: type | None = None
        while todo:
            for kind in _subclasses(todo.pop()):
                if kind not in seen:
                    seen.add(kind)
                    todo.append(kind)
                    if class_key(kind) == key and flavour_of(kind) is not None:
                        found = kind
        return None if found is None else self.of(found)

    def _add(self, kind: type) -> Shape:
        shape = Shape(kind)
        self.by_key[shape.key] = shape
        return shape


def _subclasses(kind: type) -> list[type]:
    return type.__subclasses__(kind)


def _hinted(kind: type) -> set[type]:
    """The classes with a codec that the hints of a class name, at any depth."""
    found: set[type] = set()
    hints = _hints(kind)
    while hints:
        hint = hints.pop()
        arguments = get_args(hint)
        if arguments:  # list[...], unions and the like
            hints.extend(arguments)
        elif isinstance(hint, type) and hint not in found and flavour_of(hint) is not None:
            found.add(hint)
            hints.extend(_hints(hint))
    return found


def _hints(kind: type) -> list[Any]:
    if issubclass(kind, BaseModel):
        return [f.annotation for f in kind.model_fields.values()]
    if issubclass(kind, enum.Enum):
        return []
    try:
        return list(get_type_hints(kind).values())
    except (NameError, TypeError, AttributeError):  # a hint in quotes that cannot be resolved names no class to us
        return []
