"""The gate while people work it: pause, step, answers, timers, retries, edits."""

import asyncio
import threading
import time
from typing import Any

import pytest

from flownb import Context, StopEvent, Workflow, step
from flownb.core.reduce import fold
from flownb.core.ticks import (
    CONTROL,
    GateClosed,
    GateOpened,
    RequestAnswered,
    StateWritten,
    StepFailed,
    TimerFired,
    WaitOpened,
)
from flownb.errors import WorkflowCancelledByUser
from flownb.retry_policy import retry_policy, stop_after_attempt, wait_fixed
from flownb.testing import ManualClock
from tests.polling import until, until_asked, wait_until
from tests.runtime.flows import Approve, Asks, Begin, Count, Done, Forever, Item, Verdict


def work_ticks(run: Any) -> list[Any]:
    return [tick for tick in run.debug.ticks if not isinstance(tick, CONTROL)]


class Wide(Workflow[list[int]]):
    """Eight plain workers at once."""

    @step
    def split(self, ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(ev.n)]

    @step(num_workers=8)
    def work(self, ev: Item) -> Done:
        time.sleep(0.001)
        return Done(no=ev.no)

    @step
    def join(self, ev: list[Done]) -> StopEvent:
        return StopEvent(result=[d.no for d in ev])


def test_each_step_is_one_tick_while_eight_workers_run():
    """R5.24, R1.23: exactly one, however much arrives meanwhile."""
    run = Wide().debug(n=40)
    while not run.is_done():
        before = len(work_ticks(run))
        run.debug.step().result(20)
        assert len(work_ticks(run)) == before + 1
    assert run.result(20) == list(range(40))


def test_pause_says_why_by_whom_and_how_much_waits(monkeypatch: pytest.MonkeyPatch):
    """R5.14: the gate closes at once. R1.24: the moment has the seq at which it took effect."""
    monkeypatch.setattr("flownb.defaults.options.user", "ann")

    async def main() -> None:
        run = Count().debug(n=3)
        await run.debug.step()
        run.cont()
        moment = await run.pause()
        closed = run.debug.ticks[moment.seq - 1]
        assert isinstance(closed, GateClosed)
        assert (closed.reason, closed.by) == ("person", "ann")
        await until(lambda: len(run.debug.inbox) == 3)
        assert run.status == "paused"
        assert "Paused (person); 3 ticks wait in the inbox." in run.why()
        assert run.now.seq == moment.seq
        run.cont()
        assert await run == [0, 1, 2]

    asyncio.run(main())


def test_running_steps_go_on_and_see_their_own_writes():
    """R5.15: what they send, set and clear waits in the inbox, their own reads see it at once."""
    flow = Workflow[Any]("writes", accepts=[Done])
    go = asyncio.Event()
    seen: list[Any] = []

    @flow.step
    async def work(ev: Begin, ctx: Context) -> Item:
        await go.wait()
        ctx.state.set("n", 1)
        ctx.send_event(Done(no=1))
        seen.append(ctx.state.get("n"))
        ctx.state.clear()
        seen.append(ctx.state.get("n", None))
        ctx.state.set("m", 2)
        return Item(no=1)

    @flow.step
    async def aside(ev: Done) -> None:
        return None

    @flow.step
    async def last(ev: Item, ctx: Context) -> StopEvent:
        return StopEvent(result=ctx.state.get())

    async def main() -> None:
        run = flow.run()
        await until(lambda: run.now.running)
        await run.pause()
        go.set()
        await until(lambda: len(run.debug.inbox) == 5)
        assert seen == [1, None]
        assert run.state == {}
        assert [type(tick).__name__ for tick in run.debug.inbox] == [
            "StateWritten", "EventsSent", "StateWritten", "StateWritten", "StepFinished",
        ]  # fmt: skip
        run.cont()
        assert await run == {"m": 2}

    asyncio.run(main())


