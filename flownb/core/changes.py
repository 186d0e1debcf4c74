"""What is seen of the deliveries that one tick moved: their states, in the order in which they are told.

Whoever watches a run computes this from the states before and after a tick; a run that nobody watches never comes
here. Deliveries live in persistent tables and queues, so what a tick left alone is found to be the same object and is
not looked through: a tick costs what it moved, not what there is.

                    queued ──> running ──> done, failed, cancelled
                      ^          │  │
                      │          │  └────> retrying ──(due)──┐
                      └──────────┴───────> waiting ──(woken)─┴──> queued
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from msgspec import Struct

from flownb.core.persist import BITS, WIDTH, Fifo, Table
from flownb.core.state import EMPTY_STEP, Delivery, RunState, StepState, Wait
from flownb.core.ticks import RequestAnswered, StepFailed, StepFinished, Tick, came_at
from flownb.core.values import Failure, Out

Seen = Literal["queued", "running", "waiting", "retrying", "done", "failed", "cancelled"]
"""The states that a delivery has for people (R3.10)."""

WaitsFor = Literal["person", "event", "timer", "child"]


class Change(Struct, frozen=True):
    """A delivery is in another state (R5.64)."""

    state: Seen
    #: Index of the step in the spec after the tick.
    step: int
    delivery: int
    attempt: int
    start: int
    #: What it carries, and the seq of the tick that sent that.
    out: Out | tuple[Out, ...]
    cause: int
    #: The worker that runs it, -1 for none.
    worker: int = -1
    #: What it returned.
    outs: tuple[Out, ...] = ()
    #: Of one that failed: why; of one that is tried again: why the attempt before failed.
    failure: Failure | None = None
    #: Of a waiting one: what for, each once.
    waits_for: tuple[WaitsFor, ...] = ()
    #: Unix seconds, 0 for not yet. Of a later attempt that waited in between: when that went on.
    started_at: float = 0.0
    finished_at: float = 0.0
    #: When it moves by itself at the latest, 0 for never: the end of its sleep, its deadline, its next attempt, or its
    #: turn before a step with a rate.
    due_at: float = 0.0
    #: A breakpoint keeps it from being started.
    held: bool = False
    #: It is the delivery that the tick itself speaks of.
    is_own: bool = False


_RANK = {"done": 0, "failed": 0, "cancelled": 0, "waiting": 1, "retrying": 1, "running": 2, "queued": 3}


def changes(before: RunState | None, tick: Tick, after: RunState) -> list[Change]:
    """The states that one tick changed, in the order of R2.46: that of the delivery that it speaks of, then the others
    in the order of their steps, started ones before queued ones.

    Args:
        before: The state before the tick; None for the first tick of a run, which of a fork tells of all that lives.
        tick: It.
        after: The state after it.
    """
    own = getattr(tick, "delivery", 0) if hasattr(tick, "step") else 0
    found: list[Change] = []
    for i, old, new in _moved(before, after):
        if old is None:
            assert new is not None
            found.append(_change(i, new, after))
        elif new is None:
            found.append(_gone(i, old, tick, after, is_own=old.id == own))
        elif old.id == own and isinstance(tick, StepFailed) and tick.retry_at is not None:
            found.append(_tried_again(i, old, tick.failure, max(tick.retry_at, after.at), came_at(tick)))
            if _seen(new) != "retrying":  # due at once
                found.append(_change(i, new, after))
        elif _is_other(old, new):
            found.append(_change(i, new, after, own))
    found.sort(key=_order)
    return found


def _order(change: Change) -> tuple[bool, int, int, int]:
    if change.is_own:
        return False, 0, 0, 0
    return True, change.step, _RANK[change.state], change.delivery


# What moved.


def _moved(before: RunState | None, after: RunState) -> Iterator[tuple[int, Delivery | None, Delivery | None]]:
    """Deliveries that are other objects, or in another place: index of the step, before, after; None for not there.

    One that left the queue for a worker comes without what it was before.
    """
    first = before.next_delivery if before is not None else 1
    left = after.next_delivery - first
    queues: list[tuple[int, Fifo[Delivery]]] = []
    for i, step in enumerate(after.steps):
        was = _before(before, i, after)
        if was is step:
            continue
        olds = {key: old for key, old, _ in _pairs(was, step) if old is not None}
        news = {key: new for key, _, new in _pairs(was, step) if new is not None}
        for key in olds.keys() | news.keys():
            yield i, olds.get(key), news.get(key)
        fresh = _fresh(step.queue, first)
        for d in fresh:
            yield i, None, d
        started = news.keys() - olds.keys()
        new = sum(key >= first for key in started)
        left -= len(fresh) + new
        queues.append((i, step.queue))
        if was.queue.n + len(fresh) - (len(started) - new) > step.queue.n:
            kept = {d.id for d in step.queue}
            for d in was.queue:
                if d.id not in kept and d.id not in started:
                    yield i, d, None
    if left:  # they were queued, and the queue was turned round since
        for i, queue in queues:
            cell = queue.front
            while cell is not None:
                if cell[0].id >= first:
                    yield i, None, cell[0]
                cell = cell[1]


def _before(before: RunState | None, i: int, after: RunState) -> StepState:
    """The step as it was; a newer definition may have it in another place."""
    if before is None:
        return EMPTY_STEP
    if before.spec is after.spec:
        return before.steps[i]
    place = before.spec.index.get(after.spec.steps[i].name)
    return EMPTY_STEP if place is None else before.steps[place]


def _pairs(was: StepState, step: StepState) -> Iterator[tuple[int, Delivery | None, Delivery | None]]:
    yield from differing(was.active, step.active)
    yield from differing(was.waiting, step.waiting)


def _fresh(queue: Fifo[Delivery], first: int) -> list[Delivery]:
    """The newest of a queue, from this id on, as far as they were put behind the others."""
    found: list[Delivery] = []
    cell = queue.back
    while cell is not None and cell[0].id >= first:
        found.append(cell[0])
        cell = cell[1]
    found.reverse()
    return found


def differing(old: Table[Any], new: Table[Any]) -> Iterator[tuple[int, Any, Any]]:
    """(key, before, after) of the entries in which two tables differ by identity; None for not there.

    What they share is not looked through.
    """
    if old is new:
        return
    if old.small is None and new.small is None:
        a, b, shift = old.root, new.root, max(old.shift, new.shift)
        a, b = _lifted(a, old.shift, shift), _lifted(b, new.shift, shift)
        yield from _walk(a, b, shift, 0)
        return
    before, after = dict(old.items()), dict(new.items())
    for key in sorted(before.keys() | after.keys()):
        one, other = before.get(key), after.get(key)
        if one is not other:
            yield key, one, other


def _lifted(node: tuple[Any, ...], shift: int, to: int) -> tuple[Any, ...]:
    """A tree of fewer levels as one of more."""
    while shift < to:
        node, shift = (node, *(None,) * (WIDTH - 1)), shift + BITS
    return node


def _walk(a: Any, b: Any, shift: int, base: int) -> Iterator[tuple[int, Any, Any]]:
    for slot in range(WIDTH):
        one = a[slot] if a is not None else None
        other = b[slot] if b is not None else None
        if one is other:
            continue
        if shift:
            yield from _walk(one, other, shift - BITS, base | slot << shift)
        else:
            yield base | slot, one, other


# What it is seen as.


def _seen(d: Delivery) -> Seen:
    """The state of a living delivery."""
    if d.worker >= 0:
        return "running"
    if d.due or d.held or (not d.waits.n and (d.tries is None or not d.tries.timer)):
        return "queued"
    return "retrying" if d.tries is not None and d.tries.timer else "waiting"


def _is_other(old: Delivery, new: Delivery) -> bool:
    seen = _seen(new)
    if (seen, new.attempt, new.start, new.worker, new.held) != (
        _seen(old),
        old.attempt,
        old.start,
        old.worker,
        old.held,
    ):
        return True
    return seen == "waiting" and new.waits is not old.waits


def _change(i: int, d: Delivery, after: RunState, own: int = 0) -> Change:
    state, step = _seen(d), after.steps[i]
    waits: tuple[WaitsFor, ...] = ()
    due = 0.0
    failure = d.tries.failure if d.tries is not None else None
    if state == "waiting":
        waits = tuple(dict.fromkeys(waits_for(wait, after) for wait in d.waits.values()))
        due = min((at for wait in d.waits.values() if (at := due_at(wait, after))), default=0.0)
    elif state == "retrying" and d.tries is not None:
        due = d.tries.due_at
    elif state == "queued" and step.timer:
        due = step.ready_at
    is_own = d.id == own and state == "waiting"
    return Change(
        state, i, d.id, d.attempt, d.start, d.out, d.cause, d.worker, (), failure, waits, began_at(d), 0.0, due, d.held,
        is_own,
    )  # fmt: skip


def waits_for(wait: Wait, state: RunState) -> WaitsFor:
    """Who or what ends an open wait."""
    if wait.kind == "event":
        waiter = state.side.waiters.get(wait.ref)
        return "person" if waiter is not None and waiter.request else "event"
    if wait.kind == "sleep":
        return "timer"
    return "child" if wait.kind == "child" else "person"


def due_at(wait: Wait, state: RunState) -> float:
    """When a wait ends by itself, in Unix seconds; 0 for never."""
    if wait.kind == "sleep":
        return state.timers[wait.ref].due_at
    if wait.kind == "ask":
        return state.requests[wait.ref].due_at or 0.0
    if wait.kind == "event":
        return state.side.waiters[wait.ref].due_at or 0.0
    return 0.0


def began_at(d: Delivery) -> float:
    """When a delivery's attempt began, in Unix seconds; 0 for not yet, or not known."""
    if not d.start:
        return 0.0
    if d.attempt == 1 and d.tries is not None and d.tries.first_at:
        return d.tries.first_at
    return d.at if d.worker >= 0 else 0.0


