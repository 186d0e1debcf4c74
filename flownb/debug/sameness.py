"""What of a tick matters when two runs are compared, and what of it is said in words.

Times, ids of runs, deliveries, questions, timers, who answered, and traceback texts differ between any two runs of the
same code: they are left out. So are the ticks that tell how a run was driven (its gate, its drivers).
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

from msgspec import Struct
from pydantic import BaseModel, Secret, SecretBytes, SecretStr

from flownb.core import ticks as t
from flownb.core.graph import short
from flownb.core.ticks import AnyTick
from flownb.core.values import Out
from flownb.events import key_of
from flownb.store.marks import UnknownEvent

#: Ticks that tell how a run was driven, not what happened in it.
DRIVING: tuple[type[t.Tick], ...] = (
    t.RunForked,
    t.RunOpened,
    t.RunSuspended,
    t.GateClosed,
    t.GateOpened,
    t.StepsGranted,
    t.BreakpointHit,
    t.DefinitionAdopted,
)
#: Fields of the engine's own events that differ between any two runs.
_OF_ONE_RUN = {
    "flownb.events:StepFailedEvent": ("elapsed_seconds", "failed_at"),
    "flownb.events:RequestClosedEvent": ("request_id",),
    "flownb.events:WorkflowTimedOutEvent": ("elapsed_seconds",),
    "flownb.events:OutcomeUnknown": ("started_at",),
}
#: A value in words is no longer than this.
LENGTH = 100
#: Types whose values are their content; what else can be hashed may have an identity of its own.
_PLAIN = frozenset({"builtins", "datetime", "decimal", "uuid", "pathlib", "fractions", "enum", "re"})


class Fact(NamedTuple):
    """One thing that matters of a tick."""

    name: str
    #: Equal for equal content.
    content: Hashable
    words: str


def facts_of(tick: AnyTick) -> list[Fact]:
    """What matters of a tick, its kind apart."""
    found = _FACTS.get(type(tick))
    return list(found(tick)) if found is not None else []


def is_alike(one: AnyTick, other: AnyTick) -> bool:
    """Whether two ticks are the same in what matters."""
    return essence(one) == essence(other)


def essence(tick: AnyTick) -> Hashable:
    """What matters of a tick: equal for ticks that are alike."""
    return type(tick).__name__, tuple((fact.name, fact.content) for fact in facts_of(tick))


def differences(one: AnyTick, other: AnyTick) -> str:
    """In what two ticks differ, in words; "" if they are alike."""
    if type(one) is not type(other):
        return f"{line_of(one)} became {line_of(other)}"
    before, after = ({fact.name: fact for fact in facts_of(tick)} for tick in (one, other))
    said = []
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name), after.get(name)
        if old is None or new is None or old.content != new.content:
            was, now = (fact.words if fact is not None else "nothing" for fact in (old, new))
            said.append(f"{name} was {was}, and is {now}" if was != now else f"{name} differs ({was})")
    return "; ".join(said)


def line_of(tick: AnyTick) -> str:
    """A tick on one line: its kind, its step, its events."""
    step = getattr(tick, "step", None)
    said = ", ".join(fact.words for fact in facts_of(tick) if fact.name != "step" and fact.words)
    return f"{type(tick).__name__}{f' of {step}' if step else ''}{f': {said}' if said else ''}"


def title_of(tick: AnyTick) -> str:
    """A tick on one line, the same in every process: its kind, its step, its events by their types."""
    step = getattr(tick, "step", None)
    said = []
    if isinstance(tick, t.WaitOpened):
        said.append(type(tick.wait).__name__)
        said += [short(str(getattr(tick.wait, name))) for name in ("event", "workflow") if hasattr(tick.wait, name)]
    if isinstance(tick, t.StateWritten):
        said += [*tick.changes, *(f"-{name}" for name in tick.dropped)]
    outs = [*getattr(tick, "outs", ()), *(getattr(tick, name, None) for name in ("out", "answer"))]
    outs += [getattr(getattr(tick, "wait", None), "question", None)]
    said += _counted(short(out.key) for out in outs if out is not None)
    failure = getattr(tick, "failure", None)
    said += [short(failure.type)] if failure is not None else []
    return f"{type(tick).__name__}{f' of {step}' if step else ''}{': ' if said else ''}{', '.join(said)}"


def _counted(names: Iterable[str]) -> list[str]:
    """Names, equal ones after each other once with their number."""
    return [name if n == 1 else f"{n} {name}" for name, n in ((key, len([*same])) for key, same in groupby(names))]


# Content of values.


def content(value: Any) -> Hashable:
    """Something that is equal for equal content, without ever calling a user's `==`; an object of which nothing is
    known counts by identity, and where a value holds itself, how far out that is."""
    return _content(value, ())


def _content(value: Any, outer: tuple[int, ...]) -> Hashable:
    if id(value) in outer:
        return "itself", outer[::-1].index(id(value))
    within = (*outer, id(value))
    if isinstance(value, Out):
        return value.key, _content(value.value, within)
    if isinstance(value, (Secret, SecretStr, SecretBytes)):  # what it was may be known to nobody any more
        return ("secret",)
    if isinstance(value, UnknownEvent):
        return value.key, _content(value.data, within), _content(value.extra, within)
    if isinstance(value, BaseException):
        return "error", key_of(type(value))
    if isinstance(value, BaseModel):
        left_out = _OF_ONE_RUN.get(key_of(type(value)))
        if left_out is not None:
            return key_of(type(value)), _content({k: v for k, v in value.__dict__.items() if k not in left_out}, within)
        return key_of(type(value)), _content(value.__dict__, within), _content(value.__pydantic_extra__ or {}, within)
    if isinstance(value, dict):
        return "dict", frozenset((_content(key, within), _content(item, within)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return type(value).__name__, tuple(_content(item, within) for item in value)
    if isinstance(value, (set, frozenset)):
        return "set", frozenset(_content(item, within) for item in value)
    if isinstance(value, Struct):
        return key_of(type(value)), tuple(_content(getattr(value, name), within) for name in value.__struct_fields__)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return key_of(type(value)), tuple(_content(getattr(value, f.name), within) for f in dataclasses.fields(value))
    if type(value).__hash__ is not None and type(value).__module__ in _PLAIN:
        return type(value).__name__, "nan" if value != value else value
    return _of_table(value, within)


def _of_table(value: Any, within: tuple[int, ...]) -> Hashable:
    """Of an array or a frame, by its data."""
    kind = type(value)
    family = kind.__module__.partition(".")[0]
    if family == "numpy" and hasattr(value, "dtype") and hasattr(value, "tobytes"):
        if value.dtype.hasobject:
            return kind.__name__, value.shape, _content(value.tolist(), within)
        return kind.__name__, value.shape, str(value.dtype), hashlib.sha256(value.tobytes()).hexdigest()
    if family == "pandas" and hasattr(value, "to_dict") and hasattr(value, "index"):
        data = value.to_dict(orient="list") if hasattr(value, "columns") else list(value)
        order = list(value.columns) if hasattr(value, "columns") else [value.name]
        return kind.__name__, _content(order, within), _content(list(value.index), within), _content(data, within)
    if family == "pandas" and type(value).__hash__ is not None:  # Timestamp, NaT and the like
        return kind.__name__, str(value)
    if family == "enum" or hasattr(kind, "__members__"):
        return key_of(kind), getattr(value, "name", "")
    return "is", id(value)


def words_of(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, Out):
        return words_of(value.value)
    try:
        said = " ".join(repr(value).split())
    except Exception as error:  # a user's __repr__ may do anything
        said = f"<{type(value).__name__}, whose repr raises {type(error).__name__}>"
    return said if len(said) <= LENGTH else f"{said[: LENGTH - 1]}…"


def _many(outs: Iterable[Out]) -> str:
    said = [words_of(out) for out in outs]
    joined = ", ".join(said)
    return joined if len(joined) <= 2 * LENGTH else f"{', '.join(said[:2])} and {len(said) - 2} more"


# Facts.


def _step(tick: Any) -> Fact:
    return Fact("step", tick.step, str(tick.step))


def _value(name: str, value: Any) -> Fact:
    return Fact(name, content(value), words_of(value))


def _changes(name: str, changes: dict[str, Out]) -> Fact:
    return Fact(name, content(changes), ", ".join(f"{key}={words_of(out)}" for key, out in changes.items()))


def _run_started(tick: t.RunStarted) -> Iterator[Fact]:
    yield _value("input", tick.out)
    if tick.state:
        yield _changes("state", tick.state)


def _event_arrived(tick: t.EventArrived) -> Iterator[Fact]:
    yield _value("event", tick.out)
    if tick.step:
        yield _step(tick)


def _step_finished(tick: t.StepFinished) -> Iterator[Fact]:
    yield _step(tick)
    kind = "list" if tick.fan else "event"
    yield Fact(
        "result", (kind, content(tick.outs)), f"[{_many(tick.outs)}]" if tick.fan else _many(tick.outs) or "None"
    )


def _step_failed(tick: t.StepFailed) -> Iterator[Fact]:
    yield _step(tick)
    yield Fact("failure", tick.failure.type, short(tick.failure.type))
    again = tick.retry_at is not None
    yield Fact("another attempt", again, "tried again" if again else "given up")


def _events_sent(tick: t.EventsSent) -> Iterator[Fact]:
    yield _step(tick)
    yield Fact("sent", content(tick.outs), _many(tick.outs))
    if tick.target:
        yield Fact("target", tick.target, f"to {tick.target}")


def _stream_written(tick: t.StreamWritten) -> Iterator[Fact]:
    yield _step(tick)
    yield _value("stream", tick.out)


def _only_step(tick: Any) -> Iterator[Fact]:
    yield _step(tick)


def _state_written(tick: t.StateWritten) -> Iterator[Fact]:
    yield _step(tick)
    yield _changes("state", tick.changes)
    if tick.dropped:
        yield Fact("dropped", tick.dropped, f"without {', '.join(tick.dropped)}")


def _value_recorded(tick: t.ValueRecorded) -> Iterator[Fact]:
    yield _step(tick)
    yield Fact("name", tick.name, tick.name)
    if tick.name != "now":  # a time
        yield _value("value", tick.out)


def _wait_opened(tick: t.WaitOpened) -> Iterator[Fact]:
    yield _step(tick)
    wait = tick.wait
    kind = type(wait).__name__
    yield Fact("wait", kind, {"Sleep": "sleeps", "Ask": "asks", "Await": "waits for", "RunChild": "runs"}[kind])
    if isinstance(wait, t.Sleep):
        yield Fact("seconds", wait.name.startswith("until ") or wait.name, wait.name)  # a moment is another one now
    elif isinstance(wait, t.Ask):
        yield _value("question", wait.question)
        yield Fact("default", content(wait.default), f"else {words_of(wait.default)}" if wait.default else "")
    elif isinstance(wait, t.Await):
        yield Fact("event", wait.event, short(wait.event))
        if wait.requires:
            yield _changes("required", wait.requires)
    else:
        yield Fact("workflow", wait.workflow, short(wait.workflow))
        yield _value("input", wait.out)


def _request_answered(tick: t.RequestAnswered) -> Iterator[Fact]:
    yield _value("answer", tick.answer)
    if tick.decision:
        yield Fact("decision", tick.decision, tick.decision)


def _request_disposed(tick: t.RequestDisposed) -> Iterator[Fact]:
    yield Fact("reason", tick.reason, tick.reason)


def _child_changed(tick: t.ChildChanged) -> Iterator[Fact]:
    yield Fact("child", tick.active, "goes on" if tick.active else "waits")


def _child_finished(tick: t.ChildFinished) -> Iterator[Fact]:
    yield Fact("status", tick.status, tick.status)
    if tick.out is not None:
        yield _value("result", tick.out)
    if tick.failure is not None:
        yield Fact("failure", tick.failure.type, short(tick.failure.type))


def _cancel_requested(tick: t.CancelRequested) -> Iterator[Fact]:
    yield Fact("reason", tick.reason, tick.reason)


def _hold_changed(tick: t.HoldChanged) -> Iterator[Fact]:
    yield Fact("reason", tick.reason, tick.reason or "released")


def _event_edited(tick: t.EventEdited) -> Iterator[Fact]:
    yield _step(tick)
    yield Fact("event", content(tick.outs), _many(tick.outs))
    yield Fact("original", content(tick.original), f"in the place of {_many(tick.original)}")


def _event_dropped(tick: t.EventDropped) -> Iterator[Fact]:
    yield _step(tick)
    yield Fact("dropped", content(tick.original), _many(tick.original))


_FACTS: dict[type[t.Tick], Callable[[Any], Iterator[Fact]]] = {
    t.RunStarted: _run_started,
    t.EventArrived: _event_arrived,
    t.StepFinished: _step_finished,
    t.StepFailed: _step_failed,
    t.EventsSent: _events_sent,
    t.StreamWritten: _stream_written,
    t.StreamRewound: _only_step,
    t.StateWritten: _state_written,
    t.ValueRecorded: _value_recorded,
    t.WaitOpened: _wait_opened,
    t.WaitWithdrawn: _only_step,
    t.RequestAnswered: _request_answered,
    t.RequestDisposed: _request_disposed,
    t.ChildChanged: _child_changed,
    t.ChildFinished: _child_finished,
    t.CancelRequested: _cancel_requested,
    t.HoldChanged: _hold_changed,
    t.EventEdited: _event_edited,
    t.EventDropped: _event_dropped,
}

#: Ticks of which something matters: what happened in a run.
TITLED: tuple[type[t.Tick], ...] = (*_FACTS, t.TimerFired)
