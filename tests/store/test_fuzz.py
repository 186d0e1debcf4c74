"""A store that somebody, or a disk, changed: it is looked at without a crash, nothing of it is run, and no run is
completed that was not (C113, C133).

Copies of one small file are changed in 2,000 ways and looked at as people do: the list, the open questions, a handle,
the terminal.
"""

import itertools
import json
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel

from flownb import StopEvent, Store, Workflow
from flownb.cli.main import main
from flownb.core.ticks import AnyTick
from flownb.errors import JournalDamaged, RunNotFound, WorkflowError
from flownb.resuming import resume_run
from flownb.run import Run
from tests.polling import wait_until
from tests.runtime.flows import Asks, Begin, Count
from tests.store.test_damage import EVIL, replaced
from tests.store.traps import set_traps

#: The runs, and how they stand.
STATUSES = {"done": "completed", "broken": "failed", "asking": "suspended"}
COMMANDS = itertools.cycle(
    ["runs", "", "show done", "", "requests --json", "", "show asking", "", "runs --json", "", "show broken --json", ""]
)
WORDS = ["completed", "failed", "running", "waiting", "paused", "timed_out", "cancelled", "damaged", "", "x"]


class Original(NamedTuple):
    """The file before it was changed, and what is in it."""

    path: Path
    ticks: dict[str, list[AnyTick]]


broken = Workflow[int]("broken")


@broken.step
def breaks(ev: Begin) -> StopEvent:
    raise ValueError("it breaks")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    """One run of each kind; the question of one has an answer that its driver did not take yet."""
    path = tmp_path_factory.mktemp("fuzz") / "runs.db"
    with closing(Store(path)) as store:
        Count().with_options(store=store).run(run_id="done", n=2).result(20)
        with pytest.raises(ValueError, match="it breaks"):
            broken.with_options(store=store).run(run_id="broken").result(20)
        asks = Asks().with_options(store=store).run(run_id="asking")
        wait_until(lambda: asks.status == "waiting" and asks.requests)
        asks.suspend().result(20)
        store.run("asking").answer(ok=True)
        store.journal.put_checkpoint("asking", 2, b"{}")
    with closing(Store(path)) as store:
        assert {row.run_id: row.status for row in store.runs()} == STATUSES
        return Original(path, {run_id: store.history(run_id) for run_id in STATUSES})


@pytest.fixture
def nothing_runs(
    monkeypatch: pytest.MonkeyPatch, original: Original, capsys: pytest.CaptureFixture[str]
) -> Iterator[None]:
    """Whatever a store could want to run fails the test: code, pickles, `__init__` and validators of events, steps
    (which would need both), and new modules. Looks at the original have loaded those that looking needs."""
    for _ in range(12):
        look(original.path, original, capsys)
    modules = {*sys.modules}
    called = set_traps(monkeypatch, (BaseModel, "__init__"), (BaseModel, "model_validate"))
    yield
    assert called == []
    assert {name.partition(".")[0] for name in {*sys.modules} - modules} <= {"tzdata", "encodings", "flownb"}


# Ways to change a row.


def any_value(random: Random, value: Any) -> Any:
    """Another value for a cell: of its kind, or of another."""
    if isinstance(value, bytes) and value and random.random() < 0.7:
        i = random.randrange(len(value))
        return random.choice([
            value[:i] + bytes([value[i] ^ 1 << random.randrange(8)]) + value[i + 1 :],
            value[:i],
            value[:i] + value[i + 1 :],
            value.decode("utf-8", "replace"),
        ])  # fmt: skip
    if isinstance(value, str) and value and random.random() < 0.6:
        i = random.randrange(len(value))
        return value[:i] + random.choice(["", "x", "\0", "ü", "\ufffd"]) + value[i + 1 :]
    if isinstance(value, (int, float)) and random.random() < 0.6:
        return value + random.choice([1, -1, 0.5, 1e18, -1e18, 2**62 - 1 if value < 0 else -(2**62)])
    evil = json.dumps(random.choice(EVIL), allow_nan=True)
    return random.choice([0, -1, 7, 2**63 - 1, 1e300, float("inf"), "", "x", b"", b"\xff\xfe", evil, evil.encode()])


def set_cell(db: sqlite3.Connection, random: Random, table: str, columns: list[str]) -> None:
    """One cell of one row."""
    column = random.choice(columns)
    rows = db.execute(f"SELECT rowid, {column} FROM {table}").fetchall()
    rowid, value = random.choice(rows)
    others = [other for _, other in rows if other != value]
    new = random.choice(others) if others and random.random() < 0.3 else any_value(random, value)
    if table == "runs" and column == "status" and random.random() < 0.7:
        new = random.choice(WORDS)
    db.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (new, rowid))


