"""Runs of a store as files, and back (R7.12): to be looked at and forked, not driven, and no more than was there."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from pydantic import SecretStr

from flownb import Context, Event, StartEvent, StopEvent, Store, Workflow, step
from flownb.archiving import export_run, import_run
from flownb.core.state import ENDED
from flownb.errors import JournalDamaged, RunConflict, RunNotFound, RunReadOnly, WorkflowConfigurationError
from flownb.store.archive import ArchivedRun, read_archive, write_archive
from tests.polling import wait_for_questions, wait_until
from tests.runtime.flows import Approve, Asks, Count, Verdict

ROOT = Path(__file__).resolve().parents[1]


class Begin(StartEvent):
    key: SecretStr = SecretStr("sesame")


class Made(Event):
    rows: Any


class Maker(Workflow[Any]):
    """A run with a child, a large value, a secret and a question with a token of its own."""

    @step
    async def make(self, ev: Begin, ctx: Context) -> Made:
        await ctx.run(Count())
        return Made(rows=np.arange(50_000.0))

    @step
    async def end(self, ev: Made, ctx: Context) -> StopEvent:
        ok = await ctx.ask("Is it well?", bool, token="told-to-nobody")
        return StopEvent(result=[ok, ev.rows.sum()])


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Callable[..., Store]]:
    opened: list[Store] = []

    def open_one(name: str, **settings: Any) -> Store:
        opened.append(Store(name if "://" in name or name == ":memory:" else tmp_path / name, **settings))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def here(stores: Callable[..., Store]) -> Store:
    return stores("here.db")


@pytest.fixture
def there(stores: Callable[..., Store]) -> Store:
    return stores("there.db")


def waiting(store: Store, run_id: str = "r", flow: Workflow[Any] | None = None) -> Any:
    run = (flow or Maker()).with_options(store=store).run(run_id=run_id)
    wait_until(lambda: run.status == "waiting" and bool(run.requests))
    return run


# There and back.


@pytest.mark.parametrize("place", ["there.db", ":memory:", "postgres"])
def test_a_run_is_looked_at_elsewhere(
    here: Store, stores: Callable[..., Store], place: str, tmp_path: Path, request: pytest.FixtureRequest
):
    """With its child, its files and its past; nothing of it waits for anybody."""
    run = waiting(here)
    path = here.export("r", tmp_path / "r.zip")
    url = request.getfixturevalue("new_url")() if place == "postgres" else place
    there = stores(url, artifacts=tmp_path / "there.artifacts") if place == "postgres" else stores(url)
    assert there.import_(path) == "r"

    look = there.run("r")
    assert (look.status, len(look.debug.ticks)) == ("waiting", len(run.debug.ticks))
    assert [row.run_id for row in there.runs() if row.parent] == ["r/1/1"]
    assert there.run("r/1/1").result(0) == [0, 1, 2]
    assert look.debug.at(3).state == run.debug.at(3).state
    if place != ":memory:":
        (made,) = [
            tick.outs[0].value
            for tick in look.debug.ticks
            if getattr(tick, "step", "") == "make" and hasattr(tick, "outs")
        ]
        assert made.rows.sum() == np.arange(50_000.0).sum()
    assert (there.due(2e9), list(there.requests()), there.resume_due(2e9)) == ([], [], [])
    assert look.why().endswith("It was imported, so it can be looked at and forked.")
    run.cancel().result(10)


def test_a_file_holds_no_secret_and_no_token(here: Store, tmp_path: Path):
    """R4.57: neither the token of the caller nor its hash."""
    run = waiting(here)
    with zipfile.ZipFile(here.export("r", tmp_path / "r.zip")) as zip_:
        text = b"".join(zip_.read(name) for name in zip_.namelist())
    assert b"sesame" not in text and b"told-to-nobody" not in text and b'"token"' not in text
    run.cancel().result(10)


def test_an_imported_run_is_changed_by_nobody(here: Store, there: Store, tmp_path: Path):
    """Neither driven, answered, cancelled nor paused; each word says how to go on from it."""
    flow = Asks()
    run = waiting(here, flow=flow)
    there.import_(here.export("r", tmp_path / "r.zip"))
    before = there.journal.raw("r")
    launcher, look = flow.with_options(store=there), there.run("r")
    for change in (
        lambda: launcher.resume("r"),
        lambda: launcher.run(run_id="r"),
        lambda: there.drive("r"),
        lambda: look.answer(ok=True),
        look.requests[0].dispose,
        look.cancel,
        look.pause,
        lambda: look.send_event(Verdict(ok=True)),
    ):
        with pytest.raises(RunReadOnly, match=r"was imported.*fork it: run\.debug\.fork\("):
            change()
    with pytest.raises(RunNotFound, match="not over"):
        launcher.resume()
    assert (there.journal.raw("r"), there.journal.inbox(None), there.journal.holder("r").epoch) == (before, [], 0)
    run.answer(ok=True)
    assert run.result(20) is True


def test_an_imported_run_is_forked(here: Store, there: Store, tmp_path: Path):
    """R6.37: what goes on from it is a run of this store like any other."""
    run = waiting(here, flow=Asks())
    there.import_(here.export("r", tmp_path / "r.zip"))
    fork = there.run("r").debug.fork(len(run.debug.ticks))
    wait_for_questions(fork)
    assert isinstance(fork.requests[0].question, Approve)
    fork.answer(ok=False)
    assert fork.result(20) is False
    assert there.run("r").status == "waiting"
    run.cancel().result(10)


def test_a_run_that_is_over_gives_its_result_elsewhere(here: Store, there: Store, tmp_path: Path):
    Count().with_options(store=here).run(run_id="done").result(20)
    there.import_(here.export("done", tmp_path / "r.zip"))
    assert there.run("done").result(0) == [0, 1, 2]
    assert Count().with_options(store=there).resume("done").result(0) == [0, 1, 2]
    assert there.summary()["runs"] == {"completed": 1}


# What is there already.


def test_the_same_run_again_changes_nothing(here: Store, there: Store, tmp_path: Path):
    """In the store that it came from, too, whatever its secrets; an older file is the same run."""
    run = waiting(here)
    older = here.export("r", tmp_path / "older.zip")
    run.answer(None, True)
    run.result(20)
    newer = here.export("r", tmp_path / "newer.zip")
    before = here.journal.raw("r")
    assert [import_run(here, path).is_new for path in (older, newer)] == [False, False]
    assert here.journal.raw("r") == before
    assert [import_run(there, path).is_new for path in (older, older, newer, older)] == [True, False, True, False]
    assert there.run("r").status == "completed"


def test_another_run_of_the_same_id_is_a_conflict(here: Store, there: Store, tmp_path: Path):
    """Nothing is written, also where only a child is another one."""
    Count().with_options(store=here).run(run_id="r", n=2).result(20)
    Count().with_options(store=there).run(run_id="r", n=1).result(20)
    before = there.journal.raw("r")
    with pytest.raises(RunConflict, match="There is another run 'r'"):
        there.import_(here.export("r", tmp_path / "r.zip"))
    assert there.journal.raw("r") == before
    rows = here.journal.raw("r")
    write_archive(tmp_path / "s.zip", [ArchivedRun("s", rows), ArchivedRun("s/1/1", rows)])
    write_archive(tmp_path / "t.zip", [ArchivedRun("s", rows), ArchivedRun("s/1/1", before)])
    there.import_(tmp_path / "s.zip")
    there.journal.delete(["s"])
    with pytest.raises(RunConflict, match="'s/1/1'"):
        there.import_(tmp_path / "t.zip")
    assert there.journal.row("s") is None


# Whoever made the file.


def cut(path: Path, to: Path, change: Callable[[list[bytes]], list[bytes]], member: str = "journal.jsonl") -> Path:
    """The same file with other lines in a journal."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(to, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name, b"".join(change(data.splitlines(True))) if name == member else data)
    return to


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: lines[:3],
        lambda lines: [*lines[:3], lines[3].replace(b'"seq":4', b'"seq":9'), *lines[4:]],
        lambda lines: [*lines[:3], b"no json\n", *lines[4:]],
        lambda lines: [*lines[:3], *lines[4:]],
    ],
    ids=["cut off", "changed", "unreadable", "missing"],
)
def test_of_a_damaged_file_what_is_sound_is_imported(
    here: Store, there: Store, tmp_path: Path, change: Callable[[list[bytes]], list[bytes]]
):
    """C133: up to the last good tick, which is said then and whenever the run is looked at; it is never completed."""
    Count().with_options(store=here).run(run_id="r").result(20)
    path = cut(here.export("r", tmp_path / "r.zip"), tmp_path / "cut.zip", change)
    with pytest.warns(UserWarning, match="Run 'r' ends with its tick 3: "):
        assert there.import_(path) == "r"
    look = there.run("r")
    assert (len(look.debug.ticks), look.status, there.runs()[0].status) == (3, "running", "running")
    assert "the rest of it is missing: " in look.why()
    assert not look.is_done()
    assert import_run(there, here.export("r", tmp_path / "r.zip")).is_new
    assert there.run("r").status == "completed"


