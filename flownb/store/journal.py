"""The journal: an append-only list of ticks per run, and the contract that every store of them keeps.

Rows are `(run_id, seq)` with `seq` dense from 1. An append names the seq that it expects to follow; a store that is
further than that refuses, and nothing of that entry is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from flownb.core.reduce import fold
from flownb.core.state import shown_status
from flownb.core.ticks import AnyTick
from flownb.errors import JournalConflict, RunNotFound


class Append(Struct, frozen=True):
    """Ticks to add to one run, after its tick `after`."""

    run_id: str
    after: int
    ticks: Sequence[AnyTick]
    #: The run's status after these ticks, as people read it (`shown_status`). A store that is not told folds the
    #: journal whenever it lists the run.
    status: str = ""


class RunRow(Struct, frozen=True):
    """What a store lists of a run without reading its journal."""

    run_id: str
    workflow: str
    status: str
    seq: int
    started_at: float
    updated_at: float


class Journal(Protocol):
    """A store of journals. Called from one thread at a time; every method is synchronous."""

    #: Where it is, in words, for people.
    place: str

    def append(self, entries: Sequence[Append], *, durable: bool = False) -> None:
        """Write all entries in one transaction, or none.

        Args:
            entries: At most one a run.
            durable: Flushed to the disk when it returns: a power cut loses nothing of it.

        Raises:
            JournalConflict: A run is at another seq than its entry expects.
            NotStorable: A value has no codec; names tick kind, event and field.
        """
        ...

    def read(self, run_id: str, start: int = 1, stop: int | None = None) -> list[AnyTick]:
        """Ticks `start` to `stop` (included; None: the last one).

        Raises:
            RunNotFound: No such run.
            JournalDamaged: A row cannot be read; names run, seq and reason.
        """
        ...

    def last_seq(self, run_id: str) -> int:
        """seq of a run's last tick, 0 if there is no such run."""
        ...

    def runs(self) -> list[RunRow]:
        """All runs, the newest first."""
        ...

    def close(self) -> None: ...


def refuse_conflict(entry: Append, last: int) -> None:
    """Raises JournalConflict unless the run's last tick is the one that an entry expects to follow."""
    if last != entry.after:
        raise JournalConflict(
            f"Run {entry.run_id!r} is at tick {last}, not at {entry.after}: somebody else drives it.",
            run_id=entry.run_id,
            expected=entry.after,
            found=last,
        )


class MemoryJournal:
    """Journals in this process. The model that the others are tested against."""

    place = ":memory:"

    def __init__(self) -> None:
        self._runs: dict[str, list[AnyTick]] = {}

    def append(self, entries: Sequence[Append], *, durable: bool = False) -> None:
        for entry in entries:
            refuse_conflict(entry, self.last_seq(entry.run_id))
        for entry in filter(lambda entry: entry.ticks, entries):
            self._runs.setdefault(entry.run_id, []).extend(entry.ticks)

    def read(self, run_id: str, start: int = 1, stop: int | None = None) -> list[AnyTick]:
        if run_id not in self._runs:
            raise RunNotFound(f"There is no run {run_id!r} in {self.place}.", run_id=run_id)
        return self._runs[run_id][start - 1 : stop]

    def last_seq(self, run_id: str) -> int:
        return len(self._runs.get(run_id, ()))

    def runs(self) -> list[RunRow]:
        return sorted(map(row_of, self._runs.values()), key=lambda row: row.started_at, reverse=True)

    def close(self) -> None:
        self._runs.clear()


def row_of(ticks: Sequence[AnyTick]) -> RunRow:
    """The row of a run, folded from its journal."""
    state = fold(ticks)
    return RunRow(state.run_id, state.spec.name, shown_status(state), state.seq, state.started_at, state.at)
