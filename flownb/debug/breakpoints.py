"""Where the runs of a workflow stop: `flow.breakpoints`, which is `run.debug.breakpoints` too."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

from flownb.core.graph import short
from flownb.core.state import Delivery
from flownb.core.ticks import StepFailed
from flownb.core.values import MISSING, Out, alike, field_of
from flownb.debug.conditions import Condition, When
from flownb.debug.subjects import actor, carried, event_name, is_any_of, is_end_of, is_of, outs_of, started, step_name
from flownb.errors import WorkflowConfigurationError
from flownb.runtime.gatekeeper import Look, Match, Place

if TYPE_CHECKING:
    from flownb.workflow import Workflow


class Watcher(Protocol):
    """Who shows breakpoints."""

    def breakpoints_changed(self) -> None:
        """There are other ones, or one was enabled or disabled; on whatever thread."""


_PLACES = ("before", "start", "after")
_about = tuple[Delivery | None, tuple[Out, ...]]


class Breakpoint:
    """One place to stop at. Made by `flow.breakpoints.add`."""

    def __init__(
        self,
        owner: Breakpoints,
        number: int,
        step: str | None,
        event: str | None,
        error: bool,
        state: str | None,
        at: Place,
        when: Condition | None,
        hit: int,
    ) -> None:
        self._owner = owner
        self.number = number
        self.step, self.event, self.error, self.state = step, event, error, state
        self.at: Place = at
        self.when = when
        #: It stands from so many matches in a run on.
        self.hit = hit
        #: How often it stopped a run.
        self.hits = 0
        #: What its condition raised last, and in which run; "" if it never did.
        self.failed = ""
        self.what = self._in_words()

    @property
    def enabled(self) -> bool:
        return self in self._owner._enabled

    def enable(self) -> None:
        """Let it stop runs again."""
        self._owner._change(self, is_on=True)

    def disable(self) -> None:
        """Keep it, but let runs pass."""
        self._owner._change(self, is_on=False)

    def remove(self) -> None:
        """Take it out; a run that it stopped stays paused until `run.cont()`."""
        self._owner.remove(self)

    def _in_words(self) -> str:
        said = []
        if self.step is not None:
            said.append(f"step {self.step}")
        if self.event is not None:
            said.append(f"event {short(self.event)}")
        if self.error:
            said.append("an error")
        if self.state is not None:
            said.append(f"state {self.state}")
        if self.when is not None:
            said.append(f"when {self.when.text}")
        count = f", from hit {self.hit} on" if self.hit > 1 else ""
        place = {"before": "before", "start": "at the start of", "after": "after"}[self.at]
        return f"{place} {', '.join(said)}{count}"

    def __repr__(self) -> str:
        off = "" if self.enabled else ", disabled"
        failed = f", its condition failed: {self.failed}" if self.failed else ""
        return f"<Breakpoint {self.number}: {self.what}{off}; hit {self.hits} ×{failed}>"

    # -- what the gate asks

    def stopped(self, run_id: str, error: str) -> None:
        """It closed a gate."""
        self.hits += 1
        if error:
            self.failed = f"{error} (run {run_id})"

    def matches(self, look: Look) -> list[Match]:
        """Once for everything in a tick that it means; what its condition raises counts as met (R5.27)."""
        found = []
        for d, outs in self._subjects(look):
            started = d.id if d is not None and look.place == "start" else 0
            try:
                if self._holds(look, outs):
                    found.append(Match(started))
            except Exception as error:  # the user's
                found.append(Match(started, f"{type(error).__name__}: {error}"))
        return found

    def _subjects(self, look: Look) -> list[_about]:
        """What of a tick it means, its condition apart."""
        tick, before = look.tick, look.before
        if self.error or self.state is not None:
            return self._of_the_tick(look)
        if look.place == "start":
            return self._starting(look, look.starts)
        if self.step is None:
            outs = carried(before, tick)
            if self.event is not None:
                return [(None, (out,)) for out in outs if is_of(look.after, out, self.event)]
            return [(None, (out,)) for out in outs] or [(None, ())]
        if look.place == "before":
            return self._starting(look, started(look.commands))
        own = actor(before, tick)
        if own is None or not is_end_of(tick, self.step) or not self._takes(look, own):
            return []
        return [(own, outs_of(own))]

    def _starting(self, look: Look, deliveries: Iterable[Delivery]) -> list[_about]:
        steps = look.after.spec.steps
        return [
            (d, outs_of(d))
            for d in deliveries
            if (self.step is None or steps[d.step].name == self.step) and self._takes(look, d)
        ]

    def _takes(self, look: Look, d: Delivery) -> bool:
        return self.event is None or is_any_of(look.after, outs_of(d), self.event)

    def _of_the_tick(self, look: Look) -> list[_about]:
        """A failed attempt, or a write to the state; by the step and with the event that it names."""
        tick = look.tick
        own = actor(look.before, tick)
        if self.step is not None and getattr(tick, "step", None) != self.step:
            return []
        if self.event is not None and (own is None or not self._takes(look, own)):
            return []
        if self.error and not (isinstance(tick, StepFailed) and own is not None):
            return []
        if self.state is not None and not _differs(look, self.state):
            return []
        if look.place == "start":
            return [(d, outs_of(d)) for d in look.starts]
        return [(own, outs_of(own) if own is not None else ())]

    def _holds(self, look: Look, outs: tuple[Out, ...]) -> bool:
        when = self.when
        if when is None:
            return True
        is_after = look.place == "after"
        state, before = (look.after, look.before) if is_after else (look.before, None)
        # Of what carries no event, one that speaks of the event is not asked.
        asked: Sequence[Out | None] = outs if when.needs_event else (None,)
        return any(when.holds(look.runner, state, before, look.tick, out) for out in asked)


def _differs(look: Look, path: str) -> bool:
    """Whether a tick changes what stands at a dotted path of the user's state."""
    before, after = look.before.user, look.after.user
    if before is after:
        return False
    name, *rest = path.split(".")
    return not alike(_at(before.get(name), rest), _at(after.get(name), rest))


