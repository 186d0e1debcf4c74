"""Idle release: a run of which nothing runs gives back its coroutines and its lease until something comes."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flownb import Context, StartEvent, StopEvent, Store, Workflow
from flownb.core.ticks import RunOpened, TimerFired
from tests.polling import wait_until
from tests.stored.flows import Asks, Listens, News, Parent, Returns, Sleeps, notes
from tests.stored.other import Other

Open = Callable[..., Store]
Start = Callable[..., Other]
SOON_S = 0.05


def is_unloaded(store: Store, run: Any) -> bool:
    return store.journal.holder(run.run_id).driver == "" and not run._runner.workers


def test_r5_41_a_run_is_unloaded_only_where_that_was_asked_for(place: str, open_store: Open, tmp_path: Path):
    """R5.41: a step that waits live would run again from its top."""
    log, store = tmp_path / "log", open_store(place)
    run = Asks().with_options(store=store).run(log=str(log))
    wait_until(lambda: run.status == "waiting")
    time.sleep(10 * SOON_S)
    assert not is_unloaded(store, run)
    run.answer(ok=True)

    assert run.result(20) is True
    assert notes(log) == ["ask", "asked"]


def test_r5_42_an_unloaded_run_keeps_its_handles(place: str, open_store: Open, tmp_path: Path):
    """R5.42, R5.11: its coroutines are gone and its lease is given back, and whoever holds it sees a run that waits;
    what its old code still does counts for nothing."""
    log, store = tmp_path / "log", open_store(place)
    run = Asks().with_options(store=store, unload_after=SOON_S).run(log=str(log))
    wait_until(lambda: run._runner.state.status == "waiting")
    wait_until(lambda: is_unloaded(store, run))
    assert run.status == "waiting"
    assert (run.requests[0].status, len(store.requests())) == ("open", 1)
    assert "unloaded" in run.why()
    assert not run.is_done()
    seq = store.journal.last_seq(run.run_id)
    time.sleep(4 * SOON_S)
    assert store.journal.last_seq(run.run_id) == seq  # it is not opened and unloaded in turn

    async def wait() -> Any:
        task = asyncio.create_task(awaited(run))
        await asyncio.sleep(0.02)
        run.answer(ok=False, words="awake")
        return await asyncio.wait_for(task, 20)

    assert asyncio.run(wait()) == "awake"
    assert run.result(20) == "awake"
    assert notes(log) == ["ask", "ask", "asked"]
    assert sum(isinstance(tick, RunOpened) for tick in store.history(run.run_id)) == 1


async def awaited(run: Any) -> Any:
    return await run


def test_r5_43_an_answer_of_another_process_wakes_it(any_place: str, open_store: Open, other: Start, tmp_path: Path):
    """R5.43."""
    log, process, store = tmp_path / "log", other(any_place), open_store(any_place)
    run = Asks().with_options(store=store, unload_after=SOON_S).run(run_id="r", log=str(log))
    wait_until(lambda: run._runner.state.status == "waiting" and is_unloaded(store, run))
    process.do("store.requests()[0].answer(ok=True)")

    assert run.result(20) is True


@pytest.mark.parametrize("how", ["event", "pause", "cancel"])
def test_r5_43_what_comes_from_outside_wakes_it(place: str, open_store: Open, how: str):
    """R5.43."""
    store = open_store(place)
    run = Listens().with_options(store=store, unload_after=SOON_S).run(run_id="r", n=1)
    wait_until(lambda: run._runner.state.status == "waiting" and "unloaded" in run.why())
    if how == "event":
        run.send_event(News(no=1)).result(20)
        assert run.result(20) == [1]
    elif how == "pause":
        run.pause().result(20)
        wait_until(lambda: run.status == "paused")
        run.cont()
        wait_until(lambda: run.status == "waiting")
    else:
        run.cancel("enough").result(20)
        assert run.status == "cancelled"


def test_r5_43_a_sleep_wakes_it_when_it_is_due(place: str, open_store: Open, tmp_path: Path):
    """R5.43: also a deadline does; the time that it sleeps counts for a limit of the run (R5.45), none other does."""
    log, store = tmp_path / "log", open_store(place)
    run = Sleeps().with_options(store=store, unload_after=SOON_S).run(run_id="r", n=10, log=str(log))
    wait_until(lambda: len(store.suspensions()) == 1 and is_unloaded(store, run))
    (due,) = [suspension.due for suspension in store.suspensions()]
    assert due is not None

    assert run.result(20) >= due
    fired = next(tick for tick in store.history("r") if isinstance(tick, TimerFired))
    assert due <= fired.at < due + 2
    assert notes(log) == ["sleep", "sleep", "slept"]


def test_r5_43_a_deadline_wakes_it(place: str, open_store: Open):
    store = open_store(place)
    flow = Workflow[Any]("deadline")

    @flow.step
    async def ask(ev: StartEvent, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.ask("Well?", str, timeout=1.0, default="nobody"))

    run = flow.with_options(store=store, unload_after=SOON_S).run()
    wait_until(lambda: "unloaded" in run.why())

    assert run.result(20) == "nobody"


def test_a_parent_whose_child_is_unloaded_hears_of_its_end(place: str, open_store: Open, tmp_path: Path):
    """R5.43, R6.21: both are unloaded, both are woken."""
    log, store = tmp_path / "log", open_store(place)
    run = Parent().with_options(store=store, unload_after=SOON_S).run(run_id="p", log=str(log))
    wait_until(lambda: len(store.requests()) == 1)
    wait_until(lambda: is_unloaded(store, run) and store.journal.holder("p/1/2").driver == "")
    run.answer(ok=True)

    assert run.result(20) == [0, [7, True]]
    assert notes(log).count("go_on 2") == notes(log).count("take") == 1


def test_a_parent_of_a_sleeping_child_hears_of_its_end(place: str, open_store: Open, tmp_path: Path):
    """R5.43, R4.37."""
    store = open_store(place)
    flow = Workflow[Any]("of a sleeper")

    @flow.step
    async def begin(ev: StartEvent, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.run(Sleeps(), n=10, log=str(tmp_path / "log")))

    run = flow.with_options(store=store, unload_after=SOON_S).run(run_id="p")
    wait_until(lambda: store.journal.last_seq("p") > 1 and len(store.suspensions()) == 1)
    wait_until(lambda: store.journal.holder("p/1/1").driver == "")

    assert run.result(20) > 0
    assert notes(tmp_path / "log") == ["sleep", "sleep", "slept"]


def test_an_unloaded_run_is_taken_up_by_another_process(any_place: str, open_store: Open, other: Start):
    """R5.11, R5.42: and its handle here gives the result."""
    process, store = other(any_place), open_store(any_place)
    run = Returns().with_options(store=store, unload_after=SOON_S).run(run_id="r")
    wait_until(lambda: run._runner.state.status == "waiting" and is_unloaded(store, run) and "unloaded" in run.why())
    process.do("run = Returns().with_options(store=store).resume('r')\nrun.answer(ok=True)")

    assert process.give("run.result(20)") == run.result(20) == [3, True]
