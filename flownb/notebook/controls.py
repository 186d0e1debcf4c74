"""One control for each kind of field, as ipywidgets, and the kit that makes and closes them.

A control's own description is its label, so that the label is a real one. Sizes are in Layouts; the rest of the look is
in the style sheet, section "form".
"""

from __future__ import annotations

import datetime
import enum
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import ipywidgets

from flownb.forms.fields import MISSING, Choice, FieldSpec, Kind, clean
from flownb.notebook.kernel import acknowledged

#: More choices than that are a dropdown.
_MANY: Final = 4
#: A number of the browser holds no larger int exactly.
_EXACT: Final = 2**53

W = TypeVar("W", bound=ipywidgets.Widget)


class Kit:
    """Makes the widgets of one form, with shared Layouts and Styles, and closes them all."""

    def __init__(self) -> None:
        #: Every widget, Layout and Style, in the order they were made: each is a comm.
        self._made: list[ipywidgets.Widget] = []
        self._layouts: dict[tuple[tuple[str, str], ...], ipywidgets.Layout] = {}
        self._styles: dict[type, ipywidgets.Widget] = {}

    def make(self, kind: type[W], *args: Any, css: Sequence[str] = (), **wishes: Any) -> W:
        """A widget; wishes that are Layout traits go to a shared Layout, the others to the widget."""
        sizes = {name: wishes.pop(name) for name in tuple(wishes) if name in _LAYOUT_TRAITS}
        style = getattr(kind.class_traits().get("style"), "klass", None)
        if style is not None:
            wishes["style"] = self._style(style)
        if _MATH.search(wishes.get("description", "")):
            wishes["description"], wishes["description_allow_html"] = _inert(wishes["description"]), True
        if css:
            wishes["_dom_classes"] = tuple(css)  # add_class would cost a message for each
        widget: W = self._keep(kind(*args, layout=self._layout(sizes), **wishes))
        if widget.comm is not None:
            widget.comm.on_msg(acknowledged(widget._handle_msg))
        return widget

    def close(self) -> None:
        """Closes everything that was made here."""
        while self._made:
            self._made.pop().close()

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
        return widget


def _inert(label: str) -> str:
    """A label that would be typeset as a formula, as HTML that is not, and that Markdown leaves alone."""
    safe = "".join(c if c.isalnum() or c == " " else f"&#{ord(c)};" for c in label)
    return f'<span class="mathjax_ignore">{safe}</span>'


_MATH: Final = re.compile(r"\$.*\$|\\[(\[]|\\begin", re.DOTALL)
_LAYOUT_TRAITS: Final = frozenset(ipywidgets.Layout.class_trait_names()) - frozenset(
    ipywidgets.Widget.class_trait_names()
)


@dataclass(frozen=True, slots=True)
class Control:
    """A control and how to read it."""

    widget: ipywidgets.Widget
    #: What is typed, as a draft keeps it; MISSING: nothing.
    typed: Callable[[], Any]
    #: What is typed, as the answer's type wants it. Raises ValueError in words for the person.
    value: Callable[[], Any]


def _text(kit: Kit, spec: FieldSpec, start: Any, kind: type = ipywidgets.Text, **wishes: Any) -> Control:
    shown = "" if start is MISSING or start is None else clean(start)
    wishes = wishes or {"width": "100%", "max_width": "280px"}
    control: Any = kit.make(kind, shown, description=spec.label, placeholder=spec.placeholder, **wishes)

    def typed() -> Any:
        empty_is_text = spec.takes_empty and (spec.optional or not spec.required)
        return control.value if control.value.strip() or empty_is_text else MISSING

    return Control(control, typed, typed)


def _area(kit: Kit, spec: FieldSpec, start: Any) -> Control:
    return _text(kit, spec, start, ipywidgets.Textarea, rows=3, width="100%", max_width="640px")


def _secret(kit: Kit, spec: FieldSpec, start: Any) -> Control:
    # Never begins with a value: a default or draft would lie readable in the notebook's widget state.
    return _text(kit, spec, MISSING, ipywidgets.Password)


