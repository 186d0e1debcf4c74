"""The static twin: the last state as HTML and words, for wherever no kernel lives.

It is a second output of the cell. The live view hides it; in a dead kernel, on GitHub, in nbconvert and in an untrusted
notebook it is what is left. The graph is an `<img>`: inline SVG turns into a run of words where HTML is sanitised.
"""

from __future__ import annotations

import base64
import hashlib
import time
from html import escape
from typing import Any

from flownb.core.graph import short
from flownb.core.state import RunState
from flownb.notebook.layout import Layout
from flownb.notebook.svg import twin_svg
from flownb.notebook.viewmodel import Projection

LAST_TICKS = 8


def twin_class(run_id: str) -> str:
    """The class by which the live view finds its twin; ids of runs may hold anything that CSS does not like."""
    return hashlib.sha256(run_id.encode()).hexdigest()[:12]


class Twin:
    """What the second output shows."""

    def __init__(
        self, projection: Projection, state: RunState, status: str, layout: Layout | None, answers: list[str]
    ) -> None:
        self._projection, self._state, self._status = projection, state, status
        self._layout, self._answers = layout, answers

    def words(self) -> str:
        """The state in one sentence, for plain text and for the picture's description."""
        names: dict[str, list[str]] = {}
        for node, shown in zip(self._projection.graph.nodes, self._projection.nodes, strict=True):
            names.setdefault(shown[0], []).append(" ".join(node.label.split()))
        parts = [f"run {self._state.run_id} of {self._state.spec.name}: {self._status} at tick {self._state.seq}"]
        for state, word in (
            ("failed", "failed"),
            ("person", "waits for a person"),
            ("running", "running"),
            ("done", "done"),
        ):
            if names.get(state):
                parts.append(f"{word}: {', '.join(names[state])}")
        if self._state.failure is not None:
            parts.append(f"{short(self._state.failure.type)}: {self._state.failure.message}")
        return "; ".join(parts)

    def html(self) -> str:
        state = self._state
        words = self.words()
        svg = twin_svg(self._projection.graph, self._layout, self._projection.nodes, self._projection.edges)
        picture = base64.b64encode(svg.encode("utf-8", "replace")).decode()
        taken = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(state.at))
        rows = self._projection.rows
        first = max(0, len(rows) - LAST_TICKS)
        table = "".join(
            f"<tr><td>{first + i + 1}</td><td>{escape(f'{row[1]} {row[0]}')}</td><td>{escape(row[2])}</td>"
            f"<td>{row[4] or ''}</td></tr>"
            for i, row in enumerate(rows[first:])
        )
        error = (
            f"<p><b>{escape(short(state.failure.type))}</b>: {escape(state.failure.message)}</p>"
            if state.failure
            else ""
        )
        answers = "".join(f"<li>{escape(text)}</li>" for text in self._answers[-LAST_TICKS:])
        answered = f"<p>Answers</p><ul>{answers}</ul>" if answers else ""
        name = f"flownb-twin-{twin_class(state.run_id)}"
        return (
            f'<div class="{name} {_NO_MATH}">{_style(name)}<p><b>{escape(state.spec.name)}</b> run '
            f"{escape(state.run_id)} · {escape(self._status)} at tick {state.seq} · last state, taken {taken}</p>"
            f'<div style="display:flex;flex-wrap:wrap;align-items:flex-start;gap:8px 24px"><img alt="{escape(words)}" '
            f'src="data:image/svg+xml;base64,{picture}"><div style="flex:1 1 320px">{error}{answered}'
            "<details><summary>last ticks</summary><table><thead><tr><th>#</th><th>what</th><th>event</th>"
            f"<th>ms</th></tr></thead><tbody>{table}</tbody></table></details></div></div></div>"
        )

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        return {"text/html": self.html(), "text/plain": self.words()}


#: Names may hold dollar signs; without these classes MathJax, new and old, would set what is between two of them.
_NO_MATH = "mathjax_ignore tex2jax_ignore"


def _style(name: str) -> str:
    """Rules for a twin, by its class.

    The first hides what stands in the panel's place without a kernel, "Error displaying widget: model not found": that
    is bare text, while a live view and every other output are made of elements, so these are never hidden.
    """
    before = f".jp-OutputArea-child:has(+.jp-OutputArea-child .{name})"
    hidden = f"{before}>.jp-OutputArea-output:not(:has(*)){{display:none}}"
    return f"<style>{hidden}.{name} :is(td,th){{text-align:left!important}}</style>"
