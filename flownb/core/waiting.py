"""Waits of running steps (a sleep, a question, an event, a child), and the questions that no step waits for.

A delivery that opens a wait moves to `waiting` and gives its worker back. When the wait is over it goes to the
front of its step's queue with a `Wake`, and its code goes on when it has a worker again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_never

from msgspec.structs import replace

from flownb.core import matching
from flownb.core.closing import close_request, count_people, drop_holds, wake, withdraw
from flownb.core.commands import StartChild
from flownb.core.draft import Draft, bases_of, changed, tries_of
from flownb.core.ending import fail, finish_cancel, has_ended, time_out
from flownb.core.joining import pay
from flownb.core.persist import Fifo
from flownb.core.retrying import retry
from flownb.core.routing import open_request, resolve_waiter, send
from flownb.core.spec import takers
from flownb.core.state import Child, Delivery, Did, Ended, Outcome, Path, Request, Timer, Wait, Waiter, Wake
from flownb.core.ticks import (
    Ask,
    Await,
    ChildChanged,
    ChildFinished,
    RequestAnswered,
    RequestDisposed,
    RequestHeld,
    RunChild,
    Sleep,
    TimerFired,
    WaitOpened,
    WaitWithdrawn,
)
from flownb.core.values import Failure, Out


def on_wait_opened(draft: Draft, tick: WaitOpened) -> None:
    d = draft.live(tick.step, tick.delivery, tick.start)
    if d is None:
        return
    again = tick.mark in d.waits
    if not again and d.ledger is not None and tick.mark <= d.ledger.marks:
        return  # it awaits a wait that ended just now
    step = draft.release(d)
    if d.due:  # woken, without a worker yet: it stays at the front
        draft.busy += 1
    if again:
        # It awaits an open wait again: another one woke it meanwhile, or it runs again from its top (R4.26).
        step.waiting = step.waiting.set(d.id, changed(d, worker=-1, at=draft.at))
        return
    d = changed(d, tries=tries_of(d))
    entry, wait = _OPEN[type(tick.wait)](draft, d, tick.mark, tick.wait)
    waiting = changed(draft.note(d, entry), worker=-1, waits=d.waits.set(tick.mark, wait), at=draft.at)
    step.waiting = step.waiting.set(d.id, waiting)
    if wait.kind == "event" and (draft.side.mailbox.n or draft.side.addressed.n):
        _look_into_mailbox(draft, draft.side.waiters[wait.ref])


def _open_sleep(draft: Draft, d: Delivery, mark: int, wait: Sleep) -> tuple[Did, Wait]:
    timer = Timer(draft.number("timer"), wait.due_at, "sleep", d.id, d.step, mark)
    draft.sleeps += 1
    draft.arm(timer)
    return Did("sleep", draft.seq, d.attempt, None, wait.name, mark), Wait(mark, "sleep", timer.id)


def _open_ask(draft: Draft, d: Delivery, mark: int, ask: Ask) -> tuple[Did, Wait]:
    draft.follow(d)
    request = open_request(
        draft,
        ask.question,
        d.step,
        d.path,
        delivery=d.id,
        mark=mark,
        due_at=ask.due_at,
        default=ask.default,
        kind="ask",
        supersedes=ask.supersedes,
        token=ask.token,
    )
    return Did("ask", draft.seq, d.attempt, ask.question, ask.name, mark), Wait(mark, "ask", request.id)


def _open_event(draft: Draft, d: Delivery, mark: int, wait: Await) -> tuple[Did, Wait]:
    request = 0
    if wait.question is not None:
        draft.follow(d)
        asked = open_request(draft, wait.question, d.step, d.path, delivery=d.id, mark=mark, kind="event")
        request = asked.id
    number = draft.number("waiter")
    timer = draft.number("timer") if wait.due_at is not None else 0
    matching.remember(draft, Waiter(number, d.step, d.id, mark, wait.event, wait.requires, wait.due_at, timer, request))
    if wait.due_at is not None:
        draft.arm(Timer(timer, wait.due_at, "wait", number, d.step, mark))
    name = f"{wait.event} {wait.name}" if wait.name else wait.event
    return Did("event", draft.seq, d.attempt, None, name, mark, wait.requires), Wait(mark, "event", number)


def _open_child(draft: Draft, d: Delivery, mark: int, wait: RunChild) -> tuple[Did, Wait]:
    number = draft.number("child")
    run_id = f"{draft.head.run_id}/{d.id}/{wait.number}" + (f".{wait.attempt}" if wait.attempt > 1 else "")
    child = Child(number, run_id, wait.workflow, wait.out, d.step, d.id, mark)
    draft.set_side(children=draft.side.children.set(number, child), working=draft.side.working + 1)
    draft.commands.append(StartChild(child))
    entry = Did("child", draft.seq, d.attempt, wait.out, wait.workflow, mark, number=wait.number, tries=wait.attempt)
    return entry, Wait(mark, "child", number)


_Opener = Callable[[Draft, Delivery, int, Any], tuple[Did, Wait]]
_OPEN: dict[type, _Opener] = {Sleep: _open_sleep, Ask: _open_ask, Await: _open_event, RunChild: _open_child}


def _look_into_mailbox(draft: Draft, waiter: Waiter) -> None:
    """A reply may have come before the wait for it (R2.30)."""
    name = draft.spec.steps[waiter.step].name
    addressed, kept = list(draft.side.addressed), list(draft.side.mailbox)
    for i, (to, out) in enumerate(addressed):
        if to == name and matching.fits(waiter, out, bases_of(draft, out)):
            draft.set_side(addressed=Fifo.of(addressed[:i] + addressed[i + 1 :]))
            _hand_over(draft, waiter, out)
            return
    for i, out in enumerate(kept):
        if matching.fits(waiter, out, bases_of(draft, out)):
            draft.set_side(mailbox=Fifo.of(kept[:i] + kept[i + 1 :]))
            _hand_over(draft, waiter, out)
            return


def _hand_over(draft: Draft, waiter: Waiter, out: Out) -> None:
    draft.chain, draft.recovered = 0, ()  # it came from outside
    resolve_waiter(draft, waiter.id, out)


def on_wait_withdrawn(draft: Draft, tick: WaitWithdrawn) -> None:
    """The step's own code gave a wait up (R4.28); without another one it goes on, so it needs a worker again."""
    d = draft.live(tick.step, tick.delivery, tick.start)
    if d is None:
        return
    wait = d.waits.get(tick.mark)
    if wait is None:
        draft.ignore()
        return
    withdraw(draft, wait)
    _give_up(draft, d, tick.mark, Outcome("cancelled"))


