"""The waits of a step as handles: what its code awaits, and what it gets when the wait is over."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from typing_extensions import TypeVar

from flownb.core.state import Did, Outcome
from flownb.core.ticks import Ask as AskWait
from flownb.core.ticks import Await, RequestDisposed, Sleep
from flownb.core.values import Out, alike
from flownb.errors import AnswerTimeout, NonDeterministic, RequestError
from flownb.errors import RequestDisposed as RequestDisposedError
from flownb.events import Event, key_of
from flownb.requests import Request
from flownb.runtime.copying import copied
from flownb.runtime.ledger import identity_of
from flownb.runtime.pending import Pending
from flownb.runtime.results import current
from flownb.runtime.threads import pool
from flownb.runtime.worker import Waited, Worker

T = TypeVar("T")


class Ask(Waited[T]):
    """The handle of a question that a step asked."""

    __slots__ = ()

    @property
    def request(self) -> Request[Any]:
        """The question itself: status, who answered, when.

        Raises:
            RequestError: The run has not opened it yet (its gate is closed, or this is the same instant).
        """
        return _request_of(self._worker, self._mark)


def sleep(worker: Worker, due_at: float, name: str) -> Pending[None]:
    """A durable timer.

    Args:
        worker: Whose code sleeps.
        due_at: Unix seconds.
        name: What it is known by when the code runs again.
    """
    wait = Sleep(due_at, name)
    found = worker.recorded(identity_of("sleep", name))
    if found:
        return worker.reopen(*found, "a sleep", wait, read=_nothing)
    return worker.open("a sleep", wait, read=_nothing)


def _nothing(worker: Worker, outcome: Outcome) -> None:
    """What a sleep gives."""


def event(
    worker: Worker, kind: type[Event], name: str, requires: dict[str, Out], due_at: float | None, question: Out | None
) -> tuple[bool, Pending[Any]]:
    """A wait for an event: whether it is a new one, and its handle."""
    key = key_of(kind)
    what = f"an event {kind.__name__}"
    wait = Await(key, requires, due_at, name, question)
    found = worker.recorded(identity_of("event", f"{key} {name}" if name else key, None, requires))

    def read(worker: Worker, outcome: Outcome) -> Any:
        if outcome.how in ("timed_out", "expired"):
            raise TimeoutError(f"No {kind.__name__} came in time for step {worker.step.name!r}.")
        if outcome.how == "disposed":
            raise RequestDisposedError(f"The question was disposed of: {outcome.reason or 'no reason given'}.")
        assert outcome.out is not None
        return copied(current(outcome.out, worker.runner.definition))

    def prepare(mark: int) -> None:
        if question is not None:
            worker.runner.questions.asked_types[worker.delivery.id, mark] = kind

    if found:
        return False, worker.reopen(*found, what, wait, read=read)
    return True, worker.open(what, wait, prepare, read=read)


def ask(worker: Worker, out: Out, wait: AskWait, answer: Any, on_changed: str) -> Ask[Any]:
    """A question to a person.

    Args:
        worker: Whose code asks.
        out: The question.
        wait: How it is asked.
        answer: The type that answers a question in words, None for one whose class names it.
        on_changed: What to do if an earlier start asked another question in its place.
    """
    runner = worker.runner
    what = f"the answer to {out.key.rpartition(':')[2]}"
    found = worker.recorded(identity_of("ask", wait.name, out))
    if found is not None and not _same(found[0], out) and on_changed != "keep":
        if on_changed == "fail":
            asked = found[0].out.value if found[0].out is not None else None
            raise NonDeterministic(
                f"Step {worker.step.name!r} ran again and asks {out.value!r}, where it asked {asked!r} before. "
                'An answer never passes to another question: let it ask anew with on_changed="supersede", or give '
                "the question its own key=.",
                step=worker.step.name,
                before=asked,
                now=out.value,
            )
        wait = _supersede(worker, *found, wait)
        found = None
    if found is None and wait.token:
        d = worker.delivery
        runner.questions.take_token(runner, wait.token, d.id, d.start, wait.supersedes)

    def prepare(mark: int) -> None:
        if answer is not None:
            runner.questions.asked_types[worker.delivery.id, mark] = answer

    if found:
        return cast("Ask[Any]", worker.reopen(*found, what, wait, read=answer_of, kind=Ask))
    return cast("Ask[Any]", worker.open(what, wait, prepare, read=answer_of, kind=Ask))


def _same(entry: Did, out: Out) -> bool:
    return entry.out is not None and alike(entry.out.value, out.value)


def _supersede(worker: Worker, entry: Did, outcome: Outcome | None, wait: AskWait) -> AskWait:
    """The old question is closed, or stays answered; the new one has the old answer as a draft (R4.70, R4.71)."""
    runner, d = worker.runner, worker.delivery
    before = runner.questions.asked.get((d.id, entry.mark))
    number = before.id if before is not None else 0
    if outcome is None and number:
        runner.post(RequestDisposed(runner.clock.now(), number, "superseded", superseded=True))
    if outcome is not None and outcome.out is not None and number:
        runner.questions.drafts[number] = outcome.out
    return AskWait(wait.question, wait.due_at, wait.default, wait.name, number, wait.token)


def answer_of(worker: Worker, outcome: Outcome) -> Any:
    """What the asker gets.

    Raises:
        AnswerTimeout: Nobody answered in time.
        RequestDisposed: Somebody ended the question.
    """
    if outcome.how == "expired":
        raise AnswerTimeout("Nobody answered before the deadline, and no default was given.")
    if outcome.how == "disposed":
        raise RequestDisposedError(f"The question was disposed of: {outcome.reason or 'no reason given'}.")
    assert outcome.out is not None
    return copied(current(outcome.out, worker.runner.definition))


def then(waited: Pending[Outcome], worker: Worker, what: str, read: Callable[[Outcome], Any]) -> Pending[Any]:
    """Another handle of a wait, with what its outcome means there."""
    handle: Pending[Any] = Pending(what, worker.runner.host.loop, waited.abandon, waited.begin)
    if not worker.step.is_async:
        handle.blocking = pool.waiting
    waited.on_end(partial(_hand_over, waited, handle, read))
    return handle


def _hand_over(waited: Pending[Outcome], handle: Pending[Any], read: Callable[[Outcome], Any]) -> None:
    try:
        handle.resolve(read(waited.result(0)))
    except BaseException as error:
        handle.reject(error)


def _request_of(worker: Worker, mark: int) -> Request[Any]:
    opened = worker.runner.questions.asked.get((worker.delivery.id, mark))
    if opened is None:
        raise RequestError("The question is not open yet; await the handle, or look a moment later.")
    return Request(worker.runner, opened)
