"""The code of one delivery at work: tasks, threads, what they raise, and how they are fenced off."""

import asyncio
import contextvars
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from flownb import Context, Event, StartEvent, StopEvent, Workflow, step
from flownb.core.ticks import StepFailed, WaitOpened
from flownb.errors import AttemptOver, StepFailure, WorkflowCancelledByUser, WorkflowRuntimeError
from flownb.runtime.worker import SHUTDOWN_S, Worker
from flownb.testing import ManualClock
from tests.polling import until, wait_until
from tests.runtime.flows import Forever


class Begin(StartEvent):
    n: int = 0


class Row(Event):
    no: int


class Next(Event):
    heard: tuple[bool, ...] = ()


class Odd(Exception):
    def __str__(self) -> str:
        raise RuntimeError("its message is broken")


RAISED = [ValueError("x"), KeyboardInterrupt(), SystemExit(3), TimeoutError("mine"), Odd(), MemoryError()]


@pytest.mark.parametrize("error", RAISED, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("kind", ["async", "plain"])
def test_what_a_step_raises_fails_the_run_and_reaches_who_awaits(error: BaseException, kind: str):
    """R3.41, R3.43, R3.44: also what would end a process or a thread; the loop goes on."""

    flow = Workflow[None]("raises")
    if kind == "async":

        @flow.step
        async def boom(ev: Begin) -> StopEvent:
            await asyncio.sleep(0)
            raise error
    else:

        @flow.step(num_workers=1)
        def boom(ev: Begin) -> StopEvent:
            raise error

    run = flow.run()
    with pytest.raises(type(error)) as caught:
        run.result(20)
    assert caught.value is error
    assert run.status == "failed"
    assert run.error is error
    assert run.debug.at(run.now.seq).status == "failed"


def test_a_cancelled_error_of_the_steps_own_is_its_failure():
    """R3.43. Raised as it is, it would cancel whoever awaits the run (C043)."""

    class Cancels(Workflow[None]):
        @step
        async def boom(self, ev: Begin) -> StopEvent:
            inner = asyncio.ensure_future(asyncio.sleep(60))
            inner.cancel()
            await inner
            return StopEvent()

    async def main() -> None:
        run = Cancels().run()
        with pytest.raises(StepFailure, match="'boom' raised CancelledError by itself") as caught:
            await asyncio.wait_for(run, 20)
        assert isinstance(caught.value.__cause__, asyncio.CancelledError)
        assert run.status == "failed"

    asyncio.run(main())


def test_a_step_that_cancels_its_own_task_fails():
    class Cancels(Workflow[None]):
        @step
        async def boom(self, ev: Begin) -> StopEvent:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(60)
            return StopEvent()

    run = Cancels().run()
    with pytest.raises(StepFailure):
        run.result(20)


def test_an_error_is_raised_with_the_users_frames_its_cause_and_one_note():
    """C135, R3.41: the same object, the last frame the user's line, no engine frames between."""

    def deeper() -> None:
        raise ValueError("x") from KeyError("y")

    flow = Workflow[None]("note")

    @flow.step
    def check(ev: Begin) -> StopEvent:
        deeper()
        return StopEvent()

    run = flow.run()
    for _ in range(3):  # awaiting it again changes nothing
        with pytest.raises(ValueError, match="x") as caught:
            run.result(20)
        assert isinstance(caught.value.__cause__, KeyError)
        assert caught.value.__notes__ == [f"In step 'check' of run '{run.run_id}', attempt 1."]
        frames = [f.name for f in traceback.extract_tb(caught.value.__traceback__) if "/flownb/" in f.filename]
        names = [f.name for f in traceback.extract_tb(caught.value.__traceback__)]
        assert names[-2:] == ["check", "deeper"]
        assert frames == ["result", "_outcome"]


def test_the_journal_keeps_an_error_in_words():
    """R3.42: type, message and traceback text, from the user's first line on."""
    flow = Workflow[None]("words")

    @flow.step
    def check(ev: Begin) -> StopEvent:
        raise ValueError("broken \ud83d")

    run = flow.run()
    with pytest.raises(ValueError, match="broken"):
        run.result(20)
    tick = run.debug.ticks[-1]
    assert isinstance(tick, StepFailed)
    assert tick.failure.type == "builtins:ValueError"
    assert tick.failure.message == "broken \\ud83d"
    assert "in check" in tick.failure.traceback
    assert "flownb/runtime" not in tick.failure.traceback


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (5, "returned a builtins:int"),
        ("text", "returned a builtins:str"),
        ([Next(), 3], "a list with a builtins:int in it"),
        (StartEvent, "returned a builtins:type|returned a .*ModelMetaclass|returned a .*EventMeta"),
    ],
)
def test_a_result_that_is_no_event_fails_the_step_in_words(wrong: Any, said: str):
    """R2.18: step, expected and actual type with modules."""
    flow = Workflow[None]("wrong")

    @flow.step
    def make(ev: Begin) -> Row | StopEvent:
        return wrong

    @flow.step
    def rest(ev: Row) -> None: ...

    with pytest.raises(WorkflowRuntimeError, match=said) as caught:
        flow.run().result(20)
    assert caught.value.step == "make"
    assert f"{__name__}:Row | flownb.events:StopEvent" in str(caught.value)


