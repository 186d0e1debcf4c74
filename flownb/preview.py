"""One short line for any value: what people are shown of events, state and questions, in the panel and in words.

The rules that make it safe beside a running workflow:

* Never much work: containers are read only as far as the line goes, long text is sliced before it is quoted, and an
  unknown object that says it is large is not asked for its `repr` at all.
* Never an exception: a `repr` that raises, lies about its type or is changed by another thread meanwhile becomes words.
* Never a secret: pydantic's `SecretStr`, `SecretBytes`, `Secret` and fields with `repr=False` are masked.
* Never an import: DataFrames and arrays are known by the name of their module.

The result is plain text; whoever puts it into HTML escapes it.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import pathlib
import re
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from pydantic import BaseModel, Secret, SecretBytes, SecretStr

MASK: Final = "••••••"
_DEPTH: Final = 3
#: Above this length an object of unknown type is counted, not asked for its repr.
_LARGE: Final = 1_000
_ADDRESS: Final = re.compile(r" at 0x[0-9A-Fa-f]+")
#: Packages whose objects have a shape, and a repr that may cost much (or wait for a graphics card).
_SHAPED: Final = frozenset(
    ("numpy", "pandas", "polars", "pyarrow", "scipy", "torch", "jax", "jaxlib", "tensorflow", "cupy", "xarray", "dask")
)


def preview(value: object, limit: int = 120) -> str:
    """`value` in one printable line of at most `limit` characters.

    >>> preview({"doc": "a17", "score": 0.83})
    "{'doc': 'a17', 'score': 0.83}"
    >>> preview(list(range(10_000)), limit=24)
    '[0, 1, 2, … 9 997 more]'
    """
    try:
        text = _short(value, limit, _DEPTH)
    except Exception as error:  # user code ran (a property, an iterator), or another thread changed the value under us
        text = f"{type_name(type(value))} (cannot be shown: {type_name(type(error))})"
    return _cut(_printable(text), limit)


def preview_name(name: object) -> str:
    """A field's name as one printable line: names of undeclared fields and keys are user text too."""
    return one_line(name, 60) if type(name) is str else preview(name, 60)


def one_line(text: str, limit: int) -> str:
    """A text as one printable line of at most `limit` characters, without quotes around it."""
    return _cut(_printable(text), limit)


def _short(value: object, room: int, depth: int) -> str:
    """A line of about `room` characters; only the caller's cut makes that exact."""
    kind = type(value)
    if kind in _PLAIN:
        return repr(value)
    for base, show in _KINDS:
        if issubclass(kind, base):  # not isinstance: `__class__` may lie or raise
            return show(value, room, depth)
    if kind.__module__.partition(".")[0] in _SHAPED:
        return _shaped(value, room, depth)
    fields = shown_fields(value)
    if fields is not None:
        pairs = ((f"{name}=", item) for name, item in fields if item is not _HIDDEN)
        return _listed(f"{type_name(kind)}(", pairs, ")", None, room, depth)
    return _other(value)


def _inner(value: object, room: int, depth: int) -> str:
    if depth <= 0 and not issubclass(type(value), (str, bytes, int, float, enum.Enum, type(None))):
        return "…"
    return _short(value, room, depth - 1)


def _listed(start: str, pairs: Iterable[tuple[str, object]], end: str, total: int | None, room: int, depth: int) -> str:
    """Pairs of (label, value) until the room is used up, then how many are left (`total` None: not known)."""
    shown: list[str] = []
    used = len(start) + len(end)
    for label, value in pairs:
        left = None if total is None else total - len(shown)
        more = "…" if left is None else f"… {_count(left)} more"
        text = label + _inner(value, max(room - used - len(label), 16), depth)
        # The first is always shown (cut by the caller if need be), else a long value would hide the others and itself.
        if shown and used + len(text) + (0 if left == 1 else 2 + len(more)) > room:
            shown.append(more)
            break
        shown.append(text)
        used += len(text) + 2
    return start + ", ".join(shown) + end


