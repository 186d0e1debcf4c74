"""Behaviours 17 to 35 of LlamaIndex Workflows, here: collecting, fan-out and fan-in."""

import asyncio
from typing import Annotated, Any

import pytest

from flownb import Context, Event, StopEvent, Take, Workflow
from flownb.collect import Collect
from flownb.errors import WorkflowRuntimeError, WorkflowStalled
from flownb.events import UnhandledEvent
from flownb.retry_policy import retry_policy, stop_after_attempt, wait_fixed
from flownb.testing import ManualClock
from tests.port.making import Begin, Done, Item, flow_of, on_loop, published

AGAIN = retry_policy(wait=wait_fixed(0), stop=stop_after_attempt(3))


class Left(Event):
    no: int = 0


class Right(Event):
    no: int = 0


class Inner(Event):
    outer: int
    no: int


class Part(Event):
    outer: int
    no: int


class Group(Event):
    parts: list[int]


async def split(ev: Begin) -> list[Item]:
    return [Item(no=no) for no in range(ev.n)]


async def work(ev: Item) -> Done:
    return Done(no=ev.no)


@on_loop
async def test_b17_collected_events_come_in_the_order_of_the_list():
    """R4.1."""

    async def begin(ev: Begin, ctx: Context) -> Right | Left | None:
        for event in (Right(no=2), Done(no=3), Left(no=1)):
            ctx.send_event(event)
        return None

    async def gather(ev: Left | Right | Done, ctx: Context) -> StopEvent | None:
        found = ctx.collect_events(ev, [Left, Right, Done])
        return StopEvent(result=[type(one).__name__ for one in found]) if found else None

    flow = flow_of(begin, gather, skip_graph_checks=["unproduced"])
    assert await flow.run() == ["Left", "Right", "Done"]


@on_loop
async def test_b18_the_same_type_is_collected_so_many_times():
    """R4.1."""

    async def begin(ev: Begin, ctx: Context) -> Item | None:
        for no in range(3):
            ctx.send_event(Item(no=no))
        return None

    async def gather(ev: Item, ctx: Context) -> StopEvent | None:
        found = ctx.collect_events(ev, [Item] * 3)
        return StopEvent(result=[one.no for one in found]) if found else None

    assert await flow_of(begin, gather).run() == [0, 1, 2]


@on_loop
async def test_b19_nothing_expected_gives_nothing_at_once():
    """R4.6."""

    async def gather(ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=ctx.collect_events(ev, []))

    assert await flow_of(gather).run() == []


@on_loop
async def test_b20_an_event_of_another_type_gives_none_and_spoils_nothing():
    """R4.1, R4.5."""
    answers: list[object] = []

    async def begin(ev: Begin, ctx: Context) -> Left | Right | None:
        for event in (Left(no=1), Right(no=9), Left(no=2)):
            ctx.send_event(event)
        return None

    flow = Workflow[Any]("extra")
    flow.step(begin)

    @flow.step(num_workers=1)
    async def gather(ev: Left | Right, ctx: Context) -> StopEvent | None:
        found = ctx.collect_events(ev, [Left, Left])
        answers.append(found if found is None else [one.no for one in found])
        return StopEvent(result=answers) if found else None

    assert await flow.run() == [None, None, [1, 2]]


@on_loop
async def test_b21_of_workers_that_collect_at_once_each_event_is_taken_by_one():
    """R4.3, R4.4: whatever a worker saw when it decided, each pair is made once and nothing is left over."""

    async def begin(ev: Begin, ctx: Context) -> Item | None:
        for no in range(20):
            ctx.send_event(Item(no=no))
        return None

    flow = Workflow[Any]("pairs")
    flow.step(begin)

    @flow.step(num_workers=8)
    async def pair(ev: Item, ctx: Context) -> Group | None:
        await asyncio.sleep(0.001 * (ev.no % 4))
        found = ctx.collect_events(ev, [Item, Item])
        await asyncio.sleep(0.001 * (ev.no % 3))
        return Group(parts=[one.no for one in found]) if found else None

    @flow.step
    async def gather(ev: Group, ctx: Context) -> StopEvent | None:
        found = ctx.collect_events(ev, [Group] * 10)
        return StopEvent(result=sorted(no for group in found for no in group.parts)) if found else None

    assert await flow.run() == list(range(20))


@on_loop
async def test_b22_a_join_fires_once():
    """R4.8."""
    fired: list[int] = []

    async def join(ev: list[Done]) -> Group:
        fired.append(len(ev))
        return Group(parts=[done.no for done in ev])

    async def later(ev: Group) -> StopEvent:
        await asyncio.sleep(0.02)
        return StopEvent(result=ev.parts)

    assert await flow_of(split, work, join, later).run(n=5) == [0, 1, 2, 3, 4]
    assert fired == [5]


