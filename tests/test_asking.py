"""Questions from beginning to end: what a run asks, who may answer, what a re-run makes of it."""

import asyncio
import threading
import time
from typing import Any, Literal

import pytest
from pydantic import BaseModel, SecretStr

from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, Request, StartEvent, StopEvent, Workflow
from flownb.core.commands import OpenRequest
from flownb.core.ticks import TimerFired
from flownb.errors import (
    AlreadyAnswered,
    AnswerInvalid,
    AnswerTimeout,
    NobodyToAnswer,
    NonDeterministic,
    RequestClosed,
    RequestDisposed,
    RequestError,
    TokenTaken,
    WorkflowError,
)
from flownb.retry_policy import retry_policy, stop_after_attempt, wait_fixed
from flownb.runtime.acting import ACTIONS
from flownb.testing import ManualClock
from tests.polling import until_asked, wait_for_questions, wait_until
from tests.restarting import restart


class Begin(StartEvent):
    n: int = 1


class Item(Event):
    no: int


class Done(Event):
    no: int


class Verdict(HumanResponseEvent):
    ok: bool
    note: str = ""


class Approve(InputRequiredEvent[Verdict]):
    text: str = ""


class Login(HumanResponseEvent):
    user: str
    password: SecretStr


class AskLogin(InputRequiredEvent[Login]):
    pass


class Reply(HumanResponseEvent):
    text: str
    room: str = ""


class Call(InputRequiredEvent):
    prefix: str = "Who is there?"


def one(fn: Any, **options: Any) -> Workflow[Any]:
    """A workflow of one step."""
    flow = Workflow[Any]("asking")
    flow.step(**options)(fn)
    return flow


def open_requests(run: Any, n: int = 1) -> Any:
    wait_for_questions(run, n)
    return run.requests


def statuses(run: Any) -> list[str]:
    return [request.status for request in run.requests.all()]


def kinds(run: Any) -> list[str]:
    return [type(tick).__name__ for tick in run.debug.ticks]


# -- one concept


def test_a_question_is_one_thing_however_it_is_asked():
    """R4.38, R4.39, R4.40: returned, sent, asked, in words, shown by a wait: each has an id, an opener, a schema."""
    flow = Workflow[Any]("kinds", accepts=[Item])

    @flow.step
    async def begin(ev: Begin, ctx: Context) -> Approve:
        ctx.send_event(Approve(text="sent"))
        ctx.send_event(Item(no=1))
        return Approve(text="returned")

    @flow.step
    async def work(ev: Item, ctx: Context) -> None:
        await asyncio.gather(
            ctx.ask(Approve(text="asked"), timeout=60, default=Verdict(ok=False)),
            ctx.ask("in words", int),
            ctx.wait_for_event(Reply, waiter_event=Call()),
        )

    @flow.step
    async def note(ev: Verdict) -> StopEvent | None:
        return StopEvent(result="over") if ev.note == "end" else None

    run = flow.with_options(clock=ManualClock()).run(run_id="kinds")
    asked = {getattr(r.question, "text", "") or r.question.prefix: r for r in open_requests(run, 5)}
    assert {name: (r.step, r.answer_type, r.status) for name, r in asked.items()} == {
        "sent": ("begin", Verdict, "open"),
        "returned": ("begin", Verdict, "open"),
        "asked": ("work", Verdict, "open"),
        "in words": ("work", int, "open"),
        "Who is there?": ("work", Reply, "open"),
    }
    assert sorted(r.id for r in asked.values()) == [f"kinds:{n}" for n in range(1, 6)]
    asker = asked["asked"]
    assert (asker.deadline, asker.default) == (asker.opened_at + 60, Verdict(ok=False))
    asked["returned"].answer(ok=True, note="end")
    assert run.result(20) == "over"
    assert {r.status for r in asked.values()} == {"answered", "closed"}


