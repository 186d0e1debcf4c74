"""Throwing away runs of a store that ended long ago."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from flownb.core.state import ENDED

if TYPE_CHECKING:
    from flownb.runs import Store


def prune(store: Store, older_than: float, keep: int) -> int:
    """As `Store.prune` says."""
    journal, before = store.journal, time.time() - older_than
    kept: Counter[str] = Counter()
    gone: list[str] = []
    for row in journal.runs():  # the newest first
        if row.status not in ENDED or row.parent:
            continue
        kept[row.key or row.workflow] += 1
        if kept[row.key or row.workflow] > keep and row.updated_at < before:
            gone.append(row.run_id)
    for run_id in gone:  # grows while it is walked: children of children
        gone += [row.run_id for row in journal.runs(parent=run_id)]
    journal.delete(gone)
    journal.shrink()
    return len(gone)
