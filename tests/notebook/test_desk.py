"""The questions of a panel: forms, rows and lines, what becomes of them, and clicks that come too late."""

import re
from typing import Any

import pytest

from flownb import Context, StopEvent, Workflow, options
from flownb.errors import AnswerTimeout
from flownb.notebook.panel import RunPanel
from flownb.testing import ManualClock
from tests.notebook.panels import (
    Asks,
    Begin,
    Odd,
    Review,
    Verdict,
    YesNo,
    choose,
    forms_of,
    head_of,
    inside,
    on_engine,
    panel_of,
    pick,
)
from tests.polling import wait_for_questions, wait_until

CLOCK = r"at \d\d:\d\d:\d\d"


def asking(n: int, flow: Workflow | None = None, **settings: Any) -> Any:
    """A run that has asked n questions."""
    run = (flow or Review()).with_options(**settings).run(n=n)
    wait_for_questions(run, n)
    return run


def listed(panel: RunPanel, name: str) -> list[Any]:
    """One fact of each open question, as the page has it."""
    return [q[name] for q in panel.view.live.get("questions", ())]


def titles(panel: RunPanel) -> list[str]:
    """What the open forms say who asks."""
    return [re.sub("<[^>]*>", "", form._head.value).split(")")[0] + ")" for form in panel.desk.forms.values()]


def ends(panel: RunPanel) -> list[str]:
    return [end["text"] for end in panel.view.live.get("answers", ())]


# -- which are open


def test_three_of_five_forms_open_and_the_others_on_demand():
    """PANEL §1: at most three, oldest first."""
    run = asking(5)
    with panel_of(run) as (panel, page):
        wait_until(lambda: len(listed(panel, "id")) == 5)
        assert listed(panel, "open") == [True, True, True, False, False]
        assert listed(panel, "id") == [f"{run.run_id}:{n}" for n in range(1, 6)]
        assert panel.view.live["needs"] == 5
        assert titles(panel) == [f" Needs you: ask ({n} of 5)" for n in (1, 2, 3)]
        assert page.ask("form", request="5")["kind"] == "done"
        wait_until(lambda: listed(panel, "open") == [True, True, True, False, True])
        assert len(panel.children) == 5  # the view and four forms
        assert page.ask("form", request=f"{run.run_id}:4")["kind"] == "done"
        wait_until(lambda: listed(panel, "open") == [True] * 5)
        assert panel.children[1:] == tuple(forms_of(panel)[n].box for n in (1, 2, 3, 4, 5))  # by age


def test_the_count_is_right_when_some_are_answered_out_of_order():
    """ "2 of 5" becomes "1 of 3" when two older ones are gone."""
    run = asking(5)
    with panel_of(run) as (panel, _):
        wait_until(lambda: len(forms_of(panel)) == 3)
        choose(forms_of(panel)[2], "keep")
        wait_until(lambda: sorted(forms_of(panel)) == [1, 3, 4])
        wait_until(lambda: titles(panel) == [f" Needs you: ask ({n} of 4)" for n in (1, 2, 3)])
        run.answer("5", decision="drop")
        run.answer("1", decision="drop")
        wait_until(lambda: titles(panel) == [" Needs you: ask (1 of 2)", " Needs you: ask (2 of 2)"])
        assert sorted(forms_of(panel)) == [3, 4]
        choose(forms_of(panel)[3], "drop")
        wait_until(lambda: [form._head.value.count(" of ") for form in panel.desk.forms.values()] == [0])


def test_yes_no_questions_are_rows_of_the_page_and_share_the_three_places():
    run = asking(5, Asks())
    with panel_of(run) as (panel, page):
        wait_until(lambda: listed(panel, "open") == [True, True, True, False, False])
        assert listed(panel, "kind") == ["bool"] * 5
        assert listed(panel, "words") == ["default reject"] * 5
        assert panel.desk.forms == {}
        second = listed(panel, "id")[1]
        assert page.ask("later", request=second)["kind"] == "done"
        wait_until(lambda: listed(panel, "open") == [True, False, True, True, False])
        assert page.ask("form", request=second)["kind"] == "done"
        wait_until(lambda: listed(panel, "open") == [True, True, True, True, False])


def test_a_form_that_is_put_off_becomes_a_line_the_next_one_opens_and_it_comes_back_as_it_was_left():
    run = asking(4)
    with panel_of(run) as (panel, page):
        wait_until(lambda: sorted(forms_of(panel)) == [1, 2, 3])
        pick(forms_of(panel)[1], "drop")
        forms_of(panel)[1]._put_off()
        wait_until(lambda: sorted(forms_of(panel)) == [2, 3, 4])
        wait_until(lambda: listed(panel, "open") == [False, True, True, True])
        assert len(panel.children) == 4
        page.ask("form", request="1")
        wait_until(lambda: sorted(forms_of(panel)) == [1, 2, 3, 4])
        assert forms_of(panel)[1].values["decision"] == "drop"
        assert panel.children[1] is forms_of(panel)[1].box


# -- the countdown


