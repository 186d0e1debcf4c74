"""What is on the disk when: before something is acknowledged, before a step starts that must not run twice; and what
becomes of a run while the store takes nothing."""

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from flownb import Event, StartEvent, StopEvent, Store, Workflow, step
from flownb.core.reduce import fold
from flownb.core.ticks import StepFinished
from flownb.errors import WorkflowError
from flownb.store.journal import Append
from tests.polling import wait_until
from tests.stored.flows import Asks, Listens, News, Returns

Open = Callable[..., Store]


class Spy:
    """What a store was told to write, and whether it had to be on the disk."""

    def __init__(self, store: Store) -> None:
        self.written: list[tuple[list[str], bool]] = []
        append = store.journal.append

        def spy(entries: list[Append], *, durable: bool = False) -> None:
            append(entries, durable=durable)
            self.written.append(([type(tick).__name__ for entry in entries for tick in entry.ticks], durable))

        store.journal.append = spy  # type: ignore[method-assign]

    def durable(self, kind: str) -> set[bool]:
        """How turns with such a tick were written."""
        return {durable for kinds, durable in self.written if kind in kinds}


def test_r1_12_what_is_acknowledged_is_flushed_first(place: str, open_store: Open):
    """R1.12: starts, answers, outside events and ends; what only steps do is not, for it costs a flush a turn."""
    store = open_store(place)
    spy = Spy(store)
    asks = Asks().with_options(store=store).run()
    wait_until(lambda: asks.status == "waiting")
    asks.answer(ok=True)
    asks.result(20)
    listens = Listens().with_options(store=store).run(n=2)
    listens.send_event(News(no=1)).result(20)
    wait_until(lambda: listens.state.get("heard") == [1] and listens.status == "waiting")
    listens.send_event(News(no=2)).result(20)
    assert listens.result(20) == [1, 2]

    for kind in ("RunStarted", "RequestAnswered", "EventArrived"):
        assert spy.durable(kind) == {True}, kind
    assert [durable for kinds, durable in spy.written if kinds[-1] == "StepFinished"][-1] is True  # the end
    assert spy.durable("WaitOpened") == {False}


@pytest.mark.parametrize("idempotent", [False, True])
def test_r3_61_the_start_of_a_step_that_must_not_run_twice_is_flushed_first(
    place: str, open_store: Open, idempotent: bool
):
    """R3.61: also when it comes after another step; the start of any other one is not worth a flush."""
    store = open_store(place)
    spy, flushed = Spy(store), []
    middle = Workflow[Any]("middle")

    @middle.step
    async def begin(ev: StartEvent) -> News:
        return News(no=1)

    @middle.step(idempotent=idempotent)
    async def charge(ev: News) -> Big:
        flushed.append(spy.written[-1][1])
        return Big(text="")

    @middle.step
    async def end(ev: Big) -> StopEvent:
        return StopEvent()

    middle.with_options(store=store).run().result(20)
    assert flushed == [not idempotent]
    assert spy.written[1] == (["StepFinished"], not idempotent)


class Big(Event):
    text: str


class Grows(Workflow[int]):
    """Needs much room."""

    @step
    async def begin(self, ev: StartEvent) -> Big:
        return Big(text="x" * 50_000)

    @step
    async def end(self, ev: Big) -> StopEvent:
        return StopEvent(result=len(ev.text))


def test_r1_16_a_full_disk_blocks_a_run_and_loses_nothing(place: str, open_store: Open):
    """R1.16: nothing was acted on, the tick waits at the head, and the run goes on as soon as there is room."""
    store = open_store(place)
    db = store.journal._db  # type: ignore[attr-defined]
    pages = db.execute("PRAGMA page_count").fetchone()[0]
    db.execute(f"PRAGMA max_page_count = {pages + 4}")
    run = Grows().with_options(store=store).run(run_id="r")
    wait_until(lambda: run.status == "blocked")
    assert "full" in run.why()
    assert store.journal.last_seq("r") == len(run.debug.ticks) == 1
    assert not run.is_done()
    other = open_store(place)
    assert [row.status for row in other.runs()] == ["running"]
    db.execute("PRAGMA max_page_count = 1000000")

    assert run.result(20) == 50_000
    assert fold(other.history("r")).status == "completed"
    assert sum(isinstance(tick, StepFinished) for tick in other.history("r")) == 2


def test_r1_28_an_entry_leaves_the_inbox_with_its_tick_or_not_at_all(place: str, open_store: Open):
    """R1.28, R1.16: one transaction: what keeps it from leaving keeps its tick from being written."""
    store = open_store(place)
    run = Returns().with_options(store=store).run(run_id="r")
    wait_until(lambda: run.status == "waiting")
    before = store.journal.last_seq("r")
    with sqlite3.connect(place) as db:
        db.execute("CREATE TRIGGER stays BEFORE DELETE ON inbox BEGIN SELECT RAISE(ABORT, 'it stays'); END")
    run.answer(ok=True, words="kept")
    wait_until(lambda: run.status in ("blocked", "suspended"))
    assert store.journal.last_seq("r") == before
    (entry,) = store.journal.inbox(["r"])
    assert entry.tick.answer.value.words == "kept"
    with sqlite3.connect(place) as db:
        db.execute("DROP TRIGGER stays")
    db.close()

    assert run.result(20) == [3, "kept"]
    assert store.journal.inbox(["r"]) == []
    assert [type(tick).__name__ for tick in store.history("r")].count("RequestAnswered") == 1


def test_r1_29_what_is_accepted_is_on_the_disk_when_the_call_returns(place: str, open_store: Open):
    """R1.29: also while the driver cannot write; and where not even that can be written, who answers is told, and the
    question stays open."""
    store = open_store(place)
    run = Returns().with_options(store=store).run(run_id="r")
    wait_until(lambda: run.status == "waiting")
    looker = open_store(place)
    with sqlite3.connect(place) as db:
        db.execute("CREATE TRIGGER none BEFORE INSERT ON inbox BEGIN SELECT RAISE(ABORT, 'no room'); END")
    with pytest.raises(WorkflowError, match="no room"):
        run.answer(ok=True)
    assert run.requests[0].status == "open"
    with sqlite3.connect(place) as db:
        db.execute("DROP TRIGGER none")
        db.execute("CREATE TRIGGER stays BEFORE DELETE ON inbox BEGIN SELECT RAISE(ABORT, 'it stays'); END")
    run.answer(ok=True, words="later")
    assert [entry.tick.answer.value.words for entry in looker.journal.inbox(["r"])] == ["later"]
    with sqlite3.connect(place) as db:
        db.execute("DROP TRIGGER stays")
    db.close()
    assert run.result(20) == [3, "later"]
