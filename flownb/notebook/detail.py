"""What the inspector shows of one tick: asked for, tick by tick."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flownb.core.reduce import advance
from flownb.core.state import Delivery, RunState
from flownb.narration import told
from flownb.notebook.carried import carried
from flownb.notebook.differences import differences
from flownb.notebook.drafts import draft_of
from flownb.notebook.viewmodel import caption, causes, delivery_of, queue_lines

if TYPE_CHECKING:
    from flownb.notebook.screen import Screen

_EFFECTS = 50
_LOG_CHARS = 20_000


def detail(screen: Screen, seq: int, against: int | None = None) -> dict[str, Any]:
    """Of tick `seq`: `{seq, against, told, title, route, payload, state, queue, causes, effects, log, edit}`.

    Args:
        screen: Of the run.
        seq: Its number, from 1.
        against: The state is compared with that after this tick; None: with that before tick `seq`.

    Raises:
        IndexError: The run has no such tick.
    """
    runner = screen.runner
    after = runner.history.at(seq)
    before: RunState | None = runner.history.at(seq - 1) if seq > 1 else None
    tick = runner.ticks[seq - 1]
    _, commands = advance(before, tick)
    kind, step, event, _ = caption(tick, before)
    delivery = delivery_of(tick, before)
    other = before if against is None else runner.history.at(against) if against > 0 else None
    return {
        "seq": seq,
        "against": against,
        "told": told(before, tick, after, commands),
        "title": event or kind,
        "route": " ".join(filter(None, (step, kind))),
        "payload": carried(tick),
        "state": differences(user_values(other), user_values(after)),
        "queue": queue_lines(after, ()),
        "causes": causes(tick, before),
        "effects": screen.projection.effects.get(seq, [])[:_EFFECTS],
        "log": _log_of(screen, step, delivery)[-_LOG_CHARS:],
        "edit": draft_of(tick) is not None,
    }


def user_values(state: RunState | None) -> dict[str, Any]:
    """The user's state, by name; {} before the first tick."""
    return {} if state is None else {name: out.value for name, out in state.user.items()}


def _log_of(screen: Screen, step: str, delivery: Delivery | None) -> str:
    """What the delivery of a tick wrote; of one that wrote nothing, what all steps wrote so far."""
    log = screen.runner.logs.get(step)
    said = log.text(delivery.id) if log is not None and delivery is not None else ""
    return said or screen.run.logs()


__all__ = ["detail", "user_values"]
