"""Whether the interrupt button was pressed while a cell waits.

The kernel turns SIGINT into the cancellation of the cell's task, and `asyncio.wait_for`, `asyncio.timeout` and
`task.cancel()` look the same from inside. The signal itself is what tells them apart.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

Handler = Callable[[int, FrameType | None], object]


class Interrupts:
    """Counts SIGINTs while somebody waits; the handler that was there before runs all the same."""

    def __init__(self) -> None:
        #: How many came.
        self.count = 0
        self._waits = 0

    def begin(self) -> None:
        """Somebody waits from now on."""
        self._waits += 1
        self.renew()

    def renew(self) -> None:
        """The kernel sets a handler of its own for each cell, so a wait that outlives its cell looks again."""
        if threading.current_thread() is not threading.main_thread():
            return  # signals are heard there alone
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler) and not isinstance(handler, _Counted):  # a kernel between two cells ignores the signal
            signal.signal(signal.SIGINT, _Counted(self, handler))

    def end(self) -> None:
        """One waits no longer; after the last one the handler is put back, unless somebody set another meanwhile."""
        self._waits -= 1
        if self._waits or threading.current_thread() is not threading.main_thread():
            return
        handler = signal.getsignal(signal.SIGINT)
        if isinstance(handler, _Counted):
            signal.signal(signal.SIGINT, handler.below)


class _Counted:
    """Stands before one handler. Who saved it and puts it back later still gets that handler."""

    def __init__(self, interrupts: Interrupts, below: Handler) -> None:
        self._interrupts = interrupts
        self.below = below

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self._interrupts.count += 1
        self.below(number, frame)


interrupts = Interrupts()


@contextmanager
def held_back() -> Generator[None, None, None]:
    """An interrupt that comes inside has its effect at the end: what is done inside is done whole."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda *interrupt: came.append(interrupt))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            handler(*came[0])
