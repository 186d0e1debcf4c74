"""`run.debug`: one tick at a time, and every past state."""

import asyncio
import time
from typing import Any

import pytest

from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Workflow
from flownb.core.invariants import broken
from flownb.core.ticks import CONTROL, StepFinished
from flownb.errors import WorkflowConfigurationError, WorkflowStepDoesNotExistError
from flownb.moment import Moment
from tests.polling import until, wait_until
from tests.runtime.flows import Asks, Begin, Count, Done, Forever, Item, Plain


def work_ticks(run: Any) -> list[str]:
    """What happened, without what the debugger itself wrote."""
    return [type(tick).__name__ for tick in run.debug.ticks if not isinstance(tick, CONTROL)]


@pytest.mark.parametrize("flow", [Count(), Plain()])
def test_stepping_to_the_end_is_a_free_run_tick_by_tick(flow: Workflow[list[int]]):
    """C061: each press admits exactly one tick, none blocks, result and order are those of the free run."""
    free = flow.run(n=2)
    free.result(20)
    run = flow.debug(n=2)
    presses = 0
    while not run.is_done():
        before = len(work_ticks(run))
        wait_until(lambda: run.debug.inbox)
        moment = run.debug.step().result(20)
        presses += 1
        assert len(work_ticks(run)) == before + 1
        assert moment.seq == run.now.seq
        assert presses < 50
    assert run.result(20) == free.result() == [0, 1]
    assert work_ticks(run) == work_ticks(free)


@pytest.mark.parametrize("way", ["step", "run_to", "when", "cont"])
def test_who_is_told_of_the_last_tick_finds_the_run_over(way: str):
    """API §7: a loop that steps `while not run.is_done()` asks for no tick that never comes."""

    async def main() -> None:
        run = Count().debug(n=1)
        while not any(isinstance(tick, StepFinished) and tick.step == "join" for tick in run.debug.inbox):
            await run.debug.step()
            await until(lambda: run.debug.inbox)
        found: list[bool] = []
        if way == "step":
            handle = run.debug.step()
        elif way == "run_to":
            handle = run.debug.run_to(tick=run.now.seq + 2)  # the gate opens, then it
        elif way == "when":
            handle = run.debug.run_to(when=lambda moment: moment.status == "completed")
        else:
            handle = run.cont()
        handle.on_end(lambda: found.append(run.is_done()))
        await handle
        assert found == [True]
        assert await run == [0]

    asyncio.run(main())


def test_step_closes_an_open_gate_first():
    """R5.24, API §7."""

    async def main() -> None:
        run = Count().run(n=50)
        moment = await run.debug.step()
        assert moment.paused_by == ("person",)
        seq = run.now.seq
        await asyncio.sleep(0.02)
        assert run.now.seq == seq
        run.cont()
        assert await run == list(range(50))

    asyncio.run(main())


def test_step_n_admits_n():
    async def main() -> None:
        run = Count().debug(n=4)
        moment = await run.debug.step(3)
        assert len(work_ticks(run)) == 3
        assert moment.paused_by == ("person",)
        with pytest.raises(ValueError, match="at least one tick, got 0"):
            run.debug.step(0)
        run.cont()
        assert await run == [0, 1, 2, 3]

    asyncio.run(main())


def test_a_step_whose_tick_does_not_come_tells_who_runs():
    """API §7: at most a second; the grant stays."""

    async def main() -> None:
        go = asyncio.Event()
        flow = Workflow[str]("slow")

        @flow.step
        async def wait(ev: Begin) -> StopEvent:
            await go.wait()
            return StopEvent(result="came")

        run = flow.debug()
        begun = time.monotonic()
        moment = await run.debug.step()
        assert 0.9 < time.monotonic() - begun < 5
        assert moment.running == {"wait": ["Begin"]}
        go.set()
        assert await run == "came"

    asyncio.run(main())


def test_stepping_an_ended_run_gives_its_last_moment():
    run = Count().run()
    run.result(20)
    assert run.debug.step().result(20).seq == run.now.seq
    assert run.debug.run_to(step="join").result(20).seq == run.now.seq


