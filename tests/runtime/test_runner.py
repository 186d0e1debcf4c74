"""One run being driven: the turn, what happens when a part of it fails, and the order of what arrives."""

import asyncio
import contextlib
import sys
import threading
import time
from typing import Any

import pytest
from msgspec.structs import replace

from flownb import Context, Event, StopEvent, Store, Workflow, step
from flownb.core.commands import OpenRequest
from flownb.core.invariants import broken
from flownb.core.reduce import HANDLERS, fold
from flownb.core.ticks import (
    CancelRequested,
    EventArrived,
    GateClosed,
    QuietNoticed,
    RequestAnswered,
    RunSuspended,
    StateWritten,
    StepFinished,
    TimerFired,
)
from flownb.errors import JournalConflict, NotStorable, StepLost, WorkflowCancelledByUser
from flownb.events import newest
from flownb.retry_policy import retry_if_exception_type, retry_policy, wait_fixed
from flownb.runtime import runner as runners
from flownb.runtime.acting import ACTIONS
from flownb.runtime.commit import Committer
from flownb.runtime.results import value_out
from flownb.runtime.runner import TRIES, Runner
from flownb.runtime.worker import Worker
from flownb.store.codec import Codec
from flownb.testing import ManualClock
from tests.polling import until, until_asked, wait_for_questions, wait_until
from tests.runtime.flows import Approve, Asks, Begin, Count, CountingJournal, Done, Forever, Item, Verdict


def stored(journal: Any) -> Store:
    store = Store(":memory:")
    store._committer = Committer(journal, Codec(newest, "live"))
    return store


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runners, "BACKOFF_S", (0.01, 0.02))


def test_a_store_that_fails_a_few_times_blocks_the_run_and_loses_nothing():
    """R1.16: the turn did not happen, nothing was acted on, and it is tried again with growing waits."""
    journal = CountingJournal(fails=1_000_000)
    run = Count().with_options(store=stored(journal)).run(n=5)
    wait_until(lambda: run.status != "running" and journal.fails < 999_996)
    assert run.status == "blocked"
    assert run.debug.ticks == ()
    assert "No space left on device" in run.why()
    journal.fails = 0
    assert run.result(20) == [0, 1, 2, 3, 4]
    assert journal.ticks(run.run_id) == list(run.debug.ticks)
    assert run.status == "completed"


def test_a_store_that_fails_in_the_middle_keeps_the_order_of_what_arrived():
    class Stutters(CountingJournal):
        def append(self, entries: Any, *, durable: bool = False) -> None:
            self.turn = getattr(self, "turn", 0) + 1
            if self.turn % 2 == 0:
                raise OSError("locked")
            super().append(entries, durable=durable)

    journal = Stutters()
    run = Count().with_options(store=stored(journal)).run(n=20)
    assert run.result(20) == list(range(20))
    assert journal.ticks(run.run_id) == list(run.debug.ticks)
    done = [tick.delivery for tick in run.debug.ticks if isinstance(tick, StepFinished) and tick.step == "work"]
    assert done == sorted(done)


def test_whoever_sees_a_state_finds_its_past():
    """A thread that looks while a turn is acted on: no state is ahead of the ticks that led to it."""
    run = Count().with_options(host="thread").debug(n=20)
    runner = run._runner
    looks: list[tuple[int, int, int]] = []

    def look(before: Any, tick: Any, after: Any, commands: Any) -> None:
        looks.append((after.seq, runner.state.seq, len(run.debug.ticks)))

    runner.observers.append(look)
    run.cont()
    assert run.result(20) == list(range(20))
    assert max(seen - seq for seq, seen, _ in looks) > 0  # some turns were of several ticks
    assert [(seen, ticks) for _, seen, ticks in looks if ticks < seen] == []


def test_an_answer_that_came_while_the_store_was_blocked_is_taken():
    """R1.31: accepted stays accepted."""
    journal = CountingJournal()
    run = Asks().with_options(store=stored(journal)).run()
    wait_for_questions(run)
    journal.fails = 2
    run.answer(ok=True)
    assert run.result(20) is True


