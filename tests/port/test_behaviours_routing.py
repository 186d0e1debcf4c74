"""Behaviours 1 to 16 of LlamaIndex Workflows, here: routing, events, workers."""

import asyncio
from typing import Any

import pytest

from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Workflow
from flownb.errors import WorkflowRuntimeError, WorkflowStalled, WorkflowStepDoesNotExistError
from flownb.events import StepFailedEvent, StepStateChanged, UnhandledEvent, WorkflowFailedEvent
from flownb.retry_policy import retry_policy, stop_after_attempt, wait_fixed
from flownb.testing import ManualClock
from tests.polling import until
from tests.port.making import Begin, Done, Item, flow_of, on_loop, published


class Animal(Event):
    no: int = 0


class Dog(Animal):
    pass


class Question(InputRequiredEvent):
    text: str = ""


class Reply(HumanResponseEvent):
    text: str = ""


def end(ev: Done) -> StopEvent:
    return StopEvent(result=ev.no)


@on_loop
async def test_b02_a_step_of_a_base_takes_subclasses_and_an_end_reaches_no_step():
    """R2.8, R2.10, R4.31: routed, awaited and sent by name, a subclass does; the stop event goes to nobody."""
    flow = Workflow[Any]("zoo", skip_graph_checks=["unproduced"])
    fed: list[int] = []
    seen: list[str] = []

    @flow.step
    async def begin(ev: Begin, ctx: Context) -> Dog:
        ctx.send_event(Dog(no=1), step="feed")
        pet = await ctx.wait_for_event(Animal)
        return Dog(no=pet.no + 1)

    @flow.step(accept_event_subclasses=True)
    async def feed(ev: Animal) -> Dog | Done | None:
        fed.append(ev.no)
        return {1: Dog(no=2), 3: Done(no=7)}.get(ev.no)

    @flow.step
    async def watch(ev: Event) -> None:
        seen.append(type(ev).__name__)

    flow.step(end)
    assert await flow.run() == 7
    assert fed == [1, 2, 3]
    assert set(seen) == {"Dog", "Done"}


@on_loop
async def test_b03_an_event_that_two_steps_take_runs_both():
    """R2.11."""
    got: list[str] = []

    async def begin(ev: Begin) -> Item:
        return Item(no=1)

    async def one(ev: Item) -> Done:
        got.append("one")
        return Done(no=1)

    async def two(ev: Item) -> Done:
        got.append("two")
        return Done(no=2)

    async def both(ev: Done, ctx: Context) -> StopEvent | None:
        found = ctx.collect_events(ev, [Done, Done])
        return StopEvent(result=sorted(done.no for done in found)) if found else None

    assert await flow_of(begin, one, two, both).run() == [1, 2]
    assert got == ["one", "two"]


@on_loop
async def test_b04_an_event_sent_to_one_step_must_be_taken_by_it():
    """R2.13, R2.14."""
    said: list[BaseException] = []

    async def begin(ev: Begin, ctx: Context) -> Item:
        for name in ("end", "nowhere"):
            try:
                ctx.send_event(Item(no=9), step=name)
            except Exception as error:
                said.append(error)
        ctx.send_event(Item(no=1), step="one")
        return None  # type: ignore[return-value]

    async def one(ev: Item) -> Done:
        return Done(no=ev.no)

    async def two(ev: Item) -> Done:
        return Done(no=100 + ev.no)

    assert await flow_of(begin, one, two, end).run() == 1
    assert [type(error) for error in said] == [WorkflowRuntimeError, WorkflowStepDoesNotExistError]


@on_loop
async def test_b05_an_event_that_no_step_takes_is_told_with_its_full_name():
    """R2.25, R2.26."""

    async def begin(ev: Begin, ctx: Context) -> Done | None:
        ctx.send_event(Dog())
        return Done(no=1) if ev.n else None

    flow = flow_of(begin, end)
    [told] = await published(flow.run(), UnhandledEvent)
    assert (told.event_type, told.qualified_name, told.idle) == ("Dog", f"{__name__}:Dog", False)

    async def stray(ev: Begin) -> Done:
        return Dog()  # type: ignore[return-value]

    run = flow_of(stray, end).run()
    with pytest.raises(WorkflowStalled, match="Dog"):
        await run
    [told] = await published(run, UnhandledEvent)
    assert told.idle is True


