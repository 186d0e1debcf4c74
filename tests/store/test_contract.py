"""What every store of journals keeps (R1.45). `MemoryJournal` is the model."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from flownb.core.ticks import AnyTick, CancelRequested, DefinitionAdopted, GateClosed, GateOpened, Hand, RequestAnswered
from flownb.errors import (
    InboxNotEmpty,
    JournalConflict,
    LeaseLost,
    RequestClosed,
    RunConflict,
    RunNotFound,
    RunReadOnly,
    TokenTaken,
)
from flownb.events import newest
from flownb.store.codec import Codec
from flownb.store.journal import Append, Claim, Holder, Journal, RunRow, Waits, Wakeup
from flownb.store.memory import MemoryJournal
from flownb.store.sql import ROWS_LIMIT
from flownb.store.sqlite import Mode, SqliteJournal
from tests.store.places import open_journal
from tests.store.samples import SPEC, out, run_of, started

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("memory", "sqlite-wal", "sqlite-delete", "postgres")
SHARED = KINDS[1:]

#: Opens one and the same store each time, as another process would; the store in memory is always the same object.
Open = Callable[[], Journal]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return cast(str, request.param)


#: For what makes sense between processes only.
between_processes = pytest.mark.parametrize("kind", SHARED)


@pytest.fixture
def place(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if kind == "postgres":
        return cast(str, request.getfixturevalue("new_url")())
    return str(tmp_path / "runs.db")


@pytest.fixture
def open_one(kind: str, place: str) -> Iterator[Open]:
    opened: list[Journal] = []
    memory = MemoryJournal(codec=Codec(newest))

    def open_next() -> Journal:
        if kind == "memory":
            return memory
        opened.append(open_journal(place, cast(Mode, kind.partition("-")[2] or "auto")))
        return opened[-1]

    yield open_next
    for store in opened:
        store.close()


@pytest.fixture
def journal(open_one: Open) -> Journal:
    return open_one()


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


def ran(journal: Journal, run_id: str = "r", length: int = 2, **more: Any) -> list[AnyTick]:
    """A run of some ticks, running, with a driver "d" of epoch 1 if nothing else is said."""
    ticks = run_of(length, run_id)
    journal.append([Append(run_id, 0, ticks, "running", **{"epoch": 1, "driver": "d", **more})])
    return ticks


def test_rows_that_are_there_already_are_written(journal: Journal):
    """An acknowledgement that was lost: the same append again is no conflict, whatever it wrote beside the ticks."""
    first = Append("r", 0, run_of(2), "running", 1, "d", opened=[Waits("request", 1)])
    journal.append([first])
    journal.append([first])
    fast = Append("r", 2, [GateClosed(5.0)], "running", 1)
    journal.append([fast])
    n = journal.put("r", GateOpened(6.0))
    slow = Append("r", 3, [GateClosed(6.0)], "paused", 1, taken=[n], closed=[("request", 1)])
    journal.append([slow])
    journal.append([slow, Append("s", 0, run_of(1, "s"), "running")])

    assert (journal.last_seq("r"), journal.last_seq("s")) == (4, 1)
    with pytest.raises(JournalConflict):
        journal.append([replace(slow, ticks=[GateClosed(6.5)])])
    with pytest.raises(JournalConflict):
        journal.append([fast])


def test_a_run_that_somebody_else_began_is_a_conflict(journal: Journal):
    """Also if its first tick looks the same: who is told that the run is its own acts on it (R5.1)."""
    first = started("r")
    journal.append([Append("r", 0, [first], "running", 1, "d")])

    with pytest.raises(JournalConflict):
        journal.append([Append("r", 0, [first], "running", 1, "e")])


def test_a_row_tells_what_the_run_is(journal: Journal):
    """Without reading its journal: definition, parent, notebook and driver."""
    ran(journal, "up", parent="top", notebook="/home/ann/a b.ipynb")
    row = journal.row("up")

    assert row is not None
    assert (row.workflow, row.key, row.hash) == ("Sample", "m:Sample", "cd")
    assert (row.parent, row.notebook, row.driver, row.seq) == ("top", "/home/ann/a b.ipynb", "d", 2)
    journal.append([Append("up", 2, [DefinitionAdopted(9.0, replace(SPEC, hash="ef"))], "running", 1)])
    assert journal.runs() == [replace(row, hash="ef", seq=3, updated_at=9.0)]
    assert journal.row("nobody") is None


def test_runs_are_found_by_what_they_are(journal: Journal):
    """R7.1, R1.39: by status, workflow (name or key), notebook and parent; the newest first, ties by id."""
    ran(journal, "a", notebook="n")
    journal.append([Append("b", 0, [started("b", 5.0)], parent="a", notebook="n")])
    journal.append([Append("c", 0, [started("c", 5.0)], "completed")])

    def ids(**wanted: Any) -> str:
        return "".join(row.run_id for row in journal.runs(**wanted))

    assert ids() == "bca"
    assert (ids(limit=2), ids(status="running"), ids(status="running", limit=1)) == ("bc", "ba", "b")
    assert (ids(status="completed"), ids(status="failed"), ids(status="")) == ("c", "", "")
    assert (ids(workflow="Sample"), ids(workflow="m:Sample"), ids(workflow="Other")) == ("bca", "bca", "")
    assert (ids(notebook="n"), ids(parent="a"), ids(notebook="n", status="running", limit=1)) == ("ba", "b", "b")
    assert journal.counts() == {"running": 2, "completed": 1}


# Who drives.


def test_a_run_that_nobody_holds_is_claimed(open_one: Open):
    """R5.7: once; each change of holder is another epoch, and asking again is none."""
    one, two = open_one(), open_one()
    one.append([Append("r", 0, run_of(2), "waiting")])

    assert one.claim("r", "d", 60) == Claim(1, 2, True, "d")
    assert two.claim("r", "e", 60) == Claim(0, 2, False, "d")
    assert one.claim("r", "d", 60) == Claim(1, 2, True, "d")
    assert one.holder("r")[:2] == ("d", 1)
    one.release("d", ["r", "other"])
    assert one.holder("r") == Holder("", 1, 0.0)
    assert two.claim("r", "e", 60) == Claim(2, 2, True, "e")
    one.release("d")
    assert two.holder("r")[:2] == ("e", 2)


def test_there_is_no_run_to_claim(journal: Journal):
    """Nor to look at, nor to lay something into the inbox of."""
    uses: list[Callable[[], object]] = [
        lambda: journal.claim("nobody", "d", 60),
        lambda: journal.holder("nobody"),
        lambda: journal.put("nobody", GateClosed(1.0)),
    ]
    for use in uses:
        with pytest.raises(RunNotFound, match="'nobody'"):
            use()
    assert journal.inbox(["nobody"]) == []


def test_a_lease_that_is_over_is_taken(open_one: Open):
    """R5.7: by the store's clock; whoever has never had one holds nothing either."""
    one, two = open_one(), open_one()
    ran(one, "never")
    ran(one, "short")
    one.claim("short", "d", 0.05)
    time.sleep(0.1)

    assert two.claim("short", "e", 60) == Claim(2, 2, True, "e")
    assert two.claim("never", "e", 60) == Claim(2, 2, True, "e")
    assert one.claim("short", "d", 60) == Claim(0, 2, False, "e")


