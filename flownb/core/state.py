"""The state of a run: all that must still happen, and what is needed to decide it.

Nothing here lives only in a timer, a task or a heap: kill the process after any tick, and `outstanding(state)`
tells a new one every command that is still owed.

Structs in which a user's value can hang are known to the garbage collector (no `gc=False`): an event may refer to the
run that holds it, and such a run must be freed too.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from flownb.core.persist import Chain, Fifo, Table
from flownb.core.spec import Spec
from flownb.core.ticks import GateReason
from flownb.core.values import Failure, Out

Status = Literal["running", "waiting", "suspended", "cancelling", "completed", "failed", "timed_out", "cancelled"]
ENDED: frozenset[str] = frozenset({"completed", "failed", "timed_out", "cancelled"})


class Path(Struct, frozen=True, gc=False):
    """The branch that something happens in: element `index` of the fan-out `join`."""

    join: int
    index: int
    #: The branch in which the fan-out itself happened.
    parent: Path | None = None


class Outcome(Struct, frozen=True):
    """How a wait ended."""

    how: Literal["slept", "answered", "default", "expired", "disposed"]
    out: Out | None = None
    #: Why a question was disposed of.
    reason: str = ""


class Wake(Struct, frozen=True):
    """A wait of a delivery that is over while its code still sleeps."""

    mark: int
    outcome: Outcome


class Delivery(Struct, frozen=True):
    """One event on its way through one step. It lives in one place: queue, active or waiting of its `StepState`."""

    id: int
    #: Index of the step in the spec.
    step: int
    #: The event; a tuple of events for a step that gathers a list.
    out: Out | tuple[Out, ...]
    #: seq of the tick that sent the event.
    cause: int
    #: When it was queued, or, while active, when it was started (Unix seconds).
    at: float
    path: Path | None = None
    attempt: int = 1
    #: How often its code was started; what carries an older number is late.
    start: int = 0
    #: Empty (-1) unless active.
    worker: int = -1
    #: seqs of the ticks by which it did something through `ctx`, newest first.
    ledger: Chain[int] | None = None
    #: Waits that it has open, oldest first.
    waits: tuple[Wait, ...] = ()
    #: Waits that ended; handed to its code when it gets a worker.
    wakes: tuple[Wake, ...] = ()
    #: It stands in `StepState.front`, for the next free worker.
    due: bool = False
    #: Its code is lost with an earlier driver: the next worker starts it from the top.
    gone: bool = False


class Wait(Struct, frozen=True, gc=False):
    """One open wait of a delivery."""

    mark: int
    kind: Literal["sleep", "ask"]
    #: Id of its timer (sleep) or request (ask).
    ref: int


class StepState(Struct, frozen=True):
    """One step's work."""

    #: Ids of deliveries in `waiting` that go ahead of the queue: woken ones, and what a lost driver was running.
    front: Fifo[int]
    queue: Fifo[Delivery]
    active: Table[Delivery]
    waiting: Table[Delivery]
    #: Bit n is set while worker n is busy.
    workers: int = 0
    done: int = 0
    failed: int = 0


class Arrival(Struct, frozen=True):
    """One event that came for a gathering step."""

    target: int
    #: Of the branch that it comes from.
    index: int
    out: Out


class Join(Struct, frozen=True):
    """An open fan-out, waiting for its branches."""

    id: int
    #: Step that returned the list.
    source: int
    #: Number of elements.
    size: int
    #: Deliveries and open requests that live in its branches, and inner fan-outs. At 0 it fires.
    pending: int
    #: The gathering steps that fire with what came for them.
    targets: tuple[int, ...]
    #: What came.
    got: Chain[Arrival]
    #: The branch in which the fan-out happened.
    parent: Path | None = None


class Request(Struct, frozen=True):
    """An open question to a person or the outside."""

    id: int
    question: Out
    #: Index of the step that asked.
    step: int
    #: seq of the tick that opened it.
    opened: int
    opened_at: float
    #: Of a question asked with `ctx.ask`: who waits. 0 for one that was returned or sent.
    delivery: int = 0
    mark: int = 0
    path: Path | None = None
    due_at: float | None = None
    timer: int = 0
    default: Out | None = None


class Timer(Struct, frozen=True, gc=False):
    """Something that happens by itself at `due_at` (Unix seconds)."""

    id: int
    due_at: float
    kind: Literal["sleep", "deadline"]
    #: Of a sleep: step, delivery and mark that it wakes. Of a deadline: `ref` is the request.
    ref: int
    step: int = 0
    mark: int = 0


class Abandoned(Struct, frozen=True, gc=False):
    """Work that the end of the run cut off."""

    step: int
    delivery: int
    where: Literal["queued", "running", "waiting"]


class RunState(Struct, frozen=True):
    """A run after some tick; the fields that change most come first."""

    spec: Spec
    run_id: str
    seq: int = 0
    at: float = 0.0
    started_at: float = 0.0
    status: Status = "running"
    #: Why the gate is closed; empty is open.
    gate: tuple[GateReason, ...] = ()
    #: Work ticks that may still pass the closed gate.
    budget: int = 0
    steps: tuple[StepState, ...] = ()
    #: Deliveries in queues and fronts and active ones: with `sleeps`, what keeps a run from being quiet.
    busy: int = 0
    sleeps: int = 0
    next_delivery: int = 1
    next_join: int = 1
    next_request: int = 1
    next_timer: int = 1
    joins: Table[Join] = Table()
    requests: Table[Request] = Table()
    timers: Table[Timer] = Table()
    #: The user's state: top-level names and values.
    user: dict[str, Out] = {}
    #: Outside events that nobody takes yet.
    mailbox: Fifo[Out] = Fifo()
    #: Late ticks that were counted and changed nothing else; events that nobody took.
    ignored: int = 0
    unhandled: int = 0
    #: The last event that nobody took, for the reason of a stall.
    lost: str = ""
    #: Empty unless status is completed.
    result: Out | None = None
    #: Empty unless the run failed.
    failure: Failure | None = None
    failed_step: int = -1
    #: Why and by whom it was cancelled.
    reason: str = ""
    by: str = ""
    abandoned: tuple[Abandoned, ...] = ()


def is_ended(state: RunState) -> bool:
    return state.status in ENDED


def is_open(state: RunState) -> bool:
    """Whether the gate lets the next work tick in."""
    return not state.gate or state.budget > 0


def shown_status(state: RunState) -> str:
    """The status that people read: a closed gate makes a live run paused (R1.47)."""
    return "paused" if state.gate and state.status in ("running", "waiting") else state.status


def active_time(state: RunState) -> float:
    """Seconds from the start to the last tick."""
    return max(0.0, state.at - state.started_at)


#: A step that nothing has reached; states share it.
EMPTY_STEP = StepState(Fifo(), Fifo(), Table(), Table())


def user_value(state: RunState, name: str) -> Any:
    """The value of one top-level name of the user's state."""
    return state.user[name].value
