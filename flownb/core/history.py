"""Past states, by a checkpoint now and then and a fold from there.

Checkpoints are set by *work* (ticks and the events in them), not by ticks alone: one tick can fan out 10,000
events, and a fold across several of these would take as long as the run did.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from flownb.core.commands import AnyCommand
from flownb.core.reduce import advance, begin, is_first, reduce
from flownb.core.state import RunState
from flownb.core.ticks import EventsSent, StepFinished, Tick

WORK = 256
_WITH_EVENTS = frozenset({StepFinished, EventsSent})


class Passed(NamedTuple):
    """A tick that was reduced."""

    #: None before the first tick of a journal.
    before: RunState | None
    tick: Any
    after: RunState
    commands: list[AnyCommand]


def work_of(tick: Tick) -> int:
    """How much a tick costs to fold: it, and the events in it."""
    return 1 + len(tick.outs) if type(tick) in _WITH_EVENTS else 1  # type: ignore[attr-defined]


class History:
    """The states of a run at every tick.

    Args:
        journal: The run's ticks, oldest first; the list may grow, never change.
    """

    __slots__ = ("_journal", "_last", "_seqs", "_states", "_work")

    def __init__(self, journal: Sequence[Tick]) -> None:
        self._journal = journal
        # Lists from the first checkpoint on: most runs have none.
        self._seqs: Sequence[int] = ()
        self._states: Sequence[RunState] = ()
        self._work = 0
        self._last = 0

    def note(self, state: RunState, tick: Tick) -> None:
        """Tell of a tick as it is reduced, so that a live run never has to fold what it knew."""
        self._work += 1 + len(tick.outs) if type(tick) in _WITH_EVENTS else 1  # type: ignore[attr-defined]
        if self._work >= WORK:
            self._keep(state)

    def share(self, other: History, seq: int) -> None:
        """Take over what another one knows of the first `seq` ticks, which both have."""
        place = bisect_right(other._seqs, seq)
        self._seqs, self._states = other._seqs[:place], other._states[:place]
        self._last = self._seqs[-1] if place else 0

    def at(self, seq: int) -> RunState:
        """The state after tick `seq`.

        Raises:
            IndexError: The run has no such tick.
        """
        if not 1 <= seq <= len(self._journal):
            raise IndexError(f"This run has ticks 1 to {len(self._journal)}, not {seq}.")
        place = bisect_right(self._seqs, seq)
        if place:
            state, at = self._states[place - 1], self._seqs[place - 1]
        else:
            first = self._journal[0]
            assert is_first(first)
            (state, _), at = begin(first), 1
        for k in range(at, seq):
            tick = self._journal[k]
            state, _ = reduce(state, tick)
            if k + 1 > self._last:
                self.note(state, tick)
        return state

    def walk(self, start: int = 1, stop: int | None = None) -> Iterator[Passed]:
        """Every tick from `start` to `stop` (included; None: the last one that there is now), each with the states
        around it and its commands: one fold, whatever its length.

        Raises:
            IndexError: The run has no such ticks.
        """
        last = len(self._journal)
        stop = last if stop is None else stop
        if not (start >= 1 and start - 1 <= stop <= last):
            raise IndexError(f"This run has ticks 1 to {last}, not {start} to {stop}.")
        state = self.at(start - 1) if start > 1 else None
        for k in range(start - 1, stop):
            tick = self._journal[k]
            before = state
            state, commands = advance(before, tick)
            yield Passed(before, tick, state, commands)

    def _keep(self, state: RunState) -> None:
        if state.seq > self._last:
            if not isinstance(self._seqs, list) or not isinstance(self._states, list):
                self._seqs, self._states = [*self._seqs], [*self._states]
            self._seqs.append(state.seq)
            self._states.append(state)
            self._last = state.seq
        self._work = 0
