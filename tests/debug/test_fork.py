"""Forks: another run from a point of this one's past, which stays as it was."""

import asyncio
from typing import Any

import pytest

from flownb import Context, Event, StopEvent, Store, Workflow
from flownb.core.reduce import fold
from flownb.core.ticks import (
    ChildFinished,
    EventArrived,
    QuietNoticed,
    RequestAnswered,
    RunForked,
    StepFailed,
    StepFinished,
    Tick,
    ValueRecorded,
)
from flownb.debug.fork import fork, retry
from flownb.errors import DefinitionChanged, WorkflowConfigurationError, WorkflowDone, WorkflowRuntimeError
from flownb.events import StepFailedEvent
from flownb.retry_policy import retry_policy, stop_after_attempt, wait_fixed
from flownb.run import Run
from flownb.testing import ManualClock
from tests.polling import until, until_asked
from tests.runtime.flows import Approve, Asks, Begin, Count, Done, Item, Verdict


class Ping(Event):
    no: int = 0


def seq_of(run: Run[Any], kind: type[Tick], **fields: Any) -> int:
    """The first tick of a kind with these fields."""
    return next(
        seq
        for seq, tick in enumerate(run._runner.ticks, 1)
        if isinstance(tick, kind) and all(getattr(tick, name) == value for name, value in fields.items())
    )


async def asked(run: Run[Any], n: int = 1) -> None:
    await until_asked(run, n)


def test_a_fork_shares_the_ticks_before_it():
    """R6.37, R1.33: by reference; its first own tick names where it comes from, and the old run is as it was."""

    async def main() -> None:
        run = Count().run(n=3)
        assert await run == [0, 1, 2]
        ticks, state = list(run._runner.ticks), run._runner.state
        for at in range(1, len(ticks)):
            other = fork(run, at)
            assert await other == [0, 1, 2]
            mine = other._runner.ticks
            assert all(a is b for a, b in zip(mine[:at], ticks, strict=False))
            assert isinstance(mine[at], RunForked)
            assert other.forked_from == (run.run_id, at)
            assert other.run_id != run.run_id
        assert (run._runner.ticks, run._runner.state) == (ticks, state)
        assert run.forked_from is None

    asyncio.run(main())


def test_every_moment_of_a_fork_can_be_looked_at():
    """R6.37, R1.3: shared and own ticks fold to the states that were."""

    async def main() -> None:
        run = Count().run(n=3)
        await run
        other = fork(run, 3)
        await other
        runner = other._runner
        assert fold(runner.ticks) == runner.state
        for seq in range(1, len(runner.ticks) + 1):
            assert runner.history.at(seq) == fold(runner.ticks[:seq])
        assert runner.history.at(2) == run._runner.history.at(2)

    asyncio.run(main())


def test_steps_that_ran_at_the_fork_start_again_and_done_ones_do_not():
    """R6.38: in the middle of a fan-out."""
    started: list[int] = []
    flow = Workflow[Any]("middle")

    @flow.step
    async def split(ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(4)]

    @flow.step(num_workers=2)
    async def work(ev: Item) -> Done:
        started.append(ev.no)
        if ev.no >= 2:
            await gate.wait()
        return Done(no=ev.no)

    @flow.step
    async def join(ev: list[Done]) -> StopEvent:
        return StopEvent(result=[d.no for d in ev])

    async def main() -> None:
        nonlocal gate
        gate = asyncio.Event()
        run = flow.run()
        await until(lambda: sorted(started) == [0, 1, 2, 3])
        other = fork(run)
        await until(lambda: len(started) == 6)
        gate.set()
        assert await other == [0, 1, 2, 3]
        assert await run == [0, 1, 2, 3]

    gate: Any = None
    asyncio.run(main())
    assert sorted(started) == [0, 1, 2, 2, 3, 3]


def test_another_event_takes_the_place_of_a_step_s():
    """R6.37: ticks 1 to at - 1 are shared, and what the edit ends does not run again."""
    ran: list[str] = []
    flow = Workflow[Any]("edits")

    @flow.step
    async def first(ev: Begin) -> Ping:
        ran.append("first")
        return Ping(no=1)

    @flow.step
    async def second(ev: Ping) -> StopEvent:
        ran.append("second")
        return StopEvent(result=ev.no)

    async def main() -> None:
        run = flow.run()
        assert await run == 1
        at = seq_of(run, StepFinished, step="first")
        other = fork(run, at, Ping(no=50))
        assert await other == 50
        assert isinstance(other._runner.ticks[at - 1], RunForked)
        assert other.forked_from == (run.run_id, at - 1)
        assert other._runner.state.ignored == 0

    asyncio.run(main())
    assert ran == ["first", "second", "second"]


