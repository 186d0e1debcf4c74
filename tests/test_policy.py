"""Answers given ahead of time, and handlers that answer instead of a person (R4.63 to R4.65)."""

import asyncio
import contextvars
import threading
from pathlib import Path
from typing import Any

import pytest

from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, Request, StartEvent, StopEvent, Workflow
from flownb.runtime.capture import sink
from tests.polling import until, until_asked, wait_until


class Begin(StartEvent):
    n: int = 2


class Verdict(HumanResponseEvent):
    ok: bool


class Approve(InputRequiredEvent[Verdict]):
    no: int = 0


class Urgent(Approve):
    pass


class Item(Event):
    no: int


def asks(kind: type[Approve] = Approve) -> Workflow[list[bool]]:
    """Asks `n` questions, one after the other."""
    flow = Workflow[list[bool]]("asks")

    @flow.step
    async def ask(ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=[(await ctx.ask(kind(no=i))).ok for i in range(ev.n)])

    return flow


@pytest.mark.parametrize(
    ("answers", "result"),
    [
        ({Approve: Verdict(ok=True)}, [True, True]),
        ({Approve: {"ok": False}}, [False, False]),
        ({Approve: lambda question: Verdict(ok=question.no == 1)}, [False, True]),
        ({Approve: [Verdict(ok=True), {"ok": False}]}, [True, False]),
        ({"ask": Verdict(ok=True)}, [True, True]),
        ({"ask": {"ok": False}, Approve: {"ok": True}}, [False, False]),
    ],
)
def test_answers_given_ahead(answers: Any, result: list[bool]):
    run = asks().with_options(answers=answers).run()
    assert run.result(20) == result
    assert [r.by for r in run.requests.all()] == ["given ahead"] * 2
    assert {t.how for t in run.debug.ticks if type(t).__name__ == "RequestAnswered"} == {"policy"}


def test_an_answer_for_a_base_class_answers_its_subclasses():
    assert asks(Urgent).with_options(answers={Approve: {"ok": True}}).run().result(20) == [True, True]


def test_a_list_is_used_up_and_then_a_person_is_asked():
    flow = asks().with_options(answers={Approve: [Verdict(ok=True)]})
    run = flow.run()
    wait_until(lambda: len(run.requests) == 1 and run.status == "waiting")
    run.answer(ok=False)
    assert run.result(20) == [True, False]
    assert flow.run().requests is not None  # the list of another run begins anew


def test_an_answer_that_does_not_fit_leaves_the_question_open_and_shows_why():
    """R4.64."""
    run = asks().with_options(answers={Approve: {"okay": True}}).run(n=1)
    wait_until(lambda: run._runner.questions.errors)
    assert "AnswerInvalid: Verdict has no field 'okay'" in run._runner.questions.errors[1]
    run.answer(ok=True)
    assert run.result(20) == [True]


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_a_handler_answers_and_the_loop_stays_live(kind: str):
    """R4.63."""
    seen: list[Any] = []

    async def later(request: Request[Approve]) -> Verdict:
        seen.append((request.step, request.question.no))
        await asyncio.sleep(0.01)
        return Verdict(ok=True)

    beats: list[threading.Event] = [threading.Event(), threading.Event()]

    def blocking(request: Request[Approve]) -> Verdict:
        seen.append((request.step, request.question.no))
        return Verdict(ok=beats[request.question.no].wait(20))  # set by the loop that it would block

    async def main() -> Any:
        run = asks().with_options(input_handler=later if kind == "async" else blocking).run()
        for no, beat in enumerate(beats):
            await until(lambda: len(seen) > no)  # noqa: B023 - used at once
            for _ in range(5):
                await asyncio.sleep(0.002)
            beat.set()
        return await run

    assert asyncio.run(main()) == [True, True]
    assert seen == [("ask", 0), ("ask", 1)]


