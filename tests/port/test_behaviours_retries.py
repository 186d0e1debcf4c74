"""Behaviours 36 to 48 of LlamaIndex Workflows, here: retries and failures."""

import asyncio
import json
from typing import Any

import pytest

from flownb import Context, StopEvent, Store, Workflow
from flownb.errors import ContextStateError, WorkflowTimeoutError
from flownb.events import StepFailedEvent, StepStateChanged, WorkflowFailedEvent, WorkflowIdleEvent
from flownb.retry_policy import (
    RetryInfo,
    retry_policy,
    stop_after_attempt,
    stop_after_delay,
    stop_before_delay,
    wait_exponential_jitter,
    wait_fixed,
)
from flownb.testing import ManualClock
from tests.polling import until
from tests.port.making import Begin, Done, Item, flow_of, on_loop, published


class Busy(Exception):
    pass


def flaky(policy: Any, fails: int = 99, **settings: Any) -> tuple[Workflow[Any], list[int]]:
    """A workflow of one step that fails so many times, and its attempts as they come."""
    flow, attempts = Workflow[Any]("flaky", **settings), []

    @flow.step(retry_policy=policy)
    async def work(ev: Begin, ctx: Context) -> StopEvent:
        attempts.append(ctx.attempt)
        if ctx.attempt <= fails:
            raise Busy(f"attempt {ctx.attempt}")
        return StopEvent(result=ctx.attempt)

    return flow, attempts


def failures(run: Any) -> list[Any]:
    return [tick for tick in run.debug.ticks if type(tick).__name__ == "StepFailed"]


@on_loop
async def test_b36_the_delay_is_kept_and_attempts_are_counted():
    """R3.25, R3.28."""
    clock = ManualClock()
    flow, attempts = flaky(retry_policy(wait=wait_fixed(10), stop=stop_after_attempt(5)), fails=2)
    run = flow.with_options(clock=clock).run()
    for n in (1, 2):
        await until(lambda n=n: len(failures(run)) == n)
        clock.advance(9.9)
        await asyncio.sleep(0.01)
        assert len(attempts) == n
        clock.advance(0.1)
    assert await run == 3
    assert attempts == [1, 2, 3]


@on_loop
async def test_b37_after_the_last_attempt_the_failure_is_told():
    """R3.35, R5.56."""
    flow, attempts = flaky(retry_policy(wait=wait_fixed(0), stop=stop_after_attempt(3)))
    run = flow.run()
    with pytest.raises(Busy, match="attempt 3"):
        await run
    [told] = await published(run, WorkflowFailedEvent, internal=False)
    assert (told.step_name, told.attempts, told.exception_message) == ("work", 3, "attempt 3")
    assert attempts == [1, 2, 3]


@on_loop
async def test_b38_a_limit_of_time_counts_from_the_first_attempt():
    """R3.25, R3.28."""
    clock = ManualClock()
    flow, attempts = flaky(retry_policy(wait=wait_fixed(4), stop=stop_after_delay(10)))
    run = flow.with_options(clock=clock).run()
    for n in (1, 2, 3):
        await until(lambda n=n: len(failures(run)) == n)
        clock.advance(4)
    with pytest.raises(Busy):
        await run
    assert attempts == [1, 2, 3, 4]  # at 0, 4, 8 and 12 s


@on_loop
async def test_b39_a_policy_that_looks_ahead_counts_the_coming_wait():
    """R3.25."""
    clock = ManualClock()
    flow, attempts = flaky(retry_policy(wait=wait_fixed(4), stop=stop_before_delay(10)))
    run = flow.with_options(clock=clock).run()
    for n in (1, 2):
        await until(lambda n=n: len(failures(run)) == n)
        clock.advance(4)
    with pytest.raises(Busy):
        await run
    assert attempts == [1, 2, 3]  # the fourth would be at 12 s


@on_loop
async def test_b40_jitter_is_the_same_for_the_same_run():
    """R3.27: seeded by run, step, delivery and attempt."""
    waits: dict[str, list[float]] = {}
    for run_id, label in (("run-a", "a"), ("run-a", "a again"), ("run-b", "b")):
        flow, _ = flaky(retry_policy(wait=wait_exponential_jitter(1, 100), stop=stop_after_attempt(3)), fails=2)
        clock = ManualClock()
        run = flow.with_options(clock=clock, store=Store(":memory:")).run(run_id=run_id)
        for n in (1, 2):
            await until(lambda n=n, run=run: len(failures(run)) == n)
            clock.advance(200)
        await run
        waits[label] = [tick.retry_at - tick.at for tick in failures(run)]
    assert waits["a"] == waits["a again"]
    assert waits["a"] != waits["b"]
    assert all(wait > 0 for wait in waits["a"])


