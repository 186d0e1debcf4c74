"""Questions to people and their answers, at the door and after it."""

import asyncio
import threading
from typing import Any, Generic, Literal, TypeVar

import pytest
from pydantic import Field

from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Workflow, options
from flownb.errors import (
    AlreadyAnswered,
    AmbiguousAnswer,
    AnswerInvalid,
    AnswerTimeout,
    RequestClosed,
    RequestDisposed,
    RequestError,
    WorkflowRuntimeError,
)
from flownb.events import RequestClosedEvent
from flownb.testing import ManualClock
from tests.polling import until_asked, wait_for_questions, wait_until


class Begin(StartEvent):
    n: int = 1


class Item(Event):
    no: int


class Verdict(HumanResponseEvent):
    decision: Literal["approve", "reject"]
    note: str = ""


class Approve(InputRequiredEvent[Verdict]):
    no: int


class Done(Event):
    no: int
    decision: str


def approvals(limit_s: float | None = None, default: Verdict | None = None) -> Workflow[dict[int, str]]:
    """One returned question for each of `n` items; the answers are joined."""
    flow = Workflow[dict[int, str]]("approvals")

    @flow.step
    async def split(ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(ev.n)]

    @flow.step
    async def check(ev: Item) -> Approve:
        question = Approve(no=ev.no)
        return question if limit_s is None else question.with_deadline(limit_s, default=default)

    @flow.step
    async def note(ev: Verdict, ctx: Context) -> Done:
        return Done(no=ctx.request(Approve).question.no, decision=ev.decision)

    @flow.step
    async def total(ev: list[Done]) -> StopEvent:
        return StopEvent(result={d.no: d.decision for d in ev})

    return flow


def asking(n: int = 1, **kwargs: Any) -> Any:
    run = approvals(**kwargs).run(n=n)
    wait_for_questions(run, n)
    return run


def test_returned_questions_keep_their_branch_open_and_are_joined():
    """R4.14, R4.39, R4.43, C065: twenty equal questions are twenty."""
    run = asking(20)
    assert run.status == "waiting"
    assert [r.question.no for r in run.requests] == list(range(20))
    assert len({r.id for r in run.requests}) == 20
    for request in reversed(list(run.requests)):
        request.answer(decision="approve" if request.question.no % 2 else "reject")
    assert run.result(20) == {i: "approve" if i % 2 else "reject" for i in range(20)}


def test_requests_are_found_by_place_number_id_and_kind():
    run = asking(3)
    requests = run.requests
    assert [r.number for r in requests] == [1, 2, 3]
    assert requests[-1].id == f"{run.run_id}:3"
    assert requests[f"{run.run_id}:2"].number == requests["2"].number == 2
    assert len(requests.of(Approve)) == 3
    with pytest.raises(KeyError, match=r"No open question '9'. Open: "):
        requests["9"]
    assert repr(requests) == "<3 open questions: 1 Approve, 2 Approve, 3 Approve>"
    run.answer(2, decision="approve")
    wait_until(lambda: requests.all()[1].status == "answered")
    assert [r.number for r in requests] == [1, 3]
    assert [r.number for r in requests.of(Approve).all()] == [1, 2, 3]
    requests.answer(decision="reject")
    assert run.result(20) == {0: "reject", 1: "approve", 2: "reject"}


@pytest.mark.parametrize("how", ["fields", "object", "dict", "first", "by id", "by request"])
def test_every_way_to_answer(how: str):
    run = asking()
    request = run.requests[0]
    answers: dict[str, Any] = {
        "fields": lambda: run.answer(decision="approve"),
        "object": lambda: run.answer(Verdict(decision="approve")),
        "dict": lambda: run.answer({"decision": "approve"}),
        "first": lambda: request.answer(Verdict(decision="approve")),
        "by id": lambda: run.answer(request.id, decision="approve"),
        "by request": lambda: run.answer(request, {"decision": "approve"}),
    }
    answers[how]()
    assert run.result(20) == {0: "approve"}
    assert request.value == Verdict(decision="approve")


