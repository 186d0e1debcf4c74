"""Cases of the tag *core*: retries, timeouts, threads, what attempts leave behind."""

import asyncio
import contextvars
import threading
import time
from typing import Any

import pytest

from flownb import Context, Event, StartEvent, StopEvent, Workflow
from flownb.core.reduce import fold
from flownb.errors import WorkflowCancelledByUser, WorkflowTimeoutError
from flownb.events import StepFailedEvent, StepStateChanged
from flownb.retry_policy import retry_policy, stop_after_attempt, wait_exponential_jitter, wait_fixed
from flownb.testing import ManualClock
from tests.polling import until, wait_until
from tests.restarting import restart


class Start(StartEvent):
    n: int = 4


class Item(Event):
    no: int


class Done(Event):
    no: int


class Shown(Event):
    attempt: int


def retries(attempts: int, seconds: float = 0) -> Any:
    return retry_policy(stop=stop_after_attempt(attempts), wait=wait_fixed(seconds))


def fanned(work: Any, **options: Any) -> Workflow[Any]:
    """One item for each of n, and a join."""
    flow = Workflow[Any]("fanned")

    @flow.step
    async def split(ev: Start) -> list[Item]:
        return [Item(no=i) for i in range(ev.n)]

    flow.step(**options)(work)

    @flow.step
    async def total(ev: list[Done]) -> StopEvent:
        return StopEvent(result=[d.no for d in ev])

    return flow


@pytest.mark.parametrize("how", ["alone", "four at once", "restarted", "from a snapshot"])
def test_c017_a_step_that_always_raises_is_tried_three_times_with_its_delays(how: str):
    clock = ManualClock(100.0)
    began: list[tuple[int, float]] = []

    async def work(ev: Item, ctx: Context) -> Done:
        began.append((ev.no, clock.now()))
        await until(lambda: len(began) >= ctx.attempt * n)  # the first to give up ends the others
        raise ValueError(f"item {ev.no}")

    n = 4 if how == "four at once" else 1
    flow = fanned(work, num_workers=None, retry_policy=retries(3, 0.25)).with_options(clock=clock)
    run = flow.run(n=n)
    for tries in (1, 2):
        wait_until(lambda: len(began) == tries * n)  # noqa: B023 - used at once
        wait_until(lambda: len(run._runner.state.timers) == n)  # noqa: B023
        if how == "restarted" and tries == 1:
            restart(run)
        if how == "from a snapshot" and tries == 1:
            snapshot = run.snapshot()
            run.cancel().result(20)
            run = flow.resume(snapshot)
            wait_until(lambda: len(run._runner.state.timers) == n)  # noqa: B023
        clock.advance(0.125)
        time.sleep(0.02)
        assert len(began) == tries * n
        clock.advance(0.125)
    with pytest.raises(ValueError, match="item"):
        run.result(20)
    for no in range(n):
        assert [at for who, at in began if who == no] == [100.0, 100.25, 100.5]


def test_c019_items_that_fail_together_wait_differently_and_the_same_in_a_second_run():
    def delays() -> list[float]:
        clock = ManualClock(100.0)

        async def work(ev: Item) -> Done:
            raise ValueError("busy")

        policy = retry_policy(stop=stop_after_attempt(2), wait=wait_exponential_jitter(1, max=10))
        flow = fanned(work, num_workers=None, retry_policy=policy).with_options(clock=clock)
        run = flow.run(n=20, run_id="jitter")
        wait_until(lambda: len(run._runner.state.timers) == 20)
        wait_until(lambda: len(run.debug.ticks) == run._runner.state.seq)  # the turn is over: this is another thread
        assert fold(run.debug.ticks).timers == run._runner.state.timers  # a replay draws no number
        due = [timer.due_at - 100.0 for timer in run._runner.state.timers.values()]
        run.cancel().result(20)
        return due

    first = delays()
    assert len(set(first)) > 1
    assert all(1 <= delay <= 2 for delay in first)
    import flownb.starting

    flownb.starting.known.clear()  # a run of that id is known; the second is another one
    assert delays() == first


