"""The ticks of a run as a plain table, without widgets: it survives wherever an output does."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

LAST = 1_000
_HEAD = ("#", "s", "step", "what", "event", "ms", "state keys")


class TickTable:
    """The last 1000 ticks, as a cell's output.

    Args:
        rows: Rows of a `Projection`: kind, step, event, seconds since the start, ms, state keys, and more.
    """

    def __init__(self, rows: Sequence[tuple[Any, ...]]) -> None:
        self._total = len(rows)
        first = max(0, self._total - LAST)
        #: One row of text a tick, in the order of the columns.
        self.rows: list[tuple[str, ...]] = [
            (str(first + i), f"{row[3]:.3f}", row[1], row[0], row[2], str(row[4] or ""), row[5])
            for i, row in enumerate(rows[first : self._total], 1)
        ]

    def _left_out(self) -> str:
        left = self._total - len(self.rows)
        return f"{left:,} earlier ticks are left out" if left else ""

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        head = "".join(f"<th>{name}</th>" for name in _HEAD)
        body = "".join(f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in row)}</tr>" for row in self.rows)
        left = f"<p>{self._left_out()}</p>" if self._left_out() else ""
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        # The classes keep MathJax from setting what stands between two dollar signs.
        return {
            "text/html": f'<div class="mathjax_ignore tex2jax_ignore">{left}{table}</div>',
            "text/plain": repr(self),
        }

    def __repr__(self) -> str:
        lines = ["  ".join(filter(None, (row[0], *row[2:5], f"{row[5]} ms" if row[5] else ""))) for row in self.rows]
        return "\n".join(filter(None, (self._left_out(), *lines))) or "no ticks"