def test_a_question_of_the_run_outlives_who_sent_it_and_an_asked_one_does_not():
    """R4.41."""
    flow = Workflow[Any]("belongs")

    @flow.step
    async def begin(ev: Begin, ctx: Context) -> Approve | None:
        ctx.send_event(Approve(text="sent"))
        gave_up = asyncio.ensure_future(_wait(ctx.ask(Approve(text="asked"))))
        await asyncio.sleep(0.02)
        gave_up.cancel()
        await asyncio.wait([gave_up])
        return None

    @flow.step
    async def note(ev: Verdict) -> StopEvent:
        return StopEvent(result=ev.ok)

    run = flow.run()
    wait_until(
        lambda: {r.question.text: r.status for r in run.requests.all()} == {"sent": "open", "asked": "withdrawn"}
    )
    run.answer(ok=True)
    assert run.result(20) is True


async def _wait(pending: Any) -> Any:
    return await pending


def test_every_way_in_which_a_question_ends_has_a_status_of_its_own():
    """R4.75, R4.80, R4.54, R4.55."""
    clock = ManualClock()

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        await ctx.ask(Approve(text="answered"))
        await ctx.ask(Approve(text="default"), timeout=5, default=Verdict(ok=False))
        with pytest.raises(AnswerTimeout):
            await ctx.ask(Approve(text="expired"), timeout=5)
        with pytest.raises(RequestDisposed, match="not now"):
            await ctx.ask(Approve(text="disposed"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ctx.ask(Approve(text="withdrawn")), 0.01)
        await ctx.ask(Approve(text="closed"))
        return StopEvent()

    run = one(work).with_options(clock=clock).run()
    open_requests(run)[0].answer(ok=True)
    for text in ("default", "expired"):
        wait_until(lambda: [r.question.text for r in run.requests] == [text])  # noqa: B023 - used at once
        clock.advance(5)
    wait_until(lambda: [r.question.text for r in run.requests] == ["disposed"])
    assert run.requests[0].dispose("not now") == ""
    wait_until(lambda: [r.question.text for r in run.requests] == ["closed"])
    run.cancel().result(20)
    assert {r.question.text: r.status for r in run.requests.all()} == {
        name: name for name in ("answered", "default", "expired", "disposed", "withdrawn", "closed")
    }
    assert [r.dispose() for r in run.requests.all()] == statuses(run)  # R4.53: what had closed it


def test_a_question_that_is_seen_can_be_answered_at_once(monkeypatch: pytest.MonkeyPatch):
    """R4.45: its type is known and it is in every list, also while the turn that opened it is still acted on."""

    class Size(BaseModel):
        n: int

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.ask("Size?", Size))

    go, opened = threading.Event(), ACTIONS[OpenRequest]

    def held(runner: Any, command: Any) -> None:
        go.wait(20)
        opened(runner, command)

    monkeypatch.setitem(ACTIONS, OpenRequest, held)
    run = one(work).with_options(host="thread").run()
    try:
        wait_until(lambda: len(run.requests) == 1)
        assert [request.answer_type for request in run.requests.all()] == [Size]
        with pytest.raises(AnswerInvalid, match="valid integer"):
            run.answer(n="three")
        run.answer(n=3)
    finally:
        go.set()
    assert run.result(20) == Size(n=3)


def test_an_answer_names_an_open_question_of_this_run():
    """R4.44."""
    run, other = (one(_asks).run(run_id=name) for name in ("mine", "other"))
    request = open_requests(run)[0]
    foreign = open_requests(other)[0]
    with pytest.raises(RequestError, match="neither of run 'mine' nor of a child"):
        run.answer(foreign.id, ok=True)
    with pytest.raises(RequestError, match="has no question 'mine:2'"):
        run.answer("mine:2", ok=True)
    assert (request.status, foreign.status) == ("open", "open")
    run.answer(request.id, ok=True)
    other.cancel().result(20)
    assert run.result(20) is True


async def _asks(ev: Begin, ctx: Context) -> StopEvent:
    return StopEvent(result=(await ctx.ask(Approve())).ok)


