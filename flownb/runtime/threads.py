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
        """Run a job as soon as a thread is free. What a job raises is only logged.

        Raises:
            RuntimeError: The system gives no more threads; the job will not be run.
        """
        with self._changed:
            self._jobs.append(job)
            if self._idle >= len(self._jobs):
                self._changed.notify()
                return
            try:
                self._grow()
            except BaseException:
                self._jobs.pop()
                raise

    def _grow(self) -> None:
        """One more thread, if a job waits for it and the limit allows it.

        Raises:
            RuntimeError: The system gives no more threads.
        """
        if self._jobs and self._working + self._idle < self._limit:
            thread = threading.Thread(target=self._run, name=f"{self._name}-{self._made + 1}", daemon=True)
            thread.start()  # it cannot take a job yet: the caller holds the lock
            self._made += 1
            self._idle += 1  # it counts as idle until it takes its first job

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
            try:
                self._pool._grow()
            except RuntimeError:  # the job is queued, and goes to the next thread that is free
                _log.exception("no thread could be added to %s", self._pool._name)

    def __exit__(self, *exc: object) -> None:
        with self._pool._changed:
            self._pool._working += 1


pool = ThreadPool("flownb-step")
