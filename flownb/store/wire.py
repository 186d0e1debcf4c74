"""Ticks as they stand in a journal's body: the same fields but `at`, with every `Out` in its written form.

The written form of a tick class is derived from its hints, so a new tick needs nothing here. An `Out` may stand in a
tick alone, in a tuple, as the values of a dict, and at any depth in structs that ticks hold (`Ask`, `Limit`).
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from typing import Any, Union, get_args, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from flownb.core.ticks import Tick
from flownb.core.values import Limit, Out, Role

Convert = Callable[[Any], Any]
#: Each codec derives its forms from the same hints; to evaluate them takes longer than all else.
_fields = cache(msgspec.structs.fields)
#: The fields that every tick has beside `at`: the last ones, given by name.
_BY_NAME = tuple(f.name for f in msgspec.structs.fields(Tick) if f.name != "at")
_NAMED = -len(_BY_NAME)
_USUAL = [f.default for f in msgspec.structs.fields(Tick) if f.name != "at"]


class WireLimit(Struct, omit_defaults=True, forbid_unknown_fields=True):
    due_at: float
    default: WireOut | None = None


class WireOut(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """One user value: key and version of its class, and its fields in the notation of `writer.py`."""

    t: str
    #: 0: `d` is notation that stands for itself, not the fields of an instance of `t`.
    v: int
    d: Any
    #: Undeclared fields, private attributes, other attributes.
    x: dict[str, Any] | None = None
    p: dict[str, Any] | None = None
    a: dict[str, Any] | None = None
    #: Names of the fields that were set, where these are not all.
    s: list[str] | None = None
    role: Role = "event"
    bases: tuple[str, ...] = ()
    limit: WireLimit | None = None


class TickForm:
    """How one kind of tick is written and read.

    Args:
        kind: The tick class.
        lower: An `Out` to its written form.
        lift: And back.
    """

    def __init__(self, kind: type[Tick], lower: Convert, lift: Convert) -> None:
        self.kind = kind
        self.name = kind.__name__
        self.wire = _wire_struct(kind, omit=("at",))
        self._lowered = _converters(kind, {Out: lower}, to_wire=True, omit=("at",))
        self._lift = lift

    # Made on first need: who only writes a journal never reads it.

    @cached_property
    def _lifted(self) -> list[tuple[int, Convert]]:
        return _converters(self.kind, {Out: self._lift}, to_wire=False, omit=("at",))

    @cached_property
    def _decoder(self) -> msgspec.json.Decoder[Struct]:
        return msgspec.json.Decoder(self.wire)

    def to_wire(self, tick: Tick) -> Struct:
        _, *values = astuple(tick)  # `at` has a column of its own
        for i, convert in self._lowered:
            if values[i]:  # nothing that is empty holds an `Out`
                values[i] = convert(values[i])
        return self.wire(*values)

    def from_wire(self, at: float, wire: Struct) -> Tick:
        values = list(astuple(wire))
        for i, convert in self._lifted:
            values[i] = convert(values[i])
        named = values[_NAMED:]
        del values[_NAMED:]
        if named == _USUAL:
            return self.kind(at, *values)
        return self.kind(at, *values, **dict(zip(_BY_NAME, named, strict=True)))

    def parse(self, body: bytes) -> Struct:
        return self._decoder.decode(body)

    def parse_tree(self, tree: Any) -> Struct:
        return msgspec.convert(tree, self.wire)


@cache
def _hints_with_outs(kind: type[Struct], omit: tuple[str, ...]) -> list[tuple[int, Any]]:
    """Place and hint of each field that may hold an `Out`."""
    hints = [f.type for f in _fields(kind) if f.name not in omit]
    return [(i, hint) for i, hint in enumerate(hints) if _holds_out(hint)]


def _converters(
    kind: type[Struct], known: dict[type, Convert], to_wire: bool, omit: tuple[str, ...] = ()
) -> list[tuple[int, Convert]]:
    found = [(i, _converter(hint, known, to_wire)) for i, hint in _hints_with_outs(kind, omit)]
    return [(i, convert) for i, convert in found if convert is not None]


def _converter(hint: Any, known: dict[type, Convert], to_wire: bool) -> Convert | None:
    """What to do with a field's value; None: nothing, no `Out` is in it."""
    if hint in known:
        return known[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _union_converter(arguments, known, to_wire)
    if origin in (tuple, dict):
        inner = _converter(arguments[0] if origin is tuple else arguments[1], known, to_wire)
        if inner is None:
            return None
        return (lambda v: tuple(map(inner, v))) if origin is tuple else lambda v: {k: inner(x) for k, x in v.items()}
    return _struct_converter(hint, known, to_wire) if _holds_out(hint) else None


def _union_converter(arguments: Sequence[Any], known: dict[type, Convert], to_wire: bool) -> Convert | None:
    by_type: dict[type, Convert] = {}
    for argument in arguments:
        convert = _converter(argument, known, to_wire)
        if convert is not None:
            kind = get_origin(argument) or argument  # of `dict[str, Out] | None` the dict
            by_type[kind if to_wire else _wire_type(kind)] = convert
    if not by_type:
        return None

    def convert_one(value: Any) -> Any:
        convert = by_type.get(type(value))
        return value if convert is None else convert(value)

    return convert_one


def _struct_converter(kind: Any, known: dict[type, Convert], to_wire: bool) -> Convert:
    converters = _converters(kind, known, to_wire)
    made = _wire_type(kind) if to_wire else kind

    def convert_struct(value: Struct) -> Any:
        values = list(astuple(value))
        for i, convert in converters:
            values[i] = convert(values[i])
        return made(*values)

    return convert_struct


_wire_types: dict[type, type[Struct]] = {Out: WireOut, Limit: WireLimit}


@cache
def _holds_out(hint: Any) -> bool:
    if hint in _wire_types:
        return True
    if isinstance(hint, type) and issubclass(hint, Struct):
        return any(_holds_out(f.type) for f in _fields(hint))
    return any(map(_holds_out, get_args(hint)))


def _wire_type(hint: Any) -> Any:
    """A hint with written forms in place of `Out` and what holds it."""
    if hint in _wire_types:
        return _wire_types[hint]
    if not _holds_out(hint):
        return hint
    if isinstance(hint, type) and issubclass(hint, Struct):
        return _wire_types.setdefault(hint, _wire_struct(hint))
    origin, arguments = get_origin(hint), tuple(map(_wire_type, get_args(hint)))
    return Union[arguments] if origin in (Union, types.UnionType) else origin[arguments]  # noqa: UP007


@cache
def _wire_struct(kind: type[Struct], omit: tuple[str, ...] = ()) -> type[Struct]:
    config = kind.__struct_config__
    is_tick = issubclass(kind, Tick)
    return msgspec.defstruct(
        f"Wire{kind.__name__}",
        [(f.name, _wire_type(f.type), *_default_of(f)) for f in _fields(kind) if f.name not in omit],
        omit_defaults=True,
        forbid_unknown_fields=True,
        # A tick's kind has a column of its own.
        tag_field=None if is_tick else config.tag_field,
        tag=None if is_tick else config.tag,
    )


def _default_of(field: msgspec.structs.FieldInfo) -> tuple[Any, ...]:
    if field.default is not msgspec.NODEFAULT:
        return (field.default,)
    if field.default_factory is not msgspec.NODEFAULT:
        return (msgspec.field(default_factory=field.default_factory),)
    return ()
