"""Who closes the gate of a run that goes on: breakpoints and goals. Asked only while there are some.

Each tick is tried out first: the reducer is pure, so what a tick would do is known before it has happened. Then, in
this order: a breakpoint may stand before it (it stays at the head of the inbox), before what it would start (it is
reduced once more, and holds those starts back), or after it. Every hit is a `BreakpointHit` right behind, in the same
turn, so nothing else passes in between (R5.25).

The case that looks wrong but is right: control ticks always pass, so no breakpoint can stand before them. What stands
before a tick stands, for those, before the starts that they would make; so it works for a run's first tick too.

What is known here is this process's: which tick was let go, how often a condition was met. A journal has the hits and
the starts that were held, so a replay asks no condition (R5.27).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from flownb.core.commands import AnyCommand, StartStep
from flownb.core.gate import is_control
from flownb.core.reduce import reduce
from flownb.core.state import Delivery, RunState, is_ended
from flownb.core.ticks import (
    AnyTick,
    Ask,
    Await,
    BreakpointHit,
    GateClosed,
    GateOpened,
    RunChild,
    Sleep,
    StepsGranted,
    ValueRecorded,
    WaitOpened,
)
from flownb.runtime.userstate import EDIT

if TYPE_CHECKING:
    from flownb.runtime.runner import Runner

Place = Literal["before", "start", "after"]
#: A tick that was reduced: the state before, the tick, the state after, its commands.
Seen = tuple[RunState, AnyTick, RunState, list[AnyCommand]]
#: Whether the gate closes behind a tick: the state before, the tick, the state after, its commands.
Stop = Callable[[RunState, AnyTick, RunState, list[AnyCommand]], bool]
#: A goal, and who is told: True when it was reached, False when the run ends before.
Goal = tuple[Stop, Callable[[bool], None]]


class Look(Struct, frozen=True):
    """What a breakpoint is shown: a tick and what it would do, or did."""

    runner: Runner
    place: Place
    before: RunState
    tick: AnyTick
    after: RunState
    commands: list[AnyCommand]
    #: Deliveries that the tick would start and that can still be held back.
    starts: tuple[Delivery, ...] = ()


class Match(Struct, frozen=True):
    """A breakpoint means this tick."""

    #: The delivery whose start it means, 0 for none.
    delivery: int = 0
    #: What its condition raised; the gate closes for that too.
    error: str = ""


class Stand(Protocol):
    """A breakpoint that is enabled."""

    number: int
    at: Place
    #: It stands from so many matches in a run on.
    hit: int
    what: str

    def matches(self, look: Look) -> list[Match]: ...

    def stopped(self, run_id: str, error: str) -> None: ...


class _Memory(Struct):
    """What one process knows of the breakpoints of one run."""

    #: How often each breakpoint was met.
    met: dict[int, int]
    #: Ticks that were looked at before they were reduced, by identity, and by which breakpoints: released, they pass.
    stood: dict[int, tuple[AnyTick, frozenset[int]]]
    #: Starts (delivery, start number) that were held, and by which breakpoints: for these they begin when released.
    held: dict[tuple[int, int], frozenset[int]]
    #: The next work tick is one that a person asked for: no breakpoint stands before it.
    is_asked: bool = False


class Gatekeeper:
    """What one run knows of its breakpoints and goals. On its loop's thread only."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._now = _Memory({}, {}, {})
        # Of the turn that is under way: how all was before it, what the ticks of its batch were when they came (None
        # for those made here), and who is told of hits once it is in the journal.
        self._before: _Memory | None = None
        self._came: dict[int, AnyTick | None] = {}
        self._told: list[tuple[Callable[..., None], tuple[object, ...]]] = []
        self._goals: list[Goal] = []

    def replaced(self, tick: AnyTick, by: AnyTick) -> None:
        """A tick that waits before the gate is another object from now on."""
        stood = self._now.stood.pop(id(tick), None)
        if stood is not None:
            self._now.stood[id(by)] = by, stood[1]

    # -- a turn

    def begin(self) -> None:
        """A turn begins; it may have to be undone."""
        now = self._now
        self._before = _Memory(dict(now.met), dict(now.stood), dict(now.held), now.is_asked)
        self._goals = list(self._runner.stops)

    def undo(self, batch: Sequence[AnyTick]) -> list[AnyTick]:
        """The turn did not happen: its ticks as they came, without those that were made here."""
        came = [self._came.get(id(tick), tick) for tick in batch]
        if self._before is not None:
            self._now, self._runner.stops[:] = self._before, self._goals
        self.done()
        return [tick for tick in came if tick is not None]

    def done(self) -> list[tuple[Callable[..., None], tuple[object, ...]]]:
        """The turn is over: who has to be told, and what."""
        told, self._told, self._came, self._before = self._told, [], {}, None
        return told

    def pass_on(self, state: RunState, came: AnyTick, tick: AnyTick) -> tuple[list[Seen], bool]:
        """Let one tick pass, or not.

        Args:
            state: Before it.
            came: It, as it stood in the inbox.
            tick: The same, with a time that is not before the last one's.

        Returns:
            What was reduced, and whether the tick still stands in the inbox.
        """
        stands: tuple[Stand, ...] = tuple(self._runner.stands)
        is_work, now = not is_control(tick), self._now
        after, commands = reduce(state, tick)
        if is_work:
            hits = self._before_it(stands, came, Look(self._runner, "before", state, tick, after, commands))
            if hits and not now.is_asked:
                return self._close(state, tick.at, hits), True
            now.stood.pop(id(came), None)
        now.is_asked = type(tick) is StepsGranted or (now.is_asked and not is_work and type(tick) is not GateOpened)
        held, hits = self._before_starts(stands, is_work, state, tick, after, commands)
        if held:
            tick = replace(tick, held=held)
            after, commands = reduce(state, tick)
        self._came[id(tick)] = came
        seen: list[Seen] = [(state, tick, after, commands)]
        if not is_ended(after):
            look = Look(self._runner, "after", state, tick, after, commands)
            hits += [(stand, error) for stand in stands if stand.at == "after" for error in self._met_by(stand, look)]
            seen += self._close(after, after.at, hits)
        return seen + self._reached(seen[0], seen[-1][2]), False

    # -- the three places

    def _before_it(self, stands: Iterable[Stand], came: AnyTick, look: Look) -> list[tuple[Stand, str]]:
        """Breakpoints that stand before a tick and did not yet."""
        stood = self._now.stood
        _, known = stood.get(id(came), (came, frozenset[int]()))
        asked = [stand for stand in stands if stand.at == "before" and stand.number not in known]
        if not asked:
            return []
        hits = [(stand, error) for stand in asked for error in self._met_by(stand, look)]
        if hits:
            stood[id(came)] = came, known.union(stand.number for stand in asked)
        return hits

    def _before_starts(
        self,
        stands: Iterable[Stand],
        is_work: bool,
        state: RunState,
        tick: AnyTick,
        after: RunState,
        commands: list[AnyCommand],
    ) -> tuple[tuple[int, ...], list[tuple[Stand, str]]]:
        """Deliveries whose start is held back, and by whom. One that is held makes room for the next in the queue, so
        the tick is tried again until nothing more is held."""
        asked = [stand for stand in stands if stand.at == "start" or (stand.at == "before" and not is_work)]
        held: list[int] = []
        hits: dict[int, tuple[Stand, str]] = {}
        seen: set[int] = set()
        while asked and not is_ended(after):
            fresh = [c.delivery for c in commands if type(c) is StartStep and c.delivery.id not in seen]
            seen.update(d.id for d in fresh)
            stopped: dict[int, frozenset[int]] = {}
            for stand in asked if fresh else ():
                new = tuple(d for d in fresh if self._is_new(stand, d))
                look = Look(self._runner, "start", state, tick, after, commands, new)
                for match in stand.matches(look) if new else ():
                    if self._counts(stand, match):
                        stopped[match.delivery] = stopped.get(match.delivery, frozenset()) | {stand.number}
                        hits.setdefault(stand.number, (stand, match.error))
            if not stopped:
                break
            for d in fresh:
                if d.id in stopped:
                    held.append(d.id)
                    key = d.id, d.start
                    self._now.held[key] = self._now.held.get(key, frozenset()) | stopped[d.id]
            after, commands = reduce(state, replace(tick, held=tuple(held)))
        return tuple(held), list(hits.values())

    def _is_new(self, stand: Stand, d: Delivery) -> bool:
        """Whether a breakpoint has not let a start go yet. What was held has come by those that stand before ticks."""
        by = self._now.held.get((d.id, d.start))
        return by is None or (stand.at == "start" and stand.number not in by)

    def _met_by(self, stand: Stand, look: Look) -> list[str]:
        """One error, or "", if the breakpoint stands here; nothing if not."""
        hits = [match for match in stand.matches(look) if self._counts(stand, match)]
        return [next((match.error for match in hits if match.error), "")] if hits else []

    def _counts(self, stand: Stand, match: Match) -> bool:
        met = self._now.met
        n = met[stand.number] = met.get(stand.number, 0) + 1
        return n >= stand.hit or match.error != ""

    # -- closing

    def _close(self, state: RunState, at: float, hits: Iterable[tuple[Stand, str]]) -> list[Seen]:
        seen: list[Seen] = []
        for stand, error in hits:
            seen.append(self._reduced(state, BreakpointHit(at, stand.number, stand.what, error)))
            state = seen[-1][2]
            self._told.append((stand.stopped, (self._runner.run_id, error)))
        return seen

    def _reached(self, seen: Seen, state: RunState) -> list[Seen]:
        """Goals that a tick reached close the gate behind it."""
        stops = self._runner.stops
        reached = [goal for goal in stops if goal[0](*seen)]
        if not reached:
            return []
        stops[:] = [goal for goal in stops if goal not in reached]
        self._told += [(told, (True,)) for _, told in reached]
        return [] if is_ended(state) else [self._reduced(state, GateClosed(state.at, "breakpoint"))]

    def _reduced(self, state: RunState, tick: AnyTick) -> Seen:
        self._came[id(tick)] = None
        after, commands = reduce(state, tick)
        return state, tick, after, commands


def standing_still(runner: Runner) -> list[tuple[str, str]]:
    """(step, call) of what running steps called and cannot go on with while the gate is closed (R5.16): the begin and
    end of an edit, a wait, a child, `once`. Empty while the gate is open."""
    if not runner.state.gate:
        return []
    found = []
    for tick in tuple(runner.inbox):
        if isinstance(tick, WaitOpened):
            found.append((tick.step, _WAITS[type(tick.wait)]))
        elif isinstance(tick, ValueRecorded) and tick.name.startswith("once "):
            found.append((tick.step, "a value that is recorded"))
    for worker in tuple(runner.workers.values()):
        edits = (handle for handle in tuple(worker.guarded or ()) if handle._what == EDIT and not handle.done())
        found += [(worker.step.name, EDIT) for _ in edits]
    return found


_WAITS: dict[type, str] = {Sleep: "a sleep", Ask: "a question", Await: "a wait for an event", RunChild: "a child run"}
