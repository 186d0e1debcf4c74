"""Classes, ticks and comparisons that the tests of the store share."""

import dataclasses
import enum
from functools import cached_property
from typing import Any, NamedTuple

from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, PrivateAttr, SecretStr

from flownb.core import ticks
from flownb.core.spec import Spec, StepSpec, TypeSpec, link
from flownb.core.ticks import AnyTick
from flownb.core.values import Failure, Limit, Out
from flownb.events import Event, InputRequiredEvent, StartEvent, StopEvent, key_of


class Colour(enum.Enum):
    RED = 1
    GREEN = "g"


class Right(enum.Flag):
    READ = 1
    WRITE = 2


class Point(NamedTuple):
    x: int
    y: float = 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class Span:
    first: int
    last: int = 9


@dataclasses.dataclass
class Note:
    text: str
    tags: list[str] = dataclasses.field(default_factory=list)


class Address(BaseModel):
    town: str
    zip_codes: tuple[int, ...] = ()


class Row(Event):
    no: int
    name: str = "x"


class Anything(Event):
    value: Any = None


class Typed(Event):
    """Its hints name every nested class that the tests use."""

    address: Address | None = None
    colours: tuple[Colour, ...] = ()
    point: Point | None = None
    span: Span | None = None
    note: Note | None = None
    right: Right | None = None


class Hidden(Event):
    no: int
    _secret_count: int = PrivateAttr(default=7)
    _late: str = PrivateAttr()

    @cached_property
    def doubled(self) -> int:
        return 2 * self.no


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    n: int


class Login(Event):
    user: str
    password: SecretStr


class Begin(StartEvent):
    pass


class Ask(InputRequiredEvent[Any]):
    prompt: str = ""


class Opaque:
    """Has no codec."""

    def __repr__(self) -> str:
        return "Opaque()"


SPEC = link(
    Spec(
        "Sample",
        "m:Sample",
        (StepSpec("load", accepts=(key_of(Begin),), returns=(key_of(StopEvent),), source="ab"),),
        (TypeSpec(key_of(Begin), "start"), TypeSpec(key_of(StopEvent), "stop")),
        key_of(Begin),
        hash="cd",
    )
)


def out(value: Any) -> Out:
    """A value as a tick carries it."""
    if isinstance(value, Event):
        return Out(*type(value).__flownb_kind__[:1], value, *type(value).__flownb_kind__[1:])
    return Out(key_of(type(value)), value, "value")


def started(run_id: str = "r", at: float = 1.0) -> ticks.RunStarted:
    return ticks.RunStarted(at, run_id, SPEC, out(Begin()))


def run_of(length: int, run_id: str = "r", at: float = 1.0) -> list[AnyTick]:
    """A sound journal that goes on after its end."""
    gates = [
        ticks.GateClosed(at + i, by=f"p{i}") if i % 2 else ticks.GateOpened(at + i, by=f"p{i}")
        for i in range(1, length)
    ]
    return [started(run_id, at), *gates]


