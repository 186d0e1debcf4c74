"""Open questions as forms: one of its own, and those of a run as a cell's output."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from IPython import display as ipython
from msgspec import Struct
from pydantic import BaseModel

from flownb.answering import why_closed
from flownb.errors import EngineLost
from flownb.events import Question
from flownb.forms.endings import (
    about,
    asks,
    default_in_words,
    due_in_words,
    ending,
    give,
    had_deadline,
    hold,
    subject,
    time_left,
    title_of,
)
from flownb.forms.fields import SOLE
from flownb.forms.payload import shown
from flownb.notebook import kernel
from flownb.notebook.forms import AnswerForm
from flownb.requests import Request, Requests
from flownb.runtime.host import Host

_display: Any = ipython.display

#: At most so many questions are open at once; the others are lines with a button.
OPEN_FORMS = 3


class Card(Struct, frozen=True):
    """An open question as a panel lists it: what does not change while it is open."""

    request: Request[Any]
    id: str
    step: str
    title: str
    #: What it is about, where the title does not say it.
    about: str
    #: "bool": two buttons of the page; "form": widgets.
    kind: str
    #: What stands before its countdown.
    words: str
    had_deadline: bool

    @property
    def error(self) -> str:
        """Why an answer that was to come by itself did not, "" if nothing went wrong."""
        return self.request._runner.questions.trouble(self.request.number)

    def line(self, place: int, *, is_open: bool) -> dict[str, Any]:
        """As the page gets it."""
        due = self.request.deadline
        return {
            "id": self.id,
            "step": self.step,
            "title": self.title,
            "about": self.about,
            "kind": self.kind,
            "place": place,
            "open": is_open,
            "due": due,
            "words": self.words,
            "held": self.had_deadline and due is None,
            "error": self.error,
        }


def card_of(request: Request[Any]) -> Card:
    """What a panel lists of a question."""
    return Card(
        request,
        request.id,
        request.step,
        title_of(request),
        about(request),
        "bool" if request.answer_type is bool else "form",
        default_in_words(request),
        had_deadline(request),
    )


def form_for(
    request: Request[Any],
    place: str,
    *,
    note: str | None = None,
    draft: dict[str, Any] | None = None,
    on_later: Callable[[], None] | None = None,
) -> AnswerForm:
    """The form of one question.

    Args:
        request: The question.
        place: "1 of 2" where several are open, else "".
        note: Until when; None: as the countdown stands now.
        draft: What was typed in before.
        on_later: Called when the person puts it off; None: there is no such button.
    """
    question = request.question
    prefix = getattr(question, "prefix", None)
    prompt = prefix if isinstance(prefix, str) else ""
    payload = [] if isinstance(question, Question) else [row for row in shown(question) if row[0] != "prefix"]
    return AnswerForm(
        request.answer_type,
        title=form_title(request, place),
        prompt=prompt,
        payload=payload,
        note=time_left(request) if note is None else note,
        draft=_draft(request) if draft is None else draft,
        on_send=lambda answer: give(request, answer),
        on_later=on_later,
        on_hold=(lambda: hold(request)) if request.deadline is not None else None,
        request=request.id,
    )


def form_title(request: Request[Any], place: str) -> str:
    """ "review (1 of 2)"."""
    return f"{request.step} ({place})" if place else request.step


def _draft(request: Request[Any]) -> Any:
    """The answer that was given to the question whose place this one took (R4.70)."""
    draft = request.draft
    return draft if draft is None or isinstance(draft, BaseModel) else {SOLE: draft}


def show_form(request: Request[Any]) -> Any:
    """The form of one question, without a panel: a widget that says itself when and how the question ended."""
    form = form_for(request, "")
    tended = _Tended(request, form)
    _replace(tended)
    if request.status == "open":
        request._runner.host.call(tended.begin)
    else:
        close_with_words(form, request)
    return form.box


#: What each cell shows, with the message that ran it: run again, it shows others in their place.
_by_cell: dict[str, tuple[str, list[_Tended]]] = {}


def _replace(tended: _Tended) -> None:
    """The cell that runs shows this one; what it showed when it ran before is closed."""
    parent = kernel.parent()
    key, message = kernel.cell_key(parent), str(parent.get("header", {}).get("msg_id", ""))
    if not key:
        return
    ran, shown = _by_cell.get(key, ("", []))
    if ran != message:
        for before in shown:
            with suppress(EngineLost):
                before.host.call(before.end)
        shown = []
    _by_cell[key] = message, [*shown, tended]


def close_with_words(form: AnswerForm, request: Request[Any]) -> None:
    """The question is over: its form says how, in a line."""
    words = ending(request) or f"Nobody drives the run now: {request._runner.suspended or 'it is over'}"
    form.answered(f"{subject(request)} · {words}", title=request.step, is_answer=request.how != "")


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
        self._error = ""
        self._is_listening = False

    @property
    def host(self) -> Host:
        return self._request._runner.host

    def begin(self) -> None:
        self._is_listening = True
        self._request._runner.listeners.append(self._look)
        self._look()

    def end(self) -> None:
        """It is shown no more."""
        self._leave()
        self._form.close()

    def _leave(self) -> None:
        if self._is_listening:
            self._is_listening = False
            self._request._runner.listeners.remove(self._look)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        request = self._request
        runner = request._runner
        if request.status == "open" and not why_closed(runner, request.number):
            error = runner.questions.trouble(request.number)
            if error != self._error:
                self._error = error
                self._form.show_error(error)
            if request.deadline is not None and self._timer is None:
                self._timer = runner.host.later(1.0, self._count_down)
            elif request.deadline is None and had_deadline(request):
                self._form.held()
                self._form.set_note("held: no deadline")
            return
        self._leave()
        close_with_words(self._form, request)

    def _count_down(self) -> None:
        self._timer = None
        self._form.set_note(time_left(self._request))
        self._look()


__all__ = [
    "OPEN_FORMS",
    "Card",
    "asks",
    "card_of",
    "close_with_words",
    "due_in_words",
    "ending",
    "form_for",
    "form_title",
    "show_form",
    "show_forms",
    "subject",
    "title_of",
]
