"""Facts about the kernel that this process is: which cell runs, and whether anybody looks."""

from __future__ import annotations

import threading
from typing import Any

from flownb.runtime import capture

#: Sessions (front ends) whose widgets said hello: proof that somebody looks.
_hellos: set[str] = set()


def parent() -> dict[str, Any]:
    """The message that the kernel works on in this context; {} outside a kernel."""
    from IPython import get_ipython

    shell = get_ipython()
    kernel = getattr(shell, "kernel", None)
    return dict(kernel.get_parent() or {}) if kernel is not None else {}


def is_cell(message: dict[str, Any]) -> bool:
    """Whether a message is the execution of a cell, on the main thread: only there may a run show itself."""
    is_execution = message.get("header", {}).get("msg_type") == "execute_request"
    return is_execution and threading.current_thread() is threading.main_thread()


def cell_key(message: dict[str, Any]) -> str:
    """The cell that a message executes: its id, or the message where the front end names none."""
    return str(message.get("metadata", {}).get("cellId") or message.get("header", {}).get("msg_id", ""))


def has_front_end() -> bool:
    """Whether a person may look: the request allows input, or a widget said hello before.

    nbconvert, papermill and nbval execute with input forbidden.
    """
    message = parent()
    session = str(message.get("header", {}).get("session", ""))
    return bool(message.get("content", {}).get("allow_stdin")) or session in _hellos


def said_hello() -> None:
    """A widget of ours was drawn."""
    _hellos.add(str(parent().get("header", {}).get("session", "")))


def is_last_expression() -> bool:
    """Whether the display hook shows the cell's last expression just now."""
    from IPython import get_ipython

    shell = get_ipython()
    hook = getattr(shell, "displayhook", None)
    return getattr(hook, "msg", None) is not None


def route_displays() -> None:
    """What a step displays goes to its log as text, as its prints do, never into whichever cell runs just now."""
    if _route not in capture.on_change:
        capture.on_change.append(_route)
        _route(True)


def _route(active: bool) -> None:
    from IPython import get_ipython

    shell = get_ipython()
    publisher = getattr(shell, "display_pub", None)
    if publisher is None:
        return
    routed = isinstance(publisher.__dict__.get("publish"), _DisplayRouter)
    if active and not routed:
        publisher.__dict__["publish"] = _DisplayRouter(publisher.publish)
    elif not active and routed:
        del publisher.__dict__["publish"]


class _DisplayRouter:
    """Stands in the place of the shell's `publish` while runs are active."""

    def __init__(self, below: Any) -> None:
        self._below = below

    def __call__(self, data: Any, *args: Any, **kwargs: Any) -> Any:
        to = capture.sink.get()
        if to is not None and to.take_output(f"{data.get('text/plain', '<no text>')}\n"):
            return None
        return self._below(data, *args, **kwargs)