def test_an_edit_leaves_its_neighbours_running():
    """R6.37, R6.38: of a full step, whose other deliveries start again beside it."""
    started: list[int] = []
    flow = Workflow[Any]("neighbours")

    @flow.step
    async def split(ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(3)]

    @flow.step(num_workers=2)
    async def work(ev: Item) -> Done:
        started.append(ev.no)
        return Done(no=ev.no)

    @flow.step
    async def join(ev: list[Done]) -> StopEvent:
        return StopEvent(result=[d.no for d in ev])

    async def main() -> None:
        run = flow.run()
        await run
        started.clear()
        at = seq_of(run, StepFinished, step="work")
        assert await fork(run, at, Done(no=70)) == [70, 1, 2]
        assert sorted(started) == [1, 2]

    asyncio.run(main())


def test_a_fan_out_is_edited_as_a_list():
    """R6.37: as many elements as one likes, also none."""

    async def main() -> None:
        run = Count().run(n=2)
        await run
        at = seq_of(run, StepFinished, step="split")
        assert await fork(run, at, [Item(no=8), Item(no=9), Item(no=10)]) == [8, 9, 10]
        assert await fork(run, at, []) == []
        for wrong in (Item(no=1), [3]):
            with pytest.raises(WorkflowConfigurationError):
                fork(run, at, wrong)

    asyncio.run(main())


def test_the_input_can_be_another_one():
    """R6.37: tick 1; nothing is shared, and the run's terms and first state are kept."""

    async def main() -> None:
        run = Count().run(n=2)
        await run
        other = fork(run, 1, Begin(n=3))
        assert await other == [0, 1, 2]
        assert isinstance(other._runner.ticks[0], RunForked)
        assert other.forked_from == (run.run_id, 0)
        with pytest.raises(WorkflowConfigurationError, match="Tick 1"):
            fork(other, 1, Begin(n=3))
        assert await fork(run, 1, {"n": 1}) == [0]
        with pytest.raises(WorkflowConfigurationError, match=r"tick 1 is an event, and event=\[Begin"):
            fork(run, 1, [Begin(n=3)])

    asyncio.run(main())


def test_an_answer_and_an_outside_event_can_be_others():
    """R6.37, R6.40: the person's answer, in a fork whose question has its own id."""
    flow = Workflow[Any]("outside", accepts=[Ping])

    @flow.step
    async def ask(ev: Ping, ctx: Context) -> StopEvent:
        verdict = await ctx.ask(Approve(no=ev.no))
        return StopEvent(result=(ev.no, verdict.ok))

    @flow.step
    async def begin(ev: Begin) -> None:
        return None

    async def main() -> None:
        run = flow.run()
        await run.send_event(Ping(no=1))
        await asked(run)
        run.answer(ok=True)
        assert await run == (1, True)
        assert await fork(run, seq_of(run, RequestAnswered), Verdict(ok=False)) == (1, False)
        other = fork(run, seq_of(run, EventArrived), Ping(no=2))
        await asked(other)
        assert other.requests[0].id == f"{other.run_id}:1"
        other.answer(ok=True)
        assert await other == (2, True)

    asyncio.run(main())


def test_a_recorded_value_can_be_another_one():
    """R6.37, R3.57: the code runs again from its top and finds the other value."""
    calls: list[int] = []
    flow = Workflow[Any]("once")

    @flow.step
    async def work(ev: Begin, ctx: Context) -> StopEvent:
        value = await ctx.once(lambda: calls.append(1) or "model says yes")
        return StopEvent(result=value)

    async def main() -> None:
        run = flow.run()
        assert await run == "model says yes"
        assert await fork(run, seq_of(run, ValueRecorded), "model says no") == "model says no"

    asyncio.run(main())
    assert calls == [1]


