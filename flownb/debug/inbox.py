"""What comes next, and what waits for whom: `run.debug.inbox`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Literal

from msgspec import Struct

from flownb.core.graph import short
from flownb.core.lacking import Lack, lacking
from flownb.core.reduce import advance
from flownb.core.state import Delivery, RunState, Timer, is_ended
from flownb.core.ticks import AnyTick, StepFailed, StepFinished
from flownb.debug.subjects import outs_of
from flownb.moment import failure_of, waits_of
from flownb.narration import happened, told
from flownb.preview import preview
from flownb.runtime.runner import Runner

#: So many of each kind are named in a repr; the rest is counted.
_NAMED = 12
#: In so many of the last ticks it is looked for what collecting steps want.
_LOOKED_AT = 1_000


class Work(Struct, frozen=True):
    """One event on its way through one step: a delivery."""

    step: str
    #: Its number.
    delivery: int
    #: The events that it brings to the step; several for one that gathers a list or takes several at once.
    events: tuple[Any, ...]
    #: queued: for a worker. held: a breakpoint keeps it. retrying: its next attempt. waiting: see `why`.
    where: Literal["queued", "held", "retrying", "waiting", "running"]
    #: What it waits for, in words.
    why: str

    def __str__(self) -> str:
        more = len(self.events) - _NAMED
        named = ", ".join(preview(event, 60) for event in self.events[:_NAMED]) or "[]"
        named += f" and {more:,} more" if more > 0 else ""
        return f"{self.step} {self.where}: {named}{f', {self.why}' if self.why else ''}"


class Alarm(Struct, frozen=True):
    """Something that happens by itself."""

    #: What `run.debug.fire` takes.
    number: int
    #: sleep, retry, wait (for an event), deadline (of a question), rate, timeout or grace.
    kind: str
    #: The step that it is for, "" for the run itself.
    step: str
    #: Unix seconds, and how many there are till then.
    due_at: float
    in_s: float

    def __str__(self) -> str:
        return f"{self.step or 'the run'}: {self.kind} in {max(0.0, self.in_s):.3g} s (timer {self.number})"


class Inbox(tuple[AnyTick, ...]):
    """What arrived and is not admitted yet, next first; and, as of the same moment, what waits for whom."""

    _state: RunState
    _now: float
    #: The last ones that were admitted.
    _ticks: Sequence[AnyTick]

    @property
    def work(self) -> tuple[Work, ...]:
        """The deliveries that are not over, by step: waiting for a worker, a timer, a person, or running."""
        over = {tick.delivery for tick in self if isinstance(tick, (StepFinished, StepFailed))}
        return tuple(_work(self._state, d, d.id in over) for d in work_of(self._state))

    @property
    def timers(self) -> tuple[Alarm, ...]:
        """What happens by itself, first what is due first."""
        state = self._state
        found = [
            Alarm(timer.id, timer.kind, _of_whom(state, timer), timer.due_at, timer.due_at - self._now)
            for timer in state.timers.values()
        ]
        return tuple(sorted(found, key=lambda alarm: (alarm.due_at, alarm.number)))

    @property
    def people(self) -> tuple[str, ...]:
        """Who is asked what, in words."""
        steps = self._state.spec.steps
        return tuple(
            f"{steps[r.step].name if r.step >= 0 else 'the start'} asks {short(r.question.key)} (request {r.id})"
            for r in self._state.requests.values()
        )

    @property
    def joins(self) -> tuple[Lack, ...]:
        """What steps that take several events still lack: how many of how many came, what is missing, and where."""
        return tuple(lacking(self._state, self._ticks))

    @property
    def does(self) -> tuple[str, ...]:
        """What each of the ticks would do if they were admitted in this order, in words."""
        return tuple(_trial(self._state, self))

    def __repr__(self) -> str:
        gate = f"the gate is closed ({', '.join(self._state.gate)})" if self._state.gate else "the gate is open"
        lines = [f"<Inbox of {self._state.run_id}: {len(self)} tick{'s' if len(self) != 1 else ''}, {gate}"]
        lines += [f"  {i:>3} {said}" for i, said in enumerate(islice(_trial(self._state, self), _NAMED))]
        lines += _more(len(self))
        for title, found in (
            ("work", self.work),
            ("joins", tuple(f"{each.step}: {each.words()}" for each in self.joins)),
            ("timers", self.timers),
            ("people", self.people),
        ):
            if found:
                lines += [f"  {title}:", *(f"    {each}" for each in found[:_NAMED]), *_more(len(found))]
        return "\n".join(lines) + ">"


def _more(n: int) -> list[str]:
    return [f"    and {n - _NAMED:,} more"] if n > _NAMED else []


def inbox_of(runner: Runner) -> Inbox:
    """What waits before the gate of a run, on the thread that asks."""
    inbox = Inbox((*runner.control, *runner.inbox))
    inbox._state, inbox._ticks = runner.state, runner.ticks[-_LOOKED_AT:]
    inbox._now = max(runner.clock.now(), runner.state.at)
    return inbox


def work_of(state: RunState) -> Iterator[Delivery]:
    """Every delivery of a run, by step; of each step those that run first, then those that go ahead of the queue."""
    for step in state.steps:
        yield from chain(step.active.values(), step.waiting.values(), step.queue)


def _work(state: RunState, d: Delivery, is_over: bool) -> Work:
    name, events = state.spec.steps[d.step].name, tuple(out.value for out in outs_of(d))
    if d.worker >= 0 and is_over:
        return Work(name, d.id, events, "running", "its end waits before the gate")
    if d.worker >= 0:
        return Work(name, d.id, events, "running", f"attempt {d.attempt}" if d.attempt > 1 else "")
    if d.held:
        return Work(name, d.id, events, "held", "a breakpoint holds its start back")
    if d.tries is not None and d.tries.timer:
        return Work(name, d.id, events, "retrying", failure_of(d))
    if d.waits.n and not d.due:
        return Work(name, d.id, events, "waiting", waits_of(state, d))
    return Work(name, d.id, events, "queued", "waits for a worker")


def _of_whom(state: RunState, timer: Timer) -> str:
    """The step that a timer is for."""
    step = timer.step
    if timer.kind == "deadline":
        step = state.requests[timer.ref].step
    elif timer.kind == "wait":
        step = state.side.waiters[timer.ref].step
    elif timer.kind in ("timeout", "grace"):
        return ""
    return state.spec.steps[step].name if step >= 0 else ""


def _trial(state: RunState, ticks: Iterable[AnyTick]) -> Iterator[str]:
    """What each tick would do: the reducer is pure, so that can be known before it has happened."""
    for tick in ticks:
        if is_ended(state):
            yield f"{happened(state, tick)}, too late: the run is over by then"
            continue
        after, commands = advance(state if state.seq else None, tick)
        yield told(state if state.seq else None, tick, after, commands)
        state = after