def test_a_driver_that_is_known_to_be_dead_holds_nothing(journal: Journal):
    """A kernel that was started again need not wait for the lease of the old one."""
    ran(journal)
    journal.renew("d", 60)
    asked: list[str] = []

    def ask(driver: str) -> bool:
        asked.append(driver)
        return len(asked) > 1

    assert journal.claim("r", "e", 60, was_lost=ask) == Claim(0, 2, False, "d")
    assert journal.claim("r", "e", 60, was_lost=ask) == Claim(2, 2, True, "e")
    assert asked == ["d", "d"]


def test_a_driver_that_slept_goes_on_if_nobody_wanted_its_runs(open_one: Open):
    """R5.10: a lease that is over is renewed; False only if a run was claimed meanwhile, which `holder` names."""
    one, two = open_one(), open_one()
    for run_id in ("a", "b"):
        ran(one, run_id)

    assert not one.renew("d", 0.05)  # it is new
    time.sleep(0.1)
    assert one.renew("d", 0.05)
    time.sleep(0.1)
    two.claim("a", "e", 60)
    assert not one.renew("d", 60)
    assert (one.holder("a")[:2], one.holder("b")[:2]) == (("e", 2), ("d", 1))
    assert one.holder("b").lease_until > 0
    assert not two.claim("b", "e", 60).is_mine
    one.append([Append("b", 2, [GateClosed(9.0)], "running", 1)])


