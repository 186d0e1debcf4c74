"""The static twin: the last state as HTML and words, for wherever no kernel lives.

It is a second output of the cell. The live view hides it; in a dead kernel, on GitHub, in nbconvert and in an untrusted
notebook it is what is left. The graph is an `<img>`: inline SVG turns into a run of words where HTML is sanitised.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Sequence
from html import escape
from typing import Any

from flownb.core.graph import short
from flownb.core.state import RunState
from flownb.notebook.layout import NAME_CHARS, Layout, shorten
from flownb.notebook.svg import twin_svg
from flownb.notebook.viewmodel import Projection

#: Ticks and answers that are listed, and steps that are named for each state.
LAST_TICKS = 8
LAST_NAMES = 12
TWIN_HTML_BYTES = 30_000


def twin_class(run_id: str) -> str:
    """The class by which the live view finds its twin; ids of runs may hold anything that CSS does not like."""
    return hashlib.sha256(run_id.encode()).hexdigest()[:12]


class Twin:
    """What the second output shows."""

    def __init__(
        self,
        projection: Projection,
        state: RunState,
        status: str,
        layout: Layout | None,
        answers: list[str],
        asked: Sequence[str] = (),
    ) -> None:
        self._projection, self._state, self._status = projection, state, status
        self._layout, self._answers, self._asked = layout, answers, asked

    def words(self) -> str:
        """The state in one sentence, for plain text and for the picture's description."""
        names: dict[str, list[str]] = {}
        for node, shown in zip(self._projection.graph.nodes, self._projection.nodes, strict=True):
            names.setdefault(shown[0], []).append(shorten(node.label, NAME_CHARS))
        state = self._state
        run = f"run {state.run_id} of {shorten(state.spec.name, NAME_CHARS)}"
        parts = [f"{run}: {self._status} at tick {state.seq}"]
        for status, word in (
            ("failed", "failed"),
            ("person", "waits for a person"),
            ("retrying", "is tried again"),
            ("running", "running"),
            ("done", "done"),
        ):
            found = names.get(status, [])
            if found:
                more = f" and {len(found) - LAST_NAMES} more" if len(found) > LAST_NAMES else ""
                parts.append(f"{word}: {', '.join(found[:LAST_NAMES])}{more}")
        if state.failure is not None:
            parts.append(f"{short(state.failure.type)}: {_cut(state.failure.message)}")
        return "; ".join(parts)

    def html(self) -> str:
        """At most 30 KB: where the picture leaves too little room, fewer ticks and answers are listed."""
        svg = twin_svg(self._projection.graph, self._layout, self._projection.nodes, self._projection.edges)
        picture = base64.b64encode(svg.encode("utf-8", "replace")).decode()
        lines = LAST_TICKS
        while len((html := self._html(picture, lines)).encode("utf-8", "replace")) > TWIN_HTML_BYTES and lines:
            lines //= 2
        return html

    def _html(self, picture: str, lines: int) -> str:
        state = self._state
        taken = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(state.at))
        rows = self._projection.rows
        first = max(0, len(rows) - lines)
        table = "".join(
            f"<tr><td>{first + i + 1}</td><td>{_text(f'{row[1]} {row[0]}')}</td><td>{_text(row[2])}</td>"
            f"<td>{row[4] or ''}</td></tr>"
            for i, row in enumerate(rows[first:])
        )
        error = (
            f"<p><b>{_text(short(state.failure.type))}</b>: {escape(_cut(state.failure.message))}</p>"
            if state.failure
            else ""
        )
        answers = "".join(
            f"<li>{escape(_cut(text))}</li>" for text in self._answers[max(0, len(self._answers) - lines) :]
        )
        answered = f"<p>Answers</p><ul>{answers}</ul>" if answers else ""
        asked = "".join(f"<li>{escape(_cut(text))}</li>" for text in self._asked[:lines])
        waits = f"<p>Waits for a person</p><ul>{asked}</ul>" if asked else ""
        name = f"flownb-twin-{twin_class(state.run_id)}"
        return (
            f'<div class="{name} {_NO_MATH}">{_style(name)}<p><b>{_text(state.spec.name)}</b> run '
            f"{escape(state.run_id)} · {escape(self._status)} at tick {state.seq} · last state, taken {taken}</p>"
            f'<div style="display:flex;flex-wrap:wrap;align-items:flex-start;gap:8px 24px">'
            f'<img alt="{escape(self.words())}" src="data:image/svg+xml;base64,{picture}">'
            f'<div style="flex:1 1 320px">{error}{waits}{answered}'
            "<details><summary>last ticks</summary><table><thead><tr><th>#</th><th>what</th><th>event</th>"
            f"<th>ms</th></tr></thead><tbody>{table}</tbody></table></details></div></div></div>"
        )

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        return {"text/html": self.html(), "text/plain": self.words()}


def _cut(text: str, limit: int = 300) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _text(text: str) -> str:
    """A few words of anybody, as HTML."""
    return escape(shorten(text, 2 * NAME_CHARS))


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
