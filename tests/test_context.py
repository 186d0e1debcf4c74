"""What a step can do besides returning events: state, sends, sleeps, questions."""

import asyncio
import threading
import time
from typing import Any

import pytest
from pydantic import BaseModel

from flownb import (
    Context,
    Event,
    HumanResponseEvent,
    InputRequiredEvent,
    StartEvent,
    StopEvent,
    Workflow,
    step,
)
from flownb.errors import (
    AnswerTimeout,
    AttemptOver,
    ContextStateError,
    RequestDisposed,
    RequestError,
    WorkflowRuntimeError,
    WorkflowStepDoesNotExistError,
    WrongLoop,
)
from flownb.events import ProgressEvent
from flownb.testing import ManualClock
from tests.polling import until, until_asked, wait_for_questions, wait_until


class Begin(StartEvent):
    n: int = 3


class Row(Event):
    no: int


class Done(Event):
    no: int


class Other(Event):
    pass


class Verdict(HumanResponseEvent):
    ok: bool


class Approve(InputRequiredEvent[Verdict]):
    no: int = 0


class Totals(BaseModel):
    count: int = 0
    names: list[str] = []
    note: str = "none"


def one(fn: Any, name: str = "one", **options: Any) -> Workflow[Any]:
    """A workflow of one step."""
    flow = Workflow[Any](name)
    flow.step(**options)(fn)
    return flow


# -- state


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_a_hundred_edits_at_once_lose_nothing(kind: str):
    """R6.2, R6.3, C031."""
    flow = Workflow[int]("edits")

    @flow.step
    def split(ev: Begin) -> list[Row]:
        return [Row(no=i) for i in range(100)]

    if kind == "async":

        @flow.step(num_workers=None)
        async def work(ev: Row, ctx: Context) -> Done:
            async with ctx.state.edit() as state:
                before = state.get("count", 0)
                await asyncio.sleep(0)
                state["count"] = before + 1
            return Done(no=ev.no)
    else:

        @flow.step(num_workers=16)
        def work(ev: Row, ctx: Context) -> Done:
            with ctx.state.edit() as state:
                before = state.get("count", 0)
                time.sleep(0.0005)
                state["count"] = before + 1
            return Done(no=ev.no)

    @flow.step
    def total(ev: list[Done], ctx: Context) -> StopEvent:
        return StopEvent(result=ctx.state.get("count"))

    run = flow.run()
    assert run.result(30) == 100
    assert run.state == {"count": 100}


def test_edits_of_async_and_plain_steps_stand_in_one_line():
    flow = Workflow[int]("mixed")

    @flow.step
    def split(ev: Begin) -> list[Row | Other]:
        return [Row(no=i) if i % 2 else Other() for i in range(60)]

    @flow.step(num_workers=None)
    async def quick(ev: Row, ctx: Context) -> Done:
        async with ctx.state.edit() as state:
            before = state.get("count", 0)
            await asyncio.sleep(0)
            state["count"] = before + 1
        return Done(no=1)

    @flow.step(num_workers=8)
    def slow(ev: Other, ctx: Context) -> Done:
        with ctx.state.edit() as state:
            before = state.get("count", 0)
            time.sleep(0.0005)
            state["count"] = before + 1
        return Done(no=2)

    @flow.step
    def total(ev: list[Done], ctx: Context) -> StopEvent:
        return StopEvent(result=ctx.state.get("count"))

    assert flow.run().result(30) == 60


def test_state_by_dotted_path():
    """R6.1."""

    def work(ev: Begin, ctx: Context) -> StopEvent:
        state = ctx.state
        state.set("a.b.c", [1, {"d": 2}])
        state.set("a.b.c.1.d", 3)
        state.set("a.b.c.0", 9)
        said = [state.get("a.b.c.1.d"), state.get("a.b.c.0"), state.get("a.x", None), state.get("nothing", 7)]
        for missing in ("nothing", "a.x", "a.b.c.5", "a.b.c.1.d.e"):
            with pytest.raises(KeyError, match="The state has no"):
                state.get(missing)
        with pytest.raises(ContextStateError, match=r"Nothing can be written at 'a.b.c.0.z'"):
            state.set("a.b.c.0.z", 1)
        state.clear()
        state.set("left", 1)
        return StopEvent(result=(said, state.get()))

    assert one(work).run().result(20) == ([3, 9, None, 7], {"left": 1})


