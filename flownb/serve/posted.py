"""What a browser sent, as what was typed into the fields of a form (`flownb.forms.typed`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from flownb.forms.fields import BRANCH, FieldSpec
from flownb.forms.typed import begin, begin_set
from flownb.serve import names
from flownb.serve.bodies import Raw

#: So many rows of one list, and items of one, are read at most.
_MOST: Final = 500


class Posted:
    """Reads one form; a button that was pressed may have added a row or taken one away.

    Attributes:
        fresh: Name of the row that was added, "" for none.
    """

    def __init__(self, raw: Raw) -> None:
        self._raw = raw
        self._do = self._one(names.DO) or names.SEND
        self.fresh = ""

    @property
    def is_sent(self) -> bool:
        """Whether the answer is to be sent, and not only the form changed."""
        return self._do == names.SEND

    def fields(self, fields: Sequence[FieldSpec], name: str = names.ROOT) -> dict[str, Any]:
        """{field name: typed}"""
        return {spec.name: self.value(spec, names.inner(name, spec.name)) for spec in fields}

    def value(self, spec: FieldSpec, name: str) -> Any:
        """What was typed into one field."""
        if not spec.optional:
            return self._set(spec, name)
        if spec.kind in ("bool", "choice"):  # "not set" is one of the choices
            return self._one(name) or None
        typed = self._set(spec, name)
        if not self._has(name + names.UNSET):
            return typed
        # Typing sets it: nobody has to take the tick away first. A tick that was made here counts.
        is_old_tick = self._has(name + names.WAS)
        return typed if is_old_tick and typed != begin_set(spec) else None

    def _set(self, spec: FieldSpec, name: str) -> Any:
        match spec.kind:
            case "bool":
                return self._has(name)
            case "chips":
                return self._chips(spec, name)
            case "rows":
                return self._rows(spec, name)
            case "group":
                return self.fields(spec.fields, name)
            case "tabs":
                return self._tabs(spec, name)
            case "datetime":
                return " ".join(part for part in (self._one(name), self._one(name + names.ZONE).strip()) if part)
        return self._one(name)

    def _chips(self, spec: FieldSpec, name: str) -> list[str]:
        assert spec.item is not None
        if spec.item.kind == "choice":
            return self._raw.get(name, [])[:_MOST]
        lines = self._one(name).split("\n")
        return [line.strip() for line in lines if line.strip()][:_MOST]

    def _rows(self, spec: FieldSpec, name: str) -> list[Any]:
        assert spec.item is not None
        numbers = [n for n in self._raw.get(name + names.ROWS, [])[:_MOST] if n.isascii() and n.isdigit()]
        rows = [
            self.value(spec.item, names.inner(name, n))
            for n in numbers
            if self._do != names.remove_from(name, int(n[:9]))
        ]
        if self._do == names.add_to(name) and len(rows) < _MOST:
            self.fresh = names.inner(name, len(rows))
            rows.append(begin(spec.item))
        return rows

    def _tabs(self, spec: FieldSpec, name: str) -> dict[str, Any]:
        label = self._one(name + names.TAB)
        found = next((n for n, branch in enumerate(spec.branches) if branch.label == label), 0)
        branch = spec.branches[found]
        return {BRANCH: branch.label, **self.fields(branch.fields, names.of_tab(name, found))}

    def _one(self, name: str) -> str:
        return (self._raw.get(name) or [""])[0]

    def _has(self, name: str) -> bool:
        return name in self._raw


__all__ = ["Posted"]
