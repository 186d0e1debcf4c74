"""The drawing's view of a spec: nodes and edges, nothing of layout."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from flownb.core.spec import Spec, TypeSpec, takers
from flownb.core.values import Out

Shape = Literal["start", "stop", "step", "person", "fan"]


class Node(Struct, frozen=True, gc=False):
    #: The step's name; "start" and "stop" stand at both ends, whatever steps are called.
    id: str
    label: str
    shape: Shape
    group: str = ""
    #: What it runs as children, in words; "" for nothing.
    runs: str = ""


class Edge(Struct, frozen=True, gc=False):
    #: Indices into `Graph.nodes`.
    source: int
    target: int
    #: Short name of the event type.
    label: str
    kind: Literal["declared", "undeclared", "answer"] = "declared"
    #: Key of the event type that goes along it.
    key: str = ""


class Graph(Struct, frozen=True, gc=False):
    """`nodes[0]` is the start, the last one the stop, between them the steps as they were defined."""

    name: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    hash: str = ""


def graph_of(spec: Spec) -> Graph:
    """The graph that a workflow's hints declare."""
    types = {t.key: t for t in spec.types}
    fanned = {
        i
        for step, targets in zip(spec.steps, spec.joins, strict=True)
        if targets
        for key in step.fans
        for i in spec.routes.get(key, ())
    }
    nodes = [Node("start", "start", "start")]
    for i, step in enumerate(spec.steps):
        shape: Shape = "person" if step.asks else "fan" if i in fanned else "step"
        runs = f"runs {', '.join(map(short, step.runs))}" if step.runs else ""
        nodes.append(Node(step.name, step.name, shape, runs=runs))
    nodes.append(Node("stop", "stop", "stop"))
    edges = [Edge(0, i + 1, short(spec.start), key=spec.start) for i in spec.routes.get(spec.start, ())]
    for key in spec.outside:
        edges += [Edge(0, i + 1, short(key), key=key) for i in _targets(spec, types[key])]
    for i, step in enumerate(spec.steps):
        for key in (*step.returns, *(k for k in step.fans if k not in step.returns)):
            edges += _edges(spec, types, i, key)
    return Graph(spec.name, tuple(nodes), tuple(dict.fromkeys(edges)), spec.hash)


def undeclared(spec: Spec, step: int, out: Out, target: str | None = None) -> tuple[Edge, ...]:
    """The edges of an event that a step sent though no hint of it says so (R2.19).

    Args:
        spec: The definition.
        step: Index of the step.
        out: The event.
        target: The one step that it was sent to, if it was.
    """
    if out.role == "stop":
        targets = {len(spec.steps)}
    else:
        args = out.key, out.role, out.bases
        targets = {*takers(spec, *args), *takers(spec, *args, gathering=True)}
        if target is not None:
            targets &= {spec.index.get(target, -1)}
    return tuple(Edge(step + 1, i + 1, short(out.key), "undeclared", out.key) for i in sorted(targets))


def short(key: str) -> str:
    """The class name in a key."""
    return key.rpartition(":")[2].rpartition(".")[2]


def _targets(spec: Spec, event: TypeSpec) -> list[int]:
    args = event.key, event.role, event.bases
    return sorted({*takers(spec, *args), *takers(spec, *args, gathering=True)})


def _edges(spec: Spec, types: dict[str, TypeSpec], source: int, key: str) -> list[Edge]:
    event = types[key]
    if event.role == "stop":
        return [Edge(source + 1, len(spec.steps) + 1, short(key), key=key)]
    edges = [Edge(source + 1, i + 1, short(key), key=key) for i in _targets(spec, event)]
    if event.answer and event.answer in types:
        edges += [
            Edge(source + 1, i + 1, short(event.answer), "answer", event.answer)
            for i in _targets(spec, types[event.answer])
        ]
    return edges
