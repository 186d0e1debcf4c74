"""What a run publishes, as its readers get it."""

import asyncio
import gc
from typing import Any

import pytest

from flownb import Context, Event, InputRequiredEvent, StartEvent, StopEvent, Workflow
from flownb.errors import WorkflowTimeoutError
from flownb.events import (
    HumanResponseEvent,
    ProgressEvent,
    StepStateChanged,
    StreamRewoundEvent,
    UnhandledEvent,
    WorkflowCancelledEvent,
    WorkflowFailedEvent,
    WorkflowIdleEvent,
    WorkflowTimedOutEvent,
)
from flownb.retry_policy import retry_policy, stop_after_attempt, wait_fixed
from flownb.testing import ManualClock
from tests.polling import until
from tests.runtime.flows import Asks, Begin, Count, Done, Forever, Item, Verdict


class Said(Event):
    no: int


def flow_of(*steps: Any, name: str = "made", **options: Any) -> Workflow[Any]:
    flow = Workflow[Any](name, **options)
    for fn in steps:
        flow.step(fn)
    return flow


async def all_of(run: Any, start: int = 0, **options: Any) -> list[Any]:
    return [item async for item in run.stream(start, **options)]


def speaks(ev: Begin, ctx: Context) -> StopEvent:
    for no in range(ev.n):
        ctx.write_event_to_stream(Said(no=no))
    return StopEvent(result="done")


def states(items: list[Any], step: str) -> list[str]:
    return [i.event.state for i in items if isinstance(i.event, StepStateChanged) and i.event.name == step]


# -- numbers, readers, positions


def test_an_item_has_a_number_an_id_its_source_and_its_cause():
    """R2.47."""

    async def main() -> None:
        run = flow_of(speaks).run(n=2, run_id="numbered")
        await run
        items = await all_of(run)
        assert [(i.id, i.seq, i.n, i.run_id, i.step, i.delivery, i.source, i.cause) for i in items] == [
            ("numbered:2.0", 2, 0, "numbered", "speaks", 1, "step", 1),
            ("numbered:3.0", 3, 0, "numbered", "speaks", 1, "step", 1),
            ("numbered:4.0", 4, 0, "numbered", "speaks", 1, "step", 1),
        ]
        assert [i.event for i in items] == [Said(no=0), Said(no=1), StopEvent(result="done")]
        assert items[0].at == run._runner.ticks[1].at

    asyncio.run(main())


def test_an_item_has_the_same_number_for_who_looks_inside():
    """R2.47, R5.63: step states are numbered behind what the steps said."""

    async def main() -> None:
        run = Count().run(n=3)
        await run
        shown, inside = await all_of(run), await all_of(run, expose_internal=True)
        by_id = {i.id: i for i in inside}
        assert len(by_id) == len(inside)
        assert [by_id[i.id] for i in shown] == shown

    asyncio.run(main())


@pytest.mark.parametrize("inside", [False, True])
def test_every_reader_gets_all_from_its_own_position_during_the_run_and_after_it(inside: bool):
    """R5.62."""

    async def main() -> None:
        run = Count().run(n=20)
        live = asyncio.ensure_future(all_of(run, expose_internal=inside))
        late = asyncio.ensure_future(all_of(run, 5, expose_internal=inside))
        await run
        after = await all_of(run, expose_internal=inside)
        assert await live == after
        assert await late == [i for i in after if i.seq >= 5] == await all_of(run, 5, expose_internal=inside)
        assert await all_of(run, run.now.seq + 1, expose_internal=inside) == []
        assert after[-1].event == StopEvent(result=list(range(20)))

    asyncio.run(main())


def test_two_readers_never_share_an_event():
    """R2.3: each may change what it got."""

    async def main() -> None:
        run = flow_of(speaks).run(n=1)
        await run
        first, second = await all_of(run), await all_of(run)
        first[0].event.no = 99
        assert second[0].event.no == 0

    asyncio.run(main())


