"""`over`, `out` and `run_to`: the gate opens until a goal is reached."""

import asyncio
from typing import Any

import pytest

from flownb import Context, Event, StopEvent, Workflow, step
from flownb.core.ticks import ChildFinished, GateClosed, StepFailed, StepFinished
from flownb.errors import WorkflowConfigurationError
from flownb.retry_policy import retry_policy, stop_after_attempt, wait_fixed
from tests.polling import until
from tests.runtime.flows import Approve, Asks, Begin, Count, Done, Forever, Item


def finished(run: Any) -> list[str]:
    return [tick.step for tick in run.debug.ticks if isinstance(tick, StepFinished)]


class Sum(Event):
    n: int


class Item2(Event):
    no: int


class Chain(Workflow[int]):
    """A step, a fan-out that is gathered, a step."""

    @step
    async def first(self, ev: Begin) -> Sum:
        return Sum(n=ev.n)

    @step
    async def split(self, ev: Sum) -> list[Item]:
        return [Item(no=i) for i in range(ev.n)]

    @step(num_workers=2)
    async def work(self, ev: Item) -> Done:
        await asyncio.sleep(0.001 * ev.no)
        return Done(no=ev.no)

    @step
    async def join(self, ev: list[Done]) -> Item2:
        return Item2(no=len(ev))

    @step
    async def last(self, ev: Item2) -> StopEvent:
        return StopEvent(result=ev.no)


def test_over_runs_until_the_delivery_that_the_next_tick_starts_is_done():
    """R5.24, API §7: the next tick starts `split`; its result is in when it stops."""

    async def main() -> None:
        run = Chain().debug(n=3)
        await until(lambda: run.debug.inbox)
        moment = await run.debug.over()
        assert finished(run) == ["first", "split"]
        assert (moment.paused_by, moment.running) == (("breakpoint",), {"work": ["Item", "Item"]})
        assert isinstance(run.debug.ticks[-1], GateClosed)
        run.cont()
        assert await run == 3

    asyncio.run(main())


def test_over_covers_all_attempts_and_waits_of_the_delivery():
    """R5.24."""
    flow = Workflow[str]("tries")

    @flow.step
    async def first(ev: Begin) -> Item:
        return Item(no=1)

    @flow.step(retry_policy=retry_policy(stop=stop_after_attempt(3), wait=wait_fixed(0.001)))
    async def flaky(ev: Item, ctx: Context) -> Done:
        await ctx.sleep(0.001)
        ctx.state.set("n", ctx.attempt)
        if ctx.attempt < 3:
            raise ValueError
        return Done(no=1)

    @flow.step
    async def last(ev: Done) -> StopEvent:
        await asyncio.sleep(0.01)
        return StopEvent(result="well")

    async def main() -> None:
        run = flow.debug()
        await until(lambda: run.debug.inbox)
        await run.debug.over()
        assert sum(isinstance(tick, StepFailed) for tick in run.debug.ticks) == 2
        assert finished(run) == ["first", "flaky"]
        run.cont()
        assert await run == "well"

    asyncio.run(main())


def test_over_continues_the_delivery_that_the_next_tick_is_of():
    """R5.24: a write starts nothing; the delivery that wrote is gone over."""
    flow = Workflow[int]("writes")

    @flow.step
    async def first(ev: Begin, ctx: Context) -> Item:
        ctx.state.set("n", 1)
        await asyncio.sleep(0.01)
        return Item(no=1)

    @flow.step
    async def last(ev: Item) -> StopEvent:
        await asyncio.sleep(0.01)
        return StopEvent(result=1)

    async def main() -> None:
        run = flow.debug()
        await until(lambda: run.debug.inbox)
        moment = await run.debug.over()
        assert finished(run) == ["first"]
        assert moment.state == {"n": 1}
        run.cont()
        await run

    asyncio.run(main())


def test_over_of_a_tick_that_moves_nothing_is_one_tick():
    """R5.24: of three results that are gathered the first two start nothing."""

    async def main() -> None:
        run = Count().debug(n=3)
        await until(lambda: run.debug.inbox)
        await run.debug.step()
        await until(lambda: len(run.debug.inbox) == 3)
        await run.debug.over()
        assert finished(run) == ["split", "work"]
        run.cont()
        await run

    asyncio.run(main())


def test_over_of_a_start_that_a_breakpoint_holds_goes_over_that_step():
    """R5.24, R5.25."""

    async def main() -> None:
        flow = Chain()
        flow.breakpoints.add(step="split", at="start")
        run = flow.run(n=3)
        await until(lambda: run.now.paused_by and not run._runner.control)
        await run.debug.over()
        assert finished(run) == ["first", "split"]
        run.cont()
        await run

    asyncio.run(main())


@pytest.mark.parametrize("steps", [2, 4], ids=["at its begin", "in the midst of it"])
def test_out_runs_until_the_fan_out_around_it_is_gathered(steps: int):
    """R5.24."""

    async def main() -> None:
        run = Chain().debug(n=4)
        await until(lambda: run.debug.inbox)
        for _ in range(steps - 1):
            await run.debug.step()
            await until(lambda: run.debug.inbox)
        moment = await run.debug.out()
        assert finished(run) == ["first", "split", *["work"] * 4]
        assert moment.running == {"join": ["4 × Done"]}
        assert moment.paused_by == ("person", "breakpoint") or moment.paused_by == ("breakpoint",)
        run.cont()
        assert await run == 4

    asyncio.run(main())


