"""What steps print goes to their log, wherever they run.

`sys.stdout` and `sys.stderr` are replaced by a router that asks a context variable: context variables follow a
step into its tasks and threads, and leave everybody else's prints alone. (`redirect_stdout` and ipywidgets' `Output`
mix up steps that run at the same time.)
"""

from __future__ import annotations

import contextvars
import io
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TextIO

from msgspec import Struct

LIMIT = 200_000


class StepLog(Struct):
    """The text that the deliveries of one step wrote, oldest first, cut at `LIMIT` characters."""

    lines: list[tuple[float, int, str]] = []
    size: int = 0
    dropped: int = 0

    def write(self, delivery: int, text: str) -> None:
        if not text:
            return
        if self.size + len(text) > LIMIT:
            self.dropped += len(text)
            return
        self.size += len(text)
        self.lines.append((time.time(), delivery, text))

    def text(self, delivery: int | None = None) -> str:
        """All of it, or what one delivery wrote."""
        said = "".join(self._whole_lines() if delivery is None else (t for _, d, t in self.lines if d == delivery))
        return f"{said}\n… and {self.dropped:,} characters more" if self.dropped else said

    def _whole_lines(self) -> Iterator[str]:
        """Lines as they end: `print(a, b)` writes piece by piece, and other deliveries write in between."""
        begun: dict[int, str] = {}
        for _, delivery, text in tuple(self.lines):
            whole, newline, rest = (begun.pop(delivery, "") + text).rpartition("\n")
            if newline:
                yield whole + newline
            if rest:
                begun[delivery] = rest
        yield from begun.values()


class Sink(Protocol):
    """Who takes the output of the present step."""

    def take_output(self, text: str) -> bool:
        """Keep the text; whether it goes nowhere else."""
        ...


sink: contextvars.ContextVar[Sink | None] = contextvars.ContextVar("flownb_sink", default=None)


class Router(io.TextIOBase):
    """A text stream that writes to the present step's log, or to the stream that it stands for."""

    def __init__(self, below: TextIO) -> None:
        self.below = below

    def write(self, text: str) -> int:
        to = sink.get()
        if to is not None and to.take_output(text):
            return len(text)
        return self.below.write(text)

    def flush(self) -> None:
        self.below.flush()

    def isatty(self) -> bool:
        return self.below.isatty()

    def fileno(self) -> int:
        return self.below.fileno()

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.below.encoding

    def __getattr__(self, name: str) -> Any:
        return getattr(self.below, name)


_lock = threading.Lock()
_users = 0
_routers: dict[str, Router] = {}
#: Called with True when a run begins and with False when the last one ended; the notebook captures `display` there.
on_change: list[Callable[[bool], None]] = []


def begin() -> None:
    """A run begins: install the routers, if no other run did."""
    global _users  # noqa: PLW0603 - the streams are the process's, so their count is too
    with _lock:
        _users += 1
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if stream is not None and not isinstance(stream, Router):
                router = _routers[name] = Router(stream)
                setattr(sys, name, router)
        for call in on_change:
            call(True)


def end() -> None:
    """A run ended: after the last one the streams are put back, unless somebody replaced them meanwhile."""
    global _users  # noqa: PLW0603
    with _lock:
        _users -= 1
        if _users:
            return
        for name, router in list(_routers.items()):
            if getattr(sys, name) is router:
                setattr(sys, name, router.below)
                del _routers[name]
        for call in on_change:
            call(False)
