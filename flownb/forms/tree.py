"""The fields that a form asks for, read from the type of its answer.

A type that no kind fits is asked for as JSON text, so that no answer is unanswerable. A new kind is a word in `Kind`, a
line in `_kind_of`, a line in `texts.py`, and a control where it is drawn.
"""

from __future__ import annotations

import collections.abc
import datetime
import decimal
import enum
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, get_args, get_origin

from pydantic import AwareDatetime, BaseModel, NaiveDatetime
from pydantic.fields import FieldInfo

from flownb.forms.fields import MISSING, SOLE, Branch, Choice, FieldSpec, Kind, Zone, clean, is_label
from flownb.forms.hints import bounds, expects
from flownb.forms.shape import Shape, is_model, is_union, schema_of, shape_of

#: Up to so many choices are shown all at once.
FEW: Final = 4
#: Models inside models inside models; what lies deeper is JSON text.
DEPTH: Final = 3
#: A model may lie in itself so often less one.
ROUNDS: Final = 2
_LONG_TEXT: Final = 200
_LISTS: Final = (
    list, set, frozenset, tuple, collections.abc.Sequence, collections.abc.MutableSequence, collections.abc.Set,
    collections.abc.MutableSet,
)  # fmt: skip
#: What can stand on a chip.
_SCALARS: Final = frozenset[Kind](("text", "secret", "int", "float", "choice", "date", "time", "datetime"))

#: The models around a field, the outermost first: how deep it lies, and whether a model has come round again.
_Above = tuple[type[BaseModel], ...]


def fields_of(answer: Any, *, prompt: str = "") -> list[FieldSpec]:
    """The fields a form asks for: those a model declares, else one named "answer" with the prompt as its label.

    A model without any that takes whatever it is given (a bare answer) is asked for its `response`.
    """
    if is_model(answer):
        found = _fields(answer, (answer,))
        if not found and answer.model_config.get("extra") == "allow":
            found = [FieldSpec("response", prompt if is_label(prompt) else "Response", "text", type=str)]
        return found
    label = prompt if is_label(prompt) else "Answer"
    return [_spec(SOLE, label, answer, (), sole=True)]


def whole(answer: Any) -> FieldSpec:
    """One field that asks for the whole answer in one JSON text, whatever its type; it begins with the defaults."""
    spec = as_json(_spec(SOLE, "Answer", answer, ()))
    parts = fields_of(answer) if is_model(answer) else []
    known = {part.name: part.default for part in parts if part.default is not MISSING and not part.hides}
    return replace(spec, default=known or MISSING, hides=spec.hides or any(part.hides for part in parts))


def as_json(spec: FieldSpec) -> FieldSpec:
    """The same field, asked for as JSON text."""
    if spec.kind == "json":
        return spec
    helps = [spec.help, expects("json", schema_of(spec.type), "allowed")]
    return FieldSpec(
        name=spec.name,
        label=spec.label,
        kind="json",
        required=spec.required,
        optional=spec.optional,
        help=clean(" · ".join(words for words in helps if words)),
        default=spec.default,
        hides=spec.hides,
        type=spec.type,
    )


def _fields(model: type[BaseModel], above: _Above) -> list[FieldSpec]:
    return [_field(name, info, above) for name, info in model.model_fields.items()]


def _field(name: str, info: FieldInfo, above: _Above) -> FieldSpec:
    label = info.title or name.replace("_", " ").strip().capitalize() or name
    return _spec(name, label, info.annotation, above, info=info)