def test_what_was_changed_in_the_store_does_not_leave_it_as_sound(here: Store, there: Store, tmp_path: Path):
    """C113: an export gives a row that was edited as it is, and whoever imports it takes the run for damaged there."""
    Count().with_options(store=here).run(run_id="r").result(20)
    db = sqlite3.connect(here.place)
    db.execute("UPDATE journal SET at = at + 1 WHERE seq = 3")
    db.commit()
    db.close()
    raw = here.journal.raw("r")
    assert here.journal.sound("r") == 2

    with pytest.warns(UserWarning, match="Run 'r' ends with its tick 2: tick 3 is not as it was written"):
        there.import_(here.export("r", tmp_path / "r.zip"))
    with zipfile.ZipFile(tmp_path / "r.zip") as zip_:
        assert len(zip_.read("journal.jsonl").splitlines()) == len(raw)
    assert (there.run("r").status, there.runs()[0].status) == ("running", "running")


def test_rows_that_make_no_sense_are_not_believed(here: Store, there: Store, tmp_path: Path):
    """An end without what led to it, a tick after the end, a kind that does not exist: their sums fit, and yet."""
    Count().with_options(store=here).run(run_id="r").result(20)
    rows = here.journal.raw("r")
    last = rows[-1]
    for n, forged in enumerate(
        (
            [rows[0], (2, *last[1:])],
            [*rows, (len(rows) + 1, *last[1:])],
            [*rows[:2], (3, rows[2][1], "Invented", b"{}")],
            [*rows[:2], (3, rows[2][1], "StepFinished", b"{}")],
        )
    ):
        path = tmp_path / f"{n}.zip"
        write_archive(path, [ArchivedRun(f"f{n}", forged, {"status": "completed", "workflow": "Other"})])
        found = import_run(there, path)
        assert not n or f"Run 'f{n}' ends with its tick" in found.faults[0]
        row = there.journal.row(f"f{n}")
        assert row is not None and row.workflow == "Count"
        assert (row.status == "completed") is (n == 1)
        assert row.status in ("running", "completed") and there.run(f"f{n}").status == row.status


