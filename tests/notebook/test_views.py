"""Pictures of runs, and when a run shows itself in the cell that starts it."""

import asyncio
import gc
import re
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Any

import ipywidgets
import pytest

from flownb.errors import NobodyToAnswer
from flownb.notebook import kernel, publisher, views
from flownb.notebook.panel import RunPanel
from flownb.notebook.table import LAST, TickTable
from flownb.notebook.twin import Twin
from flownb.notebook.views import PANELS_A_CELL, PANELS_UNNAMED, show_at_start
from flownb.runtime.host import engine
from tests.notebook.graphs import HOSTILE
from tests.notebook.panels import Count, Hangs, YesNo, on_engine
from tests.polling import wait_until


class Handle:
    """What `display` gives for an output that can be renewed; keeps the words of what it shows."""

    def __init__(self, value: Any) -> None:
        self.update(value)

    def update(self, value: Any) -> None:
        self.words = value.words() if isinstance(value, Twin) else ""


class Notebook:
    """A kernel whose cells are executed by hand; keeps what they display."""

    def __init__(self) -> None:
        self.message: dict[str, Any] = {}
        self.shown: list[Any] = []
        #: Of the twins.
        self.handles: list[Handle] = []
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
        handle = Handle(value)
        if isinstance(value, Twin):
            self.handles.append(handle)
        return handle

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


# -- the twin when its cell ends, and with it maybe the kernel

DONE = "; done: start, split, work, join, stop"


def shows_end(handle: Handle) -> bool:
    """Whether a twin shows the end of a `Count`, and all steps that led to it."""
    return ": completed at tick " in handle.words and handle.words.endswith(DONE)


@contextmanager
def busy_engine() -> Generator[threading.Event, None, None]:
    """The engine's thread does nothing until the event is set, or the block is left."""
    free = threading.Event()
    engine().call(free.wait, 20)
    try:
        yield free
    finally:
        free.set()


@pytest.mark.parametrize("stdin", [True, False])
def test_a_twin_that_the_engine_has_not_met_yet_is_renewed_at_the_end(book: Notebook, stdin: bool):
    """C089: the run is over, and its result there, before the engine comes to hear of the new output."""
    book.execute(stdin=stdin)
    run = Count().with_options(host="thread").debug(n=2)
    wait_until(lambda: run.status == "paused")
    run.view.screen.wait()
    show = book.display

    def end_then_show(value: Any, **more: Any) -> Handle:
        shown = show(value, **more)
        if isinstance(value, Twin):
            run.cont()
            run._runner.end.result(20)
            on_engine(run)
            stack.enter_context(busy_engine())
        return shown

    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setattr(views, "_display", end_then_show)
        book.runs.append(run)
        show_at_start(run, full=False)
        assert "paused" in book.handles[0].words
        assert run.result(20) == 2
        assert shows_end(book.handles[0])


@pytest.mark.parametrize("stdin", [True, False])
def test_a_twin_at_the_end_shows_all_that_happened(book: Notebook, stdin: bool):
    """C089: also where the picture has not caught up with the run when its result is there."""
    book.execute(stdin=stdin)
    run = Count().with_options(host="thread").run(n=2)
    book.runs.append(run)
    run.result(20)
    with busy_engine() as free:
        show_at_start(run, full=False)
        assert not shows_end(book.handles[0])
        waiter = threading.Thread(target=run.result)
        waiter.start()
        free.set()
        waiter.join(20)
        assert shows_end(book.handles[0])


def test_a_run_that_ends_before_its_twin_can_be_renewed_leaves_its_end(book: Notebook):
    """Nobody awaits it, and the publisher has been round when the output of the twin comes to be."""
    book.execute()
    run = Count().with_options(host="thread").debug(n=2)
    screen = run.view.screen.wait()
    show = book.display

    def show_late(value: Any, **more: Any) -> Handle:
        shown = show(value, **more)
        if isinstance(value, Twin):
            wait_until(lambda: screen.layout is not None)
            run.cont()
            run._runner.end.result(20)
            wait_until(lambda: on_engine(run, lambda: not screen.publisher._last and not screen.publisher._marked))
        return shown

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(views, "_display", show_late)
        book.runs.append(run)
        show_at_start(run, full=False)
    wait_until(lambda: shows_end(book.handles[0]))


