"""Attempts of a step: time limits, policies of other makes, sends that are held back, the same values again."""

from __future__ import annotations

import asyncio
import gc
import logging
from typing import Any

import pytest

from flownb import Context, Event, Run, StartEvent, StopEvent, Workflow
from flownb.errors import NoRetry
from flownb.events import StepStateChanged
from flownb.retry_policy import retry_policy, stop_after_attempt, wait_fixed
from flownb.testing import ManualClock
from tests.restarting import restart


class Begin(StartEvent):
    n: int = 0


class Row(Event):
    no: int = 0


TWICE = retry_policy(stop=stop_after_attempt(2), wait=wait_fixed(0))


async def until(is_there: Any) -> None:
    for _ in range(5_000):
        if is_there():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("not true after 5 s")


def test_a_time_limit_is_per_attempt_and_counts_only_while_the_step_holds_a_worker():
    """R3.22, R5.18: not while it waits, nor while the gate is closed; the next attempt has all of it again."""
    flow = Workflow[list[str]]("limits")
    seen: list[str] = []
    go = asyncio.Event()

    @flow.step(timeout=10, retry_policy=TWICE)
    async def work(ev: Begin, ctx: Context) -> StopEvent:
        await ctx.sleep(100)
        seen.append("slept")
        await go.wait()
        return StopEvent(result=seen)

    async def main() -> list[str]:
        clock = ManualClock()
        run = flow.with_options(clock=clock).run()
        await until(lambda: run.now.waiting)
        clock.advance(100)  # a sleep of ten times the limit
        await until(lambda: seen == ["slept"])
        clock.advance(9)
        await run.pause()
        clock.advance(50)  # a pause
        await asyncio.sleep(0.02)
        assert run.now.running and seen == ["slept"]
        there = run.cont()
        await until(lambda: run.status == "running")
        clock.advance(0.5)
        await asyncio.sleep(0.02)
        assert seen == ["slept"]
        clock.advance(1)  # the limit, and the second attempt begins anew: its sleep is over already
        await until(lambda: seen == ["slept", "slept"])
        clock.advance(9.5)
        await asyncio.sleep(0.02)
        go.set()
        await there
        return await run

    assert asyncio.run(main()) == ["slept", "slept"]


def test_a_step_that_took_too_long_has_failed_like_any_other():
    """R3.23, R5.64: its failed state is seen, and its policy was asked."""
    flow = Workflow[None]("too-long")
    policies: list[str] = []

    class Watching:
        def next(self, elapsed: float, attempts: int, error: BaseException) -> float | None:
            policies.append(type(error).__name__)
            return None

    @flow.step(timeout=0.01, retry_policy=Watching())
    async def work(ev: Begin) -> StopEvent:
        await asyncio.sleep(5)
        return StopEvent()

    async def main() -> list[str]:
        run = flow.run()
        with pytest.raises(TimeoutError, match=r"Step 'work' took longer than 0\.01 s"):
            await run
        items = [ev async for ev in run.stream_events(expose_internal=True)]
        return [ev.state for ev in items if isinstance(ev, StepStateChanged)]

    assert asyncio.run(main())[-1] == "failed"
    assert policies == ["TimeoutError"]


@pytest.mark.parametrize("with_seed", [False, True])
def test_any_object_with_next_is_a_policy(with_seed: bool):
    """R3.2: with or without a seed."""
    asked: list[tuple[int, bool]] = []

    class Plain:
        def next(self, elapsed_time: float, attempts: int, error: Exception) -> float | None:
            asked.append((attempts, False))
            return 0 if attempts < 3 else None

    class Seeded:
        def next(
            self, elapsed_time: float, attempts: int, error: Exception, *, seed: int | None = None
        ) -> float | None:
            asked.append((attempts, isinstance(seed, int)))
            return 0 if attempts < 3 else None

    flow = Workflow[int]("policies")

    @flow.step(retry_policy=Seeded() if with_seed else Plain())
    async def work(ev: Begin, ctx: Context) -> StopEvent:
        if ctx.attempt < 3:
            raise ValueError(ctx.attempt)
        return StopEvent(result=ctx.attempt)

    assert flow.run().result(20) == 3
    assert asked == [(1, with_seed), (2, with_seed)]


def test_a_step_that_knows_better_is_not_tried_again():
    """R3.33: `NoRetry` gives up at once, whatever the policy says."""
    flow = Workflow[None]("hopeless")
    tries: list[int] = []

    @flow.step(retry_policy=retry_policy(stop=stop_after_attempt(9), wait=wait_fixed(0)))
    async def work(ev: Begin, ctx: Context) -> StopEvent:
        tries.append(ctx.attempt)
        raise NoRetry("the card was refused")

    with pytest.raises(NoRetry, match="the card was refused"):
        flow.run().result(20)
    assert tries == [1]


def test_sends_that_are_held_back_go_out_with_success_only():
    """R3.53: a failed attempt's are dropped; a wait sends what was held back."""
    flow = Workflow[list[int]]("careful")
    got: list[int] = []

    @flow.step(sends="on_success", retry_policy=TWICE)
    async def work(ev: Begin, ctx: Context) -> Row | StopEvent:
        ctx.send_event(Row(no=ctx.attempt))
        if ctx.attempt == 1:
            raise ValueError
        assert got == []
        await ctx.sleep(0.01)
        assert got == [2]
        ctx.send_event(Row(no=3))
        await asyncio.sleep(0.01)
        assert got == [2]
        return Row(no=4)

    @flow.step
    async def take(ev: Row) -> StopEvent | None:
        got.append(ev.no)
        return StopEvent(result=got) if ev.no == 4 else None

    assert flow.run().result(20) == [2, 3, 4]


