"""A run that is over goes with its last reference: memory does not grow until the collector comes."""

import asyncio
import gc
import weakref
from collections.abc import Generator
from contextlib import suppress
from typing import Any

import pytest

from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Workflow, step
from flownb.errors import WorkflowCancelledByUser
from flownb.testing import ManualClock
from tests.polling import until


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


class Holder:
    """What an event refers to, and what refers to its run: a callback, a widget."""

    run: Any = None


class Holds(StartEvent):
    box: Any = None


class Held(Workflow[None]):
    @step
    async def one(self, ev: Holds, ctx: Context) -> StopEvent:
        await ctx.sleep(100)
        return StopEvent()


@pytest.mark.parametrize("ends", ["cancel", "sleep"])
def test_an_event_that_refers_to_its_run_goes_with_it(ends: str):
    """The collector looks through all that a user's value hangs in, also of work that was under way."""

    async def main() -> weakref.ref[Holder]:
        box = Holder()
        clock = ManualClock()
        run = box.run = Held().with_options(clock=clock).run(box=box)
        await until(lambda: run.now.seq and run.now.waiting)
        if ends == "cancel":
            run.cancel()
        else:
            clock.advance(100)
        with suppress(WorkflowCancelledByUser):
            await run
        return weakref.ref(box)

    gone = asyncio.run(main())
    gc.collect()
    gc.collect()
    assert gone() is None
