"""Cases of the tag *errors*: what a person reads when something went wrong."""

import asyncio
import json
import traceback
from typing import Any

import pytest

from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Workflow
from flownb.errors import WorkflowCancelledByUser, WorkflowTimeoutError
from flownb.events import WorkflowCancelledEvent, WorkflowFailedEvent, WorkflowTimedOutEvent
from flownb.testing import ManualClock
from tests.notebook.panels import Review, panel_of
from tests.polling import until, wait_for_questions, wait_until


class Start(StartEvent):
    pass


def deeper() -> None:
    deepest()


def deepest() -> None:
    raise ValueError("x") from KeyError("y")


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_c135_the_users_error_arrives_as_it_is(kind: str):
    flow = Workflow[Any]("raises")
    if kind == "async":

        @flow.step
        async def work(ev: Start) -> StopEvent:
            deeper()
            return StopEvent()
    else:

        @flow.step
        def work(ev: Start) -> StopEvent:
            deeper()
            return StopEvent()

    run = flow.run()
    for _ in range(2):
        with pytest.raises(ValueError, match="x") as caught:
            run.result(20)
        error = caught.value
        assert type(error) is ValueError
        assert isinstance(error.__cause__, KeyError)
        assert [f.name for f in traceback.extract_tb(error.__traceback__)][-3:] == ["work", "deeper", "deepest"]
        assert len(error.__notes__) == 1
        assert "'work'" in error.__notes__[0]


class Verdict(HumanResponseEvent):
    ok: bool


class Approve(InputRequiredEvent[Verdict]):
    no: int = 0


class Item(Event):
    no: int


def test_c027_a_timeout_says_where():
    clock = ManualClock()
    flow = Workflow[Any]("where", timeout=0.2)

    @flow.step
    async def begin(ev: Start) -> list[Item]:
        return [Item(no=i) for i in range(2)]

    @flow.step
    async def works(ev: Item) -> Item:
        await asyncio.sleep(60)
        return ev

    @flow.step
    async def asks(ev: Item, ctx: Context) -> Item | None:
        if ev.no == 0:
            await ctx.ask(Approve(no=7))
        return None

    @flow.step
    async def total(ev: list[Item]) -> StopEvent:
        return StopEvent()

    async def main() -> None:
        run = flow.with_options(clock=clock).run(run_id="where")
        await until(lambda: len(run.requests) == 1)  # beside a step that works
        clock.advance(0.2)
        with pytest.raises(WorkflowTimeoutError) as caught:
            await run
        assert all(part in str(caught.value) for part in ("0.2", "works", "asks", "Approve"))
        last = [event async for event in run.stream_events()][-1]
        assert isinstance(last, WorkflowTimedOutEvent)
        assert (last.timeout, last.elapsed_seconds) == (0.2, pytest.approx(0.2))
        assert "works" in last.active_steps
        assert len(last.open_requests) == 1

    asyncio.run(main())


def test_c041_the_three_bad_ends_are_three_events_and_three_statuses():
    clock = ManualClock()
    flow = Workflow[Any]("ends", timeout=60)

    @flow.step
    async def work(ev: Start) -> StopEvent:
        if ev["how"] == "failed":
            raise ValueError("no disk")
        await asyncio.sleep(60)
        return StopEvent()

    async def end(how: str) -> tuple[str, Event]:
        run = flow.with_options(clock=clock).run(how=how)
        await until(lambda: run.now.running or run.is_done())
        if how == "cancelled":
            run.cancel("not needed")
        elif how == "timed_out":
            clock.advance(60)
        with pytest.raises((ValueError, WorkflowCancelledByUser, WorkflowTimeoutError)):
            await run
        last = [event async for event in run.stream_events()][-1]
        assert json.loads(last.model_dump_json())
        snapshot = json.loads(json.dumps(run.snapshot()))
        assert snapshot["status"] == ("running" if how == "cancelled" else how)
        return run.status, last

    async def main() -> None:
        status, failed = await end("failed")
        assert status == "failed"
        assert isinstance(failed, WorkflowFailedEvent)
        assert (failed.step_name, failed.exception_message) == ("work", "no disk")
        status, cancelled = await end("cancelled")
        assert status == "cancelled"
        assert isinstance(cancelled, WorkflowCancelledEvent)
        assert cancelled.reason == "not needed"
        status, late = await end("timed_out")
        assert status == "timed_out"
        assert isinstance(late, WorkflowTimedOutEvent)
        assert list(late.active_steps) == ["work"]

    asyncio.run(main())


def test_c087_what_goes_wrong_in_a_widget_is_read_in_the_widget_and_the_run_stays_answerable():
    run = Review().run(n=1)
    wait_for_questions(run)
    box = run.requests[0].form()
    next(leaf for leaf in _leaves(box) if "flownb-send" in leaf._dom_classes).click()  # nothing is filled in
    said = [str(leaf.value) for leaf in _leaves(box) if 'role="alert"' in str(getattr(leaf, "value", ""))]
    assert [word for text in said for word in ("Please fill this in.", "Please mend") if word in text] == [
        "Please fill this in.",
        "Please mend",
    ]
    assert [request.status for request in run.requests] == ["open"]
    run.answer(decision="keep")
    assert run.result(20) == 1

    flow = Workflow[Any]("raises")

    @flow.step
    async def work(ev: Start) -> StopEvent:
        raise ValueError("no such file")

    run = flow.with_options(host="thread").debug()
    wait_until(lambda: run.debug.inbox)
    with panel_of(run) as (panel, page):
        page.ask("step", n=1)
        wait_until(lambda: panel.view.live.get("error"))
        assert panel.view.live["error"] == {"step": "work", "type": "ValueError", "text": "no such file"}
    with pytest.raises(ValueError, match="no such file"):
        run.result(20)


def _leaves(box: Any) -> list[Any]:
    children = getattr(box, "children", ())
    return [leaf for child in children for leaf in _leaves(child)] if children else [box]
