"""Values as JSON that gives them back exactly: the notation inside an event's fields.

None, bool, int of at most 64 bits, finite float, str, list, and dict with str keys of which none begins with `$`
stand for themselves. All else is a dict whose first key is a tag:

    {"$tuple": [1, 2]}   {"$float": "nan"}   {"$dict": [[1, "a"], ["1", "b"]]}   {"$enum": "m:Colour", "name": "RED"}

A dict that itself has a key with `$` is written as `$dict`, so a tag is never mistaken. Classes of exactly these
types only: an instance of a subclass of `int` or `dict` would come back as another thing.
"""

from __future__ import annotations

import datetime as dt
import enum
import pathlib
import sys
import uuid
from base64 import b64encode
from collections.abc import Callable, Iterable
from decimal import Decimal
from math import isfinite
from typing import Any, Literal
from zoneinfo import ZoneInfo

from pydantic import Secret, SecretBytes, SecretStr
from pydantic_core import TzInfo

from flownb.store.marks import LiveTable, Lost, preview
from flownb.store.shapes import Parts, Shape, Shapes, class_key

OnUnstorable = Literal["live", "error"]
#: What is nested deeper than this is taken for a container that contains itself.
DEPTH_LIMIT = 100
PLAIN = frozenset({type(None), bool, int, str})
PLAIN_OR_FLOAT = PLAIN | {float}
_SECRET = (Secret, SecretStr, SecretBytes)
#: By the name that stands in the notation.
PATHS: dict[str, type[pathlib.PurePath]] = {
    kind.__name__: kind
    for kind in (pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.PosixPath, pathlib.WindowsPath)
}


class NoCodec(TypeError):
    """A value cannot be written; `value` is the culprit itself."""

    def __init__(self, value: object, why: str) -> None:
        super().__init__(why)
        self.value = value


