"""The run's own life: start, fork, take-over, gate, holds, cancel, quiet, and what comes from outside."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from flownb.core import matching
from flownb.core.commands import ArmTimer, OpenRequest, Publish, StartChild, Suspend
from flownb.core.draft import Draft, all_steps, changed
from flownb.core.editing import went_nowhere
from flownb.core.ending import cancel, fail, finish_cancel
from flownb.core.outstanding import is_quiet, waits_for, why_stalled
from flownb.core.persist import Fifo, Names, Table
from flownb.core.routing import open_request, send
from flownb.core.spec import takers
from flownb.core.state import EMPTY_STEP, UNKNOWN, Delivery, Head, Hold, RunState, Wait
from flownb.core.ticks import (
    BreakpointHit,
    CancelRequested,
    ChildFinished,
    EventArrived,
    GateClosed,
    GateOpened,
    GateReason,
    HoldChanged,
    QuietNoticed,
    RunForked,
    RunOpened,
    RunStarted,
    RunSuspended,
    StepFailed,
    StepFinished,
    StepsGranted,
    Tick,
)
from flownb.core.timing import stop_clock
from flownb.core.values import Failure, Out

MAILBOX_LIMIT = 1_000
#: So many of whom a quiet run waits for are named on its stream: it may be quiet again after each of 10,000 answers.
NAMED = 100


def first_state(tick: RunStarted) -> RunState:
    """The state before the first tick: a spec and nothing done."""
    steps = (EMPTY_STEP,) * len(tick.spec.steps)
    head = Head(tick.run_id, tick.at, tick.terms, tick.parent)
    return RunState(tick.spec, head, at=tick.at, steps=steps)


def on_run_started(draft: Draft, tick: RunStarted) -> None:
    """Only ever the first tick: a run that goes on cannot begin."""
    if draft.before.seq:
        raise ValueError(
            f"Run {draft.head.run_id!r} has begun already: RunStarted is the first tick of a journal only."
        )
    draft.gate = tick.gate
    if tick.state:
        draft.user = Names.of(tick.state.items())
    send(draft, tick.out, None, -1)


def on_run_opened(draft: Draft, tick: RunOpened) -> None:
    """What ran in the driver before is lost, and starts again; a run that was being cancelled is over (R5.51)."""
    if draft.status == "cancelling":
        finish_cancel(draft)
        return
    if draft.status == "suspended":
        draft.status = "running"
        draft.end = replace(draft.end, reason="", by="")
    _lose_code(draft, tick.unknown, tick.settled)
    if draft.head.terms.timeout_clock != "wall":
        stop_clock(draft, draft.before.at)  # a crash counts up to the last tick (R5.46)


def _lose_code(draft: Draft, unknown: dict[int, Out], settled: tuple[int, ...] = ()) -> None:
    """What ran is lost: back to the front, in the order it had, same attempt (R3.60).

    Waiting deliveries stay where they are; their code is gone, so it starts from the top when a wait is over. What is
    settled is not touched: its end is on its way.
    """
    for _, step in all_steps(draft):
        staying = [d for d in step.active.values() if d.id in settled]
        lost = sorted((d for d in step.active.values() if d.id not in settled), key=lambda d: (d.cause, d.id))
        front = [d for d in map(step.waiting.get, step.front) if d is not None and d.due and not d.gone]
        woken = [d.id for d in front if d.id not in settled]
        kept = [d if d.id in settled else changed(d, gone=True, wakes=None) for d in step.waiting.values()]
        step.waiting = Table.of((d.id, d) for d in kept)
        for d in lost:
            left = changed(d, worker=-1, due=True, gone=True, at=draft.at)
            if d.id in unknown:
                left = _ask_what_became(draft, left, unknown[d.id])
            step.waiting = step.waiting.set(d.id, left)
        again = [d.id for d in lost if d.id not in unknown]
        step.front = Fifo.of(d.id for d in front if d.id in settled)
        step.again = Fifo.of([*woken, *again, *step.again])
        step.active, step.workers = Table.of((d.id, d) for d in staying), sum(1 << d.worker for d in staying)


def _ask_what_became(draft: Draft, d: Delivery, question: Out) -> Delivery:
    """A step that must not simply run again: somebody has to say what became of it (R3.62)."""
    draft.busy -= 1
    request = open_request(draft, question, d.step, d.path, delivery=d.id, mark=UNKNOWN, kind="unknown")
    return changed(d, due=False, waits=d.waits.set(UNKNOWN, Wait(UNKNOWN, "ask", request.id)))


def on_run_forked(draft: Draft, tick: RunForked) -> None:
    """A run of its own, as if the time since its last shared tick had not passed (R6.38 to R6.40)."""
    same = tick.run_id == tick.base  # a snapshot that is opened where its run is not known: no time was given back
    later = 0.0 if same else max(0.0, draft.at - draft.before.at)
    draft.head = replace(draft.head, run_id=tick.run_id, parent=None)
    draft.gate, draft.budget = tick.gate, 0
    if draft.status in ("suspended", "waiting"):  # it notices by itself that it is quiet
        draft.status = "running"
        draft.end = replace(draft.end, reason="", by="")
    _lose_code(draft, {}, tick.settled)
    stop_clock(draft, draft.before.at)
    for _, step in all_steps(draft):
        step.ready_at += later if step.ready_at else 0.0
        step.queue = Fifo.of([_forked(d, tick.events, later) for d in step.queue])
        step.waiting = Table.of((d.id, _forked(d, tick.events, later)) for d in step.waiting.values())
    draft.timers = Table.of((t.id, replace(t, due_at=t.due_at + later)) for t in draft.timers.values())
    draft.requests = Table.of(
        (r.id, replace(r, due_at=None if r.due_at is None else r.due_at + later, token=r.token if same else ""))
        for r in draft.requests.values()
    )
    side = draft.side
    waiters = [replace(w, due_at=None if w.due_at is None else w.due_at + later) for w in side.waiters.values()]
    children = [
        replace(c, run_id=tick.run_id + c.run_id.removeprefix(tick.base), active=True) for c in side.children.values()
    ]
    draft.set_side(
        waiters=Table.of((w.id, w) for w in waiters),
        children=Table.of((c.id, c) for c in children),
        working=len(children),
        holds=side.holds if same else Table(),  # those were promises to the other run
    )
    draft.commands += [ArmTimer(timer) for timer in draft.timers.values()]
    draft.commands += [OpenRequest(request) for request in draft.requests.values()]
    draft.commands += [StartChild(child) for child in children if child.id not in tick.over]
    if draft.side.held.n and "breakpoint" not in draft.gate:
        draft.let_go()
    if tick.state is not None:
        draft.user = Names.of(tick.state.items())


def _forked(d: Delivery, events: dict[int, Out], later: float) -> Delivery:
    tries = d.tries
    if tries is not None:
        first_at = tries.first_at + later if tries.first_at else 0.0
        tries = replace(tries, first_at=first_at, due_at=tries.due_at + later if tries.timer else 0.0)
    # What `_lose_code` took from a worker stands there since this moment already.
    return changed(d, out=events.get(d.id, d.out), tries=tries, at=d.at if d.due else d.at + later)


def on_gate_closed(draft: Draft, tick: GateClosed) -> None:
    _close(draft, tick.reason)


def on_breakpoint_hit(draft: Draft, tick: BreakpointHit) -> None:
    _close(draft, "breakpoint")


def _close(draft: Draft, reason: GateReason) -> None:
    if reason not in draft.gate:
        draft.gate = (*draft.gate, reason)
    draft.budget = 0


def on_gate_opened(draft: Draft, tick: GateOpened) -> None:
    """Each reason is lifted only by its own tick (R5.23)."""
    was_closed = tick.reason in draft.gate
    draft.gate = tuple(reason for reason in draft.gate if reason != tick.reason)
    if tick.reason == "livelock" and was_closed:  # somebody looked, and wants it to go on
        terms = draft.head.terms
        draft.head = replace(draft.head, terms=replace(terms, max_starts=2 * terms.max_starts))
    if draft.side.held.n and "breakpoint" not in draft.gate:
        draft.let_go()


def on_steps_granted(draft: Draft, tick: StepsGranted) -> None:
    draft.budget += tick.n
    if draft.side.held.n:
        draft.let_go()


def on_hold_changed(draft: Draft, tick: HoldChanged) -> None:
    holds = draft.side.holds
    if tick.reason and tick.delivery and not _is_started(draft, tick.delivery):
        draft.ignore()  # late: nobody would end it
    elif tick.reason:
        draft.set_side(holds=holds.set(tick.hold, Hold(tick.reason, tick.delivery)))
    elif tick.hold in holds:
        draft.set_side(holds=holds.drop(tick.hold))
    else:
        draft.ignore()
        return
    if draft.status == "waiting":  # quiet anew, or not quiet any more
        draft.status = "running"


def _is_started(draft: Draft, delivery: int) -> bool:
    found = (step.active.get(delivery) or step.waiting.get(delivery) for step in draft.steps)
    return any(d is not None and not d.gone for d in found)


def on_cancel_requested(draft: Draft, tick: CancelRequested) -> None:
    if draft.status == "cancelling":
        draft.ignore()
    else:
        cancel(draft, tick.reason, tick.by, tick.out)


def on_run_suspended(draft: Draft, tick: RunSuspended) -> None:
    """Nobody drives it; all stays as it is until somebody opens it again (R5.53).

    One that is being cancelled is over: nobody would finish its `@on_cancel` steps (R5.51).
    """
    if draft.status == "cancelling":
        finish_cancel(draft)
        return
    draft.status = "suspended"
    draft.end = replace(draft.end, reason=tick.reason, by=tick.by)
    draft.commands.append(Suspend())


def on_event_arrived(draft: Draft, tick: EventArrived) -> None:
    """An outside event that nobody takes yet is kept for those that come later (R2.30)."""
    side, out = draft.side, tick.out
    if draft.status == "cancelling" or tick.key in side.keys:  # webhooks repeat (R2.33)
        draft.ignore()
        return
    goes = out.role in ("stop", "request") or is_wanted(draft, out, tick.step) or not _may_wait(draft, tick.step)
    is_dropped = tick.hand is not None and tick.hand.is_dropped
    if not goes and not is_dropped and side.mailbox.n + side.addressed.n >= MAILBOX_LIMIT:
        draft.ignore()  # its key too is as if it had not come
        return
    if tick.key:
        draft.set_side(keys=side.keys.set(tick.key, draft.seq))
    if is_dropped:
        went_nowhere(draft, (out,), -1, tick.hand.by)  # type: ignore[union-attr]
    elif goes:
        send(draft, out, None, -1, tick.step)
    elif tick.step is None:
        draft.set_side(mailbox=side.mailbox.put(out))
    else:
        draft.set_side(addressed=side.addressed.put((tick.step, out)))
    if draft.status == "waiting":  # quiet anew, for another reason
        draft.status = "running"


def is_wanted(draft: Draft, out: Out, to: str | None = None) -> bool:
    """Whether a step or a waiter takes an event now; or this one step."""
    only = None if to is None else draft.spec.index.get(to, -1)
    steps = takers(draft.spec, out.key, out.role, out.bases)
    if steps if only is None else only in steps:
        return True
    return bool(draft.side.waiters.n and matching.takers(draft, out, only))


def _may_wait(draft: Draft, to: str | None) -> bool:
    """Whether somebody may take a kept event later: any, or this one step if its code waits for events."""
    place = None if to is None else draft.spec.index.get(to, -1)
    return place is None or (place >= 0 and draft.spec.steps[place].waits)


def offer_mailbox(draft: Draft) -> None:
    """There are new takers: what one of them takes leaves the mailbox."""
    kept: list[tuple[str | None, Out]] = [*draft.side.addressed, *((None, out) for out in draft.side.mailbox)]
    draft.set_side(mailbox=Fifo(), addressed=Fifo())
    for to, out in kept:
        side = draft.side
        if is_wanted(draft, out, to):
            send(draft, out, None, -1, to)
        elif to is None:
            draft.set_side(mailbox=side.mailbox.put(out))
        else:
            draft.set_side(addressed=side.addressed.put((to, out)))


def on_quiet_noticed(draft: Draft, tick: QuietNoticed) -> None:
    """Waiting if somebody outside can move the run, else stalled (R5.34, R5.36)."""
    state = draft.before
    if not is_quiet(state):
        draft.ignore()
        return
    waiting = waits_for(state, NAMED)
    if waiting or draft.spec.stalled == "wait":
        draft.status = "waiting"
        draft.commands.append(Publish("idle", info={"waits_for": tuple(waiting)}))
        return
    message = (
        f"Run {state.run_id!r} of workflow {state.spec.name!r} cannot go on: {why_stalled(state)}. "
        "Let a step return a StopEvent on this way, or name the events that come from outside in accepts=[...]."
    )
    fail(draft, Failure("flownb.errors:WorkflowStalled", message))


def ends_in(state: RunState, ticks: Iterable[Tick]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The deliveries, and the children, of a run whose end is among ticks that were not admitted yet."""
    settled: list[int] = []
    over: list[int] = []
    for tick in ticks:
        if isinstance(tick, (StepFinished, StepFailed)):
            step = state.steps[state.spec.index[tick.step]] if tick.step in state.spec.index else EMPTY_STEP
            d = step.active.get(tick.delivery) or step.waiting.get(tick.delivery)
            if d is not None and d.start == tick.start and not d.gone:
                settled.append(d.id)
        elif isinstance(tick, ChildFinished) and tick.child in state.side.children:
            over.append(tick.child)
    return tuple(settled), tuple(over)


def lives(state: RunState) -> list[Delivery]:
    """Every delivery of a run, wherever it is."""
    return [d for step in state.steps for d in (*step.queue, *step.active.values(), *step.waiting.values())]
