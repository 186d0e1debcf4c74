"""How the controls of a page are named: what a browser sends back is found by these names.

f.note            a field of the answer; f.address.city one inside it, f.rows.2.score one of the third row
f.due:zone        the time zone of a moment
f.pay:tab         which of several models is meant; f.pay~1.amount is a field of the second one
f.rows:rows       sent once for each row, with its number
f.note:unset      it is "not set"; f.note:was says that it was when the page was made
"""

from __future__ import annotations

from typing import Final

ROOT: Final = "f"
ZONE: Final = ":zone"
TAB: Final = ":tab"
ROWS: Final = ":rows"
UNSET: Final = ":unset"
WAS: Final = ":was"
#: The button that was pressed: `SEND`, or what is done to rows.
DO: Final = "do"
SEND: Final = "send"


def inner(name: str, part: str | int) -> str:
    """The name of what is inside; a dot in the name of a field is none of ours."""
    return f"{name}.{str(part).replace('%', '%25').replace('.', '%2E')}"


def of_tab(name: str, number: int) -> str:
    """The name of what belongs to one of several models."""
    return f"{name}~{number}"


def add_to(name: str) -> str:
    """The button that adds a row."""
    return f"add {name}"


def remove_from(name: str, number: int) -> str:
    """The button that takes a row away."""
    return f"remove {name} {number}"


__all__ = ["DO", "ROOT", "ROWS", "SEND", "TAB", "UNSET", "WAS", "ZONE", "add_to", "inner", "of_tab", "remove_from"]
