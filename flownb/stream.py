"""What a run publishes, as its readers get it: numbered, lossless, from any position, also after the end.

A reader of what steps and terminal events say reads the list that the runner keeps. One that wants to see the engine
(`expose_internal`) folds the journal with a state of its own, so that step states cost nobody who does not look. Both
give the same item under the same number.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from flownb import events
from flownb.core.causes import Source, source_of
from flownb.core.changes import Change, changes
from flownb.core.graph import short
from flownb.core.progress import Reach, completed, progress, reach_of
from flownb.core.publishing import Published, publications
from flownb.core.reduce import advance
from flownb.core.spec import Spec
from flownb.core.state import RunState
from flownb.core.ticks import AnyTick, ChildFinished, Tick
from flownb.core.values import Out
from flownb.events import Event, WorkflowCancelledEvent
from flownb.runtime.copying import copied
from flownb.runtime.pending import tell_loop
from flownb.runtime.results import error_of, shown
from flownb.runtime.runner import Runner

#: What the engine says for those who look into it.
INTERNAL = frozenset({"idle", "rewound", "not_taken"})
_TERMINAL = frozenset({"stop", "failed", "cancelled", "timed_out"})

#: A reader that has much to catch up with lets others have the loop each so many items, and looks each so many seconds
#: whether anybody drives the run at all.
_TURN = 256
_HEARTBEAT_S = 1.0


class StreamItem(Struct, frozen=True):
    """One event of a run's stream."""

    #: The tick that published it, and its number among what that published. Step states and progress, which only
    #: `expose_internal` shows, are numbered behind the others, wherever they stand among them.
    seq: int
    n: int
    run_id: str
    #: Name of the step that it comes from, "" for the engine and the outside.
    step: str
    event: Event
    #: The delivery that it comes from, 0 for none.
    delivery: int = 0
    #: Who made the tick.
    source: Source = "engine"
    #: seq of the tick that led to it, 0 for none.
    cause: int = 0
    #: Unix seconds.
    at: float = 0.0

    @property
    def id(self) -> str:
        """The same for every reader, and of no other item."""
        return f"{self.run_id}:{self.seq}.{self.n}"


async def read(
    runner: Runner, start: int, *, internal: bool = False, children: bool = False
) -> AsyncIterator[StreamItem]:
    """All items from tick `start` on, as they come; ends with the run.

    Args:
        runner: The run.
        start: seq of the first tick to show.
        internal: Also step states, progress, and what the engine says of itself.
        children: Also the items of the runs that its steps run; a child's come before what its end led to.
    """
    tree = _Tree(runner, start, internal, children)
    n = 0
    runner.questions.readers += 1
    try:
        while True:
            item = tree.next()
            if item is not None:
                tree.advance()
                yield item
                n += 1
                if not n % _TURN:
                    await asyncio.sleep(0)
            elif tree.is_over():
                return
            else:
                await _news(tree)
    finally:
        runner.questions.readers -= 1


async def _news(tree: _Tree) -> None:
    """Wait until there is an item, or the run is over. Nothing of it is left when the reader goes away."""
    loop = asyncio.get_running_loop()
    more: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        tell_loop(loop, more)

    runners = tree.runners()
    for runner in runners:
        runner.listeners.append(wake)
    try:
        while not more.done() and tree.next() is None and not tree.is_over():
            await asyncio.wait({more}, timeout=_HEARTBEAT_S)
            tree.runner.notice_loss()
    finally:
        for runner in runners:
            runner.listeners.remove(wake)


class _Cursor(Protocol):
    """A place in the stream of one run."""

    def next(self) -> StreamItem | None:
        """The item at this place, if it is there yet."""

    def advance(self) -> None:
        """Go on to the one behind it."""


