"""What the panel shows of an event: its fields in rows, each value in one short line.

`flownb.preview` says what makes a line safe: never much work, an exception or a secret. The result is plain text;
whoever puts it into HTML escapes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Final

from flownb.preview import preview, preview_name, shown_fields, type_name

#: Rows of one event; an event with more undeclared fields than that is counted.
ROWS: Final = 100


def rows(event: object, limit: int = 120) -> list[tuple[str, str]]:
    """Fields of `event` in the order of its class, then undeclared ones, each as (name, preview).

    An object without fields gives one row named "value"; `limit` is that of `preview`.
    """
    try:
        pairs = shown_fields(event)
        if pairs is None and isinstance(event, Mapping):
            pairs = event.items()
        if pairs is None:
            return [("value", preview(event, limit))]
        shown = [(preview_name(name), preview(value, limit)) for name, value in islice(pairs, ROWS + 1)]
    except Exception as error:  # as in `preview`: a hostile mapping or property
        return [("value", f"{type_name(type(event))} (cannot be shown: {type_name(type(error))})")]
    return shown if len(shown) <= ROWS else [*shown[:ROWS], ("…", "more fields than are shown here")]


__all__ = ["ROWS", "preview", "rows"]
