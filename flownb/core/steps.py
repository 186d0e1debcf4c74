"""What running steps do: they finish, fail, send, write."""

from __future__ import annotations

from flownb.core.commands import Publish
from flownb.core.draft import Draft
from flownb.core.ending import fail, has_ended
from flownb.core.joining import open_join, pay
from flownb.core.routing import send
from flownb.core.state import Delivery, Path
from flownb.core.ticks import EventsSent, StateWritten, StepFailed, StepFinished, StreamWritten
from flownb.core.values import Out
from flownb.core.waiting import withdraw_all


def on_step_finished(draft: Draft, tick: StepFinished) -> None:
    """The delivery is gone; what it returned is routed in the same tick (R2.12)."""
    d = draft.live(tick.step, tick.delivery, tick.start)
    if d is None:
        draft.ignored += 1
        return
    draft.release(d).done += 1
    if d.waits:
        withdraw_all(draft, d)
    outs = tick.outs
    if len(outs) > 1:  # an end in a list wins over its other elements (R2.40)
        outs = next(((out,) for out in outs if out.role == "stop"), outs)
    if tick.fan and draft.spec.joins[d.step]:
        _fan_out(draft, d, outs)
        return
    made = 0
    for out in outs:
        made += send(draft, out, d.path, d.step)
        if has_ended(draft):
            return
    if d.path is not None:
        pay(draft, d.path, made)


def _fan_out(draft: Draft, d: Delivery, outs: tuple[Out, ...]) -> None:
    """Each element begins a branch. The delivery's own token goes to the join, which pays it when it fires."""
    join = open_join(draft, d.step, len(outs), d.path)
    made = 0
    for index, out in enumerate(outs):
        made += send(draft, out, Path(join.id, index, d.path), d.step)
        if has_ended(draft):
            return
    pay(draft, Path(join.id, 0, d.path), made)


def on_step_failed(draft: Draft, tick: StepFailed) -> None:
    """Without a retry a failed step fails the run, in the same tick (R3.35)."""
    d = draft.live(tick.step, tick.delivery, tick.start)
    if d is None:
        draft.ignored += 1
        return
    draft.release(d).failed += 1
    fail(draft, tick.failure, d.step)


def on_events_sent(draft: Draft, tick: EventsSent) -> None:
    d = draft.live(tick.step, tick.delivery, tick.start)
    if d is None:
        draft.ignored += 1
        return
    draft.update(draft.record(d))
    made = 0
    for out in tick.outs:
        made += send(draft, out, d.path, d.step, tick.target)
        if has_ended(draft):
            return
    pay(draft, d.path, made + 1)  # the sender itself lives on


def on_stream_written(draft: Draft, tick: StreamWritten) -> None:
    d = draft.live(tick.step, tick.delivery, tick.start)
    if d is None:
        draft.ignored += 1
        return
    draft.update(draft.record(d))
    draft.commands.append(Publish("event", tick.out, d.step))


def on_state_written(draft: Draft, tick: StateWritten) -> None:
    d = draft.live(tick.step, tick.delivery, tick.start)
    if d is None:
        draft.ignored += 1
        return
    draft.update(draft.record(d))
    user = {**draft.user, **tick.changes}
    for name in tick.dropped:
        user.pop(name, None)
    draft.user = user
