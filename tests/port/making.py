"""Small helpers of the tests of behaviours: workflows from functions, and what a run published."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from flownb import Event, Run, StartEvent, Workflow


class Begin(StartEvent):
    n: int = 3


class Item(Event):
    no: int = 0


class Done(Event):
    no: int = 0


def flow_of(*steps: Any, **settings: Any) -> Workflow[Any]:
    """A workflow of functions, in their order."""
    flow = Workflow[Any]("made", **settings)
    for fn in steps:
        flow.step(fn)
    return flow


async def published(run: Run[Any], *kinds: type[Event], internal: bool = True) -> list[Any]:
    """All that a run published until its end, of these types."""
    return [ev async for ev in run.stream_events(expose_internal=internal) if isinstance(ev, kinds or Event)]


def on_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """A test that is a coroutine function."""

    def run() -> None:
        asyncio.run(asyncio.wait_for(test(), 30))

    run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
    return run
