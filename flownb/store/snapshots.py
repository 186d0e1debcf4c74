"""A whole run as plain JSON: `RunState`, inbox, and what answers its live deliveries were caused by.

    {"flownb": 1, "workflow": "orders", "key": "m:Orders", "hash": "...", "run_id": "r1", "seq": 41, "at": 12.5,
     "status": "waiting", "state": {...}, "inbox": [{"kind": "StepFinished", ...}], "missing": [...]}

The written form of the state is derived from its hints, as that of ticks is. What is as it is by default is left out;
a queue is a list, a map of ids or names a list of pairs. It costs as much as what is alive in the run, not what the run
did. The tables of the spec are made again by `link`.
"""

from __future__ import annotations

import gc
import json
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from math import isfinite
from typing import Any, Union, get_args, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, astuple, replace

from flownb.core.persist import Chain, Fifo, Names, Table
from flownb.core.spec import Spec, link
from flownb.core.state import Did, Ended, Request, RunState
from flownb.core.ticks import AnyTick, Tick
from flownb.core.values import Out
from flownb.errors import ContextSerdeError, JournalDamaged
from flownb.store.marks import Lost, UnknownEvent
from flownb.store.wire import TickForm, WireOut
from flownb.store.writer import PLAIN, PLAIN_OR_FLOAT

Convert = Callable[[Any], Any]
_NOTHING: Any = object()
#: Number of the written form.
FORMAT = 1
_CONTAINERS: dict[Any, tuple[Convert, Convert]] = {
    # What is iterated when it is written, and how it is made again.
    Fifo: (iter, Fifo.of),
    Chain: (Chain.oldest_first, Chain.of),
    Table: (Table.items, Table.of),
    Names: (Names.items, Names.of),
}
#: Structs that stand side by side in one list, with the word that tells them apart.
_TAGS: dict[Any, str] = {Did: "did", Ended: "ended"}


class Answered(Struct, frozen=True):
    """The question whose answer caused a live delivery, for `ctx.request` in it."""

    #: seq of the tick that answered it.
    cause: int
    request: Request
    answer: Out | None = None
    by: str = ""
    at: float = 0.0
    how: str = "person"


class Taken(Struct, frozen=True):
    """What a snapshot is of; of a context that no run used yet, the user's values alone."""

    state: RunState | None = None
    inbox: tuple[AnyTick, ...] = ()
    answered: tuple[Answered, ...] = ()
    values: dict[str, Out] = {}


