"""Where runs stop: before a tick, before the starts that it makes, after it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from flownb import Context, Event, Run, StepFailedEvent, StopEvent, Workflow, step
from flownb.core.invariants import broken
from flownb.core.reduce import fold
from flownb.core.ticks import BreakpointHit, GateOpened, StepFailed, StepFinished
from flownb.errors import WorkflowConfigurationError, WorkflowStepDoesNotExistError
from flownb.events import newest
from flownb.retry_policy import retry_policy, stop_after_attempt, wait_fixed
from flownb.runs import Store
from flownb.runtime.commit import Committer
from flownb.store.codec import Codec
from flownb.testing import ManualClock
from tests.polling import until, until_asked, wait_until
from tests.runtime.flows import Approve, Begin, Count, CountingJournal, Done, Item, Plain, Verdict


def hits(run: Run[Any]) -> list[tuple[int, str, str]]:
    """(breakpoint, what, error) of each hit."""
    return [(t.breakpoint, t.what, t.error) for t in run.debug.ticks if isinstance(t, BreakpointHit)]


def replays(run: Run[Any]) -> bool:
    """The journal alone gives every state that the run had (R5.27): no condition is asked again."""
    for seq in range(1, run.now.seq + 1):
        assert not broken(run._runner.history.at(seq))
    return bool(fold(run.debug.ticks) == run._runner.state)


async def rests(run: Run[Any]) -> Any:
    """The moment in which its gate is closed."""
    await until(lambda: run.now.paused_by and not run._runner.control)
    return run.now


def driven(main: Callable[[], Any]) -> None:
    asyncio.run(main())


# -- the three places (R5.25)


@pytest.mark.parametrize("where", ["join", Count.join], ids=["name", "function"])
def test_before_a_step_the_tick_that_would_start_it_stays_first_in_the_inbox(where: Any):
    """R5.25, R5.26, API §0.5."""

    async def main() -> None:
        flow = Count()
        stop = flow.breakpoints.add(step=where)
        run = flow.run(n=3)
        moment = await rests(run)
        assert moment.paused_by == ("breakpoint",)
        assert hits(run) == [(stop.number, "before step join", "")]
        assert isinstance(run.debug.inbox[0], StepFinished)
        assert moment.running == {"work": ["Item"]}  # whose result it is
        run.cont()
        assert await run == [0, 1, 2]
        assert len(hits(run)) == 1  # released, it does not hit again at once
        assert replays(run)

    driven(main)


def test_at_the_start_the_tick_passes_and_the_delivery_stays_queued_marked():
    """R5.25."""

    async def main() -> None:
        flow = Count()
        flow.breakpoints.add(step="join", at="start")
        run = flow.run(n=2)
        moment = await rests(run)
        assert run.debug.inbox == ()
        assert moment.running == {}
        assert moment.queued == {"join": ["2 × Done"]}
        assert "A breakpoint holds back the start of join." in run.why()
        marked = [tick.held for tick in run.debug.ticks if tick.held]
        assert marked == [tuple(run._runner.state.side.held)]
        run.cont()
        assert await run == [0, 1]
        assert hits(run) == [(1, "at the start of step join", "")]
        assert replays(run)

    driven(main)


def test_after_a_step_its_result_is_in():
    """R5.25."""

    async def main() -> None:
        flow = Count()
        flow.breakpoints.add(step=Count.split, at="after")
        run = flow.run(n=2)
        moment = await rests(run)
        assert [type(tick).__name__ for tick in run.debug.ticks] == ["RunStarted", "StepFinished", "BreakpointHit"]
        assert moment.running == {"work": ["Item", "Item"]}
        run.cont()
        assert await run == [0, 1]
        assert replays(run)

    driven(main)


@pytest.mark.parametrize("at", ["before", "start"])
def test_the_first_step_of_a_run_can_be_held_too(at: Any):
    """R1.24, R5.25: the first tick passes, what it would start does not."""

    async def main() -> None:
        flow = Count()
        flow.breakpoints.add(event=Begin, at=at)
        run = flow.run(n=1)
        moment = await rests(run)
        assert moment.queued == {"split": ["Begin"]}
        assert run.debug.ticks[0].held == (1,)
        run.cont()
        assert await run == [0]
        assert replays(run)

    driven(main)


def test_a_step_lets_a_held_start_begin():
    """R5.24: stepping goes on from a breakpoint, tick by tick."""

    async def main() -> None:
        flow = Count()
        flow.breakpoints.add(step="join", at="start")
        run = flow.run(n=1)
        await rests(run)
        moment = await run.debug.step()
        assert (moment.status, await run) == ("completed", [0])

    driven(main)


def test_what_is_held_makes_room_for_the_next_in_the_queue():
    """R5.25: every start that the tick would make is looked at, also those that come up since others are held."""

    class Narrow(Workflow[list[int]]):
        @step
        async def split(self, ev: Begin) -> list[Item]:
            return [Item(no=i) for i in range(ev.n)]

        @step(num_workers=1)
        async def work(self, ev: Item) -> Done:
            return Done(no=ev.no)

        @step
        async def join(self, ev: list[Done]) -> StopEvent:
            return StopEvent(result=[d.no for d in ev])

    async def main() -> None:
        flow = Narrow()
        flow.breakpoints.add(step="work", at="start", when="event.no != 2")
        run = flow.run(n=4)
        await rests(run)
        state = run._runner.state
        assert len(state.side.held) == 2  # 0 and 1; 2 runs, and 3 waits for its worker
        assert [d.out.value.no for d in state.steps[1].active.values()] == [2]
        run.cont()
        await until(lambda: len(hits(run)) == 2)  # 3, when its turn came
        run.cont()
        assert await run == [0, 1, 2, 3]
        assert len(hits(run)) == 2
        assert replays(run)

    driven(main)


# -- by what (R5.26)


@pytest.mark.parametrize("event", ["Done", Done, f"{Done.__module__}:Done"], ids=["name", "class", "key"])
@pytest.mark.parametrize(("at", "stands"), [("before", 0), ("after", 1)])
def test_by_event_type(event: Any, at: Any, stands: int):
    """R5.26: before and after a tick that brings such an event."""

    async def main() -> None:
        flow = Count()
        flow.breakpoints.add(event=event, at=at)
        run = flow.run(n=3)
        for no in range(3):
            await until(lambda no=no: len(hits(run)) == no + 1)
            done = [tick for tick in run.debug.ticks if isinstance(tick, StepFinished) and tick.step == "work"]
            assert len(done) == no + stands
            run.cont()
        assert await run == [0, 1, 2]
        assert replays(run)

    driven(main)


def test_by_event_type_of_a_base_class_and_together_with_a_step():
    """R5.26: all that is named must come together."""

    class Base(Event):
        no: int

    class Left(Base):
        pass

    class Right(Base):
        pass

    flow = Workflow[int]("sides")

    @flow.step
    async def split(ev: Begin) -> list[Left | Right]:
        return [Left(no=1), Right(no=2)]

    @flow.step
    async def take(ev: Left | Right) -> Done:
        return Done(no=ev.no)

    @flow.step
    async def join(ev: list[Done]) -> StopEvent:
        return StopEvent(result=sum(d.no for d in ev))

    async def main() -> None:
        flow.breakpoints.add(step=take, event=Right, at="start")
        of_both = flow.breakpoints.add(step=take, event=Base, at="start")
        of_both.disable()
        run = flow.run()
        moment = await rests(run)
        assert moment.queued == {"take": ["Right"]}
        run.cont()
        assert await run == 3
        flow.breakpoints.clear()
        flow.breakpoints.add(event="Base", at="after")
        run = flow.run()
        await rests(run)
        assert run.debug.ticks[-2].step == "split"
        run.cont()
        await run

    driven(main)


@pytest.mark.parametrize(("at", "failed"), [("before", 0), ("after", 1)])
def test_by_error(at: Any, failed: int):
    """R5.26: every attempt that fails, also one that is tried again."""
    flow = Workflow[str]("fails")

    @flow.step(retry_policy=retry_policy(stop=stop_after_attempt(2), wait=wait_fixed(0)))
    async def flaky(ev: Begin, ctx: Context) -> StopEvent:
        if ctx.attempt == 1:
            raise ValueError("once")
        return StopEvent(result="well")

    @flow.step
    async def other(ev: Begin) -> None:
        return None

    async def main() -> None:
        flow.breakpoints.add(error=True, step=other)
        stop = flow.breakpoints.add(error=True, at=at)
        run = flow.run()
        await rests(run)
        assert sum(isinstance(tick, StepFailed) for tick in run.debug.ticks) == failed
        assert hits(run) == [(stop.number, f"{at} an error", "")]
        run.cont()
        assert await run == "well"
        assert replays(run)

    driven(main)


def test_by_error_with_the_event_that_the_step_was_given():
    """R5.26: one of the three items fails; another fails with another event."""

    class Fails(Workflow[None]):
        @step
        async def split(self, ev: Begin) -> list[Item | Done]:
            return [Done(no=0), Item(no=1)]

        @step(on_error="continue")
        async def work(self, ev: Item | Done) -> None:
            raise ValueError(type(ev).__name__)

        @step
        async def note(self, ev: StepFailedEvent) -> Last | None:
            return Last() if isinstance(ev.input_event, Item) else None

        @step
        async def end(self, ev: Last) -> StopEvent:
            return StopEvent()

    async def main() -> None:
        flow = Fails()
        flow.breakpoints.add(error=True, event=Item, when="event.no == 1")
        flow.breakpoints.add(error=True, event=Item, at="start")
        run = flow.run()
        await rests(run)
        assert run.debug.inbox[0].failure.message == "Item"
        run.cont()
        await until(lambda: len(hits(run)) == 2)
        assert run.now.queued == {"note": ["StepFailedEvent"]}  # what the failure would start
        run.cont()
        await run
        assert [number for number, _, _ in hits(run)] == [1, 2]
        assert replays(run)

    driven(main)


class Last(Event):
    pass


def test_by_event_type_of_a_question_its_answer_and_its_default():
    """R5.26: they are events too, also the answer that nobody gave; what a step records is none."""
    clock = ManualClock()
    flow = Workflow[bool]("asks")

    @flow.step
    async def ask(ev: Begin, ctx: Context) -> StopEvent:
        await ctx.once(lambda: Verdict(ok=True))
        first = await ctx.ask(Approve(no=1), timeout=10, default=Verdict(ok=False))
        second = await ctx.ask(Approve(no=2), timeout=10, default=Verdict(ok=False))
        return StopEvent(result=first.ok and not second.ok)

    async def main() -> None:
        flow.breakpoints.add(event=Approve)
        flow.breakpoints.add(event=Verdict)
        run = flow.with_options(clock=clock).run()
        seen: list[str] = []
        for n in range(1, 5):
            await until(lambda n=n: len(hits(run)) == n)
            seen.append(type(run.debug.inbox[0]).__name__)
            run.cont()
            if n == 1:
                await until_asked(run)
                run.answer(ok=True)
            if n == 3:
                await until_asked(run)
                clock.advance(10)
        assert await run is True
        assert seen == ["WaitOpened", "RequestAnswered", "WaitOpened", "TimerFired"]

    driven(main)


def test_by_state_key():
    """R5.26: a dotted path; a write that changes nothing there is none."""
    flow = Workflow[None]("writes")

    @flow.step
    async def one(ev: Begin, ctx: Context) -> Item:
        ctx.state.set("other", 1)
        ctx.state.set("doc", {"title": "a", "pages": [1]})
        return Item(no=1)

    @flow.step
    async def two(ev: Item, ctx: Context) -> Done:
        ctx.state.set("doc", {"title": "a", "pages": [1]})
        ctx.state.set("doc.pages", [1, 2])
        return Done(no=1)

    @flow.step
    async def three(ev: Done, ctx: Context) -> StopEvent:
        ctx.state.set("doc.title", "b")
        return StopEvent()

    async def main() -> None:
        flow.breakpoints.add(state="doc.title", at="after")
        flow.breakpoints.add(state="doc.title", step=one)
        run = flow.run()
        await until(lambda: len(hits(run)) == 1)
        assert run.state == {"other": 1}
        run.cont()
        await until(lambda: len(hits(run)) == 2)
        assert run.state["doc"] == {"title": "a", "pages": [1]}
        run.cont()
        await until(lambda: len(hits(run)) == 3)
        assert run.state["doc"] == {"title": "b", "pages": [1, 2]}
        run.cont()
        await run
        assert [number for number, _, _ in hits(run)] == [2, 1, 1]
        assert replays(run)

    driven(main)


def test_from_the_nth_hit_on_counted_per_run():
    """R5.26: a fan-out of six makes six starts in one tick; the first four begin."""

    async def main() -> None:
        flow = Count()
        stop = flow.breakpoints.add(step="work", at="start", hit=3)
        for _ in range(2):
            run = flow.run(n=3)
            moment = await rests(run)
            assert (moment.running, moment.queued) == ({"work": ["Item", "Item"]}, {"work": ["Item"]})
            run.cont()
            assert await run == [0, 1, 2]
        assert stop.hits == 2
        assert stop.what == "at the start of step work, from hit 3 on"

    driven(main)


# -- conditions (R5.27)


def test_an_expression_sees_event_state_tick_and_the_names_of_the_caller():
    """API §7, also inside a comprehension and with local names."""
    limit = 1

    async def main() -> None:
        wanted = [2]
        assert wanted[0] > limit  # both are names of these functions
        flow = Count()
        flow.breakpoints.add(event=Done, when="any(event.no == w for w in wanted) and tick.step == 'work'")
        run = flow.with_options(state={"n": 5}).run(n=3)
        await rests(run)
        assert run.debug.inbox[0].outs[0].value == Done(no=2)
        flow.breakpoints.clear()
        flow.breakpoints.add(when="state.n > limit and state['n'] == 5", at="after")
        run.cont()
        await until(lambda: len(hits(run)) == 2)
        flow.breakpoints.clear()
        run.cont()
        assert await run == [0, 1, 2]

    driven(main)


def test_an_expression_that_speaks_of_the_event_says_nothing_where_there_is_none():
    """R5.26: a start event has another shape, a written state has none."""

    async def main() -> None:
        flow = Count()
        flow.breakpoints.add(event=Item, when="event.no == 1", at="after")
        flow.breakpoints.add(when="getattr(event, 'no', 0) == 2", at="after")
        run = flow.run(n=2)
        await rests(run)
        assert [number for number, _, _ in hits(run)] == [1]
        run.cont()
        assert await run == [0, 1]

    driven(main)


def test_a_function_gets_the_moment_with_the_tick_that_is_looked_at():
    """R5.26: before the tick its state is the one before it, after the tick the one after it."""
    seen: list[Any] = []

    def joined(moment: Any) -> bool:
        if getattr(moment.tick, "step", "") == "split":
            seen.append((moment.seq, moment.running, [type(tick).__name__ for tick in moment.inbox]))
            return len(seen) == 1
        return False

    async def main() -> None:
        flow = Count()
        flow.breakpoints.add(when=joined)
        run = flow.run(n=1)
        await rests(run)
        assert seen == [(1, {"split": ["Begin"]}, [])]
        assert hits(run) == [(1, "before when joined", "")]
        flow.breakpoints.clear()
        flow.breakpoints.add(when=joined, at="after")
        run.cont()
        assert await run == [0]
        assert seen[1] == (4, {"work": ["Item"]}, [])

    driven(main)


@pytest.mark.parametrize("at", ["before", "start", "after"])
def test_a_condition_that_raises_pauses_too_and_tells(at: Any):
    """R5.27: its error is in the tick, in the breakpoint and in why()."""

    async def main() -> None:
        flow = Count()
        stop = flow.breakpoints.add(step="work", when="event.missing > 1", at=at)
        run = flow.run(run_id=f"raises-{at}", n=1)
        await rests(run)
        ((_, _, error),) = hits(run)
        assert error.startswith("AttributeError: ")
        assert "missing" in error
        assert f"whose condition failed: {error}" in run.why()
        assert f"its condition failed: {error} (run raises-{at})" in repr(stop)
        run.cont()
        await until(lambda: run.is_done() or len(hits(run)) > 1)
        assert await run == [0]
        assert len(hits(run)) == 1
        assert replays(run)

    driven(main)


def test_a_replay_asks_no_condition():
    """R5.27: conditions live in the process, never in a journal."""
    asked: list[int] = []

    def condition(moment: Any) -> bool:
        asked.append(moment.seq)
        return getattr(moment.tick, "step", "") == "join"

    async def main() -> None:
        flow = Count()
        flow.breakpoints.add(when=condition)
        run = flow.run(n=1)
        await rests(run)
        run.cont()
        await run
        times = len(asked)
        assert replays(run)
        assert len(asked) == times

    driven(main)


# -- the collection


def test_one_collection_for_all_runs_of_a_flow_also_for_those_that_run():
    """API §4: it lives on the workflow object; a breakpoint that comes later counts for a run that goes on."""

    async def main() -> None:
        flow, other = Count(), Count()
        run, free = flow.debug(n=1), other.run(n=1)
        assert run.debug.breakpoints is flow.breakpoints
        flow.breakpoints.add(step="join")
        run.cont()
        assert (await rests(run)).paused_by == ("breakpoint",)
        assert await free == [0]
        second = flow.run(n=1)
        await rests(second)
        for each in (run, second):
            each.cont()
            assert await each == [0]
        assert flow.breakpoints[0].hits == 2

    driven(main)


def test_disabled_and_removed_ones_stop_nothing():
    async def main() -> None:
        flow = Count()
        one, two = flow.breakpoints.add(step="join"), flow.breakpoints.add(error=True, event="Item", hit=2)
        assert [one, two] == list(flow.breakpoints)
        one.disable()
        assert (one.enabled, two.enabled) == (False, True)
        assert await flow.run(n=1) == [0]
        assert repr(flow.breakpoints) == (
            "<Breakpoints of Count:\n"
            "  <Breakpoint 1: before step join, disabled; hit 0 ×>\n"
            "  <Breakpoint 2: before event Item, an error, from hit 2 on; hit 0 ×>>"
        )
        one.enable()
        run = flow.run(n=1)
        await rests(run)
        one.remove()
        one.remove()
        run.cont()
        assert await run == [0]
        flow.breakpoints.disable()
        assert not two.enabled
        flow.breakpoints.enable()
        assert two.enabled
        flow.breakpoints.remove(two)
        assert len(flow.breakpoints) == 0
        assert repr(flow.breakpoints) == "<Breakpoints of Count: none>"
        assert await flow.run(n=1) == [0]

    driven(main)


def test_several_at_one_place_are_one_stop():
    """Each has its tick, and one cont() lets all of it go (R5.23)."""

    async def main() -> None:
        flow = Count()
        flow.breakpoints.add(step="join")
        flow.breakpoints.add(event=Done, when="event.no == 1")
        flow.breakpoints.add(step="join", at="start")
        run = flow.run(n=2)
        await rests(run)
        assert [number for number, _, _ in hits(run)] == [1, 2]
        run.cont()
        await until(lambda: len(hits(run)) == 3)
        run.cont()
        assert await run == [0, 1]
        opened = [tick.reason for tick in run.debug.ticks if isinstance(tick, GateOpened)]
        assert opened == ["breakpoint", "breakpoint"]
        assert replays(run)

    driven(main)


def test_a_breakpoint_and_a_person_are_two_reasons_and_one_cont_lifts_both():
    """R5.23, with a GateOpened for each."""

    async def main() -> None:
        flow = Count()
        flow.breakpoints.add(step="join")
        run = flow.run(n=1)
        await rests(run)
        await run.pause()
        assert run.now.paused_by == ("breakpoint", "person")
        run.cont()
        assert await run == [0]
        assert [t.reason for t in run.debug.ticks if isinstance(t, GateOpened)] == ["breakpoint", "person"]

    driven(main)


def test_a_step_passes_the_tick_that_a_breakpoint_stands_before():
    """R5.24: exactly one tick a step; several steps at once end at a breakpoint."""

    async def main() -> None:
        flow = Count()
        run = flow.debug(n=2)
        flow.breakpoints.add(step="join")
        await until(lambda: run.debug.inbox)
        moment = await run.debug.step(10)
        assert moment.paused_by == ("person", "breakpoint")
        assert run.debug.inbox[0].step == "work"
        moment = await run.debug.step()
        assert moment.running == {"join": ["2 × Done"]}
        assert len(hits(run)) == 1
        await run.debug.step()
        assert await run == [0, 1]
        assert replays(run)

    driven(main)


def test_a_breakpoint_never_takes_a_step_away():
    """R5.24: a person who steps looks at each tick himself, so none stands before the one that was asked for."""

    async def main() -> None:
        flow = Count()
        flow.breakpoints.add(event=Done)
        flow.breakpoints.add(event=Item)
        run = flow.debug(n=2)
        for step_name in ("split", "work", "work"):
            await until(lambda: run.debug.inbox)
            await run.debug.step()
            assert run.debug.ticks[-1].step == step_name
        assert hits(run) == []
        await run.debug.step()
        assert await run == [0, 1]

    driven(main)


@pytest.mark.parametrize("at", ["before", "start", "after"])
def test_a_turn_that_could_not_be_written_is_asked_again_and_hits_once(at: Any, monkeypatch: pytest.MonkeyPatch):
    """R1.16: the hits of a turn that did not happen did not happen either; its ticks are as they came."""

    class Stutters(CountingJournal):
        def append(self, entries: Any, *, durable: bool = False) -> None:
            self.turn = getattr(self, "turn", 0) + 1
            if self.turn % 2:
                raise OSError("locked")
            super().append(entries, durable=durable)

    monkeypatch.setattr("flownb.runtime.runner.BACKOFF_S", (0.001,))
    journal = Stutters()
    store = Store(":memory:")
    store._committer = Committer(journal, Codec(newest, "live"))

    async def main() -> None:
        flow = Count()
        stop = flow.breakpoints.add(step="work", at=at, hit=2)
        run = flow.with_options(store=store).run(n=3)
        stopped = {"before": 1, "start": 1, "after": 2}[at]
        for n in range(1, stopped + 1):
            await until(lambda n=n: len(hits(run)) == n)
            run.cont()
        assert await run == [0, 1, 2]
        assert stop.hits == len(hits(run)) == stopped
        assert journal.ticks(run.run_id) == list(run.debug.ticks)
        assert replays(run)

    driven(main)


def test_a_breakpoint_after_the_last_tick_stops_nothing():
    async def main() -> None:
        flow = Count()
        flow.breakpoints.add(step="join", at="after")
        run = flow.run(n=1)
        assert await run == [0]
        assert hits(run) == []

    driven(main)


def test_a_retry_is_held_before_it_starts_again():
    """R5.25, R3.24: what was held once is held again when it is started another time."""
    clock = ManualClock()
    flow = Workflow[int]("again")

    @flow.step(retry_policy=retry_policy(stop=stop_after_attempt(3), wait=wait_fixed(10)))
    async def flaky(ev: Begin, ctx: Context) -> StopEvent:
        if ctx.attempt < 3:
            raise ValueError
        return StopEvent(result=ctx.attempt)

    async def main() -> None:
        flow.breakpoints.add(step=flaky, at="start")
        run = flow.with_options(clock=clock).run()
        for attempt in (1, 2, 3):
            await until(lambda attempt=attempt: len(hits(run)) == attempt)
            run.cont()
            await until(lambda: run.is_done() or run.now.retrying)
            clock.advance(10)
        assert await run == 3
        assert replays(run)

    driven(main)


def test_what_a_breakpoint_needs():
    flow = Count()
    add = flow.breakpoints.add
    with pytest.raises(WorkflowConfigurationError, match="needs a step, an event, error=True, a state key or when="):
        add()
    with pytest.raises(WorkflowConfigurationError, match="at before, start, after, not at 'begin'"):
        add(step="join", at="begin")  # type: ignore[arg-type]
    with pytest.raises(WorkflowConfigurationError, match="hit counts from 1, got 0"):
        add(step="join", hit=0)
    with pytest.raises(WorkflowConfigurationError, match="make two breakpoints"):
        add(error=True, state="n")
    with pytest.raises(WorkflowConfigurationError, match="is no expression"):
        add(when="event.no =")
    with pytest.raises(WorkflowConfigurationError, match="a function of a Moment or an expression"):
        add(when=3)  # type: ignore[arg-type]
    with pytest.raises(WorkflowConfigurationError, match="the class of an event or its name, not 3"):
        add(event=3)
    with pytest.raises(WorkflowStepDoesNotExistError, match="Did you mean 'join'"):
        add(step="joins")
    assert len(flow.breakpoints) == 0


def test_plain_steps_stop_at_breakpoints_too():
    flow = Plain()
    flow.breakpoints.add(step="join", at="start")
    run = flow.run(n=8)
    assert run.cont().result(20).paused_by == ("breakpoint",)
    run.cont()
    assert run.result(20) == list(range(8))
    assert replays(run)


def test_a_breakpoint_that_is_set_while_others_hold_starts_stands_before_them_too():
    """R5.25: narrowed, or mended, it stops what is still held back; the one that held it lets it go."""
    run = Count().debug(n=3)
    first = run.debug.breakpoints.add(step="work", at="start")
    run.cont().result(20)
    wait_until(lambda: run._runner.state.side.held.n == 3)
    first.remove()
    second = run.debug.breakpoints.add(step="work", at="start", when="event.no == 1")
    run.cont().result(20)
    wait_until(lambda: second.hits == 1)
    assert [work.events[0].no for work in run.debug.inbox.work if work.where == "held"] == [1]
    run.cont()
    assert run.result(20) == [0, 1, 2]
    assert second.hits == 1
