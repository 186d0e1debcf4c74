"""What the panel of a replay says of it: what it is a replay of, and its first difference from what was recorded."""

from __future__ import annotations

from typing import Any

from flownb.core.state import is_ended
from flownb.run import Run


def is_replay(run: Run[Any]) -> bool:
    """Whether a run plays another one back, in this process."""
    return getattr(run._runner, "playback", None) is not None


def replay_line(run: Run[Any]) -> dict[str, Any] | None:
    """`{"run", "text", "step", "seq"}` of a replay, None of any other run.

    `seq` is the tick of the first difference, 0 while there is none, or where the replay lacks a tick.
    """
    if not is_replay(run):
        return None
    found = run.debug.replayed
    of = {"run": found.run_id, "text": "", "step": "", "seq": 0}
    if found.divergence is not None:
        return {**of, "text": found.divergence.what, "step": found.divergence.step, "seq": found.divergence.seq}
    if not (found.is_over or is_ended(run._runner.state)):
        return of
    played, live = sum(found.played.values()), sum(found.live.values())
    return {**of, "text": f"the same; {played} starts of steps came from the recording, {live} ran"}


__all__ = ["is_replay", "replay_line"]
