"""Cases of the tag *hitl*: a person in the loop."""

import asyncio
import json
from typing import Any

import pytest

from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Workflow
from flownb.errors import AlreadyAnswered, AnswerTimeout, RequestClosed, WorkflowCancelledByUser
from flownb.testing import ManualClock
from tests.polling import until, wait_for_questions, wait_until


class Start(StartEvent):
    pass


class Item(Event):
    pass


class Reply(HumanResponseEvent):
    text: str


class Ask(InputRequiredEvent[Reply]):
    text: str = "Well?"


class Done(Event):
    text: str


def test_c065_five_equal_questions_are_five_and_are_answered_in_any_order():
    flow = Workflow[list[str]]("five")

    @flow.step
    async def split(ev: Start) -> list[Item]:
        return [Item() for _ in range(5)]

    @flow.step(num_workers=1)
    async def work(ev: Item, ctx: Context) -> Done:
        return Done(text=(await ctx.ask(Ask())).text)

    @flow.step
    async def total(ev: list[Done]) -> StopEvent:
        return StopEvent(result=[d.text for d in ev])

    run = flow.run()
    wait_for_questions(run, 5)
    ids = [r.id for r in run.requests]
    assert len(set(ids)) == 5
    for i in (3, 0, 4, 2, 1):
        run.answer(ids[i], text=str(i))
    assert run.result(20) == ["0", "1", "2", "3", "4"]


def test_c071_the_first_answer_stands():
    flow = Workflow[str]("stands")

    @flow.step
    async def work(ev: Start, ctx: Context) -> StopEvent:
        first = await ctx.ask(Ask())
        await ctx.ask(Ask(text="More?"))
        return StopEvent(result=first.text)

    run = flow.run()
    wait_for_questions(run)
    first = run.requests[0]
    first.answer(text="yes")
    with pytest.raises(AlreadyAnswered, match="text='yes'"):
        first.answer(text="no")
    wait_for_questions(run, numbers=[2])
    with pytest.raises(AlreadyAnswered):
        run.answer(first.id, text="no")
    first.answer(text="yes")  # the same again is harmless
    run.answer(text="end")
    assert run.result(20) == "yes"
    assert first.value == Reply(text="yes")


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_c073_after_the_first_answer_only_the_second_question_is_pending(kind: str):
    flow = Workflow[list[str]]("two")
    if kind == "async":

        @flow.step
        async def work(ev: Start, ctx: Context) -> StopEvent:
            a = await ctx.ask(Ask(text="A"))
            b = await ctx.ask(Ask(text="B"))
            return StopEvent(result=[a.text, b.text])
    else:

        @flow.step
        def work(ev: Start, ctx: Context) -> StopEvent:
            a = ctx.ask(Ask(text="A")).result()
            b = ctx.ask(Ask(text="B")).result()
            return StopEvent(result=[a.text, b.text])

    run = flow.run()
    wait_for_questions(run)
    assert [r.question.text for r in run.requests] == ["A"]
    run.answer(text="a")
    wait_for_questions(run, numbers=[2])
    assert [r.question.text for r in run.requests] == ["B"]
    run.answer(text="b")
    assert run.result(20) == ["a", "b"]


@pytest.mark.parametrize("how", ["timeout", "cancel", "finish"])
def test_c075_a_late_answer_is_refused_with_the_reason(how: str):
    clock = ManualClock()
    flow = Workflow[str]("late")

    @flow.step
    async def work(ev: Start, ctx: Context) -> StopEvent | Item:
        if how == "finish":
            asyncio.get_running_loop().call_later(0.01, ctx.send_event, Item())
        try:
            return StopEvent(result=(await ctx.ask(Ask(), timeout=0.2)).text)
        except AnswerTimeout:
            return StopEvent(result="timed out")

    @flow.step
    async def over(ev: Item) -> StopEvent:
        return StopEvent(result="over")

    async def main() -> None:
        run = flow.with_options(clock=clock).run()
        await until(lambda: len(run.requests.all()) == 1)
        request = run.requests.all()[0]
        if how == "timeout":
            clock.advance(1)
            assert await run == "timed out"
        elif how == "cancel":
            await run.cancel()
            with pytest.raises(WorkflowCancelledByUser):
                await run
        else:
            assert await run == "over"
        status = {"timeout": "expired", "cancel": "closed", "finish": "closed"}[how]
        assert request.status == status
        before = run.debug.ticks
        with pytest.raises(RequestClosed, match=f"no longer open .{status}"):
            request.answer(text="yes")
        assert run.debug.ticks == before
        assert "RequestAnswered" not in [type(t).__name__ for t in before]

    asyncio.run(main())


