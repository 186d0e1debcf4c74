"""A process that looks at a run which it would drive takes it over when its driver is gone."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flownb import Context, StartEvent, StopEvent, Store, Workflow, step
from tests.polling import wait_for_questions


class Asks(Workflow[bool]):
    @step
    async def ask(self, ev: StartEvent, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.ask("Go on?", bool))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs.db")


@contextmanager
def driven_elsewhere(store: Store, run_id: str) -> Iterator[None]:
    """A process that is alive holds the run's lease, and is killed in the end."""
    words = "from flownb.store.drivers import driver_id; print(driver_id(), flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        driver = process.stdout.readline().strip()
        mine = store._committer.driver
        assert store.journal.claim(run_id, driver, 60.0, was_lost=lambda holder: holder == mine).epoch
        yield
        process.kill()


def test_a_driver_that_dies_is_followed_by_a_process_that_stands_by(store: Store):
    """R5.7, R5.12: who resumed the run and was told that another one drives it goes on when that one is killed."""
    flow = Asks().with_options(store=store, host="thread")
    run = flow.run(run_id="left")
    wait_for_questions(run)
    run.suspend(0).result(5)
    with driven_elsewhere(store, "left"):
        with pytest.warns(UserWarning, match="drives it"):
            run = flow.resume("left")
        assert "drives it" in run.why()
        run.answer(True)  # it lies in the inbox of one that never takes it
    assert run.result(20) is True
    assert [row.status for row in store.runs()] == ["completed"]


def test_who_only_looks_takes_nothing_over(store: Store, tmp_path: Path):
    """R5.12: a viewer never drives."""
    run = Asks().with_options(store=store, host="thread").run(run_id="left")
    wait_for_questions(run)
    run.suspend(0).result(5)
    with driven_elsewhere(store, "left"):
        pass
    other = Store(tmp_path / "runs.db")
    looked = other.run("left")
    looked.answer(True)
    with pytest.raises(TimeoutError):
        looked.result(4)
    assert looked.status == "suspended"
    assert [request.status for request in looked.requests.all()] == ["answered"]
    assert looked.now.seq == store.journal.last_seq("left")
    other.close()