def test_other_sequences_of_events_count_as_a_list():
    """R2.16."""
    from collections import UserList

    flow = Workflow[int]("sequences")

    @flow.step
    def split(ev: Begin) -> list[Row]:
        return UserList([Row(no=1), Row(no=2)]) if ev.n else (Row(no=1),)  # type: ignore[return-value]

    @flow.step
    def total(ev: list[Row]) -> StopEvent:
        return StopEvent(result=len(ev))

    assert flow.run(n=1).result(20) == 2
    assert flow.run(n=0).result(20) == 1


def test_context_variables_of_the_caller_reach_steps_and_nothing_leaks_back():
    """R3.11, C029."""
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")
    flow = Workflow[dict[str, str]]("vars")
    seen: dict[str, str] = {}

    @flow.step
    async def first(ev: Begin) -> Row:
        seen["async"] = who.get()
        who.set("first")
        return Row(no=1)

    @flow.step
    def second(ev: Row) -> StopEvent:
        seen["plain"] = who.get()
        who.set("second")
        return StopEvent()

    who.set("ann")
    flow.run().result(20)
    assert seen == {"async": "ann", "plain": "ann"}
    assert who.get() == "ann"

    async def main() -> None:
        who.set("bob")
        await flow.run()
        assert who.get() == "bob"

    asyncio.run(main())
    assert seen == {"async": "bob", "plain": "bob"}


def test_a_sleeping_plain_step_freezes_neither_the_loop_nor_timers():
    """R3.15: the loop's heartbeat and another step's sleep go on while a plain step blocks its thread."""
    beats, rested = threading.Event(), threading.Event()

    class Sleeps(Workflow[tuple[bool, bool]]):
        @step
        def block(self, ev: Begin) -> Next:
            return Next(heard=(beats.wait(20), rested.wait(20)))

        @step
        async def nap(self, ev: Begin, ctx: Context) -> Row:
            await ctx.sleep(0.05)
            return Row(no=1)

        @step
        async def rest(self, ev: Row) -> None:
            rested.set()

        @step
        async def end(self, ev: Next) -> StopEvent:
            return StopEvent(result=ev.heard)

    async def main() -> Any:
        run = Sleeps().run()
        await until(lambda: run.now.running.get("block"))
        for _ in range(5):
            await asyncio.sleep(0.01)
        beats.set()
        return await run

    assert asyncio.run(main()) == (True, True)


def test_what_a_thread_brings_after_a_cancel_reaches_nobody():
    """R3.16, R3.18, R3.20: result, sends, writes and further waits of a fenced thread."""
    began, go, seen = threading.Event(), threading.Event(), []

    class Late(Workflow[str]):
        @step
        def work(self, ev: Begin, ctx: Context) -> StopEvent | Row:
            began.set()
            go.wait(20)
            for call in (
                lambda: ctx.send_event(Row(no=1)),
                lambda: ctx.write_event_to_stream(Row(no=1)),
                lambda: ctx.state.set("x", 1),
                lambda: ctx.sleep(0.001),
                lambda: ctx.ask("Well?"),
                lambda: ctx.state.edit().__enter__(),
            ):
                try:
                    call()
                except AttemptOver as error:
                    seen.append(error)
            return StopEvent(result="late")

        @step
        def row(self, ev: Row) -> StopEvent:
            return StopEvent(result="never")

    run = Late().run()
    assert began.wait(20)  # an attempt that is over before its thread has begun runs no code at all
    run.cancel("enough").result(20)
    ticks = run.debug.ticks
    go.set()
    wait_until(lambda: len(seen) == 6)
    time.sleep(0.05)
    assert run.status == "cancelled"
    assert run.debug.ticks == ticks
    assert run.state == {}
    with pytest.raises(WorkflowCancelledByUser, match="enough"):
        run.result(1)


