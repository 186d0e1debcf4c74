"""What is SQLite's own: its file, damage, other processes, kills."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from flownb.core.ticks import EventArrived, GateClosed, GateOpened, StreamWritten
from flownb.errors import (
    JournalConflict,
    JournalDamaged,
    NotStorable,
    RunNotFound,
    WorkflowConfigurationError,
    WorkflowRuntimeError,
)
from flownb.store import sqlite as module
from flownb.store.codec import Codec
from flownb.store.journal import Append, Waits
from flownb.store.schema import FORMAT
from flownb.store.sql import ROWS_LIMIT
from flownb.store.sqlite import SqliteJournal, open_default
from tests.store.samples import Anything, Opaque, Row, out, run_of, started

ROOT = Path(__file__).resolve().parents[2]
Open = Callable[[], SqliteJournal]


def sql(path: Path, *statements: str) -> list[Any]:
    """The rows of the last statement, by a connection of its own."""
    db = sqlite3.connect(path, isolation_level=None)
    try:
        return [db.execute(statement).fetchall() for statement in statements][-1]
    finally:
        db.close()


# The file.


def test_the_default_store_is_hidden_from_git(tmp_path: Path, codec: Codec):
    """A notebook's store lies in a folder that git ignores as a whole."""
    store = open_default(tmp_path / ".flownb", codec)
    store.append([Append("r", 0, run_of(2))])
    store.close()

    assert (tmp_path / ".flownb" / ".gitignore").read_text() == "*\n"
    assert (store.place, store.path.name) == (str(tmp_path / ".flownb" / "runs.db"), "runs.db")


def test_another_process_reads_what_was_written(open_store: Open):
    """All is in the file; seq and status go on from there."""
    open_store().append([Append("r", 0, run_of(2))])
    second = open_store()
    second.append([Append("r", 2, run_of(3)[2:], status="running")])

    assert open_store().read("r") == run_of(3)
    assert [(row.seq, row.status) for row in open_store().runs()] == [(3, "running")]


def test_the_row_is_that_of_the_rules(open_store: Open):
    """R1.45: (run_id, seq, at, kind, body), key (run_id, seq); beside them the sum that proves them."""
    store = open_store()
    store.append([Append("r", 0, [started(), GateClosed(2.5, by="ann")])])

    columns = sql(store.path, "PRAGMA table_info(journal)")
    names = [("run_id", 1), ("seq", 2), ("at", 0), ("kind", 0), ("body", 0), ("sum", 0)]
    assert [(c[1], c[5]) for c in columns] == names
    rows = sql(store.path, "SELECT run_id, seq, at, kind, body FROM journal WHERE seq = 2")
    assert rows == [("r", 2, 2.5, "GateClosed", b'{"by":"ann"}')]


#: The tables of format 1, as they were written.
FIRST_FORMAT = """
CREATE TABLE journal (
    run_id TEXT NOT NULL,
    seq    INTEGER NOT NULL CHECK (seq > 0),
    at     REAL NOT NULL,
    kind   TEXT NOT NULL,
    body   BLOB NOT NULL,
    PRIMARY KEY (run_id, seq)
);
CREATE TABLE runs (
    run_id     TEXT NOT NULL PRIMARY KEY,
    workflow   TEXT NOT NULL,
    status     TEXT NOT NULL,
    started_at REAL NOT NULL
);
PRAGMA application_id = 1718382455;
PRAGMA user_version = 1;
"""


