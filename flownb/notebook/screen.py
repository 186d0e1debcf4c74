"""What all panels of one run share: its projection, its drawing, and who is told of news."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence, Set
from contextlib import suppress
from itertools import chain
from typing import Any, Protocol, cast

from msgspec import Struct

from flownb.answering import family
from flownb.core import commands as c
from flownb.core.graph import Graph
from flownb.core.reduce import advance
from flownb.core.state import RunState, is_ended
from flownb.core.ticks import AnyTick, Tick
from flownb.errors import EngineLost
from flownb.narration import told
from flownb.notebook import retrying, stops
from flownb.notebook.inbox import Inbox, timer_lines, work_lines
from flownb.notebook.kernel import lend_parent
from flownb.notebook.layout import Layout, lay_out, topological
from flownb.notebook.publisher import Publisher, publisher_of
from flownb.notebook.questions import Card, asks, card_of, ending, subject
from flownb.notebook.replays import is_replay, replay_line
from flownb.notebook.svg import live_svg
from flownb.notebook.twin import Twin, twin_class
from flownb.notebook.viewmodel import Projection, counts_line, queue_lines, status_words
from flownb.requests import Request
from flownb.run import Run
from flownb.runtime.runner import Runner
from flownb.runtime.threads import pool

#: Questions that the live state lists, oldest first; all of them are counted.
SHOWN_QUESTIONS = 50


#: Questions of which a panel says how they ended, and of which a twin does; the last ones.
SHOWN_ENDS = 3
TWIN_ENDS = 8


class End(Struct, frozen=True):
    """How a question ended."""

    id: str
    step: str
    #: What it was about.
    subject: str
    #: Who, when, what.
    text: str
    is_answer: bool
    at: float

    def line(self) -> dict[str, Any]:
        """As the page gets it."""
        return {"id": self.id, "step": self.step, "subject": self.subject, "text": self.text, "answer": self.is_answer}


class Asked(Struct, frozen=True):
    """The questions of a run and its children at one moment."""

    #: The oldest open ones.
    cards: list[Card]
    #: How many are open, and how many are over.
    needs: int
    over: int
    #: Those that ended last, in order.
    ends: list[End]


class Shown(Protocol):
    """A panel, or a twin alone."""

    def publish(self) -> int: ...

    def publish_twin(self) -> None: ...

    def redraw(self) -> None: ...


class Screen:
    """One run as its panels show it. Made on whatever thread, as its panels are; what they show changes on its host."""

    def __init__(self, run: Run[Any]) -> None:
        self.run = run
        self.runner = run._runner
        lend_parent(self.runner.host)
        self.publisher: Publisher = publisher_of(self.runner.host)
        self.projection = Projection(self.runner.state)
        self.layout: Layout | None = None
        self.panels: list[Shown] = []
        #: Held while a twin is drawn and sent: the engine and the thread that awaited the run both do it, and an older
        #: picture must not follow a newer one.
        self.drawing = threading.Lock()
        self.inbox = Inbox(run)
        #: The ticks at which breakpoints were set by a click, by the number of the breakpoint.
        self.set_at: dict[int, int] = {}
        self._breakpoints = run.debug.breakpoints if run.workflow is not None else None
        #: The newest tick with the states around it and its commands; told in words once somebody looks.
        self._newest: tuple[RunState | None, AnyTick, RunState, Sequence[c.AnyCommand]] | None = None
        self._told: tuple[int, str] = (0, "")
        self._asked_layout = False
        #: Open questions that are listed, by id; and the runs of the family whose news are heard.
        self._cards: dict[str, Card] = {}
        self._heard: set[Runner] = {self.runner}
        self._caught_up = threading.Event()
        try:
            self.runner.host.call(self._attach)
        except EngineLost:  # nobody drives the run any more, so nothing happens beside this thread
            self._attach()

    def _attach(self) -> None:
        """Catch up with what happened, and hear of what happens."""
        runner = self.runner
        before: RunState | None = None
        for tick in list(runner.ticks):
            state, commands = advance(before, tick)
            self.projection.apply(before, tick, state, commands)
            self._newest = before, tick, state, commands
            before = state
        if self._breakpoints is not None:
            self._breakpoints.watchers.add(self)
        runner.observers.append(self._on_tick)
        runner.listeners.append(self.changed)
        self._caught_up.set()
        self.changed()

    def wait(self, patience_s: float = 5.0) -> Screen:
        """Itself, once what happened so far is in; for pictures, which are made at once on the caller's thread."""
        if not self.runner.host.is_here():
            self._caught_up.wait(patience_s)
        return self

    def _on_tick(self, before: RunState | None, tick: Tick, after: RunState, commands: list[c.AnyCommand]) -> None:
        graph = self.projection.graph
        self.projection.apply(before, tick, after, commands)
        self._newest = before, cast(AnyTick, tick), after, commands
        if self.projection.graph is not graph:  # the run took newer definitions
            self.layout, self._asked_layout = None, False
            self.want_layout()
            for panel in self.panels:
                panel.redraw()

    def show(self, panel: Shown) -> None:
        """One more shows the run, from now on: its cell may end before the host comes to hear of it."""
        self.panels.append(panel)
        self.runner.host.call(self.changed)

    def changed(self) -> None:
        """Something is new: the panels are due."""
        over = self.runner.end.done() or bool(self.runner.suspended)
        for panel in self.panels:
            self.publisher.mark(panel, now=over)

    def breakpoints_changed(self) -> None:
        """Somebody set or removed one, on whatever thread."""
        with suppress(EngineLost):
            self.runner.host.call(self.changed)

    def want_layout(self) -> None:
        """Lay the graph out, on a thread: the first WebAssembly call takes a second."""
        if self._asked_layout:
            return
        self._asked_layout = True
        graph = self.projection.graph

        def work() -> None:
            layout = lay_out(graph)
            self.runner.host.call(self._laid_out, graph, layout)

        pool.submit(work)

    def _laid_out(self, graph: Graph, layout: Layout | None) -> None:
        if graph is not self.projection.graph:  # of an older definition
            return
        self.layout = layout
        self._asked_layout = layout is not None  # the next panel asks again
        for panel in self.panels:
            panel.redraw()
        self.changed()

    def graph(self) -> dict[str, Any]:
        """The `graph` trait."""
        return graph_data(self.run, self.projection.graph, self.layout)

    def asked(self, ends: int = SHOWN_ENDS) -> Asked:
        """The open questions of the run and its children, oldest first, and how the last ones ended."""
        runners = list(family(self.runner))
        for runner in runners:
            if runner not in self._heard and self.runner.host.is_here():
                self._heard.add(runner)
                runner.listeners.append(self.changed)
        found = list(self.run.requests)
        if len(runners) > 1:
            found.sort(key=lambda request: request.opened_at)
        cards = [self._cards.get(request.id) or card_of(request) for request in found[:SHOWN_QUESTIONS]]
        self._cards = {card.id: card for card in cards}
        over = sum(len(runner.questions.all) for runner in runners) - len(found)
        return Asked(cards, len(found), over, _last_ends(runners, ends) if over else [])

    def live(self, asked: Asked, opened: Set[str] = frozenset(), lines: Set[str] = frozenset()) -> dict[str, Any]:
        """The `live` trait, but for what its panel adds.

        Args:
            asked: The questions.
            opened: Ids of the questions that are open, as forms below the panel or as rows.
            lines: Ids of those whose form says below the panel how they ended.
        """
        runner, state = self.runner, self.runner.state
        over = is_ended(state) or bool(runner.suspended)
        now = state.at if over else max(state.at, runner.clock.now())
        status = status_words(state, runner.suspended, runner.blocked)
        return {
            "at": time.time(),
            "status": status,
            "tick": len(self.projection.rows),
            "paused": bool(state.gate) and not over,
            "ended": over,
            "needs": asked.needs,
            "elapsed": round(max(0.0, now - state.started_at), 3),
            "now": round(now, 3),
            "counting": status == "running",
            "nodes": [list(node) for node in self.projection.nodes],
            "edges": list(self.projection.edges),
            "note": counts_line(self.projection, state),
            "told": self._words(),
            "queue": queue_lines(state, () if state.gate else chain(runner.control, runner.inbox)),
            "inbox": self.inbox.lines(),
            "waits": len(runner.control) + len(runner.inbox),
            "work": work_lines(state),
            "timers": timer_lines(state),
            "held": [list(pair) for pair in self.run.debug.standing_still],
            "stops": stops.lines(self._breakpoints, self.set_at) if self._breakpoints is not None else [],
            "retry": retrying.offered(runner),
            "replay": replay_line(self.run),
            "children": len(state.side.children),
            "questions": [card.line(n, is_open=card.id in opened) for n, card in enumerate(asked.cards, 1)],
            "answers": [end.line() for end in asked.ends if end.id not in lines],
            "earlier": max(0, asked.over - len(asked.ends)),
            "error": self._error(state),
            "bye": False,
        }

    def _words(self) -> str:
        """The newest tick in a sentence."""
        if self._newest is None:
            return ""
        before, tick, after, commands = self._newest
        if self._told[0] != after.seq:
            self._told = after.seq, told(before, tick, after, commands)
        return self._told[1]

    def _error(self, state: RunState) -> dict[str, str] | None:
        runner = self.runner
        if runner.suspended or runner.blocked:
            return {
                "step": "",
                "type": status_words(state, runner.suspended, runner.blocked),
                "text": str(self.run.why()),
            }
        return failure_data(state)

    def twin_facts(self) -> tuple[Any, ...]:
        """What the twin depends on: equal facts give an equal twin."""
        runner, asked = self.runner, self.asked(TWIN_ENDS)
        status = status_words(runner.state, runner.suspended, runner.blocked)
        questions = [(card.id, card.request.deadline) for card in asked.cards], asked.needs, asked.over, asked.ends
        return runner.state.seq, status, self.layout is not None, questions

    def twin(self) -> Twin:
        """The static twin of the present state."""
        runner, asked = self.runner, self.asked(TWIN_ENDS)
        is_over = is_ended(runner.state)
        questions = [] if is_over else [asks(card.request) for card in asked.cards[:TWIN_ENDS]]
        if not is_over and asked.needs > len(questions):
            questions.append(f"{asked.needs - len(questions)} more")
        answers = [f"{end.step}: {end.subject} · {end.text}" for end in asked.ends]
        status = status_words(runner.state, runner.suspended, runner.blocked)
        return Twin(self.projection, runner.state, status, self.layout, answers, questions)


