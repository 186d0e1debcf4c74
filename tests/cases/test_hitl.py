"""Cases of the tag *hitl*: a person in the loop."""

import asyncio
from typing import Any

import pytest

from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Workflow
from flownb.errors import AlreadyAnswered, AnswerTimeout, RequestClosed, WorkflowCancelledByUser
from flownb.testing import ManualClock
from tests.polling import until, wait_until


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
    wait_until(lambda: len(run.requests) == 5)
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
    wait_until(lambda: len(run.requests) == 1)
    first = run.requests[0]
    first.answer(text="yes")
    with pytest.raises(AlreadyAnswered, match="text='yes'"):
        first.answer(text="no")
    wait_until(lambda: len(run.requests) == 1 and run.requests[0].number == 2)
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
    wait_until(lambda: [r.question.text for r in run.requests] == ["A"])
    run.answer(text="a")
    wait_until(lambda: [r.question.text for r in run.requests] == ["B"])
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
