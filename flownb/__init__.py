"""flownb: event-driven workflows for notebooks, with their debugger in the cell."""

from __future__ import annotations

import importlib
from typing import Any

from flownb.context import Context
from flownb.defaults import options
from flownb.events import Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent
from flownb.requests import Request
from flownb.run import Run
from flownb.runs import Store
from flownb.workflow import Workflow, step

__version__ = "0.1.0"

__all__ = [
    "Context",
    "Event",
    "HumanResponseEvent",
    "InputRequiredEvent",
    "Request",
    "Run",
    "StartEvent",
    "StopEvent",
    "Store",
    "Workflow",
    "options",
    "step",
]

_LAZY = ("flownb.errors", "flownb.events")


def __getattr__(name: str) -> Any:
    """Every error and event is importable flat, as ported import lines expect."""
    if not name.startswith("_"):
        for module in _LAZY:
            found = getattr(importlib.import_module(module), name, None)
            if isinstance(found, type) and found.__module__ == module:
                return found
    raise AttributeError(f"module 'flownb' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
