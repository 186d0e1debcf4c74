"""What "Edit & retry" offers: the failure that counts, and the event that failed."""

from __future__ import annotations

from typing import Any

from flownb.core.causes import delivery_of
from flownb.core.ticks import StepFailed
from flownb.notebook.drafts import Draft
from flownb.runtime.runner import Runner


def offered(runner: Runner) -> dict[str, str] | None:
    """`{"step": name, "what": words}` of a run that can be tried again, None of any other.

    `step` is "" where what ended the run counts: a failure of a step, a time limit, a cancel. Of a run that goes on or
    is completed it is the step whose failure a handler took.
    """
    state = runner.state
    if state.status == "failed" and state.failed_step >= 0:
        return {"step": "", "what": state.spec.steps[state.failed_step].name}
    if state.status in ("failed", "timed_out", "cancelled"):
        return {"step": "", "what": state.status.replace("_", " ")}
    if state.status == "cancelling":
        return None
    failed = next((spec.name for spec, now in zip(state.spec.steps, state.steps, strict=True) if now.failed), None)
    return {"step": failed, "what": failed} if failed is not None else None


def draft_of_failure(runner: Runner, step: str) -> Draft | None:
    """The event whose delivery failed, to be edited; None where no single event did.

    Args:
        runner: Of the run.
        step: Whose last failure counts; "" for what ended the run.
    """
    ticks: Any = runner.ticks
    for seq in range(len(ticks), 0, -1):
        tick = ticks[seq - 1]
        if isinstance(tick, StepFailed) and tick.retry_at is None and step in ("", tick.step):
            delivery = delivery_of(tick, runner.history.at(seq - 1))
            if delivery is None or isinstance(delivery.out, tuple):
                return None
            return Draft([delivery.out], is_list=False)
        if not step:  # the run was ended by its last tick
            return None
    return None


__all__ = ["draft_of_failure", "offered"]
