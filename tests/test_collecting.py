"""`ctx.collect_events`: buffers of a step, kept until all that is expected is there."""

import asyncio
import functools
import operator
import threading
from typing import Any

import pytest

from flownb import Context, Event, StartEvent, StopEvent, Workflow
from flownb.errors import WorkflowStalled
from flownb.retry_policy import retry_policy, stop_after_attempt, wait_fixed
from tests.polling import until, wait_until
from tests.restarting import restart


class Begin(StartEvent):
    n: int = 3


class Item(Event):
    no: int


class A(Event):
    no: int = 0


class B(Event):
    no: int = 0


class Wide(A):
    pass


class Done(Event):
    said: Any = None


class Go(Event):
    pass


def sends(*events: Event) -> Any:
    """A step that sends these."""

    async def begin(ev: Begin, ctx: Context) -> None:
        for event in events:
            ctx.send_event(event)

    begin.__annotations__["return"] = functools.reduce(operator.or_, map(type, events), None)
    return begin


def collecting(*events: Event, collect: Any, **options: Any) -> Workflow[Any]:
    """A step that sends these, and one that collects them."""
    flow = Workflow[Any]("collecting")
    flow.step(sends(*events))
    flow.step(**options)(collect)
    return flow


def test_the_events_come_in_the_expected_order_or_none():
    """R4.1: in the order of `expected`, whatever came first; two of one type in the order of arrival."""
    told: list[Any] = []

    async def collect(ev: A | B, ctx: Context) -> StopEvent | None:
        found = ctx.collect_events(ev, [A, B, B])
        told.append(None if found is None else len(found))
        return None if found is None else StopEvent(result=[(type(e).__name__, e.no) for e in found])

    flow = collecting(B(no=1), B(no=2), A(no=3), collect=collect, num_workers=1)
    assert flow.run().result(20) == [("A", 3), ("B", 1), ("B", 2)]
    assert told == [None, None, 3]


def test_a_base_counts_a_subclass():
    """R4.1, R2.8."""

    async def collect(ev: A, ctx: Context) -> StopEvent | None:
        found = ctx.collect_events(ev, [A, A])
        return None if found is None else StopEvent(result=[type(e).__name__ for e in found])

    assert collecting(Wide(), A(), collect=collect, num_workers=1).run().result(20) == ["Wide", "A"]


def test_buffers_are_a_steps_own_and_apart_by_their_id():
    """R4.2: there is none of the whole run."""
    flow = Workflow[Any]("apart")
    flow.step(sends(A(no=1), A(no=2), A(no=3), A(no=4)))

    @flow.step(num_workers=1)
    async def odd(ev: A, ctx: Context) -> Done | None:
        found = ctx.collect_events(ev, [A, A], buffer_id="odd" if ev.no % 2 else "even")
        return None if found is None else Done(said=[e.no for e in found])

    @flow.step(num_workers=1)
    async def all_four(ev: A, ctx: Context) -> Done | None:
        found = ctx.collect_events(ev, [A] * 4, buffer_id="odd")
        return None if found is None else Done(said=[e.no for e in found])

    @flow.step(num_workers=1)
    async def end(ev: Done, ctx: Context) -> StopEvent | None:
        found = ctx.collect_events(ev, [Done] * 3)
        return None if found is None else StopEvent(result=sorted(d.said for d in found))

    assert flow.run().result(20) == [[1, 2, 3, 4], [1, 3], [2, 4]]


def test_a_decision_on_an_old_buffer_is_made_again():
    """R4.3: two that began together both saw an empty buffer; the second runs once more and completes the pair."""
    starts: list[int] = []

    async def collect(ev: A, ctx: Context) -> StopEvent | None:
        starts.append(ev.no)
        found = ctx.collect_events(ev, [A, A])
        await asyncio.sleep(0.02 * ev.no)  # both decide before either is done
        return None if found is None else StopEvent(result=[e.no for e in found])

    run = collecting(A(no=1), A(no=2), collect=collect).run()
    assert run.result(20) == [1, 2]
    assert starts == [1, 2, 2]
    assert run.now.state == {}


def test_a_decision_that_would_be_the_same_is_not_made_again():
    """R4.3: three are wanted, two began together: neither is complete by the newer buffer either."""
    starts: list[int] = []

    async def collect(ev: A, ctx: Context) -> StopEvent | None:
        starts.append(ev.no)
        found = ctx.collect_events(ev, [A, A, A])
        await asyncio.sleep(0.02 * ev.no if ev.no < 3 else 0)
        return None if found is None else StopEvent(result=[e.no for e in found])

    flow = Workflow[Any]("same", accepts=[A])
    flow.step(sends(A(no=1), A(no=2)))
    flow.step(collect)

    async def main() -> Any:
        run = flow.run()
        await until(lambda: run._runner.state.steps[1].done == 2)
        run.send_event(A(no=3))
        return await run

    assert asyncio.run(main()) == [1, 2, 3]
    assert starts == [1, 2, 3]


def test_a_plain_step_collects_from_many_threads_and_loses_none():
    """R4.3."""

    def collect(ev: Item, ctx: Context) -> StopEvent | None:
        found = ctx.collect_events(ev, [Item] * 40)
        return None if found is None else StopEvent(result=sorted(e.no for e in found))

    flow = collecting(*(Item(no=i) for i in range(40)), collect=collect, num_workers=16)
    assert flow.run().result(20) == list(range(40))