def deadline(clock: ManualClock | None = None, default: Verdict | None = None) -> Any:
    flow = Workflow("deadline")

    @flow.step
    async def ask(ev: Begin, ctx: Context) -> StopEvent:
        try:
            return StopEvent(result=(await ctx.ask(Odd(no=1), timeout=500, default=default)).decision)
        except AnswerTimeout:
            return StopEvent(result="nobody")

    run = flow.with_options(host="thread", **({"clock": clock} if clock else {})).run()
    wait_for_questions(run)
    return run


def test_a_countdown_costs_no_message():
    """The page counts down by itself; a question that is open for days is silent."""
    run = deadline(default=Verdict(decision="drop"))
    with panel_of(run) as (panel, _):
        wait_until(lambda: forms_of(panel) and panel.view.graph["svg"])
        on_engine(run, panel.publish)
        assert re.search(rf"default drop {CLOCK}", head_of(forms_of(panel)[1].box))
        (question,) = panel.view.live["questions"]
        assert question["words"] == "default drop"
        assert abs(question["due"] - panel.view.live["now"] - 500) < 60
        assert f'data-request="{question["id"]}"' in head_of(forms_of(panel)[1].box)
        lives: list[Any] = []
        panel.view.observe(lives.append, "live")
        forms_of(panel)[1]._head.observe(lives.append, "value")
        for _ in range(3):
            on_engine(run, panel.publish)
        assert lives == []


def test_hold_stops_the_countdown_of_a_form_and_of_a_row():
    """R4.56: in the form by its button, in the page by an intent; twice is harmless."""
    clock = ManualClock(1_000.0)
    run = deadline(clock)
    with panel_of(run) as (panel, page):
        wait_until(lambda: forms_of(panel))
        form = forms_of(panel)[1]
        assert form._hold is not None
        form._hold.click()
        wait_until(lambda: listed(panel, "held") == [True])
        wait_until(lambda: "held: no deadline" in head_of(form.box))
        assert form._hold.disabled
        assert page.ask("hold", request="1")["kind"] == "done"
        clock.advance(1_000)
        assert run.requests[0].status == "open"
        choose(form, "keep")
        assert run.result(timeout=10) == "keep"
        told = page.ask("hold", request="1")
        assert re.fullmatch(rf"Too late\. Answered.* {CLOCK}: keep\.", told["text"])
    run = YesNo().run()
    wait_for_questions(run)
    with panel_of(run) as (_, page):
        assert "has no deadline" in page.ask("hold", request="1")["text"]


# -- how they end


def test_a_sent_form_becomes_a_line_that_says_who_when_and_what(monkeypatch: pytest.MonkeyPatch):
    """R4.49. The controls are closed, the line stays."""
    monkeypatch.setattr(options, "user", "ann")
    run = asking(1)
    with panel_of(run) as (panel, _):
        wait_until(lambda: forms_of(panel))
        form = forms_of(panel)[1]
        choose(form, "keep")
        form.submit()  # a double click
        assert run.result(timeout=10) == 1
        wait_until(lambda: panel.desk.lines() == {f"{run.run_id}:1"})
        assert re.search(rf"Answered by ann {CLOCK}: keep", head_of(form.box))
        assert form.box in panel.children
        assert form._send not in inside(form.box)
        assert ends(panel) == []  # it is said once
        form.submit()
        assert run.requests.all()[0].value == Verdict(decision="keep")


def test_only_the_last_three_ends_stay_in_sight_and_no_open_form_is_drawn_anew():
    """Boxes that go would make the page draw those after them again, under who types there."""
    run = asking(6)
    with panel_of(run) as (panel, _):
        for n in (1, 2, 3, 4, 5):
            wait_until(lambda: n in forms_of(panel))  # noqa: B023 - used at once
            before = panel.children
            choose(forms_of(panel)[n], "keep")
            wait_until(lambda: n not in forms_of(panel))  # noqa: B023 - used at once
            on_engine(run, panel.publish)
            assert panel.children[: len(before)] == before
        assert panel.desk.lines() == {f"{run.run_id}:{n}" for n in (3, 4, 5)}
        gone = [box for box in panel.children[1:] if "fl-past" in box._dom_classes]
        assert len(gone) == 2
        assert panel.view.live["earlier"] == 2
        choose(forms_of(panel)[6], "keep")
        run.result(timeout=10)
        wait_until(lambda: panel.desk.lines() == {f"{run.run_id}:{n}" for n in (4, 5, 6)})
        wait_until(lambda: len(panel.children) == 4)  # nobody types any more
        assert all(box.comm is None for box in gone)


def test_an_answer_given_elsewhere_closes_form_and_row_and_says_by_whom():
    run = asking(1)
    with panel_of(run) as (panel, _):
        wait_until(lambda: forms_of(panel))
        form = forms_of(panel)[1]
        run.answer(decision="drop", by="ann")
        wait_until(lambda: re.search(rf"Answered by ann {CLOCK}: drop", head_of(form.box)))
    run = YesNo().run()
    wait_for_questions(run)
    with panel_of(run) as (panel, _):
        wait_until(lambda: listed(panel, "open") == [True])
        run.answer(None, True, by="ann")
        wait_until(
            lambda: [re.fullmatch(rf"Approved by ann {CLOCK}", text) is not None for text in ends(panel)] == [True]
        )
        assert panel.view.live["answers"][0]["answer"] is True
        assert listed(panel, "id") == []


