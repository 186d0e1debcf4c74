"""Open questions as forms below the panel."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from IPython import display as ipython

from flownb.answering import answer_request
from flownb.defaults import options
from flownb.events import Question, fields_of
from flownb.forms.payload import preview, shown
from flownb.notebook import kernel
from flownb.notebook.forms import AnswerForm
from flownb.requests import Request, Requests

_display: Any = ipython.display

#: At most so many forms are open at once; the others are lines with a button.
OPEN_FORMS = 3


def title_of(request: Request[Any]) -> str:
    """The question in words: its `prefix`, else its class and fields."""
    question = request.question
    prefix = getattr(question, "prefix", None)
    if isinstance(prefix, str) and prefix:
        return prefix
    shown = ", ".join(f"{name} {preview(value, 40)}" for name, value in list(fields_of(question))[:4])
    return f"{type(question).__name__}: {shown}" if shown else type(question).__name__


def form_for(request: Request[Any], place: str, *, on_later: Any) -> AnswerForm:
    """The form of one question.

    Args:
        request: The question.
        place: "1 of 2" where several are open, else "".
        on_later: Called when the person puts it off; None: there is no such button.
    """
    question = request.question
    prefix = getattr(question, "prefix", None)
    prompt = prefix if isinstance(prefix, str) else ""
    payload = [] if isinstance(question, Question) else [row for row in shown(question) if row[0] != "prefix"]
    runner, opened = request._runner, request._opened
    return AnswerForm(
        request.answer_type,
        title=f"{request.step} ({place})" if place else request.step,
        prompt=prompt,
        payload=payload,
        note=deadline_note(request),
        on_send=lambda answer: answer_request(runner, opened, answer, options.user or None, {}),
        on_later=on_later,
    )


def deadline_note(request: Request[Any]) -> str:
    """ "default reject in 0:52", as the countdown stands now; "" without a deadline."""
    if request.deadline is None:
        return ""
    left = max(0, round(request.deadline - request._runner.clock.now()))
    clock = f"{left // 60}:{left % 60:02}"
    default = request.default
    return f"default {preview(default, 40)} in {clock}" if default is not None else f"closes in {clock}"


def ending_note(request: Request[Any]) -> str:
    """How a question ended: "answered by ann at 12:00:03"."""
    accepted = request._runner.questions.accepted.get(request.number)
    if accepted is None:
        return f"{request.status}: no answer was taken"
    at = time.strftime("%H:%M:%S", time.localtime(accepted.at))
    if accepted.how == "default":
        return f"the default was taken at {at}: {preview(accepted.answer.value)}"
    return f"answered{f' by {accepted.by}' if accepted.by else ''} at {at}: {preview(accepted.answer.value)}"


def show_form(request: Request[Any]) -> Any:
    """The form of one question, without a panel: a widget that says itself when and how the question ended."""
    form = form_for(request, "", on_later=None)
    if request.status == "open":
        request._runner.host.call(_Tended(request, form).begin)
    else:
        form.answered(ending_note(request))
    return form.box


def show_forms(requests: Requests[Any]) -> None:
    """The forms of the oldest questions as a cell's output; where nobody looks, and without questions, only words."""
    asked = list(requests)
    if kernel.has_front_end():
        for request in asked[:OPEN_FORMS]:
            _display(show_form(request))
        if asked and len(asked) <= OPEN_FORMS:
            return
    _display({"text/plain": repr(requests)}, raw=True)


class _Tended:
    """Keeps a form that stands alone up to date until its question ends. On the run's host."""

    def __init__(self, request: Request[Any], form: AnswerForm) -> None:
        self._request, self._form = request, form
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        self._request._runner.listeners.append(self._look)
        self._look()

    def _look(self) -> None:
        request = self._request
        runner = request._runner
        if request.status == "open" and not runner.ended and not runner.suspended:
            if request.deadline is not None and self._timer is None:
                self._timer = runner.host.later(1.0, self._count_down)
            return
        runner.listeners.remove(self._look)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._form.answered(ending_note(request))

    def _count_down(self) -> None:
        self._timer = None
        self._form.set_note(deadline_note(self._request))
        self._look()