def test_an_answer_records_who_when_and_how():
    """R4.49: a person's, an event's from outside, a default."""
    clock = ManualClock(500.0)

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        await ctx.ask(Approve())
        await ctx.ask(Approve())
        await ctx.ask(Approve(), timeout=1, default=Verdict(ok=True))
        return StopEvent()

    run = one(work).with_options(clock=clock).run()
    open_requests(run)[0].answer(ok=True, by="ann")
    wait_for_questions(run, numbers=[2])
    clock.advance(5)
    run.send_event(Verdict(ok=True)).result(20)
    wait_for_questions(run, numbers=[3])
    clock.advance(1)
    run.result(20)
    ticks = [t for t in run.debug.ticks if type(t).__name__ == "RequestAnswered"]
    assert [(t.request, t.how, t.at) for t in ticks] == [(1, "person", 500.0), (2, "event", 505.0)]
    assert [r.by for r in run.requests.all()] == ["ann", ticks[1].by, ""]
    assert statuses(run) == ["answered", "answered", "default"]


# -- refused


def test_the_words_of_an_answer_that_comes_too_late():
    """R4.47, R4.48: who answered what, and why it is closed."""
    run = one(_asks).run(run_id="late")
    request = open_requests(run)[0]
    request.answer(ok=True, by="ann")
    with pytest.raises(AlreadyAnswered) as caught:
        request.answer(ok=False)
    assert "Question 1 was answered by ann at " in str(caught.value)
    assert "Verdict(ok=True, note=''). The first answer stands." in str(caught.value)
    assert run.result(20) is True
    cancelled = one(_asks).run(run_id="ended")
    request = open_requests(cancelled)[0]
    cancelled.cancel("enough").result(20)
    with pytest.raises(RequestClosed, match=r"^Question 1 of run 'ended' is no longer open \(closed\)\.$"):
        request.answer(ok=True)


def test_the_same_secret_answer_twice_is_harmless_and_the_secret_is_in_no_word():
    """R4.47, R4.50: compared without secret fields; in memory the asker gets the secret, nobody else its text."""

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        login = await ctx.ask(AskLogin())
        await ctx.ask(Approve())
        return StopEvent(result=(login.user, login.password.get_secret_value()))

    run = one(work).run()
    request = open_requests(run)[0]
    request.answer(user="ann", password="hunter2")
    request.answer(user="ann", password="hunter2")
    request.answer(user="ann", password="another")  # the secret is not compared
    with pytest.raises(AlreadyAnswered) as caught:
        request.answer(user="bob", password="hunter2")
    assert "hunter2" not in str(caught.value)
    wait_for_questions(run, numbers=[2])
    assert "hunter2" not in f"{run.debug.ticks!r} {request!r} {request.value!r} {run!r} {run.why()}"
    run.answer(ok=True)
    assert run.result(20) == ("ann", "hunter2")


def test_a_secret_answer_is_given_again_in_this_process(tmp_path: Any):
    """R4.50: it stays in memory; the journal has a mark in its place."""

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        login = await ctx.ask(AskLogin())
        await ctx.ask(Approve())
        return StopEvent(result=len(login.password.get_secret_value()))

    from flownb import Store

    store = Store(tmp_path / "runs.db")
    run = one(work).with_options(store=store).run(run_id="secret")
    open_requests(run)[0].answer(user="ann", password="hunter2")
    wait_for_questions(run, numbers=[2])
    restart(run)
    run.answer(ok=True)
    assert run.result(20) == len("hunter2")
    store.close()
    assert b"hunter2" not in b"".join(file.read_bytes() for file in tmp_path.iterdir() if file.is_file())


def test_a_value_that_does_not_fit_words_is_refused_before_anything_is_appended():
    """R4.45."""

    class Size(BaseModel):
        n: int

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=(await ctx.ask("How many?", int), await ctx.ask("Size?", Size)))

    run = one(work).run()
    open_requests(run)
    before = run.debug.ticks
    with pytest.raises(AnswerInvalid, match="valid integer"):
        run.answer(None, "many")
    with pytest.raises(AnswerInvalid, match=r"takes one value of int, no fields \(n\): run\.answer\(None, value\)"):
        run.answer(n=3)
    assert run.debug.ticks == before
    run.answer(None, "7")
    wait_for_questions(run, numbers=[2])
    run.answer(n=3)
    assert run.result(20) == (7, Size(n=3))