def test_a_cancel_works_while_the_store_is_blocked_before():
    """Its tick is first in line: nothing that waited before it is admitted any more."""
    journal = CountingJournal()
    run = Asks().with_options(store=stored(journal)).run()
    wait_for_questions(run)
    journal.fails = 2
    run.answer(ok=True)
    run.cancel("no more").result(20)
    assert run.status in ("cancelled", "completed")
    assert journal.ticks(run.run_id) == list(run.debug.ticks)


def test_somebody_elses_appends_suspend_the_run_in_the_end():
    """R5.6: it reads what is there and decides again, but not for ever; who awaits hears why."""
    journal = CountingJournal(fails=1, error=JournalConflict("somebody else drives it"))
    journal.fails = 10
    run = Count().with_options(store=stored(journal)).run()
    with pytest.raises(JournalConflict, match="somebody else"):
        run.result(20)
    assert run.status == "suspended"
    assert "JournalConflict" in run.why()


def test_a_bug_in_the_reducer_suspends_the_run_and_appends_nothing_of_the_turn(monkeypatch: pytest.MonkeyPatch):
    """R1.19, R1.10. The journal says so, the error has the ticks that led to it; streams and handles end too."""
    journal = CountingJournal()
    finished = HANDLERS[StepFinished]

    def breaks(draft: Any, tick: StepFinished) -> None:
        if tick.step == "work":
            raise AssertionError("a bug")
        finished(draft, tick)

    monkeypatch.setitem(HANDLERS, StepFinished, breaks)

    async def main() -> None:
        run = Count().with_options(store=stored(journal)).run()
        resting = run.debug.run_to(step="join")
        events = [event async for event in run.stream_events()]
        assert events == []
        with pytest.raises(AssertionError, match="a bug") as raised:
            await run
        assert "After 1 RunStarted, 2 StepFinished, in run" in raised.value.__notes__[0]
        assert "StepFinished(" in raised.value.__notes__[0]
        assert (await resting).seq == run.now.seq
        assert run.status == "suspended"
        assert "a bug at StepFinished after tick 2" in run.why()
        assert [type(tick).__name__ for tick in run.debug.ticks] == ["RunStarted", "StepFinished", "RunSuspended"]
        assert journal.ticks(run.run_id) == list(run.debug.ticks)
        assert run.now.running == {"work": ["Item", "Item", "Item"]}
        assert len(run.debug.inbox) >= 1  # what arrived is still to be seen
        assert (await run.cont()).seq == (await run.pause()).seq == (await run.debug.step()).seq == run.now.seq

    asyncio.run(main())


def test_a_reducer_that_refuses_even_the_suspension_suspends_the_run_without_it(monkeypatch: pytest.MonkeyPatch):
    """R1.19: `RunSuspended` is written if the reducer takes it."""

    def breaks(draft: Any, tick: Any) -> None:
        raise AssertionError(f"a bug with {type(tick).__name__}")

    monkeypatch.setitem(HANDLERS, StepFinished, breaks)
    monkeypatch.setitem(HANDLERS, RunSuspended, breaks)
    run = Count().run()
    with pytest.raises(AssertionError, match="a bug with StepFinished"):
        run.result(20)
    assert run.status == "suspended"
    assert [type(tick).__name__ for tick in run.debug.ticks] == ["RunStarted"]


def test_a_control_tick_that_the_reducer_refuses_suspends_the_run_once(monkeypatch: pytest.MonkeyPatch):
    """R1.19: the suspension goes ahead of the tick that was put back to the head of the line."""

    def breaks(draft: Any, tick: Any) -> None:
        raise AssertionError("a bug")

    monkeypatch.setitem(HANDLERS, GateClosed, breaks)
    run = Forever().run()
    wait_until(lambda: run.now.running)
    run.pause().result(20)
    with pytest.raises(AssertionError, match="a bug"):
        run.result(20)
    assert [type(tick).__name__ for tick in run.debug.ticks] == ["RunStarted", "RunSuspended"]
    assert isinstance(run.debug.inbox[0], GateClosed)


