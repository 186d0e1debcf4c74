"""One run being driven: inbox, gate, reduce, append, act."""

from __future__ import annotations

import contextvars
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from flownb.core import commands as c
from flownb.core.gate import is_beaten, is_control
from flownb.core.life import first_state
from flownb.core.outstanding import is_quiet
from flownb.core.reduce import reduce
from flownb.core.state import ENDED, RunState, Timer
from flownb.core.ticks import (
    AnyTick,
    GateClosed,
    GateOpened,
    GateReason,
    QuietNoticed,
    RequestAnswered,
    RunStarted,
    StateWritten,
    StepFailed,
    StepFinished,
    StepsGranted,
    Tick,
    TimerFired,
)
from flownb.core.values import Out
from flownb.definition import Definition
from flownb.errors import EngineLost
from flownb.events import RequestClosedEvent
from flownb.runtime import capture
from flownb.runtime.clock import Clock, Handle
from flownb.runtime.commit import Committer
from flownb.runtime.copying import copied
from flownb.runtime.host import LOST, Host
from flownb.runtime.past import Past
from flownb.runtime.pending import Pending
from flownb.runtime.questions import Questions
from flownb.runtime.results import out_of, value_out
from flownb.runtime.userstate import UserState
from flownb.runtime.worker import Worker

#: Told of each committed tick: the state before (None for the first), the tick, the state after, its commands.
Observer = Callable[[RunState | None, Tick, RunState, list[c.AnyCommand]], None]
#: Whether the gate closes behind a tick: the state before, the tick, the state after, its commands.
Stop = Callable[[RunState, Tick, RunState, list[c.AnyCommand]], bool]
_Seen = tuple[RunState, AnyTick, RunState, list[c.AnyCommand]]

#: An append that failed is tried again after these seconds; the last one repeats.
BACKOFF_S = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0)

_log = logging.getLogger("flownb")
_making = threading.Lock()  # a run's parts may be asked for first by several threads at once


class Published(Struct, frozen=True):
    """One item of a run's stream: the n-th of what tick `seq` published."""

    seq: int
    n: int
    item: c.Publish
    at: float


