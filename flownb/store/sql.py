"""What the stores in SQLite and PostgreSQL have in common: one SQL text, and what is done with it.

Each has a driver of its own, which says how a statement is run, what a transaction is, how rows are locked, what the
time is and what its errors mean. All else is here, and no statement holds a value: those are parameters.

A turn's ticks are one INSERT statement where possible, which also looks at the epochs of its runs: each call into a
database gives Python's lock away and may wait milliseconds for it beside a cell that computes. So the table of runs is
written only when a status changes; a run's last seq and time are looked up in the journal, by its index.

Where rows are locked (PostgreSQL; SQLite has one writer), those of `runs` come first, in the order of their ids: every
change of a run, its inbox and its waiting then has one order, and nobody waits in a circle.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cache, partial
from math import isfinite
from operator import itemgetter
from typing import Any, TypeVar

from flownb.core.reduce import is_first
from flownb.core.state import ENDED
from flownb.core.ticks import AnyTick, DefinitionAdopted, RunStarted
from flownb.errors import JournalDamaged
from flownb.store import sums
from flownb.store.codec import Codec
from flownb.store.drivers import is_imported
from flownb.store.journal import (
    ENDLESS,
    KINDS,
    Append,
    Claim,
    Entry,
    Holder,
    Kind,
    Raw,
    RunRow,
    Waits,
    Wakeup,
    definition_of,
    not_found,
    refuse_company,
    refuse_conflict,
    refuse_imported,
    refuse_lost,
    refuse_taken,
    refuse_there,
    request_closed,
    status_of,
    tells_status,
    token_taken,
)
from flownb.store.sums import chained

#: Rows of one statement; more are several statements in a transaction. SQLite before 3.32 takes 999 parameters.
ROWS_LIMIT = 120

# Those with {} take a list of rows or ids.
INSERT = "INSERT INTO journal (run_id, seq, at, kind, body, sum) VALUES {}"
#: The same, if so many runs have the epochs that are asked for; else nothing.
INSERT_IF_MINE = """
INSERT INTO journal (run_id, seq, at, kind, body, sum)
SELECT * FROM (VALUES {rows}) AS added
WHERE {count} = (SELECT count(*) FROM (
    SELECT 1 FROM runs WHERE {pairs} {lock}
) AS held)
"""
#: The same for the most common turn, one tick of one run: a third cheaper in SQLite.
INSERT_ONE_IF_MINE = """
INSERT INTO journal (run_id, seq, at, kind, body, sum)
SELECT ?, ?, ?, ?, ?, ? FROM runs WHERE run_id = ? AND epoch = ? {lock}
"""
NEW_RUNS = """
INSERT INTO runs (run_id, workflow, status, started_at, key, hash, parent, notebook, driver, epoch, ending) VALUES {}
"""
NEW_STATUS = "UPDATE runs SET status = ?, ending = '' WHERE run_id IN ({})"
NEW_END = "UPDATE runs SET status = ?, ending = ? WHERE run_id = ?"
NEW_DEFINITION = "UPDATE runs SET workflow = ?, key = ?, hash = ? WHERE run_id = ?"
STATES = """
SELECT run_id, driver, epoch, (SELECT max(seq) FROM journal WHERE journal.run_id = runs.run_id),
       (SELECT sum FROM journal WHERE journal.run_id = runs.run_id ORDER BY seq DESC LIMIT 1)
FROM runs WHERE run_id IN ({})
"""
LAST = "SELECT max(seq) FROM journal WHERE run_id = ?"
LASTS = """
SELECT run_id, (SELECT max(seq) FROM journal WHERE journal.run_id = runs.run_id) FROM runs WHERE run_id IN ({})
"""
#: How far a run's journal goes, and what its end was.
END = """
SELECT (SELECT max(seq) FROM journal WHERE run_id = ?),
       (SELECT sum FROM journal WHERE run_id = ? ORDER BY seq DESC LIMIT 1),
       (SELECT ending FROM runs WHERE run_id = ?)
