"""RunView outside a browser: its traits, and a keyword that is no trait."""

import pytest

from flownb.notebook import assets
from flownb.notebook.widget import RunView


def test_a_view_begins_empty_and_open() -> None:
    """An unset graph must not crash the page, so Python need not wait for it."""
    view = RunView()
    assert (view.graph, view.live, view.compact) == ({}, {}, False)
    view.close()


def test_the_three_traits_and_the_assets_go_to_the_page() -> None:
    """All else goes as messages."""
    view = RunView(graph={"name": "triage"}, live={"seq": 1}, compact=True)
    state = view.get_state()
    assert {k: state[k] for k in ("graph", "live", "compact")} == {
        "graph": {"name": "triage"},
        "live": {"seq": 1},
        "compact": True,
    }
    assert state["_esm"] == assets.script()
    assert state["_css"] == assets.style()
    view.close()


def test_a_misspelt_keyword_raises_and_names_the_near_miss() -> None:
    """traitlets would warn and lose the value."""
    with pytest.raises(TypeError, match=r"RunView has no trait 'grpah'. Did you mean 'graph'\?"):
        RunView(grpah={})


def test_a_keyword_like_no_trait_raises_and_names_the_traits() -> None:
    """So that a reader can go on."""
    with pytest.raises(TypeError, match=r"It takes compact, .*graph, .*live"):
        RunView(zzzzzz=1)
