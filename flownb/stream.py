"""What a run publishes, as its readers get it: numbered, lossless, from any position, also after the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from msgspec import Struct

from flownb.core.graph import short
from flownb.core.values import Out
from flownb.events import Event, UnhandledEvent, WorkflowCancelledEvent, WorkflowFailedEvent, WorkflowIdleEvent
from flownb.runtime.copying import copied
from flownb.runtime.pending import tell_loop
from flownb.runtime.results import shown
from flownb.runtime.runner import Published, Runner


class StreamItem(Struct, frozen=True):
    """One event of a run's stream: the n-th of what tick `seq` published."""

    seq: int
    n: int
    run_id: str
    #: Name of the step that it comes from, "" for the engine and the outside.
    step: str
    event: Event


async def read(runner: Runner, start: int, *, internal: bool) -> AsyncIterator[StreamItem]:
    """All items from tick `start` on, as they come; ends with the run."""
    place = 0
    while True:
        while place < len(runner.published):
            published = runner.published[place]
            place += 1
            if published.seq >= start and (internal or published.item.what != "idle"):
                yield _item(runner, published)
        if runner.end.done() and place >= len(runner.published):
            return
        await _news(runner, place)


async def _news(runner: Runner, place: int) -> None:
    """Wait until the run published more than `place` items, or is over."""
    loop = asyncio.get_running_loop()
    more: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        tell_loop(loop, more)

    runner.listeners.append(wake)
    try:
        if place >= len(runner.published) and not runner.end.done():
            await more
    finally:
        runner.listeners.remove(wake)


def _item(runner: Runner, published: Published) -> StreamItem:
    item = published.item
    step = runner.state.spec.steps[item.step].name if item.step >= 0 else ""
    event = _event_of(runner, item.what, item.out, step, item.info)
    return StreamItem(published.seq, published.n, runner.run_id, step, event)


def _event_of(runner: Runner, what: str, out: Out | None, step: str, info: dict[str, Any]) -> Event:
    state = runner.state
    match what:
        case "unhandled":
            return UnhandledEvent(event_type=short(info["key"]), qualified_name=info["key"])
        case "failed":
            return WorkflowFailedEvent(
                step_name=step,
                exception_type=info["type"],
                exception_message=info["message"],
                traceback=state.failure.traceback if state.failure is not None else "",
                elapsed_seconds=state.at - state.started_at,
            )
        case "cancelled":
            return WorkflowCancelledEvent(reason=info["reason"], by=info["by"])
        case "idle":
            return WorkflowIdleEvent(waits_for=list(info["waits_for"]))
    assert out is not None
    return copied(shown(out, runner.definition))  # type: ignore[no-any-return]