#: One of each kind, with every field given (a fork's snapshot is a state, which is another codec's business).
_EXAMPLES: tuple[AnyTick, ...] = (
    ticks.RunStarted(
        1.0,
        "r",
        SPEC,
        out(Begin()),
        gate=("person", "budget"),
        state={"n": out((1,))},
        terms=ticks.Terms(9.5, "wall", 50, "pause", 2.0),
        parent=ticks.Parent("up", 3),
        replays="recorded",
        held=(1, 2),
    ),
    ticks.RunForked(
        1.5,
        "f",
        "r",
        7,
        {"n": out((1,))},
        {3: out(Row(no=4))},
        ("person",),
        settled=(5,),
        over=(6,),
        replays="recorded",
        held=(4,),
    ),
    ticks.RunOpened(1.25, "kernel 1", 2, {5: out(Ask(prompt="what became of it?"))}, (6,), held=(1,)),
    ticks.GateClosed(2.0, "breakpoint", "ann", held=(1,)),
    ticks.GateOpened(2.0, "parent", "ann", held=(1,)),
    ticks.StepsGranted(2.0, 3, held=(1,)),
    ticks.BreakpointHit(2.5, 4, "before load", "NameError: x", held=(1,)),
    ticks.EventEdited(2.5, "load", 1, (out(Row(no=2)),), (out(Row(no=1)),), "ann", held=(1,)),
    ticks.EventDropped(2.5, "load", 1, (out(Row(no=1)),), "ann", held=(1,)),
    ticks.HoldChanged(2.5, 1, "the robot answers", 6, held=(1,)),
    ticks.RequestHeld(2.5, 1, "ann", held=(1,)),
    ticks.DefinitionAdopted(2.75, SPEC, "ann", held=(1,)),
    ticks.CancelRequested(3.0, "no use", "ann", out(Row(no=9)), held=(1,)),
    ticks.RunSuspended(3.5, "no time", "ann", held=(1,)),
    ticks.EventArrived(4.0, out(Row(no=1, colour="red")), "load", "key 1", "ann", held=(1,)),
    ticks.StepFinished(
        5.0,
        "load",
        1,
        2,
        (out(Row(no=1)), out(Row(no=2))),
        True,
        (ticks.Collect("b", (("m:Row", 2), ("m:Other", 1)), out(Row(no=3)), "m:Row", (4, 0), True),),
        held=(1,),
    ),
    ticks.StepFailed(
        6.0, "load", 1, 2, Failure("builtins:ValueError", "no", "Traceback ..."), 7.5, out(Row(no=8)), held=(1,)
    ),
    ticks.EventsSent(7.0, "load", 1, 2, (out(Row(no=1, name="y")),), "save", held=(1,)),
    ticks.StreamWritten(8.0, "load", 1, 2, out(Anything(value=[1, (2, {3: 4})])), held=(1,)),
    ticks.StreamRewound(8.5, "load", 1, 2, held=(1,)),
    ticks.StateWritten(9.0, "load", 1, 2, {"a": out((1, 2)), "$b": out(Row(no=3))}, ("c",), held=(1,)),
    ticks.ValueRecorded(9.5, "load", 1, 2, "once 1", out([1, {"a": 2.5}]), held=(1,)),
    ticks.WaitOpened(
        10.0, "load", 1, 2, 1, ticks.Ask(out(Ask(prompt="?")), 20.0, out(True), "key", 3, "ab12"), held=(1,)
    ),
    ticks.WaitWithdrawn(11.0, "load", 1, 2, 1, held=(1,)),
    ticks.TimerFired(12.0, 4, out(Row(no=5)), held=(1,)),
    ticks.RequestAnswered(13.0, 1, out("yes"), "ann", "policy", "done", "hook-7", held=(1,), entry=12),
    ticks.RequestDisposed(14.0, 1, "late", "ann", out(Row(no=6)), True, held=(1,)),
    ticks.ChildChanged(14.25, 1, True, held=(1,)),
    ticks.ChildFinished(14.5, 1, "failed", out(Row(no=7)), Failure("m:Odd", "no"), held=(1,)),
    ticks.QuietNoticed(15.0, held=(1,)),
)
_HAND = ticks.Hand("ann", (out(Row(no=1)),), True, 3, 5.5)
EXAMPLES: tuple[AnyTick, ...] = tuple(replace(tick, entry=8, hand=_HAND, came=0.5) for tick in _EXAMPLES)
MORE: tuple[AnyTick, ...] = (
    ticks.RunForked(1.5, "f", "r", 7),
    ticks.WaitOpened(10.0, "load", 1, 2, 1, ticks.Sleep(30.0, "20.0")),
    ticks.WaitOpened(10.0, "load", 1, 2, 1, ticks.Ask(out(Ask(prompt="?")))),
    ticks.WaitOpened(
        10.0, "load", 1, 2, 1, ticks.Await(key_of(Row), {"no": out(3)}, 40.0, "id", out(Ask(prompt="which?")))
    ),
    ticks.WaitOpened(10.0, "load", 1, 2, 1, ticks.Await(key_of(Row))),
    ticks.WaitOpened(10.0, "load", 1, 2, 1, ticks.RunChild("m:Other", out(Begin()), 2, 3)),
    ticks.StepFinished(5.0, "load", 1, 1),
    ticks.StepFinished(5.0, "load", 1, 1, (Out(key_of(Ask), Ask(), "request", (), Limit(9.5, out("later"))),)),
    ticks.StepFailed(6.0, "load", 1, 2, Failure("builtins:ValueError", "no")),
    ticks.RequestAnswered(13.0, 1, out("yes")),
    ticks.ChildFinished(14.5, 1, "completed"),
    ticks.HoldChanged(2.5, 1),
    ticks.EventArrived(4.0, out(Row(no=2)), hand=ticks.Hand("ann", (out(Row(no=1)),), ahead=3)),
    ticks.EventArrived(4.0, out(Row(no=2)), hand=ticks.Hand("ann", (out(Row(no=2)),), is_dropped=True)),
    ticks.TimerFired(12.0, 4, hand=ticks.Hand(early_s=5.5)),
    ticks.CancelRequested(3.0),
    ticks.GateClosed(2.0),
    ticks.TimerFired(12.0, 4),
)


def exact(value: Any) -> Any:
    """A value as nested tuples that are equal only if types and contents are: NaN equals NaN, 1 is not True or 1.0."""
    kind = type(value)
    if kind in (list, tuple):
        return kind, [exact(v) for v in value]
    if kind in (set, frozenset):
        return kind, sorted(repr(exact(v)) for v in value)
    if kind is dict:
        return kind, [(exact(k), exact(v)) for k, v in value.items()]
    if isinstance(value, BaseModel):
        parts = (value.__dict__, value.__pydantic_extra__, value.__pydantic_private__, value.__pydantic_fields_set__)
        return kind, [exact(part) for part in parts]
    if dataclasses.is_dataclass(value):
        return kind, [exact(getattr(value, f.name)) for f in dataclasses.fields(value)]
    if kind in (int, str, bytes, bytearray):
        return kind, value
    if hasattr(value, "tzinfo"):
        return kind, repr(value), value.fold
    return kind, repr(value)
