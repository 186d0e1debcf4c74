"""The fast lane: clicks in panels and forms pass the cell that runs, on every kernel.

A kernel reads what the page sends from one queue and handles it in order, so that a click stands behind the cell that
waits for it. The lane takes the place of the callback that the kernel gave that queue's stream: what is meant for a
widget of ours is handled at once, everything else goes on to the kernel, untouched and in order. While a cell awaits,
the kernel's loop brings the messages; a call that blocks brings them itself (`poll`).

It is there from `enable_fast_lane()` to `disable_fast_lane()`, not only while somebody waits: were it opened for each
wait, a click that the kernel had read just before would be overtaken by the next one.

This needs names that ipykernel and pyzmq do not promise: each is looked for, and a kernel that lacks one is left as it
is, with an error in words.
"""

from __future__ import annotations

import logging
import sys
import threading
from contextlib import suppress
from contextvars import copy_context
from typing import Any

from flownb.errors import WorkflowConfigurationError
from flownb.notebook import ours
from flownb.notebook.kernel import tell_status
from flownb.runtime.hearing import hearing
from flownb.runtime.host import in_kernel
from flownb.runtime.interrupts import held_back

_log = logging.getLogger("flownb")

_POLLIN = 1
#: A call that blocks takes in so many messages before it looks whether the run is over.
_AT_ONCE = 100


def enable_fast_lane() -> bool:
    """Let clicks in panels and forms arrive while a cell awaits a run or blocks in `run.result()`, on every kernel.

    Call it once, in a cell. It stays open until `disable_fast_lane()`; a second call changes nothing. Only messages to
    flownb's own widgets pass the cell that runs; what the kernel had read before it was opened keeps its place.

    Returns:
        Whether it is open: False outside a kernel, where there are no clicks.

    Raises:
        WorkflowConfigurationError: This kernel lacks what it needs, or it was not called in a cell. Nothing is changed.
    """
    if not in_kernel():
        return False
    if isinstance(hearing.lane, FastLane):
        return True
    if threading.current_thread() is not threading.main_thread():
        raise WorkflowConfigurationError("The fast lane is opened in a cell: call flownb.enable_fast_lane() there.")
    lane = FastLane(sys.modules["IPython"].get_ipython().kernel)
    lane.open()
    hearing.lane = lane
    return True


def disable_fast_lane() -> None:
    """Give the kernel its queue back. Where the lane is not open, nothing happens."""
    lane, hearing.lane = hearing.lane, None
    if isinstance(lane, FastLane):
        lane.close()


