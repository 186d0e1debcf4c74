"""Makes the widgets of one form, with shared Layouts and Styles, and closes them all.

A control's own description is its label, so that the label is a real one. Sizes are in Layouts; the rest of the look is
in the style sheets `form.css` and `fields.css`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import ipywidgets

from flownb.notebook import ours
from flownb.notebook.kernel import acknowledged

W = TypeVar("W", bound=ipywidgets.Widget)


class Kit:
    """Makes widgets and closes them.

    Args:
        whole: The kit of the form, where this one is for a part of it that may go earlier: a row.
    """

    def __init__(self, whole: Kit | None = None) -> None:
        #: Every widget, in the order they were made: each is a comm.
        self._made: list[ipywidgets.Widget] = []
        self._parts: list[Kit] = []
        self._root: Kit = whole._root if whole is not None else self
        self._layouts: dict[tuple[tuple[str, str], ...], ipywidgets.Layout] = {}
        self._styles: dict[type, ipywidgets.Widget] = {}
        if whole is not None:
            whole._parts.append(self)

    def make(self, kind: type[W], *args: Any, css: Sequence[str] = (), **wishes: Any) -> W:
        """A widget; wishes that are Layout traits go to a shared Layout, the others to the widget."""
        sizes = {name: wishes.pop(name) for name in tuple(wishes) if name in _LAYOUT_TRAITS}
        style = getattr(kind.class_traits().get("style"), "klass", None)
        if style is not None:
            wishes["style"] = self._root._style(style)
        if _MATH.search(wishes.get("description", "")) and kind.class_traits().get("description_allow_html"):
            wishes["description"], wishes["description_allow_html"] = _inert(wishes["description"]), True
        if css:
            wishes["_dom_classes"] = tuple(css)  # add_class would cost a message for each
        widget: W = self._keep(kind(*args, layout=self._root._layout(sizes), **wishes))
        return _heard(widget)

    def adopt(self, widget: W) -> W:
        """A widget that was made elsewhere, with all that is in it: it is closed with the others."""
        for child in getattr(widget, "children", ()):
            self.adopt(child)
        for name in ("layout", "style"):
            if isinstance(part := getattr(widget, name, None), ipywidgets.Widget):
                self._keep(part)
        return _heard(self._keep(widget))

    def part(self) -> Kit:
        """A kit for widgets that may go before the form does."""
        return Kit(self)

    def close(self) -> None:
        """Closes everything that was made here, and in its parts."""
        while self._parts:
            self._parts.pop().close()
        while self._made:
            self._made.pop().close()

    def close_but(self, *kept: ipywidgets.DOMWidget) -> None:
        """Closes all but some widgets, with their Layouts and Styles."""
        while self._parts:
            self._parts.pop().close()
        stays = {id(part) for widget in kept for part in (widget, widget.layout, getattr(widget, "style", None))}
        gone = [widget for widget in self._made if id(widget) not in stays]
        self._made = [widget for widget in self._made if id(widget) in stays]
        for widget in reversed(gone):
            widget.close()

    def _layout(self, sizes: Mapping[str, str]) -> ipywidgets.Layout:
        wishes = {"margin": "0", "overflow": "visible", "width": "auto", **sizes}
        key = tuple(sorted(wishes.items()))
        if key not in self._layouts:
            self._layouts[key] = self._keep(ipywidgets.Layout(**wishes))
        return self._layouts[key]

    def _style(self, kind: type[ipywidgets.Widget]) -> ipywidgets.Widget:
        if kind not in self._styles:
            # Without the form's style sheet a label would be cut at 80 px.
            wishes = {"description_width": "initial"} if "description_width" in kind.class_trait_names() else {}
            self._styles[kind] = self._keep(kind(**wishes))
        return self._styles[kind]

    def _keep(self, widget: W) -> W:
        self._made.append(widget)
        ours.claim(widget)
        return widget


def _heard(widget: W) -> W:
    """A widget whose messages the page is told of, once they are handled."""
    if widget.comm is not None:
        widget.comm.on_msg(acknowledged(widget._handle_msg))
    return widget


def _inert(label: str) -> str:
    """A label that would be typeset as a formula, as HTML that is not, and that Markdown leaves alone."""
    safe = "".join(c if c.isalnum() or c == " " else f"&#{ord(c)};" for c in label)
    return f'<span class="mathjax_ignore">{safe}</span>'


_MATH: Final = re.compile(r"\$.*\$|\\[(\[]|\\begin", re.DOTALL)
_LAYOUT_TRAITS: Final = frozenset(ipywidgets.Layout.class_trait_names()) - frozenset(
    ipywidgets.Widget.class_trait_names()
)
