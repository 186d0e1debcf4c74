"""What a run's journal says of its deliveries, questions and timers: what a replay has to find again.

Numbers (of deliveries, questions, timers, children) are of one journal only. So each tick is filed under its owner, and
a replay that has found its own delivery for a recorded one knows what its numbers are.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from msgspec import Struct, field

from flownb.core import commands as c
from flownb.core import ticks as t
from flownb.core.life import lives
from flownb.core.reduce import advance
from flownb.core.state import Delivery, Request, RunState
from flownb.core.ticks import AnyTick
from flownb.debug.sameness import content

#: Whom a tick belongs to: its kind, then the recorded numbers.
Owner = tuple[Any, ...]


class Start(Struct):
    """One start of a recorded delivery."""

    number: int
    #: Source hash of the step as it was then.
    source: str
    #: It came to an end of its own: it finished or failed.
    is_over: bool = False


class Recorded(Struct):
    """One recorded delivery that was started."""

    id: int
    step: str
    #: seq of the tick that sent its event.
    cause: int
    #: What `ctx.task_key` was.
    key: str
    starts: list[Start] = field(default_factory=list)
    #: seqs of its own ticks, each with its start number.
    seqs: list[tuple[int, int]] = field(default_factory=list)


class Asked(Struct):
    """One recorded question."""

    id: int
    opened: int
    #: How it ended is among the ticks.
    is_closed: bool = False


class Line(Struct, frozen=True):
    """One recorded tick."""

    seq: int
    tick: AnyTick
    owner: Owner


class Recording:
    """The journal of a run, read once from its first tick to its last.

    Args:
        run_id: The run.
        ticks: Its ticks.
    """

    def __init__(self, run_id: str, ticks: Sequence[AnyTick]) -> None:
        self.run_id = run_id
        self.ticks = ticks
        self.lines: list[Line] = []
        self.deliveries: dict[int, Recorded] = {}
        self.requests: dict[int, Asked] = {}
        #: seqs of ticks of steps that are about how their code was driven, see `is_void`.
        self.void: set[int] = set()
        #: (delivery, mark) of children whose end is among the ticks.
        self.ended_children: set[tuple[int, int]] = set()
        #: Deliveries by step and event, in the order of their starts; questions by step and content.
        self.by_event: dict[Hashable, list[int]] = {}
        self.by_question: dict[Hashable, list[int]] = {}
        #: Deliveries that were under way in the snapshot that it begins with.
        self.under_way: list[Delivery] = []
        state: RunState | None = None
        if isinstance(ticks[0], t.RunForked):
            for d in lives(ticks[0].snapshot):
                if d.start:
                    self.under_way.append(d)
                    self._started(ticks[0].snapshot, d)
        for seq, tick in enumerate(ticks, 1):
            after, commands = advance(state, tick)
            self._take_in(seq, tick, state, after, commands)
            state = after
        assert state is not None
        #: After the last tick.
        self.state: RunState = state

    def _take_in(
        self, seq: int, tick: AnyTick, before: RunState | None, after: RunState, commands: list[c.AnyCommand]
    ) -> None:
        owner = owner_of(tick, before)
        self.lines.append(Line(seq, tick, owner))
        if owner[0] == "step":
            found = self.deliveries.get(owner[1])
            if found is not None:
                found.seqs.append((seq, tick.start))  # type: ignore[union-attr]
                if is_void(tick, before, after):
                    self.void.add(seq)
                if isinstance(tick, (t.StepFinished, t.StepFailed)):
                    for start in found.starts:
                        start.is_over = start.is_over or start.number == tick.start
        elif owner[0] in ("request", "deadline") and owner[1] in self.requests:
            asked = self.requests[owner[1]]
            asked.is_closed = asked.is_closed or not isinstance(tick, t.RequestHeld)
        elif owner[0] == "child" and isinstance(tick, t.ChildFinished):
            self.ended_children.add((owner[1], owner[2]))
        for command in commands:
            if isinstance(command, c.StartStep):
                self._started(after, command.delivery, seq)
            elif isinstance(command, c.OpenRequest) and command.request.id not in self.requests:
                self.requests[command.request.id] = Asked(command.request.id, seq)
                self.by_question.setdefault(question_key(after, command.request), []).append(command.request.id)

    def _started(self, state: RunState, d: Delivery, seq: int = 0) -> None:
        spec = state.spec.steps[d.step]
        found = self.deliveries.get(d.id)
        if found is None:
            found = self.deliveries[d.id] = Recorded(d.id, spec.name, d.cause, f"{state.run_id}/{d.id}")
            if seq:
                self.by_event.setdefault(event_key(state, d), []).append(d.id)
        found.starts.append(Start(d.start, spec.source))


def is_void(tick: AnyTick, before: RunState | None, after: RunState) -> bool:
    """Whether a tick of a step tells nothing of what it does: an end that was none, since the step had decided on what
    another one changed and runs again (R4.3); a wait that is open already, and is awaited again (R4.26)."""
    if isinstance(tick, t.StepFinished):
        return bool(tick.collects) and find_delivery(after, tick.delivery) is not None
    if isinstance(tick, t.WaitOpened) and before is not None:
        d = find_delivery(before, tick.delivery)
        return d is not None and tick.mark in d.waits
    return False


def event_key(state: RunState, d: Delivery) -> Hashable:
    """What a delivery is found by: its step and its event."""
    return state.spec.steps[d.step].name, content(d.out)


def question_key(state: RunState, request: Request) -> Hashable:
    """What a question is found by: who asks, and what. An approval never passes to content that nobody saw (R4.71)."""
    step = state.spec.steps[request.step].name if request.step >= 0 else ""
    return step, request.kind, content(request.question)


def owner_of(tick: AnyTick, before: RunState | None) -> Owner:
    """Whom a tick belongs to, by the numbers of its journal: `("step", delivery)`, `("sleep", delivery, mark)`,
    `("wait", delivery, mark)`, `("retry", delivery)`, `("deadline", request)`, `("rate", step)`, `("timeout",)`,
    `("grace",)`, `("child", delivery, mark)`, `("request", request)`, `("hold", delivery)`; `("run",)` for all others,
    `("nobody",)` for what came too late."""
    if isinstance(tick, t.TimerFired):
        return _owner_of_timer(tick.timer, before)
    if isinstance(tick, (t.ChildChanged, t.ChildFinished)):
        child = before.side.children.get(tick.child) if before is not None else None
        return ("child", child.delivery, child.mark) if child is not None else ("nobody",)
    if isinstance(tick, (t.RequestAnswered, t.RequestDisposed, t.RequestHeld)):
        return "request", tick.request
    if isinstance(tick, t.HoldChanged):
        return "hold", _holder(tick, before)
    if hasattr(tick, "start") and hasattr(tick, "delivery"):
        return "step", tick.delivery
    return ("run",)


def _owner_of_timer(number: int, state: RunState | None) -> Owner:
    timer = state.timers.get(number) if state is not None else None
    if timer is None or state is None:
        return ("nobody",)
    if timer.kind == "sleep":
        return "sleep", timer.ref, timer.mark
    if timer.kind == "wait":
        return "wait", state.side.waiters[timer.ref].delivery, timer.mark
    if timer.kind in ("retry", "deadline"):
        return timer.kind, timer.ref
    if timer.kind == "rate":
        return "rate", state.spec.steps[timer.step].name
    return (timer.kind,)


def _holder(tick: t.HoldChanged, before: RunState | None) -> int:
    if tick.reason or before is None:
        return tick.delivery
    hold = before.side.holds.get(tick.hold)
    return hold.delivery if hold is not None else 0


def timer_of(state: RunState, owner: Owner, delivery: int, mark: int, request: int) -> int | None:
    """The number of the timer that belongs to an owner in a state; None for none.

    Args:
        state: The state.
        owner: As `owner_of` gives it.
        delivery: The delivery that is meant here, 0 for none.
        mark: Its mark here.
        request: The question that is meant here.
    """
    kind = owner[0]
    if kind == "deadline":
        asked = state.requests.get(request)
        return (asked.timer or None) if asked is not None else None
    if kind == "rate":
        place = state.spec.index.get(owner[1])
        return (state.steps[place].timer or None) if place is not None else None
    if kind in ("timeout", "grace"):
        return next((timer.id for timer in state.timers.values() if timer.kind == kind), None)
    d = find_delivery(state, delivery)
    if d is None:
        return None
    if kind == "retry":
        return (d.tries.timer or None) if d.tries is not None else None
    wait = d.waits.get(mark)
    if wait is None:
        return None
    if kind == "sleep":
        return wait.ref if wait.kind == "sleep" else None
    return (state.side.waiters[wait.ref].timer or None) if wait.kind == "event" else None


def find_delivery(state: RunState, delivery: int) -> Delivery | None:
    """A delivery that was started and is not over."""
    for step in state.steps:
        found = step.active.get(delivery)
        if found is None:
            found = step.waiting.get(delivery)
        if found is not None:
            return found
    return None
