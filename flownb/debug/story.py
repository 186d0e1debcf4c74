"""The story of one event, step or tick: what of the journal touches it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import Struct

from flownb.core import commands as c
from flownb.core.causes import causes, delivery_of
from flownb.core.reduce import advance
from flownb.core.state import Delivery, RunState
from flownb.core.ticks import AnyTick
from flownb.core.values import Out, alike
from flownb.debug.subjects import carried, is_any_of, outs_of
from flownb.errors import WorkflowConfigurationError
from flownb.runtime.gatekeeper import Seen
from flownb.runtime.runner import Runner


class Line(Struct, frozen=True):
    """One tick of a story, with those of its commands that belong to it."""

    seq: int
    tick: AnyTick
    commands: tuple[c.AnyCommand, ...]

    def __str__(self) -> str:
        step = getattr(self.tick, "step", None)
        did = ", ".join(type(command).__name__ for command in self.commands)
        return f"{self.seq:>5}  {type(self.tick).__name__}{f' of {step}' if step else ''}{f' -> {did}' if did else ''}"


class Story(tuple[Line, ...]):
    """Ticks with commands, oldest first."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n".join(map(str, self)) or "<an empty story>"


def story(runner: Runner, of: Any) -> Story:
    """What of a run's journal touches an event (itself, its class or name), a step (its function or name) or a tick
    (its seq).

    Raises:
        WorkflowConfigurationError: It is none of these.
        IndexError: The run has no such tick.
    """
    journal = tuple(runner.ticks)
    if isinstance(of, int) and not isinstance(of, bool):
        if not 1 <= of <= len(journal):
            raise IndexError(f"Run {runner.run_id!r} has ticks 1 to {len(journal)}, not {of}.")
        return _of_tick(runner, journal, of)
    name = of if isinstance(of, str) else getattr(of, "__name__", "")
    spec = runner.state.spec
    kind = getattr(of, "__flownb_kind__", None)
    if kind is None and name in spec.index:
        return _of_step(runner, journal, spec.index[name])
    if isinstance(of, str):
        return _of_event(runner, journal, lambda state, outs: is_any_of(state, outs, of))
    if kind is None:
        raise WorkflowConfigurationError(f"A story is of an event, a step or a tick's number, not of {of!r}.")
    if isinstance(of, type):
        key = str(kind[0])
        return _of_event(runner, journal, lambda state, outs: is_any_of(state, outs, key))
    return _of_event(runner, journal, lambda state, outs: any(alike(out.value, of) for out in outs))


def _folded(runner: Runner, journal: Iterable[AnyTick]) -> Iterator[tuple[int, Seen]]:
    """Every tick with its number, the states around it and its commands."""
    state: RunState | None = None
    for seq, tick in enumerate(journal, 1):
        after, commands = advance(state, tick)
        yield seq, (after if state is None else state, tick, after, commands)
        state = after


def _of_step(runner: Runner, journal: tuple[AnyTick, ...], step: int) -> Story:
    def touches(command: c.AnyCommand) -> bool:
        return _step_of(command) == step

    found = []
    name = runner.state.spec.steps[step].name
    for seq, (_, tick, _, commands) in _folded(runner, journal):
        own = tuple(filter(touches, commands))
        if own or getattr(tick, "step", None) == name:
            found.append(Line(seq, tick, own))
    return Story(found)


def _step_of(command: c.AnyCommand) -> int | None:
    """Index of the step that a command is about."""
    for part in (command, *(getattr(command, name, None) for name in ("delivery", "request", "timer", "child"))):
        step = getattr(part, "step", None)
        if isinstance(step, int):
            return step
    return None


def _of_event(
    runner: Runner, journal: tuple[AnyTick, ...], is_meant: Callable[[RunState, Iterable[Out]], bool]
) -> Story:
    """Ticks that bring it, and those of the deliveries that it went into."""
    found = []
    for seq, (before, tick, after, commands) in _folded(runner, journal):
        own = delivery_of(tick, before) if seq > 1 else None
        is_its = own is not None and is_meant(after, outs_of(own))
        did = tuple(command for command in commands if _has(after, command, is_meant))
        if did or is_its or is_meant(after, carried(before, tick)):
            found.append(Line(seq, tick, did))
    return Story(found)


def _has(state: RunState, command: c.AnyCommand, is_meant: Callable[[RunState, Iterable[Out]], bool]) -> bool:
    delivery = getattr(command, "delivery", None)
    if isinstance(delivery, Delivery):
        return is_meant(state, outs_of(delivery))
    request = getattr(command, "request", None)
    outs = [getattr(command, "out", None), getattr(request, "question", None), getattr(command, "answer", None)]
    return is_meant(state, [out for out in outs if isinstance(out, Out)])


def _of_tick(runner: Runner, journal: tuple[AnyTick, ...], seq: int) -> Story:
    """The ticks that led to it, itself, and those that it led to."""
    lines: dict[int, Line] = {}
    led_by: dict[int, list[int]] = {}
    for n, (before, tick, _, commands) in _folded(runner, journal):
        lines[n] = Line(n, tick, tuple(commands))
        led_by[n] = causes(tick, before) if n > 1 else []
    wanted, behind = {seq}, [seq]
    while behind:
        for n in led_by[behind.pop()]:
            if n in led_by and n not in wanted:
                wanted.add(n)
                behind.append(n)
    reached = {seq}
    for n in range(seq + 1, len(journal) + 1):
        if reached.intersection(led_by[n]):
            reached.add(n)
    return Story(lines[n] for n in sorted(wanted | reached))
