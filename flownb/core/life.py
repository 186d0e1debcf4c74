"""The run's own life: start, take-over, gate, cancel, quiet, and what comes from outside."""

from __future__ import annotations

from flownb.core.commands import Publish
from flownb.core.draft import Draft, all_steps, changed
from flownb.core.ending import cancel, fail
from flownb.core.outstanding import waits_for, why_stalled
from flownb.core.persist import Fifo, Table
from flownb.core.routing import send
from flownb.core.spec import takers
from flownb.core.state import EMPTY_STEP, Delivery, RunState
from flownb.core.ticks import (
    CancelRequested,
    EventArrived,
    GateClosed,
    GateOpened,
    QuietNoticed,
    RunOpened,
    RunStarted,
    StepsGranted,
)
from flownb.core.values import Failure

MAILBOX_LIMIT = 1_000


def first_state(tick: RunStarted) -> RunState:
    """The state before the first tick: a spec and nothing done."""
    steps = (EMPTY_STEP,) * len(tick.spec.steps)
    return RunState(tick.spec, tick.run_id, at=tick.at, started_at=tick.at, steps=steps)


def on_run_started(draft: Draft, tick: RunStarted) -> None:
    """Only ever the first tick: a run that goes on cannot begin."""
    if draft.before.seq:
        raise ValueError(f"Run {draft.run_id!r} has begun already: RunStarted is the first tick of a journal only.")
    draft.gate = tick.gate
    draft.user = tick.state
    send(draft, tick.out, None, -1)


def on_run_opened(draft: Draft, tick: RunOpened) -> None:
    """What ran in the driver before is lost: back to the front, in the order it had, same attempt (R3.60).

    Waiting deliveries stay where they are; their code is gone, so it starts from the top when a wait is over.
    """
    for _, step in all_steps(draft):
        lost = sorted(step.active.values(), key=lambda d: (d.cause, d.id))
        kept = [changed(d, gone=True) for d in step.waiting.values()]
        step.waiting = Table.of((d.id, d) for d in kept)
        for d in lost:
            step.waiting = step.waiting.set(d.id, changed(d, worker=-1, due=True, gone=True, at=draft.at))
        step.front = Fifo.of([*step.front, *(d.id for d in lost)])
        step.active, step.workers = Table(), 0


def on_gate_closed(draft: Draft, tick: GateClosed) -> None:
    if tick.reason not in draft.gate:
        draft.gate = (*draft.gate, tick.reason)
    draft.budget = 0


def on_gate_opened(draft: Draft, tick: GateOpened) -> None:
    """Each reason is lifted only by its own tick (R5.23)."""
    draft.gate = tuple(reason for reason in draft.gate if reason != tick.reason)


def on_steps_granted(draft: Draft, tick: StepsGranted) -> None:
    draft.budget += tick.n


def on_cancel_requested(draft: Draft, tick: CancelRequested) -> None:
    cancel(draft, tick.reason, tick.by)


def on_event_arrived(draft: Draft, tick: EventArrived) -> None:
    """An outside event that nobody takes yet is kept for those that come later (R2.30)."""
    out = tick.out
    if tick.step is not None or out.role in ("stop", "request") or takers(draft.spec, out.key, out.role, out.bases):
        send(draft, out, None, -1, tick.step)
    elif len(draft.mailbox) < MAILBOX_LIMIT:
        draft.mailbox = draft.mailbox.put(out)
    else:
        draft.ignored += 1


def on_quiet_noticed(draft: Draft, tick: QuietNoticed) -> None:
    """Waiting if somebody outside can move the run, else stalled (R5.34, R5.36)."""
    state = draft.before
    if state.busy or state.sleeps or state.status != "running":
        draft.ignored += 1
        return
    waiting = waits_for(state)
    if waiting or draft.spec.stalled == "wait":
        draft.status = "waiting"
        draft.commands.append(Publish("idle", info={"waits_for": tuple(waiting)}))
        return
    message = (
        f"Run {state.run_id!r} of workflow {state.spec.name!r} cannot go on: {why_stalled(state)}. "
        "Let a step return a StopEvent on this way, or name the events that come from outside in accepts=[...]."
    )
    fail(draft, Failure("flownb.errors:WorkflowStalled", message))


def lives(state: RunState) -> list[Delivery]:
    """Every delivery of a run, wherever it is."""
    return [d for step in state.steps for d in (*step.queue, *step.active.values(), *step.waiting.values())]
