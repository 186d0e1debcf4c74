"""Behaviours 49 to 55 of LlamaIndex Workflows, here: waits and people."""

import asyncio
import json
import threading
from typing import Any

import pytest

from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Workflow
from flownb.errors import WorkflowCancelledByUser
from flownb.retry_policy import retry_policy, stop_after_attempt, wait_fixed
from flownb.testing import ManualClock
from tests.polling import until
from tests.port.making import Begin, Done, Item, flow_of, on_loop, published


class Reply(HumanResponseEvent):
    name: str = ""
    ok: bool = True


class Ask(InputRequiredEvent):
    name: str


class Note(Event):
    name: str
    value: Any = None


async def split(ev: Begin) -> list[Item]:
    return [Item(no=no) for no in range(ev.n)]


async def join(ev: list[Done]) -> StopEvent:
    return StopEvent(result=sorted(done.no for done in ev))


@on_loop
async def test_b49_waits_of_parallel_branches_without_names_are_waits_of_their_own():
    """R4.27, R4.34: also when the run goes on from a dict."""

    async def wait(ev: Item, ctx: Context) -> Done:
        reply = await ctx.wait_for_event(Reply)
        return Done(no=int(reply.name))

    flow = flow_of(split, wait, join)
    run = flow.run()
    await until(lambda: len(run.now.waiting.get("wait", ())) == 3)
    kept = json.loads(json.dumps(run.ctx.to_dict()))
    for n in range(3):
        assert not run.is_done()
        await run.send_event(Reply(name=str(n)))
    assert await run == [0, 1, 2]

    again = flow.run(ctx=Context.from_dict(flow, kept))
    await until(lambda: len(again.now.waiting.get("wait", ())) == 3)
    for n in range(10, 13):
        assert not again.is_done()
        await again.send_event(Reply(name=str(n)))
    assert await again == [10, 11, 12]


@on_loop
async def test_b50_what_a_wait_brought_is_kept_when_the_step_is_tried_again():
    """R3.51: the person is asked once."""
    attempts: list[int] = []
    flow = Workflow[Any]("keeps")

    @flow.step(retry_policy=retry_policy(wait=wait_fixed(0), stop=stop_after_attempt(3)))
    async def ask(ev: Begin, ctx: Context) -> StopEvent:
        reply = await ctx.wait_for_event(Reply, waiter_event=Ask(name="x"))
        attempts.append(ctx.attempt)
        if ctx.attempt < 3:
            raise ConnectionError("busy")
        return StopEvent(result=reply.name)

    run = flow.run()
    await until(lambda: run.status == "waiting")
    await run.send_event(Reply(name="once"))
    assert await run == "once"
    assert attempts == [1, 2, 3]
    assert len(await published(run, Ask)) == 1


@on_loop
async def test_b51_a_wait_with_requirements_goes_on_from_a_dict():
    """R4.29, R4.31: nothing runs again until the event comes that fits."""
    starts: list[str] = []

    async def wait(ev: Begin, ctx: Context) -> StopEvent:
        starts.append("start")
        reply = await ctx.wait_for_event(Reply, requirements={"name": "ann"})
        return StopEvent(result=reply.name)

    flow = flow_of(wait)
    run = flow.run()
    await until(lambda: run.status == "waiting")
    kept = json.loads(json.dumps(run.ctx.to_dict()))
    await run.cancel()
    again = flow.run(ctx=Context.from_dict(flow, kept))
    await again.send_event(Reply(name="bob"))
    assert starts == ["start"]
    assert not again.is_done()
    await again.send_event(Reply(name="ann"))
    assert await again == "ann"
    assert starts == ["start", "start"]


@on_loop
async def test_b52_a_requirement_may_be_something_that_cannot_be_pickled():
    """R2.6, R4.31: it counts by identity."""
    lock, other = threading.Lock(), threading.Lock()

    async def wait(ev: Begin, ctx: Context) -> StopEvent:
        note = await ctx.wait_for_event(Note, requirements={"value": lock})
        return StopEvent(result=note.name)

    flow = flow_of(wait, accepts=[Note])
    run = flow.run()
    await until(lambda: run.status == "waiting")
    await run.send_event(Note(name="other", value=other))
    assert not run.is_done()
    await run.send_event(Note(name="this", value=lock))
    assert await run == "this"


@on_loop
async def test_b53_a_wait_that_takes_too_long_raises_in_the_step():
    """R4.36."""
    clock = ManualClock()

    async def wait(ev: Begin, ctx: Context) -> StopEvent:
        with pytest.raises(TimeoutError):
            await ctx.wait_for_event(Reply, timeout=60)
        return StopEvent(result="too long")

    run = flow_of(wait).with_options(clock=clock).run()
    await until(lambda: run.status == "waiting")
    clock.advance(59)
    await asyncio.sleep(0.01)
    assert not run.is_done()
    clock.advance(1)
    assert await run == "too long"


@pytest.mark.parametrize("cancel_first", [True, False])
def test_b54_a_person_answers_after_the_run_was_cancelled_and_goes_on_from_a_dict(cancel_first: bool):
    """R6.36, R6.45: in both orders; the old run stays cancelled."""

    @on_loop
    async def test() -> None:
        async def begin(ev: Begin) -> Ask:
            return Ask(name="x")

        async def answered(ev: Reply) -> StopEvent:
            return StopEvent(result=ev.name)

        flow = flow_of(begin, answered)
        run = flow.run()
        async for ev in run.stream_events():
            if isinstance(ev, Ask):
                break
        if cancel_first:
            await run.cancel_run()
        kept = json.loads(json.dumps(run.ctx.to_dict()))
        if not cancel_first:
            await run.cancel_run()
        again = flow.run(ctx=Context.from_dict(flow, kept))
        assert again.run_id != run.run_id
        await again.send_event(Reply(name="late"))
        assert await again == "late"
        with pytest.raises(WorkflowCancelledByUser):
            await run

    test()


@on_loop
async def test_b55_going_on_needs_no_start_event_whatever_fields_it_has():
    """R6.36."""

    class Order(StartEvent):
        amount: int

    begun: list[int] = []

    async def begin(ev: Order, ctx: Context) -> Ask:
        begun.append(ev.amount)
        ctx.state.set("amount", ev.amount)
        return Ask(name="x")

    async def answered(ev: Reply, ctx: Context) -> StopEvent:
        return StopEvent(result=ctx.state.get("amount"))

    flow = flow_of(begin, answered)
    run = flow.run(amount=30)
    await until(lambda: run.status == "waiting")
    again = flow.run(ctx=Context.from_dict(flow, run.ctx.to_dict()))
    await run.cancel()
    await again.send_event(Reply())
    assert await again == 30
    assert begun == [30]
