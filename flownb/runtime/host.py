"""Which loop drives a run, and the turn in which all runs of a loop go on together.

A turn admits what waits in the inboxes of every run that has something, appends all of it in one commit per store,
and only then acts (`reduce, append, act`). So a hundred journalled runs cost one commit, and no command runs before
its tick is in the journal.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import logging
import sys
import threading
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any, Protocol

from flownb.errors import EngineLost, WorkflowConfigurationError


class Turned(Protocol):
    """What a host needs of a runner."""

    def admit(self) -> Any: ...

    def act(self) -> None: ...

    def give_up(self, error: Exception) -> None: ...

    def stop_driving(self) -> None: ...

    def notice_loss(self) -> None: ...


#: How long turns may follow each other before the loop gets its round.
LINGER_S = 0.001

LOST = (
    "The event loop that drove this run is closed, so nothing drives it any more. Await the run before its "
    'asyncio.run(...) ends, or let the engine\'s own thread drive it: with_options(host="thread").'
)


class Host:
    """One event loop with the runs that it drives.

    What it calls later runs in a clean context, never in that of whoever asked: a step that puts a tick would else
    lend its context, and with it its log, to the turn and to every timer that is set there.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, thread: threading.Thread | None = None) -> None:
        self.loop = loop
        self.thread = thread
        self._ident = thread.ident if thread is not None else threading.get_ident()
        self._ready: list[Turned] = []
        self._is_turning = False
        #: When this turn first set a time, on the loop's clock; 0 for not yet.
        self._turn_at = 0.0
        self._clean = contextvars.Context()
        #: Live runs. Held here, so that a run whose handle was dropped goes on (R5.4).
        self.runners: set[Turned] = set()

    def is_here(self) -> bool:
        """Whether this thread drives the loop."""
        return threading.get_ident() == self._ident

    def is_lost(self) -> bool:
        """Whether the loop is gone, so that nothing drives its runs any more."""
        return self.loop.is_closed()

    def is_closing(self) -> bool:
        """Whether the loop shuts down as `asyncio.run` does it: all tasks are cancelled, but those that close it."""
        tasks = asyncio.all_tasks(self.loop) if self.thread is None else ()
        return bool(tasks) and all(task.cancelling() or _closes(task) for task in tasks)

    def call(self, fn: Callable[..., object], *args: Any) -> None:
        """Call on the loop's thread: at once if this is it, else soon, in order.

        Raises:
            EngineLost: The loop is closed.
        """
        if self.loop.is_closed():
            raise EngineLost(LOST)
        if threading.get_ident() == self._ident:
            fn(*args)
            return
        try:
            self.loop.call_soon_threadsafe(fn, *args, context=self._clean.copy())
        except RuntimeError:  # closed in between
            raise EngineLost(LOST) from None

    # Each call gets a copy of the clean context: where somebody runs the loop inside one of its own callbacks
    # (nest_asyncio), a context that is entered already could not be entered again, and the call would be lost.

    def soon(self, fn: Callable[..., object], *args: Any) -> asyncio.Handle:
        """Call in the loop's next round. On the loop's thread only."""
        return self.loop.call_soon(fn, *args, context=self._clean.copy())

    def later(self, delay_s: float, fn: Callable[..., object], *args: Any) -> asyncio.TimerHandle:
        """Call after so many seconds. On the loop's thread only."""
        return self.loop.call_later(delay_s, fn, *args, context=self._clean.copy())

    def later_together(self, delay_s: float, fn: Callable[..., object], *args: Any) -> None:
        """As `later`, but what is set in one turn comes in one turn again. In a turn only."""
        self._turn_at = self._turn_at or self.loop.time()
        self.loop.call_at(self._turn_at + delay_s, fn, *args, context=self._clean.copy())

    def lend(self, values: Mapping[contextvars.ContextVar[Any], Any]) -> None:
        """From now on what is called later has these values in its context."""
        clean = self._clean.copy()
        for var, value in values.items():
            clean.run(var.set, value)
        self._clean = clean

    def schedule(self, runner: Turned) -> None:
        """Let a runner take part in the next turn. On the loop's thread only; once per turn."""
        if not self._ready and not self._is_turning:
            self.soon(self._turns)
        self._ready.append(runner)

    def _turns(self) -> None:
        """One turn, and at once the next ones that follow from it, for a moment: a round of the loop costs as much as a
        turn. Whatever else waits in the loop waits no longer than that."""
        self._is_turning = True
        over_at = perf_counter() + LINGER_S
        try:
            while self._ready:
                self._turn()
                if perf_counter() > over_at:
                    break
        finally:
            self._is_turning = False
            if self._ready:
                self.soon(self._turns)

    def _turn(self) -> None:
        """Each part is guarded on its own: a bug that one run meets must not keep the others from acting on what
        the journal holds of them already."""
        ready, self._ready = self._ready, []
        self._turn_at = 0.0
        stores: dict[Any, list[Turned]] = {}
        for runner in ready:
            try:
                store = runner.admit()
            except Exception as error:
                runner.give_up(error)
            else:
                if store is not None:
                    stores.setdefault(store, []).append(runner)
        for store, together in stores.items():
            try:
                store.commit(together)
            except Exception as error:  # a store's own errors are dealt with there; this is a bug of ours
                for runner in together:
                    runner.give_up(error)
        for runner in ready:
            try:
                runner.act()
            except Exception as error:
                runner.give_up(error)


