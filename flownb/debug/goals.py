"""Where a run goes to once, and stops: what `run_to`, `over` and `out` wait for."""

from __future__ import annotations

from collections.abc import Callable

from flownb.core.commands import AnyCommand, OpenRequest
from flownb.core.gate import is_control
from flownb.core.state import RunState
from flownb.core.ticks import AnyTick, ChildFinished, GateOpened
from flownb.debug.conditions import Condition
from flownb.debug.subjects import actor, carried, is_any_of, lives, moved, started
from flownb.runtime.gatekeeper import Stop
from flownb.runtime.runner import Runner


def started_step(step: str) -> Stop:
    """That step was started."""

    def hit(before: RunState, tick: AnyTick, after: RunState, commands: list[AnyCommand]) -> bool:
        return any(after.spec.steps[d.step].name == step for d in started(commands))

    return hit


def brought(event: str) -> Stop:
    """A tick brought an event of that type."""

    def hit(before: RunState, tick: AnyTick, after: RunState, commands: list[AnyCommand]) -> bool:
        return is_any_of(after, carried(before, tick), event)

    return hit


def reached(seq: int) -> Stop:
    """That tick was admitted."""
    return lambda before, tick, after, commands: after.seq >= seq


def asked(before: RunState, tick: AnyTick, after: RunState, commands: list[AnyCommand]) -> bool:
    """A question was opened."""
    return any(type(command) is OpenRequest for command in commands)


def met(runner: Runner, when: Condition) -> Stop:
    """A condition of the user's holds after a tick, for one of the events that it brought."""

    def hit(before: RunState, tick: AnyTick, after: RunState, commands: list[AnyCommand]) -> bool:
        outs = carried(before, tick) if when.needs_event else [None]
        return any(when.holds(runner, after, before, tick, out) for out in outs)

    return hit


def child_over(child: int) -> Stop:
    """A child run is over, and its parent knows."""
    return lambda before, tick, after, commands: isinstance(tick, ChildFinished) and tick.child == child


def is_no_move(tick: AnyTick) -> bool:
    """A control tick moves nothing, but for the one that lets held starts begin; a run's first tick is its beginning,
    whether it is in already or not."""
    return is_control(tick) and not isinstance(tick, GateOpened)


class Over:
    """The delivery that the next tick starts or continues is done."""

    def __init__(self) -> None:
        #: Step and id of that delivery, once the tick came.
        self._of: tuple[int, int] | None = None

    def __call__(self, before: RunState, tick: AnyTick, after: RunState, commands: list[AnyCommand]) -> bool:
        if self._of is None:
            d = None if is_no_move(tick) else moved(before, tick, after, commands)
            if d is None:
                return not is_control(tick)
            self._of = d.step, d.id
        return not lives(after, *self._of)


class Out:
    """The fan-out around what the next tick is about has fired; without one, the run itself is over.

    Args:
        leave_run: Called, once, if there is none: a child run is left for its parent.
    """

    def __init__(self, leave_run: Callable[[], None]) -> None:
        self._leave_run = leave_run
        self._is_placed = False
        #: That fan-out, 0 for none.
        self._join = 0

    def __call__(self, before: RunState, tick: AnyTick, after: RunState, commands: list[AnyCommand]) -> bool:
        if not self._is_placed:
            d, own = moved(before, tick, after, commands), actor(before, tick)
            if is_no_move(tick) or (d is None and is_control(tick)):
                return False
            self._is_placed = True
            paths = [each.path for each in (d, own) if each is not None and each.path is not None]
            self._join = paths[0].join if paths else 0
            if not self._join:
                self._leave_run()
        return self._join > 0 and self._join not in after.joins
