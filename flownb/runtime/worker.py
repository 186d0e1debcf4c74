"""The code of one delivery at work: a task for `async def`, a thread for `def`."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any

from flownb.core.state import Delivery, Wake
from flownb.core.ticks import Ask, StepFailed, StepFinished, WaitOpened, WaitWithdrawn
from flownb.definition import Step
from flownb.definition.steps import arguments
from flownb.errors import AttemptOver, EngineLost, StepFailure, StepLost
from flownb.runtime.capture import sink
from flownb.runtime.pending import Pending
from flownb.runtime.results import delivered, failure_of, outs_of, user_part
from flownb.runtime.threads import pool

if TYPE_CHECKING:
    from flownb.core.ticks import Sleep
    from flownb.runtime.runner import Runner

#: How long a task that somebody else cancelled waits before that counts as the step's failure: if the loop is
#: shutting down, that moment never comes, and the attempt stays in progress for the next driver (R1.21).
SHUTDOWN_S = 0.1


class Worker:
    """One start of one delivery. Everything that it says carries its start number; `fenced`, it says nothing more."""

    __slots__ = ("asked", "delivery", "fenced", "marks", "number", "returned", "runner", "step", "task")

    def __init__(self, runner: Runner, delivery: Delivery, step: Step) -> None:
        self.runner = runner
        self.delivery = delivery
        self.step = step
        self.task: asyncio.Task[None] | None = None
        self.fenced = False
        #: Its code returned; a task that it left behind may still send, as from outside (R3.21).
        self.returned = False
        #: Open waits by their mark.
        self.marks: dict[int, Pending[Any]] | None = None
        #: Its open questions that nobody gave up, in words, by their mark.
        self.asked: dict[int, str] | None = None
        self.number = 0

    def begin(self, context: Context) -> None:
        """Start the user's code, in a context of its own."""
        runner = self.runner
        if self.step.is_async:
            self.task = runner.host.loop.create_task(self._run_async(), context=context)
        else:
            pool.submit(lambda: context.run(self._run_sync))

    def _call(self) -> Any:
        runner, step = self.runner, self.step
        sink.set(self)
        value = delivered(self.delivery.out, runner.definition, self.delivery.cause)
        if step.plan == ("event",) and not step.keywords:
            return step.call(value)
        args, kwargs = arguments(step, value, runner.make_context(self))
        return step.call(*args, **kwargs)

    async def _run_async(self) -> None:
        runner, d = self.runner, self.delivery
        try:
            result = await self._call()
            now = runner.clock.now()
            outs, fan = outs_of(result, self.step, runner.definition, now)
            if outs and runner.committer is not None:
                runner.checked(*outs)
            if self.asked and not self.fenced:
                self._warn_of_questions(self.asked)
        except AttemptOver:
            return
        except BaseException as error:  # whatever a step raises; only the engine's own cancel is none of its failures
            if not self.fenced:
                self._failed_async(error)
            return
        self.returned = True
        if not self.fenced:
            runner.put(StepFinished(now, self.step.name, d.id, d.start, outs, fan))

    def _failed_async(self, error: BaseException) -> None:
        task = self.task
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            self.runner.host.later(SHUTDOWN_S, self._fail, error)
        else:
            self._fail(error)

    def _run_sync(self) -> None:
        runner, d = self.runner, self.delivery
        try:
            result = self._call()
            now = runner.clock.now()
            outs, fan = outs_of(result, self.step, runner.definition, now)
            if outs and runner.committer is not None:
                runner.checked(*outs)
            if self.asked and not self.fenced:
                self._warn_of_questions(self.asked)
        except AttemptOver:
            return
        except BaseException as error:  # also SystemExit: it would end the thread without a word
            self._hand_in(self._fail, error)
            return
        self.returned = True
        self._hand_in(self._finish, StepFinished(now, self.step.name, d.id, d.start, outs, fan))

    def _warn_of_questions(self, asked: dict[int, str]) -> None:
        """Raises, where warnings are errors; the step has then failed."""
        warnings.warn(
            f"Step {self.step.name!r} of run {self.runner.run_id!r} ended without {' and '.join(asked.values())}: "
            "the question is withdrawn. Await what ctx.ask(...) gives, or call .result() on it in a def step.",
            RuntimeWarning,
            stacklevel=2,
        )

    def _hand_in(self, take: Callable[[Any], None], what: Any) -> None:
        try:
            self.runner.host.call(take, what)
        except EngineLost:  # its loop is closed: the attempt stays in progress for the next driver (R1.21)
            self.fenced = True

    def _finish(self, tick: StepFinished) -> None:
        if not self.fenced:
            self.runner.put(tick)

    def _fail(self, error: BaseException) -> None:
        if self.fenced:
            return
        runner, d = self.runner, self.delivery
        failure = failure_of(error)
        if isinstance(error, asyncio.CancelledError):
            error = self._cancelled(error)
        told = f"In step {self.step.name!r} of run {runner.run_id!r}, attempt {d.attempt}."
        if told not in getattr(error, "__notes__", ()):
            error.add_note(told)
        runner.errors[d.id] = error.with_traceback(user_part(error.__traceback__))
        runner.put(StepFailed(runner.clock.now(), self.step.name, d.id, d.start, failure))

    def _cancelled(self, error: BaseException) -> StepFailure:
        """Raised as it is, it would look to whoever awaits the run as if he himself were cancelled."""
        lost = StepFailure(f"Step {self.step.name!r} raised CancelledError by itself.", step=self.step.name)
        lost.__cause__ = error.with_traceback(user_part(error.__traceback__))
        return lost

    def lose(self, reason: str) -> None:
        """The step could not be started (R1.17)."""
        self._fail(StepLost(f"Step {self.step.name!r} could not be started: {reason}", step=self.step.name))

    def stop(self) -> None:
        """Fence it off and cancel it. A thread cannot be cancelled; what it still does reaches nobody."""
        self.fenced = True
        for pending in (self.marks or {}).values():
            pending.reject(AttemptOver(f"The attempt of step {self.step.name!r} is over."))
        if self.task is not None and not self.runner.host.is_lost():
            self.task.cancel()

    # What `Context` calls.

    def check(self) -> None:
        """Raises AttemptOver once nothing that this code does counts any more."""
        if self.fenced or self.returned:
            raise AttemptOver(f"The attempt of step {self.step.name!r} is over; nothing that it still does counts.")

    def wait(self, what: str, wait: Sleep | Ask, answer: Any = None) -> tuple[int, Pending[Any]]:
        """Open a wait: its mark, and a handle that ends with its `Outcome`.

        Args:
            what: A few words for errors.
            wait: What is waited for.
            answer: Of a question in words: the type that answers it.
        """
        self.check()
        self.number += 1
        mark = self.number
        runner, d = self.runner, self.delivery
        pending: Pending[Any] = Pending(what, runner.host.loop, lambda: self._give_up(mark))
        if self.marks is None:
            self.marks = {}
        self.marks[mark] = pending
        if isinstance(wait, Ask):
            self.asked = {**(self.asked or {}), mark: what}
        if answer is not None:  # before the question can be open: the loop may be quicker than this thread
            runner.questions.asked_types[d.id, mark] = answer
        runner.post(WaitOpened(runner.clock.now(), self.step.name, d.id, d.start, mark, wait))
        return mark, pending

    def _give_up(self, mark: int) -> None:
        """The step's code waits no longer; on any thread."""
        task, host = self.task, self.runner.host
        self._forget_question(mark)
        try:
            if task is not None and task.cancelling():
                # By the step's own `asyncio.timeout`, or because the loop is shutting down: see SHUTDOWN_S.
                host.call(host.later, SHUTDOWN_S, self._withdraw, mark)
            else:
                host.call(self._withdraw, mark)
        except EngineLost:  # the wait stays in the run's state
            return

    def _withdraw(self, mark: int) -> None:
        if not self.fenced and self.marks and self.marks.pop(mark, None) is not None:
            d = self.delivery
            self.runner.put(WaitWithdrawn(self.runner.clock.now(), self.step.name, d.id, d.start, mark))

    def wake(self, wakes: tuple[Wake, ...]) -> None:
        """Waits of this code are over."""
        for wake in wakes:
            pending = self.marks.pop(wake.mark, None) if self.marks else None
            if pending is not None:
                self._forget_question(wake.mark)
                pending.resolve(wake.outcome)

    def _forget_question(self, mark: int) -> None:
        if self.asked is not None:
            self.asked.pop(mark, None)

    def take_output(self, text: str) -> bool:
        """What the step prints goes to its log; in a kernel to that alone."""
        runner = self.runner
        runner.log(self.step.name).write(self.delivery.id, text)
        return runner.quiet_output
