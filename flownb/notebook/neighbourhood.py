"""The part of a large graph that a reader of a saved notebook looks for: round the steps that failed, wait or run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from flownb.core.graph import Graph

__all__ = ["Part", "neighbourhood"]

_URGENT = ("failed", "person", "retrying", "running", "waiting", "queued")


@dataclass(frozen=True, slots=True)
class Part:
    """Some nodes of a graph, as a graph of their own."""

    graph: Graph
    #: Indices in the whole graph, ascending; the part's nodes and edges have this order.
    nodes: tuple[int, ...]
    edges: tuple[int, ...]


def neighbourhood(graph: Graph, states: Sequence[str], limit: int) -> Part:
    """At most `limit` nodes of `graph`: the urgent ones, most urgent first, then their neighbours, ring by ring.

    Where nothing is urgent the ring grows round the last node (the stop) if it was reached, else round the first.

    Args:
        graph: The whole.
        states: State of each node, in the order of the graph.
        limit: Most nodes to keep, at least 1.
    """
    near: list[list[int]] = [[] for _ in graph.nodes]
    for edge in graph.edges:
        near[edge.source].append(edge.target)
        near[edge.target].append(edge.source)
    ring = [i for state in _URGENT for i, found in enumerate(states) if found == state]
    if not ring and graph.nodes:
        ring = [len(graph.nodes) - 1 if states[-1] == "done" else 0]
    kept: dict[int, None] = {}
    while ring and len(kept) < limit:
        for i in ring[: limit - len(kept)]:
            kept[i] = None
        ring = list(dict.fromkeys(j for i in ring for j in near[i] if j not in kept))
    nodes = tuple(sorted(kept))
    place = {i: k for k, i in enumerate(nodes)}
    edges = tuple(k for k, e in enumerate(graph.edges) if e.source in place and e.target in place)
    part = Graph(
        name=graph.name,
        nodes=tuple(graph.nodes[i] for i in nodes),
        edges=tuple(
            replace(e, source=place[e.source], target=place[e.target]) for e in (graph.edges[k] for k in edges)
        ),
        hash=graph.hash,
    )
    return Part(part, nodes, edges)