class StateForm:
    """How states are written and read.

    Args:
        lower: An `Out` to plain JSON, or to what a JSON encoder takes.
        lift: And from its written form back.
    """

    def __init__(self, lower: Convert, lift: Convert) -> None:
        self._outs = lower, lift
        self._lowers: dict[Any, Convert] = {}
        self._lifts: dict[Any, Convert | None] = {}

    def lower(self, value: Any, kind: Any = RunState) -> Any:
        return self._lower(kind)(value)

    def lift(self, plain: Any, kind: Any = RunState) -> Any:
        """The value again.

        Raises:
            msgspec.ValidationError: It is of another form.
        """
        wire = msgspec.convert(plain, _wire_type(kind))
        lift = self._lift(kind)
        return wire if lift is None else lift(wire)

    # Converters are made on first need and looked up when they are called, so that a struct may hold its like.

    def _lower(self, hint: Any) -> Convert:
        found = self._lowers.get(hint)
        if found is None:
            found = self._lowers[hint] = self._make_lower(hint)
        return found

    def _make_lower(self, hint: Any) -> Convert:
        if hint is Out:
            return self._outs[0]
        if hint is Spec:
            return _plain_spec
        origin, args = get_origin(hint), get_args(hint)
        if origin in (Union, types.UnionType):
            return self._lower_union(args)
        if origin in _CONTAINERS:
            walk, inner = _CONTAINERS[origin][0], self._lower(args[0])
            if origin in (Table, Names):
                return lambda v: [[key, inner(x)] for key, x in walk(v)]
            return lambda v: [inner(x) for x in walk(v)]
        if origin is tuple:
            inner = self._lower(args[0])
            return lambda v: [inner(x) for x in v]
        if origin is dict:
            inner = self._lower(args[1])
            return lambda v: {key: inner(x) for key, x in v.items()}
        if _is_struct(hint):
            return self._lower_struct(hint) if _is_ours(hint) else _plain_of(hint)
        return _as_it_is

    def _lower_union(self, args: tuple[Any, ...]) -> Convert:
        by_type = {get_origin(arg) or arg: self._lower(arg) for arg in args}

        def lower_one(value: Any) -> Any:
            return by_type[type(value)](value)

        return lower_one

    def _lower_struct(self, kind: Any) -> Convert:
        fields: list[tuple[str, Any, Convert, bool]] = []
        for f in msgspec.structs.fields(kind):
            has_default = f.required is False and f.default is not None
            default = f.default if f.default_factory is msgspec.NODEFAULT else _NOTHING
            fields.append((f.name, default, self._lower(f.type), has_default))
        tag = _TAGS.get(kind)
        if tag is None and all(f.required for f in msgspec.structs.fields(kind)):
            given = [(name, lower) for name, _, lower, _ in fields if lower is not _as_it_is]

            def lower_whole(value: Any) -> dict[str, Any]:
                found = asdict(value)
                for name, lower in given:
                    found[name] = lower(found[name])
                return found

            return lower_whole

        def lower_struct(value: Any) -> dict[str, Any]:
            found: dict[str, Any] = {} if tag is None else {"is": tag}
            for name, default, lower, has_default in fields:
                part = getattr(value, name)
                if part is default:
                    continue
                if lower is not _as_it_is:
                    part = lower(part)
                    if has_default and not part:  # an empty container, or a struct that is as it is by default
                        continue
                found[name] = part
            return found

        return lower_struct

    def _lift(self, hint: Any) -> Convert | None:
        """None: what was read stands for itself."""
        if hint not in self._lifts:
            self._lifts[hint] = self._make_lift(hint)
        return self._lifts[hint]

    def _make_lift(self, hint: Any) -> Convert | None:
        if hint is Out:
            return self._outs[1]
        if hint is Spec:
            return link
        origin, args = get_origin(hint), get_args(hint)
        if origin in (Union, types.UnionType):
            return self._lift_union(args)
        if origin in _CONTAINERS:
            make, inner = _CONTAINERS[origin][1], self._lift(args[0])
            if inner is None:
                return make
            lift = inner
            if origin in (Table, Names):
                return lambda v: make([(key, lift(x)) for key, x in v])
            return lambda v: make([lift(x) for x in v])
        if origin in (tuple, dict):
            inner = self._lift(args[0] if origin is tuple else args[1])
            if inner is None:
                return None
            lift = inner
            return (
                (lambda v: tuple([lift(x) for x in v]))
                if origin is tuple
                else (lambda v: {key: lift(x) for key, x in v.items()})
            )
        return self._lift_struct(hint) if _is_struct(hint) and _is_ours(hint) else None

    def _lift_union(self, args: tuple[Any, ...]) -> Convert | None:
        by_type: dict[Any, Convert] = {}
        for arg in args:
            lift = self._lift(arg)
            if lift is not None:
                wire = _wire_type(arg)
                by_type[get_origin(wire) or wire] = lift
        if not by_type:
            return None

        def lift_one(value: Any) -> Any:
            lift = by_type.get(type(value))
            return value if lift is None else lift(value)

        return lift_one

    def _lift_struct(self, kind: Any) -> Convert:
        lifts = [self._lift(f.type) for f in msgspec.structs.fields(kind)]
        given = [(i, lift) for i, lift in enumerate(lifts) if lift is not None]

        def lift_struct(wire: Any) -> Any:
            values = list(astuple(wire))
            for i, lift in given:
                values[i] = lift(values[i])
            return kind(*values)

        if len(given) != 1:
            return lift_struct
        place, lift_one = given[0]

        def lift_field(wire: Any) -> Any:
            values = list(astuple(wire))
            values[place] = lift_one(values[place])
            return kind(*values)

        return lift_field