def test_a_file_of_the_first_format_goes_on(tmp_path: Path, open_store: Open, codec: Codec):
    """It gets the new tables, and its runs what their first ticks tell; a damaged one is no hindrance."""
    db = sqlite3.connect(tmp_path / "runs.db")
    db.executescript(FIRST_FORMAT)
    for run_id in ("r", "s"):
        rows = [(run_id, seq, tick.at, *codec.encode(tick)) for seq, tick in enumerate(run_of(3, run_id), 1)]
        db.executemany("INSERT INTO journal VALUES (?, ?, ?, ?, ?)", rows)
        db.execute("INSERT INTO runs VALUES (?, 'Sample', 'paused', 1.0)", (run_id,))
    db.execute("UPDATE journal SET body = 'oops' WHERE run_id = 's' AND seq = 1")
    db.commit()
    db.close()

    store = open_store()
    assert sql(store.path, "PRAGMA user_version") == [(FORMAT,)] == [(2,)]
    assert store.read("r") == run_of(3)
    assert [(r.run_id, r.status, r.key, r.hash, r.seq) for r in store.runs()] == [
        ("r", "paused", "m:Sample", "cd", 3),
        ("s", "paused", "", "", 3),
    ]
    assert store.claim("r", "d", 60).epoch == 1
    store.append([Append("r", 3, [GateClosed(9.0)], "running", 1, opened=[Waits("timer", 1, 5.0)])])
    assert open_store().last_seq("r") == 4


def test_processes_that_bring_one_file_to_this_format_at_once_agree(tmp_path: Path, open_store: Open):
    """Once, in one transaction."""
    db = sqlite3.connect(tmp_path / "runs.db")
    db.executescript(FIRST_FORMAT)
    db.close()
    processes = [appender(tmp_path / "runs.db", f"run {i}", 3) for i in range(3)]
    for process in processes:
        process.communicate(timeout=100)

    assert [process.returncode for process in processes] == [0] * 3
    assert len(open_store().runs()) == 3


def test_the_log_is_copied_while_nobody_can_write(open_store: Open, monkeypatch: pytest.MonkeyPatch):
    """A checkpoint beside a commit may lose pages before SQLite 3.51.3: the store makes its own, and the log is used
    again instead of growing."""
    monkeypatch.setattr(module, "SAFE_VERSION", (99,))
    monkeypatch.setattr(module, "LOG_PAGES", 100)
    store, other = open_store(), open_store()
    copied: list[int] = []

    def closing_later(made: sqlite3.Connection) -> Any:
        with pytest.raises(WorkflowRuntimeError, match="locked"):
            other.put("r", GateClosed(1.0))
        copied.append(store.last_seq("r"))
        return closing(made)

    monkeypatch.setattr(module, "closing", closing_later)
    other.set_patience(0.0)
    ticks = run_of(1001)
    for seq in range(1001):
        store.append([Append("r", seq, ticks[seq : seq + 1], "running")])

    assert store._pragma("wal_autocheckpoint") == 0
    assert len(copied) > 10
    assert Path(f"{store.path}-wal").stat().st_size < 250 * 4120
    assert other.read("r") == ticks
    assert sql(store.path, "PRAGMA integrity_check") == [("ok",)]


