"""A value over every past tick: one fold of the journal, a row for each answer, folded where nothing changed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from numbers import Real
from typing import Any, NamedTuple, overload

from flownb.core.values import alike
from flownb.debug.conditions import Condition
from flownb.debug.subjects import carried
from flownb.moment import NOT_KNOWN, Moment
from flownb.preview import one_line, preview
from flownb.runtime.runner import Runner

#: Stretches of one value that are shown, half of them from each end; the rest is counted.
SHOWN = 24
#: Characters of a value, and columns of a line of bars.
ROOM, BARS = 80, 60
_BARS = "▁▂▃▄▅▆▇█"


class Row(NamedTuple):
    """What was found at one tick."""

    seq: int
    #: None where it raised.
    value: Any
    #: What it raised, in words; "" if it did not.
    error: str = ""


class Stretch(NamedTuple):
    """Rows one after the other with the same value, or the same error."""

    first: int
    last: int
    row: Row

    def ticks(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}–{self.last}"

    def words(self) -> str:
        return one_line(self.row.error, ROOM) if self.row.error else preview(self.row.value, ROOM)


class Probe(Sequence[Row]):
    """What an expression gave at every tick; `pandas.DataFrame(probe)` has a row for each.

    Args:
        text: What was asked.
        rows: In the order of ticks.
        start: The first tick that was looked at.
        stop: The last one.
    """

    def __init__(self, text: str, rows: Sequence[Row], start: int, stop: int) -> None:
        self.text = text
        self.start, self.stop = start, stop
        self._rows = tuple(rows)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    @property
    def values(self) -> list[Any]:
        """The values alone, without the ticks at which it raised."""
        return [row.value for row in self._rows if not row.error]

    @property
    def errors(self) -> dict[int, str]:
        """`{seq: what it raised there}`."""
        return {row.seq: row.error for row in self._rows if row.error}

    @property
    def stretches(self) -> list[Stretch]:
        """Rows with the same value, one after the other, as one."""
        found: list[Stretch] = []
        for row in self._rows:
            if found and found[-1].row.error == row.error and alike(found[-1].row.value, row.value):
                found[-1] = found[-1]._replace(last=row.seq)
            else:
                found.append(Stretch(row.seq, row.seq, row))
        return found

    def to_dicts(self) -> list[dict[str, Any]]:
        """`[{"seq": int, "value": ..., "error": str}, ...]`."""
        return [row._asdict() for row in self._rows]

    @property
    def sparkline(self) -> str:
        """Bars for numbers, from the least to the greatest, a gap where there is none; "" for other values.

        A long one is drawn in stretches, each by its number that is farthest from the middle: peaks stay.
        """
        numbers = [_number(row) for row in self._rows]
        known = [number for number in numbers if number is not None]
        if len(known) < 2 or len(known) < sum(not row.error and row.value is not None for row in self._rows):
            return ""
        least, greatest = min(known), max(known)
        middle = (least + greatest) / 2
        n = min(BARS, len(numbers))
        drawn: list[str] = []
        for i in range(n):
            part = [each for each in numbers[i * len(numbers) // n : (i + 1) * len(numbers) // n] if each is not None]
            drawn.append(_bar(max(part, key=lambda each: abs(each - middle)), least, greatest) if part else " ")
        return "".join(drawn)

    def _lines(self) -> list[tuple[str, str]]:
        """(ticks, value) of what is shown."""
        stretches = self.stretches
        lines = [(stretch.ticks(), stretch.words()) for stretch in stretches]
        left = len(lines) - SHOWN
        if left > 0:
            lines[SHOWN // 2 : -(SHOWN // 2)] = [("…", f"{left:,} more changes")]
        return lines

    def _title(self) -> str:
        failed = len(self.errors)
        errors = f", {failed:,} of them errors" if failed else ""
        return f"{one_line(self.text, ROOM)} over ticks {self.start:,} to {self.stop:,}: {len(self):,} rows{errors}"

    def _scale(self) -> str:
        known = [number for row in self._rows if (number := _number(row)) is not None]
        return f"{min(known):.6g} to {max(known):.6g}"

    def __repr__(self) -> str:
        lines = self._lines()
        width = max((len(ticks) for ticks, _ in lines), default=0)
        bars = [f"  {self.sparkline}  {self._scale()}"] if self.sparkline else []
        return "\n".join([f"<Probe of {self._title()}>", *bars, *(f"  {t:>{width}}  {value}" for t, value in lines)])

    def _repr_html_(self) -> str:
        bars = f"<p><code>{escape(self.sparkline)}</code> {escape(self._scale())}</p>" if self.sparkline else ""
        body = "".join(f"<tr><td>{escape(ticks)}</td><td>{escape(value)}</td></tr>" for ticks, value in self._lines())
        # The classes keep MathJax from setting what stands between two dollar signs.
        return (
            f'<div class="mathjax_ignore tex2jax_ignore"><p>{escape(self._title())}</p>{bars}'
            f"<table><thead><tr><th>ticks</th><th>value</th></tr></thead><tbody>{body}</tbody></table></div>"
        )


def _number(row: Row) -> float | None:
    if row.error or not isinstance(row.value, Real):
        return None
    try:
        number = float(row.value)
    except Exception:  # a number of the user's own, or one too large
        return None
    return number if math.isfinite(number) else None


def _bar(number: float, least: float, greatest: float) -> str:
    # Halved first: the span of two very large numbers is no number any more.
    span = greatest / 2 - least / 2
    place = (number / 2 - least / 2) / span if span else 0.0
    return _BARS[min(len(_BARS) - 1, int(place * len(_BARS)))]


def probe(runner: Runner, of: Condition, start: int = 1, stop: int | None = None) -> Probe:
    """As `Debugger.probe` says."""
    last = len(runner.ticks) if stop is None else stop
    return Probe(of.text, list(_rows(runner, of, start, last)), start, last)


def _rows(runner: Runner, of: Condition, start: int, stop: int) -> Iterator[Row]:
    past = runner.history
    for before, tick, after, _ in past.walk(start, stop):
        moment = Moment(after, before, tick, NOT_KNOWN, past)
        for out in carried(before or after, tick) if of.needs_event else (None,):
            try:
                row = Row(after.seq, of.value(runner.definition, moment, after, tick, out))
            except Exception as error:  # the user's, at this tick; an interrupt ends the probe
                row = Row(after.seq, None, preview(error, 200))
            yield row
