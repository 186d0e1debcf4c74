"""Cases of the tag *store*: runs that survive."""

import asyncio
import logging
import sqlite3
import sys
import threading
import time
import types
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from pydantic import PrivateAttr

import flownb
from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Store, Workflow
from flownb.cli.main import main
from flownb.core.reduce import fold
from flownb.core.ticks import RunOpened, TimerFired
from flownb.errors import (
    DefinitionChanged,
    EventOutdated,
    JournalDamaged,
    NotStorable,
    RunConflict,
    WorkflowRuntimeError,
)
from flownb.retry_policy import retry_policy, stop_after_attempt, wait_fixed
from flownb.testing import ManualClock
from tests.polling import until, wait_until
from tests.stored.flows import notes
from tests.stored.other import Other

Open = Callable[..., Store]
Start = Callable[..., Other]


def sql(path: str, statement: str, *values: Any) -> list[Any]:
    """What a person does with the `sqlite3` program."""
    db = sqlite3.connect(path, isolation_level=None)
    try:
        return db.execute(statement, values).fetchall()
    finally:
        db.close()


def rows(path: str) -> list[Any]:
    return sql(path, "SELECT run_id, seq, at, kind, body FROM journal ORDER BY run_id, seq")


def left(flow: Workflow[Any], store: Store, run_id: str = "r", **fields: Any) -> None:
    """A run that waits, and that nobody drives any more."""
    run = flow.with_options(store=store).run(run_id=run_id, **fields)
    wait_until(lambda: run.status == "waiting")
    run.suspend(drain=0).result(20)


class Reply(HumanResponseEvent):
    word: str


class Question(InputRequiredEvent[Reply]):
    pass


PROCESS = """
from flownb import HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Workflow, step

class Begin(StartEvent): ...
class Reply(HumanResponseEvent):
    word: str
class Ask(InputRequiredEvent[Reply]): ...

class Process(Workflow):
    @step
    async def ask(self, ev: Begin) -> Ask:
        return Ask()
    @step
    async def done(self, ev: Reply) -> StopEvent:
        return StopEvent(result=f"{__name__} {ev.word}")
"""


@pytest.mark.parametrize("order", [("billing", "shipping"), ("shipping", "billing")])
def test_c085_workflows_of_one_name_in_two_modules_are_not_mixed_up(
    place: str, open_store: Open, order: tuple[str, str], monkeypatch: pytest.MonkeyPatch
):
    def module(name: str) -> types.ModuleType:
        made = types.ModuleType(name)
        monkeypatch.setitem(sys.modules, name, made)
        exec(PROCESS, vars(made))
        return made

    store = open_store(place)
    left(module("billing").Process(), store)
    left(module("shipping").Process(), store, "s")

    store = open_store(place)
    flows = {name: module(name).Process() for name in order}  # as a new process, which imports them in any order
    with pytest.raises(RunConflict, match=r"billing:Process.*shipping:Process"):
        flows["shipping"].with_options(store=store).resume("r")
    run = flows["shipping"].with_options(store=store).resume()  # its newest
    assert run.run_id == "s"
    run = flownb.resume("r", store=store)
    run.answer(word="on")
    assert run.result(20) == "billing on"
    assert {row.run_id: row.key for row in store.runs()} == {"r": "billing:Process", "s": "shipping:Process"}


