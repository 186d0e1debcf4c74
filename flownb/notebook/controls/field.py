"""A field on the screen: its control, its set / not set toggle, its help, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

import ipywidgets

from flownb.forms.fields import MISSING, SOLE, TREES, FieldSpec
from flownb.forms.registry import builder_of
from flownb.forms.tree import as_json
from flownb.notebook.controls import words
from flownb.notebook.controls.kit import Kit
from flownb.notebook.controls.leaves import Leaf, leaf, own_control


class Control(Protocol):
    """What a field is typed into."""

    @property
    def widget(self) -> ipywidgets.Widget: ...
    @property
    def typed(self) -> Any: ...

    def show(self, problems: Mapping[str, str], path: str) -> dict[str, str]:
        """Marks what is wrong inside; those that have no place there come back."""

    def disable(self) -> None: ...


class Field:
    """One field.

    Args:
        kit: Makes its widgets.
        spec: What it asks for.
        start: What it begins with, typed or a value (`forms/typed.py`); MISSING: its default.
        help_below: There is room for its help below the control, else it is the control's tooltip.
        typed: As in `typed.begin`.
    """

    #: Put into the form by whoever made it.
    box: ipywidgets.Box

    def __init__(self, kit: Kit, spec: FieldSpec, start: Any, *, help_below: bool = True, typed: bool = False) -> None:
        self.spec, self._kit, self._start, self._typed = spec, kit, start, typed
        self._help_below, self._help = help_below, spec.help
        begin = spec.default if start is MISSING else start
        is_set = not spec.optional or (begin is not MISSING and begin is not None)
        self._control: Any = None
        self._toggle: Any = None
        self._words: Any = None
        self._is_tree = (spec.kind in TREES and builder_of(spec) is None) or _is_secret_list(spec)
        label = spec.label + (" *" if spec.required and not spec.optional and not self._is_tree else "")
        self._labelled = replace(spec, label=label)
        if self._is_tree:
            self._build_tree(is_set)
        else:
            self._build_leaf(is_set)

    # ---- what is in it

    def typed(self) -> Any:
        """What is typed (`forms/typed.py`); None if it is not set."""
        if self._control is None or (self._toggle is not None and not self._toggle.value):
            return None
        return self._control.typed()

    def show(self, problems: Mapping[str, str], path: str) -> None:
        """Marks what is wrong at `path` and below; clears what is not wrong any more."""
        inside = {at: text for at, text in problems.items() if at.startswith(f"{path}.")}
        rest = inside if self._control is None else self._control.show(inside, path)
        texts = [problems[path]] if path in problems else []
        texts += [f"{_place(at.removeprefix(f'{path}.'))}: {text}" for at, text in rest.items()]
        self._say("; ".join(texts))

    def disable(self) -> None:
        if self._control is not None:
            self._control.disable()
        if self._toggle is not None:
            self._toggle.disabled = True

    # ---- how it is drawn

    def _build_leaf(self, is_set: bool) -> None:
        kit, spec = self._kit, self._labelled
        self._control = control = self._leaf(spec)
        if self._help and not self._help_below and control.inputs[0].has_trait("tooltip"):
            control.inputs[0].tooltip = self._help
        self._help = self._help if self._help_below else ""
        parts: list[ipywidgets.Widget] = [control.widget]
        if spec.optional:
            self._toggle = self._make_toggle(is_set)
            parts = [
                kit.make(
                    ipywidgets.HBox,
                    [control.widget, self._toggle],
                    css=["fl-optional"],
                    align_items="flex-end",
                    grid_gap="6px",
                )
            ]
            for one in control.inputs:
                # Typing sets it: the control is never locked, so nobody waits for a busy kernel to unlock it.
                one.observe(lambda _: self._toggle.set_trait("value", True), "value")
        if self._help:
            self._words = kit.make(ipywidgets.HTML, words.help_text(self._help))
            parts.append(self._words)
        is_wide = spec.kind in ("area", "json", "chips") or spec.name == SOLE
        self.box = kit.make(ipywidgets.VBox, parts, css=["fl-field"], **(_WIDE if is_wide else {}))
        self._dim()

    def _leaf(self, spec: FieldSpec) -> Leaf:
        builder = builder_of(spec)
        if builder is None:
            return leaf(self._kit, spec, self._start, typed=self._typed)
        try:
            return own_control(self._kit, spec, builder, self._start)
        except Exception as error:  # whatever it raises: the question can be answered all the same
            self._help = f"The control registered for this field failed: {type(error).__name__}: {error}"
            plain = spec if spec.kind not in TREES else as_json(spec)
            return leaf(self._kit, plain, self._start, typed=self._typed)

    def _build_tree(self, is_set: bool) -> None:
        kit, spec = self._kit, self._labelled
        self._words = kit.make(ipywidgets.HTML, css=["fl-about"])
        head: list[ipywidgets.Widget] = [self._words]
        if spec.optional:
            self._toggle = self._make_toggle(is_set)
            head = [kit.make(ipywidgets.HBox, [self._words, self._toggle], css=["fl-set-head"])]
        self._say("")
        self.box = kit.make(ipywidgets.VBox, head, css=["fl-field", "fl-set"], **_WIDE)
        self._head = head
        self._open_tree()

    def _open_tree(self) -> None:
        """Puts in what the tree holds, once it is set: so what is not set costs nothing."""
        if self._toggle is not None and not self._toggle.value:
            self.box.children = tuple(self._head)
            return
        if self._control is None:
            from flownb.notebook.controls.trees import tree  # which makes fields

            self._control = tree(self._kit, self.spec, self._start, typed=self._typed)
        self.box.children = (*self._head, self._control.widget)

    def _make_toggle(self, on: bool) -> Any:
        toggle = self._kit.make(
            ipywidgets.ToggleButton,
            on,
            tooltip=f"{self.spec.label}: set, or leave it not set",
            css=["fl-toggle"],
            width="84px",
        )

        def say(_: object = None) -> None:
            toggle.description, toggle.icon = ("set", "check") if toggle.value else ("not set", "ban")

        say()
        toggle.observe(say, "value")
        toggle.observe(lambda _: self._open_tree() if self._is_tree else self._dim(), "value")
        return toggle

    def _dim(self) -> None:
        if self._toggle is not None:
            control = self._control.widget
            (control.remove_class if self._toggle.value else control.add_class)("fl-off")

    def _say(self, error: str) -> None:
        """Puts the error beside the help, or takes it away with ""."""
        marked = words.error_text(error) if error else ""
        if self._is_tree:
            label = self.spec.label + (" *" if self.spec.required and not self.spec.optional else "")
            text = (words.legend(label) if label else "") + words.help_text(self._help) + marked
        else:
            text = words.help_text(self._help) + marked
        if self._words is None:
            if not error:
                return
            self._words = self._kit.make(ipywidgets.HTML)
            self.box.children = (*self.box.children, self._words)
        if self._words.value != text:
            self._words.value = text
        if hasattr(self, "box"):
            (self.box.add_class if error else self.box.remove_class)("fl-bad")


_WIDE = {"grid_area": "auto / 1 / auto / -1"}


def _place(path: str) -> str:
    """The place inside a control in words: "1" is the second item of chips."""
    return f"Item {int(path) + 1}" if path.isdecimal() else path


def _is_secret_list(spec: FieldSpec) -> bool:
    return spec.kind == "chips" and spec.hides
