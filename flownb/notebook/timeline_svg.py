"""A timeline as an SVG of its own colours, for an `<img>`: it reads the same on light and dark pages."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from flownb.notebook.layout import shorten, text_width
from flownb.notebook.periods import lasted
from flownb.notebook.shapes import WORDS, num, xml
from flownb.notebook.svg import LOOK, card, glyph_at
from flownb.notebook.timeline import Lane, Mark, Timeline
from flownb.notebook.timeline_bars import RANK, Bar, fitted, merged
from flownb.notebook.timescale import Scale, scale_of

__all__ = ["LANES", "timeline_svg"]

#: Lanes that are drawn; of a larger workflow the ones with most to tell.
LANES = 40

_NAMES, _AXIS, _WIDTH = 178.0, 702.0, 880.0
_HEAD = 46.0
_PAD = 7.0
_SMALL = 10.5

#: The glyph of a mark.
_GLYPHS = {"asked": "person", "answered": "done", "failed": "failed", "retried": "retrying", "cancelled": "skipped"}
_MARK_WORDS = {
    "asked": "asked a person",
    "answered": "answered",
    "failed": "failed",
    "retried": "failed, tried again",
    "cancelled": "cut off",
}
_BAR_WORDS = {**WORDS, "done": "ran", "failed": "failed attempt", "skipped": "cut off", "retrying": "waits to retry"}
_WAITS = frozenset({"person", "waiting", "retrying"})


def timeline_svg(shown: Timeline) -> str:
    """A timeline as SVG text."""
    lanes, left_out = _picked(shown.lanes)
    scale = scale_of(shown, _AXIS)
    bars, marks = fitted(lanes, scale)
    out: list[str] = []
    seen: Counter[str] = Counter()
    y = _HEAD
    tops: list[float] = []
    for lane in lanes:
        tops.append(y)
        y += _height(lane)
    bottom = y
    out += _bands(shown, scale, bottom)
    out += _axis(scale, bottom)
    for lane, top, its_bars, its_marks in zip(lanes, tops, bars, marks, strict=True):
        out += _lane(lane, top, its_bars, its_marks, scale)
        seen.update(bar.state for bar in its_bars)
        seen.update(f"mark {mark.what}" for _, mark in its_marks)
        seen["queued"] += len(lane.queue)
    out.append(_title(shown))
    y = bottom + 8
    if left_out:
        out.append(f'<text x="0" y="{num(y + 14)}" fill="#57606a">and {left_out:,} more steps</text>')
        y += 22
    legend, height = _legend(seen, y, bool(shown.pauses), bool(shown.away))
    return card(_WIDTH, y + height, [_DEFS, *out, *legend])


#: Hatches of a closed gate, and of the time in which nobody drove the run.
_DEFS = (
    '<defs><pattern id="h" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<path d="M0 0V7" stroke="#8a929c" stroke-width="2"/></pattern><pattern id="a" width="5" height="5" '
    'patternUnits="userSpaceOnUse"><circle cx="1.5" cy="1.5" r=".9" fill="#8a929c"/></pattern></defs>'
)


def _picked(lanes: Sequence[Lane]) -> tuple[list[Lane], int]:
    """The lanes to draw, in their order, and how many are left out: those that were reached go first."""
    if len(lanes) <= LANES:
        return list(lanes), 0
    order = sorted(range(len(lanes)), key=lambda i: (-lanes[i].failed, not lanes[i].spans, i))
    kept = sorted(order[:LANES])
    return [lanes[i] for i in kept], len(lanes) - len(kept)


# -- drawing


def _row_height(lane: Lane) -> float:
    return 15.0 if lane.rows <= 2 else 11.0 if lane.rows <= 4 else 8.0


def _height(lane: Lane) -> float:
    rows = max(lane.rows, 1) * (_row_height(lane) + 2) - 2
    return max(20.0, rows + (5 if lane.queue else 0)) + 2 * _PAD


def _lane(lane: Lane, top: float, bars: Sequence[Bar], marks: Sequence[tuple[float, Mark]], scale: Scale) -> list[str]:
    height = _height(lane)
    name, sub = shorten(lane.name), shorten(_sub(lane), 31)
    middle = top + height / 2
    fill = "#1a1a1a" if lane.spans else "#6b6b6b"
    out = [
        f'<path d="M0 {num(top)}H{num(_WIDTH)}" stroke="#e6e9ed"/>',
        f'<text x="0" y="{num(middle - 1 if sub else middle + 4)}" font-weight="600" fill="{fill}">{xml(name)}</text>',
    ]
    if sub:
        out.append(f'<text x="0" y="{num(middle + 12)}" font-size="{_SMALL}" fill="#57606a">{xml(sub)}</text>')
    row = _row_height(lane)
    out += _paths(bars, top + _PAD, row)
    y = top + height - _PAD - 3
    queue = merged((Bar("queued", 0, scale.x(a), max(scale.x(b), scale.x(a) + 2), "") for a, b in lane.queue), 2.0)
    if queue:
        d = "".join(f"M{num(_NAMES + bar.left)} {num(y)}h{num(bar.right - bar.left)}" for bar in queue)
        out.append(f'<path d="{d}" stroke="{LOOK["queued"][1]}" stroke-width="3" stroke-opacity=".45"/>')
    out += [text for bar in bars if (text := _bar_label(bar, top + _PAD + bar.row * (row + 2), row))]
    for x, mark in marks:
        at = top + _PAD + mark.row * (row + 2) + row / 2
        out.append(_mark(mark, _NAMES + x, at, min(1.0, row / 13)))
    return out


def _sub(lane: Lane) -> str:
    """The line under a step's name."""
    if not lane.spans and not lane.queue:
        return "not reached" if not lane.cancelled else f"{lane.cancelled:,} cut off"
    counts = ((lane.done, "done"), (lane.failed, "failed"), (lane.retried, "retried"), (lane.cancelled, "cut off"))
    parts = [f"{n:,} {word}" for n, word in counts if n]
    if lane.runs:
        parts.append(f"runs {', '.join(lane.runs)}")
    if lane.most_queued > 1:
        parts.append(f"{lane.most_queued:,} queued")
    return " · ".join(parts)


