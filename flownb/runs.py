"""Stores: where runs are kept."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Literal

from flownb.errors import WorkflowConfigurationError, caller_level
from flownb.events import newest
from flownb.runtime.commit import Committer
from flownb.runtime.host import in_kernel
from flownb.store.journal import Journal, MemoryJournal, RunRow

#: How long the engine's thread waits for another process that writes, in seconds. It drives other runs and all panels
#: meanwhile; a run that cannot write is shown as blocked and tried again.
PATIENCE_S = 0.2

_open: dict[str, Store] = {}


class Store:
    """A place for runs: `Store("runs.db")`, or `Store(":memory:")`.

    Args:
        place: Path of an SQLite file, or ":memory:".
        unserializable: What a value that cannot be saved does: "error", or "live" (kept in memory, marked in the
            journal). A workflow's own word wins.
    """

    def __init__(self, place: str | Path, *, unserializable: Literal["error", "live"] = "error") -> None:
        self._committer = _committer(str(place), unserializable)

    @property
    def journal(self) -> Journal:
        return self._committer.journal

    @property
    def place(self) -> str:
        """Where it is, in words."""
        return self.journal.place

    def runs(self, *, status: str | None = None, workflow: str | None = None) -> list[RunRow]:
        """The runs, the newest first."""
        return [
            row
            for row in self.journal.runs()
            if (status is None or row.status == status) and (workflow is None or row.workflow == workflow)
        ]

    def history(self, run_id: str, from_: int = 1, to: int | None = None) -> list[Any]:
        """The ticks of a run.

        Raises:
            RunNotFound: No such run.
        """
        return list(self.journal.read(run_id, from_, to))

    def close(self) -> None:
        """Close the file. Runs that are still driven cannot write any more."""
        self.journal.close()

    def __repr__(self) -> str:
        return f"<Store {self.place}: {len(self.runs())} runs>"


def _committer(place: str, unserializable: Literal["error", "live"]) -> Committer:
    if place == ":memory:":
        return Committer(MemoryJournal())
    if "://" in place:
        raise WorkflowConfigurationError(
            f"{place.split('://', maxsplit=1)[0]!r} stores are not there yet; give a path or ':memory:'."
        )
    from flownb.store.codec import Codec
    from flownb.store.sqlite import SqliteJournal, open_default

    codec = Codec(newest, "live")
    path = Path(place)
    journal = open_default(path.parent, codec) if path == _default_place() else SqliteJournal(path, codec)
    journal.set_patience(PATIENCE_S)
    return Committer(journal, Codec(newest, "error").check, unserializable)


def _default_place() -> Path:
    """The store of a notebook."""
    return Path.cwd() / ".flownb" / "runs.db"


def store_for(wish: Any) -> Store | None:
    """The store of a new run: what was asked for, else in a kernel `.flownb/runs.db` in the working folder, else
    none (the run is kept in memory with its handle)."""
    if isinstance(wish, Store):
        return wish
    if wish is not None:
        place = str(wish)
        return _cached(place if place == ":memory:" else str(Path(place).resolve()), "error")
    if not in_kernel():
        return None
    try:
        return _cached(str(_default_place()), "live")
    except WorkflowConfigurationError as error:  # a read-only folder, say: the run is worth more than its record
        warnings.warn(f"Runs are kept in memory only: {error}", stacklevel=caller_level())
        return None


def _cached(place: str, unserializable: Literal["error", "live"]) -> Store:
    found = _open.get(place)
    if found is None:
        found = _open[place] = Store(place, unserializable=unserializable)
    return found
