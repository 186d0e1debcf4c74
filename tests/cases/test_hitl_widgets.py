"""Cases of the tag *hitl* where a person sees them: panels, forms and their handlers, without a browser."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Store, Workflow, step
from flownb.errors import AnswerTimeout
from flownb.notebook.panel import RunPanel
from flownb.testing import ManualClock
from tests.notebook.panels import forms_of, head_of, on_engine, panel_of, type_in
from tests.polling import wait_for_questions, wait_until

CLOCK = r"at \d\d:\d\d:\d\d"


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


def send(form: Any, text: str) -> None:
    """Fill the only field in and send it."""
    type_in(form, text)
    form.submit()


def asked(panel: Any) -> dict[str, Any]:
    """The open forms of a panel by question."""
    return dict(panel.desk.forms)


def listed(panel: Any) -> list[str]:
    return [q["id"] for q in panel.view.live.get("questions", ())]


def test_c063_questions_of_children_stand_in_the_parents_panel_and_each_form_reaches_its_own():
    """Two children ask at once, with equal numbers: two forms, in each round."""
    inner = Workflow[Any]("inner")

    @inner.step
    async def first(ev: Start, ctx: Context) -> Done:
        return Done(text=(await ctx.ask(Ask(text="first"))).text)

    @inner.step
    async def second(ev: Done, ctx: Context) -> StopEvent:
        return StopEvent(result=[ev.text, (await ctx.ask(Ask(text="second"))).text])

    flow = Workflow[Any]("outer")

    @flow.step
    async def work(ev: Start, ctx: Context) -> StopEvent:
        return StopEvent(result=await asyncio.gather(ctx.run(inner), ctx.run(inner)))

    run = flow.run()
    with panel_of(run) as (panel, page):
        for round_, text in enumerate(("first", "second"), 1):
            ids = [f"{run.run_id}/1/{child}:{round_}" for child in (1, 2)]
            wait_until(lambda: sorted(asked(panel)) == ids)  # noqa: B023 - used at once
            assert sorted(listed(panel)) == ids
            assert all(f">&#x27;{text}&#x27;<" in head_of(form.box) for form in asked(panel).values())
            for child in (2, 1):
                send(asked(panel)[ids[child - 1]], f"{text} of {child}")
        assert run.result(20) == [["first of 1", "second of 1"], ["first of 2", "second of 2"]]
        wait_until(lambda: not asked(panel))
        told = page.ask("answer", request=f"{run.run_id}/1/2:1", value={"text": "another"})
        assert re.fullmatch(rf"Too late\. Answered.* {CLOCK}: first of 2\.", told["text"])


def test_c063_what_a_child_waits_for_is_heard_while_its_parent_does_nothing():
    """A deadline that is held and an error are news of the child alone."""

    def fails(request: Any) -> Any:
        raise ValueError("no model today")

    inner = Workflow[Any]("inner")

    @inner.step
    async def ask(ev: Start, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.ask("Sure?", bool, timeout=600, default=False))

    flow = Workflow[Any]("outer")

    @flow.step
    async def work(ev: Start, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.run(inner))

    run = flow.with_options(input_handler=fails).run()
    with panel_of(run) as (panel, page):
        wait_until(lambda: [q["error"] for q in panel.view.live.get("questions", ())] == ["ValueError: no model today"])
        (question,) = panel.view.live["questions"]
        assert page.ask("hold", request=question["id"])["kind"] == "done"
        wait_until(lambda: [q["held"] for q in panel.view.live["questions"]] == [True])
        assert page.ask("answer", request=question["id"], value=True)["kind"] == "done"
        assert run.result(20) is True
        wait_until(lambda: [end["text"][:8] for end in panel.view.live["answers"]] == ["Approved"])


def test_c065_five_equal_questions_are_five_forms_and_are_answered_in_any_order():
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
    with panel_of(run) as (panel, page):
        wait_until(lambda: len(set(listed(panel))) == 5)
        for n in (4, 1, 5, 3, 2):
            page.ask("form", request=str(n))
            wait_until(lambda: n in forms_of(panel))  # noqa: B023 - used at once
            send(forms_of(panel)[n], str(n))
        assert run.result(20) == ["1", "2", "3", "4", "5"]


def both(got: list[str]) -> Workflow[Any]:
    """A step that waits for what another step takes."""
    flow = Workflow[Any]("both")

    @flow.step
    async def a(ev: Start, ctx: Context) -> Done:
        got.append(f"a {(await ctx.wait_for_event(Reply, waiter_event=Ask())).text}")
        return Done(text="a")

    @flow.step
    async def b(ev: Reply) -> Done:
        got.append(f"b {ev.text}")
        return Done(text="b")

    @flow.step(num_workers=1)
    async def end(ev: Done, ctx: Context) -> StopEvent | None:
        return StopEvent() if ctx.collect_events(ev, [Done]) else None

    return flow


def test_c067_the_form_of_a_wait_answers_the_waiter_that_shows_it():
    """R4.24, R4.30: the form's answer goes to its asker alone, every time."""
    for _ in range(5):
        got: list[str] = []
        run = both(got).run()
        wait_for_questions(run)
        with panel_of(run) as (panel, _page):
            wait_until(lambda: forms_of(panel))
            form = forms_of(panel)[1]
            send(form, "x")
            run.result(20)
            wait_until(lambda: "Answered" in head_of(form.box))  # noqa: B023 - used at once
        assert got == ["a x"]


