"""One plain sentence for each tick, for people who learn what an event-driven engine does.

    score finished with Scored(score=0.9): review gets it and starts
    score failed with ValueError('x'), attempt 1: it is tried again in 2 s
    review asks a person: Approve(no=1)

In front of the colon stands what happened, behind it what follows. A sentence is a function of the tick and the states
around it, so it is the same whenever and wherever it is told; it is one printable line, and shows no secret.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from flownb.consequences import consequences
from flownb.core import ticks as t
from flownb.core.causes import delivery_of
from flownb.core.commands import AnyCommand
from flownb.core.gate import is_control
from flownb.core.graph import short
from flownb.core.outstanding import waits_for
from flownb.core.state import RunState
from flownb.preview import one_line, preview_name
from flownb.wording import (
    NAMED,
    ROOM_OF_MANY,
    failure_words,
    hand_words,
    listed,
    named,
    person,
    question_words,
    some,
    span,
)

#: A sentence is no longer than this, in characters.
LENGTH = 400

#: Words for what happened, from the state before, the tick and the state after.
Words = Callable[[RunState | None, Any, RunState], str]


def told(before: RunState | None, tick: t.AnyTick, after: RunState, commands: Sequence[AnyCommand]) -> str:
    """What a tick did, as one sentence.

    Args:
        before: The state before it; None for the first tick of a journal.
        tick: It.
        after: The state after it.
        commands: What the reducer gave with that.
    """
    what = WORDS[type(tick)](before, tick, after)
    if tick.hand is not None:
        what = f"{what}, {hand_words(tick.hand)}{_instead_of(tick.hand)}"
    if before is not None and after.counts.ignored > before.counts.ignored:
        is_of_a_step = hasattr(tick, "delivery") and hasattr(tick, "start")
        said = "too late: that start of it is over" if is_of_a_step else "which changes nothing"
        return one_line(f"{what}, {said}", LENGTH)
    follows = "; ".join(consequences(before, tick, after, commands, _carried(tick)))
    return one_line(f"{what}: {follows}" if follows else what, LENGTH)


def happened(state: RunState, tick: t.AnyTick) -> str:
    """What a tick says, whatever follows from it.

    Args:
        state: As it is, or would be, when it comes.
        tick: It.
    """
    return one_line(WORDS[type(tick)](state, tick, state), LENGTH)


def _instead_of(hand: t.Hand) -> str:
    """What was edited."""
    return f" (it was {listed(hand.original)})" if hand.original and not hand.is_dropped else ""


def _carried(tick: t.AnyTick) -> int:
    """How many events the words for a tick name."""
    if is_control(tick):
        return 1 if isinstance(tick, t.RunStarted) else 0
    return len(tick.outs) if isinstance(tick, (t.StepFinished, t.EventsSent)) else 1


class Line(Struct, frozen=True):
    """One tick of a story, with those of its commands that belong to it, and its sentence."""

    seq: int
    tick: t.AnyTick
    commands: tuple[AnyCommand, ...]
    told: str = ""

    def __str__(self) -> str:
        return f"{self.seq:>5}  {self.told or type(self.tick).__name__}"


class Story(tuple[Line, ...]):
    """Ticks with commands, oldest first."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n".join(map(str, self)) or "<an empty story>"


# What steps do.


def _finished(before: RunState | None, tick: t.StepFinished, after: RunState) -> str:
    if not tick.outs:
        return f"{tick.step} finished with {'an empty list' if tick.fan else 'no event'}"
    many = f"a list of {len(tick.outs):,}, " if tick.fan else ""
    return f"{tick.step} finished with {many}{listed(tick.outs)}"


def _failed(before: RunState | None, tick: t.StepFailed, after: RunState) -> str:
    d = delivery_of(tick, before)
    attempt = f", attempt {d.attempt}" if d is not None else ""
    outs = () if d is None else d.out if isinstance(d.out, tuple) else (d.out,)
    given = f", given {listed(outs)}" if outs else ""
    return f"{tick.step} failed with {failure_words(tick.failure)}{attempt}{given}"


def _sent(before: RunState | None, tick: t.EventsSent, after: RunState) -> str:
    outs = tick.hand.original if tick.hand is not None and tick.hand.is_dropped else tick.outs
    return f"{tick.step} sent {listed(outs)}{f' to {tick.target}' if tick.target else ''}"


def _wrote(before: RunState | None, tick: t.StateWritten, after: RunState) -> str:
    said = [f"{preview_name(name)} = {named(out, ROOM_OF_MANY)}" for name, out in [*tick.changes.items()][:NAMED]]
    more = len(tick.changes) - len(said)
    said += [f"{more:,} more"] if more else []
    gone = (
        f"{tick.step} removed {some([preview_name(name) for name in tick.dropped])} from the state"
        if tick.dropped
        else ""
    )
    return " and ".join(filter(None, (f"{tick.step} set {', '.join(said)} in the state" if said else "", gone))) or (
        f"{tick.step} wrote nothing to the state"
    )


