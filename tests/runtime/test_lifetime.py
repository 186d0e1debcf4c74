"""A run that is over goes with its last reference: memory does not grow until the collector comes."""

import asyncio
import gc
import weakref
from collections.abc import Generator
from typing import Any

import pytest

from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Workflow, step


class Half(Event):
    pass


class Plain(Workflow[int]):
    @step
    async def first(self, ev: StartEvent) -> Half:
        return Half()

    @step
    async def second(self, ev: Half) -> StopEvent:
        return StopEvent(result=1)


class Slow(Workflow[int]):
    @step
    async def wait(self, ev: StartEvent) -> StopEvent:
        await asyncio.sleep(0)
        return StopEvent(result=1)


class Reply(HumanResponseEvent):
    value: int


class Question(InputRequiredEvent[Reply]):
    pass


class Asking(Workflow[int]):
    @step
    async def ask(self, ctx: Context, ev: StartEvent) -> StopEvent:
        return StopEvent(result=(await ctx.ask(Question())).value)


@pytest.fixture(autouse=True)
def no_collector() -> Generator[None]:
    """Nothing but the count of its references frees an object here."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


async def _run(flow: Workflow[int]) -> weakref.ref[Any]:
    run = flow.run()
    if isinstance(flow, Asking):
        while not run.requests:
            await asyncio.sleep(0)
        run.answer(value=1)
    assert await run == 1
    return weakref.ref(run._runner)


@pytest.mark.parametrize("flow", [Plain(), Slow(), Asking()], ids=lambda flow: flow.name)
def test_a_run_that_is_over_is_gone_with_its_handle(flow: Workflow[int]):
    """Steps that never suspend, that suspend, and that ask: none leaves the run in a cycle of references."""

    async def main() -> bool:
        gone = await _run(flow)
        await asyncio.sleep(0)
        return gone() is None

    assert asyncio.run(main())
