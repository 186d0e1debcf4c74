"""Waiting for something to become true, without sleeping longer than it takes."""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from flownb.answering import family

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


def is_asking(run: Any, n: int = 1, numbers: Sequence[int] | None = None) -> bool:
    """Whether a run asks so many questions, or those of these numbers, and nothing of it moves any more.

    The last question is open a turn before the run is quiet, and an accepted answer leaves the open questions before
    its tick is in the journal: who looks at ticks, states or reasons waits for both.
    """
    found = list(run.requests)
    opened = sum(runner.state.requests.n for runner in family(run._runner))
    is_meant = len(found) == n if numbers is None else [request.number for request in found] == list(numbers)
    return is_meant and opened == len(found) and run.status == "waiting"


def wait_for_questions(run: Any, n: int = 1, *, numbers: Sequence[int] | None = None) -> None:
    """Block until a run asks so many questions, or those of these numbers, and its last turn is over."""
    wait_until(lambda: is_asking(run, n, numbers))
    wait_until(_turn_over(run).is_set)


async def until_asked(run: Any, n: int = 1, *, numbers: Sequence[int] | None = None) -> None:
    """The same for async code."""
    await until(lambda: is_asking(run, n, numbers))
    await until(_turn_over(run).is_set)


def _turn_over(run: Any) -> threading.Event:
    """Set when the turn that is under way on the run's host is over."""
    over = threading.Event()
    run._runner.host.call(over.set)
    return over
