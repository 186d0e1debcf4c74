"""The record of what was decided in a store, and its open questions narrowed, in SQLite and in PostgreSQL."""

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import SecretStr

from flownb import Context, InputRequiredEvent, StartEvent, StopEvent, Store, Workflow
from flownb.errors import AnswerInvalid
from flownb.events import HumanResponseEvent
from flownb.reviews import DECIDES
from tests.polling import wait_until
from tests.stored.flows import Approve, Asks, Chain, Returns
from tests.stored.other import Other

Open = Callable[..., Store]
Start = Callable[..., Other]


def asked(store: Store, flow: Any, run_id: str, **values: Any) -> Any:
    run = flow.with_options(store=store).run(run_id=run_id, **values)
    wait_until(lambda: run.status == "waiting")
    return run


def test_r7_3_open_questions_are_narrowed_by_workflow_step_and_words(any_place: str, open_store: Open):
    """R7.3: the views keep their verbs, look at the present, and tell what the list of a page needs."""
    store = open_store(any_place)
    before = time.time()
    runs = [asked(store, flow, run_id, n=n) for flow, run_id, n in ((Asks(), "a", 1), (Asks(), "b", 2))]
    runs.append(asked(store, Returns(), "c", n=3))

    def ids(**wanted: str) -> list[str]:
        return [request.id for request in store.requests(**wanted)]

    assert ids() == ["a:1", "b:1", "c:1"]
    assert ids(workflow="Asks") == ids(workflow="tests.stored.flows:Asks") == ["a:1", "b:1"]
    assert ids(step="ask", workflow="Returns") == ["c:1"]
    assert ids(step="nobody") == ids(workflow="nobody") == []
    assert ids(text="APPROVE no=2") == ids(text="b:1") == ["b:1"]
    assert ids(text="returns ask") == ["c:1"]
    first = store.requests()[0]
    assert (first.workflow, first.in_short(), first.refused) == ("Asks", "Approve(no=1)", "")
    assert first.opened_at is not None and before - 1 < first.opened_at < time.time() + 1
    assert first.schema is not None and first.schema["properties"]["ok"]["type"] == "boolean"
    assert first.digest == runs[0].requests[0].digest != store.requests()[1].digest

    some = store.requests(workflow="Asks")
    assert len(some.of(Approve)) == 2
    assert [request.id for request in some.of(Approve)] == ["a:1", "b:1"]
    assert len(some.of(StopEvent)) == 0
    some.of(Approve).answer(ok=True, words="both", by="ann")
    assert [run.result(20) for run in runs[:2]] == ["both", "both"]
    wait_until(lambda: len(some) == 0)
    assert ids() == ["c:1"]
    runs[2].cancel().result(20)


class Password(HumanResponseEvent):
    word: SecretStr
    seen: bool = True


class AskSecret(InputRequiredEvent[Password]):
    hint: str = "which"
    key: SecretStr = SecretStr("question-secret")


def decides() -> Workflow[Any]:
    """Asks in all the ways in which a question ends."""
    flow = Workflow[Any]("decides")

    @flow.step
    async def ask(ev: StartEvent, ctx: Context) -> StopEvent:
        found: list[Any] = [await ctx.ask("By a person?", bool)]
        found.append(await ctx.ask("By nobody?", bool, timeout=0.05, default=False))
        secret = await ctx.ask(AskSecret())
        found.append(secret.word.get_secret_value())
        for question in ("Too late?", "Not needed?"):
            try:
                await ctx.ask(question, bool, timeout=0.05 if question == "Too late?" else None)
            except Exception as error:
                found.append(type(error).__name__)
        return StopEvent(result=found)

    return flow


def test_r4_49_the_record_tells_who_when_and_how(any_place: str, open_store: Open, other: Start):
    """R4.49, R4.54: a person, a default, a secret that is masked, a deadline that passed, a question disposed of; the
    same in a process that has not the classes, hashes too."""
    store = open_store(any_place)
    run = asked(store, decides(), "r")
    shown = store.requests()["r:1"].digest
    store.requests()["r:1"].answer(True, by="ann")
    wait_until(lambda: [r.number for r in run.requests] == [3])
    store.requests()["r:3"].answer(word="answer-secret", by="bob")
    wait_until(lambda: [r.number for r in run.requests] == [5])
    store.requests()["r:5"].dispose("never mind")
    assert run.result(20) == [True, False, "answer-secret", "AnswerTimeout", "RequestDisposed"]

    record = store.reviews()
    assert [row.id for row in record] == ["r:5", "r:4", "r:3", "r:2", "r:1"]
    assert [(row.how, row.answer) for row in record][::-1] == [
        ("person", True), ("default", False), ("person", {"word": "••••••", "seen": True}), ("expired", None),
        ("disposed", None),
    ]  # fmt: skip
    assert [row.by for row in record][::-1][:4] == ["ann", "", "bob", ""]
    assert record[-1].question == "By a person?"
    assert record[-1].digest == shown
    assert len({row.digest for row in record}) == 5
    assert all(re.fullmatch(r"[0-9a-f]{64}", row.digest) for row in record)
    assert all(row.at is not None and row.waited_s is not None for row in record)
    assert record[3].waited_s is not None and 0.04 < record[3].waited_s < 20
    assert "-secret" not in repr(record) + record._repr_html_() + str(record.to_dicts())

    stranger = other(any_place, knows=False)
    theirs = stranger.give("[(row.id, row.digest, row.how, row.by, row.workflow) for row in store.reviews()]")
    assert theirs == [(row.id, row.digest, row.how, row.by, row.workflow) for row in record]
    assert "-secret" not in stranger.give("str(store.reviews().to_dicts())")


