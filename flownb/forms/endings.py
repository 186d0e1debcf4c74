"""A question in words: what it asks, until when, and how it ended. Plain text, for panels, twins, pages and errors."""

from __future__ import annotations

import time
from typing import Any, Final

from flownb.errors import AlreadyAnswered, RequestClosed, RequestError
from flownb.events import Question, fields_of
from flownb.policy import HANDLER
from flownb.preview import one_line, preview, preview_name, shown_fields
from flownb.requests import Request
from flownb.store.marks import UnknownEvent

__all__ = [
    "about",
    "answer_in_words",
    "asks",
    "default_in_words",
    "due_in_words",
    "ending",
    "give",
    "had_deadline",
    "hold",
    "subject",
    "time_left",
    "title_of",
    "too_late",
]

#: Characters of an answer, and of a default beside its countdown.
_ANSWER: Final = 120
_DEFAULT: Final = 40
#: Characters of what a question was about, beside how it ended.
_SUBJECT: Final = 60


def title_of(request: Request[Any]) -> str:
    """The question in words: its `prefix`, else its class and fields."""
    question = request.question
    prefix = getattr(question, "prefix", None)
    if isinstance(prefix, str) and prefix:
        return prefix
    shown = ", ".join(f"{name} {preview(value, 40)}" for name, value in list(fields_of(question))[:4])
    return f"{type(question).__name__}: {shown}" if shown else type(question).__name__


def about(request: Request[Any]) -> str:
    """What it is about, beside its `prefix`: "to Palmer, pages 3"; "" if its title says it."""
    question = request.question
    prefix = getattr(question, "prefix", None)
    if isinstance(question, Question) or not (isinstance(prefix, str) and prefix):
        return ""
    fields = [(name, value) for name, value in fields_of(question) if name != "prefix"]
    return ", ".join(f"{preview_name(name)} {_plain(value, 40)}" for name, value in fields[:4])


def subject(request: Request[Any]) -> str:
    """A few words by which a person knows which question it was."""
    return one_line(about(request) or title_of(request), _SUBJECT)


def answer_in_words(value: Any, limit: int = _ANSWER) -> str:
    """An answer in one line, as people say it: "approve", "keep", "decision keep, note as agreed".

    Of a model only the fields that were given and are not their defaults. Secrets are masked.
    """
    if isinstance(value, bool):
        return "approve" if value else "reject"
    if isinstance(value, UnknownEvent):  # this process has not the class
        value = value.plain()
    if isinstance(value, dict):
        return one_line(", ".join(f"{preview_name(name)} {_plain(item, limit)}" for name, item in value.items()), limit)
    given = getattr(value, "model_fields_set", None)
    try:
        fields = [pair for pair in shown_fields(value) or () if given is None or pair[0] in given]
        known = getattr(type(value), "model_fields", {})
        told = [(name, item) for name, item in fields if not _is_default(item, known.get(name))]
    except Exception:  # a hostile property, as in `preview`
        return preview(value, limit)
    if not fields:
        return _plain(value, limit)
    told = told or fields
    if len(told) == 1:
        return _plain(told[0][1], limit)
    return one_line(", ".join(f"{preview_name(name)} {_plain(item, limit)}" for name, item in told[:12]), limit)


def _is_default(item: Any, field: Any) -> bool:
    """Of plain values only: others may compare in ways of their own."""
    return field is not None and type(item) in _COMPARED and type(field.default) is type(item) and field.default == item


_COMPARED: Final = (str, int, float, bool, type(None))


def _plain(value: Any, limit: int) -> str:
    return one_line(value[: limit + 1], limit) if type(value) is str and value else preview(value, limit)


# -- until when


def default_in_words(request: Request[Any]) -> str:
    """What stands before a countdown: "default reject", or "closes" where no answer is taken."""
    default = request.default
    return f"default {answer_in_words(default, _DEFAULT)}" if default is not None else "closes"


def had_deadline(request: Request[Any]) -> bool:
    """Whether it had one when it was opened; of a wait for an event only while it has."""
    first = request._runner.questions.all.get(request.number, request._opened)
    return first.due_at is not None or request.deadline is not None


