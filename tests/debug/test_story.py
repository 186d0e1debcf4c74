"""The story of one event, step or tick."""

import asyncio
from typing import Any

import pytest

from flownb import Context, Event, StopEvent, Workflow
from flownb.core.commands import OpenRequest, StartStep, WakeStep
from flownb.errors import WorkflowConfigurationError
from tests.polling import wait_for_questions
from tests.runtime.flows import Approve, Asks, Begin, Count, Done, Item


def told(story: Any) -> list[tuple[int, str, list[str]]]:
    return [
        (line.seq, type(line.tick).__name__, [type(command).__name__ for command in line.commands]) for line in story
    ]


def test_the_story_of_a_step_is_its_ticks_and_what_starts_it():
    """R5.28, API §7: by function or name."""
    run = Count().run(n=2)
    run.result(20)
    story = run.debug.story("work")
    assert told(story) == [
        (2, "StepFinished", ["StartStep", "StartStep"]),
        (3, "StepFinished", []),
        (4, "StepFinished", []),
    ]
    assert run.debug.story(Count.work) == story
    assert all(isinstance(c, StartStep) and c.delivery.step == 1 for c in story[0].commands)
    assert repr(story).splitlines()[0].strip() == (
        "2  split finished with a list of 2, Item(no=0) and Item(no=1): work gets 2 and starts them; join has 0 of 2"
    )


def test_the_story_of_an_event_is_where_it_was_sent_and_the_deliveries_of_it():
    """API §7: the event itself, its class, its name."""
    run = Count().run(n=3)
    run.result(20)
    done = next(tick.seq for tick in run.debug.story(Done(no=1)))
    story = run.debug.story(Item(no=1))
    assert told(story) == [(2, "StepFinished", ["StartStep"]), (done, "StepFinished", [])]
    assert story[1].tick.outs[0].value == Done(no=1)
    of_all = run.debug.story(Item)
    assert told(of_all) == told(run.debug.story("Item"))
    assert [line.seq for line in of_all] == [2, 3, 4, 5]
    assert repr(run.debug.story("Nothing")) == "<an empty story>"


def test_the_story_of_a_tick_is_what_led_to_it_and_what_it_led_to():
    """API §7."""
    flow = Workflow[Any]("story")

    class Aside(Event):
        pass

    @flow.step
    async def first(ev: Begin) -> list[Item]:
        return [Item(no=0), Item(no=1)]

    @flow.step(num_workers=1)
    async def ask(ev: Item, ctx: Context) -> Done:
        if ev.no:
            await ctx.ask(Approve())
        return Done(no=ev.no)

    @flow.step
    async def last(ev: list[Done]) -> StopEvent:
        return StopEvent(result=1)

    run = flow.run()
    wait_for_questions(run)
    run.answer(ok=True)
    run.result(20)
    kinds = {type(tick).__name__: seq for seq, tick in enumerate(run.debug.ticks, 1)}
    opened, answered = kinds["WaitOpened"], kinds["RequestAnswered"]
    story = run.debug.story(opened)
    assert [line.seq for line in story] == [1, 2, opened, answered]
    assert any(type(command) is OpenRequest for command in story[2].commands)
    assert any(type(command) is WakeStep for command in story[3].commands)
    with pytest.raises(IndexError, match=f"ticks 1 to {len(run.debug.ticks)}, not 99"):
        run.debug.story(99)


def test_the_story_of_a_question():
    run = Asks().run()
    wait_for_questions(run)
    run.answer(ok=True)
    run.result(20)
    assert [name for _, name, _ in told(run.debug.story(Approve))] == ["WaitOpened"]
    assert [name for _, name, _ in told(run.debug.story("Verdict"))] == ["RequestAnswered"]


def test_a_story_is_of_something_in_the_run():
    run = Count().run()
    run.result(20)
    with pytest.raises(WorkflowConfigurationError, match="of an event, a step or a tick's number, not of None"):
        run.debug.story(None)


def test_a_story_can_be_read_while_the_run_goes_on():
    async def main() -> None:
        run = Count().run(n=50)
        while not run.is_done():
            run.debug.story("work")
            await asyncio.sleep(0)
        assert len(run.debug.story("work")) == 51

    asyncio.run(main())
