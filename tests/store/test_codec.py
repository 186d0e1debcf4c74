"""Ticks to rows and back (R1.45, R1.46, R6.8 to R6.16)."""

import copy
import dataclasses
import datetime as dt
import gc
import json
import pickle
import sys
import weakref
from collections import OrderedDict, deque
from decimal import Decimal
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import fields
from pydantic import BaseModel, Field, PrivateAttr, SecretBytes, TypeAdapter

from flownb import Workflow
from flownb.core import ticks
from flownb.core.ticks import AnyTick
from flownb.core.values import Out
from flownb.errors import EventOutdated, JournalDamaged, LiveValueLost, NotStorable, WorkflowConfigurationError
from flownb.events import Event, StartEvent, StopEvent, defined, key_of, newest
from flownb.runtime.results import current
from flownb.store.codec import Codec
from flownb.store.marks import Lost, UnknownEvent
from tests.store.samples import (
    EXAMPLES,
    MORE,
    Address,
    Anything,
    Colour,
    Hidden,
    Login,
    Note,
    Opaque,
    Point,
    Right,
    Row,
    Span,
    Strict,
    Typed,
    exact,
    out,
)


def through(codec: Codec, tick: AnyTick, reader: Codec | None = None) -> Any:
    kind, body = codec.encode(tick)
    json.loads(body)  # R1.46: whatever is in it, a body is JSON
    return (reader or codec).decode(1, tick.at, kind, body)


def value_through(codec: Codec, value: Any, reader: Codec | None = None) -> Any:
    return through(codec, ticks.StreamWritten(1.0, "s", 1, 1, out(value)), reader).out.value


def elsewhere() -> Codec:
    """As in another process, which has defined the events."""
    return Codec(newest)


@pytest.mark.parametrize("tick", [*EXAMPLES, *MORE], ids=lambda tick: type(tick).__name__)
def test_every_tick_comes_back(codec: Codec, tick: AnyTick):
    """R1.45: kind, body and time are all of a tick."""
    assert through(codec, tick, elsewhere()) == tick


def test_the_examples_are_all_kinds_of_ticks():
    """A new tick, or a new field, fails here until it has an example."""
    assert {type(tick) for tick in EXAMPLES} == {*ticks.CONTROL, *ticks.WORK}
    for tick in EXAMPLES:
        for field in fields(tick):
            if field.name != "snapshot":  # a state, in no journal of a store
                assert getattr(tick, field.name) != field.default, f"{type(tick).__name__}.{field.name}"


def test_a_body_is_json_of_the_other_fields(codec: Codec):
    """R1.46: `{"t": key, "v": version, "d": data}` for each user value; `at` has a column of its own."""
    kind, body = codec.encode(ticks.StepFinished(5.0, "load", 1, 2, (out(Row(no=1, name="a")),)))

    assert kind == "StepFinished"
    key = "tests.store.samples:Row"
    bases = json.loads(body)["outs"][0].pop("bases", [])
    assert bases == ["flownb.events:Event"]
    assert json.loads(body) == {
        "step": "load",
        "delivery": 1,
        "start": 2,
        "outs": [{"t": key, "v": 1, "d": {"no": 1, "name": "a"}, "bases": bases}],
    }


zones = st.one_of(
    st.none(),
    st.sampled_from([ZoneInfo("Europe/Berlin"), ZoneInfo("UTC"), dt.UTC, dt.timezone(dt.timedelta(hours=2), "HERE")]),
    st.timedeltas(dt.timedelta(hours=-23), dt.timedelta(hours=23)).map(dt.timezone),
)
words = st.text(st.characters(codec=None, exclude_categories=())) | st.text('$\ud83d\ude00\0\\"ué😀')
keys = st.one_of(
    words,
    st.integers(),
    st.booleans(),
    st.none(),
    st.sampled_from([*Colour]),
    st.tuples(st.integers(), words),
    st.frozensets(st.integers(), max_size=2),
    st.dates(),
)
atoms = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**200), 2**200),
    st.floats(),
    words,
    st.binary(),
    st.binary().map(bytearray),
    st.complex_numbers(),
    st.decimals(),
    st.uuids(),
    st.dates(),
    st.times(timezones=zones),
    st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1), timezones=zones),
    st.timedeltas(),
    st.builds(range, st.integers(), st.integers(), st.integers(1)),
    words.map(PurePosixPath),
    words.map(PureWindowsPath),
    words.map(Path),
    st.sampled_from([*Colour, Right.READ | Right.WRITE, Right.WRITE]),
    st.builds(Point, st.integers(), st.floats()),
    st.builds(Span, st.integers()),
    st.builds(Note, words, st.lists(words)),
    st.builds(Address, town=words, zip_codes=st.lists(st.integers(0, 9)).map(tuple)),
    st.builds(Strict, n=st.integers()),
)
values = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(keys, inner, max_size=4),
        st.sets(keys, max_size=4),
        st.frozensets(keys, max_size=4),
        st.builds(Anything, value=inner),
    ),
    max_leaves=12,
)