@pytest.mark.parametrize("inside", [False, True])
def test_a_reader_that_leaves_leaves_nothing_behind(inside: bool):
    async def main() -> None:
        run = Forever().run()
        reader = run.stream(expose_internal=inside)
        if inside:
            await anext(reader)
        waiting = asyncio.ensure_future(anext(reader))
        await until(lambda: len(run._runner.listeners) == 1)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert run._runner.listeners == []
        await reader.aclose()
        forgotten = run.stream(expose_internal=True)
        await anext(forgotten)
        del forgotten
        gc.collect()
        assert run._runner.listeners == []
        await run.cancel()

    asyncio.run(main())


def test_a_run_that_nobody_watches_computes_no_step_states(monkeypatch: pytest.MonkeyPatch):
    """Readers pay, nobody else."""
    asked = 0
    import flownb.stream as stream

    real = stream.changes

    def counted(*args: Any) -> Any:
        nonlocal asked
        asked += 1
        return real(*args)

    monkeypatch.setattr(stream, "changes", counted)

    async def main() -> None:
        run = Count().run(n=5)
        assert [i.event async for i in run.stream()]
        assert asked == 0
        await all_of(run, expose_internal=True)
        assert asked == run.now.seq

    asyncio.run(main())


def test_a_fork_s_stream_begins_with_the_ticks_that_it_shares():
    """R5.62, R6.37: the same for both kinds of reader, under the fork's own id."""

    async def load(ev: Begin, ctx: Context) -> Item:
        ctx.write_event_to_stream(Said(no=1))
        return Item(no=1)

    async def work(ev: Item) -> StopEvent:
        return StopEvent()

    async def main() -> None:
        run = flow_of(load, work).run()
        await run
        fork = run.debug.fork(at=3)
        await fork
        items = await all_of(fork)
        assert [(i.seq, i.event) for i in items] == [(2, Said(no=1)), (5, StopEvent())]
        assert {i.run_id for i in items} == {fork.run_id}
        inside = await all_of(fork, expose_internal=True)
        assert [i for i in inside if type(i.event) in (Said, StopEvent)] == items

    asyncio.run(main())


# -- step states


def test_step_states_come_in_the_order_of_one_tick():
    """R2.46: the delivery's own state, what it sent, what started or was queued, the end last."""

    async def split(ev: Begin, ctx: Context) -> list[Item]:
        return [Item(no=i) for i in range(ev.n)]

    async def work(ev: Item, ctx: Context) -> Done:
        return Done(no=ev.no)

    async def join(ev: list[Done]) -> StopEvent:
        return StopEvent(result=len(ev))

    flow = Workflow[Any]("ordered")
    flow.step(split)
    flow.step(num_workers=1)(work)
    flow.step(join)

    async def main() -> None:
        run = flow.run(n=2)
        await run
        items = await all_of(run, expose_internal=True)
        second = [i for i in items if i.seq == 2]
        assert [
            (i.step, i.event.state) if isinstance(i.event, StepStateChanged) else type(i.event).__name__ for i in second
        ] == [("split", "done"), ("work", "running"), ("work", "queued"), "ProgressEvent"]
        last = [i for i in items if i.seq == run.now.seq]
        assert [type(i.event).__name__ for i in last] == ["StepStateChanged", "ProgressEvent", "StopEvent"]
        assert states(items, "work") == ["running", "queued", "done", "running", "done"]

    asyncio.run(main())


def test_a_step_state_says_all_that_is_known():
    """R5.64, with names spelled module:qualname; L's three names beside ours."""

    async def main() -> None:
        run = Count().run(n=2)
        await run
        items = await all_of(run, expose_internal=True)
        found = [i for i in items if isinstance(i.event, StepStateChanged) and i.delivery == 3]
        here = "tests.runtime.flows"
        began, ended = (i.event for i in found)
        assert (began.name, began.state, began.step_state, began.worker_id, began.attempt) == (
            "work",
            "running",
            "running",
            "1",
            1,
        )
        assert (began.seq, began.event_id, began.delivery) == (2, "2.1", 3)
        assert (began.input_event_name, began.output_event_name) == (f"{here}:Item", None)
        assert (began.finished_at, began.duration) == (None, None)
        assert (ended.state, ended.step_state, ended.worker_id) == ("done", "not_running", "")
        assert (ended.input_events, ended.output_events) == ([f"{here}:Item"], [f"{here}:Done"])
        assert ended.output_event_name == f"{here}:Done"
        assert ended.duration == pytest.approx(ended.finished_at - ended.started_at)
        assert ended.event_id == began.event_id
        (joined, _) = [i.event for i in items if i.step == "join" and isinstance(i.event, StepStateChanged)]
        assert joined.input_events == [f"{here}:Done"] * 2

    asyncio.run(main())