class FastLane:
    """Stands before the callback of the stream from which a kernel's main thread reads.

    Raises:
        WorkflowConfigurationError: The kernel lacks a name that this needs.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._stream = _stream_of(kernel)
        self._below: Any = _need(self._stream, "_recv_callback")
        self._copies: bool = _need(self._stream, "_recv_copy")
        for name in ("on_recv", "flush"):
            _need(self._stream, name)
        for name in ("session", "iopub_socket", "shell_handlers", "set_parent", "get_parent", "_parent_ident", "shell"):
            _need(kernel, name)
        self._is_open = False
        self._is_delivering = False
        #: The message that is the cell that runs, and who sent it; None between two cells.
        self._cell: tuple[Any, dict[str, Any]] | None = None

    def open(self) -> None:
        """On the main thread, in a cell."""
        self._is_open = True
        self._begin_cell()
        events = self._kernel.shell.events
        events.register("pre_run_cell", self._begin_cell)
        events.register("post_run_cell", self._end_cell)
        self._stream.on_recv(self, copy=self._copies)

    def close(self) -> None:
        """On any thread: who set a callback above this one keeps it, and this one then only passes on."""
        self._is_open = False
        events = self._kernel.shell.events
        with suppress(ValueError):  # somebody has emptied the list
            events.unregister("pre_run_cell", self._begin_cell)
            events.unregister("post_run_cell", self._end_cell)
        if threading.current_thread() is threading.main_thread() and self._stream._recv_callback is self:
            self._stream.on_recv(self._below, copy=self._copies)

    def _begin_cell(self, *_: Any) -> None:
        if threading.current_thread() is threading.main_thread():  # cells of a subshell run beside it
            self._cell = self._kernel._parent_ident["shell"], self._kernel.get_parent("shell")

    def _end_cell(self, *_: Any) -> None:
        if threading.current_thread() is threading.main_thread():
            self._cell = None

    def __call__(self, frames: list[Any]) -> Any:
        """Something came, on the main thread."""
        found = self._for_us(frames) if self._is_open else None
        if found is None:
            return self._below(frames)
        with held_back():
            self._deliver(*found)
        return None

    def serves(self) -> bool:
        """Whether a call that blocks here can let clicks in: on the main thread, but not in the handler of one."""
        return threading.current_thread() is threading.main_thread() and not self._is_delivering

    def poll(self) -> None:
        """Take in what has come while this thread was blocked. An interrupt waits until each is where it belongs."""
        with held_back():
            self._stream.flush(_POLLIN, limit=_AT_ONCE)

    def _for_us(self, frames: list[Any]) -> tuple[Any, dict[str, Any]] | None:
        """Sender and content of a message to one of our widgets, else None; what cannot be read is the kernel's."""
        session = self._kernel.session
        try:
            idents, rest = session.feed_identities(frames, copy=self._copies)
            header, content = (session.unpack(_bytes(rest[place])) for place in (1, 4))
            if header["msg_type"] not in ("comm_msg", "comm_close") or not ours.owns(content["comm_id"]):
                return None
            return idents, session.deserialize(rest, content=True, copy=self._copies)
        except Exception:
            return None

    def _deliver(self, idents: Any, message: dict[str, Any]) -> None:
        """Handle a message as the kernel would, beside the cell, and leave everything as the cell had it."""
        self._is_delivering = True
        try:
            copy_context().run(self._handle, idents, message)
        except Exception:
            _log.exception("a message to a widget could not be handled")
        finally:
            self._is_delivering = False
            if self._cell is not None:
                copy_context().run(self._go_back, *self._cell)

    def _handle(self, idents: Any, message: dict[str, Any]) -> None:
        """What follows from a message has it as its parent, and the page is told that it is done, else it keeps back
        the next change of that widget."""
        kernel = self._kernel
        kernel.set_parent(idents, message, channel="shell")
        tell_status(kernel, "busy")
        try:
            kernel.shell_handlers[message["header"]["msg_type"]](self._stream, idents, message)
        finally:
            tell_status(kernel, "idle")

    def _go_back(self, idents: Any, cell: dict[str, Any]) -> None:
        """What other threads show belongs to the cell again, and the page shows that it runs."""
        self._kernel.set_parent(idents, cell, channel="shell")
        tell_status(self._kernel, "busy")


def _bytes(frame: Any) -> bytes:
    return bytes(getattr(frame, "bytes", frame))


def _stream_of(kernel: Any) -> Any:
    """Where the main thread reads: the shell channel itself, or what its own thread passes on (ipykernel 7)."""
    channel = getattr(kernel, "shell_channel_thread", None)
    if channel is None:
        return _need(kernel, "shell_stream")
    return _need(_need(_need(channel, "manager"), "_shell_channel_to_main"), "to_stream")


def _need(of: Any, name: str) -> Any:
    missing = object()
    found = getattr(of, name, missing)
    if found is missing or found is None:
        version = getattr(sys.modules.get("ipykernel"), "__version__", "of unknown version")
        raise WorkflowConfigurationError(
            f"The fast lane cannot be opened in this kernel (ipykernel {version}): its {type(of).__name__} has no "
            f"{name!r}. Nothing was changed. Let the cell end and answer before the next one, or give answers ahead, "
            "flow.with_options(answers={Question: answer}).run(...)."
        )
    return found


__all__ = ["FastLane", "disable_fast_lane", "enable_fast_lane"]