def test_c107_of_eight_processes_that_resume_one_run_one_drives_it(
    place: str, open_store: Open, other: Start, tmp_path: Path
):
    """The driver was killed. The others get a handle that only looks; also the second call in one process, and one
    while it runs. The step that was running starts once more, all others once."""
    log, first = tmp_path / "log", other(place)
    first.do(f"run = Blocks().with_options(store=store).run(run_id='r', log={str(log)!r})")
    wait_until(lambda: notes(log) == ["block"])
    first.kill()
    processes = [other(place) for _ in range(8)]
    for process in processes:
        assert process.give("store.runs()[0].status") == "running"  # it is up
    code = "import warnings; warnings.simplefilter('ignore'); run = Blocks().with_options(store=store).resume('r')"
    threads = [threading.Thread(target=process.do, args=(code,)) for process in processes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    driven = [process for process in processes if "drives it" not in process.give("str(run.why())")]
    assert len(driven) == 1
    viewer = next(process for process in processes if process not in driven)
    assert f"process {driven[0].pid} drives it" in viewer.give("str(run.why())")
    assert driven[0].give("Blocks().with_options(store=store).resume('r')._runner is run._runner") is True
    wait_until(lambda: notes(log) == ["block"] * 2)
    (tmp_path / "log.go").touch()
    assert [process.give("run.result(20)") for process in processes] == ["blocked"] * 8
    assert notes(log) == ["block", "block", "blocked"]
    ticks = open_store(place).history("r")
    assert sum(isinstance(tick, RunOpened) for tick in ticks) == 1
    assert fold(ticks).status == "completed"


def test_c109_four_processes_write_while_one_reads(place: str, open_store: Open, other: Start):
    """10 runs each, at least 50 ticks a run: all complete, nothing is lost or out of order, the file is whole."""
    processes = [other(place) for _ in range(4)]
    codes = [
        f"runs = [Chain().with_options(store=store).run(run_id=f'{k}-{{i}}', n=48) for i in range(10)]; "
        "done = [run.result(60) for run in runs]"
        for k in range(4)
    ]
    threads = [
        threading.Thread(target=process.do, args=(code,)) for process, code in zip(processes, codes, strict=True)
    ]
    store, seen = open_store(place), 0
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        for row in store.runs()[:5]:
            seen += len(store.history(row.run_id))
    assert [process.give("done") for process in processes] == [[0] * 10] * 4
    assert seen > 0

    assert store.summary()["runs"] == {"completed": 40}
    for row in store.runs():
        ticks = store.history(row.run_id)
        assert len(ticks) == row.seq >= 50
        assert fold(ticks).status == "completed"
        assert store.journal.sound(row.run_id) == row.seq
    assert sql(place, "PRAGMA integrity_check") == [("ok",)]


def test_c111_a_store_is_used_from_any_thread(place: str, open_store: Open):
    store = open_store(place)
    flow = Workflow[Any]("threads")

    @flow.step
    def look(ev: StartEvent) -> StopEvent:  # in a thread of its own
        return StopEvent(result=(threading.current_thread().name, [row.status for row in store.runs()]))

    def in_a_thread() -> None:
        async def wait() -> Any:
            return await flow.with_options(store=store).run()

        results.extend(asyncio.run(wait()) for _ in range(5))

    results: list[Any] = []
    threads = [threading.Thread(target=in_a_thread) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert len(results) == 20
    assert threading.current_thread().name not in {name for name, _ in results}
    assert all("running" in statuses for _, statuses in results)
    assert [row.status for row in store.runs()] == ["completed"] * 20


class Taken(Event):
    no: int


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("kind = 'StepExploded'", "'StepExploded' is no kind of tick"),
        ("body = substr(body, 1, 20)", "cannot be read"),
        ("""body = '{"step":7,"delivery":"x"}'""", "cannot be read"),
    ],
)
@pytest.mark.parametrize("is_proven", [True, False])
def test_c113_a_tick_that_cannot_be_read_is_named_and_nothing_is_run_or_rewritten(
    place: str, open_store: Open, change: str, reason: str, is_proven: bool, capsys: pytest.CaptureFixture[str]
):
    """The sum tells that it was changed; without sums, as in the first format, the codec tells what is wrong."""
    ran: list[str] = []
    flow = Workflow[Any]("damaged")

    @flow.step
    async def ask(ev: StartEvent) -> Question:
        ran.append("ask")
        return Question()

    @flow.step
    async def end(ev: Reply) -> StopEvent:
        ran.append("end")
        return StopEvent()

    left(flow, open_store(place))
    sql(place, f"UPDATE journal SET {change} WHERE run_id = 'r' AND seq = 2")
    if not is_proven:
        sql(place, "UPDATE journal SET sum = NULL")
    before, store = rows(place), open_store(place)
    kind = before[1][3]
    said = f"its {kind} was changed after it was written" if is_proven else reason

    with pytest.raises(JournalDamaged) as told:
        flow.with_options(store=store).resume("r")
    assert told.value.run_id == "r" and told.value.seq == 2  # type: ignore[attr-defined]
    assert said in str(told.value) and "run.debug.fork(1)" in str(told.value)
    run = store.run("r")
    assert (run.status, len(run.debug.ticks)) == ("running", 1)
    assert said in run.why()
    assert not run.is_done()
    *raw, body = before[1][1:]
    assert store.journal.raw("r")[1] == (*raw, body.encode() if isinstance(body, str) else body)  # the record itself
    assert main(["show", "r", "--store", place]) == 0
    shown = capsys.readouterr().out
    assert "damaged" in shown and "Tick 2" in shown
    assert main(["doctor", "--check", "--store", place]) == 1
    assert (ran, rows(place)) == (["ask"], before)


