"""The state of a run: all that must still happen, and what is needed to decide it.

Nothing here lives only in a timer, a task or a heap: kill the process after any tick, and `outstanding(state)`
tells a new one every command that is still owed.

What changes with most ticks stands in `RunState` itself, the rest in structs of its own (`Head`, `Ids`, `Side`,
`Counts`, `End`), so that a tick which touches none of it does not copy it.

Structs in which a user's value can hang are known to the garbage collector (no `gc=False`): an event may refer to the
run that holds it, and such a run must be freed too.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from flownb.core.persist import Chain, Fifo, Names, Table
from flownb.core.spec import Spec
from flownb.core.ticks import GateReason, Parent, Terms
from flownb.core.values import Failure, Out

Status = Literal["running", "waiting", "suspended", "cancelling", "completed", "failed", "timed_out", "cancelled"]
ENDED: frozenset[str] = frozenset({"completed", "failed", "timed_out", "cancelled"})


class Path(Struct, frozen=True, gc=False):
    """The branch that something happens in: element `index` of the fan-out `join`."""

    join: int
    index: int
    #: The branch in which the fan-out itself happened.
    parent: Path | None = None


class Outcome(Struct, frozen=True, omit_defaults=True):
    """How a wait ended."""

    how: Literal[
        "slept", "answered", "default", "came", "finished",  # well
        "expired", "disposed", "timed_out", "failed", "cancelled",  # badly: a new attempt tries it anew (R3.51)
        "superseded",
    ]  # fmt: skip
    out: Out | None = None
    #: Why a question was disposed of.
    reason: str = ""
    #: Of a child that failed.
    failure: Failure | None = None


class Wake(Struct, frozen=True):
    """A wait of a delivery that is over while its code still sleeps."""

    mark: int
    outcome: Outcome


class Wait(Struct, frozen=True, gc=False):
    """One open wait of a delivery."""

    mark: int
    kind: Literal["sleep", "ask", "event", "child"]
    #: Id of its timer (sleep), request (ask), waiter (event) or child.
    ref: int


class Did(Struct, frozen=True, omit_defaults=True):
    """One thing that a delivery did through `ctx`, as its ledger keeps it."""

    kind: Literal["send", "sleep", "ask", "event", "child", "once"]
    seq: int
    attempt: int
    #: What was sent, asked, given to the child or recorded.
    out: Out | None = None
    #: Its target, key, type or workflow: with `kind` and `out` what it is known by (R3.49).
    name: str = ""
    #: Of a wait.
    mark: int = 0
    #: Of a wait for an event: the fields that it requires.
    requires: dict[str, Out] = {}
    #: Of a child: its number among those of the delivery, and which try of it this is (R6.20).
    number: int = 0
    tries: int = 1


class Ended(Struct, frozen=True):
    """How a wait in the ledger ended."""

    mark: int
    outcome: Outcome


class Ledger(Struct, frozen=True, omit_defaults=True):
    """What a delivery did through `ctx`, so that it is done once, whatever makes its code run again."""

    #: Newest first.
    did: Chain[Did | Ended] = Chain()
    #: How many writes to the user's state and to the stream: what they were stands in the journal alone.
    writes: int = 0
    streams: int = 0
    #: The highest mark that it used.
    marks: int = 0


class Tries(Struct, frozen=True, omit_defaults=True):
    """What a delivery went through, for those that waited, failed or come after a failure."""

    #: When its first attempt began (Unix seconds), and how long people let it wait since (R3.31).
    first_at: float = 0.0
    asked_s: float = 0.0
    #: The timer of its next attempt, 0 if none is pending, and when that is due.
    timer: int = 0
    due_at: float = 0.0
    #: Its last failure.
    failure: Failure | None = None
    #: Handlers of failures (index of the step, how often) that its chain of causes passed through (R3.38).
    recovered: tuple[tuple[int, int], ...] = ()


class Delivery(Struct, frozen=True):
    """One event on its way through one step. It lives in one place: queue, active or waiting of its `StepState`."""

    id: int
    #: Index of the step in the spec.
    step: int
    #: The event; a tuple of events for a step that gathers a list or takes several at once.
    out: Out | tuple[Out, ...]
    #: seq of the tick that sent the event.
    cause: int
    #: When it was queued, or, while active, when it was started (Unix seconds).
    at: float
    path: Path | None = None
    #: Starts along its chain of causes since a person, the outside or a timer moved it (R5.70).
    chain: int = 0
    #: Id of the delivery from which on nothing of it was sent in parallel: the order of sending (R4.7).
    rank: int = 0
    tries: Tries | None = None
    attempt: int = 1
    #: How often its code was started; what carries an older number is late.
    start: int = 0
    #: Empty (-1) unless active.
    worker: int = -1
    ledger: Ledger | None = None
    #: Waits that it has open, by mark.
    waits: Table[Wait] = Table()
    #: Waits that ended, newest first; handed to its code when it gets a worker.
    wakes: Chain[Wake] | None = None
    #: It stands in `StepState.front`, for the next free worker.
    due: bool = False
    #: Its code is lost (with an earlier driver, or since it failed): the next worker starts it from the top.
    gone: bool = False
    #: A breakpoint keeps it from being started.
    held: bool = False


class StepState(Struct, frozen=True):
    """One step's work."""

    #: Ids of woken deliveries in `waiting`, which go ahead of the queue.
    front: Fifo[int]
    queue: Fifo[Delivery]
    active: Table[Delivery]
    waiting: Table[Delivery]
    #: Bit n is set while worker n is busy.
    workers: int = 0
    done: int = 0
    failed: int = 0
    #: Ids of deliveries in `waiting` that start again, behind the woken ones and ahead of the queue: what a lost driver
    #: was running, in the old order, then due retries (R3.63).
    again: Fifo[int] = Fifo()
    #: Of a step with a rate: when it may start the next delivery (Unix seconds), and the timer for that.
    ready_at: float = 0.0
    timer: int = 0


