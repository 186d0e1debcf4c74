"""Who drives a run: leases, viewers, and what becomes of a run whose driver is gone (R5.6 to R5.13)."""

import asyncio
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flownb import Store, Workflow
from flownb.core.reduce import fold
from flownb.core.ticks import GateClosed, GateOpened, RunOpened
from flownb.errors import LeaseLost, RequestError, RunOwnedElsewhere, WorkflowCancelledByUser
from flownb.runtime import stored, watching
from flownb.store.journal import Append
from tests.polling import wait_until
from tests.stored.flows import Asks, Blocks, Chain, Listens, News, Returns, Sleeps, notes
from tests.stored.other import Other

Open = Callable[..., Store]
Start = Callable[..., Other]

#: A process on another machine, of which nobody here can know whether it lives.
FAR = "python:another-host:b00tb00tb00t.1:4711:1:aaaaaaaaaaaa"


def kinds(store: Store, run_id: str) -> list[str]:
    return [type(tick).__name__ for tick in store.history(run_id)]


def driver_of(store: Store, run_id: str) -> str:
    return store.journal.holder(run_id).driver


def begun(other: Other, flow: str, log: Path, run_id: str = "r") -> None:
    other.do(f"run = {flow}().with_options(store=store).run(run_id={run_id!r}, log={str(log)!r})")


# -- one driver


def test_r5_7_a_run_that_a_live_process_drives_is_only_looked_at(
    any_place: str, open_store: Open, other: Start, tmp_path: Path
):
    """R5.7, R5.12: with a warning; awaiting it gives the result when the other process has brought it to its end."""
    log, process, store = tmp_path / "log", other(any_place), open_store(any_place)
    begun(process, "Blocks", log)
    wait_until(lambda: notes(log) == ["block"])
    with pytest.warns(UserWarning, match=rf"Run 'r': process {process.pid} drives it. Here it can be looked at"):
        run = Blocks().with_options(store=store).resume("r")
    assert run.status == "running"
    assert f"process {process.pid} drives it" in run.why()
    with pytest.raises(RunOwnedElsewhere, match=str(process.pid)):
        store.drive("r")
    (tmp_path / "log.go").touch()

    assert asyncio.run(wait_for(run)) == "blocked"
    assert notes(log) == ["block", "blocked"]
    assert "RunOpened" not in kinds(store, "r")
    assert run.state == {"was": "here"}


async def wait_for(run: Any) -> Any:
    return await asyncio.wait_for(run, 20)


def test_r5_7_of_processes_that_resume_at_once_one_drives(any_place: str, open_store: Open, other: Start, tmp_path: Path):
    """R5.7: the claim is atomic, so of each run every step runs once."""
    log, count, store = tmp_path / "log", 12, open_store(any_place)
    dead = other(any_place)
    dead.do(
        "runs = [Sleeps().with_options(store=store).run(run_id=f's{i}', n=9, log='')"
        f" for i in range({count})]"
    )
    dead.wait("all(run.status == 'running' and len(run.debug.ticks) > 1 for run in runs)")
    dead.kill()
    racers = [other(any_place) for _ in range(2)]
    race = (
        "import warnings\nwarnings.simplefilter('ignore')\n"
        f"runs = [Sleeps().with_options(store=store).resume(f's{{i}}') for i in range({count})]"
    )
    threads = [threading.Thread(target=racer.do, args=(race,)) for racer in racers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    results = [racer.give("[run.result(20) > 0 for run in runs]") for racer in racers]

    assert results == [[True] * count] * 2
    mine = [racer.give("[run._runner.stored.is_viewer for run in runs]") for racer in racers]
    assert [sum(pair) for pair in zip(*mine, strict=True)] == [1] * count
    for i in range(count):
        assert kinds(store, f"s{i}").count("RunOpened") == 1


@pytest.mark.parametrize("flow", ["Blocks", "Asks"])
def test_r5_7_the_runs_of_a_killed_process_go_on_at_once(
    any_place: str, open_store: Open, other: Start, tmp_path: Path, flow: str
):
    """R5.7, R1.20: nobody waits for the lease of a process that is known to be dead; the take-over is a tick."""
    log, process, store = tmp_path / "log", other(any_place), open_store(any_place)
    begun(process, flow, log)
    wait_until(lambda: notes(log) and (flow != "Asks" or len(store.requests())))
    assert store.journal.holder("r").lease_until > time.time() + stored.LEASE_S / 3
    process.kill()
    (tmp_path / "log.go").touch()
    begun_at = time.monotonic()
    run = {"Blocks": Blocks, "Asks": Asks}[flow]().with_options(store=store).resume("r")
    if flow == "Asks":
        run.answer(ok=True)

    assert run.result(20) in ("blocked", True)
    assert time.monotonic() - begun_at < stored.LEASE_S / 3
    opened = next(tick for tick in store.history("r") if isinstance(tick, RunOpened))
    assert opened.epoch == 2
    assert opened.driver == "this process"
    assert notes(log)[:2] == [notes(log)[0]] * 2


def test_r5_7_of_another_machine_only_the_lease_tells(open_store: Open, place: str, monkeypatch: pytest.MonkeyPatch):
    """R5.7: whether a process there lives cannot be known, so its runs are free when its lease is over."""
    monkeypatch.setattr(stored, "LEASE_S", 0.8)
    monkeypatch.setattr(watching, "LEASE_S", 0.8)
    far, here = open_store(place), open_store(place)
    far._committer.driver = FAR
    there = Asks().with_options(store=far).run(run_id="r")
    wait_until(lambda: there.status == "waiting")
    assert driver_of(here, "r") == FAR
    far._committer.watch._run = None  # type: ignore[union-attr, method-assign]
    monkeypatch.setattr(far._committer.watch, "_journal", Frozen(far.journal))
    with pytest.warns(UserWarning, match="process 4711 on another-host drives it"):
        run = Asks().with_options(store=here).resume("r")
    assert run._runner.stored.is_viewer  # type: ignore[union-attr]
    wait_until(lambda: here.journal.holder("r").lease_until < time.time())
    run = Asks().with_options(store=here).resume("r")
    assert not run._runner.stored.is_viewer  # type: ignore[union-attr]
    run.answer(ok=True)

    assert run.result(20) is True


class Frozen:
    """A journal that a lost machine cannot reach any more."""

    hears_ticks = True

    def __init__(self, journal: Any) -> None:
        self._closed = True

    def __getattr__(self, name: str) -> Any:
        raise OSError("unplugged")
