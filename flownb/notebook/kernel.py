"""Facts about the kernel that this process is: which cell runs, and whether anybody looks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from typing import Any

from flownb.runtime import capture, host
from flownb.runtime.hearing import hearing

_shown_elsewhere: ContextVar[bool] = ContextVar("flownb_shown_elsewhere", default=False)


def parent() -> dict[str, Any]:
    """The message that the kernel works on in this context; {} outside a kernel."""
    from IPython import get_ipython

    shell = get_ipython()
    kernel = getattr(shell, "kernel", None)
    try:
        return dict(kernel.get_parent() or {}) if kernel is not None else {}
    except LookupError:  # ipykernel 7.0, on a thread of ours
        return {}


def lend_parent(to: host.Host) -> None:
    """Let a host publish. ipykernel 7.0 looks for the message to which something belongs in the context alone, and the
    clean context of a host has none; what it publishes belongs to no cell anyway."""
    from IPython import get_ipython

    kernel = getattr(get_ipython(), "kernel", None)
    if kernel is None:
        return
    try:
        Context().run(kernel.get_parent)
    except LookupError:
        to.lend({var: value for var, value in copy_context().items() if var.name in _PARENTS})


#: The names of the kernel's variables that hold it: of the kernel, of what it displays, of its streams.
_PARENTS = frozenset(("shell_parent", "shell_parent_ident", "parent_header"))


def is_here(message: dict[str, Any]) -> bool:
    """Whether a kernel shows what is displayed; in a script and in a terminal nobody renews an output."""
    return bool(message) or host.in_kernel()


def is_cell(message: dict[str, Any]) -> bool:
    """Whether a message is the execution of a cell, on the main thread: only there may a run show itself."""
    is_execution = message.get("header", {}).get("msg_type") == "execute_request"
    return is_execution and threading.current_thread() is threading.main_thread()


@contextmanager
def shown_elsewhere() -> Generator[None, None, None]:
    """Runs that begin inside show themselves in no cell: who began them shows them."""
    token = _shown_elsewhere.set(True)
    try:
        yield
    finally:
        _shown_elsewhere.reset(token)


def is_shown_elsewhere() -> bool:
    """Whether whoever begins a run now shows it."""
    return _shown_elsewhere.get()


def user_names() -> Mapping[str, Any]:
    """The names of the notebook's cells: what a condition that a person types may use."""
    from IPython import get_ipython

    shell = get_ipython()
    return dict(shell.user_ns) if shell is not None else {}


def cell_key(message: dict[str, Any]) -> str:
    """Id of the cell that a message executes, "" where the front end names none."""
    return str(message.get("metadata", {}).get("cellId") or "")


def has_front_end() -> bool:
    """Whether a person may look at what the present cell shows."""
    return host.has_front_end(parent())


def said_hello() -> None:
    """A widget of ours was drawn."""
    host.hellos.add(host.session_of(parent()))


def heard() -> None:
    """A message of a panel is handled on this thread: what is known about the way that messages come."""
    hearing.came(host.session_of(parent()))


def is_last_expression() -> bool:
    """Whether the display hook shows the cell's last expression just now."""
    from IPython import get_ipython

    shell = get_ipython()
    hook = getattr(shell, "displayhook", None)
    return getattr(hook, "msg", None) is not None


def acknowledged(handle: Callable[[Any], None]) -> Callable[[Any], None]:
    """A handler of a widget's messages that tells the page when a message was handled, where the kernel does not.

    While a cell awaits, ipykernel 7.4 handles a widget's message beside it and leaves out the status "idle" that says
    so. The page sends a second change of a widget only after it: of a typed word only the first letter would come.
    """

    def handle_and_tell(message: Any) -> None:
        try:
            handle(message)
        finally:
            _acknowledge()

    return handle_and_tell


def _acknowledge() -> None:
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs on this thread: a subshell, which tells by itself
        return
    # The kernel makes a task of `dispatch_shell` itself only where it goes on beside a cell.
    name = getattr(task.get_coro(), "__qualname__", "") if task is not None else ""
    if not name.endswith(".dispatch_shell"):
        return
    from IPython import get_ipython

    kernel = getattr(get_ipython(), "kernel", None)
    if getattr(kernel, "session", None) is None or getattr(kernel, "iopub_socket", None) is None:
        return
    for status in ("idle", "busy"):  # busy after idle: the cell goes on, and the page shows what came last
        tell_status(kernel, status)


def tell_status(kernel: Any, status: str) -> None:
    """Tell the page "busy" or "idle", for the message that the kernel works on in this context."""
    topic = f"kernel.{kernel.ident}.status".encode()
    content = {"execution_state": status}
    kernel.session.send(kernel.iopub_socket, "status", content, parent=kernel.get_parent("shell"), ident=topic)


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
