"""One run being driven: inbox, gate, reduce, append, act."""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from flownb.core import commands as c
from flownb.core.gate import is_beaten, is_control
from flownb.core.history import History
from flownb.core.outstanding import is_quiet
from flownb.core.life import first_state
from flownb.core.reduce import reduce
from flownb.core.state import ENDED, Request, RunState, Timer
from flownb.core.ticks import (
    AnyTick,
    GateClosed,
    QuietNoticed,
    RequestAnswered,
    RunStarted,
    StateWritten,
    StepFailed,
    StepFinished,
    Tick,
    TimerFired,
)
from flownb.core.values import Out
from flownb.definition import Definition
from flownb.events import RequestClosedEvent
from flownb.runtime import capture
from flownb.runtime.clock import Clock, Handle
from flownb.runtime.commit import Committer
from flownb.runtime.host import Host
from flownb.runtime.pending import Pending
from flownb.runtime.results import out_of, value_out
from flownb.runtime.turns import Turns
from flownb.runtime.worker import Worker

Observer = Callable[[RunState | None, Tick, RunState, list[c.AnyCommand]], None]
Stop = Callable[[RunState, Tick, RunState, list[c.AnyCommand]], bool]

#: An append that failed is tried again after these seconds; the last one repeats.
BACKOFF_S = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0)


@dataclass(frozen=True, slots=True)
class Published:
    """One item of a run's stream: the n-th of what tick `seq` published."""

    seq: int
    n: int
    item: c.Publish
    at: float


@dataclass(frozen=True, slots=True)
class Accepted:
    """An answer that passed the door; it is certain to be admitted, unless the run ends first."""

    answer: Out
    by: str
    at: float


