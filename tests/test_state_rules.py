"""The state of a run and live objects in it: writes, edits, what is saved and for how long."""

import asyncio
import gc
import json
import threading
import weakref
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

import flownb
from flownb import Context, Event, Resource, StartEvent, StopEvent, Store, Workflow
from flownb.errors import ContextStateError, LiveValueLost, NotStorable
from flownb.events import StepFailedEvent
from flownb.resource import Transient
from flownb.retry_policy import retry_policy, stop_after_attempt, wait_fixed
from flownb.testing import ManualClock
from tests.polling import wait_until
from tests.restarting import restart


class Begin(StartEvent):
    n: int = 1


class Item(Event):
    no: int


class Go(Event):
    pass


class Holds(Event):
    held: Any = None


class Totals(BaseModel):
    count: int = 0
    names: list[str] = []


class Connection:
    """Something that no codec knows."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


def one(fn: Any, **options: Any) -> Workflow[Any]:
    """A workflow of one step."""
    flow = Workflow[Any]("state")
    flow.step(**options)(fn)
    return flow


# -- the state


@pytest.mark.parametrize("spelling", ["state", "store"])
def test_state_and_store_are_the_same_data(spelling: str):
    """R6.1, R6.6: L's awaitable calls, also the ones that take all of it."""

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        if spelling == "state":
            ctx.state.set("a.b", 1)
            return StopEvent(result=(await ctx.store.get("a.b"), await ctx.store.get("c", default=5)))
        await ctx.store.set("a.b", 1)
        async with ctx.store.edit_state() as state:
            state["a"]["b"] += 1
            state.more = [1]  # names are attributes too
        whole = await ctx.store.get_state()
        await ctx.store.set_state({**whole, "set": True})
        said = ctx.state.get()
        await ctx.store.clear()
        return StopEvent(result=(said, said.more, ctx.state.get()))

    result = one(work).run().result(20)
    if spelling == "state":
        assert result == (1, 5)
    else:
        assert result == ({"a": {"b": 2}, "more": [1], "set": True}, [1], {})


def test_a_free_state_is_read_by_item_and_by_attribute():
    """R6.1: also from outside; what is not there says what is."""

    def work(ev: Begin, ctx: Context) -> StopEvent:
        with ctx.state.edit() as state:
            state.count = 1
            state["names"] = ["a"]
            del state.count
            state.count = 2
        with pytest.raises(AttributeError, match=r"The state has no .coutn.\. It has names, count"):
            _ = ctx.state.get().coutn
        return StopEvent(result=ctx.state.get().count)

    run = one(work).run()
    assert run.result(20) == 2
    assert (run.state.count, run.state["names"]) == (2, ["a"])


def test_a_typed_state_holds_by_its_model_in_every_call():
    """R6.1, R6.6: `clear` goes back to its defaults."""

    async def work(ev: Begin, ctx: Context[Totals]) -> StopEvent:
        await ctx.store.set("names", ["a"])
        async with ctx.store.edit_state() as state:
            state.count += 1
            state.names.append("b")
        first = await ctx.store.get_state()
        await ctx.store.set_state(Totals(count=9))
        second = ctx.state.get()
        await ctx.store.clear()
        return StopEvent(result=[first, second, ctx.state.get()])

    assert one(work).run().result(20) == [Totals(count=1, names=["a", "b"]), Totals(count=9), Totals()]


def test_reads_do_not_wait_for_an_edit_and_see_what_was_before():
    """R6.3, R6.2: nothing of the block is seen outside of it until it ends."""
    seen: list[Any] = []
    flow = Workflow[Any]("reads")

    @flow.step
    async def begin(ev: Begin, ctx: Context) -> Item | Go:
        ctx.state.set("n", 1)
        ctx.send_event(Go())
        return Item(no=1)

    inside, read = asyncio.Event(), asyncio.Event()

    @flow.step
    async def edits(ev: Item, ctx: Context) -> StopEvent:
        async with ctx.state.edit() as state:
            state["n"] = 2
            inside.set()
            await read.wait()
        return StopEvent(result=ctx.state.get("n"))

    @flow.step
    async def reads(ev: Go, ctx: Context) -> None:
        await inside.wait()
        seen.append(ctx.state.get("n"))
        read.set()

    async def main() -> Any:
        return await flow.run()

    assert asyncio.run(main()) == 2
    assert seen == [1]