def test_a_thread_that_waits_when_the_run_ends_is_let_go():
    """Its wait raises `AttemptOver`, a BaseException, so `except Exception` lets it through (R3.20)."""
    left: list[str] = []

    class Waits(Workflow[None]):
        @step
        def work(self, ev: Begin, ctx: Context) -> StopEvent:
            try:
                ctx.sleep(60).result()
            except Exception:
                left.append("caught")
            finally:
                left.append("gone")
            return StopEvent()

    run = Waits().run()
    wait_until(lambda: run.now.waiting)
    run.cancel().result(20)
    wait_until(lambda: left == ["gone"])


def test_a_coroutine_that_swallows_its_cancel_cannot_finish_the_run():
    """R5.52, C043."""
    reached: list[int] = []

    class Stubborn(Workflow[None]):
        @step
        async def work(self, ev: Begin) -> Next:
            try:
                await asyncio.sleep(60)
            except BaseException:
                await asyncio.sleep(0.01)
            return Next()

        @step
        async def after(self, ev: Next) -> StopEvent:
            reached.append(1)
            return StopEvent()

    async def main() -> None:
        run = Stubborn().run()
        await until(lambda: run.now.running)
        await asyncio.sleep(0)
        begun = time.monotonic()
        await run.cancel()
        with pytest.raises(WorkflowCancelledByUser):
            await run
        assert time.monotonic() - begun < 1
        await asyncio.sleep(0.05)
        assert run.status == "cancelled", (run.debug.ticks, run._runner.host.thread)

    asyncio.run(main())
    assert reached == []


def test_a_step_that_ends_in_the_turn_of_its_cancel_is_cancelled():
    """R2.37: a cancel is a control tick, so it is admitted before the result that waits in the inbox."""

    async def main() -> None:
        flow = Workflow[str]("race")
        go = asyncio.Event()

        @flow.step
        async def work(ev: Begin) -> StopEvent:
            await go.wait()
            return StopEvent(result="finished")

        run = flow.run()
        await until(lambda: run.now.running)
        await asyncio.sleep(0.01)
        go.set()
        await asyncio.sleep(0)  # the step's result is in the inbox now, its turn comes next
        await run.cancel()
        assert run.status == "cancelled", (run.debug.ticks, run._runner.host.thread)

    asyncio.run(main())


def test_a_task_that_somebody_else_cancels_fails_its_step_after_a_moment():
    """If the loop were shutting down that moment would never come (R1.21)."""

    async def main() -> None:
        run = Forever().run()
        await until(lambda: run.now.running)
        await asyncio.sleep(0.01)
        (worker,) = run._runner.workers.values()
        worker.task.cancel()
        begun = time.monotonic()
        with pytest.raises(StepFailure):
            await run
        assert time.monotonic() - begun >= SHUTDOWN_S * 0.5

    asyncio.run(main())


@pytest.mark.parametrize("slow_s", [0.0, 4 * SHUTDOWN_S])
def test_a_closed_loop_fails_no_step(slow_s: float):
    """R1.21: at the end of `asyncio.run` the attempt stays in progress, its question stays open; also if the loop
    takes long to close, because a job of its default executor is at work."""

    class Asks(Workflow[None]):
        @step
        async def one(self, ev: Begin, ctx: Context) -> StopEvent:
            await ctx.ask("Well?")
            return StopEvent()

        @step
        async def two(self, ev: Begin, ctx: Context) -> StopEvent:
            await asyncio.sleep(60)
            return StopEvent()

    async def main() -> Any:
        run = Asks().run()
        await until(lambda: len(run.requests) == 1)  # beside a step that works
        asyncio.get_running_loop().run_in_executor(None, time.sleep, slow_s)
        return run

    run = asyncio.run(main())
    assert [type(tick).__name__ for tick in run.debug.ticks] == ["RunStarted", "WaitOpened"]
    assert run.now.running == {"two": ["Begin"]}
    assert [r.status for r in run.requests] == ["open"]


def test_each_delivery_gets_its_own_copy():
    """R2.3: what one step does to its event, no other sees."""

    class Bag(Event):
        rows: list[int]

    flow = Workflow[list[int]]("copies")
    given = [1]

    @flow.step
    def make(ev: Begin) -> Bag:
        return Bag(rows=given)

    @flow.step
    def one(ev: Bag) -> None:
        ev.rows.append(2)

    @flow.step
    async def two(ev: Bag, ctx: Context) -> StopEvent:
        await ctx.sleep(0.02)
        return StopEvent(result=ev.rows)

    run = flow.run()
    result = run.result(20)
    assert result == [1]
    result.append(9)  # not the journal's
    assert run.result() == [1]


