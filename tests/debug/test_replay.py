"""Replay: what was recorded of a run, on the code as it is now (R6.43)."""

import asyncio
import random
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flownb import Context, Event, StartEvent, StopEvent, Store, Workflow, on_cancel, step
from flownb.core.reduce import fold
from flownb.core.ticks import (
    AnyTick,
    DefinitionAdopted,
    RequestAnswered,
    RunForked,
    RunOpened,
    StepFinished,
    TimerFired,
)
from flownb.debug import playback
from flownb.debug.sameness import essence
from flownb.errors import (
    WorkflowCancelledByUser,
    WorkflowConfigurationError,
    WorkflowNotDefined,
    WorkflowRuntimeError,
    WorkflowStepDoesNotExistError,
    WorkflowTimeoutError,
)
from flownb.events import RunAgain
from flownb.retry_policy import retry_policy, stop_after_attempt, wait_fixed
from flownb.run import Run
from flownb.testing import ManualClock
from tests.debug.test_same_run import WAYS, flow_of, stepped, stopped
from tests.polling import until
from tests.runtime.flows import Approve, Asks, Begin, Count, Done, Item, Plain, Verdict

DAY_S = 86_400.0


class Note(Event):
    text: str = ""


def told(run: Run[Any]) -> list[Any]:
    """What matters of each tick."""
    return [essence(tick) for tick in run.debug.ticks]


def titles(run: Run[Any]) -> list[str]:
    return [type(tick).__name__ for tick in run.debug.ticks]


def is_the_same(run: Run[Any], replay: Run[Any]) -> bool:
    """Tick for tick, at the same times, with no code run; and each of its moments can be looked at."""
    assert told(replay) == told(run)
    assert [tick.at for tick in replay.debug.ticks] == [tick.at for tick in run.debug.ticks]
    report = replay.debug.replayed
    assert (report.divergence, dict(report.live), report.is_over) == (None, {}, True)
    assert fold(replay.debug.ticks) == replay._runner.state
    return True


async def rested(run: Run[Any]) -> None:
    """The replay is as far as it goes by itself."""
    await until(lambda: run.debug.replayed.is_over or run.requests)


# The same code.


@pytest.mark.parametrize("kind", [Count, Plain])
def test_r6_43_a_replay_of_unchanged_code_is_the_same_and_runs_none_of_it(kind: Any):
    """R6.43, R1.3: a run of its own, that names the one it plays back; which is not touched."""

    async def main() -> None:
        run = kind().run(n=4)
        assert await run == [0, 1, 2, 3]
        ticks, state = list(run.debug.ticks), run._runner.state
        replay = run.debug.replay()
        assert await replay == [0, 1, 2, 3]
        assert is_the_same(run, replay)
        assert replay.run_id != run.run_id
        assert (replay.replay_of, run.replay_of) == (run.run_id, "")
        assert dict(replay.debug.replayed.played) == {"split": 1, "work": 4, "join": 1}
        assert (list(run.debug.ticks), run._runner.state) == (ticks, state)

    asyncio.run(main())


@settings(max_examples=30, deadline=None)
@given(
    widths=st.lists(st.integers(1, 3), max_size=2),
    fails=st.integers(0, 2),
    writes=st.booleans(),
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    ways=st.dictionaries(st.sampled_from(sorted(WAYS)), st.integers(1, 3), max_size=3),
)
def test_r6_43_runs_with_retries_and_breakpoints_are_replayed_with_their_gates(
    widths: list[int], fails: int, writes: bool, sizes: list[int], ways: dict[str, int]
):
    """R6.43, R5.32: stepped, and stopped by breakpoints; the replay has no breakpoints, and the same ticks."""

    async def main() -> None:
        flow = flow_of(widths, fails, writes)
        pressed = flow.debug()
        await stepped(pressed, sizes)
        flow = flow_of(widths, fails, writes)
        for way, n in ways.items():
            flow.breakpoints.add(**WAYS[way](n))
        looked = flow.debug()
        await stopped(looked)
        for run in (pressed, looked):
            replay = run.debug.replay(flow_of(widths, 0, writes))
            assert await replay == await run
            assert is_the_same(run, replay)

    asyncio.run(main())