def test_a_value_read_is_a_copy_and_a_value_written_too():
    def work(ev: Begin, ctx: Context) -> StopEvent:
        mine = [1]
        ctx.state.set("rows", mine)
        mine.append(2)
        ctx.state.get("rows").append(3)
        ctx.state.get()["rows"].append(4)
        return StopEvent(result=ctx.state.get("rows"))

    assert one(work).run().result(20) == [1]


def test_an_edit_that_raises_writes_nothing_and_later_failure_undoes_nothing():
    """R6.2."""

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        with pytest.raises(ValueError, match="inside"):
            async with ctx.state.edit() as state:
                state["x"] = 1
                raise ValueError("inside")
        async with ctx.state.edit() as state:
            state["y"] = 2
        raise KeyError("later")

    run = one(work).run()
    with pytest.raises(KeyError):
        run.result(20)
    assert run.state == {"y": 2}


def test_an_edit_can_remove_a_name():
    async def work(ev: Begin, ctx: Context) -> StopEvent:
        async with ctx.state.edit() as state:
            del state["old"]
            state["new"] = 1
        return StopEvent(result=ctx.state.get())

    assert one(work).with_options(state={"old": 1, "kept": 2}).run().result(20) == {"kept": 2, "new": 1}


def test_an_edit_leaves_what_others_set_meanwhile():
    """A plain `set` does not stand in line; an edit writes only the names that it changed."""

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        async with ctx.state.edit() as state:
            state["mine"] = 1
            ctx.state.set("theirs", 2)
        return StopEvent(result=ctx.state.get())

    assert one(work).with_options(state={"theirs": 0}).run().result(20) == {"theirs": 2, "mine": 1}


def test_the_wrong_kind_of_with_says_so():
    async def async_step(ev: Begin, ctx: Context) -> StopEvent:
        with ctx.state.edit():
            pass
        return StopEvent()

    def plain_step(ev: Begin, ctx: Context) -> StopEvent:
        asyncio.run(ctx.state.edit().__aenter__())
        return StopEvent()

    with pytest.raises(ContextStateError, match="with `async with`"):
        one(async_step).run().result(20)
    with pytest.raises(ContextStateError, match="with `with`"):
        one(plain_step).run().result(20)


@pytest.mark.parametrize("what", ["edit", "sleep", "ask"])
def test_no_wait_begins_inside_an_edit(what: str):
    """R6.4: the line behind it would stand still for ever."""

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        async with ctx.state.edit():
            with pytest.raises(ContextStateError, match="inside an edit"):
                if what == "edit":
                    async with ctx.state.edit():
                        pass
                elif what == "sleep":
                    await ctx.sleep(1)
                else:
                    await ctx.ask("Well?")
        async with ctx.state.edit() as state:  # after it all is well
            state["x"] = 1
        await ctx.sleep(0.001)
        return StopEvent(result=1)

    assert one(work).run().result(20) == 1


def test_no_edit_begins_inside_an_edit_of_a_plain_step():
    def work(ev: Begin, ctx: Context) -> StopEvent:
        with ctx.state.edit(), pytest.raises(ContextStateError, match="inside an edit"), ctx.state.edit():
            pass
        return StopEvent(result=1)

    assert one(work).run().result(20) == 1


def test_a_step_that_is_cancelled_in_line_or_in_its_edit_lets_the_others_pass():
    async def main() -> None:
        flow = Workflow[int]("line")
        held = asyncio.Event()

        @flow.step(num_workers=None)
        async def work(ev: Begin, ctx: Context) -> StopEvent:
            async def hold() -> None:
                async with ctx.state.edit():
                    held.set()
                    await asyncio.sleep(60)

            async def wait() -> None:
                async with ctx.state.edit() as state:
                    state["never"] = 1

            holder = asyncio.ensure_future(hold())
            await held.wait()
            waiter = asyncio.ensure_future(wait())
            await asyncio.sleep(0)
            waiter.cancel()
            holder.cancel()
            await asyncio.wait([waiter, holder])
            async with ctx.state.edit() as state:
                state["x"] = 1
            return StopEvent(result=1)

        run = flow.run()
        assert await asyncio.wait_for(run, 20) == 1
        assert run.state == {"x": 1}

    asyncio.run(main())


