"""Whether a click can reach Python while a cell waits for a run.

What the page sends stands in the kernel's queue behind the cell that runs. Three things let it pass, and which of them
a kernel has is told by what is there, not by its version:

* a subshell: the page sends what its widgets say to a thread of its own (ipykernel 7; JupyterLab's setting
  `commsOverSubshells`, on unless it was switched off). That messages come there is known when one came there.
* comms beside the cell: while a cell awaits, the kernel hands messages of widgets on at once (7.4). The same kernels
  send an answer to where its widget was last changed from, so a cell that blocks hears nothing, subshell or not.
* the fast lane (`flownb.enable_fast_lane`), which the notebook's room puts into `hearing.lane`.

Between two cells clicks arrive everywhere.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import weakref
from typing import Any, Protocol

from flownb.runtime.capture import sink
from flownb.runtime.host import in_kernel, kernel_message, session_of

#: A call that blocks looks into the fast lane so often.
POLL_S = 0.02
#: A page makes its subshell when it hears of the first widget; this time it gets for that.
SUBSHELL_S = 3.0
#: A loop that does not answer for so long is blocked.
BLOCKED_S = 1.0


class Lane(Protocol):
    """What lets messages of our widgets pass the cell that runs."""

    def serves(self) -> bool:
        """Whether it can, in a call that blocks this thread."""
        ...

    def poll(self) -> None:
        """Take what has come meanwhile. On the thread that it serves."""
        ...


class Hearing:
    """What is known about the way of messages in this process."""

    def __init__(self) -> None:
        self.lane: Lane | None = None
        #: Whether the last message of a panel came on a thread beside the main one, by session (a page that is loaded
        #: again is another one).
        self.beside: dict[str, bool] = {}
        #: Held weakly: a task that is over holds what its cell gave.
        self._cell: weakref.ref[asyncio.Task[Any]] | None = None

    def came(self, session: str) -> None:
        """A message of a panel is handled on this thread."""
        self.beside[session] = threading.current_thread() is not threading.main_thread()

    def awaiting_cell(self, loop: asyncio.AbstractEventLoop) -> asyncio.Task[Any] | None:
        """The task of the cell that awaits something; None between two cells and while a cell of plain code runs.

        There is one at a time, and a thousand runs may be awaited in it: it is looked for once.
        """
        known = self._cell() if self._cell is not None else None
        if known is not None and not known.done():
            return known
        for task in asyncio.all_tasks(loop):
            if getattr(task.get_coro(), "__name__", "") == "run_cell_async":
                self._cell = weakref.ref(task)
                return task
        return None


hearing = Hearing()


class Wait:
    """One wait for a run, from its beginning on.

    Args:
        blocks: Whether it blocks its thread; else it awaits.
    """

    def __init__(self, *, blocks: bool) -> None:
        self._kernel = _kernel()
        self._blocks = blocks
        self._is_main = threading.current_thread() is threading.main_thread()
        if self._kernel is not None and not blocks and (sink.get() is not None or self._is_beside_cell()):
            self._kernel = None  # a step waits, and an error would end its run; or clicks arrive
        self._session = session_of(kernel_message()) if self._kernel is not None else ""
        self._began = time.monotonic()
        #: When a person was first asked during this wait.
        self._asked_at: float | None = None
        #: The cell that awaits something while this wait goes on.
        self._cell: asyncio.Task[Any] | None = None
        #: Whether the main thread answered since.
        self._answered = threading.Event()
        loop = getattr(self._kernel, "io_loop", None)
        if loop is not None and not (self._is_main and blocks):
            self._cell = hearing.awaiting_cell(loop.asyncio_loop)
        if loop is not None and not self._is_main:
            loop.add_callback(self._answered.set)

    def _is_beside_cell(self) -> bool:
        return self._is_main and _goes_beside_cells(self._kernel)

    def is_served(self) -> bool:
        """Whether `poll` lets clicks in."""
        return self._kernel is not None and self._blocks and hearing.lane is not None and hearing.lane.serves()

    def poll(self) -> None:
        """Let clicks in that have come meanwhile, where the fast lane can."""
        if self.is_served():
            assert hearing.lane is not None
            hearing.lane.poll()

    def why_deaf(self) -> str:
        """Why no click arrives as long as this wait lasts, and what to do instead: sentences for the person who runs
        the cell. "" where clicks arrive, and while that is not known yet."""
        if self._kernel is None:
            return ""
        if self._asked_at is None:
            self._asked_at = time.monotonic()
        if self._is_main:
            return self._why_blocked() if self._blocks else self._why_awaiting()
        if not self._answered.is_set():  # the main thread is blocked since before this wait began, maybe for it
            return self._why_blocked() if time.monotonic() - self._began > BLOCKED_S else ""
        return self._why_awaiting()

    def _why_blocked(self) -> str:
        if self.is_served() or (not _answers_follow() and self._comes_beside()):
            return ""
        hears = "only between cells and while a cell awaits" if self._awaiting_hears() else "only between cells"
        awaits = "Await it instead (`await run`), or let" if self._awaiting_hears() else "Let"
        lane = f" {_LANE}" if self._is_main and hearing.lane is None else ""
        return (
            f"No click can arrive here: this call blocks the cell, and {_name()} hears clicks {hears}. {awaits} this "
            f"cell end, answer in the panel and ask for the result in the next cell.{lane}"
        )

    def _why_awaiting(self) -> str:
        # Without a cell that awaits, the kernel is between two cells, or busy with one that does not wait for this.
        if self._cell is None or self._cell.done() or self._awaiting_hears():
            return ""
        return (
            f"No click can arrive here: {_name()} hears clicks only between cells. Let this cell end, answer in the "
            f"panel and await the run in the next cell. {_LANE}"
        )

    def _awaiting_hears(self) -> bool:
        return hearing.lane is not None or _goes_beside_cells(self._kernel) or self._comes_beside()

    def _comes_beside(self) -> bool:
        """Whether the page's messages come over a subshell; until the first one came, whether there is one. A page may
        take long to draw a panel, and draws none that is out of sight."""
        manager = getattr(getattr(self._kernel, "shell_channel_thread", None), "manager", None)
        if manager is None:
            return False
        known = hearing.beside.get(self._session)
        if known is not None:
            return known
        assert self._asked_at is not None
        return bool(manager.list_subshell()) or time.monotonic() - self._asked_at < SUBSHELL_S


_LANE = "Or call flownb.enable_fast_lane() once: then clicks arrive here, too."


def _kernel() -> Any:
    """The kernel that this process is; None: it is none."""
    return getattr(sys.modules["IPython"].get_ipython(), "kernel", None) if in_kernel() else None


def _name() -> str:
    version = getattr(sys.modules.get("ipykernel"), "__version__", "")
    return f"this kernel (ipykernel {version})" if version else "this kernel"


def _goes_beside_cells(kernel: Any) -> bool:
    """Whether a kernel hands messages of widgets on while a cell awaits."""
    return "concurrent" in getattr(getattr(kernel.dispatch_shell, "__code__", None), "co_varnames", ())


def _answers_follow() -> bool:
    """Whether a message goes to the shell from which its widget was last changed: the one that the cell blocks."""
    module = sys.modules.get("ipykernel.comm.comm")
    return hasattr(getattr(module, "BaseComm", None), "_reply_subshell_for")
