"""What a person typed into a form, as a tree of texts that widgets and HTML pages fill, and the values it stands for.

    kind               typed
    all leaves         a str; for "bool" True, False or a str
    chips              a list of str
    rows               a list of what is typed into each row
    group              {field name: what is typed there}
    tabs               the same, and under BRANCH the label of the open tab
    anything optional  None: not set
    a control of       `Given(value)`: nothing has to be read
    `register_field`

A field that is left out gets its default. It is plain data: a draft of it can be written as JSON. Secrets are in what
is read, never in a draft (`draft_of`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from flownb.forms.fields import BRANCH, MISSING, REQUIRED, Branch, FieldSpec, at, held
from flownb.forms.problems import place
from flownb.forms.texts import text_of, value_of

#: Empty rows that a form begins with, where some are needed.
_FIRST_ROWS = 3
_SET_OR_NOT = 'Please fill this in, or switch it to "not set".'


@dataclass(frozen=True, slots=True)
class Given:
    """A value that is what the answer's type takes; None: nothing is chosen."""

    value: Any


# ---- to begin with


def begin(spec: FieldSpec, given: Any = MISSING, *, typed: bool = False) -> Any:
    """What a form shows first in a field.

    Args:
        spec: The field.
        given: A draft of it, or a value; MISSING: its default.
        typed: A str in a draft is what was typed; else it is a value, which JSON writes with quotes.
    """
    start = spec.default if given is MISSING else given
    if spec.optional and (start is MISSING or start is None):
        return None
    return begin_set(spec, start, typed=typed and given is not MISSING)


def begin_set(spec: FieldSpec, start: Any = MISSING, *, typed: bool = False) -> Any:
    """The same for a field that is set, whatever its default says."""
    match spec.kind:
        case "bool":
            return start if isinstance(start, bool) else start == "true"
        case "chips":
            assert spec.item is not None
            return [text for one in _items(start) if (text := _leaf(spec.item, one, typed))]
        case "rows":
            assert spec.item is not None
            item = spec.item
            rows = [begin(item, one, typed=typed) for one in _items(start)]
            return [*rows, *(begin(item) for _ in range(len(rows), min(spec.least, _FIRST_ROWS)))]
        case "group":
            return begin_fields(spec.fields, start, typed=typed)
        case "tabs":
            branch = branch_of(spec, start)
            return {BRANCH: branch.label, **begin_fields(branch.fields, start, typed=typed)}
    return _leaf(spec, start, typed)


def begin_fields(fields: Sequence[FieldSpec], start: Any, *, typed: bool = False) -> dict[str, Any]:
    """The same for the fields of a model, from a mapping or an instance; of anything else only the defaults."""
    given, typed = held(start), typed and not isinstance(start, BaseModel)
    return {spec.name: begin(spec, given.get(spec.name, MISSING), typed=typed) for spec in fields}


def _leaf(spec: FieldSpec, start: Any, typed: bool) -> str:
    if spec.kind == "secret":
        return ""
    if start is MISSING and spec.required and len(spec.choices) == 1:
        return spec.choices[0].label  # a Literal of one value leaves nothing to choose
    return start if typed and isinstance(start, str) and spec.kind != "choice" else text_of(spec, start)


def _items(start: Any) -> Sequence[Any]:
    return list(start) if isinstance(start, (list, tuple, set, frozenset)) else []


def branch_of(spec: FieldSpec, start: Any) -> Branch:
    """The tab that a draft or a default belongs to, else the first."""
    given = held(start)
    by = given.get(spec.discriminator, MISSING) if spec.discriminator else MISSING
    for branch in spec.branches:
        if type(start) is branch.model or given.get(BRANCH) == branch.label:
            return branch
        if by is not MISSING and type(by) is type(branch.value) and by == branch.value:
            return branch
    fitting = (branch for branch in spec.branches if given and _takes(branch, given))
    return next(fitting, spec.branches[0])


def _takes(branch: Branch, given: Mapping[str, Any]) -> bool:
    """Whether a stored answer without a discriminator has the fields of this model."""
    needed = {part.name for part in branch.fields if part.required}
    return needed <= set(given) <= {part.name for part in branch.fields}


