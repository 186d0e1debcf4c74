"""Questions across runs and processes: tokens, answers by whoever has one, and what the driver says to them."""

import sqlite3
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import field_validator

from flownb import Context, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Store, Workflow
from flownb.core.ticks import RequestAnswered, TimerFired
from flownb.errors import AlreadyAnswered, RequestClosed, RequestError, TokenTaken
from flownb.runtime.questions import secret_of
from tests.polling import wait_until
from tests.stored.flows import Asks, Returns, notes
from tests.stored.other import Other, OtherError

Open = Callable[..., Store]
Start = Callable[..., Other]


def asked(store: Store, flow: Any, run_id: str = "r", **fields: Any) -> Any:
    """A run with an open question."""
    run = flow.with_options(store=store).run(run_id=run_id, **fields)
    wait_until(lambda: run.requests and run.status == "waiting")
    return run


# -- tokens


def all_bytes(path: Path) -> bytes:
    """All that a store has on the disk."""
    return b"".join(file.read_bytes() for file in path.parent.rglob("*") if file.is_file())


def test_r4_57_a_token_is_derived_and_stands_nowhere(place: str, open_store: Open, other: Start, tmp_path: Path):
    """R4.57: of the store's secret, run and request: any process gets the same; no journal and no export has it."""
    store = open_store(place)
    run = asked(store, Returns())
    token = run.requests[0].token
    assert len(token) >= 32
    assert other(place).give("store.run('r').requests[0].token") == token
    assert open_store(str(tmp_path / "elsewhere.db")).journal.secret() != store.journal.secret()
    store.export("r", tmp_path / "r.zip")
    with zipfile.ZipFile(tmp_path / "r.zip") as file:
        exported = b"".join(file.read(name) for name in file.namelist())
    for text in (token, secret_of(token)):
        assert text.encode() not in exported
        assert text not in repr(store.history("r")) + repr(run.requests[0]) + repr(store.requests())
    assert token.encode() not in all_bytes(Path(place))
    assert not hasattr(store.requests()[0], "token")


def test_r4_57_of_a_given_token_only_the_hash_is_kept(place: str, open_store: Open, tmp_path: Path):
    """R4.57, R4.58: in the token index; a fork's question falls back to a derived one, and no other takes it."""
    store = open_store(place)
    flow = Workflow[Any]("given")

    @flow.step
    async def ask(ev: StartEvent, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.ask("Well?", str, token="a-token-of-the-caller"))

    run = asked(store, flow)
    assert b"a-token-of-the-caller" not in all_bytes(Path(place))
    assert store.journal.token(secret_of("a-token-of-the-caller")) == ("r", 1)
    assert run.requests[0].token == ""
    fork = run.debug.fork(len(run.debug.ticks))
    wait_until(lambda: fork.status == "waiting" and fork.requests[0].token)
    assert store.answer(fork.requests[0].token, "the fork's") == (fork.run_id, 1)
    assert fork.result(20) == "the fork's"
    second = flow.with_options(store=store).run(run_id="second")
    with pytest.raises(TokenTaken):
        second.result(20)
    assert store.answer("a-token-of-the-caller", "the first's") == ("r", 1)
    assert run.result(20) == "the first's"


def test_r4_59_answers_by_token_work_across_processes(any_place: str, open_store: Open, other: Start, tmp_path: Path):
    """R4.59, R4.47: whoever drives the run; the same answer once more gives the same, a different one is refused."""
    log, process, store = tmp_path / "log", other(any_place), open_store(any_place)
    process.do(
        f"run = Asks().with_options(store=store).run(run_id='r', log={str(log)!r})\n"
        "gone = Returns().with_options(store=store).run(run_id='gone')"
    )
    process.wait("run.status == 'waiting' == gone.status")
    token, other_token = process.give("[run.requests[0].token, gone.requests[0].token]")
    assert store.answer(token, ok=False, words="by token", by="ann") == ("r", 1)
    assert store.answer(token, ok=False, words="by token") == ("r", 1)
    with pytest.raises(AlreadyAnswered, match="ann"):
        store.answer(token, ok=True)
    assert process.give("run.result(20)") == "by token"
    late = open_store(any_place)
    assert late.answer(token, ok=False, words="by token") == ("r", 1)  # over, and in a process that only read of it
    with pytest.raises(AlreadyAnswered):
        late.answer(token, ok=True)

    assert store.dispose(other_token, "not needed") == ("gone", 1)
    process.wait("gone.status == 'failed'")
    assert store.dispose(other_token) == ("gone", 1)
    with pytest.raises(RequestClosed):
        late.answer(other_token, ok=True)
    assert "RequestDisposed: " in process.give("repr(gone.error) + ': ' + type(gone.error).__name__ + ': '")


