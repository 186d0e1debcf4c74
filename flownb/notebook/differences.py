"""What differs between two values, as rows of paths: a state is looked into, not only compared."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from pydantic import BaseModel, SecretBytes, SecretStr

from flownb.preview import preview, preview_name

#: Levels that are looked into, items of one list or dict that are compared, rows that are shown.
_DEPTH = 4
_ITEMS = 500
ROWS = 200

Row = list[str | None]
"""[path, before, after] as previews; None for a value that was, or is, not there."""

_GONE = object()


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Row]:
    """Rows for what differs, at the deepest place that tells: `["docs[3].title", "'a'", "'b'"]`.

    Args:
        before: Values by name.
        after: The same, later.

    Returns:
        At most `ROWS` rows, and one more that says so where there would be more.
    """
    found = list(islice(_mappings("", before, after, _DEPTH), ROWS + 1))
    return found if len(found) <= ROWS else [*found[:ROWS], ["…", "more than is shown here", None]]


def _pair(path: str, old: Any, new: Any, depth: int) -> Iterator[Row]:
    if old is new:
        return
    inside = _inside(path, old, new, depth) if depth and type(old) is type(new) else None
    if inside is not None:
        yield from inside
    elif not _is_same(old, new):
        yield [path, None if old is _GONE else preview(old), None if new is _GONE else preview(new)]


def _inside(path: str, old: Any, new: Any, depth: int) -> Iterator[Row] | None:
    """The rows of what two values of one type hold; None for values that hold nothing to look into."""
    if isinstance(old, dict) and len(old) <= _ITEMS and len(new) <= _ITEMS:
        return _mappings(path, old, new, depth)
    if isinstance(old, (list, tuple)) and len(old) <= _ITEMS and len(new) <= _ITEMS:
        return _lists(path, old, new, depth)
    if isinstance(old, BaseModel):
        return _mappings(path, _shown_fields(old), _shown_fields(new), depth)
    if dataclasses.is_dataclass(old):
        names = [field.name for field in dataclasses.fields(old) if field.repr]
        was, now = ({name: getattr(each, name, None) for name in names} for each in (old, new))
        return _mappings(path, was, now, depth)
    return None


def _shown_fields(model: BaseModel) -> dict[str, Any]:
    held = {name: model.__dict__[name] for name, info in type(model).model_fields.items() if name in model.__dict__}
    hidden = {name for name, info in type(model).model_fields.items() if not info.repr}
    return {name: value for name, value in (*held.items(), *(model.model_extra or {}).items()) if name not in hidden}


def _mappings(path: str, old: Mapping[Any, Any], new: Mapping[Any, Any], depth: int) -> Iterator[Row]:
    for key in (*old, *(key for key in new if key not in old)):
        name = preview_name(key)
        is_word = isinstance(key, str) and key.isidentifier()
        inner = name if not path else f"{path}.{name}" if is_word else f"{path}[{name}]"
        yield from _pair(inner, old.get(key, _GONE), new.get(key, _GONE), depth - 1)


def _lists(path: str, old: Any, new: Any, depth: int) -> Iterator[Row]:
    for i in range(max(len(old), len(new))):
        was, now = (each[i] if i < len(each) else _GONE for each in (old, new))
        yield from _pair(f"{path}[{i}]", was, now, depth - 1)


def _is_same(old: Any, new: Any) -> bool:
    """Equality, where it can be asked; of two frames or arrays, what is seen of them."""
    if isinstance(old, (SecretStr, SecretBytes)) or isinstance(new, (SecretStr, SecretBytes)):
        return type(old) is type(new) and bool(old == new)
    try:
        same = old == new
        return same if isinstance(same, bool) else False
    except Exception:  # the user's `__eq__`
        return False


__all__ = ["ROWS", "differences"]
