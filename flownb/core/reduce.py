"""`reduce(state, tick) -> (state, commands)`: pure, total, the same answer every time.

Each family of ticks has a file; this one only dispatches. A table by type, not a `match`: the thirteenth case of a
match costs more than most handlers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flownb.core import life, steps, ticks, waiting
from flownb.core.commands import AnyCommand
from flownb.core.draft import Draft
from flownb.core.ending import has_ended
from flownb.core.state import RunState, is_ended

Reduced = tuple[RunState, list[AnyCommand]]

HANDLERS: dict[type[ticks.Tick], Callable[[Draft, Any], None]] = {
    ticks.StepFinished: steps.on_step_finished,
    ticks.StepFailed: steps.on_step_failed,
    ticks.EventsSent: steps.on_events_sent,
    ticks.StreamWritten: steps.on_stream_written,
    ticks.StateWritten: steps.on_state_written,
    ticks.WaitOpened: waiting.on_wait_opened,
    ticks.WaitWithdrawn: waiting.on_wait_withdrawn,
    ticks.TimerFired: waiting.on_timer_fired,
    ticks.RequestAnswered: waiting.on_request_answered,
    ticks.RequestDisposed: waiting.on_request_disposed,
    ticks.EventArrived: life.on_event_arrived,
    ticks.QuietNoticed: life.on_quiet_noticed,
    ticks.RunStarted: life.on_run_started,
    ticks.RunOpened: life.on_run_opened,
    ticks.GateClosed: life.on_gate_closed,
    ticks.GateOpened: life.on_gate_opened,
    ticks.StepsGranted: life.on_steps_granted,
    ticks.CancelRequested: life.on_cancel_requested,
}

_CONTROL = frozenset(ticks.CONTROL)


def reduce(state: RunState, tick: ticks.Tick) -> Reduced:
    """The state after one more tick, and what the runner must now do.

    Raises:
        ValueError: The run is over; nothing comes after its last tick.
    """
    if is_ended(state):
        raise ValueError(f"Run {state.run_id!r} is {state.status}: its last tick is {state.seq}.")
    kind = type(tick)
    draft = Draft(state, tick.at)
    if draft.budget and kind not in _CONTROL:
        draft.budget -= 1
    HANDLERS[kind](draft, tick)
    if not has_ended(draft):
        draft.settle()
    return draft.freeze(), draft.commands


def begin(tick: ticks.RunStarted) -> Reduced:
    """The first tick of a run."""
    return reduce(life.first_state(tick), tick)


def fold(journal: Iterable[ticks.Tick]) -> RunState:
    """The state after all ticks of a journal.

    Raises:
        ValueError: The journal does not begin with `RunStarted`, or goes on after its end.
    """
    rest = iter(journal)
    first = next(rest, None)
    if not isinstance(first, ticks.RunStarted):
        raise ValueError(f"A journal begins with RunStarted, not with {type(first).__name__}.")
    state, _ = begin(first)
    for tick in rest:
        state, _ = reduce(state, tick)
    return state