def test_a_failed_run_fails_again_with_the_same_error():
    """R6.43, R3.41: with its attempts, and without waiting between them."""
    calls = []
    flow = Workflow[Any]("fails")

    @flow.step(retry_policy=retry_policy(stop=stop_after_attempt(3), wait=wait_fixed(0.01)))
    async def work(ev: StartEvent) -> StopEvent:
        calls.append(1)
        raise KeyError("no such row")

    async def main() -> None:
        run = flow.run()
        with pytest.raises(KeyError) as failed:
            await run
        replay = run.debug.replay()
        with pytest.raises(KeyError) as again:
            await replay
        assert again.value is failed.value
        assert is_the_same(run, replay)
        assert len(calls) == 3

    asyncio.run(main())


class Ends(Workflow[Any]):
    """Waits, is cancelled, and tidies up; or runs out of time."""

    @step
    async def work(self, ev: Begin, ctx: Context) -> StopEvent:
        await asyncio.sleep(30)
        return StopEvent()

    @on_cancel
    async def tidy(self, ctx: Context) -> None:
        ctx.state.set("tidy", True)


def test_cancels_and_time_limits_are_replayed():
    """R6.43, R5.51, R5.45: the ends come from the recording."""

    async def main() -> None:
        run = Ends().run()
        await until(lambda: run.now.running)
        await run.cancel("enough")
        replay = run.debug.replay()
        with pytest.raises(WorkflowCancelledByUser, match="enough"):
            await replay
        assert is_the_same(run, replay)
        assert replay.state.tidy is True
        late = Ends(timeout=0.05).run()
        with pytest.raises(WorkflowTimeoutError):
            await late
        replay = late.debug.replay()
        with pytest.raises(WorkflowTimeoutError):
            await replay
        assert is_the_same(late, replay)

    asyncio.run(main())


def test_recorded_times_are_not_slept():
    """R6.43: sleeps, deadlines and attempts of days pass at once, at their recorded moments."""
    flow = Workflow[Any]("slow")

    @flow.step
    async def ask(ev: Begin, ctx: Context) -> Note:
        await ctx.sleep(DAY_S)
        answer = await ctx.ask("Well?", str, timeout=2 * DAY_S, default="nobody said anything")
        return Note(text=answer)

    @flow.step
    async def wait(ev: Note, ctx: Context) -> StopEvent:
        try:
            await ctx.wait_for_event(Verdict, timeout=3 * DAY_S)
        except TimeoutError:
            return StopEvent(result=ev.text)
        return StopEvent(result="a verdict")

    async def main() -> None:
        clock = ManualClock()
        run = flow.with_options(clock=clock).run()
        for days in (1, 2, 3):
            await until(lambda: clock.next_due() is not None)
            clock.advance(days * DAY_S)
            await until(lambda: clock.next_due() is not None or run.is_done())
        assert await run == "nobody said anything"
        began = time.monotonic()
        replay = run.debug.replay()
        assert await replay == "nobody said anything"
        assert is_the_same(run, replay)
        assert time.monotonic() - began < 10
        assert replay.now.seq == run.now.seq and replay.debug.ticks[-1].at == 1_000 + 6 * DAY_S

    asyncio.run(main())


def test_answers_events_and_disposals_come_from_the_recording():
    """R6.43: nobody is asked again: no answers given ahead, no handler, no notice."""
    asked: list[Any] = []

    class Talks(Workflow[Any]):
        @step
        async def begin(self, ev: Begin) -> list[Item]:
            return [Item(no=i) for i in range(3)]

        @step
        async def talk(self, ev: Item, ctx: Context) -> Done:
            if ev.no == 0:
                return Done(no=int((await ctx.ask(Approve(no=0))).ok))
            if ev.no == 1:
                try:
                    await ctx.ask("Shall it be?", bool)
                except Exception:
                    return Done(no=7)
            found = await ctx.wait_for_event(Note, requirements={"text": "x"})
            return Done(no=len(found.text) + 8)

        @step
        async def end(self, ev: list[Done]) -> StopEvent:
            return StopEvent(result=[d.no for d in ev])

    async def main() -> None:
        run = Talks().with_options(on_request=asked.append, input_handler=None).run()
        await until(lambda: len(run.requests) == 2)
        run.requests.of(Approve)[0].answer(ok=True, by="ann")
        next(r for r in run.requests if r.step == "talk" and not isinstance(r.question, Approve)).dispose("no")
        await run.send_event(Note(text="y"))
        await run.send_event(Note(text="x"))
        assert await run == [1, 7, 9]
        await until(lambda: len(asked) == 2)
        replay = run.debug.replay()
        assert await replay == [1, 7, 9]
        assert is_the_same(run, replay)
        assert len(asked) == 2
        answers = [tick for tick in replay.debug.ticks if isinstance(tick, RequestAnswered)]
        assert [tick.by for tick in answers] == ["ann"]

    asyncio.run(main())


