"""What a failed step leads to: another attempt, a handler of failures, a join that counts with it, or the run's end.

Policies are asked outside; the tick says when the next attempt is due, or carries the event that handlers get.
"""

from __future__ import annotations

from msgspec.structs import replace

from flownb.core.closing import drop_holds, withdraw_all, withdraw_children
from flownb.core.draft import Draft, changed, tries_of
from flownb.core.ending import fail
from flownb.core.joining import collect, pair, pay
from flownb.core.state import Delivery, Timer, Tries
from flownb.core.ticks import StepFailed
from flownb.core.values import Failure, Out


def on_step_failed(draft: Draft, tick: StepFailed) -> None:
    """Without a retry and without anybody who takes its failure, a failed step fails the run (R3.35)."""
    d = draft.live(tick.step, tick.delivery, tick.start)
    if d is None:
        return
    step = draft.release(d)
    if tick.retry_at is not None:
        _try_again(draft, d, tick.failure, tick.retry_at)
        return
    step.failed += 1
    if d.waits.n or draft.side.holds.n:
        withdraw_all(draft, d)
    if draft.status == "cancelling":
        return
    if tick.failed is None:
        fail(draft, tick.failure, d.step, d.id)
        return
    draft.follow(d)
    _recover(draft, d, tick.failure, tick.failed)


def _try_again(draft: Draft, d: Delivery, failure: Failure, retry_at: float) -> None:
    """The next attempt is a timer in the state: it holds no worker (R3.28)."""
    d = withdraw_children(draft, d)
    if draft.side.holds.n:
        drop_holds(draft, d.id)
    tries = replace(tries_of(d), failure=failure)
    again = changed(d, worker=-1, due=False, gone=True, wakes=None, at=draft.at)
    if retry_at <= draft.at:
        draft.line_up(changed(again, attempt=d.attempt + 1, tries=tries))
        return
    timer = Timer(draft.number("timer"), retry_at, "retry", d.id, d.step)
    draft.sleeps += 1
    draft.arm(timer)
    tries = replace(tries, timer=timer.id, due_at=retry_at)
    step = draft.step(d.step)
    step.waiting = step.waiting.set(d.id, changed(again, tries=tries))


def retry(draft: Draft, timer: Timer) -> None:
    """A delayed attempt is due: to the front of its step's queue, behind what was woken (R3.29)."""
    draft.sleeps -= 1
    d = draft.step(timer.step).waiting[timer.ref]
    tries = replace(tries_of(d), timer=0, due_at=0.0)
    draft.line_up(changed(d, attempt=d.attempt + 1, chain=0, tries=tries))


def _recover(draft: Draft, d: Delivery, failure: Failure, failed: Out) -> None:
    """The failure goes on in the same branch: to the handler for that step, else to all that take it (R3.36)."""
    handlers = draft.spec.catchers[d.step]
    if _handles(draft, d):  # a handler's own failure (R3.39)
        fail(draft, failure, d.step, d.id)
        return
    if any(not _may(draft, d.tries, h) for h in handlers):  # its budget is used up (R3.38)
        fail(draft, failure, d.step, d.id)
        return
    draft.rank = d.rank
    recovered, made = draft.recovered, 0
    for h in handlers:
        draft.recovered = _count(recovered, h)
        if h in draft.spec.slotted:
            made += pair(draft, h, failed, d.path)
        else:
            draft.deliver(h, failed, d.path)
            made += 1
    draft.recovered = recovered
    taken = bool(handlers)
    scoped = any(draft.spec.steps[h].catches for h in handlers)
    if d.path is not None and not scoped:
        gathering = draft.spec.lists.get(failed.key, ())
        taken = (bool(gathering) and collect(draft, d.path, gathering, failed)) or taken
    if not taken:
        _incomplete(draft, d, failure)
    else:
        pay(draft, d.path, made)


def _handles(draft: Draft, d: Delivery) -> bool:
    """Whether a failure is what a step was given, other than in a list that it gathers."""
    outs = d.out if isinstance(d.out, tuple) else (d.out,)
    return not draft.spec.steps[d.step].gathers and any(out.role == "failure" for out in outs)


def _may(draft: Draft, tries: Tries | None, handler: int) -> bool:
    limit = draft.spec.steps[handler].max_recoveries
    used = dict(tries.recovered).get(handler, 0) if tries is not None else 0
    return limit is None or used < limit


def _count(recovered: tuple[tuple[int, int], ...], handler: int) -> tuple[tuple[int, int], ...]:
    used = dict(recovered)
    used[handler] = used.get(handler, 0) + 1
    return tuple(used.items())


def _incomplete(draft: Draft, d: Delivery, failure: Failure) -> None:
    """Nobody takes the failure: with a join above, it would have a silent hole (R4.21)."""
    path = d.path
    if path is None:
        fail(draft, failure, d.step, d.id)
        return
    join = draft.joins[path.join]
    names = [step.name for step in draft.spec.steps]
    said = Failure(
        "flownb.errors:JoinIncomplete",
        f"Element {path.index} of the list that step {names[join.source]!r} returned failed in step "
        f"{names[d.step]!r} ({failure.type.rpartition(':')[2]}: {failure.message}), and nobody takes its "
        f"StepFailedEvent: {', '.join(names[t.step] for t in join.targets) or 'its join'} would miss it. Catch it with "
        "@catch_error, or gather list[... | StepFailedEvent].",
        failure.traceback,
    )
    fail(draft, said, d.step, d.id)
