"""What a decorator writes on a function: the options that it was told, and where it stood."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from flownb.defaults import check_choice
from flownb.definition import CHECKS, StepOptions
from flownb.definition.steps import nested_names
from flownb.errors import WorkflowConfigurationError, near
from flownb.events import Event
from flownb.runtime.host import cell

if TYPE_CHECKING:
    from flownb.workflow import Workflow

Given: TypeAlias = Event | Sequence[Event] | None
#: A step, as a checker sees it: `-> int` is refused.
F = TypeVar("F", bound=Callable[..., Given | Awaitable[Given]])
#: A step that runs when the run is cancelled.
C = TypeVar("C", bound=Callable[..., Awaitable[None] | None])
#: What `runs=` takes.
Runs: TypeAlias = "type[Workflow[Any]] | Workflow[Any] | Sequence[type[Workflow[Any]] | Workflow[Any]]"

#: Modules whose frames stand between a decorator and the place where it is used.
_BETWEEN = (__name__, "flownb.decorators", "flownb.workflow", "flownb.definition.steps")
_OF_STEP = (
    "num_workers",
    "retry_policy",
    "timeout",
    "on_error",
    "executor",
    "idempotent",
    "sends",
    "rate",
    "runs",
    "workflow",
    "skip_graph_checks",
    "accept_event_subclasses",
)


def _check_known(word: str, found: dict[str, Any], known: tuple[str, ...]) -> None:
    for name in found:
        if name not in known:
            raise WorkflowConfigurationError(f"{word} has no option {name!r}. {near(name, known, 'It has')}")


def step_options(word: str, found: dict[str, Any]) -> StepOptions:
    """What `@step` was told. Words that there are not are refused here, values with the other faults of the step."""
    _check_known(word, found, _OF_STEP)
    for name in ("on_error", "sends"):
        check_choice(name, found.get(name), f"{word}: {name}")
    if "skip_graph_checks" in found:
        found = {**found, "skip_graph_checks": check_names(found["skip_graph_checks"])}
    if "runs" in found:
        found = {**found, "runs": _keys_of(found["runs"])}
    return _placed(**found)


def handler_options(found: dict[str, Any]) -> StepOptions:
    """What `@catch_error` was told."""
    _check_known("@catch_error", found, ("for_steps", "max_recoveries", "workflow"))
    names = found.get("for_steps")
    if names is not None and (isinstance(names, str) or not names or not all(isinstance(n, str) for n in names)):
        raise WorkflowConfigurationError(
            f"@catch_error: for_steps={names!r}; give a list of names of steps, or leave it out for all."
        )
    return _placed(
        catches=tuple(names or ()),
        max_recoveries=found.get("max_recoveries", 1),
        workflow=found.get("workflow"),
    )


def cancel_options(workflow: Any = None) -> StepOptions:
    return _placed(on_cancel=True, workflow=workflow)


def _placed(**found: Any) -> StepOptions:
    """Options with the cell and the names around the decorator that is at work."""
    return StepOptions(**found, cell=cell(), local=nested_names(_BETWEEN))


def _keys_of(runs: Any) -> tuple[str, ...]:
    """Keys of the workflows that a step runs."""
    keys: list[str] = []
    several: Iterable[Any] = runs if isinstance(runs, (list, tuple)) else (runs,)
    for each in several:
        key = getattr(each, "_key", "")  # this module stands below the workflows
        if not isinstance(key, str) or not key:
            raise WorkflowConfigurationError(f"@step: runs names {each!r}, which is neither a workflow nor its class.")
        keys.append(key)
    return tuple(dict.fromkeys(keys))


def marked(fn: Any, mark: Callable[[Any], Any]) -> Any:
    """What a decorator gives, with or without options."""
    return mark if fn is None else mark(fn)


def check_names(names: Iterable[str]) -> tuple[str, ...]:
    """Names of checks, each of which there is."""
    names = (names,) if isinstance(names, str) else tuple(names)
    for name in names:
        if name not in CHECKS:
            raise WorkflowConfigurationError(f"There is no graph check {name!r}. {near(name, CHECKS, 'There are')}")
    return names
