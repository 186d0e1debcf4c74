"""What a tick is about: the events that it carries, the deliveries that it starts, the step that it is of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from flownb.core.causes import delivery_of
from flownb.core.commands import AnyCommand, StartStep, WakeStep
from flownb.core.draft import bases_of
from flownb.core.graph import short
from flownb.core.state import Delivery, RunState
from flownb.core.ticks import AnyTick, StepFailed, StepFinished, Tick, TimerFired, ValueRecorded, WaitOpened
from flownb.core.values import Out
from flownb.errors import WorkflowConfigurationError, WorkflowStepDoesNotExistError
from flownb.sending import name_of


def carried(before: RunState, tick: Tick) -> list[Out]:
    """The events that a tick brings, in order."""
    if isinstance(tick, ValueRecorded):
        return []
    found: list[Any] = [*getattr(tick, "outs", ())]
    found += [getattr(tick, name, None) for name in ("out", "answer", "failed", "closed")]
    if isinstance(tick, WaitOpened):
        found.append(getattr(tick.wait, "question", None))
    if isinstance(tick, TimerFired):
        timer = before.timers.get(tick.timer)
        request = before.requests.get(timer.ref) if timer is not None and timer.kind == "deadline" else None
        found.append(request.default if request is not None else None)
    return [out for out in found if out is not None]


def actor(before: RunState, tick: Tick) -> Delivery | None:
    """The delivery that a tick is of, as it was before; None for a late tick, which changes nothing."""
    d = delivery_of(tick, before)
    return d if d is not None and d.start == getattr(tick, "start", d.start) and not d.gone else None


def outs_of(d: Delivery) -> tuple[Out, ...]:
    """The events that a delivery brings to its step."""
    return d.out if isinstance(d.out, tuple) else (d.out,)


def is_of(state: RunState, out: Out, event: str) -> bool:
    """Whether an event is of a type, or of one that is derived from it; the type by name or as `module:qualname`."""
    return any(event in (key, key.rpartition(":")[2], short(key)) for key in (out.key, *bases_of(state, out)))


def is_any_of(state: RunState, outs: Iterable[Out], event: str) -> bool:
    return any(is_of(state, out, event) for out in outs)


def started(commands: Iterable[AnyCommand]) -> Iterator[Delivery]:
    """Deliveries whose code a tick starts."""
    return (command.delivery for command in commands if type(command) is StartStep)


def moved(before: RunState, tick: Tick, after: RunState, commands: Iterable[AnyCommand]) -> Delivery | None:
    """The delivery that a tick starts or continues: the first whose event it sent, else the first that it starts or
    wakes, else its own if that lives on."""
    found = [command.delivery for command in commands if isinstance(command, (StartStep, WakeStep))]
    if found:
        return next((d for d in found if d.cause == after.seq), found[0])
    own = actor(before, tick)
    return own if own is not None and lives(after, own.step, own.id) else None


def lives(state: RunState, step: int, delivery: int) -> bool:
    """Whether a delivery that was started is not over."""
    return delivery in state.steps[step].active or delivery in state.steps[step].waiting


def is_end_of(tick: AnyTick, step: str) -> bool:
    """Whether an attempt of a step ended with a tick."""
    return isinstance(tick, (StepFinished, StepFailed)) and tick.step == step


def step_name(step: Any, workflow: str, known: Iterable[str]) -> str:
    """The name of a step that is given as its function or by name.

    Raises:
        WorkflowStepDoesNotExistError: The workflow has none of that name.
    """
    name, names = name_of(step), tuple(known)
    if name is None or name not in names:
        raise WorkflowStepDoesNotExistError(str(name), workflow=workflow, known=names)
    return name


def event_name(event: Any) -> str:
    """The name of an event type that is given as its class, or by name."""
    if isinstance(event, str):
        return event
    kind = getattr(event, "__flownb_kind__", None)
    if kind is None or not isinstance(event, type):
        raise WorkflowConfigurationError(f"event takes the class of an event or its name, not {event!r}.")
    return str(kind[0])