# -- deadlines


@pytest.mark.parametrize("given", ["seconds", "delta", "moment"])
def test_a_deadline_stands_in_the_question_itself(given: str):
    """R4.54, API §6: `with_deadline` of an asked question counts as `timeout=` and `default=` do."""
    import datetime as dt

    clock = ManualClock(1_000.0)
    limits: dict[str, Any] = {
        "seconds": 60,
        "delta": dt.timedelta(minutes=1),
        "moment": dt.datetime.fromtimestamp(1_060.0, dt.UTC),
    }

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=(await ctx.ask(Approve().with_deadline(limits[given], default=Verdict(ok=True)))).ok)

    run = one(work).with_options(clock=clock).run()
    request = open_requests(run)[0]
    assert (request.deadline, request.default) == (1_060.0, Verdict(ok=True))
    clock.advance(60)
    assert run.result(20) is True
    assert request.status == "default"


@pytest.mark.parametrize("kind", ["ask", "sent", "event"])
def test_a_countdown_that_is_held_takes_nothing_away(kind: str):
    """R4.56: of an asked question, a returned one, and a wait that shows one."""
    clock = ManualClock()
    flow = Workflow[Any]("held")

    @flow.step
    async def begin(ev: Begin, ctx: Context) -> Approve | StopEvent:
        if kind == "sent":
            return Approve().with_deadline(5)
        if kind == "ask":
            return StopEvent(result=(await ctx.ask(Approve(), timeout=5)).ok)
        return StopEvent(result=(await ctx.wait_for_event(Verdict, waiter_event=Call(), timeout=5)).ok)

    @flow.step
    async def note(ev: Verdict) -> StopEvent:
        return StopEvent(result=ev.ok)

    run = flow.with_options(clock=clock).run()
    request = open_requests(run)[0]
    assert request.deadline == clock.now() + 5
    request.hold()
    wait_until(lambda: request.deadline is None)
    assert "RequestHeld" in kinds(run)
    clock.advance(1000)
    time.sleep(0.02)
    assert request.status == "open"
    request.answer(ok=True)
    assert run.result(20) is True


def test_no_deadline_beats_an_answer_that_was_accepted():
    """R4.54, R1.27: the answer waits before a closed gate while the deadline passes."""
    clock = ManualClock()

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=(await ctx.ask(Approve(), timeout=5, default=Verdict(ok=False))).ok)

    run = one(work).with_options(clock=clock).run()
    request = open_requests(run)[0]
    run.pause().result(20)
    request.answer(ok=True, by="ann")
    clock.advance(10)
    run.cont()
    assert run.result(20) is True
    assert (request.status, request.by) == ("answered", "ann")


def test_the_limit_of_a_wait_that_shows_a_question_beats_no_accepted_answer_either():
    """R1.27, R1.31: the answer comes when the limit has passed already, but before the gate opens."""
    clock = ManualClock()

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=(await ctx.wait_for_event(Reply, waiter_event=Call(), timeout=5)).text)

    run = one(work).with_options(clock=clock).run()
    request = open_requests(run)[0]
    run.pause().result(20)
    clock.advance(10)
    wait_until(lambda: any(isinstance(tick, TimerFired) for tick in run.debug.inbox))
    request.answer(text="here")
    run.cont()
    assert run.result(20) == "here"
    assert request.status == "answered"


@pytest.mark.parametrize("stops", [False, True])
def test_an_answer_that_comes_while_its_deadline_is_admitted_is_refused(stops: bool):
    """R1.27, R1.31: no answer is accepted and then lost; a deadline that is held up opens the door again."""
    clock, refused = ManualClock(), []

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        try:
            return StopEvent(result=(await ctx.ask(Approve(), timeout=5)).note)
        except AnswerTimeout:
            return StopEvent(result="expired")

    flow = one(work)
    run = flow.with_options(clock=clock).run()
    request = open_requests(run)[0]

    def answers(moment: Any) -> bool:  # on another thread than the one that drives the run
        if not isinstance(moment.tick, TimerFired):
            return False
        thread = threading.Thread(target=answer)
        thread.start()
        thread.join()
        return stops

    def answer() -> None:
        try:
            request.answer(ok=True, note="during it")
        except RequestClosed as error:
            refused.append(error)

    flow.breakpoints.add(when=answers)
    clock.advance(5)
    if stops:
        wait_until(lambda: run.status == "paused")
        request.answer(ok=True, note="after it")
        run.cont()
    assert run.result(20) == ("after it" if stops else "expired")
    assert len(refused) == 1


