"""Which ticks tell why a run does what it does: what failed, asked, began to wait, closed the gate or was lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from flownb.core.causes import living
from flownb.core.graph import short
from flownb.core.lacking import Lack, lacking
from flownb.core.outstanding import describe, is_still, waits_for
from flownb.core.state import Delivery, Did, RunState
from flownb.core.ticks import AnyTick, BreakpointHit, EventsSent, GateClosed, GateOpened, StepFailed, StepFinished
from flownb.moment import deliveries
from flownb.wording import listed

#: Ticks that are named in a text, joins that are told of, and deliveries of each kind that are looked at.
_LOOKS, _LACKS, _NAMED = 3, 3, 8
#: A step that runs for so long is pointed at, in seconds.
SLOW_S = 1.0

#: A tick to look at, and why, in a few words.
Look = tuple[int, str]


class Reason(str):
    """A text that shows as text in a cell, with the ticks to look at."""

    __slots__ = ("ticks",)

    #: seqs of the ticks that tell more, the most telling first: `run.debug.at(reason.ticks[0])`.
    ticks: tuple[int, ...]

    def __new__(cls, text: str, ticks: Sequence[int] = ()) -> Reason:
        made = super().__new__(cls, text)
        made.ticks = tuple(dict.fromkeys(ticks))
        return made

    def __repr__(self) -> str:
        return str(self)

    def __reduce__(self) -> tuple[type[Reason], tuple[str, tuple[int, ...]]]:
        return type(self), (str(self), self.ticks)


def pointing(text: str, looks: Sequence[Look], *more: int) -> Reason:
    """A text, with the ticks to look at behind it.

    Args:
        text: Why a run does what it does.
        looks: Ticks, the most telling first, each with a few words; the first of them are named.
        more: Further ticks, which the text names itself.
    """
    unique = list({seq: (seq, what) for seq, what in reversed(looks)}.values())[::-1]
    if unique:
        named = [f"tick {seq} ({what})" for seq, what in unique[:_LOOKS]]
        last = f" and {named[-1]}" if len(named) > 1 else named[-1]
        text += f"{'' if text.endswith(('.', '!', '?')) else '.'} Look at {', '.join(named[:-1])}{last}."
    return Reason(text, [*(seq for seq, _ in unique), *more])


def latest(state: RunState, ticks: Sequence[AnyTick]) -> Iterator[tuple[int, AnyTick]]:
    """The ticks that led to a state, or the last ones of them, with their numbers, the newest first."""
    end = min(len(ticks), state.seq)
    for k in range(end, 0, -1):
        yield state.seq - (end - k), ticks[k - 1]


def looks_at(state: RunState, now: float, ticks: Sequence[AnyTick]) -> Iterator[Look]:
    """Of a run that is not over: what closed its gate, failed, asked or began to wait, and what takes long."""
    steps = state.spec.steps
    if state.gate:
        yield from islice(((n, what) for n, tick in latest(state, ticks) if (what := _closes(tick))), 1)
    failed = {d.id: steps[i].name for i in range(len(steps)) for d in deliveries(state, i, "retrying")}
    if failed:
        found = ((n, tick) for n, tick in latest(state, ticks) if isinstance(tick, StepFailed))
        yield from islice(((n, f"{tick.step} failed") for n, tick in found if tick.delivery in failed), _NAMED)
    longest = longest_of(state)
    if longest is not None and now - longest.at >= SLOW_S:
        yield longest.cause, f"{steps[longest.step].name} was given {describe(longest.out)}"
    for request in islice(state.requests.values(), _NAMED):
        asker = steps[request.step].name if request.step >= 0 else "the start"
        yield request.opened, f"{asker} asked {short(request.question.key)}"
    for i, spec in enumerate(steps):
        for d in islice(deliveries(state, i, "waiting"), _NAMED):
            did = d.ledger.did if d.ledger is not None else ()
            opened = [entry.seq for entry in did if isinstance(entry, Did) and entry.mark in d.waits]
            yield from ((n, f"{spec.name} began to wait") for n in opened)
    for lack in telling(state, ticks):
        yield from ((n, f"the way to {lack.step}") for n in lack.ticks)
    if state.status == "waiting" and not waits_for(state, 1):
        yield from looks_at_a_stall(state, ticks)


def _closes(tick: AnyTick) -> str:
    """What a tick that closed the gate was."""
    if isinstance(tick, BreakpointHit):
        return f"breakpoint {tick.breakpoint} was hit"
    if isinstance(tick, GateClosed):
        by = {"person": f"{tick.by or 'somebody'} paused it", "breakpoint": "it was run to here"}
        return by.get(tick.reason, "it was paused")
    return ""


def closed_by_breakpoint(ticks: Sequence[AnyTick]) -> BreakpointHit | GateClosed | None:
    """The breakpoint that closed the gate last, or the goal that did; None if it is not among the last ticks."""
    for tick in islice(reversed(ticks), 100):
        if isinstance(tick, GateOpened) and tick.reason == "breakpoint":
            return None
        if isinstance(tick, BreakpointHit) or (isinstance(tick, GateClosed) and tick.reason == "breakpoint"):
            return tick
    return None


def looks_at_a_stall(state: RunState, ticks: Sequence[AnyTick]) -> Iterator[Look]:
    """The event that nobody took, and what happened last."""
    if state.lost:
        for n, tick in latest(state, ticks):
            outs = (*getattr(tick, "outs", ()), getattr(tick, "out", None), getattr(tick, "answer", None))
            if any(out is not None and out.key == state.lost for out in outs):
                by = tick.step if isinstance(tick, (StepFinished, EventsSent)) else "somebody"
                yield n, f"{by} sent {short(state.lost)}"
                break
    last = ((n, tick) for n, tick in latest(state, ticks) if isinstance(tick, (StepFinished, StepFailed)))
    yield from islice(((n, f"{tick.step} ended last") for n, tick in last), 1)


def looks_at_the_end(state: RunState, ticks: Sequence[AnyTick], before: RunState | None) -> Iterator[Look]:
    """Of a run that failed: its failure, the attempts before, and what the step was given."""
    failure = state.failure
    if failure is None:
        return
    if state.status == "timed_out":
        yield state.seq, "its time was over"
    elif state.failed_step < 0:
        yield state.seq, f"it failed with {short(failure.type)}"
        yield from looks_at_a_stall(state, ticks)
    else:
        name, own = state.spec.steps[state.failed_step].name, state.end.failed_delivery
        yield state.seq, f"{name} failed"
        attempts = (n for n, tick in latest(state, ticks) if isinstance(tick, StepFailed) and tick.delivery == own)
        yield from islice(((n, f"{name} failed before") for n in attempts if n < state.seq), _NAMED)
        d = living(before, state.failed_step, own) if before is not None else None
        if d is not None:
            yield d.cause, f"{name} was given {listed(d.out if isinstance(d.out, tuple) else (d.out,))}"


def longest_of(state: RunState) -> Delivery | None:
    """The delivery that runs longest."""
    return min((d for step in state.steps for d in step.active.values()), key=lambda d: (d.at, d.id), default=None)


def telling(state: RunState, ticks: Sequence[AnyTick]) -> list[Lack]:
    """What joins still lack; of one that only just began, nothing needs to be said while its branches run."""
    is_moving = not is_still(state)
    return [lack for lack in lacking(state, ticks) if lack.misses and (lack.arrived or not is_moving)][:_LACKS]
