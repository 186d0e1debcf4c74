"""A run as it was after one tick: what a person looks at. A view, never an undo."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from flownb.core.diff import user_changes
from flownb.core.graph import short
from flownb.core.outstanding import describe
from flownb.core.progress import Progress, completed, progress
from flownb.core.state import Delivery, RunState, Wait, shown_status
from flownb.core.ticks import AnyTick


class Moment:
    """The run after tick `seq`."""

    __slots__ = ("_before", "_state", "inbox", "seq", "tick")

    def __init__(
        self, state: RunState, before: RunState | None, tick: AnyTick | None, inbox: tuple[AnyTick, ...] = ()
    ) -> None:
        self._state = state
        self._before = before
        self.seq = state.seq
        #: The tick that led here; None before the first one.
        self.tick = tick
        #: What waited to be admitted, next first; known for the present moment only.
        self.inbox = inbox

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
        label = completed(self.tick, self._before, self._state) if self.tick and self._before else ""
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
        before = other._state if other is not None else self._before
        return {
            name: (old.value if old is not None else None, new.value if new is not None else None)
            for name, old, new in user_changes(before, self._state)
        }

    def __repr__(self) -> str:
        what = type(self.tick).__name__ if self.tick is not None else "before the first tick"
        busy = ", ".join(f"{name} {len(events)}" for name, events in self.running.items()) or "nothing"
        return f"<Moment {self.seq}: {what}; {self.status}, running {busy}>"


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
