"""A run goes on in a new process from where its journal is: steps, waits, timers, retries, state and stream."""

import asyncio
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from flownb import (
    Event,
    HumanResponseEvent,
    InputRequiredEvent,
    StartEvent,
    StopEvent,
    Store,
    Workflow,
    launch,
    resuming,
)
from flownb.core.reduce import fold
from flownb.core.ticks import RunOpened, RunStarted, StepFailed, TimerFired
from flownb.errors import EngineLost, RunConflict, RunNotFound
from tests.polling import wait_for_questions, wait_until
from tests.stored.flows import (
    Asks,
    Blocks,
    Chain,
    Listens,
    Once,
    Returns,
    Sleeps,
    Tries,
    Writes,
    notes,
)
from tests.stored.other import Other, OtherError, at_once

Open = Callable[..., Store]
Start = Callable[..., Other]


def killed(process: Other, flow: str, run_id: str, when: str, log: Path | str = "", n: int = 3, more: str = "") -> None:
    """Let another process drive a run until something is so, then kill it."""
    process.do(f"run = {flow}().with_options(store=store).run(run_id={run_id!r}, log={str(log)!r}, n={n})\n{more}")
    process.wait(when)
    process.kill()


# -- what goes on


def test_r1_20_steps_that_were_running_run_again_and_the_journal_says_so(
    any_place: str, open_store: Open, other: Start, tmp_path: Path
):
    """R1.20, R1.11, R3.60: what was recorded is not done again; the step in flight is, once more."""
    log, store = tmp_path / "log", open_store(any_place)
    killed(other(any_place), "Chain", "r", "len(run.debug.ticks) > 9", log, n=30)
    before = store.journal.last_seq("r")
    run = Chain().with_options(store=store).resume("r")

    assert run.result(20) == 0
    ran = [int(what.split()[1]) for what in notes(log)]
    assert sorted(set(ran), reverse=True) == list(range(30, -1, -1))
    assert len(ran) <= 32  # at most what was in flight ran again
    ticks = store.history("r")
    assert isinstance(ticks[before], RunOpened)
    assert (ticks[before].driver, ticks[before].epoch) == ("this process", 2)
    assert sum(isinstance(tick, RunOpened) for tick in ticks) == 1
    assert fold(ticks) == run._runner.state


def test_a_timer_goes_on_at_its_absolute_time(place: str, open_store: Open, other: Start, tmp_path: Path):
    """R1.7, R4.37: the code behind it runs when it is due, not before, and not again from its top till then."""
    log, store = tmp_path / "log", open_store(place)
    killed(other(place), "Sleeps", "r", "len(store.suspensions()) == 1", log, n=20)
    (due,) = [suspension.due for suspension in store.suspensions()]
    assert due is not None
    run = Sleeps().with_options(store=store).resume("r")
    assert notes(log) == ["sleep"]
    (timer,) = run._runner.state.timers.values()
    assert timer.due_at == due

    assert run.result(20) >= due
    fired = next(tick for tick in store.history("r") if isinstance(tick, TimerFired))
    assert due <= fired.at < due + 2
    assert notes(log) == ["sleep", "sleep", "slept"]


def test_a_timer_that_fell_due_while_nobody_drove_the_run_fires_at_once(
    place: str, open_store: Open, other: Start, tmp_path: Path
):
    """R1.26, R4.37."""
    log, store = tmp_path / "log", open_store(place)
    killed(other(place), "Sleeps", "r", "len(store.suspensions()) == 1", log, n=10)
    wait_until(lambda: store.due() == ["r"])
    (run,) = store.resume_due()

    assert run.result(20) > 0
    assert notes(log) == ["sleep", "sleep", "slept"]


def test_a_retry_keeps_its_attempt_and_its_time(place: str, open_store: Open, other: Start, tmp_path: Path):
    """R3.28: the delayed attempt is in the state."""
    log, store = tmp_path / "log", open_store(place)
    killed(other(place), "Tries", "r", "store.summary()['retries'] == 1", log)
    run = Tries().with_options(store=store).resume("r")

    assert run.result(20) == 3
    assert notes(log) == ["try 1", "try 2", "try 3"]
    failed = [tick for tick in store.history("r") if isinstance(tick, StepFailed)]
    started = [tick.at for tick in store.history("r") if isinstance(tick, TimerFired)]
    assert [due.retry_at <= at for due, at in zip(failed, started, strict=True)] == [True, True]


