"""The notation of `writer.py` back to values. A damaged one is told, and nothing of it is imported or run."""

from __future__ import annotations

import datetime as dt
import pathlib
import uuid
from base64 import b64decode
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from pydantic_core import TzInfo

from flownb.store.marks import LiveTable, Lost
from flownb.store.shapes import Parts, Shape, Shapes, UnknownClass
from flownb.store.writer import PATHS, PLAIN_OR_FLOAT


class Reader:
    """Notation to values. What it raises on a damaged one, apart from `UnknownClass`, is one of `MALFORMED`."""

    MALFORMED = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError)

    def __init__(self, shapes: Shapes, live: LiveTable) -> None:
        self._shapes, self._live = shapes, live
        #: Where the reader is, for `Lost`.
        self.event = ""
        self.at_field = ""
        self._forms: dict[str, Callable[[dict[str, Any]], Any]] = {
            "$int": lambda d: int(d["$int"], 16),
            "$float": lambda d: float(d["$float"]),
            "$complex": lambda d: complex(*map(self.data, d["$complex"])),
            "$bytes": lambda d: b64decode(d["$bytes"], validate=True),
            "$bytearray": lambda d: bytearray(b64decode(d["$bytearray"], validate=True)),
            "$tuple": lambda d: tuple(map(self.data, d["$tuple"])),
            "$set": lambda d: set(map(self.data, d["$set"])),
            "$frozenset": lambda d: frozenset(map(self.data, d["$frozenset"])),
            "$dict": lambda d: {self.data(k): self.data(v) for k, v in d["$dict"]},
            "$range": lambda d: range(*map(self.data, d["$range"])),
            "$date": lambda d: dt.date.fromisoformat(d["$date"]),
            "$datetime": lambda d: self._clock(dt.datetime.fromisoformat(d["$datetime"]), d),
            "$time": lambda d: self._clock(dt.time.fromisoformat(d["$time"]), d),
            "$timedelta": lambda d: dt.timedelta(*d["$timedelta"]),
            "$zone": lambda d: ZoneInfo(d["$zone"]),
            "$offset": _offset,
            "$parsed_offset": lambda d: TzInfo(d["$parsed_offset"]),
            "$decimal": lambda d: Decimal(d["$decimal"]),
            "$uuid": lambda d: uuid.UUID(hex=d["$uuid"]),
            "$path": _path,
            "$enum": self._enum,
            "$object": self._object,
            "$numpy": _scalar,
            "$live": self._marked,
            "$secret": self._marked,
            "$transient": self._transient,
        }

    def data(self, tree: Any) -> Any:
        """The value of a notation.

        Raises:
            UnknownClass: It needs a class that is not defined here.
        """
        kind = type(tree)
        if kind is list:
            return tree if PLAIN_OR_FLOAT.issuperset(map(type, tree)) else [self.data(v) for v in tree]
        if kind is not dict:
            return tree
        tag = next(iter(tree), "")
        if tag.startswith("$"):
            form = self._forms.get(tag)
            if form is None:
                raise ValueError(f"{tag!r} is no tag of this version")
            return form(tree)
        return {k: self.data(v) for k, v in tree.items()}

    def instance(self, shape: Shape, tree: Any, extra: Any, private: Any, other: Any, fields_set: Any) -> Any:
        """An instance from its stored parts."""
        parts = Parts(self._part(tree), self._part(extra), self._part(private), self._part(other), fields_set)
        return shape.put_together(parts)

    def _part(self, tree: Any) -> Any:
        if not tree:
            return tree
        if type(tree) is not dict:
            raise TypeError(f"fields are a dict, not {tree!r}")
        found = {}
        outside = not self.at_field
        for name, value in tree.items():
            if type(value) in PLAIN_OR_FLOAT:
                found[name] = value
                continue
            if outside:
                self.at_field = name
            found[name] = self.data(value)
        if outside:
            self.at_field = ""
        return found

    def _object(self, d: dict[str, Any]) -> Any:
        shape = self._shapes.named(d["$object"])
        return self.instance(shape, d["d"], d.get("x"), d.get("p"), d.get("a"), d.get("s"))

    def _enum(self, d: dict[str, Any]) -> Any:
        shape = self._shapes.named(d["$enum"])
        if shape.flavour != "enum":
            raise UnknownClass(f"Class {shape.key!r} is no enum here.")
        kind: Any = shape.kind
        if "flags" in d:
            return kind(self.data(d["flags"]))
        if d["name"] not in kind.__members__:
            raise UnknownClass(f"Enum {shape.key!r} has no member {d['name']!r} here.")
        return kind.__members__[d["name"]]

    def _clock(self, value: Any, d: dict[str, Any]) -> Any:
        zone = self.data(d["zone"]) if "zone" in d else None
        return value.replace(tzinfo=zone, fold=d.get("fold", 0))

    def _marked(self, d: dict[str, Any]) -> Any:
        tag = "$secret" if "$secret" in d else "$live"
        return self._live.value(str(d["id"]), tag, str(d[tag]), str(d["text"]), self.event, self.at_field)

    def _transient(self, d: dict[str, Any]) -> Lost:
        return Lost(str(d["$transient"]), "", "$transient", self.event, self.at_field, str(d["text"]))


def _offset(d: dict[str, Any]) -> dt.timezone:
    offset = dt.timedelta(*d["$offset"])
    return dt.timezone(offset, d["name"]) if "name" in d else dt.timezone(offset)


def _path(d: dict[str, Any]) -> pathlib.PurePath:
    kind = PATHS[d["$path"]]
    if issubclass(kind, pathlib.Path) and not isinstance(pathlib.Path(), kind):
        kind = kind.__mro__[2]  # written on another system: it can be read here, not opened
    return kind(d["text"])


def _scalar(d: dict[str, Any]) -> Any:
    try:
        import numpy as np
    except ImportError:
        raise UnknownClass("numpy is not installed here.") from None
    return np.frombuffer(b64decode(d["b"], validate=True), dtype=np.dtype(d["$numpy"]))[0]
