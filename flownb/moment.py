"""A run as it was after one tick: what a person looks at. A view, never an undo."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from flownb.core.causes import causes
from flownb.core.diff import user_changes
from flownb.core.graph import short
from flownb.core.outstanding import describe
from flownb.core.progress import Progress, completed, progress
from flownb.core.reduce import advance, is_first
from flownb.core.state import Delivery, RunState, Wait, shown_status
from flownb.core.ticks import AnyTick
from flownb.runtime.past import Past

if TYPE_CHECKING:
    from flownb.narration import Story


class _NotKnown(tuple[AnyTick, ...]):
    """Empty, and says why."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<not known: what waits before the gate is kept for the present only>"


#: The inbox of a past moment.
NOT_KNOWN = _NotKnown()


class Moment:
    """The run after tick `seq`.

    Args:
        state: The state then.
        before: The state before that; None if there is none, or if `past` knows it.
        tick: The tick that led here.
        inbox: What waited before the gate; `NOT_KNOWN` of a past moment.
        past: The run's history, for what led here and what came of it; None if it is not at hand.
        since: The last tick before those that were let pass to get here; None if nobody let any pass.
    """

    __slots__ = ("_before", "_past", "_since", "_state", "inbox", "seq", "tick")

    def __init__(
        self,
        state: RunState,
        before: RunState | None,
        tick: AnyTick | None,
        inbox: tuple[AnyTick, ...] = (),
        past: Past | None = None,
        since: int | None = None,
    ) -> None:
        self._state = state
        self._before = before
        self._past = past
        self._since = since
        self.seq = state.seq
        #: The tick that led here; None before the first one.
        self.tick = tick
        #: What waited to be admitted, next first; known for the present moment only, and empty of a past one.
        self.inbox = inbox

    @property
    def is_past(self) -> bool:
        """Whether later ticks had come when this moment was looked at: a view, which undoes nothing."""
        return self.inbox is NOT_KNOWN

    def _was(self) -> RunState | None:
        """The state before this one's."""
        if self._before is None and self._past is not None and self.seq > 1:
            self._before = self._past.at(self.seq - 1)
        return self._before

    @property
    def told(self) -> str:
        """What the tick that led here did, in a sentence; of a tick that a breakpoint looks at, what it would do."""
        from flownb.narration import told  # a run that nobody looks at needs no words

        tick, before = self.tick, self._was()
        if tick is None:
            return f"tick {self.seq} is being taken in" if self.seq else "the run has not begun"
        if before is None and not is_first(tick):  # it is not admitted yet
            before = self._state
        return told(before, tick, *advance(before, tick))

    @property
    def admitted(self) -> Story:
        """The ticks that were let pass to get here: by `step`, `over`, `out`, `run_to`, `cont` or `pause`; of any other
        moment, the one that led here. Each with its commands, and in a sentence."""
        from flownb.narration import Line, Story, told

        if self._past is None or self.tick is None:
            return Story()
        since = self.seq - 1 if self._since is None else self._since
        return Story(
            Line(passed.after.seq, passed.tick, tuple(passed.commands), told(*passed))
            for passed in self._past.walk(since + 1, self.seq)
        )

    @property
    def steps(self) -> dict[str, str]:
        """How each step stands, by the most urgent of its deliveries: `{step: word}`, with the words of the panel:
        idle, queued, running, person, waiting, done, failed, retrying, skipped."""
        from flownb.core.urgency import step_states

        return step_states(self._state)

    @property
    def causes(self) -> tuple[int, ...]:
        """The ticks that led to this one: who sent its event, asked its question, began its wait."""
        return tuple(causes(self.tick, self._was())) if self.tick is not None else ()

    @property
    def effects(self) -> tuple[int, ...]:
        """The ticks that this one led to, as far as they have come."""
        return self._past.effects(self.seq) if self._past is not None and self.tick is not None else ()

    @property
    def status(self) -> str:
        return shown_status(self._state)

    @property
    def state(self) -> dict[str, Any]:
        """The user's state: `{name: value}`."""
        return {name: out.value for name, out in self._state.user.items()}

    @property
    def queued(self) -> dict[str, list[str]]:
        """`{step: [event, ...]}` of what waits for a worker."""
        return self._of("queued", lambda d: describe(d.out))

    @property
    def running(self) -> dict[str, list[str]]:
        """`{step: [event, ...]}` of what holds a worker."""
        return self._of("running", lambda d: describe(d.out))

    @property
    def waiting(self) -> dict[str, list[str]]:
        """`{step: ["event: what it waits for", ...]}`."""
        return self._of("waiting", lambda d: f"{describe(d.out)}: {waits_of(self._state, d)}")

    @property
    def retrying(self) -> dict[str, list[str]]:
        """`{step: ["event: attempt 1 failed with ValueError", ...]}` of what is tried again later."""
        return self._of("retrying", lambda d: f"{describe(d.out)}: {failure_of(d)}")

    def _of(self, where: str, words: Callable[[Delivery], str]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for i, spec in enumerate(self._state.spec.steps):
            said = [words(d) for d in deliveries(self._state, i, where)]
            if said:
                found[spec.name] = said
        return found

    @property
    def abandoned(self) -> dict[str, list[str]]:
        """`{step: ["running", "queued", ...]}` of what the end of the run cut off."""
        found: dict[str, list[str]] = {}
        for cut in self._state.abandoned:
            found.setdefault(self._state.spec.steps[cut.step].name, []).append(cut.where)
        return found

    @property
    def progress(self) -> Progress:
        """How far the run was: `.done` of `.total` deliveries, and as `.label` the step that this tick completed."""
        before = self._was()
        label = completed(self.tick, before, self._state) if self.tick and before else ""
        return progress(self._state, label)

    @property
    def requests(self) -> list[tuple[int, str, Any]]:
        """Open questions then: `[(id, step, question), ...]`."""
        steps = self._state.spec.steps
        return [
            (r.id, steps[r.step].name if r.step >= 0 else "", r.question.value) for r in self._state.requests.values()
        ]

    @property
    def paused_by(self) -> tuple[str, ...]:
        """Why the gate was closed; empty: it was open."""
        return tuple(self._state.gate)

    def diff(self, other: Moment | None = None) -> dict[str, tuple[Any, Any]]:
        """`{name: (before, after)}` of the user's state, against another moment or the one before."""
        before = other._state if other is not None else self._was()
        return {
            name: (old.value if old is not None else None, new.value if new is not None else None)
            for name, old, new in user_changes(before, self._state)
        }

    def __repr__(self) -> str:
        busy = ", ".join(f"{name} {len(events)}" for name, events in self.running.items()) or "nothing"
        past = " (a look back: nothing is undone)" if self.is_past else ""
        return f"<Moment {self.seq}{past}: {self.told}; {self.status}, running {busy}>"


def deliveries(state: RunState, i: int, where: str) -> Iterator[Delivery]:
    """The deliveries of a step that are queued, running, waiting or retrying."""
    step = state.steps[i]
    if where == "running":
        yield from step.active.values()
    elif where == "queued":
        yield from (d for d in step.waiting.values() if d.due or d.held)  # they have begun: ahead of the queue
        yield from step.queue
    else:
        for d in step.waiting.values():
            is_retrying = d.tries is not None and d.tries.timer > 0
            if not (d.due or d.held) and is_retrying == (where == "retrying"):
                yield d


def waits_of(state: RunState, d: Delivery) -> str:
    """What a waiting delivery waits for, in words."""
    return ", ".join(_words(state, wait) for wait in d.waits.values())


def _words(state: RunState, wait: Wait) -> str:
    if wait.kind == "sleep":
        return "sleeps"
    if wait.kind == "ask":
        return f"asks {short(state.requests[wait.ref].question.key)}"
    if wait.kind == "event":
        waiter = state.side.waiters[wait.ref]
        asks = f" and asks {short(state.requests[waiter.request].question.key)}" if waiter.request else ""
        return f"waits for {short(waiter.event)}{asks}"
    return f"waits for child {state.side.children[wait.ref].run_id}"


def failure_of(d: Delivery) -> str:
    """Why a delivery is tried again, in words."""
    failure = d.tries.failure if d.tries is not None else None
    return f"attempt {d.attempt} failed" + (f" with {short(failure.type)}" if failure is not None else "")