def draft_of(spec: FieldSpec, typed: Any) -> Any:
    """What is typed into a field as a draft: without secrets, and values for what `register_field` gave.

    MISSING: nothing is left to keep.
    """
    if isinstance(typed, Given):
        return MISSING if spec.hides else typed.value
    if typed is None:
        return None
    match spec.kind:
        case "group" if isinstance(typed, Mapping):
            return _kept(spec.fields, typed)
        case "tabs" if isinstance(typed, Mapping):
            branch = branch_of(spec, typed)
            return {BRANCH: branch.label, **_kept(branch.fields, typed)}
        case "rows" if isinstance(typed, list) and spec.item is not None:
            return [draft_of(spec.item, one) for one in typed]
    return MISSING if spec.hides else typed


def _kept(fields: Sequence[FieldSpec], typed: Mapping[str, Any]) -> dict[str, Any]:
    found = {part.name: draft_of(part, typed[part.name]) for part in fields if part.name in typed}
    return {name: one for name, one in found.items() if one is not MISSING}


# ---- what it stands for


class Reader:
    """Reads what was typed into a form, and notes what cannot be read.

    Attributes:
        problems: {dotted path: what is wrong}.
    """

    def __init__(self) -> None:
        self.problems: dict[str, str] = {}

    def fields(self, fields: Sequence[FieldSpec], typed: Mapping[str, Any], path: str = "") -> dict[str, Any]:
        """{field name: value} of a model's fields, without those where nothing is typed."""
        found = {spec.name: self.value(spec, typed.get(spec.name, MISSING), at(path, spec.name)) for spec in fields}
        return {name: value for name, value in found.items() if value is not MISSING}

    def value(self, spec: FieldSpec, typed: Any, path: str) -> Any:
        """The value of one field; MISSING if nothing is typed, or it was noted what is wrong."""
        if typed is MISSING:
            if spec.required:
                self.problems[path] = REQUIRED
            return MISSING
        if typed is None and spec.optional:
            return None
        if isinstance(typed, Given):
            return self._noted(spec, MISSING if typed.value is None else typed.value, path)
        match spec.kind:
            case "group":
                return self.fields(spec.fields, held(typed), path)
            case "tabs":
                return self._tab(spec, held(typed), path)
            case "rows" | "chips":
                assert spec.item is not None
                return [self._item(spec.item, one, at(path, n)) for n, one in enumerate(_items(typed))]
        return self._leaf(spec, typed, path)

    def _leaf(self, spec: FieldSpec, typed: Any, path: str) -> Any:
        if not isinstance(typed, str):
            return typed  # a yes or no, or what a control of `register_field` gave
        try:
            value = value_of(spec, typed)
        except ValueError as error:
            self.problems[path] = str(error)
            return MISSING
        return self._noted(spec, value, path)

    def _noted(self, spec: FieldSpec, value: Any, path: str) -> Any:
        if value is MISSING:
            if spec.optional:
                self.problems[path] = _SET_OR_NOT
            # Nobody's default is taken in the place of what was there to see and was deleted.
            elif spec.required or begin(spec):
                self.problems[path] = REQUIRED
        return value

    def _item(self, item: FieldSpec, typed: Any, path: str) -> Any:
        value = self.value(item, typed, path)
        return None if value is MISSING else value  # keeps the places of those behind it

    def _tab(self, spec: FieldSpec, typed: Mapping[str, Any], path: str) -> Any:
        branch = branch_of(spec, typed)
        values = self.fields(branch.fields, typed, path)
        if spec.discriminator:
            return values if branch.value is MISSING else {spec.discriminator: branch.value, **values}
        # Without a discriminator the type could take it for another of its models: so it is made here.
        try:
            return TypeAdapter(branch.model).validate_python(values, strict=False, by_name=True, by_alias=False)
        except ValidationError as error:
            for name, words in place(error, branch.fields).items():
                self.problems.setdefault(at(path, name) if name else path, words)
        except Exception as error:  # a validator of the user's that raises what pydantic does not catch
            self.problems.setdefault(path, f"{type(error).__name__}: {error}")
        return MISSING
