"""Answers given ahead of time, and who is told of questions: `with_options(answers=, input_handler=, on_request=)`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from flownb.answering import answer_request
from flownb.core.state import Request as OpenRequest
from flownb.errors import AlreadyAnswered, EngineLost, RequestClosed
from flownb.events import bases_of, key_of
from flownb.requests import Request
from flownb.runtime.runner import Runner
from flownb.runtime.threads import pool

NONE: Any = object()
#: By whom answers of an `answers=` and of an `input_handler=` are, in the record; both have `how` "policy".
GIVEN_AHEAD = "given ahead"
HANDLER = "input_handler"


class AnswerPolicy:
    """Answers questions without a person.

    Args:
        answers: By question class, or by step (its name or function): an answer, a mapping of its fields, a
            function of the question, or a list that is used up in order.
        handler: Asked for all others; a plain function (on a thread) or an async one. It gets the `Request` and
            gives the answer.
    """

    def __init__(self, answers: Mapping[Any, Any] | None, handler: Callable[[Request[Any]], Any] | None) -> None:
        self._answers = {_key(k): list(v) if isinstance(v, list) else v for k, v in (answers or {}).items()}
        self._handler = handler

    def __call__(self, runner: Runner, opened: OpenRequest) -> None:
        """A question was opened."""
        runner.questions.underway.add(opened.id)
        try:
            answer = self._prepared(runner, opened)
            if answer is not NONE:
                self._give(runner, opened, answer, GIVEN_AHEAD)  # at once: the run is not quiet in between
            elif self._handler is not None:
                self._ask(runner, opened, self._handler)
            else:
                runner.questions.underway.discard(opened.id)
        except BaseException as error:  # a user's function may raise anything
            _note(runner, opened, error)

    def _prepared(self, runner: Runner, opened: OpenRequest) -> Any:
        question = opened.question.value
        kind = type(question)
        names = [key_of(kind), *bases_of(kind)]
        if opened.step >= 0:
            names.insert(0, runner.state.spec.steps[opened.step].name)
        for name in names:
            if name in self._answers:
                answer = self._answers[name]
                if isinstance(answer, list):
                    if not answer:
                        return NONE
                    answer = answer.pop(0)
                return answer(question) if callable(answer) and not isinstance(answer, type) else answer
        return NONE

    def _give(self, runner: Runner, opened: OpenRequest, answer: Any, by: str) -> None:
        try:
            answer_request(runner, opened, answer, by, {}, "policy")
        except (RequestClosed, AlreadyAnswered):  # somebody was faster, or the run is over
            runner.questions.underway.discard(opened.id)
        except Exception as error:  # it does not fit, or the journal cannot hold it
            _note(runner, opened, error)

    def _ask(self, runner: Runner, opened: OpenRequest, handler: Callable[[Request[Any]], Any]) -> None:
        def give(answer: Any) -> None:
            self._give(runner, opened, answer, HANDLER)

        _call(runner, handler, Request(runner, opened), give, lambda error: _note(runner, opened, error))


class Notice:
    """Tells somebody of each question that opens: a plain function (on a thread) or an async one gets the `Request`.

    What it gives is no answer; what it raises is shown with the question.
    """

    def __init__(self, call: Callable[[Request[Any]], Any]) -> None:
        self._call = call

    def __call__(self, runner: Runner, opened: OpenRequest) -> None:
        """A question was opened."""

        def failed(error: BaseException) -> None:
            said = f"on_request: {type(error).__name__}: {error}"
            token = Request(runner, opened).token  # it may have gone into a link, and errors never show one (R4.61)
            _remember(runner.questions.notices, opened, said.replace(token, "…") if token else said)
            _tell(runner)

        _call(runner, self._call, Request(runner, opened), lambda _: None, failed)


def _call(
    runner: Runner,
    call: Callable[[Request[Any]], Any],
    request: Request[Any],
    take: Callable[[Any], None],
    failed: Callable[[BaseException], None],
) -> None:
    """Call a user's function off the loop: a plain one on a thread, an async one as a task of the run's loop. The run
    waits for neither.

    Args:
        runner: Whose question it is.
        call: The function. A plain one that gives an awaitable (an object whose call is async, say) is awaited too.
        request: What it gets.
        take: Gets what it gave, on the loop.
        failed: Gets what it raised, whatever that is (`SystemExit` would end the loop), on whatever thread.
    """

    async def later(begun: Any) -> None:
        try:
            take(await begun)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and task.cancelling():  # the run is over, or the loop
                raise
            failed(error)

    task: asyncio.Task[None]

    def begin(begun: Any) -> None:
        nonlocal task
        # A context of its own: the thread that called may not have left its yet.
        task = runner.host.loop.create_task(later(begun), context=runner.new_context())
        runner.questions.tasks.add(task)
        task.add_done_callback(runner.questions.tasks.discard)

    def on_thread() -> None:
        try:
            answer = call(request)
        except BaseException as error:
            failed(error)
            return
        with suppress(EngineLost):  # nobody drives the run any more
            runner.host.call(begin if inspect.isawaitable(answer) else take, answer)

    if inspect.iscoroutinefunction(call):
        begin(call(request))
    else:
        context = runner.new_context()
        pool.submit(lambda: context.run(on_thread))


def _note(runner: Runner, opened: OpenRequest, error: BaseException) -> None:
    """The question stays open and shows why its answer did not come (R4.64); on whatever thread."""
    _remember(runner.questions.errors, opened, f"{type(error).__name__}: {error}")
    runner.questions.underway.discard(opened.id)  # after the reason is there
    _tell(runner)


def _remember(errors: dict[int, str], opened: OpenRequest, said: str) -> None:
    """What went wrong with a question, beside what did before."""
    before = errors.get(opened.id, "")
    errors[opened.id] = f"{before}; {said}" if before and said not in before else said


def _tell(runner: Runner) -> None:
    """Whoever shows the question looks again."""
    with suppress(EngineLost):  # nobody drives the run any more
        runner.host.call(runner.host.soon, runner.tell)


def _key(name: Any) -> str:
    if isinstance(name, str):
        return name
    return key_of(name) if isinstance(name, type) else str(name.__name__)
