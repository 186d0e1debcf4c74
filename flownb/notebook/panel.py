"""The panel: `RunView` and the forms below it, in one box."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ipywidgets

from flownb.defaults import options
from flownb.errors import EngineLost, WorkflowError
from flownb.notebook.desk import Desk
from flownb.notebook.intents import INTENTS
from flownb.notebook.kernel import heard, said_hello
from flownb.notebook.screen import Asked, Screen
from flownb.notebook.widget import RunView
from flownb.run import Run

#: Rows of one `ticks` message.
CHUNK = 2_500
_SECONDS_BETWEEN_CHUNKS = 0.03
#: Of the live state: what changes without news. The page lets the clock run on by itself.
_MOVING = frozenset(("at", "elapsed", "now"))
#: Panels of forks, replays and children that stand below one panel.
MOST_BELOW = 4


class RunPanel(ipywidgets.VBox):  # type: ignore[misc]
    """One run, live, in a cell.

    Made in the cell that shows it; from then on the publisher, on the run's host, makes and changes all widgets.
    Handlers of messages, on whatever thread they come, only post.

    Args:
        screen: What all panels of the run share.
        compact: Only the line of 38 px.
        above: The panel below which this one stands, of a run that was made or opened there.
        notify: Whether the browser tells of questions; None: as `flownb.options.notify` says.
    """

    def __init__(
        self, screen: Screen, *, compact: bool, above: RunPanel | None = None, notify: bool | None = None
    ) -> None:
        self._above = above
        self.view = RunView(graph=self._graph(screen), live={}, compact=compact)
        super().__init__([self.view], layout=ipywidgets.Layout(width="auto", overflow="visible"))
        self.add_class("flownb-panel")
        self.screen = screen
        self.run: Run[Any] = screen.run
        self._sent = 0
        #: Where the next chunk begins, while chunks are on their way one after the other.
        self._next: int | None = None
        self.desk = Desk(self._show_forms, self._mark)
        self._boxes: tuple[Any, ...] = ()
        #: Whether the browser is to tell of questions; the person has to allow it there.
        self.notify: bool = options.notify if notify is None else notify
        self._below: list[RunPanel] = []
        #: The last message of each view, whose ids count up.
        self._last_id: dict[str, int] = {}
        #: What was sent last: the live state without what changes by itself, the twin's facts.
        self._shown: dict[str, Any] = {}
        self._shown_twin: tuple[Any, ...] = ()
        self._seq = 0
        self._twin: Any = None
        self.closed = False
        self.view.on_msg(self._on_message)
        screen.want_layout()
        screen.show(self)

    def _graph(self, screen: Screen) -> dict[str, Any]:
        return {**screen.graph(), "below": self._above.run.run_id if self._above is not None else ""}

    def keep_twin(self, handle: Any) -> None:
        """The output of its twin is there; what happened meanwhile is news to it."""
        self._twin = handle
        self.screen.runner.host.call(self.screen.changed)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is not None:
            bundle["text/plain"] = f"run {self.screen.run.run_id} of {self.screen.projection.graph.name}"
        return bundle  # type: ignore[no-any-return]

    # -- down

    def publish(self) -> int:
        """Send what is new; how many messages that took (a form that opens counts as one)."""
        if self.closed:
            return 0
        asked = self.screen.asked()
        sent = self.desk.tend(asked.cards, asked.needs, [end.id for end in asked.ends]) + self._send_live(asked)
        total = len(self.screen.projection.rows)
        if self._sent < total and self._next is None:
            self._send_ticks(self._sent)
            sent += 1
        if self._sent < total:
            self.screen.publisher.mark(self)
        return sent

    def _send_live(self, asked: Asked) -> int:
        live = {**self.screen.live(asked, self.desk.opened, self.desk.lines()), "notify": self.notify}
        shown = {name: value for name, value in live.items() if name not in _MOVING}
        if shown == self._shown:
            return 0
        self._shown = shown
        self._seq += 1
        self.view.live = {"seq": self._seq, **live}
        return 1

    def redraw(self) -> None:
        """The graph was laid out."""
        if not self.closed:
            self.view.graph = self._graph(self.screen)

    def _send_ticks(self, start: int) -> int:
        projection = self.screen.projection
        total = len(projection.rows)
        stop = min(total, start + CHUNK)
        columns = projection.columns(start, stop)
        self.view.send({"kind": "ticks", "run": self.screen.run.run_id, "from": start, "total": total, "cols": columns})
        self._sent = max(self._sent, stop)
        return stop

    def send_from(self, start: int) -> None:
        """Everything from a tick on, to a view that has just come or lacks some, a chunk at a time. What is on its way
        already is not sent twice."""
        if self._next is not None:
            self._next = min(self._next, start)
            return
        self._next = start
        self._send_next()

    def _send_next(self) -> None:
        if self.closed or self._next is None or self._next >= len(self.screen.projection.rows):
            self._next = None
            return
        self._next = self._send_ticks(self._next)
        self.screen.runner.host.later(_SECONDS_BETWEEN_CHUNKS, self._send_next)

    def send_live_again(self) -> None:
        """The live state, even if it says nothing new."""
        self._shown = {}
        self.screen.publisher.mark(self)

    def publish_twin(self) -> None:
        """Renew the static twin, if it says something new."""
        if self._twin is None or self.closed:
            return
        with self.screen.drawing:
            facts = self.screen.twin_facts()
            if facts != self._shown_twin:
                self._shown_twin = facts
                self._twin.update(self.screen.twin())

    def _show_forms(self, boxes: Sequence[Any]) -> None:
        self._boxes = tuple(boxes)
        self.children = (self.view, *self._boxes, *self._below)

    def _mark(self) -> None:
        if not self.closed:
            self.screen.publisher.mark(self)

    # -- other runs, below this one

    def show_below(self, run: Run[Any]) -> None:
        """Show a run that was made or opened here, in the same output, so that it can be looked at at once."""
        if any(panel.run.run_id == run.run_id for panel in self._below):
            return
        for oldest in self._below[: max(0, len(self._below) + 1 - MOST_BELOW)]:
            oldest.put_away()
        self._below.append(RunPanel(run.view.screen, compact=False, above=self, notify=self.notify))
        self._show_forms(self._boxes)

    def put_away(self) -> None:
        """Close a panel that stands below another one.

        Raises:
            WorkflowError: It stands in a cell of its own.
        """
        if self._above is None:
            raise WorkflowError("This panel belongs to its cell: clear the cell's output to close it.")
        self._above._below.remove(self)
        self._above._show_forms(self._above._boxes)
        self.close()

    # -- up

    def _on_message(self, _: Any, message: dict[str, Any], buffers: Any) -> None:
        heard()
        if message.get("kind") == "hello":
            said_hello()
        self.screen.runner.host.call(self._handle, message)

    def _handle(self, message: dict[str, Any]) -> None:
        """One message from a view; (view, id) makes a repeat harmless."""
        if self.closed:
            return
        view, handler = str(message.get("view", "")), INTENTS.get(str(message.get("kind")))
        try:
            number = int(message["id"])
            if number <= self._last_id.get(view, 0):
                return
            self._last_id[view] = number
            if handler is None:
                raise WorkflowError(f"This panel does not know {message.get('kind')!r}.")
            answered = handler(self, message)
        except Exception as error:  # whatever was refused
            self.refuse(message, error)
            return
        if answered:
            self.done(message)

    def done(self, message: dict[str, Any], **more: Any) -> None:
        """A wish was carried out."""
        self.reply("done", message, seq=self.screen.runner.state.seq, **more)

    def refuse(self, message: dict[str, Any], error: BaseException) -> None:
        """A wish was refused, or went wrong: in words, in the panel."""
        words = str(error) if isinstance(error, WorkflowError) else f"{type(error).__name__}: {error}"
        self.reply("error", message, text=words)

    def reply(self, kind: str, message: dict[str, Any], **more: Any) -> None:
        """An answer to the view that asked."""
        if not self.closed:
            self.view.send({"kind": kind, "view": message.get("view"), "of": message.get("id"), **more})

    def forget_view(self, view: str) -> None:
        """A view has gone."""
        self._last_id.pop(view, None)

    # -- the end

    def close(self) -> None:
        """Close every widget of it; the run goes on."""
        if self.closed:
            return
        self.closed = True
        try:
            self.screen.runner.host.call(self._leave)
        except EngineLost:  # nobody makes widgets there any more
            self._leave()

    def _leave(self) -> None:
        """On the host, where forms are made: none can come into being meanwhile."""
        for panel in self._below:
            panel.close()
        self.view.on_msg(self._on_message, remove=True)
        super().close()
        self.view.layout.close()
        self.view.close()
        self.desk.close()
        self.layout.close()
        if self in self.screen.panels:
            self.screen.panels.remove(self)
        self.screen.publisher.forget(self)

    __hash__ = object.__hash__
