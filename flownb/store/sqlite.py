"""Journals in an SQLite file.

Every commit survives the death of the process; a `durable` one, and with it all before it, also a power cut.

The primary key beside a rowid, not WITHOUT ROWID: new rows of many runs then lie together, and a commit for 100 runs
touches a few pages instead of 100 (measured: half the CPU, a quarter of the time).
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, TypeVar

from flownb.core.ticks import AnyTick
from flownb.errors import NotStorable, WorkflowConfigurationError, WorkflowRuntimeError
from flownb.store.codec import Codec
from flownb.store.files import hide_from_git, network_type_of
from flownb.store.schema import FORMAT, statements
from flownb.store.sql import SqlJournal, damaged

#: Marks the file as ours: "flow" in ASCII.
APPLICATION_ID = 0x666C6F77
WORDS = {"text": "TEXT", "blob": "BLOB", "serial": "INTEGER PRIMARY KEY AUTOINCREMENT"}
#: Before this version a checkpoint may lose pages that another connection commits at the very moment in which the log
#: begins anew (sqlite.org/wal.html, "The WAL-Reset Bug").
SAFE_VERSION = (3, 51, 3)
#: Such a log is copied into the file after so many pages, as SQLite does by itself. They are guessed: nothing tells
#: how much of the log is in use, for its file keeps its size (one that grows anew costs a third more for each append).
LOG_PAGES = 1000
PAGES_OF_COMMIT = 2
#: Fewer free pages stay in the file, for runs to come.
SHRINK_AT_PAGES = 256

FIRST_TICKS = "SELECT run_id, body FROM journal WHERE seq = 1"
TELL_DEFINITION = "UPDATE runs SET key = ?, hash = ? WHERE run_id = ?"

T = TypeVar("T")
Mode = Literal["auto", "wal", "delete"]


#: So long at most an answer or an event waits for others that write, in seconds.
PUT_S = 3.0


def _is_busy(error: BaseException) -> bool:
    """Whether another process was writing, so that nothing was written."""
    return getattr(error.__cause__, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


class SqliteJournal(SqlJournal):
    """A store of journals in one file; for any threads, one at a time.

    Args:
        path: The file; it and its folder are made where they are missing.
        codec: Between ticks and rows.
        mode: "wal" lets readers and one writer work side by side, but not on a network file system; "delete" works
            everywhere and is slower; "auto" is "wal" where that works.
        timeout_s: How long to wait for another process that writes, in seconds.
        clock: Gives Unix seconds; leases are measured by it.

    Raises:
        WorkflowConfigurationError: The file cannot be opened, is none of ours, or was written by a newer flownb.
    """

    _now_words = "flownb_now()"
    _is_taken = sqlite3.IntegrityError

    hears_ticks = True

    def __init__(
        self,
        path: str | Path,
        codec: Codec,
        *,
        mode: Mode = "auto",
        timeout_s: float = 30.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(codec)
        self.path = Path(path).absolute()
        self.place = str(self.path)
        self._timeout_s = timeout_s
        self._synchronous = ""
        self._log_pages = 0
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Autocommit: transactions begin and end where this file says so.
            self._db = sqlite3.connect(
                self.path, timeout=timeout_s, isolation_level=None, check_same_thread=False, cached_statements=256
            )
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(str(error)) from error
        try:
            self._distrust()
            self._db.create_function("flownb_now", 0, clock)
            self._prepare()
            self._choose_mode(mode)
            self._choose_checkpoints()
            self._sync("NORMAL")
            self._inode = self.path.stat().st_ino
        except (OSError, sqlite3.Error) as error:
            self._db.close()
            raise self._unusable(str(error)) from error
        except UnicodeDecodeError as error:  # of SQLite's own words, which quote a schema that is damaged
            self._db.close()
            raise self._unusable("its schema is damaged") from error
        except BaseException:
            self._db.close()
            raise

    @property
    def mode(self) -> str:
        """Its way of writing, in words."""
        return "WAL (write-ahead log)" if self._is_wal else "DELETE (rollback journal)"

    def check(self) -> str:
        """What SQLite finds when it looks through the file: "ok", or the first fault."""
        return str(self._do(lambda: self._pragma("quick_check(1)")))

    def set_patience(self, seconds: float) -> None:
        """How long calls from now on wait for another process that writes, in seconds."""
        self._timeout_s = seconds
        with self._lock:
            self._db.execute(f"PRAGMA busy_timeout = {round(1000 * seconds)}")

    def shrink(self) -> None:
        """As `Journal.shrink` says: the file becomes smaller, by a connection of its own, so that appends only wait."""
        if not self._do(self._is_loose):
            return
        try:
            with closing(sqlite3.connect(self.path, timeout=self._timeout_s, isolation_level=None)) as other:
                other.execute("PRAGMA wal_autocheckpoint = 0").fetchone()
                other.execute("VACUUM")
            with self._lock:
                if self._is_wal:
                    self._copy_log()
        except sqlite3.OperationalError:  # somebody writes: the next time
            return

    def _is_loose(self) -> bool:
        free: int = self._pragma("freelist_count")
        return free >= SHRINK_AT_PAGES and free >= self._pragma("page_count") // 4

    def version(self) -> int:
        """As `Journal.version` says."""
        return self._do(lambda: int(self._pragma("data_version")))

    def put(self, run_id: str, tick: AnyTick, *, key: str = "", request: int = 0) -> int:
        """As `Journal.put` says. Who brings an answer waits longer for others that write than a turn does, which holds
        up every run and comes again by itself; and in short tries, so that this process's turns get in between."""
        until = time.monotonic() + PUT_S
        while True:
            try:
                return super().put(run_id, tick, key=key, request=request)
            except WorkflowRuntimeError as error:
                if not _is_busy(error) or time.monotonic() > until:
                    raise
            time.sleep(0.01)

    def wait(self, seconds: float) -> None:
        """As `Journal.wait` says: nobody tells of a file, it is looked at."""
        time.sleep(seconds)

    def close(self) -> None:
        """Nothing can be written or read any more. Closing twice is no error."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._told.clear()
                self._db.close()

    # Statements and transactions.

    def _do(self, work: Callable[[], T], run_id: str = "") -> T:
        with self._lock:
            if self._closed:
                raise WorkflowRuntimeError(f"The store {self.place} is closed.")
            try:
                return work()
            except (sqlite3.DatabaseError, UnicodeError) as error:
                raise self._ours(error, run_id) from error

    def _run(self, statement: str, parameters: Sequence[Any] = ()) -> sqlite3.Cursor:
        return self._db.execute(statement, parameters)

    def _run_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        self._db.executemany(statement, rows)

    def _flush(self, durable: bool) -> None:
        if durable:
            self._look_for_file()
        self._sync("FULL" if durable or not self._is_wal else "NORMAL")
        self._log_pages += PAGES_OF_COMMIT

    # The file.

    def _distrust(self) -> None:
        """A file may come from anybody, or be damaged: what its schema calls is harmless, pages are looked at before
        they are used, and text that is none is read all the same, so that one bad row hides no other."""
        self._pragma("trusted_schema = OFF")
        self._pragma("cell_size_check = ON")
        self._db.text_factory = _text

    def _prepare(self) -> None:
        """Make the tables, or bring them to this format.

        Raises:
            WorkflowConfigurationError: They are not ours, or of a later format.
        """
        if self._format() != FORMAT:
            with self._transaction():
                # Once more: another process may have made them meanwhile.
                found = self._format()
                if found == FORMAT:
                    return
                for statement in statements(found, WORDS):
                    self._db.execute(statement)
                if found == 1:
                    self._tell_definitions()
                self._db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                self._db.execute(f"PRAGMA user_version = {FORMAT}")

    def _tell_definitions(self) -> None:
        for run_id, body in self._db.execute(FIRST_TICKS).fetchall():
            try:
                first = json.loads(body)
                spec = first.get("spec") or first["snapshot"]["spec"]
                values = (str(spec["key"]), str(spec.get("hash", "")), run_id)
            except (ValueError, TypeError, LookupError, AttributeError):  # damaged: then these columns stay empty
                continue
            self._db.execute(TELL_DEFINITION, values)

    def _format(self) -> int:
        # In this order: another process may make the tables between these, all at once, and then they are ours.
        tables = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        version = self._pragma("user_version")
        ours = self._pragma("application_id") == APPLICATION_ID
        if not ours and (version or tables):
            raise self._unusable("it is an SQLite database of something else")
        if version < 0:
            raise self._unusable(f"it is damaged: it says that its format is {version}")
        if version > FORMAT:
            raise self._unusable(
                f"it was written by a newer flownb (format {version}; this one knows {FORMAT}): update flownb"
            )
        return int(version)

    def _choose_checkpoints(self) -> None:
        self._checkpoints = self._is_wal and sqlite3.sqlite_version_info < SAFE_VERSION
        if self._checkpoints:
            self._pragma("wal_autocheckpoint = 0")

    def _tidy(self, size: int) -> None:
        if self._checkpoints:
            self._log_pages += size // 4096
            if self._log_pages > LOG_PAGES:
                with suppress(sqlite3.Error):  # the next one does it
                    self._copy_log()

    def _copy_log(self) -> None:
        """What SQLite does by itself, but so that nobody can commit meanwhile, and so begin the log anew.

        By a connection of its own, since none can do both at once. A checkpoint that takes the lock for writing itself
        goes on without it when it does not get it.
        """
        self._db.execute("BEGIN IMMEDIATE")
        try:
            with closing(sqlite3.connect(self.path, timeout=0, isolation_level=None)) as other:
                other.execute("SELECT count(*) FROM sqlite_master").fetchone()  # opens the log
                other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            self._log_pages = 0
        finally:
            self._db.execute("ROLLBACK")

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
        found = self._db.execute(f"PRAGMA {text}").fetchone()
        return None if found is None else found[0]

    @contextmanager
    def _transaction(self) -> Generator[None, None, None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                with suppress(sqlite3.Error):  # what went wrong before says more
                    self._db.execute("ROLLBACK")
            raise

    def _ours(self, error: Exception, run_id: str) -> Exception:
        """An error of SQLite as one of ours."""
        if isinstance(error, UnicodeEncodeError):
            return NotStorable(f"The id of a run is UTF-8 text, not {error.object!r}.")
        if isinstance(error, UnicodeDecodeError):  # of SQLite's own words, which quote what is damaged
            return damaged(run_id, 0, f"{self.place}: its file is damaged")
        if isinstance(error, sqlite3.OperationalError):
            return WorkflowRuntimeError(
                f"The store {self.place} cannot be used now: {error}. Nothing of this turn was written."
            )
        return damaged(run_id, 0, f"{self.place}: {error}")

    def _unusable(self, why: str) -> WorkflowConfigurationError:
        return WorkflowConfigurationError(f"The store {self.place} cannot be used: {why}.", place=self.place)


def _text(found: bytes) -> str:
    return found.decode("utf-8", "replace")


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