def _string(value: str, room: int, depth: int) -> str:
    size = str.__len__(value)
    note = f" ({_count(size)} characters)"
    quoted = str.__repr__(str(str.__getitem__(value, slice(0, room + 1))))
    if size <= room and len(quoted) <= room:
        return quoted
    return _cut(quoted[:-1], max(room - len(note) - 1, 8)) + quoted[-1] + note


def _bytes(value: bytes | bytearray, room: int, depth: int) -> str:
    head = repr(bytes(value[:room]))
    note = f" ({_count(len(value))} bytes)"
    return (
        head
        if len(value) <= room and len(head) <= room
        else _cut(head[:-1], max(room - len(note) - 1, 8)) + head[-1] + note
    )


def _int(value: int, room: int, depth: int) -> str:
    # Python refuses to write ints of more than 4,300 digits, and long before that nobody reads them.
    bits = int.bit_length(value)
    return int.__repr__(value) if bits <= 256 else f"int of about {_count(int(bits * 0.30103) + 1)} digits"


def _mapping(value: dict[Any, Any], room: int, depth: int) -> str:
    pairs = ((f"{_inner(key, room, 1)}: ", item) for key, item in dict.items(value))
    return _wrapped(value, dict, _listed("{", pairs, "}", dict.__len__(value), room, depth))


def _list(value: list[Any], room: int, depth: int) -> str:
    return _wrapped(value, list, _items("[", list.__iter__(value), "]", list.__len__(value), room, depth))


def _deque(value: deque[Any], room: int, depth: int) -> str:
    return _wrapped(value, None, _items("[", deque.__iter__(value), "]", deque.__len__(value), room, depth))


def _set(value: set[Any], room: int, depth: int) -> str:
    if not set.__len__(value):
        return f"{type_name(type(value))}()"  # {} would be a dict
    return _wrapped(value, set, _items("{", set.__iter__(value), "}", set.__len__(value), room, depth))


def _frozenset(value: frozenset[Any], room: int, depth: int) -> str:
    return _wrapped(value, None, _items("{", frozenset.__iter__(value), "}", frozenset.__len__(value), room, depth))


def _tuple(value: tuple[Any, ...], room: int, depth: int) -> str:
    size, names = tuple.__len__(value), getattr(type(value), "_fields", None)
    if isinstance(names, tuple):  # a named tuple
        pairs = ((f"{name}=", item) for name, item in zip(names, tuple.__iter__(value), strict=False))
        return _listed(f"{type_name(type(value))}(", pairs, ")", size, room, depth)
    return _wrapped(value, tuple, _items("(", tuple.__iter__(value), ",)" if size == 1 else ")", size, room, depth))


def _items(start: str, items: Iterable[object], end: str, total: int, room: int, depth: int) -> str:
    return _listed(start, (("", item) for item in items), end, total, room, depth)


def _wrapped(value: object, plain: type | None, text: str) -> str:
    """`text`, with the name of the type if that is not the one its brackets stand for."""
    return text if type(value) is plain else f"{type_name(type(value))}({text})"


def _error(value: BaseException, room: int, depth: int) -> str:
    # An exception's own text, not its arguments: it may mask secrets there.
    return f"{type_name(type(value))}: {_cut(_call(str, value), room)}"


def _shaped(value: Any, room: int, depth: int) -> str:
    kind, shape = type(value), getattr(value, "shape", None)
    name = type_name(kind)
    if shape == () and hasattr(value, "item") and name != "ndarray":
        scalar = value.item()  # a numpy number reads like the number
        return repr(scalar) if type(scalar) in _PLAIN else f"{name} {_call(str, value)}"
    if not isinstance(shape, tuple) or not all(isinstance(n, int) for n in shape):
        return _other(value)
    if len(shape) == 2 and "DataFrame" in name:
        return f"{name} {_count(shape[0])} × {_count(shape[1])}"
    dtype = getattr(value, "dtype", None)
    words = [name, "" if dtype is None else _call(str, dtype), "×".join(map(_count, shape)) or "()"]
    return " ".join(word for word in words if word)