def test_edits_come_in_the_order_of_asking():
    """R6.3."""
    order: list[int] = []

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        async def edit(no: int) -> None:
            async with ctx.state.edit() as state:
                await asyncio.sleep(0.01 if no == 0 else 0)
                state["order"] = [*state.get("order", []), no]
                order.append(no)

        await asyncio.gather(*(edit(no) for no in range(5)))
        return StopEvent(result=ctx.state.get("order"))

    assert one(work).run().result(20) == [0, 1, 2, 3, 4]
    assert order == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("what", ["wait", "sleep_until"])
def test_no_wait_of_any_kind_begins_inside_an_edit(what: str):
    """R6.4: the words name the mend."""

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        async with ctx.state.edit() as state:
            with pytest.raises(ContextStateError, match=r"inside an edit of the state .* Leave the block first"):
                await (ctx.wait_for_event(Go) if what == "wait" else ctx.sleep_until(0.0))
            state["n"] = 1
        return StopEvent(result=ctx.state.get("n"))

    assert one(work).run().result(20) == 1


@pytest.mark.parametrize("again", ["retry", "restart"])
def test_a_step_that_runs_again_writes_nothing_twice(again: str):
    """R6.5, R3.55, R3.56: the n-th write and the n-th edit of a delivery are not applied again; a new one is."""
    starts: list[int] = []

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        starts.append(1)
        ctx.state.set("starts", len(starts))
        async with ctx.state.edit() as state:
            state["n"] = state.get("n", 0) + 1
        if again == "retry" and ctx.attempt == 1:
            raise ValueError("again")
        if again == "restart":
            await ctx.wait_for_event(Go)
        async with ctx.state.edit() as state:
            state["n"] += 10
        return StopEvent(result=ctx.state.get())

    run = one(work, retry_policy=retry_policy(stop=stop_after_attempt(2), wait=wait_fixed(0))).run()
    if again == "restart":
        wait_until(lambda: run.status == "waiting")
        restart(run)
        assert run.state == {"starts": 1, "n": 1}
        run.send_event(Go())
    assert run.result(20) == {"starts": 1, "n": 11}
    assert len(starts) == 2


def test_a_thread_that_is_stuck_in_an_edit_past_its_timeout_holds_nobody_up():
    """R3.16, R6.3: it cannot be killed, but its turn is over; what it still writes counts for nothing."""
    clock, stuck, go = ManualClock(), threading.Event(), threading.Event()
    flow = Workflow[Any]("stuck")

    @flow.step(timeout=5, on_error="continue")
    def work(ev: Begin, ctx: Context) -> None:
        with ctx.state.edit() as state:
            state["lost"] = 1
            stuck.set()
            go.wait(60)

    @flow.step
    async def after(ev: StepFailedEvent, ctx: Context) -> StopEvent:
        async with ctx.state.edit() as state:
            state["n"] = 1
        return StopEvent()

    run = flow.with_options(clock=clock).run()
    try:
        assert stuck.wait(20)
        wait_until(lambda: clock.next_due() is not None)
        clock.advance(5)
        run.result(20)
    finally:
        go.set()
    assert run.state == {"n": 1}


def test_the_state_of_a_step_is_no_dict_and_says_how_it_is_read_and_written():
    async def work(ev: Begin, ctx: Context) -> StopEvent:
        with pytest.raises(ContextStateError, match=r"written by ctx\.state\.set\('z', \.\.\.\)"):
            ctx.state["z"] = 1
        with pytest.raises(ContextStateError, match=r"read by ctx\.state\.get\('z'\)"):
            ctx.state["z"]
        return StopEvent(result=ctx.state.get())

    assert one(work).run().result(20) == {}


