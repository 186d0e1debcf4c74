"""What becomes of a failure: asked once, when it happens, and written in the tick (R3.26)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from flownb.core.graph import short
from flownb.core.state import Delivery
from flownb.core.values import Out
from flownb.definition import Step
from flownb.errors import NoRetry, StepFailure
from flownb.events import StepFailedEvent
from flownb.runtime.results import current, out_of

if TYPE_CHECKING:
    from flownb.runtime.runner import Runner

_NEVER = (KeyboardInterrupt, SystemExit, NoRetry)


def present(runner: Runner, delivery: Delivery) -> Delivery:
    """A delivery as the state has it now; its worker keeps it as it was when it was started."""
    step = runner.state.steps[delivery.step]
    return step.active.get(delivery.id) or step.waiting.get(delivery.id) or delivery


def elapsed_s(runner: Runner, delivery: Delivery, now: float) -> float:
    """Seconds since the first attempt began, without the time that people took (R3.31)."""
    tries = delivery.tries
    first_at = tries.first_at if tries is not None and tries.first_at else delivery.at
    asked_s = tries.asked_s if tries is not None else 0.0
    return max(0.0, now - first_at - asked_s)


def retry_at(runner: Runner, delivery: Delivery, step: Step, error: BaseException, now: float) -> float | None:
    """When a failed delivery is tried again (Unix seconds), None for never.

    A policy that raises gives up, and the step's error tells of both (R3.32).
    """
    policy = step.options.retry_policy
    if policy is None:
        policy = runner.policies.retry_policy
    if policy is None or isinstance(error, _NEVER) or runner.state.status == "cancelling":
        return None
    from flownb.retry_policy import call_policy  # most steps have none

    d = present(runner, delivery)
    seed = _seed(runner.run_id, step.name, d.id, d.attempt)
    delay, broken = call_policy(policy, elapsed_s(runner, d, now), d.attempt, error, seed)
    if broken is not None and broken is not error:
        error.add_note(f"Its retry policy failed, so it is not tried again: {type(broken).__name__}: {broken}")
        if error.__context__ is None:
            error.__context__ = broken
    return None if delay is None else now + delay


def failed_event(runner: Runner, delivery: Delivery, step: Step, error: BaseException, now: float) -> Out | None:
    """The event that a failure for good is routed as, None if it fails the run (R3.35, R3.36)."""
    if runner.state.spec.steps[delivery.step].on_error != "continue":
        return None
    d = present(runner, delivery)
    return out_of(
        StepFailedEvent(
            step_name=step.name,
            input_event=_input(runner, d),
            exception=error,
            attempts=d.attempt,
            elapsed_seconds=elapsed_s(runner, d, now),
            failed_at=now,
        ),
        runner.definition,
        now,
    )


def last_error(runner: Runner, delivery: Delivery) -> BaseException | None:
    """Why the attempt before failed; of an earlier process only the words."""
    error = runner.errors.get(delivery.id)
    tries = delivery.tries
    if error is None and tries is not None and tries.failure is not None:
        error = StepFailure(f"{short(tries.failure.type)}: {tries.failure.message}")
    return error


def _input(runner: Runner, delivery: Delivery) -> Any:
    outs = delivery.out
    if isinstance(outs, tuple):
        return [current(out, runner.definition) for out in outs]
    return current(outs, runner.definition)


def _seed(run_id: str, step: str, delivery: int, attempt: int) -> int:
    """The same for the same attempt, wherever it is asked (R3.27)."""
    return int.from_bytes(hashlib.sha256(f"{run_id}/{step}/{delivery}/{attempt}".encode()).digest()[:8], "big")