class _Tree:
    """A place in the streams of a run and of those that its steps run."""

    def __init__(self, runner: Runner, start: int, internal: bool, children: bool) -> None:
        self.runner = runner
        self._own: _Cursor = _Folded(runner, start) if internal else _Kept(runner, start)
        self._internal, self._children = internal, children
        self._kids: dict[int, _Tree] = {}
        #: Children that are known, and of those that are over: when (seq), as far as the journal was read.
        self._met: set[int] = set()
        self._ended: dict[int, int] = {}
        self._read = 0
        if children:
            self._read_to(start - 1)
            self._met.update(self._ended)  # what they had to say is not asked for

    def next(self) -> StreamItem | None:
        """The earliest item that is there."""
        return self._earliest()[1]

    def advance(self) -> None:
        """Go on to the one behind it."""
        whose, _ = self._earliest()
        if whose is self:
            self._own.advance()
        else:
            whose.advance()

    def _earliest(self) -> tuple[_Tree, StreamItem | None]:
        mine = self._own.next()
        if not self._children:
            return self, mine
        self._meet(mine.seq if mine is not None else len(self.runner.ticks))
        best: _Tree = self
        first = mine
        held = False
        for number, kid in list(self._kids.items()):
            item = kid.next()
            if item is None:
                if kid.is_over():
                    del self._kids[number]
                continue
            is_before = mine is not None and self._ended.get(number, mine.seq + 1) <= mine.seq
            if first is None or (is_before and not held) or (item.at < first.at and (is_before or not held)):
                best, first = kid, item
            held = held or is_before
        return best, first

    def _meet(self, upto: int) -> None:
        self._read_to(upto)
        for number, child in list((self.runner.children or {}).items()):
            if number not in self._met:
                self._met.add(number)
                self._kids[number] = _Tree(child, 1, self._internal, True)

    def _read_to(self, seq: int) -> None:
        """Notice which children are over up to a tick."""
        ticks = self.runner.ticks
        while self._read < min(seq, len(ticks)):
            tick = ticks[self._read]
            self._read += 1
            if isinstance(tick, ChildFinished):
                self._ended[tick.child] = self._read

    def is_over(self) -> bool:
        """Whether nothing more will come."""
        if not self.runner.end.done() or self.next() is not None:
            return False
        return all(kid.is_over() or kid.runner.suspended for kid in self._kids.values())

    def runners(self) -> list[Runner]:
        """All of whose news it may hear."""
        return [self.runner, *(runner for kid in self._kids.values() for runner in kid.runners())]


class _Kept:
    """A place in the list that the runner keeps."""

    def __init__(self, runner: Runner, start: int) -> None:
        self._runner = runner
        self._place = bisect_left(runner.published, start, key=lambda p: p.seq)
        self._item: StreamItem | None = None

    def next(self) -> StreamItem | None:
        runner = self._runner
        while self._item is None and self._place < len(runner.published):
            found = runner.published[self._place]
            if found.item.what in INTERNAL:
                self._place += 1
            else:
                self._item = _item(runner, found)
        return self._item

    def advance(self) -> None:
        self._item = None
        self._place += 1


class _Folded:
    """A place in the journal, with the state there."""

    def __init__(self, runner: Runner, start: int) -> None:
        self._runner = runner
        self._seq = max(0, start - 1)
        self._state: RunState | None = None
        self._items: deque[StreamItem] = deque()
        self._ids = _EventIds(runner.ticks)
        self._spec: Spec | None = None
        self._reach: Reach = ()

    def next(self) -> StreamItem | None:
        ticks = self._runner.ticks
        while not self._items and self._seq < len(ticks):
            self._fold(ticks[self._seq])
        return self._items[0] if self._items else None

    def advance(self) -> None:
        self._items.popleft()

    def _fold(self, tick: AnyTick) -> None:
        before = self._state
        if before is None and self._seq:
            before = self._runner.history.at(self._seq)
        state, commands = advance(before, tick)
        self._state, self._seq = state, self._seq + 1
        items = publications(before, tick, state, commands)
        moved = changes(before, tick, state)
        label = completed(tick, before, state) if before is not None else ""
        self._put(tick, state, items, moved, label)

    def _put(
        self,
        tick: Tick,
        state: RunState,
        items: Sequence[Published],
        moved: Sequence[Change],
        label: str,
    ) -> None:
        """In the order of R2.46."""
        runner, n = self._runner, len(items)
        at_end = [p for p in items if p.item.what in _TERMINAL]
        states = [self._state_item(change, state, tick, n + k) for k, change in enumerate(moved)]
        own = sum(change.is_own for change in moved)
        self._items.extend(states[:own])
        self._items.extend(_item(runner, p) for p in items if p.item.what not in _TERMINAL)
        self._items.extend(states[own:])
        if label:
            self._items.append(self._progress(state, label, n + len(moved)))
        self._items.extend(_item(runner, p) for p in at_end)

    def _state_item(self, change: Change, state: RunState, tick: Tick, n: int) -> StreamItem:
        name = state.spec.steps[change.step].name
        event = state_event(change, name, state.seq, self._ids.of(change))
        run_id = self._runner.run_id
        return StreamItem(state.seq, n, run_id, name, event, change.delivery, source_of(tick), change.cause, state.at)

    def _progress(self, state: RunState, label: str, n: int) -> StreamItem:
        if self._spec is not state.spec:
            self._spec, self._reach = state.spec, reach_of(state.spec)
        found = progress(state, label, self._reach)
        event = events.ProgressEvent(done=found.done, total=found.total, label=label)
        return StreamItem(state.seq, n, self._runner.run_id, "", event, 0, "engine", state.seq, state.at)