@on_loop
async def test_b06_questions_are_never_unhandled():
    """R2.29: neither the plain one nor a subclass."""
    for question in (InputRequiredEvent(), Question()):
        asked = [question]

        async def answered(ev: HumanResponseEvent) -> StopEvent:
            return StopEvent()

        async def begin(ev: Begin) -> InputRequiredEvent:
            return asked[0]  # noqa: B023

        run = flow_of(begin, answered).run()
        await until(lambda run=run: run.status == "waiting")
        await run.send_event(HumanResponseEvent())
        await run
        assert await published(run, UnhandledEvent) == []


@on_loop
async def test_b07_an_event_that_a_wait_takes_is_no_input_of_that_step_too():
    """R4.33."""
    got: list[str] = []

    async def both(ev: Begin | Reply, ctx: Context) -> StopEvent | None:
        got.append(type(ev).__name__)
        if isinstance(ev, Reply):
            return None
        reply = await ctx.wait_for_event(Reply)
        await asyncio.sleep(0.01)
        return StopEvent(result=reply.text)

    run = flow_of(both).run()
    await until(lambda: run.status == "waiting")
    await run.send_event(Reply(text="x"))
    assert await run == "x"
    assert got == ["Begin"]


def test_b08_events_are_true_and_their_undeclared_fields_are_a_mapping():
    """R2.2."""
    event = Item(no=1, colour="red")
    assert bool(Event()) is bool(event) is True
    assert event["colour"] == event.get("colour") == event.colour == "red"
    assert list(event.keys()) == ["colour"]
    assert list(event.values()) == ["red"]
    assert list(event.items()) == [("colour", "red")]
    assert "colour" in event
    assert "size" not in event
    with pytest.raises(KeyError):
        event["size"]
    with pytest.raises(AttributeError):
        event.size
    event.size = 3
    assert event["size"] == 3


def test_b09_a_stop_event_is_written_with_its_result():
    """R2.35; that the other ends are no stop events is R5.55."""
    stop = StopEvent(result={"n": 1})
    assert stop.model_dump() == {"result": {"n": 1}}
    assert StopEvent.model_validate(stop.model_dump()).result == {"n": 1}
    assert StopEvent.model_validate_json(stop.model_dump_json()).result == {"n": 1}


@on_loop
async def test_b10_a_step_that_returns_no_event_fails_with_the_type_in_words():
    """R2.18."""

    async def begin(ev: Begin) -> StopEvent:
        return "words"  # type: ignore[return-value]

    with pytest.raises(WorkflowRuntimeError, match=r"'begin' returned .*str"):
        await flow_of(begin).run()


@on_loop
async def test_b11_so_many_workers_run_and_the_rest_queue_in_order():
    """R3.8."""
    begun: list[int] = []
    go_on = asyncio.Event()
    flow = Workflow[Any]("workers")

    @flow.step
    async def split(ev: Begin) -> list[Item]:
        return [Item(no=no) for no in range(5)]

    @flow.step(num_workers=2)
    async def work(ev: Item) -> Done:
        begun.append(ev.no)
        await asyncio.to_thread(lambda: None)
        while not go_on.is_set():
            await asyncio.sleep(0.001)
        return Done(no=ev.no)

    @flow.step
    async def join(ev: list[Done]) -> StopEvent:
        return StopEvent(result=[done.no for done in ev])

    run = flow.run()
    await until(lambda: len(begun) == 2)
    assert (len(run.now.running["work"]), len(run.now.queued["work"])) == (2, 3)
    go_on.set()
    assert await run == [0, 1, 2, 3, 4]
    assert begun == [0, 1, 2, 3, 4]
    states = [ev.step_state for ev in await published(run, StepStateChanged) if ev.name == "work"]
    assert states[:5] == ["running", "running", "preparing", "preparing", "preparing"]