@given(values)
@example({1: "a", "1": "b", False: "c"})
@example({"$tuple": [1]})
@example("ok \ud83d")
@example("\ud83d\ude00")
@example(10**5000)
@example([2**63 - 1, 2**63, -(2**63), -(2**63) - 1])
@example([-0.0, float("nan"), float("inf"), 1e300])
@example(dt.datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1))
@example(Decimal("sNaN12"))
def test_a_value_comes_back_as_the_same_value_of_the_same_type(value: Any):
    """R6.8, C119, C123: declared and undeclared fields, and plain values, whatever is in them."""
    codec = Codec(newest)
    for carrier in (Anything(value=value), Anything(other=value), Anything(value=[value, 1], other={"x": value})):
        assert exact(value_through(codec, carrier)) == exact(carrier)
    assert exact(value_through(codec, value)) == exact(value)


def test_a_time_that_pydantic_parsed_comes_back():
    """Its zone is of a class of pydantic's own."""
    moment = TypeAdapter(dt.datetime).validate_python("2026-11-29T12:00:00+02:30")

    assert exact(value_through(Codec(newest), Anything(value=moment))) == exact(Anything(value=moment))


def test_numpy_scalars_come_back():
    """What `frame.mean()` and `frame.loc[...]` give is of no class of Python's, though some are subclasses of float."""
    for scalar in (
        np.float64(0.1),
        np.int64(-3),
        np.bool_(True),
        np.float32("nan"),
        np.datetime64("2026-11-29T01", "h"),
    ):
        found = value_through(Codec(newest), Anything(value=scalar)).value
        assert (type(found), found.dtype, found.tobytes()) == (type(scalar), scalar.dtype, scalar.tobytes())


def test_nested_classes_are_found_by_the_hints_of_an_event():
    """Another process knows them though nothing registered them: the event's class names them."""
    event = Typed(
        address=Address(town="Ulm", zip_codes=(1, 2)),
        colours=(Colour.GREEN, Colour.RED),
        point=Point(1),
        span=Span(1),
        note=Note("x", ["y"]),
        right=Right.READ | Right.WRITE,
    )

    assert exact(value_through(Codec(newest), event, elsewhere())) == exact(event)


def test_private_attributes_and_the_given_fields_come_back():
    """C121: private attributes, which fields were given, but no cached property."""
    event = Hidden(no=1, extra=(1,))
    event._secret_count = 8
    assert event.doubled == 2

    found = value_through(Codec(newest), event, elsewhere())

    assert (found._secret_count, hasattr(found, "_late")) == (8, False)
    assert found["extra"] == (1,)
    assert "doubled" not in found.__dict__
    assert found.model_fields_set == {"no", "extra"}
    assert value_through(Codec(newest), Row(no=1), elsewhere()).model_dump(exclude_unset=True) == {"no": 1}


def test_reading_runs_no_validator():
    """What was stored is what is read, though the class would refuse or change it today."""

    class Picky(Event):
        n: int = Field(gt=0)

    stored = Picky.model_construct(n=-1)
    found = value_through(Codec({key_of(Picky): Picky}.get), stored)

    assert found.n == -1


def test_text_of_lone_surrogates_comes_back_in_every_field():
    """C123: not only in events: in texts of exceptions, names and keys."""
    tick = ticks.StateWritten(1.0, "s\ud800", 1, 1, {"k\udfff": out("v\0"), "n": out(10**30)}, ("\ud83d\ude00",))

    assert through(Codec(newest), tick, elsewhere()) == tick