def _spec(
    name: str, label: str, annotation: Any, above: _Above, *, info: FieldInfo | None = None, sole: bool = False
) -> FieldSpec:
    shape = shape_of(annotation, info)
    spec = FieldSpec(
        name=name,
        label=clean(label),
        kind="json",
        required=info is None or info.is_required(),
        optional=shape.optional,
        default=MISSING if info is None or info.is_required() else _default(info),
        type=shape.core,
    )
    schema: Mapping[str, Any] = {}
    tree = _tree(spec, shape, above)
    if tree is not None:
        spec = tree
    else:
        choices = _choices(shape.core, sole=sole)
        schema = {} if choices or shape.core in _KNOWN else schema_of(shape.core)
        spec = _leaf(spec, shape, choices, schema)
    hints = [shape.text("description"), *bounds(shape, spec.kind), expects(spec.kind, schema, spec.zone)]
    example = shape.examples[0] if shape.examples else ""
    return replace(
        spec,
        help=clean(" · ".join(hint for hint in hints if hint)),
        placeholder=clean(example if isinstance(example, str) and spec.kind != "json" else _json_or_str(example)),
        hides=_hides(spec, schema),
    )


# ---- trees


def _tree(spec: FieldSpec, shape: Shape, above: _Above) -> FieldSpec | None:
    """The spec of what holds other fields; None for one that does not, or lies too deep."""
    core = shape.core
    if is_model(core):
        if _is_too_deep(core, above):
            return None
        return replace(spec, kind="group", fields=tuple(_fields(core, (*above, core))))
    if is_union(core):
        return _tabs(spec, shape, above)
    return _several(spec, shape, above)


def _is_too_deep(model: type[BaseModel], above: _Above) -> bool:
    return above.count(model) >= ROUNDS or len(above) > DEPTH


def _several(spec: FieldSpec, shape: Shape, above: _Above) -> FieldSpec | None:
    inner = get_args(shape.core)
    if get_origin(shape.core) not in _LISTS:
        return None
    if get_origin(shape.core) is tuple:
        if len(inner) != 2 or inner[1] is not Ellipsis:
            return None
        inner = inner[:1]
    if len(inner) != 1:
        return None
    # The list's own example is one for its items: what is typed into chips is one of them.
    item = _spec("", "", inner[0], above)
    if item.optional or (item.kind not in _SCALARS and item.kind not in ("group", "tabs")):
        return None
    examples = shape.examples[0] if shape.examples and isinstance(shape.examples[0], (list, tuple)) else shape.examples
    if examples and item.kind in _SCALARS and not item.placeholder:
        item = replace(item, placeholder=clean(examples[0]))
    return replace(
        spec,
        kind="chips" if item.kind in _SCALARS else "rows",
        item=item,
        least=shape.count("min_length") or 0,
        most=shape.count("max_length"),
    )


def _tabs(spec: FieldSpec, shape: Shape, above: _Above) -> FieldSpec | None:
    models = [shape_of(part).core for part in get_args(shape.core)]
    if not all(is_model(model) and not _is_too_deep(model, above) for model in models):
        return None
    by = shape.discriminator if isinstance(shape.discriminator, str) else ""
    branches = [_branch(model, by, (*above, model)) for model in models]
    labels = [branch.label for branch in branches]
    if len(set(labels)) < len(labels):
        branches = [replace(branch, label=f"{n}. {branch.label}") for n, branch in enumerate(branches, 1)]
    return replace(spec, kind="tabs", branches=tuple(branches), discriminator=by)


def _branch(model: type[BaseModel], discriminator: str, above: _Above) -> Branch:
    fields = _fields(model, above)
    label, value = model.model_config.get("title") or model.__name__, MISSING
    by = next((part for part in fields if part.name == discriminator), None)
    if by is not None and len(by.choices) == 1:
        label, value = by.choices[0].label, by.choices[0].value
        fields = [part for part in fields if part is not by]
    return Branch(clean(label), value, tuple(fields), model)


# ---- leaves


_KNOWN: Final = (
    bool, int, float, str, datetime.date, datetime.time, datetime.datetime, AwareDatetime, NaiveDatetime,
    decimal.Decimal,
)  # fmt: skip


