"""flownb: event-driven workflows for notebooks, with their debugger in the cell."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from flownb.collect import Take
from flownb.context import Context
from flownb.decorators import catch_error, on_cancel, step
from flownb.defaults import options
from flownb.events import Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent
from flownb.requests import Request
from flownb.resource import Resource
from flownb.run import Run
from flownb.runs import Store
from flownb.workflow import Workflow

if TYPE_CHECKING:
    from flownb.forms.registry import register_field

__version__ = "0.1.0"

__all__ = [
    "Context",
    "Event",
    "HumanResponseEvent",
    "InputRequiredEvent",
    "Request",
    "Resource",
    "Run",
    "StartEvent",
    "StopEvent",
    "Store",
    "Take",
    "Workflow",
    "catch_error",
    "on_cancel",
    "options",
    "register_field",
    "resume",
    "step",
]

#: Modules whose public names are importable flat, those that are loaded anyway first.
_LAZY = (
    "flownb.errors",
    "flownb.events",
    "flownb.resource",
    "flownb.collect",
    "flownb.context",
    "flownb.contexts",
    "flownb.snapshot",
    "flownb.state",
    "flownb.waits",
    "flownb.requests",
    "flownb.run",
    "flownb.runs",
    "flownb.stream",
    "flownb.moment",
    "flownb.reasons",
    "flownb.launch",
    "flownb.runtime.pending",
    "flownb.retry_policy",
)
#: Functions that few programs call, by where they are.
_FUNCTIONS = {
    "register_field": "flownb.forms.registry",
    "enable_fast_lane": "flownb.notebook.fastlane",
    "disable_fast_lane": "flownb.notebook.fastlane",
}


def resume(run: str | Mapping[str, Any], *, store: Any = None) -> Run[Any]:
    """Go on with a run, or from a snapshot, with its workflow as this process defines it; `flow.resume` is its typed
    twin.

    Args:
        run: A run id, or what `run.snapshot()` gave, also read back from JSON.
        store: Where the run is kept.

    Raises:
        WorkflowNotDefined: This process has not defined its workflow; names it.
        RunNotFound: There is no such run.
    """
    from flownb.resuming import resume as go_on  # most programs do not need it

    return go_on(run, store=store)


def __getattr__(name: str) -> Any:
    """Every public class is importable flat, as ported import lines expect.

    But for `retry_policy`, which is the module: the class of that name would hide it from
    `import flownb.retry_policy as rp`.
    """
    if name == "WorkflowHandler":
        return Run
    if name in _FUNCTIONS:
        return getattr(importlib.import_module(_FUNCTIONS[name]), name)
    if not name.startswith("_") and name != "retry_policy":
        for module in _LAZY:
            found = getattr(importlib.import_module(module), name, None)
            if isinstance(found, type) and f"{found.__module__}.".startswith(f"{module}."):
                return found
    raise AttributeError(f"module 'flownb' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
