"""One thread a store: it renews this process's lease, and hears when another process wrote."""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from weakref import WeakSet, ref

from flownb.errors import EngineLost, WorkflowRuntimeError
from flownb.runtime.stored import LEASE_S, check_leases, is_viewed, look, take_over_left

if TYPE_CHECKING:
    from flownb.runtime.host import Host
    from flownb.runtime.runner import Runner
    from flownb.store.journal import Journal

#: Seconds between two looks; another process's answer waits so long at most.
LOOK_S = 0.1
#: Seconds between two looks at least, however much is told.
_BREATH_S = 0.01
#: Seconds between two looks whether a run that this process would drive has lost its driver.
STAND_BY_S = 1.0
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
        self._leased_at = self._stood_by_at = float("-inf")
        atexit.register(_give_back, ref(self))

    def add(self, runner: Runner) -> None:
        """From now on this run hears of what others write; the next look counts as news, for what they wrote before."""
        with self._lock:
            self._runners.add(runner)
            self._version = -1
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="flownb-store", daemon=True)
                self._thread.start()

    def keep_lease(self) -> None:
        """A run is about to be driven: the lease is there before its first tick is."""
        if time.monotonic() > self._leased_at + LEASE_S / 2:
            self._leased_at = time.monotonic()
            try:
                self._renew()
            except WorkflowRuntimeError:  # the store cannot be used now: its thread tries again
                self._leased_at -= LEASE_S / 3

    def _renew(self) -> None:
        is_kept = self._journal.renew(self._driver, LEASE_S)
        self._leased_at = time.monotonic()
        if not is_kept:
            self._tell(check_leases)

    def discard(self, runner: Runner) -> None:
        with self._lock:
            self._runners.discard(runner)

    def give_back(self) -> None:
        """The process ends: another one need not wait until the lease is over."""
        try:
            self._journal.release(self._driver)
        except Exception as error:  # it runs out by itself
            _log.debug("the lease was not given back: %s", error)

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._runners:
                    self._thread = None
                    return
            try:
                # Who only looks has no lease, and writes nothing.
                if self._leased_at > 0 and time.monotonic() > self._leased_at + LEASE_S / 3:
                    self._renew()
                now = self._journal.version()
                with self._lock:
                    is_news, self._version = now != self._version, now
                if is_news:
                    self._tell(look)
                elif not self._journal.hears_ticks:
                    self._tell(look, viewers=True)
                if time.monotonic() > self._stood_by_at + STAND_BY_S:
                    self._stood_by_at = time.monotonic()
                    self._tell(take_over_left, viewers=True)
            except Exception as error:
                if self._journal.is_closed():  # nobody opens it again
                    return
                _log.debug("a look at the store failed: %s", error)  # it is tried again
            # Not at once: of several who write one after the other it is heard together.
            time.sleep(_BREATH_S)
            try:
                self._journal.wait(LOOK_S - _BREATH_S)
            except Exception as error:  # it cannot be reached: as for a look
                _log.debug("nothing can be heard from the store: %s", error)
                time.sleep(LOOK_S)

    def _tell(self, what: Callable[[Sequence[Runner]], None], *, viewers: bool = False) -> None:
        with self._lock:
            by_host: dict[Host, list[Runner]] = {}
            for runner in self._runners:
                if viewers and not is_viewed(runner):
                    continue
                by_host.setdefault(runner.host, []).append(runner)
        for host, runners in by_host.items():
            try:
                host.call(what, runners)
            except EngineLost:
                for runner in runners:
                    self.discard(runner)


def _give_back(watch: ref[Watch]) -> None:
    there = watch()
    if there is not None:
        there.give_back()