def test_r3_62_a_step_that_must_not_run_twice_is_asked_about(
    place: str, open_store: Open, other: Start, tmp_path: Path
):
    """R3.62, R1.20: the question stands in the tick of the take-over, and in the store's list."""
    log, store = tmp_path / "log", open_store(place)
    process = other(place)
    process.do(f"run = Once().with_options(store=store).run(run_id='r', log={str(log)!r})")
    wait_until(lambda: notes(log) == ["charge"])
    process.kill()
    run = Once().with_options(store=store).resume("r")
    wait_for_questions(run)
    (opened,) = [tick for tick in store.history("r") if isinstance(tick, RunOpened)]
    assert [out.value.step for out in opened.unknown.values()] == ["charge"]
    assert store.requests()[0].question.step == "charge"
    run.answer(decision="done", event=StopEvent(result="it was"))

    assert run.result(20) == "it was"
    assert notes(log) == ["charge"]


def test_state_stream_and_history_are_there_again(place: str, open_store: Open, other: Start):
    """R5.62, R6.5: the stream has its numbers from the start, the user's state and every past state are as they were;
    what steps printed is not kept."""
    store = open_store(place)
    process = other(place)
    process.do(
        "import asyncio\nrun = Writes().with_options(store=store).run(run_id='r')\n"
        "async def head(n):\n    seen = []\n    async for item in run.stream():\n"
        "        seen.append([item.seq, item.step, type(item.event).__name__])\n"
        "        if len(seen) == n:\n            return seen"
    )
    process.wait("run.status == 'waiting'")
    before = process.give("asyncio.run(head(4))")
    states = process.give("[repr(run.debug.at(k).state) for k in range(1, len(run.debug.ticks) + 1)]")
    assert process.give("run.logs()") == "[write]\nwords of the first process\n"
    process.kill()
    run = Writes().with_options(store=store).resume("r")
    assert run.state == {"seen": {"n": 3}}
    assert run.logs() == ""
    assert [repr(run.debug.at(k).state) for k in range(1, len(states) + 1)] == states
    (request,) = run.requests.all()
    assert (request.id, request.status, request.question.no) == ("r:1", "open", 1)
    run.answer(ok=True)
    assert run.result(20) == "done"

    async def all_of(start: int = 0) -> list[list[Any]]:
        return [[item.seq, item.step, type(item.event).__name__] async for item in run.stream(start)]

    stream = asyncio.run(all_of())
    assert stream[:4] == before
    assert [name for _, _, name in stream] == ["Word", "Word", "Word", "Approve", "Word", "StopEvent"]
    assert asyncio.run(all_of(stream[4][0])) == stream[4:]
    assert [(r.id, r.status, r.value.ok) for r in run.requests.all()] == [("r:1", "answered", True)]
    looked_at = open_store(place).run("r")
    assert [type(item.event).__name__ for item in collected(looked_at)] == [name for _, _, name in stream]


def collected(run: Any) -> list[Any]:
    async def read() -> list[Any]:
        return [item async for item in run.stream()]

    return asyncio.run(read())


