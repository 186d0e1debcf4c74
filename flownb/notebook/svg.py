"""Graph and coordinates in, SVG text out; one recipe, two dialects.

`live_svg` is for the widget: classes only and no ids (several views share a page), arrow heads as paths (a `<marker>`
needs an id), empty texts that the view fills. `twin_svg` is for the saved file: presentation attributes only, a card of
its own colour, so that it reads the same on light and dark pages, inside an `<img>` and without any style sheet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from flownb.core.graph import Graph, Node
from flownb.notebook.layout import EDGE_CHARS, Box, Layout, edge_label_width, lay_out, shorten
from flownb.notebook.neighbourhood import neighbourhood
from flownb.notebook.shapes import (
    GLYPHS,
    STATES,
    WORDS,
    arrow_head,
    copies_of,
    cut_outline,
    front_of,
    num,
    outline,
    text_at,
    xml,
)

__all__ = ["GLYPHS", "LOOK", "STATES", "TWIN_BYTES", "card", "glyph_at", "live_svg", "twin_svg"]

#: A twin's SVG is at most this long; as base64 in an `<img>`, with its table, the twin then stays below 30 KB.
TWIN_BYTES = 20_000
_TWIN_NODES = 30

#: Fill, stroke, stroke width, dashes; the same values as the light theme of the style sheet.
LOOK = {
    "idle": ("#F4F4F4", "#6B6B6B", 1.0, "1 3"),
    "queued": ("#EAF4FB", "#0072B2", 1.25, "4 3"),
    "running": ("#D6EAF8", "#0072B2", 2.5, ""),
    "person": ("#FFF3CC", "#B36B00", 1.25, ""),
    "waiting": ("#F3EAF1", "#8A4B74", 1.75, "6 3"),
    "done": ("#DDF3EA", "#00735A", 1.5, ""),
    "failed": ("#FBE3D6", "#B34700", 2.5, ""),
    "retrying": ("#FBE9D0", "#8A5A00", 1.75, "7 3 1.5 3"),
    "skipped": ("#EEEEEE", "#777777", 1.0, "1 3"),
}
_BAR_COLOURS = {"done": "#00735A", "failed": "#B34700", "running": "#56B4E9", "queued": "#FFFFFF"}

State = Sequence[Any]
"""`[state, sub, bar]` as in the panel's data contract; bar is None or counts [done, running, queued, failed]."""


# ---- live -------------------------------------------------------------------------------------------------------


def live_svg(graph: Graph, layout: Layout) -> str:
    """The graph for the widget, every node "not reached"; the view changes classes and texts from then on.

    Nodes are `g.fl-node[data-n=index]`, edges `g.fl-edge[data-e=index]`. A `text.sub` says in `data-room` how many
    characters fit; a `rect.fl-track` is where the cells of a fan's bar are drawn.
    """
    margin = 8
    w, h = num(layout.width + 2 * margin), num(layout.height + 2 * margin)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{-margin} {-margin} {w} {h}" width="{w}" height="{h}">',
    ]
    for c in layout.clusters:
        out.append(
            f'<g class="fl-group"><rect x="{num(c.x0)}" y="{num(c.y0)}" width="{num(c.x1 - c.x0)}" '
            f'height="{num(c.y1 - c.y0)}" rx="10"/><text x="{num(c.x0 + 10)}" y="{num(c.y0 + 15)}">'
            f"{xml(shorten(c.label))}</text></g>"
        )
    for k, (edge, route) in enumerate(zip(graph.edges, layout.edges, strict=True)):
        ends = f"{graph.nodes[edge.source].label} → {graph.nodes[edge.target].label}"
        title = f"{ends}: {edge.label}" if edge.label else ends
        out.append(
            f'<g class="fl-edge e-{edge.kind}" data-e="{k}"><title>{xml(title)}</title>'
            f'<path class="hit" d="{route.d}"/><path class="line" d="{route.d}"/>'
            f'<path class="head" d="{arrow_head(route)}"/>'
        )
        if route.label:
            x = route.label[0] - edge_label_width(edge) / 2 + 6
            label = xml(shorten(edge.label, EDGE_CHARS))
            out.append(f'<text x="{num(x)}" y="{num(route.label[1] + 3.5)}">{label}<tspan class="n"></tspan></text>')
        stop = (route.label[0] - edge_label_width(edge) / 2, route.label[1]) if route.label else route.foot
        out.append(_stop(*stop, 3.5, "stop before such an event comes") + "</g>")
    out += [_live_node(i, node, box) for i, (node, box) in enumerate(zip(graph.nodes, layout.nodes, strict=True))]
    return "".join([*out, "</svg>"])