# What cannot be written.


def test_a_value_without_a_codec_is_refused_by_name():
    """R6.12, R6.13: kind of tick, step, event and field are told."""
    tick = ticks.StepFinished(1.0, "load", 1, 1, (out(Row(no=1)), out(Anything(value=[0, {"a": (Opaque(),)}]))))

    with pytest.raises(NotStorable) as refused:
        Codec(newest).encode(tick)

    assert vars(refused.value) == {
        "kind": "StepFinished",
        "step": "load",
        "event": "tests.store.samples:Anything",
        "field": "value[1]['a'][0]",
        "type": "tests.store.samples:Opaque",
    }
    assert "field \"value[1]['a'][0]\" of event 'tests.store.samples:Anything' of step 'load'" in str(refused.value)


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (Anything(other=Note(Opaque())), "other.text"),  # type: ignore[arg-type]
        (Anything(value={Opaque: 1}), f"value.key({Opaque!r})"),
        (Anything(value=lambda: 1), "value"),
        (Anything(value=OrderedDict(a=1)), "value"),
        (Anything(value=[deque([1])]), "value[0]"),
        (Opaque(), ""),
    ],
)
def test_a_value_can_be_checked_before_a_tick_is_made(value: Any, field: str):
    """R6.12: subclasses of plain types too, since they would come back as something else."""
    with pytest.raises(NotStorable) as refused:
        Codec(newest).check(out(value))
    assert refused.value.field == field
    Codec(newest).check(out(Row(no=1)))


def test_a_container_that_contains_itself_is_refused():
    """And the codec works on afterwards."""
    loop: list[Any] = []
    loop.append([loop])
    codec = Codec(newest)

    with pytest.raises(NotStorable, match="contains itself"):
        codec.check(out(Anything(value=loop)))
    live = Codec(newest, "live")
    assert value_through(live, Anything(value=loop)).value is loop
    assert exact(value_through(codec, Anything(value=[[1]]))) == exact(Anything(value=[[1]]))


# What is kept in memory only.


def test_a_live_value_is_marked_and_stays_the_same_object():
    """R6.10: in the process that has it, the journal gives the object itself."""
    frame, codec = pd.DataFrame({"a": [1, 2]}), Codec(newest, "live")
    tick = ticks.StreamWritten(1.0, "s", 1, 1, out(Anything(value=[frame, 1])))

    kind, body = codec.encode(tick)
    (mark, one) = json.loads(body)["out"]["d"]["value"]

    assert (mark["$live"], mark["text"], one) == (key_of(pd.DataFrame), "shape (2, 1)", 1)
    assert codec.encode(tick) == (kind, body)
    found: Any = codec.decode(1, 1.0, kind, body)
    assert found.out.value.value[0] is frame


def test_a_lost_value_raises_when_it_is_used():
    """R6.10, R6.15: after a restart; its `repr` and its mark stay."""
    writer, reader = Codec(newest, "live"), Codec(newest, "live")
    event = Anything(value={"client": Opaque()})
    lost = value_through(writer, event, reader).value["client"]

    assert repr(lost) == "<lost tests.store.samples:Opaque: Opaque()>"
    assert copy.copy(event).value is event.value
    for use in (
        lambda: lost.shape,
        lambda: lost["a"],
        lambda: len(lost),
        lambda: bool(lost),
        lost,
        lambda: [*lost],
    ):
        with pytest.raises(LiveValueLost) as raised:
            use()
        assert (raised.value.event, raised.value.field) == ("tests.store.samples:Anything", "value")
        assert pickle.loads(pickle.dumps(raised.value)).field == "value"
    assert not hasattr(lost, "_repr_html_")


def test_a_lost_value_is_written_as_it_was_read():
    """And two reads give the same object, so that the same ticks are equal."""
    tick = ticks.StreamWritten(1.0, "s", 1, 1, out(Anything(value=Opaque())))
    kind, body = Codec(newest, "live").encode(tick)
    reader = Codec(newest, "error")
    read = [reader.decode(1, 1.0, kind, body) for _ in range(2)]

    assert read[0] == read[1]
    assert isinstance(read[0].out.value.value, Lost)  # type: ignore[union-attr]
    assert reader.encode(read[0]) == (kind, body)


