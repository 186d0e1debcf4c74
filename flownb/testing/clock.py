"""A clock that stands still until it is told: `flow.with_options(clock=ManualClock())`."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import threading
from collections.abc import Callable


class ManualClock:
    """Unix seconds that pass only by `advance`; a day's sleep takes no time in a test.

    Args:
        start: The first moment, in Unix seconds.

    >>> clock = ManualClock(100.0)
    >>> clock.advance(2.5)
    0
    >>> clock.now()
    102.5
    """

    def __init__(self, start: float = 1_000.0) -> None:
        self._now = start
        self._order = itertools.count()
        #: (due time, order of setting, call), soonest first.
        self._set: list[tuple[float, int, _Call]] = []
        self._lock = threading.Lock()

    def now(self) -> float:
        """Unix seconds."""
        return self._now

    def call_at(self, loop: asyncio.AbstractEventLoop, when: float, call: Callable[[], None]) -> _Call:
        """Call on the loop when the clock reaches `when`; soon, if it is past that already."""
        set_call = _Call(loop, call)
        with self._lock:
            if when > self._now:
                heapq.heappush(self._set, (when, next(self._order), set_call))
                return set_call
        loop.call_soon_threadsafe(set_call.run)
        return set_call

    def advance(self, seconds: float) -> int:
        """Let time pass, and make the calls that fall due, soonest first; how many there were.

        Calls for the loop that runs in this thread are made at once, each at its own moment; those for loops in
        other threads follow there. Code that a call wakes runs when its loop does: what it sets counts from the
        moment at which the clock stands by then, so advance once per sleep of a step that sleeps twice.

        Args:
            seconds: How much time passes, 0 or more.

        Raises:
            ValueError: `seconds` is below 0; no clock here runs backwards.
        """
        if seconds < 0:
            raise ValueError(f"seconds must be 0 or more, got {seconds!r}.")
        until = self._now + seconds
        here = _running_loop()
        made = 0
        while (due := self._next_due(until)) is not None:
            if due.loop is here:
                due.run()
            else:
                due.loop.call_soon_threadsafe(due.run)
            made += 1
        self._now = until
        return made

    def next_due(self) -> float | None:
        """When the next call falls due (Unix seconds), None if none is set."""
        with self._lock:
            self._forget_cancelled()
            return self._set[0][0] if self._set else None

    def _next_due(self, until: float) -> _Call | None:
        with self._lock:
            self._forget_cancelled()
            if not self._set or self._set[0][0] > until:
                return None
            self._now, _, due = heapq.heappop(self._set)
            return due

    def _forget_cancelled(self) -> None:
        while self._set and self._set[0][2].cancelled:
            heapq.heappop(self._set)


class _Call:
    """One call that was set."""

    __slots__ = ("_call", "cancelled", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
        self.loop = loop
        self._call = call
        self.cancelled = False

    def run(self) -> None:
        if not self.cancelled:
            self._call()

    def cancel(self) -> None:
        self.cancelled = True


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
