"""A control for each kind of field that holds no others."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import ipywidgets

from flownb.forms.fields import MISSING, FieldSpec, Kind, clean
from flownb.forms.registry import Builder
from flownb.forms.texts import text_of, value_of
from flownb.forms.typed import Given, begin_set
from flownb.notebook.controls.inputs import ChipsInput, SecretInput
from flownb.notebook.controls.kit import Kit

#: A number of the browser holds no larger int exactly.
_EXACT: Final = 2**53
#: Offered for a time zone, before any that may be typed.
_ZONES: Final = (
    "UTC", "Europe/London", "Europe/Berlin", "Europe/Athens", "Africa/Lagos", "Africa/Nairobi", "Asia/Dubai",
    "Asia/Kolkata", "Asia/Shanghai", "Asia/Tokyo", "Australia/Sydney", "America/Sao_Paulo", "America/New_York",
    "America/Chicago", "America/Denver", "America/Los_Angeles",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Leaf:
    """A control and how to read it."""

    #: What is put into the form.
    widget: ipywidgets.Widget
    #: What is typed (`forms/typed.py`).
    typed: Callable[[], Any]
    #: What of it can be typed into, each with `value` and `disabled`.
    inputs: tuple[Any, ...]

    def show(self, problems: Mapping[str, str], path: str) -> dict[str, str]:
        """Nothing lies inside, so no problem has a place of its own."""
        return dict(problems)

    def disable(self) -> None:
        for control in self.inputs:
            if control.has_trait("disabled"):
                control.disabled = True
            if isinstance(control, SecretInput):
                control.forget()


Maker = Callable[[Kit, FieldSpec, Any], Leaf]


def _one(control: Any, typed: Callable[[], Any] | None = None) -> Leaf:
    return Leaf(control, typed or (lambda: control.value), (control,))


def _text(kit: Kit, spec: FieldSpec, start: str, kind: type = ipywidgets.Text, **wishes: Any) -> Leaf:
    wishes = wishes or {"width": "100%", "max_width": "280px"}
    return _one(kit.make(kind, clean(start), description=spec.label, placeholder=spec.placeholder, **wishes))


def _area(kit: Kit, spec: FieldSpec, start: str) -> Leaf:
    return _text(kit, spec, start, ipywidgets.Textarea, rows=3, width="100%", max_width="640px")


def _json(kit: Kit, spec: FieldSpec, start: str) -> Leaf:
    if spec.hides:  # a text area would show the secret, and be saved with it
        return _secret(kit, spec, start)
    rows = min(max(start.count("\n") + 1, 4), 14)
    return _text(kit, spec, start, ipywidgets.Textarea, css=["fl-json"], rows=rows, width="100%", max_width="640px")


def _secret(kit: Kit, spec: FieldSpec, start: str) -> Leaf:
    wishes = {"width": "100%", "max_width": "280px"}
    return _one(kit.make(SecretInput, description=spec.label, placeholder=spec.placeholder, **wishes))


def _number(kit: Kit, spec: FieldSpec, start: str) -> Leaf:
    """A number box if there is a number to begin with, else an empty text.

    A number box always holds some number, so without a default it would answer for the person. Boxes for ints are float
    boxes, too: the int box cuts 1.5 to 1 without a word, and a bounded one moves a number to its bounds. Here the
    answer's type refuses it.
    """
    number = value_of(spec, start)
    if not isinstance(number, (int, float)) or not abs(number) < _EXACT:
        return _text(kit, spec, start, width="140px")
    # Sent while typing: keys may click Send before the box loses the focus.
    box = kit.make(
        ipywidgets.FloatText,
        number,
        description=spec.label,
        width="140px",
        step=1 if spec.kind == "int" else None,
        continuous_update=True,
    )

    def typed() -> str:
        whole = spec.kind == "int" and float(box.value).is_integer()
        return str(int(box.value)) if whole else repr(box.value).removesuffix(".0")

    return _one(box, typed)


def _checkbox(kit: Kit, spec: FieldSpec, start: bool) -> Leaf:
    return _one(kit.make(ipywidgets.Checkbox, start, description=spec.label, indent=False))


def _choice(kit: Kit, spec: FieldSpec, start: str) -> Leaf:
    # The options' values are their numbers: user values may be equal without being the same (1, True).
    options = [(choice.label, number) for number, choice in enumerate(spec.choices)]
    chosen = next((n for n, choice in enumerate(spec.choices) if choice.label == start), None)
    control: Any
    if spec.few:
        control = kit.make(
            ipywidgets.RadioButtons, options=options, value=chosen, description=spec.label, orientation="horizontal"
        )
    else:
        control = kit.make(
            ipywidgets.Dropdown, options=options, value=chosen, description=spec.label, width="100%", max_width="280px"
        )
    return _one(control, lambda: "" if control.value is None else spec.choices[control.value].label)


def _date(kit: Kit, spec: FieldSpec, start: str) -> Leaf:
    day = value_of(spec, start)
    if start and not isinstance(day, datetime.date):
        return _text(kit, spec, start, width="160px")
    picker = kit.make(
        ipywidgets.DatePicker, value=None if day is MISSING else day, description=spec.label, width="160px"
    )
    return _one(picker, lambda: text_of(spec, picker.value))


def _time(kit: Kit, spec: FieldSpec, start: str) -> Leaf:
    time = value_of(spec, start)
    # The browser's own knows no zone and no microseconds.
    if start and (not isinstance(time, datetime.time) or time.tzinfo is not None or time.microsecond):
        return _text(kit, spec, start, width="160px")
    value = None if time is MISSING else time
    step = 1 if value is not None and value.second else 60
    picker = kit.make(ipywidgets.TimePicker, value=value, step=step, description=spec.label, width="140px")
    return _one(picker, lambda: text_of(spec, picker.value))


def _datetime(kit: Kit, spec: FieldSpec, start: str) -> Leaf:
    """Day and time, and a zone where one is needed, or known from what the field begins with."""
    try:
        moment = value_of(spec, start)
    except ValueError:
        moment = start
    if start and (not isinstance(moment, datetime.datetime) or moment.microsecond):
        return _text(kit, spec, start)
    value = None if moment is MISSING else moment.replace(tzinfo=None)
    picker = kit.make(ipywidgets.NaiveDatetimePicker, value=value, description=spec.label, width="200px")
    zone = None if moment is MISSING else moment.tzinfo
    if zone is None and spec.zone != "needed":
        return _one(picker, lambda: text_of(spec, picker.value))
    box = kit.make(
        ipywidgets.Combobox,
        value=_zone_text(spec, moment),
        options=_ZONES,
        description="Time zone",
        placeholder="+01:00",
        width="150px",
    )
    both = kit.make(ipywidgets.HBox, [picker, box], css=["fl-moment"], align_items="flex-end", grid_gap="8px")

    def typed() -> str:
        return f"{text_of(spec, picker.value)} {box.value.strip()}".strip() if picker.value is not None else ""

    return Leaf(both, typed, (picker, box))


def _zone_text(spec: FieldSpec, moment: Any) -> str:
    if moment is MISSING or moment.tzinfo is None:
        return ""
    written = text_of(spec, moment)
    return written.rpartition(" ")[2]


def _chips(kit: Kit, spec: FieldSpec, start: list[str]) -> Leaf:
    assert spec.item is not None
    choices = [choice.label for choice in spec.item.choices]
    return _one(
        kit.make(
            ChipsInput,
            value=[clean(text) for text in start],
            choices=choices,
            description=spec.label,
            placeholder=spec.item.placeholder,
            width="100%",
            max_width="640px",
        )
    )


def leaf(kit: Kit, spec: FieldSpec, start: Any = MISSING, *, typed: bool = False) -> Leaf:
    """The control of a field.

    Args:
        kit: Makes the widgets.
        spec: The field; its label is shown as it is.
        start: What to begin with, typed or a value; MISSING: the default.
        typed: As in `typed.begin`.
    """
    shown = begin_set(spec, spec.default if start is MISSING else start, typed=typed and start is not MISSING)
    return _MAKERS[spec.kind](kit, spec, shown)


def own_control(kit: Kit, spec: FieldSpec, builder: Builder, start: Any) -> Leaf:
    """The control that a user registered for a type.

    Raises:
        TypeError: It is no widget with a value.
    """
    begin = spec.default if start is MISSING else start
    widget = builder(spec, None if begin is MISSING else begin)
    control: Any = kit.adopt(widget) if isinstance(widget, ipywidgets.Widget) else None
    if control is None or not control.has_trait("value"):
        raise TypeError(f"it must give a widget with a value, got {type(widget).__name__}.")
    return _one(control, lambda: Given(control.value))


_MAKERS: Final[Mapping[Kind, Maker]] = {
    "text": _text,
    "area": _area,
    "secret": _secret,
    "int": _number,
    "float": _number,
    "bool": _checkbox,
    "choice": _choice,
    "date": _date,
    "time": _time,
    "datetime": _datetime,
    "chips": _chips,
    "json": _json,
}