def test_a_step_that_cannot_be_started_is_a_failed_attempt(monkeypatch: pytest.MonkeyPatch):
    """R1.17: `StepLost`, and the retry rules apply."""
    begin = Worker.begin
    times: list[int] = []

    def breaks(self: Worker, context: Any) -> None:
        times.append(self.delivery.attempt)
        if len(times) < 3:
            raise OSError("no thread left")
        begin(self, context)

    monkeypatch.setattr(Worker, "begin", breaks)
    flow = Workflow[str]("lost")

    @flow.step(retry_policy=retry_policy(retry=retry_if_exception_type(StepLost), wait=wait_fixed(0)))
    async def work(ev: Begin) -> StopEvent:
        return StopEvent(result="came")

    assert flow.run().result(20) == "came"
    assert times == [1, 2, 3]
    times.clear()
    with pytest.raises(StepLost, match="'split' could not be started: OSError: no thread left"):
        Count().run().result(20)


def test_a_command_that_cannot_be_carried_out_is_tried_again(monkeypatch: pytest.MonkeyPatch):
    """R1.18: at least once; a few failures in between harm nobody."""
    opened, failures = ACTIONS[OpenRequest], []

    def stutters(runner: Any, command: Any) -> None:
        if len(failures) < TRIES - 1:
            failures.append(command)
            raise OSError("not now")
        opened(runner, command)

    monkeypatch.setitem(ACTIONS, OpenRequest, stutters)
    run = Asks().run()
    wait_until(lambda: len(failures) == TRIES - 1 and run.requests and 1 in run._runner.questions.all)
    run.answer(ok=True)
    assert run.result(20) is True


def test_a_command_that_still_fails_after_five_tries_suspends_the_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """R1.18, with the reason, which the journal has too."""
    tries: list[Any] = []

    def breaks(runner: Any, command: Any) -> None:
        tries.append(command)
        raise AssertionError("cannot act")

    monkeypatch.setitem(ACTIONS, OpenRequest, breaks)
    run = Asks().run()
    with pytest.raises(AssertionError, match="cannot act"):
        run.result(20)
    assert len(tries) == 5
    assert run.status == "suspended"
    assert "cannot act while acting on tick" in run.why()
    assert isinstance(run.debug.ticks[-1], RunSuspended)
    assert "cannot act" in run.debug.ticks[-1].reason
    assert "could not carry out OpenRequest" in caplog.text


def test_a_command_that_is_no_longer_owed_is_not_tried_again(monkeypatch: pytest.MonkeyPatch):
    """R1.18: it is tried again from what the state still owes; a withdrawn question is not opened."""
    tries: list[Any] = []

    def breaks(runner: Any, command: Any) -> None:
        tries.append(command)
        raise OSError("not now")

    tried_again = threading.Event()
    do_again = Runner._do_again

    def later(self: Runner, command: Any) -> None:
        if self.state.requests.n:  # not before the question is withdrawn, however slow that is
            self.host.later(0.01, self._do_again, command)
            return
        do_again(self, command)
        tried_again.set()

    monkeypatch.setitem(ACTIONS, OpenRequest, breaks)
    monkeypatch.setattr(Runner, "_do_again", later)

    class Withdraws(Workflow[str]):
        @step
        async def ask(self, ev: Begin, ctx: Context) -> StopEvent:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ctx.ask(Approve()), 0.01)
            await until(tried_again.is_set)
            return StopEvent(result="went on")

    assert Withdraws().run().result(20) == "went on"
    assert len(tries) == 1


def test_an_observer_that_raises_changes_nothing(caplog: pytest.LogCaptureFixture):
    """R5.68."""

    async def main() -> Any:
        run = Count().run()
        run._runner.observers.append(lambda *args: 1 / 0)
        return await run

    assert asyncio.run(main()) == [0, 1, 2]
    assert "an observer of run" in caplog.text


