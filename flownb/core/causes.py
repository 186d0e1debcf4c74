"""Who caused a tick, and where it came from."""

from __future__ import annotations

from typing import Literal

from flownb.core import ticks as t
from flownb.core.state import Delivery, Did, RunState

Source = Literal["step", "outside", "answer", "timer", "child", "engine"]
"""Where a tick came from (R2.47)."""

_SOURCES: dict[type[t.Tick], Source] = {
    t.RunStarted: "outside",
    t.EventArrived: "outside",
    t.CancelRequested: "outside",
    t.EventEdited: "outside",
    t.EventDropped: "outside",
    t.StepFinished: "step",
    t.StepFailed: "step",
    t.EventsSent: "step",
    t.StreamWritten: "step",
    t.StreamRewound: "step",
    t.StateWritten: "step",
    t.ValueRecorded: "step",
    t.WaitOpened: "step",
    t.WaitWithdrawn: "step",
    t.RequestAnswered: "answer",
    t.RequestDisposed: "answer",
    t.TimerFired: "timer",
    t.ChildChanged: "child",
    t.ChildFinished: "child",
}


def source_of(tick: t.Tick) -> Source:
    """Where a tick came from; "engine" for what no step, person or timer did."""
    return _SOURCES.get(type(tick), "engine")


def delivery_of(tick: t.Tick, before: RunState | None) -> Delivery | None:
    """The delivery that a tick of a step belongs to, as it was before it."""
    key, name = getattr(tick, "delivery", None), getattr(tick, "step", None)
    if before is None or key is None or name not in before.spec.index:
        return None
    return living(before, before.spec.index[name], key)


def living(state: RunState, step: int, delivery: int) -> Delivery | None:
    """A delivery that was started and is not over."""
    found = state.steps[step].active.get(delivery)
    return state.steps[step].waiting.get(delivery) if found is None else found


def causes(tick: t.Tick, before: RunState | None) -> list[int]:
    """seqs of the ticks that led to one: who sent its event, who asked its question, who began its wait."""
    if before is None:
        return []
    if isinstance(tick, t.TimerFired):
        return _of_timer(tick, before)
    if isinstance(tick, (t.ChildChanged, t.ChildFinished)):
        child = before.side.children.get(tick.child)
        return _opened(before, child.step, child.delivery, child.mark) if child is not None else []
    if isinstance(tick, (t.RequestAnswered, t.RequestDisposed, t.RequestHeld)):
        request = before.requests.get(tick.request)
        return [request.opened] if request is not None else []
    delivery = delivery_of(tick, before)
    return [delivery.cause] if delivery is not None else []


def _of_timer(tick: t.TimerFired, before: RunState) -> list[int]:
    timer = before.timers.get(tick.timer)
    if timer is None:
        return []
    if timer.kind == "deadline":
        return [before.requests[timer.ref].opened]
    if timer.kind == "sleep":
        return _opened(before, timer.step, timer.ref, timer.mark)
    if timer.kind == "wait":
        return _opened(before, timer.step, before.side.waiters[timer.ref].delivery, timer.mark)
    if timer.kind == "retry":
        delivery = living(before, timer.step, timer.ref)
        return [delivery.cause] if delivery is not None else []
    return []  # a rate, a time limit: nothing in the run asked for this moment


def _opened(before: RunState, step: int, delivery: int, mark: int) -> list[int]:
    """seq of the tick that opened a wait, as the ledger of its delivery has it."""
    found = living(before, step, delivery)
    assert found is not None and found.ledger is not None, "what waits lives, and its wait is in its ledger"
    return [entry.seq for entry in found.ledger.did if isinstance(entry, Did) and entry.mark == mark]
