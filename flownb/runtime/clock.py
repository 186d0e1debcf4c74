"""Where the time comes from. The reducer never asks; the runner writes it into ticks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Handle(Protocol):
    def cancel(self) -> object: ...


class Clock(Protocol):
    """Unix seconds, and calls at a moment."""

    def now(self) -> float: ...

    def call_at(self, loop: asyncio.AbstractEventLoop, when: float, call: Callable[[], None]) -> Handle: ...


class SystemClock:
    """The host's clock. A timer that fell due in the past fires at once."""

    now = staticmethod(time.time)

    #: asyncio's timers overflow somewhere above a month; long ones are set again.
    longest_s = 86_400.0

    def call_at(self, loop: asyncio.AbstractEventLoop, when: float, call: Callable[[], None]) -> Handle:
        return _Timer(self, loop, when, call)


class _Timer:
    __slots__ = ("_call", "_clock", "_handle", "_loop", "_when")

    def __init__(
        self, clock: SystemClock, loop: asyncio.AbstractEventLoop, when: float, call: Callable[[], None]
    ) -> None:
        self._clock, self._loop, self._when, self._call = clock, loop, when, call
        self._set()

    def _set(self) -> None:
        delay = self._when - self._clock.now()
        longest = self._clock.longest_s
        if delay > longest:
            self._handle = self._loop.call_later(longest, self._set)
        else:
            self._handle = self._loop.call_later(max(0.0, delay), self._fire)

    def _fire(self) -> None:
        if self._clock.now() < self._when:  # the loop's clock and the host's drift
            self._set()
        else:
            self._call()

    def cancel(self) -> None:
        self._handle.cancel()