class Child(Workflow[int]):
    @step
    async def only(self, ev: Begin, ctx: Context) -> StopEvent:
        ran.append(ev.n)
        if ev.n < 0:
            raise ValueError("below zero")
        return StopEvent(result=ev.n * 10)


ran: list[int] = []


class Parent(Workflow[Any]):
    @step
    async def hand_on(self, ev: Begin, ctx: Context) -> StopEvent:
        first = await ctx.run(Child(), n=ev.n)
        try:
            await ctx.run(Child(), n=-1)
        except ValueError as error:
            return StopEvent(result=(first, str(error)))
        return StopEvent()


def test_ends_of_children_come_from_the_recording():
    """R6.43: no child is begun; a changed parent that runs the same children gets their recorded ends."""

    async def main() -> None:
        ran.clear()
        run = Parent().run(n=2)
        assert await run == (20, "below zero")
        assert ran == [2, -1]
        replay = run.debug.replay()
        assert await replay == (20, "below zero")
        assert is_the_same(run, replay)
        live = run.debug.replay(live=["hand_on"])
        assert await live == (20, "below zero")
        assert ran == [2, -1]
        assert not live.children
        assert live.debug.replayed.live == {"hand_on": 1}
        assert live.debug.divergence is None

    asyncio.run(main())


def test_forks_snapshots_and_replays_are_replayed():
    """R6.43, R6.37: with all that they share, and their own."""

    async def main() -> None:
        run = Count().run(n=3)
        await run
        fork = run.debug.fork(3)
        await fork
        again = fork.debug.replay()
        assert await again == [0, 1, 2]
        assert is_the_same(fork, again)
        waiting = Asks().run(n=1)
        await until(lambda: waiting.requests)
        opened = Asks().resume(waiting.snapshot())
        await until(lambda: opened.requests)
        opened.answer(ok=True)
        assert await opened is True
        replay = opened.debug.replay()
        assert await replay is True
        assert is_the_same(opened, replay)
        twice = replay.debug.replay()
        assert await twice is True
        assert is_the_same(replay, twice)
        assert twice.replay_of == replay.run_id
        await waiting.cancel()

    asyncio.run(main())


def test_a_run_that_was_suspended_and_opened_again_is_replayed(tmp_path: Path):
    """R6.43, R5.53: what ran at the suspension was lost; of two starts the one that came to an end counts."""
    calls: list[str] = []
    flow = Workflow[Any]("suspends")

    @flow.step
    async def work(ev: Begin, ctx: Context) -> StopEvent:
        calls.append("work")
        ctx.state.set("seen", True)
        await ctx.once(lambda: 5)
        if len(calls) == 1:
            await asyncio.sleep(30)
        return StopEvent(result=len(calls))

    async def main() -> None:
        store = Store(tmp_path / "runs.db")
        run = flow.with_options(store=store).run()
        await until(lambda: "ValueRecorded" in titles(run))
        await run.suspend(0)
        run = flow.with_options(store=store).resume(run.run_id)
        assert await run == 2
        assert any(isinstance(tick, RunOpened) for tick in run.debug.ticks)
        replay = run.debug.replay()
        assert await replay == 2
        assert is_the_same(run, replay)
        assert calls == ["work", "work"]
        kept = store.history(replay.run_id)
        assert [essence(tick) for tick in kept] == told(replay)
        assert store.run(replay.run_id).replay_of == run.run_id
        live = run.debug.replay(live=[work])
        assert await live == 3
        assert calls == ["work"] * 3
        assert live.debug.replayed.live == {"work": 1}
        store.close()

    asyncio.run(main())


# Code that changed.


def sums() -> Workflow[Any]:
    """Splits, doubles and sums; `split` and `total` count their calls in `calls`."""
    flow = Workflow[Any]("sums")

    @flow.step
    async def split(ev: Begin) -> list[Item]:
        calls.append("split")
        return [Item(no=i) for i in range(ev.n)]

    @flow.step
    async def double(ev: Item) -> Done:
        calls.append(f"double {ev.no}")
        return Done(no=2 * ev.no)

    @flow.step
    async def total(ev: list[Done]) -> StopEvent:
        calls.append("total")
        return StopEvent(result=sum(done.no for done in ev))

    return flow