# -- tokens


def test_a_token_of_the_callers_is_taken_once_and_in_no_word():
    """R4.58, R4.61: neither while the first is on its way nor once it is open; free again after its end."""
    words: list[str] = []

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        first = ctx.ask(Approve(text="a"), token="s3cret-word")
        with pytest.raises(TokenTaken) as caught:
            ctx.ask(Approve(text="b"), token="s3cret-word")
        words.append(f"{caught.value} {caught.value!r} {vars(caught.value)}")
        await first
        await ctx.ask(Approve(text="c"), token="s3cret-word")
        return StopEvent(result="both")

    run = one(work).run()
    request = open_requests(run)[0]
    words.append(f"{request!r} {run.requests!r} {run.debug.ticks!r} {run.now!r} {run.why()}")
    with pytest.raises(AnswerInvalid) as caught:
        request.answer(okay=True)
    words.append(f"{caught.value} {vars(caught.value)}")
    request.answer(ok=True)
    wait_until(lambda: [r.question.text for r in run.requests] == ["c"])
    run.answer(ok=True)
    assert run.result(20) == "both"
    assert "s3cret-word" not in " ".join(words)


@pytest.mark.parametrize("changed", [False, True])
def test_a_question_that_is_asked_again_has_its_token_still(changed: bool):
    """R4.58, R4.70: its own open question, or the one whose place it takes, is no other."""
    starts: list[int] = []

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        starts.append(1)
        text = f"draft {len(starts)}" if changed else "the same"
        verdict, _ = await asyncio.gather(ctx.ask(Approve(text=text), token="t"), ctx.ask("And?", key="and"))
        return StopEvent(result=verdict.ok)

    run = one(work).run()
    open_requests(run, 2)
    restart(run)
    run.answer(next(r for r in run.requests if not hasattr(r.question, "text")).id, "go on")
    wait_until(
        lambda: (
            len(starts) == 2
            and [r.question.text for r in run.requests] == [f"draft {len(starts)}" if changed else "the same"]
        )
    )
    run.answer(ok=True)
    assert run.result(20) is True


# -- events instead of answers


def test_an_event_that_names_a_question_answers_that_one_or_none():
    """R4.51, R4.48: also one of a child; a closed one is refused, never another answered in its place."""
    inner = one(_asks)

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        first = await ctx.ask(Approve(text="first"))
        second, third = await asyncio.gather(ctx.ask(Approve(text="second")), ctx.run(inner))
        return StopEvent(result=[first.note, second.note, third])

    run = one(work).run(run_id="named")
    first = open_requests(run)[0]
    run.send_event(Verdict(ok=True, note="1", request_id=first.id)).result(20)
    open_requests(run, 2)
    with pytest.raises(AlreadyAnswered):
        run.send_event(Verdict(ok=True, note="2", request_id=first.id))
    assert len(run.requests) == 2
    run.send_event(Verdict(ok=True, request_id="named/1/1:1")).result(20)
    assert [r.question.text for r in run.requests] == ["second"]
    run.send_event(Verdict(ok=True, note="3", request_id=2))
    assert run.result(20) == ["1", "3", True]


def test_an_event_that_names_a_question_costs_the_same_however_many_are_open():
    """R4.51: the other ones are not looked at."""
    looked: list[int] = []

    class Noting(dict[int, Any]):
        def __contains__(self, number: object) -> bool:
            looked.append(number)  # type: ignore[arg-type]
            return super().__contains__(number)

        def get(self, number: Any, default: Any = None) -> Any:
            looked.append(number)
            return super().get(number, default)

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        answers = await asyncio.gather(*(ctx.ask(Approve()) for _ in range(20)))
        return StopEvent(result=[answer.ok for answer in answers])

    run = one(work).run()
    ids = [request.id for request in open_requests(run, 20)]
    run._runner.questions.accepted = Noting()
    for request_id in ids[:10]:
        run.send_event(Verdict(ok=True, request_id=request_id)).result(20)
    assert set(looked) == set(range(1, 11))
    for request_id in ids[10:]:
        run.answer(request_id, ok=False)
    assert run.result(20) == [True] * 10 + [False] * 10


