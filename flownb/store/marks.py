"""What stands in a tick where a stored value cannot: `Lost` for one kept in memory only, `UnknownEvent`."""

from __future__ import annotations

import secrets
from typing import Any, NoReturn

from msgspec import Struct

from flownb.errors import LiveValueLost

PREVIEW_LENGTH = 80


class UnknownEvent(Struct, frozen=True):
    """An event, or other value, whose class this process does not know: to look at, never to deliver.

    It is written again exactly as it was read.
    """

    key: str
    version: int
    #: The stored fields in the journal's own notation: plain JSON, with `{"$tuple": [...]}` and the like inside.
    data: Any
    #: Why it could not be read as `key`, a sentence.
    reason: str
    #: Undeclared fields, private attributes, other attributes, names of the fields that were set; as stored.
    extra: Any = None
    private: Any = None
    other: Any = None
    fields_set: list[str] | None = None


class Lost:
    """A value that was kept in memory by a process that is gone. To use it raises `LiveValueLost`.

    Args:
        type_: `module:qualname` of the class that the value had.
        mark: The journal's name of the value.
        tag: "$live" or "$secret": why it was kept out of the journal.
        event: Key of the event that it stood in.
        field: The field that it stood in, "" if it was the whole value.
        text: A few words on the value, from when it was there.
    """

    __slots__ = ("__weakref__", "_event", "_field", "_mark", "_tag", "_text", "_type")

    def __init__(self, type_: str, mark: str, tag: str, event: str, field: str, text: str = "") -> None:
        self._type, self._mark, self._tag = type_, mark, tag
        self._event, self._field, self._text = event, field, text

    def __repr__(self) -> str:
        return f"<lost {self._type}{': ' if self._text else ''}{self._text}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # a protocol asks what this is (copy, IPython's display): it is nothing special
            raise AttributeError(name)
        self._use()

    def _use(self, *_: object) -> NoReturn:
        where = f"field {self._field!r} of event {self._event!r}" if self._field else f"value {self._event!r}"
        raise LiveValueLost(
            f"The {self._type} in {where} was kept in memory only, and the process that had it is gone. "
            "Run the step that makes it again, or keep something in the event that a journal can hold.",
            event=self._event,
            field=self._field,
            type=self._type,
        )

    __getitem__ = __setitem__ = __delitem__ = __contains__ = __iter__ = __len__ = __call__ = __bool__ = _use
    __enter__ = __exit__ = __add__ = __radd__ = __sub__ = __mul__ = __truediv__ = __float__ = __int__ = _use


class LiveTable:
    """Values that a journal only has a mark of, by that mark. They are kept as long as the table.

    One object has one mark, however many ticks carry it.
    """

    def __init__(self) -> None:
        # The same mark in a journal of another process must not find a value of this one.
        self._process = secrets.token_hex(4)
        self._values: dict[str, object] = {}
        self._marks: dict[int, str] = {}
        self._lost: dict[str, Lost] = {}

    def mark(self, value: object) -> str:
        if isinstance(value, Lost):
            return value._mark
        found = self._marks.get(id(value))
        if found is None:
            found = self._marks[id(value)] = f"{self._process}-{len(self._marks) + 1}"
            self._values[found] = value
        return found

    def value(self, mark: str, tag: str, type_: str, text: str, event: str, field: str) -> object:
        """The marked value, or the one `Lost` that stands for it."""
        if mark in self._values:
            return self._values[mark]
        lost = self._lost.get(mark)
        if lost is None:
            lost = self._lost[mark] = Lost(type_, mark, tag, event, field, text)
        return lost


def preview(value: object) -> str:
    """A few words on a value: the shape of an array or a frame, else its `repr`, on one line."""
    if isinstance(value, Lost):
        return value._text
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and all(isinstance(n, int) for n in shape):
        return f"shape {shape}"
    try:
        text = repr(value)
    except Exception as broken:  # a user's __repr__ may do anything
        text = f"its repr raises {type(broken).__name__}"
    text = " ".join(text.encode("utf-8", "backslashreplace").decode("utf-8").split())
    return text if len(text) <= PREVIEW_LENGTH else text[: PREVIEW_LENGTH - 1] + "…"