calls: list[str] = []


def test_r6_43_only_changed_steps_run_and_the_same_result_is_no_divergence():
    """R6.43: in the recorded order, though the changed code is done in another one."""

    async def main() -> None:
        flow = sums()
        calls.clear()
        run = flow.run(n=4)
        assert await run == 12
        calls.clear()

        @flow.step
        async def double(ev: Item) -> Done:
            await asyncio.sleep(0.02 * (4 - ev.no))  # the last one first
            calls.append(f"other double {ev.no}")
            return Done(no=ev.no + ev.no)

        replay = run.debug.replay()
        assert await replay == 12
        assert told(replay) == told(run)
        assert calls == [f"other double {no}" for no in (3, 2, 1, 0)]
        report = replay.debug.replayed
        assert (report.changed, report.divergence, dict(report.live)) == (("double",), None, {"double": 4})
        assert "changed steps: double" in repr(report) and "no divergence" in repr(report)

    asyncio.run(main())


def test_r6_43_the_first_difference_is_reported_and_what_it_leads_to_runs_live():
    """R6.43: with recorded and replayed tick, step and words; what is not touched by it comes from the recording."""

    async def main() -> None:
        flow = sums()
        run = flow.run(n=3)
        assert await run == 6

        @flow.step
        async def double(ev: Item) -> Done:
            return Done(no=2 * ev.no if ev.no < 2 else 100)

        calls.clear()
        replay = run.debug.replay()
        assert await replay == 102
        found = replay.debug.divergence
        assert found is not None
        recorded = next(
            (seq, tick)
            for seq, tick in enumerate(run.debug.ticks, 1)
            if isinstance(tick, StepFinished) and tick.outs and tick.outs[0].value == Done(no=4)
        )
        assert (found.step, found.recorded_seq, found.recorded) == ("double", *recorded)
        assert replay.debug.ticks[found.seq - 1] == found.tick
        assert found.what == "result was Done(no=4), and is Done(no=100)"
        assert found.changed == ("double",)
        for words in ("diverges in step 'double'", "recorded: tick", "replayed: tick", "changed steps: double"):
            assert words in repr(found)
        assert calls == ["total"]  # it got another list; `split` is not run
        assert run.status == "completed" and (await run) == 6

    asyncio.run(main())


def test_a_mended_step_goes_on_where_the_run_failed():
    """R6.43: the failure is the first difference; what came after it was never recorded, so it runs."""

    async def main() -> None:
        flow = sums()

        @flow.step
        async def double(ev: Item) -> Done:
            if ev.no == 1:
                raise ValueError("odd")
            return Done(no=2 * ev.no)

        run = flow.run(n=3)
        with pytest.raises(ValueError, match="odd"):
            await run

        @flow.step
        async def double(ev: Item) -> Done:  # noqa: F811 - the cell was run again
            return Done(no=2 * ev.no)

        calls.clear()
        replay = run.debug.replay()
        assert await replay == 6
        found = replay.debug.divergence
        assert found is not None and found.step == "double"
        assert found.what.startswith("StepFailed of double: ValueError")
        assert calls == ["total"]

    asyncio.run(main())


def test_another_failure_is_a_divergence():
    """R6.43: the type counts, its text does not."""
    flow = Workflow[Any]("fails")

    @flow.step
    async def work(ev: StartEvent) -> StopEvent:
        raise ValueError("one text")

    async def main() -> None:
        run = flow.run()
        with pytest.raises(ValueError, match="one text"):
            await run

        @flow.step
        async def work(ev: StartEvent) -> StopEvent:
            raise ValueError("another text")

        same = run.debug.replay()
        with pytest.raises(ValueError, match="another text"):
            await same
        assert same.debug.divergence is None

        @flow.step
        async def work(ev: StartEvent) -> StopEvent:  # noqa: F811 - the cell was run again
            raise KeyError("one text")

        other = run.debug.replay()
        with pytest.raises(KeyError):
            await other
        assert other.debug.divergence is not None
        assert other.debug.divergence.what == "failure was ValueError, and is KeyError"

    asyncio.run(main())


