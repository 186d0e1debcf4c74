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
                └──── woken, to the front <── waiting <── WaitOpened (the slot is given back),
                                                          StepFailed that is tried again, a breakpoint

The case that looks wrong but is right: a woken delivery goes to the *queue*, not to its coroutine. It gave its slot
back when it began to wait, so it takes the next free one like all others, only ahead of them.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from msgspec import Struct

from flownb.core.spec import Spec
from flownb.core.values import Failure, Out

GateReason = Literal["person", "breakpoint", "budget", "parent", "livelock"]
How = Literal["person", "default", "policy", "event"]


class _At(Struct, frozen=True, tag_field="kind", omit_defaults=True):
    at: float


class Hand(Struct, frozen=True, omit_defaults=True):
    """What a person did to a tick before it was admitted."""

    by: str = ""
    #: The events that it brought before somebody edited them, or dropped them (R5.29, R5.30).
    original: tuple[Out, ...] = ()
    #: They go nowhere.
    is_dropped: bool = False
    #: It was admitted ahead of so many that stood before it (R5.73).
    ahead: int = 0
    #: Of a timer that was fired early: so many seconds (R5.31).
    early_s: float = 0.0


class Tick(_At, frozen=True, kw_only=True):
    """One thing that happened; `at` is in Unix seconds."""

    #: Deliveries that this tick would start and that a breakpoint holds back (R5.25).
    held: tuple[int, ...] = ()
    #: The entry of the store's inbox that it was made of; 0 for what never lay there (R1.28).
    entry: int = 0
    #: None: it was admitted as it came, in its turn.
    hand: Hand | None = None
    #: When it came, if it had to wait for a closed gate (Unix seconds; `at` is when it was let in); 0: at `at`.
    came: float = 0.0


def came_at(tick: Tick) -> float:
    """When what a tick tells of happened, in Unix seconds: a step is not at work while its end waits for the gate."""
    return tick.came or tick.at


# Control ticks: admitted first, even while the gate is closed.


class Terms(Struct, frozen=True, gc=False, omit_defaults=True):
    """What a run was started with, beside its workflow and its input."""

    #: Seconds; None is no limit.
    timeout_s: float | None = None
    timeout_clock: Literal["active", "wall"] = "active"
    #: Starts along one chain of causes until the guard against endless loops trips, and what it does then.
    max_starts: int = 100_000
    livelock: Literal["pause", "fail"] = "fail"
    #: How long `@on_cancel` steps may take.
    grace_s: float = 10.0


class Parent(Struct, frozen=True, gc=False, omit_defaults=True):
    """The run that runs this one as its child."""

    run_id: str
    #: Number of the child there.
    child: int


class RunStarted(Tick, frozen=True):
    """The first tick of every run: what it runs and with which input."""

    run_id: str
    spec: Spec
    out: Out
    #: Reasons for which the gate is closed from the beginning.
    gate: tuple[GateReason, ...] = ()
    #: The user's state before the first step.
    state: dict[str, Out] = {}
    terms: Terms = Terms()
    parent: Parent | None = None
    #: The run whose recording it plays back; "" for none.
    replays: str = ""


class RunForked(Tick, frozen=True):
    """A fork's first own tick, after the ticks that it shares: it becomes a run of its own (R6.37 to R6.40)."""

    run_id: str
    #: The run that it comes from, and the last tick of it that is shared.
    base: str
    base_seq: int
    #: The user's state in place of what it was then.
    state: dict[str, Out] | None = None
    #: Deliveries whose event is another one now.
    events: dict[int, Out] = {}
    gate: tuple[GateReason, ...] = ()
    #: The `RunState` that it begins with, of a fork that shares no ticks; its journal begins here.
    snapshot: Any = None
    #: Deliveries, and children, whose end is among the ticks that follow at once: they are not started again.
    settled: tuple[int, ...] = ()
    over: tuple[int, ...] = ()
    #: The run whose recording it plays back; "" for none.
    replays: str = ""


