"""The time limit of one attempt of a step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from flownb.runtime.clock import Clock, Handle


class Deadline:
    """Counts while its attempt holds a worker and the gate is open (R3.22), and calls when the time is over.

    Args:
        clock: The run's.
        loop: The loop that drives the run.
        limit_s: Seconds.
        call: What to do then, on the loop's thread.
    """

    __slots__ = ("_call", "_clock", "_handle", "_loop", "_since", "left_s")

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop, limit_s: float, call: Callable[[], None]) -> None:
        self._clock, self._loop, self._call = clock, loop, call
        self.left_s = limit_s
        self._since = 0.0
        self._handle: Handle | None = None

    def run(self) -> None:
        """Go on counting."""
        if self._handle is None:
            self._since = self._clock.now()
            self._handle = self._clock.call_at(self._loop, self._since + max(0.0, self.left_s), self._call)

    def stop(self) -> None:
        """Count no more; what is left stays."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
            self.left_s -= max(0.0, self._clock.now() - self._since)