def test_an_event_goes_to_the_waiter_that_it_fits_before_the_oldest_question():
    """R4.51."""
    flow = Workflow[Any]("order")

    @flow.step
    async def begin(ev: Begin, ctx: Context) -> Item:
        ctx.send_event(Item(no=2))
        return Item(no=1)

    @flow.step
    async def asks(ev: Item, ctx: Context) -> Done:
        if ev.no == 1:
            got = await ctx.ask(Approve())
        else:
            got = await ctx.wait_for_event(Verdict, requirements={"note": "b"})
        ctx.state.set(f"got {ev.no}", got.note)
        return Done(no=ev.no)

    @flow.step
    async def end(ev: Done, ctx: Context) -> StopEvent | None:
        state = ctx.state.get()
        return StopEvent(result=state) if len(state) == 2 else None

    run = flow.run()
    wait_until(lambda: run.status == "waiting")
    run.send_event(Verdict(ok=True, note="b")).result(20)
    run.send_event(Verdict(ok=True, note="a")).result(20)
    assert run.result(20) == {"got 1": "a", "got 2": "b"}


def test_the_form_of_a_wait_is_the_event_with_what_it_requires_filled_in_and_locked():
    """R4.24, R4.38, API §6: a wait's question is answered by the event that it waits for."""

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        got = await ctx.wait_for_event(Reply, waiter_event=Call(), requirements={"room": "a"})
        return StopEvent(result=(got.text, got.room))

    run = one(work).run()
    request = open_requests(run)[0]
    assert request.answer_type is Reply
    with pytest.raises(AnswerInvalid, match=r"'work' waits for room='a'; 'b' would not reach it"):
        request.answer(text="x", room="b")
    request.answer(text="x")
    assert run.result(20) == ("x", "a")
    assert request.status == "answered"


def test_a_question_on_the_stream_is_the_text_of_the_next_wait():
    """API §6: writing it opens nothing; the wait that follows takes it as its question."""

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        ctx.write_event_to_stream(Call(prefix="Your name?"))
        await ctx.sleep(0.02)
        ctx.state.set("open", len(asked))
        return StopEvent(result=(await ctx.wait_for_event(Reply)).text)

    asked: list[Any] = []
    run = one(work).with_options(on_request=asked.append).run()
    request = open_requests(run)[0]
    assert (request.question.prefix, run.state["open"]) == ("Your name?", 0)
    request.answer(text="ann")
    assert run.result(20) == "ann"


# -- who else may answer


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_somebody_is_told_of_each_question_that_opens_also_of_children(kind: str):
    """R4.38, R4.63: `on_request=` hears of it and may answer; the loop stays live."""
    seen: list[str] = []

    async def hears(request: Request[Any]) -> None:
        seen.append(request.id)
        request.answer(ok=True, by="bot")

    def hears_plain(request: Request[Any]) -> None:
        seen.append(request.id)
        request.answer(ok=True, by="bot")

    inner = one(_asks)

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=((await ctx.ask(Approve())).ok, await ctx.run(inner)))

    call = hears if kind == "async" else hears_plain
    run = one(work).with_options(on_request=call).run(run_id=f"told-{kind}")
    assert run.result(20) == (True, True)
    assert seen == [f"{run.run_id}:1", f"{run.run_id}/1/1:1"]
    assert run.requests.all()[0].by == "bot"


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_one_who_is_told_and_raises_leaves_the_question_open_and_shows_why(kind: str):
    """R4.64."""

    async def later(request: Any) -> None:
        raise SystemExit("mail is down")

    def plain(request: Any) -> None:
        raise SystemExit("mail is down")

    run = one(_asks).with_options(on_request=later if kind == "async" else plain).run()
    wait_until(lambda: run._runner.questions.notices)
    assert run._runner.questions.notices == {1: "on_request: SystemExit: mail is down"}
    open_requests(run)[0].answer(ok=True)
    assert run.result(20) is True