def test_what_the_same_turn_closed_is_not_started():
    """R1.14: two steps end in one turn, the first with the stop; what the second sent never begins."""
    started: list[str] = []

    class Sent(Event):
        pass

    flow = Workflow[int]("turn")

    @flow.step
    async def stops(ev: Begin) -> StopEvent:
        return StopEvent(result=1)

    @flow.step
    async def sends(ev: Begin) -> Sent:
        return Sent()

    @flow.step
    async def after(ev: Sent) -> StopEvent:
        started.append("after")
        return StopEvent(result=2)

    async def main() -> None:
        run = flow.run()
        assert await run == 1
        await asyncio.sleep(0.01)
        assert started == []
        assert run.debug.ticks[-1].step == "stops"

    asyncio.run(main())


def test_replay_of_a_journal_gives_the_live_state():
    """R1.3, and every state keeps the invariants."""
    run = Count().run(n=30)
    run.result(20)
    assert fold(run.debug.ticks) == run._runner.state
    for seq in range(1, len(run.debug.ticks) + 1):
        assert not broken(run._runner.history.at(seq))


def test_ticks_never_run_backwards_whatever_the_clock_does():
    """R1.2."""

    class Jumps(ManualClock):
        def now(self) -> float:
            self._now -= 1.0
            return self._now

    run = Count().with_options(clock=Jumps(1000.0)).run(n=4)
    run.result(20)
    times = [run._runner.history.at(seq).at for seq in range(1, len(run.debug.ticks) + 1)]
    assert times == sorted(times)


def test_a_deadline_never_beats_an_answer_that_was_accepted():
    """R1.27: the answer waits behind a closed gate while the deadline passes."""
    clock = ManualClock()

    class Limited(Workflow[bool]):
        @step
        async def ask(self, ev: Begin, ctx: Context) -> StopEvent:
            verdict = await ctx.ask(Approve(), timeout=10)
            return StopEvent(result=verdict.ok)

    async def main() -> Any:
        run = Limited().with_options(clock=clock).run()
        await until_asked(run)
        await run.pause()
        run.answer(ok=True)
        clock.advance(60)
        await until(lambda: {RequestAnswered, TimerFired} <= {type(tick) for tick in run.debug.inbox})
        await run.cont()
        return await run

    assert asyncio.run(main()) is True


def test_a_timer_that_fell_due_behind_a_closed_gate_is_due_when_it_opens():
    """R1.26."""
    clock = ManualClock()

    class Naps(Workflow[str]):
        @step
        async def nap(self, ev: Begin, ctx: Context) -> StopEvent:
            await ctx.sleep(30)
            return StopEvent(result="slept")

    async def main() -> Any:
        run = Naps().with_options(clock=clock).run()
        await until(lambda: run.now.waiting)
        await run.pause()
        clock.advance(31)
        await asyncio.sleep(0.02)
        assert run.now.waiting == {"nap": ["Begin: sleeps"]}
        await run.cont()
        fired = next(tick for tick in run.debug.ticks if isinstance(tick, TimerFired))
        assert fired.at == 1_031.0  # the moment in which it opened
        return await run

    assert asyncio.run(main()) == "slept"


def test_after_control_ticks_come_arrivals_and_due_timers_by_their_moments():
    """R1.24, R1.25: at the same moment what arrived is first, then the timer of the lower number; whatever order they
    came to the inbox in."""
    clock = ManualClock()

    class Naps(Workflow[None]):
        @step
        async def three(self, ev: Begin, ctx: Context) -> None:
            await ctx.sleep(3)

        @step
        async def two(self, ev: Begin, ctx: Context) -> None:
            await ctx.sleep(2)

        @step
        async def second(self, ev: Begin, ctx: Context) -> None:
            await ctx.sleep(2)

        @step
        async def never(self, ev: Item) -> StopEvent | None:
            return None

    async def main() -> None:
        run = Naps(accepts=[Item], stalled="wait").with_options(clock=clock).run()
        runner = run._runner
        await until(lambda: len(run.now.waiting) == 3)
        await run.pause()
        fired = {timer.due_at: timer.id for timer in runner.state.timers.values()}
        low, high = sorted(timer.id for timer in runner.state.timers.values() if timer.due_at == 1_002)
        arrivals = [EventArrived(at, value_out(Item(no=no))) for no, at in ((1, 1_001.0), (2, 1_002.0), (3, 1_004.0))]
        for tick in (*arrivals, TimerFired(1_004, fired[1_003]), TimerFired(1_004, high), TimerFired(1_004, low)):
            runner.put(tick)
        cancel = CancelRequested(clock.now())
        runner.put(cancel)
        assert run.debug.inbox == (
            cancel,
            arrivals[0],
            arrivals[1],
            TimerFired(1_004, low),
            TimerFired(1_004, high),
            TimerFired(1_004, fired[1_003]),
            arrivals[2],
        )
        await run

    with pytest.raises(WorkflowCancelledByUser):
        asyncio.run(main())