def _number(kit: Kit, spec: FieldSpec, start: Any) -> Control:
    """A number box if there is a number to begin with, else an empty text.

    A number box always holds some number, so without a default it would answer for the person. Boxes for ints are float
    boxes, too: the int box cuts 1.5 to 1 without a word, here the answer's type refuses it.
    """
    plain = isinstance(start, (int, float)) and not isinstance(start, bool) and abs(start) < _EXACT
    low, high = spec.low, spec.high
    if not plain or (low is not None and start < low) or (high is not None and start > high):
        return _text(kit, spec, start, width="140px")
    step = 1 if spec.kind == "int" else None
    control: Any
    if low is not None and high is not None and low < high:
        control = kit.make(
            ipywidgets.BoundedFloatText, start, min=low, max=high, step=step, description=spec.label, width="140px"
        )
    else:
        # Sent while typing: keys may click Send before the box loses the focus. Not so the bounded box: it would clamp
        # half of a number.
        control = kit.make(
            ipywidgets.FloatText, start, description=spec.label, width="140px", step=step, continuous_update=True
        )

    def typed() -> Any:
        number = control.value
        return int(number) if spec.kind == "int" and float(number).is_integer() else number

    return Control(control, typed, typed)


def _checkbox(kit: Kit, spec: FieldSpec, start: Any) -> Control:
    control = kit.make(ipywidgets.Checkbox, start is True, description=spec.label, indent=False)
    return Control(control, lambda: control.value, lambda: control.value)


def _choice(kit: Kit, spec: FieldSpec, start: Any) -> Control:
    # The options' values are their numbers: user values may be equal without being the same (1, True).
    options = [(choice.label, number) for number, choice in enumerate(spec.choices)]
    chosen = next((n for n, choice in enumerate(spec.choices) if _is_choice(choice, start)), None)
    control: Any
    if len(options) > _MANY:
        control = kit.make(
            ipywidgets.Dropdown, options=options, value=chosen, description=spec.label, width="280px", max_width="100%"
        )
    else:
        control = kit.make(
            ipywidgets.RadioButtons, options=options, value=chosen, description=spec.label, orientation="horizontal"
        )

    def typed() -> Any:
        return MISSING if control.value is None else spec.choices[control.value].value

    return Control(control, typed, typed)


def _is_choice(choice: Choice, start: Any) -> bool:
    """Whether a default or a draft means this choice; a draft from a journal holds an Enum's value."""
    meant = [choice.value, choice.value.value] if isinstance(choice.value, enum.Enum) else [choice.value]
    return any(type(value) is type(start) and bool(value == start) for value in meant)


def _date(kit: Kit, spec: FieldSpec, start: Any) -> Control:
    if isinstance(start, str):
        try:
            start = datetime.date.fromisoformat(start)
        except ValueError:  # a draft that is no date
            start = MISSING
    day = start if isinstance(start, datetime.date) else None
    control = kit.make(ipywidgets.DatePicker, value=day, description=spec.label, width="160px")

    def typed() -> Any:
        return MISSING if control.value is None else control.value

    return Control(control, typed, typed)


def _json(kit: Kit, spec: FieldSpec, start: Any) -> Control:
    shown = start if start is MISSING or start is None or isinstance(start, str) else _dump(start)
    text = _text(kit, spec, shown, ipywidgets.Textarea, css=["fl-json"], rows=5, width="100%")

    def value() -> Any:
        typed = text.typed()
        if typed is MISSING:
            return MISSING
        try:
            return json.loads(typed)
        except ValueError as error:
            if spec.takes_text:
                return typed
            place = f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
            raise ValueError(f"This is not JSON{place}.") from error

    return Control(text.widget, text.typed, value)


def _dump(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


CONTROLS: Final[Mapping[Kind, Callable[[Kit, FieldSpec, Any], Control]]] = {
    "text": _text,
    "area": _area,
    "secret": _secret,
    "int": _number,
    "float": _number,
    "bool": _checkbox,
    "choice": _choice,
    "date": _date,
    "json": _json,
}