@pytest.mark.parametrize("unserializable", ["error", "live"])
def test_secrets_are_never_written(unserializable: Any):
    """R1.12, C: neither in plain nor as asterisks that look like a value; the process keeps them."""
    codec = Codec(newest, unserializable)
    event = Login(user="ann", password="hunter2", token=[SecretBytes(b"hunter3")])
    kind, body = codec.encode(ticks.EventArrived(1.0, out(event)))

    assert b"hunter" not in body
    assert b"***" not in body
    here: Any = codec.decode(1, 1.0, kind, body)
    there: Any = elsewhere().decode(1, 1.0, kind, body)
    assert here.out.value.password.get_secret_value() == "hunter2"
    with pytest.raises(LiveValueLost):
        there.out.value.password.get_secret_value()
    assert there.out.value.user == "ann"
    assert elsewhere().encode(there) == (kind, body)


# Classes that are unknown or changed.


def unknown(key: str) -> None:
    """No class is defined here."""


@pytest.mark.parametrize(
    "event",
    [Row(no=1), Anything(value=(1, {2: [Colour.RED]}), x=b"\0"), Anything(value="\ud800"), Hidden(no=2), Ellipsis],
    ids=repr,
)
def test_an_event_of_an_unknown_class_is_kept_as_it_is(event: Any):
    """R6.14: shown raw, never imported; written again byte by byte."""
    codec = Codec(newest, "live")
    kind, body = codec.encode(ticks.StreamWritten(1.0, "s", 1, 1, out(event)))
    viewer = Codec(unknown)
    tick: Any = viewer.decode(1, 1.0, kind, body)

    assert viewer.encode(tick) == (kind, body)
    assert tick == viewer.decode(1, 1.0, kind, body)
    if isinstance(event, Event):
        assert isinstance(tick.out.value, UnknownEvent)
        assert tick.out.value.reason == f"No class {key_of(type(event))!r} is defined here."
        assert key_of(type(event)) in repr(tick.out.value)


def test_an_unknown_class_inside_a_known_event_makes_the_event_unknown():
    """R6.14: a step is never handed half an event."""
    writer = Codec(newest)
    found = value_through(writer, Anything(value=[Note("x")]), elsewhere())

    assert isinstance(found, UnknownEvent)
    assert found.reason == "No class 'tests.store.samples:Note' is defined here."


def test_a_key_is_never_imported():
    """R6.14: not even that of a module which is there to be imported."""
    assert "this" not in sys.modules
    body = b'{"step":"s","delivery":1,"start":1,"out":{"t":"this:Zen","v":1,"d":{"a":{"$object":"this:Zen","d":{}}}}}'
    tick: Any = Codec(newest).decode(1, 1.0, "StreamWritten", body)

    assert isinstance(tick.out.value, UnknownEvent)
    assert "this" not in sys.modules


def test_an_older_event_is_read_by_the_class_of_today():
    """C115: new fields with a default, fields that are gone; a new required one makes it unknown, with the reason."""

    def versions() -> list[Any]:
        class Item(Event):
            a: int
            gone: int = 2

        first = Item

        class Item(Event):  # type: ignore[no-redef]
            a: int
            new: list[int] = Field(default_factory=list)

        second = Item

        class Item(Event):  # type: ignore[no-redef]
            a: int
            needed: int

        return [first, second, Item]

    old, new, strict = versions()
    key = key_of(old)
    kind, body = Codec({key: old}.get).encode(ticks.StreamWritten(1.0, "s", 1, 1, out(old(a=1))))

    found: Any = Codec({key: new}.get).decode(1, 1.0, kind, body)
    assert (type(found.out.value), found.out.value.a, found.out.value.new) == (new, 1, [])
    assert found.out.value["gone"] == 2
    refused: Any = Codec({key: strict}.get).decode(1, 1.0, kind, body)
    assert isinstance(refused.out.value, UnknownEvent)
    assert "needs a field 'needed'" in refused.out.value.reason


