"""Which loop drives a run, and the turn in which all runs of a loop go on together."""

import asyncio
import contextvars
import gc
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import pytest

from flownb import StartEvent, StopEvent, Store, Workflow, step
from flownb.errors import EngineLost, WorkflowConfigurationError, WrongLoop
from flownb.events import newest
from flownb.runtime import host as hosts
from flownb.runtime.capture import sink
from flownb.runtime.commit import Committer
from flownb.runtime.runner import Runner
from flownb.store.codec import Codec
from tests.polling import until, until_asked, wait_until
from tests.runtime.flows import Asks, Count, CountingJournal, Forever, Item, Plain

ROOT = Path(__file__).resolve().parents[2]


class Begin(StartEvent):
    pass


seen: list[str] = []


class Where(Workflow[tuple[str, str]]):
    """Tells the threads of an async step and of a plain one."""

    @step
    async def on_loop(self, ev: Begin) -> Item:
        seen.append(threading.current_thread().name)
        return Item(no=1)

    @step
    def on_thread(self, ev: Item) -> StopEvent:
        return StopEvent(result=(seen.pop(), threading.current_thread().name))


def names(run: Any) -> tuple[str, str]:
    on_loop, on_thread = run
    return on_loop, on_thread.rpartition("-")[0]


def test_a_script_is_driven_by_the_engines_thread():
    assert names(Where().run().result(20)) == ("flownb-engine", "flownb-step")


def test_async_code_is_driven_by_its_own_loop():
    async def main() -> Any:
        return await Where().run()

    assert names(asyncio.run(main())) == ("MainThread", "flownb-step")


def test_host_thread_leaves_the_running_loop_alone():
    async def main() -> Any:
        return await Where().with_options(host="thread").run()

    assert names(asyncio.run(main())) == ("flownb-engine", "flownb-step")


def test_host_loop_needs_a_loop():
    with pytest.raises(WorkflowConfigurationError, match=r'host="loop" needs a running event loop'):
        Where().with_options(host="loop").run()


@pytest.mark.parametrize("flow", [Count(), Plain()])
def test_one_workflow_in_several_loops(flow: Workflow[list[int]]):
    """C033: `asyncio.run` twice, a third loop in another thread, and the engine, with one workflow object."""

    async def main() -> list[list[int]]:
        return list(await asyncio.gather(*(flow.run(n=12) for _ in range(4))))

    expected = [list(range(12))] * 4
    assert asyncio.run(main()) == expected
    assert asyncio.run(main()) == expected
    got: list[list[list[int]]] = []
    thread = threading.Thread(target=lambda: got.append(asyncio.run(main())))
    thread.start()
    assert [flow.run(n=12).result(20) for _ in range(4)] == expected
    thread.join(20)
    assert got == [expected]


