"""What the panel shows, computed from ticks: pure functions and one running projection, no widgets.

`Projection` is told of each tick once and keeps the shown state of every node and edge, a row per tick, and who caused
what. A tick costs what it touched: steps are compared by identity, never looked through.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from flownb.core import commands as c
from flownb.core import ticks as t
from flownb.core.causes import causes, delivery_of
from flownb.core.changes import differing
from flownb.core.graph import Edge, Graph, graph_of, short, undeclared
from flownb.core.outstanding import describe
from flownb.core.spec import Spec
from flownb.core.state import RunState, StepState, is_ended, shown_status
from flownb.core.urgency import STATES, is_retrying, urgent
from flownb.core.values import Out
from flownb.wording import hand_words

#: Ticks carry the index of a state. `common.mjs` has the same list, held by a test.
_INDEX = {name: i for i, name in enumerate(STATES)}

Bar = list[int] | None
#: [state, sub, bar]: the state by name, a few words, and of a fan-out's items [done, running, queued, failed].
Node = list[Any]

COLUMNS = ("kind", "step", "event", "t", "ms", "keys", "d", "e")


class Projection:
    """The shown side of one run, kept up to date tick by tick."""

    def __init__(self, first: RunState) -> None:
        self.rows: list[tuple[Any, ...]] = []
        #: seq -> seqs of the ticks that it caused.
        self.effects: dict[int, list[int]] = {}
        self._started_at = first.started_at
        #: Open questions: the name of their step.
        self._asked: dict[int, str] = {}
        self._draw(first.spec)

    def _draw(self, spec: Spec) -> None:
        """Begin with the drawing of a definition; nothing of it is reached yet."""
        self.graph: Graph = graph_of(spec)
        self.nodes: list[Node] = [["idle", "", None] for _ in self.graph.nodes]
        self.edges: list[int] = [0] * len(self.graph.edges)
        self._along: dict[tuple[int, str], list[int]] = {}
        for i, edge in enumerate(self.graph.edges):
            self._along.setdefault((edge.source, edge.key), []).append(i)
        #: What steps sent and to whom, as far as its edges are drawn.
        self._drawn: set[tuple[str, str, str | None]] = set()
        self._gatherers = [i for i, step in enumerate(spec.steps) if step.gathers]
        #: Per step: its open questions, and its deliveries that are tried again later.
        asked = list(self._asked.values())
        self._asks = [asked.count(step.name) for step in spec.steps]
        self._retrying = [0] * len(spec.steps)

    def _draw_undeclared(self, spec: Spec, tick: t.StepFinished | t.EventsSent) -> None:
        """What a step sends though no hint says so gets an edge too, when it is first seen (R2.19)."""
        step = spec.index.get(tick.step, -1)
        target = tick.target if isinstance(tick, t.EventsSent) else None
        for out in tick.outs if step >= 0 else ():
            sent = tick.step, out.key, target
            if sent in self._drawn:
                continue
            self._drawn.add(sent)
            along = self._along.get((step + 1, out.key), [])
            known = {self.graph.edges[i].target for i in along}
            more = [edge for edge in undeclared(spec, step, out, target) if edge.target not in known]
            if more:
                first = len(self.graph.edges)
                self.graph = replace(self.graph, edges=(*self.graph.edges, *more))
                self.edges += [0] * len(more)
                self._along[step + 1, out.key] = [*along, *range(first, first + len(more))]

    def apply(self, before: RunState | None, tick: t.Tick, after: RunState, commands: Sequence[c.AnyCommand]) -> None:
        """One more tick."""
        was = before
        if before is not None and before.spec is not after.spec:  # a newer definition may have other steps
            self._draw(after.spec)
            was = None
        touched = self._touched(was, after, commands)
        deltas = [delta for i in touched if (delta := self._step_delta(i, after)) is not None]
        deltas += self._ends(after)
        if was is not None and isinstance(tick, (t.StepFinished, t.EventsSent)):
            self._draw_undeclared(after.spec, tick)
        taken = self._edges_taken(before, tick) if was is before else []
        for edge in taken:
            self.edges[edge] += 1
        kind, step, event, keys = caption(tick, before)
        at = round(tick.at - self._started_at, 3)
        self.rows.append((kind, step, event, at, _took_ms(tick, before), keys, deltas, taken))
        for cause in causes(tick, before):
            self.effects.setdefault(cause, []).append(after.seq)

    def _touched(self, before: RunState | None, after: RunState, commands: Sequence[c.AnyCommand]) -> list[int]:
        found: set[int] = set()
        if before is None:
            found.update(range(len(after.steps)))
            for i, step in enumerate(after.steps):
                self._retrying[i] = sum(is_retrying(d) for d in step.waiting.values())
        else:
            for i, (old, new) in enumerate(zip(before.steps, after.steps, strict=True)):
                if old is not new:
                    found.add(i)
                    for _, was, now in differing(old.waiting, new.waiting):
                        self._retrying[i] += is_retrying(now) - is_retrying(was)
            if before.joins is not after.joins:
                found.update(self._gatherers)
        steps = after.spec.steps
        for command in commands:
            if type(command) is c.OpenRequest and command.request.step >= 0:
                i = command.request.step
                if command.request.id not in self._asked:
                    self._asked[command.request.id] = steps[i].name
                    self._asks[i] += 1
                found.add(i)
            elif type(command) is c.CloseRequest and command.request in self._asked:
                i = after.spec.index[self._asked.pop(command.request)]
                self._asks[i] -= 1
                found.add(i)
        if is_ended(after):
            found.update(range(len(after.steps)))
        return sorted(found)

    def _step_delta(self, i: int, after: RunState) -> list[Any] | None:
        is_fan = self.graph.nodes[i + 1].shape == "fan"
        node = step_node(after, i, self._asks[i], is_fan, self._retrying[i])
        if node == self.nodes[i + 1]:
            return None
        self.nodes[i + 1] = node
        return [i + 1, _INDEX[node[0]], node[1], node[2]]

    def _ends(self, after: RunState) -> list[list[Any]]:
        deltas = []
        last = len(self.nodes) - 1
        if self.nodes[0][0] == "idle":
            self.nodes[0] = ["done", "", None]
            deltas.append([0, _INDEX["done"], "", None])
        if is_ended(after) and self.nodes[last][0] == "idle":
            state = {"completed": "done", "failed": "skipped", "cancelled": "skipped"}.get(after.status, "skipped")
            self.nodes[last] = [state, "", None]
            deltas.append([last, _INDEX[state], "", None])
        return deltas

    def _edges_taken(self, before: RunState | None, tick: t.Tick) -> list[int]:
        outs: Sequence[Out]
        match tick:
            case t.RunStarted() | t.EventArrived():
                source, outs = 0, (tick.out,)
            case t.StepFinished() | t.EventsSent():
                if before is None or tick.step not in before.spec.index:
                    return []
                source, outs = before.spec.index[tick.step] + 1, tick.outs
            case t.RequestAnswered() | t.RequestDisposed() | t.TimerFired():
                source, outs = _answered(before, tick)
            case _:
                return []
        taken: list[int] = []
        for out in outs:
            taken += self._along.get((source, out.key), ())
        return taken

    def columns(self, start: int, stop: int) -> dict[str, list[Any]]:
        """Rows `start` to `stop` (excluded), as columns: `{"kind": [...], ...}`."""
        rows = self.rows[start:stop]
        return {name: [row[i] for row in rows] for i, name in enumerate(COLUMNS)}


def _answered(
    before: RunState | None, tick: t.RequestAnswered | t.RequestDisposed | t.TimerFired
) -> tuple[int, Sequence[Out]]:
    """What goes on in the branch of a question that was returned or sent, and the node that asked it."""
    number = 0
    if before is not None and isinstance(tick, t.TimerFired):
        timer = before.timers.get(tick.timer)
        number = timer.ref if timer is not None and timer.kind == "deadline" else 0
    elif not isinstance(tick, t.TimerFired):
        number = tick.request
    request = before.requests.get(number) if before is not None else None
    if request is None or request.delivery or request.step < 0:
        return 0, ()
    if isinstance(tick, t.RequestAnswered):
        return request.step + 1, (tick.answer,)
    out = request.default if isinstance(tick, t.TimerFired) and request.default is not None else tick.closed
    return request.step + 1, () if out is None else (out,)


def step_node(state: RunState, i: int, asks: int, is_fan: bool, retrying: int = 0) -> Node:
    """The shown state of one step: the most urgent of its deliveries.

    Args:
        state: The run's.
        i: Index of the step.
        asks: Its open questions.
        is_fan: It takes the elements of a fan-out.
        retrying: Its deliveries that are tried again later.
    """
    step = state.steps[i]
    name, sub = urgent(state, i, asks, retrying)
    return [name, sub, _bar(step) if is_fan and name != "idle" else None]


def _bar(step: StepState) -> Bar:
    return [step.done, len(step.active) + len(step.waiting), len(step.queue), step.failed]


Caption = tuple[str, str, str, str]


def caption(tick: t.Tick, before: RunState | None) -> Caption:
    """Words for a tick's row: kind, step, event, keys of the state that it wrote."""
    kind, step, event, keys = _caption(tick, before)
    return kind, step, f"{event} ({hand_words(tick.hand)})" if tick.hand is not None else event, keys