def two(db: sqlite3.Connection, random: Random) -> tuple[Any, Any]:
    rows = db.execute("SELECT rowid, run_id, seq, at, kind, body, sum FROM journal").fetchall()
    return tuple(random.sample(rows, 2))  # type: ignore[return-value]


def swap(db: sqlite3.Connection, random: Random) -> None:
    """What two ticks say, with or without their sums."""
    one, other = two(db, random)
    names = random.choice(["body", "kind, body", "at", "at, kind, body, sum", "sum"])
    for here, there in ((one, other), (other, one)):
        values = [dict(zip(("at", "kind", "body", "sum"), there[3:], strict=True))[name] for name in names.split(", ")]
        marks = ", ".join(f"{name} = ?" for name in names.split(", "))
        db.execute(f"UPDATE journal SET {marks} WHERE rowid = ?", (*values, here[0]))


def drop(db: sqlite3.Connection, random: Random) -> None:
    """A tick, or all behind it."""
    one, _ = two(db, random)
    db.execute(f"DELETE FROM journal WHERE run_id = ? AND seq {random.choice(['=', '>', '>='])} ?", one[1:3])


def repeat(db: sqlite3.Connection, random: Random) -> None:
    """A tick once more, at the end of its run or of another."""
    one, other = two(db, random)
    run_id = random.choice([one[1], other[1]])
    (last,) = db.execute("SELECT max(seq) FROM journal WHERE run_id = ?", (run_id,)).fetchone()
    values = (run_id, last + random.choice([1, 1, 1, 2]), *one[3:6], random.choice([one[6], None]))
    db.execute("INSERT INTO journal (run_id, seq, at, kind, body, sum) VALUES (?, ?, ?, ?, ?, ?)", values)


def move(db: sqlite3.Connection, random: Random) -> None:
    """All ticks of a run to the id of another; or its row."""
    one, other = random.sample([*STATUSES], 2)
    if random.random() < 0.5:
        db.execute("DELETE FROM journal WHERE run_id = ?", (other,))
        db.execute("UPDATE journal SET run_id = ? WHERE run_id = ?", (other, one))
    else:
        db.execute("DELETE FROM runs WHERE run_id = ?", (other,))
        db.execute("UPDATE runs SET run_id = ? WHERE run_id = ?", (other, one))


def edit(db: sqlite3.Connection, random: Random) -> None:
    """A tick's body as somebody would edit it: sound JSON with another part."""
    one, _ = two(db, random)
    db.execute("UPDATE journal SET body = ? WHERE rowid = ?", (replaced(one[5], random), one[0]))


JOURNAL = ["run_id", "seq", "at", "kind", "body", "body", "sum"]
RUNS = [
    "run_id", "workflow", "status", "status", "status", "started_at", "key", "hash", "parent", "notebook", "driver",
    "epoch", "ending",
]  # fmt: skip
WAYS: list[Callable[[sqlite3.Connection, Random], None]] = [
    *[lambda db, random: set_cell(db, random, "journal", JOURNAL)] * 6,
    *[lambda db, random: set_cell(db, random, "runs", RUNS)] * 4,
    lambda db, random: set_cell(db, random, "waiting", ["run_id", "kind", "id", "due", "step", "body"]),
    lambda db, random: set_cell(db, random, "inbox", ["run_id", "key", "at", "kind", "body", "sum", "n"]),
    lambda db, random: set_cell(db, random, "tokens", ["hash", "run_id", "request"]),
    lambda db, random: set_cell(db, random, "checkpoints", ["run_id", "seq", "body", "sum"]),
    *[swap, drop, drop, repeat, move, edit, edit],
]


def changed_copy(original: Original, path: Path, change: Callable[[sqlite3.Connection], None]) -> None:
    shutil.copyfile(original.path, path)
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA synchronous = OFF")
    try:
        change(db)
    except (sqlite3.IntegrityError, OverflowError, UnicodeEncodeError):  # not even the database takes that
        pass
    finally:
        db.close()


# Looking.


def look(path: Path, original: Original, capsys: pytest.CaptureFixture[str], *, is_proven: bool = True) -> int:
    """Look at all of it as people do.

    Args:
        path: The store.
        original: As it was.
        capsys: Takes what is printed.
        is_proven: Rows have their sums, so that none may say what was not.

    Returns:
        How many runs are known to be damaged.
    """
    damaged = 0
    with closing(Store(path)) as store:
        assert repr(store)
        store.summary()
        for request in store.requests():
            assert repr(request)
        store.requests().of(BaseModel)  # type: ignore[arg-type]
        store.next_wakeup()
        store.due(0.0)
        store.suspensions(0.0)
        rows = store.runs()
        for row in rows:
            damaged += look_at(store, row.run_id, original, is_proven)
        if is_proven:
            completed = [row for row in rows if row.status == "completed"]
            for row in (*completed, *store.runs(status="completed")):
                assert (row.run_id, row.seq) == ("done", len(original.ticks["done"]))
            assert store.journal.counts().get("completed", 0) == len(completed)
    look_from_a_terminal(path, capsys)
    return damaged


