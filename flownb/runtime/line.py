"""Runs of one workflow that may not all live at once (`num_concurrent_runs`)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from flownb.runtime.stored import UNLOADED

if TYPE_CHECKING:
    from flownb.runtime.runner import Runner

Begin = Callable[[], object]


class Line:
    """Lets at most `limit` runs live; the others begin in the order in which they came, when one is over or nobody
    drives it here any more."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._live: set[Runner] = set()
        self._waiting: deque[tuple[Runner, Begin]] = deque()
        self._lock = threading.Lock()

    def enter(self, runner: Runner, begin: Begin) -> bool:
        """Let a run begin now, or when it is its turn.

        Args:
            runner: The run.
            begin: Called on its loop's thread.

        Returns:
            Whether it is its turn now.
        """
        runner.end.on_end(lambda: self._leave(runner))
        with self._lock:
            if runner not in self._live and len(self._live) >= self._limit:
                self._waiting.append((runner, begin))
                return False
            self._live.add(runner)
        runner.host.call(self._begin, runner, begin)
        return True

    def _begin(self, runner: Runner, begin: Begin) -> None:
        begin()

        def look() -> None:
            if runner.suspended and runner.suspended is not UNLOADED:
                runner.listeners.remove(look)
                self._leave(runner)

        runner.listeners.append(look)
        look()

    def _leave(self, runner: Runner) -> None:
        """A run is over, or put down; one that was cancelled in the line only leaves that."""
        following: list[tuple[Runner, Begin]] = []
        with self._lock:
            self._live.discard(runner)
            self._waiting = deque(entry for entry in self._waiting if entry[0] is not runner)
            while self._waiting and len(self._live) < self._limit:
                first = self._waiting.popleft()
                self._live.add(first[0])
                following.append(first)
        for other, begin in following:
            other.host.call(self._begin, other, begin)