@on_loop
async def test_b12_the_smallest_free_worker_is_taken_again():
    """R3.9: of three workers the middle one ends first, and the fourth delivery gets its number."""
    ends = {1: asyncio.Event(), 0: asyncio.Event()}
    flow = Workflow[Any]("workers")

    @flow.step
    async def split(ev: Begin) -> list[Item]:
        return [Item(no=no) for no in range(4)]

    @flow.step(num_workers=3)
    async def work(ev: Item) -> Done:
        gate = ends[1 if ev.no == 1 else 0]
        while not gate.is_set():
            await asyncio.sleep(0.001)
        return Done(no=ev.no)

    @flow.step
    async def join(ev: list[Done]) -> StopEvent:
        return StopEvent()

    run = flow.run()
    await until(lambda: len(run.now.running.get("work", ())) == 3)
    ends[1].set()
    await until(lambda: not run.now.queued)
    ends[0].set()
    await run
    running = [ev for ev in await published(run, StepStateChanged) if ev.name == "work" and ev.state == "running"]
    assert [ev.worker_id for ev in running] == ["0", "1", "2", "1"]


@on_loop
async def test_b13_a_stop_ends_the_other_steps_before_they_write_to_the_stream():
    """R2.41, R2.43, R2.44."""
    cancelled: list[str] = []

    async def begin(ev: Begin) -> Item:
        return Item()

    async def slow(ev: Item, ctx: Context) -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancelled.append("slow")
            raise
        finally:
            ctx.write_event_to_stream(Dog())

    async def quick(ev: Item) -> StopEvent:
        await asyncio.sleep(0.02)
        return StopEvent(result="quick")

    run = flow_of(begin, slow, quick).run()
    assert await run == "quick"
    await until(lambda: cancelled)
    assert [type(ev) for ev in await published(run, internal=False)] == [StopEvent]


@on_loop
async def test_b14_no_more_runs_are_live_than_the_workflow_allows():
    """API §4, `num_concurrent_runs`; those that wait begin in the order in which they were asked for."""
    live: list[int] = []
    most: list[int] = []
    begun: list[int] = []

    async def work(ev: Begin) -> StopEvent:
        live.append(ev.n)
        begun.append(ev.n)
        most.append(len(live))
        await asyncio.sleep(0.01)
        live.remove(ev.n)
        return StopEvent(result=ev.n)

    flow = flow_of(work, num_concurrent_runs=2)
    assert await asyncio.gather(*[flow.run(n=n) for n in range(5)]) == [0, 1, 2, 3, 4]
    assert max(most) == 2
    assert begun == [0, 1, 2, 3, 4]


@on_loop
async def test_b16_attempts_that_fall_due_in_one_moment_all_run_in_their_order():
    """R3.28, R3.29, R3.63."""
    clock = ManualClock()
    flow = Workflow[Any]("flaky")
    second: list[int] = []

    @flow.step
    async def split(ev: Begin) -> list[Item]:
        return [Item(no=no) for no in range(4)]

    @flow.step(retry_policy=retry_policy(wait=wait_fixed(5), stop=stop_after_attempt(2)))
    async def work(ev: Item, ctx: Context) -> Done:
        if ctx.attempt == 1:
            raise ConnectionError("busy")
        second.append(ev.no)
        return Done(no=ev.no)

    @flow.step
    async def join(ev: list[Done]) -> StopEvent:
        return StopEvent(result=[done.no for done in ev])

    run = flow.with_options(clock=clock).run()
    await until(lambda: sum(type(tick).__name__ == "StepFailed" for tick in run.debug.ticks) == 4)
    assert second == []
    clock.advance(5)
    assert await run == [0, 1, 2, 3]
    assert second == [0, 1, 2, 3]
    assert await published(run, WorkflowFailedEvent, StepFailedEvent) == []


def test_b15_what_arrives_first_is_admitted_first():
    """R1.5, R1.22, R1.25 in place of theirs, where a result overtakes an event that came before it."""
    flow = Workflow[Any]("arrivals", accepts=[Item])

    @flow.step
    async def begin(ev: StartEvent) -> None: ...

    @flow.step
    async def item(ev: Item, ctx: Context) -> StopEvent | None:
        async with ctx.state.edit() as state:
            state["seen"] = [*state.get("seen", []), ev.no]
            seen = state["seen"]
        return StopEvent(result=seen) if len(seen) == 3 else None

    run = flow.debug()
    for no in (1, 2, 3):
        run.send_event(Item(no=no))
    run.cont()
    assert run.result(20) == [1, 2, 3]
    arrived = [tick.out.value.no for tick in run.debug.ticks if type(tick).__name__ == "EventArrived"]
    assert arrived == [1, 2, 3]
