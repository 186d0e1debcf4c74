"""Who hears of every tick of a run, beside it: on a thread of its own, so that it can neither veto nor slow it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from flownb.core.ticks import AnyTick
from flownb.runtime.runner import Runner

_log = logging.getLogger("flownb")

#: An observer looks so often, in seconds, whether anybody drives the run at all.
_HEARTBEAT_S = 1.0


class Observer:
    """Calls a function with each committed tick, in order, until the run is over or `close()` is called.

    Args:
        runner: The run.
        call: Gets seq and tick. What it raises is logged, and it is called with the next one all the same.
        start: seq of the first tick to hear of; past ones come first.
    """

    def __init__(self, runner: Runner, call: Callable[[int, AnyTick], Any], start: int) -> None:
        self._runner = runner
        self._call = call
        #: seq of the next tick.
        self._seq = max(1, start)
        self._closed = False
        self._news = threading.Event()
        runner.listeners.append(self._news.set)
        # A daemon: a process does not wait for who only looks.
        self._thread = threading.Thread(target=self._work, name=f"flownb observer of {runner.run_id}", daemon=True)
        self._thread.start()

    def close(self, timeout: float | None = 5.0) -> None:
        """End it. Ticks that it has not heard of are left out.

        Args:
            timeout: Seconds to wait for a call that is under way; None waits as long as it takes.
        """
        self._closed = True
        self._news.set()
        self.wait(timeout)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it has heard of the run's last tick; whether it has, or is closed.

        Args:
            timeout: Seconds; None waits for ever.
        """
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _work(self) -> None:
        runner, news = self._runner, self._news
        try:
            while not self._closed:
                news.clear()
                is_over = runner.end.done()
                self._catch_up()
                if is_over:
                    return
                news.wait(_HEARTBEAT_S)
                runner.notice_loss()
        finally:
            runner.listeners.remove(news.set)

    def _catch_up(self) -> None:
        ticks = self._runner.ticks
        while not self._closed and self._seq <= len(ticks):
            seq, self._seq = self._seq, self._seq + 1
            try:
                self._call(seq, ticks[seq - 1])
            except BaseException:  # even SystemExit ends nothing but this call: the thread is ours
                _log.exception("an observer of run %s failed at tick %s", self._runner.run_id, seq)

    def __enter__(self) -> Observer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "ended" if not self._thread.is_alive() else f"next is tick {self._seq}"
        return f"<observer of run {self._runner.run_id}: {state}>"


def observe(runner: Runner, call: Callable[[int, AnyTick], Any], start: int = 1) -> Observer:
    """Let a function hear of every tick of a run; as `Observer` says."""
    return Observer(runner, call, start)