def test_an_edit_begins_and_ends_while_the_gate_is_open_only():
    """R5.16, R5.17: it stands still, is shown as held, and begins when the writes put before it are in."""
    flow = Workflow[int]("edits")
    go, inside, leave = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @flow.step
    async def work(ev: Begin, ctx: Context) -> StopEvent:
        await go.wait()
        ctx.state.set("n", 1)
        async with ctx.state.edit() as state:
            inside.set()
            await leave.wait()
            state["n"] += 1
        return StopEvent(result=ctx.state.get("n"))

    async def main() -> None:
        run = flow.run()
        await until(lambda: run.now.running)
        assert run.debug.standing_still == []
        await run.pause()
        go.set()
        await until(lambda: run.debug.standing_still)
        assert run.debug.standing_still == [("work", "an edit of the state")]
        assert [type(tick) for tick in run.debug.inbox] == [StateWritten]
        await asyncio.sleep(0.01)
        assert not inside.is_set()
        run.cont()
        await inside.wait()
        await run.pause()
        leave.set()
        await until(lambda: run.debug.inbox)
        assert run.debug.standing_still == [("work", "an edit of the state")]
        assert not run.is_done()
        run.cont()
        assert await run == 2
        assert run.debug.standing_still == []

    asyncio.run(main())


class Inner(Workflow[int]):
    @step
    async def only(self, ev: Begin) -> StopEvent:
        return StopEvent(result=ev.n)


def test_waits_children_and_recorded_values_stand_still_while_paused():
    """R5.16: each is one tick away from its outcome."""
    flow = Workflow[list[Any]]("stands")
    go = asyncio.Event()

    @flow.step
    async def naps(ev: Begin, ctx: Context) -> Done:
        await go.wait()
        await ctx.sleep(0)
        return Done(no=0)

    @flow.step
    async def asks(ev: Begin, ctx: Context) -> Done:
        await go.wait()
        await ctx.ask(Approve(), timeout=0.001, default=Verdict(ok=True))
        return Done(no=1)

    @flow.step
    async def waits(ev: Begin, ctx: Context) -> Done:
        await go.wait()
        try:
            await ctx.wait_for_event(Item, timeout=0.001)
        except TimeoutError:
            return Done(no=2)
        raise AssertionError("nothing was sent")

    @flow.step
    async def once(ev: Begin, ctx: Context) -> Done:
        await go.wait()
        return Done(no=await ctx.once(lambda: 3))

    @flow.step
    async def runs(ev: Begin, ctx: Context) -> Done:
        await go.wait()
        return Done(no=await ctx.run(Inner(), n=4))

    @flow.step
    async def gather(ev: Done, ctx: Context) -> StopEvent | None:
        found = ctx.collect_events(ev, [Done] * 5)
        return None if found is None else StopEvent(result=sorted(done.no for done in found))

    async def main() -> None:
        run = flow.run()
        await until(lambda: len(run.now.running) == 5)
        await run.pause()
        go.set()
        await until(lambda: len(run.debug.standing_still) == 5)
        assert sorted(run.debug.standing_still) == [
            ("asks", "a question"),
            ("naps", "a sleep"),
            ("once", "a value that is recorded"),
            ("runs", "a child run"),
            ("waits", "a wait for an event"),
        ]
        await asyncio.sleep(0.01)
        assert len(run.now.running) == 5
        run.cont()
        assert await run == [0, 1, 2, 3, 4]

    asyncio.run(main())


def test_step_deadlines_move_by_the_length_of_the_pause():
    """R5.18."""
    clock = ManualClock()
    flow = Workflow[str]("limited")
    go = asyncio.Event()

    @flow.step(timeout=10)
    async def work(ev: Begin) -> StopEvent:
        await go.wait()
        return StopEvent(result="in time")

    async def main() -> None:
        run = flow.with_options(clock=clock).run()
        await until(lambda: run.now.running)
        clock.advance(6)
        await run.pause()
        clock.advance(100)
        run.cont()
        await until(lambda: not run.now.paused_by)
        clock.advance(3)
        await asyncio.sleep(0.01)
        assert not run.is_done()
        go.set()
        assert await run == "in time"
        run = flow.with_options(clock=clock).run()
        go.clear()
        await until(lambda: run.now.running)
        await run.pause()
        run.cont()
        await until(lambda: not run.now.paused_by)
        clock.advance(11)
        with pytest.raises(TimeoutError):
            await run

    asyncio.run(main())


def test_answers_wait_while_paused_and_never_lift_the_pause():
    """R5.19, R5.21, R1.29, R1.31: it is accepted, and taken when the gate opens."""

    async def main() -> None:
        run = Asks().run()
        await until_asked(run)
        await run.pause()
        run.answer(ok=True)
        await asyncio.sleep(0.01)
        assert run.now.paused_by == ("person",)
        assert [type(tick) for tick in run.debug.inbox] == [RequestAnswered]
        assert run.now.waiting == {"ask": ["Begin: asks Approve"]}
        run.answer(1, ok=True)  # the same once more is harmless, and no second tick
        assert len(run.debug.inbox) == 1
        run.cont()
        assert await run is True

    asyncio.run(main())