def test_a_dataclass_that_lost_a_field_is_read():
    """C115: for nested classes too."""

    def versions() -> list[Any]:
        @dataclasses.dataclass
        class Part:
            a: int
            b: int = 1

        first = Part

        @dataclasses.dataclass
        class Part:  # type: ignore[no-redef]
            a: int
            c: list[int] = dataclasses.field(default_factory=list)

        return [first, Part]

    old, new = versions()
    kind, body = Codec(newest).encode(ticks.StreamWritten(1.0, "s", 1, 1, out([old(5)])))
    found: Any = Codec({key_of(old): new}.get).decode(1, 1.0, kind, body)

    assert found.out.value == [new(5, [])]


# Versions.


def rows_by(kind: Any, *events: Any) -> list[tuple[str, bytes]]:
    codec = Codec({key_of(kind): kind}.get)
    return [codec.encode(ticks.StreamWritten(1.0, "s", 1, 1, out(event))) for event in events]


def read_by(kind: Any, row: tuple[str, bytes]) -> Any:
    tick: Any = Codec({key_of(kind): kind}.get).decode(1, 1.0, *row)
    return tick.out.value


def prices() -> list[Any]:
    """Three versions of one class."""

    class Price(Event):
        amount: float
        note: str = ""
        _seen: int = PrivateAttr(default=0)

    first = Price

    class Price(Event):  # type: ignore[no-redef]
        __version__ = 2
        cents: int
        note: str = ""
        _seen: int = PrivateAttr(default=0)

        @classmethod
        def upgrade(cls, version: int, data: dict[str, Any]) -> dict[str, Any]:
            if version < 2:
                data["cents"] = round(100 * data.pop("amount"))
            return data

    second = Price

    class Price(Event):  # type: ignore[no-redef]
        __version__ = 3
        cents: tuple[int, str]
        _seen: int = PrivateAttr(default=0)

        @classmethod
        def upgrade(cls, version: int, data: dict[str, Any]) -> dict[str, Any]:
            if version < 2:
                data["cents"] = round(100 * data.pop("amount"))
            if version < 3:
                data["cents"] = data["cents"], data.pop("currency", "EUR")
            return data

    return [first, second, Price]


def test_an_event_of_an_older_version_goes_through_upgrade():
    """C115: from any older version, by the class's own `if`s; undeclared fields too; private ones as they were."""
    first, second, third = prices()
    old = first(amount=1.25, currency="CHF")
    old._seen = 5
    (row,) = rows_by(first, old)
    (newer,) = rows_by(second, second(cents=7))

    found = read_by(second, row)
    assert exact(found)[1][:2] == exact(second(cents=125, note="", currency="CHF"))[1][:2]
    assert (found._seen, found.model_fields_set) == (5, {"cents", "currency"})
    found = read_by(third, row)
    assert (type(found), found.cents, found["note"], found._seen) == (third, (125, "CHF"), "", 5)
    assert "currency" not in found
    assert read_by(third, newer).cents == (7, "EUR")
    assert read_by(first, rows_by(first, first(amount=2))[0]).amount == 2
    assert json.loads(newer[1])["out"]["v"] == 2


def test_an_event_that_cannot_be_upgraded_is_unknown():
    """C115, R6.14: viewable with the reason, which names the class and the fields; never a guess."""
    first, second, third = prices()
    (newer,) = rows_by(third, third(cents=(1, "EUR")))
    key = key_of(first)
    assert read_by(second, newer).reason == f"It was written by version 3 of {key!r}; here is version 2."

    (broken,) = rows_by(first, first.model_construct(note="no amount"))
    found = read_by(second, broken)
    assert found.reason == f"`upgrade` of {key!r} cannot take what version 1 wrote: KeyError: 'amount'"
    assert found.data == {"note": "no amount"}

    class Forgetful(first):
        __version__ = 2
        __qualname__ = first.__qualname__
        needed: int
        also: int

        @classmethod
        def upgrade(cls, version: int, data: dict[str, Any]) -> Any:
            return data if data["amount"] else None

    row, none = rows_by(first, first(amount=1), first(amount=0))
    found = read_by(Forgetful, row)
    assert found.missing == ("needed", "also")
    assert f"Class {key!r} needs fields 'needed', 'also', which the stored value has not" in found.reason
    assert read_by(Forgetful, none).reason == f"`upgrade` of {key!r} gives a NoneType, not a dict of its fields."


