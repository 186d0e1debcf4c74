"""Journals in an SQLite file.

One table of ticks, one of runs. A turn's ticks are one INSERT statement where possible: each call into SQLite gives
Python's lock away and may wait milliseconds for it beside a cell that computes. So the table of runs is written only
when a status changes; a run's last seq and time are looked up in the journal, by its index.

Every commit survives the death of the process; a `durable` one, and with it all before it, also a power cut.

The primary key beside a rowid, not WITHOUT ROWID: new rows of many runs then lie together, and a commit for 100 runs
touches a few pages instead of 100 (measured: half the CPU, a quarter of the time).
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from math import isfinite
from pathlib import Path
from typing import Any, Literal, TypeVar

from flownb.core.reduce import is_first
from flownb.core.state import ENDED
from flownb.core.ticks import AnyTick, RunForked, RunStarted
from flownb.errors import (
    JournalDamaged,
    NotStorable,
    RunNotFound,
    WorkflowConfigurationError,
    WorkflowRuntimeError,
)
from flownb.store.codec import Codec
from flownb.store.files import hide_from_git, network_type_of
from flownb.store.journal import Append, RunRow, refuse_conflict, row_of

FORMAT = 1
#: Marks the file as ours: "flow" in ASCII.
APPLICATION_ID = 0x666C6F77
#: Rows of one statement; more are several statements in a transaction. SQLite before 3.32 takes 999 parameters.
ROWS_LIMIT = 180

SCHEMA = f"""
CREATE TABLE journal (
    run_id TEXT NOT NULL,
    seq    INTEGER NOT NULL CHECK (seq > 0),
    at     REAL NOT NULL,
    kind   TEXT NOT NULL,
    body   BLOB NOT NULL,
    PRIMARY KEY (run_id, seq)
);
-- status is empty where nobody told it: it is then folded from the journal when asked for.
CREATE TABLE runs (
    run_id     TEXT NOT NULL PRIMARY KEY,
    workflow   TEXT NOT NULL,
    status     TEXT NOT NULL,
    started_at REAL NOT NULL
);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT};
"""
# Those that take a list of rows or ids in place of {}.
INSERT = "INSERT INTO journal (run_id, seq, at, kind, body) VALUES {}"
NEW_RUNS = "INSERT OR REPLACE INTO runs (run_id, workflow, status, started_at) VALUES {}"
NEW_STATUS = "UPDATE runs SET status = ? WHERE run_id IN ({})"
CONFLICTS = """
WITH asked (run_id, after) AS (VALUES {})
SELECT count(*) FROM asked
WHERE after <> coalesce((SELECT max(seq) FROM journal WHERE journal.run_id = asked.run_id), 0)
"""
LAST = "SELECT max(seq) FROM journal WHERE run_id = ?"
READ = "SELECT seq, at, kind, body FROM journal WHERE run_id = ? AND seq BETWEEN ? AND ? ORDER BY seq"
RUNS = """
SELECT run_id, workflow, status, started_at,
       (SELECT max(seq) FROM journal WHERE journal.run_id = runs.run_id),
       (SELECT at FROM journal WHERE journal.run_id = runs.run_id ORDER BY seq DESC LIMIT 1)