@pytest.mark.parametrize("status", ["running", "paused"])
def test_a_driver_that_lost_its_run_writes_nothing(open_one: Open, status: str):
    """R5.8, R5.9: the epoch is looked at where the tick is written, in one statement as in a transaction; nothing of
    the group is there."""
    one, two = open_one(), open_one()
    for run_id in ("r", "s"):
        ran(one, run_id)
    two.claim("r", "e", 60)

    with pytest.raises(LeaseLost) as lost:
        one.append([
            Append("s", 2, [GateClosed(9.0)], "running", 1),
            Append("r", 2, [GateClosed(9.0)], status, 1, opened=[Waits("timer", 1, 5.0)]),
        ])  # fmt: skip
    assert vars(lost.value) == {"run_id": "r", "epoch": 1, "found": 2, "holder": "e"}
    assert (one.last_seq("r"), one.last_seq("s"), one.waiting()) == (2, 2, [])
    with pytest.raises(LeaseLost):
        one.append([Append("r", 2, [GateClosed(9.0)], "running", 1)])
    two.append([Append("r", 2, [GateClosed(9.5)], "running", 2)])
    assert one.read("r", 3) == [GateClosed(9.5)]


def test_the_driver_of_a_new_run_is_that_of_its_first_tick(journal: Journal):
    """It needs no claim."""
    ran(journal, epoch=7)

    assert journal.holder("r") == Holder("d", 7, 0.0)
    with pytest.raises(LeaseLost):
        journal.append([Append("r", 2, [GateClosed(9.0)], "running", 6)])
    journal.append([Append("r", 2, [GateClosed(9.0)], "running", 7)])


# What came.


def test_what_came_lies_in_the_inbox_until_it_is_admitted(open_one: Open):
    """R1.28, R4.62: in order, for whoever drives; taken out with its tick or not at all."""
    one, two = open_one(), open_one()
    ran(one, "r")
    ran(one, "s")
    numbers = [two.put(run_id, GateClosed(5.0 + i)) for i, run_id in enumerate("rsr")]

    assert [(e.n, e.run_id, e.tick) for e in one.inbox(["r", "s", "r"])] == [
        (n, run_id, GateClosed(5.0 + i)) for i, (n, run_id) in enumerate(zip(numbers, "rsr", strict=True))
    ]
    assert numbers == sorted(set(numbers)) and numbers[0] > 0
    with pytest.raises(JournalConflict):
        one.append([Append("r", 1, [GateClosed(5.0)], "running", 1, taken=numbers[:1])])
    assert len(one.inbox(["r"])) == 2
    one.append([Append("r", 2, [GateClosed(5.0)], "running", 1, taken=numbers[:1])])
    assert [e.n for e in two.inbox(["r"])] == numbers[2:]
    one.append([Append("r", 3, [], "running", 1, taken=numbers[2:])])
    assert two.inbox(["r"]) == []
    assert two.put("r", GateClosed(9.0)) > numbers[2]


def test_an_entry_can_be_edited_until_it_is_admitted(open_one: Open):
    """R5.29: in its place, for whoever drives; its key stays taken, and nothing else changes."""
    one, two = open_one(), open_one()
    ran(one, "r")
    first, second = (one.put("r", RequestAnswered(5.0, 1, out(word)), key=f"answer {word}") for word in "ab")
    hand = Hand("ann", (out("a"),))

    assert one.edit("r", first, RequestAnswered(5.0, 1, out("c"), hand=hand))
    assert [(e.n, e.tick) for e in two.inbox(["r"])] == [
        (first, RequestAnswered(5.0, 1, out("c"), hand=hand)),
        (second, RequestAnswered(5.0, 1, out("b"))),
    ]
    assert two.put("r", RequestAnswered(5.0, 1, out("a")), key="answer a") == 0
    one.append([Append("r", 2, [GateClosed(5.0)], "running", 1, taken=[first])])
    assert not one.edit("r", first, GateClosed(5.0))
    assert not one.edit("nobody", second, GateClosed(5.0))
    assert [e.n for e in two.inbox(["r"])] == [second]


