"""Controls that hold fields: a group, rows with add and remove, tabs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import ipywidgets
from pydantic import BaseModel

from flownb.forms.fields import BRANCH, MISSING, Branch, FieldSpec, at, held
from flownb.forms.typed import begin_set, branch_of
from flownb.notebook.controls import words
from flownb.notebook.controls.field import Control, Field
from flownb.notebook.controls.kit import Kit

#: A person adds no more rows than that; a draft or a default may have more.
MOST_ROWS: Final = 50
#: Of a grid of fields: as many columns as have room.
_COLUMNS: Final = "repeat(auto-fill, minmax(min(270px, 100%), 1fr))"
_NARROW: Final = "repeat(auto-fill, minmax(min(190px, 100%), 1fr))"


def grid(kit: Kit, boxes: Sequence[ipywidgets.Widget], *, narrow: bool = False) -> ipywidgets.GridBox:
    """Fields beside one another, as many as have room."""
    return kit.make(
        ipywidgets.GridBox,
        list(boxes),
        css=["fl-grid"],
        grid_template_columns=_NARROW if narrow else _COLUMNS,
        grid_gap="10px 28px" if not narrow else "8px 16px",
    )


class Fields:
    """The fields of a model."""

    def __init__(
        self, kit: Kit, fields: Sequence[FieldSpec], start: Any, *, typed: bool, help_below: bool = True
    ) -> None:
        given, typed = held(start), typed and not isinstance(start, BaseModel)
        self.fields = [
            Field(kit, spec, given.get(spec.name, MISSING), typed=typed, help_below=help_below) for spec in fields
        ]

    @property
    def boxes(self) -> list[ipywidgets.Widget]:
        return [field.box for field in self.fields]

    def typed(self) -> dict[str, Any]:
        """{field name: what is typed}."""
        return {field.spec.name: field.typed() for field in self.fields}

    def show(self, problems: Mapping[str, str], path: str) -> dict[str, str]:
        """Marks what is wrong; those that belong to no field come back."""
        rest = dict(problems)
        for field in self.fields:
            here = at(path, field.spec.name)
            field.show(problems, here)
            rest = {where: text for where, text in rest.items() if where != here and not where.startswith(f"{here}.")}
        return rest

    def disable(self) -> None:
        for field in self.fields:
            field.disable()


class Group(Fields):
    """A model inside another."""

    def __init__(self, kit: Kit, spec: FieldSpec, start: Any, *, typed: bool) -> None:
        super().__init__(kit, spec.fields, start, typed=typed)
        self.widget = grid(kit, self.boxes)


class Tabs:
    """One of several models: radio buttons in the look of tabs, which every keyboard knows. What a tab holds is made
    when it is opened first."""

    def __init__(self, kit: Kit, spec: FieldSpec, start: Any, *, typed: bool) -> None:
        self._kit, self._spec, self._start, self._typed = kit, spec, start, typed
        first = branch_of(spec, start)
        options = [(branch.label, number) for number, branch in enumerate(spec.branches)]
        self._choice = kit.make(
            ipywidgets.RadioButtons,
            options=options,
            value=spec.branches.index(first),
            description="",
            orientation="horizontal",
            css=["fl-tabs"],
        )
        self._panes: dict[int, tuple[Fields, ipywidgets.Widget]] = {}
        self._body = kit.make(ipywidgets.VBox, css=["fl-tab-body"])
        self.widget = kit.make(ipywidgets.VBox, [self._choice, self._body], grid_gap="8px")
        self._first = spec.branches.index(first)
        self._open()
        self._choice.observe(lambda _: self._open(), "value")

    @property
    def _branch(self) -> Branch:
        number: int = self._choice.value
        return self._spec.branches[number]

    def _open(self) -> None:
        number = self._choice.value
        if number not in self._panes:
            start = self._start if number == self._first else MISSING
            fields = Fields(self._kit, self._branch.fields, start, typed=self._typed)
            self._panes[number] = fields, grid(self._kit, fields.boxes)
        self._body.children = (self._panes[number][1],)

    def typed(self) -> dict[str, Any]:
        return {BRANCH: self._branch.label, **self._panes[self._choice.value][0].typed()}

    def show(self, problems: Mapping[str, str], path: str) -> dict[str, str]:
        return self._panes[self._choice.value][0].show(problems, path)

    def disable(self) -> None:
        self._choice.disabled = True
        for fields, _ in self._panes.values():
            fields.disable()


class Rows:
    """A list of models, or of secrets: a row for each, with a button that takes it away, and one that adds another."""

    def __init__(self, kit: Kit, spec: FieldSpec, start: Any, *, typed: bool) -> None:
        self._kit, self._spec = kit, spec
        self._add = kit.make(
            ipywidgets.Button, description="Add", icon="plus", tooltip=f"Add to {spec.label}", css=["fl-add"]
        )
        self._add.on_click(lambda _: self._append())
        self._box = kit.make(ipywidgets.VBox, css=["fl-rows"], grid_gap="6px")
        self.widget = kit.make(ipywidgets.VBox, [self._box, self._add], grid_gap="6px", align_items="stretch")
        items = start if isinstance(start, (list, tuple, set, frozenset)) else ()
        wanted = [*items, *[MISSING] * (len(begin_set(spec, start, typed=typed)) - len(items))]
        self._rows = [self._make(item, typed=typed) for item in wanted]
        self._is_over = False
        self._show_rows()

    def typed(self) -> list[Any]:
        return [row.typed() for row in self._rows]

    def show(self, problems: Mapping[str, str], path: str) -> dict[str, str]:
        rest = dict(problems)
        for number, row in enumerate(self._rows):
            here = at(path, number)
            row.show(problems, here)
            rest = {where: text for where, text in rest.items() if where != here and not where.startswith(f"{here}.")}
        return rest

    def disable(self) -> None:
        self._is_over = True
        self._add.disabled = True
        for row in self._rows:
            row.disable()

    def _make(self, start: Any, *, typed: bool) -> Row:
        assert self._spec.item is not None
        item = replace(self._spec.item, label=self._spec.label if self._spec.item.kind == "secret" else "")
        return Row(self._kit.part(), item, start, typed=typed, on_remove=self._remove)

    def _append(self) -> None:
        if not self._is_over and len(self._rows) < self._most:
            self._rows.append(self._make(MISSING, typed=False))
            self._show_rows()

    def _remove(self, row: Row) -> None:
        if not self._is_over and row in self._rows:
            self._rows.remove(row)
            self._show_rows()
            row.close()

    @property
    def _most(self) -> int:
        return min(MOST_ROWS, self._spec.most if self._spec.most is not None else MOST_ROWS)

    def _show_rows(self) -> None:
        for number, row in enumerate(self._rows, 1):
            row.count(number)
        self._box.children = tuple(row.box for row in self._rows)
        self._add.disabled = len(self._rows) >= self._most


class Row:
    """One of the rows."""

    def __init__(self, kit: Kit, item: FieldSpec, start: Any, *, typed: bool, on_remove: Any) -> None:
        self._kit = kit
        self._inner: Fields | Field
        if item.kind == "group":
            self._inner = Fields(kit, item.fields, start, typed=typed)
            body = grid(kit, self._inner.boxes, narrow=True)
        else:
            self._inner = Field(kit, replace(item, required=False), start, typed=typed)
            body = self._inner.box
        self._button = kit.make(ipywidgets.Button, icon="times", css=["fl-remove"], width="28px")
        self._button.on_click(lambda _: on_remove(self))
        self._words = kit.make(ipywidgets.HTML, css=["fl-row-words"])
        self.box = kit.make(ipywidgets.HBox, [self._words, body, self._button], css=["fl-row"], grid_gap="8px")
        self._number, self._error = 0, ""

    def typed(self) -> Any:
        return self._inner.typed()

    def count(self, number: int) -> None:
        """Its place, from 1."""
        self._number = number
        self._button.tooltip = f"Remove row {number}"
        self._say()

    def show(self, problems: Mapping[str, str], path: str) -> None:
        if isinstance(self._inner, Field):
            self._inner.show(problems, path)
            return
        inside = {where: text for where, text in problems.items() if where.startswith(f"{path}.")}
        rest = self._inner.show(inside, path)
        own = [problems[path]] if path in problems else []
        self._error = "; ".join([*own, *(f"{where.removeprefix(f'{path}.')}: {text}" for where, text in rest.items())])
        (self.box.add_class if self._error else self.box.remove_class)("fl-bad")
        self._say()

    def disable(self) -> None:
        self._inner.disable()
        self._button.disabled = True

    def close(self) -> None:
        self._kit.close()

    def _say(self) -> None:
        error = words.error_text(self._error) if self._error else ""
        self._words.value = f'<span class="fl-row-no">{self._number}</span>{error}'


def tree(kit: Kit, spec: FieldSpec, start: Any, *, typed: bool) -> Control:
    """The control of a field that holds others.

    Args:
        kit: Makes the widgets.
        spec: The field.
        start: What it begins with, typed or a value; MISSING: its default.
        typed: As in `typed.begin`.
    """
    typed = typed and start is not MISSING
    begin = spec.default if start is MISSING else start
    kinds: dict[str, Any] = {"group": Group, "tabs": Tabs, "rows": Rows, "chips": Rows}
    return kinds[spec.kind](kit, spec, begin, typed=typed)  # type: ignore[no-any-return]
