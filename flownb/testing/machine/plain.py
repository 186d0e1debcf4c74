"""Where a run comes to if all that is open ends in the plainest way."""

from __future__ import annotations

from collections.abc import Iterator

from flownb.core import ticks as t
from flownb.core.commands import ArmTimer, FinishRun
from flownb.core.invariants import broken
from flownb.core.outstanding import is_quiet, outstanding
from flownb.core.reduce import reduce
from flownb.core.state import RunState, is_ended
from flownb.core.timing import LIMIT
from flownb.core.values import Out
from flownb.testing.feed import out


def ended(state: RunState) -> tuple[object, ...]:
    """How often each step was done, and the status, when nothing is left to do.

    What a step returns depends on its input alone: so it is the same for whichever driver, in whichever order. Only a
    race that ends its losers depends on who was first, and so does where a chain of causes becomes too long: of those
    it says that they came to an end.
    """
    for _ in range(5_000):
        tick = next(_plain(state), None)
        if tick is None:
            break
        state, _ = reduce(state, tick)
        assert broken(state) == [], (tick, broken(state))
        if is_ended(state):
            break
    else:
        raise AssertionError(f"the run goes on for ever: {state!r}")
    side, timers = (
        state.side,
        state.timers.n - (LIMIT in state.timers),
    )  # by the clock on the wall a run's limit goes on
    left = (state.busy, state.sleeps, state.requests.n, timers, state.joins.n, side.waiters.n, side.children.n)
    assert is_ended(state) or not any(left), f"nothing can come next, and this is left: {left} of {state!r}"
    limit = state.timers.get(LIMIT)
    owed = [command for command in outstanding(state) if limit is None or command != ArmTimer(limit)]
    assert owed == [FinishRun()] * is_ended(state), "a run with nothing to do owes something"
    if any(step.cancel_rest for step in state.spec.steps) or state.head.terms.max_starts < 100:
        return ("an end",)
    return state.status, state.end.failed_step, [step.done for step in state.steps], state.unhandled


def _plain(state: RunState) -> Iterator[t.AnyTick]:
    """What may come next; the first of these does."""
    at = state.at + 1
    if state.status == "suspended":
        yield t.RunOpened(at, "another")
    for reason in state.gate:
        yield t.GateOpened(at, reason)
    for hold in state.side.holds:
        yield t.HoldChanged(at, hold)
    for step_spec, step in zip(state.spec.steps, state.steps, strict=True):
        for d in step.active.values():
            yield t.StepFinished(at, step_spec.name, d.id, d.start)
    for timer in state.timers.values():
        if timer.kind in ("sleep", "retry", "rate"):
            yield t.TimerFired(max(at, timer.due_at), timer.id)
    for request in state.requests.values():
        yield t.RequestAnswered(at, request.id, out("Reply", "plain"), decision="retry")
    for child in state.side.children:
        yield t.ChildFinished(at, child, "completed", out("Value", "child"))
    for waiter in state.side.waiters.values():
        value = _With({name: required.value for name, required in waiter.requires.items()})
        yield t.EventArrived(at, Out(waiter.event, value), state.spec.steps[waiter.step].name)
    if is_quiet(state):
        yield t.QuietNoticed(at)


class _With:
    """An event with these fields."""

    model_fields = ()

    def __init__(self, fields: dict[str, object]) -> None:
        self.__dict__.update(fields)