"""
RAW = "SELECT seq, at, kind, body FROM journal WHERE run_id = ? AND seq <= ? ORDER BY seq"
#: Bodies in portions by run: a statement that reads a whole table would keep others from it.
BODIES = "SELECT body FROM {table} WHERE run_id = ?"
IDS = "SELECT DISTINCT run_id FROM {table}"
CAME = f"""
SELECT DISTINCT inbox.run_id FROM inbox JOIN runs ON runs.run_id = inbox.run_id
WHERE runs.status NOT IN ({", ".join(f"'{status}'" for status in sorted(ENDED))})
"""
READ = "SELECT seq, at, kind, body, sum FROM journal WHERE run_id = ? AND seq BETWEEN ? AND ? ORDER BY seq"
SUMS = "SELECT seq, at, kind, body, sum FROM journal WHERE run_id = ? ORDER BY seq"

HOLDER = """
SELECT runs.driver, runs.epoch, coalesce(drivers.lease_until, 0.0)
FROM runs LEFT JOIN drivers ON drivers.driver = runs.driver
WHERE runs.run_id = ?
"""
LEASE = "SELECT lease_until > {now} FROM drivers WHERE driver = ? {lock}"
TAKE = "UPDATE runs SET driver = ?, epoch = epoch + 1 WHERE run_id = ?"
FREE = "UPDATE runs SET driver = '' WHERE driver = ? AND driver <> ''"
NO_LEASE = "DELETE FROM drivers WHERE driver = ?"
RENEW = "UPDATE drivers SET lease_until = {now} + ? WHERE driver = ?"
NEW_LEASE = """
INSERT INTO drivers (driver, lease_until) VALUES (?, {now} + ?)
ON CONFLICT (driver) DO UPDATE SET lease_until = excluded.lease_until
"""

PUT = "INSERT INTO inbox (run_id, key, at, kind, body, sum) VALUES (?, ?, ?, ?, ?, ?)"
PUT_LAST = "SELECT max(n) FROM inbox WHERE run_id = ?"
PUT_SAME = "SELECT n FROM inbox WHERE run_id = ? AND key = ? AND at = ? AND kind = ? AND body = ?"
KEY_OF = "SELECT key FROM inbox WHERE run_id = ? AND n = ?"
EDIT = "UPDATE inbox SET at = ?, kind = ?, body = ?, sum = ? WHERE run_id = ? AND n = ?"
HAS_KEY = "SELECT 1 FROM inbox WHERE run_id = ? AND key = ? AND key <> ''"
IS_OPEN = "SELECT 1 FROM waiting WHERE run_id = ? AND kind = 'request' AND id = ?"
INBOX = "SELECT n, run_id, key, at, kind, body, sum FROM inbox WHERE run_id IN ({}) ORDER BY n"
INBOX_ALL = "SELECT n, run_id, key, at, kind, body, sum FROM inbox ORDER BY n"
INBOX_NUMBERS = "SELECT n FROM inbox WHERE run_id = ?"
ADMITTED = "DELETE FROM inbox WHERE run_id = ? AND n IN ({})"

#: The status is that of the journal as it stands: who changed one of them by hand is found.
IS_PROVEN = f"""
ending = CASE WHEN status IN ({", ".join(f"'{status}'" for status in sorted(ENDED))}) THEN coalesce((
    SELECT status || ' ' || CAST(seq AS TEXT) || ' ' || coalesce(CAST(sum AS TEXT), '')
    FROM journal WHERE journal.run_id = runs.run_id ORDER BY seq DESC LIMIT 1
), ' ') ELSE '' END
"""
RUNS = f"""
SELECT run_id, workflow, status, {IS_PROVEN}, started_at,
       (SELECT max(seq) FROM journal WHERE journal.run_id = runs.run_id),
       (SELECT at FROM journal WHERE journal.run_id = runs.run_id ORDER BY seq DESC LIMIT 1),
       key, hash, parent, notebook, driver
