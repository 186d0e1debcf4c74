"""Open questions in words and as forms without a panel."""

import asyncio
import re
import time
from contextlib import suppress
from typing import Any

import ipywidgets
import pytest
from pydantic import BaseModel, SecretStr

from flownb import Context, InputRequiredEvent, StopEvent, Workflow, options
from flownb.defaults import Options
from flownb.errors import RequestClosed, RequestError
from flownb.events import Question
from flownb.forms import endings
from flownb.forms.endings import (
    answer_in_words,
    due_in_words,
    ending,
    give,
    hold,
    time_left,
    title_of,
    too_late,
)
from flownb.notebook import kernel, questions
from flownb.notebook.questions import form_for, show_form
from flownb.runtime.results import value_out
from flownb.testing import ManualClock
from tests.notebook.panels import Begin, Odd, Review, Verdict, head_of, inside, on_engine, widget_of
from tests.polling import wait_for_questions, wait_until


def asks(question: Any, clock: ManualClock | None = None, **more: Any) -> Any:
    """A run that asks one question."""
    flow = Workflow("asks")

    @flow.step
    async def ask(ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.ask(question, **more))

    settings = {"clock": clock} if clock is not None else {}
    run = flow.with_options(host="thread", **settings).run()
    wait_for_questions(run)
    return run


class Bare(InputRequiredEvent[Verdict]):
    pass


@pytest.mark.parametrize(
    ("question", "title"),
    [
        (Odd(no=7, prefix="Keep row 7?"), "Keep row 7?"),
        (Odd(no=7), "Odd: no 7, prefix ''"),
        (Bare(), "Bare"),
        ("Sure?", "Sure?"),
    ],
)
def test_a_title_is_what_is_asked_else_the_class_and_its_fields(question: Any, title: str):
    run = asks(question)
    assert title_of(run.requests[0]) == title
    run.cancel()


def test_the_countdown_names_the_default_or_says_that_it_closes():
    """R4.54, R4.55."""
    clock = ManualClock(1_000.0)
    run = asks("Colour?", clock, timeout=125, default="red")
    assert time_left(run.requests[0]) == "default red in 2:05"
    assert re.fullmatch(r"default red at \d\d:18:45", due_in_words(run.requests[0]))
    clock.advance(65.4)
    assert time_left(run.requests[0]) == "default red in 1:00"
    run.cancel()
    run = asks("Sure?", ManualClock(1_000.0), answer=bool, timeout=3 * 3600 + 59, default=False)
    assert time_left(run.requests[0]) == "default reject in 3:00:59"
    run.cancel()
    run = asks("Colour?", ManualClock(1_000.0), timeout=2 * 86_400)
    assert time_left(run.requests[0]).startswith("closes in 48:00:00")
    assert re.fullmatch(r"closes on 1970-01-03 at \d\d:\d\d:\d\d", due_in_words(run.requests[0]))
    run.cancel()
    run = asks("Colour?")
    assert (time_left(run.requests[0]), due_in_words(run.requests[0])) == ("", "")
    assert endings.asks(run.requests[0]) == "ask asks: Colour?"
    run.cancel()


class Key(BaseModel):
    name: str = ""
    key: SecretStr = SecretStr("")
    size: int = 3


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (True, "approve"),
        (False, "reject"),
        ("blue", "blue"),
        ("", "''"),
        (7, "7"),
        (None, "None"),
        (Verdict(decision="keep"), "keep"),
        (Verdict(decision="keep", note="as agreed"), "decision keep, note as agreed"),
        (Key(), "Key(name='', key=••••••, size=3)"),
        (Key(key=SecretStr("hunter2")), "••••••"),
        ("x" * 500, "x" * 119 + "…"),
        ("a\nb\u202e", "a b\\u202e"),
    ],
)
def test_an_answer_is_said_as_people_say_it(value: Any, words: str):
    """Only what was given, without quotes; never a secret, never two lines."""
    assert answer_in_words(value) == words


CLOCK = r"at \d\d:\d\d:\d\d"


@pytest.mark.parametrize(
    ("answer", "kind", "by", "said"),
    [
        ("blue", str, "ann", rf"Answered by ann {CLOCK}: blue"),
        ("blue", str, "", rf"Answered {CLOCK}: blue"),
        (True, bool, "ann", rf"Approved by ann {CLOCK}"),
        (False, bool, "ann", rf"Rejected by ann {CLOCK}"),
    ],
)
def test_the_end_of_a_question_says_who_when_and_what(answer: Any, kind: Any, by: str, said: str):
    """R4.49."""
    run = asks("Colour?", answer=kind)
    request = run.requests[0]
    assert (ending(request), too_late(request), request.how, request.ended_at) == ("", "", "", None)
    request.answer(answer, by=by)
    assert re.fullmatch(said, ending(request))
    assert request.how == "person"
    assert request.ended_at is not None and abs(request.ended_at - time.time()) < 60


