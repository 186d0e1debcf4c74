"""How far a run is: deliveries that are over, of how many."""

from __future__ import annotations

from msgspec import Struct

from flownb.core.graph import graph_of
from flownb.core.spec import Spec
from flownb.core.state import RunState, is_ended
from flownb.core.ticks import StepFailed, StepFinished, Tick

Reach = tuple[int, ...]
"""Of each step, as bits, the steps that can come after it."""


class Progress(Struct, frozen=True):
    """How far a run is (R5.66)."""

    #: Deliveries that are over.
    done: int
    #: These, those that live, and one for each step that they can still reach for the first time. A fan-out ahead makes
    #: it grow; an alternative that is not taken makes it shrink. None where steps can come again and again.
    total: int | None
    #: The step of the delivery that the last tick completed; "" if it completed none.
    label: str = ""


def progress(state: RunState, label: str = "", reach: Reach | None = None) -> Progress:
    """How far a run is.

    Args:
        state: It.
        label: The step that was completed just now.
        reach: What `reach_of` says of its spec, from somebody who asks often; None looks anew.
    """
    done = sum(step.done + step.failed for step in state.steps)
    if reach is None:
        reach = reach_of(state.spec)
    if len(reach) < len(state.steps):
        return Progress(done, None, label)
    if is_ended(state):
        return Progress(done, done, label)
    living = ahead = reached = 0
    for i, step in enumerate(state.steps):
        live = step.queue.n + step.active.n + step.waiting.n
        if live or step.done or step.failed:
            reached |= 1 << i
        if live or (state.requests.n and state.spec.steps[i].asks):
            ahead |= reach[i]
        living += live
    return Progress(done, done + living + (ahead & ~reached).bit_count(), label)


def completed(tick: Tick, before: RunState, after: RunState) -> str:
    """Name of the step whose delivery a tick completed, "" if it completed none."""
    if not isinstance(tick, (StepFinished, StepFailed)) or tick.step not in after.spec.index:
        return ""
    i = after.spec.index[tick.step]
    was, step = before.steps[i], after.steps[i]
    return tick.step if was.done + was.failed < step.done + step.failed else ""


def reach_of(spec: Spec) -> Reach:
    """The steps that can come after each step; () where one of them can come after itself."""
    n = len(spec.steps)
    after: list[set[int]] = [set() for _ in range(n)]
    for edge in graph_of(spec).edges:
        if edge.source > 0 and edge.target <= n:
            after[edge.source - 1].add(edge.target - 1)
    before = [0] * n
    for targets in after:
        for i in targets:
            before[i] += 1
    order = [i for i in range(n) if not before[i]]
    for i in order:  # it grows while it is read
        for j in after[i]:
            before[j] -= 1
            if not before[j]:
                order.append(j)
    if len(order) < n:
        return ()
    reach = [0] * n
    for i in reversed(order):
        for j in after[i]:
            reach[i] |= reach[j] | 1 << j
    return tuple(reach)
