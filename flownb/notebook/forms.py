"""A question to a person as ordinary ipywidgets, made from the type of the answer.

Every widget, Layout and Style is a comm, and a server drops messages when too many are opened at once. So a form shares
one Layout per wish and one Style per kind of control, shows help and error of a field in one widget, and becomes one
JSON text when a model has more fields than the budget holds. What a person typed is checked by the answer's type.

Handlers come on any thread. They check, set values of widgets, and call `on_send` or `on_later`; what these do is the
caller's business.
"""

from __future__ import annotations

import html
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

import ipywidgets

from flownb.forms.answers import AnswerType
from flownb.forms.fields import MISSING, REQUIRED, SOLE, FieldSpec, clean
from flownb.forms.texts import text_of
from flownb.forms.tree import as_json, fields_of
from flownb.notebook.controls import CONTROLS, Kit

__all__ = ["BUDGET", "AnswerForm", "fields_of"]

#: Comms that a form may open when it is shown; an error adds one to a field that has no help.
BUDGET: Final = 60
#: Frame, head, grid, buttons and note (7), and the Layouts (12) and Styles (6) when every kind of control is there.
_FRAME: Final = 25


class AnswerForm:
    """One open question to a person, as ipywidgets.

    Args:
        answer: A pydantic model class, or any type that pydantic's `TypeAdapter` takes.
        title: Who asks, for instance "review (1 of 2)".
        prompt: The question. Labels the field if the answer is no model and it is short, else stands above the fields.
        payload: What the question is about, as (name, preview) rows.
        note: Shown at the upper right, for instance the default and when it is taken.
        draft: {field name: value} to begin with instead of the defaults, such as `values` of an earlier form.
        on_send: Called with the validated answer, once until `show_error`. If it raises, the form shows that and stays
            usable.
        on_later: Called when the person puts the question off. None: there is no such button.

    Raises:
        pydantic.PydanticUserError: pydantic cannot validate this type.
    """

    #: Shown by the caller.
    box: ipywidgets.VBox

    def __init__(
        self,
        answer: Any,
        *,
        title: str,
        prompt: str = "",
        payload: Sequence[tuple[str, str]] = (),
        note: str = "",
        draft: Mapping[str, Any] | None = None,
        on_send: Callable[[Any], None],
        on_later: Callable[[], None] | None = None,
    ) -> None:
        self._on_send, self._on_later = on_send, on_later
        self._state: Literal["open", "sending", "answered", "closed"] = "open"
        self._lock = threading.RLock()
        self._type, help_below = _within_budget(answer, prompt)
        given = dict(draft or {})
        if self._type.sole and given and SOLE not in given:
            given = {SOLE: given}  # the draft of a model that is asked for as one text
        self._kit = kit = Kit()
        self._rows = [_Row(kit, spec, given, help_below=help_below) for spec in self._type.fields]
        labelled = self._type.sole and self._rows[0].spec.label == prompt
        self._title = title
        self._below_title = ("" if labelled or not prompt else _prompt(prompt)) + _payload(payload)
        self._head = kit.make(ipywidgets.HTML, css=["fl-form-head"])
        self.set_note(note)
        self._note = kit.make(ipywidgets.HTML, css=["fl-form-note"])
        self._send = kit.make(
            ipywidgets.Button,
            description="Send answer",
            button_style="primary",
            icon="paper-plane",
            css=["flownb-send"],
        )
        self._send.on_click(lambda _: self.submit())
        self._buttons = [self._send]
        if on_later is not None:
            later = kit.make(ipywidgets.Button, description="Later", icon="clock", css=["flownb-later"])
            later.on_click(lambda _: self._put_off())
            self._buttons.append(later)
        columns = "repeat(auto-fill, minmax(min(270px, 100%), 1fr))"
        self.box = kit.make(
            ipywidgets.VBox,
            [
                self._head,
                kit.make(
                    ipywidgets.GridBox,
                    [r.box for r in self._rows],
                    css=["fl-grid"],
                    grid_template_columns=columns,
                    grid_gap="10px 28px",
                ),
                kit.make(
                    ipywidgets.HBox,
                    [*self._buttons, self._note],
                    css=["fl-actions"],
                    align_items="center",
                    grid_gap="8px",
                ),
            ],
            css=["flownb-form"],
        )

    @property
    def values(self) -> dict[str, Any]:
        """{field name: what is typed in now}, without empty fields and secrets; None for what is not set."""
        typed = {row.spec.name: row.typed() for row in self._rows if row.spec.kind != "secret"}
        return {name: value for name, value in typed.items() if value is not MISSING}

    def submit(self) -> None:
        """Sends the answer if its type takes it, else shows the errors at their fields. A second click does nothing."""
        with self._lock:
            if self._state != "open":
                return
            answer = self._check()
            if answer is MISSING:
                return
            self._state = "sending"
            self._enable(False)
            self._say("", "Sending …")
        try:
            self._on_send(answer)
        except Exception as error:
            self.show_error(f"Not sent. {type(error).__name__}: {error}")
            raise

    def show_error(self, text: str) -> None:
        """Shows that the answer was refused. The form can be sent again, what was typed is kept."""
        with self._lock:
            if self._state in ("answered", "closed"):
                return  # the first answer stands
            self._state = "open"
            self._enable(True)
            self._note.value = _error(text)

    def answered(self, text: str) -> None:
        """Shows who answered and when, and takes no more input."""
        with self._lock:
            if self._state == "closed":
                return
            self._state = "answered"
            self._enable(False)
            self.set_note("")  # nobody is needed any more, and no countdown runs
            self.box.add_class("fl-answered")
            for row in self._rows:
                row.show("")
                row.disable()
            self._say(_glyph(_DONE), text)

    def set_note(self, note: str) -> None:
        """Changes the words at the upper right, such as a countdown."""
        asks = self._state in ("open", "sending")
        self._head.value = _headline(self._title, note, asks=asks) + self._below_title

    def close(self) -> None:
        """Closes every widget, Layout and Style of the form."""
        with self._lock:
            self._state = "closed"
            self._kit.close()

    def _check(self) -> Any:
        """The validated answer, or MISSING after the problems were shown."""
        values: dict[str, Any] = {}
        problems: dict[str, str] = {}
        for row in self._rows:
            name = row.spec.name
            try:
                value = row.value()
            except ValueError as error:
                problems[name] = str(error)
                continue
            if value is not MISSING:
                values[name] = value
            elif row.spec.required:
                problems[name] = REQUIRED
        checked = self._type.check(values)
        problems = {**checked.problems, **problems}
        for row in self._rows:
            row.show(problems.get(row.spec.name, ""))
        rest = problems.get("", "")
        marked = len(problems) - bool(rest)
        if problems:
            words = f"Please mend the marked field{'s' if marked > 1 else ''}." if marked else ""
            self._note.value = _error(f"{rest} {words}".strip())
        return MISSING if problems else checked.answer

    def _put_off(self) -> None:
        with self._lock:
            if self._state != "open":
                return
        if self._on_later is not None:
            self._on_later()

    def _enable(self, on: bool) -> None:
        for button in self._buttons:
            button.disabled = not on

    def _say(self, glyph: str, text: str) -> None:
        self._note.value = f'<span role="status" class="fl-form-said">{glyph}{_escape(text)}</span>'


