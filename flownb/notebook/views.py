"""`run.view` and `flow.view`: pictures, and how a run shows itself in the cell that starts it."""

from __future__ import annotations

import base64
import weakref
from html import escape
from pathlib import Path
from typing import Any

from IPython import display as ipython

from flownb.core.graph import Graph, graph_of
from flownb.notebook import kernel
from flownb.notebook.exports import to_dot, to_mermaid
from flownb.notebook.layout import lay_out
from flownb.notebook.panel import RunPanel
from flownb.notebook.replaypage import ReplayPage, replay_page, write_page
from flownb.notebook.screen import Screen
from flownb.notebook.still import Still
from flownb.notebook.svg import twin_svg
from flownb.notebook.table import TickTable
from flownb.notebook.timeline import timeline
from flownb.notebook.timeline_svg import timeline_svg
from flownb.run import Run

_display: Any = ipython.display

#: Runs of one execution of a cell that show themselves; a loop of a thousand runs shows no thousand panels.
PANELS_A_CELL = 3
#: Panels of earlier executions that stay open where the front end does not say which cell it runs.
PANELS_UNNAMED = 3


class _Cell:
    """What one cell shows. A panel lives until its cell is run again, or until somebody closes it; its run as long.

    Held weakly: an open panel is held by its comm, a closed one and its run by nobody.
    """

    def __init__(self) -> None:
        #: Oldest first.
        self.panels: list[weakref.ref[RunPanel]] = []
        self.execution = ""
        #: Runs that showed themselves in this execution.
        self.shown = 0

    def begin(self, execution: str, *, keep: int) -> None:
        """The cell is executed; of the panels of earlier executions only the newest `keep` stay."""
        if execution == self.execution:
            return
        self.execution, self.shown = execution, 0
        still = [panel for ref in self.panels if (panel := ref()) is not None and not panel.closed]
        cut = max(0, len(still) - keep)
        for panel in still[:cut]:
            panel.close()
        self.panels = [weakref.ref(panel) for panel in still[cut:]]


#: By the cell's id; one for all that is shown where no cell is named: by some front ends, and in widgets' callbacks.
_by_cell: dict[str, _Cell] = {}


class FlowViews:
    """Pictures of a definition."""

    def __init__(self, workflow: Any) -> None:
        self._workflow = workflow

    def _graph(self) -> Graph:
        return graph_of(self._workflow.definition.spec)

    def to_svg(self) -> str:
        """The graph as SVG text, nothing reached."""
        return _svg(self._graph())

    def to_dot(self) -> str:
        """The graph in Graphviz's language."""
        return to_dot(self._graph())

    def to_mermaid(self) -> str:
        """The graph in Mermaid's language."""
        return to_mermaid(self._graph())

    def __call__(self) -> Picture:
        """The graph as a cell's output."""
        return self.graph()

    def graph(self) -> Picture:
        """The graph as a cell's output."""
        graph = self._graph()
        steps = ", ".join(" ".join(node.label.split()) for node in graph.nodes[1:-1])
        return Picture(_svg(graph), f"workflow {graph.name}: {steps}")

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        return self.graph()._repr_mimebundle_()


class Picture:
    """An SVG with its description, as a cell's output; an `<img>`, so that it survives where HTML is sanitised."""

    def __init__(self, svg: str, words: str) -> None:
        self.svg, self.words = svg, words

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        data = base64.b64encode(self.svg.encode("utf-8", "replace")).decode()
        html = f'<img alt="{escape(self.words)}" src="data:image/svg+xml;base64,{data}">'
        return {"text/html": html, "text/plain": self.words}

    def __repr__(self) -> str:
        return self.words


def _svg(graph: Graph) -> str:
    blank = [["idle", "", None] for _ in graph.nodes]
    return twin_svg(graph, lay_out(graph), blank, [0] * len(graph.edges))


