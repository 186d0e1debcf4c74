"""The code of one delivery at work: a task for `async def`, a thread for `def`."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from contextvars import Context
from typing import TYPE_CHECKING, Any, TypeVar

from flownb.core.state import Delivery, Did, Outcome, Wake
from flownb.core.ticks import (
    Ask,
    Collect,
    EventsSent,
    StepFailed,
    StepFinished,
    StreamRewound,
    ValueRecorded,
    WaitOpened,
    WaitWithdrawn,
)
from flownb.core.values import Out
from flownb.definition import Step
from flownb.definition.steps import arguments
from flownb.errors import AttemptOver, EngineLost, StepFailure, StepLost
from flownb.runtime.capture import sink
from flownb.runtime.deadline import Deadline
from flownb.runtime.eager import begin as begin_eagerly
from flownb.runtime.ledger import Replay
from flownb.runtime.pending import Pending
from flownb.runtime.results import delivered, failure_of, outs_of, user_part
from flownb.runtime.retries import failed_event, retry_at
from flownb.runtime.threads import pool

if TYPE_CHECKING:
    from random import Random

    from flownb.core.ticks import AnyTick, Await, RunChild, Sleep
    from flownb.runtime.runner import Runner

    AnyWait = Sleep | Ask | Await | RunChild

T = TypeVar("T")

#: How long a task that somebody else cancelled waits before that counts as the step's failure: if the loop is
#: shutting down, that moment never comes, and the attempt stays in progress for the next driver (R1.21).
SHUTDOWN_S = 0.1

#: So many rounds of the loop at most a cancellation by the step's own code takes until it is taken back.
_ROUNDS = 5

#: Held from the choice of a mark until its tick is put: marks of one delivery must arrive in their order.
_marking = threading.Lock()
_making = threading.Lock()


def _outcome(worker: Worker, outcome: Outcome) -> Outcome:
    return outcome


class Waited(Pending[T]):
    """A wait that a worker's code opened. To give it up withdraws it, to begin to wait gives the slot back.

    Args:
        what: A few words for errors.
        worker: Whose code it is.
        mark: The wait's number there.
        wait: What is waited for.
        read: What the code gets of the outcome; it may raise.
    """

    __slots__ = ("_given_up", "_mark", "_read", "_wait", "_worker")

    def __init__(
        self, what: str, worker: Worker, mark: int, wait: AnyWait, read: Callable[[Worker, Outcome], T]
    ) -> None:
        super().__init__(what, worker.runner.host.loop)
        self._worker = worker
        self._mark = mark
        self._wait = wait
        self._read = read
        self._given_up = False
        if not worker.step.is_async:
            self.blocking = pool.waiting

    def take(self, outcome: Outcome) -> None:
        """The wait is over."""
        if not self._done:
            try:
                value = self._read(self._worker, outcome)
            except BaseException as error:
                self.reject(error)
            else:
                self.resolve(value)

    def abandon(self) -> None:
        if not self._done:
            self._given_up = True
            self._worker._give_up(self._mark)

    def begin(self) -> None:
        if not self._done:
            self._worker._await_again(self._mark, self._wait)


class Worker:
    """One start of one delivery. Everything that it says carries its start number; `fenced`, it says nothing more."""

    # Values of the class where most workers need no other: a worker is made for every start.

    task: asyncio.Task[None] | None = None
    #: Its code runs in a thread, or in another process.
    busy = False
    fenced = False
    #: Its code returned; a task that it left behind may still send, as from outside (R3.21).
    returned = False
    #: Open waits by their mark.
    marks: dict[int, Waited[Any]] | None = None
    #: The last mark that it gave.
    number = 0
    #: False from the moment that it begins to wait until it is woken: it gave its worker back (R4.26).
    holds_slot = True
    #: What earlier starts did; None for a first start, and for code that used no `ctx`.
    replay: Replay | None = None
    #: What it asked of buffers.
    collects: tuple[Collect, ...] = ()
    #: Of `sends="on_success"`.
    kept_sends: list[tuple[Out, str | None]] | None = None
    #: Values on their way to the journal, oldest first.
    recording: list[Pending[None]] | None = None
    #: The question that it last showed on the stream: the next wait for an answer takes it.
    shown: Out | None = None
    #: Writes to the user's state so far, for a start that is not the first.
    writes = 0
    #: Children that it began, and `ctx.uuid()`s that it was given.
    children = 0
    uuids = 0
    #: `ctx.random`.
    random: Random | None = None
    deadline: Deadline | None = None
    #: Handles that its code waits for and that end with it.
    guarded: set[Pending[Any]] | None = None
    #: What resources fill its parameters with.
    given: dict[str, Any] | None = None
    #: Gives up its call of another executor.
    cancel_call: Callable[[], None] | None = None
    #: What it began for its code.
    tasks: set[asyncio.Future[Any]] | None = None
    #: What outside systems know its task by, where that is another run's; "" makes it of run and delivery.
    key: str = ""
    #: Ticks that threads of an async step made, on their way to the loop.
    coming: deque[AnyTick] | None = None

    def __init__(self, runner: Runner, delivery: Delivery, step: Step) -> None:
        self.runner = runner
        self.delivery = delivery
        self.step = step
        ledger = delivery.ledger
        if ledger is not None:
            self.replay = Replay(delivery, ledger)
            self.number = ledger.marks

    def begin(self, context: Context) -> None:
        """Start the user's code, in a context of its own."""
        runner, step = self.runner, self.step
        if self.replay is not None and self.replay.streams:
            d = self.delivery
            runner.put(StreamRewound(runner.clock.now(), step.name, d.id, d.start))
        limit = step.options.timeout
        if limit is None:
            limit = runner.policies.step_timeout
        if limit is not None:
            self.deadline = Deadline(runner.clock, runner.host.loop, limit, self._time_out)
            self.count()
        if not step.is_plain and (step.resources or step.options.executor not in (None, "thread")):
            from flownb.runtime.elsewhere import begin  # few steps need it

            begin(self, context)
        elif step.is_async:
            # None once it is over: its context leads back to this worker, and so would keep a run that is over until
            # the collector comes.
            self.task = begin_eagerly(runner.host.loop, self.run_async(), context)
        else:
            pool.submit(lambda: context.run(self.run_sync))

    def is_at_work(self) -> bool:
        """Whether its code still runs."""
        return self.busy or (self.task is not None and not self.task.done())

    def count(self) -> None:
        """Its time limit counts while it holds a worker and the gate is open."""
        if self.deadline is not None and not self.returned and not self.fenced:
            if self.holds_slot and not self.runner.state.gate:
                self.deadline.run()
            else:
                self.deadline.stop()

    def value(self) -> Any:
        """What its step is handed."""
        return delivered(self.delivery.out, self.runner.definition, self.delivery.cause)

    def _call(self) -> Any:
        runner, step, d = self.runner, self.step, self.delivery
        sink.set(self)
        value = delivered(d.out, runner.definition, d.cause)
        if step.is_plain:
            return step.call(value)
        args, kwargs = arguments(step, value, runner.make_context(self))
        if self.given is not None:
            kwargs.update(self.given)
        return step.call(*args, **kwargs)

    async def run_async(self) -> None:
        runner = self.runner
        try:
            result = await self._call()
            now = runner.clock.now()
            outs, fan = outs_of(result, self.step, runner.definition, now)
            if outs and runner.committer is not None:
                runner.checked(*outs)
            if self.marks and not self.fenced:
                self._warn_of_questions(tuple(self.marks.values()))
        except AttemptOver:
            return
        except BaseException as error:  # whatever a step raises; only the engine's own cancel is none of its failures
            if not self.fenced:
                self.failed_async(error)
            return
        self.finish(now, outs, fan)

    def failed_async(self, error: BaseException) -> None:
        """Its task raised."""
        task = self.task
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            self.runner.host.later(SHUTDOWN_S, self._fail_if_it_goes_on, error)
        else:
            self.fail(error)

    def _fail_if_it_goes_on(self, error: BaseException) -> None:
        host = self.runner.host
        if host.is_closing():  # that is no failure of the step, however long it takes (R1.21)
            host.later(SHUTDOWN_S, self._fail_if_it_goes_on, error)
        else:
            self.fail(error)

    def run_sync(self) -> None:
        """On a thread, unless its attempt was over before one was free."""
        if not self.fenced:
            self.busy = True
            try:
                self._run_sync()
            finally:
                self.busy = False

    def _run_sync(self) -> None:
        runner = self.runner
        try:
            result = self._call()
            now = runner.clock.now()
            outs, fan = outs_of(result, self.step, runner.definition, now)
            if outs and runner.committer is not None:
                runner.checked(*outs)
            if self.marks and not self.fenced:
                self._warn_of_questions(tuple(self.marks.values()))
        except AttemptOver:
            return
        except BaseException as error:  # also SystemExit: it would end the thread without a word
            self.hand_in(self.fail, error)
            return
        self.hand_in(self.finish, now, outs, fan)

    def _warn_of_questions(self, open_waits: Iterable[Waited[Any]]) -> None:
        """Of those that nobody gave up. Raises, where warnings are errors; the step has then failed."""
        asked = [wait._what for wait in open_waits if isinstance(wait._wait, Ask) and not wait._given_up]
        if not asked:
            return
        warnings.warn(
            f"Step {self.step.name!r} of run {self.runner.run_id!r} ended without {' and '.join(asked)}: "
            "the question is withdrawn. Await what ctx.ask(...) gives, or call .result() on it in a def step.",
            RuntimeWarning,
            stacklevel=2,
        )

    def hand_in(self, take: Callable[..., None], *what: Any) -> None:
        """Call on the loop's thread."""
        try:
            self.runner.host.call(take, *what)
        except EngineLost:  # its loop is closed: the attempt stays in progress for the next driver (R1.21)
            self.fenced = True

    def returned_value(self, result: Any) -> None:
        """What its code returned in another process."""
        if self.fenced:
            return
        runner = self.runner
        try:
            now = runner.clock.now()
            outs, fan = outs_of(result, self.step, runner.definition, now)
            if outs:
                runner.checked(*outs)
        except Exception as error:  # it is no event, or cannot be stored
            self.fail(error)
        else:
            self.finish(now, outs, fan)

    def finish(self, now: float, outs: tuple[Out, ...], fan: bool) -> None:
        """Its code returned."""
        if self.fenced:
            return
        if self.kept_sends:
            self.flush()
        if self.coming:
            self._take_in()
        self.returned, self.task = True, None  # see `begin`
        if self.deadline is not None:
            self.deadline.stop()
        d = self.delivery
        self.runner.put(StepFinished(now, self.step.name, d.id, d.start, outs, fan, self.collects))

    def fail(self, error: BaseException) -> None:
        if self.fenced or self.returned:
            return
        self._take_in()
        runner, d, step = self.runner, self.delivery, self.step
        if isinstance(error, asyncio.CancelledError):
            error = self._cancelled(error)
        told = f"In step {step.name!r} of run {runner.run_id!r}, attempt {d.attempt}."
        if told not in getattr(error, "__notes__", ()):
            error.add_note(told)
        error = error.with_traceback(user_part(error.__traceback__))
        now = runner.clock.now()
        again = retry_at(runner, d, step, error, now)
        failure = failure_of(error)
        runner.errors[d.id] = error
        failed = failed_event(runner, d, step, error, now) if again is None else None
        self.returned = True
        runner.put(StepFailed(now, step.name, d.id, d.start, failure, again, failed))
        self.stop()

    def _cancelled(self, error: BaseException) -> StepFailure:
        """Raised as it is, it would look to whoever awaits the run as if he himself were cancelled."""
        lost = StepFailure(f"Step {self.step.name!r} raised CancelledError by itself.", step=self.step.name)
        lost.__cause__ = error.with_traceback(user_part(error.__traceback__))
        return lost

    def _time_out(self) -> None:
        limit = self.step.options.timeout or self.runner.policies.step_timeout
        error = TimeoutError(f"Step {self.step.name!r} took longer than {limit:g} s.")
        if self.task is None and not self.fenced:
            error.add_note("Its thread cannot be killed: what it still does reaches nobody.")
        self.fail(error)
        self.runner.leave(self)

    def lose(self, reason: str) -> None:
        """The step could not be started (R1.17)."""
        self.fail(StepLost(f"Step {self.step.name!r} could not be started: {reason}", step=self.step.name))

    def stop(self) -> None:
        """Fence it off and cancel it. A thread cannot be cancelled; what it still does reaches nobody."""
        self.fenced = True
        if self.deadline is not None:
            self.deadline.stop()
        self.let_go()
        if self.cancel_call is not None:
            self.cancel_call()
        if not self.runner.host.is_lost():
            if self.task is not None:
                self.task.cancel()
            for task in tuple(self.tasks or ()):
                task.cancel()

    def let_go(self) -> None:
        """Whoever still waits for something of it waits for nothing: a task or a thread that it left behind (R3.21)."""
        if self.marks or self.recording or self.guarded:
            for pending in (*(self.marks or {}).values(), *(self.recording or ()), *(self.guarded or ())):
                pending.reject(self._over())

    # What `Context` calls.

    def check(self) -> None:
        """Raises AttemptOver once nothing that this code does counts any more."""
        if self.fenced or self.returned:
            raise AttemptOver(f"The attempt of step {self.step.name!r} is over; nothing that it still does counts.")

    def post(self, tick: AnyTick) -> None:
        """Its code does something, on whatever thread. Ticks arrive in the order in which they were made: what a thread
        of an async step did stands before what the step itself does next, its end included."""
        runner = self.runner
        if not self.step.is_async:
            runner.post(tick)
        elif runner.host.is_here():
            self._take_in()
            runner.put(tick)
        else:
            if self.coming is None:
                with _making:
                    if self.coming is None:
                        self.coming = deque()
            self.coming.append(tick)
            runner.host.call(self._take_in)

    def _take_in(self) -> None:
        while self.coming:
            self.runner.put(self.coming.popleft())

    def send(self, out: Out, target: str | None) -> None:
        """Send an event, unless an earlier start sent it (R3.52)."""
        if self.replay is not None and self.replay.has_sent(out, target or ""):
            return
        if self.step.options.sends == "on_success":
            if self.kept_sends is None:
                self.kept_sends = []
            self.kept_sends.append((out, target))
        else:
            self._send(out, target)

    def _send(self, out: Out, target: str | None) -> None:
        runner, d = self.runner, self.delivery
        self.post(EventsSent(runner.clock.now(), self.step.name, d.id, d.start, (out,), target))

    def flush(self) -> None:
        """It succeeded, or waits: what was held back is sent now (R3.53)."""
        kept, self.kept_sends = self.kept_sends, None
        for out, target in kept or ():
            self._send(out, target)

    def recorded(self, identity: Hashable) -> tuple[Did, Outcome | None] | None:
        """The wait of that identity that an earlier start opened, None for a new one."""
        return self.replay.wait(identity) if self.replay is not None else None

    def open(
        self,
        what: str,
        wait: AnyWait,
        prepare: Callable[[int], None] | None = None,
        *,
        read: Callable[[Worker, Outcome], Any] = _outcome,
        kind: type[Waited[Any]] = Waited,
    ) -> Waited[Any]:
        """Open a wait; its handle.

        Args:
            what: A few words for errors.
            wait: What is waited for.
            prepare: Called with the mark before the wait can be open: the loop may be quicker than this thread.
            read: What the code gets of the outcome; by default the outcome.
            kind: Of the handle.
        """
        self.check()
        self.flush()
        with _marking:
            self.number += 1
            mark = self.number
            pending = self._registered(kind(what, self, mark, wait, read))
            if prepare is not None:
                prepare(mark)
            self._put_wait(mark, wait)
        return pending

    def reopen(
        self,
        entry: Did,
        outcome: Outcome | None,
        what: str,
        wait: AnyWait,
        *,
        read: Callable[[Worker, Outcome], Any] = _outcome,
        kind: type[Waited[Any]] = Waited,
    ) -> Waited[Any]:
        """The same for a wait that an earlier start opened: over already, or still open."""
        self.check()
        pending = kind(what, self, entry.mark, wait, read)
        if outcome is not None:
            pending.take(outcome)
            return pending
        self._registered(pending)
        # `wake` notes an outcome before it looks for the handle: whichever comes first, one of the two finds it.
        outcome = self.replay.outcome(entry.mark) if self.replay is not None else None
        if outcome is None:
            self._put_wait(entry.mark, wait)
        else:
            if self.marks:
                self.marks.pop(entry.mark, None)
            pending.take(outcome)
        return pending

    def _registered(self, pending: Waited[Any]) -> Waited[Any]:
        if self.marks is None:
            self.marks = {}
        self.marks[pending._mark] = pending
        self._end_if_over(pending)
        return pending

    def _put_wait(self, mark: int, wait: AnyWait) -> None:
        self.holds_slot = False
        runner, d = self.runner, self.delivery
        self.post(WaitOpened(runner.clock.now(), self.step.name, d.id, d.start, mark, wait))

    def _await_again(self, mark: int, wait: AnyWait) -> None:
        """Its code awaits a wait that it opened before, while another one woke it: the slot is given back."""
        if self.holds_slot and not self.fenced and self.marks and mark in self.marks:
            self._put_wait(mark, wait)

    def _give_up(self, mark: int) -> None:
        """The step's code waits no longer; on any thread."""
        task, host = self.task, self.runner.host
        try:
            if task is not None and task.cancelling():
                # By the step's own `asyncio.timeout`, or because the loop is shutting down.
                host.call(host.soon, self._withdraw_soon, task, mark, _ROUNDS)
            else:
                host.call(self._withdraw, mark)
        except EngineLost:  # the wait stays in the run's state
            return

    def _withdraw_soon(self, task: asyncio.Task[None], mark: int, rounds: int) -> None:
        """An `asyncio.timeout` takes its cancellation back within a few rounds of the loop; what takes longer may be
        the loop that shuts down, and then the wait stays in the run's state: see SHUTDOWN_S."""
        host = self.runner.host
        if not task.cancelling():
            self._withdraw(mark)
        elif rounds:
            host.soon(self._withdraw_soon, task, mark, rounds - 1)
        else:
            host.later(SHUTDOWN_S, self._withdraw_if_it_goes_on, mark)

    def _withdraw_if_it_goes_on(self, mark: int) -> None:
        host = self.runner.host
        if host.is_closing():
            host.later(SHUTDOWN_S, self._withdraw_if_it_goes_on, mark)
        else:
            self._withdraw(mark)

    def _withdraw(self, mark: int) -> None:
        if not self.fenced and self.marks and self.marks.pop(mark, None) is not None:
            d = self.delivery
            if not self.marks:
                self.holds_slot = True
            self.runner.put(WaitWithdrawn(self.runner.clock.now(), self.step.name, d.id, d.start, mark))

    def wake(self, wakes: tuple[Wake, ...]) -> None:
        """Waits of this code are over."""
        self.holds_slot = True
        if self.deadline is not None:
            self.count()
        for wake in wakes:
            if self.replay is not None:  # its code may not have come to that wait again yet
                self.replay.note(wake)
            pending = self.marks.pop(wake.mark, None) if self.marks else None
            if pending is not None:
                pending.take(wake.outcome)

    def child_number(self, identity: Hashable) -> tuple[int, int]:
        """The number of a child that its code begins, and which try of it this is (R6.20)."""
        if self.replay is not None:
            return self.replay.child_number(identity)
        with _marking:
            self.children += 1
            return self.children, 1

    def next_write_is_in(self) -> bool:
        """Count one more write to the state; whether an earlier start made it."""
        with _marking:
            self.writes += 1
            return self.replay is not None and self.writes <= self.replay.writes

    def record(self, name: str, out: Out) -> Pending[None]:
        """Journal a value that must be the same when the code runs again; the handle ends when it is in."""
        self.check()
        runner, d = self.runner, self.delivery
        pending: Pending[None] = Pending(f"the record of {name}", runner.host.loop)
        with _marking:
            if self.recording is None:
                self.recording = []
            self.recording.append(pending)
            self._end_if_over(pending)
            self.post(ValueRecorded(runner.clock.now(), self.step.name, d.id, d.start, name, out))
        return pending

    def guard(self, pending: Pending[Any]) -> Pending[Any]:
        """Let a handle end with this attempt, if it does not end before."""
        if self.guarded is None:
            self.guarded = set()
        guarded = self.guarded
        guarded.add(pending)
        pending.on_end(lambda: guarded.discard(pending))
        self._end_if_over(pending)
        return pending

    def _end_if_over(self, pending: Pending[Any]) -> None:
        """`stop`, on the loop's thread, may have looked just before a plain step's thread kept this handle."""
        if self.fenced:
            pending.reject(self._over())

    def _over(self) -> AttemptOver:
        return AttemptOver(f"The attempt of step {self.step.name!r} is over.")

    def was_recorded(self) -> None:
        """The oldest value on its way is in the journal."""
        if self.recording:
            self.recording.pop(0).resolve(None)

    def take_output(self, text: str) -> bool:
        """What the step prints goes to its log; in a kernel to that alone."""
        runner = self.runner
        runner.log(self.step.name).write(self.delivery.id, text)
        return runner.quiet_output
