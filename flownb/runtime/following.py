"""A run that is driven elsewhere, or by nobody: its ticks are read from the journal and nothing is done about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flownb.core import commands as c
from flownb.core.publishing import publications
from flownb.core.reduce import advance
from flownb.core.ticks import AnyTick, RequestAnswered, TimerFired

if TYPE_CHECKING:
    from flownb.core.state import RunState
    from flownb.runtime.runner import Runner


def follow(runner: Runner, ticks: Sequence[AnyTick]) -> None:
    """Take in ticks that stand in the journal already, after those that are known.

    Raises:
        Exception: Whatever the reducer says of ticks that make no sense after each other; those before are taken in.
    """
    try:
        for tick in ticks:
            before = runner.state if runner.ticks else None
            after, commands = advance(before, tick)
            _take_in(runner, before, tick, after, commands)
    finally:
        runner.tell()


def _take_in(
    runner: Runner, before: RunState | None, tick: AnyTick, after: RunState, commands: Sequence[c.AnyCommand]
) -> None:
    runner.ticks.append(tick)
    runner.history.note(after, tick)
    for command in commands:
        if isinstance(command, c.OpenRequest):
            runner.questions.note(command.request)
    runner.state = after  # who sees it, on whatever thread, finds its past and can answer what it asks
    if before is not None and isinstance(tick, (RequestAnswered, TimerFired)):
        runner.questions.answered(before, tick, after.seq)
    runner.published += publications(before, tick, after, commands)
    for command in commands:
        if isinstance(command, c.CloseRequest):
            runner.questions.close(command, tick)
    for observer in runner.observers:
        runner.tell_observer(observer, before, tick, after, list(commands))