def test_what_waited_before_the_gate_is_there_after_a_kill(
    any_place: str, open_store: Open, other: Start, tmp_path: Path
):
    """R1.29: entries that wait while the gate is closed are on the disk: results, answers, events; and so is the
    pause."""
    log, store = tmp_path / "log", open_store(any_place)
    process = other(any_place)
    process.do(
        f"run = Blocks().with_options(store=store).run(run_id='b', log={str(log)!r})\n"
        "ear = Listens().with_options(store=store).run(run_id='l', n=1)\n"
        "asks = Asks().with_options(store=store).run(run_id='a')"
    )
    process.wait("asks.status == 'waiting' == ear.status and run.status == 'running'")
    process.do("for each in (run, ear, asks): each.pause().result(20)")
    process.do("ear.send_event(News(no=5)); asks.answer(ok=False, words='paused')")
    (tmp_path / "log.go").touch()
    wait_until(lambda: notes(log) == ["block", "blocked"])
    wait_until(lambda: len({entry.run_id for entry in store.journal.inbox(None)}) == 3)
    process.wait("any(type(tick).__name__ == 'StepFinished' for tick in run.debug.inbox)")
    wait_until(lambda: "StepFinished" in inbox_of(store, "b"))
    process.kill()
    runs = [
        flow().with_options(store=store).resume(run_id) for flow, run_id in [(Blocks, "b"), (Listens, "l"), (Asks, "a")]
    ]
    assert [run.status for run in runs] == ["paused"] * 3
    assert runs[2].requests.all()[0].value.words == "paused"
    for run in runs:
        run.cont()

    assert [run.result(20) for run in runs] == ["blocked", [5], "paused"]
    assert runs[0].state == {"was": "here"}
    assert notes(log) == ["block", "blocked"]  # its end was in the inbox, so it did not run again
    assert store.journal.inbox(None) == []


def test_r1_29_what_came_just_before_a_pause_is_kept_too(place: str, open_store: Open, other: Start):
    """R1.24, R1.29: the pause passes it, so it stands before a closed gate."""
    store, process = open_store(place), other(place)
    process.do("ear = Listens().with_options(store=store).run(run_id='l', n=1)")
    process.wait("ear.status == 'waiting'")
    process.do("def at_once():\n    ear.send_event(News(no=5))\n    ear.pause()\near._runner.host.call(at_once)")
    wait_until(lambda: inbox_of(store, "l") == ["EventArrived"])
    process.kill()
    run = Listens().with_options(store=store).resume("l")
    assert run.status == "paused"
    run.cont()

    assert run.result(20) == [5]


def inbox_of(store: Store, run_id: str) -> list[str]:
    return [type(entry.tick).__name__ for entry in store.journal.inbox([run_id])]


def test_a_restored_run_is_forked(place: str, open_store: Open, other: Start):
    """R6.37, R4.57: its past is shared; the fork's question has an id and a token of its own."""
    store = open_store(place)
    killed(other(place), "Returns", "r", "run.status == 'waiting'")
    run = store.run("r")
    fork = run.debug.fork(len(run.debug.ticks))
    wait_until(lambda: fork.status == "waiting")
    assert fork.requests[0].token != run.requests[0].token
    fork.answer(ok=True, words="the fork's")

    assert fork.result(20) == [3, "the fork's"]
    assert store.run("r").status == "waiting"
    again = open_store(place)
    assert again.run(fork.run_id).result(20) == [3, "the fork's"]
    assert again.run(fork.run_id).forked_from == ("r", len(run.debug.ticks))


# -- values


class Colour(IntEnum):
    red = 1


class Point(Event):
    x: int


class Point3(Point):
    z: int
    _hidden: str = "by default"


class Everything(Event):
    when: datetime
    money: Decimal
    id: UUID
    colour: Colour
    far: float
    odd: float
    raw: bytes
    pair: tuple[int, str]
    many: set[int]
    by_number: dict[int, str]
    point: Point
    text: str


class Got(HumanResponseEvent):
    all: Everything


class Full(InputRequiredEvent[Got]):
    all: Everything


