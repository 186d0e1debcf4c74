"""Open questions and their answers, as people and code see them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from flownb.core.outstanding import waits_for
from flownb.core.state import Request as OpenRequest
from flownb.core.ticks import RequestAnswered, RequestDisposed
from flownb.core.values import alike
from flownb.defaults import options
from flownb.errors import (
    AlreadyAnswered,
    AmbiguousAnswer,
    AnswerInvalid,
    EngineLost,
    RequestClosed,
    RequestError,
    near,
)
from flownb.events import Event, HumanResponseEvent, InputRequiredEvent, Question, answer_of, newest, role_of
from flownb.runtime.questions import Accepted
from flownb.runtime.results import shown, value_out
from flownb.runtime.runner import Runner

if TYPE_CHECKING:
    from flownb.core.ticks import How

Q = TypeVar("Q", bound=InputRequiredEvent[Any])
Status = Literal["open", "answered", "default", "expired", "disposed", "superseded", "withdrawn", "closed"]


class Request(Generic[Q]):
    """One question to a person."""

    def __init__(self, runner: Runner, opened: OpenRequest) -> None:
        self._runner = runner
        self._opened = opened

    @property
    def id(self) -> str:
        """`<run id>:<n>`."""
        return f"{self._runner.run_id}:{self._opened.id}"

    @property
    def number(self) -> int:
        return self._opened.id

    @property
    def step(self) -> str:
        """Name of the step that asked."""
        steps = self._runner.state.spec.steps
        return steps[self._opened.step].name if self._opened.step >= 0 else ""

    @property
    def question(self) -> Q:
        return cast(Q, shown(self._opened.question, self._runner.definition))

    @property
    def answer_type(self) -> Any:
        """What an answer has to be: an event class or any type that pydantic takes."""
        return answer_type(self._runner, self._opened)

    @property
    def opened_at(self) -> float:
        return self._opened.opened_at

    @property
    def deadline(self) -> float | None:
        return self._opened.due_at

    @property
    def default(self) -> Any:
        return self._opened.default.value if self._opened.default is not None else None

    @property
    def status(self) -> Status:
        runner, n = self._runner, self._opened.id
        if n in runner.questions.closed:
            return cast(Status, runner.questions.closed[n])
        return "answered" if n in runner.questions.accepted else "open"

    @property
    def value(self) -> Any:
        """The answer, None while there is none."""
        accepted = self._runner.questions.accepted.get(self._opened.id)
        return accepted.answer.value if accepted is not None else None

    @property
    def by(self) -> str:
        accepted = self._runner.questions.accepted.get(self._opened.id)
        return accepted.by if accepted is not None else ""

    def answer(self, answer: Any = None, /, *, by: str | None = None, **fields: Any) -> None:
        """Answer it; see `Run.answer`."""
        answer_request(self._runner, self._opened, answer, by, fields)

    def dispose(self, reason: str = "") -> None:
        """End it without an answer; its asker gets `RequestDisposed`. On a closed one nothing happens."""
        runner, n = self._runner, self._opened.id
        with runner.questions.door:
            if n in runner.questions.accepted or _closed(runner, n):
                return
            runner.questions.disposing.add(n)
            closed = None if self._opened.delivery else runner.closed_event(n, "disposed")
            runner.post(RequestDisposed(runner.clock.now(), n, reason, options.user, closed))

    def form(self) -> Any:
        """Its form alone, as a widget: a cell's output."""
        from flownb.run import room  # it builds on this module

        return room("form")(self)

    def __repr__(self) -> str:
        return f"<Request {self.id} of {self.step}: {self.question!r}, {self.status}>"


