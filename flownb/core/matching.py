"""Which waiter takes an event (R4.30 to R4.36).

Waiters are found by what they look for: type, step, names of the required fields and a fingerprint of their values.
So an event costs a look-up per type that it is and per set of names that somebody waits with, however many wait. A
required value that is not plain (a list, a model) has no fingerprint; such waiters of a step stand together.
"""

from __future__ import annotations

from collections.abc import Iterator

from flownb.core.draft import Draft, bases_of
from flownb.core.persist import Table
from flownb.core.spec import EVENT, ORDINARY
from flownb.core.state import RunState, Waiter
from flownb.core.values import MISSING, Out, field_of, fingerprint, meets


def remember(draft: Draft, waiter: Waiter) -> None:
    """Add a waiter to the table and to the index."""
    side = draft.side
    shape, name = _shape(waiter), _name(waiter)
    bucket: Table[int] = side.wanted.get(name) or Table()
    counts = side.shapes.get(waiter.event, {})
    draft.set_side(
        waiters=side.waiters.set(waiter.id, waiter),
        wanted=side.wanted.set(name, bucket.set(waiter.id, waiter.id)),
        shapes={**side.shapes, waiter.event: {**counts, shape: counts.get(shape, 0) + 1}},
    )


def forget(draft: Draft, number: int) -> Waiter:
    """Take a waiter out again, with its deadline."""
    side = draft.side
    waiter = side.waiters[number]
    shape, name = _shape(waiter), _name(waiter)
    bucket = side.wanted[name].drop(number)
    counts = dict(side.shapes[waiter.event])
    counts[shape] -= 1
    if not counts[shape]:
        del counts[shape]
    shapes = {**side.shapes, waiter.event: counts}
    if not counts:
        del shapes[waiter.event]
    draft.set_side(
        waiters=side.waiters.drop(number),
        wanted=side.wanted.set(name, bucket) if bucket.n else side.wanted.drop(name),
        shapes=shapes,
    )
    if waiter.timer:
        draft.disarm(waiter.timer)
    return waiter


def takers(draft: Draft | RunState, out: Out, only: int | None = None) -> list[Waiter]:
    """The waiters that an event resolves: in each step the oldest one for the exact type, else for a base of it.

    Args:
        draft: The tick's work, or a state.
        out: The event.
        only: Index of the one step that it is for.
    """
    found: dict[int, Waiter] = {}
    for event in (out.key, *bases_of(draft, out)):
        if event == EVENT and out.role not in ORDINARY:
            continue
        best: dict[int, Waiter] = {}
        for shape in draft.side.shapes.get(event, ()):
            waiter = _oldest(draft, event, shape, out)
            if waiter is None or waiter.step in found or (only is not None and waiter.step != only):
                continue
            if waiter.step not in best or waiter.id < best[waiter.step].id:
                best[waiter.step] = waiter
        found.update(best)
    return [found[step] for step in sorted(found)]


def fits(waiter: Waiter, out: Out, bases: tuple[str, ...]) -> bool:
    """Whether an event is what a waiter waits for."""
    if waiter.event != out.key and waiter.event not in bases:
        return False
    if waiter.event == EVENT and out.role not in ORDINARY:
        return False
    return _meets_all(waiter, out)


def _meets_all(waiter: Waiter, out: Out) -> bool:
    return all(
        (value := field_of(out.value, name)) is not MISSING and meets(required.value, value)
        for name, required in waiter.requires.items()
    )


def _oldest(draft: Draft | RunState, event: str, shape: str, out: Out) -> Waiter | None:
    prints = []
    for name in _names(shape):
        value = field_of(out.value, name)
        number = fingerprint(value) if value is not MISSING else None
        if number is None:
            return None
        prints.append(str(number))
    bucket = draft.side.wanted.get(f"{event}|{shape}|{','.join(prints)}")
    return next(_fitting(draft, bucket, out), None) if bucket is not None else None


def _fitting(draft: Draft | RunState, bucket: Table[int], out: Out) -> Iterator[Waiter]:
    for number in bucket:
        waiter = draft.side.waiters[number]
        if _meets_all(waiter, out):
            yield waiter


def _shape(waiter: Waiter) -> str:
    """Step and names of the required fields; no names where a value has no fingerprint."""
    if any(fingerprint(out.value) is None for out in waiter.requires.values()):
        return f"{waiter.step}*"
    return "\0".join((str(waiter.step), *sorted(waiter.requires)))


def _names(shape: str) -> list[str]:
    return shape.split("\0")[1:]


def _name(waiter: Waiter) -> str:
    shape = _shape(waiter)
    prints = [str(fingerprint(waiter.requires[name].value)) for name in _names(shape)]
    return f"{waiter.event}|{shape}|{','.join(prints)}"
