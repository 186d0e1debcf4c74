"""One transaction for the runs of a turn, and what happens when the store does not take it."""

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flownb import Store
from flownb.errors import WorkflowRuntimeError
from flownb.events import newest
from flownb.runtime import runner as runners
from flownb.runtime.commit import Committer
from flownb.store.codec import Codec
from flownb.store.sqlite import SqliteJournal
from tests.polling import until, wait_until
from tests.runtime.flows import Asks, Count, CountingJournal, Forever


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runners, "BACKOFF_S", (0.01, 0.02))


def stored(journal: Any) -> Store:
    store = Store(":memory:")
    store._committer = Committer(journal, Codec(newest, "live"))
    return store


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Store]:
    store = stored(SqliteJournal(tmp_path / "runs.db", Codec(newest), timeout_s=0.05))
    yield store
    store.close()


def test_a_store_that_cannot_be_used_is_tried_once_a_turn_for_all_its_runs():
    """R1.16: the whole group is put back at once; each try of a locked file holds up every run of the loop."""
    journal = CountingJournal(error=WorkflowRuntimeError("The store is locked."))
    tries: list[int] = []
    append = journal.append

    def counted(entries: Any, *, durable: bool = False) -> None:
        tries.append(len(entries))
        append(entries, durable=durable)

    journal.append = counted  # type: ignore[method-assign]
    flow = Count().with_options(store=stored(journal))

    async def main() -> None:
        journal.fails = 3
        runs = [flow.run() for _ in range(10)]
        await until(lambda: all(run.status == "blocked" for run in runs))
        assert "The store is locked." in runs[0].why()
        assert await asyncio.gather(*runs) == [[0, 1, 2]] * 10

    asyncio.run(main())
    assert tries[:4] == [10, 10, 10, 10]


def test_another_process_that_writes_holds_up_nobody_but_the_runs_of_that_file(file: Store, tmp_path: Path):
    """They are blocked, with the reason, and go on when the file is free; runs without a store notice nothing."""
    other = sqlite3.connect(tmp_path / "runs.db", isolation_level=None)
    journal, tries = file._committer.journal, 0
    append = journal.append

    def counted(entries: Any, *, durable: bool = False) -> None:
        nonlocal tries
        tries += 1
        append(entries, durable=durable)

    journal.append = counted  # type: ignore[method-assign]

    async def main() -> None:
        other.execute("BEGIN IMMEDIATE")
        locked = [Count().with_options(store=file).run() for _ in range(20)]
        most, end = 0, time.monotonic() + 0.6
        while time.monotonic() < end:
            before = tries
            assert await Count().run(n=2) == [0, 1]
            most = max(most, tries - before)
        assert {run.status for run in locked} == {"blocked"}
        assert "database is locked" in locked[0].why()
        assert 0 < most < 10  # each holds the loop up for 0.05 s; 20 of them, one after the other, for a second
        other.execute("ROLLBACK")
        assert await asyncio.gather(*locked) == [[0, 1, 2]] * 20

    try:
        asyncio.run(main())
    finally:
        other.close()


def test_a_closed_store_suspends_its_runs_in_words(file: Store):
    """Nobody opens it again, so trying on would keep `await` and `cancel` waiting for ever."""
    run = Forever().with_options(store=file).run()
    asks = Asks().with_options(store=file).run()
    wait_until(lambda: run.now.running and len(asks.requests) == 1)
    file.close()
    with pytest.raises(WorkflowRuntimeError, match="is closed"):  # so it is not acknowledged
        asks.answer(ok=True)
    with pytest.raises(WorkflowRuntimeError, match="is closed"):
        asks.cancel().result(20)
    assert asks.status == "suspended"
    assert "is closed" in asks.why()
    handle = run.cancel()
    with pytest.raises(WorkflowRuntimeError, match="is closed"):
        handle.result(20)
    run.cancel().result(20)
    assert run.status == "suspended"
