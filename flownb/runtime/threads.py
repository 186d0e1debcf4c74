"""Threads for plain `def` steps.

The standard pool joins its threads at exit, so one step that sleeps for an hour would hold the interpreter for that
hour; and a step that waits in a pool thread would starve the others. These threads are daemons, are made when no idle
one is there, and one that waits is not counted.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

LIMIT = 256
IDLE_S = 30.0

_log = logging.getLogger("flownb")


class ThreadPool:
    """Runs jobs on daemon threads, at most `limit` at work at once."""

    def __init__(self, name: str, limit: int = LIMIT) -> None:
        self._name, self._limit = name, limit
        self._jobs: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._idle = 0
        self._working = 0
        self._made = 0

    def submit(self, job: Callable[[], None]) -> None:
        """Run a job as soon as a thread is free. What a job raises is only logged."""
        with self._changed:
            self._jobs.append(job)
            if self._idle >= len(self._jobs):
                self._changed.notify()
            else:
                self._grow()

    def _grow(self) -> None:
        if self._jobs and self._working + self._idle < self._limit:
            self._made += 1
            self._idle += 1  # it counts as idle until it takes its first job
            threading.Thread(target=self._run, name=f"{self._name}-{self._made}", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._jobs:
                    if not self._changed.wait(IDLE_S) and not self._jobs:
                        self._idle -= 1
                        return
                job = self._jobs.popleft()
                self._idle -= 1
                self._working += 1
            try:
                job()
            except BaseException:
                # Jobs catch what user code raises; what comes here is a bug of ours, and the thread must live on:
                # it is counted as idle, so another job may be waiting for it.
                _log.exception("a job on %s failed", threading.current_thread().name)
            with self._changed:
                self._working -= 1
                self._idle += 1
            del job

    def waiting(self) -> _Waiting:
        """While a job waits (for a person, a timer) its thread is not counted: `with pool.waiting(): ...`."""
        return _Waiting(self)


class _Waiting:
    __slots__ = ("_pool",)

    def __init__(self, pool: ThreadPool) -> None:
        self._pool = pool

    def __enter__(self) -> None:
        with self._pool._changed:
            self._pool._working -= 1
            self._pool._grow()

    def __exit__(self, *exc: object) -> None:
        with self._pool._changed:
            self._pool._working += 1


pool = ThreadPool("flownb-step")