@on_loop
async def test_b23_an_empty_fan_out_fires_its_join_once_with_nothing():
    """R4.11."""
    fired: list[int] = []

    async def join(ev: list[Done]) -> StopEvent:
        fired.append(len(ev))
        return StopEvent(result=ev)

    assert await flow_of(split, work, join).run(n=0) == []
    assert fired == [0]


@on_loop
async def test_b24_a_branch_that_gives_nothing_drops_out():
    """R4.13; if all do, the join gets nothing."""

    async def some(ev: Item) -> Done | None:
        return Done(no=ev.no) if ev.no % 2 else None

    async def join(ev: list[Done]) -> StopEvent:
        return StopEvent(result=[done.no for done in ev])

    assert await flow_of(split, some, join).run(n=6) == [1, 3, 5]
    assert await flow_of(split, some, join).run(n=1) == []


@pytest.mark.parametrize(("n", "right"), [(5, [0, 1]), (2, [0, 1]), (1, [0]), (0, [])])
@pytest.mark.parametrize("hint", [Annotated[list[Done], Take(2)], Annotated[list[Done], Collect(Take(2))]])
def test_b25_take_fires_at_the_nth_or_at_the_close_with_fewer(hint: Any, n: int, right: list[int]):
    """R4.16, in both spellings."""

    async def join(ev: Any) -> StopEvent:
        return StopEvent(result=[done.no for done in ev])

    join.__annotations__["ev"] = hint
    flow = Workflow[Any]("take")
    flow.step(split)
    flow.step(num_workers=1)(work)
    flow.step(join)
    assert flow.run(n=n).result(20) == right


@on_loop
async def test_b26_after_take_has_fired_the_other_branches_go_on():
    """R4.17."""
    worked: list[int] = []

    async def slow(ev: Item) -> Done:
        await asyncio.sleep(0.01 * ev.no)
        worked.append(ev.no)
        return Done(no=ev.no)

    async def first(ev: Annotated[list[Done], Take(1)]) -> Group:
        return Group(parts=[done.no for done in ev])

    async def wait(ev: Group) -> StopEvent:
        while len(worked) < 4:
            await asyncio.sleep(0.002)
        return StopEvent(result=ev.parts)

    assert await flow_of(split, slow, first, wait).run(n=4) == [0]
    assert worked == [0, 1, 2, 3]


@on_loop
async def test_b27_a_nested_fan_out_is_joined_innermost_first():
    """R4.11, R4.12."""

    async def inner(ev: Item) -> list[Inner]:
        return [Inner(outer=ev.no, no=no) for no in range(ev.no)]

    async def part(ev: Inner) -> Part:
        return Part(outer=ev.outer, no=ev.no)

    async def group(ev: list[Part]) -> Group:
        return Group(parts=[one.outer * 10 + one.no for one in ev])

    async def all_of_them(ev: list[Group]) -> StopEvent:
        return StopEvent(result=[one.parts for one in ev])

    flow = flow_of(split, inner, part, group, all_of_them)
    assert await flow.run(n=4) == [[], [10], [20, 21], [30, 31, 32]]


@on_loop
async def test_b28_two_joins_of_one_type_both_get_all():
    """R4.8, R4.11."""

    async def one(ev: list[Done]) -> Left:
        return Left(no=sum(done.no for done in ev))

    async def two(ev: list[Done]) -> Right:
        return Right(no=len(ev))

    async def both(ev: Left | Right, ctx: Context) -> StopEvent | None:
        found = ctx.collect_events(ev, [Left, Right])
        return StopEvent(result=[one.no for one in found]) if found else None

    assert await flow_of(split, work, one, two, both).run(n=4) == [6, 4]


@on_loop
async def test_b29_fan_outs_of_different_steps_are_joined_apart():
    """R4.8: one join, two fan-outs; each is gathered for itself."""

    async def begin(ev: Begin, ctx: Context) -> Left | Right | None:
        ctx.send_event(Left())
        ctx.send_event(Right())
        return None

    async def left(ev: Left) -> list[Item]:
        return [Item(no=no) for no in (1, 2)]

    async def right(ev: Right) -> list[Item]:
        return [Item(no=no) for no in (10, 20, 30)]

    async def join(ev: list[Done]) -> Group:
        return Group(parts=[done.no for done in ev])

    async def both(ev: Group, ctx: Context) -> StopEvent | None:
        found = ctx.collect_events(ev, [Group, Group])
        return StopEvent(result=sorted(group.parts for group in found)) if found else None

    assert await flow_of(begin, left, right, work, join, both).run() == [[1, 2], [10, 20, 30]]