def time_left(request: Request[Any]) -> str:
    """ "default reject in 0:52", as the countdown stands now; "" without a deadline."""
    if request.deadline is None:
        return ""
    left = max(0, round(request.deadline - request._runner.clock.now()))
    hours, rest = divmod(left, 3600)
    clock = f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"
    return f"{default_in_words(request)} in {clock}"


def due_in_words(request: Request[Any]) -> str:
    """ "default reject at 12:00:52", which stays true without being renewed; "" without a deadline."""
    if request.deadline is None:
        return ""
    return f"{default_in_words(request)} {_when(request, request.deadline)}"


# -- how it ended


def ending(request: Request[Any]) -> str:
    """How a question ended, with who and when: "Approved by ann at 12:00:03"; "" while it is open."""
    accepted = request._runner.questions.accepted.get(request.number)
    if accepted is None:
        return _closed(request)
    when, words = _when(request, accepted.at), answer_in_words(accepted.answer.value)
    if accepted.how == "default":
        return f"The deadline passed {when}: the default {words} was taken"
    if accepted.how == "policy":
        from_whom = "the input_handler" if accepted.by == HANDLER else "an answer given ahead"
        return f"Answered by {from_whom} {when}: {words}"
    by = f" by {one_line(accepted.by, 60)}" if accepted.by else ""
    if accepted.how == "event":
        return f"Answered by an event{' of ' + by[4:] if by else ''} {when}: {words}"
    if isinstance(accepted.answer.value, bool):
        return f"{'Approved' if accepted.answer.value else 'Rejected'}{by} {when}"
    return f"Answered{by} {when}: {words}"


def _closed(request: Request[Any]) -> str:
    runner = request._runner
    status, ended = request.status, runner.questions.ends.get(request.number)
    if status == "open":
        return ""
    when = f" {_when(request, ended.at)}" if ended is not None else ""
    by = f" by {one_line(ended.by, 60)}" if ended is not None and ended.by else ""
    why = f": {one_line(ended.reason, _ANSWER)}" if ended is not None and ended.reason else ""
    if status == "expired":
        return f"The deadline passed{when}: there was no default, and no answer was taken"
    if status == "disposed":
        return f"Disposed of{by}{when}{why or ': no answer was taken'}"
    if status == "superseded":
        return f"Another question took its place{when}"
    if status == "withdrawn":
        return f"Its step gave it up{when}: no answer was taken"
    state = runner.state.status
    if state == "cancelled":
        return f"The run was cancelled{by}{when}: no answer was taken"
    over = {"failed": "failed", "timed_out": "timed out", "completed": "was over"}.get(state, "ended")
    return f"The run {over}{when}: no answer was taken"


def _when(request: Request[Any], at: float) -> str:
    """ "at 12:00:03", with the day if it is another one."""
    there, now = time.localtime(at), time.localtime(request._runner.clock.now())
    return time.strftime("at %H:%M:%S" if there[:3] == now[:3] else "on %Y-%m-%d at %H:%M:%S", there)


def too_late(request: Request[Any]) -> str:
    """What who clicks on a question that is over is told; "" if it is open."""
    words = ending(request)
    return f"Too late. {words}." if words else ""


# -- what a person does at a form


def give(request: Request[Any], answer: Any) -> None:
    """Answer a question as the present user. The same answer a second time is harmless.

    Raises:
        RequestClosed: It is over: says who answered or what closed it, and when.
        WorkflowError: It was refused otherwise; see `Run.answer`.
    """
    try:
        request.answer(answer)
    except (AlreadyAnswered, RequestClosed) as error:
        raise RequestClosed(too_late(request) or str(error)) from None


def hold(request: Request[Any]) -> None:
    """Stop the countdown of a question, once; a second time is harmless.

    Raises:
        RequestClosed: It is over: says how and when.
        RequestError: It never had a countdown.
    """
    if late := too_late(request):
        raise RequestClosed(late)
    if request.deadline is not None:
        request.hold()
    elif not had_deadline(request) and request._opened.kind != "event":
        raise RequestError(f"Question {request.id} has no deadline, so there is nothing to hold.")


def asks(request: Request[Any]) -> str:
    """An open question in a line: who asks what, and until when."""
    due = due_in_words(request)
    words = " ".join(filter(None, (title_of(request), about(request), f"({due})" if due else "")))
    return f"{request.step or 'the start'} asks: {words}"
