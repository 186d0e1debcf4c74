"""What one tick puts on a run's stream, with where it came from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from flownb.core.causes import Source, causes, living, source_of
from flownb.core.commands import NO_INFO, AnyCommand, Publish
from flownb.core.outstanding import is_still
from flownb.core.state import RunState
from flownb.core.ticks import Tick


class Published(Struct, frozen=True):
    """One item of a run's stream: the n-th of what tick `seq` published (R2.47)."""

    seq: int
    n: int
    item: Publish
    at: float
    #: Name of the step that it comes from, "" for the engine and the outside; and the delivery, 0 for none.
    step: str = ""
    delivery: int = 0
    source: Source = "engine"
    #: seq of the tick that led to this one, 0 for none.
    cause: int = 0
    #: What is said beside `item.info` and is known only now: `{"idle": bool}` of an event that nobody took,
    #: `{"attempts": int}` of a step whose failure ended the run.
    facts: dict[str, Any] = {}


def publication(before: RunState | None, tick: Tick, after: RunState, item: Publish, n: int) -> Published:
    """The n-th item of one tick.

    Args:
        before: The state before the tick; None for the start of a run.
        tick: The tick.
        after: The state after it.
        item: What it publishes.
        n: How many items of it came before.
    """
    source = source_of(tick)
    step = after.spec.steps[item.step].name if item.step >= 0 else ""
    delivery = item.delivery or (getattr(tick, "delivery", 0) if source == "step" else 0)
    cause = next(iter(causes(tick, before)), 0)
    return Published(after.seq, n, item, after.at, step, delivery, source, cause, _facts(item, delivery, before, after))


def publications(
    before: RunState | None, tick: Tick, after: RunState, commands: Iterable[AnyCommand]
) -> list[Published]:
    """The items of one tick, in order."""
    items = [command for command in commands if isinstance(command, Publish)]
    return [publication(before, tick, after, item, n) for n, item in enumerate(items)]


def _facts(item: Publish, delivery: int, before: RunState | None, after: RunState) -> dict[str, Any]:
    if item.what == "unhandled":
        return {"idle": is_still(after)}
    if item.what == "failed" and before is not None and item.step >= 0 and delivery:
        failed = living(before, item.step, delivery)
        return {"attempts": failed.attempt} if failed is not None else NO_INFO
    return NO_INFO
