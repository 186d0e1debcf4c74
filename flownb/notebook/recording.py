"""A run as data for a page without a kernel: what the panel would be told, and what it would ask for, tick by tick.

One fold over the journal. Rows are those of the panel; payloads, state changes and logs are there up to a size, first
those of the telling ticks (failures, questions, answers), then of the newest, and what is left out is said in words.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flownb.core import commands as c
from flownb.core import ticks as t
from flownb.core.causes import causes, delivery_of
from flownb.core.graph import Graph
from flownb.core.reduce import advance
from flownb.core.state import RunState, is_ended, shown_status
from flownb.narration import told
from flownb.notebook.carried import carried
from flownb.notebook.detail import user_values
from flownb.notebook.differences import differences
from flownb.notebook.viewmodel import Projection, caption, queue_lines
from flownb.runtime.capture import StepLog

__all__ = ["DETAIL_BYTES", "KEPT", "Recording", "record", "safe_json"]

#: Ticks that a page has at most, the newest; `history.mjs` keeps as many.
KEPT = 10_000
#: Payloads, state changes and logs of a page at most.
DETAIL_BYTES = 5_000_000
#: Of one tick: lines of its queue, effects, characters of a field (a traceback is one) and of its log.
_QUEUE = 24
_EFFECTS = 50
_TEXT = 20_000
#: Ticks whose details are kept before those of all others.
_TELLING = frozenset({"failed", "asked", "answered", "cancelled", "started", "event"})


@dataclass
class Recording:
    """All that a page shows of a run, but for the drawing."""

    #: The newest definition, which the rows speak of.
    graph: Graph
    total: int
    #: Index of the oldest tick that is kept.
    first: int
    #: Shown nodes and edges before that one.
    start: dict[str, Any]
    columns: dict[str, list[Any]]
    #: A sentence for each tick that is kept.
    told: list[str]
    #: `[seq, status, open questions, gate closed]`, where one of them changed.
    status: list[list[Any]]
    #: Different lines of queues, and for each tick the places of its own.
    lines: list[list[str]]
    queues: list[list[int]]
    #: By seq, as text that is JSON; a log is a place in `logs`.
    details: dict[int, str]
    logs: list[str]
    began_at: float
    #: Shown nodes and edges at the end.
    end: tuple[list[list[Any]], list[int]]
    #: What is not there, in sentences.
    left_out: list[str] = field(default_factory=list)

    def json(self, **more: Any) -> str:
        """All of it, and `more`, as JSON that may stand in a script element."""
        plain = {
            name: getattr(self, name)
            for name in ("total", "first", "start", "told", "status", "lines", "queues", "logs", "began_at", "left_out")
        }
        head = safe_json({**plain, "cols": self.columns, **more})
        details = ",".join(f'"{seq}":{text}' for seq, text in self.details.items())
        return f'{head[:-1]},"details":{{{details}}}}}'


def safe_json(value: Any) -> str:
    """`value` as JSON in ASCII that cannot end the script element it stands in, nor begin a comment there."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def record(
    journal: Sequence[t.AnyTick],
    *,
    status: str = "",
    logs: Mapping[str, StepLog] | None = None,
    kept: int = KEPT,
    detail_bytes: int = DETAIL_BYTES,
) -> Recording:
    """Fold a journal into a recording.

    Args:
        journal: All ticks of a run, from the first one on; at least one.
        status: What people are told of the run; "" is what its ticks say.
        logs: What its steps wrote, by step.
        kept: So many of the newest ticks are kept.
        detail_bytes: So much of their details is, as JSON.
    """
    made = _Making(journal, logs or {}, max(0, len(journal) - kept))
    state: RunState | None = None
    for tick in journal:
        after, commands = advance(state, tick)
        made.note(state, tick, after, commands)
        state = after
    assert state is not None, "a journal has a first tick"
    return made.recording(state, status, detail_bytes)