def test_an_unknown_event_is_never_handed_to_a_step():
    """R2.24, R6.14, C115: refused on delivery, naming event, fields and tick."""

    class Needy(Event):
        needed: int

    flow = Workflow("reading")

    @flow.step
    def read(ev: StartEvent) -> StopEvent:
        return StopEvent()

    body = Codec(newest).encode(ticks.EventArrived(1.0, out(Anything(value=1))))[1]
    tick: Any = Codec({key_of(Anything): Needy}.get).decode(1, 1.0, "EventArrived", body)
    assert isinstance(tick.out.value, UnknownEvent)

    with pytest.raises(EventOutdated, match=r"of tick 7 cannot be handed to a step: .* needs a field 'needed'") as told:
        current(tick.out, flow.definition, 7)
    assert (told.value.event, told.value.fields, told.value.seq) == (key_of(Anything), ("needed",), 7)


def test_a_nested_class_is_upgraded_too():
    """A dataclass inside an event has a version of its own."""

    def versions() -> list[Any]:
        @dataclasses.dataclass
        class Part:
            a: int

        first = Part

        @dataclasses.dataclass
        class Part:  # type: ignore[no-redef]
            __version__ = 2
            b: int

            @classmethod
            def upgrade(cls, version: int, data: dict[str, Any]) -> dict[str, Any]:
                return {"b": data["a"] + version}

        return [first, Part]

    old, new = versions()
    row = Codec(newest).encode(ticks.StreamWritten(1.0, "s", 1, 1, out(Anything(value=[old(5)]))))
    classes = {key_of(old): new, key_of(Anything): Anything}
    tick: Any = Codec(classes.get).decode(1, 1.0, *row)
    assert tick.out.value.value == [new(6)]


@pytest.mark.parametrize("stated", ["2", 0, 1.0, True])
def test_a_version_is_a_whole_number(stated: Any):
    """Told where the class is defined."""
    with pytest.raises(WorkflowConfigurationError, match=r"__version__ = .* is no whole number from 1"):
        type("Wrong", (Event,), {"__version__": stated, "__module__": __name__})


def test_a_field_may_be_called_upgrade():
    """It is no classmethod then."""

    class Plan(Event):
        upgrade: bool = True

    assert exact(value_through(Codec({key_of(Plan): Plan}.get), Plan(upgrade=False))) == exact(Plan(upgrade=False))


# Which classes are found.


class Base(BaseModel):
    a: int


class Narrow(Base):
    b: set[int] = set()


class HasBase(Event):
    part: Base


def test_a_subclass_in_a_field_of_its_base_comes_back():
    """It is written whole, and found among the subclasses of the hinted class: nothing registered it."""
    event = HasBase(part=Narrow(a=1, b={2}))

    assert exact(value_through(Codec(newest), event, elsewhere())) == exact(event)


def test_a_class_beside_events_is_found():
    """A `StopEvent.result` is of any type: what stands at the top of a module that defined an event is known."""
    for value in (Note("x"), Address(town="Ulm"), Point(1), Colour.RED, [Strict(n=1)]):
        event = Anything(value=value)
        assert exact(value_through(Codec(defined), event, Codec(defined))) == exact(event)
    assert defined(key_of(Row)) is Row
    for key in (
        "tests.store.samples:Opaque",  # no data class: it could not be made without its own code
        "tests.store.samples:dataclasses",
        "tests.store.samples:Row.model_fields",
        "tests.store.samples:BaseModel",  # not defined there
        "tests.store.samples:",
        "tests.store.samples",
        "pydantic.main:BaseModel",  # no module of events
        "flownb.errors:WorkflowError",
        "this:Zen",
        "os:system",
        "builtins:eval",
    ):
        assert defined(key) is None
    assert "this" not in sys.modules


# What is damaged.

ROW = Codec(newest).encode(ticks.StreamWritten(1.0, "s", 1, 1, out(Anything(value=[1, (2,)]))))[1]


