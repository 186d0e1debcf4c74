"""Values as JSON that gives them back exactly: the notation inside an event's fields.

None, bool, int of at most 64 bits, finite float, str, list, and dict with str keys of which none begins with `$`
stand for themselves. All else is a dict whose first key is a tag:

    {"$tuple": [1, 2]}   {"$float": "nan"}   {"$dict": [[1, "a"], ["1", "b"]]}   {"$enum": "m:Colour", "name": "RED"}

A dict that itself has a key with `$` is written as `$dict`, so a tag is never mistaken. Classes of exactly these
types only: an instance of a subclass of `int` or `dict` would come back as another thing.

Where a store has a folder for them, frames, arrays, figures and all that is large are files, by their name:

    {"$artifact": "3b8f...", "codec": "parquet", "type": "pandas:DataFrame", "size": 81234, "preview": {...}}

and a small one of them is `{"$small": "npy", ..., "b": base64}`: a file of its own would cost more than it has in it.
A secret is a mark, `{"$secret": ...}`, or, with a key, `{"$sealed": ...}`.
"""

from __future__ import annotations

import datetime as dt
import enum
import pathlib
import sys
import threading
import uuid
from base64 import b64encode
from collections.abc import Callable, Iterable
from decimal import Decimal
from math import isfinite
from typing import Any, Literal
from zoneinfo import ZoneInfo

from pydantic import Secret, SecretBytes, SecretStr
from pydantic_core import TzInfo

from flownb.store import escapes, pickles, previews
from flownb.store.artifacts import Artifacts, hashes_in
from flownb.store.formats import Format, format_of
from flownb.store.frames import NotExact
from flownb.store.identity import ByIdentity
from flownb.store.known import fingerprint
from flownb.store.marks import LiveTable, Lost, preview
from flownb.store.sealing import Sealer
from flownb.store.shapes import Parts, Shape, Shapes, class_key

