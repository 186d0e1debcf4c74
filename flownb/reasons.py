"""Why a run does what it does, in words."""

from __future__ import annotations

from flownb.core.outstanding import waits_for, why_stalled
from flownb.core.state import RunState, is_ended
from flownb.moment import Moment
from flownb.runtime.runner import Runner


class Reason(str):
    """A text that shows as text in a cell."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def why(runner: Runner, moment: Moment) -> Reason:
    """The reason of the present moment."""
    state = runner.state
    if runner.suspended:
        return Reason(f"Suspended: {runner.suspended}")
    if runner.blocked:
        return Reason(f"Blocked: the journal cannot be written ({runner.blocked}); it is tried again.")
    if is_ended(state):
        return Reason(_why_ended(state))
    said = []
    if state.gate:
        waits = f"{len(runner.inbox)} ticks wait in the inbox" if runner.inbox else "the inbox is empty"
        said.append(f"Paused ({', '.join(state.gate)}); {waits}.")
    for word, held in (("Running", moment.running), ("Queued", moment.queued), ("Waiting", moment.waiting)):
        if held:
            said.append(f"{word}: " + ", ".join(f"{step} ({', '.join(e)})" for step, e in held.items()) + ".")
    waiting = waits_for(state)
    if waiting:
        said.append("It waits for the outside: " + "; ".join(waiting) + ".")
    return Reason(" ".join(said) or f"Nothing moves: {why_stalled(state)}.")


def _why_ended(state: RunState) -> str:
    if state.status == "failed" and state.failure is not None:
        where = state.spec.steps[state.failed_step].name if state.failed_step >= 0 else "the engine"
        return f"Failed at tick {state.seq} in {where}: {state.failure.type}: {state.failure.message}"
    if state.status == "cancelled":
        return f"Cancelled{' by ' + state.by if state.by else ''}: {state.reason or 'no reason given'}."
    return f"Completed at tick {state.seq}."
