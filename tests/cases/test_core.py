"""Cases of the tag *core*: routing, races, threads, cancel, fan-out."""

import asyncio
import threading
import time
from typing import Any

import pytest

from flownb import Context, Event, StartEvent, StopEvent, Workflow, step
from flownb.core.reduce import fold
from flownb.core.ticks import CONTROL
from flownb.errors import WorkflowCancelledByUser, WorkflowRuntimeError, WorkflowStalled
from flownb.events import UnhandledEvent, WorkflowCancelledEvent, WorkflowFailedEvent, WorkflowIdleEvent
from tests.polling import until, wait_until


class Start(StartEvent):
    n: int = 3


class Parent(Event):
    pass


class Child(Parent):
    pass


class Item(Event):
    no: int


class Inner(Event):
    no: int


class Done(Event):
    no: int


class Next(Event):
    pass


def test_c009_a_child_event_reaches_each_step_that_takes_its_parent_once():
    got: list[str] = []
    flow = Workflow[None]("bases", skip_graph_checks=["subclasses"])

    @flow.step
    async def one(ev: Start) -> Child:
        return Child()

    @flow.step
    async def two(ev: Parent) -> Done:
        got.append("two")
        return Done(no=2)

    @flow.step
    async def three(ev: Parent | Child) -> Done:
        got.append("three")
        return Done(no=3)

    @flow.step
    async def end(ev: Done, ctx: Context) -> StopEvent | None:
        async with ctx.state.edit() as state:
            state["n"] = state.get("n", 0) + 1
            n = state["n"]
        return StopEvent() if n == 2 else None

    flow.run().result(20)
    assert sorted(got) == ["three", "two"]


@pytest.mark.filterwarnings("ignore:.*which no step takes")
def test_c013_a_look_alike_fails_in_words_and_an_unaccepted_event_is_visible():
    other: dict[str, Any] = {"__name__": "elsewhere", "BaseModel": __import__("pydantic").BaseModel}
    exec("class Item(BaseModel): no: int", other)
    flow = Workflow[None]("alike")

    @flow.step
    async def make(ev: Start) -> Item:
        return other["Item"](no=1)

    @flow.step
    async def end(ev: Item) -> StopEvent:
        return StopEvent()

    with pytest.raises(
        WorkflowRuntimeError, match=rf"Step 'make' returned a elsewhere:Item; its hint says {__name__}:"
    ):
        flow.run().result(20)

    flow = Workflow[None]("unaccepted")

    @flow.step
    async def loses(ev: Start) -> Next | StopEvent:
        return Next()

    async def main() -> None:
        run = flow.run()
        with pytest.raises(WorkflowStalled, match="no step took the last Next"):
            await run
        events = [e async for e in run.stream_events()]
        assert isinstance(events[0], UnhandledEvent)
        assert events[0].qualified_name == f"{__name__}:Next"
        assert run.debug.ticks[1].outs[0].value == Next()  # it is in the journal

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_c031_a_hundred_parallel_edits_are_a_hundred(kind: str):
    flow = Workflow[int]("edits")

    @flow.step
    def split(ev: Start) -> list[Item]:
        return [Item(no=i) for i in range(100)]

    if kind == "async":

        @flow.step(num_workers=None)
        async def work(ev: Item, ctx: Context) -> Done:
            async with ctx.state.edit() as state:
                n = state.get("n", 0)
                await asyncio.sleep(0)
                state["n"] = n + 1
            return Done(no=ev.no)
    else:

        @flow.step(num_workers=20)
        def work(ev: Item, ctx: Context) -> Done:
            with ctx.state.edit() as state:
                n = state.get("n", 0)
                time.sleep(0)
                state["n"] = n + 1
            return Done(no=ev.no)

    @flow.step
    def total(ev: list[Done], ctx: Context) -> StopEvent:
        return StopEvent(result=ctx.state.get("n"))

    assert flow.run().result(30) == 100


