"""The tree of the runs that come from one another."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from flownb import Store
from flownb.run import Run
from flownb.store.journal import ENDLESS
from flownb.store.sql import SqlJournal
from tests.polling import until
from tests.runtime.flows import Asks, Begin, Count


async def ended(run: Run[Any]) -> Run[Any]:
    await run
    return run


def test_forks_snapshots_and_replays_stand_under_what_they_come_from():
    """R6.37, R6.43: from any run of it, which is marked."""

    async def main() -> None:
        run = await ended(Count().run(n=2))
        fork = await ended(run.debug.fork(2))
        inner = await ended(fork.debug.fork(3))
        other = await ended(run.debug.fork(1, event=Begin(n=1)))
        replay = await ended(run.debug.replay())
        of_replay = await ended(replay.debug.fork(2))
        tree = inner.debug.tree()
        assert tree.run_id == run.run_id
        assert {child.run_id for child in tree.children} == {fork.run_id, other.run_id, replay.run_id}
        links = {branch.run_id: str(branch.link) for branch in tree.walk()}
        assert links == {
            run.run_id: "",
            fork.run_id: "fork after tick 2",
            inner.run_id: "fork after tick 3",
            other.run_id: "fork with another input",
            replay.run_id: "replay",
            of_replay.run_id: "fork after tick 2",
        }
        assert [branch.run_id for branch in tree.walk() if branch.is_this] == [inner.run_id]
        assert tree[inner.run_id].link.base == fork.run_id
        assert tree[of_replay.run_id].link.base == replay.run_id
        assert len(tree) == 6
        with pytest.raises(KeyError):
            tree["nowhere"]
        lines = repr(tree).splitlines()
        assert lines[0] == f"{run.run_id}  completed, {len(run.debug.ticks)} ticks"
        assert f"{inner.run_id}  fork after tick 3: completed, {len(inner.debug.ticks)} ticks  <- this run" in repr(
            tree
        )
        assert sum(line.startswith(("├─ ", "└─ ")) for line in lines) == 3

    asyncio.run(main())


def test_a_run_alone_is_a_tree():
    async def main() -> None:
        run = await ended(Count().run(n=1))
        tree = run.debug.tree()
        assert (tree.run_id, tree.children, tree.is_this) == (run.run_id, [], True)
        assert repr(tree).endswith("<- this run")

    asyncio.run(main())


def test_a_tree_of_a_store_is_read_from_its_journals(tmp_path: Path):
    """R6.37: runs that no process has in hand; one that was deleted is named by those that come from it."""

    async def made() -> list[str]:
        store = Store(tmp_path / "runs.db")
        flow = Count().with_options(store=store)
        run = await ended(flow.run(n=2))
        fork = await ended(run.debug.fork(2))
        replay = await ended(fork.debug.replay())
        waiting = Asks().with_options(store=store).run()
        await until(lambda: waiting.status == "waiting")
        opened = Asks().with_options(store=store).resume(waiting.snapshot())
        await until(lambda: opened.status == "waiting")
        for each in (waiting, opened):
            await each.cancel()
        store.close()
        return [run.run_id, fork.run_id, replay.run_id, waiting.run_id, opened.run_id]

    async def main() -> None:
        run, fork, replay, waiting, opened = await made()
        store = Store(tmp_path / "runs.db")
        tree = store.run(replay).debug.tree()
        assert [branch.run_id for branch in tree.walk()] == [run, fork, replay]
        assert [str(branch.link) for branch in tree.walk()] == ["", "fork after tick 2", "replay"]
        assert tree[fork].status == "completed" and tree[fork].ticks == store.journal.last_seq(fork)
        snapshot = store.run(waiting).debug.tree()
        assert [(b.run_id, b.link.how) for b in snapshot.walk()] == [(waiting, ""), (opened, "snapshot")]
        store.journal.delete([run])
        left = Store(tmp_path / "runs.db").run(fork).debug.tree()
        assert left.run_id == run and left.status == ""
        assert repr(left).splitlines()[0] == f"{run}  not here any more"
        store.close()

    asyncio.run(main())


def test_of_a_run_that_is_no_fork_one_tick_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A store may hold thousands of long runs of one workflow."""
    read: list[int] = []
    raw = SqlJournal.raw

    def counted(journal: SqlJournal, run_id: str, to: int = ENDLESS) -> list[Any]:
        rows = raw(journal, run_id, to)
        read.append(len(rows))
        return rows

    async def main() -> None:
        store = Store(tmp_path / "runs.db")
        first = await ended(Count().with_options(store=store).run(n=5))
        fork = await ended(first.debug.fork(3))
        other = await ended(Count().with_options(store=store).run(n=5))
        run_id, n = fork.run_id, len(fork.debug.ticks)
        monkeypatch.setattr("flownb.debug.tree.known", {})  # as in a new process
        monkeypatch.setattr(SqlJournal, "raw", counted)
        tree = store.run(first.run_id).debug.tree()
        assert [branch.run_id for branch in tree.walk()] == [first.run_id, run_id]
        assert str(tree[run_id].link) == "fork after tick 3"
        assert sorted(read) == [1, 1, n]
        assert other.run_id not in [branch.run_id for branch in tree.walk()]

    asyncio.run(main())