class Writer:
    """Values to notation.

    Args:
        shapes: Classes whose instances are written by their fields.
        live: The table of values that a journal only has a mark of.
        unstorable: What becomes of a value without a codec: "live" marks it, "error" raises `NoCodec`.
    """

    def __init__(self, shapes: Shapes, live: LiveTable, unstorable: OnUnstorable) -> None:
        self._shapes, self._live, self._unstorable = shapes, live, unstorable
        self._depth = 0
        self._forms: dict[type, Callable[[Any], Any]] = {
            type(None): _as_it_is,
            bool: _as_it_is,
            str: _as_it_is,
            int: _int,
            float: _float,
            complex: lambda v: {"$complex": [_float(v.real), _float(v.imag)]},
            bytes: lambda v: {"$bytes": b64encode(v).decode("ascii")},
            bytearray: lambda v: {"$bytearray": b64encode(v).decode("ascii")},
            list: self._list,
            tuple: lambda v: {"$tuple": self._list(v)},
            set: lambda v: {"$set": self._list(v)},
            frozenset: lambda v: {"$frozenset": self._list(v)},
            dict: self._dict,
            range: lambda v: {"$range": [_int(v.start), _int(v.stop), _int(v.step)]},
            dt.date: lambda v: {"$date": v.isoformat()},
            dt.datetime: lambda v: self._clock("$datetime", v),
            dt.time: lambda v: self._clock("$time", v),
            dt.timedelta: lambda v: {"$timedelta": [v.days, v.seconds, v.microseconds]},
            ZoneInfo: self._zone,
            dt.timezone: self._zone,
            TzInfo: self._zone,
            Decimal: lambda v: {"$decimal": str(v)},
            uuid.UUID: lambda v: {"$uuid": v.hex},
            **dict.fromkeys(PATHS.values(), lambda v: {"$path": type(v).__name__, "text": str(v)}),
        }

    def data(self, value: Any) -> Any:
        """The notation of a value.

        Raises:
            NoCodec: It, or something in it, has none.
        """
        form = self._forms.get(type(value)) or self._form_of(type(value))
        self._depth += 1
        try:
            if self._depth > DEPTH_LIMIT:
                raise NoCodec(value, f"is nested more than {DEPTH_LIMIT} deep, or contains itself")
            return form(value)
        finally:
            self._depth -= 1

    def field(self, value: Any) -> Any:
        """The same for a whole field: one that is too deep gets one mark, not a mark somewhere in its depth."""
        try:
            return self.data(value)
        except NoCodec as error:
            if self._unstorable == "error" or isinstance(value, _SECRET):
                raise
            del error
        return self._mark("$live", value)

    def parts(self, parts: Parts) -> dict[str, Any]:
        """A class's instance, taken apart, without the empty parts: `{"d": fields, "x", "p", "a", "s"}`."""
        found: dict[str, Any] = {"d": {k: self.field(v) for k, v in parts.fields.items()}}
        for name, part in (("x", parts.extra), ("p", parts.private), ("a", parts.other)):
            if part:
                found[name] = {k: self.field(v) for k, v in part.items()}
        if parts.fields_set is not None:
            found["s"] = parts.fields_set
        return found

    def _form_of(self, kind: type) -> Callable[[Any], Any]:
        if issubclass(kind, _SECRET):
            return lambda v: self._mark("$secret", v)
        if kind is Lost:
            return self._lost
        if getattr(kind, "__flownb_transient__", False):
            return _transient
        shape = self._shapes.of(kind)
        if shape is not None:
            return self._enum if shape.flavour == "enum" else lambda v: self._instance(v, shape)
        numpy = sys.modules.get("numpy")
        if numpy is not None and issubclass(kind, numpy.generic) and kind.__module__ == "numpy":
            return self._scalar
        return self._unstored

    def _list(self, values: Any) -> list[Any]:
        return list(values) if _stand_for_themselves(values) else [self.data(v) for v in values]

    def _dict(self, values: dict[Any, Any]) -> Any:
        if all(type(k) is str and not k.startswith("$") for k in values):
            return (
                dict(values) if _stand_for_themselves(values.values()) else {k: self.data(v) for k, v in values.items()}
            )
        return {"$dict": [[self.data(k), self.data(v)] for k, v in values.items()]}

    def _instance(self, value: Any, shape: Shape) -> dict[str, Any]:
        return {"$object": shape.key, "v": shape.version, **self.parts(shape.take_apart(value))}

    def _enum(self, value: enum.Enum) -> dict[str, Any]:
        kind = type(value)
        if value.name in kind.__members__:
            return {"$enum": class_key(kind), "name": value.name}
        return {"$enum": class_key(kind), "flags": self.data(value.value)}  # several flags at once have no name

    def _clock(self, tag: str, value: Any) -> dict[str, Any]:
        written: dict[str, Any] = {tag: value.replace(tzinfo=None, fold=0).isoformat()}
        if value.fold:
            written["fold"] = 1
        if value.tzinfo is not None:
            written["zone"] = self.data(value.tzinfo)
        return written

    def _zone(self, zone: Any) -> dict[str, Any]:
        if type(zone) is ZoneInfo:
            return {"$zone": zone.key} if zone.key else self._unstored(zone)
        offset: dt.timedelta = zone.utcoffset(None)
        if type(zone) is TzInfo:
            return {"$parsed_offset": int(offset.total_seconds())}
        written: dict[str, Any] = {"$offset": [offset.days, offset.seconds, offset.microseconds]}
        if zone.tzname(None) != dt.timezone(offset).tzname(None):
            written["name"] = zone.tzname(None)
        return written

    def _scalar(self, value: Any) -> Any:
        if value.dtype.kind not in "biufcmMSU":
            return self._unstored(value)
        return {"$numpy": value.dtype.str, "b": b64encode(value.tobytes()).decode("ascii")}

    def _lost(self, value: Lost) -> Any:
        return self._mark("$live", value)

    def _unstored(self, value: Any) -> Any:
        if self._unstorable == "error":
            raise NoCodec(value, f"is a {class_key(type(value))}, which has no codec")
        return self._mark("$live", value)

    def _mark(self, tag: str, value: Any) -> dict[str, Any]:
        if isinstance(value, Lost):
            tag, kind = value._tag, value._type
        else:
            kind = class_key(type(value))
        text = "" if tag == "$secret" else preview(value)
        return {tag: kind, "text": text, "id": self._live.mark(value)}


def _transient(value: Any) -> dict[str, Any]:
    """A word on it, and no way to find it again (R6.16)."""
    return {"$transient": class_key(type(value.value)), "text": preview(value.value), "id": ""}


def _stand_for_themselves(values: Iterable[Any]) -> bool:
    """Whether all values are plain: long lists of numbers and words need no look at each in Python."""
    kinds = set(map(type, values))
    if not kinds <= PLAIN_OR_FLOAT:
        return False
    if float in kinds:
        return kinds == {float} and all(map(isfinite, values))
    return int not in kinds or all(-(2**63) <= v < 2**63 for v in values if type(v) is int)


def _as_it_is(value: Any) -> Any:
    return value


def _int(value: int) -> Any:
    # JSON readers elsewhere, and Python's own limit on digits, do not take larger ones.
    return value if -(2**63) <= value < 2**63 else {"$int": hex(value)}


def _float(value: float) -> Any:
    return value if isfinite(value) else {"$float": repr(value)}