def test_r4_59_a_token_of_no_question_is_told_without_it(place: str, open_store: Open):
    """R4.59, R4.61."""
    store = open_store(place)
    for call in (lambda: store.answer("no-such-token", 1), lambda: store.dispose("no-such-token")):
        with pytest.raises(RequestError, match="No question of") as caught:
            call()
        assert "no-such-token" not in str(caught.value)


def test_an_id_is_no_token(place: str, open_store: Open):
    """R4.59, R7.11: what a stranger sends is passed on as it is, and he cannot guess; by id one looks in the store."""
    store = open_store(place)
    flow = Workflow[Any]("looks-like")

    @flow.step
    async def ask(ev: StartEvent, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.ask("Well?", str, token="r:1"))

    run, other_run = asked(store, Returns()), asked(store, flow, "other")
    assert store.answer("r:1", "by token") == ("other", 1)
    assert other_run.result(20) == "by token"
    for call in (lambda: store.answer("r:1", ok=True), lambda: store.dispose("nobody:1")):
        with pytest.raises(RequestError) as caught:
            call()
        assert "nobody:1" not in str(caught.value)
    store.requests()["r:1"].answer(ok=True)
    assert run.result(20) == [3, True]


def test_r4_60_the_token_index_is_unique_and_found_by_index(place: str, open_store: Open):
    """R4.60: O(log n), and the database itself refuses a second question of one token."""
    store = open_store(place)
    asked(store, Returns())
    with sqlite3.connect(place) as db:
        plan = db.execute("EXPLAIN QUERY PLAN SELECT run_id, request FROM tokens WHERE hash = ?", ("h",)).fetchall()
        (hash,) = db.execute("SELECT hash FROM tokens").fetchone()
        with pytest.raises(sqlite3.IntegrityError):
            db.execute("INSERT INTO tokens (hash, run_id, request) VALUES (?, 'other', 1)", (hash,))
    db.close()
    assert [row[3].split(" USING")[0] for row in plan] == ["SEARCH tokens"]


# -- who answers


def test_r4_62_a_run_that_nobody_drives_keeps_the_answer(
    any_place: str, open_store: Open, other: Start, tmp_path: Path
):
    """R4.62: in its inbox, for whoever drives it next; until then the store says that it has something to do."""
    log, process, store = tmp_path / "log", other(any_place), open_store(any_place)
    process.do(f"run = Asks().with_options(store=store).run(run_id='r', log={str(log)!r})")
    process.wait("run.status == 'waiting'")
    process.kill()
    request = store.requests()[0]
    request.answer(ok=True, words="kept", by="ann")
    (entry,) = store.journal.inbox(["r"])
    assert entry.tick.answer.value.words == "kept"
    assert store.due() == ["r"]
    second = other(any_place)
    assert second.give("store.run('r').requests.all()[0].status") == "open"
    with pytest.raises(OtherError, match="AlreadyAnswered"):
        second.do("store.requests()[0].answer(ok=False)")
    second.do("runs = store.resume_due()")

    assert second.give("[run.result(20) for run in runs]") == ["kept"]
    (tick,) = [tick for tick in store.history("r") if isinstance(tick, RequestAnswered)]
    assert (tick.by, tick.how, tick.entry) == ("ann", "person", entry.n)
    assert store.journal.inbox(None) == []
    assert notes(log) == ["ask", "ask", "asked"]


def test_r4_46_a_process_without_the_class_validates_by_the_stored_schema(
    any_place: str, open_store: Open, other: Start
):
    """R4.46: and what fits reaches the driver as an instance of the class."""
    store = open_store(any_place)
    run = asked(store, Asks())
    stranger = other(any_place, knows=False)
    assert stranger.give("type(store.requests()[0].question).__name__") == "UnknownEvent"
    stranger.do("import warnings; warnings.simplefilter('error')\nseen = store.run('r')")  # to look warns of nothing
    assert stranger.give("repr(seen.requests)") == "<1 open questions: 1 Approve>"
    assert stranger.give("repr(seen.requests[0])").startswith("<Request r:1 of ask: tests.stored.flows:Approve(no=3")
    with pytest.raises(OtherError, match=r"AnswerInvalid: .*ok"):
        stranger.do("store.requests()[0].answer(ok='perhaps')")
    with pytest.raises(OtherError, match=r"AnswerInvalid: .*nonsense"):
        stranger.do("store.requests()[0].answer(ok=True, nonsense=1)")
    with pytest.raises(OtherError, match="AnswerInvalid"):
        stranger.do("store.requests()[0].answer()")
    assert store.journal.inbox(None) == []
    stranger.do("store.requests()[0].answer(ok=True, words='schema')")

    assert run.result(20) == "schema"
    assert type(run.requests.all()[0].value).__name__ == "Verdict"
    with pytest.raises(OtherError, match=r"\{'ok': True, 'words': 'schema'.*\}\. The first answer stands"):
        other(any_place, knows=False).do("store.run('r').requests.all()[0].answer(ok=False)")
    again = other(any_place, knows=False)
    again.do("store.run('r').requests.all()[0].answer(ok=True, words='schema')")  # R4.47: the same is harmless
    stranger.wait("seen.is_done()")
    assert stranger.give("str(seen.why())") == f"Completed at tick {run._runner.state.seq}."


