"""Forms without a browser: made, looked into, and closed with nothing left."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import ipywidgets
from ipywidgets.widgets.widget import _instances as live
from pydantic import BaseModel

from flownb.notebook.forms import AnswerForm


class Formed:
    """An open form and what it sent."""

    def __init__(self, answer: Any, **more: Any) -> None:
        self.sent: list[Any] = []
        self.form = AnswerForm(answer, **{"title": "review", "on_send": self.sent.append, **more})

    def all(self) -> Iterator[Any]:
        return inside(self.form.box)

    def control(self, label: str, nth: int = 0) -> Any:
        """The n-th control of a label, marked as required or not."""
        found = [w for w in self.all() if getattr(w, "description", None) in (label, f"{label} *")]
        return found[nth]

    def field(self, name: str) -> Any:
        """A field of the model on the screen."""
        return next(field for field in self.form._fields.fields if field.spec.name == name)

    def toggle(self, name: str) -> Any:
        return self.field(name)._toggle

    def button(self, css: str, nth: int = 0) -> Any:
        return [w for w in self.all() if css in w._dom_classes][nth]

    def errors(self, box: Any = None) -> list[str]:
        """All that is marked as wrong, in the order of the form, without the glyphs."""
        texts = [w.value for w in inside(box or self.form.box) if isinstance(w, ipywidgets.HTML)]
        return [text.rpartition("</svg> ")[2].removesuffix("</div>") for text in texts if 'role="alert"' in text]


def inside(widget: Any) -> Iterator[Any]:
    """A widget and all in it."""
    yield widget
    for child in getattr(widget, "children", ()):
        yield from inside(child)


@contextmanager
def formed(answer: Any, **more: Any) -> Generator[Formed, None, None]:
    """A form, which must leave no widget, Layout or Style behind."""
    before = set(live)
    one = Formed(answer, **more)
    try:
        yield one
    finally:
        one.form.close()
        assert set(live) == before


def model_of(**annotations: Any) -> type[BaseModel]:
    """A model with these fields, each without a default."""
    return type("Answer", (BaseModel,), {"__annotations__": annotations})