def _caption(tick: t.Tick, before: RunState | None) -> Caption:
    match tick:
        case t.StepFinished():
            events = f"{len(tick.outs)} × {short(tick.outs[0].key)}" if tick.fan and tick.outs else _names(tick.outs)
            return "finished", tick.step, "[]" if tick.fan and not tick.outs else events, ""
        case t.StepFailed():
            again = f", again in {max(0.0, tick.retry_at - tick.at):.3g} s" if tick.retry_at is not None else ""
            return "failed", tick.step, short(tick.failure.type) + again, ""
        case t.EventsSent():
            return "sent", tick.step, _names(tick.outs), ""
        case t.StreamWritten():
            return "sent", tick.step, f"{short(tick.out.key)} to the stream", ""
        case t.StreamRewound():
            return "control", tick.step, "writes its stream anew", ""
        case t.StateWritten():
            return "wrote", tick.step, "", ", ".join((*tick.changes, *tick.dropped))
        case t.ValueRecorded():
            return "wrote", tick.step, f"{tick.name} for its next start", ""
        case t.WaitOpened():
            return _wait_caption(tick)
        case t.WaitWithdrawn():
            return "control", tick.step, "gave up a wait", ""
        case t.TimerFired():
            return _timer_caption(tick, before)
        case t.RequestAnswered():
            said = f"{short(tick.answer.key)} ({tick.decision})" if tick.decision else short(tick.answer.key)
            return "answered", _asker(tick.request, before), said, ""
        case t.RequestDisposed():
            said = "asks something else" if tick.superseded else "question disposed of"
            return "control", _asker(tick.request, before), said, ""
        case t.RequestHeld():
            return "control", _asker(tick.request, before), "countdown stopped", ""
        case t.ChildChanged() | t.ChildFinished():
            return _child_caption(tick, before)
        case t.EventArrived():
            return "event", tick.step or "", short(tick.out.key), ""
    return _control_caption(tick)


