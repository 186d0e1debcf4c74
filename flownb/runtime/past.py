"""A run's past, looked at on any thread while the host's thread adds to it."""

from __future__ import annotations

import threading

from flownb.core.history import History
from flownb.core.state import RunState

#: One for all runs: looks are rare, and a lock of its own would be most of what a run's past takes.
_lock = threading.RLock()


class Past(History):
    """The core's history, one caller at a time: a look sets checkpoints too. It folds no more than a stretch of
    work, so the run that has to wait for it waits some milliseconds at most."""

    __slots__ = ()

    def at(self, seq: int) -> RunState:
        """As `History.at` says."""
        with _lock:
            return super().at(seq)

    def _keep(self, state: RunState) -> None:
        # The live run notes every tick without the lock: the work that it counts may be off by some ticks, the
        # checkpoints may not.
        with _lock:
            super()._keep(state)
