"""What running steps do: they finish, send, write, record."""

from __future__ import annotations

from flownb.core.closing import withdraw_all
from flownb.core.collecting import collect_all, still_holds
from flownb.core.commands import Publish, StartStep
from flownb.core.draft import Draft, changed
from flownb.core.editing import sent_by, went_nowhere
from flownb.core.ending import has_ended
from flownb.core.joining import open_join, pay
from flownb.core.routing import send
from flownb.core.state import ENDED, Delivery, Did, Join, Ledger, Path
from flownb.core.ticks import EventsSent, StateWritten, StepFinished, StreamRewound, StreamWritten, ValueRecorded
from flownb.core.values import Out


def on_step_finished(draft: Draft, tick: StepFinished) -> None:
    """The delivery is gone; what it returned is routed in the same tick (R2.12)."""
    d = draft.live(tick.step, tick.delivery, tick.start)
    if d is None:
        return
    if tick.collects and not still_holds(draft, d, tick.collects):
        _run_again(draft, d)
        return
    draft.release(d).done += 1
    if d.waits.n or draft.side.holds.n:
        withdraw_all(draft, d)
    if draft.status == "cancelling":  # nothing that comes now is routed (R5.51)
        return
    draft.follow(d)
    if tick.collects:
        collect_all(draft, d, tick.collects)
    outs, fan = tick.outs, tick.fan
    if len(outs) > 1:  # an end in a list wins over its other elements (R2.40)
        outs = next(((out,) for out in outs if out.role == "stop"), outs)
    if not fan:
        draft.rank = d.rank
    elif draft.spec.joins[d.step]:
        _fan_out(draft, d, outs)
        return
    made = 0
    for out in outs:
        made += send(draft, out, d.path, d.step)
        if draft.status in ENDED:
            return
    if d.path is not None:
        pay(draft, d.path, made)


def _run_again(draft: Draft, d: Delivery) -> None:
    """It decided on a buffer that another delivery changed meanwhile (R4.3); its worker starts it once more."""
    if d.worker < 0:  # it returned while it waits: as any that starts again
        draft.release(d)
        draft.line_up(changed(d, gone=True))
        return
    again = changed(d, start=d.start + 1, at=draft.at)
    draft.update(again)
    draft.commands.append(StartStep(again))


def _fan_out(draft: Draft, d: Delivery, outs: tuple[Out, ...]) -> None:
    """Each element begins a branch. The delivery's own token goes to the join, which pays it when it fires."""
    join = open_join(draft, d, len(outs))
    if any(draft.spec.steps[i].cancel_rest for i in draft.spec.joins[d.step]):
        _fan_out_until(draft, d, join, outs)
        return
    made = 0
    for index, out in enumerate(outs):
        made += send(draft, out, Path(join.id, index, d.path), d.step)
        if has_ended(draft):
            return
    pay(draft, Path(join.id, 0, d.path), made)


def _fan_out_until(draft: Draft, d: Delivery, join: Join, outs: tuple[Out, ...]) -> None:
    """The same where the elements themselves may be enough for a step that ends the rest: each one is paid for
    before the next is sent."""
    for index, out in enumerate(outs):
        path = Path(join.id, index, d.path)
        made = send(draft, out, path, d.step)
        if has_ended(draft):
            return
        pay(draft, path, made + 1)
        fired = {t.step for t in join.targets} - {t.step for t in draft.joins[join.id].targets}
        if any(draft.spec.steps[i].cancel_rest for i in fired):
            break
    pay(draft, Path(join.id, 0, d.path), 0)


def on_events_sent(draft: Draft, tick: EventsSent) -> None:
    d = draft.live(tick.step, tick.delivery, tick.start)
    if d is None:
        return
    if draft.status == "cancelling":
        draft.ignore()
        return
    target = tick.target or ""
    for out in sent_by(tick):
        d = draft.note(d, Did("send", draft.seq, d.attempt, out, target))
    draft.update(d)
    draft.follow(d)
    made = 0
    for out in tick.outs:
        made += send(draft, out, d.path, d.step, tick.target)
        if has_ended(draft):
            return
    pay(draft, d.path, made + 1)  # the sender itself lives on
    if tick.hand is not None and tick.hand.is_dropped:
        went_nowhere(draft, tick.hand.original, d.step, tick.hand.by)


def on_stream_written(draft: Draft, tick: StreamWritten) -> None:
    d = draft.live(tick.step, tick.delivery, tick.start)
    if d is None:
        return
    ledger = d.ledger or Ledger()
    draft.update(changed(d, ledger=Ledger(ledger.did, ledger.writes, ledger.streams + 1, ledger.marks)))
    draft.commands.append(Publish("event", tick.out, d.step, delivery=d.id))


def on_stream_rewound(draft: Draft, tick: StreamRewound) -> None:
    """It writes all again, so what it wrote before is void (R3.54)."""
    d = draft.live(tick.step, tick.delivery, tick.start)
    if d is None:
        return
    ledger = d.ledger or Ledger()
    draft.update(changed(d, ledger=Ledger(ledger.did, ledger.writes, 0, ledger.marks)))
    draft.commands.append(Publish("rewound", None, d.step, {"written": ledger.streams}, d.id))


def on_state_written(draft: Draft, tick: StateWritten) -> None:
    d = draft.live(tick.step, tick.delivery, tick.start)
    if d is None:
        return
    ledger = d.ledger or Ledger()
    draft.update(changed(d, ledger=Ledger(ledger.did, ledger.writes + 1, ledger.streams, ledger.marks)))
    user = draft.user
    for name, out in tick.changes.items():
        user = user.set(name, out)
    for name in tick.dropped:
        if name in user:
            user = user.drop(name)
    draft.user = user


def on_value_recorded(draft: Draft, tick: ValueRecorded) -> None:
    """It gets the same value when it runs again (R3.57, R3.58)."""
    d = draft.live(tick.step, tick.delivery, tick.start)
    if d is not None:
        draft.update(draft.note(d, Did("once", draft.seq, d.attempt, tick.out, tick.name)))