def _control_caption(tick: t.Tick) -> Caption:
    match tick:
        case t.RunStarted():
            return "started", "run", short(tick.out.key), ""
        case t.RunForked():
            return "started", "run", f"from tick {tick.base_seq} of {tick.base}", ""
        case t.RunOpened():
            return "control", "run", "taken over", ""
        case t.GateClosed():
            return "paused", "run", tick.reason, ""
        case t.BreakpointHit():
            return "paused", "run", f"breakpoint {tick.breakpoint}{f': {tick.what}' if tick.what else ''}", ""
        case t.GateOpened():
            return "continued", "run", tick.reason, ""
        case t.StepsGranted():
            return "stepped", "run", f"{tick.n} granted" if tick.n > 1 else "", ""
        case t.EventEdited() | t.EventDropped():
            did = "edited" if isinstance(tick, t.EventEdited) else "dropped"
            return "control", tick.step, f"{_names(tick.original)} {did}{f' by {tick.by}' if tick.by else ''}", ""
        case t.HoldChanged():
            return "control", "run", f"held open: {tick.reason}" if tick.reason else "held open no more", ""
        case t.DefinitionAdopted():
            return "control", "run", "takes newer definitions", ""
        case t.CancelRequested():
            return "cancelled", "run", tick.reason, ""
        case t.RunSuspended():
            return "control", "run", f"suspended: {tick.reason}" if tick.reason else "suspended", ""
        case t.QuietNoticed():
            return "waiting", "run", "nothing moves by itself", ""
    return "control", "", type(tick).__name__, ""


def _wait_caption(tick: t.WaitOpened) -> Caption:
    match tick.wait:
        case t.Sleep():
            return "waiting", tick.step, f"sleeps {tick.wait.due_at - tick.at:.3g} s", ""
        case t.Ask():
            return "asked", tick.step, short(tick.wait.question.key), ""
        case t.Await():
            if tick.wait.question is not None:
                return "asked", tick.step, short(tick.wait.question.key), ""
            return "waiting", tick.step, f"waits for {short(tick.wait.event)}", ""
        case t.RunChild():
            return "waiting", tick.step, f"runs {short(tick.wait.workflow)}", ""


#: What the other timers do, by their kind.
_TIMERS = {
    "sleep": "slept",
    "retry": "tries again",
    "rate": "may start again",
    "wait": "waited in vain",
}


