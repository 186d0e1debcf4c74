"""Idle release: a run of which nothing runs gives its coroutines back, and its lease, until something comes (R5.41).

Its code runs again from the top when it is woken, so this is done only where it was asked for. Handles stay valid: to
whoever holds the run it waits as before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flownb.core.state import RunState
from flownb.runtime.stored import UNLOADED, release, wake

if TYPE_CHECKING:
    from flownb.runtime.runner import Runner


def consider(runner: Runner) -> None:
    """After a turn: if nothing of the run runs now, and still in a while, it is unloaded; on the loop's thread."""
    if runner.unload_after is not None and is_idle(runner.state):
        runner.host.later(runner.unload_after, _unload, runner, runner.state.seq)


def is_idle(state: RunState) -> bool:
    """Whether a live run only waits: for people, events, children or the time."""
    if state.status not in ("running", "waiting") or state.gate:
        return False
    return not any(step.active.n or step.queue.n or step.front.n or step.again.n for step in state.steps)


def _unload(runner: Runner, seq: int) -> None:
    if runner.suspended or runner.ended or runner.state.seq != seq or runner.inbox or runner.control:
        return
    due = min((timer.due_at for timer in runner.state.timers.values()), default=None)
    runner.suspended = UNLOADED
    runner.put_down()
    release(runner)
    if due is not None:
        runner.timers[0] = runner.clock.call_at(runner.host.loop, due, lambda: wake(runner))
    runner.tell()