def _tried_again(i: int, old: Delivery, failure: Failure, due: float, at: float) -> Change:
    """An attempt failed and there is another one (R3.34)."""
    began = began_at(old)
    return Change(
        "retrying", i, old.id, old.attempt, old.start, old.out, old.cause, -1, (), failure, (), began, at, due, False,
        True,
    )  # fmt: skip


def _gone(i: int, old: Delivery, tick: Tick, after: RunState, *, is_own: bool) -> Change:
    state: Seen = "cancelled"
    outs: tuple[Out, ...] = ()
    failure: Failure | None = None
    if is_own and isinstance(tick, StepFinished):
        state, outs = "done", tick.outs
    elif is_own and isinstance(tick, StepFailed):
        state, failure = "failed", tick.failure
    elif isinstance(tick, RequestAnswered) and tick.decision == "done" and _was_lost(old, tick):
        state, outs = "done", () if tick.answer.role == "value" else (tick.answer,)
    elif isinstance(tick, RequestAnswered) and tick.decision == "fail" and _was_lost(old, tick):
        state, failure = "failed", after.failure
    began, ended = began_at(old), came_at(tick) if is_own else after.at
    return Change(
        state, i, old.id, old.attempt, old.start, old.out, old.cause, -1, outs, failure, (), began, ended, 0.0,
        False, is_own,
    )  # fmt: skip


def _was_lost(d: Delivery, tick: RequestAnswered) -> bool:
    """Whether a delivery is the one whose outcome was asked for."""
    return any(wait.ref == tick.request and wait.kind == "ask" for wait in d.waits.values())