def _within_budget(answer: Any, prompt: str) -> tuple[AnswerType, bool]:
    """The answer's type with fields that fit, and whether there is room for help below the controls."""
    asked = AnswerType(answer, prompt=prompt)
    asked.fields = [_drawn(spec) for spec in asked.fields]
    bare = sum(4 if spec.optional else 2 for spec in asked.fields)
    if _FRAME + bare > BUDGET:
        return AnswerType(answer, whole=True), True
    return asked, _FRAME + bare + sum(1 for spec in asked.fields if spec.help) <= BUDGET


def _drawn(spec: FieldSpec) -> FieldSpec:
    if spec.kind in ("chips", "rows", "group", "tabs"):
        return as_json(spec)
    return replace(spec, kind="text") if spec.kind in ("time", "datetime") else spec


class _Row:
    """A field on the screen: its control, its set / not set toggle, its help and error."""

    def __init__(self, kit: Kit, spec: FieldSpec, draft: Mapping[str, Any], *, help_below: bool) -> None:
        self.spec, self._kit = spec, kit
        start = draft.get(spec.name, spec.default)
        if spec.kind in ("text", "json") and not isinstance(start, str):
            start = text_of(spec, start) or MISSING
        label = spec.label + (" *" if spec.required and not spec.optional else "")
        self.control = CONTROLS[spec.kind](kit, replace(spec, label=label), start)
        self._help = spec.help if help_below else ""
        if spec.help and not help_below:
            self.control.widget.tooltip = spec.help
        parts: list[ipywidgets.Widget] = [self.control.widget]
        self._toggle: Any = None
        if spec.optional:
            self._toggle = self._make_toggle(on=start is not MISSING and start is not None)
            parts = [
                kit.make(
                    ipywidgets.HBox,
                    [self.control.widget, self._toggle],
                    css=["fl-optional"],
                    align_items="flex-end",
                    grid_gap="6px",
                )
            ]
        self._words: ipywidgets.HTML | None = None
        if self._help:
            self._words = kit.make(ipywidgets.HTML, _help(self._help))
            parts.append(self._words)
        wide = {"grid_area": "auto / 1 / auto / -1"} if spec.kind in ("area", "json") or spec.name == SOLE else {}
        self.box = kit.make(ipywidgets.VBox, parts, css=["fl-field"], **wide)

    def typed(self) -> Any:
        return None if self._is_unset() else self.control.typed()

    def value(self) -> Any:
        if self._is_unset():
            return None
        value = self.control.value()
        if value is MISSING and self.spec.optional:
            raise ValueError('Please fill this in, or switch it to "not set".')
        return value

    def show(self, error: str) -> None:
        """Puts the error below the control, or takes it away with ""."""
        if not error and self._words is None:
            return
        if self._words is None:
            self._words = self._kit.make(ipywidgets.HTML)
            self.box.children = (*self.box.children, self._words)
        self._words.value = _help(self._help) + (_error(error) if error else "")
        (self.box.add_class if error else self.box.remove_class)("fl-bad")

    def disable(self) -> None:
        self.control.widget.disabled = True
        if self._toggle is not None:
            self._toggle.disabled = True
        if self.spec.kind == "secret":
            self.control.widget.value = ""

    def _is_unset(self) -> bool:
        return self._toggle is not None and not self._toggle.value

    def _make_toggle(self, *, on: bool) -> Any:
        toggle = self._kit.make(
            ipywidgets.ToggleButton,
            on,
            tooltip=f"{self.spec.label}: set, or leave it not set",
            css=["fl-toggle"],
            width="84px",
        )
        control = self.control.widget

        def say(_: object = None) -> None:
            toggle.description, toggle.icon = ("set", "check") if toggle.value else ("not set", "ban")
            (control.remove_class if toggle.value else control.add_class)("fl-off")

        say()
        toggle.observe(say, "value")
        # Typing sets it: the control is never locked, so nobody waits for a busy kernel to unlock it.
        control.observe(lambda _: toggle.set_trait("value", True), "value")
        return toggle