class Contended(Workflow[int]):
    @step
    async def split(self, ev: Start) -> list[Item]:
        return [Item(no=i) for i in range(ev.n)]

    @step(num_workers=2)
    async def work(self, ev: Item, ctx: Context) -> Done:
        async with ctx.state.edit() as state:
            state["n"] = state.get("n", 0) + 1
        await ctx.sleep(0.001)
        return Done(no=ev.no)

    @step
    async def total(self, ev: list[Done], ctx: Context) -> StopEvent:
        return StopEvent(result=ctx.state.get("n"))


def test_c033_one_workflow_in_two_asyncio_runs_and_another_thread(tmp_path: Any):
    from flownb import Store

    store = Store(tmp_path / "runs.db")
    flow = Contended(store=store)

    async def main() -> int:
        return int(await flow.run(n=30))

    assert [asyncio.run(main()), asyncio.run(main())] == [30, 30]
    got: list[int] = []
    thread = threading.Thread(target=lambda: got.append(asyncio.run(main())))
    thread.start()
    thread.join(30)
    assert got == [30]
    store.close()


def test_c035_idle_is_not_announced_while_anything_is_queued_or_runs():
    class Outside(Event):
        pass

    flow = Workflow[str]("idle", accepts=[Outside])

    @flow.step
    async def a(ev: Start, ctx: Context) -> Item | None:
        for i in range(3):
            ctx.send_event(Item(no=i))
        return None

    @flow.step(num_workers=1)
    async def b(ev: Item, ctx: Context) -> None:
        await asyncio.sleep(0.002)
        await ctx.sleep(0.002)

    @flow.step
    async def end(ev: Outside) -> StopEvent:
        return StopEvent(result="end")

    async def main() -> None:
        run = flow.run()
        idle: list[int] = []
        async for item in run.stream(expose_internal=True):
            if isinstance(item.event, WorkflowIdleEvent):
                idle.append(item.seq)
                moment = run.debug.at(item.seq)
                assert (moment.queued, moment.running, moment.waiting, moment.inbox) == ({}, {}, {}, ())
                run.send_event(Outside())
        assert len(idle) == 1
        assert await run == "end"

    asyncio.run(main())


def test_c037_two_stops_race_and_one_wins_the_same_in_replay():
    flow = Workflow[int]("race")

    @flow.step
    async def one(ev: Start) -> StopEvent:
        return StopEvent(result=1)

    @flow.step
    async def two(ev: Start) -> StopEvent:
        return StopEvent(result=2)

    async def main() -> None:
        for _ in range(200):
            run = flow.run()
            result = await run
            ends = [e.result async for e in run.stream_events() if isinstance(e, StopEvent)]
            replayed = fold(run.debug.ticks).result
            assert replayed is not None
            assert ends == [result] == [replayed.value.result]

    asyncio.run(main())


@pytest.mark.parametrize("how", ["raises", "is cancelled"])
def test_c039_the_stream_of_a_run_that_ends_badly_ends(how: str):
    flow = Workflow[None]("bad")

    @flow.step
    async def work(ev: Start) -> StopEvent:
        if how == "raises":
            raise ValueError("x")
        await asyncio.sleep(60)
        return StopEvent()

    async def main() -> None:
        run = flow.run()
        if how != "raises":
            asyncio.get_running_loop().call_later(0.02, run.cancel)
        begun = time.monotonic()
        events = [event async for event in run.stream_events()]
        assert time.monotonic() - begun < 5
        last, error = (
            (WorkflowFailedEvent, ValueError) if how == "raises" else (WorkflowCancelledEvent, WorkflowCancelledByUser)
        )
        assert isinstance(events[-1], last)
        with pytest.raises(error):
            await run

    asyncio.run(main())


