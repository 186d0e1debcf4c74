"""The graph as text for other tools: DOT and Mermaid.

Names are hostile text. Node ids are `n0`, `n1` ... in the order of the graph; a name is only ever a quoted label, with
every character that means something to the target language written as an entity, so no name can end its quotes and
forge a node or an edge.
"""

from __future__ import annotations

from flownb.core.graph import Edge, Graph, Node

__all__ = ["to_dot", "to_mermaid"]

_DOT_NODE = {
    "start": "shape=box, style=rounded",
    "stop": "shape=box, style=rounded",
    "step": "shape=box",
    "person": "shape=hexagon",
    "fan": "shape=box3d",
}
_DOT_EDGE = {"declared": "", "undeclared": ", style=dotted", "answer": ", style=dashed"}


def to_dot(graph: Graph) -> str:
    """`graph` in Graphviz's DOT language, with its names as quoted labels."""
    lines = ["digraph {", "  node [fontname=Helvetica, fontsize=12];", "  edge [fontname=Helvetica, fontsize=10];"]
    lines.insert(1, f"  label={_dot_label(graph.name)};")
    groups: dict[str, list[str]] = {}
    for i, node in enumerate(graph.nodes):
        label = _dot_label(f"{node.label}\n{node.runs}" if node.runs else node.label)
        groups.setdefault(node.group, []).append(f"n{i} [label={label}, {_DOT_NODE[node.shape]}];")
    lines += [f"  {line}" for line in groups.pop("", [])]
    for k, (name, members) in enumerate(groups.items()):
        lines.append(f"  subgraph cluster_{k} {{ label={_dot_label(name)}; {' '.join(members)} }}")
    for edge in graph.edges:
        lines.append(f"  n{edge.source} -> n{edge.target} [label={_dot_label(edge.label)}{_DOT_EDGE[edge.kind]}];")
    return "\n".join([*lines, "}", ""])


def _dot_label(text: str) -> str:
    """`text` as a quoted DOT label.

    A backslash starts an escape (`\\N` would be the node's id) and `&` an entity, so both are doubled or spelt out;
    control characters, which some of Graphviz's writers pass on into invalid XML, become spaces.
    """
    lines = "".join(c if c.isprintable() or c in "\n\u200d" else " " for c in text.replace("\r\n", "\n")).split("\n")
    quoted = [line.replace("\\", "\\\\").replace("&", "&amp;").replace('"', '\\"') for line in lines]
    return '"' + "\\n".join(quoted) + '"'


_MERMAID_NODE: dict[str, tuple[str, str]] = {
    "start": ("([", "])"),
    "stop": ("([", "])"),
    "step": ("[", "]"),
    "person": ("{{", "}}"),
    "fan": ("[[", "]]"),
}
_MERMAID_EDGE = {"declared": "-->", "undeclared": "-.->", "answer": "-.->"}


def to_mermaid(graph: Graph) -> str:
    """`graph` as a Mermaid flowchart, with its names as quoted labels."""
    lines = ["flowchart TB"]
    lines += [f"  {_mermaid_node(i, node)}" for i, node in enumerate(graph.nodes)]
    lines += [f"  {_mermaid_edge(edge)}" for edge in graph.edges]
    return "\n".join([*lines, ""])


def _mermaid_node(index: int, node: Node) -> str:
    left, right = _MERMAID_NODE[node.shape]
    runs = f"<br/>{_mermaid_text(node.runs)}" if node.runs else ""
    return f'n{index}{left}"{_mermaid_text(node.label)}{runs}"{right}'


def _mermaid_edge(edge: Edge) -> str:
    label = f'|"{_mermaid_text(edge.label)}"|' if edge.label.strip() else ""
    return f"n{edge.source} {_MERMAID_EDGE[edge.kind]}{label} n{edge.target}"


def _mermaid_text(text: str) -> str:
    """`text` with every character but letters, digits, blanks and `_` written as `#code;`.

    Mermaid reads entities before it parses and uses `ﬂ`, `°`, `¶` and `ß` as its own marks while it does, so these four
    are written as codes too. A label must not be empty.
    """
    safe = "".join(c if (c.isalnum() and c not in "ﬂß") or c in " _" else f"#{ord(c)};" for c in _printable(text))
    return safe or " "


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() or c == "\u200d" else " " for c in text).strip()