class _Making:
    def __init__(self, journal: Sequence[t.AnyTick], logs: Mapping[str, StepLog], first: int) -> None:
        self._first, self._total = first, len(journal)
        self._projection: Projection
        self._start: dict[str, Any] = {}
        #: Graphs of older definitions, each with the number of rows that speak of it and of those before.
        self._older: list[tuple[int, Graph]] = []
        self._told: list[str] = []
        self._status: list[list[Any]] = []
        self._lines: dict[tuple[str, str], int] = {}
        self._queues: list[list[int]] = []
        self._details: dict[int, dict[str, Any]] = {}
        self._said = _texts(logs)
        self._logs: dict[str, int] = {}

    def note(self, before: RunState | None, tick: t.AnyTick, after: RunState, commands: Sequence[c.AnyCommand]) -> None:
        """One more tick."""
        if before is None:
            self._projection = Projection(after)
        shown = self._projection
        if after.seq - 1 <= self._first:  # the last one that is left out, or nothing
            self._start = {"nodes": [list(node) for node in shown.nodes], "edges": list(shown.edges)}
        graph = shown.graph
        shown.apply(before, tick, after, commands)
        if before is not None and before.spec is not after.spec:
            self._older.append((len(shown.rows) - 1, graph))
        status = [shown_status(after), len(after.requests), bool(after.gate) and not is_ended(after)]
        if not self._status or self._status[-1][1:] != status:
            self._status.append([after.seq, *status])
        if len(shown.rows) <= self._first:
            return
        self._told.append(told(before, tick, after, commands))
        lines = queue_lines(after, (), _QUEUE)
        self._queues.append([self._lines.setdefault((what, text), len(self._lines)) for what, text in lines])
        self._details[after.seq] = self._detail(before, tick, after)

    def _detail(self, before: RunState | None, tick: t.AnyTick, after: RunState) -> dict[str, Any]:
        """What the inspector shows of a tick, as `detail` gives it to the panel, but for its effects."""
        kind, step, event, _ = caption(tick, before)
        delivery = delivery_of(tick, before)
        said = self._said.get((step, delivery.id), "")[-_TEXT:] if delivery is not None else ""
        is_same = before is not None and before.user is after.user
        return {
            "title": event or kind,
            "route": " ".join(filter(None, (step, kind))),
            "payload": [[name, text[:_TEXT]] for name, text in carried(tick)],
            "state": [] if is_same else differences(user_values(before), user_values(after)),
            "causes": causes(tick, before),
            "log": self._logs.setdefault(said, len(self._logs)) if said else -1,
        }

    def recording(self, state: RunState, status: str, detail_bytes: int) -> Recording:
        shown = self._projection
        if status and status != self._status[-1][1]:
            self._status.append([state.seq, status, *self._status[-1][2:]])
        columns = shown.columns(self._first, self._total)
        begin = 0
        for stop, graph in self._older:
            _rename(columns, range(begin, max(0, stop - self._first)), graph, shown.graph)
            begin = max(0, stop - self._first)
        older = next((graph for stop, graph in self._older if self._first <= stop), None)
        start = self._start if older is None else _renamed_start(self._start, older, shown.graph)
        details, logs, left = self._fitting(columns["kind"], detail_bytes)
        return Recording(
            graph=shown.graph,
            total=self._total,
            first=self._first,
            start=start,
            columns=columns,
            told=self._told,
            status=self._status,
            lines=[list(line) for line in self._lines],
            queues=self._queues,
            details=details,
            logs=logs,
            began_at=state.started_at,
            end=(shown.nodes, shown.edges),
            left_out=[*([_missing_ticks(self._first, self._total)] if self._first else []), *left],
        )

    def _fitting(self, kinds: Sequence[str], room: int) -> tuple[dict[int, str], list[str], list[str]]:
        """The details that there is room for, the telling ticks first, of each kind the newest first; their logs; and
        what is left out."""
        order = sorted(self._details, key=lambda seq: (kinds[seq - 1 - self._first] not in _TELLING, -seq))
        texts, needed = list(self._logs), {-1}
        kept: dict[int, str] = {}
        for seq in order:
            detail = self._details[seq]
            text = safe_json({**detail, "effects": self._projection.effects.get(seq, [])[:_EFFECTS]})
            log = detail["log"]
            room -= len(text) + (0 if log in needed else len(texts[log]))
            if room < 0:
                break
            needed.add(log)
            kept[seq] = text
        logs = [text if place in needed else "" for place, text in enumerate(texts)]
        missing = len(order) - len(kept)
        return kept, logs, [_missing_details(missing, len(order))] if missing else []


def _missing_ticks(n: int, of: int) -> str:
    return f"The first {n:,} ticks are left out: this page has the newest {of - n:,}."


def _missing_details(n: int, of: int) -> str:
    return (
        f"Fields, state changes and logs of {n:,} of {of:,} ticks are left out for their size; failures, questions, "
        "answers and the newest ticks have theirs."
    )


def _texts(logs: Mapping[str, StepLog]) -> dict[tuple[str, int], str]:
    """What each delivery wrote."""
    found: dict[tuple[str, int], list[str]] = {}
    for step, log in logs.items():
        for _, delivery, text in tuple(log.lines):  # steps may still write
            found.setdefault((step, delivery), []).append(text)
    return {key: "".join(texts) for key, texts in found.items()}


# -- a run that took newer definitions: all its rows speak of the last one, by the names of steps and events


def _places(old: Graph, new: Graph) -> tuple[dict[int, int], dict[int, int]]:
    """Where the nodes and edges of one graph are in another one; what is not there is not named."""
    last = len(new.nodes) - 1
    by_label = {node.label: i for i, node in enumerate(new.nodes[1:-1], 1)}
    nodes = {0: 0, len(old.nodes) - 1: last}
    nodes |= {i: by_label[n.label] for i, n in enumerate(old.nodes[1:-1], 1) if n.label in by_label}
    by_ends = {(e.source, e.target, e.key): i for i, e in enumerate(new.edges)}
    edges: dict[int, int] = {}
    for i, e in enumerate(old.edges):
        place = by_ends.get((nodes.get(e.source, -1), nodes.get(e.target, -1), e.key))
        if place is not None:
            edges[i] = place
    return nodes, edges


def _rename(columns: dict[str, list[Any]], rows: range, old: Graph, new: Graph) -> None:
    """Let rows that speak of `old` speak of `new`."""
    nodes, edges = _places(old, new)
    for i in rows:
        columns["d"][i] = [[nodes[d[0]], *d[1:]] for d in columns["d"][i] if d[0] in nodes]
        columns["e"][i] = [edges[e] for e in columns["e"][i] if e in edges]


def _renamed_start(start: dict[str, Any], old: Graph, new: Graph) -> dict[str, Any]:
    nodes, edges = _places(old, new)
    blank: dict[str, Any] = {"nodes": [["idle", "", None] for _ in new.nodes], "edges": [0] * len(new.edges)}
    for i, place in nodes.items():
        blank["nodes"][place] = start["nodes"][i]
    for i, place in edges.items():
        blank["edges"][place] = start["edges"][i]
    return blank
