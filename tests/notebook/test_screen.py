"""What the panels of a run share: the live state, and catching up with what happened."""

import gc
import weakref
from typing import Any

import pytest
from msgspec.structs import replace

from flownb.notebook import layout as layout_module
from flownb.notebook import screen as screen_module
from flownb.notebook.layout import lay_out
from flownb.notebook.screen import Screen
from tests.notebook.graphs import chain
from tests.notebook.panels import Count, Hangs, Review, on_engine
from tests.polling import wait_for_questions, wait_until


def test_a_screen_made_late_shows_the_same_as_one_from_the_beginning():
    run = Count().with_options(host="thread").debug(n=3)
    early = Screen(run).wait()
    run.cont()
    run.result(timeout=10)
    late = Screen(run).wait()
    assert late.projection.rows == early.projection.rows
    assert late.projection.nodes == early.projection.nodes
    assert late.projection.effects == early.projection.effects


def test_the_live_state_says_what_fails_and_why():
    run = Hangs().with_options(host="thread").run()
    made = Screen(run).wait()
    live = on_engine(run, lambda: made.live(made.asked()))
    assert (live["status"], live["counting"], live["error"]) == ("running", True, None)
    assert live["queue"] == [["running", "hang · Begin"]]
    run.cancel("enough")
    wait_until(run.is_done)
    live = on_engine(run, lambda: made.live(made.asked()))
    assert (live["status"], live["counting"], live["ended"]) == ("cancelled", False, True)


def test_of_many_questions_the_oldest_are_listed_and_all_are_counted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(screen_module, "SHOWN_QUESTIONS", 5)
    run = Review().with_options(host="thread").run(n=8)
    wait_for_questions(run, 8)
    made = Screen(run).wait()
    live = on_engine(run, lambda: made.live(made.asked(), {f"{run.run_id}:2"}))
    assert [q["id"] for q in live["questions"]] == [f"{run.run_id}:{n}" for n in range(1, 6)]
    assert [q["place"] for q in live["questions"]] == [1, 2, 3, 4, 5]
    assert [q["open"] for q in live["questions"]] == [False, True, False, False, False]
    assert live["needs"] == 8
    run.cancel()


def test_after_a_failed_layout_the_next_panel_asks_again(monkeypatch: pytest.MonkeyPatch):
    """One slow start must not leave a run without its drawing for ever."""
    asked: list[Any] = []
    real = screen_module.lay_out
    monkeypatch.setattr(
        screen_module, "lay_out", lambda graph: asked.append(graph) or (real(graph) if len(asked) > 1 else None)
    )
    run = Hangs().with_options(host="thread").run()
    made = Screen(run).wait()
    made.want_layout()
    wait_until(lambda: len(asked) == 1 and not made._asked_layout)
    assert made.graph()["svg"] == ""
    made.want_layout()
    wait_until(lambda: made.layout is not None)
    assert made.graph()["svg"].startswith("<svg")
    run.cancel()


def test_a_layout_that_took_too_long_is_tried_again(monkeypatch: pytest.MonkeyPatch):
    """The cache is the process's: one slow start of the engine is not its last word."""
    answers: list[Any] = [None, None]
    real = layout_module.render_json
    monkeypatch.setattr(layout_module, "render_json", lambda *a, **k: answers.pop() if answers else real(*a, **k))
    graph = replace(chain(3), name="tried again")
    assert lay_out(graph) is None
    found = lay_out(graph)
    assert found is not None
    assert lay_out(graph) is found


def test_the_facts_of_a_twin_change_when_it_would():
    run = Hangs().with_options(host="thread").run()
    made = Screen(run).wait()
    wait_until(lambda: run.now.seq == 1)
    before = on_engine(run, made.twin_facts)
    assert on_engine(run, made.twin_facts) == before
    run.cancel()
    wait_until(run.is_done)
    assert on_engine(run, made.twin_facts) != before


def test_a_screen_does_not_keep_a_finished_run():
    def refs() -> list["weakref.ref[Any]"]:
        run = Count().with_options(host="thread").run(n=2)
        made = Screen(run)
        run.result(timeout=10)
        on_engine(run)
        return [weakref.ref(run), weakref.ref(run._runner), weakref.ref(made)]

    held = refs()

    def are_free() -> bool:
        gc.collect()
        return all(ref() is None for ref in held)

    wait_until(are_free, 10)