@pytest.mark.parametrize("where", ["join", Count.join], ids=["name", "function"])
def test_run_to_a_step_stops_when_it_was_started(where: Any):
    """API §0.5: by object or by name."""

    async def main() -> None:
        run = Count().debug(n=3)
        moment = await run.debug.run_to(step=where)
        assert moment.running == {"join": ["3 × Done"]}
        assert moment.paused_by == ("breakpoint",)
        run.cont()
        assert await run == [0, 1, 2]

    asyncio.run(main())


@pytest.mark.parametrize("where", ["Done", Done, f"{Done.__module__}:Done"], ids=["name", "class", "key"])
def test_run_to_an_event_stops_when_it_was_routed(where: Any):
    async def main() -> None:
        run = Count().debug(n=3)
        moment = await run.debug.run_to(event=where)
        assert moment.paused_by == ("breakpoint",)
        assert run.debug.ticks[moment.seq - 2].outs[0].value == Done(no=0)  # the one before the gate's own
        run.cont()
        assert await run == [0, 1, 2]

    asyncio.run(main())


def test_run_to_a_tick_a_condition_and_a_request():
    async def main() -> None:
        run = Count().debug(n=3)
        assert (await run.debug.run_to(tick=4)).seq >= 4
        moment = await run.debug.run_to(when=lambda m: len(m.running.get("work", ())) == 1)
        assert moment.running == {"work": ["Item"]}
        run.cont()
        await run

        run = Asks().debug()
        moment = await run.debug.run_to(request=True)
        assert [(number, step) for number, step, _ in moment.requests] == [(1, "ask")]
        run.answer(ok=True)
        run.cont()
        assert await run is True

    asyncio.run(main())


def test_run_to_something_that_never_comes_ends_with_the_run():
    async def main() -> None:
        run = Count().debug()
        moment = await run.debug.run_to(event="Verdict")
        assert moment.status == "completed"

    asyncio.run(main())


def test_a_condition_that_raises_stops_there_and_tells():
    """The user's function, in the middle of a turn: nothing is lost by it."""

    async def main() -> None:
        run = Count().debug(n=3)
        with pytest.raises(ZeroDivisionError):
            await run.debug.run_to(when=lambda moment: 1 / 0)
        assert run.status == "paused"
        run.cont()
        assert await run == [0, 1, 2]

    asyncio.run(main())


def test_run_to_takes_exactly_one_goal():
    run = Forever().run()
    with pytest.raises(WorkflowConfigurationError, match=r"run_to takes one of .* got none"):
        run.debug.run_to()
    with pytest.raises(WorkflowConfigurationError, match="got \\['step', 'request'\\]"):
        run.debug.run_to(step="hang", request=True)
    with pytest.raises(WorkflowStepDoesNotExistError, match="Did you mean 'hang'"):
        run.debug.run_to(step="hung")
    run.cancel().result(20)


def test_every_past_moment_can_be_looked_at():
    """Back is a view, never an undo; each past state keeps the invariants."""
    run = Plain().run(n=4)
    run.result(20)
    last = len(run.debug.ticks)
    for seq in range(1, last + 1):
        moment = run.debug.at(seq)
        assert (moment.seq, moment.tick) == (seq, run.debug.ticks[seq - 1])
        assert not broken(moment._state)
    assert run.debug.at(1).running == {"split": ["Begin"]}
    assert run.debug.at(2).running == {"work": ["Item"] * 4}
    assert run.debug.at(last).status == "completed"
    with pytest.raises(IndexError, match=f"ticks 1 to {last}, not {last + 1}"):
        run.debug.at(last + 1)
    with pytest.raises(IndexError):
        run.debug.at(0)


def test_diff_of_the_users_state():
    flow = Workflow[None]("diff")

    from flownb import Context

    @flow.step
    async def one(ev: Begin, ctx: Context) -> Item:
        ctx.state.set("n", 1)
        return Item(no=1)

    @flow.step
    async def two(ev: Item, ctx: Context) -> StopEvent:
        async with ctx.state.edit() as state:
            state["n"] = 2
            state["m"] = 3
        return StopEvent()

    run = flow.run()
    run.result(20)
    assert run.debug.at(2).diff() == {"n": (None, 1)}
    assert run.debug.diff(1, len(run.debug.ticks)) == {"n": (None, 2), "m": (None, 3)}
    assert run.debug.diff(2, 3) == {}
    assert run.now.diff(run.debug.at(2)) == {"n": (1, 2), "m": (None, 3)}


class Verdict(HumanResponseEvent):
    ok: bool


