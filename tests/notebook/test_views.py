"""Pictures of runs, and when a run shows itself in the cell that starts it."""

import asyncio
import gc
import re
import threading
from collections.abc import Generator
from typing import Any

import ipywidgets
import pytest

from flownb.notebook import kernel, views
from flownb.notebook.panel import RunPanel
from flownb.notebook.table import LAST, TickTable
from flownb.notebook.twin import Twin
from flownb.notebook.views import PANELS_A_CELL, PANELS_UNNAMED, show_at_start
from tests.notebook.graphs import HOSTILE
from tests.notebook.panels import Count, Hangs, on_engine
from tests.polling import wait_until


class Handle:
    """What `display` gives for an output that can be renewed."""

    def update(self, value: Any) -> None:
        pass


class Notebook:
    """A kernel whose cells are executed by hand; keeps what they display."""

    def __init__(self) -> None:
        self.message: dict[str, Any] = {}
        self.shown: list[Any] = []
        self.executions = 0
        self.is_last = False
        self.runs: list[Any] = []

    def execute(self, cell: str = "c1", *, kind: str = "execute_request", stdin: bool = True) -> None:
        self.executions += 1
        self.message = {
            "header": {"msg_id": f"m{self.executions}", "msg_type": kind, "session": "s"},
            "metadata": {"cellId": cell} if cell else {},
            "content": {"allow_stdin": stdin},
        }
        self.shown = []

    def display(self, value: Any, **more: Any) -> Handle:
        self.shown.append(value)
        return Handle()

    def run(self, flow: Any = None, *, full: bool = False) -> Any:
        """`flow.run()` in the present cell."""
        run = (flow or Count()).with_options(host="thread").run()
        self.runs.append(run)
        show_at_start(run, full=full)
        return run

    @property
    def panels(self) -> list[RunPanel]:
        return [value for value in self.shown if isinstance(value, RunPanel)]

    @property
    def twins(self) -> list[Twin]:
        return [value for value in self.shown if isinstance(value, Twin)]


@pytest.fixture
def book(monkeypatch: pytest.MonkeyPatch) -> Generator[Notebook, None, None]:
    made = Notebook()
    monkeypatch.setattr(kernel, "parent", lambda: made.message)
    monkeypatch.setattr(kernel, "is_last_expression", lambda: made.is_last)
    monkeypatch.setattr(views, "_display", made.display)
    monkeypatch.setattr(views, "_by_cell", {})
    yield made
    for run in made.runs:
        for panel in list(run.view.screen.panels):
            if isinstance(panel, RunPanel):
                panel.close()
        run.cancel()
        on_engine(run)


def living() -> int:
    """Number of open widgets."""
    return len(ipywidgets.widgets.widget._instances)


# -- when a run shows itself


def test_a_run_shows_panel_and_twin_in_the_cell_that_starts_it(book: Notebook):
    book.execute()
    book.run()
    assert [type(value) for value in book.shown] == [RunPanel, Twin]
    assert book.panels[0].view.compact


def test_full_opens_the_panel(book: Notebook):
    book.execute()
    book.run(full=True)
    assert not book.panels[0].view.compact


def test_the_same_run_as_the_last_expression_is_not_shown_twice(book: Notebook):
    book.execute()
    run = book.run()
    book.is_last = True
    run._ipython_display_()
    assert len(book.panels) == 1
    book.execute("c2")
    run._ipython_display_()
    assert len(book.panels) == 1  # another cell shows it anew


def test_display_of_a_run_in_its_cell_is_a_wish_of_its_own(book: Notebook):
    """Not the last expression: somebody called `display(run)`."""
    book.execute()
    run = book.run()
    run._ipython_display_()
    assert len(book.panels) == 2


def test_from_a_callback_or_a_thread_nothing_is_shown_by_itself(book: Notebook):
    book.execute(kind="comm_msg")
    run = book.run()
    assert book.shown == []
    run.view()
    assert len(book.panels) == 1
    book.execute()
    thread = threading.Thread(target=book.run)
    thread.start()
    thread.join()
    assert book.shown == []


def test_where_nobody_looks_only_the_twin_is_shown_and_no_widget_is_made(book: Notebook):
    before = living()
    book.execute(stdin=False)
    run = book.run()
    assert [type(value) for value in book.shown] == [Twin]
    run.view.stepper()
    assert [type(value) for value in book.shown] == [Twin, Twin]
    assert living() == before