class RunOpened(Tick, frozen=True):
    """A driver took the run over. What was running in the one before is lost and starts again."""

    driver: str
    epoch: int = 0
    #: Questions what became of lost deliveries that must not simply run again, by delivery (R3.62).
    unknown: dict[int, Out] = {}
    #: Deliveries whose end is among the ticks that follow at once: they are not started again.
    settled: tuple[int, ...] = ()


class GateClosed(Tick, frozen=True):
    reason: GateReason = "person"
    by: str = ""


class GateOpened(Tick, frozen=True):
    reason: GateReason = "person"
    by: str = ""


class StepsGranted(Tick, frozen=True):
    """So many more ticks may pass the closed gate."""

    n: int = 1


class BreakpointHit(Tick, frozen=True):
    """A breakpoint closes the gate."""

    #: Its number, and what it stands for, in words.
    breakpoint: int
    what: str = ""
    #: What its condition raised, if it could not be asked.
    error: str = ""


class EventEdited(Tick, frozen=True):
    """What a delivery that has not begun brings to its step is another event now (R5.29)."""

    step: str
    delivery: int
    outs: tuple[Out, ...]
    original: tuple[Out, ...]
    by: str = ""


class EventDropped(Tick, frozen=True):
    """A delivery is taken out of its step; its branch ends as if nobody took the event (R5.30)."""

    step: str
    delivery: int
    original: tuple[Out, ...]
    by: str = ""


class HoldChanged(Tick, frozen=True):
    """Something outside will still send, or will not any more (R5.38)."""

    hold: int
    #: What it holds open for; "" ends it.
    reason: str = ""
    #: It ends with this delivery, 0 for one of a run.
    delivery: int = 0


class RequestHeld(Tick, frozen=True):
    """A question's countdown is stopped."""

    request: int
    by: str = ""


class DefinitionAdopted(Tick, frozen=True):
    """The run goes on with newer definitions of its steps."""

    spec: Spec
    by: str = ""


class CancelRequested(Tick, frozen=True):
    reason: str = ""
    by: str = ""
    #: The event that `@on_cancel` steps get; None where there are none.
    out: Out | None = None


class RunSuspended(Tick, frozen=True):
    """Nobody drives the run until somebody opens it again."""

    reason: str = ""
    by: str = ""


# Work ticks: they wait in the inbox, or in the state as timers, until the gate lets them in.


class EventArrived(Tick, frozen=True):
    """An event came from outside."""

    out: Out
    #: Name of the one step that it is for.
    step: str | None = None
    #: The sender's own name for it: the same once more changes nothing (R2.33).
    key: str = ""
    #: Who sent it, if it answers a question.
    by: str = ""


class Collect(Struct, frozen=True, omit_defaults=True):
    """What a delivery asked a buffer, and was told."""

    buffer: str
    #: The types that it wants, each with how many.
    wants: tuple[tuple[str, int], ...]
    #: The event that it brings, and the wanted type that it counts as; "" for none of them.
    out: Out
    slot: str
    #: For each wanted type the ids of the first and of the last entry that it was given of the buffer, 0 for none.
    heads: tuple[int, ...] = ()
    #: It was told that all are there, and took them.
    took: bool = False


class StepFinished(Tick, frozen=True):
    step: str
    delivery: int
    start: int
    outs: tuple[Out, ...] = ()
    #: The step returned a list: its elements are the branches of a fan-out, even if there are none.
    fan: bool = False
    collects: tuple[Collect, ...] = ()


class StepFailed(Tick, frozen=True):
    step: str
    delivery: int
    start: int
    failure: Failure
    #: When it is tried again (Unix seconds), as its policy said; None: never.
    retry_at: float | None = None
    #: The `StepFailedEvent` that is routed instead of failing the run (R1.36).
    failed: Out | None = None


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


class StreamRewound(Tick, frozen=True):
    """A delivery runs again from its top: what it wrote to the stream before is void."""

    step: str
    delivery: int
    start: int


class StateWritten(Tick, frozen=True):
    """A step changed the user's state: top-level names with their new values."""

    step: str
    delivery: int
    start: int
    changes: dict[str, Out]
    dropped: tuple[str, ...] = ()


