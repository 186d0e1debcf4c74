"""Behaviours 56 to 70 of LlamaIndex Workflows, here: idle and ends, snapshots and state, stream, memory, validation."""

import asyncio
import gc
import json
import weakref
from typing import Any

import pytest
from pydantic import BaseModel

from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, StopEvent, Workflow
from flownb.errors import (
    ContextSerdeError,
    ContextStateError,
    WorkflowCancelledByUser,
    WorkflowTimeoutError,
    WorkflowValidationError,
)
from flownb.events import (
    StepStateChanged,
    WorkflowCancelledEvent,
    WorkflowFailedEvent,
    WorkflowIdleEvent,
    WorkflowTimedOutEvent,
)
from tests.polling import until
from tests.port import golden
from tests.port.making import Begin, Done, Item, flow_of, on_loop, published


class Reply(HumanResponseEvent):
    text: str = ""


class Ask(InputRequiredEvent):
    pass


class Note(Event):
    n: int = 0


async def ask(ev: Begin) -> Ask:
    return Ask()


async def answered(ev: Reply) -> StopEvent:
    return StopEvent(result=ev.text)


async def wait(ev: Begin, ctx: Context) -> StopEvent:
    return StopEvent(result=(await ctx.wait_for_event(Reply)).text)


@pytest.mark.parametrize("steps", [(ask, answered), (wait,)], ids=["two steps", "a wait"])
def test_b56_a_run_that_waits_says_once_that_it_is_idle_and_not_at_its_end(steps: Any):
    """R5.40."""

    @on_loop
    async def test() -> None:
        run = flow_of(*steps).run()
        await until(lambda: run.status == "waiting")
        await asyncio.sleep(0.02)
        await run.send_event(Reply(text="x"))
        assert await run == "x"
        events = await published(run)
        assert [type(ev) for ev in events].count(WorkflowIdleEvent) == 1
        assert type(events[-1]) is StopEvent

    test()


@on_loop
async def test_b57_a_run_with_work_in_its_inbox_is_not_idle():
    """R5.33: two events wait when the gate opens; idle comes after both, once."""
    flow = Workflow[Any]("inbox", accepts=[Note])

    @flow.step
    async def begin(ev: Begin) -> None: ...

    @flow.step
    async def note(ev: Note, ctx: Context) -> StopEvent | None:
        ctx.write_event_to_stream(ev)
        return StopEvent() if ev.n == 3 else None

    run = flow.run()
    await until(lambda: run.status == "waiting")
    await run.pause()
    sent = [run.send_event(Note(n=n)) for n in (1, 2)]
    run.cont()
    for handle in sent:
        await handle
    await until(lambda: run.status == "waiting")
    await run.send_event(Note(n=3))
    await run
    told = [type(ev).__name__ for ev in await published(run, WorkflowIdleEvent, Note, StopEvent)]
    assert told == ["WorkflowIdleEvent", "Note", "Note", "WorkflowIdleEvent", "Note", "StopEvent"]


@on_loop
async def test_b58_a_limit_names_the_active_steps_and_a_cancel_keeps_the_state():
    """R5.48, R5.57, R5.58, R6.45."""

    async def slow(ev: Begin, ctx: Context) -> StopEvent:
        ctx.state.set("half", "done")
        await asyncio.sleep(30)
        return StopEvent()

    run = flow_of(slow, timeout=0.05).run()
    with pytest.raises(WorkflowTimeoutError, match="slow"):
        await run
    [told] = await published(run, internal=False)
    assert (type(told), told.timeout, told.active_steps) == (WorkflowTimedOutEvent, 0.05, ["slow"])

    run = flow_of(slow).run()
    await until(lambda: run.state.get("half"))
    await run.cancel("enough")
    with pytest.raises(WorkflowCancelledByUser):
        await run
    [told] = await published(run, internal=False)
    assert (type(told), told.reason) == (WorkflowCancelledEvent, "enough")
    assert run.state == {"half": "done"}


@on_loop
async def test_b60_a_run_that_went_on_from_a_dict_can_be_kept_again():
    """R6.31, R6.36: twice in a row, and in between it works."""

    async def begin(ev: Begin) -> Ask:
        return Ask()

    async def again(ev: Reply, ctx: Context) -> Ask | StopEvent:
        async with ctx.state.edit() as state:
            state["said"] = [*state.get("said", []), ev.text]
            said = state["said"]
        return StopEvent(result=said) if len(said) == 3 else Ask()

    flow = flow_of(begin, again)
    run = flow.run()
    for text in ("a", "b"):
        await until(lambda run=run: run.status == "waiting")
        await run.send_event(Reply(text=text))
        await until(lambda run=run: run.status == "waiting")
        kept = json.loads(json.dumps(run.ctx.to_dict()))
        await run.cancel()
        run = flow.run(ctx=Context.from_dict(flow, kept))
    await run.send_event(Reply(text="c"))
    assert await run == ["a", "b", "c"]