FROM runs WHERE {{where}} ORDER BY started_at DESC, run_id{{limit}}
"""
COUNTS = f"SELECT status, count(*), sum(CASE WHEN {IS_PROVEN} THEN 1 ELSE 0 END) FROM runs GROUP BY status"
# A partial index is used only where the query says that its rows lie in it.
FILTERS = {
    "run_id": ("run_id = ?", 1),
    "status": (f"status = ? AND {IS_PROVEN}", 1),
    "unproven": (f"(status = ? OR NOT {IS_PROVEN})", 1),
    "workflow": ("(workflow = ? OR key = ?)", 2),
    "notebook": ("notebook = ? AND notebook <> ''", 1),
    "parent": ("parent = ? AND parent <> ''", 1),
}

HAVING = "SELECT DISTINCT run_id FROM journal WHERE run_id IN ({}) AND kind IN ({})"

BY_KIND = "CASE kind WHEN 'timer' THEN 0 WHEN 'request' THEN 1 ELSE 2 END"
WAITING = f"SELECT run_id, kind, id, due, step, body FROM waiting WHERE {{}} ORDER BY run_id, {BY_KIND}, id"
NEXT = f"SELECT due, run_id, kind, id FROM waiting WHERE due IS NOT NULL ORDER BY due, run_id, {BY_KIND}, id LIMIT 1"
OPENED = """
INSERT INTO waiting (run_id, kind, id, due, step, body) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (run_id, kind, id) DO UPDATE SET due = excluded.due, step = excluded.step, body = excluded.body
"""
CLOSED = "DELETE FROM waiting WHERE run_id = ? AND kind = ? AND id = ?"
ENDED_RUNS = "DELETE FROM waiting WHERE run_id IN ({})"
TOKEN = "SELECT run_id, request FROM tokens WHERE hash = ?"
NEW_TOKEN = """
INSERT INTO tokens (hash, run_id, request) VALUES (?, ?, ?)
ON CONFLICT (hash) DO UPDATE SET run_id = excluded.run_id, request = excluded.request
WHERE (tokens.run_id = excluded.run_id AND tokens.request = excluded.request) OR NOT EXISTS (
    SELECT 1 FROM waiting
    WHERE waiting.run_id = tokens.run_id AND waiting.kind = 'request' AND waiting.id = tokens.request
)
"""

SUM = "SELECT sum FROM journal WHERE run_id = ? AND seq = ?"
CHECKPOINT = "SELECT seq, body, sum FROM checkpoints WHERE run_id = ? AND seq <= ? ORDER BY seq DESC LIMIT 1"
NEW_CHECKPOINT = """
INSERT INTO checkpoints (run_id, seq, body, sum) VALUES (?, ?, ?, ?)
ON CONFLICT (run_id, seq) DO UPDATE SET body = excluded.body, sum = excluded.sum
"""
NO_CHECKPOINTS = "DELETE FROM checkpoints"
META = "SELECT value FROM meta WHERE key = ?"
NEW_META = "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO NOTHING"
DELETES = tuple(
    f"DELETE FROM {table} WHERE run_id IN ({{}})"
    for table in ("runs", "journal", "inbox", "waiting", "tokens", "checkpoints")
)

Row = tuple[str, int, float, str, bytes]
#: With its sum.
Summed = tuple[str, int, float, str, bytes, int]
Written = tuple[Append, list[Row]]
Chained = tuple[Append, list[Summed]]
T = TypeVar("T")


class SqlJournal(ABC):
    """A store of journals in a database; for any threads, one at a time.

    Args:
        codec: Between ticks and rows.
    """

    #: Where it is, in words.
    place: str
    #: How rows of runs, and one lease, are locked until the end of the transaction; "" where one writes at a time.
    _lock_runs_words = ""
    _lock_words = ""
    #: The store's clock, as an expression.
    _now_words = ""
    #: What the database raises for a key that is taken.
    _is_taken: type[Exception]

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._lock = threading.RLock()
        self._closed = False
        #: The call is tried for the second time, since the connection broke at the first: it may be done already.
        self._again = False
        self._insert_one = INSERT_ONE_IF_MINE.format(lock=self._lock_runs_words)
        #: Of runs that were appended to from here and go on: seq, status and last sum as they stand in the store.
        self._told: dict[str, tuple[int, str, int]] = {}

    # What a driver has.

    @abstractmethod
    def _do(self, work: Callable[[], T], run_id: str = "") -> T:
        """Do something with the connection that no other thread uses meanwhile; its errors are ours."""

    @abstractmethod
    def _run(self, statement: str, parameters: Sequence[Any] = ()) -> Any:
        """The cursor of a statement."""

    @abstractmethod
    def _run_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None: ...

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[None]: ...

    def _lock_runs(self, run_ids: Sequence[str]) -> None:
        """Nobody else changes these runs before the end of the transaction."""
        return

    def _flush(self, durable: bool) -> None:
        """Let the transactions that follow be on the disk when they are done, or only safe from a kill."""
        return

    def _wake(self) -> None:
        """Tell other connections, with the end of the transaction, that they have something to look at."""
        return

    def _tidy(self, size: int) -> None:
        """What is due after a commit of so many bytes."""
        return

    # Writing.

    def append(self, entries: Sequence[Append], *, durable: bool = False) -> None:
        """As `Journal.append` says."""
        if not durable and len(entries) == 1 and self._append_next(entries[0]):
            return
        # First of all: a value that cannot be written leaves no open transaction behind.
        written = [(entry, self._rows(entry)) for entry in entries]
        self._do(lambda: self._append(written, durable))

    def _append(self, written: Sequence[Written], durable: bool) -> None:
        self._flush(durable)
        sure = [(entry, _chain(rows, self._told[entry.run_id][2])) for entry, rows in written if self._goes_on(entry)]
        last = self._append_fast(written, sure)
        if last is None:
            for entry, _ in written:
                self._told.pop(entry.run_id, None)
            try:
                last = self._append_all(written, ())
            except self._is_taken:
                # Another process was faster with the very first tick: now it is there to be seen.
                last = self._append_all(written, ())
        for entry, _ in written:
            self._remember(entry, last.get(entry.run_id))
        self._tidy(sum(len(body) for _, rows in written for *_, body in rows))

    def _append_next(self, entry: Append) -> bool:
        """The most common turn, one tick of one run that goes on, as `_append_fast` writes it but without lists of
        one. False: it is no such turn, or something stands against it, and nothing was written."""
        if len(entry.ticks) != 1 or not entry.epoch or not self._goes_on(entry):
            return False
        (tick,), run_id, seq, at = entry.ticks, entry.run_id, entry.after + 1, float(entry.ticks[0].at)
        kind, body = self._codec.encode(tick)
        sum_ = chained(self._told[run_id][2], seq, at, kind, body)

        def write() -> bool:
            self._flush(False)
            try:
                done = self._run(self._insert_one, (run_id, seq, at, kind, body, sum_, run_id, entry.epoch)).rowcount
            except self._is_taken:
                return False
            if done != 1:  # it is another driver's
                return False
            self._told[run_id] = (seq, entry.status, sum_)
            self._tidy(len(body))
            return True

        return self._do(write)

    def _append_fast(self, written: Sequence[Written], sure: Sequence[Chained]) -> dict[str, int] | None:
        """Write without looking, as far as this process wrote the tick before: that nobody else went on is all that
        can be wrong then, and the primary key and the epochs say so. None: it is, and nothing was written."""
        if not sure:
            return None
        try:
            if len(sure) == len(written):
                rows = sure[0][1] if len(sure) == 1 else [row for _, rows in sure for row in rows]
                if len(rows) <= ROWS_LIMIT:
                    self._insert(rows, [entry for entry, _ in sure])
                    return _last_sums(sure)
            return self._append_all(written, sure)
        except (self._is_taken, _NotMine):
            return None

    def _rows(self, entry: Append) -> list[Row]:
        encode, run_id, seq = self._codec.encode, entry.run_id, entry.after
        rows: list[Row] = []
        for tick in entry.ticks:
            seq += 1
            rows.append((run_id, seq, float(tick.at), *encode(tick)))
        return rows

    def _goes_on(self, entry: Append) -> bool:
        told = self._told.get(entry.run_id)
        if told is None or told[0] != entry.after or told[1] != entry.status or not entry.ticks:
            return False
        if entry.taken or entry.opened or entry.closed or entry.alone:
            return False
        return DefinitionAdopted not in map(type, entry.ticks)

    def _remember(self, entry: Append, last: int | None) -> None:
        if entry.status in ENDED:
            self._told.pop(entry.run_id, None)
        elif entry.ticks and last is not None:
            self._told[entry.run_id] = (entry.after + len(entry.ticks), entry.status, last)

    def _insert(self, rows: Sequence[Summed], entries: Sequence[Append]) -> None:
        """Raises _NotMine, and writes nothing, if one of the entries has another epoch than its run."""
        if not rows:
            return
        if len(rows) == len(entries) == 1 and entries[0].epoch:
            mine = entries[0]
            if self._run(self._insert_one, (*rows[0], mine.run_id, mine.epoch)).rowcount != 1:
                raise _NotMine
            return
        values = rows[0] if len(rows) == 1 else [value for row in rows for value in row]
        pairs = [value for entry in entries if entry.epoch for value in (entry.run_id, entry.epoch)]
        if not pairs:
            self._run(_insertion(len(rows)), values)
        elif self._run(
            _insertion_if_mine(len(rows), len(pairs) // 2, self._lock_runs_words), [*values, *pairs]
        ).rowcount != len(rows):
            raise _NotMine

    def _append_all(self, written: Sequence[Written], sure: Sequence[Chained]) -> dict[str, int]:
        """Write in a transaction, and look first at what stands against those that are not sure; gives last sums."""
        known = {entry.run_id for entry, _ in sure}
        unsure = [pair for pair in written if pair[0].run_id not in known]
        with self._transaction():
            self._lock_runs([entry.run_id for entry, _ in written])
            todo, there = self._unwritten(unsure)
            self._tell([(entry, rows) for entry, rows in todo if entry.ticks or tells_status(entry)])
            for some in _chunks(sure):
                rows = [row for _, rows in some for row in rows]
                first, *rest = _chunks(rows)
                self._insert(first, [entry for entry, _ in some])
                for more in rest:
                    self._insert(more, ())
            for chunk in _chunks([row for _, rows in todo for row in rows]):
                self._insert(chunk, ())
            self._change([entry for entry, _ in todo])
            if todo:
                self._wake()
        return {**there, **_last_sums(sure), **_last_sums(todo)}

    def _unwritten(self, written: Sequence[Written]) -> tuple[list[Chained], dict[str, int]]:
        """Those that are still to be written, and the last sums of those that are; raises what stands against one."""
        found: dict[str, tuple[str, int, int, int | None]] = {}
        for some in _chunks(written):
            statement = STATES.format(_list(some))
            for run_id, driver, epoch, last, sum_ in self._run(statement, [e.run_id for e, _ in some]).fetchall():
                found[run_id] = (driver, epoch, last or 0, sum_)
        todo: list[Chained] = []
        there: dict[str, int] = {}
        for entry, rows in written:
            driver, epoch, last, sum_ = found.get(entry.run_id, ("", 0, 0, None))
            if entry.run_id in found:
                refuse_lost(entry, driver, epoch)
            is_own = bool(entry.after or not entry.driver) or (driver, epoch) == (entry.driver, entry.epoch)
            if is_own and rows and last == entry.after + len(rows) and self._has(rows):
                if sum_ is not None:
                    there[entry.run_id] = sum_
                continue
            refuse_conflict(entry, last)
            if rows or entry.run_id in found:
                todo.append((entry, _chain(rows, sum_ if type(sum_) is int else sums.first(entry.run_id))))
        return todo, there

    def _has(self, rows: Sequence[Row]) -> bool:
        found = self._run(READ, (rows[0][0], rows[0][1], rows[-1][1])).fetchall()
        return [tuple(row[:4]) for row in found] == [row[1:] for row in rows]

    def _tell(self, written: Sequence[Chained]) -> None:
        """Keep the table of runs true: a statement for the new ones, one for each status, and one for each end."""
        new = [(*_run_values(entry), _ending(entry, rows)) for entry, rows in written if entry.after == 0]
        for some in _chunks(new, 90):
            self._run(NEW_RUNS.format(_marks(some)), [value for run in some for value in run])
        changed: dict[str, list[str]] = {}
        ended: list[tuple[str, str, str]] = []
        for entry, rows in written:
            if entry.after:
                if entry.status in ENDED:
                    ended.append((entry.status, _ending(entry, rows), entry.run_id))
                else:
                    changed.setdefault(entry.status, []).append(entry.run_id)
                spec = definition_of(entry.ticks)
                if spec is not None:
                    self._run(NEW_DEFINITION, (spec.name, spec.key, spec.hash, entry.run_id))
        for status, run_ids in changed.items():
            for ids in _chunks(run_ids):
                self._run(NEW_STATUS.format(_list(ids)), (status, *ids))
        if ended:
            self._run_many(NEW_END, ended)

    def _change(self, entries: Sequence[Append]) -> None:
        """Inbox, waiting and tokens."""
        for entry in entries:
            if entry.taken:
                self._take_out(entry)
            if entry.alone:
                there = {n for (n,) in self._run(INBOX_NUMBERS, (entry.run_id,)).fetchall()}
                refuse_company(entry, len(there.difference(entry.known)))
        for ids in _chunks([entry.run_id for entry in entries if entry.status in ENDED]):
            self._run(ENDED_RUNS.format(_list(ids)), ids)
        opened = [(entry.run_id, waits) for entry in entries if entry.status not in ENDED for waits in entry.opened]
        closed = [(entry.run_id, *key) for entry in entries for key in entry.closed]
        if closed:
            self._run_many(CLOSED, closed)
        if opened:
            self._run_many(OPENED, [(run_id, w.kind, w.id, w.due, w.step, w.body) for run_id, w in opened])
        for run_id, waits in opened:
            if waits.token and not self._run(NEW_TOKEN, (waits.token, run_id, waits.id)).rowcount:
                raise token_taken(run_id, waits.id)

    def _take_out(self, entry: Append) -> None:
        wanted = sorted(set(entry.taken))
        for some in _chunks(wanted):
            gone = self._run(ADMITTED.format(_list(some)), (entry.run_id, *some)).rowcount
            refuse_taken(entry, len(some) - gone)

    # Reading. Nothing is left open between two calls: a reader that lingers keeps SQLite's log from being shortened.

    def read(self, run_id: str, start: int = 1, stop: int | None = None) -> list[AnyTick]:
        """As `Journal.read` says."""
        last, before, rows, lost = self._do(lambda: self._read(run_id, start, stop), run_id)
        found = []
        for seq, row in enumerate(rows, start):
            found.append(self._tick(run_id, seq, row, before))
            before = row[4]
        if start + len(found) <= last:
            raise damaged(run_id, start + len(found), "the row is missing")
        if lost is not None:
            raise damaged(run_id, *lost)
        return found

    def _read(
        self, run_id: str, start: int, stop: int | None
    ) -> tuple[int, int | None, list[Any], tuple[int, str] | None]:
        """The number of the last row that should be there, the sum before the first, the rows, and what is lost."""
        # How far it goes first: ticks that another process appends meanwhile are then none that are missing.
        last, sum_, ending = self._run(END, (run_id,) * 3).fetchone()
        if last is None:
            raise not_found(run_id, self.place) if ending is None else damaged(run_id, 1, "the row is missing")
        self._number_of(run_id, last)
        lost = _lost(last, sum_, ending) if stop is None or stop > last else None
        last = last if stop is None else min(stop, last)
        rows = list(self._run(READ, (run_id, max(1, start - 1), max(start - 1, last))).fetchall())
        before = None
        if 1 < start <= last + 1:
            if not rows or rows[0][0] != start - 1:
                raise damaged(run_id, start - 1, "the row is missing")
            before = rows.pop(0)[4]
        return last, before, rows, lost

    def _tick(self, run_id: str, expected: int, row: tuple[Any, ...], before: int | None) -> AnyTick:
        seq, at, kind, body, _ = row
        if seq != expected:
            raise damaged(run_id, expected, "the row is missing")
        if not sums.is_sound(run_id, before, row):
            raise damaged(run_id, seq, f"its {kind} was changed after it was written, or a tick before it")
        tick = self._decode(run_id, seq, at, kind, body)
        if not is_first(tick) if seq == 1 else isinstance(tick, RunStarted):
            raise damaged(run_id, seq, f"{kind} is tick {seq}, and RunStarted is the first tick and no other")
        return tick

    def _decode(self, run_id: str, seq: int, at: Any, kind: Any, body: Any) -> AnyTick:
        if isinstance(body, str):  # edited by hand
            body = body.encode("utf-8", "surrogatepass")
        if type(kind) is not str or type(body) is not bytes:
            raise damaged(run_id, seq, "kind or body are of a wrong type")
        try:
            return self._codec.decode(seq, at, kind, body)
        except JournalDamaged as error:
            raise damaged(run_id, seq, error.reason) from error  # type: ignore[attr-defined]

    def last_seq(self, run_id: str) -> int:
        """As `Journal.last_seq` says."""
        return self._do(lambda: self._last(run_id), run_id)

    def last_seqs(self, run_ids: Sequence[str]) -> dict[str, int]:
        """As `Journal.last_seqs` says."""

        def last_seqs() -> list[Any]:
            return [row for some in _chunks(run_ids) for row in self._run(LASTS.format(_list(some)), some).fetchall()]

        return {run_id: self._number_of(run_id, last or 0) for run_id, last in self._do(last_seqs)}

    def _last(self, run_id: str) -> int:
        (last,) = self._run(LAST, (run_id,)).fetchone()
        return self._number_of(run_id, last or 0)

    def _number_of(self, run_id: str, last: Any) -> int:
        if type(last) is not int:
            raise damaged(run_id, 0, f"{last!r} stands where the number of a tick should")
        return last

    # Who drives.

    def claim(self, run_id: str, driver: str, ttl: float, *, was_lost: Callable[[str], bool] | None = None) -> Claim:
        """As `Journal.claim` says."""

        def claim() -> Claim:
            self._flush(False)
            with self._transaction():
                self._lock_runs([run_id])
                holder, epoch, _ = self._holder(run_id)
                last = self._last(run_id)
                if holder != driver:
                    if is_imported(holder):
                        return Claim(0, last, False, holder)
                    if holder and self._is_held(holder) and not (was_lost and was_lost(holder)):
                        self._lease(driver, ttl)
                        return Claim(0, last, False, holder)
                    # With its row a driver that only slept learns that it lost something.
                    self._run(NO_LEASE, (holder,))
                    self._run(TAKE, (driver, run_id))
                    epoch += 1
                self._lease(driver, ttl)
                return Claim(epoch, last, True, driver)

        return self._do(claim, run_id)

    def _is_held(self, driver: str) -> bool:
        found = self._run(LEASE.format(now=self._now_words, lock=self._lock_words), (driver,)).fetchone()
        return found is not None and bool(found[0])

    def _lease(self, driver: str, ttl: float) -> None:
        self._run(NEW_LEASE.format(now=self._now_words), (driver, float(ttl)))

    def renew(self, driver: str, ttl: float) -> bool:
        """As `Journal.renew` says."""

        def renew() -> bool:
            self._flush(False)
            if self._run(RENEW.format(now=self._now_words), (float(ttl), driver)).rowcount:
                return True
            self._lease(driver, ttl)
            return False

        return self._do(renew)

    def release(self, driver: str, run_ids: Sequence[str] | None = None) -> None:
        """As `Journal.release` says."""

        def release() -> None:
            self._flush(False)
            with self._transaction():
                if run_ids is None:
                    self._run(FREE, (driver,))
                    self._run(NO_LEASE, (driver,))
                    return
                self._lock_runs(run_ids)
                for some in _chunks(run_ids):
                    self._run(f"{FREE} AND run_id IN ({_list(some)})", (driver, *some))

        self._do(release)

    def holder(self, run_id: str) -> Holder:
        """As `Journal.holder` says."""
        return self._do(lambda: self._holder(run_id), run_id)

    def _holder(self, run_id: str) -> Holder:
        found = self._run(HOLDER, (run_id,)).fetchone()
        if found is None:
            raise not_found(run_id, self.place)
        driver, epoch, lease_until = found
        return Holder(_text(driver), _whole(epoch), _number(lease_until))

    # What came.

    def put(self, run_id: str, tick: AnyTick, *, key: str = "", request: int = 0) -> int:
        """As `Journal.put` says."""
        row = (run_id, key, float(tick.at), *self._codec.encode(tick))
        sum_ = chained(sums.first(f"{run_id} {key}"), 0, *row[2:])

        def put() -> int:
            self._flush(True)
            with self._transaction():
                self._lock_runs([run_id])
                refuse_imported(run_id, self._holder(run_id).driver)
                same = self._run(PUT_SAME, row).fetchone() if self._again else None
                if same is not None:
                    return int(same[0])
                if self._run(HAS_KEY, (run_id, key)).fetchone():
                    return 0
                if request and not self._run(IS_OPEN, (run_id, request)).fetchone():
                    raise request_closed(run_id, request)
                self._run(PUT, (*row, sum_))
                (n,) = self._run(PUT_LAST, (run_id,)).fetchone()
                self._wake()
                return int(n)

        return self._do(put, run_id)

    def edit(self, run_id: str, n: int, tick: AnyTick) -> bool:
        """As `Journal.edit` says."""
        row = (float(tick.at), *self._codec.encode(tick))

        def edit() -> bool:
            self._flush(True)
            with self._transaction():
                self._lock_runs([run_id])
                found = self._run(KEY_OF, (run_id, n)).fetchone()
                if found is not None:
                    sum_ = chained(sums.first(f"{run_id} {found[0]}"), 0, *row)
                    self._run(EDIT, (*row, sum_, run_id, n))
                return found is not None

        return self._do(edit, run_id)

    def inbox(self, run_ids: Iterable[str] | None) -> list[Entry]:
        """As `Journal.inbox` says."""
        wanted = None if run_ids is None else sorted(set(run_ids))

        def inbox() -> list[Any]:
            if wanted is None:
                return list(self._run(INBOX_ALL).fetchall())
            return [row for some in _chunks(wanted) for row in self._run(INBOX.format(_list(some)), some).fetchall()]

        rows = self._do(inbox)
        return [self._entry(*row) for row in sorted(rows, key=itemgetter(0))]

    def _entry(self, n: int, run_id: str, key: Any, at: Any, kind: Any, body: Any, sum_: Any) -> Entry:
        if sum_ is None or not sums.is_sound(f"{run_id} {key}", None, (0, at, kind, body, sum_)):
            raise damaged(run_id, 0, f"what came for it ({kind}) was changed after it was laid into its inbox")
        return Entry(n, run_id, self._decode(run_id, 0, at, kind, body))

    def came(self) -> list[str]:
        """As `Journal.came` says."""
        return sorted(str(row[0]) for row in self._do(partial(self._all, CAME)))

    # What can be asked.

    def row(self, run_id: str) -> RunRow | None:
        """As `Journal.row` says."""
        found = self._list_runs({"run_id": run_id})
        return found[0] if found else None

    def runs(
        self,
        *,
        status: str | None = None,
        workflow: str | None = None,
        notebook: str | None = None,
        parent: str | None = None,
        limit: int | None = None,
    ) -> list[RunRow]:
        """As `Journal.runs` says. The status of a run whose journal is damaged is "damaged".

        A status that somebody changed is not believed, but folded from the journal: such a run is in the list of all
        runs, and in no list of one status.
        """
        asked = {"workflow": workflow, "notebook": notebook, "parent": parent}
        wanted = {name: value for name, value in asked.items() if value is not None}
        if status is None:
            return self._list_runs(wanted, limit)
        told = self._list_runs({**wanted, "status": status}, limit) if status else []
        untold = [row for row in self._list_runs({**wanted, "status": ""}) if row.status == status]
        return sorted([*told, *untold], key=lambda row: (-row.started_at, row.run_id))[:limit]

    def _list_runs(self, wanted: dict[str, str], limit: int | None = None) -> list[RunRow]:
        where = " AND ".join(FILTERS[name][0] for name in wanted) or "1 = 1"
        values: list[Any] = [value for name, value in wanted.items() for _ in range(FILTERS[name][1])]
        if limit is not None:
            values.append(limit)
        statement = RUNS.format(where=where, limit="" if limit is None else " LIMIT ?")
        rows = self._do(lambda: self._run(statement, values).fetchall())
        return [self._run_row(*row) for row in rows if type(row[0]) is str]

    def _run_row(
        self,
        run_id: str,
        workflow: Any,
        status: Any,
        is_proven: Any,
        started_at: Any,
        seq: Any,
        at: Any,
        *rest: Any,
    ) -> RunRow:
        if not status or not is_proven:
            try:
                status = status_of(self.read(run_id))
            except Exception:  # unreadable, or rows that are sound one by one and make no sense together
                status = "damaged"
        seq = seq if type(seq) is int else 0
        return RunRow(run_id, _text(workflow), str(status), seq, _number(started_at), _number(at), *map(_text, rest))

    def counts(self) -> dict[str, int]:
        """As `Journal.counts` says."""
        rows = self._do(lambda: self._run(COUNTS).fetchall())
        found = {_text(status): int(proven) for status, _, proven in rows if status and proven}
        if any(not status or proven < count for status, count, proven in rows):
            for row in self._list_runs({"unproven": ""}):
                found[row.status] = found.get(row.status, 0) + 1
        return found

    def waiting(
        self, *, run_id: str | None = None, kind: Kind | None = None, due: float | None = None
    ) -> list[tuple[str, Waits]]:
        """As `Journal.waiting` says."""
        asked = (("run_id = ?", run_id), ("kind = ?", kind), ("due IS NOT NULL AND due <= ?", due))
        wanted = [(words, value) for words, value in asked if value is not None]
        statement = WAITING.format(" AND ".join(words for words, _ in wanted) or "1 = 1")
        rows = self._do(lambda: self._run(statement, [value for _, value in wanted]).fetchall())
        return [
            (_text(run_id), Waits(kind, _whole(id), None if due is None else _number(due), _text(step), _bytes(body)))
            for run_id, kind, id, due, step, body in rows
            if kind in KINDS
        ]

    def having(self, kinds: Collection[str], run_ids: Sequence[str]) -> list[str]:
        """As `Journal.having` says."""

        def having() -> set[Any]:
            return {
                row[0]
                for some in _chunks(run_ids)
                for row in self._run(HAVING.format(_list(some), _list([*kinds])), (*some, *kinds)).fetchall()
            }

        found = self._do(having) if kinds else set()
        return [run_id for run_id in run_ids if run_id in found]

    def next_wakeup(self) -> Wakeup | None:
        """As `Journal.next_wakeup` says."""
        found = self._do(lambda: self._run(NEXT).fetchone())
        if found is None or found[2] not in KINDS:
            return None
        due, run_id, kind, id = found
        return Wakeup(_number(due), _text(run_id), kind, _whole(id))

    def token(self, hash: str) -> tuple[str, int] | None:
        """As `Journal.token` says."""
        found = self._do(lambda: self._run(TOKEN, (hash,)).fetchone())
        return None if found is None else (_text(found[0]), _whole(found[1]))

    # What may be thrown away.

    def checkpoint(self, run_id: str, seq: int) -> tuple[int, bytes] | None:
        """As `Journal.checkpoint` says. One that was changed after it was written is none."""

        def checkpoint() -> tuple[int, bytes] | None:
            at = seq
            while (found := self._run(CHECKPOINT, (run_id, at)).fetchone()) is not None:
                at, body, sum_ = self._number_of(run_id, found[0]), _bytes(found[1]), found[2]
                if sum_ == self._sum_of(run_id, at, body):
                    return at, body
                at -= 1
            return None

        return self._do(checkpoint, run_id)

    def put_checkpoint(self, run_id: str, seq: int, body: bytes) -> None:
        """As `Journal.put_checkpoint` says."""

        def put() -> None:
            self._flush(False)
            self._run(NEW_CHECKPOINT, (run_id, seq, body, self._sum_of(run_id, seq, body)))

        self._do(put, run_id)

    def _sum_of(self, run_id: str, seq: int, body: bytes) -> int:
        """Of a checkpoint: it is of this very journal up to its tick."""
        found = self._run(SUM, (run_id, seq)).fetchone()
        before = found[0] if found is not None and type(found[0]) is int else sums.first(run_id)
        return chained(before & 0xFFFFFFFF, seq, 0.0, "checkpoint", body)

    def drop_checkpoints(self) -> None:
        """As `Journal.drop_checkpoints` says."""

        def drop() -> None:
            self._flush(False)
            self._run(NO_CHECKPOINTS)

        self._do(drop)

    # As it is stored.

    def raw(self, run_id: str, to: int = ENDLESS) -> list[Raw]:
        """As `Journal.raw` says."""

        def raw() -> list[Any]:
            if not self._last(run_id):
                raise not_found(run_id, self.place)
            return list(self._run(RAW, (run_id, to)).fetchall())

        rows = self._do(raw, run_id)
        return [(s, _number(at), str(kind), _bytes(body)) for s, at, kind, body in rows if type(s) is int]

    def sound(self, run_id: str) -> int:
        """As `Journal.sound` says."""
        last, before = 0, None
        for row in self._do(partial(self._all, SUMS, (run_id,)), run_id):
            if row[0] != last + 1 or not sums.is_sound(run_id, before, row):
                break
            last, before = row[0], row[4]
        return last

    def restore(self, runs: Sequence[tuple[RunRow, Sequence[Raw]]]) -> None:
        """As `Journal.restore` says."""
        ids = [row.run_id for row, _ in runs]
        ticks: list[Summed] = []
        values = []
        for r, raws in runs:
            rows = _chain([(r.run_id, *raw) for raw in raws], sums.first(r.run_id))
            ticks += rows
            ending = sums.ending(r.status, rows[-1][1], rows[-1][5]) if rows else ""
            values.append((
                r.run_id, r.workflow, r.status, r.started_at, r.key, r.hash, r.parent, r.notebook, r.driver, 0, ending,
            ))  # fmt: skip

        def restore() -> None:
            self._flush(True)
            with self._transaction():
                self._lock_runs(ids)
                for some in _chunks(ids):
                    for run_id, driver, *_ in self._run(STATES.format(_list(some)), some).fetchall():
                        refuse_there(run_id, driver, self.place)
                    for statement in DELETES:
                        self._run(statement.format(_list(some)), some)
                for new in _chunks(values, 90):
                    self._run(NEW_RUNS.format(_marks(new)), [value for run in new for value in run])
                for chunk in _chunks(ticks):
                    self._insert(chunk, ())
                self._wake()

        self._do(restore)

    def bodies(self) -> Iterator[bytes]:
        """As `Journal.bodies` says."""
        for table in ("journal", "inbox", "waiting", "checkpoints"):
            ids = [row[0] for row in self._do(partial(self._all, IDS.format(table=table)))]
            for run_id in ids:
                for (body,) in self._do(partial(self._all, BODIES.format(table=table), (run_id,))):
                    yield _bytes(body)

    def _all(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        return list(self._run(statement, parameters).fetchall())

    # The rest.

    def secret(self) -> bytes:
        """As `Journal.secret` says."""

        def secret() -> bytes:
            found = self._run(META, ("secret",)).fetchone()
            if found is None:
                self._flush(True)
                self._run(NEW_META, ("secret", os.urandom(32)))
                found = self._run(META, ("secret",)).fetchone()  # another process may have been faster
            return _bytes(found[0])

        return self._do(secret)

    def is_closed(self) -> bool:
        """As `Journal.is_closed` says."""
        return self._closed

    def shrink(self) -> None:
        """As `Journal.shrink` says: databases of servers do it by themselves."""
        return

    def delete(self, run_ids: Sequence[str]) -> None:
        """As `Journal.delete` says."""

        def delete() -> None:
            self._flush(False)
            for run_id in run_ids:
                self._told.pop(run_id, None)
            with self._transaction():
                self._lock_runs(run_ids)
                for some in _chunks(list(run_ids)):
                    for statement in DELETES:
                        self._run(statement.format(_list(some)), some)
                self._wake()

        self._do(delete)


class _NotMine(Exception):
    """The epoch of a run is another one; nothing was written."""


def _run_values(entry: Append) -> tuple[Any, ...]:
    spec = definition_of(entry.ticks)
    name, key, hash = ("", "", "") if spec is None else (spec.name, spec.key, spec.hash)
    started_at = float(entry.ticks[0].at)
    return (
        entry.run_id, name, entry.status, started_at, key, hash,
        entry.parent, entry.notebook, entry.driver, entry.epoch,
    )  # fmt: skip


def _chain(rows: Sequence[Row], before: int) -> list[Summed]:
    """Rows of one run with their sums, which go on from that of the row before."""
    found: list[Summed] = []
    for run_id, seq, at, kind, body in rows:
        before = chained(before, seq, at, kind, body)
        found.append((run_id, seq, at, kind, body, before))
    return found


def _last_sums(written: Sequence[Chained]) -> dict[str, int]:
    return {entry.run_id: rows[-1][5] for entry, rows in written if rows}


def _ending(entry: Append, rows: Sequence[Summed]) -> str:
    return sums.ending(entry.status, rows[-1][1], rows[-1][5])


def _lost(last: int, sum_: Any, ending: Any) -> tuple[int, str] | None:
    """What is wrong with the end of a journal, by what stands with the run's status: number and reason."""
    end = sums.ended_at(ending)
    if end is None or end == (last, "" if sum_ is None else str(sum_)):
        return None
    if end[0] == last:
        return last, "it is not the tick that the run ended with"
    return min(end[0], last) + 1, f"the run ended with tick {end[0]}, and its journal ends with tick {last}"


