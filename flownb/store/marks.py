"""What stands in a tick where a stored value cannot: `Lost` for one that is not to be had here, `UnknownEvent`."""

from __future__ import annotations

import itertools
import secrets
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NoReturn

from msgspec import Struct

from flownb.core.graph import short
from flownb.errors import LiveValueLost

PREVIEW_LENGTH = 80
#: Stands for a secret, as pydantic shows one.
HIDDEN = "**********"
MEND = "Run the step that makes it again, or keep something in the event that a journal can hold."


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
    #: The fields that the class of today needs and the stored value has not.
    missing: tuple[str, ...] = ()

    def plain(self) -> Any:
        """Its fields as people read them, secrets hidden."""
        if not isinstance(self.data, dict):
            return unmarked(self.data)
        return {name: unmarked(part) for name, part in (*self.data.items(), *(self.extra or {}).items())}

    def __repr__(self) -> str:
        found = self.plain()
        said = ", ".join(f"{name}={part!r}" for name, part in found.items()) if isinstance(found, dict) else repr(found)
        return f"{self.key}({said})"


def unmarked(stored: Any) -> Any:
    """What stands in a journal, as people read it: marks of secrets and of large values in words."""
    if isinstance(stored, list):
        return [unmarked(part) for part in stored]
    if not isinstance(stored, Mapping):
        return stored
    tag = next(iter(stored), "")
    if tag in ("$sealed", "$secret"):
        return HIDDEN
    if tag in ("$artifact", "$small", "$live", "$transient"):
        return f"<{short(str(stored.get('type') or stored[tag]))}>"
    if tag in ("$tuple", "$set", "$frozenset"):
        return unmarked(stored[tag])
    if tag.startswith("$") and len(stored) == 1:
        return stored[tag]
    if tag == "$object":
        return unmarked(stored.get("d"))
    return {str(name): unmarked(part) for name, part in stored.items()}


class Lost:
    """A value that is not to be had here: it was kept in memory by a process that is gone, or its file, its key or a
    library is not there. To use it raises `LiveValueLost`.

    Args:
        type_: `module:qualname` of the class that the value had.
        mark: The journal's name of the value.
        tag: "$live", "$secret" or "$transient": why it was kept out of the journal. "$artifact", "$small" or "$sealed"
            for one that is in it and cannot be read.
        event: Key of the event that it stood in.
        field: The field that it stood in, "" if it was the whole value.
        text: A few words on the value, from when it was there.
        why: Of one that could have been stored: why it was not, or cannot be read; a sentence.
        notation: What stands in the journal, to be written again; None for what is only a mark.
    """

    __slots__ = ("__weakref__", "_event", "_field", "_mark", "_notation", "_tag", "_text", "_type", "_why")

    def __init__(
        self,
        type_: str,
        mark: str,
        tag: str,
        event: str,
        field: str,
        text: str = "",
        why: str = "",
        notation: dict[str, Any] | None = None,
    ) -> None:
        self._type, self._mark, self._tag = type_, mark, tag
        self._event, self._field, self._text = event, field, text
        self._why, self._notation = why, notation

    def __repr__(self) -> str:
        return f"<lost {self._type}{': ' if self._text else ''}{self._text}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # a protocol asks what this is (copy, IPython's display): it is nothing special
            raise AttributeError(name)
        self._use()

    def _use(self, *_: object) -> NoReturn:
        where = f"field {self._field!r} of event {self._event!r}" if self._field else f"value {self._event!r}"
        if self._notation is not None:
            said = f"The {self._type} in {where} cannot be read here. {self._why}"
        else:
            said = (
                f"The {self._type} in {where} was kept in memory only, and the process that had it is gone. "
                f"{self._why or MEND}"
            )
        raise LiveValueLost(
            said,
            event=self._event,
            field=self._field,
            type=self._type,
        )

    __getitem__ = __setitem__ = __delitem__ = __contains__ = __iter__ = __len__ = __call__ = __bool__ = _use
    __enter__ = __exit__ = __add__ = __radd__ = __sub__ = __mul__ = __truediv__ = __float__ = __int__ = _use


class LiveTable:
    """Values that a journal only has a mark of, by that mark. One object has one mark, however many ticks carry it.

    They are held weakly: a run in memory holds its own values by its ticks, and a value whose runs are gone is not kept
    (R6.15). What cannot be held weakly (an iterator, a handle of some C library) is kept as long as the table.
    """

    def __init__(self) -> None:
        # The same mark in a journal of another process must not find a value of this one.
        self._process = secrets.token_hex(4)
        self._values: dict[str, Callable[[], object]] = {}
        self._marks: dict[int, str] = {}
        self._numbers = itertools.count(1)
        self._lost: dict[str, Lost] = {}

    def mark(self, value: object) -> str:
        if isinstance(value, Lost):
            return value._mark
        found = self._marks.get(id(value))
        if found is not None and self._values[found]() is value:
            return found
        made = self._marks[id(value)] = f"{self._process}-{next(self._numbers)}"
        try:
            self._values[made] = weakref.ref(value, partial(self._forget, id(value), made))
        except TypeError:
            self._values[made] = partial(_same, value)
        return made

    def _forget(self, identity: int, mark: str, _: object) -> None:
        self._values.pop(mark, None)
        if self._marks.get(identity) == mark:
            del self._marks[identity]

    def value(self, mark: str, tag: str, type_: str, text: str, event: str, field: str, why: str = "") -> object:
        """The marked value, or the one `Lost` that stands for it."""
        held = self._values.get(mark)
        value = held() if held is not None else None
        if value is not None:
            return value
        lost = self._lost.get(mark)
        if lost is None:
            lost = self._lost[mark] = Lost(type_, mark, tag, event, field, text, why)
        return lost

    def unread(self, type_: str, tag: str, event: str, field: str, why: str, notation: dict[str, Any]) -> Lost:
        """The one `Lost` that stands for something that is stored, at its place."""
        place = repr((event, field, notation))
        lost = self._lost.get(place)
        if lost is None or lost._why != why:
            lost = self._lost[place] = Lost(type_, "", tag, event, field, _words(notation), why, notation)
        return lost


def _same(value: object) -> object:
    return value


def _words(notation: dict[str, Any]) -> str:
    told = notation.get("preview")
    if not isinstance(told, dict):
        return ""
    if "shape" in told:
        return f"shape {tuple(told['shape'])}"
    return str(told.get("text", ""))


def preview(value: object) -> str:
    """A few words on a value: the shape of an array or a frame, else its `repr`, on one line."""
    if isinstance(value, Lost):
        return value._text
    try:
        shape = getattr(value, "shape", None)
    except Exception:  # a user's __getattr__ may do anything
        shape = None
    if isinstance(shape, tuple) and all(isinstance(n, int) for n in shape):
        return f"shape {shape}"
    if isinstance(value, (list, tuple, set, frozenset, dict)):  # what it holds may take long to show
        return f"{type(value).__name__} of {len(value)}"
    try:
        text = repr(value)
    except Exception as broken:  # a user's __repr__ may do anything
        text = f"its repr raises {type(broken).__name__}"
    text = " ".join(text.encode("utf-8", "backslashreplace").decode("utf-8").split())
    return text if len(text) <= PREVIEW_LENGTH else text[: PREVIEW_LENGTH - 1] + "…"
