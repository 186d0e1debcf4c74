"""What the panel shows, computed from ticks: pure functions and one running projection, no widgets.

`Projection` is told of each tick once and keeps the shown state of every node and edge, a row per tick, and who caused
what. A tick costs what it touched: steps are compared by identity, never looked through.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from flownb.core import commands as c
from flownb.core import ticks as t
from flownb.core.graph import Edge, Graph, graph_of, short
from flownb.core.outstanding import describe
from flownb.core.state import Delivery, RunState, StepState, is_ended, shown_status
from flownb.core.values import Out

#: The states of a node, everywhere; ticks carry the index. `common.mjs` has the same list, held by a test.
STATES = ("idle", "queued", "running", "person", "waiting", "done", "failed", "retrying", "skipped")
_INDEX = {name: i for i, name in enumerate(STATES)}

Bar = list[int] | None
#: [state, sub, bar]: the state by name, a few words, and of a fan-out's items [done, running, queued, failed].
Node = list[Any]

COLUMNS = ("kind", "step", "event", "t", "ms", "keys", "d", "e")


class Projection:
    """The shown side of one run, kept up to date tick by tick."""

    def __init__(self, first: RunState) -> None:
        spec = first.spec
        self.graph: Graph = graph_of(spec)
        self.nodes: list[Node] = [["idle", "", None] for _ in self.graph.nodes]
        self.edges: list[int] = [0] * len(self.graph.edges)
        self.rows: list[tuple[Any, ...]] = []
        #: seq -> seqs of the ticks that it caused.
        self.effects: dict[int, list[int]] = {}
        self._started_at = first.started_at
        self._along: dict[tuple[int, str], list[int]] = {}
        for i, edge in enumerate(self.graph.edges):
            self._along.setdefault((edge.source, edge.key), []).append(i)
        self._gatherers = [i for i, step in enumerate(spec.steps) if step.gathers]
        #: Open questions: their step; and how many each step has.
        self._asked: dict[int, int] = {}
        self._asks = [0] * len(spec.steps)

    def apply(self, before: RunState | None, tick: t.Tick, after: RunState, commands: Sequence[c.AnyCommand]) -> None:
        """One more tick."""
        touched = self._touched(before, after, commands)
        deltas = [delta for i in touched if (delta := self._step_delta(i, after)) is not None]
        deltas += self._ends(after)
        taken = self._edges_taken(before, tick)
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
        else:
            for i, (old, new) in enumerate(zip(before.steps, after.steps, strict=True)):
                if old is not new:
                    found.add(i)
            if before.joins is not after.joins:
                found.update(self._gatherers)
        for command in commands:
            if type(command) is c.OpenRequest and command.request.step >= 0:
                step = self._asked[command.request.id] = command.request.step
                self._asks[step] += 1
                found.add(step)
            elif type(command) is c.CloseRequest and command.request in self._asked:
                step = self._asked.pop(command.request)
                self._asks[step] -= 1
                found.add(step)
        if is_ended(after):
            found.update(range(len(after.steps)))
        return sorted(found)

    def _step_delta(self, i: int, after: RunState) -> list[Any] | None:
        node = step_node(after, i, self._asks[i], self.graph.nodes[i + 1].shape == "fan")
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
        outs: tuple[Out, ...]
        match tick:
            case t.RunStarted() | t.EventArrived():
                source, outs = 0, (tick.out,)
            case t.StepFinished() | t.EventsSent():
                if before is None or tick.step not in before.spec.index:
                    return []
                source, outs = before.spec.index[tick.step] + 1, tick.outs
            case t.RequestAnswered():
                request = before.requests.get(tick.request) if before is not None else None
                if request is None or request.delivery or request.step < 0:
                    return []
                source, outs = request.step + 1, (tick.answer,)
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


def step_node(state: RunState, i: int, asks: int, is_fan: bool) -> Node:
    """The shown state of one step: the most urgent of its deliveries."""
    step = state.steps[i]
    name, sub = _urgent(state, i, step, asks)
    return [name, sub, _bar(step) if is_fan and name != "idle" else None]


def _urgent(state: RunState, i: int, step: StepState, asks: int) -> tuple[str, str]:
    running, waiting = len(step.active), len(step.waiting)
    queued, total = len(step.queue), step.done + step.failed
    everything = total + running + waiting + queued
    if step.failed:
        return "failed", short_error(state, i)
    if is_ended(state) and any(a.step == i for a in state.abandoned):
        return "skipped", "cut off"
    if asks:
        return "person", f"{asks} questions" if asks > 1 else "asks you"
    if running:
        return "running", f"{step.done} of {everything}" if everything > 1 else ""
    if waiting:
        return "waiting", f"{step.done} of {everything}" if everything > 1 else "sleeps"
    gathered = _gathered(state, i)
    if gathered:
        return "waiting", gathered
    if queued:
        return "queued", f"{queued} queued"
    if step.done:
        return "done", f"done ×{step.done}" if step.done > 1 else "done"
    return "idle", ""


def _gathered(state: RunState, i: int) -> str:
    """ "3 of 8" for a gathering step whose fan-out is open (of several open ones, the oldest)."""
    if not state.spec.steps[i].gathers or not len(state.joins):
        return ""
    join = next(state.joins.values())
    if i not in join.targets:
        return ""
    return f"{len(join.got) // len(join.targets)} of {join.size}"


def _bar(step: StepState) -> Bar:
    return [step.done, len(step.active) + len(step.waiting), len(step.queue), step.failed]


def short_error(state: RunState, i: int) -> str:
    """Name of the exception that a step failed with."""
    if state.failure is not None and state.failed_step == i:
        return short(state.failure.type)
    return "failed"


def caption(tick: t.Tick, before: RunState | None) -> tuple[str, str, str, str]:
    """Words for a tick's row: kind, step, event, keys of the state that it wrote."""
    match tick:
        case t.StepFinished():
            events = f"{len(tick.outs)} × {short(tick.outs[0].key)}" if tick.fan and tick.outs else _names(tick.outs)
            return "finished", tick.step, "[]" if tick.fan and not tick.outs else events, ""
        case t.StepFailed():
            return "failed", tick.step, short(tick.failure.type), ""
        case t.EventsSent():
            return "sent", tick.step, _names(tick.outs), ""
        case t.StreamWritten():
            return "sent", tick.step, f"{short(tick.out.key)} to the stream", ""
        case t.StateWritten():
            return "wrote", tick.step, "", ", ".join((*tick.changes, *tick.dropped))
        case t.WaitOpened():
            if isinstance(tick.wait, t.Sleep):
                return "waiting", tick.step, f"sleeps {tick.wait.due_at - tick.at:.3g} s", ""
            return "asked", tick.step, short(tick.wait.question.key), ""
        case t.WaitWithdrawn():
            return "control", tick.step, "gave up a wait", ""
        case t.TimerFired():
            return _timer_caption(tick, before)
        case t.RequestAnswered():
            return "answered", _asker(tick.request, before), short(tick.answer.key), ""
        case t.RequestDisposed():
            return "control", _asker(tick.request, before), "question disposed of", ""
        case t.EventArrived():
            return "event", tick.step or "", short(tick.out.key), ""
        case t.RunStarted():
            return "started", "run", short(tick.out.key), ""
        case t.RunOpened():
            return "control", "run", "taken over", ""
        case t.GateClosed():
            return "paused", "run", tick.reason, ""
        case t.GateOpened():
            return "continued", "run", tick.reason, ""
        case t.StepsGranted():
            return "stepped", "run", f"{tick.n} granted" if tick.n > 1 else "", ""
        case t.CancelRequested():
            return "cancelled", "run", tick.reason, ""
        case t.QuietNoticed():
            return "waiting", "run", "nothing moves by itself", ""
    return "control", "", type(tick).__name__, ""


