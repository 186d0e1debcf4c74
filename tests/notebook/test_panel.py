"""The panel without a browser: what a view sends up, and what comes down."""

import asyncio
import gc
import time
import weakref
from collections.abc import Callable
from typing import Any

import ipywidgets
import pytest

from flownb import StopEvent, Workflow
from flownb.notebook import panel as panel_module
from flownb.notebook.panel import RunPanel
from tests.notebook.panels import Begin, Count, Hangs, Page, Review, Talks, YesNo, choose, forms_of, on_engine, panel_of
from tests.polling import wait_for_questions, wait_until


def ended(flow: Workflow, **fields: Any) -> Any:
    run = flow.run(**fields)
    run.result(timeout=20)
    return run


def asking(n: int) -> Any:
    """A run that has asked for n verdicts."""
    run = Review().run(n=n)
    wait_for_questions(run, n)
    return run


# -- down


def test_the_traits_hold_the_graph_and_the_whole_live_state():
    run = ended(Count(), n=3)
    with panel_of(run, compact=True) as (panel, _):
        wait_until(lambda: panel.view.live)
        view = panel.view
        assert view.compact is True
        assert [node["label"] for node in view.graph["nodes"]] == ["start", "split", "work", "join", "stop"]
        assert view.graph["run"] == run.run_id
        assert view.live["seq"] == 1
        assert (view.live["status"], view.live["ended"], view.live["needs"]) == ("completed", True, 0)
        assert view.live["tick"] == run.now.seq
        assert [node[0] for node in view.live["nodes"]] == ["done"] * 5
        wait_until(lambda: view.graph["svg"])
        assert view.graph["svg"].startswith("<svg")


def test_live_states_are_numbered_without_gaps_and_nothing_new_is_not_sent():
    """Only `at` and `elapsed` moved: the page lets the clock run on by itself."""
    run = Hangs().run()
    with panel_of(run) as (panel, _):
        seqs: list[int] = []

        def begin() -> int:
            """On the engine's thread, which sends them: none passes unseen in between."""
            panel.view.observe(lambda change: seqs.append(change["new"]["seq"]), "live")
            return panel.view.live.get("seq", 0)

        sent = on_engine(run, begin)
        wait_until(lambda: panel.view.live and panel.view.graph["svg"])
        assert on_engine(run, panel.publish) == 0
        time.sleep(0.01)
        assert on_engine(run, panel.publish) == 0
        run.pause().result(timeout=5)
        wait_until(lambda: panel.view.live["paused"])
        assert seqs == list(range(sent + 1, sent + 1 + len(seqs)))
        assert seqs