def test_a_step_that_cannot_be_started_is_a_failed_attempt(monkeypatch: pytest.MonkeyPatch):
    """R1.17."""
    from flownb.errors import StepLost
    from flownb.runtime import worker

    def refuse(job: Any) -> None:
        raise RuntimeError("can't start new thread")

    flow = Workflow[None]("lost")

    @flow.step
    def plain(ev: Begin) -> StopEvent:
        return StopEvent()

    monkeypatch.setattr(worker.pool, "submit", refuse)
    with pytest.raises(StepLost, match="can't start new thread") as caught:
        flow.run().result(20)
    assert caught.value.step == "plain"


def test_prints_go_to_the_log_of_their_step():
    """PANEL §7: whichever thread or task they come from; what others print is left alone."""
    flow = Workflow[None]("prints")

    @flow.step
    async def split(ev: Begin) -> list[Row]:
        print("splitting")
        return [Row(no=i) for i in range(6)]

    @flow.step(num_workers=3)
    def work(ev: Row) -> Next:
        for _ in range(3):
            print("row", ev.no)
            time.sleep(0.001)
        return Next()

    @flow.step
    async def join(ev: list[Next]) -> StopEvent:
        async def inner() -> None:
            print("inner")

        await asyncio.gather(inner(), asyncio.to_thread(print, "thread"))
        return StopEvent()

    run = flow.run()
    run.result(20)
    assert run.logs("split") == "splitting\n"
    assert sorted(run.logs("work").split("\n")) == sorted([""] + [f"row {i}" for i in range(6) for _ in range(3)])
    assert sorted(run.logs("join").splitlines()) == ["inner", "thread"]
    assert run.logs("nobody") == ""
    assert run.logs().startswith("[split]\nsplitting\n\n[work]\n")


def test_a_wait_that_a_plain_step_opens_while_its_attempt_ends_is_over_at_once(monkeypatch: pytest.MonkeyPatch):
    """R3.20: its thread would block for ever on a handle that nobody ends."""
    checked: list[Worker] = []
    ended: list[BaseException] = []
    flush = Worker.flush

    def flush_late(worker: Worker) -> None:  # between the look at the fence and the new handle
        checked.append(worker)
        wait_until(lambda: worker.fenced)
        flush(worker)

    monkeypatch.setattr(Worker, "flush", flush_late)
    flow = Workflow[None]("late")

    @flow.step
    def ask(ev: Begin, ctx: Context) -> StopEvent:
        try:
            ctx.wait_for_event(Row).result()
        except BaseException as error:
            ended.append(error)
            raise
        return StopEvent()

    run = flow.run()
    wait_until(lambda: checked)
    run.cancel()
    wait_until(lambda: ended)
    assert isinstance(ended[0], AttemptOver)


def test_what_the_threads_of_an_async_step_do_counts_before_its_end():
    """R3.46: what they send and write is not late, for the step has joined them."""
    flow = Workflow[Any]("threads")

    @flow.step
    async def work(ev: Begin, ctx: Context) -> Row | None:
        def bring(no: int) -> None:
            ctx.state.set(f"n{no}", no)
            ctx.send_event(Row(no=no))

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(bring, range(3)))

    @flow.step
    async def end(ev: Row, ctx: Context) -> StopEvent | None:
        rows = ctx.collect_events(ev, [Row] * 3)
        return None if rows is None else StopEvent(result=(sorted(row.no for row in rows), ctx.state.get()))

    assert flow.run().result(20) == ([0, 1, 2], {"n0": 0, "n1": 1, "n2": 2})


def test_a_wait_of_a_thread_stands_before_the_next_one_of_its_step():
    """R3.46: waits are opened in the order in which they were asked for."""
    flow = Workflow[int]("orders")

    @flow.step
    async def work(ev: Begin, ctx: Context) -> StopEvent:
        naps: list[Any] = []
        thread = threading.Thread(target=lambda: naps.append(ctx.sleep(0.01)))
        thread.start()
        thread.join()
        naps.append(ctx.sleep(0.01))
        await asyncio.gather(*naps)
        return StopEvent(result=len(naps))

    clock = ManualClock()
    run = flow.with_options(clock=clock).run()
    # Both are open: one that is awaited after the other woke the step would be opened once more (R4.26).
    wait_until(lambda: run.now.seq == 3)
    clock.advance(1)
    assert run.result(20) == 2
    assert [tick.mark for tick in run.debug.ticks if isinstance(tick, WaitOpened)] == [1, 2]