@pytest.mark.parametrize("stdin", [True, False])
def test_a_loop_of_many_runs_shows_the_first_and_names_the_others(book: Notebook, stdin: bool):
    book.execute(stdin=stdin)
    runs = [book.run() for _ in range(PANELS_A_CELL + 2)]
    assert len(book.panels) == (PANELS_A_CELL if stdin else 0)
    assert len(book.twins) == PANELS_A_CELL
    words = [value["text/plain"] for value in book.shown if isinstance(value, dict)]
    assert words == [f"run {run.run_id} of Count: run.view() shows its panel" for run in runs[PANELS_A_CELL:]]
    runs[-1].view()
    assert len(book.twins) == PANELS_A_CELL + 1


def test_the_stepper_is_the_open_panel(book: Notebook):
    book.execute()
    run = Hangs().with_options(host="thread").run()
    book.runs.append(run)
    run.view.stepper()
    assert not book.panels[0].view.compact


# -- how long panels live


def test_running_a_cell_again_closes_its_panels_and_no_others(book: Notebook):
    book.execute("c1")
    book.run(Hangs())
    book.run(Hangs())
    first = book.panels
    book.execute("c2")
    book.run(Hangs())
    other = book.panels
    book.execute("c1")
    run = book.run(Hangs())
    on_engine(run)
    assert [panel.closed for panel in (*first, *other, *book.panels)] == [True, True, False, False]


def test_twenty_executions_leave_as_many_widgets_as_one(book: Notebook):
    """PANEL §1."""
    counts = []
    for _ in range(20):
        book.execute()
        run = book.run()
        run.result(timeout=10)
        on_engine(run)
        counts.append(living())
    assert len(set(counts)) == 1


def test_where_no_cell_is_named_the_newest_few_stay(book: Notebook):
    """Else every execution would keep its panel, widgets and run; closing all would close those of other cells."""
    panels: list[RunPanel] = []
    for _ in range(PANELS_UNNAMED + 4):
        book.execute("")
        run = book.run()
        panels += book.panels
        on_engine(run)
    assert [panel.closed for panel in panels] == [True] * 3 + [False] * (PANELS_UNNAMED + 1)
    assert list(views._by_cell) == [""]


def test_a_closed_panel_is_not_held_by_its_cell(book: Notebook):
    book.execute()
    run = book.run()
    run.result(timeout=10)
    book.panels[0].close()
    on_engine(run)
    book.runs.clear()
    book.shown.clear()
    del run

    def is_let_go() -> bool:
        gc.collect()
        return [ref() for ref in views._by_cell["c1"].panels] == [None]

    wait_until(is_let_go, 10)


# -- pictures


def test_the_ticks_are_a_plain_table_and_words():
    run = Count().with_options(host="thread").run(n=2)
    run.result(timeout=10)
    table = run.view.ticks()
    assert len(table.rows) == run.now.seq
    bundle = table._repr_mimebundle_()
    assert sorted(bundle) == ["text/html", "text/plain"]
    assert bundle["text/html"].count("<tr>") == 1 + run.now.seq
    assert bundle["text/plain"].startswith("1  run  started  Begin\n2  split  finished  2 × Item")


def test_a_long_table_has_the_last_thousand_and_says_how_many_are_left_out():
    table = TickTable([("event", "s", "E", 0.5, 0, "", [], [])] * (LAST + 234))
    assert (len(table.rows), table.rows[0][0], table.rows[-1][0]) == (LAST, "235", str(LAST + 234))
    assert repr(table).startswith("234 earlier ticks are left out\n")
    assert "<p>234 earlier ticks are left out</p>" in table._repr_mimebundle_()["text/html"]
    assert repr(TickTable([])) == "no ticks"


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_text_in_the_table(name: str):
    html = TickTable([("event", name, name, 0.5, 0, name, [], [])])._repr_mimebundle_()["text/html"]
    assert set(re.findall(r"<(\w+)", html)) == {"div", "table", "thead", "tbody", "tr", "th", "td"}


def test_pictures_of_a_run_whose_loop_is_gone_show_its_end():
    async def main() -> Any:
        run = Count().run(n=2)
        await run
        return run

    run = asyncio.run(main())
    assert run.view.graph().words.endswith("completed at tick 7; done: start, split, work, join, stop")
    assert len(run.view.ticks().rows) == run.now.seq
    assert run.view.to_mermaid().startswith("flowchart")


# -- where there is no kernel


def test_outside_a_kernel_the_view_is_a_sentence(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    """In a script, whether the run goes on or is over: no widget, no output that is renewed, no error in the log."""
    monkeypatch.setattr(kernel, "parent", dict)
    run = Count().with_options(host="thread").run(n=2)
    run.view()
    before = capfd.readouterr()
    run.result(20)
    run.view()
    run.view.stepper()
    after = capfd.readouterr()
    assert before.out.startswith(f"run {run.run_id} of Count: ")
    assert after.out.count(f"run {run.run_id} of Count: completed at tick ") == 2
    assert "done: start, " in after.out
    assert run.view.screen.panels == []
    assert before.err + after.err + caplog.text == ""