def _other(value: object) -> str:
    """An object of a type we know nothing about."""
    kind = type(value)
    if issubclass(kind, type):
        return f"class {type_name(value)}"  # type: ignore[arg-type]
    if kind.__repr__ is object.__repr__:
        return f"{type_name(kind)} object"  # without the address: it says nothing and changes with every run
    return _large(value) or _ADDRESS.sub("", _call(repr, value)[:2_000])


def _large(value: object) -> str:
    """Words for an object that says it is large, by length or bytes; else ""."""
    items, size = _ask(len, value), _ask(lambda it: it.nbytes, value)
    if items > _LARGE:
        return f"{type_name(type(value))} of {_count(items)} items"
    return f"{type_name(type(value))} of {_count(size)} bytes" if size > _LARGE else ""


def _ask(size_of: Callable[[Any], object], value: object) -> int:
    try:
        size = size_of(value)
    except Exception:  # it has none, or user code raises: then it is not known to be large
        return 0
    return size if isinstance(size, int) else 0


class _Hidden:
    """Stands for the value of a field with `repr=False`, so that it goes no further."""

    def __repr__(self) -> str:
        return "(not shown)"


_HIDDEN: Final = _Hidden()


def shown_fields(value: object) -> Iterable[tuple[str, object]] | None:
    """(name, value) of an object that declares its fields, read past any user-written attribute access."""
    kind = type(value)
    if issubclass(kind, BaseModel):
        return _model_fields(value, kind)
    if dataclasses.is_dataclass(kind):
        return [(f.name, getattr(value, f.name, None) if f.repr else _HIDDEN) for f in dataclasses.fields(kind)]
    names = getattr(kind, "__struct_fields__", None)  # msgspec
    if isinstance(names, tuple):
        return [(name, getattr(value, name)) for name in names]
    return None


def _model_fields(value: object, kind: type[BaseModel]) -> Iterable[tuple[str, object]]:
    held = object.__getattribute__(value, "__dict__")
    for name, info in kind.model_fields.items():
        if name in held:  # `model_construct` may leave fields out
            yield name, held[name] if info.repr else _HIDDEN
    try:
        extra = object.__getattribute__(value, "__pydantic_extra__")
    except AttributeError:  # made by `__new__` alone
        return
    yield from (extra or {}).items()


def _call(show: Callable[[Any], object], value: object) -> str:
    """`show(value)` as a str, or words that say why not."""
    try:
        text = show(value)
    except Exception as error:  # user code: any exception at all
        return f"{type_name(type(value))} (its text raised {type_name(type(error))})"
    return str.__str__(text) if isinstance(text, str) else f"{type_name(type(value))} (its text is no str)"


def type_name(kind: type) -> str:
    return str(type.__getattribute__(kind, "__name__"))


def _count(number: int) -> str:
    return f"{number:,}".replace(",", " ")


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: max(room - 1, 0)] + "…"


def _printable(text: object) -> str:
    """One line without control characters; looks at no more than can be shown."""
    head = str(text)[:2_000]
    if head.isprintable():
        return head
    return "".join(c if c.isprintable() else " " if c.isspace() else c.encode("unicode_escape").decode() for c in head)


_PLAIN: Final = frozenset({type(None), bool, float, complex, type(...), range, slice})
_KINDS: Final[tuple[tuple[type, Callable[[Any, int, int], str]], ...]] = (
    (SecretStr, lambda value, room, depth: MASK),
    (SecretBytes, lambda value, room, depth: MASK),
    (Secret, lambda value, room, depth: MASK),
    (enum.Enum, lambda value, room, depth: f"{type_name(type(value))}.{value._name_ or value._value_}"),
    (str, _string),
    (bytes, _bytes),
    (bytearray, _bytes),
    (int, _int),
    (datetime.date, lambda value, room, depth: _call(str, value)),
    (datetime.time, lambda value, room, depth: _call(str, value)),
    (datetime.timedelta, lambda value, room, depth: _call(str, value)),
    (pathlib.PurePath, lambda value, room, depth: _string(_call(str, value), room, depth)),
    (BaseException, _error),
    (dict, _mapping),
    (list, _list),
    (tuple, _tuple),
    (set, _set),
    (frozenset, _frozenset),
    (deque, _deque),
)
