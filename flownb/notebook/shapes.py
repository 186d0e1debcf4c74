"""Shapes of the drawing, as SVG path data and text; all numbers are px of the visual specification.

A step is a box with radius 7, a person's step a hexagon whose points are 12 deep, a fan a box with two copies behind
it, start and stop are stadiums. A failed node lacks its upper right corner.
"""

from __future__ import annotations

from html import escape
from math import hypot

from flownb.core.graph import Node
from flownb.notebook.layout import Box, Route
from flownb.notebook.viewmodel import STATES

__all__ = [
    "GLYPHS",
    "STATES",
    "WORDS",
    "arrow_head",
    "copies_of",
    "cut_outline",
    "front_of",
    "num",
    "outline",
    "text_at",
    "xml",
]

WORDS = {
    "idle": "not reached",
    "queued": "queued",
    "running": "running",
    "person": "waits for a person",
    "waiting": "waiting",
    "done": "done",
    "failed": "failed",
    "retrying": "retrying",
    "skipped": "skipped",
}

_CIRCLE = "M4.2 0A4.2 4.2 0 1 1-4.2 0A4.2 4.2 0 1 1 4.2 0Z"
#: Glyphs are paths (stroked, filled) round (0, 0), 12 px wide: fonts lack some of the characters, others become emoji.
GLYPHS = {
    "idle": (_CIRCLE, ""),
    "queued": (_CIRCLE, "M0 0V-4.2A4.2 4.2 0 0 1 4.2 0Z"),
    "running": ("", "M-3.2-4.8L5 0L-3.2 4.8Z"),
    "person": ("", "M0-5.6L5.6 0L0 5.6L-5.6 0Z"),
    "waiting": ("M-3.6-4.8H3.6L-3.6 4.8H3.6Z", "M0 0L3.6 4.8H-3.6Z"),
    "done": ("M-4.4 .3L-1.4 3.4L4.6-3.6", ""),
    "failed": ("M-3.6-3.6L3.6 3.6M3.6-3.6L-3.6 3.6", ""),
    "retrying": ("M3.7-2.4A4.4 4.4 0 1 0 4.4 .6M4.4-5.2V-2H1.2", ""),
    "skipped": (_CIRCLE + "M-3 3L3-3", ""),
}


def num(x: float) -> str:
    text = f"{x:.1f}"
    return text[:-2] if text.endswith(".0") else text


def xml(text: str) -> str:
    """`text` for XML: markup escaped, what XML 1.0 cannot hold replaced."""
    return escape(
        "".join(c if c in "\t\n" or c.isprintable() or (c.isspace() and c > "\x1f") else "\ufffd" for c in text)
    )


def outline(shape: str, box: Box, inset: float = 0) -> str:
    x0, y0 = box.x - box.w / 2 + inset, box.y - box.h / 2 + inset
    x1, y1 = box.x + box.w / 2 - inset, box.y + box.h / 2 - inset
    if shape == "person":
        k = 12 - inset * 0.6
        left, right, middle = num(x0 + k), num(x1 - k), num(box.y)
        return f"M{left} {num(y0)}H{right}L{num(x1)} {middle}L{right} {num(y1)}H{left}L{num(x0)} {middle}Z"
    r = (y1 - y0) / 2 if shape in ("start", "stop") else 7 - inset * 0.7
    arc = f"A{num(r)} {num(r)} 0 0 1 "
    return (
        f"M{num(x0 + r)} {num(y0)}H{num(x1 - r)}{arc}{num(x1)} {num(y0 + r)}V{num(y1 - r)}{arc}{num(x1 - r)} {num(y1)}"
        f"H{num(x0 + r)}{arc}{num(x0)} {num(y1 - r)}V{num(y0 + r)}{arc}{num(x0 + r)} {num(y0)}Z"
    )


def cut_outline(box: Box, cut: float = 11) -> str:
    """The outline of a failed node: its upper right corner is missing."""
    x0, y0, x1, y1 = box.x - box.w / 2, box.y - box.h / 2, box.x + box.w / 2, box.y + box.h / 2
    return f"M{num(x0)} {num(y0)}H{num(x1 - cut)}L{num(x1)} {num(y0 + cut)}V{num(y1)}H{num(x0)}Z"


def arrow_head(route: Route, half: float = 3.6) -> str:
    (x, y), (u, v) = route.foot, route.tip
    length = hypot(u - x, v - y) or 1
    dx, dy = (u - x) / length * half, (v - y) / length * half
    return f"M{num(u)} {num(v)}L{num(x - dy)} {num(y + dx)}L{num(x + dy)} {num(y - dx)}Z"


def front_of(node: Node, box: Box) -> Box:
    """The box of a node's front; a fan's two copies stick out behind it, up and to the right."""
    return Box(box.x - 2.5, box.y + 3, box.w - 5, box.h - 6) if node.shape == "fan" else box


def copies_of(box: Box) -> list[Box]:
    return [Box(box.x - 2.5 + k, box.y + 3 - k, box.w - 5, box.h - 6) for k in (4.8, 2.4)]


def text_at(node: Node, front: Box) -> tuple[float, float, float]:
    """x of the glyph's centre, x of the texts, y that the texts are set around."""
    glyph = front.x - front.w / 2 + (20 if node.shape == "person" else 15)
    return glyph, glyph + 13, front.y - (4 if node.shape == "fan" else 0)
