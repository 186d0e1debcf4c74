"""A person's hand in a run: an event that is another one from now on, or goes nowhere.

What waits before the gate is edited where it stands, and says so itself (`Tick.hand`); what has passed it and has not
begun is edited by a tick of its own.

The case that looks wrong but is right: an edited send is kept in its sender's ledger as the code sent it. Code that
runs again sends that once more, and must be known to have sent it (R3.49).
"""

from __future__ import annotations

from msgspec.structs import replace

from flownb.core.closing import cut
from flownb.core.commands import Publish
from flownb.core.draft import Draft, changed
from flownb.core.joining import pay
from flownb.core.persist import Fifo
from flownb.core.state import Delivery, RunState
from flownb.core.ticks import EventDropped, EventEdited, EventsSent
from flownb.core.values import Out


def sent_by(tick: EventsSent) -> tuple[Out, ...]:
    """What the code of a step sent, whatever somebody made of it."""
    return tick.hand.original if tick.hand is not None and tick.hand.original else tick.outs


def went_nowhere(draft: Draft, outs: tuple[Out, ...], source: int, by: str) -> None:
    """Somebody dropped events: they are unhandled, but no fault of the workflow's (R5.30)."""
    counts = draft.counts
    draft.counts = replace(counts, unhandled=counts.unhandled + len(outs), dropped=outs[-1].key if outs else "")
    for out in outs:
        draft.commands.append(Publish("unhandled", out, source, {"key": out.key, "step": None, "dropped_by": by}))


def on_event_edited(draft: Draft, tick: EventEdited) -> None:
    """A delivery that began meanwhile, or is gone, has its event: the edit comes too late."""
    found = find(draft, tick.step, tick.delivery)
    if found is None or not may_be_edited(found):
        draft.ignore()
        return
    edited = changed(found, out=tick.outs if isinstance(found.out, tuple) else tick.outs[0])
    step = draft.step(found.step)
    if found.id in step.waiting:
        step.waiting = step.waiting.set(found.id, edited)
    else:
        step.queue = Fifo.of([edited if d.id == found.id else d for d in step.queue])


def on_event_dropped(draft: Draft, tick: EventDropped) -> None:
    """The delivery ends, with all that it waits for; its branch is paid."""
    found = find(draft, tick.step, tick.delivery)
    if found is None:
        draft.ignore()
        return
    step = draft.step(found.step)
    if found.id in step.waiting or found.id in step.active:
        cut(draft, found)
    else:
        step.queue = Fifo.of([d for d in step.queue if d.id != found.id])
        draft.busy -= 1
    draft.follow(found)
    went_nowhere(draft, tick.original, found.step, tick.by)
    if draft.status == "waiting":  # quiet anew, or at its end
        draft.status = "running"
    if found.path is not None and draft.status != "cancelling":  # nothing is routed then (R5.51)
        pay(draft, found.path, 0)


def find(state: Draft | RunState, step: str, delivery: int) -> Delivery | None:
    """A delivery of a step, wherever it is; it is looked for in the queue, so only where a person asks."""
    i = state.spec.index.get(step)
    if i is None:
        return None
    now = state.steps[i]
    found = now.active.get(delivery) or now.waiting.get(delivery)
    return found or next((d for d in now.queue if d.id == delivery), None)


def may_be_edited(d: Delivery) -> bool:
    """Whether no code has its event in hand: it has not begun, or begins again from its top."""
    return d.worker < 0 and (not d.start or d.gone)