class ValueRecorded(Tick, frozen=True):
    """A step got a value that must be the same when it runs again."""

    step: str
    delivery: int
    start: int
    name: str
    out: Out


class Sleep(Struct, frozen=True, tag=True, tag_field="kind", omit_defaults=True):
    """A wait for a moment, in Unix seconds."""

    due_at: float
    #: What the ledger knows it by: the seconds that were asked for.
    name: str = ""


class Ask(Struct, frozen=True, tag=True, tag_field="kind", omit_defaults=True):
    """A wait for the answer to a question."""

    question: Out
    #: Deadline in Unix seconds; None waits for ever.
    due_at: float | None = None
    #: Taken at the deadline; None lets the asker fail with `AnswerTimeout`.
    default: Out | None = None
    #: The caller's `key=`.
    name: str = ""
    #: Mark of the question that this one takes the place of, since a re-run asks another one (R4.70).
    supersedes: int = 0
    #: Hash of a token that the caller gave.
    token: str = ""


class Await(Struct, frozen=True, tag=True, tag_field="kind", omit_defaults=True):
    """A wait for an event."""

    #: Key of its type.
    event: str
    #: Fields that it must have, with their values.
    requires: dict[str, Out] = {}
    due_at: float | None = None
    #: The caller's `waiter_id=`.
    name: str = ""
    #: Shown to people meanwhile; its answer is the event.
    question: Out | None = None


class RunChild(Struct, frozen=True, tag=True, tag_field="kind", omit_defaults=True):
    """A wait for the end of a child run."""

    #: Key of its workflow.
    workflow: str
    out: Out
    #: Number of the child among those of its delivery, from 1, and which try of it this is.
    number: int = 1
    attempt: int = 1


class WaitOpened(Tick, frozen=True):
    """A running step began to wait and gives its worker back; or it awaits anew what it opened before."""

    step: str
    delivery: int
    start: int
    #: The delivery's own number for this wait, from 1: the handle that its code holds.
    mark: int
    wait: Sleep | Ask | Await | RunChild


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
    #: What becomes of a delivery whose outcome is unknown.
    decision: Literal["", "retry", "done", "fail"] = ""
    #: The sender's own name for it; "" for none.
    key: str = ""


class RequestDisposed(Tick, frozen=True):
    request: int
    reason: str = ""
    by: str = ""
    closed: Out | None = None
    #: A re-run asks another question instead (R4.80).
    superseded: bool = False


class ChildChanged(Tick, frozen=True):
    """A child began to wait for the outside, or goes on."""

    child: int
    active: bool


class ChildFinished(Tick, frozen=True):
    """A child is over; its own last tick is in its journal."""

    child: int
    status: Literal["completed", "failed", "timed_out", "cancelled"]
    out: Out | None = None
    failure: Failure | None = None


class QuietNoticed(Tick, frozen=True):
    """Nothing moves by itself any more: no queue, nothing running, no sleep, gate open, inbox empty."""


AnyControl = (
    RunStarted
    | RunForked
    | RunOpened
    | GateClosed
    | GateOpened
    | StepsGranted
    | BreakpointHit
    | EventEdited
    | EventDropped
    | HoldChanged
    | RequestHeld
    | DefinitionAdopted
    | CancelRequested
    | RunSuspended
)
AnyWork = (
    EventArrived
    | StepFinished
    | StepFailed
    | EventsSent
    | StreamWritten
    | StreamRewound
    | StateWritten
    | ValueRecorded
    | WaitOpened
    | WaitWithdrawn
    | TimerFired
    | RequestAnswered
    | RequestDisposed
    | ChildChanged
    | ChildFinished
    | QuietNoticed
)
AnyTick = AnyControl | AnyWork
"""The closed union: a tick without a handler fails a test (`tests/core/test_reduce.py`)."""

CONTROL: tuple[type[Tick], ...] = get_args(AnyControl)
WORK: tuple[type[Tick], ...] = get_args(AnyWork)