@on_loop
async def test_b61_a_dict_of_another_format_is_refused_in_words():
    """R6.33, R6.35: one of a later version, a damaged one, one of theirs, and what is no such dict at all."""
    flow = flow_of(ask, answered)
    run = flow.run()
    await until(lambda: run.status == "waiting")
    kept = json.loads(json.dumps(run.ctx.to_dict()))
    await run.cancel()
    theirs = {"version": 2, "is_running": True, "state": {}, "workers": {}}
    later = {**kept, "flownb": kept["flownb"] + 1}
    for wrong, words in (
        (later, "newer"),
        ({**kept, "state": {}}, "cannot be read"),
        (theirs, "no snapshot"),
        ({}, "no"),
    ):
        with pytest.raises(ContextSerdeError, match=words):
            Context.from_dict(flow, wrong)


@pytest.mark.parametrize("path", sorted(golden.DATA.glob("snapshot_*.json")), ids=lambda path: path.stem)
def test_b62_dicts_that_were_written_once_can_still_be_read(path: Any):
    """R6.35: every format that there ever was goes on to the same result."""
    kept = json.loads(path.read_text("utf-8"))
    assert kept["flownb"] == int(path.stem.removeprefix("snapshot_"))
    assert asyncio.run(asyncio.wait_for(golden.finish(kept), 20)) == (["a", "b"], [1, 10, 100])


def test_b62_the_present_format_is_among_them():
    kept = Context(golden.Golden()).to_dict()
    assert (golden.DATA / f"snapshot_{kept['flownb']}.json").is_file()


@on_loop
async def test_b63_edits_of_the_state_are_isolated_ordered_and_not_nested():
    """R6.2, R6.3, R6.4."""
    seen: list[Any] = []

    async def split(ev: Begin, ctx: Context) -> list[Item]:
        ctx.state.set("pair", [0, 0])
        return [Item(no=no) for no in range(20)]

    async def edit(ev: Item, ctx: Context) -> Done:
        async with ctx.state.edit() as state:
            n = state["pair"][0] + 1
            state["pair"][0] = n
            await asyncio.sleep(0)
            state["pair"][1] = n
        return Done(no=ev.no)

    async def join(ev: list[Done], ctx: Context) -> Note:
        with pytest.raises(KeyError, match="no"):
            async with ctx.state.edit() as state:
                state["pair"] = "lost"
                raise KeyError("no")
        with pytest.raises(ContextStateError):
            async with ctx.state.edit() as state, ctx.state.edit():
                pass
        return Note()

    async def end(ev: Note, ctx: Context) -> StopEvent:
        return StopEvent(result=ctx.state.get("pair"))

    run = flow_of(split, edit, join, end).run()
    assert await run == [20, 20]
    for seq in range(1, len(run.debug.ticks) + 1):
        pair = run.debug.at(seq).state.get("pair", [0, 0])
        seen.append(pair[0] == pair[1])
    assert all(seen)


class Small(BaseModel):
    n: int = 0


class Large(Small):
    names: list[str] = []


class Unrelated(BaseModel):
    other: int = 0


@on_loop
async def test_b64_steps_may_look_at_the_state_through_a_base_of_its_model():
    """R6.1: the most derived model holds; one that is no kin is refused."""

    async def begin(ev: Begin, ctx: Context[Small]) -> Item:
        ctx.state.set("n", 3)
        return Item()

    async def end(ev: Item, ctx: Context[Large]) -> StopEvent:
        async with ctx.state.edit() as state:
            state.names.append("x")
        state = ctx.state.get()
        return StopEvent(result=(type(state).__name__, state.n, state.names))

    assert await flow_of(begin, end).run() == ("Large", 3, ["x"])

    async def stranger(ev: Item, ctx: Context[Unrelated]) -> StopEvent:
        return StopEvent()

    with pytest.raises(WorkflowValidationError, match="Unrelated"):
        flow_of(begin, stranger).validate()


@on_loop
async def test_b65_one_context_for_several_runs_adds_up_and_two_at_once_are_refused():
    """R6.36."""

    async def count(ev: Begin, ctx: Context) -> StopEvent:
        n = ctx.state.get("n", 0) + ev.n
        ctx.state.set("n", n)
        await asyncio.sleep(0.01)
        return StopEvent(result=n)

    flow = flow_of(count)
    ctx = Context(flow)
    assert [await flow.run(ctx=ctx, n=n) for n in (1, 2, 3)] == [1, 3, 6]
    run = flow.run(ctx=ctx, n=4)
    with pytest.raises(ContextStateError):
        await flow.run(ctx=ctx, n=5)
    assert await run == 10