@pytest.mark.parametrize(
    ("kind", "at", "body"),
    [
        ("Nothing", 1.0, b"{}"),
        ("StreamWritten", float("nan"), ROW),
        ("StreamWritten", "1", ROW),
        ("StreamWritten", 1.0, ROW[:-1]),
        ("StreamWritten", 1.0, b""),
        ("StreamWritten", 1.0, b"\xff" + ROW),
        ("StreamWritten", 1.0, ROW.replace(b'"delivery":1', b'"delivery":"1"')),
        ("StreamWritten", 1.0, ROW.replace(b'"step":"s",', b"")),
        ("StreamWritten", 1.0, ROW.replace(b'"step":"s"', b'"step":"s","x":1')),
        ("StreamWritten", 1.0, ROW.replace(b"$tuple", b"$treble")),
        ("StreamWritten", 1.0, ROW.replace(b'{"$tuple":[2]}', b'{"$set":[[2]]}')),
        ("StreamWritten", 1.0, ROW.replace(b'{"$tuple":[2]}', b'{"$range":[1,2,0]}')),
        ("StreamWritten", 1.0, ROW.replace(b'{"$tuple":[2]}', b'{"$zone":"../../etc/passwd"}')),
        ("StreamWritten", 1.0, ROW.replace(b'{"$tuple":[2]}', b'{"$numpy":"O","b":"AAAAAAAAAAA="}')),
        ("StreamWritten", 1.0, ROW.replace(b'{"$tuple":[2]}', b"[" * 5000 + b"]" * 5000)),
        ("StreamWritten", 1.0, b'{"$escaped":"\\\\ud8"}'),
        ("StreamWritten", 1.0, b'{"$escaped":[]}'),
    ],
)
def test_a_damaged_row_is_told(kind: str, at: Any, body: bytes):
    """C113: number and reason; never None, never another error."""
    with pytest.raises(JournalDamaged) as damaged:
        Codec(newest).decode(7, at, kind, body)
    assert damaged.value.seq == 7
    assert damaged.value.reason


BODIES = [Codec(newest).encode(tick) for tick in (*EXAMPLES, *MORE)]


@given(st.sampled_from(BODIES), st.integers(0), st.integers(0, 255), st.sampled_from(["flip", "cut", "drop", "add"]))
def test_a_mutated_row_is_read_or_told(row: tuple[str, bytes], place: int, byte: int, how: str):
    """C113: any byte changed, cut off or added gives a tick or `JournalDamaged`."""
    kind, body = row
    i = place % len(body)
    mutated = {
        "flip": body[:i] + bytes([byte]) + body[i + 1 :],
        "cut": body[:i],
        "drop": body[:i] + body[i + 1 :],
        "add": body[:i] + bytes([byte]) + body[i:],
    }[how]
    try:
        tick = Codec(newest).decode(1, 1.0, kind, mutated)
    except JournalDamaged as damaged:
        assert damaged.seq == 1
    else:
        assert type(tick).__name__ == kind


def test_values_beside_events():
    """A plain model or dataclass as a value of the user's state, by the class that wrote it."""
    codec = Codec(newest)

    class Settings(BaseModel):
        depth: int

    assert exact(value_through(codec, Settings(depth=2))) == exact(Settings(depth=2))
    assert through(codec, ticks.RequestAnswered(1.0, 1, Out("builtins:bool", True, "answer"))).answer.value is True
    assert exact(value_through(codec, UUID(int=5))) == exact(UUID(int=5))


def test_a_live_value_goes_with_the_runs_that_hold_it():
    """R6.15: the store of a kernel must not keep every frame that was ever sent."""
    codec = Codec(lambda key: None, "live")
    opaque, counter = Opaque(), iter([1])  # an iterator cannot be held weakly
    alive = weakref.ref(opaque)
    rows = [codec.encode(ticks.EventArrived(1.0, Out("m:A", value))) for value in (opaque, counter)]
    assert codec.decode(1, 1.0, *rows[0]).out.value is opaque

    del opaque
    gc.collect()
    assert alive() is None
    assert isinstance(codec.decode(1, 1.0, *rows[0]).out.value, Lost)
    assert codec.decode(2, 1.0, *rows[1]).out.value is counter