def test_an_entry_is_admitted_once(journal: Journal):
    """R1.28: a tick of an entry that is not there any more is refused, and not written; nor that of another run."""
    ran(journal, "r")
    ran(journal, "s")
    n = journal.put("r", GateClosed(5.0))

    with pytest.raises(JournalConflict, match="admitted before"):
        journal.append([Append("s", 2, [GateClosed(5.0)], "running", 1, taken=[n])])
    journal.append([Append("r", 2, [GateClosed(5.0)], "running", 1, taken=[n])])
    with pytest.raises(JournalConflict, match="admitted before"):
        journal.append([Append("r", 3, [GateClosed(5.0)], "running", 1, taken=[n])])
    assert (journal.last_seq("r"), journal.last_seq("s")) == (3, 2)


def test_one_answer_waits_for_each_question(journal: Journal):
    """R1.30: a key is taken as long as its entry waits."""
    ran(journal, opened=[Waits("request", 1), Waits("request", 2)])
    n = journal.put("r", RequestAnswered(5.0, 1, out("a")), key="answer 1", request=1)

    assert journal.put("r", RequestAnswered(6.0, 1, out("b")), key="answer 1", request=1) == 0
    assert journal.put("r", RequestAnswered(6.0, 2, out("b")), key="answer 2", request=2) > n
    assert journal.put("r", GateClosed(7.0)) and journal.put("r", GateClosed(7.0))
    journal.append([Append("r", 2, [RequestAnswered(5.0, 1, out("a"))], "running", 1, taken=[n])])
    assert journal.put("r", GateClosed(8.0), key="answer 1")


@pytest.mark.parametrize("how", ["closed", "ended"])
def test_a_question_that_is_closed_takes_no_answer(journal: Journal, how: str):
    """R4.48: looked at in the transaction that lays the answer down."""
    ran(journal, opened=[Waits("request", 1)])
    end = {"closed": [("request", 1)]} if how == "closed" else {}
    journal.append([Append("r", 2, [GateClosed(5.0)], "running" if end else "failed", 1, **end)])

    with pytest.raises(RequestClosed, match="'r:1'"):
        journal.put("r", RequestAnswered(6.0, 1, out("a")), key="answer 1", request=1)
    assert journal.inbox(["r"]) == []


def test_a_deadline_does_not_pass_an_answer(journal: Journal):
    """R1.27: who wants to be alone is not, and nothing is written."""
    ran(journal)
    alone = Append("r", 2, [GateClosed(5.0)], "waiting", 1, opened=[Waits("timer", 3)], alone=True)
    n = journal.put("r", GateOpened(4.0))

    with pytest.raises(InboxNotEmpty):
        journal.append([alone])
    assert (journal.last_seq("r"), journal.waiting()) == (2, [])
    journal.append([replace(alone, taken=[n])])
    assert (journal.last_seq("r"), len(journal.waiting())) == (3, 1)


@between_processes
def test_the_driver_hears_that_something_came(open_one: Open):
    """`version` is another one after a `put` of another connection, and stays so."""
    one, two = open_one(), open_one()
    ran(one)
    before = one.version()
    assert one.version() == before
    one.append([Append("r", 2, [GateClosed(5.0)], "running", 1)])
    assert one.version() == before
    two.put("r", GateClosed(5.0))
    deadline = time.monotonic() + 1.0  # less than what a store that hears nothing lets pass
    while one.version() == before and time.monotonic() < deadline:
        time.sleep(0.01)

    assert one.version() != before


# What is due.


def test_what_runs_wait_for_is_listed(journal: Journal):
    """R7.3, R7.6: by run, kind (timer, request, retry) and id; of a question the body, of none the token."""
    ask = Waits("request", 1, 9.0, "load", b'{"t":"q"}', "hash 1")
    ran(journal, "b", opened=[ask, Waits("retry", 2, 7.0, "load"), Waits("timer", 10, 8.0), Waits("timer", 9, 8.0)])
    ran(journal, "a", opened=[Waits("request", 4)])

    assert [(run, w.kind, w.id) for run, w in journal.waiting()] == [
        ("a", "request", 4), ("b", "timer", 9), ("b", "timer", 10), ("b", "request", 1), ("b", "retry", 2),
    ]  # fmt: skip
    assert journal.waiting(run_id="b", kind="request") == [("b", replace(ask, token=""))]
    assert [w.id for _, w in journal.waiting(due=8.0)] == [9, 10, 2]
    assert [w.id for _, w in journal.waiting(kind="timer", due=7.9)] == []


