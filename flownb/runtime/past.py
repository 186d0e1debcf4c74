"""A run's past, looked at on any thread while the host's thread adds to it."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from flownb.core.history import History
from flownb.core.state import RunState
from flownb.core.ticks import Tick


class Past(History):
    """The core's history, one caller at a time: a look sets checkpoints too. It folds no more than a stretch of
    work, so the run that has to wait for it waits some milliseconds at most."""

    def __init__(self, journal: Sequence[Tick]) -> None:
        super().__init__(journal)
        self._lock = threading.RLock()

    def at(self, seq: int) -> RunState:
        """As `History.at` says."""
        with self._lock:
            return super().at(seq)

    def _keep(self, state: RunState) -> None:
        # The live run notes every tick without the lock: the work that it counts may be off by some ticks, the
        # checkpoints may not.
        with self._lock:
            super()._keep(state)