def test_one_event_has_one_id_whoever_takes_it():
    """R5.64: two steps that take it, and each of its states."""

    async def one(ev: Begin) -> None: ...

    async def two(ev: Begin) -> StopEvent:
        return StopEvent()

    async def main() -> None:
        run = flow_of(one, two).run()
        await run
        found = [i.event for i in await all_of(run, expose_internal=True) if isinstance(i.event, StepStateChanged)]
        assert {event.name for event in found} == {"one", "two"}
        assert {event.event_id for event in found} == {"1.0"}

    asyncio.run(main())


def test_a_retry_is_seen_with_its_error_and_when_it_is_due():
    """R3.34, R5.64."""
    tried = []

    async def flaky(ev: Begin) -> StopEvent:
        tried.append(1)
        if len(tried) < 2:
            raise ValueError("not yet")
        return StopEvent()

    flow = Workflow[Any]("flaky")
    flow.step(retry_policy=retry_policy(stop=stop_after_attempt(3), wait=wait_fixed(60)))(flaky)
    clock = ManualClock(1_000.0)

    async def main() -> None:
        run = flow.with_options(clock=clock).run()
        await until(lambda: run.now.retrying)
        assert run.now.retrying == {"flaky": ["Begin: attempt 1 failed with ValueError"]}
        clock.advance(60)
        await run
        items = await all_of(run, expose_internal=True)
        seen = [i.event for i in items if isinstance(i.event, StepStateChanged)]
        assert [(e.state, e.step_state, e.attempt) for e in seen] == [
            ("running", "running", 1),
            ("retrying", "preparing", 1),
            ("running", "running", 2),
            ("done", "not_running", 2),
        ]
        assert (seen[1].error, seen[1].due_at, seen[1].worker_id) == ("builtins:ValueError: not yet", 1_060.0, "")

    asyncio.run(main())


def test_waiting_is_seen_with_what_for():
    """R3.10, R5.64."""

    async def main() -> None:
        run = Asks().run(n=5)
        await until(lambda: run.status == "waiting")
        run.answer(Verdict(ok=True))
        await run
        items = await all_of(run, expose_internal=True)
        assert states(items, "ask") == ["running", "waiting", "running", "done"]
        (waiting,) = [i.event for i in items if isinstance(i.event, StepStateChanged) and i.event.state == "waiting"]
        assert (waiting.waits_for, waiting.step_state, waiting.worker_id) == (["person"], "not_running", "")
        (idle,) = [i for i in items if isinstance(i.event, WorkflowIdleEvent)]
        assert (idle.source, idle.step) == ("engine", "")

    asyncio.run(main())


def test_what_is_cut_off_by_a_cancel_is_cancelled_before_the_last_event():
    """R2.46, R3.10, R5.58."""

    async def main() -> None:
        run = Forever().run()
        await until(lambda: run.now.running)
        await run.cancel("enough")
        items = await all_of(run, expose_internal=True)
        assert [type(i.event) for i in items[-2:]] == [StepStateChanged, WorkflowCancelledEvent]
        assert states(items, "hang") == ["running", "cancelled"]
        assert items[-1].event.reason == "enough"
        assert items[-1].source == "outside"

    asyncio.run(main())


# -- what the engine says


def test_an_unhandled_event_says_who_it_was_for_and_whether_the_run_is_quiet():
    """R2.26."""

    async def begin(ev: Begin, ctx: Context) -> StopEvent:
        ctx.send_event(Said(no=1))
        await asyncio.sleep(0)
        return StopEvent()

    async def main() -> None:
        run = flow_of(begin).run()
        await run
        (found, _) = await all_of(run)
        assert found.event == UnhandledEvent(event_type="Said", qualified_name=f"{__name__}:Said", idle=False)
        assert (found.step, found.delivery, found.source, found.cause) == ("begin", 1, "step", 1)

    asyncio.run(main())


