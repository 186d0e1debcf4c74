"""Between user values and what ticks carry."""

from __future__ import annotations

import os
import traceback
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from pydantic import ValidationError

from flownb.core.state import RunState
from flownb.core.values import Failure, Limit, Out
from flownb.definition import Definition, Step
from flownb.errors import EventOutdated, JoinIncomplete, WorkflowRuntimeError
from flownb.events import Event, InputRequiredEvent, deadline_at, key_of, needed
from flownb.runtime.copying import copied
from flownb.store.marks import UnknownEvent

#: Files of the engine itself, in tracebacks.
_PACKAGE = str(Path(__file__).parents[1]) + os.sep


def out_of(event: Event, definition: Definition, now: float) -> Out:
    """An event as a tick carries it.

    Args:
        event: The user's event, kept by reference.
        definition: The run's; types that it knows need no bases in the tick.
        now: Unix seconds, for the deadline of a question.
    """
    kind = type(event)
    key, role, bases = kind.__flownb_kind__
    if key in definition.spec.routes:
        if role != "request":
            return Out(key, event, role)
        bases = ()
    if kind.__pydantic_generic_metadata__["origin"]:
        raise WorkflowRuntimeError(
            f"{kind.__name__}(...) cannot be sent: a class made by subscription alone has no name of its own. "
            f"Write `class Mine({kind.__name__}): ...` and send that."
        )
    if role == "request" and isinstance(event, InputRequiredEvent) and event._deadline is not None:
        within, default = event._deadline
        answer = out_of(default, definition, now) if isinstance(default, Event) else value_out(default)
        return Out(key, event, role, bases, Limit(deadline_at(within, now), None if default is None else answer))
    return Out(key, event, role, bases)


def is_event(value: Any) -> bool:
    """`isinstance(value, Event)`, without the dear subclass check of abstract classes."""
    return hasattr(type(value), "__flownb_kind__")


def value_out(value: Any) -> Out:
    """A plain value (an answer, a piece of state) as a tick carries it."""
    if isinstance(value, Event):
        key, role, bases = type(value).__flownb_kind__
        return Out(key, value, role, bases)
    return Out(key_of(type(value)), value, "value")


def outs_of(result: Any, step: Step, definition: Definition, now: float) -> tuple[tuple[Out, ...], bool]:
    """What a step returned: its events, and whether they were a list, which opens a fan-out.

    Raises:
        WorkflowRuntimeError: It returned something that is no event.
    """
    if result is None:
        return (), False
    if hasattr(type(result), "__flownb_kind__"):
        return (out_of(result, definition, now),), False
    if _is_list(result) and all(map(is_event, result)):
        return tuple([out_of(item, definition, now) for item in result]), True
    raise WorkflowRuntimeError(_wrong_result(result, step), step=step.name)


def _is_list(result: Any) -> bool:
    """A list, a tuple or another sequence (R2.16); text is none."""
    return isinstance(result, Sequence) and not isinstance(result, (str, bytes, bytearray, memoryview))


def _wrong_result(result: Any, step: Step) -> str:
    expected = [key_of(c) for c in step.gives.events] + [f"list[{key_of(c)}]" for c in step.gives.lists]
    found = key_of(type(result))
    if _is_list(result):
        wrong = next(item for item in result if not isinstance(item, Event))
        found = f"{type(result).__name__} with a {key_of(type(wrong))} in it"
    alike = [key for key in expected if key.rpartition(":")[2] == found.rpartition(":")[2]]
    mend = (
        f"It is another class of the same name: return {alike[0]}."
        if alike
        else "Return an event, a list of events, or None."
    )
    return f"Step {step.name!r} returned a {found}; its hint says {' | '.join(expected) or 'None'}. {mend}"


def delivered(out: Out | tuple[Out, ...], definition: Definition, seq: int) -> Any:
    """The value that a step is handed: of the newest class of its key, and its own copy.

    Args:
        out: What is delivered.
        definition: The run's.
        seq: The tick that sent it, for the error.

    Raises:
        EventOutdated: The newest class does not take an older event.
    """
    if isinstance(out, tuple):
        return [delivered(item, definition, seq) for item in out]
    value = out.value
    return copied(value if type(value) is needed(out.key) else current(out, definition, seq))


def current(out: Out, definition: Definition, seq: int = 0) -> Any:
    """The value as an instance of the class that its key means now (R2.24).

    Raises:
        EventOutdated: That class refuses it.
    """
    value = out.value
    if type(value) is UnknownEvent:
        raise EventOutdated(
            f"{out.key}{f' of tick {seq}' if seq else ''} cannot be handed to a step: {value.reason}",
            event=out.key,
            fields=value.missing,
            seq=seq,
        )
    cls = definition.class_of(out.key)
    if cls is None or type(value) is cls or not is_event(value):
        return value
    try:
        return cls.model_validate(value.model_dump())
    except ValidationError as error:
        said = "; ".join(f"{'.'.join(map(str, e['loc'])) or cls.__name__}: {e['msg']}" for e in error.errors())
        raise EventOutdated(
            f"{out.key} was redefined, and an event of the older definition{f', of tick {seq},' if seq else ''} "
            f"does not fit: {said}. Give new fields a default, or start a new run.",
            event=out.key,
            fields=tuple(str(e["loc"][0]) for e in error.errors() if e["loc"]),
            seq=seq,
        ) from error


def shown(out: Out, definition: Definition) -> Any:
    """The value for somebody who only looks: of the newest class if it fits, else as it is, with a warning (R2.49).
    Where there is no class, for the code is elsewhere, it is as it is."""
    if type(out.value) is UnknownEvent and definition.class_of(out.key) is None:
        return out.value
    try:
        return current(out, definition)
    except EventOutdated as error:
        warnings.warn(f"{error} It is shown as it is.", stacklevel=3)
        return out.value


def failure_of(error: BaseException) -> Failure:
    """What is kept of an exception: type, message, and the traceback from the user's first line on."""
    kind = type(error)
    lines = traceback.format_exception(kind, error, user_part(error.__traceback__))
    return Failure(f"{kind.__module__}:{kind.__qualname__}", _message(error), _storable("".join(lines)))


def error_of(state: RunState, errors: Mapping[int, BaseException]) -> BaseException | None:
    """The live exception of a failed run, None if only its words are known."""
    failure, error = state.failure, errors.get(state.end.failed_delivery)
    if failure is not None and failure.type == "flownb.errors:JoinIncomplete":
        incomplete = JoinIncomplete(failure.message, step=state.spec.steps[state.failed_step].name)
        incomplete.__cause__ = error
        return incomplete
    return error


def user_part(frames: TracebackType | None) -> TracebackType | None:
    """A traceback without the engine's frames on top of it."""
    here = frames
    while here is not None and here.tb_next is not None and here.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        here = here.tb_next
    return here


def _message(error: BaseException) -> str:
    try:
        return _storable(str(error))
    except Exception as broken:  # a user's __str__ may do anything
        return f"<its message cannot be shown: {type(broken).__name__}>"


def _storable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