class Counted:
    """A policy that says how often it was asked."""

    def __init__(self, delay: float | None) -> None:
        self.delay, self.asked = delay, 0

    def next(self, elapsed_time: float, attempts: int, error: Exception) -> float | None:
        self.asked += 1
        return self.delay if attempts < 2 else None


@on_loop
async def test_b41_a_recorded_retry_is_kept_whatever_the_policy_says_later():
    """R3.26: looking back and going on from a dict ask no policy for what it has decided."""
    clock = ManualClock()
    policy = Counted(5.0)
    flow, attempts = flaky(policy, fails=1)
    run = flow.with_options(clock=clock).run()
    await until(lambda: len(failures(run)) == 1)
    kept = json.loads(json.dumps(run.ctx.to_dict()))
    for seq in range(1, len(run.debug.ticks) + 1):
        run.debug.at(seq)
    assert policy.asked == 1
    await run.cancel()

    policy.delay = None  # by now it would give up
    again = flow.with_options(clock=clock).run(ctx=Context.from_dict(flow, kept))
    await until(lambda: clock.next_due() is not None)
    clock.advance(5)
    assert await again == 2
    assert policy.asked == 1
    assert attempts == [1, 2]


@on_loop
async def test_b42_a_recorded_end_stays_the_end_whatever_the_policy_says_later():
    """R3.26, R6.42: the failed run stays failed, and so does what is folded from its ticks."""
    policy = Counted(None)
    flow, attempts = flaky(policy, fails=1)
    run = flow.run(run_id="ended")
    with pytest.raises(Busy):
        await run
    policy.delay = 0.0
    assert run.debug.at(len(run.debug.ticks)).status == "failed"
    with pytest.raises(Busy):
        await flow.run(run_id="ended")
    assert (attempts, policy.asked) == ([1], 1)


@pytest.mark.parametrize("away_s", [3.0, 60.0])
def test_b43_a_dict_made_while_a_retry_waits_goes_on_with_the_rest_of_the_wait(away_s: float):
    """R1.7, R3.28, R6.36, R6.39: a second attempt, once; the time in between does not count (theirs counts it)."""

    @on_loop
    async def test() -> None:
        clock = ManualClock()
        flow, attempts = flaky(retry_policy(wait=wait_fixed(10), stop=stop_after_attempt(5)), fails=1)
        run = flow.with_options(clock=clock).run()
        await until(lambda: len(failures(run)) == 1)
        clock.advance(4)
        kept = json.loads(json.dumps(run.ctx.to_dict()))
        await run.cancel()

        clock.advance(away_s)
        again = flow.with_options(clock=clock).run(ctx=Context.from_dict(flow, kept))
        await until(lambda: clock.next_due() is not None)
        clock.advance(5.9)
        await asyncio.sleep(0.01)
        assert attempts == [1]
        clock.advance(0.1)
        assert await again == 2
        assert attempts == [1, 2]

    test()


@on_loop
async def test_b44_the_due_time_of_a_retry_is_the_same_in_every_dict():
    """R1.7, R6.31: three dicts in a row, the last goes on at the moment that the first one knew."""
    clock = ManualClock()
    flow, attempts = flaky(retry_policy(wait=wait_fixed(10), stop=stop_after_attempt(5)), fails=1)
    run = flow.with_options(clock=clock).run()
    await until(lambda: len(failures(run)) == 1)
    for _ in range(3):
        kept = json.loads(json.dumps(run.ctx.to_dict()))
        await run.cancel()
        run = flow.with_options(clock=clock).run(ctx=Context.from_dict(flow, kept))
        await until(lambda: clock.next_due() is not None)
        clock.advance(2)
    clock.advance(3.9)
    await asyncio.sleep(0.01)
    assert attempts == [1]
    clock.advance(0.1)
    assert await run == 2


@on_loop
async def test_b45_a_waiting_retry_holds_no_worker_and_the_run_is_not_idle():
    """R3.28, R5.33."""
    clock = ManualClock()
    flow = Workflow[Any]("flaky")
    done: list[int] = []

    @flow.step
    async def split(ev: Begin) -> list[Item]:
        return [Item(no=no) for no in range(3)]

    @flow.step(num_workers=1, retry_policy=retry_policy(wait=wait_fixed(30), stop=stop_after_attempt(2)))
    async def work(ev: Item, ctx: Context) -> Done:
        if ev.no == 0 and ctx.attempt == 1:
            raise Busy
        done.append(ev.no)
        return Done(no=ev.no)

    @flow.step
    async def join(ev: list[Done]) -> StopEvent:
        return StopEvent(result=[one.no for one in ev])

    run = flow.with_options(clock=clock).run()
    await until(lambda: done == [1, 2])
    assert run.status == "running"
    clock.advance(30)
    assert await run == [0, 1, 2]
    assert await published(run, WorkflowIdleEvent) == []