def test_writes_are_ticks_and_time_travel_shows_the_state_at_each():
    """R6.5."""

    def work(ev: Begin, ctx: Context) -> StopEvent:
        for n in range(3):
            ctx.state.set("n", n)
        ctx.state.clear()
        return StopEvent()

    run = one(work).run()
    run.result(20)
    written = [seq for seq, t in enumerate(run.debug.ticks, 1) if type(t).__name__ == "StateWritten"]
    assert [run.debug.at(seq).state for seq in written] == [{"n": 0}, {"n": 1}, {"n": 2}, {}]


def test_a_write_by_a_path_keeps_what_stands_beside_it():
    """R6.1."""

    def work(ev: Begin, ctx: Context) -> StopEvent:
        ctx.state.set("a", {"x": 1, "y": [1, 2]})
        ctx.state.set("a.y.0", 9)
        ctx.state.set("a.z.deep", 5)
        return StopEvent(result=ctx.state.get("a"))

    assert one(work).run().result(20) == {"x": 1, "y": [9, 2], "z": {"deep": 5}}


# -- live objects


def test_a_live_object_is_the_same_one_in_events_and_state():
    """R6.7: shared, not copied; also in a store that keeps what it cannot save in memory."""
    connection = Connection()

    async def work(ev: Begin, ctx: Context) -> Holds:
        ctx.state.set("held", connection)
        return Holds(held=connection)

    flow = one(work)

    @flow.step
    async def end(ev: Holds, ctx: Context) -> StopEvent:
        return StopEvent(result=(ev.held is connection, ctx.state.get("held") is connection))

    assert flow.run().result(20) == (True, True)


@pytest.mark.parametrize(
    ("of_flow", "of_store", "fails"),
    [(None, "error", True), (None, "live", False), ("live", "error", False), ("error", "live", True)],
)
def test_what_has_no_codec_follows_the_workflow_else_the_store(
    of_flow: Any, of_store: Any, fails: bool, tmp_path: Path
):
    """R6.10, R6.11: "error" fails the attempt, naming the field; "live" keeps it in memory, marked in the journal."""

    async def work(ev: Begin) -> Holds:
        return Holds(held=Connection())

    flow = Workflow[Any]("codec", unserializable=of_flow)
    flow.step(work)

    @flow.step
    async def end(ev: Holds) -> StopEvent:
        return StopEvent(result=type(ev.held).__name__)

    store = Store(tmp_path / "runs.db", unserializable=of_store)
    run = flow.with_options(store=store).run(run_id="codec")
    if fails:
        with pytest.raises(NotStorable, match="'held'"):
            run.result(20)
    else:
        assert run.result(20) == "Connection"
        store.close()
        assert b'"$live"' in (tmp_path / "runs.db").read_bytes()
    store.close()


def test_a_store_that_was_named_refuses_by_default(tmp_path: Path):
    """R6.11, R6.12: before a tick is made of it, naming what of the state it is."""

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        ctx.state.set("held", Connection())
        return StopEvent()

    with pytest.raises(NotStorable, match=r"The state cannot keep 'held'\. .*Connection, which has no codec"):
        one(work).with_options(store=str(tmp_path / "named.db")).run().result(20)


def test_a_live_object_lives_as_long_as_its_run():
    """R6.15: when nobody holds the run any more, it is freed."""
    held: list[weakref.ref[Connection]] = []

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        connection = Connection()
        held.append(weakref.ref(connection))
        ctx.state.set("held", connection)
        return StopEvent()

    run = one(work).run()
    run.result(20)
    gc.collect()
    assert held[0]() is run.state.held
    del run
    wait_until(lambda: gc.collect() >= 0 and held[0]() is None)