class Even(HumanResponseEvent):
    no: int

    @field_validator("no")
    @classmethod
    def _is_even(cls, no: int) -> int:
        if no % 2:
            raise ValueError("must be even")
        return no


class Number(InputRequiredEvent[Even]):
    pass


def evens() -> Workflow[Any]:
    flow = Workflow[Any]("evens")

    @flow.step
    async def ask(ev: StartEvent) -> Number:
        return Number()

    @flow.step
    async def end(ev: Even) -> StopEvent:
        return StopEvent(result=ev.no)

    return flow


@pytest.mark.parametrize("is_driven", [True, False])
def test_r4_46_what_the_driver_refuses_leaves_the_question_open(
    any_place: str, open_store: Open, other: Start, is_driven: bool
):
    """R4.46, R1.31: it shows why, also to who answered; another answer may come."""
    store = open_store(any_place)
    run = asked(store, evens())
    stranger = other(any_place, knows=False)
    if not is_driven:
        run.suspend().result(20)
        store = open_store(any_place)
    stranger.do("seen = store.run('r')\nseen.requests[0].answer(no=3)")
    if not is_driven:
        run = evens().with_options(store=store).resume("r")
    wait_until(lambda: run.status == "waiting" and "even" in run.why())
    assert run.requests[0].status == "open"
    assert "must be even" in run.why()
    stranger.wait("seen.requests.all()[0].status == 'open' and 'must be even' in seen.why()")
    assert store.journal.inbox(None) == []
    assert not any(isinstance(tick, RequestAnswered) for tick in store.history("r"))
    stranger.do("seen.requests[0].answer(no=4)")

    assert run.result(20) == 4
    assert stranger.give("seen.result(20)") == 4


def test_two_processes_answer_one_question_at_once(any_place: str, open_store: Open, other: Start):
    """R1.30, R4.47: one answer is accepted of each, and it is the one that the run gets."""
    store = open_store(any_place)
    runs = [asked(store, Asks(), f"r{i}") for i in range(8)]
    both = [other(any_place) for _ in range(2)]
    for process in both:
        process.do("from flownb.errors import RequestError\nseen = [store.run(f'r{i}') for i in range(8)]\ntook = []")
    race = (
        "for i, run in enumerate(seen):\n    try:\n"
        "        run.requests.all()[0].answer(ok=True, words='by {k}')\n        took.append(i)\n"
        "    except RequestError:\n        pass"
    )
    threads = [threading.Thread(target=process.do, args=(race.format(k=k),)) for k, process in enumerate(both)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    results = [run.result(20) for run in runs]
    took = [process.give("took") for process in both]

    assert sorted(took[0] + took[1]) == list(range(8))
    assert results == [f"by {0 if i in took[0] else 1}" for i in range(8)]


def test_r1_27_an_answer_that_another_process_took_beats_a_deadline(
    any_place: str, open_store: Open, other: Start, monkeypatch: pytest.MonkeyPatch
):
    """R1.27: it lies in the store's inbox, of which the driver has not heard yet, when the time is up."""
    from flownb.runtime import watching

    monkeypatch.setattr(watching, "LOOK_S", 3600.0)  # the driver hears of nothing by itself
    store, stranger = open_store(any_place), other(any_place, knows=False)
    flow = Workflow[Any]("deadline")

    @flow.step
    async def ask(ev: StartEvent, ctx: Context) -> StopEvent:
        answer = await ctx.ask("Well?", str, timeout=2.5, default="nobody")
        return StopEvent(result=answer)

    run = asked(store, flow)
    stranger.wait("len(store.requests()) == 1")
    stranger.do("store.requests()[0].answer('in time')")

    assert run.result(20) == "in time"
    assert not any(isinstance(tick, TimerFired) for tick in store.history("r"))
    assert run.requests.all()[0].status == "answered"


def test_an_answer_after_the_deadline_is_too_late(place: str, open_store: Open, other: Start):
    """R4.48, R4.54: also where the answering process has not heard of the deadline."""
    store = open_store(place)
    flow = Workflow[Any]("deadline")

    @flow.step
    async def ask(ev: StartEvent, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.ask("Well?", str, timeout=0.1, default="nobody"))

    run = flow.with_options(store=store).run(run_id="r")
    assert run.result(20) == "nobody"
    assert len(store.requests()) == 0
    seen = open_store(place).run("r")
    with pytest.raises(RequestError):
        seen.answer(1, "late")
    assert (seen.requests.all()[0].status, seen.requests.all()[0].value) == ("default", "nobody")