def test_a_child_s_end_can_be_another_one():
    """R6.37, R6.40: the child is not run again."""
    ran: list[int] = []
    inner, flow = Workflow[Any]("inner"), Workflow[Any]("parent")

    @inner.step
    async def only(ev: Begin) -> StopEvent:
        ran.append(ev.n)
        return StopEvent(result=ev.n)

    @flow.step
    async def outer(ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.run(inner, n=4))

    async def main() -> None:
        run = flow.run()
        assert await run == 4
        assert await fork(run, seq_of(run, ChildFinished), StopEvent(result=44)) == 44

    asyncio.run(main())
    assert ran == [4]


def test_ticks_without_an_event_cannot_be_edited():
    """In words; and a tick that is not there is an IndexError."""

    async def main() -> None:
        run = Asks().run(n=1)
        await until(lambda: run.status == "waiting")
        with pytest.raises(WorkflowConfigurationError, match="has no event"):
            fork(run, seq_of(run, QuietNoticed), Item(no=1))
        with pytest.raises(WorkflowConfigurationError, match="name the tick"):
            fork(run, None, Item(no=1))
        for at in (0, 99):
            with pytest.raises(IndexError):
                fork(run, at)
            with pytest.raises(IndexError):
                fork(run, at, Item(no=1))
        run.cancel()

    asyncio.run(main())


def test_the_user_s_state_can_be_another_one():
    """R6.37: in place of what it was then."""
    flow = Workflow[Any]("state")

    @flow.step
    async def first(ev: Begin, ctx: Context) -> Ping:
        ctx.state.set("a", 1)
        ctx.state.set("b", 2)
        return Ping()

    @flow.step
    async def second(ev: Ping, ctx: Context) -> StopEvent:
        return StopEvent(result=ctx.state.get())

    async def main() -> None:
        run = flow.run()
        await run
        at = seq_of(run, StepFinished, step="first")
        assert await fork(run, at) == {"a": 1, "b": 2}
        assert await fork(run, at, state={"a": 9}) == {"a": 9}
        assert await fork(run, at, Ping(no=1), {"c": 3}) == {"c": 3}
        assert run.state == {"a": 1, "b": 2}

    asyncio.run(main())


def test_a_fork_asks_an_open_question_anew():
    """R6.40: under its own id; each answer is for its own run."""

    async def main() -> None:
        run = Asks().run(n=5)
        await asked(run)
        other = fork(run)
        await asked(other)
        assert (run.requests[0].id, other.requests[0].id) == (f"{run.run_id}:1", f"{other.run_id}:1")
        assert other.requests[0].question == Approve(no=5)
        other.answer(ok=False)
        assert await other is False
        assert len(run.requests) == 1
        run.answer(ok=True)
        assert await run is True

    asyncio.run(main())


def test_a_fork_remembers_its_questions():
    """R6.40: what was answered before is answered, and `ctx.request` knows it; the type of a question in words too."""
    flow = Workflow[Any]("questions")

    @flow.step
    async def begin(ev: Begin) -> Approve:
        return Approve(no=7)

    @flow.step
    async def note(ev: Verdict, ctx: Context) -> StopEvent:
        sure = await ctx.ask("Sure?", bool)
        return StopEvent(result=(ctx.request(Approve).question.no, ev.ok, sure))

    async def main() -> None:
        run = flow.run()
        await asked(run)
        run.answer(ok=True)
        await until_asked(run, numbers=[2])
        other = fork(run)
        await until_asked(other, numbers=[2])
        assert [(r.number, r.status) for r in other.requests.all()] == [(1, "answered"), (2, "open")]
        assert other.requests[0].answer_type is bool
        other.answer(True)
        assert await other == (7, True, True)
        run.cancel()

    asyncio.run(main())


def test_a_fork_during_a_retry_delay_waits_as_long_as_there_was_left():
    """R6.39: counted from the moment of the fork's point."""
    flow = Workflow[Any]("delay")

    @flow.step(retry_policy=retry_policy(wait=wait_fixed(30), stop=stop_after_attempt(2)))
    async def work(ev: Begin, ctx: Context) -> StopEvent:
        if ctx.attempt == 1:
            raise ValueError("first")
        return StopEvent(result=ctx.attempt)

    async def main() -> None:
        clock = ManualClock(1_000.0)
        run = flow.with_options(clock=clock).run()
        await until(lambda: len(run._runner.state.timers) == 1)
        clock.advance(20)
        other = fork(run)
        await until(lambda: other._runner.state.run_id == other.run_id)
        assert [t.due_at for t in other._runner.state.timers.values()] == [1_050.0]
        clock.advance(10)
        assert await run == 2
        assert not other.is_done()
        clock.advance(20)
        assert await other == 2

    asyncio.run(main())


