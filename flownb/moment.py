"""A run as it was after one tick: what a person looks at. A view, never an undo."""

from __future__ import annotations

from typing import Any

from flownb.core.diff import user_changes
from flownb.core.outstanding import describe
from flownb.core.state import Delivery, RunState, shown_status
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
        return self._by_step("queue")

    @property
    def running(self) -> dict[str, list[str]]:
        """`{step: [event, ...]}` of what holds a worker."""
        return self._by_step("active")

    @property
    def waiting(self) -> dict[str, list[str]]:
        """`{step: [event, ...]}` of what sleeps or waits for an answer."""
        return self._by_step("waiting")

    def _by_step(self, where: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for spec, step in zip(self._state.spec.steps, self._state.steps, strict=True):
            held = getattr(step, where)
            deliveries: list[Delivery] = list(held.values() if where != "queue" else held)
            if deliveries:
                found[spec.name] = [describe(d.out) for d in deliveries]
        return found

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
