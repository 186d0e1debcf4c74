"""What a driver has to say when it takes a run over: who it is, and what must not simply run again."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from flownb import events
from flownb.core.gate import is_control
from flownb.core.life import ends_in
from flownb.core.state import ENDED, RunState
from flownb.core.ticks import AnyTick, ChildChanged, QuietNoticed, RequestAnswered, StateWritten, StepFailed
from flownb.core.values import Out
from flownb.runtime.children import cancel_tick
from flownb.runtime.questions import accepted_of
from flownb.runtime.results import out_of
from flownb.store.drivers import describe

if TYPE_CHECKING:
    from flownb.runtime.runner import Runner


def driver_of(runner: Runner) -> str:
    """This process, as `RunOpened` names it."""
    return f"process {os.getpid()}" if runner.stored is None else describe(runner.stored.committer.driver)


def unknown_outcomes(runner: Runner, settled: Collection[int] = ()) -> dict[int, Out]:
    """The questions that stand in place of a new start (R3.62), by delivery: of steps with `idempotent=False` that
    were running when their driver was lost.

    Args:
        runner: The run that is taken over.
        settled: Deliveries whose end is in the inbox: what became of them is known.
    """
    state, found = runner.state, {}
    for spec, step in zip(state.spec.steps, state.steps, strict=True):
        if spec.idempotent:
            continue
        for d in step.active.values():
            if d.id not in settled:
                given = [out.value for out in d.out] if isinstance(d.out, tuple) else d.out.value
                question = events.OutcomeUnknown(step=spec.name, input_event=given, attempt=d.attempt, started_at=d.at)
                found[d.id] = out_of(question, runner.definition, 0.0)
    return found


def orphaned(runner: Runner) -> list[AnyTick]:
    """The cancel of a child whose parent is over: nobody hears of it any more (R2.45)."""
    parent = runner.state.head.parent
    if parent is None or runner.stored is None:
        return []
    row = runner.stored.committer.journal.row(parent.run_id)
    if row is None or row.status not in ENDED:
        return []
    return [cancel_tick(runner, f"its parent {parent.run_id!r} is over: {row.status}", "")]


def put_inbox(runner: Runner, base: RunState, inbox: Sequence[AnyTick], later: float = 0.0) -> None:
    """What waited to be admitted waits again; what comes from steps that start again does not: they bring it anew.

    Args:
        runner: It goes on from a state.
        base: The state.
        inbox: What waited there, in order.
        later: Seconds by which its due times have moved.
    """
    settled, over = ends_in(base, inbox)
    for tick in inbox:
        is_lost = isinstance(tick, QuietNoticed) or (isinstance(tick, ChildChanged) and tick.child not in over)
        if is_lost or (hasattr(tick, "start") and getattr(tick, "delivery", 0) not in settled):
            if tick.entry and runner.stored is not None:
                runner.stored.dropped.append(tick.entry)
            continue
        if isinstance(tick, StepFailed) and tick.retry_at is not None:
            tick = replace(tick, retry_at=tick.retry_at + later)  # noqa: PLW2901 - the same one, moved
        if isinstance(tick, StateWritten):
            runner.user.put(tick)
        if isinstance(tick, RequestAnswered):
            runner.questions.accepted[tick.request] = accepted_of(tick)
        if tick.entry and runner.stored is not None:
            runner.stored.entries.add(tick.entry)
        (runner.control if is_control(tick) else runner.inbox).append(tick)