def _chunks(items: Sequence[T], size: int = ROWS_LIMIT) -> Iterator[Sequence[T]]:
    return (items[i : i + size] for i in range(0, len(items), size))


def _marks(rows: Sequence[Sequence[object]]) -> str:
    return ", ".join(["(" + ", ".join("?" * len(rows[0])) + ")"] * len(rows))


@cache
def _insertion(rows: int) -> str:
    return INSERT.format(_marks(["??????"] * rows))


@cache
def _insertion_if_mine(rows: int, pairs: int, lock: str) -> str:
    # Not `(run_id, epoch) IN (VALUES ...)`: SQLite makes a table of that first.
    mine = " OR ".join(["(run_id = ? AND epoch = ?)"] * pairs)
    return INSERT_IF_MINE.format(rows=_marks(["??????"] * rows), count=pairs, pairs=mine, lock=lock)


def _list(items: Sequence[object]) -> str:
    return ", ".join("?" * len(items))


def damaged(run_id: str, seq: int, reason: str) -> JournalDamaged:
    where = f"Tick {seq} of run {run_id!r}" if seq else f"Run {run_id!r}" if run_id else "The store"
    return JournalDamaged(f"{where} cannot be read: {reason}.", run_id=run_id, seq=seq, reason=reason)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) and isfinite(value) else 0.0


def _text(value: Any) -> str:
    return value if type(value) is str else ""


def _whole(value: Any) -> int:
    return value if type(value) is int else 0


def _bytes(value: Any) -> bytes:
    """A body as it is stored, also where somebody put something else there."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return bytes(value) if isinstance(value, (bytes, bytearray, memoryview)) else b""
