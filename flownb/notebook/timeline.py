"""What ran when: lanes, spans and marks of a run, computed from its ticks. Pure; `timeline_svg` draws it.

A lane is a step. Its rows are the deliveries that are under way at once: one takes the first free row when a worker
takes it and keeps it until it is over, with all its attempts and waits; while it is queued it takes none, since ten
thousand may be queued. A question that no delivery waits for takes a row as well.

             row 0   [running][waits for a person ......][running]
             row 1   [running ✖][retry delay..][running ✔]
             queue   ───────────
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from flownb.core import commands as c
from flownb.core import ticks as t
from flownb.core.causes import living
from flownb.core.changes import Change, changes
from flownb.core.graph import short
from flownb.core.reduce import advance
from flownb.core.state import Delivery, Request, RunState, is_ended, shown_status
from flownb.notebook.layout import NAME_CHARS, shorten
from flownb.notebook.periods import Period, covered, lasted

__all__ = ["Lane", "Mark", "Span", "Timeline", "timeline"]

#: Rows of one lane; what is under way beyond that shares the last one.
ROWS = 8

What = Literal["asked", "answered", "failed", "retried", "cancelled"]


@dataclass(frozen=True, slots=True)
class Span:
    """A delivery was in one state for a while."""

    #: A state of the drawing: an attempt is "running" while it lives, then done, failed or skipped; waits are person,
    #: waiting and retrying; "queued" is one that was under way and stands in the queue again.
    state: str
    row: int
    start: float
    end: float
    #: What a wait is for, in a few words; "try 2" of a later attempt.
    label: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    what: What
    row: int
    at: float


@dataclass(slots=True)
class Lane:
    """One step."""

    name: str
    spans: list[Span] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    #: When something was queued.
    queue: list[Period] = field(default_factory=list)
    #: Rows that were ever taken.
    rows: int = 0
    done: int = 0
    failed: int = 0
    retried: int = 0
    cancelled: int = 0
    #: Most that were queued, and that were running, at once.
    most_queued: int = 0
    most_running: int = 0
    #: Workflows that it ran as children, each once.
    runs: dict[str, None] = field(default_factory=dict)

    def words(self, start: float) -> str:
        """ "score: 8 done, 1 failed, at most 4 at once, from 0.2 s to 1.4 s"."""
        counts = ((self.done, "done"), (self.failed, "failed"), (self.retried, "tried again"))
        parts = [f"{n:,} {word}" for n, word in (*counts, (self.cancelled, "cut off")) if n]
        if self.most_running > 1:
            parts.append(f"at most {self.most_running} at once")
        if self.most_queued:
            parts.append(f"at most {self.most_queued:,} queued")
        for state, word in (("person", "waited for a person"), ("waiting", "waited")):
            time = covered((s.start, s.end) for s in self.spans if s.state == state)
            parts += [f"{word} {lasted(time)}"] if time else []
        if self.runs:
            parts.append(f"ran {', '.join(shorten(name) for name in self.runs)}")
        if self.spans:
            first, last = min(s.start for s in self.spans), max(s.end for s in self.spans)
            parts.append(f"from {lasted(first - start)} to {lasted(last - start)}")
        return f"{shorten(self.name)}: {', '.join(parts) or 'not reached'}"


@dataclass(frozen=True, slots=True)
class Timeline:
    """A run along the time axis; all times are Unix seconds."""

    run_id: str
    name: str
    status: str
    ticks: int
    start: float
    end: float
    #: In the order of the definition; steps that a newer definition dropped come last.
    lanes: tuple[Lane, ...]
    #: When the gate was closed.
    pauses: tuple[Period, ...]
    #: When nobody drove the run: between the last tick of one driver and the first of the next.
    away: tuple[Period, ...]

    def words(self) -> str:
        """The picture in words: a line for the run, and one for each step."""
        name = shorten(self.name, NAME_CHARS)
        took = lasted(self.end - self.start)
        head = f"run {self.run_id} of {name}: {self.status}, {self.ticks:,} tick{'s' * (self.ticks > 1)} in {took}"
        if self.pauses:
            head += f", paused for {lasted(covered(self.pauses))}"
        if self.away:
            head += f", driven by nobody for {lasted(covered(self.away))}"
        return "\n".join((head, *(lane.words(self.start) for lane in self.lanes)))


def timeline(journal: Iterable[t.AnyTick], *, now: float = 0.0, status: str = "") -> Timeline:
    """The timeline of a run.

    Args:
        journal: Its ticks, from the first one on; at least one.
        now: Unix seconds, for a run that still goes on: what is open is drawn up to here.
        status: What people are told of the run; "" is what its ticks say.
    """
    found = _Folding()
    state: RunState | None = None
    for tick in journal:
        after, commands = advance(state, tick)
        found.note(state, tick, after, commands)
        state = after
    assert state is not None, "a journal has a first tick"
    return found.timeline(state, now, status or shown_status(state))


@dataclass(slots=True)
class _Life:
    """Something that is under way, or queued for the first time (`row` -1)."""

    lane: Lane
    row: int
    state: str
    since: float
    label: str = ""


class _Rows:
    """Which rows of a lane are free."""

    def __init__(self) -> None:
        self.free: list[int] = []
        self.used = 0
        #: In flight beyond the last row, which they share.
        self.crowd = 0

    def take(self) -> int:
        if self.free:
            return heapq.heappop(self.free)
        if self.used < ROWS:
            self.used += 1
            return self.used - 1
        self.crowd += 1
        return ROWS - 1

    def give(self, row: int) -> None:
        if row == ROWS - 1 and self.crowd:
            self.crowd -= 1
        else:
            heapq.heappush(self.free, row)


#: How an attempt is drawn once the next thing happened to its delivery.
_AFTER_RUNNING = {"done": "done", "waiting": "done", "failed": "failed", "retrying": "failed", "cancelled": "skipped"}
_MARKS: dict[str, What] = {"failed": "failed", "retrying": "retried", "cancelled": "cancelled"}
_OVER = ("done", "failed", "cancelled")
_ANSWERED = ("answered", "default")


class _Folding:
    def __init__(self) -> None:
        self._lanes: dict[str, Lane] = {}
        self._rows: dict[str, _Rows] = {}
        self._lives: dict[int, _Life] = {}
        #: Questions that no delivery waits for, by number; of the others, the step that asked.
        self._asked: dict[int, _Life] = {}
        self._askers: dict[int, int] = {}
        self._queued: dict[str, tuple[int, float]] = {}
        self._running: dict[str, int] = {}
        self._closed_at: float | None = None
        self._pauses: list[Period] = []
        self._away: list[Period] = []
        self._start = 0.0

    def note(self, before: RunState | None, tick: t.AnyTick, after: RunState, commands: Sequence[c.AnyCommand]) -> None:
        """One more tick."""
        at = after.at
        if before is None:
            self._start = at
        cut = at
        if before is not None and isinstance(tick, (t.RunOpened, t.RunForked)):
            cut = before.at  # what was running then is lost, not still running
            self._leave(before.at, at)
        for change in changes(before, tick, after):
            self._move(change, after, at, t.came_at(tick) if change.is_own else cut)
        if before is None:
            for request in after.requests.values():  # of a fork that begins with a snapshot
                self._ask(request, after, at)
        for command in commands:
            if type(command) is c.OpenRequest:
                self._ask(command.request, after, at)
            elif type(command) is c.CloseRequest:
                self._close(command, after, at)
        self._gate(bool(after.gate) and not is_ended(after), at)

    # -- deliveries

    def _move(self, change: Change, after: RunState, at: float, cut: float) -> None:
        name = after.spec.steps[change.step].name
        life = self._lives.get(change.delivery)
        if life is None:
            life = self._lives[change.delivery] = _Life(self._lane(name), -1, "", at)
        lane = life.lane
        row = life.row  # before it is given back: a mark stands where the bar does
        self._end(life, change, cut if life.state == "running" else at)
        if change.state in _OVER:
            if life.row >= 0:
                self._rows[lane.name].give(life.row)
            del self._lives[change.delivery]
            lane.done += change.state == "done"
            lane.failed += change.state == "failed"
            lane.cancelled += change.state == "cancelled"
        else:
            self._begin(life, change, after, at)
        lane.retried += change.state == "retrying"
        if change.state in _MARKS and row >= 0:
            lane.marks.append(Mark(_MARKS[change.state], row, at))

    def _begin(self, life: _Life, change: Change, after: RunState, at: float) -> None:
        lane = life.lane
        if life.row < 0 and change.state != "queued":
            life.row = self._rows[lane.name].take()
            lane.rows = max(lane.rows, life.row + 1)
        life.state, life.since, life.label = change.state, at, ""
        if change.state == "running":
            life.label = f"try {change.attempt}" if change.attempt > 1 else ""
            now = self._running[lane.name] = self._running.get(lane.name, 0) + 1
            lane.most_running = max(lane.most_running, now)
        elif change.state == "waiting":
            life.state = "person" if "person" in change.waits_for else "waiting"
            life.label = self._waits(lane, living(after, change.step, change.delivery), after)
        elif change.state == "queued" and life.row < 0:
            self._count_queued(lane, 1, at)

    def _end(self, life: _Life, change: Change, at: float) -> None:
        """The state that something was in is over."""
        if life.state == "queued" and life.row < 0:
            self._count_queued(life.lane, -1, at)
            return
        if life.state == "running":
            self._running[life.lane.name] -= 1
        if life.state and life.row >= 0:
            state = _AFTER_RUNNING.get(change.state, "skipped") if life.state == "running" else life.state
            life.lane.spans.append(Span(state, life.row, life.since, max(at, life.since), life.label))

    def _count_queued(self, lane: Lane, by: int, at: float) -> None:
        n, since = self._queued.get(lane.name, (0, at))
        if by < 0 and n == 1 and at > since:
            lane.queue.append((since, at))
        self._queued[lane.name] = n + by, since if n else at
        lane.most_queued = max(lane.most_queued, n + by)

    def _waits(self, lane: Lane, d: Delivery | None, state: RunState) -> str:
        said: list[str] = []
        for wait in d.waits.values() if d is not None else ():
            if wait.kind == "ask":
                said.append(f"asks {short(state.requests[wait.ref].question.key)}")
            elif wait.kind == "event":
                said.append(short(state.side.waiters[wait.ref].event))
            elif wait.kind == "child":
                name = short(state.side.children[wait.ref].workflow)
                lane.runs[name] = None
                said.append(name)
            else:
                said.append("sleeps")
        return ", ".join(dict.fromkeys(said))

    # -- questions

    def _ask(self, request: Request, state: RunState, at: float) -> None:
        if request.step < 0 or request.id in self._askers:
            return
        lane = self._lane(state.spec.steps[request.step].name)
        life = self._lives.get(request.delivery)
        row = life.row if life is not None else -1
        self._askers[request.id] = request.delivery
        if not request.delivery:
            row = self._rows[lane.name].take()
            lane.rows = max(lane.rows, row + 1)
            self._asked[request.id] = _Life(lane, row, "person", at, f"asks {short(request.question.key)}")
        if row >= 0:
            lane.marks.append(Mark("asked", row, at))

    def _close(self, command: c.CloseRequest, state: RunState, at: float) -> None:
        life = self._asked.pop(command.request, None)
        asker = self._askers.pop(command.request, 0)
        if life is not None:
            life.lane.spans.append(Span("person", life.row, life.since, at, life.label))
            self._rows[life.lane.name].give(life.row)
        else:
            life = self._lives.get(asker)
        if command.how in _ANSWERED and life is not None and life.row >= 0:
            life.lane.marks.append(Mark("answered", life.row, at))

    # -- the whole

    def _gate(self, is_closed: bool, at: float) -> None:
        if is_closed and self._closed_at is None:
            self._closed_at = at
        elif not is_closed and self._closed_at is not None:
            self._pauses += [(self._closed_at, at)] if at > self._closed_at else []
            self._closed_at = None

    def _leave(self, left: float, came: float) -> None:
        """Nobody drove the run for a while; that is no pause, though a suspended run has its gate closed."""
        if came > left:
            is_closed = self._closed_at is not None
            self._gate(False, left)
            self._away.append((left, came))
            self._gate(is_closed, came)

    def _lane(self, name: str) -> Lane:
        if name not in self._lanes:
            self._lanes[name], self._rows[name] = Lane(name), _Rows()
        return self._lanes[name]

    def timeline(self, state: RunState, now: float, status: str) -> Timeline:
        end = state.at if is_ended(state) else max(state.at, now)
        for life in (*self._lives.values(), *self._asked.values()):  # the end of a run leaves none
            if life.row >= 0:
                life.lane.spans.append(Span(life.state, life.row, life.since, end, life.label))
        for name, (n, since) in self._queued.items():
            if n and end > since:
                self._lanes[name].queue.append((since, end))
        self._gate(False, end)
        names = [step.name for step in state.spec.steps]
        for name in names:
            self._lane(name)
        lanes = [self._lanes[name] for name in (*names, *(n for n in self._lanes if n not in names))]
        for lane in lanes:
            lane.spans.sort(key=lambda span: (span.row, span.start, span.end))
        return Timeline(
            state.run_id,
            state.spec.name,
            status.replace("_", " "),
            state.seq,
            self._start,
            end,
            tuple(lanes),
            tuple(self._pauses),
            tuple(self._away),
        )
