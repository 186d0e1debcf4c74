"""The drawing: well-formed whatever the names, without ids, and a twin that stays small."""

import xml.etree.ElementTree as ET

import pytest

from flownb.core.graph import Graph
from flownb.notebook.layout import lay_out
from flownb.notebook.neighbourhood import neighbourhood
from flownb.notebook.svg import GLYPHS, STATES, TWIN_BYTES, live_svg, twin_svg

from .graphs import HOSTILE, chain, hostile, loop, parallel

SVG = "{http://www.w3.org/2000/svg}"
GRAPHS = [chain(0), chain(12), loop(), parallel(8), hostile()]


def live(graph: Graph) -> str:
    layout = lay_out(graph)
    assert layout is not None
    return live_svg(graph, layout)


def twin(graph: Graph, nodes: list[list[object]], *, with_layout: bool = True) -> str:
    layout = lay_out(graph) if with_layout else None
    assert layout is not None or not with_layout
    return twin_svg(graph, layout, nodes, [1] * len(graph.edges))


def states(graph: Graph, state: str = "idle") -> list[list[object]]:
    return [[state, "", None] for _ in graph.nodes]


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda g: g.hash)
def test_the_live_drawing_has_each_node_and_edge_by_index_and_no_id(graph: Graph) -> None:
    """Several views share a page, so there is nothing that two of them could both be called."""
    root = ET.fromstring(live(graph))
    nodes = [el.get("data-n") for el in root.iter() if el.get("data-n") is not None]
    edges = [el.get("data-e") for el in root.iter() if el.get("data-e") is not None]
    assert nodes == [str(i) for i in range(len(graph.nodes))]
    assert edges == [str(i) for i in range(len(graph.edges))]
    assert not [el for el in root.iter() if el.get("id") is not None]
    allowed = {"svg", "g", "path", "rect", "circle", "text", "tspan", "title"}
    assert {el.tag.removeprefix(SVG) for el in root.iter()} <= allowed


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_text_in_both_drawings(name: str) -> None:
    """No name becomes an element or an attribute, and none makes the drawing ill-formed."""
    graph = hostile()
    for text in (live(graph), twin(graph, [["failed", name, None] for _ in graph.nodes])):
        root = ET.fromstring(text)
        tags = {el.tag.removeprefix(SVG) for el in root.iter()}
        assert not tags & {"img", "script", "svg onload", "b"}
        assert not [key for el in root.iter() for key in el.attrib if key.startswith("on")]


def test_the_whole_name_is_in_the_tooltip() -> None:
    """A shortened name can be read by whoever asks."""
    root = ET.fromstring(live(hostile()))
    titles = [el.text for el in root.iter(f"{SVG}title")]
    assert "x" * 500 in titles


def test_a_node_has_what_the_view_fills() -> None:
    """Glyph, sub text with its room, and the track of a fan's bar."""
    root = ET.fromstring(live(loop()))
    fan = next(el for el in root.iter() if "fl-fan" in el.get("class", "").split())
    classes = [el.get("class") for el in fan.iter()]
    assert {"stack", "shape", "cut", "inner", "glyph", "gs", "gf", "name", "sub", "fl-track"} <= set(classes)
    sub = next(el for el in fan.iter() if el.get("class") == "sub")
    assert int(sub.get("data-room", "0")) >= 8
    kinds = [el.get("class") for el in root.iter() if "fl-edge" in el.get("class", "").split()]
    assert kinds.count("fl-edge e-answer") == 2
    assert kinds.count("fl-edge e-undeclared") == 1


@pytest.mark.parametrize("state", STATES)
def test_the_twin_draws_every_state_without_any_style_sheet(state: str) -> None:
    """Presentation attributes alone, so it is the same in an `<img>` and in a page with any style."""
    text = twin(loop(), states(loop(), state))
    root = ET.fromstring(text)
    assert not [el for el in root.iter() if el.get("class") or el.get("style") or el.get("id")]
    drawn = {el.get("d") for el in root.iter(f"{SVG}path")}
    assert {d for d in GLYPHS[state] if d} <= drawn


def test_the_twin_says_what_each_step_did() -> None:
    """Labels, sub texts and counts are words in the drawing."""
    graph = loop()
    nodes = states(graph)
    nodes[2] = ["running", "3 of 8", [3, 2, 2, 1]]
    text = twin_svg(graph, lay_out(graph), nodes, [1, 2, 0, 0, 0, 0, 0, 0])
    words = ["".join(el.itertext()) for el in ET.fromstring(text).iter(f"{SVG}text")]
    assert {"score", "3 of 8", "Rows ×2", "quality"} <= set(words)
    assert len(list(ET.fromstring(text).iter(f"{SVG}rect"))) == 1 + 1 + 4  # card, group, the bar's segments


@pytest.mark.parametrize("steps", [29, 40, 100, 400])
def test_the_twin_of_a_large_graph_shows_what_is_urgent_and_counts_the_rest(steps: int) -> None:
    """A notebook with a run of any size stays small."""
    graph = chain(steps)
    nodes = states(graph, "done")
    nodes[steps // 2] = ["failed", "KeyError", None]
    text = twin(graph, nodes)
    words = ["".join(el.itertext()) for el in ET.fromstring(text).iter(f"{SVG}text")]
    assert len(text.encode()) <= TWIN_BYTES
    assert f"step_{steps // 2 - 1}" in words
    assert "KeyError" in words
    assert any(word.startswith("and ") and word.endswith(" done") for word in words) == (steps > 28)


def test_a_small_graph_with_long_names_stays_small_too() -> None:
    """The limit is on bytes, not on nodes only."""
    graph = hostile()
    assert len(twin(graph, [["waiting", "x" * 1000, None] for _ in graph.nodes]).encode()) <= TWIN_BYTES


@pytest.mark.parametrize("steps", [0, 5, 100])
def test_without_a_layout_the_twin_is_a_list(steps: int) -> None:
    """The failed step comes first, the rest is counted."""
    graph = chain(steps)
    nodes = states(graph)
    nodes[-1] = ["failed", "KeyError", None]
    text = twin(graph, nodes, with_layout=False)
    words = ["".join(el.itertext()) for el in ET.fromstring(text).iter(f"{SVG}text")]
    assert words[:2] == ["stop", "KeyError"]
    assert len(text.encode()) <= TWIN_BYTES
    assert (words[-1] == "and 78 more: 78 not reached") == (steps == 100)


def test_the_neighbourhood_grows_round_the_urgent_nodes_ring_by_ring() -> None:
    """Most urgent first, at most as many as asked for, as a graph of its own."""
    graph = chain(20)
    shown = ["done"] * 22
    shown[10], shown[3] = "failed", "queued"
    part = neighbourhood(graph, shown, 6)
    assert part.nodes == (2, 3, 4, 9, 10, 11)
    assert [graph.edges[k].label for k in part.edges] == [e.label for e in part.graph.edges]
    assert [(e.source, e.target) for e in part.graph.edges] == [(0, 1), (1, 2), (3, 4), (4, 5)]


def test_the_neighbourhood_of_nothing_urgent_is_where_the_run_is() -> None:
    """At the stop when it is reached, else at the start."""
    graph = chain(20)
    assert neighbourhood(graph, ["done"] * 22, 3).nodes == (19, 20, 21)
    assert neighbourhood(graph, ["idle"] * 22, 3).nodes == (0, 1, 2)