class Requests:
    """The open questions of a run; `run.requests`. Looking again looks at the present."""

    def __init__(self, runner: Runner, kind: str = "") -> None:
        self._runner = runner
        self._kind = kind

    def _open(self) -> list[Request[Any]]:
        runner = self._runner
        return [
            Request(runner, opened)
            for opened in runner.state.requests.values()
            if opened.id not in runner.questions.accepted and (not self._kind or opened.question.key == self._kind)
        ]

    def of(self, kind: type[Q]) -> Requests:
        """Those of one question class."""
        return Requests(self._runner, kind.__flownb_kind__.key)

    def all(self) -> list[Request[Any]]:
        """Also those that are answered or closed, oldest first."""
        asked = sorted(self._runner.questions.all.items())
        return [Request(self._runner, opened) for _, opened in asked if self._kind in ("", opened.question.key)]

    def answer(self, answer: Any = None, /, *, by: str | None = None, **fields: Any) -> None:
        """The same answer for every one of these."""
        for request in self._open():
            request.answer(answer, by=by, **fields)

    def __len__(self) -> int:
        return len(self._open())

    def __iter__(self) -> Iterator[Request[Any]]:
        return iter(self._open())

    def __getitem__(self, which: int | str) -> Request[Any]:
        found = self._open()
        if isinstance(which, int):
            return found[which]
        for request in found:
            if which in (request.id, str(request.number)):
                return request
        raise KeyError(f"No open question {which!r}. Open: {', '.join(r.id for r in found) or 'none'}.")

    def _ipython_display_(self) -> None:
        from flownb.run import room  # it builds on this module

        room("forms")(self)

    def __repr__(self) -> str:
        return f"<{len(self)} open questions: {', '.join(f'{r.number} {type(r.question).__name__}' for r in self)}>"


def names_a_question(value: Any) -> bool:
    """Whether a value can only be the name of a question: a `Request`, its number, or `<run id>:<number>`."""
    if isinstance(value, str):
        return value.rpartition(":")[2].isdigit()
    return isinstance(value, Request) or (isinstance(value, int) and not isinstance(value, bool))


def answered_by(runner: Runner, ev: Event) -> OpenRequest | None:
    """The open question that an event from outside answers: the one that its `request_id` names, else the oldest one
    whose answer it is (R4.51)."""
    waiting = [r for r in runner.state.requests.values() if r.id not in runner.questions.accepted]
    named = str(ev["request_id"]) if "request_id" in ev else ""
    for opened in waiting:
        if named in (str(opened.id), f"{runner.run_id}:{opened.id}"):
            return opened
    key, _, bases = type(ev).__flownb_kind__
    for opened in waiting:
        kind = answer_type(runner, opened)
        if is_event_class(kind) and kind.__flownb_kind__.key in (key, *bases):
            return opened
    return None


def is_event_class(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Event)


def find(runner: Runner, which: Any) -> OpenRequest:
    """The question that an answer is for; it may be closed by now.

    Args:
        runner: The run.
        which: Its number or id, a `Request`, or None for the only one.

    Raises:
        AmbiguousAnswer: None was named and several are open.
        RequestClosed: None was named and none is open.
        RequestError: The run never had it.
    """
    requests = runner.state.requests
    if which is None:
        waiting = [r for r in requests.values() if r.id not in runner.questions.accepted]
        if len(waiting) == 1:
            return waiting[0]
        if waiting:
            listed = "; ".join(f"{r.id}: {r.question.value!r}" for r in waiting)
            raise AmbiguousAnswer(f"Several questions are open, name one: {listed}.")
        raise RequestClosed(f"Run {runner.run_id!r} asks nothing: {_state_of(runner)}.")
    number = which.number if isinstance(which, Request) else _number(runner, which)
    found = requests.get(number) or runner.questions.all.get(number)
    if found is not None:
        return found
    raise RequestError(
        f"Run {runner.run_id!r} has no question {which!r}. Open: {list(requests)}. "
        f"If {which!r} is the answer, write run.answer(None, {which!r})."
    )


def answer_request(
    runner: Runner,
    opened: OpenRequest,
    answer: Any,
    by: str | None,
    fields: dict[str, Any],
    how: How = "person",
) -> None:
    """Check an answer at the door and post it. After that it is certain to be admitted, unless the run ends first.

    Raises:
        EngineLost: The loop that drove the run is closed.
        AnswerInvalid: It does not fit the answer's model; nothing was appended.
        AlreadyAnswered: Another answer was given before. The same one again is harmless.
        RequestClosed: The question is closed otherwise.
    """
    runner.notice_loss()
    if isinstance(runner.error, EngineLost):
        raise runner.error
    value = validated(answer_type(runner, opened), answer, fields)
    out = runner.checked(value_out(value))
    who = options.user if by is None else by
    with runner.questions.door:
        before = runner.questions.accepted.get(opened.id)
        if before is not None and before.how != "default":
            if alike(before.answer.value, value):
                return
            raise AlreadyAnswered(
                f"Question {opened.id} was answered by {before.by or 'somebody'} at {_clock(before.at)}: "
                f"{before.answer.value!r}. The first answer stands.",
                value=before.answer.value,
            )
        closed = _closed(runner, opened.id)
        if closed:
            raise RequestClosed(f"Question {opened.id} of run {runner.run_id!r} is no longer open ({closed}).")
        now = runner.clock.now()
        runner.questions.accepted[opened.id] = Accepted(out, who, now, how)
        try:
            runner.post(RequestAnswered(now, opened.id, out, who, how))
        except EngineLost:
            del runner.questions.accepted[opened.id]
            raise


