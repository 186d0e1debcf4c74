"""What can happen to a run. Begin reading here.

A run is a list of ticks, its journal, and `state = fold(reduce, ticks)`. The runner does for every tick: reduce,
append, act on the commands. That is the whole engine; pause, stepping, time travel, fork and resume are ways to
choose which tick comes next or where the fold stops.

    arrives:   inbox ──gate──> tick ──reduce──> state, commands ──append──> journal ──act──> workers, timers, stream

Rules that hold for every tick:

* It is in the past tense: it happened. What follows from it is the reducer's business, never stored.
* `at` (Unix seconds) is the only clock; it never runs backwards along a journal.
* It is decided: ids given by people, texts of exceptions, default answers are written in it. Folding a journal
  calls no user code, draws no random number and reads no clock.
* Its number `seq` is its place in the journal, from 1, and stands nowhere in it.
* What a step does carries `(delivery, start)`. Each time that a delivery's code is started the start number rises,
  so a tick of an older start is late: it is counted as ignored and changes nothing else.

A delivery, one event on its way through one step, lives in exactly one place:

              ┌────────── (a slot is free) ──────────┐
    routed ─> queue ────────────────────────────> active ──StepFinished / StepFailed──> gone
                ^                                    │
                └──── woken, to the front <── waiting <── WaitOpened (the slot is given back)

The case that looks wrong but is right: a woken delivery goes to the *queue*, not to its coroutine. It gave its slot
back when it began to wait, so it takes the next free one like all others, only ahead of them.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from flownb.core.spec import Spec
from flownb.core.values import Failure, Out

GateReason = Literal["person", "breakpoint", "budget", "parent", "livelock"]
How = Literal["person", "default", "policy", "event"]


class Tick(Struct, frozen=True, tag_field="kind", omit_defaults=True):
    """One thing that happened; `at` is in Unix seconds."""

    at: float


# Control ticks: admitted first, even while the gate is closed.


class RunStarted(Tick, frozen=True):
    """The first tick of every run: what it runs and with which input."""

    run_id: str
    spec: Spec
    out: Out
    #: Reasons for which the gate is closed from the beginning.
    gate: tuple[GateReason, ...] = ()
    #: The user's state before the first step.
    state: dict[str, Out] = {}


class RunOpened(Tick, frozen=True):
    """A driver took the run over. What was running in the one before is lost and starts again."""

    driver: str
    epoch: int = 0


class GateClosed(Tick, frozen=True):
    reason: GateReason = "person"
    by: str = ""


class GateOpened(Tick, frozen=True):
    reason: GateReason = "person"
    by: str = ""


class StepsGranted(Tick, frozen=True):
    """So many more ticks may pass the closed gate."""

    n: int = 1


class CancelRequested(Tick, frozen=True):
    reason: str = ""
    by: str = ""


# Work ticks: they wait in the inbox, or in the state as timers, until the gate lets them in.


class EventArrived(Tick, frozen=True):
    """An event came from outside."""

    out: Out
    #: Name of the one step that it is for.
    step: str | None = None


class StepFinished(Tick, frozen=True):
    step: str
    delivery: int
    start: int
    outs: tuple[Out, ...] = ()
    #: The step returned a list: its elements are the branches of a fan-out, even if there are none.
    fan: bool = False


class StepFailed(Tick, frozen=True):
    step: str
    delivery: int
    start: int
    failure: Failure


class EventsSent(Tick, frozen=True):
    """A running step sent events without returning them."""

    step: str
    delivery: int
    start: int
    outs: tuple[Out, ...]
    #: Name of the one step that they are for.
    target: str | None = None


class StreamWritten(Tick, frozen=True):
    step: str
    delivery: int
    start: int
    out: Out


class StateWritten(Tick, frozen=True):
    """A step changed the user's state: top-level names with their new values."""

    step: str
    delivery: int
    start: int
    changes: dict[str, Out]
    dropped: tuple[str, ...] = ()


class Sleep(Struct, frozen=True, tag=True, tag_field="kind", omit_defaults=True):
    """A wait for a moment, in Unix seconds."""

    due_at: float


class Ask(Struct, frozen=True, tag=True, tag_field="kind", omit_defaults=True):
    """A wait for the answer to a question."""

    question: Out
    #: Deadline in Unix seconds; None waits for ever.
    due_at: float | None = None
    #: Taken at the deadline; None lets the asker fail with `AnswerTimeout`.
    default: Out | None = None


class WaitOpened(Tick, frozen=True):
    """A running step began to wait and gives its worker back."""

    step: str
    delivery: int
    start: int
    #: The step's own number for this wait, from 1: the handle that its code holds.
    mark: int
    wait: Sleep | Ask


class WaitWithdrawn(Tick, frozen=True):
    """A step's code gave up a wait; its question, if it was one, is closed."""

    step: str
    delivery: int
    start: int
    mark: int


class TimerFired(Tick, frozen=True):
    timer: int
    #: What the engine itself routes if the timer closes a returned request without an answer (R1.36).
    closed: Out | None = None


class RequestAnswered(Tick, frozen=True):
    request: int
    answer: Out
    by: str = ""
    how: How = "person"


class RequestDisposed(Tick, frozen=True):
    request: int
    reason: str = ""
    by: str = ""
    closed: Out | None = None


class QuietNoticed(Tick, frozen=True):
    """Nothing moves by itself any more: no queue, nothing running, no sleep, gate open, inbox empty."""


CONTROL: tuple[type[Tick], ...] = (RunStarted, RunOpened, GateClosed, GateOpened, StepsGranted, CancelRequested)
WORK: tuple[type[Tick], ...] = (
    EventArrived,
    StepFinished,
    StepFailed,
    EventsSent,
    StreamWritten,
    StateWritten,
    WaitOpened,
    WaitWithdrawn,
    TimerFired,
    RequestAnswered,
    RequestDisposed,
    QuietNoticed,
)

AnyTick = (
    RunStarted
    | RunOpened
    | GateClosed
    | GateOpened
    | StepsGranted
    | CancelRequested
    | EventArrived
    | StepFinished
    | StepFailed
    | EventsSent
    | StreamWritten
    | StateWritten
    | WaitOpened
    | WaitWithdrawn
    | TimerFired
    | RequestAnswered
    | RequestDisposed
    | QuietNoticed
)
"""The closed union: a tick without a handler fails a test (`tests/core/test_reduce.py`)."""
