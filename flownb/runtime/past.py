"""A run's past, looked at on any thread while the host's thread adds to it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from flownb.core.history import History
from flownb.core.state import RunState

if TYPE_CHECKING:
    from flownb.core.lineage import Lineage

#: One for all runs: looks are rare, and a lock of its own would be most of what a run's past takes.
_lock = threading.RLock()
#: No run ever waits for this one: it is held for as long as a whole journal takes to fold.
_lineage_lock = threading.RLock()


class Past(History):
    """The core's history, one caller at a time: a look sets checkpoints too. It folds no more than a stretch of
    work, so the run that has to wait for it waits some milliseconds at most."""

    __slots__ = ("_lineage",)

    #: Made on first need: few are asked for what their ticks led to.
    _lineage: Lineage

    def at(self, seq: int) -> RunState:
        """As `History.at` says."""
        with _lock:
            return super().at(seq)

    def effects(self, seq: int) -> tuple[int, ...]:
        """seqs of the ticks that a tick caused. The first call folds the whole journal, later ones what came since."""
        with _lineage_lock:
            try:
                lineage = self._lineage
            except AttributeError:
                from flownb.core.lineage import Lineage

                lineage = self._lineage = Lineage(self._journal)
            return lineage.effects(seq)

    def _keep(self, state: RunState) -> None:
        # The live run notes every tick without the lock: the work that it counts may be off by some ticks, the
        # checkpoints may not.
        with _lock:
            super()._keep(state)