def test_a_timer_that_nothing_waits_for_any_more_is_no_tick():
    """R1.25: what a timer meant may be over by the time that it is its turn."""
    clock = ManualClock()

    async def main() -> Any:
        run = Asks().with_options(clock=clock).run()
        await until_asked(run)
        run._runner.put(TimerFired(clock.now(), 99))
        run.answer(ok=True)
        await run
        return run

    run = asyncio.run(main())
    assert not any(isinstance(tick, TimerFired) for tick in run.debug.ticks)


def test_quiet_is_seen_together_with_what_came_meanwhile(monkeypatch: pytest.MonkeyPatch):
    """R5.33: no lost wake-up. What arrives between the look and its tick keeps the run from being stalled."""
    put = Runner.put

    def late(runner: Runner, tick: Any) -> None:
        put(runner, tick)
        if isinstance(tick, QuietNoticed):
            put(runner, EventArrived(runner.clock.now(), value_out(Item(no=7))))

    monkeypatch.setattr(Runner, "put", late)

    class Takes(Workflow[int]):
        @step
        async def first(self, ev: Begin) -> None:
            return None

        @step
        async def last(self, ev: Item) -> StopEvent:
            return StopEvent(result=ev.no)

    run = Takes(disable_validation=True).run()
    assert run.result(20) == 7
    assert not any(isinstance(tick, QuietNoticed) for tick in run.debug.ticks)


def test_the_end_disarms_timers_and_closes_questions():
    """R2.41."""
    clock = ManualClock()

    class Many(Workflow[None]):
        @step
        async def nap(self, ev: Begin, ctx: Context) -> StopEvent:
            await ctx.sleep(1000)
            return StopEvent()

        @step
        async def ask(self, ev: Begin, ctx: Context) -> StopEvent:
            await ctx.ask(Approve(), timeout=500, default=Verdict(ok=False))
            return StopEvent()

    async def main() -> None:
        run = Many().with_options(clock=clock).run()
        await until(lambda: len(run.requests) == 1 and len(run.now.waiting) == 2)
        request = run.requests[0]
        await run.cancel()
        assert clock.next_due() is None
        assert request.status == "closed"
        assert run.requests.all()[0].status == "closed"

    asyncio.run(main())


def test_first_ticks_of_a_paused_run_stand_in_its_journal():
    journal = CountingJournal()
    run = Count().with_options(store=stored(journal)).debug()
    wait_until(lambda: run.status == "paused")
    assert [type(t).__name__ for t in journal.ticks(run.run_id)] == ["RunStarted"]
    assert not any(isinstance(t, GateClosed) for t in run.debug.ticks)
    run.cont()
    assert run.result(20) == [0, 1, 2]


def test_a_thousand_runs_are_quick():
    """No quadratic cost hides in a turn of many runs."""

    async def main() -> None:
        flow = Count()
        begun = time.monotonic()
        await asyncio.gather(*(flow.run(n=1) for _ in range(1000)))
        assert time.monotonic() - begun < 30

    asyncio.run(main())