@on_loop
async def test_b66_a_run_that_goes_on_streams_and_a_reader_may_leave():
    """R5.62, R6.36: the reader that left, a later one and one of the new run each get their whole part."""
    flow = flow_of(ask, answered)
    run = flow.run()
    async for ev in run.stream_events():
        assert isinstance(ev, Ask)
        break
    kept = run.ctx.to_dict()
    await run.cancel()
    assert [type(ev) for ev in await published(run, internal=False)] == [Ask, WorkflowCancelledEvent]
    again = flow.run(ctx=Context.from_dict(flow, kept))
    await again.send_event(Reply(text="x"))
    await again
    assert [type(ev) for ev in await published(again, internal=False)][-1] is StopEvent


@on_loop
async def test_b67_what_a_finished_run_held_is_freed():
    """R5.4: its workflow and its events, as soon as nobody holds the handle."""

    class Held:
        pass

    held: list[weakref.ref[Any]] = []

    async def begin(ev: Begin, ctx: Context) -> Item:
        thing = Held()
        held.append(weakref.ref(thing))
        await ctx.sleep(0)
        return Item(thing=thing)

    async def end(ev: Item) -> StopEvent:
        return StopEvent(result="done")

    flow = flow_of(begin, end, timeout=3600)
    held.append(weakref.ref(flow))
    run = flow.run()
    assert await run == "done"
    del run, flow

    def is_free() -> bool:
        gc.collect()
        return all(ref() is None for ref in held)

    await until(is_free)


@on_loop
async def test_b68_a_wait_and_a_cancel_are_no_failures():
    """R5.64, R5.69: no step is shown as failed, no failure is told."""
    run = flow_of(wait).run()
    await until(lambda: run.status == "waiting")
    await run.send_event(Reply(text="x"))
    await run
    cancelled = flow_of(wait).run()
    await until(lambda: cancelled.status == "waiting")
    await cancelled.cancel()
    for one, last in ((run, "done"), (cancelled, "cancelled")):
        states = await published(one, StepStateChanged)
        assert [ev.state for ev in states][-1] == last
        assert all(ev.error is None and ev.state != "failed" for ev in states)
        assert await published(one, WorkflowFailedEvent) == []


@on_loop
async def test_b69_the_states_of_steps_are_told_in_order_with_their_workers():
    """R2.46, R5.64."""
    both = asyncio.Event()

    async def split(ev: Begin) -> list[Item]:
        return [Item(no=no) for no in range(2)]

    async def work(ev: Item) -> Done:
        while not both.is_set():
            await asyncio.sleep(0.001)
        return Done(no=ev.no)

    async def join(ev: list[Done]) -> StopEvent:
        return StopEvent()

    run = flow_of(split, work, join).run()
    await until(lambda: len(run.now.running.get("work", ())) == 2)
    both.set()
    await run
    told = await published(run, StepStateChanged)
    assert [(ev.name, ev.step_state) for ev in told] == [
        ("split", "running"),
        ("split", "not_running"),
        ("work", "running"),
        ("work", "running"),
        ("work", "not_running"),
        ("work", "not_running"),
        ("join", "running"),
        ("join", "not_running"),
    ]
    assert [ev.worker_id for ev in told if ev.step_state == "running"] == ["0", "0", "1", "0"]


def test_b70_a_definition_is_checked_once_anew_after_a_change_and_tells_all_its_faults():
    """R8.1, R8.8, R8.9: and a step or a workflow may leave a check out."""
    flow = Workflow[Any]("checked")

    @flow.step
    async def begin(ev: Begin) -> StopEvent:
        return StopEvent()

    assert flow.validate() is False
    assert flow.definition is flow.definition
    before = flow.definition

    @flow.step
    async def never(ev: Note) -> StopEvent:
        return StopEvent()

    @flow.step
    async def circle(ev: Item) -> Item:
        return ev

    with pytest.raises(WorkflowValidationError) as caught:
        flow.validate()
    assert any("'never'" in fault for fault in caught.value.faults)
    assert any("'circle'" in fault for fault in caught.value.faults)

    del flow.steps["circle"]
    flow.step(skip_graph_checks=["reachability"])(never)
    assert flow.validate() is False
    assert flow.definition is not before

    loose = Workflow[Any]("loose", skip_graph_checks=["reachability"])
    loose.step(begin)
    loose.step(never)
    assert loose.validate() is False

    asking = flow_of(ask, answered)
    assert asking.validate() is True