OnUnstorable = Literal["live", "error"]
#: What is nested deeper than this is taken for a container that contains itself.
DEPTH_LIMIT = 100
PLAIN = frozenset({type(None), bool, int, str})
PLAIN_OR_FLOAT = PLAIN | {float}
_SECRET = (Secret, SecretStr, SecretBytes)
#: Those that can be sealed, by the name that stands in the notation: what is opened is made again by its class alone.
SEALED: dict[str, type[Any]] = {class_key(kind): kind for kind in (SecretStr, SecretBytes)}
#: A field of more JSON than this, in bytes, is a file of its own.
FIELD_SIZE = 1 << 16
#: A value of fewer bytes than this is no file.
FILE_SIZE = 1 << 12
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
        artifacts: Where large values go; None: nowhere, frames and the like have no codec then.
        sealer: Seals secrets; None: they are only marked.
    """

    def __init__(
        self,
        shapes: Shapes,
        live: LiveTable,
        unstorable: OnUnstorable,
        artifacts: Artifacts | None = None,
        sealer: Sealer | None = None,
    ) -> None:
        self._shapes, self._live, self._unstorable = shapes, live, unstorable
        self.artifacts, self._sealer = artifacts, sealer
        #: Whether large fields are made files; the first try of a tick does not look at sizes.
        self.lifting = False
        #: Of a secret that was sealed or opened: the same notation again, so that a tick has one body.
        self.sealed: ByIdentity[dict[str, Any]] = ByIdentity(strong_limit=1000)
        #: Notation to a value; to see that a file gives back what was written.
        self.lift: Callable[[Any], Any] = _as_it_is
        self._depth = _Depth()
        self._forms: dict[type, Callable[[Any], Any]] = {
            type(None): _as_it_is,
            bool: _as_it_is,
            str: _as_it_is,
            int: _int,
            float: _float,
            complex: lambda v: {"$complex": [_float(v.real), _float(v.imag)]},
            bytes: self._bytes,
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
        depth = self._depth
        depth.now += 1
        try:
            if depth.now > DEPTH_LIMIT:
                raise NoCodec(value, f"is nested more than {DEPTH_LIMIT} deep, or contains itself")
            return form(value)
        finally:
            depth.now -= 1

    def field(self, value: Any) -> Any:
        """The same for a whole field: one that is too deep gets one mark, not a mark somewhere in its depth, and one
        that is large a file."""
        try:
            written = self.data(value)
        except NoCodec as error:
            if self._unstorable == "error" or isinstance(value, _SECRET):
                raise
            del error
            return self._mark("$live", value)
        return self._lifted(value, written) if self.lifting and self._depth.now == 0 else written

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
            return self._secret
        if kind is Lost:
            return self._lost
        if self.artifacts is not None and (format_ := format_of(kind)) is not None:
            return lambda v: self._formatted(v, format_)
        if getattr(kind, "__flownb_transient__", False):
            return _transient
        shape = self._shapes.of(kind)
        if shape is not None:
            return self._enum if shape.flavour == "enum" else lambda v: self._instance(v, shape)
        numpy, pandas = sys.modules.get("numpy"), sys.modules.get("pandas")
        if numpy is not None and issubclass(kind, numpy.generic) and kind.__module__ == "numpy":
            return self._scalar
        if pandas is not None and kind in (pandas.Timestamp, pandas.Timedelta, type(pandas.NaT), type(pandas.NA)):
            return self._moment
        return self._pickled if self.artifacts is not None and self.artifacts.trust else self._unstored

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

    def _moment(self, value: Any) -> Any:
        kind = type(value).__name__
        if kind in ("NaTType", "NAType"):
            return {"$pandas": kind}
        written = {"$pandas": kind, "unit": value.unit, "value": int(value.asm8.view("i8"))}
        if getattr(value, "tzinfo", None) is not None:
            written["zone"] = self.data(value.tzinfo)
        return written

    # Files.

    def _bytes(self, value: bytes) -> Any:
        if self.artifacts is not None and len(value) > FIELD_SIZE:
            return self._remembered(value) or self._file(value, "bytes", value, {}, {"length": len(value)}, b"")
        return {"$bytes": b64encode(value).decode("ascii")}

    def _formatted(self, value: Any, format_: Format) -> Any:
        if (known := self._remembered(value)) is not None:
            return known
        print_ = fingerprint(value)  # before it is written: what changes while it is written does not count as known
        try:
            data, beside = format_.write(value, self.data, self.lift)
        except NotExact as error:
            return self._unstored(value, str(error))
        except NoCodec as error:
            return self._unstored(value, f"is a {type(value).__name__} with a value in it that {error}")
        return self._file(value, format_.codec, data, beside, format_.preview(value), print_)

    def _pickled(self, value: Any) -> Any:
        if (known := self._remembered(value)) is not None:
            return known
        print_ = fingerprint(value)
        try:
            data = pickles.dump(value)
        except Exception as error:  # what is pickled may refuse in any way
            return self._unstored(value, f"is a {class_key(type(value))}, which cannot be pickled: {error}")
        return self._file(value, "pickle", data, {}, previews.of_any(value), print_)

    def _lifted(self, value: Any, written: Any) -> Any:
        """A large field as a file. One with a sealed secret stays: an export must find it."""
        if type(written) is dict and "$artifact" in written:
            return written
        data = escapes.dump(written)
        if len(data) <= FIELD_SIZE or b'"$sealed"' in data:
            return written
        if type(value) is str:
            if (known := self._remembered(value)) is not None:
                return known
            text = value.encode("utf-8", "surrogatepass")
            return self._file(value, "text", text, {}, previews.of_text(value), b"")
        return self._file(value, "json", data, {}, previews.of_any(value), None, sorted(hashes_in(data)))

    def _remembered(self, value: Any) -> dict[str, Any] | None:
        files = self.artifacts
        known = files.known.notation(value) if files is not None else None
        return known if known is not None and files is not None and files.touch(known["$artifact"]) else None

    def _file(
        self,
        value: Any,
        codec: str,
        data: bytes,
        beside: dict[str, Any],
        told: dict[str, Any],
        print_: bytes | None,
        parts: list[str] | None = None,
    ) -> dict[str, Any]:
        """Bytes as a file, or in the tick if they are few.

        Args:
            told: The preview.
            print_: Of a value that may come again: its fingerprint.
            parts: The files that are named in these bytes.
        """
        files = self.artifacts
        assert files is not None
        more: dict[str, Any] = {"type": class_key(type(value)), "size": len(data)}
        if beside:
            more["beside"] = beside
        if parts:
            more["$parts"] = parts
        more["preview"] = told
        if len(data) < FILE_SIZE:
            return {"$small": codec, **more, "b": b64encode(data).decode("ascii")}
        written = {"$artifact": files.put(data), "codec": codec, **more}
        files.known.put(value, print_, written)
        return written

    # What is no value in the journal.

    def _lost(self, value: Lost) -> Any:
        return self._mark("$live", value) if value._notation is None else value._notation

    def _secret(self, value: Any) -> dict[str, Any]:
        if self._sealer is None or type(value) not in SEALED.values():
            return self._mark("$secret", value)
        written = self.sealed.get(value)
        if written is None:
            token = self._sealer.seal(escapes.dump(self.data(value.get_secret_value())))
            written = {"$sealed": token, "type": class_key(type(value))}
            self.sealed.put(value, written)
        return written

    def _unstored(self, value: Any, why: str = "") -> Any:
        if self._unstorable == "error":
            raise NoCodec(value, why or f"is a {class_key(type(value))}, which has no codec")
        mark = self._mark("$live", value)
        return mark | {"why": f"It {why}."} if why else mark

    def _mark(self, tag: str, value: Any) -> dict[str, Any]:
        if isinstance(value, Lost):
            tag, kind = value._tag, value._type
        else:
            kind = class_key(type(value))
        text = "" if tag == "$secret" else preview(value)
        return {tag: kind, "text": text, "id": self._live.mark(value)}


class _Depth(threading.local):
    """How deep a writer is in a value; a value may be checked by several threads at once."""

    now = 0


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