class Letters(Workflow):
    @step
    async def one(self, ev: Start, ctx: Context) -> Done:
        return Done(text=(await ctx.ask(Ask(text="Q1"))).text)

    @step
    async def two(self, ev: Done, ctx: Context) -> StopEvent:
        return StopEvent(result=[ev.text, (await ctx.ask(Ask(text="Q2"))).text])


def test_c069_a_resumed_run_shows_the_open_form_and_how_the_others_ended(tmp_path: Path):
    """Q1 is not asked again; the panel says who answered it, before the restart."""
    first = Store(tmp_path / "runs.db")
    run = Letters().with_options(store=first).run(run_id="c069")
    panel = RunPanel(run.view.screen, compact=False)
    wait_until(lambda: forms_of(panel))
    send(forms_of(panel)[1], "A1")
    wait_for_questions(run, numbers=[2])
    run.suspend().result(20)
    panel.close()
    first.close()
    again = Letters().with_options(store=Store(tmp_path / "runs.db")).resume("c069")
    wait_for_questions(again, numbers=[2])
    with panel_of(again) as (panel, _):
        wait_until(lambda: list(forms_of(panel)) == [2])
        assert ">&#x27;Q2&#x27;<" in head_of(forms_of(panel)[2].box)
        wait_until(lambda: panel.view.live.get("answers"))
        (end,) = panel.view.live["answers"]
        assert (end["step"], end["answer"]) == ("one", True)
        assert re.fullmatch(rf"Answered.* {CLOCK}: A1", end["text"])
        send(forms_of(panel)[2], "A2")
        assert again.result(20) == ["A1", "A2"]


def test_c071_the_first_answer_stands_and_who_sends_another_is_told_so():
    """A second tab that has not heard yet; the same answer once more is harmless; a fork asks anew."""
    run = Letters().run()
    wait_for_questions(run)
    with panel_of(run) as (panel, _):
        wait_until(lambda: forms_of(panel))
        form, stale = forms_of(panel)[1], run.requests[0].form()
        send(form, "yes")
        form.submit()
        wait_until(lambda: "Answered" in head_of(stale))
        assert re.search(rf"Answered.* {CLOCK}: yes", head_of(stale))
        wait_for_questions(run, numbers=[2])
        assert run.requests.all()[0].value == Reply(text="yes")
        fork = run.debug.fork(
            at=next(n for n, t in enumerate(run.debug.ticks, 1) if "Answered" in type(t).__name__) - 1
        )
        wait_for_questions(fork)
        with panel_of(fork) as (other, _page):
            wait_until(lambda: forms_of(other))
            send(forms_of(other)[1], "no")
            wait_for_questions(fork, numbers=[2])
        assert fork.requests.all()[0].value == Reply(text="no")
        assert run.requests.all()[0].value == Reply(text="yes")


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_c073_after_the_first_answer_only_the_second_form_is_open(kind: str):
    flow = Workflow[list[str]]("two")
    if kind == "async":

        @flow.step
        async def work(ev: Start, ctx: Context) -> StopEvent:
            return StopEvent(result=[(await ctx.ask(Ask(text=text))).text for text in "AB"])
    else:

        @flow.step
        def work(ev: Start, ctx: Context) -> StopEvent:
            return StopEvent(result=[ctx.ask(Ask(text=text)).result().text for text in "AB"])

    run = flow.run()
    with panel_of(run) as (panel, _):
        wait_until(lambda: list(forms_of(panel)) == [1])
        send(forms_of(panel)[1], "a")
        wait_until(lambda: list(forms_of(panel)) == [2])
        wait_until(lambda: listed(panel) == [f"{run.run_id}:2"])
        assert panel.desk.lines() == {f"{run.run_id}:1"}
        send(forms_of(panel)[2], "b")
        assert run.result(20) == ["a", "b"]