class ForkForm(TickForm):
    """How `RunForked` is written and read: the state that it may begin with has a form of its own."""

    def __init__(self, kind: type[Tick], lower: Convert, lift: Convert) -> None:
        super().__init__(kind, lower, lift)
        self._states = StateForm(lower, lift)

    def to_wire(self, tick: Tick) -> Struct:
        wire: Any = super().to_wire(tick)
        if wire.snapshot is not None:
            wire.snapshot = self._states.lower(wire.snapshot)
        return wire  # type: ignore[no-any-return]

    def from_wire(self, at: float, wire: Any) -> Tick:
        if wire.snapshot is not None:
            wire.snapshot = self._states.lift(wire.snapshot)
        return super().from_wire(at, wire)


class SnapshotCodec:
    """Runs to plain JSON and back. One thread at a time.

    Args:
        codec: How values are written; one that keeps what has no codec in memory, and marks it.
    """

    def __init__(self, codec: Any) -> None:
        self._codec = codec
        self._form = StateForm(self._lower_out, self._lift_out)
        self._unknown: list[UnknownEvent] = []
        #: The shapes that keys mean, as they were looked up since the last load began.
        self._meant: dict[str, Any] = {}

    def dump(self, taken: Taken) -> dict[str, Any]:
        """The plain form; `missing` lists what it only has a mark of: `[{"event", "field", "type", "text"}, ...]`."""
        with _no_collection():
            plain = self._dump(taken)
        try:
            text = msgspec.json.encode(plain)
        except ValueError:  # lone surrogates, or an int of more digits than Python prints
            self._codec._fast = False
            try:
                plain = self._dump(taken)
            finally:
                self._codec._fast = True
            text = b'"$live"'
        if b'"$live"' in text or b'"$secret"' in text or b'"$transient"' in text:
            plain["missing"] = [_told(*found) for found in _marks(plain)]
        return plain

    def _dump(self, taken: Taken) -> dict[str, Any]:
        plain: dict[str, Any] = {"flownb": FORMAT}
        state = taken.state
        if state is not None:
            spec = state.spec
            plain |= {"workflow": spec.name, "key": spec.key, "hash": spec.hash, "run_id": state.run_id}
            plain |= {"seq": state.seq, "at": state.at, "status": state.status, "state": self._form.lower(state)}
            plain["inbox"] = [self._lower_tick(tick) for tick in taken.inbox]
            plain["answered"] = self._form.lower(taken.answered, tuple[Answered, ...])
        if taken.values:
            plain["values"] = self._form.lower(taken.values, dict[str, Out])
        plain["missing"] = []
        return plain

    def load(self, plain: Any) -> Taken:
        """What was dumped.

        Raises:
            ContextSerdeError: It is no snapshot, or of a newer format; or values of it cannot be rebuilt here, all of
                which it names.
        """
        if not isinstance(plain, dict) or not isinstance(plain.get("flownb"), int):
            raise ContextSerdeError(f"This is no snapshot of a run, but a {type(plain).__name__} without its marks.")
        if plain["flownb"] > FORMAT:
            raise ContextSerdeError(
                f"This snapshot is of format {plain['flownb']}, and this flownb reads up to {FORMAT}. Use a newer one."
            )
        self._unknown.clear()
        self._meant.clear()
        try:
            with _no_collection():
                taken = Taken(
                    self._form.lift(plain["state"]) if "state" in plain else None,
                    tuple(map(self._lift_tick, plain.get("inbox", ()))),
                    self._form.lift(plain.get("answered", []), tuple[Answered, ...]),
                    self._form.lift(plain.get("values", {}), dict[str, Out]),
                )
        except (msgspec.MsgspecError, JournalDamaged, *self._codec._reader.MALFORMED) as error:
            raise ContextSerdeError(f"The snapshot cannot be read: {error or type(error).__name__}") from error
        self._refuse_lost(plain)
        return taken

    def outs_in(self, taken: Taken) -> list[Out]:
        """Every user value of it."""
        found: list[Out] = []
        form = StateForm(found.append, _as_it_is)
        if taken.state is not None:
            form.lower(taken.state)
        form.lower(taken.answered, tuple[Answered, ...])
        return found

    def _refuse_lost(self, plain: dict[str, Any]) -> None:
        said = [f"{event.key}: {event.reason}" for event in self._unknown]
        if plain.get("missing"):
            live = self._codec._reader._live
            for event, field, tag, mark in _marks(plain):
                if tag == "$transient":  # its own user said that it would be gone; using it raises (R6.16)
                    continue
                kind, text = str(mark[tag]), str(mark.get("text", ""))
                if isinstance(live.value(str(mark.get("id")), tag, kind, text, event, field), Lost):
                    where = f"{field!r} of {event}" if field else event
                    said.append(f"{where}: the {kind} was kept in memory only, and is gone")
        said = list(dict.fromkeys(said))
        if said:
            count = "a value" if len(said) == 1 else f"{len(said)} values"
            lines = "\n".join(f"  {one}" for one in said)
            raise ContextSerdeError(
                f"The snapshot has {count} that cannot be rebuilt here:\n{lines}\n"
                "Define the classes first; of what was in memory only, keep the data, a path or an id in the event.",
                values=tuple(said),
            )

    # Values. The common event, in which nothing is but declared plain fields, goes a short way: there may be thousands.

    def _lower_out(self, out: Out) -> Any:
        value = out.value
        shape = self._codec._shapes.by_key.get(out.key)
        if shape is not None and shape.kind is type(value) and shape.is_simple and out.limit is None:
            fields = value.__dict__
            role = out.role
            if fields.keys() == shape.names and not value.__pydantic_extra__ and role != "value" and self._codec._fast:
                for part in fields.values():
                    kind = type(part)
                    if kind not in PLAIN and not (kind is float and isfinite(part)):
                        break
                else:
                    plain: dict[str, Any] = {"t": out.key, "v": shape.version, "d": fields.copy()}
                    given = value.__pydantic_fields_set__
                    if given != shape.names:
                        plain["s"] = sorted(given)
                    if role != "event":
                        plain["role"] = role
                    if out.bases:
                        plain["bases"] = [*out.bases]
                    return plain
        return _listed(msgspec.to_builtins(self._codec._to_wire(out)))

    def _lift_out(self, wire: WireOut) -> Out:
        codec = self._codec
        key, version, fields, extra, private, other, given, role, bases, limit = astuple(wire)
        shape = self._meant.get(key)
        if shape is None and key in codec._shapes.by_key:
            shape = self._meant[key] = codec._shapes.named(key)
        if (
            shape is not None
            and shape.is_simple
            and version == shape.version
            and extra is private is other is limit is None
            and type(fields) is dict
            and fields.keys() == shape.names
            and PLAIN_OR_FLOAT.issuperset(map(type, fields.values()))
        ):
            model = shape.from_fields(fields)
            if given is not None:
                model.__pydantic_fields_set__.intersection_update(given)
            return Out(key, model, role, bases)
        out: Out = codec._from_wire(wire)
        if type(out.value) is UnknownEvent:
            self._unknown.append(out.value)
        return out

    def _lower_tick(self, tick: AnyTick) -> dict[str, Any]:
        kind, body = self._codec.encode(tick)
        return {"kind": kind, "at": tick.at, "body": json.loads(body)}

    def _lift_tick(self, plain: dict[str, Any]) -> AnyTick:
        body = json.dumps(plain["body"], separators=(",", ":")).encode()
        tick: AnyTick = self._codec.decode(0, float(plain["at"]), plain["kind"], body)
        for out in (getattr(tick, "out", None), *getattr(tick, "outs", ())):
            if isinstance(out, Out) and type(out.value) is UnknownEvent:
                self._unknown.append(out.value)
        return tick