def test_a_failure_says_what_is_known_of_it():
    """R5.56: step, exception, traceback, attempts, elapsed; the live exception is there, and in no JSON."""

    async def boom(ev: Begin) -> StopEvent:
        raise ValueError("x")

    flow = Workflow[Any]("fails")
    flow.step(retry_policy=retry_policy(stop=stop_after_attempt(3)))(boom)

    async def main() -> None:
        run = flow.run()
        with pytest.raises(ValueError, match="x") as caught:
            await run
        for inside in (False, True):
            event = (await all_of(run, expose_internal=inside))[-1].event
            assert isinstance(event, WorkflowFailedEvent)
            assert (event.step_name, event.exception_type, event.exception_message, event.attempts) == (
                "boom",
                "builtins:ValueError",
                "x",
                3,
            )
            assert event.elapsed_seconds >= 0
            assert "raise ValueError" in event.traceback
            assert event.exception is caught.value
            assert "exception_message" in event.model_dump_json()

    asyncio.run(main())


def test_a_timeout_says_limit_elapsed_steps_and_questions():
    """R5.57."""

    async def ask(ev: Begin, ctx: Context) -> StopEvent:
        await ctx.ask("Which?")
        return StopEvent()

    async def slow(ev: Begin) -> None:
        await asyncio.Event().wait()

    clock = ManualClock(1_000.0)

    async def main() -> None:
        run = flow_of(ask, slow, timeout=30).with_options(clock=clock).run()
        await until(lambda: run.now.waiting and run.now.running)
        clock.advance(30)
        with pytest.raises(WorkflowTimeoutError):
            await run
        (*_, last) = await all_of(run)
        assert last.event == WorkflowTimedOutEvent(
            timeout=30.0,
            elapsed_seconds=30.0,
            active_steps=["slow"],
            open_requests=["ask asks flownb.events:Question"],
        )
        assert last.source == "timer"
        assert "took longer than 30" in run.why()

    asyncio.run(main())


def test_what_is_written_anew_is_announced_to_who_looks_inside():
    """R3.54."""
    tried = []

    async def writes(ev: Begin, ctx: Context) -> StopEvent:
        tried.append(1)
        ctx.write_event_to_stream(Said(no=1))
        ctx.write_event_to_stream(Said(no=2))
        if len(tried) < 2:
            raise ValueError("again")
        return StopEvent()

    flow = Workflow[Any]("rewinds")
    flow.step(retry_policy=retry_policy(stop=stop_after_attempt(2)))(writes)

    async def main() -> None:
        run = flow.run()
        await run
        said = [i.event for i in await all_of(run)]
        assert said == [Said(no=1), Said(no=2), Said(no=1), Said(no=2), StopEvent()]
        inside = [
            i.event for i in await all_of(run, expose_internal=True) if type(i.event) in (Said, StreamRewoundEvent)
        ]
        assert inside == [
            Said(no=1),
            Said(no=2),
            StreamRewoundEvent(step_name="writes", delivery=1, written=2),
            Said(no=1),
            Said(no=2),
        ]

    asyncio.run(main())


def test_progress_of_a_delivery_and_of_the_whole_run():
    """R5.65, R5.66."""

    async def load(ev: Begin, ctx: Context) -> Item:
        ctx.progress(1, 2, "half")
        return Item(no=1)

    async def work(ev: Item) -> StopEvent:
        return StopEvent()

    async def main() -> None:
        run = flow_of(load, work).run()
        await run
        assert next(i.event for i in await all_of(run)) == ProgressEvent(
            done=1, total=2, label="half", step="load", delivery=1
        )
        overall = [
            i.event
            for i in await all_of(run, expose_internal=True)
            if isinstance(i.event, ProgressEvent) and not i.event.step
        ]
        assert overall == [ProgressEvent(done=1, total=2, label="load"), ProgressEvent(done=2, total=2, label="work")]
        assert (run.now.progress.done, run.now.progress.total, run.now.progress.label) == (2, 2, "work")

    asyncio.run(main())


# -- children


class Inner(StartEvent):
    no: int = 0


async def inner(ev: Inner, ctx: Context) -> StopEvent:
    ctx.write_event_to_stream(Said(no=ev.no))
    await asyncio.sleep(0.01)
    ctx.write_event_to_stream(Said(no=ev.no + 10))
    return StopEvent(result=ev.no)