def test_a_fork_runs_an_unfinished_child_anew():
    """R6.40: under the fork's own id; a finished child's result stays."""
    ran: list[str] = []
    inner, flow = Asks(), Workflow[Any]("parent")
    quick = Workflow[Any]("quick")

    @quick.step
    async def only(ev: Begin) -> StopEvent:
        ran.append("quick")
        return StopEvent(result=ev.n)

    @flow.step
    async def outer(ev: Begin, ctx: Context) -> StopEvent:
        n = await ctx.run(quick, n=3)
        return StopEvent(result=(n, await ctx.run(inner, n=n)))

    async def main() -> None:
        run = flow.run()
        await asked(run)
        other = fork(run)
        await asked(other)
        assert list(other.children) == [f"{other.run_id}/1/2"]
        other.answer(ok=False)
        assert await other == (3, False)
        assert run.children[f"{run.run_id}/1/2"].status == "waiting"
        run.answer(ok=True)
        assert await run == (3, True)

    asyncio.run(main())
    assert ran == ["quick"]


def test_a_fork_of_a_fork():
    """R6.37: from a shared tick, and from one of its own."""

    async def main() -> None:
        run = Count().run(n=2)
        await run
        at = seq_of(run, StepFinished, step="split")
        second = fork(run, at, [Item(no=5)])
        assert await second == [5]
        last = len(second._runner.ticks) - 1
        third, fourth = fork(second, at - 1), fork(second, last)
        assert (await third, await fourth) == ([0, 1], [5])
        assert (third.forked_from, fourth.forked_from) == ((second.run_id, at - 1), (second.run_id, last))
        assert fold(fourth._runner.ticks) == fourth._runner.state

    asyncio.run(main())


def test_a_fork_without_a_point_is_from_the_present():
    """Of a run that is over: from the moment before its end, of a cancelled one before the cancel."""

    async def main() -> None:
        done = Count().run(n=1)
        await done
        assert await fork(done) == [0]
        cancelled = Asks().run(n=1)
        await asked(cancelled)
        await cancelled.cancel_run()
        other = fork(cancelled)
        await asked(other)
        other.answer(ok=True)
        assert await other is True
        for run in (done, cancelled):
            with pytest.raises(WorkflowDone, match="earlier tick"):
                fork(run, len(run._runner.ticks))

    asyncio.run(main())


def test_a_paused_or_suspended_run_s_fork_runs_on_at_once():
    """API §7: the gate of the old run is its own; what a breakpoint held is let go."""

    async def main() -> None:
        run = Count().debug(n=2)
        await run.debug.step(2)
        assert run.status == "paused"
        assert await fork(run) == [0, 1]
        await run.suspend(0)
        assert await fork(run) == [0, 1]
        run.cancel()

    asyncio.run(main())


def test_a_fork_takes_the_newest_definition():
    """R2.21: with steps at other places; a step with work that is gone is named (R6.44)."""
    flow = Workflow[Any]("newer")

    async def begin(ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(2)]

    async def work(ev: Item) -> Done:
        await asyncio.Event().wait()
        return Done(no=ev.no)

    async def join(ev: list[Done]) -> StopEvent:
        return StopEvent(result=[d.no for d in ev])

    async def newer(ev: Item) -> Done:
        return Done(no=ev.no + 10)

    async def main() -> None:
        for fn in (begin, work, join):
            flow.step(fn)
        run = flow.run()
        await until(lambda: len(run.now.running.get("work", ())) == 2)
        newer.__name__ = "work"
        for name in list(flow.steps):
            del flow.steps[name]
        for fn in (join, newer, begin):
            flow.step(fn)
        assert await fork(run) == [10, 11]
        del flow.steps["work"]
        newer.__name__ = "renamed"
        flow.step(newer)
        with pytest.raises(DefinitionChanged, match="work"):
            fork(run)
        run.cancel()

    asyncio.run(main())


