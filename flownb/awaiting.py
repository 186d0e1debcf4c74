"""How a run is waited for: in a loop, in a cell, in a thread, and what to do where nobody can answer it."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Generator
from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from flownb.defaults import options
from flownb.errors import NobodyToAnswer, WrongLoop
from flownb.runtime.hearing import POLL_S, Wait
from flownb.runtime.host import has_front_end, in_kernel, is_kernel_ending, kernel_message
from flownb.runtime.interrupts import interrupts
from flownb.runtime.pending import Teller
from flownb.runtime.runner import LEAVE_S

if TYPE_CHECKING:
    from flownb.run import Run

R = TypeVar("R")

#: So many seconds after an interrupt a kernel that is being restarted has been told to end.
RESTART_S = 0.2
_LOOKS = 10
#: A bare await in a cell does not notice the interrupt button; one that looks up now and then does.
HEARTBEAT_S = 0.2
#: In a script an await that waits for a person says so after this time.
PATIENCE_S = 1.0


def until_over(run: Run[R]) -> Generator[Any, None, R]:
    """What `await run` does: wait for its end, and for what that cut off. One generator, for thousands may be awaited.

    Raises:
        KeyboardInterrupt: The cell that waits was interrupted; the run is cancelled, or goes on, as it was told.
        NobodyToAnswer: The run asks a person where nobody can look.
    """
    if not run.is_done():
        end = run._runner.end
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()
        tell = Teller(over)
        end.on_end(tell)
        try:
            if in_kernel():
                yield from _in_cell(run, over).__await__()
            elif refuses(run, here=False):  # it was told that nobody will answer (R4.69)
                yield from _until_refused(run, over).__await__()
            elif run._told_waiting:
                yield from over
            else:  # other code may hold the run and answer it: go on waiting, and say once what for (R4.68)
                patience = _patience_of(loop)
                patience.begin(run, over)
                try:
                    yield from over
                finally:
                    patience.end(over)
        finally:
            end.forget(tell)
    if run._runner.gone is not None:
        yield from until_gone(run).__await__()
    return run._outcome()


async def until_gone(run: Run[Any]) -> None:
    """Let the coroutines that a run's end cut off tidy up: a moment at most (R2.44)."""
    gone = run._runner.gone
    if gone is None or gone.done():
        return
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()
    tell = Teller(over)
    gone.on_end(tell)
    try:
        await asyncio.wait({over}, timeout=LEAVE_S)
    finally:
        gone.forget(tell)


async def _until_refused(run: Run[Any], over: asyncio.Future[None]) -> None:
    while not over.done():
        await asyncio.wait({over}, timeout=HEARTBEAT_S)
        if not over.done() and asks_person(run):
            refuse_nobody(run)


class _Patience:
    """The awaits of one loop: a single timer looks after all of them, since thousands may end within a moment."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        #: By what ends the await: the run; and since when it was not found waiting, the oldest first.
        self._awaits: dict[asyncio.Future[None], Run[Any]] = {}
        self._since: dict[asyncio.Future[None], float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, run: Run[Any], over: asyncio.Future[None]) -> None:
        self._awaits[over], self._since[over] = run, self._loop.time()
        if self._timer is None:
            self._look_in(PATIENCE_S)

    def end(self, over: asyncio.Future[None]) -> None:
        self._awaits.pop(over, None)
        self._since.pop(over, None)

    def _look_in(self, delay_s: float) -> None:
        # In a clean context: that of a step would keep its run alive until then.
        self._timer = self._loop.call_later(delay_s, self._look, context=Context())

    def _look(self) -> None:
        self._timer, now = None, self._loop.time()
        while self._since:
            over, since = next(iter(self._since.items()))
            if since + PATIENCE_S > now:
                self._look_in(since + PATIENCE_S - now)
                return
            del self._since[over]
            if _says(self._awaits[over]):
                del self._awaits[over]
            else:
                self._since[over] = now


_patience: dict[asyncio.AbstractEventLoop, _Patience] = {}


def _patience_of(loop: asyncio.AbstractEventLoop) -> _Patience:
    found = _patience.get(loop)
    if found is None:
        for other in list(_patience):
            if other.is_closed():
                _patience.pop(other, None)
        found = _patience[loop] = _Patience(loop)
    return found


def _says(run: Run[Any]) -> bool:
    """Say once on stderr what a run waits for that does not move by itself (R4.68); whether that was said."""
    runner = run._runner
    if runner.suspended or (runner.state.status == "waiting" and run.requests):
        run._told_waiting = True
        print(f"flownb: run {run.run_id!r}: {run.why()}", file=sys.stderr)
    return run._told_waiting


async def _in_cell(run: Run[Any], over: asyncio.Future[None]) -> None:
    """In slices, so that the interrupt button is noticed within one. Any other cancellation (a `wait_for`, a task
    that is cancelled) only ends this wait and leaves the run alone."""
    headless, wait, refusing = is_headless(), Wait(blocks=False), refuses(run, here=True)
    interrupts.begin()
    # The kernel cancels in the round of its loop after the signal, so one of the last slice may still be meant.
    before = now = interrupts.count
    try:
        while not over.done():
            await asyncio.wait({over}, timeout=HEARTBEAT_S)
            interrupts.renew()
            before, now = now, interrupts.count
            if refusing and not over.done():
                refuse_unheard(run, wait, headless=headless)
    except asyncio.CancelledError:
        if interrupts.count == before:
            raise
        said = "goes on. Await it again to get its result."
        if cancels_on_interrupt(run):
            await cancel_interrupted(run, "the cell was interrupted")
            said = "is cancelled."
        if not _is_cell_itself():
            raise  # a KeyboardInterrupt out of a task ends the loop, and with it the kernel
        raise KeyboardInterrupt(f"The cell was interrupted; run {run.run_id!r} {said}") from None
    finally:
        interrupts.end()


def _is_cell_itself() -> bool:
    """Whether the present task runs the cell, so that IPython takes what it raises, and not a task of the cell's."""
    task = asyncio.current_task()
    return task is not None and getattr(task.get_coro(), "__name__", "") == "run_cell_async"