INNER = flow_of(inner, name="inner")


def outer() -> Workflow[Any]:
    flow = Workflow[Any]("outer")

    @flow.step(runs=INNER)
    async def both(ev: Begin, ctx: Context) -> StopEvent:
        ctx.write_event_to_stream(Said(no=-1))
        got = await asyncio.gather(*(ctx.run(INNER, no=i) for i in range(ev.n)))
        ctx.write_event_to_stream(Said(no=-2))
        return StopEvent(result=got)

    return flow


@pytest.mark.parametrize("late", [False, True])
def test_the_items_of_children_pass_up_before_what_their_end_led_to(late: bool):
    """R6.23: under their own run ids; to a reader beside the run and to one after it."""

    async def main() -> None:
        run = outer().run(n=2, run_id="up")
        reader = None if late else asyncio.ensure_future(all_of(run, children=True))
        assert await run == [0, 1]
        items = await all_of(run, children=True) if reader is None else await reader
        own = [i.event.no for i in items if i.run_id == "up" and isinstance(i.event, Said)]
        assert own == [-1, -2]
        for n in range(2):
            child = [i for i in items if i.run_id == f"up/1/{n + 1}"]
            assert [i.event for i in child] == [Said(no=n), Said(no=n + 10), StopEvent(result=n)]
        # Nothing of a child comes before the parent began to wait or after it went on.
        ids = [i.run_id for i in items]
        assert (ids[0], ids[-2:]) == ("up", ["up", "up"])
        assert [i for i in items if i.run_id == "up"] == await all_of(run)
        assert run._runner.listeners == []

    asyncio.run(main())


def test_a_reader_from_later_on_hears_nothing_of_children_that_were_over():
    async def main() -> None:
        run = outer().run(n=1)
        await run
        items = await all_of(run, run.now.seq, children=True, expose_internal=True)
        assert {i.run_id for i in items} == {run.run_id}
        assert any(i.run_id != run.run_id for i in await all_of(run, 3, children=True))

    asyncio.run(main())


def test_the_step_states_of_children_pass_up_too():
    async def main() -> None:
        run = outer().run(n=1)
        await run
        items = await all_of(run, children=True, expose_internal=True)
        child = f"{run.run_id}/1/1"
        assert [i.event.state for i in items if i.run_id == child and isinstance(i.event, StepStateChanged)] == [
            "running",
            "done",
        ]

    asyncio.run(main())


def test_a_reader_ends_with_a_run_whose_children_were_cancelled_with_it():
    """R5.60, R6.24."""

    async def hang(ev: Inner) -> StopEvent:
        await asyncio.Event().wait()
        return StopEvent()

    hangs = flow_of(hang, name="hangs")
    flow = Workflow[Any]("cancelled outer")

    @flow.step(runs=hangs)
    async def waits(ev: Begin, ctx: Context) -> StopEvent:
        await ctx.run(hangs)
        return StopEvent()

    async def main() -> None:
        run = flow.run()
        reader = asyncio.ensure_future(all_of(run, children=True))
        await until(lambda: run.children)
        await run.cancel("off")
        items = await asyncio.wait_for(reader, 20)
        assert {i.run_id for i in items if isinstance(i.event, WorkflowCancelledEvent)} == {
            run.run_id,
            f"{run.run_id}/1/1",
        }

    asyncio.run(main())


def test_the_question_of_a_child_passes_up():
    """R6.23."""

    class Sure(InputRequiredEvent[HumanResponseEvent]):
        no: int = 0

    async def asks(ev: Inner, ctx: Context) -> StopEvent:
        await ctx.ask(Sure(no=4))
        return StopEvent()

    asking = flow_of(asks, name="asking")
    flow = Workflow[Any]("asks below")

    @flow.step(runs=asking)
    async def waits(ev: Begin, ctx: Context) -> StopEvent:
        await ctx.run(asking)
        return StopEvent()

    async def main() -> None:
        run = flow.run()
        async for item in run.stream(children=True):
            if isinstance(item.event, Sure):
                assert (item.run_id, item.source) == (f"{run.run_id}/1/1", "step")
                run.requests[0].answer(HumanResponseEvent())
        await run

    asyncio.run(main())