def test_a_typed_state_gives_its_model():
    async def work(ev: Begin, ctx: Context[Totals]) -> StopEvent:
        first = ctx.state.get()
        async with ctx.state.edit() as state:
            state.count += 1
            state.names.append("ann")
        ctx.state.set("note", "written")
        whole = ctx.state.get()
        return StopEvent(
            result=[type(first), first.count, whole.count, whole.names, whole.note, ctx.state.get("count")]
        )

    assert one(work).run().result(20) == [Totals, 0, 1, ["ann"], "written", 1]


def test_a_first_state_is_given_with_options():
    def work(ev: Begin, ctx: Context) -> StopEvent:
        ctx.state.set("n", ctx.state.get("n") + 1)
        return StopEvent()

    run = one(work).with_options(state={"n": 41}).run()
    run.result(20)
    assert run.state == {"n": 42}
    assert run.debug.at(1).state == {"n": 41}


def test_a_paused_runs_step_sees_its_own_writes():
    """R5.15, R5.16: an edit's end needs a tick, so it stands still while the run is paused."""
    seen: list[int] = []

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        ctx.state.set("n", 1)
        seen.append(ctx.state.get("n"))
        ctx.state.set("n", 2)
        seen.append(ctx.state.get("n"))
        async with ctx.state.edit() as state:
            state["n"] += 1
        seen.append(ctx.state.get("n"))
        return StopEvent()

    async def main() -> None:
        run = one(work).debug()
        await until(lambda: seen == [1, 2])
        await until(lambda: len(run.debug.inbox) == 2)
        await asyncio.sleep(0.05)
        assert seen == [1, 2] and run.state == {} and len(run.debug.inbox) == 2
        run.cont()
        await run
        assert run.state == {"n": 3} and seen == [1, 2, 3]

    asyncio.run(main())


# -- sends and the stream


def test_sends_are_routed_like_returned_events_and_count_in_their_branch():
    """R3.46, R4.10: what a branch sends is waited for by the join."""
    flow = Workflow[list[int]]("sends")

    @flow.step
    def split(ev: Begin) -> list[Row]:
        return [Row(no=i) for i in range(3)]

    @flow.step
    async def work(ev: Row, ctx: Context) -> Done | Other:
        ctx.send_event(Other())
        await ctx.sleep(0.01 * (3 - ev.no))
        return Done(no=ev.no)

    @flow.step
    async def slow(ev: Other, ctx: Context) -> Done:
        await ctx.sleep(0.05)
        return Done(no=100)

    @flow.step
    def total(ev: list[Done]) -> StopEvent:
        return StopEvent(result=[d.no for d in ev])

    assert flow.run().result(20) == [0, 100, 1, 100, 2, 100]


def test_a_targeted_send_goes_to_one_step():
    """R2.13, R2.14: a wrong target raises at the call, nothing is queued."""
    flow = Workflow[list[Any]]("target")
    got: list[str] = []

    @flow.step
    def begin(ev: Begin, ctx: Context) -> Row | None:
        with pytest.raises(WorkflowStepDoesNotExistError, match=r"no step 'on'.*Did you mean 'one'") as caught:
            ctx.send_event(Row(no=1), step="on")
        assert caught.value.known == ("begin", "one", "two", "end")
        with pytest.raises(WorkflowRuntimeError, match=r"Step 'end' takes .*:Done, not .*:Row\. Nothing was sent"):
            ctx.send_event(Row(no=1), step="end")
        with pytest.raises(WorkflowRuntimeError, match="Only events can be sent, not a int"):
            ctx.send_event(5)  # type: ignore[arg-type]
        ctx.send_event(Row(no=1), step="one")
        return None

    @flow.step
    def one(ev: Row) -> Done:
        got.append("one")
        return Done(no=1)

    @flow.step
    def two(ev: Row) -> Done:
        got.append("two")
        return Done(no=2)

    @flow.step
    def end(ev: Done) -> StopEvent:
        return StopEvent(result=ev.no)

    assert flow.run().result(20) == 1
    assert got == ["one"]