#: Paths, not characters: some fonts lack them, others make emoji of them.
_PERSON: Final = '<path d="M0-5.6L5.6 0L0 5.6L-5.6 0Z" fill="currentColor"/>'
_DONE: Final = '<path d="M-4.4 .3L-1.4 3.4L4.6-3.6"/>'
_WRONG: Final = '<path d="M0-4.8L5.2 4.4H-5.2ZM0-1.6V1.4M0 2.9V3"/>'


def _escape(text: str) -> str:
    return html.escape(clean(text))


def _glyph(path: str) -> str:
    look = 'fill="none" stroke="currentColor" stroke-width="1.4" stroke-linecap="round" stroke-linejoin="round"'
    return f'<svg class="fl-glyph" width="12" height="12" viewBox="-6 -6 12 12" aria-hidden="true" {look}>{path}</svg> '


def _headline(title: str, note: str, *, asks: bool) -> str:
    lead = f"{_glyph(_PERSON)}Needs you: " if asks else ""
    words = f'<b class="fl-title">{lead}{_escape(title)}</b>'
    return f'<div class="fl-headline">{words}<span class="fl-when">{_escape(note)}</span></div>'


def _prompt(prompt: str) -> str:
    return f'<div class="fl-prompt">{_escape(prompt)}</div>'


def _payload(rows: Sequence[tuple[str, str]]) -> str:
    cells = "".join(f'<tr><th scope="row">{_escape(name)}</th><td>{_escape(text)}</td></tr>' for name, text in rows)
    return f'<table class="fl-payload">{cells}</table>' if cells else ""


def _help(text: str) -> str:
    return f'<div class="fl-help">{_escape(text)}</div>' if text else ""


def _error(text: str) -> str:
    return f'<div role="alert" class="fl-err">{_glyph(_WRONG)}{_escape(text)}</div>'