def test_r6_8_values_come_back_exactly(place: str, open_store: Open):
    """R6.8: each is saved by a codec, with its type: another process goes on with the same values."""
    point = Point3(x=1, z=2)
    point._hidden = "set"
    sent = Everything(
        when=datetime(2024, 3, 31, 1, 30, tzinfo=timezone(timedelta(hours=2))),
        money=Decimal("1.10"),
        id=uuid4(),
        colour=Colour.red,
        far=float("inf"),
        odd=float("nan"),
        raw=b"\x00\xff",
        pair=(1, "one"),
        many={3, 1, 2},
        by_number={1: "one", 2: "two"},
        point=point,
        text="\ud800 and \0",
        extra=[(1, 2)],
    )
    flow = Workflow[Any]("values")

    @flow.step
    async def ask(ev: StartEvent) -> Full:
        return Full(all=sent)

    @flow.step
    async def end(ev: Got) -> StopEvent:
        return StopEvent(result=ev.all)

    run = flow.with_options(store=open_store(place)).run(run_id="r")
    wait_until(lambda: run.status == "waiting")
    got = open_store(place).run("r").requests[0].question.all
    assert got is not sent
    assert got.odd != got.odd
    assert type(got.point) is Point3
    assert got.point._hidden == "set"
    assert {**got.model_dump(), "odd": 0} == {**sent.model_dump(), "odd": 0}
    assert [type(value) for value in got.model_dump().values()] == [type(value) for value in sent.model_dump().values()]
    run.answer(all=got)
    run.result(20)
    assert open_store(place).run("r").result(20).extra == [(1, 2)]


# -- by id, and without


def test_r5_1_the_same_id_and_input_is_the_same_run(any_place: str, open_store: Open, other: Start, tmp_path: Path):
    """R5.1, R5.2: finished or not, in whatever process; it is driven on if nobody does."""
    log, store = tmp_path / "log", open_store(any_place)
    flow = Asks().with_options(store=store)
    killed(other(any_place), "Asks", "r", "len(store.requests()) == 1", log)
    run = flow.run(run_id="r", log=str(log))
    run.answer(ok=True)
    assert run.result(20) is True
    assert notes(log) == ["ask", "ask", "asked"]
    third = other(any_place)

    assert third.give(f"Asks().with_options(store=store).run(run_id='r', log={str(log)!r}).result(20)") is True
    with pytest.raises(OtherError, match=r"RunConflict: .*another input"):
        third.do("Asks().with_options(store=store).run(run_id='r', log='', n=4)")
    with pytest.raises(OtherError, match=r"RunConflict: .*another workflow"):
        third.do(f"Returns().with_options(store=store).run(run_id='r', log={str(log)!r})")
    again = open_store(any_place)
    with pytest.raises(RunConflict, match="another input"):
        Asks().with_options(store=again).run(run_id="r", n=4)
    assert sum(isinstance(tick, RunStarted) for tick in store.history("r")) == 1


def test_r5_1_two_processes_that_start_one_id_at_once_have_one_run(
    any_place: str, open_store: Open, other: Start, tmp_path: Path
):
    """R5.1, R5.7: each step ran once, and both have the result."""
    log = tmp_path / "log"
    both = [other(any_place) for _ in range(2)]
    code = (
        "import warnings\nwarnings.simplefilter('ignore')\n"
        f"runs = [Chain().with_options(store=store).run(run_id=f'c{{i}}', log={str(log)!r}, n=5) for i in range(6)]"
    )
    at_once(both, code)

    assert [process.give("[run.result(20) for run in runs]") for process in both] == [[0] * 6] * 2
    assert sorted(notes(log)) == sorted([f"go_on {i}" for i in range(6)] * 6)
    assert {row.status for row in open_store(any_place).runs()} == {"completed"}


def test_r1_39_the_newest_unfinished_run_goes_on_of_this_notebook_first(
    place: str, open_store: Open, monkeypatch: pytest.MonkeyPatch
):
    """R1.39: without an id."""
    notebook = {"path": ""}
    for module in (launch, resuming):
        monkeypatch.setattr(module, "notebook", lambda: notebook["path"])
    store = open_store(place)
    flow = Returns().with_options(store=store)
    for run_id, path in [("a1", "a.ipynb"), ("b1", "b.ipynb"), ("b2", "b.ipynb"), ("b3", "b.ipynb"), ("c1", "c.ipynb")]:
        notebook["path"] = path
        run = flow.run(run_id=run_id)
        wait_until(lambda run=run: run.status == "waiting")  # type: ignore[misc]
        if run_id == "b3":
            run.cancel().result(20)
    other_flow = Asks().with_options(store=store).run(run_id="z")
    wait_until(lambda: other_flow.status == "waiting")
    assert [row.notebook for row in store.runs(workflow="Returns")] == ["c.ipynb", *["b.ipynb"] * 3, "a.ipynb"]

    notebook["path"] = "b.ipynb"
    again = Returns().with_options(store=open_store(place)).resume()
    assert again.run_id == "b2"
    notebook["path"] = "of no run.ipynb"
    again = Returns().with_options(store=open_store(place)).resume()
    assert again.run_id == "c1"
    with pytest.raises(RunNotFound, match="no run of workflow 'Sleeps'"):
        Sleeps().with_options(store=store).resume()