def test_an_event_that_was_sent_is_a_copy():
    flow = Workflow[list[int]]("copy")

    class Bag(Event):
        rows: list[int]

    @flow.step
    async def begin(ev: Begin, ctx: Context) -> Bag | None:
        bag = Bag(rows=[1])
        ctx.send_event(bag)
        bag.rows.append(2)
        return None

    @flow.step
    def end(ev: Bag) -> StopEvent:
        return StopEvent(result=ev.rows)

    assert flow.run().result(20) == [1]


def test_a_stop_that_is_sent_ends_the_run():
    """R2.39."""

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        ctx.send_event(StopEvent(result="sent"))
        await asyncio.sleep(60)
        return StopEvent(result="returned")

    assert one(work).run().result(20) == "sent"


def test_stream_writes_reach_readers_and_no_step():
    flow = Workflow[None]("writes")

    @flow.step
    async def work(ev: Begin, ctx: Context) -> Row | StopEvent:
        ctx.write_event_to_stream(Row(no=1))
        ctx.progress(1, 4, "rows")
        return StopEvent()

    @flow.step
    def row(ev: Row) -> StopEvent:
        raise AssertionError("no step gets what is written to the stream")

    async def main() -> list[Event]:
        run = flow.run()
        await run
        return [event async for event in run.stream_events()]

    events = asyncio.run(main())
    assert events[:2] == [Row(no=1), ProgressEvent(done=1, total=4, label="rows", step="work", delivery=1)]
    assert [type(event) for event in events[2:]] == [StopEvent]


# -- sleeps


def test_a_sleep_lasts_and_gives_its_worker_back():
    """R4.26, R4.37."""
    clock = ManualClock()
    flow = Workflow[list[int]]("sleeps")
    order: list[str] = []

    @flow.step
    async def split(ev: Begin) -> list[Row]:
        return [Row(no=i) for i in range(3)]

    @flow.step(num_workers=1)
    async def nap(ev: Row, ctx: Context) -> Done:
        order.append(f"begin {ev.no}")
        await ctx.sleep(3600)
        order.append(f"end {ev.no}")
        return Done(no=ev.no)

    @flow.step
    async def total(ev: list[Done]) -> StopEvent:
        return StopEvent(result=[d.no for d in ev])

    async def main() -> Any:
        run = flow.with_options(clock=clock).run()
        await until(lambda: len(run.now.waiting.get("nap", ())) == 3)
        assert order == ["begin 0", "begin 1", "begin 2"]
        clock.advance(3600)
        return await run

    assert asyncio.run(main()) == [0, 1, 2]


def test_a_plain_step_sleeps_by_result_without_holding_a_pool_thread():
    """R3.12, R3.14."""

    def work(ev: Begin, ctx: Context) -> StopEvent:
        ctx.sleep(0.01).result()
        ctx.sleep_until(time.time() + 0.01).result(20)
        ctx.sleep(-5).result()
        return StopEvent(result="slept")

    assert one(work).run().result(20) == "slept"


def test_result_in_an_async_step_is_refused():
    async def work(ev: Begin, ctx: Context) -> StopEvent:
        nap = ctx.sleep(0.01)
        with pytest.raises(WrongLoop, match=r"a sleep .* Use `await`"):
            nap.result()
        await nap
        return StopEvent(result=await asyncio.to_thread(ctx.sleep(0.01).result))

    assert one(work).run().result(20) is None


def test_a_sleep_that_is_given_up_is_withdrawn():
    """R4.28: by `wait_for`, by `asyncio.timeout`, as the loser of a race."""

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ctx.sleep(3600), 0.01)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await ctx.sleep(3600)
        await asyncio.sleep(0.3)  # the second is withdrawn a moment later
        return StopEvent(result=1)

    run = one(work).run()
    assert run.result(20) == 1
    kinds = [type(tick).__name__ for tick in run.debug.ticks]
    assert kinds == ["RunStarted", "WaitOpened", "WaitWithdrawn", "WaitOpened", "WaitWithdrawn", "StepFinished"]


def test_gathered_sleeps_are_two_waits():
    """R4.27."""

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        begun = time.monotonic()
        await asyncio.gather(ctx.sleep(0.03), ctx.sleep(0.03))
        return StopEvent(result=time.monotonic() - begun)

    assert one(work).run().result(20) < 1


# -- questions


