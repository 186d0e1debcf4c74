"""Open questions in words and as forms without a panel."""

import re
from collections.abc import Iterator
from typing import Any

import ipywidgets
import pytest

from flownb import Context, InputRequiredEvent, StopEvent, Workflow
from flownb.notebook import kernel, questions
from flownb.notebook.questions import deadline_note, ending_note, form_for, show_form, title_of
from flownb.testing import ManualClock
from tests.notebook.panels import Begin, Odd, Review, Verdict, on_engine
from tests.polling import wait_for_questions, wait_until


def asks(question: Any, clock: ManualClock | None = None, **options: Any) -> Any:
    """A run that asks one question."""
    flow = Workflow("asks")

    @flow.step
    async def ask(ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.ask(question, **options))

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
    clock = ManualClock(1_000.0)
    run = asks("Colour?", clock, timeout=125, default="red")
    assert deadline_note(run.requests[0]) == "default 'red' in 2:05"
    clock.advance(65.4)
    assert deadline_note(run.requests[0]) == "default 'red' in 1:00"
    run.cancel()
    run = asks("Colour?", ManualClock(1_000.0), timeout=59)
    assert deadline_note(run.requests[0]) == "closes in 0:59"
    run.cancel()
    run = asks("Colour?")
    assert deadline_note(run.requests[0]) == ""
    run.cancel()


def test_the_end_of_a_question_says_who_when_and_what():
    run = asks("Colour?")
    request = run.requests[0]
    request.answer("blue", by="ann")
    assert re.fullmatch(r"answered by ann at \d\d:\d\d:\d\d: 'blue'", ending_note(request))
    run = asks("Colour?")
    request = run.requests[0]
    request.answer("blue", by="")
    assert re.fullmatch(r"answered at \d\d:\d\d:\d\d: 'blue'", ending_note(request))


def test_the_end_by_the_clock_says_so():
    clock = ManualClock(1_000.0)
    run = asks("Colour?", clock, timeout=10, default="red")
    request = run.requests[0]
    clock.advance(11)
    assert run.result(timeout=10) == "red"
    assert re.fullmatch(r"the default was taken at \d\d:\d\d:\d\d: 'red'", ending_note(request))


def test_the_end_without_an_answer_says_so():
    run = asks("Colour?")
    request = run.requests[0]
    request.dispose("not needed")
    wait_until(run.is_done)
    assert ending_note(request) == "disposed: no answer was taken"


def test_a_form_shows_step_place_prompt_and_payload():
    run = asks(Odd(no=7, prefix="Keep it?"))
    form = form_for(run.requests[0], "1 of 2", on_later=None)
    head = said_by(form.box)
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
    next(w for w in inside(box) if "flownb-send" in w._dom_classes).click()


def inside(widget: Any) -> Iterator[Any]:
    yield widget
    for child in getattr(widget, "children", ()):
        yield from inside(child)


def said_by(box: Any) -> str:
    """All HTML of a form."""
    return "\n".join(w.value for w in inside(box) if isinstance(w, ipywidgets.HTML))


def test_a_request_has_a_form_of_its_own_that_answers():
    run = Review().run(n=1)
    wait_for_questions(run)
    box = run.requests[0].form()
    send(box, "drop")
    assert run.result(timeout=10) == 1
    wait_until(lambda: "drop" in said_by(box))
    assert run.requests.all()[0].value == Verdict(decision="drop")
    assert run._runner.listeners == [] or on_engine(run, lambda: run._runner.listeners) == []


def test_a_form_alone_says_when_the_question_is_answered_elsewhere():
    run = Review().run(n=1)
    wait_for_questions(run)
    request = run.requests[0]
    box = request.form()
    run.answer(decision="keep", by="bob")
    wait_until(lambda: "answered by bob" in said_by(box))
    late = show_form(request)
    assert "answered by bob" in said_by(late)


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
