"""The bars and marks of a timeline in px, as many as can be told apart.

However long a run was, its picture holds at most some two thousand shapes: what is closer than a pixel is one bar, and
where that is not enough, what is closer than two, four ... Of states that share a place the most urgent one is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flownb.notebook.timeline import Lane, Mark, Span
from flownb.notebook.timescale import Scale

__all__ = ["RANK", "SHAPES", "Bar", "fitted", "merged"]

#: Bars and marks of one picture at most.
SHAPES = 1_800
_LEAST_BAR = 1.2
_MARK_PX = 8.0

#: Most urgent first: 0.
_URGENCY = ("failed", "skipped", "person", "retrying", "running", "waiting", "queued", "done")
RANK = {state: i for i, state in enumerate(_URGENCY)}


@dataclass(slots=True)
class Bar:
    """One or more spans of a row, in px."""

    state: str
    row: int
    left: float
    right: float
    label: str


def fitted(lanes: Sequence[Lane], scale: Scale) -> tuple[list[list[Bar]], list[list[tuple[float, Mark]]]]:
    """Bars and marks of each lane, merged as far as they have to be."""
    whole = [[_bar(span, scale) for span in lane.spans] for lane in lanes]
    # Beyond the width of the axis nothing more comes together: each row keeps a bar, and each kind of mark in it one.
    apart = 1.0
    bars = [merged(its, apart) for its in whole]
    while sum(map(len, bars)) > SHAPES * 3 // 4 and apart < scale.width:
        apart *= 2
        bars = [merged(its, apart) for its in bars]
    apart = _MARK_PX
    marks = [_thinned(((scale.x(mark.at), mark) for mark in lane.marks), apart) for lane in lanes]
    while sum(map(len, marks)) > SHAPES // 4 and apart < scale.width:
        apart *= 2
        marks = [_thinned(its, apart) for its in marks]
    return bars, marks


def _bar(span: Span, scale: Scale) -> Bar:
    left, right = scale.x(span.start), scale.x(span.end)
    return Bar(span.state, span.row, left, max(right, left + _LEAST_BAR), span.label)


def merged(bars: Iterable[Bar], apart: float) -> list[Bar]:
    """Bars in their order; those with less than `apart` px between, of which one is hardly wider than that, as one."""
    found: list[Bar] = []
    for bar in bars:
        last = found[-1] if found else None
        if last is None or last.row != bar.row or bar.left - last.right >= apart:
            found.append(bar)
            continue
        wide, thin = (bar, last) if bar.right - bar.left > last.right - last.left else (last, bar)
        if thin.right - thin.left > apart * (2 if bar.state == last.state else 1.2):
            found.append(bar)
            continue
        state = min(last.state, bar.state, key=RANK.__getitem__)
        label = wide.label if state == wide.state else ""
        found[-1] = Bar(state, last.row, last.left, max(last.right, bar.right), label)
    return found


def _thinned(marks: Iterable[tuple[float, Mark]], apart: float) -> list[tuple[float, Mark]]:
    """Marks with their places, of each kind and row none nearer to the one before than `apart` px."""
    found: list[tuple[float, Mark]] = []
    last: dict[tuple[str, int], float] = {}
    for x, mark in marks:
        if x - last.get((mark.what, mark.row), -apart) >= apart:
            last[mark.what, mark.row] = x
            found.append((x, mark))
    return found
