"""Open questions and their answers, as people and code see them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

from flownb.answering import (
    answer_in_store,
    answer_request,
    answer_type,
    family,
    unanswered,
    waiter_of,
    why_closed,
)
from flownb.core.graph import short
from flownb.core.state import Request as OpenRequest
from flownb.core.ticks import RequestDisposed, RequestHeld
from flownb.defaults import options
from flownb.errors import RequestClosed, RequestError
from flownb.events import InputRequiredEvent
from flownb.runtime.acting import closed_event
from flownb.runtime.results import shown
from flownb.runtime.runner import Runner
from flownb.runtime.stored import accept, pass_on

if TYPE_CHECKING:
    from pathlib import Path

    from flownb.reviews import Review, Reviews

Q = TypeVar("Q", bound=InputRequiredEvent[Any])
P = TypeVar("P", bound=InputRequiredEvent[Any])
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
        steps, place = self._runner.state.spec.steps, self._now.step
        return steps[place].name if place >= 0 else ""

    @property
    def _now(self) -> OpenRequest:
        """The question as the run has it now: it may have adopted newer definitions since."""
        runner, n = self._runner, self._opened.id
        return runner.state.requests.get(n) or runner.questions.all.get(n) or self._opened

    @property
    def question(self) -> Q:
        return cast(Q, shown(self._opened.question, self._runner.definition))

    @property
    def answer_type(self) -> Any:
        """What an answer has to be: an event class or any type that pydantic takes."""
        return answer_type(self._runner, self._now)

    @property
    def opened_at(self) -> float:
        return self._opened.opened_at

    @property
    def deadline(self) -> float | None:
        """Unix seconds; None for none, or if its countdown was stopped. Of a wait for an event that shows it, the
        wait's."""
        now = self._now
        waiter = waiter_of(self._runner, now)
        return now.due_at if waiter is None else waiter.due_at

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

    @property
    def digest(self) -> str:
        """SHA-256 of what it shows, in hex, as the record of reviews has it; "" if it cannot be written."""
        from flownb.reviews import digest_in  # few runs are looked at so closely, here and below

        return digest_in(self._runner, self._opened)

    def review(self) -> Review:
        """What became of it so far, as a row of the record."""
        from flownb.reviews import review_of

        return review_of(self)

    @property
    def how(self) -> Literal["", "person", "default", "policy", "event"]:
        """Where its answer came from: a person, its default, `answers=` or `input_handler=` (policy), or an event of
        the answer's type; "" while there is none."""
        accepted = self._runner.questions.accepted.get(self._opened.id)
        return accepted.how if accepted is not None else ""

    @property
    def ended_at(self) -> float | None:
        """Unix seconds at which it was answered or closed; None while it is open."""
        questions, n = self._runner.questions, self._opened.id
        ended = questions.accepted.get(n) or questions.ends.get(n)
        return ended.at if ended is not None else None

    def answer(self, answer: Any = None, /, *, by: str | None = None, **fields: Any) -> None:
        """Answer it; see `Run.answer`."""
        answer_request(self._runner, self._now, answer, by, fields)

    def dispose(self, reason: str = "") -> str:
        """End it without an answer; its asker gets `RequestDisposed`. On a closed one nothing happens.

        Returns:
            What had closed it already: "answered", "expired", ...; "" if it was open.

        Raises:
            RequestError: It asks what became of a step that was lost: only an answer can say.
        """
        runner, n = self._runner, self._opened.id
        if self._opened.kind == "unknown":
            raise RequestError(
                f"Question {n} of run {runner.run_id!r} asks what became of step {self.step!r}, and somebody has to "
                'say so: answer(decision="retry"), "done" or "fail".'
            )
        with runner.questions.door:
            before = why_closed(runner, n) or ("answered" if n in runner.questions.accepted else "")
            if before:
                return before
            runner.questions.disposing.add(n)
            closed = None if self._opened.delivery else closed_event(runner, n, "disposed")
            tick = RequestDisposed(runner.clock.now(), n, reason, options.user, closed)
            try:
                is_first = accept(runner, tick, key=f"answer:{n}", request=n)
            except RequestClosed:
                is_first = False
            except BaseException:  # the store cannot be used now, say
                runner.questions.disposing.discard(n)
                raise
        if is_first:
            return ""
        runner.questions.disposing.discard(n)
        return "answered" if answer_in_store(runner, n) is not None else "closed"

    def hold(self) -> None:
        """Stop its countdown: no deadline takes it away from who looks at it."""
        runner = self._runner
        pass_on(runner, RequestHeld(runner.clock.now(), self._opened.id, options.user))

    @property
    def token(self) -> str:
        """Lets somebody outside answer by it: `store.answer(token, ...)`; "" where the run is kept in memory only, or
        where its step gave a token of its own."""
        stored = self._runner.stored
        if stored is None or self._opened.token:
            return ""
        return stored.committer.token(self._runner.run_id, self._opened.id)

    @property
    def supersedes(self) -> str | None:
        """Id of the question that this one took the place of."""
        before = self._opened.supersedes
        return f"{self._runner.run_id}:{before}" if before else None

    @property
    def draft(self) -> Any:
        """The old answer, if this question took the place of an answered one; to look at and to change."""
        out = self._runner.questions.drafts.get(self._opened.supersedes)
        return None if out is None else out.value

    def form(self) -> Any:
        """Its form alone, as a widget: a cell's output."""
        from flownb.run import room  # it builds on this module

        return room("form")(self)

    def __repr__(self) -> str:
        return f"<Request {self.id} of {self.step}: {self.question!r}, {self.status}>"


