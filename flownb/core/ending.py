"""The ends of a run. The tick that ends it is its last one and closes all that is open."""

from __future__ import annotations

from flownb.core.commands import CloseRequest, DisarmTimer, FinishRun, Publish, StopStep
from flownb.core.draft import Draft
from flownb.core.persist import Fifo, Table
from flownb.core.state import ENDED, Abandoned, Status
from flownb.core.values import Failure, Out


def complete(draft: Draft, out: Out, step: int) -> None:
    """The first stop wins."""
    draft.result = out
    _end(draft, "completed")
    draft.commands.append(Publish("stop", out, step))
    draft.commands.append(FinishRun())


def fail(draft: Draft, failure: Failure, step: int = -1) -> None:
    """The run fails with what a step, or the engine itself (step -1), says."""
    draft.failure, draft.failed_step = failure, step
    _end(draft, "failed")
    info = {"type": failure.type, "message": failure.message}
    draft.commands.append(Publish("failed", None, step, info))
    draft.commands.append(FinishRun())


def cancel(draft: Draft, reason: str, by: str) -> None:
    draft.reason, draft.by = reason, by
    _end(draft, "cancelled")
    draft.commands.append(Publish("cancelled", info={"reason": reason, "by": by}))
    draft.commands.append(FinishRun())


def has_ended(draft: Draft) -> bool:
    return draft.status in ENDED


def _end(draft: Draft, status: Status) -> None:
    """Close queues, waits, timers, requests and joins; list the work that is cut off."""
    draft.status = status
    cut: list[Abandoned] = []
    for i, state in enumerate(draft.steps):
        if i not in draft.touched and not (state.active.n or state.waiting.n or state.queue.n):
            continue
        step = draft.step(i)
        for d in step.active.values():
            cut.append(Abandoned(i, d.id, "running"))
            draft.commands.append(StopStep(i, d.id, d.start))
        for d in step.waiting.values():
            cut.append(Abandoned(i, d.id, "waiting"))
            draft.commands.append(StopStep(i, d.id, d.start))
        cut += [Abandoned(i, d.id, "queued") for d in (*step.queue, *step.arrivals)]
        step.front, step.queue, step.active, step.waiting, step.workers = Fifo(), Fifo(), Table(), Table(), 0
        step.arrivals.clear()
    draft.commands += [DisarmTimer(timer.id) for timer in draft.timers.values()]
    draft.commands += [CloseRequest(request.id, "closed") for request in draft.requests.values()]
    draft.timers, draft.requests, draft.joins = Table(), Table(), Table()
    draft.busy = draft.sleeps = draft.budget = 0
    draft.gate = ()
    draft.abandoned = tuple(cut)
