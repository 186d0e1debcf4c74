"""Ticks to rows of a journal and back, exactly: R1.45, R1.46.

    StepFinished(at, "load", 1, 1, (Out("m:Row", Row(no=1)),))
    -> "StepFinished", b'{"step":"load","delivery":1,"start":1,"outs":[{"t":"m:Row","v":1,"d":{"no":1}}]}'

A journal may come from somebody else: its keys are looked up among the classes of this process and never imported,
and reading runs no validator and no `__init__`. What is of no known class is read as `UnknownEvent`.

Large values are files beside the store (`artifacts.py`), whose names stand in the body.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from math import isfinite
from typing import Any, cast

import msgspec
from msgspec import Struct

from flownb.core import ticks
from flownb.core.ticks import AnyTick, RunForked, Tick
from flownb.core.values import Limit, Out
from flownb.errors import JournalDamaged, NotStorable
from flownb.store import escapes
from flownb.store.artifacts import Artifacts
from flownb.store.marks import LiveTable, UnknownEvent
from flownb.store.paths import path_to
from flownb.store.reader import Reader
from flownb.store.sealing import Sealer
from flownb.store.shapes import Shape, Shapes, UnknownClass, class_key
from flownb.store.snapshots import ForkForm
from flownb.store.wire import TickForm, WireLimit, WireOut
from flownb.store.writer import FIELD_SIZE, PLAIN, PLAIN_OR_FLOAT, NoCodec, OnUnstorable, Writer

_KINDS: dict[str, type[Tick]] = {kind.__name__: kind for kind in (*ticks.CONTROL, *ticks.WORK)}


class Codec:
    """Between ticks and what a store keeps of them; for any threads.

    Args:
        classes: The class that a key (`module:qualname`) means now, None if this process has not defined one.
        unserializable: What becomes of a value that has no codec: "error" refuses the tick; "live" keeps the value
            in memory as long as this codec, and marks it in the journal. Secrets without a sealer are always kept so.
        artifacts: Where frames, arrays, figures and all large values go. Codecs of one folder may share it. None:
            nowhere; frames and the like have no codec then, and all else stands in the body.
        sealer: Seals and opens secrets.
        opens_files: Whether what is in `artifacts` is read; else each is a `Lost` that says what it is: to look at a
            run, of which nothing is used.
    """

    def __init__(
        self,
        classes: Callable[[str], type | None],
        unserializable: OnUnstorable = "error",
        *,
        artifacts: Artifacts | None = None,
        sealer: Sealer | None = None,
        opens_files: bool = True,
    ) -> None:
        self._shapes = Shapes(classes)
        live = LiveTable()
        self._writer = Writer(self._shapes, live, unserializable, artifacts, sealer)
        self._reader = Reader(self._shapes, live, artifacts, sealer, self._writer.sealed, opens_files)
        self._writer.lift = self._reader.data
        self._encoder = msgspec.json.Encoder()
        #: By name, made on first need: who looks at one run needs few of them.
        self._forms: dict[str, TickForm] = {}
        # Off while a body is written for the second time, with a look at every int. To another thread that writes
        # meanwhile it only makes things slower; two that turn it off and on wait for each other.
        self._fast = True
        self._care = threading.Lock()

    def encode(self, tick: AnyTick) -> tuple[str, bytes]:
        """Kind and body of a tick; the body has all its fields but `at`.

        Raises:
            NotStorable: A value has no codec; `kind`, `step`, `event` and `field` say where.
        """
        name = type(tick).__name__
        form = self._forms.get(name) or self._form(name)
        assert form is not None
        try:
            body = self._encoder.encode(form.to_wire(tick))
        except _NotStorableOut as error:
            raise _not_storable(tick, error) from error
        except ValueError:  # lone surrogates, or an int of more digits than Python prints
            return form.name, self._with_care(form.to_wire, tick)
        if len(body) > FIELD_SIZE and self._writer.artifacts is not None:
            body = self._with_care(form.to_wire, tick)
        return form.name, body

    def encode_out(self, out: Out) -> bytes:
        """One value alone, as it stands in a body.

        Raises:
            NotStorable: It has no codec.
        """
        try:
            return self._with_care(self._to_wire, out)
        except _NotStorableOut as error:
            raise _not_storable(None, error) from error

    def decode_out(self, body: bytes) -> Out:
        """What `encode_out` wrote.

        Raises:
            JournalDamaged: It cannot be read.
        """
        try:
            return self._from_wire(msgspec.convert(escapes.load(body), WireOut))
        except Exception as error:  # as in `decode`
            raise _damaged(0, f"a value cannot be read: {str(error) or type(error).__name__}") from error

    def check(self, out: Out) -> None:
        """Find out before a tick is made whether a value can be written (R6.12).

        Raises:
            NotStorable: It cannot; `event` and `field` say where.
        """
        if self._flat(out) is not None:
            return
        try:
            self._to_wire(out)
        except _NotStorableOut as error:
            raise _not_storable(None, error) from error

    def decode(self, seq: int, at: float, kind: str, body: bytes) -> AnyTick:
        """The tick of a row.

        Raises:
            JournalDamaged: It cannot be read; `seq` and `reason` say what is wrong.
        """
        form = self._form(kind)
        if form is None:
            raise _damaged(seq, f"{kind!r} is no kind of tick")
        if type(at) is not float or not isfinite(at):
            raise _damaged(seq, f"{at!r} is no time")
        try:
            if body.startswith(escapes.ESCAPED):
                wire = form.parse_tree(escapes.unescaped(body))
            else:
                wire = form.parse(body)
            return cast(AnyTick, form.from_wire(at, wire))
        except Exception as error:  # also what a default factory or a `__hash__` of a user's class raises
            raise _damaged(seq, f"its {kind} cannot be read: {str(error) or type(error).__name__}") from error

    def _form(self, name: str) -> TickForm | None:
        """How ticks of a kind are written; None if there is no such kind."""
        try:
            return self._forms[name]
        except KeyError:
            kind = _KINDS.get(name)
        if kind is None:
            return None
        form = (ForkForm if kind is RunForked else TickForm)(kind, self._to_wire, self._from_wire)
        return self._forms.setdefault(name, form)

    def _with_care(self, to_wire: Callable[[Any], Struct], value: Any) -> bytes:
        with self.with_care():
            return escapes.dump(to_wire(value))

    @contextmanager
    def with_care(self) -> Generator[None, None, None]:
        """What is written meanwhile is written with a look at every int, every text and every size: large values are
        files."""
        writer = self._writer
        with self._care:
            self._fast, writer.lifting = False, writer.artifacts is not None
            try:
                yield
            finally:
                self._fast, writer.lifting = True, False

    # One value.

    def _flat(self, out: Out) -> Shape | None:
        """The shape of a common event: nothing in it but declared fields, all given, all plain. None: it is another."""
        value, shape = out.value, self._shapes.by_key.get(out.key)
        kind = type(value)
        if shape is None or shape.kind is not kind or not shape.is_model or out.role == "value":
            return None
        fields, names = value.__dict__, shape.names
        if (
            fields.keys() != names
            or value.__pydantic_extra__
            or value.__pydantic_private__
            or value.__pydantic_fields_set__ != names
            or out.limit is not None
            or not self._fast
        ):
            return None
        for part in fields.values():
            kind = type(part)
            if kind not in PLAIN and not (kind is float and isfinite(part)):
                return None
        return shape

    def _to_wire(self, out: Out) -> WireOut:
        shape = self._flat(out)
        if shape is not None:
            return WireOut(out.key, shape.version, out.value.__dict__, None, None, None, None, out.role, out.bases)
        shape = self._shapes.of(type(out.value))
        if shape is None or not shape.is_model or shape.key != out.key or out.role == "value":
            return self._plain_to_wire(out)
        return self._model_to_wire(out, shape)

    def _model_to_wire(self, out: Out, shape: Shape) -> WireOut:
        try:
            parts = self._writer.parts(shape.take_apart(out.value))
        except NoCodec as error:
            raise _NotStorableOut(out, error, path_to(out.value, error.value, self._shapes)) from error
        limit = self._limit_to_wire(out.limit)
        return WireOut(out.key, shape.version, **parts, role=out.role, bases=out.bases, limit=limit)

    def _plain_to_wire(self, out: Out) -> WireOut:
        value, limit = out.value, self._limit_to_wire(out.limit)
        if type(value) is UnknownEvent:
            parts = (value.data, value.extra, value.private, value.other, value.fields_set)
            return WireOut(out.key, value.version, *parts, role=out.role, bases=out.bases, limit=limit)
        try:
            data = self._writer.field(value)
        except NoCodec as error:
            raise _NotStorableOut(out, error, path_to(value, error.value, self._shapes)) from error
        return WireOut(out.key, 0, data, role=out.role, bases=out.bases, limit=limit)

    def _limit_to_wire(self, limit: Limit | None) -> WireLimit | None:
        if limit is None:
            return None
        return WireLimit(limit.due_at, None if limit.default is None else self._to_wire(limit.default))

    def _from_wire(self, wire: WireOut) -> Out:
        limit = None
        if wire.limit is not None:
            default = wire.limit.default
            limit = Limit(wire.limit.due_at, None if default is None else self._from_wire(default))
        return Out(wire.t, self._value(wire), wire.role, wire.bases, limit)

    def _value(self, wire: WireOut) -> Any:
        reader = self._reader
        reader.at.event, reader.at.field = wire.t, ""
        try:
            if wire.v == 0:
                return reader.data(wire.d)
            shape = self._shapes.named(wire.t)
            if shape.is_simple and wire.v == shape.version and _is_plain(wire, shape):
                return shape.from_fields(wire.d)
            return reader.instance(shape, wire.v, wire.d, wire.x, wire.p, wire.a, wire.s)
        except UnknownClass as error:
            reason, missing = str(error), error.missing
        return UnknownEvent(wire.t, wire.v, wire.d, reason, wire.x, wire.p, wire.a, wire.s, missing)


def _is_plain(wire: WireOut, shape: Shape) -> bool:
    if wire.x is not None or wire.a is not None or wire.s is not None or wire.p is not None:
        return False
    d = wire.d
    return type(d) is dict and d.keys() == shape.names and PLAIN_OR_FLOAT.issuperset(map(type, d.values()))


class _NotStorableOut(Exception):
    """A value of a tick has no codec; not seen outside."""

    def __init__(self, out: Out, error: NoCodec, path: str) -> None:
        super().__init__(str(error))
        self.out, self.error, self.path = out, error, path


def _not_storable(tick: Tick | None, found: _NotStorableOut) -> NotStorable:
    step = getattr(tick, "step", None)
    by = f" of step {step!r}" if step else ""
    where = f"field {found.path!r} of event {found.out.key!r}{by}" if found.path else f"a value{by}"
    return NotStorable(
        f"A journal cannot hold {where}: it {found.error}. Put something in the event that can be written (the data "
        'itself, a path, an id), or choose unserializable="live" to keep such values in memory only.',
        kind="" if tick is None else type(tick).__name__,
        step=step,
        event=found.out.key,
        field=found.path,
        type=class_key(type(found.error.value)),
    )


def _damaged(seq: int, reason: str) -> JournalDamaged:
    return JournalDamaged(f"Tick {seq} cannot be read: {reason}.", run_id="", seq=seq, reason=reason)