def asking() -> Workflow[Any]:
    flow = Workflow[Any]("asking")

    @flow.step
    async def draft(ev: Begin) -> Item:
        return Item(no=ev.n)

    @flow.step
    async def ask(ev: Item, ctx: Context) -> StopEvent:
        return StopEvent(result=(await ctx.ask(Approve(no=ev.no))).ok)

    return flow


def test_r4_71_a_recorded_answer_counts_for_the_same_question_only():
    """R6.43, R4.71: live code that asks the same gets the recorded answer; another question waits for a person."""

    async def main() -> None:
        flow = asking()
        run = flow.run(n=1)
        await until(lambda: run.requests)
        run.answer(ok=True)
        assert await run is True
        same = run.debug.replay(live=["ask"])
        assert await same is True
        assert same.debug.divergence is None

        @flow.step
        async def draft(ev: Begin) -> Item:
            return Item(no=ev.n + 1)

        other = run.debug.replay()
        await until(lambda: other.status == "waiting")
        assert [r.question for r in other.requests] == [Approve(no=2)]
        other.answer(ok=False)
        assert await other is False
        assert other.debug.divergence is not None and other.debug.divergence.step == "draft"
        assert "RequestAnswered" in titles(other)

    asyncio.run(main())


def charging() -> Workflow[Any]:
    flow = Workflow[Any]("charging")

    @flow.step(idempotent=False)
    async def charge(ev: Begin, ctx: Context) -> Done:
        calls.append(ctx.task_key)
        await ctx.sleep(0.001)
        return Done(no=ev.n)

    @flow.step
    async def end(ev: Done) -> StopEvent:
        return StopEvent(result=ev.no)

    return flow


@pytest.mark.parametrize(("decision", "result"), [("run", 4), ("recorded", 3), ("skip", None)])
def test_r6_43_a_changed_step_that_must_not_run_twice_asks_first(decision: str, result: int | None):
    """R6.43, R3.62: it never runs silently; a person says whether it runs, or the recorded result is taken."""

    async def main() -> None:
        flow = charging()
        calls.clear()
        run = flow.run(n=3)
        assert await run == 3
        recorded_key = calls.pop()
        unchanged = run.debug.replay()
        assert await unchanged == 3
        assert is_the_same(run, unchanged)

        @flow.step(idempotent=False)
        async def charge(ev: Begin, ctx: Context) -> Done:
            calls.append(ctx.task_key)
            await ctx.sleep(0.001)
            return Done(no=ev.n + 1)

        replay = run.debug.replay()
        await until(lambda: replay.status == "waiting")
        question = replay.requests[0].question
        assert isinstance(question, RunAgain)
        assert (question.step, question.input_event, question.is_recorded) == ("charge", Begin(n=3), True)
        assert "idempotent=False" in question.prefix and "its source changed" in question.prefix
        assert calls == []
        replay.answer(decision=decision)
        if result is None:
            with pytest.raises(WorkflowRuntimeError):  # nothing follows: it stalls
                await replay
        else:
            assert await replay == result
        assert calls == ([recorded_key] if decision == "run" else [])  # the same key for systems outside
        found = replay.debug.divergence
        assert (found is None) == (decision == "recorded")
        assert dict(replay.debug.replayed.live).get("charge", 0) == (decision == "run")

    asyncio.run(main())


def test_an_event_that_was_not_recorded_asks_before_a_step_that_must_not_run_twice():
    """R6.43: also where its source is the same."""

    async def main() -> None:
        flow = Workflow[Any]("charging")

        @flow.step
        async def begin(ev: Begin) -> Item:
            return Item(no=1)

        @flow.step(idempotent=False)
        async def charge(ev: Item) -> StopEvent:
            calls.append("charge")
            return StopEvent(result=ev.no)

        run = flow.run()
        assert await run == 1

        @flow.step
        async def begin(ev: Begin) -> Item:  # noqa: F811 - the cell was run again
            return Item(no=2)

        calls.clear()
        replay = run.debug.replay()
        await until(lambda: replay.requests)
        question = replay.requests[0].question
        assert not question.is_recorded and "its event was not recorded" in question.prefix
        assert calls == []
        replay.answer(decision="run")
        assert await replay == 2
        assert calls == ["charge"]

    asyncio.run(main())