def _paths(bars: Sequence[Bar], top: float, row: float) -> list[str]:
    """All bars of a lane, one path for each state."""
    by: dict[str, list[str]] = {}
    for bar in sorted(bars, key=lambda bar: -RANK[bar.state]):  # the urgent ones on top
        thin = bar.state == "queued"
        y, high = top + bar.row * (row + 2) + (row / 3 if thin else 0), row / 3 if thin else row
        x, wide = _NAMES + bar.left, bar.right - bar.left
        by.setdefault(bar.state, []).append(f"M{num(x)} {num(y)}h{num(wide)}v{num(high)}h{num(-wide)}z")
    out: list[str] = []
    for state, parts in by.items():
        fill, stroke, _, dash = LOOK[state]
        dashes = f' stroke-dasharray="{dash}"' if dash and state in _WAITS else ""
        # A narrow bar is all border, so that is drawn finer than in the graph.
        out.append(f'<path d="{"".join(parts)}" fill="{fill}" stroke="{stroke}" stroke-width="1"{dashes}/>')
    return out


def _bar_label(bar: Bar, y: float, row: float) -> str:
    if row < 11:
        return ""
    left = bar.left + 16  # beside a glyph, or the mark of what came before
    label = shorten(bar.label, 24)
    inside = bar.right - left - 4
    out = ""
    if bar.state == "waiting" and bar.right - bar.left >= 18:
        out = glyph_at(bar.state, _NAMES + bar.left + 9, y + row / 2, 0.75)
    if label and text_width(label, _SMALL) <= inside:
        out += f'<text x="{num(_NAMES + left)}" y="{num(y + row / 2 + 3.6)}" font-size="{_SMALL}">{xml(label)}</text>'
    return out


def _mark(mark: Mark, x: float, y: float, size: float) -> str:
    state = _GLYPHS[mark.what]
    ring = f'<circle cx="{num(x)}" cy="{num(y)}" r="{num(7.5 * size)}" fill="#fff" stroke="{LOOK[state][1]}"/>'
    return ring + glyph_at(state, x, y, 0.68 * size)


def _bands(shown: Timeline, scale: Scale, bottom: float) -> list[str]:
    """Behind everything: when the gate was closed, and when nobody drove the run."""
    out: list[str] = []
    for periods, pattern in ((shown.pauses, "h"), (shown.away, "a")):
        bars = merged((Bar("queued", 0, scale.x(a), max(scale.x(b), scale.x(a) + 2), "") for a, b in periods), 1.0)
        for bar in bars[:200]:
            out.append(
                f'<rect x="{num(_NAMES + bar.left)}" y="{num(_HEAD)}" width="{num(bar.right - bar.left)}" '
                f'height="{num(bottom - _HEAD)}" fill="url(#{pattern})" fill-opacity=".4"/>'
            )
    return out