@contextmanager
def _no_collection() -> Iterator[None]:
    """Thousands of small values are made here and none becomes garbage: to look for it costs more than all the rest."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _as_it_is(value: Any) -> Any:
    return value


def _listed(value: Any) -> Any:
    """Tuples as lists, as JSON has them."""
    if isinstance(value, dict):
        return {key: _listed(part) for key, part in value.items()}
    return [_listed(part) for part in value] if isinstance(value, (list, tuple)) else value


def _plain_spec(spec: Spec) -> Any:
    bare = Spec(spec.name, spec.key, spec.steps, spec.types, spec.start, spec.outside, spec.unhandled, spec.stalled)
    return _by_json(replace(bare, hash=spec.hash))


def _by_json(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def _plain_of(kind: Any) -> Convert:
    """How a struct without user values is written."""
    return _by_json if any("tuple" in str(f.type) for f in msgspec.structs.fields(kind)) else msgspec.to_builtins


def _is_struct(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Struct)


@cache
def _is_ours(hint: Any) -> bool:
    """Whether a user value or a container of the state is in it, so that its written form is another one."""
    if hint is Out or hint is Spec or get_origin(hint) in _CONTAINERS:
        return True
    if hint in _TAGS:
        return True
    if _is_struct(hint):
        return any(_is_ours(f.type) for f in msgspec.structs.fields(hint) if f.type is not hint and not _names(f, hint))
    return any(map(_is_ours, get_args(hint)))


def _names(field: msgspec.structs.FieldInfo, kind: Any) -> bool:
    """Whether a field is of its own class or None, as in a chain of parents."""
    return kind in get_args(field.type)


@cache
def _wire_type(hint: Any) -> Any:
    """A hint with written forms in place of what is not written as it is."""
    if hint in (Out, Spec):
        return WireOut if hint is Out else Spec
    if not _is_ours(hint):
        return hint
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Fifo, Chain):
        return list[_wire_type(args[0])]  # type: ignore[misc]
    if origin in (Table, Names):
        return list[tuple[int if origin is Table else str, _wire_type(args[0])]]  # type: ignore[misc]
    if _is_struct(hint):
        return _wire_struct(hint)
    inner = tuple(map(_wire_type, args))
    return Union[inner] if origin in (Union, types.UnionType) else origin[inner]  # noqa: UP007


def _wire_struct(kind: Any) -> Any:
    tag = _TAGS.get(kind)
    return msgspec.defstruct(
        f"Wire{kind.__name__}",
        [(f.name, _wire_type(f.type), *_default_of(f)) for f in msgspec.structs.fields(kind)],
        forbid_unknown_fields=True,
        tag_field=None if tag is None else "is",
        tag=tag,
    )


def _default_of(field: msgspec.structs.FieldInfo) -> tuple[Any, ...]:
    if get_origin(field.type) in _CONTAINERS:
        return (msgspec.field(default_factory=list),)
    if field.default_factory is not msgspec.NODEFAULT:
        return (msgspec.field(default_factory=field.default_factory),)
    if field.default is msgspec.NODEFAULT:
        return ()
    if _is_ours(field.type) and isinstance(field.default, Struct):
        wire = _wire_type(field.type)
        return (msgspec.field(default_factory=wire),)
    return (field.default,)


def _marks(plain: Any, event: str = "", field: str = "") -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Event, field, tag and mark of each value that was kept in memory only."""
    parts: Iterable[tuple[str, Any]]
    if isinstance(plain, dict):
        for tag in ("$live", "$secret", "$transient"):
            if tag in plain and "id" in plain:
                yield event, field, tag, plain
                return
        if "t" in plain and "d" in plain:
            event = str(plain["t"])
            for part in ("d", "x", "p", "a"):
                held = plain.get(part)
                if isinstance(held, dict) and not ("id" in held and ("$live" in held or "$transient" in held)):
                    for name, value in held.items():
                        yield from _marks(value, event, name)
                elif held is not None:
                    yield from _marks(held, event, field)
            return
        parts = [(field, value) for value in plain.values()]
    elif isinstance(plain, list):
        named = len(plain) == 2 and type(plain[0]) is str and isinstance(plain[1], dict)  # a value of the user's state
        parts = [(plain[0], plain[1])] if named else [(field, value) for value in plain]
    else:
        return
    for name, value in parts:
        yield from _marks(value, event, name)


def _told(event: str, field: str, tag: str, mark: dict[str, Any]) -> dict[str, str]:
    return {"event": event, "field": field, "type": str(mark[tag]), "text": str(mark.get("text", ""))}