def parcels(**fields: Any) -> tuple[type[Event], Workflow[Any]]:
    """An event of these fields, and a workflow that hands one from step to step; as a new process defines both."""
    hints = {name: type(value) if value is not ... else int for name, value in fields.items()}
    defaults = {name: value for name, value in fields.items() if value is not ...}
    parcel = type(Event)("Parcel", (Event,), {"__annotations__": hints, "__module__": __name__, **defaults})
    flow = Workflow[Any]("parcels")

    async def begin(ev: StartEvent) -> Event:
        return parcel(**dict.fromkeys(hints, 1))

    async def take(ev: Event, ctx: Context) -> StopEvent:
        assert isinstance(ev, parcel)
        await ctx.ask(Question())
        return StopEvent(result=ev.model_dump())

    begin.__annotations__["return"] = parcel
    take.__annotations__["ev"] = parcel
    flow.step(begin)
    flow.step(take)
    return parcel, flow


def test_c115_fields_that_came_or_went_do_not_make_a_run_unloadable(place: str, open_store: Open):
    """A field with a default is filled in, one that is gone is kept as an undeclared one; a new required one is named,
    with event and tick, when the event would be handed to a step."""
    _, flow = parcels(no=..., more=...)
    for run_id in ("default", "gone", "required"):
        left(flow, open_store(place), run_id)

    def resumed(run_id: str, **fields: Any) -> Any:
        _, newer = parcels(**fields)
        run = newer.with_options(store=open_store(place)).resume(run_id)
        wait_until(lambda: run.status == "waiting")
        run.answer(word="on")
        return run

    assert resumed("default", no=..., more=..., weight=2.5).result(20) == {"no": 1, "more": 1, "weight": 2.5}
    assert resumed("gone", no=...).result(20) == {"no": 1, "more": 1}
    run = resumed("required", no=..., more=..., needed=...)
    with pytest.raises(EventOutdated, match=r"Parcel.* of tick 2 .*'needed'"):
        run.result(20)
    assert run.status == "failed"


def test_c117_what_cannot_be_saved_is_named_at_the_write(place: str, open_store: Open):
    """Without a store it is simply kept, uncopied; with one the write fails and names it, and the run does not hang."""
    lock = threading.Lock()
    flow = Workflow[Any]("live")

    @flow.step
    async def keep(ev: StartEvent, ctx: Context) -> StopEvent:
        for name, value in (("lock", lock), ("logging", logging), ("function", lambda: 1)):
            ctx.state.set(name, value)
        return StopEvent(result=ctx.state.get("lock") is lock)

    run = flow.run()
    assert run.result(20) is True
    assert run.snapshot()["missing"]
    run = flow.with_options(store=open_store(place)).run(run_id="r")
    with pytest.raises(NotStorable, match=r"field 'lock'.*_thread.lock|lock"):
        run.result(20)
    assert (run.status, run.is_done()) == ("failed", True)
    assert [row.status for row in open_store(place).runs()] == ["failed"]


class Colour(Enum):
    RED = 1


class Things(Event):
    value: Any
    table: dict[Any, Any] = {}


THINGS = [
    {1: "a", "1": "b"},
    (1, 2),
    {1},
    frozenset({"x"}),
    b"\xff",
    2**70,
    Decimal("1.10"),
    datetime(2026, 3, 29, 2, 30, tzinfo=timezone(timedelta(hours=5, minutes=30))),
    Colour.RED,
    Path("a") / "b",
    1.0,
    float("inf"),
    True,
]


class Loose(Event):
    model_config = {"extra": "allow"}
    no: int
    _secret_count: int = PrivateAttr(default=0)


def hand_over(store: Store, value: Event) -> Workflow[Any]:
    """A run that is left with an event on its way, which the second step is given after a restart."""
    flow = Workflow[Any]("hands over")

    async def begin(ev: StartEvent, ctx: Context) -> Event:
        ctx.state.set("same", value)
        return value

    async def take(ev: Event, ctx: Context) -> StopEvent:
        await ctx.ask(Question())
        return StopEvent(result=(ev, ctx.state.get("same")))

    begin.__annotations__["return"] = type(value)
    take.__annotations__["ev"] = type(value)
    flow.step(begin)
    flow.step(take)
    left(flow, store)
    return flow