class Approve(InputRequiredEvent[Verdict]):
    pass


class Row(Event):
    no: int


def test_a_moment_shows_queued_running_and_waiting():
    flow = Workflow[None]("shows")

    from flownb import Context

    @flow.step
    async def split(ev: Begin) -> list[Row]:
        return [Row(no=i) for i in range(3)]

    @flow.step(num_workers=1)
    async def work(ev: Row) -> Done:
        await asyncio.Event().wait()
        return Done(no=1)

    @flow.step
    async def ask(ev: Begin, ctx: Context) -> None:
        await ctx.ask(Approve())

    @flow.step
    async def total(ev: list[Done]) -> StopEvent:
        return StopEvent()

    async def main() -> None:
        run = flow.run()
        await until(lambda: run.now.waiting and run.now.queued)
        moment = run.now
        assert isinstance(moment, Moment)
        assert moment.queued == {"work": ["Row", "Row"]}
        assert moment.running == {"work": ["Row"]}
        assert moment.waiting == {"ask": ["Begin: asks Approve"]}
        assert repr(moment) == f"<Moment {moment.seq}: {moment.told}; running, running work 1>"
        for word in (
            "Running: work (Row).",
            "Queued: work (Row, Row).",
            "Waiting: ask (Begin) asks Approve.",
            "ask asks Approve",
        ):
            assert word in run.why()
        await run.cancel()

    asyncio.run(main())


def test_the_inbox_is_shown_next_first():
    async def main() -> None:
        run = Count().debug(n=2)
        await run.debug.step()
        await until(lambda: len(run.debug.inbox) == 2)
        assert [(t.step, t.outs[0].value.no) for t in run.debug.inbox] == [("work", 0), ("work", 1)]
        assert run.now.inbox == run.debug.inbox
        assert run.debug.at(1).inbox == ()
        run.cont()
        await run

    asyncio.run(main())


class Plus(StartEvent):
    pass


def test_repr_names_what_there_is():
    run = Count().run(run_id="repr-of-debugger")
    run.result(20)
    assert repr(run.debug).startswith("<Debugger of <Run repr-of-debugger of Count:")


def test_impatient_steps_while_one_runs_admit_one_tick():
    """Three clicks while a step works are three wishes for the same tick, not for two more that nobody sees pass."""

    async def main() -> None:
        go = asyncio.Event()
        flow = Workflow[int]("slow")

        @flow.step
        async def first(ev: Begin) -> Item:
            await go.wait()
            return Item(no=1)

        @flow.step
        async def last(ev: Item) -> StopEvent:
            return StopEvent(result=2)

        run = flow.debug(n=1)
        await until(lambda: run.now.running)
        handles = [run.debug.step() for _ in range(3)]
        seq = run.now.seq
        go.set()
        moments = [await handle for handle in handles]
        await until(lambda: run.debug.inbox)
        assert [type(tick).__name__ for tick in run.debug.ticks[seq:]].count("StepFinished") == 1
        assert {moment.seq for moment in moments} == {run.now.seq}
        assert not run.is_done()
        run.cont()
        assert await run == 2

    asyncio.run(main())


def test_a_step_of_several_adds_only_what_is_missing():
    async def main() -> None:
        run = Forever().debug()
        await until(lambda: run.now.running)
        for n in (1, 3, 2):
            run.debug.step(n)
            await asyncio.sleep(0)
        await until(lambda: not run._runner.control)
        assert run._runner.state.budget == 3
        run.pause()  # a gate that is closed already takes the grant back
        await until(lambda: run._runner.state.budget == 0)
        await run.cancel()

    asyncio.run(main())


def test_running_to_what_does_not_come_ends_where_the_run_waits():
    """A question stands in the way: the handle tells, instead of waiting for the person too."""
    flow = Workflow("asks")

    @flow.step
    async def ask(ev: StartEvent, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.ask("Who?"))

    run = flow.debug()
    wait_until(lambda: len(run.debug.ticks) == 1)  # the step is started, and will not be again
    moment = run.debug.run_to(step=ask).result(20)
    assert (moment.status, [r[0] for r in moment.requests]) == ("waiting", [1])
    assert run.debug.run_to(request=True).result(20).status == "paused"
    run.answer(None, "ann")
    run.cont()
    assert run.result(20) == "ann"