@pytest.mark.parametrize("sends", ["at_once", "on_success"])
def test_c021_what_a_step_sends_before_it_fails_is_sent_once(sends: Any):
    got: list[int] = []
    flow = Workflow[Any]("sends")

    @flow.step(retry_policy=retries(3), sends=sends)
    async def work(ev: Start, ctx: Context) -> Item | Done:
        ctx.send_event(Item(no=1))
        await asyncio.sleep(0.01)
        if ctx.attempt < 3:
            raise ValueError("again")
        return Done(no=ctx.attempt)

    @flow.step
    async def items(ev: Item) -> None:
        got.append(ev.no)

    @flow.step
    async def end(ev: Done, ctx: Context) -> StopEvent:
        await ctx.sleep(0.05)
        return StopEvent(result=ev.no)

    async def main() -> None:
        run = flow.run()
        assert await run == 3
        states = [e async for e in run.stream_events(expose_internal=True) if isinstance(e, StepStateChanged)]
        assert got == [1]
        assert [(e.name, e.state) for e in states].count(("items", "done")) == 1

    asyncio.run(main())


def test_c023_a_blocking_step_freezes_nothing_and_the_limit_fires():
    go, returned = threading.Event(), []
    flow = Workflow[Any]("blocks", timeout=0.3)

    @flow.step
    def work(ev: Start) -> StopEvent:
        returned.append(go.wait(60))
        return StopEvent(result="late")

    async def main() -> None:
        begun, looks = time.monotonic(), 0
        run = flow.run()
        while not run.is_done():
            await asyncio.sleep(0.05)
            assert run.why()  # looking works meanwhile
            looks += 1
        with pytest.raises(WorkflowTimeoutError):
            await run
        assert time.monotonic() - begun >= 0.3
        assert looks > 1
        assert returned == []  # the step blocks its thread still

    try:
        asyncio.run(main())
    finally:
        go.set()


def test_c025_the_late_return_of_an_abandoned_thread_counts_for_nothing():
    go, returned = threading.Event(), threading.Event()
    flow = Workflow[Any]("late")

    @flow.step(timeout=0.5, retry_policy=retries(2))
    def work(ev: Start, ctx: Context) -> Item | StopEvent:
        if ctx.attempt == 1:
            go.wait(20)
            returned.set()
            return StopEvent(result="late")
        return Item(no=1)

    @flow.step
    async def end(ev: Item, ctx: Context) -> StopEvent:
        go.set()
        await asyncio.to_thread(returned.wait, 20)
        await ctx.sleep(0.05)  # the thread had time to say so
        return StopEvent(result="ok")

    async def main() -> None:
        run = flow.run()
        assert await run == "ok"
        assert [e.result async for e in run.stream_events() if isinstance(e, StopEvent)] == ["ok"]

    asyncio.run(main())


def test_c029_the_callers_context_variables_are_read_everywhere_and_none_leaks():
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")
    inner = Workflow[Any]("inner")

    @inner.step
    async def deep(ev: Start) -> StopEvent:
        return StopEvent(result=who.get())

    flow = Workflow[Any]("outer")
    seen: dict[str, str] = {}

    @flow.step
    async def first(ev: Start) -> Item:
        seen["async"] = who.get()
        who.set("changed by first")
        return Item(no=1)

    @flow.step(retry_policy=retries(2))
    def second(ev: Item, ctx: Context) -> Done:
        seen[f"plain {ctx.attempt}"] = who.get()
        who.set("changed by second")
        if ctx.attempt == 1:
            raise ValueError("again")
        return Done(no=1)

    @flow.step
    async def third(ev: Done, ctx: Context) -> StopEvent:
        seen["sibling"] = who.get()
        seen["child"] = await ctx.run(inner)
        return StopEvent()

    async def main() -> None:
        who.set("me")
        await flow.run()
        assert who.get() == "me"

    asyncio.run(main())
    assert seen == dict.fromkeys(("async", "plain 1", "plain 2", "sibling", "child"), "me")


def test_c045_a_cancel_ends_the_retries_that_are_left():
    clock = ManualClock()
    calls: list[int] = []
    flow = Workflow[Any]("cancelled")

    @flow.step(retry_policy=retries(5, 10))
    async def work(ev: Start) -> StopEvent:
        calls.append(1)
        raise ValueError("once")

    async def main() -> None:
        run = flow.with_options(clock=clock).run()
        await until(lambda: len(run._runner.state.timers) == 1)
        run.cancel("enough")
        with pytest.raises(WorkflowCancelledByUser, match="enough"):
            await run
        clock.advance(11)
        await asyncio.sleep(0.02)
        assert (calls, run.status, clock.next_due()) == ([1], "cancelled", None)

    asyncio.run(main())