def block_until_over(run: Run[Any], timeout: float | None) -> None:
    """Wait for a run's end in a thread.

    Raises:
        TimeoutError: It was not over in time.
        WrongLoop: This thread drives the run.
        NobodyToAnswer: The run asks a person, and while this call blocks nobody could answer.
    """
    runner, wait = run._runner, Wait(blocks=True)
    headless = is_headless()
    since = time.monotonic()
    end = None if timeout is None else since + timeout
    if runner.host.is_here() and not runner.host.loop.is_running() and not run.is_done():
        raise WrongLoop(
            f"This thread drives run {run.run_id!r}, and its event loop does not run now: nothing would move it. "
            "Await it inside that loop."
        )
    try:
        while not run.is_done():
            left = POLL_S if wait.is_served() else HEARTBEAT_S
            if end is not None:
                left = min(left, end - time.monotonic())
            if left <= 0:
                rest = "it is suspended, and only flow.resume(run_id) moves it" if runner.suspended else "it goes on"
                raise TimeoutError(f"Run {run.run_id!r} was not over after {timeout} s; {rest}.")
            with suppress(TimeoutError):
                runner.end.result(left)
                continue
            wait.poll()
            if refuses(run, here=in_kernel()):
                refuse_unheard(run, wait, headless=headless)
            elif not run._told_waiting and time.monotonic() - since >= PATIENCE_S:
                _says(run)
        if runner.gone is not None and not runner.host.is_here():
            with suppress(TimeoutError):
                runner.gone.result(LEAVE_S if end is None else min(LEAVE_S, max(0.0, end - time.monotonic())))
    except KeyboardInterrupt:
        if cancels_on_interrupt(run):
            cancel_interrupted_call(run, "the call was interrupted")
        raise


def _may_be_restart(run: Run[Any]) -> bool:
    """Whether an interrupt may be the beginning of a kernel's restart, after which the run is to go on: a front end
    that restarts a kernel interrupts it first. Until that is known nothing happens in the run."""
    runner = run._runner
    if runner.stored is None or not in_kernel() or runner.host.is_here():
        return False
    runner.host.call(runner.freeze)
    return True


async def cancel_interrupted(run: Run[Any], reason: str) -> None:
    """Cancel a run because the cell that awaits it was interrupted, unless the kernel is going down."""
    if _may_be_restart(run):
        for _ in range(_LOOKS):
            await asyncio.sleep(RESTART_S / _LOOKS)
            if is_kernel_ending():
                return
        run._runner.host.call(run._runner.thaw)
    run.cancel(reason)


def cancel_interrupted_call(run: Run[Any], reason: str) -> None:
    """The same for a call that blocks."""
    if _may_be_restart(run):
        for _ in range(_LOOKS):
            time.sleep(RESTART_S / _LOOKS)
            if is_kernel_ending():
                return
        run._runner.host.call(run._runner.thaw)
    run.cancel(reason)


def cancels_on_interrupt(run: Run[Any]) -> bool:
    return (run._settings.on_interrupt or options.on_interrupt) == "cancel"


def is_headless() -> bool:
    """Whether this is a kernel without a front end: nbconvert, papermill, a test of notebooks."""
    return in_kernel() and not has_front_end(kernel_message())


def refuses(run: Run[Any], *, here: bool) -> bool:
    """Whether waiting for a run that asks a person may raise; `here`: where nobody said what it does (R4.69)."""
    chosen = run._settings.on_nobody
    return here if chosen is None else bool(chosen == "error")


def refuse_unheard(run: Run[Any], wait: Wait, *, headless: bool) -> None:
    """Raises if the run waits for a person and no answer can come as long as this wait lasts."""
    if not asks_person(run):
        return
    if headless or run._settings.on_nobody == "error":
        refuse_nobody(run)
    elif why := wait.why_deaf():
        refuse_nobody(run, why)


def asks_person(run: Run[Any]) -> bool:
    """Whether the run waits for a person and nothing else; who reads its stream may answer, and a handler that is at
    it will."""
    questions = run._runner.questions
    if run._runner.state.status != "waiting" or questions.readers:
        return False
    requests = list(run.requests)
    return bool(requests) and not any(request.number in request._runner.questions.underway for request in requests)


def refuse_nobody(run: Run[Any], why: str = "") -> NoReturn:
    """Raises for a run that asks: nobody can look (R4.67), or `why` no click arrives, and what to do about it."""
    asks = "; ".join(
        f"{request.step} asks {request.question!r}"
        + (f" (its answer failed: {errors[request.number]})" if request.number in errors else "")
        for request in run.requests
        for errors in [request._runner.questions.errors]
    )
    run._settle_view()
    ahead = "flow.with_options(answers={Question: answer}).run(...)"
    if why:
        raise NobodyToAnswer(
            f"Run {run.run_id!r} waits for a person: {asks}. {why} Or give answers ahead, {ahead}. The run itself "
            'stays open; with_options(on_nobody="wait") waits for an answer from elsewhere.'
        )
    raise NobodyToAnswer(
        f"Run {run.run_id!r} waits for a person and nobody can answer here: {asks}. Give answers ahead, "
        f"{ahead}, or call run.answer(...) in another cell before this one waits. The run itself stays open."
    )