def test_runs_that_have_a_kind_of_tick_are_named(journal: Journal):
    """In the order that is asked, however many there are; none is read."""
    for i in range(ROWS_LIMIT + 3):
        ticks = [GateClosed(2.0)] if i % 2 else [CancelRequested(2.0)]
        journal.append([Append(f"r{i}", 0, [started(f"r{i}"), *ticks])])
    ids = [f"r{i}" for i in reversed(range(ROWS_LIMIT + 3))]
    assert journal.having(["GateClosed"], [*ids, "nobody"]) == [run_id for run_id in ids if int(run_id[1:]) % 2]
    assert journal.having(["GateClosed", "CancelRequested"], ids[:2]) == ids[:2]
    assert journal.having(["GateOpened"], ids) == journal.having([], ids) == journal.having(["GateClosed"], []) == []


def test_what_is_due_first_is_known(journal: Journal):
    """R7.7: the earliest; of several the first by run, kind and id. What has no time never is."""
    assert journal.next_wakeup() is None
    ran(journal, "b", opened=[Waits("timer", 1, 5.0), Waits("request", 1)])
    ran(journal, "a", opened=[Waits("retry", 1, 5.0), Waits("request", 9, 5.0), Waits("request", 3, 5.0)])

    assert journal.next_wakeup() == Wakeup(5.0, "a", "request", 3)
    journal.append([Append("a", 2, [GateClosed(5.0)], "running", 1, opened=[Waits("request", 3, 6.0)])])
    assert journal.next_wakeup() == Wakeup(5.0, "a", "request", 9)
    journal.append([Append("a", 3, [GateClosed(5.0)], "cancelled", 1)])
    assert journal.next_wakeup() == Wakeup(5.0, "b", "timer", 1)
    journal.append([Append("b", 2, [GateClosed(5.0)], "running", 1, closed=[("timer", 1), ("timer", 77)])])
    assert journal.next_wakeup() is None
    assert journal.waiting() == [("b", Waits("request", 1))]


def test_a_row_that_is_closed_and_put_in_one_entry_is_there(journal: Journal):
    """As after a step that asks again at once."""
    ran(journal, opened=[Waits("timer", 1, 5.0)])
    journal.append(
        [Append("r", 2, [GateClosed(5.0)], "running", 1, opened=[Waits("timer", 1, 6.0)], closed=[("timer", 1)])]
    )

    assert journal.waiting() == [("r", Waits("timer", 1, 6.0))]


def test_a_token_answers_one_question(journal: Journal):
    """R4.58 to R4.61: unique among open questions, known when it is closed, and never in words."""
    ran(journal, "a", opened=[Waits("request", 1, token="0ddba11")])
    taken = Append("b", 0, run_of(2, "b"), "running", opened=[Waits("request", 5, token="0ddba11")])

    with pytest.raises(TokenTaken) as error:
        journal.append([taken])
    assert "0ddba11" not in f"{error.value} {vars(error.value)}"
    assert (journal.last_seq("b"), journal.token("0ddba11"), journal.token("?")) == (0, ("a", 1), None)
    journal.append([Append("a", 2, [GateClosed(5.0)], "running", 1, opened=[Waits("request", 1, token="0ddba11")])])
    journal.append([Append("a", 3, [GateClosed(5.0)], "completed", 1)])
    assert journal.token("0ddba11") == ("a", 1)
    journal.append([taken])
    assert journal.token("0ddba11") == ("b", 5)


def test_two_new_questions_of_one_token_are_refused(journal: Journal):
    """Also in one transaction."""
    entries = [Append(r, 0, run_of(1, r), "running", opened=[Waits("request", 1, token="h")]) for r in "ab"]

    with pytest.raises(TokenTaken):
        journal.append(entries)
    assert journal.runs() == []


# The rest.


def test_checkpoints_may_be_thrown_away(journal: Journal):
    """The last one at or before a tick; a run without one is read from its first tick."""
    ran(journal, "r")
    for seq in (10, 20):
        journal.put_checkpoint("r", seq, b"\0state %d" % seq)
    journal.put_checkpoint("r", 20, b"newer")

    found = [journal.checkpoint("r", seq) for seq in (9, 10, 19, 20, 99)]
    assert found == [None, (10, b"\0state 10"), (10, b"\0state 10"), (20, b"newer"), (20, b"newer")]
    assert journal.checkpoint("s", 99) is None
    journal.drop_checkpoints()
    assert journal.checkpoint("r", 99) is None