def test_a_deadline_and_a_cancel_close_a_form_in_words():
    """R4.54, R4.48: a default is no person's answer, a cancel is none at all."""
    clock = ManualClock(1_000.0)
    run = deadline(clock, Verdict(decision="drop"))
    with panel_of(run) as (panel, page):
        wait_until(lambda: forms_of(panel))
        form = forms_of(panel)[1]
        clock.advance(501)
        assert run.result(timeout=10) == "drop"
        wait_until(lambda: "The deadline passed" in head_of(form.box))
        assert "the default drop was taken" in head_of(form.box)
        assert run.requests.all()[0].status == "default"
        told = page.ask("answer", request="1", value={"decision": "keep"})
        assert told["text"].startswith("Too late. The deadline passed at")
    run = asking(1)
    with panel_of(run) as (panel, _):
        wait_until(lambda: forms_of(panel))
        form = forms_of(panel)[1]
        run.cancel().result(10)
        wait_until(lambda: "The run was cancelled" in head_of(form.box))
        assert "fl-unanswered" in form.box._dom_classes


def test_a_late_click_is_explained_at_the_row_and_at_the_form():
    """C071, C075: a click that was under way when somebody else answered."""
    run = asking(2, Asks())
    with panel_of(run) as (panel, page):
        wait_until(lambda: listed(panel, "open") == [True, True])
        one, two = listed(panel, "id")
        run.answer(one, True, by="ann")
        assert page.ask("answer", request=one, value=True)["kind"] == "done"  # the same again
        told = page.ask("answer", request=one, value=False)
        assert re.fullmatch(rf"Too late\. Approved by ann {CLOCK}\.", told["text"])
        assert re.fullmatch(rf"Too late\. Approved by ann {CLOCK}\.", page.ask("form", request=one)["text"])
        assert page.ask("later", request=one)["kind"] == "done"
        run.cancel().result(10)
        told = page.ask("answer", request=two, value=True)
        assert re.fullmatch(rf"Too late\. The run was cancelled.* {CLOCK}: no answer was taken\.", told["text"])
    run = asking(1)
    with panel_of(run) as (panel, _):
        wait_until(lambda: forms_of(panel))
        form = forms_of(panel)[1]
        pick(form, "keep")
        panel.closed = True  # the news have not come to the page yet
        run.answer(decision="drop", by="ann")
        form.submit()
        assert re.search(rf"Too late\. Answered by ann {CLOCK}: drop\.", form._note.value)
        panel.closed = False


def test_two_panels_of_one_run_close_each_others_forms():
    run = asking(1)
    with panel_of(run) as (one, _), panel_of(run) as (two, _):
        wait_until(lambda: forms_of(one) and forms_of(two))
        other = forms_of(two)[1]
        choose(forms_of(one)[1], "keep")
        wait_until(lambda: "Answered" in head_of(other.box))


# -- what goes wrong, and the bell


def test_an_answer_that_failed_is_shown_at_the_form_and_at_the_row():
    """R4.64."""

    def fails(request: Any) -> Any:
        raise ValueError("no model today")

    run = asking(1, input_handler=fails)
    with panel_of(run) as (panel, _):
        wait_until(lambda: forms_of(panel))
        wait_until(lambda: "ValueError: no model today" in forms_of(panel)[1]._note.value)
        choose(forms_of(panel)[1], "keep")
        assert run.result(timeout=10) == 1
    run = YesNo().with_options(input_handler=fails).run()
    wait_for_questions(run)
    with panel_of(run) as (panel, _):
        wait_until(lambda: listed(panel, "error") == ["ValueError: no model today"])


def test_the_bell_is_kept_with_the_panel_and_begins_as_the_options_say(monkeypatch: pytest.MonkeyPatch):
    run = asking(1)
    with panel_of(run) as (panel, page):
        wait_until(lambda: panel.view.live.get("notify") is False)
        assert page.ask("notify", on=True)["kind"] == "done"
        wait_until(lambda: panel.view.live["notify"] is True)
        assert page.ask("notify", on=False)["kind"] == "done"
        wait_until(lambda: panel.view.live["notify"] is False)
    monkeypatch.setattr(options, "notify", True)
    run = asking(1)
    with panel_of(run) as (panel, _):
        wait_until(lambda: panel.view.live.get("notify") is True)


def test_an_answer_that_pydantic_has_no_schema_for_is_asked_for_as_json():
    """The panel is drawn, and the question has a form and says at the door what is wrong with its type."""

    class Plain:
        pass

    flow = Workflow[Any]("plain")

    @flow.step
    async def ask(ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.ask("x", Plain))

    run = flow.with_options(host="thread").run(n=1)
    wait_for_questions(run)
    with panel_of(run) as (panel, _):
        wait_until(lambda: forms_of(panel))
        assert panel.view.live["needs"] == 1
    run.cancel().result(20)
