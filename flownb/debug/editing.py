"""A tick, or what waits before a step, with another event: what `run.debug.edit` and `run.debug.fork` make."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace
from pydantic import BaseModel, ValidationError

from flownb.core.ticks import (
    AnyTick,
    ChildFinished,
    EventArrived,
    EventsSent,
    RequestAnswered,
    StepFailed,
    StepFinished,
    ValueRecorded,
)
from flownb.core.values import Out
from flownb.definition import Definition
from flownb.errors import AnswerInvalid, WorkflowConfigurationError, near
from flownb.events import Event
from flownb.runtime.copying import copied
from flownb.runtime.results import out_of, value_out
from flownb.runtime.runner import Runner
from flownb.store.marks import UnknownEvent

Make = Callable[[Any, Out], Out]


def maker(runner: Runner, definition: Definition, at: float) -> Make:
    """How a value that a person gives becomes what a tick carries: an event, a plain value, or a mapping of fields that
    are other ones than in the event that was there. One that the run's journal cannot hold is refused (R6.12)."""

    def make(given: Any, old: Out) -> Out:
        if isinstance(given, Mapping) and isinstance(old.value, (BaseModel, UnknownEvent)):
            given = with_fields(old.value, given)
        made = out_of(copied(given), definition, at) if isinstance(given, Event) else value_out(copied(given))
        return runner.checked(made)

    return make


def with_fields(old: BaseModel | UnknownEvent, changes: Mapping[str, Any]) -> BaseModel:
    """A model with some other fields.

    Raises:
        AnswerInvalid: They do not fit, field by field.
    """
    if isinstance(old, UnknownEvent):
        raise AnswerInvalid(f"This process has not the class {old.key}: define it, then edit its fields.")
    kind = type(old)
    known = {name: getattr(old, name) for name in kind.model_fields} | (old.model_extra or {})
    strange = [name for name in changes if name not in known]
    if strange and known:  # a misspelt field is an error, unless the event declares none
        raise AnswerInvalid(f"{kind.__name__} has no field {strange[0]!r}. {near(strange[0], list(known), 'It has')}")
    try:
        return kind.model_validate({**known, **changes})
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
        raise AnswerInvalid(f"{kind.__name__} cannot be that: {'; '.join(faults)}.", errors=error.errors()) from None


def edited(tick: AnyTick, event: Any, make: Make, where: str) -> AnyTick | None:
    """A tick that brings another event; None for one that brings none.

    Args:
        tick: It.
        event: What it brings instead: an event, of a fan-out a list of them, of an answer or a child's end that value;
            or a mapping of fields that are other ones.
        make: As `maker` says.
        where: What the tick is called in errors.

    Raises:
        WorkflowConfigurationError: It brings a list and one event was given, or the other way round.
        AnswerInvalid: The fields do not fit.
    """
    match tick:
        case EventArrived():
            return replace(tick, out=make(an_event(event, tick.out, where), tick.out))
        case StepFinished():
            return replace(tick, outs=_outs(tick.outs, event, make, f"Step {tick.step!r} returned", where, tick.fan))
        case EventsSent():
            is_list = len(tick.outs) != 1
            return replace(tick, outs=_outs(tick.outs, event, make, f"Step {tick.step!r} sent", where, is_list))
        case StepFailed() if tick.failed is not None:
            return replace(tick, failed=make(event, tick.failed))
        case RequestAnswered():
            return replace(tick, answer=make(event, tick.answer))
        case ChildFinished() if tick.out is not None:
            return replace(tick, out=make(event, tick.out))
        case ValueRecorded():
            return replace(tick, out=make(event, tick.out))
    return None


#: Fields of a tick that `edited` puts something else into.
BRINGING = ("out", "answer", "failed", "outs")


def outs_in(tick: AnyTick) -> tuple[Out, ...]:
    """What `edited` would put something else in place of."""
    single = [getattr(tick, name, None) for name in BRINGING[:-1]]
    return tuple(out for out in (*single, *getattr(tick, "outs", ())) if out is not None)


def original_of(tick: AnyTick) -> tuple[Out, ...]:
    """What a tick brought when it came."""
    return tick.hand.original if tick.hand is not None and tick.hand.original else outs_in(tick)


def in_place_of(old: tuple[Out, ...], event: Any, make: Make, where: str) -> tuple[Out, ...]:
    """Events for a delivery in place of those that it brings to its step: as many."""
    if len(old) == 1 and not _is_list(event):
        return (make(an_event(event, old[0], where), old[0]),)
    return _outs(old, event, make, "It brings", where, is_list=True)


def _outs(old: tuple[Out, ...], event: Any, make: Make, what: str, where: str, is_list: bool) -> tuple[Out, ...]:
    if _is_list(event) is not is_list:
        has, too = (f"a list of {len(old)}", "a list") if is_list else ("one event", "one")
        raise WorkflowConfigurationError(f"{what} {has} at {where}: event= has to be {too} too.")
    given = list(event) if is_list else [event]
    if any(isinstance(one, Mapping) for one in given) and len(given) != len(old):
        raise WorkflowConfigurationError(
            f"{what} {len(old)} events at {where}: give the fields of each of them, or whole events."
        )
    shown = [*old, *[Out("", None)] * len(given)]
    return tuple(make(an_event(one, was, where), was) for one, was in zip(given, shown, strict=False))


def _is_list(event: Any) -> bool:
    return isinstance(event, Sequence) and not isinstance(event, (str, bytes))


def an_event(given: Any, old: Out, where: str) -> Any:
    """What was given in place of an event: an event, or a mapping of fields.

    Raises:
        WorkflowConfigurationError: It is neither.
    """
    if not isinstance(given, Event) and not (isinstance(given, Mapping) and old.key):
        raise WorkflowConfigurationError(f"What is brought at {where} is an event, and event={given!r:.100} is none.")
    return given
