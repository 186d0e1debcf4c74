"""Process-wide defaults: `flownb.options`."""

from __future__ import annotations

import os
from typing import Any, Literal

from flownb.errors import WorkflowConfigurationError, near

Host = Literal["auto", "thread", "loop", "kernel"]
OnInterrupt = Literal["cancel", "detach"]
Panel = Literal["auto", "full", "off"]


def _login() -> str:
    """The name under which the system knows who runs this; "" if it knows none."""
    known = os.environ.get("USER") or os.environ.get("USERNAME")
    if known:
        return known
    import getpass  # a container's shell often names nobody

    try:
        return getpass.getuser()
    except (OSError, ImportError, KeyError):
        return ""


class Options:
    """Defaults of this process. `with_options(...)` and `Workflow(...)` win over them, they over the environment
    (`FLOWNB_STORE`, `FLOWNB_PANEL`, ...)."""

    __slots__ = ("host", "notify", "on_interrupt", "panel", "store", "user")

    #: Where runs are kept: a path, ":memory:", or None for the default of the place (kernel or script).
    store: Any
    host: Host
    on_interrupt: OnInterrupt
    panel: Panel
    #: Whether panels let the browser tell of questions while nobody looks at the page; the person allows it there, with
    #: the bell of the panel.
    notify: bool
    #: Recorded with each answer.
    user: str

    def __init__(self) -> None:
        object.__setattr__(self, "store", os.environ.get("FLOWNB_STORE"))
        self.host = _from("host", "auto")
        self.on_interrupt = _from("on_interrupt", "cancel")
        self.panel = _from("panel", "auto")
        self.notify = os.environ.get("FLOWNB_NOTIFY", "").lower() in ("1", "true", "yes", "on")
        named = os.environ.get("FLOWNB_USER")  # an empty one: nobody's name is recorded
        self.user = named if named is not None else os.environ.get("JUPYTERHUB_USER") or _login()

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__slots__:
            raise AttributeError(f"flownb.options has no {name!r}. {near(name, self.__slots__, 'There are')}")
        check_choice(name, value)
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return "Options(" + ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__) + ")"


#: Settings that take one of a few words.
CHOICES: dict[str, tuple[str, ...]] = {
    "host": ("auto", "thread", "loop", "kernel"),
    "on_interrupt": ("cancel", "detach"),
    "panel": ("auto", "full", "off"),
    "answers_if": ("always", "headless"),
    "unhandled": ("warn", "error", "ignore"),
    "stalled": ("error", "wait"),
    "timeout_clock": ("active", "wall"),
    "unserializable": ("error", "live"),
    "on_error": ("fail", "continue"),
    "sends": ("at_once", "on_success"),
}


def check_choice(name: str, value: Any, where: str = "") -> None:
    """Raises WorkflowConfigurationError for a setting that is none of its words; None means "not set"."""
    allowed = CHOICES.get(name)
    if allowed is not None and value is not None and value not in allowed:
        raise WorkflowConfigurationError(f"{where or name}={value!r} is not one of {', '.join(allowed)}.")


def _from(name: str, default: str) -> Any:
    variable = f"FLOWNB_{name.upper()}"
    value = os.environ.get(variable, default)
    check_choice(name, value, variable)
    return value


options = Options()