def _give_up(draft: Draft, d: Delivery, mark: int, outcome: Outcome) -> None:
    """A delivery has a wait less, and nothing came of it. Without another one it needs a worker again."""
    d = draft.note(changed(d, waits=d.waits.drop(mark)), Ended(mark, outcome))
    if d.worker >= 0 or d.waits.n or d.due or d.held or tries_of(d).timer:
        draft.update(d)
    elif d.gone:
        draft.line_up(d)
    else:
        # Its code runs on already, so it holds a worker, over the limit if need be.
        step = draft.step(d.step)
        step.waiting = step.waiting.drop(d.id)
        draft.busy += 1
        draft.occupy(step, d)


def on_timer_fired(draft: Draft, tick: TimerFired) -> None:
    timer = draft.timers.get(tick.timer)
    if timer is None:
        draft.ignore()
        return
    draft.timers = draft.timers.drop(timer.id)
    match timer.kind:
        case "sleep":
            draft.sleeps -= 1
            wake(draft, timer.step, timer.ref, Wake(timer.mark, Outcome("slept")))
        case "retry":
            retry(draft, timer)
        case "rate":
            draft.sleeps -= 1
            step = draft.step(timer.step)
            step.timer = 0
            if tick.hand is not None:  # somebody wants it now (R5.31)
                step.ready_at = draft.at
        case "wait":
            waiter = matching.forget(draft, timer.ref)
            if waiter.request:
                close_request(draft, draft.requests[waiter.request], "expired")
            wake(draft, waiter.step, waiter.delivery, Wake(waiter.mark, Outcome("timed_out")))
        case "deadline":
            request = draft.requests[timer.ref]
            if request.default is not None:
                _resolve(draft, request, request.default, "default")
            else:
                _expire(draft, request, "expired", "deadline", tick.closed)
        case "timeout":
            time_out(draft)
        case "grace":
            finish_cancel(draft)
        case _:
            assert_never(timer.kind)


def on_request_answered(draft: Draft, tick: RequestAnswered) -> None:
    request = draft.requests.get(tick.request)
    if request is None:
        draft.ignore()
        return
    if tick.key:  # the same once more answers no other question (R2.33)
        draft.set_side(keys=draft.side.keys.set(tick.key, draft.seq))
    if request.kind == "unknown":
        _decide(draft, request, tick)
    else:
        _resolve(draft, request, tick.answer, "default" if tick.how == "default" else "answered")


def on_request_disposed(draft: Draft, tick: RequestDisposed) -> None:
    request = draft.requests.get(tick.request)
    if request is None:
        draft.ignore()
        return
    if request.kind == "unknown":
        draft.ignore()  # somebody has to say what became of it
    elif tick.superseded and request.delivery:
        close_request(draft, request, "superseded")
        d = _asker(draft, request)
        if request.kind == "event":
            matching.forget(draft, d.waits[request.mark].ref)
        _give_up(draft, d, request.mark, Outcome("superseded"))
    else:
        _expire(draft, request, "disposed", tick.reason, tick.closed)


def on_request_held(draft: Draft, tick: RequestHeld) -> None:
    """Somebody looks at it: no deadline takes it away (R4.56)."""
    request = draft.requests.get(tick.request)
    if request is not None and request.timer:
        draft.disarm(request.timer)
        draft.requests = draft.requests.set(request.id, replace(request, due_at=None, timer=0))
        return
    if request is not None and request.kind == "event":  # the countdown is that of the wait that shows it
        side = draft.side
        waiter = side.waiters[_asker(draft, request).waits[request.mark].ref]
        if waiter.timer:
            draft.disarm(waiter.timer)
            draft.set_side(waiters=side.waiters.set(waiter.id, replace(waiter, due_at=None, timer=0)))
            return
    draft.ignore()


