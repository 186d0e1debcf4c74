"""What one tick changed in the user's state."""

from __future__ import annotations

from flownb.core.persist import Names
from flownb.core.state import RunState
from flownb.core.values import Out

Change = tuple[str, Out | None, Out | None]


def user_changes(before: RunState | None, after: RunState) -> list[Change]:
    """(name, before, after) of each top-level name that differs; None stands for "not there"."""
    old: Names[Out] = before.user if before is not None else Names()
    if old is after.user:
        return []
    names = [*old, *(name for name in after.user if name not in old)]
    return [(name, old.get(name), after.user.get(name)) for name in names if old.get(name) != after.user.get(name)]