def test_the_record_of_a_run_is_that_of_its_store(any_place: str, open_store: Open):
    """R4.49: `run.requests.all()` tells the same of what was answered, and of open ones that they are open."""
    store = open_store(any_place)
    run = asked(store, decides(), "r")
    (row,) = run.requests.all().reviews()
    assert (row.how, row.by, row.at, row.waited_s, row.answer) == ("open", "", None, None, None)
    run.requests[0].answer(True, by="ann")
    wait_until(lambda: [r.number for r in run.requests] == [3])
    of_run = {row.id: row for row in run.requests.all().reviews()}
    of_store = {row.id: row for row in store.reviews()}
    assert set(of_store) == {"r:1", "r:2"}
    for name, row in of_store.items():
        mine = of_run[name]
        for field in ("workflow", "step", "question", "digest", "answer", "by", "how"):
            assert getattr(mine, field) == getattr(row, field), field
    run.cancel().result(20)
    assert {row.id for row in store.reviews()} == {"r:1", "r:2"}  # the run's end decided nothing


def test_answers_without_a_person_are_told_apart(place: str, open_store: Open):
    """R4.63, R4.65: given ahead, by a handler, and by an event from outside."""
    store = open_store(place)
    Asks().with_options(store=store, answers={Approve: {"ok": True}}).run(run_id="ahead").result(20)
    Asks().with_options(store=store, input_handler=lambda request: {"ok": True}).run(run_id="handler").result(20)
    run = asked(store, Returns(), "event")
    from tests.stored.flows import Verdict

    run.send_event(Verdict(ok=True))
    run.result(20)
    hows = {row.run: row.how for row in store.reviews()}
    assert hows == {"ahead": "ahead", "handler": "handler", "event": "event"}
    assert {r.how for r in run.requests.all().reviews()} == {"event"}


def test_the_record_is_narrowed(place: str, open_store: Open):
    """By workflow, person and time; the latest first."""
    store = open_store(place)
    asked(store, Asks(), "a").answer(None, ok=True, by="ann")
    store.run("a").result(20)
    asked(store, Returns(), "b").answer(None, ok=False, by="bob")
    store.run("b").result(20)
    (later, earlier) = store.reviews()
    assert (later.by, earlier.by) == ("bob", "ann")
    assert [row.by for row in store.reviews(workflow="Asks")] == ["ann"]
    assert [row.by for row in store.reviews(by="bob")] == ["bob"]
    assert [row.by for row in store.reviews(since=later.at)] == ["bob"]
    assert len(store.reviews(since=time.time() + 100)) == len(store.reviews(workflow="other")) == 0


def test_the_record_reads_only_journals_that_may_have_a_question(place: str, open_store: Open, monkeypatch: Any):
    """It asks the store first which runs have a tick that decides something."""
    store = open_store(place)
    for i in range(5):
        Chain().with_options(store=store).run(run_id=f"c{i}", n=1).result(20)
    run = asked(store, Asks(), "a")
    run.answer(None, ok=True)
    run.result(20)
    read: list[str] = []
    journal, real = store.journal, store.journal.read

    def noted(run_id: str, *rest: Any) -> Any:
        read.append(run_id)
        return real(run_id, *rest)

    monkeypatch.setattr(journal, "read", noted)
    assert [row.run for row in store.reviews()] == ["a"]
    assert read == ["a"]
    assert {kind.__name__ for kind in DECIDES} >= {"RequestAnswered"}


def test_a_damaged_run_does_not_hide_the_others(place: str, open_store: Open):
    """What cannot be read ends the record of its run; that of the others is whole."""
    store = open_store(place)
    for run_id in ("a", "b"):
        run = asked(store, Asks(), run_id)
        run.answer(None, ok=True)
        run.result(20)
    store.journal._db.execute("UPDATE journal SET body = 'rubbish' WHERE run_id = 'a' AND seq = 2")  # type: ignore[attr-defined]
    assert [row.run for row in open_store(place).reviews()] == ["b"]


def test_an_answer_for_all_stops_at_the_first_that_does_not_fit(place: str, open_store: Open):
    """R4.45: it says what is wrong; those after it stay open."""
    store = open_store(place)
    runs = [asked(store, Asks(), run_id) for run_id in ("a", "b")]
    with pytest.raises(AnswerInvalid):
        store.requests().answer(nonsense=1)
    assert len(store.requests()) == 2
    for run in runs:
        run.cancel().result(20)
