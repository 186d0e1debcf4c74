"""Waits of running steps (a sleep, a question), and the questions that no step waits for.

A delivery that opens a wait moves to `waiting` and gives its worker back. When the wait is over it goes to the
front of its step's queue with a `Wake`, and its code goes on when it has a worker again.
"""

from __future__ import annotations

from flownb.core.commands import ArmTimer, CloseRequest, DisarmTimer, WakeStep
from flownb.core.draft import Draft, changed
from flownb.core.ending import fail, has_ended
from flownb.core.joining import pay
from flownb.core.routing import open_request, send
from flownb.core.spec import takers
from flownb.core.state import Delivery, Outcome, Request, Timer, Wait, Wake
from flownb.core.ticks import RequestAnswered, RequestDisposed, Sleep, TimerFired, WaitOpened, WaitWithdrawn
from flownb.core.values import Failure, Out


def on_wait_opened(draft: Draft, tick: WaitOpened) -> None:
    d = draft.live(tick.step, tick.delivery, tick.start)
    if d is None:
        draft.ignored += 1
        return
    step = draft.release(d)
    if d.due:  # woken, without a worker yet: it stays at the front
        draft.busy += 1
    if any(wait.mark == tick.mark for wait in d.waits):
        # It awaits an open wait again: another one woke it meanwhile, or it runs again from its top.
        step.waiting = step.waiting.set(d.id, changed(d, worker=-1, at=draft.at))
        return
    if isinstance(tick.wait, Sleep):
        timer = Timer(draft.next_timer, tick.wait.due_at, "sleep", d.id, d.step, tick.mark)
        draft.next_timer += 1
        draft.sleeps += 1
        draft.timers = draft.timers.set(timer.id, timer)
        draft.commands.append(ArmTimer(timer))
        wait = Wait(tick.mark, "sleep", timer.id)
    else:
        ask = tick.wait
        request = open_request(
            draft,
            ask.question,
            d.step,
            d.path,
            delivery=d.id,
            mark=tick.mark,
            due_at=ask.due_at,
            default=ask.default,
        )
        wait = Wait(tick.mark, "ask", request.id)
    waiting = changed(draft.record(d), worker=-1, waits=(*d.waits, wait), at=draft.at)
    step.waiting = step.waiting.set(d.id, waiting)


def on_wait_withdrawn(draft: Draft, tick: WaitWithdrawn) -> None:
    """The step's own code gave a wait up (R4.28); without another one it goes on, so it needs a worker again."""
    d = draft.live(tick.step, tick.delivery, tick.start)
    wait = next((w for w in d.waits if w.mark == tick.mark), None) if d is not None else None
    if d is None or wait is None:
        draft.ignored += 1
        return
    _withdraw(draft, wait)
    left = changed(d, waits=tuple(w for w in d.waits if w is not wait))
    if left.worker < 0 and not left.waits and not left.due:
        # Its code runs on already, so it holds a worker, over the limit if need be.
        step = draft.step(d.step)
        step.waiting = step.waiting.drop(d.id)
        draft.busy += 1
        draft.occupy(step, left)
    else:
        draft.update(left)


def withdraw_all(draft: Draft, d: Delivery) -> None:
    """The step ended with waits open."""
    for wait in d.waits:
        _withdraw(draft, wait)


def _withdraw(draft: Draft, wait: Wait) -> None:
    if wait.kind == "sleep":
        draft.sleeps -= 1
        draft.timers = draft.timers.drop(wait.ref)
        draft.commands.append(DisarmTimer(wait.ref))
    else:
        _close(draft, draft.requests[wait.ref], "withdrawn")


def on_timer_fired(draft: Draft, tick: TimerFired) -> None:
    timer = draft.timers.get(tick.timer)
    if timer is None:
        draft.ignored += 1
        return
    if timer.kind == "sleep":
        draft.timers = draft.timers.drop(timer.id)
        draft.sleeps -= 1
        _wake(draft, timer.step, timer.ref, Wake(timer.mark, Outcome("slept")))
        return
    request = draft.requests[timer.ref]
    if request.default is not None:
        _resolve(draft, request, request.default, "default")
    else:
        _expire(draft, request, "expired", "deadline", tick.closed)


def on_request_answered(draft: Draft, tick: RequestAnswered) -> None:
    request = draft.requests.get(tick.request)
    if request is None:
        draft.ignored += 1
        return
    _resolve(draft, request, tick.answer, "default" if tick.how == "default" else "answered")


def on_request_disposed(draft: Draft, tick: RequestDisposed) -> None:
    request = draft.requests.get(tick.request)
    if request is None:
        draft.ignored += 1
        return
    _expire(draft, request, "disposed", tick.reason, tick.closed)


def _resolve(draft: Draft, request: Request, answer: Out, how: str) -> None:
    """An answer goes to the asker alone; that of a returned question is an event in the question's branch."""
    _close(draft, request, how)
    if request.delivery:
        _wake(
            draft,
            request.step,
            request.delivery,
            Wake(request.mark, Outcome("default" if how == "default" else "answered", answer)),
        )
        return
    if draft.status == "waiting":  # if nobody takes the answer, the run is quiet anew, for another reason
        draft.status = "running"
    made = send(draft, answer, request.path, request.step)
    if not has_ended(draft):
        pay(draft, request.path, made)


def _expire(draft: Draft, request: Request, how: str, reason: str, closed: Out | None) -> None:
    """A question ended without an answer: its asker fails, or its branch hears of it (R4.76)."""
    _close(draft, request, how)
    if request.delivery:
        outcome = Outcome("expired" if how == "expired" else "disposed", None, reason)
        _wake(draft, request.step, request.delivery, Wake(request.mark, outcome))
        return
    if closed is not None and _has_taker(draft, closed):
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


def _has_taker(draft: Draft, out: Out) -> bool:
    return bool(takers(draft.spec, out.key, out.role, out.bases))


def _close(draft: Draft, request: Request, how: str) -> None:
    draft.requests = draft.requests.drop(request.id)
    draft.commands.append(CloseRequest(request.id, how))
    if request.timer and request.timer in draft.timers:
        draft.timers = draft.timers.drop(request.timer)
        draft.commands.append(DisarmTimer(request.timer))


def _wake(draft: Draft, i: int, delivery: int, wake: Wake) -> None:
    """A wait of a delivery is over: it stands at the front of its step's queue, once, with all its outcomes."""
    step = draft.step(i)
    d = step.waiting.get(delivery)
    if d is None:  # it goes on already, woken by another of its waits
        d = step.active[delivery]
        running = changed(draft.record(d), waits=tuple(w for w in d.waits if w.mark != wake.mark))
        step.active = step.active.set(d.id, running)
        draft.commands.append(WakeStep(running, (wake,)))
        return
    waits = tuple(w for w in d.waits if w.mark != wake.mark)
    woken = changed(draft.record(d), waits=waits, wakes=(*d.wakes, wake), due=True, at=draft.at)
    step.waiting = step.waiting.set(d.id, woken)
    if not d.due:
        step.front = step.front.put(d.id)
        draft.busy += 1
