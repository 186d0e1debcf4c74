"""Process-wide defaults: `flownb.options`."""

from __future__ import annotations

import os
from typing import Any, Literal

from flownb.errors import WorkflowConfigurationError, near

Host = Literal["auto", "thread", "loop", "kernel"]
OnInterrupt = Literal["cancel", "detach"]
Panel = Literal["auto", "full", "off"]


class Options:
    """Defaults of this process. `with_options(...)` and `Workflow(...)` win over them, they over the environment
    (`FLOWNB_STORE`, `FLOWNB_PANEL`, ...)."""

    __slots__ = ("host", "on_interrupt", "panel", "store", "user")

    #: Where runs are kept: a path, ":memory:", or None for the default of the place (kernel or script).
    store: Any
    host: Host
    on_interrupt: OnInterrupt
    panel: Panel
    #: Recorded with each answer.
    user: str

    def __init__(self) -> None:
        object.__setattr__(self, "store", os.environ.get("FLOWNB_STORE"))
        self.host = _from("FLOWNB_HOST", "auto", ("auto", "thread", "loop", "kernel"))
        self.on_interrupt = _from("FLOWNB_ON_INTERRUPT", "cancel", ("cancel", "detach"))
        self.panel = _from("FLOWNB_PANEL", "auto", ("auto", "full", "off"))
        self.user = os.environ.get("FLOWNB_USER") or os.environ.get("JUPYTERHUB_USER") or os.environ.get("USER") or ""

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__slots__:
            raise AttributeError(f"flownb.options has no {name!r}. {near(name, self.__slots__, 'There are')}")
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return "Options(" + ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__) + ")"


def _from(variable: str, default: str, allowed: tuple[str, ...]) -> Any:
    value = os.environ.get(variable, default)
    if value not in allowed:
        raise WorkflowConfigurationError(f"{variable}={value!r} is not one of {', '.join(allowed)}.")
    return value


options = Options()
