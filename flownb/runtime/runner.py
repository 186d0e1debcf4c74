"""One run being driven: inbox, gate, reduce, append, act."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from flownb.core import commands as c
from flownb.core.gate import CONTROL_KINDS, is_control
from flownb.core.life import ends_in, first_state
from flownb.core.outstanding import is_quiet, outstanding
from flownb.core.persist import Names
from flownb.core.publishing import Published, publication
from flownb.core.reduce import reduce
from flownb.core.state import ENDED, Child, Delivery, Outcome, RunState
from flownb.core.ticks import (
    AnyTick,
    CancelRequested,
    DefinitionAdopted,
    EventArrived,
    GateClosed,
    GateOpened,
    GateReason,
    QuietNoticed,
    RunForked,
    RunOpened,
    RunStarted,
    RunSuspended,
    StepsGranted,
    Tick,
    TimerFired,
)
from flownb.core.values import Out
from flownb.definition import Definition, Step
from flownb.errors import EngineLost, InboxNotEmpty
from flownb.runtime import capture, switching
from flownb.runtime.acting import ACTIONS, AFTER, is_owed, start, still_runs
from flownb.runtime.children import rest
from flownb.runtime.children import start as start_child
from flownb.runtime.clock import Clock, Handle
from flownb.runtime.commit import Committer
from flownb.runtime.copying import copied
from flownb.runtime.gatekeeper import Gatekeeper, Goal, Seen, Stand
from flownb.runtime.host import LOST, Host
from flownb.runtime.opening import driver_of, orphaned, put_inbox, unknown_outcomes
from flownb.runtime.past import Past
from flownb.runtime.pending import Pending
from flownb.runtime.questions import Questions
from flownb.runtime.results import error_of, value_out
from flownb.runtime.stored import (
    Stored,
    become_viewer,
    claim,
    forget,
    has_lost,
    is_viewed,
    keep_inbox,
    kept,
    look_into_inbox,
    may_move,
    pass_over,
    release,
    wake,
    watch,
    what_came,
    written,
)
from flownb.runtime.unloading import consider
from flownb.runtime.userstate import UserState
from flownb.runtime.worker import Worker

#: Told of each committed tick: the state before (None for the first), the tick, the state after, its commands.
Observer = Callable[[RunState | None, Tick, RunState, list[c.AnyCommand]], None]

#: An append that failed is tried again after these seconds; the last one repeats. So is a command, so many times.
BACKOFF_S = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0)
TRIES = 5
#: So many ticks are named in an error that should not be.
_SHOWN = 20
#: So many seconds at most who awaits a run waits for the steps that its end cut off (R2.44).
LEAVE_S = 0.5
#: From so many on, workers that were cut off are looked through for those that are gone by now.
_MANY = 32

#: Ticks that may have lost their ground while they waited.
_LOOKED_AT = (TimerFired, QuietNoticed)
_DRIVEN = frozenset({"running", "waiting", "cancelling"})

_log = logging.getLogger("flownb")
_making = threading.Lock()  # a run's parts may be asked for first by several threads at once


def _question_of(state: RunState, tick: AnyTick) -> int:
    """The question whose time a timer ends, its own or that of the wait which shows it; 0 for none."""
    timer = state.timers.get(tick.timer) if type(tick) is TimerFired else None
    if timer is None or timer.kind not in ("deadline", "wait"):
        return 0
    return timer.ref if timer.kind == "deadline" else state.side.waiters[timer.ref].request


class Shared(Struct, frozen=True):
    """The past of a run that does not begin with its first tick: of a fork, or of a run that gets another driver."""

    run_id: str
    ticks: Sequence[AnyTick]
    #: Of a run that has these ticks too.
    history: Past
    #: The ticks are those of another run, and not in this one's journal yet.
    is_new: bool = True


def _made_late(slot: str, make: Callable[[], Any]) -> Any:
    """A part of a runner that is made when it is first asked for, on whatever thread; `slot` holds it, or None."""

    def get(runner: Runner) -> Any:
        found = getattr(runner, slot)
        if found is None:
            with _making:
                found = getattr(runner, slot)
                if found is None:
                    found = make()
                    setattr(runner, slot, found)
        return found

    return property(get)


class Runner:
    """Drives one run on its host's loop.

    Everything but `post`, `questions.door` and what only reads `state` is called on that loop's thread.
    """

    # Parts that most runs never need, and that nobody needs while a run waits, perhaps for months.

    #: Ticks that arrived and are not admitted yet; control ticks apart.
    inbox: deque[AnyTick] = _made_late("_inbox", deque)
    control: list[AnyTick] = _made_late("_control", list)
    questions: Questions = _made_late("_questions", Questions)
    #: The writes of steps that are on their way.
    user: UserState = _made_late("_user", UserState)
    observers: list[Observer] = _made_late("_observers", list)
    #: Called after each turn.
    listeners: list[Callable[[], None]] = _made_late("_listeners", list)
    #: Where somebody wants it to stop once.
    stops: list[Goal] = _made_late("_stops", list)
    timers: dict[int, Handle] = _made_late("_timers", dict)
    #: Handles of events from outside that are on their way, by the identity of what they carry.
    arriving: dict[int, Pending[None]] = _made_late("_arriving", dict)
    #: What its steps printed, by their names.
    logs: dict[str, capture.StepLog] = _made_late("_logs", dict)
    #: Live exceptions of failed deliveries, for who awaits the run in this process.
    errors: dict[int, BaseException] = _made_late("_errors", dict)

    __slots__ = (
        "__weakref__",
        "_arriving",
        "_context",
        "_control",
        "_errors",
        "_failures",
        "_failures_of_commands",
        "_fault",
        "_inbox",
        "_listeners",
        "_logs",
        "_observers",
        "_questions",
        "_queued",
        "_stops",
        "_timers",
        "_user",
        "acting",
        "adopting",
        "after",
        "batch",
        "blocked",
        "children",
        "clock",
        "committer",
        "definition",
        "end",
        "error",
        "executors",
        "first",
        "flows",
        "gatekeeper",
        "gone",
        "history",
        "holds",
        "host",
        "is_frozen",
        "is_heard",
        "is_launched",
        "late",
        "left",
        "make_child",
        "make_context",
        "making",
        "owner",
        "policies",
        "published",
        "quiet_output",
        "resources",
        "run_id",
        "seen",
        "settings",
        "stands",
        "state",
        "stopping",
        "store",
        "stored",
        "suspended",
        "ticks",
        "trace",
        "unload_after",
        "unserializable",
        "unwritten",
        "watch",
        "workers",
    )

    def __init__(
        self,
        definition: Definition,
        started: RunStarted | RunForked | RunOpened,
        *,
        host: Host,
        clock: Clock,
        committer: Committer | None,
        make_context: Callable[[Worker], Any],
        quiet_output: bool,
        shared: Shared | None = None,
    ) -> None:
        self.definition = definition
        self.run_id = shared.run_id if shared is not None else started.run_id  # type: ignore[union-attr]
        self.first = started
        self.host = host
        self.clock = clock
        self.committer = committer
        self.make_context = make_context
        self.quiet_output = quiet_output
        #: The journal, in memory; with a store it is there too.
        self.ticks: list[AnyTick] = list(shared.ticks) if shared is not None else []
        self.history = Past(self.ticks)
        #: Shared ticks that the run's own journal does not have yet.
        self.unwritten: Sequence[AnyTick] = ()
        self.state: RunState
        if shared is not None:
            self.state = shared.history.at(len(self.ticks))
            self.history.share(shared.history, len(self.ticks))
            self.unwritten = self.ticks[:] if shared.is_new and committer is not None else ()
        elif isinstance(started, RunStarted):
            self.state = first_state(started)
        else:
            self.state = replace(started.snapshot, seq=0)  # type: ignore[union-attr]
        self._control: list[AnyTick] | None = [started]
        self._inbox: deque[AnyTick] | None = None
        self.workers: dict[int, Worker] = {}
        #: Child runs by their number here, also those that are over; None while there was none.
        self.children: dict[int, Runner] | None = None
        #: How children are made, by the key of their workflow; and how a workflow comes to be one.
        self.flows: dict[str, Callable[[Runner, Child], Runner]] | None = None
        #: The same for children that are about to be begun, by delivery and mark: each is of its own object.
        self.making: dict[tuple[int, int], Callable[[Runner, Child], Runner]] | None = None
        self.make_child: Callable[[Runner, Any], Callable[[Runner, Child], Runner]] | None = None
        #: What it was launched with, and the store that it is kept in: its children are too.
        self.settings: Any = None
        self.store: Any = None
        #: The workflow object, for what all its runs share.
        self.owner: Any = None
        #: What its workflow does with values that a journal cannot hold; None leaves it to the store.
        self.unserializable: Literal["error", "live"] | None = None
        #: What resources gave; made on first need.
        self.resources: Any = None
        #: What the workflow says for its steps, or its parent's.
        self.policies = definition.policies
        #: Called after each turn with this runner: how a parent hears of its child.
        self.watch: Callable[[Runner], None] | None = None
        #: Executors by their slots.
        self.executors: Mapping[str, Any] = {}
        #: The definition that it takes with the tick that says so.
        self.adopting: Definition | None = None
        #: The number of the last hold.
        self.holds = 0
        #: Ticks that came after the end.
        self.late = 0
        #: Workers that were cut off and may still run (R3.16).
        self.left: Sequence[Worker] = ()
        #: Ends when the coroutines that the end of the run cut off are gone; None: there were none.
        self.gone: Pending[None] | None = None
        self._questions: Questions | None = None
        self._user: UserState | None = None
        self.published: list[Published] = []
        self.error: BaseException | None = None
        #: Its traceback as it was then: whoever raises it again adds frames.
        self.trace: TracebackType | None = None
        self.end: Pending[None] = Pending(f"run {self.run_id}", host.loop)
        self._observers: list[Observer] | None = None
        self._listeners: list[Callable[[], None]] | None = None
        self._stops: list[Goal] | None = None
        self._timers: dict[int, Handle] | None = None
        self._arriving: dict[int, Pending[None]] | None = None
        self._logs: dict[str, capture.StepLog] | None = None
        self._errors: dict[int, BaseException] | None = None
        #: Enabled breakpoints of its workflow, the same list for all its runs.
        self.stands: list[Stand] = []
        #: Made when there is the first of either.
        self.gatekeeper: Gatekeeper | None = None
        #: Why the last append failed; "" while all is well.
        self.blocked = ""
        #: Ends when the suspension that was asked for is there, or was taken back; None while nobody asked.
        self.stopping: Any = None
        #: Why nobody drives it here any more; "" while all is well.
        self.suspended = ""
        #: It is unloaded when nothing of it ran for so many seconds; None: never.
        self.unload_after: float | None = None
        #: Nothing is admitted for a moment.
        self.is_frozen = False
        #: It is its turn to live; till then only its end is taken in.
        self.is_launched = False
        #: Its place in a store, if it is kept in one.
        self.stored: Stored | None = None
        #: Somebody was told how it failed.
        self.is_heard = False
        self._failures = 0
        self._failures_of_commands = 0
        #: Why it suspended itself.
        self._fault: tuple[Exception, str] | None = None
        self._queued = False
        self._context = contextvars.copy_context()
        # Of the turn that is under way.
        self.batch: Sequence[AnyTick] = ()
        #: seq of the tick whose commands are carried out.
        self.acting = 0
        #: The state after it, which is nobody's business before it is in the journal.
        self.after = self.state
        self.seen: Sequence[Seen] = ()

    def __del__(self) -> None:
        """A failure that nobody was told of is told in the log, once (R5.61)."""
        state = getattr(self, "state", None)
        if state is None or self.is_heard or state.failure is None or sys.is_finalizing():
            return
        where = f" in step {state.spec.steps[state.failed_step].name!r}" if state.failed_step >= 0 else ""
        said = f"{state.failure.type.rpartition(':')[2]}: {state.failure.message}"
        _log.warning("run %s failed%s and nobody awaited it: %s", self.run_id, where, said)

    def expect_child(self, delivery: int, mark: int, make: Callable[[Runner, Child], Runner]) -> None:
        """Say how a child that is about to be begun is made; on whatever thread."""
        with _making:
            if self.making is None:
                self.making = {}
            self.making[delivery, mark] = make

    def maker_of(self, child: Child) -> Callable[[Runner, Child], Runner] | None:
        """How a child is made: of the very object that its step runs, else of its workflow as this process has it."""
        with _making:
            made = self.making.pop((child.delivery, child.mark), None) if self.making is not None else None
        return made or (self.flows or {}).get(child.workflow)

    def set_first_state(self, values: Mapping[str, Any]) -> None:
        """The user's state before the first step; it stands in the first tick.

        Raises:
            NotStorable: The journal cannot hold one of the values.
        """
        state = {name: self.checked(value_out(copied(value))) for name, value in values.items()}
        self.control[0] = replace(self.control[0], state=state)

    def launch(self) -> None:
        """Begin to drive."""
        self.is_launched = True
        self.host.runners.add(self)
        if self.stored is not None:
            watch(self)
            if self.host.thread is not None:
                switching.begin()
        capture.begin()
        self._wake_up()

    @property
    def before_seq(self) -> int:
        """seq of the last tick that is in the journal."""
        return len(self.ticks)

    @property
    def ended(self) -> bool:
        return self.state.status in ENDED

    def gate(self) -> tuple[GateReason, ...]:
        """Why the gate is closed once the control ticks that arrived are in; on the loop's thread."""
        gate = self.state.gate
        for tick in self._control or ():
            if isinstance(tick, (RunStarted, RunForked)):
                gate = tick.gate
            elif isinstance(tick, GateClosed) and tick.reason not in gate:
                gate = (*gate, tick.reason)
            elif isinstance(tick, GateOpened):
                gate = tuple(reason for reason in gate if reason != tick.reason)
        return gate

    def granted(self) -> int:
        """How many ticks may pass the closed gate once the control ticks that arrived are in; on the loop's thread."""
        n = self.state.budget
        for tick in self._control or ():
            if isinstance(tick, StepsGranted):
                n += tick.n
            elif isinstance(tick, GateClosed):
                n = 0
        return n

    # -- arriving

    def put(self, tick: AnyTick) -> None:
        """A tick arrived, on the loop's thread."""
        if self.suspended:
            wake(self)
            if is_viewed(self):  # it became one while this was on its way
                pass_over(self, tick)
                return
        kind = type(tick)
        if kind in CONTROL_KINDS:
            self.control.append(tick)
        elif kind is TimerFired:
            self._put_timer(tick)  # type: ignore[arg-type]
        else:
            inbox = self._inbox
            if inbox is None:
                inbox = self.inbox
            inbox.append(kept(self, tick) if self.stored is not None and self.state.gate else tick)
        if not self._queued:
            self._wake_up()

    def _put_timer(self, tick: TimerFired) -> None:
        """What arrived and due timers stand in the order of their moments: at the same one what arrived is first, then
        the timer of the lower number (R1.25)."""
        inbox, timers = self.inbox, self.state.timers

        def moment(waits: AnyTick) -> tuple[float, int]:
            if type(waits) is not TimerFired:
                return waits.at, -1
            timer = timers.get(waits.timer)
            return (waits.at if timer is None else timer.due_at), waits.timer

        own, place = moment(tick), len(inbox)
        while place and moment(inbox[place - 1]) > own:
            place -= 1
        inbox.insert(place, tick)

    def post(self, tick: AnyTick) -> None:
        """A tick arrived, on whatever thread."""
        self.host.call(self.put, tick)

    def checked(self, *outs: Out) -> Out:
        """The first of some values, all of which the journal can hold; asked before a tick is made of them (R6.12).

        Raises:
            NotStorable: Names event and field.
        """
        committer = self.committer
        check = committer.check if committer is not None else None
        if check is not None and (self.unserializable or committer.unserializable) == "error":  # type: ignore[union-attr]
            for out in outs:
                check(out)
        return outs[0]

    def user_view(self) -> Names[Out]:
        """The user's state with the writes that are on their way; on whatever thread."""
        while True:
            state = self.state
            if self._user is None:
                return state.user
            user = self._user.over(state.user)
            # A write is in the state before it leaves those on their way. So if the state is still the one that was
            # read, none was missed between the two looks.
            if self.state is state:
                return user

    def _wake_up(self) -> None:
        if not self._queued and not self.suspended and (self.is_launched or self._is_given_up()):
            self._queued = True
            self.host.schedule(self)

    def freeze(self) -> None:
        """Admit nothing until `thaw`: for a moment, while it is found out what becomes of the process."""
        self.is_frozen = True

    def thaw(self) -> None:
        """Go on."""
        self.is_frozen = False
        self._wake_up()

    def _is_given_up(self) -> bool:
        return any(type(tick) is CancelRequested for tick in self._control or ())

    # -- the turn: admit, (the host commits,) act

    def admit(self) -> Committer | None:
        """Reduce all that the gate lets in; nothing of it has happened yet.

        Returns:
            Where the turn's ticks go; None if that is nowhere, or there are none.
        """
        self._queued = False
        if self.suspended or self.is_frozen:
            return None
        control, inbox = self._control, self._inbox
        if inbox is None:
            inbox = self.inbox
        batch: list[AnyTick] = []
        seen: list[Seen] = []
        self.batch, self.seen = batch, seen
        state = self.state
        keeper = self._gatekeeper() if self._stops or self.stands else None
        while True:
            if control:
                came = control.pop(0)
            elif inbox and (not state.gate or state.budget > 0):
                came = inbox.popleft()
                if type(came) in _LOOKED_AT and not self._counts(state, came):
                    continue
            else:
                break
            if state.status not in _DRIVEN:
                if state.status in ENDED:
                    self.late += 1
                    if type(came) is EventArrived:
                        self.has_arrived(came)
                    continue
                if not isinstance(came, (RunOpened, RunForked)):  # suspended: the next driver takes it
                    self._put_back(came)
                    break
            tick = came if came.at >= state.at else replace(came, at=state.at, came=came.came or came.at)
            try:
                if keeper is not None:
                    passed, is_back = keeper.pass_on(state, came, tick)
                    if is_back:
                        inbox.appendleft(came)
                        self._open_door(state, came)
                    batch += [entry[1] for entry in passed]
                    seen += passed
                    state = passed[-1][2]
                    continue
                after, commands = reduce(state, tick)
            except Exception as error:  # a bug of ours: neither this tick nor its turn is appended (R1.19)
                where = f" at {type(tick).__name__} after tick {state.seq}"
                error.add_note(f"After {self._last_ticks()}, in run {self.run_id}: {tick!r:.500}")
                self._put_back(came)
                self._undo()
                self._give_in(error, where)
                return None
            batch.append(tick)
            seen.append((state, tick, after, commands))
            state = after
        self.after = state
        if not self._control:
            self._control = None
        return self.committer if batch else None

    def _gatekeeper(self) -> Gatekeeper:
        if self.gatekeeper is None:
            self.gatekeeper = Gatekeeper(self)
        self.gatekeeper.begin()
        return self.gatekeeper

    def _counts(self, state: RunState, tick: AnyTick) -> bool:
        """Whether a timer still stands, and no accepted answer beats it (R1.27); whether a quiet run still is quiet,
        seen together with what came meanwhile (R5.33)."""
        if type(tick) is not TimerFired:
            return not self.inbox and is_quiet(state)
        if tick.timer not in state.timers:
            return False
        number = _question_of(state, tick)
        if number:
            with self.questions.door:
                if number in self.questions.accepted:
                    return False
                self.questions.disposing.add(number)  # who answers from here on is told that it is too late
        return True

    def _open_door(self, state: RunState, tick: AnyTick) -> None:
        """A deadline was not admitted after all."""
        number = _question_of(state, tick)
        if number:
            self.questions.disposing.discard(number)

    def _last_ticks(self) -> str:
        """The ticks that led here, for an error that should not be."""
        ticks = [*self.ticks[-_SHOWN:], *self.batch][-_SHOWN:]
        first = len(self.ticks) + len(self.batch) - len(ticks) + 1
        return ", ".join(f"{seq} {type(tick).__name__}" for seq, tick in enumerate(ticks, first)) or "no tick"

    def _put_back(self, tick: AnyTick) -> None:
        """A tick that was taken out stands at the head again."""
        if is_control(tick):
            self.control.insert(0, tick)
        else:
            self.inbox.appendleft(tick)

    def _undo(self) -> None:
        """The turn did not happen: its ticks stand at the head of the inbox again."""
        came = self.batch if self.gatekeeper is None else self.gatekeeper.undo(self.batch)
        for tick in reversed(came):
            self._put_back(tick)
            self._open_door(self.state, tick)
        self.batch = self.seen = ()

    def take_back(self, error: BaseException, *, lasting: bool) -> None:
        """The append failed, so the turn did not happen (R1.16)."""
        self._undo()
        if has_lost(self, error):
            return
        if isinstance(error, InboxNotEmpty):  # what came from another process goes first (R1.27)
            try:
                if look_into_inbox({self.run_id: self}):
                    self._wake_up()
                    return
            except Exception as later:  # the store cannot be used now, or what came cannot be read
                error = later
        self.blocked = f"{type(error).__name__}: {error}"
        if lasting:
            self._suspend(error, "")
            return
        delay = BACKOFF_S[min(self._failures, len(BACKOFF_S) - 1)]
        self._failures += 1
        self._queued = True
        self.host.later_together(delay, self._again)
        self.tell()

    def _again(self) -> None:
        self._queued = False
        self._wake_up()

    def act(self) -> None:
        """The batch is in the journal: do what follows from it."""
        if self.batch:
            is_first = not self.ticks
            # Before the state: who sees that, on whatever thread, finds its past, and can answer what it asks.
            for _, tick, state, commands in self.seen:
                self.ticks.append(tick)
                self.history.note(state, tick)
                for command in commands:
                    if type(command) is c.OpenRequest:
                        self.questions.note(command.request)
            self.state = self.after
            self.blocked, self._failures, self.unwritten = "", 0, ()
            if self.stored is not None:
                written(self)
            seen, self.seen, self.batch = self.seen, (), ()
            #: What it starts, once all else is done: code that runs at once must find everything in its place.
            starts: list[c.StartStep] = []
            try:
                for entry in seen:
                    self._act_on(entry, starts)
            except Exception as error:  # a bug of ours; the journal is sound
                self._suspend(error, f" while acting on tick {self.acting}")
                return
            if self.state.status in ENDED:
                self.finish()
                return
            self._tell_reached()
            if self._listeners:
                self.tell()
            if self.state.status == "suspended":
                self._rest()
                return
            if is_first and self.state.gate:
                keep_inbox(self)
            one = len(seen) == 1
            for command in starts:
                left = command if one else still_runs(self, command)
                if left is not None:
                    start(self, left)
        elif self._listeners and self.state.gate:
            self.tell()  # what came waits before the gate: a step that somebody waits for may be done
        if not self._inbox and not self._control and not self._queued and self.state.seq and is_quiet(self.state):
            self.put(QuietNoticed(self.clock.now()))
        elif self.watch is not None:
            self.watch(self)
        if self.state.status == "waiting" and not self._inbox:
            self._inbox = None  # it may wait for months, and an empty one takes 760 bytes
            if not self.workers and self.stored is not None:
                release(self)  # nothing of it runs in this process (R5.11)
        if self.unload_after is not None:
            consider(self)

    def _act_on(self, entry: Seen, starts: list[c.StartStep]) -> None:
        before, tick, state, commands = entry
        self.acting = state.seq
        # First what the engine remembers: a plain step that the commands start runs at once, and may ask for it.
        after = AFTER.get(type(tick))
        if after is not None:
            after(self, before, tick, state)
        if type(tick) is RunOpened:  # a new driver does all that is owed
            owed = [
                command
                for command in outstanding(state)
                if not (type(command) is c.StartStep and command.delivery.id in tick.settled)
            ]
            commands = [*(command for command in commands if type(command) is c.Publish), *owed]
        n = 0
        for command in commands:
            kind = type(command)
            if kind is c.Publish:
                self.published.append(publication(before, tick, state, command, n))  # type: ignore[arg-type]
                n += 1
            elif kind is c.StartStep:
                starts.append(command)  # type: ignore[arg-type]
            else:
                try:
                    ACTIONS[kind](self, command)
                except Exception as error:
                    self._owe(command, error)
        for observer in self._observers or ():
            self.tell_observer(observer, before if before.seq else None, tick, state, commands)

    def tell_observer(
        self, observer: Observer, before: RunState | None, tick: Tick, state: RunState, commands: list[c.AnyCommand]
    ) -> None:
        """An observer can neither veto nor stop a run (R5.68)."""
        try:
            observer(before, tick, state, commands)
        except Exception:
            _log.exception("an observer of run %s failed at tick %s", self.run_id, state.seq)

    def _owe(self, command: c.AnyCommand, error: Exception) -> None:
        """A command could not be carried out: it is tried again, and after some tries the run is suspended (R1.18)."""
        self._failures_of_commands += 1
        _log.exception("run %s could not carry out %s", self.run_id, type(command).__name__)
        if self._failures_of_commands >= TRIES:
            self._give_in(error, f" while acting on tick {self.acting}")
        else:
            delay = BACKOFF_S[min(self._failures_of_commands, len(BACKOFF_S)) - 1]
            self.host.later(delay, self._do_again, command)

    def _do_again(self, command: c.AnyCommand) -> None:
        if self.ended or self.suspended or not is_owed(self.state, command):
            return
        try:
            ACTIONS[type(command)](self, command)
        except Exception as error:
            self._owe(command, error)
        else:
            self._failures_of_commands = 0

    def tell(self) -> None:
        """Something changed."""
        if self._listeners:
            for listener in tuple(self._listeners):
                self._tell_one(listener)

    def new_hold(self) -> int:
        """The number of a new hold; on whatever thread."""
        with _making:
            self.holds = max((self.holds, *self.state.side.holds)) + 1
            return self.holds

    def has_arrived(self, tick: EventArrived) -> None:
        """An event from outside is admitted, or comes too late: its sender's handle ends."""
        handle = self.arriving.pop(id(tick.out), None) if self._arriving else None
        if handle is not None:
            handle.resolve(None)

    def until(self, what: str, is_there: Callable[[], bool]) -> Pending[None]:
        """A handle that ends after the first turn after which something is so, or the run is over or not driven; at
        once if it is so now. Asked on the loop's thread."""
        handle: Pending[None] = Pending(what, self.host.loop)

        def look() -> None:
            if handle.done() or is_there() or self.end.done() or (self.suspended and not may_move(self)):
                if look in self.listeners:
                    self.listeners.remove(look)
                handle.resolve(None)

        def begin() -> None:
            self.listeners.append(look)
            look()

        self.host.call(begin)
        return handle

    def _tell_reached(self) -> None:
        """The goals that the turn reached."""
        for told, said in self.gatekeeper.done() if self.gatekeeper is not None else ():
            self._tell_one(told, *said)

    def _tell_one(self, listener: Callable[..., None], *args: Any) -> None:
        try:
            listener(*args)
        except Exception:  # as an observer: the others hear of it, and the run goes on
            _log.exception("a listener of run %s failed at tick %s", self.run_id, self.state.seq)

    def new_context(self) -> contextvars.Context:
        """For code of the user: as it was where the run was started."""
        return self._context.copy()

    def new_worker(self, delivery: Delivery, step: Step) -> Worker:
        """What runs the code of a delivery that is started."""
        return Worker(self, delivery, step)

    def begin_child(self, child: Child) -> None:
        """Begin to drive a child, or go on with it."""
        start_child(self, child)

    def child_error(self, delivery: int, outcome: Outcome) -> BaseException | None:
        """The live exception of a child that did not run here; None: only its words are known."""
        return None

    # -- the end

    def cut_off(self, worker: Worker) -> None:
        """Stop a worker. What still runs of it is kept in mind: a thread cannot be stopped, and a coroutine may have
        something to tidy up."""
        worker.stop()
        self.leave(worker)

    def leave(self, worker: Worker) -> None:
        """A stopped worker may still run."""
        if worker.is_at_work():
            kept = self.left if len(self.left) < _MANY else [each for each in self.left if each.is_at_work()]
            self.left = [*kept, worker]

    def when_gone(self, handle: Pending[None]) -> None:
        """The run is over: end a handle when its coroutines are gone too, or after a moment; on the loop's thread."""
        if self.gone is None:
            handle.resolve(None)
            return
        self.gone.on_end(lambda: handle.resolve(None))
        if not handle.done():
            self.host.later(LEAVE_S, handle.resolve, None)

    def _let_leave(self) -> None:
        """Coroutines that were cut off may have something to tidy up: who awaits the run waits for that a moment."""
        tasks = {worker.task for worker in self.left if worker.task is not None and not worker.task.done()}
        if not tasks:
            return
        gone = self.gone = Pending(f"the steps of run {self.run_id}", self.host.loop)

        def one_less(task: asyncio.Task[None]) -> None:
            tasks.discard(task)
            if not tasks:
                gone.resolve(None)

        for task in tuple(tasks):
            task.add_done_callback(one_less)

    def finish(self) -> None:
        """The run is over. Whoever hears of its last turn finds it done."""
        if self.state.status == "failed":
            self.error = error_of(self.state, self.errors)
            self.trace = self.error.__traceback__ if self.error is not None else None
        self.put_down()
        if not self._inbox:
            self._inbox = None  # what still comes is late
        forget(self)
        if self.left:
            self._let_leave()
        self.end.resolve(None)
        self._tell_reached()
        self._drop_stops()
        self.tell()
        if self.watch is not None:
            self.watch(self)

    def _give_in(self, error: Exception, where: str) -> None:
        """A bug of ours: the journal says that nobody drives the run any more, if it still can (R1.18, R1.19). That
        goes ahead of all that waits."""
        tick = RunSuspended(self.clock.now(), f"{type(error).__name__}: {error}{where}")
        try:
            reduce(self.state, tick)
        except Exception:
            self._suspend(error, where)
            return
        if self._fault is None:
            self._fault = error, where
            self.control.insert(0, tick)
            self._wake_up()

    def _rest(self) -> None:
        """The journal says that the run is suspended: stop driving."""
        if self._fault is not None:
            self._suspend(*self._fault)
            return
        self.suspended = self.state.reason or "somebody suspended it"
        self.put_down()
        release(self)
        rest(self)
        self.tell()

    def reopen(self, definition: Definition | None = None) -> None:
        """Drive a run that was suspended in this process; on the loop's thread.

        Args:
            definition: What it takes from now on; None leaves it with what it has.
        """
        if not self.suspended or self._fault is not None or self.ended or self.end.done():
            return
        came: Sequence[AnyTick] = tuple(self.inbox)
        if self.stored is not None:
            was_viewer, holder = self.stored.is_viewer, claim(self)
            if holder:
                become_viewer(self, f"{holder} drives it")
                return
            self.is_heard = False
            try:
                came = what_came(self)
            except BaseException:  # the store cannot be used now, say
                release(self)
                self.stored.is_viewer = was_viewer
                raise
            if self.state.status in ENDED:  # there
                return
        self.suspended = ""
        settled, _ = ends_in(self.state, came)
        unknown, now = unknown_outcomes(self, settled), self.clock.now()
        epoch = self.stored.epoch if self.stored is not None else 0
        ahead: list[AnyTick] = [RunOpened(now, driver_of(self), epoch, unknown, settled)]
        if definition is not None and definition.spec.hash != self.state.spec.hash:
            self.adopting = definition
            ahead.append(DefinitionAdopted(now, definition.spec))
        elif definition is not None:  # of another instance of the class, perhaps
            self.definition, self.policies = definition, definition.policies
        if self.stored is not None:
            self.clear_inbox()
            put_inbox(self, self.state, came)
            ahead += orphaned(self)
        self.control[:0] = ahead
        if "budget" in self.state.gate:  # closed for the suspension
            self.control.append(GateOpened(now, "budget"))
        self.launch()

    def clear_inbox(self) -> None:
        """What stands before the gate is another driver's."""
        self._inbox = None
        self.control.clear()
        self._let_senders_go()

    def _let_senders_go(self) -> None:
        """Nobody waits any longer for what was sent to be in the journal."""
        arriving, self._arriving = self._arriving, None
        for sent in (arriving or {}).values():
            sent.resolve(None)

    def _suspend(self, error: BaseException, where: str) -> None:
        """Stop driving, and say why; the journal is sound up to its last tick."""
        self.suspended = f"{type(error).__name__}: {error}{where}"
        self.error, self.trace = error, error.__traceback__
        self.put_down()
        self.tell()
        self.host.soon(self._end_badly, error)

    def give_up(self, error: Exception, where: str = "") -> None:
        """A bug of ours was met in a turn: what of it is not in the journal did not happen, and nobody goes on."""
        if self.suspended or self.end.done():
            _log.error("run %s failed after its end", self.run_id, exc_info=error)
            return
        if self.batch:
            self._undo()
        self._suspend(error, where)

    def _drop_stops(self) -> None:
        stops, self._stops = self._stops, None
        for _, told in stops or ():
            self._tell_one(told, False)

    def _end_badly(self, error: BaseException) -> None:
        self._drop_stops()
        self.end.reject(error)
        self.tell()

    def stop_driving(self) -> None:
        """The process ends: fence the steps off; nothing is journalled of it (R1.21)."""
        if not self.suspended and not self.ended:
            self.suspended = "the process ends"
            self.put_down()
            release(self)

    def notice_loss(self) -> None:
        """On any thread: if the host's loop is gone, so that nothing drives the run, say so (R5.5)."""
        if self.host.is_lost() and not self.suspended and not self.ended:
            self.suspended = LOST
            release(self)
            self.error = EngineLost(f"Run {self.run_id!r}: {LOST}", run_id=self.run_id)
            self.put_down()
            self._end_badly(self.error)

    def put_down(self) -> None:
        if self not in self.host.runners:
            return
        self.host.runners.discard(self)
        if self.stored is not None and self.host.thread is not None:
            switching.end()
        timers, self._timers = self._timers, None
        for handle in (timers or {}).values():
            handle.cancel()
        self._let_senders_go()
        workers, self.workers = self.workers, {}
        for worker in workers.values():
            self.cut_off(worker)
        if self._questions is not None and not self.host.is_lost():
            for task in tuple(self._questions.tasks):
                task.cancel()
        capture.end()

    # -- output of steps

    def log(self, step: str) -> capture.StepLog:
        """The log of one step."""
        found = self.logs.get(step)
        # Threads may ask at the same moment: all get the log that was there first.
        return self.logs.setdefault(step, capture.StepLog()) if found is None else found