def test_a_store_has_one_secret(open_one: Open):
    """R4.57: made once, whoever asks first, at once or later."""
    stores = [open_one() for _ in range(4)]
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda store=store: found.append(store.secret())) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [len(secret) for secret in found] == [32] * 4
    assert {open_one().secret(), *found} == {found[0]}


def test_a_deleted_run_leaves_nothing(journal: Journal):
    """Not its ticks, inbox, questions, tokens or checkpoints; others stay, and its driver is told."""
    for run_id in ("r", "s"):
        ran(journal, run_id, opened=[Waits("request", 1, 5.0, token=f"hash {run_id}")])
        journal.put(run_id, GateClosed(5.0))
        journal.put_checkpoint(run_id, 1, b"c")
    journal.delete(["r", "other"])

    assert [row.run_id for row in journal.runs()] == ["s"]
    assert (journal.last_seq("r"), journal.token("hash r"), journal.checkpoint("r", 9)) == (0, None, None)
    assert [run_id for run_id, _ in journal.waiting()] == [e.run_id for e in journal.inbox("rs")] == ["s"]
    with pytest.raises(JournalConflict):
        journal.append([Append("r", 2, [GateClosed(9.0)], "running", 1)])
    ran(journal, "r")
    assert journal.inbox("r") == []


# Races.


IMPORTED = RunRow("r", "Sample", "paused", 5, 1.0, 5.0, "m:Imported", "hash", "", "", "imported:why")


def test_rows_are_read_and_restored_as_they_are(journal: Journal):
    """R7.12: a run that is restored is listed as it is told, and its ticks are the same byte by byte."""
    ticks = run_of(5)
    journal.append([Append("o", 0, ticks, "paused")])
    raw = journal.raw("o")
    assert [(row[0], row[1], row[2]) for row in raw] == [(n, t.at, type(t).__name__) for n, t in enumerate(ticks, 1)]
    child = replace(IMPORTED, run_id="r/1/1", parent="r", workflow="Child")
    journal.restore([(IMPORTED, raw), (child, raw[:2])])

    assert journal.raw("r") == raw and journal.raw("r/1/1") == raw[:2]
    assert journal.read("r") == ticks
    row = journal.row("r")
    assert row is not None
    assert replace(row, started_at=1.0, updated_at=5.0) == IMPORTED
    assert [found.run_id for found in journal.runs(parent="r")] == ["r/1/1"]
    assert [found.run_id for found in journal.runs(workflow="m:Imported", status="paused")] == ["r", "r/1/1"]
    with pytest.raises(RunNotFound):
        journal.raw("nobody")


def test_an_imported_run_is_replaced_and_no_other(journal: Journal):
    """One transaction: a run that was not imported keeps all of them out."""
    journal.append([Append("o", 0, run_of(5, "o"), "paused")])
    raw = journal.raw("o")
    journal.restore([(IMPORTED, raw[:2])])
    journal.restore([(replace(IMPORTED, driver="imported:"), raw)])
    row = journal.row("r")
    assert row is not None and (row.seq, row.driver) == (5, "imported:")
    with pytest.raises(RunConflict, match="another run 'o'"):
        journal.restore([(replace(IMPORTED, run_id="new"), raw), (replace(IMPORTED, run_id="o"), raw[:1])])
    assert journal.row("new") is None
    assert journal.last_seq("o") == 5


def test_an_imported_run_is_held_by_nobody_and_takes_nothing(journal: Journal):
    """Whoever wants it, and whatever is said of its holder."""
    journal.append([Append("o", 0, run_of(5, "o"), "paused")])
    journal.restore([(IMPORTED, journal.raw("o"))])
    assert journal.claim("r", "python:a", 30.0, was_lost=lambda _: True) == Claim(0, 5, False, "imported:why")
    assert journal.holder("r") == Holder("imported:why", 0, 0.0)
    with pytest.raises(RunReadOnly, match="was imported"):
        journal.put("r", GateClosed(9.0))
    assert (journal.inbox(["r"]), journal.waiting(run_id="r")) == ([], [])
    journal.delete(["r"])
    assert journal.row("r") is None