def test_c077_answers_are_for_runs_that_exist(tmp_path: Any):
    """Events from outside that come before anybody takes them are kept in the order of sending."""
    flow = Workflow[list[str]]("early", accepts=[Done])

    @flow.step
    async def begin(ev: Start) -> None: ...

    @flow.step
    async def take(ev: Done, ctx: Context) -> StopEvent | None:
        async with ctx.state.edit() as state:
            state["got"] = [*state.get("got", []), ev.text]
            got = state["got"]
        return StopEvent(result=got) if len(got) == 2 else None

    async def main() -> Any:
        run = flow.run()
        run.send_event(Done(text="1"))
        run.send_event(Done(text="2"))
        return await run

    assert asyncio.run(main()) == ["1", "2"]


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_c063_questions_of_children_are_the_parents_and_each_answer_reaches_its_own(kind: str):
    inner = Workflow[Any]("inner")

    @inner.step
    async def first(ev: Start, ctx: Context) -> Done:
        return Done(text=(await ctx.ask(Ask(text="first"))).text)

    @inner.step
    async def second(ev: Done, ctx: Context) -> StopEvent:
        return StopEvent(result=[ev.text, (await ctx.ask(Ask(text="second"))).text])

    flow = Workflow[Any]("outer")
    if kind == "async":

        @flow.step
        async def work(ev: Start, ctx: Context) -> StopEvent:
            return StopEvent(result=await asyncio.gather(ctx.run(inner), ctx.run(inner)))
    else:

        @flow.step
        def work(ev: Start, ctx: Context) -> StopEvent:
            runs = [ctx.run(inner), ctx.run(inner)]
            return StopEvent(result=[run.result() for run in runs])

    run = flow.run(run_id=f"c063-{kind}")
    for round_, text in enumerate(("first", "second"), 1):
        wait_until(lambda: [r.question.text for r in run.requests] == [text] * 2)  # noqa: B023 - used at once
        ids = [r.id for r in run.requests]
        assert ids == [f"{run.run_id}/1/{child}:{round_}" for child in (1, 2)]
        for child in (2, 1):
            run.answer(ids[child - 1], text=f"{text} of {child}")
    assert run.result(20) == [["first of 1", "second of 1"], ["first of 2", "second of 2"]]


def test_c067_a_waiter_comes_first_in_its_step_and_other_steps_get_the_event_too():
    """R4.30, R4.33: the same receivers every time."""
    for _ in range(30):
        got: list[str] = []
        flow = Workflow[Any]("both")

        @flow.step
        async def a(ev: Start, ctx: Context) -> Done:
            got.append(f"a {(await ctx.wait_for_event(Reply)).text}")  # noqa: B023 - used at once
            return Done(text="a")

        @flow.step
        async def b(ev: Reply) -> Done:
            got.append(f"b {ev.text}")  # noqa: B023 - used at once
            return Done(text="b")

        @flow.step(num_workers=1)
        async def end(ev: Done, ctx: Context) -> StopEvent | None:
            return StopEvent() if ctx.collect_events(ev, [Done, Done]) else None

        run = flow.run()
        wait_until(lambda: run.status == "waiting")  # noqa: B023 - used at once
        run.send_event(Reply(text="x"))
        run.result(20)
        assert sorted(got) == ["a x", "b x"]


def test_c067_a_step_that_waits_for_what_it_takes_is_not_started_by_it_too():
    starts: list[str] = []
    flow = Workflow[Any]("itself")

    @flow.step
    async def begin(ev: Start) -> Item | Done:
        return Done(text="begin")

    @flow.step
    async def waits(ev: Done, ctx: Context) -> StopEvent:
        starts.append(ev.text)
        return StopEvent(result=(await ctx.wait_for_event(Done)).text)

    @flow.step
    async def unused(ev: Item) -> None: ...

    run = flow.run()
    wait_until(lambda: run._runner.state.side.waiters.n == 1)
    run.send_event(Done(text="reply"))
    assert run.result(20) == "reply"
    assert starts == ["begin"]


def test_c069_a_restored_run_asks_what_was_open_and_nothing_twice():
    """The snapshot goes through JSON and on as another run."""
    starts: list[str] = []
    flow = Workflow[Any]("restored")

    @flow.step
    async def one(ev: Start, ctx: Context) -> Done:
        starts.append("one")
        return Done(text=(await ctx.ask(Ask(text="Q1"))).text)

    @flow.step
    async def two(ev: Done, ctx: Context) -> StopEvent:
        starts.append("two")
        return StopEvent(result=[ev.text, (await ctx.ask(Ask(text="Q2"))).text])

    run = flow.run()
    wait_for_questions(run)
    run.answer(text="A1")
    wait_for_questions(run, numbers=[2])
    plain = json.loads(json.dumps(run.snapshot()))
    run.cancel().result(20)
    again = flow.resume(plain)
    wait_for_questions(again)
    assert [r.question.text for r in again.requests] == ["Q2"]
    assert starts == ["one", "two"]
    assert list(again.now.waiting) == ["two"]
    assert [len(found) for found in again.now.waiting.values()] == [1]
    again.answer(text="A2")
    assert again.result(20) == ["A1", "A2"]
    assert starts == ["one", "two", "two"]
    assert [r.question.text for r in again.requests.all()] == ["Q2"]