def test_who_answers_is_the_user_of_the_process(monkeypatch: pytest.MonkeyPatch):
    """R4.49: `options.user`, of the environment or set."""
    for name in ("FLOWNB_USER", "JUPYTERHUB_USER", "USER"):
        monkeypatch.delenv(name, raising=False)
    for name in ("USER", "JUPYTERHUB_USER", "FLOWNB_USER"):
        monkeypatch.setenv(name, f"from {name}")
        assert Options().user == f"from {name}"
    monkeypatch.setenv("FLOWNB_USER", "")
    assert Options().user == "", "nobody's name is to be recorded"
    for name in ("FLOWNB_USER", "JUPYTERHUB_USER", "USER"):
        monkeypatch.delenv(name)
    monkeypatch.setattr("getpass.getuser", lambda: "login")
    assert Options().user == "login"
    monkeypatch.setattr(options, "user", "eve")
    run = asks("Colour?")
    request = run.requests[0]
    request.answer("blue")
    assert request.by == "eve"
    assert ending(request).startswith("Answered by eve at ")


def test_the_end_by_the_clock_says_so():
    """R4.54: never a person's "no"."""
    clock = ManualClock(1_000.0)
    run = asks("Sure?", clock, answer=bool, timeout=10, default=False)
    request = run.requests[0]
    clock.advance(11)
    assert run.result(timeout=10) is False
    assert re.fullmatch(rf"The deadline passed {CLOCK}: the default reject was taken", ending(request))
    assert (request.how, request.by) == ("default", "")
    with pytest.raises(RequestClosed, match=r"Too late\. The deadline passed .* the default reject was taken"):
        give(request, True)


def test_an_event_and_a_policy_are_recorded_as_what_they_are(monkeypatch: pytest.MonkeyPatch):
    """R4.51, R4.63, R4.65."""

    flow = Workflow("ahead")

    @flow.step
    async def ask(ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=[await ctx.ask("One?", key="1"), (await ctx.ask(Odd(no=1), key="2")).decision])

    @flow.step
    async def other(ev: Verdict) -> None: ...

    run = flow.with_options(
        host="thread", answers={Question: "yes"}, input_handler=lambda request: Verdict(decision="drop")
    ).run()
    assert run.result(timeout=10) == ["yes", "drop"]
    one, two = run.requests.all()
    assert [(r.how, r.by) for r in (one, two)] == [("policy", "given ahead"), ("policy", "input_handler")]
    assert re.fullmatch(rf"Answered by an answer given ahead {CLOCK}: yes", ending(one))
    assert re.fullmatch(rf"Answered by the input_handler {CLOCK}: drop", ending(two))
    monkeypatch.setattr(options, "user", "bob")
    run = asks(Odd(no=1))
    request = run.requests[0]
    run.send_event(Verdict(decision="keep"))
    run.result(timeout=10)
    assert request.how == "event"
    assert re.fullmatch(rf"Answered by an event of bob {CLOCK}: keep", ending(request))


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (lambda run: run.requests[0].dispose("not needed"), rf"Disposed of by bob {CLOCK}: not needed"),
        (lambda run: run.requests[0].dispose(), rf"Disposed of by bob {CLOCK}: no answer was taken"),
        (lambda run: run.cancel("enough"), rf"The run was cancelled by bob {CLOCK}: no answer was taken"),
    ],
)
def test_the_end_without_an_answer_says_so(monkeypatch: pytest.MonkeyPatch, end: Any, said: str):
    """R4.48, R4.52: who is late is told what closed it."""
    monkeypatch.setattr(options, "user", "bob")
    run = asks("Colour?")
    request = run.requests[0]
    end(run)
    wait_until(run.is_done)
    assert re.fullmatch(said, ending(request))
    assert request.how == ""
    with pytest.raises(RequestClosed) as told:
        give(request, "red")
    assert re.fullmatch(rf"Too late\. {said}\.", str(told.value))


def test_a_deadline_without_a_default_and_a_question_that_was_given_up_say_so():
    """R4.55, R4.75."""
    clock = ManualClock(1_000.0)
    run = asks("Colour?", clock, timeout=5)
    request = run.requests[0]
    clock.advance(6)
    wait_until(run.is_done)
    assert re.fullmatch(rf"The deadline passed {CLOCK}: there was no default, and no answer was taken", ending(request))
    flow = Workflow("gives up")

    @flow.step
    async def ask(ev: Begin, ctx: Context) -> StopEvent:
        with suppress(TimeoutError):
            await asyncio.wait_for(ctx.ask("Colour?"), 0.01)
        return StopEvent()

    run = flow.with_options(host="thread").run()
    run.result(timeout=10)
    request = run.requests.all()[0]
    assert re.fullmatch(rf"Its step gave it up {CLOCK}: no answer was taken", ending(request))


def test_a_second_answer_is_told_who_was_first_and_the_same_once_more_is_harmless():
    """C071, R4.47."""
    run = asks("Colour?")
    request = run.requests[0]
    request.answer("blue", by="ann")
    give(request, "blue")
    with pytest.raises(RequestClosed) as told:
        give(request, "red")
    assert re.fullmatch(rf"Too late\. Answered by ann {CLOCK}: blue\.", str(told.value))