def test_an_answer_records_who_and_when():
    """R4.49."""
    run = asking(2)
    first, second = run.requests
    first.answer(decision="approve", by="ann")
    second.answer(decision="approve")
    assert (first.by, second.by) == ("ann", options.user)
    run.result(20)
    ticks = [tick for tick in run.debug.ticks if type(tick).__name__ == "RequestAnswered"]
    assert [(t.request, t.by, t.how) for t in ticks] == [(1, "ann", "person"), (2, options.user, "person")]


def test_an_answer_without_a_name_needs_one_open_question():
    run = asking(2)
    one, two = f"{run.run_id}:1", f"{run.run_id}:2"
    with pytest.raises(AmbiguousAnswer, match=rf"name one: {one}: Approve\(no=0\); {two}: Approve\(no=1\)"):
        run.answer(decision="approve")
    run.answer(1, decision="approve")
    run.answer(decision="reject")
    assert run.result(20) == {0: "approve", 1: "reject"}


def test_the_same_answer_twice_is_harmless_and_another_is_refused():
    """R4.47, C071: a double click; the first stands."""
    run = asking(2)
    run.answer(1, decision="approve", note="x")
    run.answer(1, decision="approve", note="x")
    with pytest.raises(AlreadyAnswered, match=r"The first answer stands|was answered by") as caught:
        run.answer(1, decision="reject")
    assert caught.value.value == Verdict(decision="approve", note="x")
    wait_until(lambda: run.requests.all()[0].status == "answered")
    with pytest.raises(AlreadyAnswered):
        run.answer(1, decision="reject")
    run.answer(2, decision="reject")
    assert run.result(20) == {0: "approve", 1: "reject"}
    assert [type(t).__name__ for t in run.debug.ticks].count("RequestAnswered") == 2


def test_two_answers_at_the_same_moment_one_wins():
    """R1.30."""
    for _ in range(20):
        run = asking()
        refused: list[Exception] = []
        ready = threading.Barrier(2)

        def answer(decision: str, run: Any = run, ready: Any = ready, refused: Any = refused) -> None:
            ready.wait(20)
            try:
                run.answer(1, decision=decision)
            except AlreadyAnswered as error:
                refused.append(error)

        threads = [threading.Thread(target=answer, args=(d,)) for d in ("approve", "reject")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert run.result(20)[0] in ("approve", "reject")
        assert len(refused) == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"decision": "aprove"}, "decision: Input should be 'approve' or 'reject'"),
        ({}, "decision: Field required"),
        ({"decision": "approve", "nte": "x"}, "Verdict has no field 'nte'. Did you mean 'note'"),
    ],
)
def test_an_answer_that_does_not_fit_appends_nothing(given: dict[str, Any], said: str):
    """R4.45: also a misspelt field, though events keep undeclared ones (API §6)."""
    run = asking()
    before = run.debug.ticks
    with pytest.raises(AnswerInvalid, match=said):
        run.answer(**given)
    with pytest.raises(ValueError, match=r"does not fit|has no field"):  # it is a ValueError too
        run.answer(1, given)
    with pytest.raises(AnswerInvalid, match="'yes' is no Verdict"):
        run.answer(1, "yes")
    assert run.debug.ticks == before
    assert run.requests[0].status == "open"
    run.answer(decision="approve")
    assert run.result(20) == {0: "approve"}


def test_answers_after_the_end_are_refused_with_the_reason():
    """R4.48, C075."""
    run = asking(2)
    first, second = run.requests
    first.answer(decision="approve")
    run.cancel("enough").result(20)
    with pytest.raises(RequestClosed, match=r"is closed; an answer changes nothing now|is no longer open"):
        run.answer(2, decision="approve")
    with pytest.raises(RequestClosed):
        second.answer(decision="approve")
    with pytest.raises(RequestClosed, match="asks nothing: it is cancelled"):
        run.answer(decision="approve")
    assert second.status == "closed"


