"""A shorter turn for other threads while a stored run is driven beside a cell that computes.

Every call into a database gives Python's lock away, and beside pure Python it comes back only after the interpreter's
switch interval: 5 ms by default, which would be the time of a step. While at least one stored run is driven by the
engine's own thread it is 1 ms; what it was before is put back.
"""

from __future__ import annotations

import sys
import threading

INTERVAL_S = 0.001

_lock = threading.Lock()
_runs = 0
_before = 0.0


def begin() -> None:
    """A stored run is driven by the engine's own thread from now on."""
    global _runs, _before  # noqa: PLW0603 - the interval is one of the process
    with _lock:
        _runs += 1
        if _runs == 1 and sys.getswitchinterval() > INTERVAL_S:
            _before = sys.getswitchinterval()
            sys.setswitchinterval(INTERVAL_S)


def end() -> None:
    """It is not any more. An interval that somebody else set meanwhile is left alone."""
    global _runs, _before  # noqa: PLW0603 - as above
    with _lock:
        _runs -= 1
        if _runs == 0 and _before:
            if abs(sys.getswitchinterval() - INTERVAL_S) < 1e-9:
                sys.setswitchinterval(_before)
            _before = 0.0
