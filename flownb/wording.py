"""How events, failures, people and spans of time are named in a sentence: a few in full, the rest counted."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from flownb.core.graph import short
from flownb.core.state import Request, RunState
from flownb.core.ticks import Hand
from flownb.core.values import Failure, Out
from flownb.preview import one_line, preview, preview_name
from flownb.store.marks import UnknownEvent

#: So many of several are named.
NAMED = 3
#: Characters of one event, and of each of several.
ROOM, ROOM_OF_MANY = 80, 40


def named(out: Out, room: int = ROOM) -> str:
    """An event with its fields, shortened: `Scored(score=0.9)`. What the engine made itself is named by its type."""
    kind, value = short(out.key), out.value
    if value is None or out.role in ("failure", "closed", "engine"):
        return kind
    if isinstance(value, UnknownEvent):
        return _unknown(kind, value.plain(), room)
    shown = preview(value, room)
    if out.role == "value" or shown.startswith(f"{kind}("):
        return shown
    return one_line(f"{kind}({shown})", room)


def _unknown(kind: str, fields: object, room: int) -> str:
    """An event whose class this process does not know, as if it knew it."""
    if not isinstance(fields, dict):
        return one_line(f"{kind}({preview(fields, room)})", room)
    said = [f"{preview_name(name)}={preview(value, room)}" for name, value in islice(fields.items(), room)]
    return one_line(f"{kind}({', '.join(said)})", room)


def listed(outs: Sequence[Out]) -> str:
    """Several events: the first of them, and how many more there are."""
    if len(outs) == 1:
        return named(outs[0])
    shown = [named(out, ROOM_OF_MANY) for out in outs[:NAMED]]
    more = len(outs) - len(shown)
    if more:
        return f"{', '.join(shown)} and {more:,} more"
    return " and ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))


def failure_words(failure: Failure) -> str:
    """`ValueError('no such file')`."""
    message = preview(failure.message.partition("\n")[0], ROOM) if failure.message else ""
    return f"{short(failure.type)}({message})"


def question_words(state: RunState | None, number: int) -> str:
    """A question with who asks it: `review's question Approve(no=1)`."""
    request = state.requests.get(number) if state is not None else None
    if state is None or request is None:
        return f"question {number}"
    return f"{asker_of(state, request)}'s question {named(request.question)}"


def asker_of(state: RunState, request: Request) -> str:
    """The name of the step that asks."""
    return state.spec.steps[request.step].name if request.step >= 0 else "the outside"


def person(by: str, otherwise: str = "a person") -> str:
    """Who did it."""
    return one_line(by, 40) or otherwise


def hand_words(hand: Hand) -> str:
    """What somebody did to a tick before it was admitted, and who: "edited by ann"."""
    did = "dropped" if hand.is_dropped else "edited" if hand.original else ""
    did = did or (f"fired {span(hand.early_s)} early" if hand.early_s else "")
    did = " and ".join(filter(None, (did, f"admitted ahead of {hand.ahead:,}" if hand.ahead else "")))
    return f"{did or 'admitted'} by {person(hand.by)}"


def span(seconds: float) -> str:
    """A span of time as people say it: "2 s", "5 min", "3 h"."""
    seconds = max(0.0, seconds)
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


def some(words: Sequence[str], limit: int = NAMED, between: str = ", ") -> str:
    """The first of many words, and how many more there are."""
    more = len(words) - limit
    return between.join(words[:limit]) + (f" and {more:,} more" if more > 0 else "")
