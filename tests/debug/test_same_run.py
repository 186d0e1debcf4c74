"""A run that is looked at is the run that would have been (R5.32)."""

import asyncio
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from flownb import Context, Event, Run, StartEvent, StopEvent, Workflow
from flownb.core.invariants import broken
from flownb.core.reduce import fold
from flownb.core.ticks import CONTROL, StepFailed
from flownb.retry_policy import retry_policy, stop_after_attempt, wait_fixed
from tests.polling import until


class Go(StartEvent):
    pass


class Token(Event):
    depth: int
    no: int


class End(Event):
    no: int


def flow_of(widths: list[int], fails: int, writes: bool) -> Workflow[Any]:
    """Levels of events, sent by a step that fails at first and writes the state; the ends are gathered."""
    flow = Workflow[Any]("levels")
    left = {"fails": fails}

    @flow.step
    async def begin(ev: Go) -> Token:
        return Token(depth=0, no=0)

    @flow.step(num_workers=1, retry_policy=retry_policy(stop=stop_after_attempt(9), wait=wait_fixed(0)))
    async def grow(ev: Token, ctx: Context) -> Token | End | None:
        if left["fails"]:
            left["fails"] -= 1
            raise ValueError
        if writes:
            ctx.state.set(f"seen{ev.depth}", ctx.state.get(f"seen{ev.depth}", 0) + 1)
        if ev.depth == len(widths):
            return End(no=ev.no)
        for i in range(widths[ev.depth]):
            ctx.send_event(Token(depth=ev.depth + 1, no=ev.no * 3 + i))
        return None

    ends = 1
    for width in widths:
        ends *= width

    @flow.step(num_workers=1)
    async def gather(ev: End, ctx: Context) -> StopEvent | None:
        found = ctx.collect_events(ev, [End] * ends)
        return None if found is None else StopEvent(result=(sorted(end.no for end in found), ctx.state.get()))

    return flow


def work_ticks(run: Run[Any]) -> list[Any]:
    """What happened, without the gate's own ticks, and without the times and the run's id that are in them."""
    found = []
    for tick in run.debug.ticks:
        if isinstance(tick, StepFailed):
            found.append(
                replace(tick, at=0.0, came=0.0, held=(), retry_at=0.0, failure=replace(tick.failure, traceback=""))
            )
        elif not isinstance(tick, CONTROL):
            found.append(replace(tick, at=0.0, came=0.0, held=()))
    return found


async def stepped(run: Run[Any], sizes: list[int]) -> None:
    """Each press admits what was asked for, until the end."""
    at = 0
    while not run.is_done():
        await until(lambda: run.debug.inbox or run._runner.state.side.held.n or run.is_done())
        await run.debug.step(sizes[at % len(sizes)])
        at += 1


async def stopped(run: Run[Any]) -> None:
    """One cont() after the other."""
    while not run.is_done():
        await run.cont()


WAYS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "before a step": lambda n: {"step": "grow", "hit": n},
    "at the start": lambda n: {"step": "gather", "at": "start", "hit": n},
    "after an error": lambda n: {"error": True, "at": "after"},
    "an event": lambda n: {"event": End, "at": "after", "hit": n},
    "a condition": lambda n: {"when": "event.no % 2", "event": End},
    "a condition that fails": lambda n: {"when": "event.missing", "event": End, "hit": n},
    "a state key": lambda n: {"state": "seen1"},
}


@settings(max_examples=40, deadline=None)
@given(
    widths=st.lists(st.integers(1, 3), max_size=2),
    fails=st.integers(0, 2),
    writes=st.booleans(),
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    ways=st.dictionaries(st.sampled_from(sorted(WAYS)), st.integers(1, 3), max_size=3),
)
def test_r5_32_stepping_and_breakpoints_leave_the_other_ticks_as_a_free_run_has_them(
    widths: list[int], fails: int, writes: bool, sizes: list[int], ways: dict[str, int]
):
    """R5.32: the same work ticks in the same order, and the same result; and each journal replays to its state."""

    async def main() -> None:
        free = flow_of(widths, fails, writes).run()
        result = await free
        pressed = flow_of(widths, fails, writes).debug()
        await stepped(pressed, sizes)
        flow = flow_of(widths, fails, writes)
        for way, n in ways.items():
            flow.breakpoints.add(**WAYS[way](n))
        looked = flow.debug()
        await stopped(looked)
        both = flow.debug()
        for run in (pressed, looked):
            assert await run == result
            assert work_ticks(run) == work_ticks(free)
        await stepped(both, sizes)
        assert (await both)[0] == result[0]
        for run in (pressed, looked, both):
            assert fold(run.debug.ticks) == run._runner.state
            for seq in range(1, run.now.seq + 1):
                assert not broken(run._runner.history.at(seq))

    asyncio.run(main())
