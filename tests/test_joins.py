"""Fan-out and fan-in by type: what a `list[...]` step gets and when; sets; branches that fail."""

import asyncio
from typing import Annotated, Any

import pytest

from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Take, Workflow
from flownb.errors import JoinIncomplete
from flownb.events import StepFailedEvent, UnhandledEvent
from flownb.retry_policy import retry_policy, stop_after_attempt, wait_fixed
from flownb.testing import ManualClock
from tests.polling import until, wait_until
from tests.restarting import restart


class Begin(StartEvent):
    n: int = 3


class Item(Event):
    no: int


class Inner(Event):
    no: int


class Done(Event):
    no: int
    said: Any = None


class Total(Event):
    nos: list[int]


class Other(Event):
    no: int = 0


class Left(Event):
    no: int


class Right(Event):
    no: int


class Verdict(HumanResponseEvent):
    ok: bool


class Approve(InputRequiredEvent[Verdict]):
    no: int = 0


def fan(work: Any, hint: Any = list[Done], **options: Any) -> Workflow[Any]:
    """n items, a step for each, and a join that gives what it got."""
    flow = Workflow[Any]("fan")

    @flow.step
    async def split(ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(ev.n)]

    flow.step(**options)(work)

    async def total(ev: Any) -> StopEvent:
        return StopEvent(result=[getattr(d, "no", d) for d in ev])

    total.__annotations__["ev"] = hint
    flow.step(total)
    return flow


# -- what a join gets


def test_a_join_gets_all_results_once_in_the_order_of_the_branches():
    """R4.8, R4.9: by branch, then by order of sending inside it, whatever was done first."""
    gates = [asyncio.Event() for _ in range(3)]

    async def work(ev: Item, ctx: Context) -> Done:
        await gates[ev.no].wait()
        ctx.send_event(Done(no=ev.no * 10 + 1))
        ctx.send_event(Done(no=ev.no * 10 + 2))
        return Done(no=ev.no * 10 + 3)

    async def main() -> Any:
        run = fan(work).run()
        for done, i in enumerate((2, 1, 0)):
            gates[i].set()
            await until(lambda: run._runner.state.steps[1].done == done + 1)  # noqa: B023 - used at once
        return await run

    assert asyncio.run(main()) == [1, 2, 3, 11, 12, 13, 21, 22, 23]


def test_everything_that_an_element_causes_is_of_its_branch():
    """R4.10: chains, sends and broadcasts."""
    flow = Workflow[Any]("branch")

    @flow.step
    async def split(ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(3)]

    @flow.step
    async def first(ev: Item, ctx: Context) -> Inner | Other:
        ctx.send_event(Other(no=ev.no))
        return Inner(no=ev.no)

    @flow.step
    async def second(ev: Inner) -> Done:
        await asyncio.sleep(0.01 * (3 - ev.no))
        return Done(no=ev.no)

    @flow.step
    async def third(ev: Inner | Other) -> Done:
        return Done(no=100 + ev.no)

    @flow.step
    async def total(ev: list[Done]) -> StopEvent:
        by_branch = [sorted(d.no for d in ev if d.no % 100 == i) for i in range(3)]
        return StopEvent(result=(by_branch, [d.no % 100 for d in ev]))

    by_branch, order = flow.run().result(20)
    assert by_branch == [[i, 100 + i, 100 + i] for i in range(3)]
    assert order == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_every_join_that_a_fan_out_reaches_fires_once():
    """R4.11: with `[]` if none of its type came."""
    flow = Workflow[Any]("two joins")
    fired: list[tuple[str, list[int]]] = []

    @flow.step
    async def split(ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(ev.n)]

    @flow.step
    async def work(ev: Item) -> Left | Right:
        return Left(no=ev.no) if ev.no % 2 == 0 else Right(no=ev.no)

    @flow.step
    async def lefts(ev: list[Left]) -> Done:
        fired.append(("left", [e.no for e in ev]))
        return Done(no=len(ev))

    @flow.step
    async def rights(ev: list[Right]) -> Done:
        fired.append(("right", [e.no for e in ev]))
        return Done(no=len(ev))

    @flow.step(num_workers=1)
    async def end(ev: Done, ctx: Context) -> StopEvent | None:
        found = ctx.collect_events(ev, [Done, Done])
        return None if found is None else StopEvent(result=sorted(fired))

    assert flow.run(n=4).result(20) == [("left", [0, 2]), ("right", [1, 3])]
    fired.clear()
    assert flow.run(n=1).result(20) == [("left", [0]), ("right", [])]
    fired.clear()
    assert flow.run(n=0).result(20) == [("left", []), ("right", [])]