class Arrival(Struct, frozen=True):
    """One event that came for a gathering step."""

    target: int
    #: Of the branch that it comes from.
    index: int
    out: Out


class Gathering(Struct, frozen=True, gc=False):
    """A gathering step that an open fan-out still has to fire, and how much came for it."""

    step: int
    n: int = 0


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
    targets: tuple[Gathering, ...]
    #: What came, newest first.
    got: Chain[Arrival]
    #: The branch in which the fan-out happened.
    parent: Path | None = None
    #: What came for steps with several event parameters and is not complete, by step and branch.
    sets: Names[Sets] = Names()
    #: Of the delivery that fanned out; chain and handlers of failures of what came too.
    chain: int = 0
    recovered: tuple[tuple[int, int], ...] = ()
    rank: int = 0


class Sets(Struct, frozen=True):
    """What waits before a step with several event parameters: a queue for each of them."""

    queues: tuple[Fifo[Out], ...]


class Request(Struct, frozen=True):
    """An open question to a person or the outside."""

    id: int
    question: Out
    #: Index of the step that asked.
    step: int
    #: seq of the tick that opened it.
    opened: int
    opened_at: float
    #: Of a question that a delivery waits for: who, and by which mark. 0 for one that was returned or sent.
    delivery: int = 0
    mark: int = 0
    path: Path | None = None
    due_at: float | None = None
    timer: int = 0
    default: Out | None = None
    #: ask: `ctx.ask`. event: shown by a wait for an event, which its answer is. sent: returned or sent. unknown: what
    #: became of a delivery whose driver was lost.
    kind: Literal["ask", "event", "sent", "unknown"] = "sent"
    #: The question that this one takes the place of (R4.80).
    supersedes: int = 0
    #: Hash of a token that the caller gave.
    token: str = ""
    recovered: tuple[tuple[int, int], ...] = ()


class Waiter(Struct, frozen=True):
    """A stored wish: wake this delivery when such an event comes."""

    id: int
    step: int
    delivery: int
    mark: int
    #: Key of the type.
    event: str
    requires: dict[str, Out] = {}
    due_at: float | None = None
    timer: int = 0
    #: The question that is shown meanwhile.
    request: int = 0


class Timer(Struct, frozen=True, gc=False):
    """Something that happens by itself at `due_at` (Unix seconds)."""

    id: int
    due_at: float
    #: sleep, retry: wake a delivery. wait: end a wait for an event. deadline: of a request. rate: a step may start
    #: again. timeout: of the run. grace: of its `@on_cancel` steps.
    kind: Literal["sleep", "retry", "wait", "deadline", "rate", "timeout", "grace"]
    #: Delivery, request or waiter that it is for.
    ref: int = 0
    step: int = 0
    mark: int = 0


class Child(Struct, frozen=True):
    """A run that a step runs and waits for."""

    id: int
    run_id: str
    #: Key of its workflow.
    workflow: str
    out: Out
    step: int
    delivery: int
    mark: int
    #: It moves by itself; else it waits for the outside.
    active: bool = True


class Hold(Struct, frozen=True, gc=False):
    """A promise that something outside will still send."""

    reason: str
    delivery: int = 0


class Buffer(Struct, frozen=True):
    """What a step collected under one id: for each wanted type a queue."""

    queues: dict[str, Fifo[Entry]] = {}


class Entry(Struct, frozen=True):
    """One collected event."""

    id: int
    #: Order of sending: see `Delivery.rank`.
    rank: int
    out: Out


class Abandoned(Struct, frozen=True, gc=False):
    """Work that the end of the run cut off."""

    step: int
    delivery: int
    where: Literal["queued", "running", "waiting"]


class Head(Struct, frozen=True, gc=False):
    """What never changes."""

    run_id: str
    started_at: float
    terms: Terms = Terms()
    parent: Parent | None = None


class Ids(Struct, frozen=True, gc=False):
    """The next number of each kind (R1.41)."""

    join: int = 1
    request: int = 1
    timer: int = 1
    waiter: int = 1
    child: int = 1
    entry: int = 1