def _live_node(index: int, node: Node, box: Box) -> str:
    front = front_of(node, box)
    glyph_x, text_x, y = text_at(node, front)
    name = xml(shorten(node.label))
    title = xml(f"{node.label}, {node.runs}" if node.runs else node.label)
    out = [
        f'<g class="fl-node fl-{node.shape} s-idle nosub" data-n="{index}" role="button" tabindex="-1" '
        f'aria-label="{xml(node.label)}, not reached"><title>{title}</title>'
    ]
    if node.shape == "fan":
        out += [f'<path class="stack" d="{outline("step", copy)}"/>' for copy in copies_of(box)]
    out.append(
        f'<path class="shape" d="{outline(node.shape, front)}"/><path class="cut" d="{cut_outline(front)}"/>'
        f'<path class="inner" d="{outline(node.shape, front, 3)}"/>'
        f'<g class="glyph" transform="translate({num(glyph_x)} {num(y)})"><path class="gs" d=""/>'
        '<path class="gf" d=""/></g>'
    )
    if node.shape in ("start", "stop"):
        out.append(f'<text class="name" x="{num(text_x)}" y="{num(y + 4.5)}">{name}</text>')
    else:
        room = max(8, int((front.x + front.w / 2 - text_x - 6) / 5.7))
        # The blank keeps name and sub apart for a reader that has only the words.
        out.append(
            f'<text class="name" x="{num(text_x)}" y="{num(y - 2)}">{name}</text> '
            f'<text class="sub" data-room="{room}" x="{num(text_x)}" y="{num(y + 12)}"></text>'
        )
    if node.shape == "fan":
        out.append(
            f'<g class="fl-cells"><rect class="fl-track" x="{num(front.x - front.w / 2 + 8)}" '
            f'y="{num(front.y + front.h / 2 - 7)}" width="{num(front.w - 16)}" height="3.5" rx="1.5"/></g>'
        )
    if node.shape not in ("start", "stop"):
        left = front.x - front.w / 2 + (12 if node.shape == "person" else 0)
        out.append(_stop(left, front.y - front.h / 2, 4.5, "stop before it starts (t)"))
    return "".join([*out, "</g>"])


def _stop(x: float, y: float, r: float, words: str) -> str:
    """The place of a breakpoint; its right half is filled if it has a condition."""
    half = f"M0-{num(r)}A{num(r)} {num(r)} 0 0 1 0 {num(r)}Z"
    return (
        f'<g class="fl-bp" transform="translate({num(x)} {num(y)})"><title>{words}</title><circle class="hit" r="10"/>'
        f'<circle class="dot" r="{num(r)}"/><path class="half" d="{half}"/></g>'
    )


# ---- twin -------------------------------------------------------------------------------------------------------