def _last_ends(runners: Sequence[Runner], most: int) -> list[End]:
    """How the questions ended that ended last; on whatever thread."""
    found: list[End] = []
    for runner in runners:
        questions = runner.questions
        late = {*list(questions.accepted)[-most:], *list(questions.closed)[-most:]}
        for number in late:
            opened = questions.all.get(number)
            if opened is None:  # from before a snapshot
                continue
            request: Request[Any] = Request(runner, opened)
            text, step = ending(request), request.step or "the start"
            if text:
                is_answer = number in questions.accepted
                found.append(End(request.id, step, subject(request), text, is_answer, request.ended_at or 0.0))
    return sorted(found, key=lambda end: end.at)[-most:]


def graph_data(run: Run[Any], graph: Graph, layout: Layout | None) -> dict[str, Any]:
    """What does not change while a run lives: its names, the drawn graph and the order of its nodes."""
    committer = run._runner.committer
    return {
        "run": run.run_id,
        "name": graph.name,
        "hash": graph.hash,
        "svg": live_svg(graph, layout) if layout is not None else "",
        "tall": layout.tall if layout is not None else True,
        "order": topological(graph),
        "nodes": [{"label": node.label, "shape": node.shape} for node in graph.nodes],
        "edges": [
            {"label": e.label, "source": e.source, "target": e.target, "kind": e.kind, "key": e.key}
            for e in graph.edges
        ],
        "store": f"kept in {committer.journal.place}" if committer is not None else "kept in memory",
        "twin": twin_class(run.run_id),
        "from": _origin(run),
    }


def _origin(run: Run[Any]) -> str:
    """Where a run comes from, in words; "" for one that began with its input."""
    parent = run._runner.state.head.parent
    if parent is not None:
        return f"child of {parent.run_id}"
    if is_replay(run):
        return f"replay of {run.debug.replayed.run_id}"
    forked = run.forked_from
    return f"fork of {forked[0]} at #{forked[1]}" if forked is not None else ""


def failure_data(state: RunState) -> dict[str, str] | None:
    """What a run failed with: the step, the exception's name and its words; None if it did not fail."""
    if state.failure is None:
        return None
    step = state.spec.steps[state.failed_step].name if state.failed_step >= 0 else ""
    name = state.failure.type.rpartition(":")[2].rpartition(".")[2]
    return {"step": step, "type": name, "text": state.failure.message[:2000]}
