"""What a driver has to say when it takes a run over: who it is, and what must not simply run again."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING

from flownb.core.values import Out
from flownb.events import OutcomeUnknown
from flownb.runtime.results import out_of

if TYPE_CHECKING:
    from flownb.runtime.runner import Runner


def driver() -> str:
    """This process, as `RunOpened` names it."""
    return f"process {os.getpid()}"


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
                question = OutcomeUnknown(step=spec.name, input_event=given, attempt=d.attempt, started_at=d.at)
                found[d.id] = out_of(question, runner.definition, 0.0)
    return found
