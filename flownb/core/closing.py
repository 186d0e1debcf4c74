"""How what is open is closed: questions, waits, children, whole deliveries."""

from __future__ import annotations

from msgspec.structs import replace

from flownb.core.commands import CloseRequest, StopChild, StopStep, WakeStep
from flownb.core.draft import Draft, both, changed, tries_of
from flownb.core.matching import forget
from flownb.core.persist import Chain
from flownb.core.state import UNKNOWN, Delivery, Ended, Outcome, Request, Wait, Wake
from flownb.core.values import Out


def close_request(draft: Draft, request: Request, how: str, answer: Out | None = None) -> None:
    draft.requests = draft.requests.drop(request.id)
    draft.commands.append(CloseRequest(request.id, how, answer))
    if request.timer:
        draft.disarm(request.timer)


def withdraw(draft: Draft, wait: Wait, how: str = "withdrawn") -> None:
    """Nobody waits for it any more."""
    if wait.kind == "sleep":
        draft.sleeps -= 1
        draft.disarm(wait.ref)
    elif wait.kind == "ask":
        close_request(draft, draft.requests[wait.ref], how)
    elif wait.kind == "event":
        waiter = forget(draft, wait.ref)
        if waiter.request:
            close_request(draft, draft.requests[waiter.request], how)
    else:
        child = draft.side.children[wait.ref]
        draft.set_side(
            children=draft.side.children.drop(child.id), working=draft.side.working - (1 if child.active else 0)
        )
        draft.commands.append(StopChild(child.id, how))


def withdraw_all(draft: Draft, d: Delivery, how: str = "withdrawn") -> None:
    """A delivery ends with waits open."""
    for wait in d.waits.values():
        withdraw(draft, wait, how)
    if draft.side.holds.n:
        drop_holds(draft, d.id)


def withdraw_children(draft: Draft, d: Delivery) -> Delivery:
    """An attempt failed: its children end with it (R6.27); what else it waits for stays open for the next one."""
    for wait in list(d.waits.values()):
        if wait.kind == "child":
            withdraw(draft, wait)
            d = draft.note(changed(d, waits=d.waits.drop(wait.mark)), Ended(wait.mark, Outcome("cancelled")))
    return d


def drop_holds(draft: Draft, delivery: int) -> None:
    for key, hold in list(draft.side.holds.items()):
        if hold.delivery == delivery:
            draft.set_side(holds=draft.side.holds.drop(key))


def cut(draft: Draft, d: Delivery) -> None:
    """End a delivery, whatever it does, without a result."""
    if d.worker >= 0 or (d.start and not d.gone):
        draft.commands.append(StopStep(d.step, d.id, d.start))
    draft.release(d)
    withdraw_all(draft, d)
    if d.tries is not None and d.tries.timer:
        draft.sleeps -= 1
        draft.disarm(d.tries.timer)
    if d.held:
        draft.set_side(held=draft.side.held.drop(d.id))


def wake(draft: Draft, i: int, delivery: int, woken: Wake) -> None:
    """A wait of a delivery is over: it stands at the front of its step's queue, once, with all its outcomes.

    One that starts again anyway (its next attempt, a new driver) finds the outcome in its ledger. One whose own end is
    unknown does not start before somebody said what became of it (R3.62).
    """
    step = draft.step(i)
    d = step.waiting.get(delivery)
    if d is None:  # it goes on already, woken by another of its waits
        d = step.active[delivery]
        running = _ended(draft, d, woken)
        step.active = step.active.set(d.id, running)
        draft.commands.append(WakeStep(running, (woken,)))
        return
    d = _ended(draft, d, woken)
    if (d.tries is not None and d.tries.timer) or d.held or UNKNOWN in d.waits:
        step.waiting = step.waiting.set(d.id, d)
    elif d.gone:
        if d.due:
            step.waiting = step.waiting.set(d.id, d)
        else:
            draft.line_up(d)
    else:
        wakes = (d.wakes if d.wakes is not None else Chain()).add(woken)
        if d.due:
            step.waiting = step.waiting.set(d.id, changed(d, wakes=wakes))
        else:
            draft.line_up(changed(d, wakes=wakes), first=True)


def _ended(draft: Draft, d: Delivery, woken: Wake) -> Delivery:
    """The delivery without that wait.

    What wakes it is one more of its causes: an event of another delivery lengthens its chain, a child leaves it, all
    else comes from people, the outside or a timer and begins a new one (R5.70).
    """
    chain = d.chain if woken.outcome.how in _OF_A_CHILD else max(d.chain, draft.chain) if draft.chain else 0
    ended = changed(d, waits=d.waits.drop(woken.mark), chain=chain)
    if draft.recovered:
        tries = tries_of(d)
        ended = changed(ended, tries=replace(tries, recovered=both(tries.recovered, draft.recovered)))
    return draft.note(ended, Ended(woken.mark, woken.outcome))


_OF_A_CHILD = ("finished", "failed", "cancelled")


def count_people(d: Delivery, at: float) -> Delivery:
    """The delivery with the time that it waited for a person left out of its policy's clock (R3.31).

    One that runs meanwhile, or waits for a worker or for its next attempt, does not wait for the person alone.
    """
    tries = d.tries
    if tries is None or tries.timer or d.worker >= 0 or d.due:
        return d
    return changed(d, tries=replace(tries, asked_s=tries.asked_s + at - d.at))