def twin_svg(graph: Graph, layout: Layout | None, nodes: Sequence[State], edges: Sequence[int]) -> str:
    """The graph with its last state for the saved file, at most `TWIN_BYTES` long.

    Args:
        graph: What was run.
        layout: Its coordinates; None draws a list of steps.
        nodes: `[state, sub, bar]` of each node, in the order of the graph.
        edges: How often each edge was taken, in the order of the graph.

    Returns:
        Above 30 nodes, or where the whole would be too long: the neighbourhood of the failed, waiting and active steps,
        and below it how many more steps there are, by state.
    """
    if layout is not None and len(graph.nodes) <= _TWIN_NODES:
        whole = _twin(graph, layout, nodes, edges, note="")
        if len(whole.encode()) <= TWIN_BYTES:
            return whole
    keep = _TWIN_NODES if layout is not None else 0
    while keep >= 4:
        keep = int(keep * 0.8)
        part = neighbourhood(graph, [str(state[0]) for state in nodes], keep)
        small = lay_out(part.graph)
        if small is None:
            break
        left_out = Counter(WORDS[str(state[0])] for i, state in enumerate(nodes) if i not in part.nodes)
        text = _twin(
            part.graph,
            small,
            [nodes[i] for i in part.nodes],
            [edges[k] for k in part.edges],
            note=_more(left_out),
        )
        if len(text.encode()) <= TWIN_BYTES:
            return text
    return _twin_list(graph, nodes)


def _more(left_out: Counter[str]) -> str:
    total = sum(left_out.values())
    if not total:
        return ""
    return f"and {total:,} more: " + ", ".join(f"{n:,} {word}" for word, n in left_out.most_common())


def card(width: float, height: float, body: Sequence[str], *, margin: int = 12) -> str:
    w, h = num(width + 2 * margin), num(height + 2 * margin)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{-margin} {-margin} {w} {h}" width="{w}" height="{h}" '
        f'font-family="Helvetica,Arial,sans-serif" font-size="12.5" fill="#1a1a1a">'
        f'<rect x="{-margin + 0.5}" y="{-margin + 0.5}" width="{num(width + 2 * margin - 1)}" '
        f'height="{num(height + 2 * margin - 1)}" rx="8" fill="#fff" stroke="#dcdfe4"/>{"".join(body)}</svg>'
    )


def _twin(graph: Graph, layout: Layout, nodes: Sequence[State], edges: Sequence[int], note: str) -> str:
    out: list[str] = []
    for c in layout.clusters:
        out.append(
            f'<rect x="{num(c.x0)}" y="{num(c.y0)}" width="{num(c.x1 - c.x0)}" height="{num(c.y1 - c.y0)}" rx="10" '
            f'fill="#f7f8fa" stroke="#ccc"/><text x="{num(c.x0 + 10)}" y="{num(c.y0 + 15)}" font-size="10.5" '
            f'fill="#555">{xml(shorten(c.label))}</text>'
        )
    labels: list[str] = []
    for taken, colour in ((False, "#8a8a8a"), (True, "#3d444d")):
        lines: list[str] = []
        for k, (edge, route) in enumerate(zip(graph.edges, layout.edges, strict=True)):
            count = edges[k] if k < len(edges) else 0
            if (count > 0) != taken:
                continue
            dash = {"undeclared": ' stroke-dasharray="1.5 3"', "answer": ' stroke-dasharray="5 3"'}.get(edge.kind, "")
            lines.append(f'<path d="{route.d}" fill="none"{dash}/><path d="{arrow_head(route)}" stroke="none"/>')
            if route.label:
                x, times = route.label[0] - edge_label_width(edge) / 2 + 6, f" ×{count}" if count > 1 else ""
                label = xml(shorten(edge.label, EDGE_CHARS))
                labels.append(f'<text x="{num(x)}" y="{num(route.label[1] + 3.5)}">{label}{times}</text>')
        if lines:
            out.append(f'<g stroke="{colour}" fill="{colour}">{"".join(lines)}</g>')
    if labels:
        out.append(f'<g font-size="10.5" fill="#4a4a4a">{"".join(labels)}</g>')
    for node, box, state in zip(graph.nodes, layout.nodes, nodes, strict=True):
        out.append(_twin_node(node, box, state))
    height, width = layout.height, layout.width
    if note:
        height += 26
        width = max(width, len(note) * 7.0)
        out.append(f'<text x="0" y="{num(height - 6)}" fill="#57606a">{xml(note)}</text>')
    return card(width, height, out)