@pytest.mark.parametrize("how", ["await", "result"])
def test_a_script_that_says_so_is_told_that_nobody_answers(how: str):
    """R4.69, R4.66: what waits for it fails, the run stays open."""

    def wait_for(run: Any) -> Any:
        if how == "result":
            return run.result(20)

        async def main() -> Any:
            return await run

        return asyncio.run(main())

    run = one(_asks).with_options(on_nobody="error").run()
    with pytest.raises(NobodyToAnswer, match=r"_asks asks Approve\(text=''\)"):
        wait_for(run)
    assert run.status == "waiting"
    run.answer(ok=True)
    assert wait_for(run) is True


def test_somebody_who_answers_keeps_the_wait_going_where_nobody_would():
    """R4.63, R4.67, R4.69: a handler at work, also one of a child's question."""
    go = threading.Event()

    def handler(request: Any) -> Verdict:
        go.wait(20)
        return Verdict(ok=True)

    inner = one(_asks)

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.run(inner))

    run = one(work).with_options(on_nobody="error", input_handler=handler).run()
    wait_until(lambda: run.status == "waiting")
    threading.Timer(0.5, go.set).start()
    assert run.result(20) is True


def test_a_reader_of_the_stream_may_answer_so_the_wait_goes_on():
    """R4.67."""

    async def main() -> Any:
        run = one(_asks).with_options(on_nobody="error").run()

        async def read() -> None:
            async for _ in run.stream():
                pass

        reader = asyncio.ensure_future(read())
        await until_asked(run)
        asyncio.get_running_loop().call_later(0.5, lambda: run.answer(ok=True))
        result = await run
        await reader
        return result

    assert asyncio.run(main()) is True


# -- what a re-run makes of it


def changing(on_changed: Literal["supersede", "fail", "keep"], starts: list[int]) -> Workflow[Any]:
    """A step that asks about another draft each time that it runs, and then one more thing."""

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        starts.append(1)
        asked = ctx.ask(Approve(text=f"draft {len(starts)}"), on_changed=on_changed)
        verdict = await asked
        await ctx.ask("More?", key="more")
        return StopEvent(result=(verdict.note, asked.request.question.text))

    return one(work)


def test_an_approval_never_passes_to_another_draft():
    """R4.70, R4.71: the answered question stays answered, the new one has the old answer as a draft."""
    starts: list[int] = []
    run = changing("supersede", starts).run(run_id="drafts")
    open_requests(run)[0].answer(ok=True, note="fine")
    wait_for_questions(run, numbers=[2])
    restart(run)
    run.answer("drafts:2", "go on")
    wait_until(lambda: len(starts) == 2 and [r.question for r in run.requests] == [Approve(text="draft 2")])
    again = run.requests[0]
    assert (again.supersedes, again.draft, again.value) == ("drafts:1", Verdict(ok=True, note="fine"), None)
    assert run.requests.all()[0].status == "answered"
    again.answer(ok=True, note="also fine")
    assert run.result(20) == ("also fine", "draft 2")


def test_a_draft_that_is_still_open_is_superseded():
    """R4.70, R4.80: recorded as the end of a question, with that reason."""
    starts: list[int] = []

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        starts.append(1)
        verdict, _ = await asyncio.gather(ctx.ask(Approve(text=f"draft {len(starts)}")), ctx.ask("More?", key="more"))
        return StopEvent(result=verdict.note)

    run = one(work).run(run_id="open")
    first, _ = open_requests(run, 2)
    restart(run)
    run.answer("open:2", "go on")
    wait_until(lambda: len(starts) == 2 and first.status == "superseded")
    closed = [t for t in run.debug.ticks if type(t).__name__ == "RequestDisposed"]
    assert [(t.request, t.superseded) for t in closed] == [(1, True)]
    wait_for_questions(run)
    again = run.requests[0]
    assert (again.question.text, again.supersedes, again.draft) == ("draft 2", "open:1", None)
    with pytest.raises(RequestClosed, match="superseded"):
        first.answer(ok=True)
    again.answer(ok=True, note="fine")
    assert run.result(20) == "fine"