def test_c047_a_cancel_stops_the_children_at_every_depth():
    beats: list[int] = []
    lowest = Workflow[Any]("lowest")

    @lowest.step
    async def loop(ev: Start) -> StopEvent:
        while True:
            beats.append(1)
            await asyncio.sleep(0.02)

    middle = Workflow[Any]("middle")

    @middle.step
    async def passes(ev: Start, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.run(lowest))

    flow = Workflow[Any]("top")

    @flow.step
    async def begins(ev: Start, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.run(middle))

    async def main() -> None:
        run = flow.run(run_id="c047")
        await until(lambda: len(beats) > 2)
        run.cancel()
        with pytest.raises(WorkflowCancelledByUser):
            await run
        child = run.children["c047/1/1"]
        grandchild = child.children["c047/1/1/1/1"]
        await until(grandchild.is_done)
        before = len(beats)
        await asyncio.sleep(0.1)
        assert len(beats) == before
        for each in (run, child, grandchild):
            assert (each.status, type(each.debug.ticks[-1]).__name__) == ("cancelled", "CancelRequested")

    asyncio.run(main())


@pytest.mark.parametrize("again", ["", "restarted"])
def test_c053_a_retried_item_is_collected_once(again: str):
    calls: dict[int, int] = {}
    collected: list[list[int]] = []
    flow = Workflow[Any]("collects", accepts=[Shown])

    @flow.step
    async def split(ev: Start) -> list[Item]:
        return [Item(no=i) for i in range(5)]

    @flow.step(retry_policy=retries(3))
    async def work(ev: Item) -> Done:
        calls[ev.no] = calls.get(ev.no, 0) + 1
        if ev.no == 3 and calls[3] < 3:
            raise ValueError("not yet")
        return Done(no=ev.no)

    @flow.step(num_workers=1, retry_policy=retries(2))
    async def gather(ev: Done, ctx: Context) -> StopEvent | None:
        found = ctx.collect_events(ev, [Done] * 5)
        if found is None:
            return None
        collected.append(sorted(d.no for d in found))
        if again:
            await ctx.wait_for_event(Shown)  # exactly at the join
        elif ctx.attempt == 1:
            raise ValueError("after it collected")
        return StopEvent(result=collected[-1])

    run = flow.run()
    if again:
        wait_until(lambda: run._runner.state.side.waiters.n == 1)
        restart(run)
        run.send_event(Shown(attempt=1))
    assert run.result(20) == [0, 1, 2, 3, 4]
    assert collected == [[0, 1, 2, 3, 4]] * 2
    assert calls == {0: 1, 1: 1, 2: 1, 3: 3, 4: 1}


def test_c055_a_branch_that_fails_fails_the_run_at_once_or_is_a_record():
    ended: list[int] = []

    async def work(ev: Item, ctx: Context) -> Done:
        if ev.no == 2:
            raise ValueError("item 2")
        try:
            await ctx.sleep(0.01 if keeps_going else 3600)
        except BaseException:
            ended.append(ev.no)
            raise
        return Done(no=ev.no)

    keeps_going = False
    run = fanned(work, num_workers=None).run(n=5)
    with pytest.raises(ValueError, match="item 2") as caught:
        run.result(20)
    assert any("'work'" in note for note in caught.value.__notes__)
    wait_until(lambda: sorted(ended) == [0, 1, 3, 4])

    keeps_going = True
    flow = Workflow[Any]("keeps going")

    @flow.step
    async def split(ev: Start) -> list[Item]:
        return [Item(no=i) for i in range(5)]

    flow.step(on_error="continue")(work)

    @flow.step
    async def total(ev: list[Done | StepFailedEvent]) -> StopEvent:
        return StopEvent(result=[type(e).__name__ for e in ev])

    assert flow.run().result(20) == ["Done", "Done", "StepFailedEvent", "Done", "Done"]


def test_c057_what_was_done_is_not_done_again_when_the_cause_is_mended():
    calls: dict[int, int] = {}
    is_mended = False

    async def work(ev: Item, ctx: Context) -> Done:
        calls[ev.no] = calls.get(ev.no, 0) + 1
        if ev.no == 1:
            await ctx.sleep(0.05)  # the others are done by then
            if not is_mended:
                raise ValueError("no disk")
        return Done(no=ev.no)

    flow = fanned(work)
    run = flow.run(n=3)
    with pytest.raises(ValueError, match="no disk"):
        run.result(20)
    is_mended = True
    again = flow.resume(run.run_id, retry_failed=True)
    assert again.result(20) == [0, 1, 2]
    assert again.run_id != run.run_id
    assert calls == {0: 1, 1: 2, 2: 1}
    assert run.status == "failed"