def test_a_reader_that_lingers_stops_nobody(open_store: Open, monkeypatch: pytest.MonkeyPatch):
    """The log grows as long as it looks, and is copied afterwards."""
    monkeypatch.setattr(module, "SAFE_VERSION", (99,))
    monkeypatch.setattr(module, "LOG_PAGES", 50)
    store = open_store()
    store.append([Append("r", 0, run_of(1), "running")])
    reader = sqlite3.connect(store.path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM journal").fetchall()
    for seq in range(1, 200):
        store.append([Append("r", seq, [GateClosed(1.0 + seq)], "running")])
    grown = Path(f"{store.path}-wal").stat().st_size
    reader.close()
    for seq in range(200, 400):
        store.append([Append("r", seq, [GateClosed(1.0 + seq)], "running")])

    assert Path(f"{store.path}-wal").stat().st_size < grown + 100 * 4120
    assert store.last_seq("r") == 400


def test_what_is_asked_goes_by_index(open_store: Open):
    """R7.13: no query looks at rows that it does not give."""
    store = open_store()
    asked: list[str] = []
    store._db.set_trace_callback(asked.append)
    uses: list[Callable[[], object]] = [
        lambda: store.runs(status="running", limit=3),
        lambda: store.runs(workflow="w", limit=3),
        lambda: store.runs(notebook="n"),
        lambda: store.runs(parent="r"),
        lambda: store.runs(limit=3),
        lambda: store.row("r"),
        lambda: store.waiting(run_id="r"),
        lambda: store.waiting(kind="request"),
        lambda: store.waiting(due=5.0),
        store.next_wakeup,
        lambda: store.token("h"),
        lambda: store.inbox(["r"]),
        lambda: store.checkpoint("r", 5),
        store.counts,
        lambda: store.release("d"),
        lambda: store.delete(["r"]),
    ]
    for use in uses:
        use()
    store._db.set_trace_callback(None)
    texts = [text for text in asked if "FROM" in text or "UPDATE" in text]
    plans = {text: sql(store.path, f"EXPLAIN QUERY PLAN {text}") for text in texts}

    assert len(plans) > 18
    for text, plan in plans.items():
        for *_, step in plan:
            # A scan that ends at its LIMIT, or that counts, goes along an index.
            is_short = "USING" in step and ("LIMIT" in text or "count" in text)
            assert not step.startswith("SCAN") or is_short, (text, plan)


def test_a_newer_format_is_refused(open_store: Open):
    """In words that say what to do; nothing is changed."""
    path = open_store().path
    sql(path, f"PRAGMA user_version = {FORMAT + 1}")

    with pytest.raises(WorkflowConfigurationError, match=r"newer flownb .* update flownb"):
        open_store()
    assert sql(path, "PRAGMA user_version") == [(FORMAT + 1,)]


@pytest.mark.parametrize("content", ["CREATE TABLE cats (name)", "PRAGMA user_version = 1"])
def test_a_database_of_something_else_is_refused(tmp_path: Path, open_store: Open, content: str):
    """And left as it is."""
    sql(tmp_path / "runs.db", content)

    with pytest.raises(WorkflowConfigurationError, match="something else"):
        open_store()
    assert sql(tmp_path / "runs.db", "SELECT name FROM sqlite_master WHERE name = 'journal'") == []


def test_what_is_no_database_is_refused(tmp_path: Path, open_store: Open, codec: Codec):
    """A file of something else, a folder, a place that cannot be."""
    (tmp_path / "runs.db").write_text("not a database, by far" * 100)
    (tmp_path / "folder").mkdir()

    with pytest.raises(WorkflowConfigurationError, match="not a database"):
        open_store()
    for place in (tmp_path / "folder", tmp_path / "runs.db" / "below" / "runs.db"):
        with pytest.raises(WorkflowConfigurationError):
            SqliteJournal(place, codec)
    with pytest.raises(WorkflowConfigurationError):
        open_default(tmp_path / "runs.db" / "below", codec)


def test_a_network_home_gets_no_write_ahead_log(
    tmp_path: Path, codec: Codec, monkeypatch: pytest.MonkeyPatch, open_store: Open
):
    """WAL needs memory that is shared on one machine; `place` tells people why the store is slower."""
    assert sql(open_store().path, "PRAGMA journal_mode") == [("wal",)]
    monkeypatch.setattr(module, "network_type_of", lambda path: "nfs4")
    store = SqliteJournal(tmp_path / "home" / "runs.db", codec)
    store.append([Append("r", 0, run_of(3))])

    assert sql(store.path, "PRAGMA journal_mode") == [("delete",)]
    assert store.place == f"{store.path} (slower, without a write-ahead log: its folder is on nfs4)"
    assert store.read("r") == run_of(3)
    store.close()


def test_what_is_acknowledged_is_flushed_first(open_store: Open, monkeypatch: pytest.MonkeyPatch):
    """R1.12: `durable` commits run with synchronous=FULL, the others survive a kill and cost no flush."""
    store = open_store()
    seen: list[tuple[int, bool]] = []
    insert = store._insert

    def spying(rows: Any, entries: Any) -> None:
        seen.append((store._pragma("synchronous"), store._db.in_transaction))
        insert(rows, entries)

    monkeypatch.setattr(store, "_insert", spying)
    ticks = run_of(5)
    for seq, durable in enumerate([False, True, True, False, True]):
        store.append([Append("r", seq, ticks[seq : seq + 1])], durable=durable)

    normal, full = 1, 2
    assert [level for level, _ in seen] == [normal, full, full, normal, full]
    # From the second on one statement is the whole transaction: few chances to lose Python's lock in between.
    assert [in_transaction for _, in_transaction in seen] == [True, False, False, False, False]


def test_a_value_that_cannot_be_written_writes_nothing(open_store: Open):
    """R6.12: not of its run, not of the group; the store works on."""
    store = open_store()
    store.append([Append("a", 0, run_of(2, "a")), Append("b", 0, run_of(2, "b"))])
    bad = StreamWritten(9.0, "s", 1, 1, out(Anything(value=Opaque())))

    with pytest.raises(NotStorable) as refused:
        store.append([Append("a", 2, [GateClosed(9.0)]), Append("b", 2, [GateClosed(9.0), bad])])
    assert (refused.value.event, refused.value.field) == ("tests.store.samples:Anything", "value")
    store.append([Append("a", 2, [GateClosed(9.0)])])

    assert (store.last_seq("a"), store.last_seq("b")) == (3, 2)


def test_a_closed_store_says_so(open_store: Open):
    """Closing twice is no error, using it afterwards is."""
    store = open_store()
    store.close()
    store.close()

    for use in (lambda: store.append([]), lambda: store.read("r"), lambda: store.last_seq("r"), store.runs):
        with pytest.raises(WorkflowRuntimeError, match="closed"):
            use()


def test_a_file_that_was_removed_takes_no_acknowledged_tick(open_store: Open):
    """R1.12: into a file that has no name any more nobody's answer is written."""
    store = open_store()
    store.append([Append("r", 0, run_of(1))])
    store.path.unlink()

    with pytest.raises(WorkflowRuntimeError, match="removed or replaced"):
        store.append([Append("r", 1, [EventArrived(2.0, out(Row(no=1)))])], durable=True)


def test_a_store_that_is_busy_for_too_long_says_so(tmp_path: Path, codec: Codec):
    """Not a bare error of SQLite's: nothing was written, and the same append works later."""
    store = SqliteJournal(tmp_path / "runs.db", codec, timeout_s=0.05)
    store.append([Append("r", 0, run_of(1))])
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for _ in range(2):
        with pytest.raises(WorkflowRuntimeError, match="locked"):
            store.append([Append("r", 1, run_of(2)[1:])])
    other.execute("ROLLBACK")
    other.close()
    store.append([Append("r", 1, run_of(2)[1:])])

    assert store.read("r") == run_of(2)
    store.close()


def test_an_answer_waits_longer_than_a_turn_for_others_that_write(tmp_path: Path, codec: Codec, monkeypatch: Any):
    """C109: a turn comes again by itself, an answer does not: it is not lost to a lock of half a second."""
    with closing(SqliteJournal(tmp_path / "runs.db", codec)) as journal:
        journal.append([Append("r", 0, run_of(1))])
        journal.set_patience(0.05)
        other = sqlite3.connect(tmp_path / "runs.db", isolation_level=None, check_same_thread=False)
        with closing(other):
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(WorkflowRuntimeError, match="locked"):
                journal.append([Append("r", 1, run_of(2)[1:])])
            free = threading.Timer(0.5, other.execute, ["COMMIT"])
            free.start()
            assert journal.put("r", EventArrived(3.0, out(Row(no=1)))) == 1
            free.join()

            monkeypatch.setattr(module, "PUT_S", 0.2)
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(WorkflowRuntimeError, match="database is locked"):
                journal.put("r", EventArrived(4.0, out(Row(no=2))))


def test_any_thread_may_use_it(open_store: Open):
    """C111: opened in one thread, used in others."""
    store = open_store()

    def drive(run_id: str) -> None:
        for seq, tick in enumerate(run_of(20, run_id)):
            store.append([Append(run_id, seq, [tick])])

    threads = [threading.Thread(target=drive, args=(f"run {i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [store.read(f"run {i}") for i in range(4)] == [run_of(20, f"run {i}") for i in range(4)]


@pytest.mark.parametrize("run_id", ["a'b; DROP TABLE runs --", "x\0y", "", "日本/..", "%s ?1 :a"])
def test_a_hostile_run_id_is_only_a_name(open_store: Open, run_id: str):
    """Ids are parameters, never text of a statement."""
    store = open_store()
    store.append([Append(run_id, 0, run_of(2, run_id))])

    assert open_store().read(run_id) == run_of(2, run_id)
    assert [row.run_id for row in open_store().runs()] == [run_id]


def test_a_run_id_that_is_no_text_is_refused(open_store: Open):
    """Lone surrogates cannot be a key of the file."""
    with pytest.raises(NotStorable):
        open_store().append([Append("r\ud800", 0, run_of(1))])


# Damage.


@pytest.mark.parametrize(
    ("damage", "seq"),
    [
        ("DELETE FROM journal WHERE seq = 2", 2),
        ("DELETE FROM journal WHERE seq = 1", 1),
        ("UPDATE journal SET seq = 9 WHERE seq = 3", 3),
        ("UPDATE journal SET seq = 'x' WHERE seq = 4", 0),
        ("UPDATE journal SET kind = 'Nothing' WHERE seq = 2", 2),
        ("UPDATE journal SET kind = 5 WHERE seq = 2", 2),
        ("UPDATE journal SET kind = x'00' WHERE seq = 2", 2),
        ("UPDATE journal SET kind = 'QuietNoticed' WHERE seq = 1", 1),
        ("UPDATE journal SET body = (SELECT body FROM journal WHERE seq = 1), kind = 'RunStarted' WHERE seq = 2", 2),
        ("UPDATE journal SET body = 'oops' WHERE seq = 3", 3),
        ("UPDATE journal SET body = 7 WHERE seq = 3", 3),
        ("UPDATE journal SET body = substr(body, 1, 5) WHERE seq = 1", 1),
        ("UPDATE journal SET at = 'soon' WHERE seq = 2", 2),
        ("UPDATE journal SET at = 9e999 WHERE seq = 2", 2),
        ("UPDATE journal SET at = at + 0.5 WHERE seq = 2", 2),
        ("UPDATE journal SET kind = 'GateOpened' WHERE seq = 2", 2),
        ("""UPDATE journal SET body = '{"by":"me"}' WHERE seq = 2""", 2),
        ("UPDATE journal SET body = (SELECT body FROM journal WHERE seq = 4) WHERE seq = 2", 2),
        ("UPDATE journal SET sum = sum + 1 WHERE seq = 3", 3),
        ("UPDATE journal SET sum = NULL WHERE seq = 3", 3),
        ("UPDATE journal SET sum = NULL WHERE seq = 1", 2),
        ("UPDATE journal SET sum = 'x' WHERE seq = 3", 3),
        ("DELETE FROM journal WHERE seq = 1", 1),
    ],
)
def test_a_damaged_row_is_named(open_store: Open, damage: str, seq: int):
    """C113: run, seq and reason; the sound part before it can be read, and the list of runs still comes."""
    store = open_store()
    store.append([Append("r", 0, run_of(4)), Append("s", 0, run_of(1, "s"))])
    sql(store.path, damage.replace("WHERE seq", "WHERE run_id = 'r' AND seq"))

    with pytest.raises(JournalDamaged) as damaged:
        store.read("r")
    assert (damaged.value.run_id, damaged.value.seq) == ("r", seq)
    assert damaged.value.reason in str(damaged.value)
    if seq:
        assert store.read("r", 1, seq - 1) == run_of(4)[: seq - 1]
    assert {row.run_id: row.status for row in store.runs()} == {"r": "damaged", "s": "running"}


def test_a_row_that_was_changed_is_found_wherever_reading_begins(open_store: Open):
    """C113: also where it is the last one before, and where rows of two runs were exchanged."""
    store = open_store()
    store.append([Append("r", 0, run_of(4)), Append("s", 0, run_of(4, "s"))])
    sql(store.path, "UPDATE journal SET seq = 9 WHERE run_id = 's' AND seq = 3")
    sql(store.path, "UPDATE journal SET run_id = 's', seq = 3 WHERE run_id = 'r' AND seq = 3")

    with pytest.raises(JournalDamaged) as changed:
        store.read("s", 3)
    assert changed.value.seq == 3 and "was changed after it was written" in changed.value.reason
    for start in (3, 4):
        with pytest.raises(JournalDamaged) as missing:
            store.read("r", start)
        assert (missing.value.seq, missing.value.reason) == (3, "the row is missing")


def test_a_run_whose_sums_were_emptied_was_mended_by_hand(open_store: Open):
    """With the `sqlite3` program, say: a person may put a row right, and says so by taking all sums of the run away.
    What is appended after that is proven again."""
    store = open_store()
    store.append([Append("r", 0, run_of(3))])
    sql(store.path, """UPDATE journal SET body = '{ "by": "me" }' WHERE seq = 2""")
    sql(store.path, "UPDATE journal SET sum = NULL")

    assert store.read("r", 2, 2) == [GateClosed(2.0, by="me")]
    again = open_store()
    again.append([Append("r", 3, [GateClosed(9.0)])])
    again.append([Append("r", 4, [GateOpened(9.5)])])
    assert open_store().read("r")[3:] == [GateClosed(9.0), GateOpened(9.5)]
    assert open_store().sound("r") == 5
    sql(store.path, "UPDATE journal SET at = 9.25 WHERE seq = 4")
    with pytest.raises(JournalDamaged) as changed:
        again.read("r")
    assert changed.value.seq == 4 and open_store().sound("r") == 3


@pytest.mark.parametrize(
    ("change", "status", "seq"),
    [
        ("DELETE FROM journal WHERE run_id = 'r' AND seq = 4", "damaged", 4),
        ("DELETE FROM journal WHERE run_id = 'r' AND seq > 2", "damaged", 3),
        ("DELETE FROM journal WHERE run_id = 'r'", "damaged", 1),
        ("UPDATE journal SET sum = NULL WHERE run_id = 'r' AND seq = 4", "damaged", 4),
        ("UPDATE runs SET ending = 'completed 4 77' WHERE run_id = 'r'", "damaged", 4),
        ("UPDATE runs SET ending = 'completed 9 77' WHERE run_id = 'r'", "damaged", 5),
        ("UPDATE runs SET ending = 'completed 2 77' WHERE run_id = 'r'", "damaged", 3),
        ("UPDATE runs SET ending = '' WHERE run_id = 'r'", "paused", 0),
        ("UPDATE runs SET ending = 'x' WHERE run_id = 'r'", "paused", 0),
        ("UPDATE runs SET status = 'failed' WHERE run_id = 'r'", "paused", 0),
        ("UPDATE runs SET status = 'running' WHERE run_id = 'r'", "paused", 0),
    ],
)
def test_an_end_that_the_journal_does_not_have_is_not_believed(open_store: Open, change: str, status: str, seq: int):
    """C113: in no list and no count; a status that was changed is folded anew, and lost ticks are named."""
    store = open_store()
    store.append([Append("r", 0, run_of(4), "completed"), Append("s", 0, run_of(4, "s"), "completed")])
    store.append([Append("t", 0, run_of(4, "t"), "waiting")])
    assert store.counts() == {"completed": 2, "waiting": 1}

    sql(store.path, change)

    assert {row.run_id: row.status for row in store.runs()} == {"r": status, "s": "completed", "t": "waiting"}
    assert store.counts() == {"completed": 1, "waiting": 1, status: 1}
    assert [row.run_id for row in store.runs(status="completed")] == ["s"]
    assert [row.run_id for row in store.runs(status="completed", limit=1)] == ["s"]
    if seq:
        with pytest.raises(JournalDamaged) as lost:
            store.read("r")
        assert lost.value.seq == seq
        assert store.read("r", 1, seq - 1) == run_of(4)[: seq - 1] if seq > 1 else store.last_seq("r") == 0


def test_a_run_that_is_called_over_is_folded(open_store: Open):
    """C113: somebody wrote so into its row."""
    store = open_store()
    store.append([Append("r", 0, run_of(4), "running"), Append("s", 0, run_of(3, "s"), "completed")])
    sql(store.path, "UPDATE runs SET status = 'completed' WHERE run_id = 'r'")
    assert [row.run_id for row in store.runs(status="completed")] == ["s"]
    sql(store.path, "UPDATE runs SET ending = (SELECT ending FROM runs WHERE run_id = 's') WHERE run_id = 'r'")

    assert {row.run_id: row.status for row in store.runs()} == {"r": "damaged", "s": "completed"}
    assert store.counts() == {"damaged": 1, "completed": 1}


def test_what_came_and_was_changed_is_not_taken(open_store: Open):
    """C113: of an inbox too; which runs have something is known all the same."""
    store = open_store()
    store.append([Append("r", 0, run_of(2)), Append("s", 0, run_of(2, "s"))])
    store.put("r", GateClosed(9.0, by="ann"), key="k")
    store.put("s", GateClosed(9.0, by="ann"))
    assert [entry.tick for entry in store.inbox(["r", "s"])] == [GateClosed(9.0, by="ann")] * 2

    sql(store.path, """UPDATE inbox SET body = '{"by":"eve"}' WHERE run_id = 'r'""")

    with pytest.raises(JournalDamaged) as changed:
        store.inbox(["r"])
    assert changed.value.run_id == "r" and "was changed" in changed.value.reason
    assert [entry.run_id for entry in store.inbox(["s"])] == ["s"]
    assert store.came() == ["r", "s"]


def test_the_space_of_deleted_runs_is_given_back(open_store: Open):
    """To the disk, at once, also beside a reader; little of it stays in the file for runs to come."""
    store, reader = open_store(), open_store()
    store.append([Append(f"r{i}", 0, run_of(500, f"r{i}")) for i in range(40)])
    store.append([Append("stays", 0, run_of(9, "stays"))])
    before = store.path.stat().st_size + Path(f"{store.path}-wal").stat().st_size
    store.delete([f"r{i}" for i in range(40)])
    store.shrink()

    assert reader.read("stays") == run_of(9, "stays")
    assert store.path.stat().st_size < before / 10
    size = store.path.stat().st_size
    store.append([Append("little", 0, run_of(200, "little"))])
    store.delete(["little"])
    store.shrink()
    assert sql(store.path, "PRAGMA freelist_count")[0][0] > 0
    assert sql(store.path, "PRAGMA integrity_check") == [("ok",)]
    assert store.path.stat().st_size >= size


def test_a_store_that_is_being_made_is_not_of_something_else(tmp_path: Path, codec: Codec, monkeypatch: Any):
    """Another process makes all tables while this one looks what there is."""
    path, pragma, looked = tmp_path / "runs.db", SqliteJournal._pragma, []

    def look(self: SqliteJournal, text: str) -> Any:
        found = pragma(self, text)
        if text == "user_version" and not looked:
            looked.append(found)
            SqliteJournal(path, codec).close()
        return found

    monkeypatch.setattr(SqliteJournal, "_pragma", look)
    SqliteJournal(path, codec).close()
    assert looked == [0]


def test_a_checkpoint_that_was_changed_is_none(open_store: Open):
    """The one before it is taken; one that stands at another tick, or in another run, is changed too."""
    store = open_store()
    store.append([Append("r", 0, run_of(9)), Append("s", 0, run_of(9, "s"))])
    for seq in (2, 5):
        store.put_checkpoint("r", seq, b"state %d" % seq)
    assert store.checkpoint("r", 9) == (5, b"state 5")

    sql(store.path, "UPDATE checkpoints SET body = x'00' WHERE seq = 5")
    assert store.checkpoint("r", 9) == (2, b"state 2")
    sql(store.path, "UPDATE checkpoints SET seq = 3 WHERE seq = 2")
    assert store.checkpoint("r", 9) is None
    store.put_checkpoint("r", 4, b"state 4")
    sql(store.path, "UPDATE checkpoints SET run_id = 's' WHERE seq = 4")
    assert store.checkpoint("s", 9) is None
    assert store.checkpoint("r", 9) is None


def test_pages_of_garbage_are_damage(open_store: Open):
    """C113: what SQLite itself finds broken is told as damage, not as an error of its module."""
    store = open_store()
    store.append([Append("r", 0, run_of(300))])
    store.close()
    with open(store.path, "r+b") as file:
        file.seek(4096 * 2)
        file.write(random.Random(1).randbytes(os.path.getsize(store.path) - 4096 * 2))

    again = open_store()
    with pytest.raises((JournalDamaged, RunNotFound)):
        again.read("r")


# Other processes.


def appender(path: Path, run_id: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.store.appender", str(path), run_id, str(count)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_two_processes_append_to_one_run(tmp_path: Path, open_store: Open):
    """C107, C109: each tick has one number, every conflict is seen, nothing is locked for good, none is lost."""
    processes = [appender(tmp_path / "runs.db", "r", 150) for _ in range(2)]
    outputs = [process.communicate(timeout=100)[0].split("\n") for process in processes]

    assert [process.returncode for process in processes] == [0, 0]
    written = [int(line) for lines in outputs for line in lines if line.isdigit()]
    assert sorted(written) == list(range(1, 301))
    assert len(open_store().read("r")) == 300


@pytest.mark.parametrize("count", [1, ROWS_LIMIT + 1])
def test_a_driver_whose_run_was_taken_over_is_told(open_store: Open, count: int):
    """Also where it knew the run's last tick: the key of the table is the judge, in groups of any size."""
    first, second = open_store(), open_store()
    first.append([Append("r", 0, run_of(2)), Append("s", 0, run_of(2, "s"))])
    second.append([Append("r", 2, [GateClosed(9.0, by="second")])])

    with pytest.raises(JournalConflict) as refused:
        first.append([Append("s", 2, [GateClosed(9.0)] * count), Append("r", 2, [GateClosed(9.0, by="first")])])
    assert vars(refused.value) == {"run_id": "r", "expected": 2, "found": 3}
    assert first.last_seq("s") == 2
    first.append([Append("r", 3, [GateClosed(9.5, by="first")])])
    assert [tick.by for tick in second.read("r", 3)] == ["second", "first"]  # type: ignore[union-attr]


def test_what_was_reported_as_written_survives_a_kill(tmp_path: Path, open_store: Open):
    """R1.11: six kills with -9 at random moments; the journal is dense and holds all that a process reported."""
    chance = random.Random(7)
    reported, written_by = 0, []
    for _ in range(6):
        process = appender(tmp_path / "runs.db", "r", 10**9)
        assert process.stdout is not None
        # Not `communicate`: it would pass over what `readline` has read ahead.
        with process.stdout as printed:
            first = printed.readline()
            time.sleep(chance.uniform(0.0, 0.15))
            process.send_signal(signal.SIGKILL)
            process.wait(timeout=60)
            # The last line may be cut off in its middle.
            lines = [int(line) for line in (first + printed.read()).split("\n")[:-1]]
        assert lines == list(range(lines[0], lines[0] + len(lines)))
        # What was committed and not yet reported: at most the one tick of the kill.
        assert lines[0] in (reported + 1, reported + 2)
        reported = lines[-1]
        written_by.append(len(lines))

    ticks = open_store().read("r")
    assert len(ticks) in (reported, reported + 1)
    assert len(written_by) == 6
    assert sql(tmp_path / "runs.db", "PRAGMA integrity_check") == [("ok",)]


def test_processes_that_make_one_new_file_at_once_agree(tmp_path: Path, open_store: Open):
    """Tables are made once, and nobody is told that the file is locked."""
    processes = [appender(tmp_path / "runs.db", f"run {i}", 3) for i in range(4)]
    for process in processes:
        process.communicate(timeout=100)

    assert [process.returncode for process in processes] == [0] * 4
    assert sorted(row.run_id for row in open_store().runs()) == [f"run {i}" for i in range(4)]