def look_from_a_terminal(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By one of the commands, each in its turn; every second time by none."""
    command = next(COMMANDS)
    if not command:
        return
    assert main([*command.split(), "--store", str(path)]) in (0, 1)
    capsys.readouterr()


def look_at(store: Store, run_id: str, original: Original, is_proven: bool) -> bool:
    """Look at one run: it is what it was, up to where it is sound; if that is not to its end, it says so."""
    try:
        run = store.run(run_id)
    except (JournalDamaged, RunNotFound) as error:
        assert error.run_id == run_id  # type: ignore[union-attr]
        return True
    ticks, damage = list(run.debug.ticks), run._runner.stored.damage  # type: ignore[union-attr]
    assert repr(run)
    assert damage in run.why()
    run.requests.all()
    if damage:
        assert f"{run_id!r}" in damage
        if not run._runner.ended:
            refuses_to_go_on(store, run, len(ticks))
    if is_proven:
        there = original.ticks[run_id]
        assert ticks == there[: len(ticks)]
        assert run.status != "completed" or (run_id == "done" and ticks == there)
        # Nothing tells of the last ticks of a run that goes on: it may as well have been cut off before them.
        assert damage or ticks == there or run_id == "asking"
    return bool(damage)


def refuses_to_go_on(store: Store, run: Run[Any], seq: int) -> None:
    """Nothing of a damaged run is driven: it says how to go on from its last sound tick."""
    with pytest.raises(JournalDamaged, match=rf"run\.debug\.fork\({seq}\)"):
        resume_run(run.workflow, run._settings, run.run_id, retry_failed=False)


def test_the_original_is_seen_whole(original: Original, nothing_runs: None, capsys: pytest.CaptureFixture[str]) -> None:
    """Or nothing below would mean anything."""
    assert look(original.path, original, capsys) == 0


@pytest.mark.parametrize("seed", range(7))
def test_a_row_that_was_changed_is_seen_or_harmless(
    tmp_path: Path, original: Original, seed: int, nothing_runs: None, capsys: pytest.CaptureFixture[str]
):
    """1,400 changes of rows: what is shown is what was written, up to the first row that is not."""
    random, damaged = Random(seed), 0
    for i in range(200):
        path = tmp_path / f"{i}.db"
        changed_copy(original, path, lambda db: random.choice(WAYS)(db, random))
        damaged += look(path, original, capsys) > 0
        path.unlink()
    assert 80 < damaged < 190


def test_a_row_without_a_sum_is_no_danger_either(
    tmp_path: Path, original: Original, nothing_runs: None, capsys: pytest.CaptureFixture[str]
):
    """200 changes of rows that nothing proves, as those of the first format: whatever they say, they are only read."""
    random = Random(100)

    def change(db: sqlite3.Connection) -> None:
        db.execute("UPDATE journal SET sum = NULL")
        db.execute("UPDATE runs SET ending = '', status = ''")
        random.choice([edit, edit, *WAYS])(db, random)

    for i in range(200):
        path = tmp_path / f"{i}.db"
        changed_copy(original, path, change)
        look(path, original, capsys, is_proven=False)
        path.unlink()


@pytest.mark.parametrize("seed", range(2))
def test_a_file_whose_bytes_were_changed_is_seen_or_refused(
    tmp_path: Path, original: Original, seed: int, nothing_runs: None, capsys: pytest.CaptureFixture[str]
):
    """400 changes of the file itself, a bit, a page or its end: an error of ours, or what was written."""
    random, whole, seen = Random(200 + seed), original.path.read_bytes(), 0
    for i in range(200):
        path, data = tmp_path / f"{i}.db", bytearray(whole)
        how = random.random()
        if how < 0.8:
            for _ in range(random.choice([1, 1, 2, 8])):
                at = random.randrange(100 if random.random() < 0.1 else len(data))
                data[at] ^= 1 << random.randrange(8)
        elif how < 0.9:
            page = random.randrange(len(data) // 4096) * 4096
            data[page : page + 4096] = random.choice([bytes(4096), random.randbytes(4096)])
        else:
            del data[random.randrange(len(data)) :]
        path.write_bytes(data)
        try:
            look(path, original, capsys)
            seen += 1
        except WorkflowError:  # of the file as a whole
            look_from_a_terminal(path, capsys)
        for end in ("", "-wal", "-shm", "-journal"):
            Path(f"{path}{end}").unlink(missing_ok=True)
    assert seen > 50