def test_sleeps_of_changed_code_take_no_time_and_its_time_limits_do():
    """R6.43: a day is skipped where nothing else goes on; code that hangs is still cut off."""

    async def main() -> None:
        flow = sums()
        run = flow.run(n=2)
        await run

        @flow.step
        async def double(ev: Item, ctx: Context) -> Done:
            await ctx.sleep(DAY_S * (1 + ev.no))
            return Done(no=2 * ev.no)

        replay = run.debug.replay()
        assert await asyncio.wait_for(replay, 20) == 2
        assert replay.debug.divergence is not None
        assert sum(isinstance(tick, TimerFired) for tick in replay.debug.ticks) == 2
        assert replay.debug.ticks[-1].at - run.debug.ticks[-1].at > DAY_S

        @flow.step(timeout=0.05)
        async def double(ev: Item, ctx: Context) -> Done:  # noqa: F811 - the cell was run again
            await asyncio.sleep(30)
            return Done(no=2 * ev.no)

        hangs = run.debug.replay()
        with pytest.raises(TimeoutError, match=r"longer than 0\.05 s"):
            await asyncio.wait_for(hangs, 20)

    asyncio.run(main())


def test_steps_that_are_gone_or_new_are_divergences():
    """R6.43: named as such; the new code runs."""

    async def main() -> None:
        flow = sums()
        run = flow.run(n=2)
        await run
        del flow.steps["double"]

        @flow.step
        async def triple(ev: Item) -> Done:
            return Done(no=3 * ev.no)

        replay = run.debug.replay()
        assert await replay == 3
        report = replay.debug.replayed
        assert (report.added, report.removed, report.changed) == (("triple",), ("double",), ())
        found = report.divergence
        assert found is not None
        assert (found.step, found.what) in [
            ("double", "the workflow has no step 'double' any more"),
            ("triple", "its event was not recorded"),
        ]
        assert "new steps: triple" in repr(report) and "gone steps: double" in repr(report)

    asyncio.run(main())


def test_recorded_results_are_found_by_step_and_event_whatever_came_before():
    """R6.43: a changed step sends the same events in another order, and one more: two come from the recording."""

    async def main() -> None:
        flow = sums()
        run = flow.run(n=2)
        await run

        @flow.step
        async def split(ev: Begin) -> list[Item]:
            return [Item(no=5), Item(no=1), Item(no=0)]

        calls.clear()
        replay = run.debug.replay()
        assert await replay == 12
        assert calls == ["double 5", "total"]
        assert dict(replay.debug.replayed.played) == {"double": 2}

    asyncio.run(main())


def test_live_runs_steps_that_are_the_same():
    """R6.43: for what a step calls is not its source; by function or name."""

    async def main() -> None:
        flow = sums()
        run = flow.run(n=2)
        await run
        calls.clear()
        replay = run.debug.replay(live=["total", flow.steps["double"].fn])
        assert await replay == 2
        assert sorted(calls) == ["double 0", "double 1", "total"]
        assert replay.debug.replayed.changed == ()
        with pytest.raises(WorkflowStepDoesNotExistError, match="totl"):
            run.debug.replay(live=["totl"])

    asyncio.run(main())


def test_values_of_a_context_are_those_of_the_recording():
    """R3.58, R6.43: uuids and random numbers are of the recorded task; the time is, or a difference that counts not."""
    flow = Workflow[Any]("values")

    @flow.step
    async def work(ev: Begin, ctx: Context) -> StopEvent:
        ctx.now()
        rolled = await ctx.once(random.random, key="roll") if ev.n == 0 else 0.0
        return StopEvent(result=(str(ctx.uuid()), ctx.random.random(), ctx.task_key, rolled))

    async def main() -> None:
        run = flow.run()
        result = await run
        replay = run.debug.replay(live=[work])
        assert await replay == result
        assert replay.debug.divergence is None
        rolls = flow.run(n=0)
        await rolls
        other = rolls.debug.replay(live=[work])
        await other
        assert other.debug.divergence is not None and other.debug.divergence.what.startswith("value was 0.")

    asyncio.run(main())