def glyph_at(state: str, x: float, y: float, size: float = 1.0) -> str:
    """The glyph of a state round a point; 12 px wide at size 1."""
    colour = LOOK[state][1]
    stroked, filled = GLYPHS[state]
    marks = (f'<path d="{stroked}" fill="none" stroke="{colour}" stroke-width="1.7"/>' if stroked else "") + (
        f'<path d="{filled}" fill="{colour}"/>' if filled else ""
    )
    scale = f" scale({size:g})" if size != 1 else ""
    return f'<g transform="translate({num(x)} {num(y)}){scale}">{marks}</g>'


def _twin_node(node: Node, box: Box, state: State) -> str:
    name, sub, bar = str(state[0]), str(state[1]) or node.runs, state[2] if len(state) > 2 else None
    fill, stroke, width, dash = LOOK[name]
    front = front_of(node, box)
    out: list[str] = []
    if node.shape == "fan":
        out += [f'<path d="{outline("step", c)}" fill="{fill}" stroke="{stroke}"/>' for c in copies_of(box)]
    d = cut_outline(front) if name == "failed" else outline(node.shape, front)
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    out.append(f'<path d="{d}" fill="{fill}" stroke="{stroke}" stroke-width="{width:g}"{dashes}/>')
    if name == "person":
        out.append(f'<path d="{outline(node.shape, front, 3)}" fill="none" stroke="{stroke}"/>')
    glyph_x, text_x, y = text_at(node, front)
    stadium = node.shape in ("start", "stop")
    two = bool(sub) and not stadium
    struck = ' text-decoration="line-through"' if name == "skipped" else ""
    out.append(glyph_at(name, glyph_x, y))
    out.append(
        f'<text x="{num(text_x)}" y="{num(y - 2 if two else y + 4.5)}" font-weight="600"{struck}>'
        f"{xml(shorten(node.label))}</text>"
    )
    if two:
        room = max(8, int((front.x + front.w / 2 - text_x - 6) / 5.7))
        out.append(f'<text x="{num(text_x)}" y="{num(y + 12)}" font-size="10.5">{xml(shorten(sub, room))}</text>')
    if bar and node.shape == "fan":
        out.append(_twin_bar(front, stroke, bar))
    return "".join(out)


def _twin_bar(front: Box, stroke: str, bar: Sequence[int]) -> str:
    done, running, queued, failed = bar
    total = done + running + queued + failed
    if total <= 0:
        return ""
    x, width = front.x - front.w / 2 + 8, front.w - 16
    y = num(front.y + front.h / 2 - 7)
    out: list[str] = []
    for kind, count in (("done", done), ("failed", failed), ("running", running), ("queued", queued)):
        if count:
            part = width * count / total
            out.append(f'<rect x="{num(x)}" y="{y}" width="{num(part)}" height="3.5" fill="{_BAR_COLOURS[kind]}"/>')
            x += part
    return f'<g stroke="{stroke}" stroke-width=".5">{"".join(out)}</g>'


def _twin_list(graph: Graph, nodes: Sequence[State]) -> str:
    """Without coordinates: the steps as lines, the urgent ones first, at most 24 of them."""
    urgent = ("failed", "person", "retrying", "running", "waiting", "queued", "done", "skipped", "idle")
    order = sorted(range(len(nodes)), key=lambda i: (urgent.index(str(nodes[i][0])), i))
    out: list[str] = []
    for row, i in enumerate(order[:24]):
        state, sub = str(nodes[i][0]), str(nodes[i][1])
        words = shorten(sub, 30) or WORDS[state]
        out.append(
            f'{glyph_at(state, 8, row * 22 + 11)}<text x="24" y="{row * 22 + 15}" font-weight="600">'
            f"{xml(shorten(graph.nodes[i].label))}</text>"
            f'<text x="220" y="{row * 22 + 15}" fill="#4a4a4a">{xml(words)}</text>'
        )
    rows = min(len(order), 24)
    if more := _more(Counter(WORDS[str(nodes[i][0])] for i in order[24:])):
        out.append(f'<text x="0" y="{rows * 22 + 18}" fill="#57606a">{xml(more)}</text>')
        rows += 1
    return card(420, max(rows, 1) * 22 + 4, out)