class _EventIds:
    """Names for events: the tick that sent one, and its place there."""

    def __init__(self, ticks: Sequence[AnyTick]) -> None:
        self._ticks = ticks
        #: Of the last few ticks that were asked for.
        self._places: OrderedDict[int, dict[int, int]] = OrderedDict()

    def of(self, change: Change) -> str:
        """The id of what a delivery carries; several events together have one of their own."""
        place = None
        if isinstance(change.out, Out):
            place = self._at(change.cause).get(id(change.out))
        return f"{change.cause}.d{change.delivery}" if place is None else f"{change.cause}.{place}"

    def _at(self, seq: int) -> dict[int, int]:
        found = self._places.get(seq)
        if found is None:
            tick = self._ticks[seq - 1] if 0 < seq <= len(self._ticks) else None
            found = self._places[seq] = {id(out): place for place, out in enumerate(_outs(tick))}
            if len(self._places) > 64:
                self._places.popitem(last=False)
        return found


def _outs(tick: AnyTick | None) -> Sequence[Out]:
    """The events that a tick itself carries."""
    outs = getattr(tick, "outs", None)
    if outs is not None:
        return outs  # type: ignore[no-any-return]
    found = [getattr(tick, name, None) for name in ("out", "answer", "closed", "failed")]
    return [out for out in found if isinstance(out, Out)]


_L_STATES: dict[str, Literal["preparing", "running", "not_running"]] = {
    "queued": "preparing",
    "retrying": "preparing",
    "running": "running",
}


def state_event(change: Change, step: str, seq: int, event_id: str) -> events.StepStateChanged:
    """A change as people get it (R5.64)."""
    inputs = [out.key for out in (change.out if isinstance(change.out, tuple) else (change.out,))]
    outputs = [out.key for out in change.outs]
    finished = change.finished_at or None
    began = change.started_at or None
    failure = change.failure
    return events.StepStateChanged(
        name=step,
        step_state=_L_STATES.get(change.state, "not_running"),
        worker_id=str(change.worker) if change.worker >= 0 else "",
        input_event_name=inputs[0] if inputs else "",
        output_event_name=outputs[0] if outputs else None,
        state=change.state,
        seq=seq,
        event_id=event_id,
        delivery=change.delivery,
        attempt=change.attempt,
        input_events=inputs,
        output_events=outputs,
        waits_for=list(change.waits_for),
        error=f"{failure.type}: {failure.message}" if failure is not None else None,
        started_at=began,
        finished_at=finished,
        duration=finished - began if finished is not None and began is not None else None,
        due_at=change.due_at or None,
        held=change.held,
    )


def _item(runner: Runner, found: Published) -> StreamItem:
    event = _event_of(runner, found)
    return StreamItem(
        found.seq,
        found.n,
        runner.run_id,
        found.step,
        event,
        found.delivery,
        found.source,
        found.cause,
        found.at,
    )


def _event_of(runner: Runner, found: Published) -> Event:
    item, info = found.item, found.item.info
    match item.what:
        case "unhandled":
            return events.UnhandledEvent(
                event_type=short(info["key"]),
                qualified_name=info["key"],
                step_name=info["step"],
                dropped_by=info.get("dropped_by"),
                **found.facts,
            )
        case "failed":
            return _failed(runner, found)
        case "timed_out":
            return events.WorkflowTimedOutEvent(
                timeout=info["timeout"],
                elapsed_seconds=info["elapsed"],
                active_steps=list(info["active"]),
                open_requests=list(info["requests"]),
            )
        case "cancelled":
            return WorkflowCancelledEvent(reason=info["reason"], by=info["by"])
        case "idle":
            return events.WorkflowIdleEvent(waits_for=list(info["waits_for"]))
        case "rewound":
            return events.StreamRewoundEvent(step_name=found.step, delivery=found.delivery, written=info["written"])
        case _:
            assert item.out is not None
            return copied(shown(item.out, runner.definition))  # type: ignore[no-any-return]


def _failed(runner: Runner, found: Published) -> events.WorkflowFailedEvent:
    state, info = runner.state, found.item.info
    event = events.WorkflowFailedEvent(
        step_name=found.step,
        exception_type=info["type"],
        exception_message=info["message"],
        traceback=state.failure.traceback if state.failure is not None else "",
        elapsed_seconds=found.at - state.started_at,
        **found.facts,
    )
    event._exception = error_of(state, runner.errors)
    runner.is_heard = True
    return event