class RequestList(list[Request[Any]]):
    """Questions, and a record of what became of them."""

    def reviews(self) -> Reviews:
        """The record: a row for each question, open ones too."""
        from flownb.reviews import Reviews

        return Reviews([request.review() for request in self])

    def to_dicts(self) -> list[dict[str, Any]]:
        """As `Reviews.to_dicts` says."""
        return self.reviews().to_dicts()

    def to_csv(self, path: str | Path) -> Path:
        """As `Reviews.to_csv` says."""
        return self.reviews().to_csv(path)

    def _repr_html_(self) -> str:
        return self.reviews()._repr_html_()


class Requests(Generic[Q]):
    """The open questions of a run and of its children; `run.requests`. Looking again looks at the present."""

    def __init__(self, runner: Runner, kind: str = "") -> None:
        self._runner = runner
        self._kind = kind

    def _open(self) -> list[Request[Q]]:
        return [
            Request(runner, opened)
            for runner in family(self._runner)
            for opened in unanswered(runner)
            if self._kind in ("", opened.question.key)
        ]

    def of(self, kind: type[P]) -> Requests[P]:
        """Those of one question class."""
        return Requests(self._runner, kind.__flownb_kind__.key)

    def all(self) -> RequestList:
        """Also those that are answered or closed, oldest first; in a cell a table of who answered what, and how."""
        return RequestList(
            Request(runner, opened)
            for runner in family(self._runner)
            for _, opened in sorted(runner.questions.all.items())
            if self._kind in ("", opened.question.key)
        )

    def answer(self, answer: Any = None, /, *, by: str | None = None, **fields: Any) -> None:
        """The same answer for every one of these."""
        for request in self._open():
            request.answer(answer, by=by, **fields)

    def __len__(self) -> int:
        return len(self._open())

    def __iter__(self) -> Iterator[Request[Q]]:
        return iter(self._open())

    def __getitem__(self, which: int | str) -> Request[Q]:
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
        if not len(self):
            return "<0 open questions>"
        return f"<{len(self)} open questions: {', '.join(f'{r.number} {short(r._now.question.key)}' for r in self)}>"
