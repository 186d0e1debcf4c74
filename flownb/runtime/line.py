"""Runs of one workflow that may not all live at once (`num_concurrent_runs`)."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flownb.runtime.runner import Runner


class Line:
    """Lets at most `limit` runs live; the others begin in the order in which they came, when one is over."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._live: set[Runner] = set()
        self._waiting: deque[Runner] = deque()
        self._lock = threading.Lock()

    def enter(self, runner: Runner) -> None:
        """Launch a run now, or when it is its turn."""
        runner.end.on_end(lambda: self._leave(runner))
        with self._lock:
            if len(self._live) >= self._limit:
                self._waiting.append(runner)
                return
            self._live.add(runner)
        runner.host.call(runner.launch)

    def _leave(self, runner: Runner) -> None:
        """A run is over; one that was cancelled in the line only leaves that."""
        following: list[Runner] = []
        with self._lock:
            self._live.discard(runner)
            if runner in self._waiting:
                self._waiting.remove(runner)
            while self._waiting and len(self._live) < self._limit:
                first = self._waiting.popleft()
                self._live.add(first)
                following.append(first)
        for first in following:
            first.host.call(first.launch)
