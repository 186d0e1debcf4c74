"""Graphs that several tests of the notebook's drawing use."""

from flownb.core.graph import Edge, Graph, Node

#: Names that break naive writers of SVG, DOT, Mermaid and HTML.
HOSTILE = (
    "</script><img src=x onerror=alert(1)>",
    "a\"b'c\\",
    "\\N\\G\\\\",
    "first\nsecond\r\n# third",
    'x];n0->n1[label="forged"];',
    "]]><svg onload=alert(1)>",
    "pipe|semi;hash#lt;amp&amp;&lt;",
    "\u202eלום 🎉\u2066",
    "bell\x07nul\x00esc\x1b lone\ud800",
    "end\n  n0 --> n1",
    "-->|forged| n1",
    "<b>html</b>",
    "",
    "   ",
    "x" * 500,
)


def chain(steps: int, *, name: str = "chain") -> Graph:
    """start -> step_0 -> ... -> stop, every seventh step a fan."""
    nodes = [Node("start", "start", "start")]
    nodes += [Node(f"step_{i}", f"step_{i}", "fan" if i % 7 == 3 else "step") for i in range(steps)]
    nodes.append(Node("stop", "stop", "stop"))
    edges = [Edge(i, i + 1, f"Event{i}") for i in range(steps + 1)]
    return Graph(name, tuple(nodes), tuple(edges), f"{name}-{steps}")


def parallel(steps: int) -> Graph:
    """start -> each of many steps -> stop: three ranks, many beside each other."""
    nodes = [Node("start", "start", "start"), *(Node(f"s{i}", f"source_{i}", "step") for i in range(steps))]
    nodes.append(Node("stop", "stop", "stop"))
    edges = [Edge(0, i + 1, "Start") for i in range(steps)] + [Edge(i + 1, steps + 1, "Stop") for i in range(steps)]
    return Graph("parallel", tuple(nodes), tuple(edges), f"parallel-{steps}")


def loop() -> Graph:
    """All shapes and kinds of edges, a loop and a group."""
    nodes = (
        Node("start", "start", "start"),
        Node("load", "load", "step"),
        Node("score", "score", "fan"),
        Node("check", "check", "step", "quality"),
        Node("review", "review", "person", "quality"),
        Node("stop", "stop", "stop"),
    )
    edges = (
        Edge(0, 1, "Start"),
        Edge(1, 2, "Rows"),
        Edge(2, 3, "Scored"),
        Edge(3, 4, "Report"),
        Edge(4, 1, "Revise", "answer"),
        Edge(4, 5, "Stop", "answer"),
        Edge(3, 5, "Stop", "undeclared"),
        Edge(2, 2, "Again"),
    )
    return Graph("loop", nodes, edges, "loop")


def hostile() -> Graph:
    """Every node, edge, group and the graph itself has a hostile name."""
    inner = [Node(f"s{i}", name, "step", name if i % 2 else "") for i, name in enumerate(HOSTILE)]
    nodes = (Node("start", HOSTILE[0], "start"), *inner, Node("stop", HOSTILE[1], "stop"))
    edges = tuple(Edge(i, i + 1, HOSTILE[i % len(HOSTILE)]) for i in range(len(nodes) - 1))
    return Graph(HOSTILE[0], nodes, edges, "hostile")
