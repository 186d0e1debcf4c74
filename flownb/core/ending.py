"""The ends of a run. The tick that ends it is its last one and closes all that is open."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from flownb.core.commands import (
    NO_INFO,
    ArmTimer,
    CloseRequest,
    DisarmTimer,
    FinishRun,
    Publish,
    StopChild,
    StopStep,
    WakeStep,
)
from flownb.core.draft import Draft
from flownb.core.persist import Table
from flownb.core.state import EMPTY_STEP as _EMPTY
from flownb.core.state import ENDED, NO_SIDE, Abandoned, Side, Status, Timer, active_time
from flownb.core.timing import stop_clock
from flownb.core.values import Failure, Out

#: One for all ended runs.
_NOTHING: Table[Any] = Table()


def complete(draft: Draft, out: Out, step: int) -> None:
    """The first stop wins."""
    draft.end = replace(draft.end, result=out)
    _end(draft, "completed")
    draft.commands.append(Publish("stop", out, step, NO_INFO))
    draft.commands.append(FinishRun())


def fail(draft: Draft, failure: Failure, step: int = -1, delivery: int = 0) -> None:
    """The run fails with what a step, or the engine itself (step -1), says."""
    draft.end = replace(draft.end, failure=failure, failed_step=step, failed_delivery=delivery)
    _end(draft, "failed")
    info = {"type": failure.type, "message": failure.message}
    draft.commands.append(Publish("failed", None, step, info, delivery))
    draft.commands.append(FinishRun())


def cancel(draft: Draft, reason: str, by: str, out: Out | None = None) -> None:
    """The run is cancelled: at once, or, with `@on_cancel` steps, when those are done (R5.50, R5.51)."""
    draft.end = replace(draft.end, reason=reason, by=by)
    handlers = draft.spec.on_cancel if out is not None else ()
    if not handlers:
        _end(draft, "cancelled")
        _tell_cancelled(draft)
        return
    _end(draft, "cancelling")
    draft.chain, draft.recovered, draft.rank = 0, (), 0
    for i in handlers:
        assert out is not None
        draft.deliver(i, out, None)
    draft.arm(Timer(draft.number("timer"), draft.at + draft.head.terms.grace_s, "grace"))


def finish_cancel(draft: Draft) -> None:
    """The `@on_cancel` steps are done, or their time is over."""
    abandoned = draft.end.abandoned
    _end(draft, "cancelled")
    draft.end = replace(draft.end, abandoned=(*abandoned, *draft.end.abandoned))
    _tell_cancelled(draft)


def _tell_cancelled(draft: Draft) -> None:
    draft.commands.append(Publish("cancelled", info={"reason": draft.end.reason, "by": draft.end.by}))
    draft.commands.append(FinishRun())


def time_out(draft: Draft) -> None:
    """The run took longer than its limit (R5.44 to R5.48)."""
    names = [s.name for s in draft.spec.steps]
    active = [names[i] for i, s in enumerate(draft.steps) if s.active.n or s.queue.n]
    asking = [f"{names[r.step] if r.step >= 0 else 'the start'} asks {r.question.key}" for r in draft.requests.values()]
    limit = draft.head.terms.timeout_s
    elapsed = active_time(draft.before, draft.at)
    draft.end = replace(
        draft.end,
        failure=Failure(
            "flownb.errors:WorkflowTimeoutError",
            f"Run {draft.head.run_id!r} of workflow {draft.spec.name!r} took longer than {limit} s. "
            f"Active: {', '.join(active) or 'no step'}. Open questions: {'; '.join(asking) or 'none'}. "
            "Give more time with timeout=, or look at the active steps.",
        ),
    )
    _end(draft, "timed_out")
    info = {"timeout": limit, "elapsed": elapsed, "active": tuple(active), "requests": tuple(asking)}
    draft.commands.append(Publish("timed_out", info=info))
    draft.commands.append(FinishRun())


def trip(draft: Draft) -> None:
    """A chain of causes became too long without anybody from outside in it (R5.70, R5.71)."""
    terms = draft.head.terms
    if terms.livelock == "pause":
        draft.tripped = False
        if "livelock" not in draft.gate:
            draft.gate = (*draft.gate, "livelock")
        draft.budget = 0
        return
    fail(
        draft,
        Failure(
            "flownb.errors:Livelock",
            f"Run {draft.head.run_id!r} of workflow {draft.spec.name!r} started more than {terms.max_starts:,} steps "
            "one after the other, each caused by the one before, and nothing from outside among them. "
            "If this is right, raise max_starts=.",
        ),
    )


def has_ended(draft: Draft) -> bool:
    return draft.status in ENDED


def _take_back(draft: Draft) -> None:
    """What the same tick woke or armed is not begun (R1.14). Its questions are: they are on the stream, and closed."""
    for command in draft.commands:
        if isinstance(command, ArmTimer) and command.timer.id in draft.timers:
            draft.timers = draft.timers.drop(command.timer.id)
    draft.commands = [command for command in draft.commands if not isinstance(command, (WakeStep, ArmTimer))]


def _end(draft: Draft, status: Status) -> None:
    """Close queues, waits, timers, requests and joins; list the work that is cut off."""
    draft.status = status
    _take_back(draft)
    cut: list[Abandoned] = []
    for i, state in enumerate(draft.steps):
        if i not in draft.touched and not (state.active.n or state.waiting.n or state.queue.n or state.timer):
            continue
        step = draft.step(i)
        for d in step.active.values():
            cut.append(Abandoned(i, d.id, "running"))
            draft.commands.append(StopStep(i, d.id, d.start))
        for d in step.waiting.values():
            cut.append(Abandoned(i, d.id, "waiting"))
            draft.commands.append(StopStep(i, d.id, d.start))
        cut += [Abandoned(i, d.id, "queued") for d in (*step.queue, *step.arrivals)]
        step.front, step.again, step.queue = _EMPTY.front, _EMPTY.again, _EMPTY.queue
        step.active, step.waiting, step.workers, step.timer = _EMPTY.active, _EMPTY.waiting, 0, 0
        step.arrivals.clear()
    draft.commands += [DisarmTimer(timer.id) for timer in draft.timers.values()]
    draft.commands += [CloseRequest(request.id, "closed") for request in draft.requests.values()]
    draft.commands += [StopChild(child.id, status) for child in draft.side.children.values()]
    draft.timers, draft.requests, draft.joins = _NOTHING, _NOTHING, _NOTHING
    draft.busy = draft.sleeps = draft.budget = 0
    draft.gate = ()
    stop_clock(draft, draft.at)
    # What nobody took is listed at the end (R2.32).
    side = draft.side
    if side is not NO_SIDE:
        draft.side = Side(mailbox=side.mailbox, addressed=side.addressed, keys=side.keys)
    draft.end = replace(draft.end, abandoned=tuple(cut))