@pytest.mark.parametrize("how", ["timeout", "cancel", "finish"])
def test_c075_a_late_click_is_refused_with_the_reason_and_the_form_says_it_is_over(how: str):
    """A timeout is never shown as a person's "no"."""
    clock = ManualClock()
    flow = Workflow[str]("late", accepts=[Item])

    @flow.step
    async def work(ev: Start, ctx: Context) -> StopEvent:
        try:
            return StopEvent(result=(await ctx.ask(Ask(), timeout=0.2)).text)
        except AnswerTimeout:
            return StopEvent(result="timed out")

    @flow.step
    async def over(ev: Item) -> StopEvent:
        return StopEvent(result="over")

    run = flow.with_options(clock=clock, host="thread").run()
    wait_for_questions(run)
    with panel_of(run) as (panel, page):
        wait_until(lambda: forms_of(panel))
        form = forms_of(panel)[1]
        type_in(form, "yes")
        if how == "timeout":
            clock.advance(1)
        elif how == "cancel":
            run.cancel()
        else:
            run.send_event(Item())
        wait_until(run.is_done)
        before = run.debug.ticks
        form.submit()
        said = {
            "timeout": "The deadline passed .*: there was no default, and no answer was taken",
            "cancel": "The run was cancelled.*: no answer was taken",
            "finish": "The run was over .*: no answer was taken",
        }[how]
        wait_until(lambda: "fl-unanswered" in form.box._dom_classes)
        wait_until(lambda: re.search(said, form._head.value))
        assert re.fullmatch(f"Too late\\. {said}\\.", page.ask("answer", request="1", value={"text": "yes"})["text"])
        assert run.debug.ticks == before
        assert "RequestAnswered" not in [type(t).__name__ for t in before]
        assert re.search(said, run.view.screen.twin().html())


def test_c077_a_form_that_was_sent_while_the_run_was_paused_is_taken_when_it_goes_on():
    """An answer that is accepted is never lost, and the form says so at once."""
    run = Letters().run()
    wait_for_questions(run)
    with panel_of(run) as (panel, _):
        wait_until(lambda: forms_of(panel))
        run.pause().result(20)
        form = forms_of(panel)[1]
        send(form, "early")
        wait_until(lambda: re.search(rf"Answered.* {CLOCK}: early", head_of(form.box)))
        assert run.status == "paused"
        run.cont()
        wait_for_questions(run, numbers=[2])
        run.answer(text="late")
        assert run.result(20) == ["early", "late"]


def test_c079_answers_given_ahead_and_questions_that_nobody_answers_are_in_the_twin():
    """What a nightly job leaves behind: who answered is said as what it is, and what is still asked."""
    flow = Workflow[Any]("night")

    @flow.step
    async def work(ev: Start, ctx: Context) -> StopEvent:
        first = await ctx.ask(Ask(text="Q1"))
        return StopEvent(result=[first.text, await ctx.ask("Really?", bool, timeout=600, default=False)])

    run = flow.with_options(answers={Ask: {"text": "ahead"}}, answers_if="always").run()
    wait_for_questions(run, numbers=[2])
    html = on_engine(run, run.view.screen.twin).html()
    assert re.search(
        rf"<li>work: Ask: text &#x27;Q1&#x27; · Answered by an answer given ahead {CLOCK}: ahead</li>", html
    )
    assert re.search(
        rf"<p>Waits for a person</p><ul><li>work asks: Really\? \(default reject {CLOCK}\)</li></ul>", html
    )
    assert [(r.how, r.by) for r in run.requests.all()] == [("policy", "given ahead"), ("", "")]
    run.answer(None, True, by="ann")
    assert run.result(20) == ["ahead", True]
    html = on_engine(run, run.view.screen.twin).html()
    assert re.search(rf"<li>work: Really\? · Approved by ann {CLOCK}</li>", html)
    assert "Waits for a person" not in html
