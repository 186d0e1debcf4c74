"""What may pass when. Pause, single steps and breakpoints are rules of this page and of no other."""

from __future__ import annotations

from collections.abc import Iterable

from flownb.core.state import RunState, Timer, is_ended, is_open
from flownb.core.ticks import CONTROL, AnyTick, RequestAnswered, Tick

#: The types of what passes always.
CONTROL_KINDS = frozenset(CONTROL)


def is_control(tick: Tick) -> bool:
    """Control ticks pass first, and always (R1.24)."""
    return type(tick) in CONTROL_KINDS


def may_pass(state: RunState, tick: Tick) -> bool:
    """Whether the gate admits a tick to this state."""
    return not is_ended(state) and (type(tick) in CONTROL_KINDS or is_open(state))


def is_beaten(timer: Timer, inbox: Iterable[AnyTick]) -> bool:
    """Whether an accepted answer to the timer's question waits already: a deadline never beats it (R1.27)."""
    return timer.kind == "deadline" and any(
        isinstance(tick, RequestAnswered) and tick.request == timer.ref for tick in inbox
    )