def test_a_fork_s_stream_begins_with_what_it_shares():
    """R5.62: one numbered stream, as its journal has it."""

    async def main() -> None:
        run = Count().run(n=2)
        await run
        theirs = [(item.seq, item.n) async for item in run.stream(expose_internal=True)]
        at = seq_of(run, StepFinished, step="split")
        other = fork(run, at)
        await other
        mine = [(item.seq, item.n) async for item in other.stream(expose_internal=True)]
        assert [each for each in mine if each[0] <= at] == [each for each in theirs if each[0] <= at] != []
        assert len(mine) == len(set(mine))
        assert [seq for seq, _ in mine] == sorted(seq for seq, _ in mine)
        assert mine[-1][0] == len(other._runner.ticks)

    asyncio.run(main())


def test_a_stored_fork_has_the_shared_ticks_in_its_journal(tmp_path: Any):
    """R6.37, R1.33: one journal that folds by itself, written in one go with the fork's first own tick."""

    async def main() -> None:
        store = Store(tmp_path / "runs.db")
        flow = Count().with_options(store=store)
        run = flow.run(n=2)
        await run
        at = seq_of(run, StepFinished, step="split")
        other, third = fork(run, at, [Item(no=4)]), fork(run, 1)
        assert (await other, await third) == ([4], [0, 1])
        store.close()
        again = Store(tmp_path / "runs.db")
        for each in (run, other, third):
            assert again.history(each.run_id) == each._runner.ticks
            assert fold(again.history(each.run_id)).status == "completed"
        assert {row.workflow for row in again.runs()} == {"Count"}

    asyncio.run(main())


def test_a_failed_run_is_tried_again_from_before_its_failure():
    """R6.41: with another event for the delivery that failed; what was done is not done again."""
    ran: list[Any] = []
    flow = Workflow[Any]("fails")

    @flow.step
    async def split(ev: Begin) -> list[Item]:
        ran.append("split")
        return [Item(no=i) for i in (1, 0, 2)]

    @flow.step(num_workers=1)
    async def work(ev: Item) -> Done:
        ran.append(ev.no)
        return Done(no=100 // ev.no)

    @flow.step
    async def join(ev: list[Done]) -> StopEvent:
        return StopEvent(result=[d.no for d in ev])

    async def main() -> None:
        run = flow.run()
        with pytest.raises(ZeroDivisionError):
            await run
        assert ran == ["split", 1, 0]
        other = retry(run, event=Item(no=5))
        assert await other == [100, 20, 50]
        assert ran == ["split", 1, 0, 5, 2]
        assert other.forked_from == (run.run_id, len(run._runner.ticks) - 1)
        with pytest.raises(ZeroDivisionError):
            await retry(run)
        assert run.status == "failed"

    asyncio.run(main())


def test_a_failure_that_was_overcome_can_be_tried_again_too():
    """R6.41: `step=` names whose last failure counts, also of a run that goes on."""
    flow = Workflow[Any]("overcome")

    @flow.step(on_error="continue")
    async def work(ev: Begin) -> StopEvent:
        if ev.n == 0:
            raise ValueError("nothing")
        return StopEvent(result=ev.n)

    @flow.catch_error
    async def catch(ev: StepFailedEvent) -> StopEvent:
        return StopEvent(result="caught")

    async def main() -> None:
        run = flow.run(n=0)
        assert await run == "caught"
        assert await retry(run, work, Begin(n=6)) == 6
        at = seq_of(run, StepFailed)
        assert await fork(run, at - 1) == "caught"

    asyncio.run(main())


def test_what_cannot_be_tried_again_is_told():
    """R6.41: a run that has not failed, an event that its step does not take, a failure that is no delivery's."""

    class Strange(Event):
        pass

    flow = Workflow[Any]("stalls")

    @flow.step
    async def begin(ev: Begin) -> Item | None:
        return None if ev.n else Item(no=1)

    @flow.step
    async def end(ev: Item) -> StopEvent:
        raise ValueError("no")

    async def main() -> None:
        run = Count().run(n=1)
        await run
        with pytest.raises(WorkflowRuntimeError, match="has not failed"):
            retry(run)
        with pytest.raises(WorkflowRuntimeError, match="step 'work' of run"):
            retry(run, "work")
        stalled, failed = flow.run(n=1), flow.run(n=0)
        for each in (stalled, failed):
            with pytest.raises((WorkflowRuntimeError, ValueError)):
                await each
        with pytest.raises(WorkflowConfigurationError, match="by no single event"):
            retry(stalled, event=Item(no=1))
        with pytest.raises(WorkflowConfigurationError, match="does not take"):
            retry(failed, event=Strange())

    asyncio.run(main())
