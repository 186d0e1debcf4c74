"""What a person may change while a run is paused, as the panel shows it: what waits before the gate, each entry with a
number, what it will do and what may be done with it; what waits for a worker; and timers that can be fired early."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice
from typing import Any

from flownb.consequences import consequences
from flownb.core.editing import may_be_edited
from flownb.core.gate import is_control
from flownb.core.graph import short
from flownb.core.outstanding import describe
from flownb.core.reduce import reduce
from flownb.core.state import Delivery, RunState, Timer, is_ended
from flownb.core.ticks import AnyTick, EventArrived, EventsSent, ValueRecorded
from flownb.core.values import Out
from flownb.debug.editing import outs_in
from flownb.debug.inbox import Work
from flownb.errors import WorkflowError
from flownb.forms.payload import rows
from flownb.notebook.drafts import draft_of
from flownb.notebook.viewmodel import caption
from flownb.run import Run

#: Entries and timers that are listed; the rest are counted.
LISTED = 30
#: Of more timers than are looked at any may be left out: this is asked for 20 times a second.
_LOOKED_AT = 200
#: Of so many events, so many fields each are shown.
_BROUGHT, _FIELDS = 2, 3
#: Only what was sent may go nowhere: what a step returned or a person answered happened (R5.30).
_DROPPABLE = (EventArrived, EventsSent)
_TIMERS = {"sleep": "sleeps", "retry": "tries again", "wait": "waits no longer", "deadline": "deadline"}


class Inbox:
    """The entries of one run's inbox by number: a click names one of them, even if others come or go meanwhile."""

    def __init__(self, run: Run[Any]) -> None:
        self._run = run
        self._last = 0
        #: What was listed last: by identity of the tick its number, the tick, and its line with the seq it is of.
        self._listed: dict[int, tuple[int, AnyTick, int, dict[str, Any]]] = {}

    def lines(self) -> list[dict[str, Any]]:
        """`[{"id", "what", "brings", "does", "admit", "edit", "drop", "edited"}, ...]`, next first; empty while the
        gate is open."""
        state = self._run._runner.state
        if not state.gate or is_ended(state):
            self._listed = {}
            return []
        listed = {}
        for tick in islice(self._run.debug.inbox, LISTED):
            known = self._listed.get(id(tick))
            if known is None or known[2] != state.seq:
                number = known[0] if known is not None else self._new()
                known = number, tick, state.seq, _line(number, tick, state)
            listed[id(tick)] = known
        self._listed = listed
        return [line for *_, line in listed.values()]

    def _new(self) -> int:
        self._last += 1
        return self._last

    def tick(self, number: int) -> AnyTick:
        """The entry with a number that was shown.

        Raises:
            WorkflowError: It is not in the inbox any more.
        """
        now = {id(tick) for tick in self._run.debug.inbox}
        for known, tick, *_ in self._listed.values():
            if known == number and id(tick) in now:
                return tick
        raise WorkflowError("That tick is not in the inbox any more: it was admitted, edited or dropped meanwhile.")

    def work(self, number: int) -> Work:
        """The delivery with a number that waits.

        Raises:
            WorkflowError: It does not wait any more.
        """
        found = next((work for work in self._run.debug.inbox.work if work.delivery == number), None)
        if found is None or found.where == "running":
            raise WorkflowError(f"Delivery {number} waits no more: it was started or dropped meanwhile.")
        return found


def _line(number: int, tick: AnyTick, state: RunState) -> dict[str, Any]:
    kind, step, event, keys = caption(tick, state)
    is_work = not is_control(tick)
    return {
        "id": number,
        "what": " ".join(filter(None, (step, kind, event, keys))),
        "brings": _fields_in(outs_in(tick)),
        "does": _does(tick, state),
        "admit": is_work,
        "edit": is_work and not isinstance(tick, ValueRecorded) and draft_of(tick) is not None,
        "drop": isinstance(tick, _DROPPABLE),
        "edited": getattr(tick, "hand", None) is not None,
    }


def _fields_in(outs: Sequence[Out]) -> str:
    """What comes with a tick or a delivery: the first fields of the first ones, "no=1, name='a'"."""
    shown = [", ".join(f"{name}={text}" for name, text in rows(out.value, 32)[:_FIELDS]) for out in outs[:_BROUGHT]]
    more = [f"and {len(outs) - _BROUGHT:,} more"] if len(outs) > _BROUGHT else []
    return " | ".join([*filter(None, shown), *more])


def _does(tick: AnyTick, state: RunState) -> str:
    """What it would do if it were admitted now: the reducer is pure, so it can be asked."""
    try:
        after, commands = reduce(state, tick)
    except Exception:  # not now: its turn has not come yet
        return "its turn comes later"
    return "; ".join(consequences(state, tick, after, commands, 1))


def work_lines(state: RunState) -> list[dict[str, Any]]:
    """`[{"id", "what", "brings", "does", ...}, ...]` of deliveries that wait for a worker, for their next attempt or
    behind a breakpoint; empty while the gate is open. `id` is the number of the delivery."""
    if not state.gate or is_ended(state):
        return []
    found: list[dict[str, Any]] = []
    for spec, step in zip(state.spec.steps, state.steps, strict=True):
        ahead = (step.waiting[n] for n in chain(step.front, step.again) if step.waiting.get(n) is not None)
        still = (d for d in islice(step.waiting.values(), _LOOKED_AT) if not d.due and (d.held or _is_retrying(d)))
        for d in islice(chain(ahead, still, step.queue), LISTED - len(found)):
            why = "held back by a breakpoint" if d.held else "tried again later" if _is_retrying(d) else ""
            line = {"id": d.id, "what": f"{spec.name} · {describe(d.out)}", "does": why, "admit": False}
            brings = _fields_in(d.out if isinstance(d.out, tuple) else (d.out,))
            found.append({**line, "brings": brings, "edit": may_be_edited(d), "drop": True, "edited": False})
    return found


def _is_retrying(d: Delivery) -> bool:
    return d.tries is not None and d.tries.timer > 0


def timer_lines(state: RunState) -> list[dict[str, Any]]:
    """`[{"id", "what", "due"}, ...]`, the next one first; `due` in Unix seconds of the run's clock."""
    if is_ended(state):
        return []
    found = [timer for timer in islice(state.timers.values(), _LOOKED_AT) if timer.kind in _TIMERS]
    found.sort(key=lambda timer: (timer.due_at, timer.id))
    return [
        {"id": timer.id, "what": _timer_words(timer, state), "due": round(timer.due_at, 3)} for timer in found[:LISTED]
    ]


def _timer_words(timer: Timer, state: RunState) -> str:
    if timer.kind == "deadline":
        request = state.requests.get(timer.ref)
        step = state.spec.steps[request.step].name if request is not None and request.step >= 0 else "start"
        return f"{step}: deadline of {short(request.question.key) if request is not None else 'a question'}"
    return f"{state.spec.steps[timer.step].name} {_TIMERS[timer.kind]}"


__all__ = ["LISTED", "Inbox", "timer_lines", "work_lines"]
