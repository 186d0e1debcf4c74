"""Whether an event can be sent: asked at the call, so that nothing is queued that nobody could take."""

from __future__ import annotations

from flownb.errors import WorkflowRuntimeError, WorkflowStepDoesNotExistError
from flownb.events import Event, bases_of, key_of
from flownb.runtime.runner import Runner


def check_target(runner: Runner, ev: Event, step: str | None) -> None:
    """Raises where an event cannot be sent (R2.14)."""
    if not isinstance(ev, Event):
        raise WorkflowRuntimeError(f"Only events can be sent, not a {type(ev).__name__}: {ev!r}.")
    if step is None:
        return
    spec = runner.state.spec
    if step not in spec.index:
        raise WorkflowStepDoesNotExistError(step, workflow=spec.name, known=tuple(spec.index))
    found = spec.steps[spec.index[step]]
    kind = type(ev)
    if not found.waits and not {key_of(kind), *bases_of(kind)}.intersection(found.accepts):
        raise WorkflowRuntimeError(
            f"Step {step!r} takes {', '.join(found.accepts) or 'no single event'}, not {key_of(kind)}. "
            "Nothing was sent."
        )


def name_of(step: object) -> str | None:
    """The name of a step that is given as its function or by name."""
    if step is None or isinstance(step, str):
        return step
    return str(getattr(step, "__name__", step))
