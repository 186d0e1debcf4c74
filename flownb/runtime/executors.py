"""Steps elsewhere: which executor fills a slot, and one call of a step's function on it.

`executor=` of a step names a slot. "thread" is the engine's own pool, "processes" is loky's, and any other is filled
by `with_options(executors={...})` with a `concurrent.futures.Executor`. On an executor of threads a step runs as it
does in the engine's own pool; to any other it is sent: its plain function, its arguments, and a small stand-in for its
context (`remote.ContextElsewhere`). What it says comes back while it runs, as far as there is a way (`channel`).

A call that runs in another process cannot be stopped: cancelled, it is only no longer waited for.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from msgspec import Struct

from flownb.core.values import Failure
from flownb.errors import (
    AttemptOver,
    StepFailure,
    StepLost,
    WorkflowConfigurationError,
    WorkflowRuntimeError,
    near,
)
from flownb.events import Event, newest
from flownb.runtime import remote
from flownb.runtime.channel import Hearing, channel
from flownb.runtime.remote import Back, ContextElsewhere, Printed, Said
from flownb.runtime.shipping import MISSING, Parcel, of_here, packed_call, unpacked
from flownb.runtime.threads import pool

#: Slots that need no filling.
BUILT_IN = ("thread", "processes")
#: Processes without work end after so many seconds.
IDLE_S = 300

#: Gives a call up; what has not begun never begins. To be called on whatever thread, as often as one likes.
Cancel = Callable[[], None]
#: Told once how a call ended, on whatever thread: what the function returned, or an error.
Done = Callable[[Any, BaseException | None], None]


class RemoteCall(Struct, frozen=True):
    """One start of a step in another process."""

    #: Name of the step, for errors.
    step: str
    #: Its plain function.
    fn: Callable[..., Any]
    #: As `definition.arguments` gives them, a `ContextElsewhere` in the place of the context.
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    #: Takes what it prints, as `capture.Sink.take_output`: whether the text goes nowhere else.
    take_output: Callable[[str], bool]
    #: Takes its progress: done, total, label.
    progress: Callable[[float, float | None, str], None]
    #: The workflow that a method is bound to.
    owner: Any = None
    #: The class that a key means here.
    class_of: Callable[[str], type[Event] | None] = newest


def executor_for(slot: str | None, bound: Mapping[str, Any], *, step: str = "") -> Executor | None:
    """The executor that fills a slot; None: the engine's own threads.

    Args:
        slot: `executor=` of a step.
        bound: `executors=` of `with_options`: by slot an executor, or the name of a built-in one.
        step: Name of the step, for errors.

    Raises:
        WorkflowConfigurationError: Nobody filled the slot, what fills it is no executor, or a package is missing.
    """
    if slot is None:
        return None
    filled = bound.get(slot, slot if slot in BUILT_IN else None)
    if filled == "thread":
        return None
    if filled == "processes":
        return processes()
    if filled is None or isinstance(filled, str):
        where = f"Step {step!r} runs" if step else "A step runs"
        by = f"was filled with the word {filled!r}" if filled is not None else "nobody filled"
        close = near(slot, (*BUILT_IN, *bound), "There are")
        raise WorkflowConfigurationError(
            f"{where} in the slot {slot!r}, which {by}. Fill it with an executor: "
            f"with_options(executors={{{slot!r}: ProcessPoolExecutor(4)}}). {close}",
            slot=slot,
            step=step,
        )
    _refuse_no_executor(slot, filled)
    return filled  # type: ignore[no-any-return]


def _refuse_no_executor(slot: str, filled: Any) -> None:
    if isinstance(filled, type):
        mend = f"Make one: {filled.__name__}(...)."
    elif hasattr(filled, "get_executor"):
        mend = "Give what its get_executor() gives."
    elif not callable(getattr(filled, "submit", None)):
        mend = "Give a concurrent.futures.Executor: an object with `submit`."
    else:
        return
    raise WorkflowConfigurationError(f"{filled!r} cannot fill the slot {slot!r}: it is no executor. {mend}", slot=slot)


def runs_here(executor: Executor) -> bool:
    """Whether it runs functions on threads of this process, so that nothing has to be sent."""
    interpreters = getattr(concurrent.futures, "InterpreterPoolExecutor", ())  # threads, but nothing is shared
    return isinstance(executor, ThreadPoolExecutor) and not isinstance(executor, interpreters)


def submit_here(executor: Executor, step: str, job: Callable[[], None], lost: Callable[[StepLost], None]) -> Cancel:
    """Run a job on an executor of threads.

    Args:
        executor: One for which `runs_here`.
        step: Name of the step, for errors.
        job: It raises nothing.
        lost: Called if the job will not be run though nobody gave it up; on whatever thread.

    Raises:
        StepLost: The executor takes no more jobs.
    """
    given_up = threading.Event()
    try:
        future = executor.submit(job)
    except RuntimeError as error:
        raise _refused(step, error) from error

    def over(future: Future[None]) -> None:
        error = None if future.cancelled() else future.exception()
        if (error is not None or future.cancelled()) and not given_up.is_set():
            lost(_refused(step, error or CancelledError("its queue was emptied")))

    future.add_done_callback(over)

    def cancel() -> None:
        given_up.set()
        future.cancel()

    return cancel


def submit(executor: Executor, call: RemoteCall, done: Done) -> Cancel:
    """Send a step's function to an executor of processes, and return at once.

    Pickling, and the start of processes, are done on a thread of the engine's pool: both may take long, and who calls
    this is the loop.

    Args:
        executor: One for which not `runs_here`.
        call: What to run.
        done: Called exactly once, also after a cancel: then it only tells that nothing runs any more. Errors: the
            step's own, as it was, with the other process's traceback as a note; `StepFailure` with its words if it
            cannot be read here; `StepLost` if the process vanished or the executor refused; an error in words if
            something cannot be pickled; `AttemptOver` if it never began.

    Raises:
        RuntimeError: The system gives no more threads; `done` is not called.
    """
    flight = _Flight(executor, call, done)
    pool.submit(flight.begin)
    return flight.cancel


class _Flight:
    """One call on its way."""

    def __init__(self, executor: Executor, call: RemoteCall, done: Done) -> None:
        self._executor, self._call, self._done = executor, call, done
        self._future: Future[Back] | None = None
        #: Held till the end: the classes in it are looked for when the result comes.
        self._parcel: Parcel | None = None
        self._given_up = False
        self._lock = threading.Lock()

    def cancel(self) -> None:
        with self._lock:
            self._given_up = True
            future = self._future
        if future is not None:
            future.cancel()

    def begin(self) -> None:
        call = self._call
        args = call.args if call.owner is None else (call.owner, *call.args)
        try:
            self._refuse_given_up()
            self._parcel = packed_call(call.step, call.fn, args, call.kwargs)
            self._refuse_given_up()
        except BaseException as error:
            self._done(None, error)
            return
        home, hearing = channel().open(self._hear)
        key = os.getpid(), home.call
        remote.begun_here[key] = call.fn, args, call.kwargs

        def close() -> None:
            channel().close(home)
            remote.begun_here.pop(key, None)

        def over(future: Future[Back]) -> None:
            if not future.cancelled() and future.exception() is not None:
                hearing.wait_for_last_words()
            close()
            self._over(future, hearing)

        try:
            future = self._executor.submit(remote.run, self._parcel.data, home)
        except BaseException as error:  # any: it is somebody else's executor
            close()
            lost = _refused(call.step, error)
            lost.__cause__ = error
            self._done(None, lost)
            return
        with self._lock:
            self._future, given_up = future, self._given_up
        if given_up:
            future.cancel()
        future.add_done_callback(over)

    def _refuse_given_up(self) -> None:
        if self._given_up:
            raise AttemptOver(f"The attempt of step {self._call.step!r} was over before it began.")

    def _hear(self, said: Said) -> None:
        if self._given_up:
            return
        if not isinstance(said, Printed):
            self._call.progress(said.done, said.total, said.label)
        elif not self._call.take_output(said.text) and sys.stdout is not None:
            sys.stdout.write(said.text)

    def _over(self, future: Future[Back], hearing: Hearing) -> None:
        try:
            if self._given_up and future.cancelled():
                self._refuse_given_up()
            back = self._back(future)
            hearing.finish(back.said)
            result = self._result(back)
        except BaseException as error:
            self._done(None, error)
        else:
            self._done(result, None)

    def _back(self, future: Future[Back]) -> Back:
        """`remote.run` gives back whatever the step raises, so what the future raises is a loss."""
        step = self._call.step
        if future.cancelled():
            raise _refused(step, CancelledError("its queue was emptied"))
        try:
            return future.result()
        except BaseException as error:
            raise StepLost(
                f"The process that ran step {step!r} was lost ({_words(error)}). It may or may not have done its "
                "work. If it can do it twice, give the step a retry_policy.",
                step=step,
            ) from error

    def _result(self, back: Back) -> Any:
        step = self._call.step
        if back.unfit:
            raise WorkflowConfigurationError(
                f"Step {step!r} ran in another process, but {back.unfit}. Return what such a thing is made from, or "
                "leave `executor` out.",
                step=step,
                part=back.unfit,
            )
        if back.failure is not None:
            raise self._error(back, back.failure)
        if back.result is None:
            return of_here(back.value, self._call.class_of)
        try:
            return of_here(unpacked(back.result, has_classes=back.has_classes), self._call.class_of)
        except Exception as error:
            raise WorkflowRuntimeError(
                f"What step {step!r} returned in another process cannot be read here ({_words(error)}). "
                "Return events whose classes are known here.",
                step=step,
            ) from error

    def _error(self, back: Back, failure: Failure) -> BaseException:
        error: Any = back.value
        if back.error is not None:
            try:
                error = unpacked(back.error, has_classes=back.has_classes)
            except Exception:  # of a module that is not here, or made from other arguments than it keeps
                error = None
        if not isinstance(error, BaseException):
            name = failure.type.rpartition(":")[2]
            error = StepFailure(
                f"Step {self._call.step!r} raised {name} in another process: {failure.message}",
                step=self._call.step,
                type=failure.type,
            )
        error.add_note(f"In another process:\n{failure.traceback}".rstrip())
        return error  # type: ignore[no-any-return]


def _refused(step: str, error: BaseException) -> StepLost:
    return StepLost(
        f"Step {step!r} could not be started: its executor takes no calls ({_words(error)}). "
        "Fill the slot with one that is open; a pool that lost a process is broken for good, "
        "but the slot 'processes' makes itself anew.",
        step=step,
    )


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


class Processes(Executor):
    """loky's processes, made on first use, and again after one of them was lost.

    loky and not the standard pool: it starts clean interpreters (a fork of a kernel goes on with the cells as they
    were), and notices at once when one dies.
    """

    def __init__(self, max_workers: int | None = None) -> None:
        self._max_workers = max_workers
        self._pool: Executor | None = None
        self._ends_at_exit = False
        self._lock = threading.Lock()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        with self._lock:
            if self._pool is not None:
                try:
                    return self._pool.submit(fn, *args, **kwargs)
                except BrokenExecutor:  # it lost a process since
                    self._drop()
            self._pool = self._made()
            future = self._pool.submit(fn, *args, **kwargs)
            self._end_at_exit()
            return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes, also those at work; the next call starts new ones."""
        with self._lock:
            self._drop(wait)

    def _made(self) -> Executor:
        import loky  # only steps in other processes need it

        made: Executor = loky.ProcessPoolExecutor(
            self._max_workers, timeout=IDLE_S, initializer=remote.ignore_interrupts
        )
        return made

    def _end_at_exit(self) -> None:
        """A step that calculates for an hour would else hold the interpreter for that hour.

        What `threading` calls last in, first out comes before the pool's own wish to wait for its work, which is there
        since its first call; what `atexit` calls would come after it.
        """
        if not self._ends_at_exit:
            self._ends_at_exit = True
            getattr(threading, "_register_atexit", atexit.register)(partial(self.shutdown, False))

    def _drop(self, wait: bool = False) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=wait, kill_workers=True)  # type: ignore[call-arg]
            self._pool = None


_processes: Processes | None = None
_processes_lock = threading.Lock()


def processes() -> Processes:
    """The slot "processes", one for all runs.

    Raises:
        WorkflowConfigurationError: loky or cloudpickle is not installed.
    """
    global _processes  # noqa: PLW0603 - one a process
    if any(importlib.util.find_spec(name) is None for name in ("loky", "cloudpickle")):
        raise WorkflowConfigurationError(MISSING)
    with _processes_lock:
        if _processes is None:
            _processes = Processes()
        return _processes


__all__ = [
    "BUILT_IN",
    "Cancel",
    "ContextElsewhere",
    "Done",
    "Processes",
    "RemoteCall",
    "executor_for",
    "processes",
    "runs_here",
    "submit",
    "submit_here",
]
