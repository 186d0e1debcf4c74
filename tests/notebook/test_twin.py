"""The static twin: words and HTML of the last state, for wherever no kernel lives."""

import base64
import re
from html import unescape
from html.parser import HTMLParser
from typing import Any

import pytest

from flownb.core import ticks as t
from flownb.core.reduce import begin, reduce
from flownb.core.spec import Spec
from flownb.core.values import Failure
from flownb.notebook.layout import lay_out
from flownb.notebook.twin import Twin, twin_class
from flownb.notebook.viewmodel import Projection
from flownb.testing.feed import out, says, spec, started, step
from tests.notebook.graphs import HOSTILE

PLAIN = spec(step("load", "Start", "Row"), step("score", "Row", "Stop"))


def twin_of(flow: Spec, *, run_id: str = "run", message: str = "", answers: list[str] | None = None) -> Twin:
    """A run whose first step failed with a message, or finished without one; the rest was not reached."""
    first = started(flow, at=100.0, run_id=run_id)
    state, commands = begin(first)
    shown = Projection(state)
    shown.apply(None, first, state, commands)
    name = flow.steps[0].name
    tick: Any = (
        says(state, name, t.StepFailed, failure=Failure("builtins:ValueError", message))
        if message
        else says(state, name, t.StepFinished, outs=(out("Row", 1),))
    )
    after, commands = reduce(state, tick)
    shown.apply(state, tick, after, commands)
    return Twin(shown, after, after.status, lay_out(shown.graph), answers or [])


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def picture_of(html: str) -> str:
    found = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', html)
    assert found is not None
    return base64.b64decode(found[1]).decode()


def test_the_words_say_run_status_and_steps():
    assert twin_of(PLAIN).words() == "run run of flow: running at tick 2; running: score; done: start, load"


def test_the_words_name_the_error():
    said = twin_of(PLAIN, message="no such file").words()
    assert said.startswith("run run of flow: failed at tick 2; failed: load;")
    assert said.endswith("ValueError: no such file")


def test_plain_text_and_the_picture_have_the_same_words():
    twin = twin_of(PLAIN)
    bundle = twin._repr_mimebundle_()
    assert sorted(bundle) == ["text/html", "text/plain"]
    alt = re.search(r'alt="([^"]*)"', bundle["text/html"])
    assert alt is not None
    assert unescape(alt[1]) == bundle["text/plain"] == twin.words()
    assert "load" in picture_of(bundle["text/html"])


def test_it_lists_the_last_ticks_and_who_answered():
    html = twin_of(PLAIN, answers=["review: keep, by ann, 12:00:03"]).html()
    assert "<td>2</td><td>load finished</td><td>Row</td>" in html
    assert "<li>review: keep, by ann, 12:00:03</li>" in html
    assert "at tick 2 · last state, taken " in html


def test_hostile_names_messages_and_answers_stay_text():
    """Nothing of a user's makes an element or an attribute."""
    tame = Tags()
    tame.feed(twin_of(PLAIN, message="m", answers=["a"]).html())
    for name in HOSTILE:
        flow = spec(step(name or "empty", "Start", "Stop"))
        twin = twin_of(flow, message=f"{name}!", answers=[name])
        wild = Tags()
        wild.feed(twin.html())
        assert (wild.tags, wild.attributes) == (tame.tags, tame.attributes), name
        assert "<script" not in twin.html()
        twin.words().encode("utf-8", "replace")


@pytest.mark.parametrize("nodes", [10, 30, 100, 400])
def test_it_is_at_most_thirty_kilobytes(nodes: int):
    """However many steps there are, however long names, messages and answers."""
    names = [f"a_step_with_a_long_name_{i}" for i in range(nodes)]
    steps = [step(name, "Start" if i == 0 else f"E{i}", f"E{i + 1}") for i, name in enumerate(names)]
    for message in ("", "<" * 100_000):
        html = twin_of(spec(*steps), message=message, answers=["<&>" * 1_000] * 50).html()
        assert len(html.encode()) <= 30_000
        assert "<img alt=" in html


def test_the_class_finds_the_twin_of_any_run_id():
    """A hash: an id may hold what CSS does not like; the live view gets the same."""
    assert re.fullmatch(r"[0-9a-f]{12}", twin_class("a.b c'\""))
    assert twin_class("one") != twin_class("two")
    assert f'class="flownb-twin-{twin_class("night.1")} ' in twin_of(PLAIN, run_id="night.1").html()
