"""One thread a store: it renews this process's lease, and hears when another process wrote."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING
from weakref import WeakSet

from flownb.errors import EngineLost
from flownb.runtime.stored import LEASE_S, look

if TYPE_CHECKING:
    from flownb.runtime.host import Host
    from flownb.runtime.runner import Runner
    from flownb.store.journal import Journal

#: Seconds between two looks; another process's answer waits so long at most.
LOOK_S = 0.1
_log = logging.getLogger("flownb")


class Watch:
    """Runs that are driven or looked at, and the thread that exists while there are any.

    A thread of its own: a step that computes for a minute must not lose the lease.
    """

    def __init__(self, journal: Journal, driver: str) -> None:
        self._journal, self._driver = journal, driver
        self._lock = threading.Lock()
        self._runners: WeakSet[Runner] = WeakSet()
        self._thread: threading.Thread | None = None
        self._version = -1
        self._is_needed = threading.Event()

    def add(self, runner: Runner) -> None:
        """From now on this run hears of what others write; the next look counts as news, for what they wrote before."""
        with self._lock:
            self._runners.add(runner)
            self._version = -1
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="flownb-store", daemon=True)
                self._thread.start()
            self._is_needed.set()

    def discard(self, runner: Runner) -> None:
        with self._lock:
            self._runners.discard(runner)

    def _run(self) -> None:
        renew_at = 0.0
        while True:
            with self._lock:
                if not self._runners:
                    self._is_needed.clear()
            self._is_needed.wait()
            try:
                if time.monotonic() >= renew_at:
                    self._journal.renew(self._driver, LEASE_S)
                    renew_at = time.monotonic() + LEASE_S / 3
                now = self._journal.version()
                with self._lock:
                    is_news, self._version = now != self._version, now
                if is_news:
                    self._tell()
            except Exception as error:
                if getattr(self._journal, "_closed", False):
                    return
                _log.debug("a look at the store failed: %s", error)  # it is tried again
            time.sleep(LOOK_S)

    def _tell(self) -> None:
        with self._lock:
            by_host: dict[Host, list[Runner]] = {}
            for runner in self._runners:
                by_host.setdefault(runner.host, []).append(runner)
        for host, runners in by_host.items():
            try:
                host.call(look, runners)
            except EngineLost:
                for runner in runners:
                    self.discard(runner)