@pytest.mark.parametrize("run_id", ["/up", "a//b", "", "x" * 200, "a\n", "a/" * 600 + "b", "ü"])
def test_ids_of_other_kinds_are_refused(here: Store, there: Store, tmp_path: Path, run_id: str):
    Count().with_options(store=here).run(run_id="r").result(20)
    write_archive(tmp_path / "x.zip", [ArchivedRun(run_id, here.journal.raw("r"))])
    with pytest.raises(JournalDamaged, match="is no id of a run"):
        there.import_(tmp_path / "x.zip")
    write_archive(tmp_path / "x.zip", [ArchivedRun(i, here.journal.raw("r")) for i in ("r", f"s/{run_id}")])
    with pytest.raises(JournalDamaged, match="is no id of a run"):
        there.import_(tmp_path / "x.zip")
    assert there.runs() == []


def test_a_file_without_a_sound_tick_is_refused(here: Store, there: Store, tmp_path: Path):
    """A child without one is left out, and that is said."""
    Count().with_options(store=here).run(run_id="r").result(20)
    rows = here.journal.raw("r")
    write_archive(tmp_path / "x.zip", [ArchivedRun("r", rows[1:])])
    with pytest.raises(JournalDamaged, match="cannot be read as a run"):
        there.import_(tmp_path / "x.zip")
    write_archive(tmp_path / "x.zip", [ArchivedRun("r", rows), ArchivedRun("r/1/1", [(1, 1.0, "QuietNoticed", b"{}")])])
    found = import_run(there, tmp_path / "x.zip")
    assert found.faults == ("Child 'r/1/1' is missing: tick 1 does not follow from those before it: ValueError: a run "
                            "begins with RunStarted, not with QuietNoticed.",)  # fmt: skip
    assert [row.run_id for row in there.runs()] == ["r"]
    with pytest.raises(RunNotFound):
        there.import_(tmp_path / "nothing.zip")


def test_missing_files_of_values_are_told(here: Store, there: Store, tmp_path: Path):
    run = waiting(here)
    assert here.artifacts is not None
    shutil.rmtree(here.artifacts.folder)
    path = here.export("r", tmp_path / "r.zip")
    with pytest.warns(UserWarning, match="1 files of large values are missing"):
        there.import_(path)
    assert there.run("r").status == "waiting"
    run.cancel().result(10)


def test_a_store_that_reads_pickles_takes_no_files(here: Store, stores: Callable[..., Store], tmp_path: Path):
    """To look at such a run would run what somebody wrote into it."""
    Count().with_options(store=here).run(run_id="r").result(20)
    trusting = stores("trusting.db", trust=True)
    with pytest.raises(WorkflowConfigurationError, match="without trust"):
        trusting.import_(here.export("r", tmp_path / "r.zip"))
    assert trusting.runs() == []