def _at(out: Out | None, rest: Sequence[str]) -> Any:
    value: Any = MISSING if out is None else out.value
    for part in rest:
        if isinstance(value, dict):
            value = value.get(part, MISSING)
        elif isinstance(value, (list, tuple)):
            value = value[int(part)] if part.isdigit() and int(part) < len(value) else MISSING
        else:
            value = field_of(value, part)
    return value


class Breakpoints(Sequence[Breakpoint]):
    """All breakpoints of a workflow, for all its runs, oldest first."""

    def __init__(self, workflow: Workflow[Any]) -> None:
        self._workflow = workflow
        self._all: list[Breakpoint] = []
        #: The list that the runners read.
        self._enabled: list[Any] = workflow._stands
        self._last = 0
        self._lock = threading.Lock()
        #: Who is told of changes; nobody is kept alive by that.
        self.watchers: weakref.WeakSet[Watcher] = weakref.WeakSet()

    def _tell(self) -> None:
        for watcher in tuple(self.watchers):
            watcher.breakpoints_changed()

    def add(
        self,
        *,
        step: Any = None,
        event: Any = None,
        error: bool = False,
        state: str | None = None,
        at: Literal["before", "start", "after"] = "before",
        when: When | None = None,
        hit: int = 1,
    ) -> Breakpoint:
        """Stop the runs of this workflow where all that is named comes together.

        Args:
            step: A step, as its function or name: before it starts, or after an attempt of it has ended.
            event: An event type, as its class or name: before a tick that brings such an event, or after it; with
                `step`, of the event that the step gets.
            error: An attempt failed.
            state: A dotted path of the state: what stands there changed.
            at: "before" a tick is admitted, so that it stays first in the inbox; at the "start" of steps: the tick is
                admitted, and what it would start stays queued; "after" the tick. Control ticks, like the first of a
                run, are never held up, but what they would start is.
            when: A function of the `Moment` (before the tick, or after it, with that tick), or an expression over
                `event`, `state` and `tick` in the names of the caller. It only looks. If it raises, the run stops
                too, and the breakpoint and the tick say why.
            hit: Stop from the n-th match in a run on.

        Raises:
            WorkflowConfigurationError: Nothing is named, or something that cannot be.
            WorkflowStepDoesNotExistError: There is no such step.
        """
        if at not in _PLACES:
            raise WorkflowConfigurationError(f"A breakpoint stands at {', '.join(_PLACES)}, not at {at!r}.")
        if isinstance(hit, bool) or not isinstance(hit, int) or hit < 1:
            raise WorkflowConfigurationError(f"hit counts from 1, got {hit!r}.")
        if step is None and event is None and not error and state is None and when is None:
            raise WorkflowConfigurationError("A breakpoint needs a step, an event, error=True, a state key or when=.")
        if error and state is not None:
            raise WorkflowConfigurationError("No tick both fails and writes the state: make two breakpoints.")
        name = None if step is None else step_name(step, self._workflow.name, self._workflow.steps)
        key = None if event is None else event_name(event)
        condition = None if when is None else Condition(when)
        with self._lock:
            self._last += 1
            made = Breakpoint(self, self._last, name, key, error, state, at, condition, hit)
            self._all = [*self._all, made]
            self._enabled.append(made)
        self._tell()
        return made

    def remove(self, breakpoint: Breakpoint) -> None:
        """Take one out; one that is out already is no fault."""
        with self._lock:
            self._all = [each for each in self._all if each is not breakpoint]
            self._enabled[:] = [each for each in self._enabled if each is not breakpoint]
        self._tell()

    def clear(self) -> None:
        """Take all out."""
        with self._lock:
            self._all = []
            self._enabled.clear()
        self._tell()

    def enable(self) -> None:
        """Let all of them stop runs."""
        with self._lock:
            self._enabled[:] = self._all
        self._tell()

    def disable(self) -> None:
        """Keep all of them, but let runs pass."""
        with self._lock:
            self._enabled.clear()
        self._tell()

    def _change(self, breakpoint: Breakpoint, *, is_on: bool) -> None:
        with self._lock:
            on = {id(each) for each in self._enabled} - {id(breakpoint)}
            self._enabled[:] = [each for each in self._all if id(each) in on or (is_on and each is breakpoint)]
        self._tell()

    @overload
    def __getitem__(self, index: int) -> Breakpoint: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Breakpoint]: ...
    def __getitem__(self, index: int | slice) -> Breakpoint | Sequence[Breakpoint]:
        return self._all[index]

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Breakpoint]:
        return iter(self._all)

    def __repr__(self) -> str:
        of = f"<Breakpoints of {self._workflow.name}"
        return f"{of}: none>" if not self._all else "\n".join([f"{of}:", *(f"  {each!r}" for each in self._all)]) + ">"
