"""What a tick carries, as the inspector shows it: in the panel and in a page without a kernel."""

from __future__ import annotations

from typing import Any

from flownb.core.ticks import Ask
from flownb.events import Event
from flownb.forms.payload import preview, rows

__all__ = ["carried"]

#: Events of one tick whose fields are shown; the others are counted.
EVENTS = 20


def carried(tick: Any) -> list[list[str]]:
    """Fields of events, changes and failures of one tick: `[[name, preview], ...]`."""
    shown: list[list[str]] = []
    outs = [out for out in (getattr(tick, "out", None), getattr(tick, "answer", None)) if out is not None]
    wait = getattr(tick, "wait", None)
    if isinstance(wait, Ask):
        outs.append(wait.question)
    outs += list(getattr(tick, "outs", ()))
    for out in outs[:EVENTS]:
        value = out.value
        if isinstance(value, Event):
            prefix = f"{type(value).__name__}." if len(outs) > 1 else ""
            shown += [[prefix + name, text] for name, text in rows(value)]
        else:
            shown.append(["value", preview(value)])
    if len(outs) > EVENTS:
        shown.append(["…", f"{len(outs) - EVENTS} more"])
    changes = getattr(tick, "changes", None)
    if changes:
        shown += [[name, preview(out.value)] for name, out in changes.items()]
    failure = getattr(tick, "failure", None)
    if failure is not None:
        shown += [["error", failure.message], ["traceback", failure.traceback]]
    for name in ("by", "how", "reason", "n"):
        value = getattr(tick, name, None)
        if value:
            shown.append([name, str(value)])
    return shown