def test_a_join_fires_once_also_when_the_run_is_restarted_before():
    """R4.8, R4.12: done branches stay, the open one goes on."""
    calls: list[int] = []

    async def work(ev: Item, ctx: Context) -> Done:
        calls.append(ev.no)
        if ev.no == 1:
            await ctx.ask(Approve())
        return Done(no=ev.no)

    run = fan(work).run()
    wait_until(lambda: run.status == "waiting")
    restart(run)
    run.answer(ok=True)
    assert run.result(20) == [0, 1, 2]
    assert sorted(calls) == [0, 1, 1, 2]


def test_nested_fan_outs_join_innermost_first():
    """R4.12, R4.11: the outer join waits until the inner ones have fired."""
    flow = Workflow[Any]("nested")
    order: list[str] = []

    @flow.step
    async def split(ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(3)]

    @flow.step
    async def again(ev: Item) -> list[Inner]:
        return [Inner(no=ev.no * 10 + i) for i in range(ev.no)]

    @flow.step
    async def work(ev: Inner, ctx: Context) -> Done:
        await ctx.sleep(0.01)
        return Done(no=ev.no)

    @flow.step
    async def inner(ev: list[Done]) -> Total:
        order.append(f"inner {len(ev)}")
        return Total(nos=[d.no for d in ev])

    @flow.step
    async def outer(ev: list[Total]) -> StopEvent:
        order.append("outer")
        return StopEvent(result=[t.nos for t in ev])

    assert flow.run().result(20) == [[], [10], [20, 21]]
    assert sorted(order[:-1]) == ["inner 0", "inner 1", "inner 2"]
    assert order[-1] == "outer"


@pytest.mark.filterwarnings("ignore:.*which no step takes")
def test_branches_that_drop_out_are_not_waited_for():
    """R4.13: returned `None`, was unhandled (and published), collected, taken by a waiter elsewhere."""
    flow = Workflow[Any]("drops", skip_graph_checks=["unconsumed"])

    @flow.step
    async def split(ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(5)]

    @flow.step
    async def work(ev: Item, ctx: Context) -> Done | Other | Left | Right | None:
        await ctx.sleep(0.02)  # until somebody waits
        return {0: Done(no=0), 1: None, 2: Other(), 3: Left(no=3), 4: Right(no=4)}[ev.no]

    @flow.step
    async def collect(ev: Left, ctx: Context) -> Done | None:
        return Done(no=9) if ctx.collect_events(ev, [Left, Left]) else None

    @flow.step
    async def waits(ev: Begin, ctx: Context) -> None:
        await ctx.wait_for_event(Right)

    @flow.step
    async def total(ev: list[Done], ctx: Context) -> StopEvent:
        return StopEvent(result=[d.no for d in ev])

    async def main() -> Any:
        run = flow.run()
        result = await run
        return result, [e.event_type async for e in run.stream_events() if isinstance(e, UnhandledEvent)]

    assert asyncio.run(main()) == ([0], ["Other"])


@pytest.mark.parametrize("how", ["retrying", "sleeping", "asking", "returned question"])
def test_a_branch_that_is_not_finished_is_waited_for(how: str):
    """R4.14: an open returned request keeps its branch open, its answer goes on in it."""
    clock = ManualClock()
    flow = Workflow[Any]("open")

    @flow.step
    async def split(ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(2)]

    @flow.step(retry_policy=retry_policy(stop=stop_after_attempt(2), wait=wait_fixed(60)))
    async def work(ev: Item, ctx: Context) -> Done | Approve:
        if ev.no == 0:
            if how == "retrying" and ctx.attempt == 1:
                raise ValueError("once")
            if how == "sleeping":
                await ctx.sleep(60)
            if how == "asking":
                await ctx.ask(Approve(no=0))
            if how == "returned question":
                return Approve(no=0)
        return Done(no=ev.no)

    @flow.step
    async def note(ev: Verdict, ctx: Context) -> Done:
        return Done(no=ctx.request(Approve).question.no)

    @flow.step
    async def total(ev: list[Done]) -> StopEvent:
        return StopEvent(result=[d.no for d in ev])

    run = flow.with_options(clock=clock).run()
    if how in ("retrying", "sleeping"):
        wait_until(lambda: clock.next_due() == clock.now() + 60)
        assert not run.is_done()
        clock.advance(60)
    else:
        wait_until(lambda: run.status == "waiting")
        run.answer(ok=True)
    assert run.result(20) == [0, 1]


