"""How a step stands: the most urgent of its deliveries, as one word and a few more beside it.

The panel's nodes and `Moment.steps` say it with the same words. Whoever follows a run tick by tick counts its questions
and retries as they come and go; whoever looks at one state alone counts them there.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice

from flownb.core.graph import short
from flownb.core.state import Delivery, RunState, StepState, is_ended

#: Every state that a step is shown in.
STATES = ("idle", "queued", "running", "person", "waiting", "done", "failed", "retrying", "skipped")


def step_states(state: RunState) -> dict[str, str]:
    """`{step: one of STATES}` of all steps, in their order."""
    asks = Counter(request.step for request in state.requests.values())
    found: dict[str, str] = {}
    for i, (spec, step) in enumerate(zip(state.spec.steps, state.steps, strict=True)):
        found[spec.name], _ = urgent(state, i, asks[i], sum(map(is_retrying, step.waiting.values())))
    return found


def is_retrying(d: Delivery | None) -> bool:
    """Whether a delivery failed and is tried again later."""
    return d is not None and d.tries is not None and d.tries.timer > 0


def urgent(state: RunState, i: int, asks: int, retrying: int) -> tuple[str, str]:
    """The state of one step, and a few words on it ("" for none).

    Args:
        state: The run's.
        i: Index of the step.
        asks: Its open questions.
        retrying: Its deliveries that are tried again later.
    """
    step = state.steps[i]
    running, waiting = len(step.active), len(step.waiting)
    queued, total = len(step.queue), step.done + step.failed
    everything = total + running + waiting + queued
    if step.failed:
        return "failed", _error(state, i)
    if is_ended(state) and any(a.step == i for a in state.abandoned):
        return "skipped", "cut off"
    if asks:
        return "person", f"{asks} questions" if asks > 1 else "asks you"
    if retrying:
        return "retrying", f"{retrying} of {everything} again" if everything > 1 else "tries again"
    if running:
        return "running", f"{step.done} of {everything}" if everything > 1 else ""
    if waiting:
        return "waiting", f"{step.done} of {everything}" if everything > 1 else _waits(step)
    gathered = _gathered(state, i)
    if gathered:
        return "waiting", gathered
    if queued:
        return "queued", f"{queued} queued"
    if step.done:
        return "done", f"done ×{step.done}" if step.done > 1 else "done"
    return "idle", ""


#: What a single waiting delivery does.
_WAITS = {"sleep": "sleeps", "event": "waits", "child": "runs a child", "ask": "asks"}


def _waits(step: StepState) -> str:
    d = next(step.waiting.values())
    if d.held:
        return "held back"
    wait = next(d.waits.values(), None)
    return _WAITS[wait.kind] if wait is not None else "goes on soon"


def _gathered(state: RunState, i: int) -> str:
    """ "3 of 8" for a gathering step whose fan-out is open (of several open ones, the oldest)."""
    if not state.spec.steps[i].gathers or not len(state.joins):
        return ""
    # Fan-outs of others may stand in front; they are not all looked through, since this is asked at every tick.
    found = ((join, target) for join in islice(state.joins.values(), 8) for target in join.targets if target.step == i)
    join, target = next(found, (None, None))
    return f"{target.n} of {join.size}" if join is not None and target is not None else ""


def _error(state: RunState, i: int) -> str:
    """Name of the exception that a step failed with; of failures that others took, how many."""
    if state.failure is not None and state.failed_step == i:
        return short(state.failure.type)
    failed = state.steps[i].failed
    return f"{failed} failed" if failed > 1 else "failed"