class Counts(Struct, frozen=True, gc=False):
    """What was only counted."""

    #: Late ticks, which changed nothing else.
    ignored: int = 0
    #: Events that nobody took, and results that came after a `Take` had fired.
    unhandled: int = 0
    untaken: int = 0
    #: Key of the last event that nobody took, for the reason of a stall.
    lost: str = ""
    #: Name of the step that sent it, if its hints do not name it.
    lost_by: str = ""
    #: Key of the last event that somebody dropped.
    dropped: str = ""


class Side(Struct, frozen=True):
    """What most runs have none of."""

    #: Outside events that nobody takes yet; those for one step, with its name, apart.
    mailbox: Fifo[Out] = Fifo()
    addressed: Fifo[tuple[str, Out]] = Fifo()
    #: Names that senders outside gave their events.
    keys: Names[int] = Names()
    waiters: Table[Waiter] = Table()
    #: Waiters by what they look for, see `flownb.core.matching`.
    wanted: Names[Table[int]] = Names()
    shapes: dict[str, dict[str, int]] = {}
    buffers: Names[Buffer] = Names()
    sets: Names[Sets] = Names()
    children: Table[Child] = Table()
    #: Children that move by themselves.
    working: int = 0
    holds: Table[Hold] = Table()
    #: Deliveries that breakpoints hold back, with their steps.
    held: Table[int] = Table()


#: Of a run that has none of it; states share it.
NO_SIDE = Side()


class End(Struct, frozen=True):
    """How the run ended, or is about to."""

    #: Of a completed run.
    result: Out | None = None
    #: Of a failed one, and the step that failed, -1 for the engine.
    failure: Failure | None = None
    failed_step: int = -1
    failed_delivery: int = 0
    #: Why and by whom it was cancelled or suspended.
    reason: str = ""
    by: str = ""
    abandoned: tuple[Abandoned, ...] = ()


class RunState(Struct, frozen=True):
    """A run after some tick."""

    spec: Spec
    head: Head
    seq: int = 0
    at: float = 0.0
    status: Status = "running"
    #: Why the gate is closed; empty is open.
    gate: tuple[GateReason, ...] = ()
    #: Work ticks that may still pass the closed gate.
    budget: int = 0
    steps: tuple[StepState, ...] = ()
    #: Deliveries in queues and fronts and active ones: with `sleeps`, what keeps a run from being quiet.
    busy: int = 0
    #: Timers that will move it: sleeps, retries, rates.
    sleeps: int = 0
    next_delivery: int = 1
    ids: Ids = Ids()
    joins: Table[Join] = Table()
    requests: Table[Request] = Table()
    timers: Table[Timer] = Table()
    #: The user's state: top-level names and values.
    user: Names[Out] = Names()
    counts: Counts = Counts()
    side: Side = NO_SIDE
    #: Of a run with a time limit: active seconds up to `since`, and since when it is active, None while it is not.
    active_s: float = 0.0
    since: float | None = None
    end: End = End()

    @property
    def run_id(self) -> str:
        return self.head.run_id

    @property
    def started_at(self) -> float:
        return self.head.started_at

    @property
    def mailbox(self) -> Fifo[Out]:
        """Outside events that nobody takes yet, those for one step last."""
        side = self.side
        return side.mailbox.put_many([out for _, out in side.addressed]) if side.addressed.n else side.mailbox

    @property
    def ignored(self) -> int:
        return self.counts.ignored

    @property
    def unhandled(self) -> int:
        return self.counts.unhandled

    @property
    def lost(self) -> str:
        return self.counts.lost

    @property
    def result(self) -> Out | None:
        return self.end.result

    @property
    def failure(self) -> Failure | None:
        return self.end.failure

    @property
    def failed_step(self) -> int:
        return self.end.failed_step

    @property
    def reason(self) -> str:
        return self.end.reason

    @property
    def by(self) -> str:
        return self.end.by

    @property
    def abandoned(self) -> tuple[Abandoned, ...]:
        return self.end.abandoned


def is_ended(state: RunState) -> bool:
    return state.status in ENDED


def is_open(state: RunState) -> bool:
    """Whether the gate lets the next work tick in."""
    return not state.gate or state.budget > 0


def shown_status(state: RunState) -> str:
    """The status that people read: a closed gate makes a live run paused (R1.47)."""
    return "paused" if state.gate and state.status in ("running", "waiting") else state.status


def active_time(state: RunState, at: float | None = None) -> float:
    """Seconds that count for the run's time limit, up to a moment (the last tick by default)."""
    now = state.at if at is None else max(at, state.at)
    return state.active_s + (0.0 if state.since is None else now - state.since)


#: The mark of the question what became of a lost delivery (R3.62): its code never opened it.
UNKNOWN = 0

#: A step that nothing has reached; states share it.
EMPTY_STEP = StepState(Fifo(), Fifo(), Table(), Table())


def user_value(state: RunState, name: str) -> Any:
    """The value of one top-level name of the user's state."""
    return state.user[name].value
