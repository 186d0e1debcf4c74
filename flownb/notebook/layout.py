"""Graph in, coordinates out, by Graphviz.

Only ids and sizes enter the DOT text that is laid out, never a name: names are hostile text, and no font of the machine
may enter the layout. The engine is `dot` on the PATH (a process, so it can be killed at the time limit), else the
WebAssembly build that is installed with the package; both give the same JSON and agree within a few pixels.

Each definition is laid out once per process, top to bottom and left to right, and the direction that is drawn larger in
the panel wins. What takes longer than the limit gives None, and the caller shows a plain list of steps.
"""

from __future__ import annotations

import json
import threading
import time
import unicodedata
from collections import OrderedDict
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal

from flownb.core.graph import Edge, Graph, Node
from flownb.notebook.engines import render_json
from flownb.notebook.exports import to_dot, to_mermaid

__all__ = [
    "Box",
    "Cluster",
    "Layout",
    "Route",
    "edge_label_width",
    "lay_out",
    "shorten",
    "text_width",
    "to_dot",
    "to_mermaid",
    "topological",
]

Direction = Literal["TB", "LR"]
Point = tuple[float, float]

NAME_CHARS, EDGE_CHARS = 22, 18
NAME_PX, EDGE_PX = 12.5, 10.5

#: Above this many edges no room is kept for their labels (+22 % height, up to 3.5 times the layout time).
LABELLED_EDGES = 60
_CACHED = 256
_MAX_ZOOM = 1.15


@dataclass(frozen=True, slots=True)
class Box:
    """Where a node is: its centre and its size, in px; y grows downwards."""

    x: float
    y: float
    w: float
    h: float


@dataclass(frozen=True, slots=True)
class Route:
    """How an edge runs."""

    #: SVG path data of the line, up to the foot of its arrow head.
    d: str
    #: Foot and tip of the arrow head.
    foot: Point
    tip: Point
    #: Centre of the room kept for the label, None without a label.
    label: Point | None


@dataclass(frozen=True, slots=True)
class Cluster:
    """The frame round the nodes of one group."""

    label: str
    x0: float
    y0: float
    x1: float
    y1: float


@dataclass(frozen=True, slots=True)
class Layout:
    """A graph with coordinates; `nodes` and `edges` have the order of the graph."""

    width: float
    height: float
    #: Top to bottom, for a tall pane beside inspector and ticks; else left to right, for a wide pane above the ticks.
    tall: bool
    nodes: tuple[Box, ...]
    edges: tuple[Route, ...]
    clusters: tuple[Cluster, ...]


# ---- text -------------------------------------------------------------------------------------------------------


def shorten(text: str, limit: int = NAME_CHARS) -> str:
    """`text` on one line, without control and direction-override characters, at most `limit` characters long."""
    shown = " ".join("".join(" " if _is_unseen(c) else c for c in text).split())
    return shown if len(shown) <= limit else shown[: limit - 1].rstrip() + "…"


