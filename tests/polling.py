"""Waiting for something to become true, without sleeping longer than it takes."""

import asyncio
import time
from collections.abc import Callable

PATIENCE_S = 20.0


def wait_until(is_true: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """Block this thread until `is_true()` is."""
    end = time.monotonic() + patience_s
    while not is_true():
        assert time.monotonic() < end, f"not true after {patience_s} s"
        time.sleep(0.002)


async def until(is_true: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """The same for async code."""
    end = time.monotonic() + patience_s
    while not is_true():
        assert time.monotonic() < end, f"not true after {patience_s} s"
        await asyncio.sleep(0.002)