class RunViews:
    """Pictures of a run: `run.view()` is its panel."""

    def __init__(self, run: Run[Any]) -> None:
        self._run = run
        self._screen: Screen | None = None
        self._shown_in: set[str] = set()

    @property
    def screen(self) -> Screen:
        """What all panels of this run share."""
        if self._screen is None:
            self._screen = Screen(self._run)
        return self._screen

    def __call__(self, *, full: bool = True, notify: bool | None = None) -> None:
        """Show the panel below the present cell; outside a kernel the state is printed, in a sentence.

        Args:
            full: Open; else its one line.
            notify: Whether the browser tells of questions while nobody looks at the page, once the person allowed it
                there; None: as `flownb.options.notify` says.
        """
        self._show(kernel.parent(), full=full, notify=notify)

    def graph(self) -> Picture:
        """The graph with the present states, as a static picture."""
        screen = self.screen.wait()
        if screen.layout is None:
            screen.layout = lay_out(screen.projection.graph)
        twin = screen.twin()
        return Picture(
            twin_svg(screen.projection.graph, screen.layout, screen.projection.nodes, screen.projection.edges),
            twin.words(),
        )

    def stepper(self) -> None:
        """Show the panel open, with its buttons for stepping."""
        self(full=True)

    def timeline(self) -> Picture:
        """What ran when, as a static picture: a lane for each step, with attempts, waits, questions, failures."""
        run, runner = self._run, self._run._runner
        now = 0.0 if run.is_done() or runner.suspended else runner.clock.now()
        # A run that has only just begun has no tick yet, but knows its first one.
        shown = timeline(tuple(runner.ticks) or (runner.first,), now=now, status=run.status)
        return Picture(timeline_svg(shown), shown.words())

    def ticks(self) -> TickTable:
        """The ticks so far as a plain table, the last 1000 of them."""
        return TickTable(self.screen.wait().projection.rows)

    def to_html(self, path: str | Path | None = None) -> ReplayPage | Path:
        """The run as one HTML page that replays it tick by tick, without a kernel and without a network.

        Args:
            path: Where to write it; a page of an earlier call is written over. None gives the text.

        Returns:
            The file, or the text of the page. Secrets are masked; of a very long run the newest ticks are there, and
            the page says what is left out.

        Raises:
            IsADirectoryError: There is a folder of that name.
            FileNotFoundError: The folder that it is to lie in is not there.
            FileExistsError: There is another kind of file.
            OSError: The file cannot be written.
        """
        page = replay_page(self._run)
        return page if path is None else write_page(page, path)

    def show(self, *, full: bool = False) -> None:
        """Show the panel, unless it is the last expression of the cell that shows it already."""
        message = kernel.parent()
        execution = str(message.get("header", {}).get("msg_id", ""))
        if kernel.is_last_expression() and execution in self._shown_in:
            return
        self._show(message, full=full)

    def show_at_start(self, *, full: bool) -> None:
        """A run shows itself in the cell that starts it; from a thread or a widget's callback it does not, since the
        output would land in a foreign cell or nowhere."""
        message = kernel.parent()
        if kernel.is_shown_elsewhere() or not kernel.is_cell(message):
            return
        execution = str(message["header"]["msg_id"])
        cell = _cell(message)
        cell.shown += 1
        if cell.shown > PANELS_A_CELL:
            self._shown_in.add(execution)
            text = f"run {self._run.run_id} of {self._run._runner.state.spec.name}: run.view() shows its panel"
            _display({"text/plain": text}, raw=True)
            return
        self._show(message, full=full)

    def _show(self, message: dict[str, Any], *, full: bool, notify: bool | None = None) -> None:
        if not kernel.is_here(message):
            print(self.screen.wait().twin().words())
            return
        screen = self.screen
        execution = str(message.get("header", {}).get("msg_id", ""))
        self._shown_in.add(execution)
        if not kernel.has_front_end():
            self._show_twin(screen)
            return
        cell = _cell(message)
        panel = RunPanel(screen, compact=not full, notify=notify)
        cell.panels.append(weakref.ref(panel))
        _display(panel)
        panel.keep_twin(_display(screen.twin(), display_id=True))

    def _show_twin(self, screen: Screen) -> None:
        """Where nobody looks no widget is made: the twin alone, renewed until the run ends."""
        Still(screen, _display(screen.twin(), display_id=True))

    def settle(self) -> None:
        """Renew the twins now: the cell that awaits the run is about to end, and with it maybe the kernel."""
        if self._screen is not None and self._screen.panels:
            for shown in tuple(self._screen.wait().panels):
                shown.publish_twin()

    def to_dot(self) -> str:
        """The graph in Graphviz's language."""
        return to_dot(self.screen.projection.graph)

    def to_mermaid(self) -> str:
        """The graph in Mermaid's language."""
        return to_mermaid(self.screen.projection.graph)


def _cell(message: dict[str, Any]) -> _Cell:
    """The cell that a message executes; panels of an earlier execution of it are closed."""
    key = kernel.cell_key(message)
    cell = _by_cell.setdefault(key, _Cell())
    cell.begin(str(message.get("header", {}).get("msg_id", "")), keep=0 if key else PANELS_UNNAMED)
    return cell


def show_at_start(run: Run[Any], *, full: bool) -> None:
    """Called by a run that begins in a kernel."""
    run.view.show_at_start(full=full)


__all__ = ["FlowViews", "Picture", "RunViews", "show_at_start"]