def _is_unseen(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn") and char != "\u200d"  # the joiner of emoji


def text_width(text: str, size_px: float = NAME_PX) -> float:
    """Width of `text` in px, rather too wide than too narrow: it fits DejaVu, the widest fallback font met."""
    return size_px * sum(map(_char_width, text))


def _char_width(char: str) -> float:
    if unicodedata.combining(char):
        return 0.0
    if unicodedata.east_asian_width(char) in "WF":
        return 1.0
    if char in "il.,'|!:;jtfr":
        return 0.38
    if char in "mwMW@":
        return 0.98
    return 0.74 if char.isupper() else 0.63


def edge_label_width(edge: Edge) -> float:
    """Room for the label of `edge` and a count (" ×99") behind it, in px."""
    return text_width(shorten(edge.label, EDGE_CHARS), EDGE_PX) + 22


def node_size(node: Node) -> tuple[float, float]:
    """Width and height of `node`, in px."""
    text = text_width(shorten(node.label))
    if node.shape in ("start", "stop"):
        return max(58.0, text + 42), 28
    width = max(108.0, text + 44)
    if node.shape == "person":
        return width + 18, 38
    return width, 51 if node.shape == "fan" else 38


# ---- order ------------------------------------------------------------------------------------------------------


def topological(graph: Graph) -> list[int]:
    """Node indices, each before those it leads to (but for edges that close a loop), the stop last."""
    targets: list[list[int]] = [[] for _ in graph.nodes]
    for edge in graph.edges:
        targets[edge.source].append(edge.target)
    seen: set[int] = set()
    order: list[int] = []
    for root in range(len(graph.nodes)):  # the start reaches nearly all; what it does not reach follows
        if root not in seen:
            order += _reached(root, targets, seen)
    last = len(graph.nodes) - 1
    return [*(i for i in order if i != last), *(i for i in order if i == last)]


def _reached(root: int, targets: list[list[int]], seen: set[int]) -> list[int]:
    """What `root` leads to and is not in `seen`, in topological order: depth first, reversed order of finishing."""
    finished: list[int] = []
    seen.add(root)
    # Targets from the last to the first, so that the reversed order keeps the definition's. No recursion.
    stack = [(root, iter(sorted(targets[root], reverse=True)))]
    while stack:
        node, rest = stack[-1]
        follow = next((t for t in rest if t not in seen), None)
        if follow is None:
            finished.append(node)
            stack.pop()
        else:
            seen.add(follow)
            stack.append((follow, iter(sorted(targets[follow], reverse=True))))
    return finished[::-1]


# ---- the cache --------------------------------------------------------------------------------------------------

_cache: OrderedDict[Graph, Future[Layout | None]] = OrderedDict()
_cache_lock = threading.Lock()


def lay_out(graph: Graph, *, limit_s: float = 12.0) -> Layout | None:
    """Coordinates for `graph`, from the process-wide cache when an equal graph was laid out before.

    Callable from any thread; threads that ask for the same graph at once share one layout. It blocks: the first call of
    the WebAssembly engine takes about a second, so call it from a worker thread.

    Args:
        graph: What to draw. Its hash alone is no key: edges seen at run time are not in the definition's hash.
        limit_s: Seconds for both directions together: ten times what a first call takes, for a machine that is busy.

    Returns:
        None if there was not enough time, or if no engine could do it (the reason is logged). Asking again tries again.
    """
    mine: Future[Layout | None] = Future()
    with _cache_lock:
        found = _cache.setdefault(graph, mine)
        _cache.move_to_end(graph)
        while len(_cache) > _CACHED:
            _cache.popitem(last=False)
    if found is not mine:
        return found.result()
    try:
        layout = _best(graph, time.monotonic() + limit_s)
    except BaseException as error:
        _forget(graph)  # an interrupt must not be remembered as the answer
        mine.set_exception(error)
        raise
    if layout is None:
        _forget(graph)  # nor must one slow start: the next one who asks has better luck
    mine.set_result(layout)
    return layout


def _forget(graph: Graph) -> None:
    with _cache_lock:
        _cache.pop(graph, None)


def _best(graph: Graph, deadline: float) -> Layout | None:
    """The direction in which the graph is drawn larger in its pane (a panel 760 px wide); ties go top to bottom."""
    if not graph.nodes:
        return Layout(0, 0, True, (), (), ())
    best: tuple[float, Layout] | None = None
    directions: tuple[Direction, ...] = ("TB", "LR")
    for direction, pane_w, pane_h in zip(directions, (760 * 0.44, 760 - 280), (482, 300), strict=True):
        text = render_json(_dot(graph, direction), size=len(graph.nodes) + len(graph.edges), deadline=deadline)
        if text is None:
            continue
        layout = _parse(text, graph, direction)
        zoom = min(_MAX_ZOOM, (pane_w - 16) / (layout.width + 16), (pane_h - 16) / (layout.height + 16))
        if best is None or zoom > best[0] * 1.001:
            best = zoom, layout
    return best[1] if best else None


# ---- DOT out, JSON in -------------------------------------------------------------------------------------------


def _room(width: float) -> str:
    """A DOT label that is only room: an empty table of a fixed size, so that no font enters the layout."""
    return (
        '<<table border="0" cellborder="0" cellspacing="0" cellpadding="0" fixedsize="true"'
        f' width="{width:.0f}" height="14"><tr><td></td></tr></table>>'
    )


def _dot(graph: Graph, direction: Direction) -> str:
    """The graph as ids and sizes only; `comment` carries an edge's index."""
    nodesep, ranksep = (0.28, 0.2) if direction == "TB" else (0.26, 0.3)
    lines = [
        f"digraph {{rankdir={direction};nodesep={nodesep};ranksep={ranksep};",
        'node[shape=box,fixedsize=true,label=""];',
    ]
    groups: dict[str, list[str]] = {}
    for i, node in enumerate(graph.nodes):
        w, h = node_size(node)
        groups.setdefault(node.group, []).append(f"n{i}[width={w / 72:.3f},height={h / 72:.3f}];")
    lines += groups.pop("", [])
    for k, (name, members) in enumerate(groups.items()):
        room = _room(text_width(shorten(name), EDGE_PX) + 8)
        lines.append(f"subgraph cluster_{k}{{margin=10;labeljust=l;label={room};{''.join(members)}}}")
    labelled = len(graph.edges) <= LABELLED_EDGES
    for k, edge in enumerate(graph.edges):
        label = f",label={_room(edge_label_width(edge))}" if labelled and edge.label else ""
        lines.append(f'n{edge.source}->n{edge.target}[comment="{k}"{label}];')
    return "\n".join(lines) + "}"


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(map(float, text.split(",")))


def _parse(text: bytes, graph: Graph, direction: Direction) -> Layout:
    """Graphviz's JSON (points, y upwards) as a `Layout` (px, y downwards)."""
    data: dict[str, Any] = json.loads(text)
    _, _, width, height = _numbers(data["bb"])
    names = list(dict.fromkeys(node.group for node in graph.nodes if node.group))
    boxes: dict[int, Box] = {}
    clusters: list[Cluster] = []
    for item in data.get("objects", ()):
        name: str = item["name"]
        if name.startswith("cluster_"):
            x0, y0, x1, y1 = _numbers(item["bb"])
            clusters.append(Cluster(names[int(name.removeprefix("cluster_"))], x0, height - y1, x1, height - y0))
        else:
            x, y = _numbers(item["pos"])
            boxes[int(name[1:])] = Box(x, height - y, float(item["width"]) * 72, float(item["height"]) * 72)
    routes: dict[int, Route] = {}
    for item in data.get("edges", ()):
        routes[int(item["comment"])] = _route(item, height)
    return Layout(
        width=width,
        height=height,
        tall=direction == "TB",
        nodes=tuple(boxes[i] for i in range(len(graph.nodes))),
        edges=tuple(routes[k] for k in range(len(graph.edges))),
        clusters=tuple(clusters),
    )


def _route(item: dict[str, Any], height: float) -> Route:
    points: list[Point] = []
    tip: Point | None = None
    for part in item["pos"].split():
        x, y = _numbers(part.lstrip("es,"))
        if part[0] == "e":
            tip = (x, height - y)
        elif part[0] != "s":
            points.append((round(x, 1), round(height - y, 1)))
    first, *rest = points
    d = f"M{first[0]:g} {first[1]:g}C" + " ".join(f"{x:g} {y:g}" for x, y in rest)
    label: Point | None = None
    if "lp" in item:
        x, y = _numbers(item["lp"])
        label = (x, height - y)
    return Route(d, points[-1], tip or points[-1], label)