def test_r1_39_a_kernel_records_its_notebook(monkeypatch: pytest.MonkeyPatch):
    """R1.39: where the front end told it; a script is no notebook."""
    monkeypatch.setenv("JPY_SESSION_NAME", "work/tidy.ipynb")
    assert launch.notebook() == ""
    monkeypatch.setattr(launch, "in_kernel", lambda: True)
    assert launch.notebook() == "work/tidy.ipynb"
    monkeypatch.delenv("JPY_SESSION_NAME")
    assert launch.notebook() == ""


def test_r5_5_a_run_whose_loop_is_gone_goes_on_from_its_journal(place: str, open_store: Open, other: Start):
    """R5.5: who awaits it is told; another process drives it at once, without waiting for the lease."""
    store = open_store(place)

    async def main() -> Any:
        run = Asks().with_options(store=store).run(run_id="r")
        while not run.requests:
            await asyncio.sleep(0.005)
        return run

    run = asyncio.run(main())
    with pytest.raises(EngineLost):
        run.result(20)
    process = other(place)
    process.do("run = Asks().with_options(store=store).resume('r')\nrun.answer(ok=True)")

    assert process.give("run.result(20)") is True
    assert Asks().with_options(store=store).resume("r").result(20) is True


def test_at_most_so_many_resumed_runs_live_at_once(place: str, open_store: Open, other: Start, tmp_path: Path):
    """API §4, `num_concurrent_runs`: also of runs of an earlier process; one that is suspended lets another one in."""
    process = other(place)
    logs = [tmp_path / f"log{i}" for i in range(3)]
    for i, log in enumerate(logs):
        process.do(f"r{i} = Blocks().with_options(store=store).run(run_id='r{i}', log={str(log)!r})")
    wait_until(lambda: all(notes(log) for log in logs))
    process.kill()
    flow = Blocks(num_concurrent_runs=1).with_options(store=open_store(place))
    runs = [flow.resume(f"r{i}") for i in range(3)]
    wait_until(lambda: notes(logs[0]) == ["block"] * 2)
    time.sleep(0.1)
    assert [notes(log) for log in logs[1:]] == [["block"]] * 2
    runs[0].suspend(drain=0).result(20)
    wait_until(lambda: notes(logs[1]) == ["block"] * 2)
    time.sleep(0.1)
    assert notes(logs[2]) == ["block"]
    for log in logs:
        Path(f"{log}.go").touch()

    assert runs[1].result(20) == runs[2].result(20) == "blocked"
    assert runs[0].status == "suspended"
    assert flow.resume("r0").result(20) == "blocked"


def test_a_run_that_was_suspended_in_one_process_goes_on_in_another(
    place: str, open_store: Open, other: Start, tmp_path: Path
):
    """R5.53: with what was torn down run again; a process that comes to its end in order gives its runs back too."""
    log, store, process = tmp_path / "log", open_store(place), other(place)
    process.do(
        f"run = Asks().with_options(store=store).run(run_id='suspended', log={str(log)!r})\n"
        f"rest = Asks().with_options(store=store).run(run_id='left', log={str(log)!r})"
    )
    process.wait("run.status == 'waiting' == rest.status")
    process.do("run.suspend(drain=0).result(20)")
    assert {row.run_id: row.status for row in store.runs()} == {"suspended": "suspended", "left": "waiting"}
    process.end()
    assert [store.journal.holder(run_id).driver for run_id in ("suspended", "left")] == ["", ""]
    for run_id in ("suspended", "left"):
        run = Asks().with_options(store=store).resume(run_id)
        run.answer(ok=True)
        assert run.result(20) is True