def test_a_live_object_that_was_removed_is_no_part_of_the_run_any_more():
    """R6.15: neither of its state nor of a snapshot."""

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        ctx.state.set("held", Connection())
        async with ctx.state.edit() as state:
            del state["held"]
        await ctx.wait_for_event(Go)
        return StopEvent(result=ctx.state.get())

    run = one(work).run()
    wait_until(lambda: run.status == "waiting")
    assert run.snapshot().missing == []
    run.send_event(Go())
    assert run.result(20) == {}


def test_a_transient_object_is_used_but_never_saved(tmp_path: Path):
    """R6.15, R6.16: a store that refuses what it cannot save takes it; a snapshot does not hold it."""
    connection = Connection()

    async def work(ev: Begin, ctx: Context) -> Holds:
        ctx.state.set("db", Transient(connection))
        return Holds(held=Transient(connection))

    flow = one(work)

    @flow.step
    async def end(ev: Holds, ctx: Context) -> StopEvent:
        same = ev.held.value is connection and ctx.state.get("db").value is connection
        await ctx.wait_for_event(Go)
        return StopEvent(result=same and ctx.state.get("db").value is connection)

    store = Store(tmp_path / "runs.db")
    run = flow.with_options(store=store).run(run_id="transient")
    wait_until(lambda: run.status == "waiting")
    snapshot = run.snapshot()
    assert {(m["field"], m["type"]) for m in snapshot.missing} == {
        ("db", f"{__name__}:Connection"),
        ("held", f"{__name__}:Connection"),
    }
    run.send_event(Go())
    assert run.result(20) is True
    kept = [t for t in store.history("transient") if type(t).__name__ == "StateWritten"]
    with pytest.raises(LiveValueLost, match="kept in memory only"):
        _ = kept[0].changes["db"].value.value
    store.close()


def test_after_a_restart_using_a_transient_object_raises():
    """R6.16: also in the process that had it: what goes on is what the snapshot holds."""

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        ctx.state.set("db", Transient(Connection()))
        ctx.state.set("n", 1)
        await ctx.wait_for_event(Go)
        with pytest.raises(LiveValueLost, match=r"Connection in .*was kept in memory only"):
            _ = ctx.state.get("db").value
        return StopEvent(result=ctx.state.get("n"))

    flow = one(work)
    run = flow.run()
    wait_until(lambda: run.status == "waiting")
    plain = json.loads(json.dumps(run.snapshot()))
    again = flow.resume(plain)
    assert again.run_id != run.run_id
    wait_until(lambda: again.status == "waiting")
    again.send_event(Go())
    assert again.result(20) == 1
    assert run.state["db"].value.lock is not None  # the other one has it still
    run.cancel().result(20)


def test_a_transient_object_says_what_it_holds():
    assert repr(Transient(Connection())) == "<transient Connection>"
    assert flownb.Transient is Transient  # type: ignore[attr-defined]


# -- resources


@pytest.mark.parametrize(("scope", "made"), [("workflow", 1), ("run", 2)])
def test_a_resource_is_made_once_for_a_workflow_or_a_run_whoever_asks_first(scope: Any, made: int):
    """R6.17: ten deliveries at once ask for it."""
    calls: list[int] = []

    async def connect() -> Connection:
        calls.append(1)
        await asyncio.sleep(0.02)
        return Connection()

    flow = Workflow[Any]("resource")

    @flow.step
    async def split(ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(10)]

    @flow.step(num_workers=None)
    async def work(ev: Item, db: Annotated[Connection, Resource(connect, scope=scope)]) -> Holds:
        return Holds(held=id(db))

    @flow.step
    async def total(ev: list[Holds]) -> StopEvent:
        return StopEvent(result=len({h.held for h in ev}))

    async def main() -> list[Any]:
        return [await flow.run(), await flow.run()]

    assert asyncio.run(main()) == [1, 1]
    assert len(calls) == made