def test_a_question_that_never_was():
    run = asking()
    for which in (9, "9", f"{run.run_id}:9"):
        with pytest.raises(RequestError, match="has no question"):
            run.answer(which, decision="approve")
    with pytest.raises(RequestError, match=r"is neither of run .* nor of a child of it"):
        run.answer("other:1", decision="approve")
    with pytest.raises(RequestError, match="names no question"):
        run.answer("first", decision="approve")


def test_a_default_of_a_returned_question_goes_on_in_its_branch():
    """R4.54: recorded as a default, never as a person's answer."""
    clock = ManualClock()

    async def main() -> Any:
        run = approvals(60, Verdict(decision="reject")).with_options(clock=clock).run(n=2)
        await until_asked(run, 2)
        run.answer(1, decision="approve")
        clock.advance(61)
        result = await run
        assert [r.status for r in run.requests.all()] == ["answered", "default"]
        assert run.requests.all()[1].by == ""
        return result

    assert asyncio.run(main()) == {0: "approve", 1: "reject"}


def test_a_returned_question_that_expires_fails_the_run_if_nobody_listens():
    """R4.76."""
    clock = ManualClock()

    async def main() -> None:
        run = approvals(60).with_options(clock=clock).run()
        await until_asked(run)
        clock.advance(60)
        with pytest.raises(AnswerTimeout, match=r"Question 1 .*Approve.* got no answer in time"):
            await run
        assert run.requests.all()[0].status == "expired"

    asyncio.run(main())


def test_a_returned_question_that_is_disposed_of_fails_the_run_if_nobody_listens():
    run = asking()
    run.requests[0].dispose("not needed")
    with pytest.raises(RequestDisposed, match=r"was disposed of .not needed."):
        run.result(20)


@pytest.mark.parametrize("reason", ["deadline", "disposed"])
def test_a_step_that_takes_request_closed_hears_of_it_in_the_branch(reason: str):
    """R4.76."""
    clock = ManualClock()
    flow = approvals(60)

    @flow.step
    async def closed(ev: RequestClosedEvent) -> Done:
        assert ev.reason == reason
        return Done(no=ev.question.no, decision=f"{ev.reason} {ev.request_id}")

    async def main() -> Any:
        run = flow.with_options(clock=clock).run(n=2, run_id=None)
        await until_asked(run, 2)
        if reason == "deadline":
            run.answer(1, decision="approve")
            clock.advance(60)
        else:
            run.requests[1].dispose()
            run.answer(1, decision="approve")
        return await run, run.run_id

    result, run_id = asyncio.run(main())
    assert result == {0: "approve", 1: f"{reason} {run_id}:2"}


def test_disposing_of_an_answered_question_does_nothing():
    """R4.53."""
    run = asking()
    request = run.requests[0]
    request.answer(decision="approve")
    request.dispose("too late")
    assert run.result(20) == {0: "approve"}
    assert request.status == "answered"


def test_an_unparametrised_question_takes_the_only_answer_that_steps_take():
    """API §6, rule 3; the way that L's documents do it."""
    flow = Workflow[str]("plain")

    @flow.step
    async def ask(ev: Begin) -> InputRequiredEvent:
        return InputRequiredEvent(prefix="Your name? ")

    @flow.step
    async def greet(ev: HumanResponseEvent) -> StopEvent:
        return StopEvent(result=f"Hello {ev.response}")

    run = flow.run()
    wait_for_questions(run)
    assert run.requests[0].answer_type is HumanResponseEvent
    run.answer(response="ann")
    assert run.result(20) == "Hello ann"


B = TypeVar("B", bound=HumanResponseEvent)


class Ask(InputRequiredEvent[B], Generic[B]):
    text: str = ""


class AskVerdict(Ask[Verdict]):
    pass


class AskMore(AskVerdict):
    more: int = 1


class Aliased(HumanResponseEvent):
    from_: str = Field(alias="from")


class AskAliased(InputRequiredEvent[Aliased]):
    pass


