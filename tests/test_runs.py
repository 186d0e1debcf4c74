"""Stores as users open them."""

import asyncio
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from flownb import Context, Event, InputRequiredEvent, StartEvent, StopEvent, Store, Workflow, options
from flownb.core.reduce import fold
from flownb.errors import NotStorable, RunNotFound, WorkflowConfigurationError
from tests.polling import wait_until
from tests.runtime.flows import Asks, Count


@pytest.mark.parametrize("place", [":memory:", "runs.db"])
def test_runs_are_kept_listed_and_read(place: str, tmp_path: Path):
    store = Store(place if place == ":memory:" else tmp_path / place)
    flow = Count().with_options(store=store)
    run = flow.run(run_id="one", n=2)
    run.result(20)
    flow.run(run_id="two").result(20)
    asks = Asks().with_options(store=store).run(run_id="open")
    wait_until(lambda: asks.status == "waiting")
    assert [row.run_id for row in store.runs()] == ["open", "two", "one"]
    assert [row.run_id for row in store.runs(workflow="Count", status="completed")] == ["two", "one"]
    assert [row.run_id for row in store.runs(status="waiting")] == ["open"]
    ticks = store.history("one")
    assert len(ticks) == len(run.debug.ticks)
    assert fold(ticks).status == "completed"
    assert [type(t).__name__ for t in store.history("one", 1, 2)] == ["RunStarted", "StepFinished"]
    with pytest.raises(RunNotFound, match="There is no run 'nobody'"):
        store.history("nobody")
    assert repr(store) == f"<Store {store.place}: 3 runs>"
    asks.cancel().result(20)
    store.close()


def test_a_store_is_used_from_any_loop_and_thread(tmp_path: Path):
    """C033, C111: opened in the main thread, written by two asyncio.run calls and the engine's thread."""
    store = Store(tmp_path / "runs.db")
    flow = Count().with_options(store=store)

    async def main() -> list[Any]:
        return list(await asyncio.gather(*(flow.run(n=3) for _ in range(5))))

    assert asyncio.run(main()) == asyncio.run(main()) == [[0, 1, 2]] * 5
    assert flow.run().result(20) == [0, 1, 2]
    assert len(store.runs(status="completed")) == 11
    store.close()


def test_one_path_is_one_store(tmp_path: Path):
    flow = Count().with_options(store=tmp_path / "a" / ".." / "runs.db")
    (tmp_path / "a").mkdir()
    flow.run(run_id="x").result(20)
    Count().with_options(store=str(tmp_path / "runs.db")).run(run_id="y").result(20)
    from flownb.runs import _open

    store = _open.pop(str((tmp_path / "runs.db").resolve()))
    assert {row.run_id for row in store.runs()} == {"x", "y"}
    store.close()


def test_precedence_of_stores(monkeypatch: pytest.MonkeyPatch):
    """API §2: with_options over Workflow(...) over flownb.options."""
    one, two, three = Store(":memory:"), Store(":memory:"), Store(":memory:")
    monkeypatch.setattr(options, "store", one)
    Count().run().result(20)
    flow = Count(store=two)
    flow.run().result(20)
    flow.with_options(store=three).run().result(20)
    assert [len(store.runs()) for store in (one, two, three)] == [1, 1, 1]


def test_stores_of_other_kinds_say_so():
    with pytest.raises(WorkflowConfigurationError, match="There are no 'mysql' stores"):
        Store("mysql://localhost/x")


class Holds(Event):
    lock: Any


class Open(Event):
    pass


class Asked(InputRequiredEvent):
    lock: Any = None


class Begins(StartEvent):
    lock: Any = None


def storing(fn: Any, tmp_path: Path, **settings: Any) -> Any:
    flow = Workflow[Any]("stores", accepts=[Holds, Open])
    flow.step(fn)

    @flow.step
    async def end(ev: Holds | Open) -> StopEvent:
        return StopEvent()

    return flow.with_options(store=Store(tmp_path / "runs.db"), **settings)


@pytest.mark.parametrize("how", ["returned", "sent", "written", "state", "question"])
def test_what_a_store_cannot_hold_fails_the_attempt_and_blocks_nothing(how: str, tmp_path: Path):
    """R6.12, C117: found before a tick is made of it; names event and field."""

    async def work(ev: Begins, ctx: Context) -> Holds | Open:
        held = Holds(lock=threading.Lock())
        if how == "sent":
            ctx.send_event(held)
        elif how == "written":
            ctx.write_event_to_stream(held)
        elif how == "state":
            ctx.state.set("lock", threading.Lock())
        elif how == "question":
            await ctx.ask(Asked(lock=threading.Lock()))
        return held if how == "returned" else Open()

    run = storing(work, tmp_path).run()
    with pytest.raises(NotStorable, match="lock"):
        run.result(20)
    assert run.status == "failed"


def test_what_a_store_cannot_hold_is_refused_at_the_door(tmp_path: Path):
    async def work(ev: Begins) -> None: ...

    flow = storing(work, tmp_path)
    with pytest.raises(NotStorable, match="lock"):
        flow.run(lock=threading.Lock())
    run = flow.run()
    with pytest.raises(NotStorable, match="lock"):
        run.send_event(Holds(lock=threading.Lock()))
    run.send_event(Open()).result(20)
    run.result(20)


def test_without_a_store_live_objects_are_passed_along():
    """R6.7, C117."""
    flow = Workflow[Any]("live")
    lock = threading.Lock()

    @flow.step
    def make(ev: Begins, ctx: Context) -> Holds:
        ctx.state.set("module", threading)
        return Holds(lock=ev.lock)

    @flow.step
    def end(ev: Holds, ctx: Context) -> StopEvent:
        return StopEvent(result=(ev.lock, ctx.state.get("module")))

    run = flow.with_options(state={"fn": len}).run(lock=lock)
    assert run.result(20) == (lock, threading)
    assert run.state == {"fn": len, "module": threading}


def test_a_store_that_another_process_locks_blocks_its_own_runs_alone(tmp_path: Path):
    """R1.16: the engine's thread goes on with other runs; the blocked one is tried again and loses nothing."""
    flow = Workflow("locked")

    @flow.step
    async def only(ev: StartEvent) -> StopEvent:
        return StopEvent(result="done")

    path = tmp_path / "runs.db"
    Store(path).close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    blocked = flow.with_options(store=str(path)).run()
    begun = time.monotonic()
    assert [flow.run().result(20) for _ in range(3)] == ["done"] * 3
    assert time.monotonic() - begun < 3
    wait_until(lambda: blocked.status == "blocked")
    other.execute("COMMIT")
    other.close()
    assert blocked.result(20) == "done"
