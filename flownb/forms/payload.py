"""What a question is about: the fields of its event as data, which widgets and HTML pages draw.

    Line      one short line of plain text                          most values
    Block     a text of several lines, cut where it gets long       a long str
    Table     the head of something with rows and columns           frames, series and arrays
    Picture   a PNG                                                 figures, images and PNG bytes

`flownb.preview` says what makes a line safe: never much work, an exception or a secret, and no import. The same holds
here: a frame is known by a module that is loaded already. All text is plain; whoever puts it into HTML escapes it.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from flownb.preview import one_line, preview, preview_name, shown_fields, type_name

#: Rows of one event; an event with more undeclared fields than that is counted.
ROWS: Final = 100
#: Of a table, the first.
HEAD_ROWS: Final = 8
HEAD_COLUMNS: Final = 8
#: Characters of a block.
BLOCK: Final = 4_000
#: Pixels of a picture's longer side.
SIDE: Final = 1_000
#: Bytes of a picture; larger ones are a line.
PICTURE_BYTES: Final = 1_500_000
#: Pixels that a page would have to unpack.
_PIXELS: Final = 40_000_000
_PNG: Final = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of plain text."""

    text: str


@dataclass(frozen=True, slots=True)
class Block:
    """A text with its lines; `note` says what was cut, or is empty."""

    text: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """The upper left corner of a table, each cell as one short line."""

    columns: tuple[str, ...]
    #: As many as rows, or empty.
    labels: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    #: The whole in words: "DataFrame 1 204 × 6".
    note: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A PNG of at most `PICTURE_BYTES`; `note` says in words what it is."""

    png: bytes
    note: str


Shown = Line | Block | Table | Picture


def shown(event: object, limit: int = 120) -> list[tuple[str, Shown]]:
    """Fields of `event` in the order of its class, then undeclared ones, each as (name, what is shown).

    An object without fields gives one row named "value"; `limit` is that of `preview`.
    """
    return _each(event, lambda value: show(value, limit))


def rows(event: object, limit: int = 120) -> list[tuple[str, str]]:
    """The same, each value in one short line."""
    told = _each(event, lambda value: Line(preview(value, limit)))
    return [(name, one.text) for name, one in told if isinstance(one, Line)]


def _each(event: object, draw: Callable[[object], Shown]) -> list[tuple[str, Shown]]:
    try:
        pairs = shown_fields(event)
        if pairs is None and isinstance(event, Mapping):
            pairs = event.items()
        if pairs is None:
            return [("value", draw(event))]
        found = [(preview_name(name), draw(value)) for name, value in islice(pairs, ROWS + 1)]
    except Exception as error:  # as in `preview`: a hostile mapping or property
        return [("value", Line(f"{type_name(type(event))} (cannot be shown: {type_name(type(error))})"))]
    return found if len(found) <= ROWS else [*found[:ROWS], ("…", Line("more fields than are shown here"))]


def show(value: object, limit: int = 120) -> Shown:
    """What is shown of one value."""
    try:
        found = _picture(value) or _table(value) or _block(value, limit)
    except Exception:  # a frame or a figure that cannot be drawn is a line, as everything else
        found = None
    return found if found is not None else Line(preview(value, limit))


def _block(value: object, limit: int) -> Block | None:
    if type(value) is not str or (len(value) <= limit and "\n" not in value):
        return None
    cut = len(value) - BLOCK
    lines = (_printable(line) for line in value[:BLOCK].splitlines())
    return Block("\n".join(lines), f"{cut:,} more characters".replace(",", " ") if cut > 0 else "")


def _printable(line: str) -> str:
    return "".join(c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode() for c in line)


# ---- tables


def _is(value: object, module: str, name: str) -> bool:
    """Whether it is of a class of a module, which is not imported for that."""
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and issubclass(type(value), kind)  # not isinstance: `__class__` may lie


def _table(value: Any) -> Table | None:
    if _is(value, "pandas", "DataFrame"):
        head = value.iloc[:HEAD_ROWS, :HEAD_COLUMNS]
        cells = [[head.iat[i, j] for j in range(head.shape[1])] for i in range(head.shape[0])]
        return _made(value, list(head.columns), list(head.index), cells)
    if _is(value, "pandas", "Series"):
        head = value.iloc[:HEAD_ROWS]
        name = value.name if value.name is not None else "value"
        return _made(value, [name], list(head.index), [[head.iat[i]] for i in range(head.shape[0])])
    if _is(value, "numpy", "ndarray") and value.dtype.kind in "biufc" and value.ndim in (1, 2) and value.size:
        head = value[:HEAD_ROWS, :HEAD_COLUMNS] if value.ndim == 2 else value[None, :HEAD_COLUMNS]
        columns = [str(j) for j in range(head.shape[1])]
        labels = list(range(head.shape[0])) if value.ndim == 2 else []
        return _made(value, columns, labels, head.tolist())
    return None


def _made(value: object, columns: list[Any], labels: list[Any], cells: list[list[Any]]) -> Table | None:
    if not columns or not cells:
        return None
    return Table(
        columns=tuple(map(_cell, columns)),
        labels=tuple(map(_cell, labels)),
        rows=tuple(tuple(map(_cell, row)) for row in cells),
        note=preview(value),
    )


def _cell(value: Any) -> str:
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        value = value.item()
    if type(value) is float:
        return f"{value:.6g}"
    return one_line(value, 40) if type(value) is str else preview(value, 40)


# ---- pictures


def _picture(value: Any) -> Picture | None:
    if type(value) is bytes and value.startswith(_PNG):
        return _bounded(value, preview(value))
    if _is(value, "matplotlib.figure", "Figure"):
        width, height = value.get_size_inches()
        out = io.BytesIO()
        value.savefig(out, format="png", dpi=min(100.0, SIDE / max(width, height)))
        return _bounded(out.getvalue(), f"figure of {len(value.axes)} axes")
    if _is(value, "PIL.Image", "Image"):
        width, height = value.size
        if width * height > _PIXELS:
            return None
        small = value.copy()
        small.thumbnail((SIDE, SIDE))
        out = io.BytesIO()
        (small if small.mode in ("1", "L", "LA", "P", "RGB", "RGBA") else small.convert("RGB")).save(out, format="PNG")
        return _bounded(out.getvalue(), f"image {width} × {height}")
    return None


def _bounded(png: bytes, note: str) -> Picture | None:
    width, height = (int.from_bytes(png[at : at + 4], "big") for at in (16, 20))
    fits = len(png) <= PICTURE_BYTES and 0 < width * height <= _PIXELS
    return Picture(png, note) if fits else None


__all__ = [
    "ROWS", "Block", "Line", "Picture", "Shown", "Table", "preview", "rows", "show", "shown",
]  # fmt: skip