def test_code_that_needs_another_order_than_the_recorded_one_gets_it(monkeypatch: pytest.MonkeyPatch):
    """R6.43: two starts want one lock, and take it in another order: the recorded order is given up, nothing hangs."""
    monkeypatch.setattr(playback, "PATIENCE_S", 0.05)
    flow = Workflow[Any]("locks")

    @flow.step
    async def split(ev: Begin) -> list[Item]:
        return [Item(no=1), Item(no=2)]

    @flow.step
    async def work(ev: Item, ctx: Context) -> Done:
        await ctx.once(lambda: ev.no, key="n")
        return Done(no=ev.no)

    @flow.step
    async def end(ev: list[Done]) -> StopEvent:
        return StopEvent(result=[done.no for done in ev])

    async def main() -> None:
        run = flow.run()
        assert await run == [1, 2]
        lock, is_first = asyncio.Lock(), asyncio.Event()

        @flow.step
        async def work(ev: Item, ctx: Context) -> Done:
            if ev.no == 1:
                await is_first.wait()
            async with lock:
                is_first.set()
                await ctx.once(lambda: ev.no, key="n")
            return Done(no=ev.no)

        replay = run.debug.replay()
        assert await asyncio.wait_for(replay, 20) == [1, 2]
        assert replay.debug.divergence is None
        assert sorted(map(repr, told(replay))) == sorted(map(repr, told(run)))

    asyncio.run(main())


def test_live_code_that_waits_for_what_was_not_recorded_goes_its_own_way(monkeypatch: pytest.MonkeyPatch):
    """R6.43: it is told apart from code that is slow."""
    monkeypatch.setattr(playback, "PATIENCE_S", 0.05)
    flow = Workflow[Any]("waits")

    @flow.step
    async def work(ev: Begin, ctx: Context) -> StopEvent:
        ctx.state.set("a", 1)
        return StopEvent(result=1)

    async def main() -> None:
        run = flow.run()
        assert await run == 1

        @flow.step
        async def work(ev: Begin, ctx: Context) -> StopEvent:
            ctx.state.set("a", 1)
            return StopEvent(result=(await ctx.ask(Approve())).ok)

        replay = run.debug.replay()
        await until(lambda: replay.status == "waiting")
        found = replay.debug.divergence
        assert found is not None and found.what.startswith("StepFinished of work")
        replay.answer(ok=True)
        assert await replay is True

    asyncio.run(main())


# Recordings without an end, and people at the gate.


def test_where_the_recording_ends_the_replay_is_paused_and_goes_on_live():
    """R6.43: a step that was running then is not run before somebody opens the gate."""

    async def main() -> None:
        gate = asyncio.Event()
        flow = Workflow[Any]("open")

        @flow.step
        async def begin(ev: Begin) -> Item:
            return Item(no=1)

        @flow.step
        async def work(ev: Item, ctx: Context) -> StopEvent:
            calls.append("work")
            ctx.state.set("seen", ctx.state.get("seen", 0) + 1)
            await gate.wait()
            return StopEvent(result=ctx.state.get("seen"))

        calls.clear()
        run = flow.run()
        await until(lambda: "StateWritten" in titles(run))
        replay = run.debug.replay()
        await until(lambda: replay.status == "paused")
        assert titles(replay) == [*titles(run), "GateClosed"]
        assert (calls, replay.debug.replayed.is_over, replay.debug.divergence) == (["work"], True, None)
        gate.set()
        await asyncio.sleep(0.02)
        assert not replay.is_done()
        replay.cont()
        assert await replay == 1  # the write is in the ledger
        assert calls == ["work", "work"]
        assert await run == 1

    asyncio.run(main())


def test_an_open_question_of_the_recording_is_open_in_the_replay():
    """R6.43: it is this run's own, and its answer goes on with live code."""

    async def main() -> None:
        run = Asks().run(n=7)
        await until(lambda: run.status == "waiting")
        replay = run.debug.replay()
        await until(lambda: replay.status == "waiting" and replay.debug.replayed.is_over)
        assert is_the_same(run, replay)
        assert replay.requests[0].question == Approve(no=7)
        replay.answer(ok=True)
        assert await replay is True
        assert run.requests and not run.is_done()
        await run.cancel()

    asyncio.run(main())


def test_a_person_may_pause_and_step_a_replay():
    """R6.43, R5.24: its gate is theirs from then on; the recorded ticks come one by one."""

    async def main() -> None:
        run = Count().debug(n=3)
        await run.debug.step(2)
        run.cont()
        await run
        flow = Count()
        flow.breakpoints.add(step="join")
        replay = run.debug.replay(flow)
        await until(lambda: replay.status == "paused" and "BreakpointHit" in titles(replay))
        seen = replay.now.seq
        assert (await replay.debug.step()).seq > seen
        replay.cont()
        assert await replay == [0, 1, 2]
        assert replay.debug.divergence is None
        assert dict(replay.debug.replayed.live) == {}

    asyncio.run(main())


