"""Time to px: a straight axis, but for long stretches in which nothing happens, which are folded to a fixed width.

A review that is answered after two days took 0.3 s of work: drawn to scale, all of it would be one pixel. So a stretch
without work that is several times as long as all work together becomes a gap with its length above it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import log10

from flownb.notebook.periods import Period, joined, lasted
from flownb.notebook.timeline import Timeline

__all__ = ["Scale", "scale_of"]

#: A stretch is folded if it is so many times as long as all work together, and at most so many are.
_FOLDED = 4.0
_MOST_GAPS = 6
#: All gaps together take between so much and so much of the axis, the more the longer they are beside the work.
_GAPS_LEAST, _GAPS_MOST = 0.4, 0.75
#: However short the work between two gaps was, it is seen.
_LEAST = 18.0
#: Labels of the axis are at least so far apart, in px.
_APART = 76.0
#: Steps between labels, in seconds.
_STEPS = (
    *(base * 10.0**exponent for exponent in range(-5, 1) for base in (1, 2, 5)),
    *(10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 10_800.0, 21_600.0, 43_200.0),
    *(base * 86_400.0 for base in (1, 2, 7, 14, 30, 90, 365, 1825)),
)


@dataclass(frozen=True, slots=True)
class _Piece:
    start: float
    end: float
    left: float
    right: float
    is_gap: bool


class Scale:
    """Times in Unix seconds to px from the left end of the axis."""

    def __init__(self, pieces: Sequence[_Piece]) -> None:
        self._pieces = pieces
        self._starts = [piece.start for piece in pieces]
        self.width = pieces[-1].right

    def x(self, at: float) -> float:
        """Where a moment is."""
        piece = self._pieces[max(0, bisect_right(self._starts, at) - 1)]
        long = piece.end - piece.start
        part = min(1.0, max(0.0, (at - piece.start) / long)) if long > 0 else 0.0
        return piece.left + part * (piece.right - piece.left)

    @property
    def gaps(self) -> list[tuple[float, float, str]]:
        """Folded stretches: left end, right end, how long it was."""
        return [(p.left, p.right, lasted(p.end - p.start)) for p in self._pieces if p.is_gap]

    def labels(self) -> list[tuple[float, str]]:
        """Places on the axis with their text: the time since the start, behind a gap since its end ("+2 s")."""
        straight = [p for p in self._pieces if not p.is_gap]
        if not straight:
            return []
        rate = max((p.end - p.start) / (p.right - p.left) for p in straight)
        step = next((s for s in _STEPS if s >= rate * _APART), _STEPS[-1])
        found: list[tuple[float, str]] = []
        for place, piece in enumerate(straight):
            sign = "+" if place else ""
            n = int((piece.end - piece.start) / step + 1e-9)
            found += [
                (self._inside(piece, k * step), f"{sign}{lasted(k * step) if k else '0 s'}")
                for k in range(n + 1)
                if not (place and k == 0)
            ]
        return found

    def _inside(self, piece: _Piece, seconds: float) -> float:
        long = piece.end - piece.start
        return piece.left + (seconds / long if long > 0 else 0.0) * (piece.right - piece.left)


def scale_of(shown: Timeline, width: float) -> Scale:
    """The scale of a timeline on an axis of this width, in px."""
    total = shown.end - shown.start
    work = joined(
        [
            *((s.start, s.end) for lane in shown.lanes for s in lane.spans if s.state in _WORK),
            *((mark.at, mark.at) for lane in shown.lanes for mark in lane.marks),
            *((period[0], period[1]) for lane in shown.lanes for period in lane.queue),
        ]
    )
    idle = _between(work, shown.start, shown.end) if work else []
    busy = total - sum(end - start for start, end in idle if end - start > total / 50)
    long = [p for p in idle if p[1] - p[0] > max(_FOLDED * busy, total / 50)]
    gaps = sorted(sorted(long, key=lambda p: p[0] - p[1])[:_MOST_GAPS])
    return Scale(_pieces(gaps, shown.start, shown.end, width))


_WORK = frozenset({"running", "done", "failed", "skipped"})


def _between(periods: Sequence[Period], start: float, end: float) -> list[Period]:
    found: list[Period] = []
    at = start
    for begin, stop in periods:
        if begin > at:
            found.append((at, begin))
        at = max(at, stop)
    return [*found, (at, end)] if end > at else found


def _pieces(gaps: Sequence[Period], start: float, end: float, width: float) -> list[_Piece]:
    """The axis from left to right: straight pieces share what the gaps leave, each getting its least width first."""
    straight: list[Period] = []
    at = start
    for begin, stop in gaps:
        straight.append((at, begin))
        at = stop
    straight.append((at, end))
    seconds = sum(stop - begin for begin, stop in straight)
    away = sum(stop - begin for begin, stop in gaps)
    times = log10(max(away / seconds, 1.0)) if seconds > 0 else 10.0
    share = min(_GAPS_MOST, max(_GAPS_LEAST, 0.25 + 0.15 * times))
    gap = share * width / len(gaps) if gaps else 0.0
    room = width - gap * len(gaps) - _LEAST * len(straight)
    pieces: list[_Piece] = []
    x = 0.0
    for k, (begin, stop) in enumerate(straight):
        wide = _LEAST + room * ((stop - begin) / seconds if seconds > 0 else 1 / len(straight))
        pieces.append(_Piece(begin, stop, x, x + wide, False))
        x += wide
        if k < len(gaps):
            pieces.append(_Piece(*gaps[k], x, x + gap, True))
            x += gap
    return pieces