def test_a_question_in_words_takes_any_type():
    async def work(ev: Begin, ctx: Context) -> StopEvent:
        sure = await ctx.ask("Sure?", bool)
        name = await ctx.ask("Who?")
        rows = await ctx.ask("Rows?", list[int])
        return StopEvent(result=(sure, name, rows))

    async def main() -> Any:
        run = one(work).run()
        for answer in (True, "ann", ["1", 2]):
            await until_asked(run)
            run.answer(None, answer)
        return await run

    assert asyncio.run(main()) == (True, "ann", [1, 2])


def test_a_plain_step_asks_and_blocks_its_thread():
    def work(ev: Begin, ctx: Context) -> StopEvent:
        ask = ctx.ask(Approve(no=4))
        verdict = ask.result()
        return StopEvent(result=(verdict.ok, ask.request.by, ask.request.question.no))

    run = one(work).run()
    wait_for_questions(run)
    run.answer(ok=False, by="ann")
    assert run.result(20) == (False, "ann", 4)


def test_a_default_is_taken_at_the_deadline_and_recorded_as_such():
    """R4.54."""
    clock = ManualClock()

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        ask = ctx.ask(Approve(), timeout=60, default=Verdict(ok=False))
        verdict = await ask
        return StopEvent(result=(verdict.ok, ask.request.status))

    async def main() -> Any:
        run = one(work).with_options(clock=clock).run()
        await until_asked(run)
        assert run.requests[0].deadline == clock.now() + 60
        assert run.requests[0].default == Verdict(ok=False)
        clock.advance(61)
        return await run

    assert asyncio.run(main()) == (False, "default")


def test_without_a_default_the_asker_gets_answer_timeout():
    """R4.55: also a TimeoutError."""
    clock = ManualClock()

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        ask = ctx.ask("Well?", timeout=5)
        try:
            await ask
        except TimeoutError as error:
            return StopEvent(result=(type(error), ask.request.status))
        return StopEvent()

    async def main() -> Any:
        run = one(work).with_options(clock=clock).run()
        await until_asked(run)
        clock.advance(6)
        return await run

    assert asyncio.run(main()) == (AnswerTimeout, "expired")


def test_a_disposed_question_raises_in_its_asker():
    """R4.52."""

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        with pytest.raises(RequestDisposed, match="not needed"):
            await ctx.ask("Well?")
        return StopEvent(result="went on")

    run = one(work).run()
    wait_for_questions(run)
    request = run.requests[0]
    request.dispose("not needed")
    assert run.result(20) == "went on"
    assert request.status == "disposed"
    request.dispose()  # on a closed one nothing happens


def test_a_question_that_is_given_up_is_withdrawn():
    """R4.28, R4.75."""

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ctx.ask("Well?"), 0.02)
        return StopEvent(result=1)

    run = one(work).run()
    assert run.result(20) == 1
    assert [r.status for r in run.requests.all()] == ["withdrawn"]


def test_an_ask_that_nobody_awaits_is_withdrawn_when_its_step_ends():
    """R4.41: a question asked with `ask` closes with its delivery."""

    async def work(ev: Begin, ctx: Context) -> Row:
        ctx.ask("Well?")
        await asyncio.sleep(0.01)
        return Row(no=1)

    flow = one(work)

    @flow.step
    async def end(ev: Row) -> StopEvent:
        return StopEvent(result="on")

    with pytest.warns(
        RuntimeWarning, match="'work' .* ended without the answer to Question: the question is withdrawn"
    ):
        run = flow.run()
        assert run.result(20) == "on"
    assert [r.status for r in run.requests.all()] == ["withdrawn"]


def test_a_question_that_was_given_up_is_withdrawn_without_a_word():
    """API, rule 1: to abandon a wait withdraws its question; that is no mistake."""

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        try:
            async with asyncio.timeout(0.02):
                await ctx.ask("Well?")
        except TimeoutError:
            return StopEvent(result="gave up")
        return StopEvent(result="answered")

    run = one(work).run()
    assert run.result(20) == "gave up"


