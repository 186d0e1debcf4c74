"""What a store lists of what runs wait for, derived from the commands of a turn.

A store has a row for each open question, and for each timer and retry that wakes a run by itself, so that nobody has
to fold journals to find out what is due.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from flownb.core import commands as c
from flownb.core.state import Request, RunState, Timer
from flownb.core.ticks import QuietNoticed, RequestHeld, RunForked, RunOpened, TimerFired
from flownb.store.journal import Kind, Waits

if TYPE_CHECKING:
    from flownb.runtime.gatekeeper import Seen

#: Kinds of timers that are listed, by the word for people. The time limits of a run and of its `@on_cancel` steps count
#: only while somebody drives it, and a deadline stands with its question.
_LISTED: dict[str, Kind] = {"sleep": "timer", "wait": "timer", "rate": "timer", "retry": "retry"}
_INDEXED = frozenset({c.ArmTimer, c.DisarmTimer, c.OpenRequest, c.CloseRequest})
_ALL_ANEW = (RunForked, RunOpened)
_LOOKED_AT = frozenset({*_ALL_ANEW, TimerFired, QuietNoticed, RequestHeld})

Key = tuple[Kind, int]


def has_more(seen: Iterable[Seen]) -> bool:
    """Whether a store has more to do about a turn than to write its ticks: rows of what the run waits for, entries of
    the inbox, a look whether something came."""
    for _, tick, _, commands in seen:
        if tick.entry or type(tick) in _LOOKED_AT:
            return True
        for command in commands:
            if type(command) in _INDEXED:
                return True
    return False


def waits_after(seen: Iterable[Seen], question: Callable[[RunState, Request], Waits]) -> tuple[list[Waits], list[Key]]:
    """The rows that a turn makes or changes, and the keys of those that it ends.

    Args:
        seen: What was reduced in the turn.
        question: The row of a question, by the state after the tick that opens or tells it.
    """
    made: dict[Key, Waits] = {}
    ended: set[Key] = set()

    def make(row: Waits) -> None:
        made[row.kind, row.id] = row
        ended.discard((row.kind, row.id))

    def end(key: Key) -> None:
        made.pop(key, None)
        ended.add(key)

    def end_timer(timer: Timer | None) -> None:
        if timer is not None and timer.kind in _LISTED:
            end((_LISTED[timer.kind], timer.id))

    for before, tick, after, commands in seen:
        kind = type(tick)
        if kind in _ALL_ANEW:
            for row in all_waits(after, question):
                make(row)
            continue
        if kind is TimerFired:
            end_timer(before.timers.get(tick.timer))  # type: ignore[union-attr]
        elif kind is RequestHeld and tick.request in after.requests:  # type: ignore[union-attr]
            make(question(after, after.requests[tick.request]))  # type: ignore[union-attr]
        for command in commands:
            if type(command) not in _INDEXED:
                continue
            if isinstance(command, c.ArmTimer):
                if command.timer.kind in _LISTED:
                    make(timer_row(after, command.timer))
            elif isinstance(command, c.DisarmTimer):
                end_timer(before.timers.get(command.timer))
            elif isinstance(command, c.OpenRequest):
                make(question(after, command.request))
            elif isinstance(command, c.CloseRequest):
                end(("request", command.request))
    return list(made.values()), list(ended)


def all_waits(state: RunState, question: Callable[[RunState, Request], Waits]) -> list[Waits]:
    """The rows of all that a run waits for."""
    timers = [timer_row(state, timer) for timer in state.timers.values() if timer.kind in _LISTED]
    return [*timers, *(question(state, request) for request in state.requests.values())]


def timer_row(state: RunState, timer: Timer) -> Waits:
    step = state.spec.steps[timer.step].name if timer.step < len(state.spec.steps) else ""
    return Waits(_LISTED[timer.kind], timer.id, timer.due_at, step)


def question_row(state: RunState, request: Request, body: bytes, token: str) -> Waits:
    """The row of a question.

    Args:
        state: Of the run that asks.
        request: The question.
        body: The question itself, written.
        token: The hash of the token that answers it.
    """
    step = state.spec.steps[request.step].name
    return Waits("request", request.id, request.due_at, step, body, token)
