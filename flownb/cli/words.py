"""What is printed: tables, spans of time, values on one line, JSON. Nothing of it holds a secret."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, SecretBytes, SecretStr
from pydantic_core import PydanticSerializationError, to_jsonable_python

from flownb.core.graph import short
from flownb.events import OutcomeUnknown, Question
from flownb.store.marks import HIDDEN, Lost, UnknownEvent

#: A value on a line is no longer than this.
LENGTH = 100


def clean(text: Any) -> str:
    """Text of somebody else on one line, without what a terminal would obey."""
    words = " ".join(str(text).split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in words)


def brief(text: Any, length: int = LENGTH) -> str:
    """The same, not longer than so many characters."""
    words = clean(text)
    return words if len(words) <= length else words[: length - 1] + "…"


def table(rows: Sequence[Sequence[str]], head: Sequence[str] = ()) -> list[str]:
    """Lines with their columns one below the other; the last one is as long as it likes."""
    lines = [list(map(str, row)) for row in ([head, *rows] if head else rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))] if lines else []
    return ["  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip() for line in lines]


def span(seconds: float) -> str:
    """A span of time as people say it."""
    seconds = max(0.0, seconds)
    for limit, unit, word in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h"), (float("inf"), 86_400, "days")):
        if seconds < limit:
            return f"{seconds / unit:.0f} {word}"
    raise AssertionError


def ago(at: float) -> str:
    return f"{span(time.time() - at)} ago"


def clock(at: float, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    """A moment in local time; one that no calendar has, since its row is damaged, as the number that it is."""
    try:
        return time.strftime(form, time.localtime(at))
    except (OverflowError, ValueError, OSError):
        return f"{at:g}"


def size(count: int) -> str:
    """A number of bytes as people say it."""
    for unit in ("bytes", "KB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count = count / 1000  # type: ignore[assignment]
    raise AssertionError


def plural(n: int, word: str) -> str:
    return f"{n:,} {word}" if n == 1 else f"{n:,} {word}s"


def plain(value: Any) -> Any:
    """A value as JSON can hold it; secrets are hidden, what has no form in JSON is shown in words."""
    if isinstance(value, UnknownEvent):
        return value.plain()
    try:
        return to_jsonable_python(value, fallback=_in_words, serialize_unknown=True, inf_nan_mode="strings")
    except PydanticSerializationError:  # a secret that is not to be had here
        if not isinstance(value, BaseModel):
            return _in_words(value)
        return {name: plain(part) for name, part in value.__dict__.items()}


def _in_words(value: Any) -> str:
    if isinstance(value, (SecretStr, SecretBytes)):
        return HIDDEN
    return repr(value) if isinstance(value, Lost) else brief(repr(value))


def value_of(value: Any, length: int = LENGTH) -> str:
    """A value on one line."""
    if isinstance(value, UnknownEvent):
        fields = plain(value)
        said = ", ".join(f"{n}={part!r}" for n, part in fields.items()) if isinstance(fields, dict) else repr(fields)
        return brief(f"{short(value.key)}({said})", length)
    try:
        return brief(repr(value), length)
    except Exception as error:  # a user's __repr__ may do anything
        return f"<{type(value).__name__}, whose repr raises {type(error).__name__}>"


def question_of(question: Any, length: int = LENGTH) -> str:
    """A question to a person, on one line."""
    if isinstance(question, OutcomeUnknown):
        return brief(
            f"Step {question.step} was running when its process was lost: retry it, is it done, or did it fail?", length
        )
    if isinstance(question, Question):
        return brief(question.prefix, length)
    prefix = plain(question).get("prefix") if isinstance(question, (BaseModel, UnknownEvent)) else None
    if isinstance(prefix, str) and prefix:
        return brief(f"{prefix} {value_of(question, length)}", length)
    return value_of(question, length)


def words_of(parts: Sequence[str]) -> str:
    """A command as a shell reads it."""
    return " ".join(part if part.isupper() and part.isalpha() else shlex.quote(part) for part in parts)


def as_json(value: Any) -> str:
    return json.dumps(value, indent=2, default=_in_words)