def handed_over(store: Store, flow: Workflow[Any]) -> Any:
    run = flow.with_options(store=store).resume("r")
    wait_until(lambda: run.status == "waiting")
    run.answer(word="on")
    return run.result(20)


def test_c119_values_come_back_as_they_were(place: str, open_store: Open):
    value = Things(value=THINGS, table={1: "a", "1": "b", (2, 3): {4}, None: b"\0"})
    flow = hand_over(open_store(place), value)
    for found in handed_over(open_store(place), flow):
        assert found is not value
        assert found == value
        assert [type(part) for part in found.value] == [type(part) for part in THINGS]
        assert repr(found) == repr(value)


def test_c121_extra_and_private_attributes_survive(place: str, open_store: Open):
    value = Loose(no=1, more=[1, 2])
    value._secret_count = 7
    flow = hand_over(open_store(place), value)
    for found in handed_over(open_store(place), flow):
        assert found is not value
        assert (found.no, found.more, found._secret_count) == (1, [1, 2], 7)


def test_c123_half_an_emoji_and_a_nul_are_kept_exactly(
    place: str, open_store: Open, capsys: pytest.CaptureFixture[str]
):
    """Stored, streamed, shown and in the message of an error."""
    text = "ok \ud83d \x00 end"
    flow = Workflow[Any]("emoji")

    @flow.step
    async def say(ev: StartEvent, ctx: Context) -> StopEvent:
        ctx.write_event_to_stream(Things(value=text))
        ctx.state.set("text", text)
        if len(ev.model_extra or {}) > 1:
            raise ValueError(text)
        return StopEvent(result=text)

    run = flow.with_options(store=open_store(place)).run(run_id="r", text=text)
    assert run.result(20) == text
    failed = flow.with_options(store=open_store(place)).run(run_id="f", text=text, fails=True)
    with pytest.raises(ValueError, match="ok"):
        failed.result(20)

    store = open_store(place)
    assert {row.run_id: row.status for row in store.runs()} == {"r": "completed", "f": "failed"}
    again = store.run("r")
    assert (again.result(20), again.state["text"]) == (text, text)

    async def streamed() -> list[Any]:
        return [ev.value async for ev in again.stream_events() if isinstance(ev, Things)]

    assert asyncio.run(streamed()) == [text]
    assert text.encode("utf-8", "backslashreplace").decode() in str(store.run("f").error)  # half a one is seen as such
    for run_id in ("r", "f"):
        assert main(["show", run_id, "--store", place]) == 0
    assert "ok " in capsys.readouterr().out


def test_c127_a_run_whose_code_changed_is_never_completed_by_that(place: str, open_store: Open):
    """A step with work that is gone is named, with the steps that there are; with it, or with a step more, the run goes
    on, and what was done is not done again."""
    ran: list[str] = []

    def flow_of(second: str, *, more: bool = False) -> Workflow[Any]:
        flow = Workflow[Any]("changes", accepts=[Things] if more else [])

        async def first(ev: StartEvent) -> Taken:
            ran.append("first")
            return Taken(no=1)

        async def work(ev: Taken, ctx: Context) -> StopEvent:
            return StopEvent(result=f"{second} {(await ctx.ask(Question())).word}")

        async def aside(ev: Things) -> None: ...

        work.__name__ = second
        for fn in (first, work, *((aside,) if more else ())):
            flow.step(fn)
        return flow

    left(flow_of("second"), open_store(place))
    store = open_store(place)
    with pytest.raises(DefinitionChanged, match="Step second is gone and has work in run 'r'") as told:
        flow_of("renamed").with_options(store=store).resume("r")
    assert "renamed" in str(told.value)
    assert [row.status for row in store.runs()] == ["definition_changed"]
    assert not store.run("r").is_done()

    run = flow_of("second", more=True).with_options(store=open_store(place)).resume("r")
    wait_until(lambda: run.status == "waiting")
    run.answer(word="on")
    assert run.result(20) == "second on"
    assert ran == ["first"]