def _closes(task: asyncio.Task[Any]) -> bool:
    """Whether a task is one of those with which a loop ends: `shutdown_asyncgens`, `shutdown_default_executor`."""
    return ".shutdown_" in getattr(task.get_coro(), "__qualname__", "")


_hosts: dict[asyncio.AbstractEventLoop, Host] = {}
_engine: Host | None = None
_lock = threading.Lock()
_log = logging.getLogger("flownb")


def in_kernel() -> bool:
    """Whether this process is a Jupyter kernel; loads nothing to find out."""
    app = sys.modules.get("ipykernel.kernelapp")
    return app is not None and bool(app.IPKernelApp.initialized())


def is_kernel_ending() -> bool:
    """Whether this kernel was told to end, for good or to begin anew."""
    if not in_kernel():
        return False
    kernel = getattr(sys.modules["IPython"].get_ipython(), "kernel", None)
    return getattr(kernel, "_shutdown_message", None) is not None


def kernel_message() -> dict[str, Any]:
    """The message that the kernel works on in this context; {} outside a kernel."""
    if not in_kernel():
        return {}
    kernel = getattr(sys.modules["IPython"].get_ipython(), "kernel", None)
    try:
        return dict(kernel.get_parent() or {}) if kernel is not None else {}
    except LookupError:  # ipykernel 7.0, on a thread of ours
        return {}


def cell() -> tuple[str, str]:
    """Id of the notebook cell that runs now, and of this execution of it; empty outside a kernel."""
    message = kernel_message()
    header = message.get("header", {})
    if header.get("msg_type") != "execute_request":
        return "", ""
    return str(message.get("metadata", {}).get("cellId", "")), f"{header.get('date', '')} {header.get('msg_id', '')}"


def session_of(message: dict[str, Any]) -> str:
    """Which front end sent what the kernel works on; "" if none did."""
    return str(message.get("header", {}).get("session", ""))


#: Sessions (front ends) whose widgets said hello: proof that somebody looks.
hellos: set[str] = set()


def has_front_end(message: dict[str, Any]) -> bool:
    """Whether a person may look: the request allows input, or a widget said hello to its session before.

    nbconvert, papermill and nbval execute with input forbidden.

    Args:
        message: What the kernel works on: `kernel_message()`.
    """
    session = session_of(message)
    return bool(message.get("content", {}).get("allow_stdin")) or (session != "" and session in hellos)


def host_for(wish: str) -> Host:
    """The host of a new run.

    Args:
        wish: "auto": the running loop in async code outside a kernel, else the engine's own thread. "loop" and
            "kernel": the running loop. "thread": the engine's own thread.

    Raises:
        WorkflowConfigurationError: "loop" or "kernel" where no loop runs.
    """
    _let_go_of_closed_loops()
    if wish == "thread":
        return engine()
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        if wish in ("loop", "kernel"):
            raise WorkflowConfigurationError(
                f'host="{wish}" needs a running event loop; leave host out, or use "thread".'
            ) from None
        return engine()
    if wish == "auto" and in_kernel():
        return engine()
    with _lock:
        found = _hosts.get(loop)
        if found is None or not found.is_here():
            found = _hosts[loop] = Host(loop)
        return found


def _let_go_of_closed_loops() -> None:
    with _lock:
        lost = [_hosts.pop(loop) for loop in list(_hosts) if loop.is_closed()]
    for host in lost:
        for runner in list(host.runners):
            runner.notice_loss()


def engine() -> Host:
    """The engine's own daemon thread, started on first need and again if it died."""
    global _engine  # noqa: PLW0603 - one a process
    with _lock:
        if _engine is None or _engine.thread is None or not _engine.thread.is_alive():
            started = threading.Event()
            made: list[asyncio.AbstractEventLoop] = []

            def run() -> None:
                loop = asyncio.new_event_loop()
                asyncio.set_event_loop(loop)
                made.append(loop)
                loop.call_soon(started.set)
                _run_until_stopped(loop)

            thread = threading.Thread(target=run, name="flownb-engine", daemon=True)
            thread.start()
            started.wait()
            _engine = Host(made[0], thread=thread)
        return _engine


def _run_until_stopped(loop: asyncio.AbstractEventLoop) -> None:
    """Run the engine's loop. A task that user code left behind may raise SystemExit or KeyboardInterrupt, which
    asyncio lets through; that is no end of all runs."""
    while True:
        try:
            loop.run_forever()
            break
        except (SystemExit, KeyboardInterrupt):
            _log.exception("a task on the engine's loop wanted to end the process")
    # The process ends: what steps left unfinished is no news ("Task was destroyed but it is pending!").
    loop.set_exception_handler(lambda loop, context: None)
    loop.close()  # from here on, who calls this host gets EngineLost


@atexit.register
def _suspend_all() -> None:
    """At interpreter exit: stop driving. What is journalled can be resumed."""
    host = _engine
    if host is None or host.thread is None or not host.thread.is_alive():
        return

    def stop() -> None:
        for runner in list(host.runners):
            runner.stop_driving()
        host.loop.call_soon(host.loop.stop)

    host.loop.call_soon_threadsafe(stop)
    host.thread.join(1.0)