@on_loop
async def test_b30_two_parameters_of_one_type_take_one_event_each_and_sets_repeat():
    """R4.77, R4.79."""

    async def begin(ev: Begin, ctx: Context) -> Item | None:
        for no in range(4):
            ctx.send_event(Item(no=no))
        return None

    async def pair(a: Item, b: Item) -> Group:
        return Group(parts=[a.no, b.no])

    async def both(ev: Group, ctx: Context) -> StopEvent | None:
        found = ctx.collect_events(ev, [Group, Group])
        return StopEvent(result=[group.parts for group in found]) if found else None

    assert await flow_of(begin, pair, both).run() == [[0, 1], [2, 3]]


@on_loop
async def test_b31_a_join_that_fails_gets_the_same_events_again():
    """R4.4, R4.8: by type and with collect_events."""
    seen: list[list[int]] = []
    flow = Workflow[Any]("again")
    flow.step(split)
    flow.step(work)

    @flow.step(retry_policy=AGAIN)
    async def join(ev: list[Done], ctx: Context) -> Group:
        seen.append([done.no for done in ev])
        if ctx.attempt < 3:
            raise ConnectionError("busy")
        for no in range(2):
            ctx.send_event(Left(no=no))
        return Group(parts=[])

    @flow.step(retry_policy=AGAIN)
    async def collect(ev: Left | Group, ctx: Context) -> StopEvent | None:
        found = ctx.collect_events(ev, [Left, Left, Group])
        if found is None:
            return None
        seen.append([one.no for one in found[:2]])
        if ctx.attempt < 3:
            raise ConnectionError("busy")
        return StopEvent()

    flow._skip = ("unproduced",)
    await flow.run(n=3)
    assert seen == [[0, 1, 2]] * 3 + [[0, 1]] * 3


@on_loop
async def test_b32_nothing_can_be_sent_into_a_join():
    """R2.14, R4.15: by name it raises, without a name it is unhandled, and the join does not see it."""
    said: list[str] = []

    async def begin(ev: Begin, ctx: Context) -> list[Item]:
        try:
            ctx.send_event(Done(no=98), step="join")
        except WorkflowRuntimeError as error:
            said.append(str(error))
        ctx.send_event(Done(no=99))
        return [Item(no=0)]

    async def join(ev: list[Done]) -> StopEvent:
        return StopEvent(result=[done.no for done in ev])

    run = flow_of(begin, work, join).run()
    assert await run == [0]
    assert len(said) == 1
    assert "join" in said[0]
    assert [ev.event_type for ev in await published(run, UnhandledEvent)] == ["Done"]


@on_loop
async def test_b33_a_fan_out_that_cannot_go_on_fails_the_run_in_words():
    """R4.22, R5.36: a branch waits for an event that nobody can send."""

    async def stuck(ev: Item, ctx: Context) -> Done | None:
        found = ctx.collect_events(ev, [Item] * 9)
        return Done(no=len(found)) if found else None

    async def join(ev: list[Done]) -> StopEvent | None:
        return None

    run = flow_of(split, stuck, join).run()
    with pytest.raises(WorkflowStalled, match="Item"):
        await run


@on_loop
async def test_b34_after_every_tick_what_is_unfinished_can_still_be_finished():
    """R1.3, R1.7: no prefix of the journal leaves a join with nothing that could still fire it."""

    async def inner(ev: Item) -> list[Inner]:
        return [Inner(outer=ev.no, no=no) for no in range(2)]

    async def part(ev: Inner) -> Part | None:
        return Part(outer=ev.outer, no=ev.no) if ev.no else None

    async def group(ev: list[Part]) -> Group:
        return Group(parts=[one.no for one in ev])

    async def all_of_them(ev: list[Group]) -> StopEvent:
        return StopEvent(result=len(ev))

    run = flow_of(split, inner, part, group, all_of_them).run(n=3)
    assert await run == 3
    last = len(run.debug.ticks)
    for seq in range(1, last):
        moment = run.debug.at(seq)
        assert moment.status == "running"
        assert moment.running or moment.queued
    assert run.debug.at(last).status == "completed"


@on_loop
async def test_b35_two_runs_of_the_same_have_the_same_ticks_and_ids():
    """R1.4, R1.41."""
    flow = Workflow[Any]("same")
    flow.step(split)
    flow.step(num_workers=1)(work)

    @flow.step
    async def join(ev: list[Done]) -> StopEvent:
        return StopEvent(result=[done.no for done in ev])

    told: list[list[Any]] = []
    for store in ("one", "two"):
        run = flow.with_options(clock=ManualClock(), store=":memory:").run(run_id=f"same-{store}")
        await run
        told.append([(type(tick).__name__, getattr(tick, "delivery", None)) for tick in run.debug.ticks])
        fold = [(moment.queued, moment.running) for moment in map(run.debug.at, range(1, len(run.debug.ticks) + 1))]
        told[-1].append(fold)
    assert told[0] == told[1]