def test_items_keep_their_number_of_workers():
    """R3.8, R3.9: at most num_workers at once, first in first out, the smallest free worker."""
    active, worst = 0, 0

    class Narrow(Workflow[list[int]]):
        @step
        async def split(self, ev: Begin) -> list[Item]:
            return [Item(no=i) for i in range(ev.n)]

        @step(num_workers=3)
        async def work(self, ev: Item) -> Item2:
            nonlocal active, worst
            active += 1
            worst = max(worst, active)
            await asyncio.sleep(0.001)
            active -= 1
            return Item2(no=ev.no)

        @step
        async def join(self, ev: list[Item2]) -> StopEvent:
            return StopEvent(result=[d.no for d in ev])

    run = Narrow().run(n=12)
    assert run.result(20) == list(range(12))
    assert worst == 3
    starts = [run._runner.history.at(seq) for seq in range(1, run.now.seq)]
    workers = {d.worker for state in starts for d in state.steps[1].active.values()}
    assert workers == {0, 1, 2}


class Item2(Event):
    no: int


def test_no_limit_of_workers_is_none():
    """R3.3."""
    together: list[int] = []
    gate = asyncio.Event()

    class Wide(Workflow[int]):
        @step
        async def split(self, ev: Begin) -> list[Item]:
            return [Item(no=i) for i in range(40)]

        @step(num_workers=None)
        async def work(self, ev: Item) -> Item2:
            together.append(ev.no)
            if len(together) == 40:
                gate.set()
            await gate.wait()
            return Item2(no=ev.no)

        @step
        async def join(self, ev: list[Item2]) -> StopEvent:
            return StopEvent(result=len(ev))

    async def main() -> int:
        return int(await Wide().run())

    assert asyncio.run(main()) == 40


def test_the_first_state_is_the_runs_own_and_is_checked(tmp_path: Any):
    rows = {"rows": [1]}
    run = Asks().with_options(state=rows).run()
    rows["rows"].append(2)
    wait_until(lambda: run.state)
    assert run.state == {"rows": [1]}
    run.cancel().result(20)
    with pytest.raises(NotStorable, match="object"):
        Asks().with_options(store=tmp_path / "runs.db", state={"handle": object()}).run()


def test_a_step_always_reads_what_it_wrote_while_ticks_are_admitted():
    """R5.15, also on a thread, where a write may be admitted between two looks."""
    lost: list[Any] = []

    class Writes(Workflow[None]):
        @step
        def work(self, ev: Begin, ctx: Context) -> StopEvent:
            for n in range(1_500):
                ctx.state.set("n", n)
                for _ in range(3):
                    if ctx.state.get("n") != n:
                        lost.append(n)
            return StopEvent()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        Writes().run().result(60)
    finally:
        sys.setswitchinterval(before)
    assert lost == []


def test_a_write_that_is_admitted_between_the_two_looks_is_seen():
    """The same, in the one order of events that loses it if the looks are simply made one after the other."""
    run = Asks().with_options(state={"n": 0}).run()
    wait_for_questions(run)
    runner = run._runner
    user = runner.user
    write = StateWritten(0.0, "ask", 1, 1, {"n": value_out(1)})
    user.put(write)
    over = user.over

    def admitted_first(values: Any) -> Any:
        user.over = over  # type: ignore[method-assign]
        runner.state = replace(runner.state, user={"n": value_out(1)})
        user.admitted(write)
        return over(values)

    user.over = admitted_first  # type: ignore[method-assign]
    assert runner.user_view()["n"].value == 1
    run.cancel().result(20)


def test_the_log_of_a_step_is_one_for_all_its_threads():
    """Threads that print their first words at the same moment lose none."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(10):
            run = Prints().run(n=16)
            run.result(20)
            assert sorted(map(int, run.logs("work").split())) == list(range(16))
            assert run.logs().startswith("[work]")
    finally:
        sys.setswitchinterval(before)


class Prints(Workflow[None]):
    @step
    def split(self, ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(ev.n)]

    @step(num_workers=None)
    def work(self, ev: Item) -> Done:
        print(ev.no)
        return Done(no=ev.no)

    @step
    def join(self, ev: list[Done]) -> StopEvent:
        return StopEvent()