def test_out_of_a_fan_out_in_a_fan_out_leaves_the_inner_one_first():
    """R5.24."""

    class Branch(Event):
        no: int

    flow = Workflow[int]("nested")

    @flow.step
    async def outer(ev: Begin) -> list[Branch]:
        return [Branch(no=0), Branch(no=1)]

    @flow.step
    async def inner(ev: Branch) -> list[Item]:
        return [Item(no=i) for i in range(2)]

    @flow.step
    async def work(ev: Item) -> Done:
        return Done(no=ev.no)

    @flow.step
    async def gather(ev: list[Done]) -> Sum:
        return Sum(n=len(ev))

    @flow.step
    async def total(ev: list[Sum]) -> StopEvent:
        return StopEvent(result=sum(each.n for each in ev))

    async def main() -> None:
        run = flow.debug()
        await run.debug.run_to(step=inner)
        await until(lambda: run.debug.inbox)
        assert run.debug.inbox[0].step == "inner"  # its result begins the inner fan-out
        moment = await run.debug.out()
        assert moment.running["gather"] == ["2 × Done"]
        assert "total" not in moment.running
        await until(lambda: any(tick.step == "gather" for tick in run.debug.inbox))
        while run.debug.inbox[0].step != "gather":
            await run.debug.step()
            await until(lambda: run.debug.inbox)
        moment = await run.debug.out()
        assert moment.running == {"total": ["2 × Sum"]}
        run.cont()
        assert await run == 4

    asyncio.run(main())


def test_out_of_what_nothing_is_around_runs_to_the_end():
    """R5.24."""

    async def main() -> None:
        run = Chain().debug(n=1)
        await until(lambda: run.debug.inbox)
        moment = await run.debug.out()
        assert (moment.status, moment.seq) == ("completed", run.now.seq)

    asyncio.run(main())


class Inner(Workflow[int]):
    @step
    async def one(self, ev: Begin) -> Item:
        return Item(no=ev.n)

    @step
    async def two(self, ev: Item) -> StopEvent:
        return StopEvent(result=ev.no)


class Outer(Workflow[int]):
    @step(runs=Inner)
    async def runs(self, ev: Begin, ctx: Context) -> Item:
        return Item(no=await ctx.run(Inner(), n=7))

    @step
    async def last(self, ev: Item) -> StopEvent:
        return StopEvent(result=ev.no)


def test_out_of_a_child_run_stops_its_parent_where_it_knows():
    """R5.24, R6.24: the sub-workflow around it is done."""

    async def main() -> None:
        run = Outer().debug()
        await until(lambda: run.debug.inbox)
        await run.debug.step()
        await until(lambda: run.children)
        (child,) = run.children.values()
        await until(lambda: child.now.running and child.debug.inbox)
        assert child.now.paused_by == ("parent",)
        await child.debug.step()  # under a closed parent too
        moment = await child.debug.out()
        assert moment.status == "completed"
        assert isinstance(run.debug.ticks[-2], ChildFinished)
        assert run.now.paused_by == ("breakpoint",)
        run.cont()
        assert await run == 7

    asyncio.run(main())


def test_a_goal_is_given_up_where_something_else_closes_the_gate():
    """R5.24: a breakpoint on the way is a stop; what was to be run to does not stop it later."""

    async def main() -> None:
        flow = Chain()
        flow.breakpoints.add(step="split")
        run = flow.debug(n=2)
        moment = await run.debug.run_to(step="last")
        assert moment.paused_by == ("breakpoint",)
        assert finished(run) == []
        run.cont()
        assert await run == 2

    asyncio.run(main())


def test_run_to_an_expression_in_the_names_of_the_caller():
    """API §7: `when=` strings see event, state and tick."""

    async def main() -> None:
        wanted = 2
        run = Count().debug(n=wanted + 1)
        moment = await run.debug.run_to(when="getattr(event, 'no', None) == wanted and tick.step == 'work'")
        assert run.debug.ticks[moment.seq - 2].outs[0].value == Done(no=wanted)
        moment = await run.debug.run_to(when="tick is not None and not state")
        assert moment.seq == run.now.seq
        run.cont()
        await run
        with pytest.raises(WorkflowConfigurationError, match="is no expression"):
            run.debug.run_to(when="event.no ==")

    asyncio.run(main())


def test_run_to_what_is_so_already_stays_there():
    """API §7: a tick that has passed, a question that is open."""

    async def main() -> None:
        run = Asks().debug()
        moment = await run.debug.run_to(request=True)
        again = await run.debug.run_to(request=True)
        assert again.seq == run.now.seq > moment.seq
        seq = run.now.seq
        assert len(run.requests) == 1
        assert (await run.debug.run_to(tick=2)).seq == seq + 1  # the pause's own tick
        run.answer(ok=True)
        run.cont()
        await run

    asyncio.run(main())


def test_a_goal_stays_while_somebody_is_asked():
    """API §0: the opening example: run to the step that takes the answer, and answer on the way."""
    flow = Workflow[bool]("asks first")

    @flow.step
    async def ask(ev: Begin, ctx: Context) -> Item:
        return Item(no=int((await ctx.ask(Approve())).ok))

    @flow.step
    async def note(ev: Item) -> StopEvent:
        return StopEvent(result=bool(ev.no))

    async def main() -> None:
        run = flow.debug()
        moment = await run.debug.run_to(step=note)
        assert moment.status == "waiting"
        run.answer(ok=True)
        await until(lambda: run.now.paused_by and not run._runner.control)
        assert run.now.running == {"note": ["Item"]}
        run.cont()
        assert await run is True

    asyncio.run(main())


def test_goals_end_with_the_run():
    async def main() -> None:
        run = Forever().run()
        waits = [run.debug.run_to(event="Verdict"), run.debug.over(), run.debug.out()]
        await until(lambda: len(run._runner.stops) == 3)
        run.cancel()
        for handle in waits:
            assert (await handle).status == "cancelled"
        assert run._runner.stops == []
        assert (await run.debug.over()).status == (await run.debug.out()).status == "cancelled"

    asyncio.run(main())