@pytest.mark.parametrize("stdin", [True, False])
def test_an_older_twin_never_follows_a_newer_one(book: Notebook, stdin: bool, monkeypatch: pytest.MonkeyPatch):
    """C089: the cell's thread is held up between drawing and sending, while the engine has a newer one."""
    book.execute(stdin=stdin)
    run = book.run()
    run.result(20)
    (handle,) = book.handles
    (shown,) = run.view.screen.panels
    wait_until(lambda: run.view.screen.layout is not None)
    wait_until(lambda: on_engine(run, lambda: not run.view.screen.publisher._last))
    drawn: list[str] = []
    drawn_by_cell, sent_by_engine = threading.Event(), threading.Event()

    def update(value: Twin) -> None:
        words = f"picture {len(drawn) + 1}"
        drawn.append(words)
        if threading.current_thread() is cell:
            drawn_by_cell.set()
            sent_by_engine.wait(0.5)  # longer than the engine needs, if nothing keeps it from sending
        handle.words = words
        if threading.current_thread() is not cell:
            sent_by_engine.set()

    monkeypatch.setattr(handle, "update", update)
    monkeypatch.setattr(run.view.screen, "twin_facts", lambda: (len(drawn),))
    cell = threading.Thread(target=run.view.settle)
    cell.start()
    assert drawn_by_cell.wait(20)
    run._runner.host.call(shown.publish_twin)
    assert sent_by_engine.wait(20)
    cell.join(20)
    assert (drawn, handle.words) == (["picture 1", "picture 2"], "picture 2")


def test_a_cell_that_fails_because_nobody_can_answer_shows_what_its_run_waits_for(
    book: Notebook, monkeypatch: pytest.MonkeyPatch
):
    """R4.67: the file of a nightly job shows the question, not the first moment of the run."""
    monkeypatch.setattr(publisher, "TWIN_PERIOD_S", 60.0)
    book.execute(stdin=False)
    run = book.run(YesNo().with_options(on_nobody="error"))
    with pytest.raises(NobodyToAnswer):
        run.result(20)
    assert book.handles[0].words.endswith(": waiting at tick 3; waits for a person: ask; done: start")


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


def test_the_timeline_is_a_picture_that_survives_sanitising_and_words():
    """PANEL §1: each part can be shown alone; §6: an `<img>`, since inline SVG is stripped."""
    run = Count().with_options(host="thread").run(n=2)
    run.result(timeout=10)
    bundle = run.view.timeline()._repr_mimebundle_()
    assert re.findall(r"<(\w+)", bundle["text/html"]) == ["img"]
    lines = bundle["text/plain"].splitlines()
    assert lines[0].startswith(f"run {run.run_id} of Count: completed, 7 ticks in ")
    assert [line.split(",")[0] for line in lines[1:]] == ["split: 1 done", "work: 2 done", "join: 1 done"]


def test_the_timeline_of_a_run_that_goes_on_reaches_to_now():
    run = Hangs().with_options(host="thread").run()
    wait_until(lambda: run.now.running)
    try:
        assert run.view.timeline().words.splitlines()[1].startswith("hang: from 0 s to ")
        assert f"run {run.run_id} of Hangs: running, 1 tick in" in run.view.timeline().words
    finally:
        run.cancel()


def test_the_timeline_of_a_run_without_a_tick_yet_is_drawn():
    """It has just been started on this very loop."""

    async def main() -> str:
        run = Count().run(n=2)
        words: str = run.view.timeline().words
        await run
        return words

    assert "1 tick in" in asyncio.run(main())


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