def _recorded(before: RunState | None, tick: t.ValueRecorded, after: RunState) -> str:
    return f"{tick.step} got {named(tick.out)} ({one_line(tick.name, ROOM_OF_MANY)}), the same whenever it runs again"


def _waits(before: RunState | None, tick: t.WaitOpened, after: RunState) -> str:
    d, wait = delivery_of(tick, before), tick.wait
    if d is not None and tick.mark in d.waits:
        return f"{tick.step} goes on waiting for what it waited for"
    if d is not None and d.ledger is not None and tick.mark <= d.ledger.marks:
        return f"{tick.step} waits for what has come already"
    match wait:
        case t.Sleep():
            return f"{tick.step} sleeps for {span(wait.due_at - tick.at)}"
        case t.Ask():
            return f"{tick.step} asks a person: {named(wait.question)}{_deadline(wait, tick.at)}"
        case t.Await():
            asks = f" and asks a person: {named(wait.question)}" if wait.question is not None else ""
            within = f" for {span(wait.due_at - tick.at)} at most" if wait.due_at is not None else ""
            return f"{tick.step} waits for {short(wait.event)}{within}{asks}"
        case t.RunChild():
            return f"{tick.step} runs {short(wait.workflow)} with {named(wait.out)} as a child, and waits for its end"


def _deadline(ask: t.Ask, at: float) -> str:
    if ask.due_at is None:
        return ""
    then = f", then {named(ask.default, ROOM_OF_MANY)} is taken" if ask.default is not None else ""
    return f", within {span(ask.due_at - at)}{then}"


#: What a step waits for, by the kind of its wait.
_KINDS = {"sleep": "its sleep", "ask": "its question", "event": "its wait for an event", "child": "its child run"}


def _gave_up(before: RunState | None, tick: t.WaitWithdrawn, after: RunState) -> str:
    d = delivery_of(tick, before)
    wait = d.waits.get(tick.mark) if d is not None else None
    return f"{tick.step} gave up {_KINDS[wait.kind] if wait is not None else 'a wait'}"


# Timers, answers, children, the outside.


def _fired(before: RunState | None, tick: t.TimerFired, after: RunState) -> str:
    timer = before.timers.get(tick.timer) if before is not None else None
    if before is None or timer is None:
        is_limit = after.status == "timed_out"  # its timer stands in no table
        return "the time of the run is over" if is_limit else f"timer {tick.timer} fired"
    if timer.kind == "timeout":
        return f"the time of the run, {span(before.head.terms.timeout_s or 0.0)}, is over"
    if timer.kind == "grace":
        return "the time of the @on_cancel steps is over"
    if timer.kind == "deadline":
        request = before.requests.get(timer.ref)
        default = request.default if request is not None else None
        then = f", so {named(default, ROOM_OF_MANY)} is taken" if default is not None else " and nobody answered"
        return f"the time for {question_words(before, timer.ref)} is over{then}"
    name = before.spec.steps[timer.step].name
    if timer.kind == "wait":
        waiter = before.side.waiters.get(timer.ref)
        return f"{name} has waited for {short(waiter.event) if waiter is not None else 'an event'} in vain"
    return {"sleep": f"{name} has slept", "retry": f"{name} is tried again", "rate": f"{name} may start the next"}[
        timer.kind
    ]


def _answered(before: RunState | None, tick: t.RequestAnswered, after: RunState) -> str:
    question = question_words(before, tick.request)
    if tick.decision:
        done = {"retry": "run it again", "done": "it is done", "fail": "it failed"}[tick.decision]
        return f"{person(tick.by)} said what became of {question}: {done}"
    who = {"default": "its default", "policy": "a policy", "event": "an event"}.get(tick.how, "a person")
    return f"{person(tick.by, who)} answered {question} with {named(tick.answer)}"


def _disposed(before: RunState | None, tick: t.RequestDisposed, after: RunState) -> str:
    question = question_words(before, tick.request)
    if tick.superseded:
        return f"another question takes the place of {question}"
    return f"{person(tick.by)} disposed of {question}{_because(tick.reason)}"


def _child_changed(before: RunState | None, tick: t.ChildChanged, after: RunState) -> str:
    return f"{_child(before, tick.child)} {'goes on' if tick.active else 'waits for the outside'}"


def _child_finished(before: RunState | None, tick: t.ChildFinished, after: RunState) -> str:
    how = {"completed": "completed", "failed": "failed", "timed_out": "timed out", "cancelled": "was cancelled"}
    what = tick.out if tick.status == "completed" else None
    ended = f" with {named(what)}" if what is not None else ""
    ended = f" with {failure_words(tick.failure)}" if not ended and tick.failure is not None else ended
    return f"{_child(before, tick.child)} {how[tick.status]}{ended}"


def _child(before: RunState | None, number: int) -> str:
    child = before.side.children.get(number) if before is not None else None
    if before is None or child is None:
        return f"child {number}"
    return f"{before.spec.steps[child.step].name}'s child {child.run_id}"


