"""Whether runs go on by themselves, and what would move those that do not."""

from __future__ import annotations

from collections.abc import Iterator

from flownb.core.state import Timer
from flownb.runtime.runner import Runner

#: Timers that move a run by themselves; deadlines only end a wait for somebody.
MOVING = ("sleep", "retry", "rate")


def works(runner: Runner) -> bool:
    """Whether a child that runs goes on by itself just now."""
    if runner.ended or runner.suspended:
        return False
    if runner.inbox or runner.control or not runner.state.seq or runner.state.busy:
        return True
    return any(map(works, (runner.children or {}).values()))


def sleeps_of(runner: Runner) -> Iterator[tuple[Runner, Timer]]:
    """What only time moves, in a run and in its children."""
    if not runner.ended and not runner.suspended:
        for timer in runner.state.timers.values():
            if timer.kind in MOVING:
                yield runner, timer
        for child in (runner.children or {}).values():
            yield from sleeps_of(child)