def test_a_restart_gives_back_what_was_recorded():
    """R3.50, R3.58, R3.60: bad outcomes too, and the same time, ids and random numbers."""
    flow = Workflow[Any]("again")
    seen: list[Any] = []

    @flow.step
    async def work(ev: Begin, ctx: Context) -> StopEvent:
        values = ctx.now(), ctx.uuid(), ctx.uuid(), ctx.random.random(), ctx.attempt
        try:
            await ctx.wait_for_event(Row, timeout=0.01)
            outcome = "came"
        except TimeoutError:
            outcome = "timed out"
        seen.append((values, outcome))
        row = await ctx.wait_for_event(Row)
        return StopEvent(result=row.no)

    async def main() -> int:
        run: Run[int] = flow.run(run_id="again")
        await until(lambda: len(seen) == 1)
        await run.suspend(drain=0)
        again = flow.resume("again")
        await again.send_event(Row(no=7))
        return await again

    assert asyncio.run(main()) == 7
    assert len(seen) == 2 and seen[0] == seen[1]
    first = seen[0][0]
    assert first[1] != first[2] and seen[0][1] == "timed out" and first[4] == 1


def test_restarting_helper_goes_on_with_the_same_run():
    """R3.60."""
    flow = Workflow[int]("helped")

    @flow.step
    async def work(ev: Begin, ctx: Context) -> StopEvent:
        row = await ctx.wait_for_event(Row)
        return StopEvent(result=row.no)

    run = flow.run()
    restart(run)
    run.send_event(Row(no=3)).result(20)
    assert run.result(20) == 3


def test_an_interrupt_in_a_step_of_the_running_loop_is_the_steps_failure():
    """R3.44, R3.45: with `host="loop"` too; the loop goes on. (A person's interrupt of a cell is `on_interrupt`'s.)"""
    flow = Workflow[None]("interrupted")

    @flow.step(retry_policy=TWICE)
    async def work(ev: Begin) -> StopEvent:
        raise KeyboardInterrupt("by the step itself")

    async def main() -> str:
        run = flow.with_options(host="loop").run()
        with pytest.raises(KeyboardInterrupt, match="by the step itself"):
            await run
        return run.status

    assert asyncio.run(main()) == "failed"


def test_names_of_steps_are_unique_and_requests_are_numbered_by_run():
    """R1.40, R1.42: the second definition of a name takes the place of the first."""
    flow = Workflow[str]("names")

    def define(question: str) -> None:
        @flow.step
        async def work(ev: Begin, ctx: Context) -> StopEvent:
            return StopEvent(result=await ctx.ask(question))

    define("Which first?")
    define("Which?")
    assert list(flow.steps) == ["work"]
    run = flow.run(run_id="named")
    while not run.requests:
        pass
    assert (run.requests[0].id, run.requests[0].question.prefix) == ("named:1", "Which?")
    run.answer("named:1", "second")
    assert run.result(20) == "second"


def test_events_are_models_that_keep_undeclared_fields():
    """R2.1, R2.2."""
    row = Row.model_validate({"no": 3, "note": "kept"})
    assert (row.no, row["note"], row.model_dump()) == (3, "kept", {"no": 3, "note": "kept"})
    with pytest.raises(ValueError, match="no"):
        Row.model_validate({"no": "three"})


def test_a_journal_has_an_event_as_it_was_sent(tmp_path: Any):
    """R2.5, R1.9: a step that changes its event changes nothing stored; nothing starts before its tick is in."""
    flow = Workflow[int]("kept")
    at_start: list[int] = []

    class Held(Event):
        items: list[int]

    @flow.step
    async def make(ev: Begin) -> Held:
        return Held(items=[1])

    @flow.step
    async def change(ev: Held) -> StopEvent:
        at_start.append(len(run.debug.ticks))
        ev.items.append(2)
        return StopEvent(result=len(ev.items))

    run = flow.with_options(store=str(tmp_path / "runs.db")).run()
    assert run.result(20) == 2
    sent = run.debug.ticks[1]
    assert sent.outs[0].value.items == [1] and at_start == [2]  # type: ignore[union-attr]


def test_a_failed_run_that_nobody_awaits_says_so_once(caplog: pytest.LogCaptureFixture):
    """R5.61: in the log, when the last handle is gone; not if somebody was told."""
    flow = Workflow[None]("unheard")

    @flow.step
    async def work(ev: Begin) -> StopEvent:
        raise ValueError(f"broken {ev.n}")

    ours: list[str] = []  # what other tests left behind may say so at any time

    async def main() -> None:
        for n in (1, 2):
            run = flow.run(n=n)
            ours.append(run.run_id)
            await until(run._runner.end.done)
            if n == 2:
                assert isinstance(run.error, ValueError)
            del run
        await asyncio.sleep(0)

    with caplog.at_level(logging.WARNING, logger="flownb"):
        asyncio.run(main())
        gc.collect()
    told = [record.getMessage() for record in caplog.records if "nobody awaited" in record.getMessage()]
    said = [text for text in told if any(f"run {run_id} " in text for run_id in ours)]
    assert len(said) == 1
    assert "failed in step 'work' and nobody awaited it: ValueError: broken 1" in said[0]