def _resolve(draft: Draft, request: Request, answer: Out, how: str) -> None:
    """An answer goes to the asker alone; that of a returned question is an event in the question's branch."""
    close_request(draft, request, how)
    if request.kind == "event":
        d = _asker(draft, request)
        resolve_waiter(draft, d.waits[request.mark].ref, answer)
        return
    if request.delivery:
        draft.update(count_people(_asker(draft, request), draft.at))
        outcome = Outcome("default" if how == "default" else "answered", answer)
        wake(draft, request.step, request.delivery, Wake(request.mark, outcome))
        return
    if draft.status == "waiting":  # if nobody takes the answer, the run is quiet anew, for another reason
        draft.status = "running"
    draft.recovered = request.recovered
    made = send(draft, answer, request.path, request.step)
    if not has_ended(draft):
        pay(draft, request.path, made)


def _asker(draft: Draft, request: Request) -> Delivery:
    return draft.find(request.step, request.delivery)


def _expire(draft: Draft, request: Request, how: str, reason: str, closed: Out | None) -> None:
    """A question ended without an answer: its asker fails, or its branch hears of it (R4.76)."""
    close_request(draft, request, how)
    if request.kind == "event":
        matching.forget(draft, _asker(draft, request).waits[request.mark].ref)
    if request.delivery:
        draft.update(count_people(_asker(draft, request), draft.at))
        outcome = Outcome("expired" if how == "expired" else "disposed", None, reason)
        wake(draft, request.step, request.delivery, Wake(request.mark, outcome))
        return
    draft.recovered = request.recovered
    if closed is not None and _hears(draft, closed, request.path):
        if draft.status == "waiting":
            draft.status = "running"
        pay(draft, request.path, send(draft, closed, request.path, request.step))
        return
    name = "AnswerTimeout" if how == "expired" else "RequestDisposed"
    said = "got no answer in time" if how == "expired" else f"was disposed of ({reason})"
    fail(
        draft,
        Failure(
            f"flownb.errors:{name}",
            f"Question {request.id} ({request.question.key}) {said}, and no step takes RequestClosedEvent.",
        ),
        request.step,
    )


def _hears(draft: Draft, closed: Out, path: Path | None) -> bool:
    """Whether a step takes the end of a question, alone or as what it gathers in that branch."""
    spec, args = draft.spec, (closed.key, closed.role, closed.bases)
    if takers(spec, *args) or path is None:
        return bool(takers(spec, *args))
    owned = spec.joins[draft.joins[path.join].source]
    return any(i in owned for i in takers(spec, *args, gathering=True))


def _decide(draft: Draft, request: Request, tick: RequestAnswered) -> None:
    """Somebody said what became of a delivery that was lost while it ran (R3.62)."""
    close_request(draft, request, "answered")
    d = _asker(draft, request)
    d = changed(d, waits=d.waits.drop(request.mark))
    if tick.decision == "retry":
        draft.line_up(changed(d, chain=0))
        return
    step = draft.release(d)
    for wait in d.waits.values():
        withdraw(draft, wait)
    drop_holds(draft, d.id)
    if tick.decision == "fail":
        step.failed += 1
        name, who = draft.spec.steps[d.step].name, tick.by or "somebody"
        said = f"Step {name!r} was lost while it ran, and {who} said that it failed."
        fail(draft, Failure("flownb.errors:StepLost", said), d.step, d.id)
        return
    step.done += 1
    draft.follow(changed(d, chain=0))  # it goes on because of a person
    if draft.status == "waiting":  # quiet anew, if nothing comes of it
        draft.status = "running"
    made = send(draft, tick.answer, d.path, d.step) if tick.answer.role != "value" else 0
    if not has_ended(draft):
        pay(draft, d.path, made)


def on_child_changed(draft: Draft, tick: ChildChanged) -> None:
    """A child moves by itself again, or waits for the outside: so the parent's clock and quiet are right (R6.22)."""
    child = draft.side.children.get(tick.child)
    if child is None or child.active == tick.active:
        draft.ignore()
        return
    side = draft.side
    draft.set_side(
        children=side.children.set(child.id, replace(child, active=tick.active)),
        working=side.working + (1 if tick.active else -1),
    )
    if tick.active and draft.status == "waiting":
        draft.status = "running"


def on_child_finished(draft: Draft, tick: ChildFinished) -> None:
    child = draft.side.children.get(tick.child)
    if child is None:
        draft.ignore()
        return
    side = draft.side
    draft.set_side(children=side.children.drop(child.id), working=side.working - (1 if child.active else 0))
    how: Outcome
    if tick.status == "completed":
        how = Outcome("finished", tick.out)
    elif tick.status == "cancelled":
        how = Outcome("cancelled", failure=tick.failure)
    else:
        how = Outcome("failed", failure=tick.failure)
    wake(draft, child.step, child.delivery, Wake(child.mark, how))