def test_runs_that_something_came_for_are_named_and_what_is_sound_is_counted(journal: Journal):
    """`came` decodes nothing, `sound` only sums; a new store has neither."""
    assert (journal.came(), journal.sound("r")) == ([], 0)
    journal.append([Append(run_id, 0, run_of(4, run_id)) for run_id in ("s", "r", "t")])
    for run_id in ("s", "r", "s"):
        journal.put(run_id, GateClosed(9.0))

    assert journal.came() == ["r", "s"]
    assert [journal.sound(run_id) for run_id in ("r", "s", "nobody")] == [4, 4, 0]
    journal.shrink()
    assert journal.read("r") == run_of(4)


@between_processes
def test_all_that_may_name_a_file_is_read(journal: Journal):
    """Ticks, what lies in inboxes, and questions."""
    journal.append([Append("a", 0, run_of(3, "a"), "waiting", opened=[Waits("request", 1, None, "s", b"question")])])
    journal.append([Append("b", 0, run_of(2, "b"))])
    journal.put("a", GateClosed(9.0, "person", "ann"))
    bodies = list(journal.bodies())
    assert len(bodies) == 3 + 2 + 1 + 1
    assert b"question" in bodies and any(b"ann" in body for body in bodies)
    assert {row[3] for run_id in "ab" for row in journal.raw(run_id)} <= {*bodies}


def racers(place: str, what: str, count: int) -> list[list[str]]:
    """What two processes print that do the same at once."""
    command = [sys.executable, "-m", "tests.store.racer", place]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen([*command, me, what, str(count)], cwd=ROOT, **pipes) for me in ("one", "two")]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    outputs = [process.communicate(timeout=100)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    return [text.splitlines() for text in outputs]


@between_processes
def test_two_processes_claim_at_once(journal: Journal, place: str):
    """R5.7: a hundred runs, each with one driver."""
    journal.append([Append(f"race{i}", 0, run_of(1, f"race{i}"), "waiting") for i in range(100)])
    claims = racers(place, "claim", 100)

    for one, two in zip(*claims, strict=True):
        assert sorted(line.split()[1] for line in (one, two)) == ["0", "1"]


@between_processes
def test_two_processes_answer_at_once(journal: Journal, place: str):
    """R1.30: a hundred questions, each with one answer."""
    for i in range(100):
        ran(journal, f"race{i}", 1, opened=[Waits("request", 1)])
    answers = racers(place, "answer", 100)

    for one, two in zip(*answers, strict=True):
        numbers = sorted(int(line.split()[1]) for line in (one, two))
        assert numbers[0] == 0 < numbers[1]
    assert len(journal.inbox(f"race{i}" for i in range(100))) == 100


@between_processes
def test_two_processes_write_for_seconds(journal: Journal, place: str):
    """C107: neither is told that the store is locked, and all is there."""
    ran(journal, "race0")
    counts = [int(lines[0]) for lines in racers(place, "write", 5)]

    assert [len(journal.read(me)) for me in ("one", "two")] == counts
    assert len(journal.inbox(["race0"])) == sum((count - 1) // 10 for count in counts)


def test_an_answer_and_a_deadline_at_once_have_one_winner(open_one: Open):
    """R1.27, R4.48: either the answer lies in the inbox and the deadline was refused, or the other way round."""
    driver, person = open_one(), open_one()
    answered = 0
    for i in range(60):
        run_id = f"r{i}"
        ran(driver, run_id, opened=[Waits("request", 1, 5.0)])
        barrier, outcome = threading.Barrier(2), []

        def answer(run_id: str = run_id, barrier: Any = barrier, outcome: list[str] = outcome) -> None:
            barrier.wait()
            try:
                person.put(run_id, RequestAnswered(5.0, 1, out("a")), key="answer 1", request=1)
            except RequestClosed:
                outcome.append("refused")

        thread = threading.Thread(target=answer)
        thread.start()
        barrier.wait()
        try:
            driver.append([Append(run_id, 2, [GateClosed(5.0)], "waiting", 1, closed=[("request", 1)], alone=True)])
        except InboxNotEmpty:
            outcome.append("passed over")
            answered += 1
        thread.join()
        assert len(outcome) == 1
        assert len(driver.inbox([run_id])) == (outcome == ["passed over"])
    assert answered < 60