@pytest.mark.parametrize("how", ["swallows", "ends in the same turn"])
def test_c043_a_step_cannot_make_a_cancel_vanish(how: str):
    after: list[int] = []

    async def main() -> None:
        go = asyncio.Event()
        flow = Workflow[None]("swallows")

        @flow.step
        async def work(ev: Start) -> Next:
            try:
                await go.wait()
            except BaseException:
                if how != "swallows":
                    raise
            return Next()

        @flow.step
        async def then(ev: Next) -> StopEvent:
            after.append(1)
            return StopEvent()

        run = flow.run()
        await until(lambda: run.now.running)
        await asyncio.sleep(0.01)
        if how != "swallows":
            go.set()
            await asyncio.sleep(0)
        begun = time.monotonic()
        run.cancel()
        with pytest.raises(WorkflowCancelledByUser):
            await run
        assert time.monotonic() - begun < 2
        await asyncio.sleep(0.05)
        assert run.status == "cancelled"
        assert after == []

    asyncio.run(main())


def test_c051_a_join_of_nothing_fires_once_nested_too():
    fired: list[int] = []
    flow = Workflow[list[int]]("nothing")

    @flow.step
    async def outer(ev: Start) -> list[Item]:
        return [Item(no=i) for i in range(ev.n)]

    @flow.step
    async def inner(ev: Item) -> list[Inner]:
        return []

    @flow.step
    async def work(ev: Inner) -> Done:
        return Done(no=ev.no)

    class Sum(Event):
        n: int

    @flow.step
    async def close(ev: list[Done]) -> Sum:
        fired.append(len(ev))
        return Sum(n=len(ev))

    @flow.step
    async def total(ev: list[Sum]) -> StopEvent:
        fired.append(-1)
        return StopEvent(result=[s.n for s in ev])

    assert flow.run(n=3).result(20) == [0, 0, 0]
    assert fired == [0, 0, 0, -1]
    fired.clear()
    assert flow.run(n=0).result(20) == []
    assert fired == [-1]


def test_c059_three_hundred_steps_in_a_row_all_run():
    count = 300
    events = [type(f"E{i}", (Event,), {"__module__": __name__}) for i in range(count)]
    order: list[int] = []
    flow = Workflow[int]("long")

    def link(i: int) -> None:
        takes: Any = Start if i == 0 else events[i - 1]
        gives: Any = StopEvent if i == count - 1 else events[i]

        async def fn(ev: Event) -> Event:
            order.append(i)
            return StopEvent(result=len(order)) if gives is StopEvent else gives()

        fn.__name__ = f"step_{i}"
        fn.__annotations__ = {"ev": takes, "return": gives}
        flow.step(fn)

    for i in range(count):
        link(i)
    assert flow.run().result(30) == count
    assert order == list(range(count))


def test_c061_each_press_is_one_tick_and_the_end_is_that_of_a_free_run():
    flow = Workflow[list[int]]("steps")

    @flow.step
    async def split(ev: Start) -> list[Item]:
        return [Item(no=i) for i in range(2)]

    @flow.step
    async def work(ev: Item) -> Done:
        await asyncio.sleep(0.05 + 0.02 * ev.no)
        return Done(no=ev.no)

    @flow.step
    async def total(ev: list[Done]) -> StopEvent:
        return StopEvent(result=[d.no for d in ev])

    def happened(run: Any) -> list[Any]:
        return [(type(t).__name__, getattr(t, "step", "")) for t in run.debug.ticks if not isinstance(t, CONTROL)]

    free = flow.run()
    free.result(20)
    run = flow.debug()
    wait_until(lambda: run.status == "paused")
    presses = 0
    while not run.is_done():
        before = len(happened(run))
        begun = time.monotonic()
        run.debug.step().result(20)
        assert time.monotonic() - begun < 3
        presses += 1
        assert len(happened(run)) == before + 1
        assert presses < 20
    assert run.result(20) == free.result() == [0, 1]
    assert happened(run) == happened(free)