def test_hold_stops_the_countdown_once_and_says_when_it_cannot():
    """R4.56."""
    clock = ManualClock(1_000.0)
    run = asks("Colour?", clock, timeout=5, default="red")
    request = run.requests[0]
    hold(request)
    hold(request)
    wait_until(lambda: request.deadline is None)
    hold(request)
    clock.advance(60)
    assert request.status == "open"
    request.answer("blue", by="ann")
    with pytest.raises(RequestClosed, match=r"Too late\. Answered by ann"):
        hold(request)
    assert run.result(timeout=10) == "blue"
    run = asks("Colour?")
    with pytest.raises(RequestError, match="has no deadline"):
        hold(run.requests[0])
    run.cancel()


def test_a_form_shows_step_place_prompt_and_payload():
    run = asks(Odd(no=7, prefix="Keep it?"))
    form = form_for(run.requests[0], "1 of 2")
    head = head_of(form.box)
    for words in ("ask (1 of 2)", "Keep it?", ">no<", ">7<"):
        assert words in head
    assert ">prefix<" not in head
    form.close()
    run.cancel()


# -- forms alone


def send(box: Any, decision: str) -> None:
    """Fill the only radio of a form in, and press its button."""
    radio = next(w for w in inside(box) if isinstance(w, ipywidgets.RadioButtons))
    radio.label = decision
    widget_of(box, "flownb-send").click()


def test_a_request_has_a_form_of_its_own_that_answers():
    run = Review().run(n=1)
    wait_for_questions(run)
    box = run.requests[0].form()
    send(box, "drop")
    assert run.result(timeout=10) == 1
    wait_until(lambda: "drop" in head_of(box) and not widget_of(box, "flownb-send"))
    assert run.requests.all()[0].value == Verdict(decision="drop")
    assert run._runner.listeners == [] or on_engine(run, lambda: run._runner.listeners) == []


def test_a_form_alone_says_when_the_question_is_answered_elsewhere():
    run = Review().run(n=1)
    wait_for_questions(run)
    request = run.requests[0]
    box = request.form()
    run.answer(decision="keep", by="bob")
    wait_until(lambda: "Answered by bob" in head_of(box))
    late = show_form(request)
    assert "Answered by bob" in head_of(late)
    assert widget_of(late, "flownb-send") is None


def test_a_form_alone_can_be_held_and_shows_what_went_wrong():
    """R4.56, R4.64."""
    run = asks("Colour?", ManualClock(1_000.0), timeout=50, default="red")
    request = run.requests[0]
    box = request.form()
    assert "default red in 0:50" in head_of(box)
    button = widget_of(box, "flownb-hold")
    button.click()
    wait_until(lambda: "held: no deadline" in head_of(box))
    assert (button.description, button.disabled) == ("Held", True)
    run._runner.questions.errors[1] = "ValueError: no answer today"
    on_engine(run, run._runner.tell)
    assert "no answer today" in head_of(box)
    run.cancel()
    wait_until(lambda: "The run was cancelled" in head_of(box))


def test_a_form_begins_with_the_answer_of_the_question_whose_place_it_took():
    """R4.70."""
    run = asks(Odd(no=7))
    request = run.requests[0]
    run._runner.questions.drafts[0] = value_out(Verdict(decision="drop", note="old"))
    form = form_for(request, "")
    assert (form.values["decision"], form.values["note"]) == ("drop", "old")
    form.close()
    run.cancel()


def test_requests_as_an_output_show_at_most_three_forms(monkeypatch: pytest.MonkeyPatch):
    shown: list[Any] = []
    monkeypatch.setattr(questions, "_display", lambda value, **more: shown.append(value))
    monkeypatch.setattr(kernel, "has_front_end", lambda: True)
    run = Review().run(n=5)
    wait_for_questions(run, 5)
    run.requests._ipython_display_()
    assert len(shown) == 4
    assert shown[-1]["text/plain"].startswith("<5 open questions: ")
    shown.clear()
    monkeypatch.setattr(kernel, "has_front_end", lambda: False)
    run.requests._ipython_display_()
    assert [list(value) for value in shown] == [["text/plain"]]
    run.cancel()


def test_a_cell_that_is_run_again_closes_the_forms_that_it_showed(monkeypatch: pytest.MonkeyPatch):
    """Each is some twenty comms and a listener of the run."""
    run = asks(Odd(no=7))
    request = run.requests[0]
    boxes = []
    for n in range(3):
        message = {"header": {"msg_id": f"m{n}"}, "metadata": {"cellId": "cell"}}
        monkeypatch.setattr(kernel, "parent", lambda message=message: message)
        boxes += [request.form(), request.form()]
    on_engine(run, lambda: None)
    assert len(on_engine(run, lambda: list(run._runner.listeners))) == 2
    assert [box.comm is None for box in boxes] == [True] * 4 + [False] * 2
    run.cancel().result(20)