@pytest.mark.filterwarnings("ignore:.*which no step takes")
def test_sending_in_a_loop_is_no_fan_out():
    """R4.15: outside of one, an event for a join is unhandled."""
    flow = Workflow[Any]("loop")

    @flow.step
    async def begin(ev: Begin, ctx: Context) -> list[Item]:
        ctx.send_event(Done(no=7))
        return [Item(no=1)]

    @flow.step
    async def work(ev: Item, ctx: Context) -> Done:
        return Done(no=ev.no)

    @flow.step
    async def total(ev: list[Done]) -> StopEvent:
        return StopEvent(result=[d.no for d in ev])

    async def main() -> Any:
        run = flow.run()
        result = await run
        return result, [e.event_type async for e in run.stream_events() if isinstance(e, UnhandledEvent)]

    assert asyncio.run(main()) == ([1], ["Done"])


# -- take


def test_take_fires_at_the_nth_arrival_in_the_order_of_branches_and_the_rest_goes_on():
    """R4.16, R4.17: later results are counted as not taken."""
    gates = [asyncio.Event() for _ in range(4)]
    finished: list[int] = []
    flow = Workflow[Any]("take")

    @flow.step
    async def split(ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(4)]

    @flow.step(num_workers=None)
    async def work(ev: Item) -> Done:
        await gates[ev.no].wait()
        finished.append(ev.no)
        return Done(no=ev.no)

    @flow.step
    async def total(ev: Annotated[list[Done], Take(2)]) -> Total:
        return Total(nos=[d.no for d in ev])

    @flow.step
    async def end(ev: Total, ctx: Context) -> StopEvent:
        await ctx.wait_for_event(Other)
        return StopEvent(result=ev.nos)

    async def main() -> Any:
        run = flow.run()
        for i in (3, 1):
            gates[i].set()
            await until(lambda: i in finished)  # noqa: B023 - used at once
        await until(lambda: run._runner.state.side.waiters.n)
        for i in (0, 2):
            gates[i].set()
        await until(lambda: run._runner.state.counts.untaken == 2)
        run.send_event(Other())
        return await run

    assert asyncio.run(main()) == [1, 3]
    assert sorted(finished) == [0, 1, 2, 3]


def test_take_more_than_there_are_fires_at_the_close():
    """R4.16: fewer than n, with those."""

    async def work(ev: Item) -> Done | None:
        return Done(no=ev.no) if ev.no else None

    assert fan(work, Annotated[list[Done], Take(5)]).run().result(20) == [1, 2]


def test_take_may_cancel_the_rest_with_its_timers_and_questions():
    """R4.18."""
    ended: list[str] = []
    clock = ManualClock()

    async def work(ev: Item, ctx: Context) -> Done:
        try:
            if ev.no == 0:
                await ctx.sleep(1000)
            elif ev.no == 1:
                await ctx.ask(Approve(), timeout=500)
            elif ev.no == 2:
                await asyncio.sleep(60)
            else:
                await ctx.sleep(1)
        except BaseException as error:
            ended.append(type(error).__name__)
            raise
        return Done(no=ev.no)

    run = fan(work, Annotated[list[Done], Take(1, cancel_rest=True)]).with_options(clock=clock).run(n=4)
    wait_until(lambda: len(run.requests) == 1 and clock.next_due() == clock.now() + 1)
    request = run.requests[0]
    clock.advance(1)
    assert run.result(20) == [3]
    wait_until(lambda: len(ended) == 3)
    assert request.status == "withdrawn"
    moment = run.debug.at(len(run.debug.ticks) - 1)
    assert len(moment.waiting) == 0
    assert clock.next_due() is None


# -- branches that fail


def failing(hint: Any = list[Done]) -> Any:
    async def work(ev: Item) -> Done:
        if ev.no == 1:
            raise ValueError("no one")
        return Done(no=ev.no)

    return fan(work, hint, on_error="continue")


def test_what_the_catching_step_returns_takes_the_place_of_a_failed_branch():
    """R4.19, R3.36, R3.37: in its branch's place, by either spelling."""
    flow = failing()

    @flow.catch_error(for_steps=["work"])
    async def mend(ev: StepFailedEvent) -> Done:
        return Done(no=-ev.input_event.no)

    assert flow.run().result(20) == [0, -1, 2]

    flow = failing()

    @flow.step
    async def takes(ev: StepFailedEvent) -> Done:
        return Done(no=-ev.input_event.no)

    assert flow.run().result(20) == [0, -1, 2]


