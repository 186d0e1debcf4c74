"""What every store of journals keeps (R1.45). `MemoryJournal` is the model."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flownb.core.ticks import AnyTick, CancelRequested, GateClosed
from flownb.errors import JournalConflict, RunNotFound
from flownb.events import newest
from flownb.store.codec import Codec
from flownb.store.journal import Append, Journal, MemoryJournal
from flownb.store.sqlite import ROWS_LIMIT, SqliteJournal
from tests.store.samples import run_of, started

MAKERS: dict[str, Callable[[Path], Journal]] = {
    "memory": lambda folder: MemoryJournal(),
    "sqlite-wal": lambda folder: SqliteJournal(folder / "runs.db", Codec(newest), mode="wal"),
    "sqlite-delete": lambda folder: SqliteJournal(folder / "runs.db", Codec(newest), mode="delete"),
}


@pytest.fixture(params=MAKERS)
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    made = MAKERS[request.param](tmp_path)
    yield made
    made.close()


def test_what_was_appended_is_read(journal: Journal):
    """R1.45: ticks have dense numbers from 1, in order of their append."""
    ticks = run_of(5)
    journal.append([Append("r", 0, ticks[:1])])
    journal.append([Append("r", 1, ticks[1:3])], durable=True)
    journal.append([Append("r", 3, ticks[3:])])

    assert journal.read("r") == ticks
    assert journal.last_seq("r") == 5


@pytest.mark.parametrize(("start", "stop"), [(1, None), (1, 3), (2, 2), (3, 9), (5, 5), (6, None), (4, 3)])
def test_a_part_is_read(journal: Journal, start: int, stop: int | None):
    """`read` takes first and last tick, both included, and what is beyond the end is not there."""
    ticks = run_of(5)
    journal.append([Append("r", 0, ticks)])

    assert journal.read("r", start, stop) == ticks[start - 1 : stop]


def test_an_append_after_another_tick_is_refused(journal: Journal):
    """An entry names the tick that it follows; too early and too late are both conflicts."""
    ticks = run_of(4)
    journal.append([Append("r", 0, ticks[:2])])

    for after in (0, 1, 3):
        with pytest.raises(JournalConflict) as refused:
            journal.append([Append("r", after, ticks[2:])])
        assert vars(refused.value) == {"run_id": "r", "expected": after, "found": 2}
    journal.append([Append("r", 2, ticks[2:])])

    assert journal.read("r") == ticks


def test_a_group_is_written_whole_or_not_at_all(journal: Journal):
    """One conflict in a group commit: nothing of the group is there."""
    journal.append([Append("a", 0, run_of(2, "a")), Append("b", 0, run_of(2, "b"))])

    with pytest.raises(JournalConflict) as refused:
        journal.append([Append("a", 2, [GateClosed(9.0)]), Append("b", 1, [GateClosed(9.0)])])

    assert refused.value.run_id == "b"
    assert (journal.last_seq("a"), journal.last_seq("b")) == (2, 2)


def test_a_large_group_is_written(journal: Journal):
    """More rows than one statement takes, before and after the runs are known."""
    runs = {f"run/{i}.": run_of(2 * ROWS_LIMIT, f"run/{i}.") for i in range(3)}
    journal.append([Append(run_id, 0, ticks[:ROWS_LIMIT]) for run_id, ticks in runs.items()])
    journal.append([Append(run_id, ROWS_LIMIT, ticks[ROWS_LIMIT:]) for run_id, ticks in runs.items()])

    assert {run_id: journal.read(run_id) for run_id in runs} == runs


def test_there_is_no_run_of_that_name(journal: Journal):
    """A missing run is an error to read and 0 to `last_seq`."""
    with pytest.raises(RunNotFound) as missing:
        journal.read("nobody")

    assert missing.value.run_id == "nobody"
    assert journal.last_seq("nobody") == 0


def test_an_entry_without_ticks_makes_no_run(journal: Journal):
    """But it is checked: its run stands where it says."""
    journal.append([Append("r", 0, [])])
    assert journal.runs() == []
    journal.append([Append("r", 0, run_of(2)), Append("s", 0, [])])
    journal.append([Append("r", 2, [])])
    with pytest.raises(JournalConflict):
        journal.append([Append("r", 1, [])])

    assert [row.run_id for row in journal.runs()] == ["r"]


def test_runs_are_listed_with_the_newest_first(journal: Journal):
    """Each row says what its journal says, whether or not the store was told the status."""
    journal.append([Append("old", 0, [started("old", 5.0)])])
    journal.append([Append("new", 0, [started("new", 6.0)], status="running")])
    journal.append([Append("old", 1, [GateClosed(7.0)])])
    journal.append([Append("new", 1, [GateClosed(8.0)], status="paused")])
    journal.append([Append("new", 2, [CancelRequested(9.0)], status="cancelled")])

    rows = [(r.run_id, r.workflow, r.status, r.seq, r.started_at, r.updated_at) for r in journal.runs()]
    assert rows == [("new", "Sample", "cancelled", 3, 6.0, 9.0), ("old", "Sample", "paused", 2, 5.0, 7.0)]


def test_a_status_that_is_no_longer_told_is_not_kept(journal: Journal):
    """A stale status would be a lie; the journal is the truth."""
    journal.append([Append("r", 0, [started()], status="running")])
    journal.append([Append("r", 1, [GateClosed(7.0)])])

    assert [row.status for row in journal.runs()] == ["paused"]


@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from("abc"), st.integers(-1, 1), st.integers(0, 3)),
            max_size=3,
            unique_by=lambda e: e[0],
        ),
        max_size=12,
    )
)
def test_any_order_of_appends_is_the_same_as_in_memory(tmp_path_factory: pytest.TempPathFactory, groups: list):
    """Right and wrong appends (R1.45): SQLite accepts, refuses and keeps exactly what the model does."""
    model = MemoryJournal()
    store = SqliteJournal(tmp_path_factory.mktemp("store") / "runs.db", Codec(newest))
    for group in groups:
        entries = []
        for run_id, error, count in group:
            last = model.last_seq(run_id)
            ticks: list[AnyTick] = run_of(last + count, run_id)[last:] if last + count else []
            entries.append(Append(run_id, last + error, ticks))
        refused = [_refusal(journal, entries) for journal in (model, store)]
        assert refused[0] == refused[1]

    assert store.runs() == model.runs()
    for row in model.runs():
        assert store.read(row.run_id) == model.read(row.run_id)
    store.close()


def _refusal(journal: Journal, entries: list[Append]) -> dict[str, object] | None:
    try:
        journal.append(entries)
    except JournalConflict as error:
        return vars(error)
    return None