def test_continuing_and_stepping_never_invent_an_answer():
    """R5.22: not even one that has a default, before its deadline."""
    clock = ManualClock()

    class Limited(Workflow[bool]):
        @step
        async def ask(self, ev: Begin, ctx: Context) -> StopEvent:
            return StopEvent(result=(await ctx.ask(Approve(), timeout=100, default=Verdict(ok=False))).ok)

    async def main() -> None:
        run = Limited().with_options(clock=clock).debug()
        await until(lambda: run.debug.inbox)
        await run.debug.step()
        await run.debug.step()  # nothing comes: it tells so after a second
        run.cont()
        await until(lambda: run.status == "waiting")
        await run.pause()
        run.cont()
        await until(lambda: run.status == "waiting")
        assert len(run.requests) == 1
        assert not any(isinstance(tick, RequestAnswered) for tick in run.debug.ticks)
        run.answer(ok=True)
        assert await run is True

    asyncio.run(main())


def test_an_accepted_answer_beats_a_deadline_that_passed_while_paused():
    """R1.27, R1.31; the other one, to which nobody answered, is over when the gate opens (R1.26)."""
    clock = ManualClock()

    class Two(Workflow[list[bool]]):
        @step
        async def ask(self, ev: Begin, ctx: Context) -> StopEvent:
            asked = [ctx.ask(Approve(no=no), timeout=10, default=Verdict(ok=False)) for no in (1, 2)]
            return StopEvent(result=[(await each).ok for each in asked])

    async def main() -> None:
        run = Two().with_options(clock=clock).run()
        await until_asked(run, 2)
        await run.pause()
        run.answer(1, ok=True)
        clock.advance(60)
        await until(lambda: sum(isinstance(tick, TimerFired) for tick in run.debug.inbox) == 2)
        run.cont()
        assert await run == [True, False]
        assert sum(isinstance(tick, TimerFired) for tick in run.debug.ticks) == 1

    asyncio.run(main())


def test_a_deadline_that_is_stepped_to_passes_an_accepted_answer_by():
    """R1.27: the deadline stands first in the inbox, by its time; it is no tick, and the step admits the answer."""
    clock = ManualClock()

    class Limited(Workflow[bool]):
        @step
        async def ask(self, ev: Begin, ctx: Context) -> StopEvent:
            return StopEvent(result=(await ctx.ask(Approve(), timeout=10, default=Verdict(ok=False))).ok)

    async def main() -> None:
        run = Limited().with_options(clock=clock).run()
        await until_asked(run)
        await run.pause()
        clock.advance(10)
        await until(lambda: run.debug.inbox)
        run.answer(ok=True)
        await until(lambda: len(run.debug.inbox) == 2)
        assert isinstance(run.debug.inbox[0], TimerFired)
        await run.debug.step()
        assert isinstance(run.debug.ticks[-1], RequestAnswered)
        run.cont()
        assert await run is True

    asyncio.run(main())


def test_outside_events_wait_while_paused():
    """R5.19."""
    flow = Workflow[int]("outside", accepts=[Item])

    @flow.step
    async def first(ev: Begin) -> None:
        return None

    @flow.step
    async def last(ev: Item) -> StopEvent:
        return StopEvent(result=ev.no)

    async def main() -> None:
        run = flow.run()
        await until(lambda: run.status == "waiting")
        await run.pause()
        sent = run.send_event(Item(no=4))
        await asyncio.sleep(0.01)
        assert (run.status, len(run.debug.inbox), sent.done()) == ("paused", 1, False)
        run.cont()
        assert await run == 4

    asyncio.run(main())


@pytest.mark.parametrize("held", [False, True])
def test_cancel_works_while_paused(held: bool):
    """R5.20, R1.24: a control tick passes the closed gate; held starts are cut off too."""

    async def main() -> None:
        flow = Count()
        if held:
            flow.breakpoints.add(step="join", at="start")
        run = flow.run(n=1) if held else flow.debug(n=1)
        await until(lambda: run.now.paused_by and (held or run.debug.inbox))
        run.cancel("enough")
        with pytest.raises(WorkflowCancelledByUser, match="enough"):
            await run
        assert run.status == "cancelled"
        assert fold(run.debug.ticks) == run._runner.state

    asyncio.run(main())


