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
#: Who an answer of an `input_handler=` is from; the others were given ahead.
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
                self._give(runner, opened, answer)  # at once: the run is not quiet in between
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

    def _give(self, runner: Runner, opened: OpenRequest, answer: Any, by: str = "given ahead") -> None:
        try:
            answer_request(runner, opened, answer, by, {}, "policy")
        except (RequestClosed, AlreadyAnswered):  # somebody was faster, or the run is over
            runner.questions.underway.discard(opened.id)
        except Exception as error:  # it does not fit, or the journal cannot hold it
            _note(runner, opened, error)

    def _ask(self, runner: Runner, opened: OpenRequest, handler: Callable[[Request[Any]], Any]) -> None:
        request: Request[Any] = Request(runner, opened)

        async def later() -> None:
            try:
                self._give(runner, opened, await handler(request), HANDLER)
            except BaseException as error:  # as above; SystemExit would end the loop
                if isinstance(error, asyncio.CancelledError) and task.cancelling():  # the run is over, or the loop
                    raise
                _note(runner, opened, error)

        def on_thread() -> None:
            try:
                answer = handler(request)
            except BaseException as error:  # as above
                _note(runner, opened, error)
                return
            with suppress(EngineLost):  # nobody drives the run any more
                runner.host.call(self._give, runner, opened, answer, HANDLER)

        if inspect.iscoroutinefunction(handler):
            task: asyncio.Task[None] = runner.host.loop.create_task(later(), context=runner.new_context())
            runner.questions.tasks.add(task)
            task.add_done_callback(runner.questions.tasks.discard)
        else:
            pool.submit(on_thread)


class Notice:
    """Tells somebody of each question that opens: a plain function (on a thread) or an async one gets the `Request`.

    What it gives is no answer; what it raises is shown with the question.
    """

    def __init__(self, call: Callable[[Request[Any]], Any]) -> None:
        self._call = call

    def __call__(self, runner: Runner, opened: OpenRequest) -> None:
        """A question was opened."""
        call, request = self._call, Request[Any](runner, opened)

        def failed(error: BaseException) -> None:
            runner.questions.errors[opened.id] = f"on_request: {type(error).__name__}: {error}"
            with suppress(EngineLost):  # nobody drives the run any more
                runner.host.call(runner.host.soon, runner.tell)

        async def later() -> None:
            try:
                await call(request)
            except BaseException as error:  # a user's function may raise anything; SystemExit would end the loop
                if isinstance(error, asyncio.CancelledError) and task.cancelling():
                    raise
                failed(error)

        def on_thread() -> None:
            try:
                call(request)
            except BaseException as error:  # as above
                failed(error)

        if inspect.iscoroutinefunction(call):
            task: asyncio.Task[None] = runner.host.loop.create_task(later(), context=runner.new_context())
            runner.questions.tasks.add(task)
            task.add_done_callback(runner.questions.tasks.discard)
        else:
            context = runner.new_context()
            pool.submit(lambda: context.run(on_thread))


def _note(runner: Runner, opened: OpenRequest, error: BaseException) -> None:
    """The question stays open and shows why its answer did not come (R4.64); on whatever thread."""
    runner.questions.errors[opened.id] = f"{type(error).__name__}: {error}"
    runner.questions.underway.discard(opened.id)
    with suppress(EngineLost):  # nobody drives the run any more
        runner.host.call(runner.host.soon, runner.tell)


def _key(name: Any) -> str:
    if isinstance(name, str):
        return name
    return key_of(name) if isinstance(name, type) else str(name.__name__)