@pytest.mark.parametrize("again", ["retry", "restart"])
def test_a_step_that_runs_again_sees_the_same_events(again: str):
    """R4.4: the buffer is emptied only when the step completes."""
    seen: list[list[int]] = []

    async def collect(ev: Item, ctx: Context) -> StopEvent | None:
        found = ctx.collect_events(ev, [Item] * 3)
        if found is None:
            return None
        seen.append([e.no for e in found])
        if again == "retry" and ctx.attempt == 1:
            raise ValueError("after it collected")
        if again == "restart":
            await ctx.wait_for_event(Go)
        return StopEvent(result=len(seen))

    policy = retry_policy(stop=stop_after_attempt(2), wait=wait_fixed(0))
    flow = collecting(Item(no=0), Item(no=1), Item(no=2), collect=collect, num_workers=1, retry_policy=policy)
    run = flow.run()
    if again == "restart":
        wait_until(lambda: run._runner.state.side.waiters.n == 1)
        restart(run)
        run.send_event(Go())
    assert run.result(20) == 2
    assert seen == [[0, 1, 2], [0, 1, 2]]


def test_what_is_over_stays_for_the_next_round():
    """R4.5."""
    rounds: list[Any] = []

    async def collect(ev: A | B, ctx: Context) -> StopEvent | None:
        found = ctx.collect_events(ev, [A, B])
        if found is None:
            return None
        rounds.append([(type(e).__name__, e.no) for e in found])
        return StopEvent(result=rounds) if len(rounds) == 2 else None

    flow = collecting(A(no=1), A(no=2), A(no=3), B(no=4), B(no=5), collect=collect, num_workers=1)
    run = flow.run()
    assert run.result(20) == [[("A", 1), ("B", 4)], [("A", 2), ("B", 5)]]


def test_nothing_expected_is_complete_at_once():
    """R4.6: and the event is kept nowhere."""

    async def collect(ev: Item, ctx: Context) -> StopEvent | None:
        return StopEvent(result=ctx.collect_events(ev, []))

    run = collecting(Item(no=1), collect=collect).run()
    assert run.result(20) == []
    assert len(run._runner.state.side.buffers) == 0


@pytest.mark.parametrize("ordered", [False, True])
def test_events_of_a_fan_out_may_be_ordered_as_they_were_sent(ordered: bool):
    """R4.7: the last one is done first."""
    gates = [asyncio.Event() for _ in range(3)]
    flow = Workflow[list[int]]("ordered")

    @flow.step
    async def begin(ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(3)]

    @flow.step
    async def work(ev: Item) -> A:
        await gates[ev.no].wait()
        return A(no=ev.no)

    @flow.step(num_workers=1)
    async def collect(ev: A, ctx: Context) -> StopEvent | None:
        found = ctx.collect_events(ev, [A] * 3, ordered=ordered)
        return None if found is None else StopEvent(result=[e.no for e in found])

    async def main() -> Any:
        run = flow.run()
        for done, i in enumerate((2, 0, 1)):
            gates[i].set()
            await until(lambda: run._runner.state.steps[2].done == done + 1)  # noqa: B023 - used at once
        return await run

    assert asyncio.run(main()) == ([0, 1, 2] if ordered else [2, 0, 1])


def test_two_buffers_of_one_delivery_are_taken_together():
    """R4.2, R4.4: a step may ask several in one start."""

    async def collect(ev: A | B, ctx: Context) -> StopEvent | None:
        pairs = ctx.collect_events(ev, [A, B], buffer_id="pairs")
        threes = ctx.collect_events(ev, [A, A, B], buffer_id="threes")
        if pairs is not None and threes is not None:
            return StopEvent(result=(len(pairs), len(threes)))
        return None

    assert collecting(A(), A(), B(), collect=collect, num_workers=1).run().result(20) == (2, 3)


@pytest.mark.filterwarnings("ignore:.*takes B, which no step returns")
def test_a_collect_that_stays_incomplete_stalls_the_run_in_words():
    """R4.22, R5.36: never a hang."""

    async def collect(ev: A | B, ctx: Context) -> StopEvent | None:
        found = ctx.collect_events(ev, [A, B])
        return None if found is None else StopEvent()

    with pytest.raises(WorkflowStalled, match="step collect has collected 2 × A and misses the rest"):
        collecting(A(), A(), collect=collect, num_workers=1).run().result(20)


def test_a_collected_event_is_a_copy():
    """R2.3: what a step changes is not what another start is given."""
    starts = threading.Semaphore(0)

    async def collect(ev: Done, ctx: Context) -> StopEvent | None:
        found = ctx.collect_events(ev, [Done, Done])
        if found is None:
            ev.said.append("changed after it was kept")
            return None
        starts.release()
        for event in found:
            event.said.append("x")
        if ctx.attempt == 1:
            raise ValueError("again")
        return StopEvent(result=[e.said for e in found])

    flow = Workflow[Any]("copy")

    @flow.step
    async def begin(ev: Begin, ctx: Context) -> Done | None:
        ctx.send_event(Done(said=[1]))
        return Done(said=[2])

    flow.step(num_workers=1, retry_policy=retry_policy(stop=stop_after_attempt(2), wait=wait_fixed(0)))(collect)
    assert flow.run().result(20) == [[1, "x"], [2, "x"]]