def test_a_changed_question_may_fail_its_step_naming_both():
    """R4.72."""
    starts: list[int] = []
    run = changing("fail", starts).run()
    open_requests(run)[0].answer(ok=True)
    wait_for_questions(run, numbers=[2])
    restart(run)
    run.answer(None, "go on")
    with pytest.raises(
        NonDeterministic, match=r"asks Approve\(text='draft 2'\), where it asked Approve\(text='draft 1'\)"
    ) as caught:
        run.result(20)
    assert (caught.value.before, caught.value.now) == (Approve(text="draft 1"), Approve(text="draft 2"))


def test_a_changed_question_may_keep_the_old_one_and_its_answer():
    """R4.73."""
    starts: list[int] = []
    run = changing("keep", starts).run()
    open_requests(run)[0].answer(ok=True, note="kept")
    wait_for_questions(run, numbers=[2])
    restart(run)
    run.answer(None, "go on")
    assert run.result(20) == ("kept", "draft 1")
    assert len(starts) == 2


def test_a_question_with_a_key_is_found_by_it_in_another_order():
    """R3.49, R4.70: keys tell questions of one type apart."""
    starts: list[int] = []

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        starts.append(1)
        keys = ["a", "b"] if len(starts) == 1 else ["b", "a"]
        got = {key: (await ctx.ask(Approve(text=key), key=key)).note for key in keys}
        await ctx.ask("More?")
        return StopEvent(result=got)

    run = one(work).run()
    for note in ("A", "B"):
        wait_until(lambda: [getattr(r.question, "text", "") for r in run.requests] == [note.lower()])  # noqa: B023
        run.answer(ok=True, note=note)
    wait_for_questions(run, numbers=[3])
    restart(run)
    run.answer(None, "go on")
    assert run.result(20) == {"b": "B", "a": "A"}


def test_what_a_re_run_never_reaches_is_withdrawn_when_its_delivery_ends():
    """R4.74, R4.75."""
    starts: list[int] = []

    async def work(ev: Begin, ctx: Context) -> Item:
        starts.append(1)
        if len(starts) == 1:
            await asyncio.gather(ctx.ask(Approve(text="only once")), ctx.ask("More?"))
        return Item(no=1)

    flow = one(work)

    @flow.step
    async def end(ev: Item) -> StopEvent:
        return StopEvent(result="over")

    run = flow.run()
    open_requests(run, 2)
    restart(run)
    run.answer(2, "go on")
    assert run.result(20) == "over"
    assert statuses(run) == ["withdrawn", "answered"]


@pytest.mark.parametrize("how", ["expired", "disposed"])
def test_a_new_attempt_asks_anew_what_ended_badly_and_keeps_what_was_answered(how: str):
    """R3.51, R4.55, R4.52."""
    clock = ManualClock()

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        first = await ctx.ask(Approve(text="good"))
        second = await ctx.ask(Approve(text="bad"), timeout=5)
        return StopEvent(result=(first.note, second.note, ctx.attempt))

    policy = retry_policy(stop=stop_after_attempt(2), wait=wait_fixed(0))
    run = one(work, retry_policy=policy).with_options(clock=clock).run()
    open_requests(run)[0].answer(ok=True, note="1")
    wait_for_questions(run, numbers=[2])
    if how == "expired":
        clock.advance(5)
    else:
        run.requests[0].dispose()
    wait_for_questions(run, numbers=[3])
    run.answer(ok=True, note="3")
    assert run.result(20) == ("1", "3", 2)
    assert statuses(run) == ["answered", how, "answered"]


def test_errors_of_questions_are_errors_of_workflows():
    for kind in (AlreadyAnswered, AnswerTimeout, NobodyToAnswer, RequestClosed, RequestDisposed, TokenTaken):
        assert issubclass(kind, RequestError)
        assert issubclass(kind, WorkflowError)