def test_many_threads_start_and_await_runs_at_once():
    got: list[list[int]] = []
    threads = [threading.Thread(target=lambda: got.append(Plain().run(n=5).result(20))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert got == [[0, 1, 2, 3, 4]] * 16


def test_a_run_of_one_loop_is_awaited_in_another():
    async def other(run: Any) -> Any:
        return await run

    async def main() -> Any:
        run = Count().run(n=2)
        return await asyncio.to_thread(lambda: asyncio.run(other(run)))

    assert asyncio.run(main()) == [0, 1]


def test_result_on_the_loop_that_drives_the_run_is_refused():
    async def main() -> None:
        run = Count().run()
        with pytest.raises(WrongLoop, match="Use `await`"):
            run.result()
        assert await run == [0, 1, 2]
        assert run.result() == [0, 1, 2]

    asyncio.run(main())


def test_result_of_a_run_whose_loop_stands_still_is_refused():
    loop = asyncio.new_event_loop()

    async def begin() -> Any:
        return Count().run()

    run = loop.run_until_complete(begin())
    with pytest.raises(WrongLoop, match="its event loop does not run now"):
        run.result()

    async def wait() -> Any:
        return await run

    assert loop.run_until_complete(wait()) == [0, 1, 2]
    loop.close()


def test_a_run_left_behind_by_asyncio_run_says_so_instead_of_hanging():
    """R5.5. The step is not failed by it: its attempt stays in progress (R1.21)."""

    async def main() -> Any:
        run = Forever().run()
        await until(lambda: run.status == "running" and run.now.running)
        return run

    run = asyncio.run(main())
    with pytest.raises(EngineLost, match="loop that drove this run is closed") as caught:
        run.result()
    assert caught.value.run_id == run.run_id
    assert run.status == "suspended"
    assert [type(tick).__name__ for tick in run.debug.ticks] == ["RunStarted"]
    assert "closed" in run.why()

    async def wait():
        return await run

    with pytest.raises(EngineLost):
        asyncio.run(wait())
    run.cancel().result(1)  # nothing left to cancel


def test_a_question_left_behind_refuses_its_answer():
    async def main() -> Any:
        run = Asks().run()
        await until_asked(run)
        return run

    run = asyncio.run(main())
    with pytest.raises(EngineLost):
        run.answer(ok=True)


def test_a_plain_step_that_outlives_its_loop_costs_no_thread():
    """Its result reaches nobody; the thread serves the next step."""

    go, begun, returned = threading.Event(), [], []

    class Slow(Workflow[str]):
        @step
        def sleep(self, ev: Begin) -> StopEvent:
            begun.append(1)
            go.wait(20)
            returned.append(1)
            return StopEvent(result="late")

    async def main(n: int) -> None:
        Slow().run()
        await until(lambda: len(begun) == n)

    for n in (1, 2, 3):
        asyncio.run(main(n))
    go.set()
    wait_until(lambda: len(returned) == 3)
    assert [Plain().run(n=8).result(20) for _ in range(3)] == [list(range(8))] * 3


def test_a_dropped_handle_changes_nothing():
    """R5.4: the run goes on, and is freed at its end."""
    ended: list[int] = []

    class Drops(Workflow[None]):
        @step
        async def work(self, ev: Begin) -> StopEvent:
            await asyncio.sleep(0.02)
            ended.append(1)
            return StopEvent()

    run = Drops().run()
    runner = weakref.ref(run._runner)
    del run
    gc.collect()
    wait_until(lambda: ended == [1])

    def freed() -> bool:
        gc.collect()
        return runner() is None

    wait_until(freed)


def test_closed_loops_are_not_kept():
    async def main() -> None:
        await Count().run()

    for _ in range(5):
        asyncio.run(main())
    assert sum(loop.is_closed() for loop in hosts._hosts) <= 1


def test_a_stray_task_that_exits_does_not_take_the_engine_along(caplog: pytest.LogCaptureFixture):
    """asyncio lets SystemExit of a task through to whoever runs the loop."""

    class Strays(Workflow[str]):
        @step
        async def work(self, ev: Begin) -> StopEvent:
            async def stray() -> None:
                raise SystemExit(3)

            task = asyncio.ensure_future(stray())
            await asyncio.wait([task])
            task.exception()
            return StopEvent(result="on")

    assert Strays().run().result(20) == "on"
    assert Plain().run(n=1).result(20) == [0]


def test_runs_of_one_turn_share_one_append():
    """Group commit: a hundred runs that start together are written together."""
    journal = CountingJournal()
    store = Store(":memory:")
    store._committer = Committer(journal, Codec(newest, "live"))
    flow = Workflow[int]("one")

    @flow.step
    async def only(ev: Begin) -> StopEvent:
        return StopEvent(result=1)

    async def main() -> list[int]:
        return list(await asyncio.gather(*(flow.with_options(store=store).run() for _ in range(100))))

    assert asyncio.run(main()) == [1] * 100
    assert [len(entry) for entry in journal.appends] == [100, 100]


def test_one_bad_run_does_not_hold_the_others_of_its_turn():
    """The group's append fails; each is tried alone, and only the bad one is put back (R1.16)."""

    class Picky(CountingJournal):
        def append(self, entries: Any, *, durable: bool = False) -> None:
            if any(entry.run_id == "bad" for entry in entries):
                raise OSError(28, "No space left on device")
            super().append(entries, durable=durable)

    store = Store(":memory:")
    store._committer = Committer(Picky(), Codec(newest, "live"))
    flow = Count().with_options(store=store)

    async def main() -> None:
        bad = flow.run(run_id="bad")
        good = [flow.run() for _ in range(5)]
        assert await asyncio.gather(*good) == [[0, 1, 2]] * 5
        assert bad.status == "blocked"
        assert bad.debug.ticks == ()

    asyncio.run(main())


EXITS = """
import asyncio, threading, time, sys
from flownb import *
class Tick(Event): pass
class W(Workflow):
    @step
    async def wait(self, ev: StartEvent) -> StopEvent | Tick:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(60)  # a clean-up that does not end
    @step
    def block(self, ev: StartEvent, ctx: Context) -> StopEvent | Tick:
        time.sleep(60)
    @step
    def asks(self, ev: StartEvent, ctx: Context) -> StopEvent | Tick:
        ctx.ask("Well?").result()
    @step
    def end(self, ev: Tick) -> StopEvent: ...
run = W().run()
while len(run.now.running) < 2 or not len(run.requests): time.sleep(0.01)
{then}
"""


@pytest.mark.parametrize("then", ["print('bye')", "sys.exit(0)", "del run; print('bye')"])
def test_an_interpreter_with_a_live_run_exits_quickly_and_silently(then: str):
    """DESIGN §5: at exit the engine stops driving; nothing waits for steps, nothing is printed."""
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-W", "default", "-c", EXITS.format(then=then)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - begun < 15


LEFT = """
import asyncio, time
from flownb import *
class W(Workflow):
    @step
    async def wait(self, ev: StartEvent) -> StopEvent:
        await asyncio.sleep(60)
        return StopEvent()
    @step
    def block(self, ev: StartEvent) -> StopEvent:
        time.sleep(60)
        return StopEvent()
async def main():
    run = W().run()
    await asyncio.sleep(0.05)
asyncio.run(main())
"""


def test_a_script_that_leaves_a_run_in_asyncio_run_exits_silently():
    done = subprocess.run(
        [sys.executable, "-W", "default", "-c", LEFT], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_uvloop_drives_runs_too():
    """Where uvloop is installed (the `test` extra has it outside Windows)."""
    code = """
import asyncio, sys
from tests.runtime.flows import Count, Plain
if sys.platform != "win32":
    import uvloop
    runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
else:
    runner = asyncio.Runner()
async def main():
    return await Count().run(n=4), await Plain().run(n=4)
with runner:
    print(*runner.run(main()))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.strip() == "[0, 1, 2, 3] [0, 1, 2, 3]", done.stderr


def test_the_turn_runs_in_no_steps_context():
    """Else what is set and printed there would belong to the step that happened to put the first tick."""
    seen: list[Any] = []
    own: contextvars.ContextVar[str] = contextvars.ContextVar("own", default="clean")

    async def main() -> None:
        own.set("of the caller")

        def look() -> None:
            seen.append((sink.get(), own.get()))
            host.later(0.001, lambda: seen.append((sink.get(), own.get())))

        run = Count().run(n=5)
        host = run._runner.host
        run._runner.listeners.append(look)
        run._runner.observers.append(lambda *args: look())
        assert await run == [0, 1, 2, 3, 4]
        await until(lambda: len(seen) % 2 == 0 and len(seen) > 20)

    asyncio.run(main())
    assert set(seen) == {(None, "clean")}


def test_a_run_whose_turn_meets_a_bug_does_not_keep_the_others_from_acting(monkeypatch: pytest.MonkeyPatch):
    """Their ticks are in the journal already; nobody would ever act on them."""
    flow = Count()

    async def main() -> None:
        bad, *good = [flow.run() for _ in range(4)]
        monkeypatch.setattr(Runner, "finish", fails_for(bad, Runner.finish))
        assert await asyncio.gather(*good) == [[0, 1, 2]] * 3
        with pytest.raises(ZeroDivisionError):
            await bad
        worse, *more = [flow.run() for _ in range(4)]
        monkeypatch.setattr(Runner, "admit", fails_for(worse, Runner.admit))
        assert await asyncio.gather(*more) == [[0, 1, 2]] * 3
        with pytest.raises(ZeroDivisionError):
            await worse
        assert worse.status == "suspended"

    def fails_for(run: Any, real: Any) -> Any:
        def method(runner: Runner) -> None:
            if runner is run._runner:
                raise ZeroDivisionError("a bug")
            real(runner)

        return method

    asyncio.run(main())


def test_a_listener_that_raises_keeps_nobody_from_hearing(caplog: pytest.LogCaptureFixture):
    async def main() -> None:
        told: list[int] = []
        run = Count().run()
        run._runner.listeners.append(lambda: 1 / 0)
        run._runner.listeners.append(lambda: told.append(run.now.seq))
        assert await run == [0, 1, 2]
        assert told[-1] == run.now.seq

    asyncio.run(main())
    assert "a listener of run" in caplog.text
