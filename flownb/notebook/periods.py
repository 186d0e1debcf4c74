"""Stretches of time, and how long they are in words."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["Period", "covered", "joined", "lasted"]

Period = tuple[float, float]
"""Begin and end, in seconds."""


def covered(periods: Iterable[Period]) -> float:
    """Seconds in which at least one of the periods was."""
    return sum(end - start for start, end in joined(periods))


def joined(periods: Iterable[Period]) -> list[Period]:
    """The same time as periods that do not touch, in order."""
    found: list[Period] = []
    for start, end in sorted(periods):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


_UNITS = (("d", 86_400, "h", 3_600), ("h", 3_600, "min", 60), ("min", 60, "s", 1))


def lasted(seconds: float) -> str:
    """How long, in the two largest units that tell something.

    >>> lasted(0.0123), lasted(4.21), lasted(185), lasted(183_600)
    ('12 ms', '4.2 s', '3 min 5 s', '2 d 3 h')
    """
    if seconds <= 0:
        return "0 s"
    if seconds < 0.0995:
        return f"{seconds * 1000:.2g} ms" if seconds >= 0.00001 else "0 ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    for unit, size, part, small in _UNITS:
        whole, rest = divmod(round(seconds / small), size // small)
        if whole:
            return f"{whole} {unit} {rest} {part}" if rest else f"{whole} {unit}"
    return f"{seconds:.0f} s"