class Runner:
    """Drives one run on its host's loop.

    Everything but `post`, `write_state`, `questions.door` and what only reads `state` is called on that loop's
    thread.
    """

    __slots__ = (
        "__weakref__",
        "_before",
        "_context",
        "_failures",
        "_hits",
        "_questions",
        "_queued",
        "_seen",
        "_user",
        "batch",
        "blocked",
        "clock",
        "committer",
        "control",
        "definition",
        "end",
        "error",
        "errors",
        "first",
        "history",
        "host",
        "inbox",
        "listeners",
        "logs",
        "make_context",
        "observers",
        "published",
        "quiet_output",
        "run_id",
        "state",
        "stops",
        "suspended",
        "ticks",
        "timers",
        "trace",
        "workers",
    )

    def __init__(
        self,
        definition: Definition,
        started: RunStarted,
        *,
        host: Host,
        clock: Clock,
        committer: Committer | None,
        make_context: Callable[[Worker], Any],
        quiet_output: bool,
    ) -> None:
        self.definition = definition
        self.run_id = started.run_id
        self.first = started
        self.host = host
        self.clock = clock
        self.committer = committer
        self.make_context = make_context
        self.quiet_output = quiet_output
        #: The journal, in memory; with a store it is there too.
        self.ticks: list[AnyTick] = []
        self.history = Past(self.ticks)
        self.state: RunState = first_state(started)
        self.control: list[AnyTick] = [started]
        self.inbox: deque[AnyTick] = deque()
        self.workers: dict[int, Worker] = {}
        self.timers: dict[int, Handle] = {}
        self._questions: Questions | None = None
        self._user: UserState | None = None
        self.published: list[Published] = []
        self.logs: dict[str, capture.StepLog] = {}
        #: Live exceptions of failed deliveries, for who awaits the run in this process.
        self.errors: dict[int, BaseException] = {}
        self.error: BaseException | None = None
        #: Its traceback as it was then: whoever raises it again adds frames.
        self.trace: TracebackType | None = None
        self.end: Pending[None] = Pending(f"run {started.run_id}", host.loop)
        self.observers: list[Observer] = []
        #: Called after each turn.
        self.listeners: list[Callable[[], None]] = []
        self.stops: list[tuple[Stop, Callable[[bool], None]]] = []
        #: Why the last append failed; "" while all is well.
        self.blocked = ""
        #: Why nobody drives it any more; "" while all is well.
        self.suspended = ""
        self._failures = 0
        self._queued = False
        self._context = contextvars.copy_context()
        # Of the turn that is under way.
        self.batch: list[AnyTick] = []
        self._before = self.state
        self._seen: list[_Seen] = []
        self._hits: list[tuple[tuple[Stop, Callable[[bool], None]], GateClosed]] = []

    @property
    def questions(self) -> Questions:
        """Made on first need: most runs ask nobody."""
        if self._questions is None:
            with _making:
                if self._questions is None:
                    self._questions = Questions()
        return self._questions

    @property
    def user(self) -> UserState:
        """Made on first need: most runs write no state."""
        if self._user is None:
            with _making:
                if self._user is None:
                    self._user = UserState()
        return self._user

    def set_first_state(self, values: Mapping[str, Any]) -> None:
        """The user's state before the first step; it stands in the first tick.

        Raises:
            NotStorable: The journal cannot hold one of the values.
        """
        state = {name: self.checked(value_out(copied(value))) for name, value in values.items()}
        self.control[0] = replace(self.control[0], state=state)

    def launch(self) -> None:
        """Begin to drive."""
        self.host.runners.add(self)
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
        for tick in self.control:
            if isinstance(tick, RunStarted):
                gate = tick.gate
            elif isinstance(tick, GateClosed) and tick.reason not in gate:
                gate = (*gate, tick.reason)
            elif isinstance(tick, GateOpened):
                gate = tuple(reason for reason in gate if reason != tick.reason)
        return gate

    def granted(self) -> int:
        """How many ticks may pass the closed gate once the control ticks that arrived are in; on the loop's thread."""
        n = self.state.budget
        for tick in self.control:
            if isinstance(tick, StepsGranted):
                n += tick.n
            elif isinstance(tick, GateClosed):
                n = 0
        return n

    # -- arriving

    def put(self, tick: AnyTick) -> None:
        """A tick arrived, on the loop's thread."""
        if is_control(tick):
            self.control.append(tick)
        else:
            self.inbox.append(tick)
        if not self._queued:
            self._wake_up()

    def post(self, tick: AnyTick) -> None:
        """A tick arrived, on whatever thread."""
        self.host.call(self.put, tick)

    def checked(self, *outs: Out) -> Out:
        """The first of some values, all of which the journal can hold; asked before a tick is made of them (R6.12).

        Raises:
            NotStorable: Names event and field.
        """
        check = self.committer.check if self.committer is not None else None
        if check is not None:
            for out in outs:
                check(out)
        return outs[0]

    def write_state(self, tick: StateWritten) -> None:
        """A step writes; its own run sees it at once, the journal when it is admitted."""
        self.user.put(tick)
        self.post(tick)

    def user_view(self) -> dict[str, Out]:
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
        if not self._queued and not self.suspended:
            self._queued = True
            self.host.schedule(self)

    # -- the turn: admit, (the host commits,) act

    def commit_key(self) -> Committer | None:
        """Where this turn's ticks go, if there are any."""
        return self.committer if self.batch else None

    def admit(self) -> None:
        """Reduce all that the gate lets in; nothing of it has happened yet."""
        self._queued = False
        inbox, control, batch, seen = self.inbox, self.control, self.batch, self._seen
        state = self._before = self.state
        while True:
            if control:
                tick = control.pop(0)
            elif inbox and (not state.gate or state.budget > 0):
                tick = inbox.popleft()
                if type(tick) is TimerFired and not self._is_due(state, tick):
                    continue
            else:
                break
            if state.status in ENDED:
                continue
            if tick.at < state.at:
                tick = replace(tick, at=state.at)
            before = state
            try:
                state, commands = reduce(state, tick)
            except Exception as error:  # a bug of ours: neither this tick nor its turn is appended (R1.19)
                where = f" at {type(tick).__name__} after tick {state.seq}"
                self._put_back(tick)
                self._undo()
                self._suspend(error, where)
                return
            batch.append(tick)
            seen.append((before, tick, state, commands))
            if self.stops:
                self._check_stops(seen[-1])
        self.state = state

    def _is_due(self, state: RunState, tick: TimerFired) -> bool:
        timer = state.timers.get(tick.timer)
        return timer is not None and not is_beaten(timer, self.inbox)

    def _check_stops(self, seen: _Seen) -> None:
        for entry in list(self.stops):
            try:
                is_hit = entry[0](*seen)
            except Exception:  # as an observer: it cannot stop a run by its own fault
                _log.exception("a stop of run %s failed at tick %s", self.run_id, seen[2].seq)
                is_hit = False
            if is_hit:
                self.stops.remove(entry)
                close = GateClosed(seen[2].at, "breakpoint")
                if seen[2].status not in ENDED:
                    self.control.append(close)
                self._hits.append((entry, close))

    def _put_back(self, tick: AnyTick) -> None:
        """A tick that was taken out stands at the head again."""
        if is_control(tick):
            self.control.insert(0, tick)
        else:
            self.inbox.appendleft(tick)

    def _undo(self) -> None:
        """The turn did not happen: its ticks stand at the head of the inbox again."""
        for tick in reversed(self.batch):
            self._put_back(tick)
        for entry, close in self._hits:
            self.stops.append(entry)
            self.control = [tick for tick in self.control if tick is not close]
        self._hits.clear()
        self.state = self._before
        self.batch.clear()
        self._seen.clear()

    def take_back(self, error: BaseException, *, lasting: bool) -> None:
        """The append failed, so the turn did not happen (R1.16)."""
        self._undo()
        self.blocked = f"{type(error).__name__}: {error}"
        if lasting:
            self._suspend(error, "")
            return
        delay = BACKOFF_S[min(self._failures, len(BACKOFF_S) - 1)]
        self._failures += 1
        self._queued = True
        self.host.later(delay, self._again)
        self.tell()

    def _again(self) -> None:
        self._queued = False
        self._wake_up()

    def act(self) -> None:
        """The batch is in the journal: do what follows from it."""
        if self.batch:
            self.blocked, self._failures = "", 0
            seen, self._seen, self.batch = self._seen, [], []
            one = len(seen) == 1
            try:
                for entry in seen:
                    self._act_on(entry, one)
            except Exception as error:  # a bug of ours; the journal is sound
                self._suspend(error, f" while acting on tick {self.before_seq}")
                return
            hits, self._hits = self._hits, []
            for (_, told), _close in hits:
                self._tell_one(told, True)
            self.tell()
            if self.ended:
                self._finish()
                return
        if not self.inbox and not self.control and not self._queued and self.state.seq and is_quiet(self.state):
            self.put(QuietNoticed(self.clock.now()))

    def _act_on(self, entry: _Seen, one: bool) -> None:
        before, tick, state, commands = entry
        self.ticks.append(tick)
        self.history.note(state, tick)
        # First what the engine remembers: a plain step that the commands start runs at once, and may ask for it.
        after = _AFTER.get(type(tick))
        if after is not None:
            after(self, before, tick, state)
        n = 0
        for command in commands:
            kind = type(command)
            if kind is c.StartStep:
                if one or self._still_runs(command):  # type: ignore[arg-type]
                    self._start(command)  # type: ignore[arg-type]
            elif kind is c.Publish:
                self.published.append(Published(state.seq, n, command, tick.at))  # type: ignore[arg-type]
                n += 1
            else:
                _ACTIONS[kind](self, command)
        for observer in self.observers:
            try:
                observer(before if before.seq else None, tick, state, commands)
            except Exception:  # an observer can neither veto nor stop a run (R5.68)
                _log.exception("an observer of run %s failed at tick %s", self.run_id, state.seq)

    def tell(self) -> None:
        """Something changed."""
        if self.listeners:
            for listener in tuple(self.listeners):
                self._tell_one(listener)

    def _tell_one(self, listener: Callable[..., None], *args: Any) -> None:
        try:
            listener(*args)
        except Exception:  # as an observer: the others hear of it, and the run goes on
            _log.exception("a listener of run %s failed at tick %s", self.run_id, self.state.seq)

    # -- acting on commands

    def _still_runs(self, command: c.StartStep) -> bool:
        """What the same turn closed is not started (R1.14)."""
        d = command.delivery
        found = self.state.steps[d.step].active.get(d.id)
        return found is not None and found.start == d.start

    def _start(self, command: c.StartStep) -> None:
        d = command.delivery
        worker = Worker(self, d, self.definition.steps[d.step])
        self.workers[d.id] = worker
        try:
            worker.begin(self.new_context())
        except Exception as error:
            worker.lose(f"{type(error).__name__}: {error}")

    def new_context(self) -> contextvars.Context:
        """For code of the user: as it was where the run was started."""
        return self._context.copy()

    def _wake(self, command: c.WakeStep) -> None:
        worker = self.workers.get(command.delivery.id)
        if worker is not None:
            worker.wake(command.wakes)

    def _stop(self, command: c.StopStep) -> None:
        worker = self.workers.pop(command.delivery, None)
        if worker is not None:
            worker.stop()

    def _arm(self, command: c.ArmTimer) -> None:
        timer = command.timer
        self.timers[timer.id] = self.clock.call_at(self.host.loop, timer.due_at, lambda: self._fire(timer))

    def _fire(self, timer: Timer) -> None:
        self.timers.pop(timer.id, None)
        if timer.id in self.state.timers:
            self.put(TimerFired(max(self.clock.now(), timer.due_at), timer.id, self._closed_at_deadline(timer)))

    def _disarm(self, command: c.DisarmTimer) -> None:
        handle = self.timers.pop(command.timer, None)
        if handle is not None:
            handle.cancel()

    def _open_request(self, command: c.OpenRequest) -> None:
        self.questions.opened(self, command.request)

    def _close_request(self, command: c.CloseRequest) -> None:
        self.questions.closed[command.request] = command.how

    def _finish_run(self, command: c.FinishRun) -> None:
        """Acted on once, after the turn."""

    def _closed_at_deadline(self, timer: Timer) -> Out | None:
        """What the branch of a returned question hears at its deadline (R4.76)."""
        request = self.state.requests[timer.ref] if timer.kind == "deadline" else None
        if request is None or request.delivery or request.default is not None:
            return None
        return self.closed_event(timer.ref, "deadline")

    def closed_event(self, request: int, reason: Literal["deadline", "disposed"]) -> Out:
        """The event that tells a branch that its question ended without an answer."""
        question = self.state.requests[request].question.value
        event = RequestClosedEvent(request_id=f"{self.run_id}:{request}", question=question, reason=reason)
        return out_of(event, self.definition, 0.0)

    # -- after some ticks

    def _after_write(self, before: RunState, tick: StateWritten, state: RunState) -> None:
        self.user.admitted(tick)

    def _after_answer(self, before: RunState, tick: RequestAnswered | TimerFired, state: RunState) -> None:
        self.questions.answered(before, tick, state.seq)

    def _after_step(self, before: RunState, tick: StepFinished | StepFailed, state: RunState) -> None:
        worker = self.workers.get(tick.delivery)
        if worker is not None and worker.delivery.start == tick.start:
            del self.workers[tick.delivery]

    # -- the end

    def _finish(self) -> None:
        if self.state.status == "failed":
            self.error = self.errors.get(getattr(self.ticks[-1], "delivery", 0))
            self.trace = self.error.__traceback__ if self.error is not None else None
        self._put_down()
        self._drop_stops()
        self.end.resolve(None)
        self.tell()

    def _suspend(self, error: BaseException, where: str) -> None:
        """Stop driving, and say why; the journal is sound up to its last tick."""
        self.suspended = f"{type(error).__name__}: {error}{where}"
        self.error, self.trace = error, error.__traceback__
        self._put_down()
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
        stops, self.stops = self.stops, []
        for _, told in stops:
            self._tell_one(told, False)

    def _end_badly(self, error: BaseException) -> None:
        self._drop_stops()
        self.end.reject(error)
        self.tell()

    def stop_driving(self) -> None:
        """The process ends: fence the steps off; nothing is journalled of it (R1.21)."""
        if not self.suspended and not self.ended:
            self.suspended = "the process ends"
            self._put_down()

    def notice_loss(self) -> None:
        """On any thread: if the host's loop is gone, so that nothing drives the run, say so (R5.5)."""
        if self.host.is_lost() and not self.suspended and not self.ended:
            self.suspended = LOST
            self.error = EngineLost(f"Run {self.run_id!r}: {LOST}", run_id=self.run_id)
            self._put_down()
            self._end_badly(self.error)

    def _put_down(self) -> None:
        if self not in self.host.runners:
            return
        self.host.runners.discard(self)
        for handle in self.timers.values():
            handle.cancel()
        self.timers.clear()
        workers, self.workers = self.workers, {}
        for worker in workers.values():
            worker.stop()
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


_ACTIONS: dict[type[c.Command], Callable[[Runner, Any], None]] = {
    c.WakeStep: Runner._wake,
    c.StopStep: Runner._stop,
    c.ArmTimer: Runner._arm,
    c.DisarmTimer: Runner._disarm,
    c.OpenRequest: Runner._open_request,
    c.CloseRequest: Runner._close_request,
    c.FinishRun: Runner._finish_run,
}

_AFTER: dict[type[Tick], Callable[[Runner, RunState, Any, RunState], None]] = {
    StateWritten: Runner._after_write,
    RequestAnswered: Runner._after_answer,
    TimerFired: Runner._after_answer,
    StepFinished: Runner._after_step,
    StepFailed: Runner._after_step,
}
