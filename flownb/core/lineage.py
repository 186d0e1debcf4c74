"""What a tick led to: the other direction of `causes`, which only a fold of all that came later can tell."""

from __future__ import annotations

from collections.abc import Sequence

from flownb.core.causes import causes
from flownb.core.reduce import advance
from flownb.core.state import RunState
from flownb.core.ticks import Tick


class Lineage:
    """Who caused what in a journal, folded once, as far as it was there when somebody asked last.

    Args:
        journal: The run's ticks, oldest first; the list may grow, never change.
    """

    __slots__ = ("_effects", "_journal", "_state")

    def __init__(self, journal: Sequence[Tick]) -> None:
        self._journal = journal
        self._state: RunState | None = None
        self._effects: dict[int, list[int]] = {}

    def effects(self, seq: int) -> tuple[int, ...]:
        """seqs of the ticks that a tick caused, as far as they have come."""
        state = self._state
        for k in range(state.seq if state is not None else 0, len(self._journal)):
            tick = self._journal[k]
            for cause in causes(tick, state):
                known = self._effects.setdefault(cause, [])
                if known[-1:] != [k + 1]:  # this fold may have been interrupted right here
                    known.append(k + 1)
            state = self._state = advance(state, tick)[0]
        return tuple(self._effects.get(seq, ()))
