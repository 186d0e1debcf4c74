"""Sums by which a store knows that a row is as it was written.

The sum of a tick is of this tick and all before it, so that one that was changed, removed, moved or put in between is
found at its place. What ended a run stands with its status too: a journal that lost its last ticks is known by that.

They are no signature: who wants to forge a run can. A row of the first format has none, and is not checked; nor are
those of a run whose rows somebody emptied of their sums, all of them, to mend it by hand.
"""

from __future__ import annotations

from struct import Struct, error
from zlib import crc32

from flownb.core.state import ENDED

_head = Struct("<qdq").pack


def first(run_id: str) -> int:
    """What the sum of a run's first tick goes on from."""
    return crc32(run_id.encode("utf-8", "surrogatepass"))


def chained(before: int, seq: int, at: float, kind: str, body: bytes) -> int:
    """The sum of a tick, or of another row with a time, a kind and a body, after the one with the sum `before`."""
    return crc32(_head(seq, at, len(body)) + kind.encode() + body, before)


def is_sound(run_id: str, before: int | None, row: tuple[object, ...]) -> bool:
    """Whether a row (seq, at, kind, body, sum) is as it was written.

    Args:
        run_id: Its run.
        before: The sum of the row before it, None if that has none or there is no such row.
        row: As the database gives it, whatever somebody put there.
    """
    seq, at, kind, body, found = row
    if found is None:
        return before is None
    if type(body) is str:
        body = body.encode("utf-8", "surrogatepass")
    try:
        return found == chained(first(run_id) if before is None else before, seq, at, kind, body)  # type: ignore[arg-type]
    except (error, TypeError, AttributeError, ValueError):
        return False


def ending(status: str, seq: int, last: int | None) -> str:
    """What stands with the status of a run: "completed 12 3405691582" if that is an end, else ""."""
    return f"{status} {seq} {'' if last is None else last}" if status in ENDED else ""


def ended_at(text: object) -> tuple[int, str] | None:
    """Number and sum of the tick that an `ending` names, None if it names none."""
    parts = str(text).split(" ")
    return (int(parts[1]), parts[2]) if len(parts) == 3 and parts[1].isascii() and parts[1].isdigit() else None