@on_loop
async def test_b46_the_state_alone_knows_the_waiting_attempt():
    """R1.7, R1.8: the past moment shows it, and its state names when it is due."""
    clock = ManualClock(100.0)
    flow, _ = flaky(retry_policy(wait=wait_fixed(10), stop=stop_after_attempt(2)), fails=1)
    run = flow.with_options(clock=clock).run()
    await until(lambda: len(failures(run)) == 1)
    clock.advance(10)
    await run
    [told] = [ev for ev in await published(run, StepStateChanged) if ev.state == "retrying"]
    assert (told.due_at, told.error) == (110.0, f"{__name__}:Busy: attempt 1")


@on_loop
async def test_b47_a_handler_takes_failures_of_its_steps_and_the_rest_goes_to_the_one_for_all():
    """R3.36, R3.37."""
    flow = Workflow[Any]("handlers")
    seen: list[str] = []

    @flow.step
    async def begin(ev: Begin) -> Item:
        if ev.n == 0:
            raise Busy("begin")
        return Item(no=ev.n)

    @flow.step(retry_policy=retry_policy(wait=wait_fixed(0), stop=stop_after_attempt(2)))
    async def work(ev: Item, ctx: Context) -> StopEvent:
        if ev.no == 1 or ctx.attempt < ev.no:
            raise Busy("work")
        return StopEvent(result="worked")

    @flow.catch_error(for_steps=["work"])
    async def of_work(ev: StepFailedEvent) -> StopEvent:
        seen.append(f"of_work {ev.step_name} {ev.attempts} {ev.input_event.no}")
        return StopEvent(result="of_work")

    @flow.catch_error
    async def of_rest(ev: StepFailedEvent) -> StopEvent:
        seen.append(f"of_rest {ev.step_name} {ev.attempts}")
        return StopEvent(result="of_rest")

    assert [await flow.run(n=n) for n in (0, 1, 2)] == ["of_rest", "of_work", "worked"]
    assert seen == ["of_rest begin 1", "of_work work 2 1"]  # a retry that comes through is nobody's business


@on_loop
async def test_b47_a_handler_that_fails_fails_the_run():
    """R3.39."""

    async def begin(ev: Begin) -> StopEvent:
        raise Busy("begin")

    flow = flow_of(begin)

    @flow.catch_error
    async def handle(ev: StepFailedEvent) -> StopEvent:
        raise LookupError("handler")

    with pytest.raises(LookupError, match="handler"):
        await flow.run()


@pytest.mark.parametrize("limit", [1, 2])
def test_b47_a_handler_recovers_so_often_along_one_line(limit: int):
    """R3.38."""
    calls: list[int] = []
    flow = Workflow[Any]("line")

    @flow.step
    async def begin(ev: Begin) -> Item:
        return Item()

    @flow.step
    async def work(ev: Item) -> StopEvent:
        calls.append(1)
        raise Busy(f"call {len(calls)}")

    @flow.catch_error(for_steps=["work"], max_recoveries=limit)
    async def again(ev: StepFailedEvent) -> Item:
        return Item()

    with pytest.raises(Busy, match=f"call {limit + 1}"):
        flow.run().result(20)


@on_loop
async def test_b47_a_handler_is_not_called_when_the_run_takes_too_long():
    """R5.57."""
    called: list[str] = []

    async def begin(ev: Begin) -> StopEvent:
        await asyncio.sleep(30)
        return StopEvent()

    flow = flow_of(begin, timeout=0.05)

    @flow.catch_error
    async def handle(ev: StepFailedEvent) -> StopEvent:
        called.append(ev.step_name)
        return StopEvent()

    with pytest.raises(WorkflowTimeoutError):
        await flow.run()
    assert called == []


@on_loop
async def test_b48_a_step_sees_what_it_is_the_retry_of():
    """API §5, `retry_info`; outside of a step there is none."""
    seen: list[RetryInfo] = []
    flow = Workflow[Any]("flaky")
    clock = ManualClock(50.0)

    @flow.step(retry_policy=retry_policy(wait=wait_fixed(5), stop=stop_after_attempt(2)))
    async def work(ev: Begin, ctx: Context) -> StopEvent:
        seen.append(ctx.retry_info())
        if ctx.attempt == 1:
            raise Busy("once")
        return StopEvent()

    run = flow.with_options(clock=clock).run()
    await until(lambda: len(failures(run)) == 1)
    clock.advance(5)
    await run
    first, second = seen
    assert first == RetryInfo(0, 0.0, None, None)
    assert (second.retry_number, second.elapsed_seconds, str(second.last_exception)) == (1, 5.0, "once")
    assert second.last_failed_at is not None
    assert second.last_failed_at.timestamp() == 50.0
    with pytest.raises(ContextStateError):
        run.ctx.retry_info()