def test_a_join_that_names_failures_gets_them_in_their_place():
    """R4.20."""
    flow = failing(list[Done | StepFailedEvent])
    first, failed, last = flow.run().result(20)
    assert (first, last) == (0, 2)
    assert (failed.step_name, failed.input_event, str(failed.exception), failed.attempts) == (
        "work",
        Item(no=1),
        "no one",
        1,
    )


def test_a_branch_whose_failure_nobody_takes_fails_the_run_at_once_naming_it():
    """R4.21, R4.22, R3.40: with the step's error as the cause."""
    flow = Workflow[Any]("hole", disable_validation=True)

    @flow.step
    async def split(ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(3)]

    @flow.step(on_error="continue")
    async def work(ev: Item, ctx: Context) -> Done:
        if ev.no == 1:
            raise ValueError("no one")
        await ctx.sleep(3600)
        return Done(no=ev.no)

    @flow.step
    async def total(ev: list[Done]) -> StopEvent:
        return StopEvent(result=len(ev))

    run = flow.run()
    with pytest.raises(JoinIncomplete, match=r"Element 1 .* step 'split' returned failed in step 'work'") as caught:
        run.result(20)
    assert isinstance(caught.value.__cause__, ValueError)
    assert "total would miss it" in str(caught.value)
    assert run.status == "failed"


def test_a_branch_that_fails_by_default_fails_the_run_with_its_own_error():
    """R4.22, R3.35: never a hang, never a silent hole."""

    async def work(ev: Item) -> Done:
        if ev.no == 1:
            raise ValueError("no one")
        await asyncio.sleep(60)
        return Done(no=ev.no)

    run = fan(work).run()
    with pytest.raises(ValueError, match="no one") as caught:
        run.result(20)
    assert any("In step 'work'" in note for note in caught.value.__notes__)


# -- sets


def test_a_step_with_several_parameters_fires_once_per_set_first_in_first_out():
    """R4.77."""
    flow = Workflow[Any]("sets")

    @flow.step
    async def begin(ev: Begin, ctx: Context) -> Left | Right | None:
        for event in (Left(no=1), Left(no=2), Right(no=10), Right(no=20), Left(no=3)):
            ctx.send_event(event)
        return None

    @flow.step(num_workers=1)
    async def pair(left: Left, right: Right, ctx: Context) -> StopEvent | None:
        async with ctx.state.edit() as state:
            state["pairs"] = [*state.get("pairs", []), (left.no, right.no)]
        return StopEvent(result=state["pairs"]) if len(state["pairs"]) == 2 else None

    run = flow.run()
    assert run.result(20) == [(1, 10), (2, 20)]


def test_a_set_is_paired_inside_one_branch():
    """R4.78: whatever comes first of another branch."""
    gates = [asyncio.Event() for _ in range(2)]
    flow = Workflow[Any]("inside")

    @flow.step
    async def split(ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(2)]

    @flow.step
    async def lefts(ev: Item) -> Left:
        return Left(no=ev.no)

    @flow.step
    async def rights(ev: Item) -> Right:
        await gates[ev.no].wait()
        return Right(no=ev.no)

    @flow.step
    async def pair(left: Left, right: Right) -> Done:
        return Done(no=left.no, said=right.no)

    @flow.step
    async def total(ev: list[Done]) -> StopEvent:
        return StopEvent(result=[(d.no, d.said) for d in ev])

    async def main() -> Any:
        run = flow.run()
        gates[1].set()
        await until(lambda: run._runner.state.steps[3].done == 1)
        gates[0].set()
        return await run

    assert asyncio.run(main()) == [(0, 0), (1, 1)]


def test_a_type_that_stands_twice_binds_by_arrival():
    """R4.79."""
    flow = Workflow[Any]("twice")

    @flow.step
    async def begin(ev: Begin, ctx: Context) -> Left | None:
        for no in (1, 2):
            ctx.send_event(Left(no=no))
        return None

    @flow.step
    async def pair(first: Left, second: Left) -> StopEvent:
        return StopEvent(result=(first.no, second.no))

    assert flow.run().result(20) == (1, 2)


def test_a_set_is_kept_over_a_restart():
    """R4.77, R1.7: the half that came stays."""
    flow = Workflow[Any]("kept", accepts=[Right])

    @flow.step
    async def begin(ev: Begin) -> Left:
        return Left(no=1)

    @flow.step
    async def pair(left: Left, right: Right) -> StopEvent:
        return StopEvent(result=(left.no, right.no))

    run = flow.run()
    wait_until(lambda: run.status == "waiting")
    restart(run)
    run.send_event(Right(no=2))
    assert run.result(20) == (1, 2)
