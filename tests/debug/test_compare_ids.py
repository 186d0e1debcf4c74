"""Two runs side by side: `run.debug.compare` and `run.debug.tree`."""

from pathlib import Path
from typing import Any

import pytest

from flownb import StartEvent, StopEvent, Store, Workflow
from flownb.errors import RunNotFound, WorkflowConfigurationError
from tests.runtime.flows import Count, Done


def test_a_fork_is_the_same_up_to_where_it_goes_its_own_way():
    """The first difference, what followed on each side, and how both ended; the original is not touched."""
    run = Count().run(n=2)
    assert run.result(20) == [0, 1]
    ticks = list(run.debug.ticks)
    at = next(n for n, tick in enumerate(ticks, 1) if getattr(tick, "step", "") == "work")
    other = run.debug.fork(at, event=Done(no=70))
    assert sorted(other.result(20)) == [1, 70]
    found = run.debug.compare(other)
    assert not found.is_same
    assert (found.shared, found.mine.seq, found.mine.tick) == (at - 1, at, ticks[at - 1])
    assert "Done(no=0)" in found.what and "Done(no=70)" in found.what
    assert [found.mine.status, found.theirs.status] == ["completed", "completed"]
    assert run.debug.compare(run).is_same
    assert list(run.debug.ticks) == ticks
    tree = run.debug.tree()
    assert (tree.run_id, [str(child.link) for child in tree.children]) == (run.run_id, [f"fork after tick {at - 1}"])
    assert tree[other.run_id].link.base == run.run_id


def answers(store: Store, result: int, run_id: str) -> Any:
    flow = Workflow[int]("answers")

    @flow.step
    async def answer(ev: StartEvent) -> StopEvent:
        return StopEvent(result=result)

    run = flow.with_options(store=store).run(run_id=run_id)
    assert run.result(20) == result
    return run


def test_an_id_means_the_run_of_the_same_store(tmp_path: Path):
    """Ids are fixed in notebooks, so another store of the process may have a run of the same one."""
    here, there = Store(tmp_path / "here.db"), Store(tmp_path / "there.db")
    runs = [answers(there, 1, "b"), answers(here, 2, "b"), answers(here, 2, "a")]
    assert runs[2].debug.compare("b").is_same
    assert not runs[2].debug.compare(runs[0]).is_same
    with pytest.raises(RunNotFound, match="c"):
        runs[2].debug.compare("c")
    with pytest.raises(WorkflowConfigurationError, match="the id of one"):
        runs[2].debug.compare(3)
