"""The story of one event, step or tick: what of the journal touches it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flownb.core import commands as c
from flownb.core.causes import causes, delivery_of
from flownb.core.history import Passed
from flownb.core.state import Delivery, RunState
from flownb.core.values import Out, alike
from flownb.debug.subjects import carried, is_any_of, outs_of
from flownb.errors import WorkflowConfigurationError
from flownb.narration import Line, Story, told
from flownb.runtime.runner import Runner


def story(runner: Runner, of: Any) -> Story:
    """What of a run's journal touches an event (itself, its class or name), a step (its function or name) or a tick
    (its seq).

    Raises:
        WorkflowConfigurationError: It is none of these.
        IndexError: The run has no such tick.
    """
    if isinstance(of, int) and not isinstance(of, bool):
        if not 1 <= of <= len(runner.ticks):
            raise IndexError(f"Run {runner.run_id!r} has ticks 1 to {len(runner.ticks)}, not {of}.")
        return _of_tick(runner, of)
    name = of if isinstance(of, str) else getattr(of, "__name__", "")
    spec = runner.state.spec
    kind = getattr(of, "__flownb_kind__", None)
    if kind is None and name in spec.index:
        return _of_step(runner, spec.index[name])
    if isinstance(of, str):
        return _of_event(runner, lambda state, outs: is_any_of(state, outs, of))
    if kind is None:
        raise WorkflowConfigurationError(f"A story is of an event, a step or a tick's number, not of {of!r}.")
    if isinstance(of, type):
        key = str(kind[0])
        return _of_event(runner, lambda state, outs: is_any_of(state, outs, key))
    return _of_event(runner, lambda state, outs: any(alike(out.value, of) for out in outs))


def _line(passed: Passed, commands: Iterable[c.AnyCommand]) -> Line:
    return Line(passed.after.seq, passed.tick, tuple(commands), told(*passed))


def _of_step(runner: Runner, step: int) -> Story:
    def touches(command: c.AnyCommand) -> bool:
        return _step_of(command) == step

    found = []
    name = runner.state.spec.steps[step].name
    for passed in runner.history.walk():
        own = tuple(filter(touches, passed.commands))
        if own or getattr(passed.tick, "step", None) == name:
            found.append(_line(passed, own))
    return Story(found)


def _step_of(command: c.AnyCommand) -> int | None:
    """Index of the step that a command is about."""
    for part in (command, *(getattr(command, name, None) for name in ("delivery", "request", "timer", "child"))):
        step = getattr(part, "step", None)
        if isinstance(step, int):
            return step
    return None


def _of_event(runner: Runner, is_meant: Callable[[RunState, Iterable[Out]], bool]) -> Story:
    """Ticks that bring it, and those of the deliveries that it went into."""
    found = []
    for passed in runner.history.walk():
        before, tick, after, commands = passed
        own = delivery_of(tick, before)
        is_its = own is not None and is_meant(after, outs_of(own))
        did = tuple(command for command in commands if _has(after, command, is_meant))
        if did or is_its or is_meant(after, carried(before or after, tick)):
            found.append(_line(passed, did))
    return Story(found)


def _has(state: RunState, command: c.AnyCommand, is_meant: Callable[[RunState, Iterable[Out]], bool]) -> bool:
    delivery = getattr(command, "delivery", None)
    if isinstance(delivery, Delivery):
        return is_meant(state, outs_of(delivery))
    request = getattr(command, "request", None)
    outs = [getattr(command, "out", None), getattr(request, "question", None), getattr(command, "answer", None)]
    return is_meant(state, [out for out in outs if isinstance(out, Out)])


def _of_tick(runner: Runner, seq: int) -> Story:
    """The ticks that led to it, itself, and those that it led to."""
    lines: dict[int, Passed] = {}
    led_by: dict[int, list[int]] = {}
    for n, passed in enumerate(runner.history.walk(), 1):
        lines[n] = passed
        led_by[n] = causes(passed.tick, passed.before)
    wanted, behind = {seq}, [seq]
    while behind:
        for n in led_by[behind.pop()]:
            if n in led_by and n not in wanted:
                wanted.add(n)
                behind.append(n)
    reached = {seq}
    for n in range(seq + 1, len(lines) + 1):
        if reached.intersection(led_by[n]):
            reached.add(n)
    return Story(_line(lines[n], lines[n].commands) for n in sorted(wanted | reached))