FROM runs ORDER BY started_at DESC, runs.rowid
"""

Row = tuple[str, int, float, str, bytes]
T = TypeVar("T")
Mode = Literal["auto", "wal", "delete"]


class SqliteJournal:
    """A store of journals in one file; for any threads, one at a time.

    Args:
        path: The file; it and its folder are made where they are missing.
        codec: Between ticks and rows.
        mode: "wal" lets readers and one writer work side by side, but not on a network file system; "delete" works
            everywhere and is slower; "auto" is "wal" where that works.
        timeout_s: How long to wait for another process that writes, in seconds.

    Raises:
        WorkflowConfigurationError: The file cannot be opened, is none of ours, or was written by a newer flownb.
    """

    def __init__(self, path: str | Path, codec: Codec, *, mode: Mode = "auto", timeout_s: float = 30.0) -> None:
        self.path = Path(path).absolute()
        self.place = str(self.path)
        self._codec = codec
        self._timeout_s = timeout_s
        self._lock = threading.RLock()
        self._closed = False
        self._synchronous = ""
        #: Of runs that were appended to from here and go on: seq and status as they stand in the file.
        self._told: dict[str, tuple[int, str]] = {}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Autocommit: transactions begin and end where this file says so.
            self._db = sqlite3.connect(
                self.path, timeout=timeout_s, isolation_level=None, check_same_thread=False, cached_statements=256
            )
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(str(error)) from error
        try:
            self._prepare()
            self._choose_mode(mode)
            self._sync("NORMAL")
            self._inode = self.path.stat().st_ino
        except (OSError, sqlite3.Error) as error:
            self._db.close()
            raise self._unusable(str(error)) from error
        except BaseException:
            self._db.close()
            raise

    def set_patience(self, seconds: float) -> None:
        """How long calls from now on wait for another process that writes, in seconds."""
        self._timeout_s = seconds
        with self._lock:
            self._db.execute(f"PRAGMA busy_timeout = {round(1000 * seconds)}")

    # Writing.

    def append(self, entries: Sequence[Append], *, durable: bool = False) -> None:
        """As `Journal.append` says."""
        # First of all: a value that cannot be written leaves no open transaction behind.
        rows = [row for entry in entries for row in self._rows(entry)]
        with self._lock, self._guard(), self._conflicts_of(entries):
            if durable:
                self._look_for_file()
            self._sync("FULL" if durable or not self._is_wal else "NORMAL")
            if len(rows) <= ROWS_LIMIT and all(self._goes_on(entry) for entry in entries):
                # This process wrote the tick before each of these: that nobody else went on is all that can be
                # wrong, and the primary key says so.
                self._insert(rows)
            else:
                self._append_all(entries, rows)
            for entry in entries:
                self._remember(entry)

    @contextmanager
    def _conflicts_of(self, entries: Sequence[Append]) -> Iterator[None]:
        """A seq that is taken, as a conflict of the entry that wanted it."""
        try:
            yield
        except sqlite3.IntegrityError:
            self._forget(entries)
            self._expect(entries)
            raise

    def _rows(self, entry: Append) -> list[Row]:
        encode, run_id = self._codec.encode, entry.run_id
        return [(run_id, seq, float(tick.at), *encode(tick)) for seq, tick in enumerate(entry.ticks, entry.after + 1)]

    def _goes_on(self, entry: Append) -> bool:
        return bool(entry.ticks) and self._told.get(entry.run_id) == (entry.after, entry.status)

    def _append_all(self, entries: Sequence[Append], rows: Sequence[Row]) -> None:
        # The key of the table judges those that go on, here too.
        unsure = [entry for entry in entries if not self._goes_on(entry)]
        self._forget(entries)
        with self._transaction():
            self._expect(unsure)
            for some in _chunks(rows):
                self._insert(some)
            self._tell([entry for entry in unsure if entry.ticks])

    def _insert(self, rows: Sequence[Row]) -> None:
        if rows:
            self._db.execute(INSERT.format(_marks(rows)), [value for row in rows for value in row])

    def _expect(self, entries: Sequence[Append]) -> None:
        """Raises `JournalConflict` for the first entry that does not follow its run's last tick."""
        for some in _chunks(entries):
            pairs = [(entry.run_id, entry.after) for entry in some]
            (conflicts,) = self._db.execute(
                CONFLICTS.format(_marks(pairs)), [value for pair in pairs for value in pair]
            ).fetchone()
            if conflicts:
                self._refuse(some)

    def _refuse(self, entries: Sequence[Append]) -> None:
        for entry in entries:
            refuse_conflict(entry, self._last(entry.run_id))

    def _tell(self, entries: Sequence[Append]) -> None:
        """Keep the table of runs true: a statement for the new ones and one for each status."""
        new = [_run_values(entry) for entry in entries if entry.after == 0]
        for some in _chunks(new):
            self._db.execute(NEW_RUNS.format(_marks(some)), [value for run in some for value in run])
        changed: dict[str, list[str]] = {}
        for entry in entries:
            if entry.after:
                changed.setdefault(entry.status, []).append(entry.run_id)
        for status, run_ids in changed.items():
            for ids in _chunks(run_ids):
                self._db.execute(NEW_STATUS.format(", ".join("?" * len(ids))), (status, *ids))

    def _remember(self, entry: Append) -> None:
        if entry.status in ENDED:
            self._told.pop(entry.run_id, None)
        elif entry.ticks:
            self._told[entry.run_id] = (entry.after + len(entry.ticks), entry.status)

    def _forget(self, entries: Sequence[Append]) -> None:
        for entry in entries:
            self._told.pop(entry.run_id, None)

    # Reading. Nothing is left open between two calls: a reader that lingers keeps the log from being shortened.

    def read(self, run_id: str, start: int = 1, stop: int | None = None) -> list[AnyTick]:
        """As `Journal.read` says."""
        with self._lock, self._guard(run_id):
            # The last seq first: ticks that another process appends meanwhile are then none that are missing.
            last = self._last(run_id)
            if not last:
                raise RunNotFound(f"There is no run {run_id!r} in {self.place}.", run_id=run_id)
            last = last if stop is None else min(stop, last)
            rows = self._db.execute(READ, (run_id, start, last)).fetchall()
        found = [self._tick(run_id, seq, row) for seq, row in enumerate(rows, start)]
        if start + len(found) <= last:
            raise _damaged(run_id, start + len(found), "the row is missing")
        return found

    def _tick(self, run_id: str, expected: int, row: tuple[Any, ...]) -> AnyTick:
        seq, at, kind, body = row
        if seq != expected:
            raise _damaged(run_id, expected, "the row is missing")
        if isinstance(body, str):  # edited by hand
            body = body.encode("utf-8", "surrogatepass")
        if type(kind) is not str or type(body) is not bytes:
            raise _damaged(run_id, seq, "kind or body are of a wrong type")
        try:
            tick = self._codec.decode(seq, at, kind, body)
        except JournalDamaged as error:
            raise _damaged(run_id, seq, error.reason) from error  # type: ignore[attr-defined]
        if not is_first(tick) if seq == 1 else isinstance(tick, RunStarted):
            raise _damaged(run_id, seq, f"{kind} is tick {seq}, and RunStarted is the first tick and no other")
        return tick

    def last_seq(self, run_id: str) -> int:
        """As `Journal.last_seq` says."""
        with self._lock, self._guard(run_id):
            return self._last(run_id)

    def _last(self, run_id: str) -> int:
        (last,) = self._db.execute(LAST, (run_id,)).fetchone()
        if last is not None and type(last) is not int:
            raise _damaged(run_id, 0, f"{last!r} stands where the number of a tick should")
        return last or 0

    def runs(self) -> list[RunRow]:
        """As `Journal.runs` says. The status of a run whose journal is damaged is "damaged"."""
        with self._lock, self._guard():
            rows = self._db.execute(RUNS).fetchall()
        return [self._run_row(*row) for row in rows]

    def _run_row(
        self, run_id: str, workflow: str, status: str, started_at: float, seq: int | None, at: float | None
    ) -> RunRow:
        if not status:
            try:
                return row_of(self.read(run_id))
            except Exception:  # unreadable, or rows that are sound one by one and make no sense together
                status = "damaged"
        return RunRow(str(run_id), str(workflow), str(status), seq or 0, _number(started_at), _number(at))

    def close(self) -> None:
        """Nothing can be written or read any more. Closing twice is no error."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._told.clear()
                self._db.close()

    # The file.

    def _prepare(self) -> None:
        """Make the tables, or find them.

        Raises:
            WorkflowConfigurationError: They are not ours, or of a later format.
        """
        if self._format() != FORMAT:
            with self._transaction():
                # Once more: another process may have made them meanwhile.
                if self._format() == 0:
                    for statement in filter(str.strip, SCHEMA.split(";")):
                        self._db.execute(statement)

    def _format(self) -> int:
        version = self._pragma("user_version")
        ours = self._pragma("application_id") == APPLICATION_ID
        if not ours and (version or self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]):
            raise self._unusable("it is an SQLite database of something else")
        if version > FORMAT:
            raise self._unusable(
                f"it was written by a newer flownb (format {version}; this one knows {FORMAT}): update flownb"
            )
        return int(version)

    def _choose_mode(self, wish: Mode) -> None:
        network = network_type_of(self.path) if wish == "auto" else ""
        mode = "delete" if wish == "delete" or network else self._switch("wal")
        if mode != "wal":
            mode = self._switch("delete")
        self._is_wal = mode == "wal"
        if not self._is_wal and wish != "delete":
            why = f"its folder is on {network}" if network else "its folder does not allow it"
            self.place += f" (slower, without a write-ahead log: {why})"

    def _switch(self, mode: str) -> str:
        # SQLite does not wait for its turn here by itself: two processes that open a new file at once collide.
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                return str(self._pragma(f"journal_mode = {mode}")).lower()
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def _look_for_file(self) -> None:
        # A file that was deleted while it is open takes everything, and nobody will ever read it.
        try:
            found = self.path.stat().st_ino
        except OSError:
            found = None
        if found != self._inode:
            raise WorkflowRuntimeError(
                f"The file of the store {self.place} was removed or replaced while it was open. Nothing of this turn "
                "was written. Restart the kernel to begin a new file."
            )

    def _sync(self, level: str) -> None:
        # Between transactions only: inside one SQLite refuses it.
        if level != self._synchronous:
            self._db.execute(f"PRAGMA synchronous = {level}")
            self._synchronous = level

    def _pragma(self, text: str) -> Any:
        return self._db.execute(f"PRAGMA {text}").fetchone()[0]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                with suppress(sqlite3.Error):  # what went wrong before says more
                    self._db.execute("ROLLBACK")
            raise

    @contextmanager
    def _guard(self, run_id: str = "") -> Iterator[None]:
        """Errors of SQLite as ours."""
        if self._closed:
            raise WorkflowRuntimeError(f"The store {self.place} is closed.")
        try:
            yield
        except UnicodeEncodeError as error:
            raise NotStorable(f"The id of a run is UTF-8 text, not {error.object!r}.") from error
        except sqlite3.OperationalError as error:
            raise WorkflowRuntimeError(
                f"The store {self.place} cannot be used now: {error}. Nothing of this turn was written."
            ) from error
        except sqlite3.DatabaseError as error:
            raise _damaged(run_id, 0, f"{self.place}: {error}") from error

    def _unusable(self, why: str) -> WorkflowConfigurationError:
        return WorkflowConfigurationError(f"The store {self.place} cannot be used: {why}.", place=self.place)


def open_default(folder: Path, codec: Codec) -> SqliteJournal:
    """The store of a notebook: `runs.db` in a folder of its own, which git ignores.

    Args:
        folder: Usually `.flownb` in the working folder; made where it is missing.

    Raises:
        WorkflowConfigurationError: The folder or the file cannot be made or used.
    """
    try:
        hide_from_git(folder)
    except OSError as error:
        raise WorkflowConfigurationError(f"The store's folder {folder} cannot be made: {error}.") from error
    return SqliteJournal(folder / "runs.db", codec)


def _run_values(entry: Append) -> tuple[str, str, str, float]:
    first = entry.ticks[0]
    name = first.spec.name if isinstance(first, RunStarted) else ""
    if isinstance(first, RunForked) and first.snapshot is not None:
        name = first.snapshot.spec.name
    return entry.run_id, name, entry.status, float(first.at)


def _chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[i : i + ROWS_LIMIT] for i in range(0, len(items), ROWS_LIMIT))


def _marks(rows: Sequence[Sequence[object]]) -> str:
    return ", ".join(["(" + ", ".join("?" * len(rows[0])) + ")"] * len(rows))


def _damaged(run_id: str, seq: int, reason: str) -> JournalDamaged:
    where = f"Tick {seq} of run {run_id!r}" if seq else "The store"
    return JournalDamaged(f"{where} cannot be read: {reason}.", run_id=run_id, seq=seq, reason=reason)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) and isfinite(value) else 0.0