def _timer_caption(tick: t.TimerFired, before: RunState | None) -> Caption:
    timer = before.timers.get(tick.timer) if before is not None else None
    if before is None or timer is None:
        return "timer", "", "", ""
    if timer.kind == "deadline":
        return "timer", _asker(timer.ref, before), "deadline", ""
    if timer.kind == "timeout":
        return "timer", "run", "its time is over", ""
    if timer.kind == "grace":
        return "timer", "run", "the time of its @on_cancel steps is over", ""
    return "timer", before.spec.steps[timer.step].name, _TIMERS[timer.kind], ""


def _child_caption(tick: t.ChildChanged | t.ChildFinished, before: RunState | None) -> Caption:
    child = before.side.children.get(tick.child) if before is not None else None
    step = before.spec.steps[child.step].name if before is not None and child is not None else ""
    name = short(child.workflow) if child is not None else "child"
    if isinstance(tick, t.ChildChanged):
        return "waiting", step, f"{name} {'goes on' if tick.active else 'waits'}", ""
    kind = "event" if tick.status == "completed" else "control"
    return kind, step, f"{name} {tick.status.replace('_', ' ')}", ""


def _asker(number: int, before: RunState | None) -> str:
    request = before.requests.get(number) if before is not None else None
    return (
        before.spec.steps[request.step].name if before is not None and request is not None and request.step >= 0 else ""
    )


def _names(outs: Sequence[Out]) -> str:
    return ", ".join(short(out.key) for out in outs)


def _took_ms(tick: t.Tick, before: RunState | None) -> int:
    if not isinstance(tick, (t.StepFinished, t.StepFailed)):
        return 0
    delivery = delivery_of(tick, before)
    return max(1, round(1000 * (t.came_at(tick) - delivery.at))) if delivery is not None else 0


def queue_lines(state: RunState, inbox: Iterable[t.Tick], limit: int = 60) -> list[list[str]]:
    """What comes next and who waits: `[[what, text], ...]`, what in next, running, queued, person, timer, waiting.

    At most `limit` lines. Nothing is read beyond them: it is asked for 20 times a second, of queues of any length.
    """
    return list(islice(_queue_lines(state, inbox, limit // 4), limit))


def _queue_lines(state: RunState, inbox: Iterable[t.Tick], each: int) -> Iterator[list[str]]:
    """The lines; of the inbox, and of each step's running and queued deliveries, at most `each`."""
    steps = state.spec.steps
    for tick in islice(inbox, each):
        kind, name, event, _ = caption(tick, state)
        yield ["next", " ".join(filter(None, (name, kind, event)))]
    for spec, step in zip(steps, state.steps, strict=True):
        for delivery in islice(step.active.values(), each):
            yield ["running", f"{spec.name} · {describe(delivery.out)}"]
        for number in islice(chain(step.front, step.again), each):  # woken, or starting again: ahead of the queue
            due = step.waiting.get(number)
            if due is not None and due.due:
                yield ["queued", f"{spec.name} · {describe(due.out)}"]
        for delivery in islice(step.queue, each):
            yield ["queued", f"{spec.name} · {describe(delivery.out)}"]
    for key, i in islice(state.side.held.items(), each):
        held = state.steps[i].waiting[key]
        yield ["queued", f"{steps[i].name} · {describe(held.out)}, held back by a breakpoint"]
    for request in state.requests.values():
        name = steps[request.step].name if request.step >= 0 else "start"
        yield ["person", f"{name} asks {short(request.question.key)}"]
    for timer in state.timers.values():
        if timer.kind in ("sleep", "retry"):
            yield ["timer", f"{steps[timer.step].name} {'sleeps' if timer.kind == 'sleep' else 'tries again'}"]
    for waiter in state.side.waiters.values():
        if not waiter.request:
            yield ["waiting", f"{steps[waiter.step].name} waits for {short(waiter.event)}"]
    for child in state.side.children.values():
        yield ["waiting", f"{steps[child.step].name} runs {short(child.workflow)}"]


def counts_line(projection: Projection, state: RunState) -> str:
    """One line for the compact panel: the most telling step."""
    for node, shown in zip(projection.graph.nodes, projection.nodes, strict=True):
        if shown[0] in ("running", "retrying", "waiting") and shown[1]:
            return f"{' '.join(node.label.split())} {shown[1]}"
    return ""


def status_words(state: RunState, suspended: str, blocked: str) -> str:
    """The status that the panel shows."""
    if suspended:
        return "suspended"
    return "blocked" if blocked else shown_status(state)


__all__ = [
    "COLUMNS",
    "STATES",
    "Edge",
    "Projection",
    "caption",
    "causes",
    "delivery_of",
    "queue_lines",
    "status_words",
]