def test_damaged_files_are_imported_or_refused_and_nothing_else(
    here: Store, stores: Callable[..., Store], tmp_path: Path
):
    """Any byte may be another one: what comes in was in the original, tick by tick, and is over only if that was."""
    run = waiting(here, flow=Asks())
    path = export_run(here, "r", tmp_path / "r.zip")
    whole, rows = path.read_bytes(), here.journal.raw("r")
    there, random = stores(":memory:"), Random(7)
    seen = set[int]()
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(random.choice((1, 1, 3))):
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        path.write_bytes(data[: random.randrange(len(data))] if random.random() < 0.1 else data)
        try:
            import_run(there, path)
        except (JournalDamaged, RunConflict):
            continue
        for row in there.runs():
            raw = there.journal.raw(row.run_id)
            assert [r[2] for r in raw] == [r[2] for r in rows[: len(raw)]]
            assert row.status not in ENDED and there.run(row.run_id).status == row.status
            seen.add(len(raw))
        there.journal.delete([row.run_id for row in there.runs()])
    assert len(rows) in seen
    run.cancel().result(10)


# Exporting.


def test_what_cannot_be_exported(here: Store, tmp_path: Path):
    with pytest.raises(RunNotFound, match="There is no run 'nobody'"):
        here.export("nobody", tmp_path / "x.zip")
    Count().with_options(store=here).run(run_id="r").result(20)
    with pytest.raises(OSError, match="No such file or directory"):
        here.export("r", tmp_path / "no folder" / "x.zip")
    assert not [path for path in tmp_path.iterdir() if "zip" in path.name]


def test_a_damaged_run_is_exported_up_to_the_damage(here: Store, there: Store, tmp_path: Path):
    """Its rows are written as they are; what is sound of them comes in elsewhere."""
    Count().with_options(store=here).run(run_id="r").result(20)
    rows = here.journal.raw("r")
    row = here.journal.row("r")
    assert row is not None
    spoilt = [*rows[:3], (4, rows[3][1], rows[3][2], b"\xff{"), *rows[4:]]
    here.journal.restore([(replace(row, run_id="spoilt", driver="imported:"), spoilt)])
    path = here.export("spoilt", tmp_path / "x.zip")
    assert [raw[3] for raw in read_archive(path).runs[0].rows] == [raw[3] for raw in spoilt]
    with pytest.warns(UserWarning, match="ends with its tick 3: Tick 4 cannot be read"):
        there.import_(path)


# A store that is looked at before the code is there.

LOOK_FIRST = """
import json, sys
from flownb import Store
store = Store("runs.db")
run_id = sys.argv[1]
looked = store.run(run_id)
try:
    looked.debug.fork(len(looked.debug.ticks))
except Exception as error:
    said = f"{type(error).__name__}: {error}"
from late import flow
run = store.run(run_id).debug.fork(len(looked.debug.ticks)) if sys.argv[2] == "fork" else (
    flow.with_options(store=store).resume(run_id))
while not run.requests:
    pass
question = type(run.requests[0].question).__name__
run.answer(ok=True)
print(json.dumps([said, question, run.result(20)]))
"""
LATE = """
from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Workflow
class Verdict(HumanResponseEvent):
    ok: bool
class Approve(InputRequiredEvent[Verdict]):
    no: int
class Kept(Event):
    no: int
flow = Workflow("late")
@flow.step
async def ask(ev: StartEvent) -> list[Approve | Kept]: return [Kept(no=1), Approve(no=2)]
@flow.step
async def take(ev: Verdict) -> Kept: return Kept(no=3)
@flow.step
async def end(ev: list[Kept]) -> StopEvent: return StopEvent(result=[kept.no for kept in ev])
"""
BEGIN = """
import os, late
from flownb import Store
run = late.flow.with_options(store=Store("runs.db")).run(run_id="r")
while not run.requests:
    pass
os._exit(0)
"""


@pytest.mark.parametrize("how", ["fork", "resume"])
def test_a_run_that_was_looked_at_before_its_code_is_read_anew(tmp_path: Path, how: str):
    """R6.14, R6.37: its events were of unknown classes then; a fork before that says what is missing."""
    (tmp_path / "late.py").write_text(LATE, "utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def python(*argv: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", *argv],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    python(BEGIN)
    said, question, result = json.loads(python(LOOK_FIRST, "r", how))
    assert said.startswith("WorkflowNotDefined: Run 'r' is of workflow 'late' (late:late), which this process has not")
    assert (question, result) == ("Approve", [1, 3])
