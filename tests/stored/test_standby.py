"""A process that looks at a run which it would drive takes it over when its driver is gone."""

import signal
from pathlib import Path

import pytest

from flownb import Context, StartEvent, StopEvent, Store, Workflow, step
from flownb.store.drivers import driver_id
from tests.polling import wait_until


class Asks(Workflow[bool]):
    @step
    async def ask(self, ev: StartEvent, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.ask("Go on?", bool))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs.db")


def _driven_by_a_process_that_ends(store: Store, run_id: str) -> str:
    """Take the lease as a process that is alive now; gives its id, to end it by `_end`."""
    import subprocess
    import sys

    process = subprocess.Popen(
        [sys.executable, "-c", "from flownb.store.drivers import driver_id; print(driver_id(), flush=True); input()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    driver = process.stdout.readline().strip()
    _living[driver] = process
    claim = store.journal.claim(run_id, driver, 60.0, was_lost=lambda holder: holder == store._committer.driver)
    assert claim.epoch
    return driver


_living: dict[str, object] = {}


def _end(driver: str) -> None:
    process = _living.pop(driver)
    process.send_signal(signal.SIGKILL)  # type: ignore[attr-defined]
    process.wait()  # type: ignore[attr-defined]
    process.stdin.close()  # type: ignore[attr-defined]
    process.stdout.close()  # type: ignore[attr-defined]


def test_a_driver_that_dies_is_followed_by_a_process_that_stands_by(store: Store):
    """R5.7, R5.12: who resumed the run and was told that another one drives it goes on when that one is killed."""
    flow = Asks().with_options(store=store, host="thread")
    run = flow.run(run_id="left")
    wait_until(lambda: len(run.requests) == 1)
    run.suspend(0).result(5)
    other = _driven_by_a_process_that_ends(store, "left")
    with pytest.warns(UserWarning, match="drives it"):
        run = flow.resume("left")
    assert "drives it" in run.why()
    run.answer(True)  # it lies in the inbox of one that never takes it
    _end(other)
    assert run.result(20) is True
    assert store.journal.row("left").driver == driver_id() or store.journal.row("left").status == "completed"


def test_who_only_looks_takes_nothing_over(store: Store, tmp_path: Path):
    """R5.12: a viewer never drives."""
    run = Asks().with_options(store=store, host="thread").run(run_id="left")
    wait_until(lambda: len(run.requests) == 1)
    run.suspend(0).result(5)
    _end(_driven_by_a_process_that_ends(store, "left"))
    other = Store(tmp_path / "runs.db")
    looked = other.run("left")
    looked.answer(True)
    with pytest.raises(TimeoutError):
        looked.result(4)
    assert looked.status == "suspended" or looked.requests.all()[0].status == "answered"
    assert looked.now.seq == store.journal.last_seq("left")
    other.close()