def _timer_caption(tick: t.TimerFired, before: RunState | None) -> tuple[str, str, str, str]:
    timer = before.timers.get(tick.timer) if before is not None else None
    if before is None or timer is None:
        return "timer", "", "", ""
    if timer.kind == "sleep":
        return "timer", before.spec.steps[timer.step].name, "slept", ""
    return "timer", _asker(timer.ref, before), "deadline", ""


def _asker(number: int, before: RunState | None) -> str:
    request = before.requests.get(number) if before is not None else None
    return (
        before.spec.steps[request.step].name if before is not None and request is not None and request.step >= 0 else ""
    )


def _names(outs: Sequence[Out]) -> str:
    return ", ".join(short(out.key) for out in outs)


def delivery_of(tick: t.Tick, before: RunState | None) -> Delivery | None:
    """The delivery that a tick of a step belongs to, as it was before it."""
    key, name = getattr(tick, "delivery", None), getattr(tick, "step", None)
    if before is None or key is None or name not in before.spec.index:
        return None
    step = before.steps[before.spec.index[name]]
    return step.active.get(key) or step.waiting.get(key)


def _took_ms(tick: t.Tick, before: RunState | None) -> int:
    if not isinstance(tick, (t.StepFinished, t.StepFailed)):
        return 0
    delivery = delivery_of(tick, before)
    return max(1, round(1000 * (tick.at - delivery.at))) if delivery is not None else 0


def causes(tick: t.Tick, before: RunState | None) -> list[int]:
    """seqs of the ticks that led to one: who sent its event, who asked its question."""
    delivery = delivery_of(tick, before)
    if delivery is not None:
        return [delivery.cause]
    if before is None:
        return []
    number = getattr(tick, "request", None)
    if isinstance(tick, t.TimerFired):
        timer = before.timers.get(tick.timer)
        if timer is None:
            return []
        if timer.kind == "sleep":
            sleeper = before.steps[timer.step].waiting.get(timer.ref)
            return [next(iter(sleeper.ledger))] if sleeper is not None and sleeper.ledger is not None else []
        number = timer.ref
    request = before.requests.get(number) if number is not None else None
    return [request.opened] if request is not None else []


def queue_lines(state: RunState, inbox: Iterable[t.Tick], limit: int = 60) -> list[list[str]]:
    """What comes next and who waits: `[[what, text], ...]`, what in next, running, queued, waiting, timer, person.

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
        for delivery in islice(step.queue, each):
            yield ["queued", f"{spec.name} · {describe(delivery.out)}"]
    for request in state.requests.values():
        name = steps[request.step].name if request.step >= 0 else "start"
        yield ["person", f"{name} asks {short(request.question.key)}"]
    for timer in state.timers.values():
        if timer.kind == "sleep":
            yield ["timer", f"{steps[timer.step].name} sleeps"]


def counts_line(projection: Projection, state: RunState) -> str:
    """One line for the compact panel: the most telling step."""
    for node, shown in zip(projection.graph.nodes, projection.nodes, strict=True):
        if shown[0] in ("running", "waiting") and shown[1]:
            return f"{' '.join(node.label.split())} {shown[1]}"
    return ""


def status_words(state: RunState, suspended: str, blocked: str) -> str:
    """The status that the panel shows."""
    if suspended:
        return "suspended"
    return "blocked" if blocked else shown_status(state)


__all__ = ["COLUMNS", "STATES", "Edge", "Projection", "caption", "causes", "queue_lines", "status_words"]