def test_only_the_asking_delivery_waits():
    """R4.42."""
    flow = Workflow[list[int]]("others")
    done: list[int] = []

    @flow.step
    async def split(ev: Begin) -> list[Row]:
        return [Row(no=i) for i in range(4)]

    @flow.step(num_workers=1)
    async def work(ev: Row, ctx: Context) -> Done:
        if ev.no == 0:
            await ctx.ask(Approve())
        done.append(ev.no)
        return Done(no=ev.no)

    @flow.step
    async def total(ev: list[Done]) -> StopEvent:
        return StopEvent(result=[d.no for d in ev])

    run = flow.run()
    wait_until(lambda: done == [1, 2, 3])
    run.answer(ok=True)
    assert run.result(20) == [0, 1, 2, 3]


def test_the_question_of_an_answer_is_found_in_every_kind_of_step():
    """API §5: `ctx.request`, at the first line of a plain step too, which begins at once on its thread."""
    for _ in range(20):
        flow = Workflow[int]("found")

        @flow.step
        def ask(ev: Begin) -> Approve:
            return Approve(no=7)

        @flow.step
        def note(ev: Verdict, ctx: Context) -> StopEvent:
            request = ctx.request(Approve)
            return StopEvent(result=(request.question.no, request.status, request.by))

        run = flow.run()
        wait_for_questions(run)
        run.answer(ok=True, by="ann")
        assert run.result(20) == (7, "answered", "ann")


def test_a_step_without_a_question_says_so():
    def work(ev: Begin, ctx: Context) -> StopEvent:
        with pytest.raises(RequestError, match="'work' was not started by an answer to Approve"):
            ctx.request(Approve)
        return StopEvent(result=1)

    assert one(work).run().result(20) == 1


def test_identity_of_a_delivery():
    def work(ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=(ctx.run_id, ctx.step_name, ctx.attempt, ctx.task_key, repr(ctx)))

    run = one(work).run(run_id="mine")
    assert run.result(20) == ("mine", "work", 1, "mine/1", "<Context of step 'work', run 'mine', delivery 1>")


def test_a_context_that_outlives_its_run_is_over():
    """R3.20."""
    kept: list[Context[Any]] = []

    def work(ev: Begin, ctx: Context) -> StopEvent:
        kept.append(ctx)
        threading.Event().wait(0.01)
        return StopEvent()

    run = one(work).run()
    wait_until(lambda: kept)
    run.cancel().result(20)
    with pytest.raises(AttemptOver):
        kept[0].state.set("x", 1)


class Flow(Workflow[int]):
    """Class style gets its context too, at any place and by keyword."""

    @step
    async def first(self, ctx: Context, ev: Begin) -> Row:
        ctx.state.set("n", 1)
        return Row(no=1)

    @step
    async def second(self, ev: Row, *, ctx: Context, label: str = "x") -> StopEvent:
        return StopEvent(result=ctx.state.get("n"))


def test_the_context_may_stand_anywhere():
    assert Flow().run().result(20) == 1


def test_a_task_that_a_step_left_behind_may_only_send():
    """R3.21: as from outside; every other call raises `AttemptOver`."""
    seen: list[str] = []
    flow = Workflow[int]("left", accepts=[Row])
    tasks: list[asyncio.Task[None]] = []

    @flow.step
    async def begin(ev: Begin, ctx: Context) -> None:
        async def later() -> None:
            await asyncio.sleep(0.01)
            try:
                ctx.state.set("x", 1)
            except AttemptOver:
                seen.append("over")
            ctx.send_event(Row(no=5))

        tasks.append(asyncio.ensure_future(later()))

    @flow.step
    async def end(ev: Row) -> StopEvent:
        return StopEvent(result=ev.no)

    run = flow.run()
    assert run.result(20) == 5
    assert (seen, run.state) == (["over"], {})
    assert "EventArrived" in [type(tick).__name__ for tick in run.debug.ticks]


def test_a_task_that_a_step_left_behind_waits_for_nothing_for_ever():
    """R3.21: its wait ends with the attempt that it belongs to."""
    seen: list[str] = []
    tasks: list[asyncio.Task[None]] = []

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        async def nap() -> None:
            try:
                await ctx.sleep(3600)
            except AttemptOver:
                seen.append("over")

        tasks.append(asyncio.create_task(nap()))
        await asyncio.sleep(0)
        return StopEvent()

    one(work).run().result(20)
    wait_until(lambda: seen)
    assert seen == ["over"]