def test_a_pause_during_the_delay_of_a_retry():
    """R1.26: the retry that fell due meanwhile starts when the gate opens."""
    clock = ManualClock()
    flow = Workflow[int]("retries")

    @flow.step(retry_policy=retry_policy(stop=stop_after_attempt(2), wait=wait_fixed(30)))
    async def flaky(ev: Begin, ctx: Context) -> StopEvent:
        if ctx.attempt == 1:
            raise ValueError
        return StopEvent(result=ctx.attempt)

    async def main() -> None:
        run = flow.with_options(clock=clock).run()
        await until(lambda: run.now.retrying)
        await run.pause()
        clock.advance(31)
        await until(lambda: run.debug.inbox)
        await asyncio.sleep(0.01)
        assert run.now.retrying
        moment = await run.debug.step()
        assert moment.running == {"flaky": ["Begin"]}
        run.cont()
        assert await run == 2

    asyncio.run(main())


def test_stepping_through_a_failure_a_timer_and_a_question():
    """R5.24: each is one tick of its own."""
    clock = ManualClock()
    flow = Workflow[bool]("all")

    @flow.step(retry_policy=retry_policy(stop=stop_after_attempt(2), wait=wait_fixed(5)))
    async def work(ev: Begin, ctx: Context) -> StopEvent:
        if ctx.attempt == 1:
            raise ValueError
        await ctx.sleep(5)
        return StopEvent(result=(await ctx.ask(Approve())).ok)

    async def main() -> None:
        run = flow.with_options(clock=clock).debug()
        seen = []
        while not run.is_done():
            if run.requests:
                run.answer(ok=True)
            clock.advance(5)
            await until(lambda: run.debug.inbox)
            before = len(work_ticks(run))
            await run.debug.step()
            seen += work_ticks(run)[before:]
            assert len(work_ticks(run)) == before + 1
        assert [type(tick) for tick in seen[:-1]] == [
            StepFailed, TimerFired, WaitOpened, TimerFired, WaitOpened, RequestAnswered,
        ]  # fmt: skip
        assert await run is True

    asyncio.run(main())


def test_the_same_pause_twice_is_one_reason():
    """R5.23."""

    async def main() -> None:
        run = Forever().run()
        await until(lambda: run.now.running)
        await run.pause()
        await run.pause()
        assert run.now.paused_by == ("person",)
        run.cont()
        await until(lambda: not run.now.paused_by)
        assert [type(t) for t in run.debug.ticks[1:]] == [GateClosed, GateClosed, GateOpened]
        await run.cancel()

    asyncio.run(main())


def test_each_reason_is_lifted_by_its_own_tick_only():
    """R5.23: what the parent closed, its child's cont() leaves closed."""

    class Slow(Workflow[int]):
        @step
        async def only(self, ev: Begin) -> StopEvent:
            await go.wait()
            return StopEvent(result=1)

    class Outer(Workflow[int]):
        @step(runs=Slow)
        async def runs(self, ev: Begin, ctx: Context) -> StopEvent:
            return StopEvent(result=await ctx.run(Slow()))

    go = asyncio.Event()

    async def main() -> None:
        run = Outer().run()
        await until(lambda: run.children and next(iter(run.children.values())).now.running)
        (child,) = run.children.values()
        await run.pause()
        await until(lambda: child.now.paused_by)
        await child.pause()
        assert child.now.paused_by == ("parent", "person")
        child.cont()
        await until(lambda: child.now.paused_by == ("parent",))
        moment = await child.debug.run_to(step="only")  # it tells at once that its parent's gate is closed
        assert moment.paused_by == ("parent",)
        go.set()
        run.cont()
        assert await run == 1

    asyncio.run(main())


def test_a_pause_from_another_thread_takes_effect_at_a_seq_that_it_returns():
    """R1.24."""
    run = Forever().run()
    wait_until(lambda: run.now.running)
    moments: list[Any] = []
    threads = [threading.Thread(target=lambda: moments.append(run.pause().result(20))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(isinstance(run.debug.ticks[moment.seq - 1], GateClosed) for moment in moments)
    run.cancel().result(20)