class Runner:
    """Drives one run on its host's loop.

    Everything but `post`, `door` and what only reads `state` is called on that loop's thread.
    """

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
        self.host = host
        self.clock = clock
        self.committer = committer
        self.make_context = make_context
        self.quiet_output = quiet_output
        self.ticks: list[AnyTick] = []
        self.history = History(self.ticks)
        self.inbox: deque[AnyTick] = deque()
        self.control: deque[AnyTick] = deque()
        self.workers: dict[int, Worker] = {}
        self.timers: dict[int, Handle] = {}
        self.published: list[Published] = []
        self.logs: dict[str, capture.StepLog] = {}
        #: Live exceptions of failed deliveries, for who awaits the run in this process.
        self.errors: dict[int, BaseException] = {}
        self.error: BaseException | None = None
        self.end: Pending[None] = Pending(f"run {started.run_id}", host.loop)
        self.door = threading.Lock()
        self.accepted: dict[int, Accepted] = {}
        self.closed: dict[int, str] = {}
        #: Questions asked with `ctx.ask`, by (delivery, mark), and the types that answer those asked in words.
        self.asked: dict[tuple[int, int], Request] = {}
        self.asked_types: dict[tuple[int, int], Any] = {}
        self.answer_types: dict[int, Any] = {}
        #: The question that a tick answered, by seq: for `ctx.request` in the step that gets the answer.
        self.answered_by: dict[int, Request] = {}
        #: State writes that are put and not admitted yet: their own run reads them at once (R5.15).
        self.writes: list[StateWritten] = []
        self.edits = Turns()
        #: Answers questions without a person.
        self.on_open: Callable[[Runner, Request], None] | None = None
        #: Why such an answer did not come, by request: shown with the question, which stays open.
        self.request_errors: dict[int, str] = {}
        #: Tasks of the engine's own that must not be collected while they run.
        self.helpers: set[Any] = set()
        self.observers: list[Observer] = []
        self.listeners: list[Callable[[], None]] = []
        self.stops: list[tuple[Stop, Callable[[bool], None]]] = []
        #: Why the last append failed; "" while all is well.
        self.blocked = ""
        self.suspended = ""
        self._failures = 0
        self._queued = False
        self._context = contextvars.copy_context()
        # Of the turn that is under way.
        self.batch: list[AnyTick] = []
        self._before: RunState | None = None
        self._seen: list[tuple[RunState | None, AnyTick, RunState, list[c.AnyCommand]]] = []
        self.state: RunState
        self._begin_with(started)
        host.runners.add(self)

    def _begin_with(self, started: RunStarted) -> None:
        self._opening = started
        self.control.clear()
        self.control.append(started)
        self.state = first_state(started)

    # -- what the turn needs

    def launch(self) -> None:
        """Begin to drive."""
        capture.begin()
        self._wake_up()

    @property
    def before_seq(self) -> int:
        return len(self.ticks)

    @property
    def ended(self) -> bool:
        return self.state.status in ENDED

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

    def _wake_up(self) -> None:
        if not self._queued and not self.suspended:
            self._queued = True
            self.host.schedule(self)

    def commit_key(self) -> Committer | None:
        return self.committer if self.batch else None

    def admit(self) -> None:
        """Reduce all that the gate lets in; nothing of it has happened yet."""
        self._queued = False
        self._before = self.state
        inbox, control, batch, seen = self.inbox, self.control, self.batch, self._seen
        state = self.state
        while True:
            if control:
                tick = control.popleft()
            elif inbox and (not state.gate or state.budget > 0):
                tick = inbox.popleft()
                if type(tick) is TimerFired and not self._is_due(tick):
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
            except Exception as error:  # a bug of ours: the tick is not appended (R1.19)
                self._suspend(error, tick)
                break
            batch.append(tick)
            seen.append((before, tick, state, commands))
            if self.stops:
                self._check_stops(before, tick, state, commands)
        self.state = state

    def _is_due(self, tick: TimerFired) -> bool:
        timer = self.state.timers.get(tick.timer)
        return timer is not None and not is_beaten(timer, list(self.inbox))

    def _check_stops(self, before: RunState, tick: Tick, state: RunState, commands: list[c.AnyCommand]) -> None:
        for entry in list(self.stops):
            hit, told = entry
            if hit(before, tick, state, commands):
                self.stops.remove(entry)
                if state.status not in ENDED:
                    self.control.append(GateClosed(state.at, "breakpoint"))
                self.listeners.append(_once(self.listeners, lambda told=told: told(True)))

    def take_back(self, error: BaseException, *, lasting: bool) -> None:
        """The append failed: the turn did not happen. Its ticks stand at the head of the inbox again."""
        assert self._before is not None
        for tick in reversed(self.batch):
            (self.control if is_control(tick) else self.inbox).appendleft(tick)
        self.state = self._before
        self.batch.clear()
        self._seen.clear()
        self.blocked = f"{type(error).__name__}: {error}"
        if lasting:
            self._suspend(error, None)
            return
        delay = BACKOFF_S[min(self._failures, len(BACKOFF_S) - 1)]
        self._failures += 1
        self._queued = True

        def again() -> None:
            self._queued = False
            self._wake_up()

        self.host.loop.call_later(delay, again)
        self._tell()

    def act(self) -> None:
        """The batch is in the journal: do what follows from it."""
        if not self.batch:
            self._notice_quiet()
            return
        self.blocked, self._failures = "", 0
        seen, self._seen = self._seen, []
        one = len(seen) == 1
        self.batch = []
        for before, tick, state, commands in seen:
            self.ticks.append(tick)
            self.history.note(state, tick)
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
            kind_of_tick = type(tick)
            if kind_of_tick is StateWritten:
                self.writes.remove(tick)  # type: ignore[arg-type]
            elif kind_of_tick is RequestAnswered or kind_of_tick is TimerFired:
                self._remember_answer(before, tick, state.seq)
            elif kind_of_tick is StepFinished or kind_of_tick is StepFailed:
                worker = self.workers.get(tick.delivery)  # type: ignore[union-attr]
                if worker is not None and worker.delivery.start == tick.start:  # type: ignore[union-attr]
                    del self.workers[tick.delivery]  # type: ignore[union-attr]
            if self.observers:
                for observer in self.observers:
                    observer(before if before.seq else None, tick, state, commands)
        self._tell()
        if self.ended:
            self._finish()
        else:
            self._notice_quiet()

    def _notice_quiet(self) -> None:
        if not self.inbox and not self.control and not self._queued and self.state.seq and is_quiet(self.state):
            self.put(QuietNoticed(self.clock.now()))

    def _tell(self) -> None:
        for listener in tuple(self.listeners):
            listener()

    # -- acting

    def _still_runs(self, command: c.StartStep) -> bool:
        d = command.delivery
        found = self.state.steps[d.step].active.get(d.id)
        return found is not None and found.start == d.start

    def _start(self, command: c.StartStep) -> None:
        d = command.delivery
        worker = Worker(self, d, self.definition.steps[d.step])
        self.workers[d.id] = worker
        try:
            worker.begin(self._context.copy())
        except Exception as error:
            worker.lose(f"{type(error).__name__}: {error}")

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
            self.put(TimerFired(max(self.clock.now(), timer.due_at), timer.id, self._closed_event(timer)))

    def _closed_event(self, timer: Timer) -> Out | None:
        """What the branch of a returned question hears at its deadline (R4.76)."""
        if timer.kind != "deadline":
            return None
        request = self.state.requests[timer.ref]
        return None if request.delivery or request.default is not None else self.closed_event(timer.ref, "deadline")

    def closed_event(self, request: int, reason: str) -> Out:
        question = self.state.requests[request].question.value
        event = RequestClosedEvent(request_id=f"{self.run_id}:{request}", question=question, reason=reason)
        return out_of(event, self.definition, 0.0)

    def _disarm(self, command: c.DisarmTimer) -> None:
        handle = self.timers.pop(command.timer, None)
        if handle is not None:
            handle.cancel()

    def _open_request(self, command: c.OpenRequest) -> None:
        request = command.request
        if request.delivery:
            asked = request.delivery, request.mark
            self.asked[asked] = request
            if asked in self.asked_types:
                self.answer_types[request.id] = self.asked_types[asked]
        if self.on_open is not None:
            self.on_open(self, request)

    def _remember_answer(self, before: RunState, tick: Tick, seq: int) -> None:
        if isinstance(tick, RequestAnswered):
            request = before.requests.get(tick.request)
        else:
            assert isinstance(tick, TimerFired)
            timer = before.timers.get(tick.timer)
            request = before.requests.get(timer.ref) if timer is not None and timer.kind == "deadline" else None
            if request is not None and request.default is not None:
                self.accepted[request.id] = Accepted(request.default, "", tick.at)
        if request is not None and not request.delivery:
            self.answered_by[seq] = request

    def _close_request(self, command: c.CloseRequest) -> None:
        self.closed[command.request] = command.how

    def _nothing(self, command: c.AnyCommand) -> None:
        """The end is acted on once per turn."""

    # -- the end

    def _finish(self) -> None:
        state = self.state
        if state.status == "failed":
            self.error = self._live_error(state)
        for handle in self.timers.values():
            handle.cancel()
        self.timers.clear()
        for worker in self.workers.values():
            worker.stop()
        self.workers.clear()
        stops, self.stops = self.stops, []
        for _, told in stops:
            told(False)
        self.host.runners.discard(self)
        capture.end()
        self.end.resolve(None)
        self._tell()

    def _live_error(self, state: RunState) -> BaseException | None:
        tick = self.ticks[-1]
        return self.errors.get(getattr(tick, "delivery", 0))

    def _suspend(self, error: BaseException, tick: Tick | None) -> None:
        """Stop driving, and say why; the journal is sound up to its last tick."""
        what = f" at {type(tick).__name__} after tick {self.state.seq}" if tick is not None else ""
        self.suspended = f"{type(error).__name__}: {error}{what}"
        self.error = error
        for worker in self.workers.values():
            worker.stop()
        self._tell()
        self.host.loop.call_soon(self.end.reject, error)

    def stop_driving(self) -> None:
        """The process ends: fence the steps off; nothing is journalled of it (R1.21)."""
        self.suspended = self.suspended or "the process ends"
        for worker in list(self.workers.values()):
            worker.stop()

    # -- output of steps

    def log(self, step: str) -> capture.StepLog:
        found = self.logs.get(step)
        if found is None:
            found = self.logs[step] = capture.StepLog()
        return found

    # -- the user's state

    def write_state(self, tick: StateWritten) -> None:
        """A step writes; its own run sees it at once, the journal when it is admitted."""
        self.writes.append(tick)
        self.post(tick)

    def set_first_state(self, values: Mapping[str, Any]) -> None:
        """The user's state before the first tick; it stands in that tick."""
        first = replace(self._opening, state={name: value_out(value) for name, value in values.items()})
        self._begin_with(first)

    def user_view(self) -> dict[str, Out]:
        """The user's state with the writes that are on their way."""
        user = self.state.user
        for tick in tuple(self.writes):
            user = {**user, **tick.changes}
            for name in tick.dropped:
                user.pop(name, None)
        return user

    # -- the door: answers and events from outside

    def waiting_answers(self) -> list[RequestAnswered]:
        return [tick for tick in tuple(self.inbox) if isinstance(tick, RequestAnswered)]


_ACTIONS: dict[type[c.Command], Callable[[Runner, Any], None]] = {
    c.WakeStep: Runner._wake,
    c.StopStep: Runner._stop,
    c.ArmTimer: Runner._arm,
    c.DisarmTimer: Runner._disarm,
    c.OpenRequest: Runner._open_request,
    c.CloseRequest: Runner._close_request,
    c.FinishRun: Runner._nothing,
}


def _once(listeners: list[Callable[[], None]], call: Callable[[], None]) -> Callable[[], None]:
    def told() -> None:
        listeners.remove(told)
        call()

    return told