def _closed(runner: Runner, number: int) -> str:
    """What keeps a question from being answered, "" if it is open."""
    questions = runner.questions
    if number in questions.disposing:
        return "it is being disposed of"
    if number not in runner.state.requests or runner.ended:
        return questions.closed.get(number) or _state_of(runner)
    return f"nobody drives the run: {runner.suspended}" if runner.suspended else ""


def answer_type(runner: Runner, opened: OpenRequest) -> Any:
    """What answers a question: its class's `[A]` by its newest definition, the type given to `ctx.ask`, else the
    only answer event that steps take."""
    question = opened.question.value
    asked = runner.questions.answer_types.get(opened.id) if isinstance(question, Question) else None
    if asked is not None:
        return asked
    if isinstance(question, Question):
        return str
    found = answer_of(type(shown(opened.question, runner.definition)))
    if isinstance(found, type) and issubclass(found, Event):
        return newest(found.__flownb_kind__.key) or found
    if found is not None:
        return found
    taken = {
        key: cls
        for step in runner.definition.spec.steps
        for key in step.accepts
        if (cls := runner.definition.class_of(key)) is not None and role_of(cls) == "answer"
    }
    return next(iter(taken.values())) if len(taken) == 1 else HumanResponseEvent


def validated(kind: Any, answer: Any, fields: dict[str, Any]) -> Any:
    """An answer as a value of its type. A misspelt field is an error, unless the model declares none.

    Raises:
        AnswerInvalid: With what is wrong, field by field.
    """
    try:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            if answer is not None and isinstance(answer, BaseModel):
                return answer if isinstance(answer, kind) else kind.model_validate(answer.model_dump())
            given = {**(answer or {}), **fields} if isinstance(answer, dict) or answer is None else None
            if given is None:
                raise AnswerInvalid(f"{answer!r} is no {kind.__name__}: give its fields, or an instance of it.")
            _refuse_unknown(kind, given)
            return kind.model_validate(given)
        if fields:
            raise AnswerInvalid(f"This question takes one value of {kind!r}, not the fields {', '.join(fields)}.")
        return TypeAdapter(
            kind, config=None if _has_config(kind) else ConfigDict(arbitrary_types_allowed=True)
        ).validate_python(answer)
    except ValidationError as error:
        said = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'value'}: {e['msg']}" for e in error.errors())
        raise AnswerInvalid(f"The answer does not fit: {said}.", errors=error.errors()) from None


def _refuse_unknown(kind: type[BaseModel], given: dict[str, Any]) -> None:
    known = kind.model_fields
    aliases = {f.alias for f in known.values() if f.alias}
    unknown = [name for name in given if name not in known and name not in aliases]
    if known and unknown:
        raise AnswerInvalid(
            f"{kind.__name__} has no field {unknown[0]!r}. {near(unknown[0], list(known), 'It has')}", field=unknown[0]
        )


def _has_config(kind: Any) -> bool:
    return hasattr(kind, "__pydantic_config__") or hasattr(kind, "__dataclass_fields__") or hasattr(kind, "__total__")


def _number(runner: Runner, which: Any) -> int:
    text = str(which)
    head, _, tail = text.rpartition(":")
    if head and head != runner.run_id:
        raise RequestError(f"Question {text!r} is not of run {runner.run_id!r}.")
    if not tail.isdigit():
        raise RequestError(f"{which!r} names no question: give its number or `<run id>:<number>`.")
    return int(tail)


def _state_of(runner: Runner) -> str:
    if runner.ended:
        return f"it is {runner.state.status}"
    return "; ".join(waits_for(runner.state)) or "it is still running"


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))
