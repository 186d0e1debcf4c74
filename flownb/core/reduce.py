"""`reduce(state, tick) -> (state, commands)`: pure, total, the same answer every time.

Each family of ticks has a file; this one only dispatches. A table by type, not a `match`: the thirteenth case of a
match costs more than most handlers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeGuard

from msgspec.structs import replace

from flownb.core import adopting, editing, life, retrying, steps, ticks, waiting
from flownb.core.commands import AnyCommand
from flownb.core.draft import Draft
from flownb.core.ending import finish_cancel, has_ended, trip
from flownb.core.gate import CONTROL_KINDS
from flownb.core.state import ENDED, RunState
from flownb.core.timing import keep_time

Reduced = tuple[RunState, list[AnyCommand]]

HANDLERS: dict[type[ticks.Tick], Callable[[Draft, Any], None]] = {
    ticks.StepFinished: steps.on_step_finished,
    ticks.StepFailed: retrying.on_step_failed,
    ticks.EventsSent: steps.on_events_sent,
    ticks.StreamWritten: steps.on_stream_written,
    ticks.StreamRewound: steps.on_stream_rewound,
    ticks.StateWritten: steps.on_state_written,
    ticks.ValueRecorded: steps.on_value_recorded,
    ticks.WaitOpened: waiting.on_wait_opened,
    ticks.WaitWithdrawn: waiting.on_wait_withdrawn,
    ticks.TimerFired: waiting.on_timer_fired,
    ticks.RequestAnswered: waiting.on_request_answered,
    ticks.RequestDisposed: waiting.on_request_disposed,
    ticks.RequestHeld: waiting.on_request_held,
    ticks.ChildChanged: waiting.on_child_changed,
    ticks.ChildFinished: waiting.on_child_finished,
    ticks.EventArrived: life.on_event_arrived,
    ticks.QuietNoticed: life.on_quiet_noticed,
    ticks.RunStarted: life.on_run_started,
    ticks.RunForked: life.on_run_forked,
    ticks.RunOpened: life.on_run_opened,
    ticks.RunSuspended: life.on_run_suspended,
    ticks.GateClosed: life.on_gate_closed,
    ticks.GateOpened: life.on_gate_opened,
    ticks.StepsGranted: life.on_steps_granted,
    ticks.BreakpointHit: life.on_breakpoint_hit,
    ticks.EventEdited: editing.on_event_edited,
    ticks.EventDropped: editing.on_event_dropped,
    ticks.HoldChanged: life.on_hold_changed,
    ticks.CancelRequested: life.on_cancel_requested,
    ticks.DefinitionAdopted: adopting.on_definition_adopted,
}


def reduce(state: RunState, tick: ticks.Tick) -> Reduced:
    """The state after one more tick, and what the runner must now do.

    Raises:
        ValueError: The run is over; nothing comes after its last tick.
    """
    if state.status in ENDED:
        raise ValueError(f"Run {state.run_id!r} is {state.status}: its last tick is {state.seq}.")
    kind = type(tick)
    draft = Draft(state, tick.at, tick.held)
    if draft.budget and kind not in CONTROL_KINDS:
        draft.budget -= 1
    HANDLERS[kind](draft, tick)
    if draft.status not in ENDED:
        _go_on(draft)
    return draft.freeze(), draft.commands


def _go_on(draft: Draft) -> None:
    if draft.tripped:
        trip(draft)
        if has_ended(draft):
            return
    draft.settle()
    if draft.status == "cancelling" and not draft.busy and not _waits(draft):
        finish_cancel(draft)
        return
    limit = draft.head.terms.timeout_s
    if limit is not None:
        keep_time(draft, limit)


def _waits(draft: Draft) -> bool:
    return any((draft.touched.get(i) or step).waiting.n for i, step in enumerate(draft.steps))


def begin(tick: ticks.RunStarted | ticks.RunForked) -> Reduced:
    """The first tick of a run: its start, or a fork of a snapshot."""
    if isinstance(tick, ticks.RunForked):
        return reduce(replace(tick.snapshot, seq=0), tick)
    return reduce(life.first_state(tick), tick)


def fold(journal: Iterable[ticks.Tick]) -> RunState:
    """The state after all ticks of a journal.

    Raises:
        ValueError: The journal does not begin with a first tick, or goes on after its end.
    """
    rest = iter(journal)
    state, _ = advance(None, next(rest, None))
    for tick in rest:
        state, _ = reduce(state, tick)
    return state


def advance(state: RunState | None, tick: ticks.Tick | None) -> Reduced:
    """One more tick of a journal, the first one too: before that there is no state.

    Raises:
        ValueError: A journal does not begin with this tick, or the run is over.
    """
    if state is not None:
        assert tick is not None
        return reduce(state, tick)
    if not is_first(tick):
        raise ValueError(f"a run begins with RunStarted, not with {type(tick).__name__}")
    return begin(tick)


def is_first(tick: object) -> TypeGuard[ticks.RunStarted | ticks.RunForked]:
    """Whether a journal may begin with a tick."""
    return isinstance(tick, ticks.RunStarted) or (isinstance(tick, ticks.RunForked) and tick.snapshot is not None)
