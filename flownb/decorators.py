"""The decorators of steps: `@step`, `@catch_error`, `@on_cancel`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from msgspec.structs import replace

from flownb.definition import StepOptions
from flownb.definition.options import ATTRIBUTE
from flownb.errors import WorkflowConfigurationError
from flownb.marking import C, F, Runs, cancel_options, handler_options, marked, step_options
from flownb.workflow import Workflow

if TYPE_CHECKING:
    from flownb.retry_policy import AnyRetryPolicy


@overload
def step(fn: F, /) -> F: ...
@overload
def step(
    fn: None = None,
    /,
    *,
    num_workers: int | None = 4,
    retry_policy: AnyRetryPolicy | None = None,
    timeout: float | None = None,
    on_error: Literal["fail", "continue"] | None = None,
    executor: str | None = None,
    idempotent: bool = True,
    sends: Literal["at_once", "on_success"] = "at_once",
    rate: float | None = None,
    runs: Runs = (),
    workflow: Any = None,
    skip_graph_checks: Iterable[str] = (),
    accept_event_subclasses: bool = True,
) -> Callable[[F], F]: ...
def step(fn: Any = None, /, **options: Any) -> Any:
    """Mark a method of a `Workflow` as a step, or add a free function with `workflow=Flow`.

    The function itself is returned, so a step can be called in a test.

    Args:
        fn: The function, where the decorator is used without options.
        options: As follows.

            num_workers: Deliveries that are active at once, 4 by default; None: no limit.
            retry_policy: When a failure is tried again; the workflow's by default.
            timeout: Seconds for one attempt, without the time in which it waits; the workflow's `step_timeout` by
                default.
            on_error: What a failure for good does: "fail" fails the run, "continue" sends a `StepFailedEvent`.
            executor: Where the code of a `def` step runs: "thread", "processes", or a slot that
                `with_options(executors=...)` fills.
            idempotent: False: after a crash a person says what became of a start that was under way.
            sends: When what is sent through `ctx` takes effect: "at_once", or "on_success" of the attempt.
            rate: Starts a second at most.
            runs: Workflows that it runs as children, for the drawing.
            workflow: A class or an object that a free function is added to.
            skip_graph_checks: Names of checks to leave out for this step.
            accept_event_subclasses: False: it takes exactly the types that it names.

    Raises:
        WorkflowConfigurationError: There is no such option, or no such word for it.
    """
    return marked(fn, lambda f: _mark(f, step_options("@step", options)))


@overload
def catch_error(fn: F, /) -> F: ...
@overload
def catch_error(
    fn: None = None,
    /,
    *,
    for_steps: Sequence[str] | None = None,
    max_recoveries: int | None = 1,
    workflow: Any = None,
) -> Callable[[F], F]: ...
def catch_error(fn: Any = None, /, **options: Any) -> Any:
    """Mark a step that takes the `StepFailedEvent` of other steps; those that it covers need no `on_error="continue"`.

    Args:
        fn: The function, where the decorator is used without options.
        options: for_steps (names of the steps, all by default), max_recoveries (how often a chain of causes may pass
            through it, 1 by default, None: no limit), workflow (a class or an object that a free function is added
            to).

    Raises:
        WorkflowConfigurationError: There is no such option, or for_steps is no list of names.
    """
    return marked(fn, lambda f: _mark(f, handler_options(options)))


@overload
def on_cancel(fn: C, /) -> C: ...
@overload
def on_cancel(fn: None = None, /, *, workflow: Any = None) -> Callable[[C], C]: ...
def on_cancel(fn: Any = None, /, *, workflow: Any = None) -> Any:
    """Mark a step that runs when the run is cancelled, and only then; what it returns is not routed.

    It takes nothing, or `ev: WorkflowCancelledEvent`, and the context.

    Args:
        fn: The function, where the decorator is used without options.
        workflow: A class or an object that a free function is added to.
    """
    return marked(fn, lambda f: _mark(f, cancel_options(workflow)))


def _mark(f: Any, made: StepOptions) -> Any:
    """A function is a step of the class around it, or of the workflow or class that it names."""
    to = made.workflow
    if isinstance(to, Workflow):
        return to._add(f, replace(made, workflow=None))
    if to is not None and not (isinstance(to, type) and issubclass(to, Workflow) and to is not Workflow):
        raise WorkflowConfigurationError(f"workflow={to!r} is neither a workflow nor a class of one.")
    setattr(f, ATTRIBUTE, made)
    if to is not None:
        to._added[f.__name__] = f, made
    return f


__all__ = ["catch_error", "on_cancel", "step"]
