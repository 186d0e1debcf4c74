"""What a page tells of a question: what it asks, what it is about, and until when."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

from flownb.core.graph import short
from flownb.events import OutcomeUnknown, Question
from flownb.forms.payload import Block, Picture, Shown, Table, preview, shown
from flownb.preview import preview_name, shown_fields
from flownb.serve.markup import Html, element, escaped, joined
from flownb.serve.pages import table
from flownb.store.marks import UnknownEvent

#: Characters of a text that is shown whole; other values are shown in fewer.
_TEXT: Final = 20_000
_VALUE: Final = 1_000


def prompt_of(question: Any) -> str:
    """What it asks, in words; "" if it has none."""
    if isinstance(question, OutcomeUnknown):
        return (
            f"Step {question.step} was running when its process was lost. Shall it run again, was it done, or did it "
            "fail?"
        )
    found = _plain(question)
    prefix = found.get("prefix") if isinstance(found, Mapping) else getattr(question, "prefix", None)
    return prefix if isinstance(prefix, str) else ""


def title_of(question: Any) -> str:
    """The same, else the name of its class."""
    name = short(question.key) if isinstance(question, UnknownEvent) else type(question).__name__
    return prompt_of(question).strip() or name


def payload_of(question: Any) -> Html | None:
    """What it is about: its other fields, texts whole, the head of a frame as a table, a figure as a picture, all else
    in a line; secrets are hidden. None if it has none."""
    if isinstance(question, Question):
        return None
    source = _plain(question)
    whole = _texts(source)
    found = [(name, whole.get(name) or drawn(value)) for name, value in shown(source, _VALUE) if name != "prefix"]
    return table(found) if found else None


def drawn(value: Shown) -> Html:
    """A value as HTML."""
    match value:
        case Table():
            corner = [element("td")] if value.labels else []
            lines = [element("tr", *corner, *(element("th", name, scope="col") for name in value.columns))]
            for number, row in enumerate(value.rows):
                label = [element("th", value.labels[number], scope="row")] if value.labels else []
                lines.append(element("tr", *label, *(element("td", cell) for cell in row)))
            return joined(
                element("div", element("table", *lines, class_="frame"), class_="wide"),
                element("span", value.note, class_="help"),
            )
        case Picture():
            data = base64.b64encode(value.png).decode("ascii")
            return element("img", src=f"data:image/png;base64,{data}", alt=value.note)
        case Block():
            return joined(value.text, *([" ", value.note] if value.note else []))
        case _:
            return escaped(value.text)


def _plain(question: Any) -> Any:
    return question.plain() if isinstance(question, UnknownEvent) else question


def _texts(source: Any) -> dict[str, str]:
    """Fields that are plain text, by the name that they are shown with."""
    pairs = source.items() if isinstance(source, Mapping) else shown_fields(source) or ()
    return {preview_name(name): _whole(value) for name, value in pairs if type(value) is str}


def _whole(text: str) -> str:
    more = len(text) - _TEXT
    return text if more <= 0 else f"{text[:_TEXT]} … {more:,} more characters"


def draft_of(request: Any) -> dict[str, Any]:
    """The answer to an earlier question that this one took the place of, field by field: to begin with."""
    old = request.draft
    if isinstance(old, UnknownEvent):
        old = old.plain()
    if isinstance(old, BaseModel):
        old = {name: getattr(old, name, None) for name in type(old).model_fields}
    if isinstance(old, Mapping):
        return {str(name): value for name, value in old.items()}
    return {} if old is None else {"answer": old}


def words_of(value: Any) -> str:
    """A value in one line, a text as it is."""
    return value if type(value) is str else preview(value, _VALUE)


__all__ = ["draft_of", "drawn", "payload_of", "prompt_of", "title_of", "words_of"]
