"""Controls that ipywidgets lack, as small widgets of our own: a secret that is in no widget's state, and chips.

They have the traits that ipywidgets' own controls have: `description` is the label, `value` what is typed, `disabled`.
"""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets

from flownb.notebook import assets

__all__ = ["ChipsInput", "FormGuide", "SecretInput"]


class SecretInput(anywidget.AnyWidget):
    """A masked text whose value comes as messages only: a trait would be saved with the notebook's widget state."""

    _esm = assets.form_script("secret.mjs")

    description = traitlets.Unicode("").tag(sync=True)
    placeholder = traitlets.Unicode("").tag(sync=True)
    disabled = traitlets.Bool(False).tag(sync=True)
    tooltip = traitlets.Unicode("").tag(sync=True)
    #: Something is typed, also where a page has drawn the box anew and shows it empty.
    kept = traitlets.Bool(False).tag(sync=True)
    #: What is typed. Never synced.
    value = traitlets.Unicode("")

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.on_msg(self._on_message)

    def forget(self) -> None:
        """Takes what is typed away, on the page too."""
        self.value, self.kept = "", False
        self.send({"kind": "forget"})

    def _on_message(self, _: Any, message: Any, buffers: Any) -> None:
        text = message.get("text") if isinstance(message, dict) else None
        if isinstance(text, str) and not self.disabled:
            self.value, self.kept = text, bool(text)

    def __repr__(self) -> str:
        return f"SecretInput(description={self.description!r})"


class ChipsInput(anywidget.AnyWidget):
    """Several short texts, each on a chip with a button that takes it away. Enter adds what is typed, so does leaving
    the box; Backspace in the empty box takes the last one back to change it."""

    _esm = assets.form_script("chips.mjs")

    description = traitlets.Unicode("").tag(sync=True)
    placeholder = traitlets.Unicode("").tag(sync=True)
    disabled = traitlets.Bool(False).tag(sync=True)
    tooltip = traitlets.Unicode("").tag(sync=True)
    #: Offered while typing; others may be typed.
    choices = traitlets.List(traitlets.Unicode()).tag(sync=True)
    value = traitlets.List(traitlets.Unicode()).tag(sync=True)


class FormGuide(anywidget.AnyWidget):
    """Stands unseen in a form and adds what ipywidgets leave out: keys, names of groups, errors for screen readers."""

    _esm = assets.form_script("guide.mjs")
    _css = assets.form_style()

    def focus_error(self) -> None:
        """The focus goes to the first field that is marked, if it is in the form still."""
        self.send({"kind": "focus"})