def _leaf(spec: FieldSpec, shape: Shape, choices: tuple[Choice, ...], schema: Mapping[str, Any]) -> FieldSpec:
    kind = _kind_of(shape, choices, schema)
    whole_number = kind == "int"
    return replace(
        spec,
        kind=kind,
        choices=choices,
        few=0 < len(choices) <= FEW,
        low=shape.low(whole=whole_number) if kind in ("int", "float") else None,
        high=shape.high(whole=whole_number) if kind in ("int", "float") else None,
        longest=shape.count("max_length") if kind in ("text", "area", "secret") else None,
        takes_empty=shape.core is str,
        takes_text=kind == "json" and any(part.get("type") == "string" for part in schema.get("anyOf", ())),
        zone=_zone(shape),
    )


def _kind_of(shape: Shape, choices: Sequence[Choice], schema: Mapping[str, Any]) -> Kind:
    core = shape.core
    if choices:
        return "choice"
    if core is bool:
        return "bool"
    if core is int:
        return "int"
    if core is float:
        return "float"
    if schema.get("writeOnly"):
        return "secret"
    if core is str:
        long = (shape.number("max_length") or 0) > _LONG_TEXT or shape.extra.get("widget") == "textarea"
        return "area" if long else "text"
    if core is decimal.Decimal:
        return "text"  # a float would not keep its digits
    for kinds, kind in _MOMENTS:
        if core in kinds:
            return kind
    if schema.get("type") != "string":
        return "json"
    # What JSON writes as a string (a UUID, a path) is typed without the quotes.
    return _FORMATS.get(str(schema.get("format")), "text")


_MOMENTS: Final[tuple[tuple[tuple[Any, ...], Kind], ...]] = (
    ((datetime.date,), "date"),
    ((datetime.time,), "time"),
    ((datetime.datetime, AwareDatetime, NaiveDatetime), "datetime"),
)
_FORMATS: Final[Mapping[str, Kind]] = {"date": "date", "time": "time", "date-time": "datetime"}


def _zone(shape: Shape) -> Zone:
    if shape.core is AwareDatetime:
        return "needed"
    if shape.core is NaiveDatetime:
        return "refused"
    for note in shape.metadata:
        if type(note).__name__ == "Timezone":  # of annotated-types: None is naive, all else has a zone
            return "refused" if note.tz is None else "needed"
    return "allowed"


def _choices(core: Any, *, sole: bool) -> tuple[Choice, ...]:
    if core is bool and sole:  # a checkbox would answer for the person who overlooks it
        return (Choice("Approve", True), Choice("Reject", False))
    values: Iterable[Any] = ()
    if get_origin(core) is Literal:
        values = get_args(core)
    elif isinstance(core, type) and issubclass(core, enum.Enum):
        values = core
    choices = [Choice(clean(_choice_label(value)), value) for value in values]
    if len({choice.label for choice in choices}) < len(choices):  # Literal[1, "1"]
        choices = [Choice(clean(f"{n}. {choice.value!r}"), choice.value) for n, choice in enumerate(choices, 1)]
    return tuple(choices)


def _choice_label(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return value.value if isinstance(value.value, str) and value.value else value.name
    return (value or "(empty)") if isinstance(value, str) else repr(value)


def _default(info: FieldInfo) -> Any:
    try:
        return info.get_default(call_default_factory=True, validated_data={})
    except Exception:  # a factory that wants the other fields: the model fills it in
        return MISSING


def _json_or_str(value: Any) -> str:
    return value if value == "" else json.dumps(value, ensure_ascii=False, default=str)


def _hides(spec: FieldSpec, schema: Mapping[str, Any]) -> bool:
    """Whether a secret is somewhere in it."""
    parts = [*spec.fields, *(part for branch in spec.branches for part in branch.fields)]
    inner = spec.item is not None and spec.item.hides
    text = spec.kind == "json" and '"writeOnly": true' in json.dumps(schema, default=str)
    return spec.kind == "secret" or inner or text or any(part.hides for part in parts)
