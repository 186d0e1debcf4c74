"""One handle for everything that has begun and is not over: `await` it, or `.result()`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from flownb.errors import WrongLoop

T = TypeVar("T")

_lock = threading.Lock()  # guards "is it over?" against "tell me"; held for a few instructions only


class Pending(Generic[T]):
    """What was begun at the call. Waiting for it is a wish of its own, and giving that up withdraws what can be.

    Args:
        what: A few words for errors: "the answer to Approve".
        loop: The loop that drives what is waited for; `.result()` inside it could never return.
        abandon: Called when a wait for it is given up.
        begin: Called when a wait for it begins and it is not over.
    """

    __slots__ = (
        "__weakref__",
        "_abandon",
        "_begin",
        "_call",
        "_calls",
        "_done",
        "_error",
        "_loop",
        "_trace",
        "_value",
        "_what",
        "blocking",
    )

    def __init__(
        self,
        what: str,
        loop: asyncio.AbstractEventLoop | None = None,
        abandon: Callable[[], None] | None = None,
        begin: Callable[[], None] | None = None,
    ) -> None:
        self._what = what
        self._loop = loop
        self._abandon = abandon
        self._begin = begin
        self._done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._trace: TracebackType | None = None
        #: Who is told of the end, and those who asked after; None while nobody did.
        self._call: Callable[[], None] | None = None
        self._calls: list[Callable[[], None]] | None = None
        #: Entered while `.result()` blocks a thread; lets a pool make another one meanwhile.
        self.blocking: Callable[[], AbstractContextManager[None]] = nullcontext

    def abandon(self) -> None:
        """Nobody waits any more: withdraw what can be withdrawn."""
        if not self._done and self._abandon is not None:
            self._abandon()

    def begin(self) -> None:
        """Somebody waits for it now."""
        if not self._done and self._begin is not None:
            self._begin()

    def done(self) -> bool:
        return self._done

    def resolve(self, value: T) -> None:
        """It is over, with this value. Only the first end counts."""
        self._end(value, None)

    def resolve_with(self, value: Callable[[], T]) -> None:
        """It is over, with what this function gives; not called if it is over already."""
        if not self._done:
            self._end(value(), None)

    def reject(self, error: BaseException) -> None:
        """It is over, with this error."""
        self._end(None, error)

    def _end(self, value: Any, error: BaseException | None) -> None:
        with _lock:
            if self._done:
                return
            self._value, self._error, self._done = value, error, True
            self._trace = error.__traceback__ if error is not None else None
            first, self._call = self._call, None
            calls, self._calls = self._calls, None
        if first is not None:
            first()
        for call in calls or ():
            call()

    def on_end(self, call: Callable[[], None]) -> None:
        """Call this at the end, on the thread that ends it; at once if it is over."""
        with _lock:
            if not self._done:
                if self._call is None and not self._calls:
                    self._call = call
                elif self._calls is None:
                    self._calls = [call]
                else:
                    self._calls.append(call)
                return
        call()

    def forget(self, call: Callable[[], None]) -> None:
        """Who asked for a call waits no longer; a handle that is polled for hours must not grow."""
        with _lock:
            if self._call == call:
                self._call = None
            elif self._calls is not None and call in self._calls:
                self._calls.remove(call)

    def __await__(self) -> Generator[Any, None, T]:
        if not self._done:
            self.begin()
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            tell = Teller(future)
            self.on_end(tell)
            try:
                yield from future
            except asyncio.CancelledError:
                self.forget(tell)
                self.abandon()
                raise
        return self._outcome()

    def result(self, timeout: float | None = None) -> T:
        """Block this thread until it is over.

        Args:
            timeout: Seconds; None waits for ever.

        Raises:
            TimeoutError: It was not over in time. Nothing is withdrawn.
            WrongLoop: This thread drives what is waited for, so it would wait for ever; `await` it.
        """
        if not self._done:
            self._refuse_own_loop()
            self.begin()
            over = threading.Event()
            tell = over.set
            self.on_end(tell)
            try:
                with self.blocking():
                    in_time = over.wait(timeout)
            finally:
                self.forget(tell)
            if not in_time:
                raise TimeoutError(f"{self._what} was not over after {timeout} s.")
        return self._outcome()

    def _refuse_own_loop(self) -> None:
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            return
        if running is self._loop:
            raise WrongLoop(
                f"Waiting here for {self._what} would block the loop that has to bring it. Use `await` in async code."
            )

    def _outcome(self) -> T:
        if self._error is not None:
            raise self._error.with_traceback(self._trace)  # each wait begins where it was rejected
        return self._value  # type: ignore[no-any-return]

    if not TYPE_CHECKING:  # a checker would take every misspelt name for one that there is

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("__"):
                raise AttributeError(name)
            raise AttributeError(
                f"This is a handle of {self._what}, not the value itself, so it has no {name!r}: "
                "await it, or call .result() in a def step."
            )

    def __repr__(self) -> str:
        if not self._done:
            return f"<pending: {self._what}>"
        return f"<{self._what}: {self._error!r}>" if self._error is not None else f"<{self._what}: {self._value!r}>"


class Teller:
    """Called on whatever thread, it resolves a future; half of what a `partial` takes, for thousands that wait."""

    __slots__ = ("_future",)

    def __init__(self, future: asyncio.Future[None]) -> None:
        self._future = future

    def __call__(self) -> None:
        tell_loop(self._future.get_loop(), self._future)


def tell_loop(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> None:
    """Resolve a future of a loop from whatever thread; at once if that loop runs here."""

    def wake() -> None:
        if not future.done():
            future.set_result(None)

    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        running = None
    if running is loop:
        wake()
        return
    try:
        loop.call_soon_threadsafe(wake)
    except RuntimeError:  # that loop is closed: nobody waits any more
        return