def one_question(question: InputRequiredEvent[Any], answer: type[Event]) -> Any:
    flow = Workflow[Any]("one")

    async def ask(ev: Begin) -> StopEvent: ...

    ask.__annotations__["return"] = type(question)
    ask = flow.step(ask)
    flow.steps["ask"].call = lambda ev: _later(question)

    async def end(ev: Event) -> StopEvent:
        return StopEvent(result=ev)

    end.__annotations__["ev"] = answer
    flow.step(end)
    run = flow.run()
    wait_for_questions(run)
    return run


async def _later(value: Any) -> Any:
    return value


@pytest.mark.parametrize("question", [AskVerdict(), AskMore()])
def test_the_answers_type_is_found_through_generic_bases(question: InputRequiredEvent[Any]):
    run = one_question(question, Verdict)
    assert run.requests[0].answer_type is Verdict
    run.answer(decision="reject")
    assert run.result(20) == Verdict(decision="reject")


def test_a_field_with_an_alias_is_answered_by_its_alias():
    run = one_question(AskAliased(), Aliased)
    run.answer(**{"from": "ann"})
    assert run.result(20).from_ == "ann"


def test_a_class_made_by_subscription_alone_is_refused():
    """API §3: no stable name."""
    flow = Workflow[Any]("subscripted")

    @flow.step
    async def ask(ev: Begin) -> InputRequiredEvent[Verdict]:
        return InputRequiredEvent[Verdict]()

    @flow.step
    async def end(ev: Verdict) -> StopEvent:
        return StopEvent()

    with pytest.raises(WorkflowRuntimeError, match="a class made by subscription alone has no name of its own"):
        flow.run().result(20)


def test_a_question_that_is_sent_is_a_request_too():
    """R4.39; it continues the branch of who sent it."""
    flow = Workflow[str]("sent")

    @flow.step
    async def ask(ev: Begin, ctx: Context) -> Approve | None:
        ctx.send_event(Approve(no=3))
        return None

    @flow.step
    async def end(ev: Verdict, ctx: Context) -> StopEvent:
        return StopEvent(result=(ctx.request(Approve).question.no, ev.decision))

    run = flow.run()
    wait_for_questions(run)
    run.answer(decision="approve")
    assert run.result(20) == (3, "approve")


def test_a_request_shows_its_question_answer_type_and_status():
    run = asking()
    request = run.requests[0]
    assert repr(request) == f"<Request {run.run_id}:1 of check: Approve(no=0), open>"
    assert (request.step, request.answer_type, request.deadline, request.default) == ("check", Verdict, None, None)
    assert request.value is None
    assert request.by == ""
    assert request.opened_at > 0
    run.cancel().result(20)


def test_an_event_from_outside_answers_the_question_that_it_is_for():
    """R4.51: by its `request_id`, else the oldest open question of its type; recorded as an event's answer."""
    run = asking(3)
    first, second, third = run.requests
    run.send_event(Verdict(decision="reject", request_id=third.id)).result(20)
    run.send_event(Verdict(decision="approve")).result(20)
    run.send_event(Verdict(decision="approve"))
    assert run.result(20) == {0: "approve", 1: "approve", 2: "reject"}
    assert [first.status, second.status, third.status] == ["answered"] * 3
    assert {tick.how for tick in run.debug.ticks if hasattr(tick, "how")} == {"event"}


def test_the_only_question_is_answered_by_the_plain_value():
    """`run.answer("hey")` is an answer, not the name of a question; a number and an id are names."""
    flow = Workflow("greeting")

    @flow.step
    async def ask(ev: StartEvent, ctx: Context) -> StopEvent:
        return StopEvent(result=[await ctx.ask("Who?"), await ctx.ask("Sure?", bool)])

    run = flow.run()
    wait_for_questions(run)
    run.answer("hey")
    wait_for_questions(run, numbers=[2])
    with pytest.raises(RequestError, match="no question 7"):
        run.answer(7)
    run.answer(True)
    assert run.result(20) == ["hey", True]