def test_c129_a_run_that_is_over_is_not_run_again(place: str, open_store: Open):
    """A completed one gives its result; a failed or cancelled one is refused, unless it is asked for a run that begins
    just before its failure."""
    ran: list[str] = []
    broken = ["fail"]
    flow = Workflow[Any]("over")

    class Begins(StartEvent):
        how: str

    @flow.step
    async def work(ev: Begins) -> Things:
        ran.append("work")
        return Things(value=ev.how)

    @flow.step
    async def end(ev: Things, ctx: Context) -> StopEvent:
        ran.append("end")
        if ev.value in broken:
            raise ValueError("as told")
        if ev.value == "cancel":
            await ctx.ask(Question())
        return StopEvent(result=ev.value)

    here = flow.with_options(store=open_store(place))
    assert here.run(run_id="fine", how="fine").result(20) == "fine"
    with pytest.raises(ValueError, match="as told"):
        here.run(run_id="fail", how="fail").result(20)
    run = here.run(run_id="cancel", how="cancel")
    wait_until(lambda: run.status == "waiting")
    run.cancel("enough").result(20)
    assert ran == ["work", "end"] * 3

    store = open_store(place)
    again = flow.with_options(store=store)
    before = rows(place)
    assert again.resume("fine").result(20) == "fine"
    for run_id, status in (("fail", "failed"), ("cancel", "cancelled")):
        with pytest.raises(WorkflowRuntimeError, match=rf"is {status}.*retry_failed=True"):
            again.resume(run_id)
    assert (ran, rows(place)) == (["work", "end"] * 3, before)

    broken.clear()
    fork = again.resume("fail", retry_failed=True)
    assert fork.result(20) == "fail"
    assert fork.run_id != "fail" and fork.forked_from is not None and fork.forked_from[0] == "fail"
    assert ran == [*["work", "end"] * 3, "end"]
    assert {row.run_id: row.status for row in store.runs()} == {
        "fine": "completed", "fail": "failed", "cancel": "cancelled", fork.run_id: "completed",
    }  # fmt: skip


@pytest.fixture
def far_east(monkeypatch: pytest.MonkeyPatch) -> Any:
    """From now on this process is in another zone."""

    def go() -> None:
        monkeypatch.setenv("TZ", "Asia/Shanghai")
        time.tzset()

    yield go
    monkeypatch.undo()
    time.tzset()


#: The night in which clocks in Europe go forward, an hour before that.
NIGHT = datetime(2026, 3, 29, 0, 30, tzinfo=UTC).timestamp()


@pytest.mark.parametrize("back_after_s", [30, 300, 4000])
@pytest.mark.parametrize("what", ["retry", "limit"])
def test_c131_a_delay_is_an_absolute_time(
    place: str, open_store: Open, far_east: Callable[[], None], back_after_s: float, what: str
):
    """60 s: the driver is gone after 20, and somebody else is there later, in another zone; across a change to summer
    time. It fires at 60, or at once where that is past."""
    tried: list[float] = []
    flow = Workflow[Any]("delays")

    @flow.step(retry_policy=retry_policy(stop=stop_after_attempt(2), wait=wait_fixed(60)))
    async def work(ev: StartEvent, ctx: Context) -> StopEvent:
        if what == "limit":
            return StopEvent(result=await ctx.ask("Well?", str, timeout=60, default="nobody"))
        tried.append(ctx.now())
        if len(tried) == 1:
            raise ValueError("not yet")
        return StopEvent(result="nobody")

    async def first() -> None:
        clock = ManualClock(NIGHT)
        run = flow.with_options(store=open_store(place), clock=clock).run(run_id="r")
        await until(lambda: len(run._runner.state.timers) == 1)
        clock.advance(20)
        await run.suspend(drain=0)

    async def second() -> None:
        clock = ManualClock(NIGHT + back_after_s)
        run = flow.with_options(store=open_store(place), clock=clock).resume("r")
        if back_after_s < 60:
            await until(lambda: run.status == "waiting" or len(run._runner.state.timers) == 1)
            assert [timer.due_at for timer in run._runner.state.timers.values()] == [NIGHT + 60]
            clock.advance(29.9)
            await asyncio.sleep(0.05)
            assert not run.is_done()
            clock.advance(0.2)
        assert await run == "nobody"
        fired = [tick.at for tick in run.debug.ticks if isinstance(tick, TimerFired)]
        assert fired and NIGHT + max(60, back_after_s) <= fired[-1] <= NIGHT + max(60.1, back_after_s + 0.1)

    asyncio.run(first())
    (due,) = open_store(place).suspensions(NIGHT)
    assert (due.due, due.is_due) == (NIGHT + 60, False)
    far_east()
    asyncio.run(second())
