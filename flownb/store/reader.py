"""The notation of `writer.py` back to values. A damaged one is told, and nothing of it is imported or run."""

from __future__ import annotations

import datetime as dt
import enum
import pathlib
import threading
import uuid
from base64 import b64decode
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from pydantic_core import TzInfo

from flownb.store import escapes, formats, pickles
from flownb.store.artifacts import ArtifactLost, Artifacts
from flownb.store.frames import NotExact
from flownb.store.identity import ByIdentity
from flownb.store.known import fingerprint
from flownb.store.marks import LiveTable, Lost
from flownb.store.sealing import KEY, Sealer
from flownb.store.shapes import VERSION, Parts, Shape, Shapes, UnknownClass
from flownb.store.writer import PATHS, PLAIN_OR_FLOAT, SEALED


class _Place(threading.local):
    """A field of an event; each thread reads another one."""

    event = ""
    field = ""


class Reader:
    """Notation to values. What it raises on a damaged one, apart from `UnknownClass`, is one of `MALFORMED`, or what a
    default factory, an `upgrade` or a `__hash__` of a user's class raises.

    Args:
        shapes: The classes that values may be of.
        live: The values that a journal only has a mark of.
        artifacts: Where large values are; None: they are not to be had.
        sealer: Opens secrets; None: they are not to be had.
        sealed: Where to remember the notation of what was opened.
        opens_files: Whether large values are read; else each is a `Lost` that says what it is.
    """

    MALFORMED = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError, OSError)

    def __init__(
        self,
        shapes: Shapes,
        live: LiveTable,
        artifacts: Artifacts | None = None,
        sealer: Sealer | None = None,
        sealed: ByIdentity[dict[str, Any]] | None = None,
        opens_files: bool = True,
    ) -> None:
        self._shapes, self._live = shapes, live
        self._artifacts, self._opens_files = artifacts, opens_files
        self._sealer, self._notations = sealer, sealed if sealed is not None else ByIdentity()
        #: Where the reader is, for `Lost`.
        self.at = _Place()
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
            "$sealed": self._sealed,
            "$pandas": self._moment,
            "$small": self._small,
            "$artifact": self._file,
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

    def instance(
        self, shape: Shape, version: int, tree: Any, extra: Any, private: Any, other: Any, fields_set: Any
    ) -> Any:
        """An instance from its stored parts, which some version of its class wrote.

        Raises:
            UnknownClass: They do not fit the class of today.
        """
        parts = Parts(self._part(tree), self._part(extra), self._part(private), self._part(other), fields_set)
        if version != shape.version:
            parts = shape.upgraded(version, parts)
        return shape.put_together(parts)

    def _part(self, tree: Any) -> Any:
        if not tree:
            return tree
        if type(tree) is not dict:
            raise TypeError(f"fields are a dict, not {tree!r}")
        found = {}
        at = self.at
        outside = not at.field
        for name, value in tree.items():
            if type(value) in PLAIN_OR_FLOAT:
                found[name] = value
                continue
            if outside:
                at.field = name
            found[name] = self.data(value)
        if outside:
            at.field = ""
        return found

    def _object(self, d: dict[str, Any]) -> Any:
        shape = self._shapes.named(d["$object"])
        return self.instance(shape, d.get("v", VERSION), d["d"], d.get("x"), d.get("p"), d.get("a"), d.get("s"))

    def _enum(self, d: dict[str, Any]) -> Any:
        shape = self._shapes.named(d["$enum"])
        if shape.flavour != "enum":
            raise UnknownClass(f"Class {shape.key!r} is no enum here.")
        kind: Any = shape.kind
        if "flags" in d:
            if not issubclass(kind, enum.Flag):
                raise ValueError(f"{shape.key!r} has no flags")
            return kind(self.data(d["flags"]))
        if d["name"] not in kind.__members__:
            raise UnknownClass(f"Enum {shape.key!r} has no member {d['name']!r} here.")
        return kind.__members__[d["name"]]

    def _clock(self, value: Any, d: dict[str, Any]) -> Any:
        zone = self.data(d["zone"]) if "zone" in d else None
        return value.replace(tzinfo=zone, fold=d.get("fold", 0))

    def _marked(self, d: dict[str, Any]) -> Any:
        tag = "$secret" if "$secret" in d else "$live"
        why = str(d.get("why", ""))
        return self._live.value(str(d["id"]), tag, str(d[tag]), str(d["text"]), self.at.event, self.at.field, why)

    def _transient(self, d: dict[str, Any]) -> Lost:
        return Lost(str(d["$transient"]), "", "$transient", self.at.event, self.at.field, str(d["text"]))

    def _moment(self, d: dict[str, Any]) -> Any:
        try:
            import pandas as pd
        except ImportError:
            raise UnknownClass("pandas is not installed here.") from None
        kind = d["$pandas"]
        if kind in ("NaTType", "NAType"):
            return pd.NaT if kind == "NaTType" else pd.NA
        if kind == "Timedelta":
            return pd.Timedelta(d["value"], d["unit"]).as_unit(d["unit"])
        if kind != "Timestamp":
            raise ValueError(f"{kind!r} is no moment")
        moment = pd.Timestamp(d["value"], unit=d["unit"]).as_unit(d["unit"])
        return moment.tz_localize("UTC").tz_convert(self.data(d["zone"])) if "zone" in d else moment

    # Secrets and files. What is in the journal and cannot be read is `Lost`, and is written again as it was.

    def _sealed(self, d: dict[str, Any]) -> Any:
        kind = SEALED[d["type"]]
        if self._sealer is None:
            return self._unread("$sealed", d, f"It is sealed: set {KEY} to the key that it was sealed with.")
        plain = self._sealer.open(d["$sealed"])
        if plain is None:
            return self._unread("$sealed", d, f"It was sealed with another key than the {KEY} of today.")
        value = kind(self.data(escapes.load(plain)))
        self._notations.put(value, d)
        return value

    def _small(self, d: dict[str, Any]) -> Any:
        data = b64decode(d["b"], validate=True)
        if d["$small"] == "pickle" and not (self._artifacts is not None and self._artifacts.trust):
            return self._unread("$small", d, _PICKLED)
        try:
            return self._opened(d["$small"], data, d)
        except (ImportError, NotExact) as error:
            return self._unread("$small", d, f"{_library(error)}.")

    def _file(self, d: dict[str, Any]) -> Any:
        files, codec = self._artifacts, d["codec"]
        if files is None:
            return self._unread("$artifact", d, "Its file is beside the store, which was opened without its files.")
        if codec == "pickle" and not files.trust:
            return self._unread("$artifact", d, _PICKLED)
        if not self._opens_files:
            return self._unread("$artifact", d, "Files are not read by who only looks.")
        known = files.known.value(d)
        if known is not None:
            return known
        try:
            value = self._opened(codec, files.get(d["$artifact"]), d)
        except UnknownClass:
            raise
        except ArtifactLost as error:
            return self._unread("$artifact", d, str(error))
        except (ImportError, NotExact) as error:
            return self._unread("$artifact", d, f"{_library(error)}.")
        except Exception as error:  # the library that reads it may raise anything
            return self._unread("$artifact", d, f"Its file cannot be read: {type(error).__name__}: {error}")
        if codec != "json":  # the lists and models in it belong to the one who reads them
            files.known.put(value, fingerprint(value), d)
        return value

    def _opened(self, codec: str, data: bytes, d: dict[str, Any]) -> Any:
        if codec == "json":
            return self.data(escapes.load(data))
        if codec == "text":
            return data.decode("utf-8", "surrogatepass")
        if codec == "bytes":
            return data
        return pickles.load(data) if codec == "pickle" else formats.read(codec, data, d.get("beside", {}), self.data)

    def _unread(self, tag: str, d: dict[str, Any], why: str) -> Lost:
        return self._live.unread(str(d["type"]), tag, self.at.event, self.at.field, why, d)


#: Why a pickle stays closed.
_PICKLED = "It is a pickle, and to read one runs what its author wanted: only a store opened with trust=True does."


def _library(error: Exception) -> str:
    """What to install, in words."""
    if isinstance(error, NotExact):
        return f"It {error}"
    return f"It needs {getattr(error, 'name', None) or 'a library'} to be read, which is not installed here"


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