def _arrived(before: RunState | None, tick: t.EventArrived, after: RunState) -> str:
    by = f" from {person(tick.by)}" if tick.by else " from outside"
    return f"{named(tick.out)} came{by}{f' for {tick.step}' if tick.step else ''}"


def _quiet(before: RunState | None, tick: t.QuietNoticed, after: RunState) -> str:
    waiting = waits_for(after, NAMED) if after.status == "waiting" else []
    return f"nothing moves by itself any more{f', since {some(waiting)}' if waiting else ''}"


# The run's life and its gate.


def _started(before: RunState | None, tick: t.RunStarted, after: RunState) -> str:
    paused = f", paused ({', '.join(tick.gate)})" if tick.gate else ""
    return f"the run begins with {named(tick.out)}{paused}"


def _forked(before: RunState | None, tick: t.RunForked, after: RunState) -> str:
    return f"the run begins as a fork of {tick.base} at tick {tick.base_seq}"


def _closed(before: RunState | None, tick: t.GateClosed, after: RunState) -> str:
    by = person(tick.by)
    return {
        "person": f"{by} pauses the run",
        "breakpoint": "the run pauses where it was to run to",
        "budget": "the run is about to be suspended, so nothing more passes",
        "parent": "the run pauses with its parent",
        "livelock": "the run pauses, since it turns in a circle",
    }[tick.reason]


def _opened(before: RunState | None, tick: t.GateOpened, after: RunState) -> str:
    by = person(tick.by)
    return {
        "person": f"{by} lets the run go on",
        "breakpoint": f"{by} lets the run go on from where it stopped",
        "budget": f"{by} takes the suspension back",
        "parent": "the run goes on with its parent",
        "livelock": f"{by} lets the run turn on",
    }[tick.reason]


def _granted(before: RunState | None, tick: t.StepsGranted, after: RunState) -> str:
    return f"{tick.n:,} tick{'s' if tick.n != 1 else ''} may pass while the run is paused"


def _hit(before: RunState | None, tick: t.BreakpointHit, after: RunState) -> str:
    failed = f", since its condition failed with {one_line(tick.error, 120)}" if tick.error else ""
    return f"breakpoint {tick.breakpoint}{f' ({one_line(tick.what, 80)})' if tick.what else ''} pauses the run{failed}"


def _held_open(before: RunState | None, tick: t.HoldChanged, after: RunState) -> str:
    if tick.reason:
        return f"the run is held open, since something outside will still send ({one_line(tick.reason, 80)})"
    return "the run is held open no more"


def _cancel(before: RunState | None, tick: t.CancelRequested, after: RunState) -> str:
    return f"{person(tick.by)} cancels the run{_because(tick.reason)}"


def _suspended(before: RunState | None, tick: t.RunSuspended, after: RunState) -> str:
    said = "" if tick.reason.startswith("suspended") else _because(tick.reason)
    by = f" by {person(tick.by)}" if tick.by else ""
    return f"the run is suspended{by}{said}, and nobody drives it until it is resumed"


def _because(reason: str) -> str:
    return f" ({one_line(reason, 80)})" if reason else ""


WORDS: dict[type[t.Tick], Words] = {
    t.StepFinished: _finished,
    t.StepFailed: _failed,
    t.EventsSent: _sent,
    t.StreamWritten: lambda before, tick, after: f"{tick.step} wrote {named(tick.out)} to the stream",
    t.StreamRewound: lambda before, tick, after: f"{tick.step} runs again, so what it wrote to the stream is void",
    t.StateWritten: _wrote,
    t.ValueRecorded: _recorded,
    t.WaitOpened: _waits,
    t.WaitWithdrawn: _gave_up,
    t.TimerFired: _fired,
    t.RequestAnswered: _answered,
    t.RequestDisposed: _disposed,
    t.RequestHeld: lambda before, tick, after: (
        f"{person(tick.by)} stops the countdown of {question_words(before, tick.request)}"
    ),
    t.ChildChanged: _child_changed,
    t.ChildFinished: _child_finished,
    t.EventArrived: _arrived,
    t.QuietNoticed: _quiet,
    t.RunStarted: _started,
    t.RunForked: _forked,
    t.RunOpened: lambda before, tick, after: "the run is taken over, and what ran starts again",
    t.RunSuspended: _suspended,
    t.GateClosed: _closed,
    t.GateOpened: _opened,
    t.StepsGranted: _granted,
    t.BreakpointHit: _hit,
    t.EventEdited: lambda before, tick, after: (
        f"{person(tick.by)} puts {listed(tick.outs)} in the place of {listed(tick.original)} before {tick.step}"
    ),
    t.EventDropped: lambda before, tick, after: f"{person(tick.by)} drops {listed(tick.original)} before {tick.step}",
    t.HoldChanged: _held_open,
    t.DefinitionAdopted: lambda before, tick, after: "the run takes the newest definitions of its steps",
    t.CancelRequested: _cancel,
}
"""By the type of the tick; a test holds that none is missing."""
