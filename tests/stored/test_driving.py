"""Who drives a run: leases, viewers, and what becomes of a run whose driver is gone (R5.6 to R5.13)."""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flownb import Store
from flownb.core.reduce import fold
from flownb.core.ticks import GateClosed, GateOpened, RunOpened
from flownb.errors import LeaseLost, RunOwnedElsewhere, WorkflowCancelledByUser
from flownb.runtime import stored, watching
from flownb.store.journal import Append
from tests.polling import wait_until
from tests.stored.flows import Asks, Blocks, Listens, News, Returns, Sleeps, notes
from tests.stored.other import Other, at_once

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


def test_r5_7_of_processes_that_resume_at_once_one_drives(any_place: str, open_store: Open, other: Start):
    """R5.7: the claim is atomic, so of each run every step runs once."""
    count, store = 12, open_store(any_place)
    dead = other(any_place)
    dead.do(f"runs = [Sleeps().with_options(store=store).run(run_id=f's{{i}}', n=20, log='') for i in range({count})]")
    dead.wait("all(run.status == 'running' and len(run.debug.ticks) > 1 for run in runs)")
    dead.kill()
    racers = [other(any_place) for _ in range(2)]
    race = (
        "import warnings\nwarnings.simplefilter('ignore')\n"
        f"runs = [Sleeps().with_options(store=store).resume(f's{{i}}') for i in range({count})]"
    )
    at_once(racers, race)
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
    monkeypatch.setattr(far._committer.watch, "_journal", Frozen())
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

    def is_closed(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        raise OSError("unplugged")


# -- a driver that lost its run


def test_r5_9_a_driver_that_lost_its_lease_becomes_a_viewer(
    any_place: str, open_store: Open, other: Start, tmp_path: Path
):
    """R5.8, R5.9: it stops at once, its steps are fenced, and nothing that they still bring is appended."""
    log, store = tmp_path / "log", open_store(any_place)
    zombie = other(any_place, lease_s=0.6)
    begun(zombie, "Blocks", log)
    wait_until(lambda: notes(log) == ["block"])
    zombie.freeze()
    wait_until(lambda: store.journal.holder("r").lease_until < time.time())
    run = Blocks().with_options(store=store).resume("r")
    assert not run._runner.stored.is_viewer  # type: ignore[union-attr]
    zombie.thaw()
    zombie.wait("run._runner.stored.is_viewer")
    assert f"process {os.getpid()} drives it" in zombie.give("run.why()")
    assert not zombie.give("run._runner.workers")
    (tmp_path / "log.go").touch()

    assert run.result(20) == "blocked"
    assert zombie.give("run.result(20)") == "blocked"
    assert notes(log) == ["block", "block", "blocked"]
    assert kinds(store, "r").count("StepFinished") == 1
    assert zombie.give("len(run.debug.ticks)") == len(store.history("r"))


def test_r5_8_what_a_lost_driver_appends_is_refused(place: str, open_store: Open):
    """R5.8, R5.9: the epoch is looked at in the transaction of the append, so a driver that does not know yet that it
    lost the run writes nothing either."""
    one, two = open_store(place), open_store(place)
    there = Returns().with_options(store=one).run(run_id="r")
    wait_until(lambda: there.status == "waiting" and driver_of(one, "r") == "")
    two._committer.driver = FAR
    seq = two.journal.claim("r", FAR, 30.0).seq
    late = Append("r", seq, [GateClosed(time.time(), "person")], "paused", epoch=there._runner.stored.epoch)  # type: ignore[union-attr]
    with pytest.raises(LeaseLost, match="was taken over"):
        one.journal.append([late])
    there._runner.stored.is_released = False  # type: ignore[union-attr]
    there.pause()
    wait_until(lambda: there._runner.stored.is_viewer)  # type: ignore[union-attr]

    assert store_has(two, "r") == seq
    assert there.status == "waiting"


def store_has(store: Store, run_id: str) -> int:
    return store.journal.last_seq(run_id)


@pytest.mark.parametrize(("slept_s", "lease_s"), [(0.2, 30.0), (1.2, 0.6)])
def test_r5_10_a_machine_that_slept_goes_on_if_nobody_took_its_runs(
    place: str, open_store: Open, other: Start, tmp_path: Path, slept_s: float, lease_s: float
):
    """R5.10: also if its lease ran out meanwhile: the epoch is unchanged."""
    log, process, store = tmp_path / "log", other(place, lease_s=lease_s), open_store(place)
    begun(process, "Blocks", log)
    wait_until(lambda: notes(log) == ["block"])
    process.freeze()
    end = time.time() + slept_s
    wait_until(lambda: time.time() > end)
    assert (store.journal.holder("r").lease_until < time.time()) is (slept_s > 1)
    process.thaw()
    (tmp_path / "log.go").touch()

    assert process.give("run.result(20)") == "blocked"
    assert notes(log) == ["block", "blocked"]
    assert store.journal.holder("r").epoch == 1


def test_r5_6_a_driver_whose_lease_is_its_own_reads_what_came_and_decides_again(place: str, open_store: Open):
    """R5.6: somebody else's tick makes its append a conflict; after that it goes on from there."""
    store = open_store(place)
    run = Returns().with_options(store=store).run(run_id="r")
    wait_until(lambda: run.status == "waiting" and driver_of(store, "r") == "")
    seq = store_has(store, "r")
    store.journal.append([Append("r", seq, [GateClosed(time.time(), "person", "a tool")], "paused")])
    run._runner.stored.is_released = False  # type: ignore[union-attr]
    store.journal.claim("r", store._committer.driver, 30.0)
    run._runner.stored.epoch += 1  # type: ignore[union-attr]
    run.answer(ok=True)
    wait_until(lambda: run.now.paused_by == ("person",) and not run._runner.suspended)
    run.cont()

    assert run.result(20) == [3, True]
    state = fold(store.history("r"))
    assert state.status == "completed"
    assert kinds(store, "r").count("RequestAnswered") == 1


# -- who holds a lease


def test_r5_11_a_waiting_run_holds_no_lease(place: str, open_store: Open):
    """R5.11: any process may take it up then."""
    store = open_store(place)
    returned = Returns().with_options(store=store).run(run_id="returned")
    asked = Asks().with_options(store=store).run(run_id="asked")
    sleeping = Sleeps().with_options(store=store).run(run_id="sleeping", n=600)
    listening = Listens().with_options(store=store).run(run_id="listening")
    for run in (returned, asked, listening):
        wait_until(lambda run=run: run.status == "waiting")  # type: ignore[misc]
    wait_until(lambda: driver_of(store, "returned") == "" and driver_of(store, "listening") == "")

    own = store._committer.driver
    assert driver_of(store, "asked") == own  # its coroutine waits in this process
    assert driver_of(store, "sleeping") == own
    asked.suspend(drain=0).result(20)
    assert driver_of(store, "asked") == ""
    returned.answer(ok=True)
    assert returned.result(20) == [3, True]
    for run in (sleeping, listening):
        run.cancel().result(20)


def test_r5_11_a_run_that_waits_without_a_lease_goes_on_elsewhere(
    any_place: str, open_store: Open, other: Start, tmp_path: Path
):
    """R5.11: the process where it waited, which lives, hears of it and gives the same result. It waits without a lease
    in both of them: who hears of the answer first drives it, and the other one looks."""
    log, process, store = tmp_path / "log", other(any_place), open_store(any_place)
    begun(process, "Returns", log)
    process.wait("run.status == 'waiting'")
    wait_until(lambda: driver_of(store, "r") == "")
    run = Returns().with_options(store=store).resume("r")
    assert not run._runner.stored.is_viewer  # type: ignore[union-attr]
    run.answer(ok=True)

    assert run.result(20) == [3, True]
    assert process.give("run.result(20)") == [3, True]
    assert process.give("run._runner.stored.is_viewer") is not run._runner.stored.is_viewer  # type: ignore[union-attr]
    assert notes(log) == ["ask", "take"]


# -- viewers


@pytest.fixture
def driven(any_place: str, open_store: Open, other: Start, tmp_path: Path) -> tuple[Other, Store]:
    """Another process that drives a run which listens, and this one's store."""
    process, store = other(any_place), open_store(any_place)
    process.do("run = Listens().with_options(store=store).run(run_id='r', n=2)\nhold = run.hold_open('it is driven')")
    process.wait("run.status == 'running' and run.why().count('held open')")
    return process, store


def test_r5_12_a_viewer_sends_pauses_and_continues(driven: tuple[Other, Store]):
    """R5.12: through the durable inbox; the driver does it, and the viewer sees what came of it."""
    process, store = driven
    run = store.run("r")
    run.send_event(News(no=1))
    process.wait("run.state.get('heard') == [1]")
    run.pause()
    process.wait("run.status == 'paused'")
    run.send_event(News(no=2), key="second")
    run.send_event(News(no=2), key="second")
    wait_until(lambda: run.status == "paused")
    assert process.give("run.state.get('heard')") == [1]
    run.cont()

    assert run.result(20) == [1, 2]
    assert process.give("run.result(20)") == [1, 2]
    assert "RunOpened" not in kinds(store, "r")
    assert run._runner.stored.is_viewer  # type: ignore[union-attr]


def test_r5_12_a_viewer_cancels(driven: tuple[Other, Store]):
    process, store = driven
    run = store.run("r")
    run.cancel("enough").result(20)

    assert run.status == "cancelled"
    assert "enough" in process.give("run.why()")
    with pytest.raises(WorkflowCancelledByUser, match="enough"):
        run.result(20)


def test_r5_12_a_viewer_answers(any_place: str, open_store: Open, other: Start, tmp_path: Path):
    log, process, store = tmp_path / "log", other(any_place), open_store(any_place)
    begun(process, "Asks", log)
    wait_until(lambda: len(store.requests()))
    run = store.run("r")
    run.requests[0].answer(ok=False, words="no", by="ann")
    run.requests.all()[0].answer(ok=False, words="no")  # a double click

    assert run.result(20) == process.give("run.result(20)") == "no"
    assert (run.requests.all()[0].by, run.requests.all()[0].status) == ("ann", "answered")
    assert notes(log) == ["ask", "asked"]


def test_r5_13_what_steers_a_run_that_nobody_drives_is_done_at_once(
    any_place: str, open_store: Open, other: Start, tmp_path: Path
):
    """R5.13: a viewer claims it for that one control tick and gives it back; none of its code runs."""
    log, process, store = tmp_path / "log", other(any_place), open_store(any_place)
    begun(process, "Sleeps", log)
    wait_until(lambda: len(store.suspensions()) == 1)
    process.kill()
    run = store.run("r")
    run.pause().result(20)
    assert [row.status for row in store.runs()] == ["paused"]
    assert kinds(store, "r")[-1] == "GateClosed"
    assert driver_of(store, "r") == ""
    run.cont()
    wait_until(lambda: [row.status for row in store.runs()] == ["running"])
    assert isinstance(store.tail("r", 1)[0], GateOpened)
    assert run._runner.stored.is_viewer  # type: ignore[union-attr]
    assert notes(log) == ["sleep"]
    run.cancel("enough").result(20)

    assert [row.status for row in store.runs()] == ["cancelled"]
    assert notes(log) == ["sleep"]


def test_r5_13_a_deadline_that_nobody_counts_is_stopped(place: str, open_store: Open, other: Start):
    """R5.13, R4.56: the store's list of what is due knows of it at once."""
    process, store = other(place), open_store(place)
    process.do(
        "flow = Workflow('timed')\n"
        "async def ask(ev: Begin, ctx: Context) -> StopEvent:\n"
        "    return StopEvent(result=await ctx.ask('Well?', bool, timeout=500, default=True))\n"
        "flow.step(ask)\n"
        "run = flow.with_options(store=store).run(run_id='r')"
    )
    process.wait("run.status == 'waiting'")
    process.kill()
    assert store.next_wakeup() is not None
    run = store.run("r")
    run.requests[0].hold()
    wait_until(lambda: run.requests[0].deadline is None)

    assert store.next_wakeup() is None
    assert [suspension.due for suspension in store.suspensions()] == [None]


def test_r5_13_an_answer_or_an_event_never_claims(any_place: str, open_store: Open, other: Start, tmp_path: Path):
    """R5.13, R4.62: they lie in the inbox until somebody drives the run."""
    log, process, store = tmp_path / "log", other(any_place), open_store(any_place)
    begun(process, "Asks", log, "asks")
    begun(process, "Listens", log, "listens")
    wait_until(lambda: len(store.requests()))
    process.wait("run.status == 'waiting'")
    process.kill()
    before = [store.journal.holder(run_id) for run_id in ("asks", "listens")]
    store.requests()[0].answer(ok=True)
    store.run("listens").send_event(News(no=4))

    assert [store.journal.holder(run_id) for run_id in ("asks", "listens")] == before
    assert "RequestAnswered" not in kinds(store, "asks")
    assert "EventArrived" not in kinds(store, "listens")
    assert store.due() == ["asks", "listens"]
    assert Asks().with_options(store=store).resume("asks").result(20) is True
    listens = Listens().with_options(store=store).resume("listens")
    wait_until(lambda: listens.state.get("heard") == [4])
    assert store.due() == []
    listens.cancel().result(20)


def test_r5_13_a_pause_elsewhere_leaves_a_waiting_run_to_its_process(
    any_place: str, open_store: Open, other: Start, tmp_path: Path
):
    """R5.11, R5.13: it waits there without a lease; who claims it for one tick does not take it away."""
    log, process, store = tmp_path / "log", other(any_place), open_store(any_place)
    begun(process, "Returns", log)
    process.wait("run.status == 'waiting'")
    wait_until(lambda: driver_of(store, "r") == "")
    run = store.run("r")
    run.pause().result(20)
    process.wait("run.status == 'paused'")
    run.cont()
    run.answer(ok=True)

    assert process.give("run.result(20)") == run.result(20) == [3, True]
    assert not process.give("run._runner.stored.is_viewer")
