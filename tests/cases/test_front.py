"""Cases that other front ends met, on this side of the wire; the browser's side is in `tests/browser`."""

import gc
import json
import re
import time
from typing import Any

import pytest
from ipywidgets.embed import embed_snippet
from ipywidgets.widgets import widget as widgets

from flownb import Context, StartEvent, StopEvent, Workflow
from flownb.notebook.panel import RunPanel
from flownb.testing.feed import spec
from flownb.testing.feed import step as spec_step
from tests.notebook.panels import Count, Review, YesNo, on_engine, panel_of
from tests.notebook.test_twin import twin_of
from tests.polling import wait_for_questions, wait_until


def _size(message: dict[str, Any]) -> int:
    return len(json.dumps(message, default=str))


def _waits_for(run: Any) -> tuple[int, int]:
    runner = run._runner
    return on_engine(run, lambda: (len(runner.observers), len(runner.listeners)))


def _watched(panel: Any, page: Any) -> list[dict[str, Any]]:
    """What goes to the browser: messages, and each new live state."""
    sent: list[dict[str, Any]] = page.got
    panel.view.observe(lambda change: sent.append(change["new"]), "live")
    return sent


def test_c093_a_view_that_is_closed_leaves_nothing_behind():
    """Fifty views of one run: afterwards there are as many widgets and subscribers as after the first one, and one
    click is one answer."""
    run = Review().with_options(host="thread").run(n=2)
    wait_for_questions(run, 2)

    def show_and_close() -> tuple[int, tuple[int, int]]:
        panel = RunPanel(run.view.screen, compact=True)
        on_engine(run)
        assert panel in widgets._instances.values()
        panel.close()
        on_engine(run)
        gc.collect()
        return len(widgets._instances), _waits_for(run)

    before = show_and_close()
    for _ in range(50):
        after = show_and_close()
    assert after == before
    with panel_of(run):
        ticks = len(run.debug.ticks)

        def answers() -> int:
            return sum(type(tick).__name__ == "RequestAnswered" for tick in run.debug.ticks[ticks:])

        run.requests[0].answer(decision="keep")
        wait_until(lambda: answers() > 0)  # it is in no list of open questions any more before its tick is there
        on_engine(run)
        assert answers() == 1
        assert len(run.requests) == 1


def test_c095_ten_thousand_ticks_are_few_messages_and_the_last_state_is_shown():
    """At most 30 messages and 1 MB a second, however fast the run is. (What it costs the run is measured in
    `tests/bench`.)"""
    run = Count().with_options(host="thread").debug(n=5_100)
    with panel_of(run) as (panel, page):
        sent = _watched(panel, page)
        begun = time.monotonic()
        run.cont()
        assert run.result(60) == 5_100
        wait_until(lambda: panel.view.live.get("status") == "completed")
        seconds = time.monotonic() - begun
        assert len(run.debug.ticks) > 10_000
        assert 2 <= len(sent) <= 30 * (seconds + 1)
        assert sum(map(_size, sent)) < 1_000_000 * (seconds + 1)


@pytest.mark.parametrize("text", ["/etc/passwd", "file:///etc/passwd", "http://127.0.0.1:9/x.js"])
def test_c097_a_text_that_names_a_file_or_a_page_is_shown_as_it_is(text: str):
    """As the name of a step, as a message, as an answer and as a prompt: nothing is opened."""
    shown = twin_of(spec(spec_step(text, "Start", "Stop")), message=text, answers=[text])
    assert text in shown.html()
    assert "root:" not in shown.html() + shown.words()
    assert not re.search(rf"(?:src|href)=\"[^\"]*{re.escape(text)}", shown.html())
    run = YesNo().with_options(host="thread").run()
    with panel_of(run) as (panel, _):
        wait_for_questions(run)
        said = embed_snippet([panel])
        assert "root:" not in said


def test_c103_an_end_of_script_in_a_value_ends_no_script():
    """A notebook's page holds the state of its widgets in a script element: as many of them as with a tame value."""
    counts = []
    for text in ("tame", "</script><b>x</b><script>alert(1)</script>"):
        assert "<script" not in twin_of(spec(spec_step("ask", "Start", "Stop")), message=text, answers=[text]).html()
        flow = Workflow("asks")

        @flow.step
        async def ask(ev: StartEvent, ctx: Context, text: str = text) -> StopEvent:
            return StopEvent(result=await ctx.ask(text, bool))

        run = flow.with_options(host="thread").run()
        with panel_of(run) as (panel, _):
            wait_for_questions(run)
            wait_until(lambda panel=panel: panel.view.live.get("status") == "waiting")
            page = embed_snippet([panel])
        (state,) = re.findall(r'<script type="application/vnd.jupyter.widget-state\+json">(.*?)</script>', page, re.S)
        assert text in str(json.loads(state)["state"])
        counts.append(len(re.findall(r"<script|</script", page)))
    assert counts[0] == counts[1]


def test_c105_thousands_of_items_are_grouped_and_thousands_of_steps_are_told():
    """5,000 items are three nodes with counts; 2,000 steps take no stack; each less than three seconds and 2 MB."""
    run = Count().with_options(host="thread").debug(n=5_000)
    assert run.view.screen  # it is looked at while it runs
    run.cont()
    assert run.result(60) == 5_000
    wait_until(lambda: len(run.view.screen.projection.rows) == len(run.debug.ticks))
    begun = time.thread_time()
    with panel_of(run) as (panel, page):
        assert time.thread_time() - begun < 3  # the call that displays it
        sent = _watched(panel, page)
        wait_until(lambda: panel.view.live.get("status") == "completed")
        assert len(embed_snippet([panel])) + sum(map(_size, sent)) < 2_000_000
        assert [step.done for step in run._runner.state.steps] == [1, 5_000, 1]
        assert len(run.view.screen.projection.graph.nodes) <= 8
    long = spec(*(spec_step(f"s{i}", "Start" if i == 0 else f"E{i}", f"E{i + 1}") for i in range(2_000)))
    begun = time.process_time()
    html = twin_of(long).html()
    assert "s0 finished" in html
    assert len(html) < 2_000_000
    assert time.process_time() - begun < 3