def test_what_somebody_does_to_the_replay_is_a_divergence():
    """R6.43: an event that was not recorded, while the replay waits for a changed question."""

    async def main() -> None:
        flow = asking()
        run = flow.run(n=1)
        await until(lambda: run.requests)
        run.answer(ok=True)
        await run
        run_again = run.debug.replay()
        run_again.send_event(Note(text="from outside"))
        assert await run_again is True
        found = run_again.debug.divergence
        assert found is not None and found.what == "this came from outside, and was not recorded"
        with pytest.raises(WorkflowRuntimeError, match="is no replay"):
            _ = run.debug.divergence

    asyncio.run(main())


# Which workflow.


def test_r2_21_the_newest_definition_of_the_name_counts():
    """R2.21, R6.43: of a class that was defined again, and of a workflow that was built again in cells."""

    async def main() -> None:
        def old() -> Any:
            class Redefined(Workflow[Any]):
                @step
                async def only(self, ev: Begin) -> StopEvent:
                    return StopEvent(result="old")

            return Redefined

        def new() -> Any:
            class Redefined(Workflow[Any]):
                @step
                async def only(self, ev: Begin) -> StopEvent:
                    return StopEvent(result="new")

            Redefined.__qualname__ = f"{old.__qualname__}.<locals>.Redefined"
            return Redefined

        run = old()().run()
        assert await run == "old"
        kind = new()
        kind._key = run._runner.state.spec.key
        from flownb import workflow

        workflow._classes[kind._key] = kind
        replay = run.debug.replay()
        assert await replay == "new"
        cells = Workflow[Any]("cells")

        @cells.step
        async def only(ev: Begin) -> StopEvent:
            return StopEvent(result="old")

        run = cells.run()
        assert await run == "old"
        again = Workflow[Any]("cells")

        @again.step
        async def only(ev: Begin) -> StopEvent:  # noqa: F811 - the cell was run again
            return StopEvent(result="new")

        assert await run.debug.replay() == "new"
        assert await run.debug.replay(cells) == "old"

    asyncio.run(main())


def test_a_replay_needs_a_workflow_that_takes_the_input(tmp_path: Path):
    """R6.43: errors say what is missing."""

    class Other(StartEvent):
        pass

    stranger = Workflow[Any]("stranger")

    @stranger.step
    async def only(ev: Other) -> StopEvent:
        return StopEvent()

    async def main() -> None:
        run = Count().run(n=1)
        with pytest.raises(WorkflowRuntimeError, match="no tick yet"):
            run.debug.replay()
        await run
        with pytest.raises(WorkflowConfigurationError, match=r"began with .*Begin, which no step of"):
            run.debug.replay(stranger)
        store = Store(tmp_path / "runs.db")
        kept = Count().with_options(store=store).run(n=1)
        await kept
        looked = store.run(kept.run_id)
        looked._workflow = None
        looked._runner.state.spec
        from flownb import workflow

        key = kept._runner.state.spec.key
        objects, kind = workflow._objects.pop(key, None), workflow._classes.pop(key)
        try:
            with pytest.raises(WorkflowNotDefined, match="which this process has not defined"):
                looked.debug.replay()
        finally:
            workflow._classes[key] = kind
            if objects is not None:
                workflow._objects[key] = objects
        store.close()

    asyncio.run(main())


def test_a_replay_takes_newer_definitions_of_a_run_from_its_beginning():
    """R6.43, R2.23: a tick that adopted them is not repeated; code that was recorded with the newest is not run."""
    flow = Workflow[Any]("adopts")

    @flow.step
    async def ask(ev: Begin, ctx: Context) -> Note:
        return Note(text=str((await ctx.ask(Approve())).ok))

    @flow.step
    async def end(ev: Note) -> StopEvent:
        return StopEvent(result="old")

    async def main() -> None:
        run = flow.run()
        await until(lambda: run.status == "waiting")

        @flow.step
        async def end(ev: Note) -> StopEvent:
            calls.append("end")
            return StopEvent(result="new")

        await run.adopt()
        run.answer(ok=True)
        assert await run == "new"
        calls.clear()
        replay = run.debug.replay()
        assert await replay == "new"
        assert (calls, replay.debug.divergence) == ([], None)
        kinds: list[type[AnyTick]] = [type(tick) for tick in replay.debug.ticks]
        assert DefinitionAdopted not in kinds and RunForked not in kinds

    asyncio.run(main())
