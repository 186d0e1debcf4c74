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

    def note(self, state: RunState, tick: Tick) -> None:
        """As `History.note` says."""
        with self._lock:
            super().note(state, tick)

    def at(self, seq: int) -> RunState:
        """As `History.at` says."""
        with self._lock:
            return super().at(seq)