def _axis(scale: Scale, bottom: float) -> list[str]:
    out: list[str] = []
    lines: list[str] = []
    for left, right, text in scale.gaps:
        x0, x1, middle = _NAMES + left, _NAMES + right, _NAMES + (left + right) / 2
        zigzag = "".join(
            f"M{num(middle + shift)} {num(_HEAD - 4)}l3 4l-6 {num((bottom - _HEAD) / 3)}l6 {num((bottom - _HEAD) / 3)}"
            f"l-6 {num((bottom - _HEAD) / 3)}"
            for shift in (-3, 3)
        )
        out.append(
            f'<rect x="{num(x0 + 4)}" y="{num(_HEAD)}" width="{num(x1 - x0 - 8)}" height="{num(bottom - _HEAD)}" '
            f'fill="#f7f8fa"/><path d="{zigzag}" fill="none" stroke="#9aa1aa"/>'
            f'<text x="{num(middle)}" y="{num(_HEAD - 8)}" text-anchor="middle" font-size="{_SMALL}" '
            f'font-style="italic" fill="#57606a">{xml(text)}</text>'
        )
    taken = [(left - 40, right + 8) for left, right, _ in scale.gaps]
    for x, text in scale.labels():
        lines.append(f"M{num(_NAMES + x)} {num(_HEAD)}V{num(bottom)}")
        if any(a <= x <= b for a, b in taken) or x + text_width(text, _SMALL) > scale.width + 8:
            continue
        out.append(
            f'<text x="{num(_NAMES + x)}" y="{num(_HEAD - 8)}" font-size="{_SMALL}" fill="#57606a">{xml(text)}</text>'
        )
    return [f'<path d="{"".join(lines)}" stroke="#eceff2"/>', *out]


def _title(shown: Timeline) -> str:
    began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(shown.start))
    ticks = f"{shown.ticks:,} tick{'' if shown.ticks == 1 else 's'}"
    words = f"{shown.run_id} · {shown.status} · {ticks} in {lasted(shown.end - shown.start)} · began {began}"
    return (
        f'<text x="0" y="13" font-weight="600">{xml(shorten(shown.name))}'
        f'<tspan dx="8" font-weight="400" fill="#57606a">{xml(shorten(words, 110))}</tspan></text>'
    )


def _legend(seen: Counter[str], y: float, is_paused: bool, is_away: bool) -> tuple[list[str], float]:
    """What bars, hatches and marks mean, as far as the picture has them; with its height."""
    entries: list[tuple[str, str]] = []
    for state in ("done", "running", "failed", "skipped", "person", "waiting", "retrying", "queued"):
        if seen[state]:
            fill, stroke, _, dash = LOOK[state]
            dashes = f' stroke-dasharray="{dash}"' if dash and state in _WAITS else ""
            box = f'<rect y="-9" width="20" height="10" fill="{fill}" stroke="{stroke}"{dashes}/>'
            line = f'<path d="M0-4H20" stroke="{stroke}" stroke-width="3" stroke-opacity=".45"/>'
            entries.append((line if state == "queued" else box, _BAR_WORDS[state]))
    for is_there, pattern, words in ((is_paused, "h", "paused"), (is_away, "a", "driven by nobody")):
        if is_there:
            box = f'<rect y="-9" width="20" height="10" fill="url(#{pattern})" fill-opacity=".7"/>'
            entries.append((box, words))
    for what, words in _MARK_WORDS.items():
        if seen[f"mark {what}"]:
            entries.append((glyph_at(_GLYPHS[what], 12, -4, 0.75), words))
    if not entries:
        return [], 0.0
    out = [f'<path d="M0 {num(y - 8)}H{num(_WIDTH)}" stroke="#e6e9ed"/>']
    x, low = 0.0, y + 14
    for picture, words in entries:
        wide = 26 + text_width(words, _SMALL) + 18
        if x + wide > _WIDTH:
            x, low = 0.0, low + 18
        out.append(
            f'<g transform="translate({num(x)} {num(low)})">{picture}'
            f'<text x="26" font-size="{_SMALL}" fill="#4a4a4a">{xml(words)}</text></g>'
        )
        x += wide
    return out, low - y + 4