@pytest.mark.parametrize("error", [ValueError("no idea"), SystemExit(1), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("kind", ["async", "plain", "answer"])
def test_a_handler_that_raises_leaves_the_question_open(error: BaseException, kind: str):
    """R4.64: whatever it raises, the engine goes on."""

    async def later(request: Any) -> Verdict:
        raise error

    def plain(request: Any) -> Verdict:
        raise error

    options: dict[str, Any] = {"answers": {Approve: plain}} if kind == "answer" else {}
    options = options or {"input_handler": later if kind == "async" else plain}
    run = asks().with_options(**options).run(n=1)
    wait_until(lambda: run._runner.questions.errors)
    assert type(error).__name__ in run._runner.questions.errors[1]
    wait_until(lambda: run.status == "waiting")
    run.answer(ok=True)
    assert run.result(20) == [True]


def test_an_answer_given_ahead_that_does_not_fit_is_a_reason_while_the_question_is_open():
    """R4.64, R4.65, R5.39: else a run in a script would wait without a word of why its answer was not taken."""
    run = asks().with_options(answers={Approve: 5}).run(n=1)
    wait_until(lambda: run.status == "waiting")
    wait_until(lambda: run._runner.questions.errors)
    assert "5 is no Verdict" in run.why()
    run.answer(ok=True)
    assert run.result(20) == [True]
    assert "5 is no Verdict" not in run.why()


def test_a_person_may_be_faster_than_the_handler():
    async def main() -> None:
        go = asyncio.Event()

        async def slow(request: Any) -> Verdict:
            await go.wait()
            return Verdict(ok=False)

        run = asks().with_options(input_handler=slow).run(n=1)
        await until_asked(run)
        run.answer(ok=True)
        assert await run == [True]
        go.set()
        await asyncio.sleep(0.01)
        assert run._runner.questions.errors == {}

    asyncio.run(main())


def test_answers_for_a_returned_question():
    flow = Workflow[int]("returned")

    @flow.step
    async def ask(ev: Begin) -> list[Approve]:
        return [Approve(no=i) for i in range(5)]

    @flow.step
    async def note(ev: Verdict, ctx: Context) -> Item:
        return Item(no=ctx.request(Approve).question.no if ev.ok else -1)

    @flow.step
    async def total(ev: list[Item]) -> StopEvent:
        return StopEvent(result=[i.no for i in ev])

    run = flow.with_options(answers={ask: lambda question: {"ok": question.no != 2}}).run()
    assert run.result(20) == [0, 1, -1, 3, 4]


def test_answers_if_headless_are_not_used_in_a_script():
    run = asks().with_options(answers={Approve: {"ok": True}}, answers_if="headless").run(n=1)
    wait_until(lambda: run.status == "waiting")
    run.answer(ok=False)
    assert run.result(20) == [False]


def test_a_handler_that_fails_later_is_shown_when_it_happens():
    """R4.64: whoever looks at the run is told, though no tick came."""
    go, told = threading.Event(), []

    def handler(request: Any) -> Verdict:
        go.wait(10)
        raise ValueError("mail server down")

    run = asks().with_options(input_handler=handler).run(n=1)
    wait_until(lambda: run.status == "waiting")
    run._runner.listeners.append(lambda: told.append(dict(run._runner.questions.errors)))
    go.set()
    wait_until(lambda: told)
    assert told[-1] == {1: "ValueError: mail server down"}
    run.cancel().result(20)


def test_a_handler_is_cancelled_with_its_run():
    seen: list[str] = []

    async def handler(request: Any) -> Verdict:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        return Verdict(ok=True)

    run = asks().with_options(input_handler=handler).run(n=1)
    wait_until(lambda: run._runner.questions.tasks)
    run.cancel().result(20)
    wait_until(lambda: seen == ["cancelled"])
    wait_until(lambda: not run._runner.questions.tasks)
    assert run._runner.questions.errors == {}


def test_a_handler_that_is_cancelled_by_itself_leaves_the_question_open():
    async def handler(request: Any) -> Verdict:
        raise asyncio.CancelledError

    run = asks().with_options(input_handler=handler).run(n=1)
    wait_until(lambda: run._runner.questions.errors)
    assert "CancelledError" in run._runner.questions.errors[1]
    run.answer(ok=True)
    assert run.result(20) == [True]


def test_a_handler_sees_the_context_of_who_started_the_run():
    """Not that of the step that asked: what it prints is no output of that step."""
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")
    seen: list[Any] = []

    async def handler(request: Any) -> Verdict:
        seen.append((who.get(), sink.get()))
        return Verdict(ok=True)

    who.set("me")
    run = asks().with_options(input_handler=handler).run(n=1)
    assert run.result(20) == [True]
    assert seen == [("me", None)]


class Bot:
    """An object that is called as a coroutine."""

    async def __call__(self, request: Any) -> Verdict:
        await asyncio.sleep(0)
        return Verdict(ok=True)


def test_an_object_whose_call_is_async_is_awaited_too():
    """R4.63: its answer is taken, and no coroutine is left behind."""
    run = asks().with_options(input_handler=Bot()).run()
    assert run.result(20) == [True, True]
    assert [(r.how, r.by) for r in run.requests.all()] == [("policy", "input_handler")] * 2
    told: list[str] = []

    class Mail:
        async def __call__(self, request: Any) -> None:
            told.append(request.id)
            raise OSError("mail is down")

    run = asks().with_options(on_request=Mail()).run(n=1)
    wait_until(lambda: run._runner.questions.notices)
    assert run._runner.questions.notices == {1: "on_request: OSError: mail is down"}
    assert told == [run.requests[0].id]
    run.answer(ok=True)
    assert run.result(20) == [True]


def test_who_is_told_may_block_for_long_also_of_a_question_of_a_child():
    """R4.63: it runs off the loop; what it raises later is shown with the question and loses nothing."""
    go, told = threading.Event(), threading.Event()

    def mail(request: Any) -> None:
        told.set()
        go.wait(20)
        raise OSError("mail is down")

    inner = asks()
    flow = Workflow[Any]("outer")

    @flow.step
    async def work(ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.run(inner, n=ev.n))

    run = flow.with_options(on_request=mail).run(n=2)
    assert told.wait(20)
    wait_until(lambda: len(run.requests) == 1)
    run.answer(ok=True)  # the loop is live
    wait_until(lambda: [r.question.no for r in run.requests] == [1])
    go.set()
    child = next(iter(run._runner.children.values()))
    wait_until(lambda: sorted(child.questions.notices) == [1, 2])
    assert child.questions.notices[2] == "on_request: OSError: mail is down"
    assert "on_request: OSError: mail is down" in run.children[child.run_id].why()
    run.answer(ok=False)
    assert run.result(20) == [True, False]


def test_what_went_wrong_for_two_reasons_is_shown_as_both():
    """R4.64."""

    def mail(request: Any) -> None:
        raise OSError("mail is down")

    def handler(request: Any) -> Verdict:
        wait_until(lambda: request._runner.questions.notices)
        raise ValueError("no model")

    run = asks().with_options(on_request=mail, input_handler=handler).run(n=1)
    wait_until(lambda: "no model" in run._runner.questions.errors.get(1, ""))
    assert run._runner.questions.trouble(1) == "on_request: OSError: mail is down; ValueError: no model"
    assert run._runner.questions.errors == {1: "ValueError: no model"}, "who is asked hears of no mail"
    run.answer(ok=True)
    assert run.result(20) == [True]


def test_what_went_wrong_with_a_link_does_not_show_it(tmp_path: Path):
    """R4.61: a mail client may put the whole text that it could not send into its error."""

    def mail(request: Any) -> None:
        raise OSError(f"cannot send http://127.0.0.1:8765/r/{request.token}")

    run = asks().with_options(on_request=mail, store=tmp_path / "runs.db").run(n=1)
    wait_until(lambda: run._runner.questions.notices)
    token = run.requests[0].token
    assert token and run._runner.questions.notices == {1: "on_request: OSError: cannot send http://127.0.0.1:8765/r/…"}
    assert token not in str(run.why())
    run.cancel().result(20)
