"""A question to a person as ordinary ipywidgets, made from the type of the answer.

What a person typed is read and checked by `flownb.forms`, the same as on a page of HTML; `controls/` draws it.

Handlers come on any thread. They check, set values of widgets, and call `on_send` or `on_later`; what these do is the
caller's business.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import ipywidgets
from pydantic import BaseModel

from flownb.errors import WorkflowError
from flownb.forms.fields import MISSING, SOLE
from flownb.forms.payload import Shown
from flownb.forms.typed import draft_of
from flownb.notebook.controls import words
from flownb.notebook.controls.budget import BUDGET, fitting
from flownb.notebook.controls.inputs import FormGuide
from flownb.notebook.controls.kit import Kit
from flownb.notebook.controls.payload import payload_html
from flownb.notebook.controls.trees import Fields, grid

__all__ = ["BUDGET", "AnswerForm"]


class AnswerForm:
    """One open question to a person, as ipywidgets.

    Args:
        answer: A pydantic model class, or any type that pydantic's `TypeAdapter` takes.
        title: Who asks, for instance "review (1 of 2)".
        prompt: The question. Labels the field if the answer is no model and it is short, else stands above the fields.
        payload: What the question is about: (name, a line of text, or what `forms.payload` made of the value).
        note: Shown at the upper right, for instance the default and when it is taken.
        draft: {field name: typed, or a value} to begin with instead of the defaults, such as `values` of an earlier
            form, or an answer.
        on_send: Called with the validated answer, once until `show_error`. If it raises, the form shows that and stays
            usable.
        on_later: Called when the person puts the question off. None: there is no such button.
        on_hold: Called when the person stops the countdown. None: there is no such button.
        request: Id of the question, by which the page finds where its countdown stands.

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
        payload: Sequence[tuple[str, str | Shown]] = (),
        note: str = "",
        draft: Mapping[str, Any] | BaseModel | None = None,
        on_send: Callable[[Any], None],
        on_later: Callable[[], None] | None = None,
        on_hold: Callable[[], None] | None = None,
        request: str = "",
    ) -> None:
        self._on_send, self._on_later, self._on_hold = on_send, on_later, on_hold
        self._request, self._when = request, note
        self._state: Literal["open", "sending", "answered", "closed"] = "open"
        self._lock = threading.RLock()
        self._type, help_below = fitting(answer, prompt, draft)
        given: Any = draft if draft is not None else {}
        if self._type.sole and given and (isinstance(given, BaseModel) or SOLE not in given):
            given = {SOLE: given}  # the draft of a model that is asked for as one text
        self._kit = kit = Kit()
        self._fields = Fields(kit, self._type.fields, given, typed=True, help_below=help_below)
        self._title = title
        self._head = kit.make(ipywidgets.HTML, css=["fl-form-head"])
        self.set_note(note)
        # Apart from the head, which changes every second while a deadline runs: a picture is sent once.
        shown = ("" if self._type.is_labelled or not prompt else words.prompt_text(prompt)) + payload_html(payload)
        self._top = kit.make(ipywidgets.HTML, css=["fl-form-top"])
        about = [kit.make(ipywidgets.HTML, shown, css=["fl-form-about"])] if shown else []
        self._note = kit.make(ipywidgets.HTML, css=["fl-form-note"])
        self._guide = kit.make(FormGuide)
        self._send = kit.make(
            ipywidgets.Button,
            description="Send answer",
            button_style="primary",
            icon="paper-plane",
            css=["flownb-send"],
        )
        self._send.on_click(lambda _: self.submit())
        self._buttons = [self._send]
        self._hold: ipywidgets.Button | None = None
        if on_hold is not None:
            self._hold = kit.make(
                ipywidgets.Button,
                description="Hold",
                icon="pause",
                tooltip="stop the countdown: nothing is taken while you look",
                css=["flownb-hold"],
            )
            self._hold.on_click(lambda _: self._stop_countdown())
            self._buttons.append(self._hold)
        if on_later is not None:
            later = kit.make(ipywidgets.Button, description="Later", icon="clock", css=["flownb-later"])
            later.on_click(lambda _: self._put_off())
            self._buttons.append(later)
        actions = kit.make(
            ipywidgets.HBox, [*self._buttons, self._note], css=["fl-actions"], align_items="center", grid_gap="8px"
        )
        self.box = kit.make(
            ipywidgets.VBox,
            [self._head, *about, self._top, grid(kit, self._fields.boxes), actions, self._guide],
            css=["flownb-form"],
        )

    @property
    def values(self) -> dict[str, Any]:
        """{field name: what is typed in now} (`forms/typed.py`), without secrets: a draft of the answer."""
        typed = self._fields.typed()
        kept = {spec.name: draft_of(spec, typed[spec.name]) for spec in self._type.fields}
        return {name: value for name, value in kept.items() if value is not MISSING}

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
            self._note.value = words.said("", "Sending …")
        try:
            self._on_send(answer)
        except WorkflowError as error:  # refused, in words
            self.show_error(str(error))
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
            self._note.value = words.error_text(text)

    def answered(self, text: str, *, title: str = "", is_answer: bool = True) -> None:
        """Shows how the question ended in one line and closes the controls.

        The box stays where it is, so that no other form loses the focus.

        Args:
            text: Who, when, what.
            title: Who asked; "" for the title that it has.
            is_answer: False: it ended without one.
        """
        with self._lock:
            if self._state in ("answered", "closed"):
                return
            self._state = "answered"
            self._fields.disable()  # and secrets leave them
            self.box.add_class("fl-answered" if is_answer else "fl-unanswered")
            self._head.value = words.line(title or self._title, text, words.DONE if is_answer else words.OVER)
            self.box.children = (self._head, self._guide)
            self._kit.close_but(self.box, self._head, self._guide)

    def set_note(self, note: str) -> None:
        """Changes the words at the upper right, such as a countdown."""
        self._when = note
        self._draw_head()

    def set_title(self, title: str) -> None:
        """Changes who asks, for instance when another question was answered."""
        self._title = title
        self._draw_head()

    def held(self) -> None:
        """The countdown was stopped: nobody has to."""
        with self._lock:
            if self._hold is not None and self._state in ("open", "sending"):
                self._hold.disabled = True
                self._hold.description = "Held"

    def _draw_head(self) -> None:
        asks = self._state in ("open", "sending")
        self._head.value = words.headline(self._title, self._when, asks=asks, request=self._request)

    def close(self) -> None:
        """Closes every widget, Layout and Style of the form."""
        with self._lock:
            self._state = "closed"
            self._kit.close()

    def _check(self) -> Any:
        """The validated answer, or MISSING after the problems were shown."""
        checked = self._type.read(self._fields.typed())
        rest = self._fields.show(checked.problems, "")
        # What belongs to the whole answer, or has no place at a field, stands on top.
        whole = [text if not path else f"{path}: {text}" for path, text in rest.items()]
        self._top.value = words.error_text("; ".join(whole)) if whole else ""
        if marked := len(checked.problems) - len(rest):
            self._note.value = words.error_text(f"Please mend the marked field{'s' if marked > 1 else ''}.")
        elif whole:
            self._note.value = words.error_text("Please mend what is said above.")
        if checked.problems:
            self._guide.focus_error()
        return checked.answer

    def _put_off(self) -> None:
        with self._lock:
            if self._state != "open":
                return
        if self._on_later is not None:
            self._on_later()

    def _stop_countdown(self) -> None:
        with self._lock:
            if self._state != "open":
                return
        try:
            if self._on_hold is not None:
                self._on_hold()
        except WorkflowError as error:
            self.show_error(str(error))

    def _enable(self, on: bool) -> None:
        for button in self._buttons:
            button.disabled = not on or button.description == "Held"
