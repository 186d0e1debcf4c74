"""The run's time limit, which counts active time (R5.44 to R5.47)."""

from __future__ import annotations

from flownb.core.draft import Draft
from flownb.core.state import Timer

#: The timer of the limit has a number that no other gets.
LIMIT = 0


def keep_time(draft: Draft, limit_s: float) -> None:
    """Start or stop the run's clock, as the tick left it."""
    is_active = draft.status != "cancelling" and (  # that has its own grace
        draft.head.terms.timeout_clock == "wall"
        or (
            not draft.gate
            and draft.status in ("running", "waiting")
            and bool(draft.busy or draft.sleeps or draft.side.working)
        )
    )
    if is_active and draft.since is None:
        draft.since = draft.at
        draft.arm(Timer(LIMIT, draft.at + max(0.0, limit_s - draft.active_s), "timeout"))
    elif not is_active:
        stop_clock(draft, draft.at)


def stop_clock(draft: Draft, at: float) -> None:
    """Time after this moment does not count."""
    if draft.since is not None:
        draft.active_s += at - draft.since
        draft.since = None
        draft.disarm(LIMIT)