def test_ticks_come_in_columns_and_in_chunks_until_all_are_there(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(panel_module, "CHUNK", 4)
    run = ended(Count(), n=3)
    total = run.now.seq
    with panel_of(run) as (_, page):
        wait_until(lambda: sum(len(m["cols"]["kind"]) for m in page.of_kind("ticks")) >= total)
        chunks = page.of_kind("ticks")
        assert [m["from"] for m in chunks] == list(range(0, total, 4))
        assert {m["total"] for m in chunks} == {total}
        assert {m["run"] for m in chunks} == {run.run_id}
        kinds = [kind for m in chunks for kind in m["cols"]["kind"]]
        assert (kinds[0], kinds.count("finished"), kinds.count("wrote")) == ("started", 5, 3)


def test_a_gap_is_repaired_from_where_the_view_says():
    run = ended(Count(), n=3)
    with panel_of(run) as (_, page):
        wait_until(lambda: page.of_kind("ticks"))
        page.got.clear()
        page.post("ticks", **{"from": 5})
        wait_until(lambda: page.of_kind("ticks"))
        message = page.of_kind("ticks")[0]
        assert (message["from"], len(message["cols"]["kind"])) == (5, run.now.seq - 5)


def test_a_view_that_comes_gets_what_it_lacks_and_the_time_as_it_is_now():
    run = Hangs().run()
    with panel_of(run) as (panel, page):
        wait_until(lambda: panel.view.live and page.of_kind("ticks"))
        page.got.clear()
        seq = panel.view.live["seq"]
        page.post("hello", have=1)
        page.post("hello", have=0)
        wait_until(lambda: page.of_kind("ticks") and panel.view.live["seq"] > seq)
        assert [m["from"] for m in page.of_kind("ticks")] == [0]


def test_the_inspector_gets_payload_state_links_and_log():
    run = ended(Talks(), n=7)  # ticks: 1 started, 2 wrote, 3 finished
    with panel_of(run) as (_, page):
        assert page.ask("detail", seq=1) == {
            "kind": "detail",
            "view": "view-1",
            "of": 1,
            "seq": 1,
            "against": None,
            "told": "the run begins with Begin(n=7): work gets it and starts",
            "title": "Begin",
            "route": "run started",
            "payload": [["n", "7"]],
            "state": [],
            "queue": [["running", "work · Begin"]],
            "causes": [],
            "effects": [2, 3],
            "log": "[work]\nworking on 7\n",  # a tick that wrote nothing shows what all steps wrote
            "edit": True,
        }
        assert page.ask("detail", seq=2) == {
            "kind": "detail",
            "view": "view-1",
            "of": 2,
            "seq": 2,
            "against": None,
            "told": "work set last = 7 in the state",
            "title": "wrote",
            "route": "work wrote",
            "payload": [["last", "7"]],
            "state": [["last", None, "7"]],
            "queue": [["running", "work · Begin"]],
            "causes": [1],
            "effects": [],
            "log": "working on 7\n",
            "edit": False,
        }


def test_an_error_is_inspected_with_its_traceback():
    flow = Workflow("fails")

    @flow.step
    def work(ev: Begin) -> StopEvent:
        raise ValueError("no such file")

    run = flow.run()
    wait_until(run.is_done)
    with panel_of(run) as (panel, page):
        detail = page.ask("detail", seq=2)
        assert (detail["title"], detail["route"]) == ("ValueError", "work failed")
        payload = dict(detail["payload"])
        assert payload["error"] == "no such file"
        assert "ValueError" in payload["traceback"]
        wait_until(lambda: panel.view.live.get("error"))
        assert panel.view.live["error"] == {"step": "work", "type": "ValueError", "text": "no such file"}


# -- intents


def test_pause_step_and_continue_are_answered_and_done():
    """Each intent is answered by `done` with the tick it was seen at."""
    run = Count().debug(n=2)
    with panel_of(run) as (_, page):
        wait_until(lambda: run.now.seq == 1)
        assert page.ask("step", n=1) == {"kind": "done", "view": "view-1", "of": 1, "seq": 1}
        wait_until(lambda: run.state == {} and run.now.seq == 3)  # the grant, and what it let in
        assert page.ask("cont")["kind"] == "done"
        wait_until(lambda: run.status == "completed")
    run = Hangs().run()
    with panel_of(run) as (_, page):
        assert page.ask("pause")["kind"] == "done"
        wait_until(lambda: run.status == "paused")


def test_stop_cancels_the_run():
    run = Hangs().run()
    with panel_of(run) as (_, page):
        assert page.ask("cancel")["kind"] == "done"
        wait_until(lambda: run.status == "cancelled")
        assert run._runner.state.reason == "stopped in the panel"


def test_folding_is_a_trait():
    run = ended(Count(), n=1)
    with panel_of(run) as (panel, page):
        assert page.ask("compact", on=True)["kind"] == "done"
        assert panel.view.compact is True
        assert page.ask("compact", on=False)["kind"] == "done"
        assert panel.view.compact is False


def test_a_yes_no_question_is_answered_by_a_button_of_the_view():
    """No form is opened for it."""
    run = YesNo().run()
    with panel_of(run) as (panel, page):
        wait_until(lambda: panel.view.live.get("questions"))
        question = panel.view.live["questions"][0]
        assert question == {
            "id": f"{run.run_id}:1",
            "step": "ask",
            "title": "Sure?",
            "about": "",
            "kind": "bool",
            "place": 1,
            "open": True,
            "due": None,
            "words": "closes",
            "held": False,
            "error": "",
        }
        assert forms_of(panel) == {}
        assert page.ask("answer", request=question["id"], value=True)["kind"] == "done"
        assert run.result(timeout=10) is True


@pytest.mark.parametrize(
    ("kind", "more", "said"),
    [
        ("fly", {}, "does not know 'fly'"),
        ("answer", {"request": "9", "value": True}, "has no question '9'"),
        ("detail", {"seq": 10_000}, "Error"),
        ("step", {"n": "many"}, "ValueError"),
        ("ticks", {}, "KeyError"),
    ],
)
def test_what_is_refused_is_said_in_words(kind: str, more: dict[str, Any], said: str):
    run = ended(Count(), n=1)
    with panel_of(run) as (_, page):
        answer = page.ask(kind, **more)
        assert (answer["kind"], answer["view"]) == ("error", "view-1")
        assert said in answer["text"]


def test_a_message_whose_id_is_no_number_is_refused_and_the_next_one_works():
    """A fault in reading it must not be raised on the engine."""
    run = ended(Count(), n=1)
    with panel_of(run) as (_, page):
        page.again("compact", "x", on=True)
        assert page.reply("x")["kind"] == "error"  # type: ignore[arg-type]
        assert page.ask("compact", on=True)["kind"] == "done"


def test_a_repeat_is_harmless_and_ids_count_for_each_view():
    run = Count().debug(n=2)
    with panel_of(run) as (panel, page):
        wait_until(lambda: run.now.seq == 1)
        page.ask("step", n=1)
        wait_until(lambda: run.now.seq == 3)
        for _ in range(3):
            page.again("step", 1, n=1)
        on_engine(run)
        assert run.now.seq == 3
        other = Page(panel, "view-2")
        other.ask("step", n=1)
        wait_until(lambda: run.now.seq == 5)


def test_a_thousand_messages_are_remembered_by_the_last_of_each_view():
    run = ended(Count(), n=1)
    with panel_of(run) as (panel, page):
        for _ in range(1_000):
            page.post("compact", on=True)
        on_engine(run)
        assert panel._last_id == {"view-1": 1_000}
        page.post("bye")
        on_engine(run)
        assert panel._last_id == {}


# -- the end


def test_closing_closes_every_widget_and_the_run_goes_on():
    before = living()
    run = asking(4)
    with panel_of(run) as (panel, page):
        wait_until(lambda: len(forms_of(panel)) == 3)
        choose(forms_of(panel)[1], "keep")
        wait_until(panel.desk.lines)
        panel.close()
        panel.close()
        on_engine(run)
        assert living() == before
        page.post("cancel")
        on_engine(run)
        assert run.status == "waiting"
        assert run.view.screen.panels == []


def living() -> set[str]:
    """Ids of all open widgets."""
    return set(ipywidgets.widgets.widget._instances)


def test_a_form_that_comes_while_the_panel_closes_is_closed_too():
    """Closing happens where forms are made: none can come into being meanwhile."""
    run = asking(2)
    before = living()
    panel = RunPanel(run.view.screen, compact=False)
    panel.close()  # from this thread, while the engine may be about to open forms
    on_engine(run)
    on_engine(run, panel.publish)
    assert living() == before
    run.cancel()


def test_a_panel_whose_loop_is_gone_can_still_be_closed():
    async def main() -> Any:
        run = Count().run(n=1)
        await run
        panel = RunPanel(run.view.screen, compact=False)
        return run, panel

    before = living()
    run, panel = asyncio.run(main())
    panel.close()
    assert living() == before
    assert run.view.graph().words.startswith("run ")


def held(make: Callable[[], Any]) -> list["weakref.ref[Any]"]:
    """Weak references to a run, its runner and its panel, after the run ended, the panel was closed and all let go."""
    run = make()
    with panel_of(run) as (panel, page):
        run.result(timeout=10)
        wait_until(lambda: panel.view.live.get("ended") and panel.view.graph["svg"] and page.of_kind("ticks"))
        refs: list[weakref.ref[Any]] = [weakref.ref(run), weakref.ref(run._runner), weakref.ref(panel)]
        page.got.clear()
        page.panel = None  # type: ignore[assignment]
    return refs


def test_a_finished_run_that_nobody_holds_is_freed_after_its_panel_is_closed():
    """A notebook that is used all day must not keep every run of it."""
    refs = held(lambda: Count().run(n=2))

    def are_free() -> bool:
        gc.collect()
        return all(ref() is None for ref in refs)

    wait_until(are_free, 10)
    assert [ref() for ref in refs] == [None, None, None]
