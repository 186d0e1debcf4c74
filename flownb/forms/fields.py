"""What a form asks for, read from the type of its answer. Pure: no widgets, nothing is sent.

An answer's type becomes a list of `FieldSpec`; what a person typed becomes a `Checked` answer, or an error per field.
A type that no kind fits is asked for as JSON text, so that no answer is unanswerable. A new kind is a word in `Kind`, a
line in `_kind_of`, and a control in `controls.py`.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import json
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, TypeGuard, Union, get_args, get_origin

from pydantic import BaseModel, RootModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

Kind = Literal["text", "area", "secret", "int", "float", "bool", "choice", "date", "json"]


class Missing(enum.Enum):
    """Nothing there: no default, or nothing typed. Not the same as None, which is an answer."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING
#: The name of the one field of a form whose answer is not a model.
SOLE: Final = "answer"
REQUIRED: Final = "Please fill this in."
_LONG_TEXT: Final = 200
#: A longer prompt stands above its field, not in the label.
_LONG_PROMPT: Final = 80


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the values a person may choose. Labels of one field are all different."""

    label: str
    value: Any


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One thing to ask for."""

    name: str
    label: str
    kind: Kind
    #: The model has no default for it. It may still be optional: then None must be chosen, not left out.
    required: bool = True
    #: None is a possible answer, told apart from an empty text by a toggle.
    optional: bool = False
    #: The description and the bounds, in words.
    help: str = ""
    placeholder: str = ""
    #: Empty unless kind is "choice".
    choices: tuple[Choice, ...] = ()
    #: What to begin with; for kind "json" the text. MISSING: begin empty.
    default: Any = MISSING
    #: Both inclusive, in the field's unit; None: open. For kind "int" and "float" only.
    low: float | None = None
    high: float | None = None
    #: An empty text is a value of this field (a plain str), not "nothing typed".
    takes_empty: bool = False
    #: Text that is no JSON is taken as a str. For kind "json" only.
    takes_text: bool = False


@dataclass(frozen=True, slots=True)
class Checked:
    """What the answer's type says to the values of a form."""

    #: The validated answer; MISSING if there are problems.
    answer: Any
    #: {field name: what is wrong}; the name "" is for what belongs to no field.
    problems: Mapping[str, str] = field(default_factory=dict)


class AnswerType:
    """The type of an answer, its fields, and its check.

    Args:
        answer: A pydantic model class, or any type that pydantic's `TypeAdapter` takes.
        prompt: The question, which labels the field of an answer that is no model.
        whole: Ask for the whole answer in one JSON text, whatever its type.

    Raises:
        pydantic.PydanticUserError: pydantic cannot validate this type.
    """

    def __init__(self, answer: Any, *, prompt: str = "", whole: bool = False) -> None:
        if _is_model(answer):
            answer.model_rebuild(raise_errors=False)  # a forward reference may have been defined since
        self.adapter: TypeAdapter[Any] = TypeAdapter(answer)
        self.sole = whole or not _is_model(answer)
        self.fields: list[FieldSpec] = [_whole(answer)] if whole else fields_of(answer, prompt=prompt)

    def check(self, values: Mapping[str, Any]) -> Checked:
        """The answer that `values` ({field name: value}) make; fields left out get their default."""
        if self.sole and SOLE not in values:
            return Checked(MISSING, {SOLE: REQUIRED})
        try:
            # Not strict, whatever the model says: a person types text, and a date in JSON is a str.
            # By name, whatever the aliases: forms know fields by name, and so do the errors then.
            given = values[SOLE] if self.sole else dict(values)
            return Checked(self.adapter.validate_python(given, strict=False, by_name=True, by_alias=False))
        except ValidationError as error:
            return Checked(MISSING, self._problems(error))
        except Exception as error:  # a validator of the user's that raises what pydantic does not catch
            return Checked(MISSING, {"": f"{type(error).__name__}: {error}"})

    def _problems(self, error: ValidationError) -> dict[str, str]:
        names = {spec.name for spec in self.fields}
        said: dict[str, list[str]] = {}
        for item in error.errors(include_url=False, include_input=False):
            path = (SOLE, *item["loc"]) if self.sole else item["loc"]
            name = str(path[0]) if path and path[0] in names else ""
            inner = ".".join(str(part) for part in (path[1:] if name else path))
            if item["type"] == "missing":
                text = REQUIRED if not inner else "please fill this in"
            else:
                cause = item.get("ctx", {}).get("error")
                text = str(cause) if item["type"] in ("value_error", "assertion_error") and cause else item["msg"]
            said.setdefault(name, []).append(f"{inner}: {text}" if inner else text)
        return {name: "; ".join(dict.fromkeys(texts)) for name, texts in said.items()}


def fields_of(answer: Any, *, prompt: str = "") -> list[FieldSpec]:
    """The fields a form asks for: those a model declares, else one named "answer" with the prompt as its label."""
    if _is_model(answer):
        return [_spec_of(name, info) for name, info in answer.model_fields.items()]
    label = prompt if is_label(prompt) else "Answer"
    return [_spec(SOLE, label, answer, sole=True)]


def clean(text: object) -> str:
    """Text that a message to the browser can hold: half a surrogate pair would make the whole message fail."""
    return str(text).encode("utf-8", "replace").decode()


def is_label(prompt: str) -> bool:
    """Whether the prompt is short enough to be the label of its field."""
    return bool(prompt.strip()) and len(prompt) <= _LONG_PROMPT and "\n" not in prompt


def _is_model(answer: Any) -> TypeGuard[type[BaseModel]]:
    return isinstance(answer, type) and issubclass(answer, BaseModel) and not issubclass(answer, RootModel)


def _spec_of(name: str, info: FieldInfo) -> FieldSpec:
    label = info.title or name.replace("_", " ").strip().capitalize() or name
    return _spec(name, label, info.annotation, info=info)


def _spec(name: str, label: str, annotation: Any, *, info: FieldInfo | None = None, sole: bool = False) -> FieldSpec:
    shape = _shape(annotation, info)
    schema = _schema(annotation) if _needs_schema(shape.core) else {}
    choices = _choices(shape.core, sole=sole)
    kind = _kind_of(shape, choices, schema)
    default = MISSING if info is None or info.is_required() else _default(info)
    hints = [shape.text("description"), *(_bounds(shape, kind)), _expects(kind, schema)]
    if kind == "json" and default is not MISSING and default is not None:
        default = _as_json(annotation, default)
    elif kind == "text" and default is not MISSING and default is not None and not isinstance(default, str):
        written = _as_json(annotation, default)  # a datetime, a path … as its JSON string, without the quotes
        default = written if written is MISSING else json.loads(written)
    example = shape.examples[0] if shape.examples else ""
    return FieldSpec(
        name=name,
        label=clean(label),
        kind=kind,
        required=info is None or info.is_required(),
        optional=shape.optional,
        help=clean(" · ".join(hint for hint in hints if hint)),
        placeholder=clean(example if isinstance(example, str) and kind != "json" else _json_or_str(example)),
        choices=choices,
        default=default,
        low=shape.low(whole=kind == "int"),
        high=shape.high(whole=kind == "int"),
        takes_empty=shape.core is str,
        takes_text=kind == "json" and any(part.get("type") == "string" for part in schema.get("anyOf", ())),
    )


def _kind_of(shape: _Shape, choices: Sequence[Choice], schema: Mapping[str, Any]) -> Kind:
    core = shape.core
    if choices:
        return "choice"
    if core is bool:
        return "bool"
    if core is int:
        return "int"
    if core is float:
        return "float"
    if core is datetime.date:
        return "date"
    if schema.get("type") == "string" and schema.get("writeOnly"):
        return "secret"
    if core is str:
        long = (shape.number("max_length") or 0) > _LONG_TEXT or shape.extra.get("widget") == "textarea"
        return "area" if long else "text"
    # What JSON writes as a string (a datetime, a UUID, a path) is typed without the quotes.
    return "text" if core is decimal.Decimal or schema.get("type") == "string" else "json"


@dataclass(slots=True)
class _Shape:
    """An annotation without its wrappers, and what they said."""

    core: Any
    optional: bool = False
    metadata: list[Any] = field(default_factory=list)
    infos: list[FieldInfo] = field(default_factory=list)

    def number(self, name: str) -> float | None:
        """The last limit of that name (`ge`, `max_length` …) in the metadata."""
        found = [getattr(item, name, None) for item in self.metadata]
        numbers = [value for value in found if isinstance(value, (int, float)) and not isinstance(value, bool)]
        return numbers[-1] if numbers else None

    def text(self, name: str) -> str:
        return next((text for info in self.infos if (text := getattr(info, name))), "")

    @property
    def examples(self) -> list[Any]:
        return next((list(info.examples) for info in self.infos if info.examples), [])

    @property
    def extra(self) -> dict[str, Any]:
        return next((dict(i.json_schema_extra) for i in self.infos if isinstance(i.json_schema_extra, dict)), {})

    def low(self, *, whole: bool) -> float | None:
        above = self.number("gt")
        return self.number("ge") if above is None else above + 1 if whole else above

    def high(self, *, whole: bool) -> float | None:
        below = self.number("lt")
        return self.number("le") if below is None else below - 1 if whole else below


def _shape(annotation: Any, info: FieldInfo | None) -> _Shape:
    shape = _Shape(annotation, infos=[info] if info else [], metadata=list(info.metadata) if info else [])
    while True:
        core = shape.core
        if get_origin(core) is Annotated:
            shape.core, *notes = get_args(core)
            shape.infos += [note for note in notes if isinstance(note, FieldInfo)]
            shape.metadata += [part for n in notes for part in (n.metadata if isinstance(n, FieldInfo) else [n])]
        elif get_origin(core) in (Union, types.UnionType) and type(None) in get_args(core):
            rest = tuple(part for part in get_args(core) if part is not type(None))
            shape.core, shape.optional = Union[rest], True  # noqa: UP007 (built at run time)
        elif hasattr(core, "__supertype__"):  # NewType
            shape.core = core.__supertype__
        elif type(core).__name__ == "TypeAliasType" and not get_args(core):
            shape.core = core.__value__
        else:
            return shape


def _needs_schema(core: Any) -> bool:
    return core not in (bool, int, float, str, datetime.date) and not _choices(core, sole=False)


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


def _schema(annotation: Any) -> dict[str, Any]:
    """The JSON schema of the annotation without None; {} if pydantic has none for it (an arbitrary class)."""
    core = _shape(annotation, None)
    try:
        schema = TypeAdapter(core.core).json_schema()
    except Exception:  # several of pydantic's errors, and whatever a user's own schema hook raises
        return {}
    ref = str(schema.get("$ref", "")).rpartition("/")[2]
    return {**schema.get("$defs", {}).get(ref, {}), **schema}


def _bounds(shape: _Shape, kind: Kind) -> list[str]:
    if kind in ("text", "area", "json"):
        longest = shape.number("max_length")
        return (
            [f"at most {_number(longest)} {'items' if kind == 'json' else 'characters'}"] if longest is not None else []
        )
    if kind not in ("int", "float"):
        return []
    ge, gt, le, lt, step = (shape.number(name) for name in ("ge", "gt", "le", "lt", "multiple_of"))
    if ge is not None and le is not None:
        words = [f"{_number(ge)} to {_number(le)}"]
    else:
        limits = ((ge, "at least"), (gt, "more than"), (le, "at most"), (lt, "less than"))
        words = [", ".join(f"{word} {_number(limit)}" for limit, word in limits if limit is not None)]
    return [*words, f"a multiple of {_number(step)}" if step is not None else ""]


def _number(value: float | None) -> str:
    return f"{value:,}".replace(",", " ").removesuffix(".0")


def _expects(kind: Kind, schema: Mapping[str, Any]) -> str:
    """What to write, for a text with a form of its own."""
    if kind == "text":
        formats = {"date-time": "such as 2026-12-24 18:30", "time": "such as 18:30", "duration": "such as 01:30:00"}
        return formats.get(str(schema.get("format", "")), "")
    if kind != "json":
        return ""
    outline = _outline(schema, schema.get("$defs", {}), depth=3)
    return f"JSON: {outline}" if outline else "JSON"


def _outline(schema: Mapping[str, Any], defs: Mapping[str, Any], *, depth: int) -> str:
    """A schema in a few characters, such as `{"city": string, "zip": integer}`; "" if there is nothing to say."""
    if depth == 0:
        return "…"
    if ref := str(schema.get("$ref", "")).rpartition("/")[2]:
        schema = {**defs.get(ref, {}), **{key: value for key, value in schema.items() if key != "$ref"}}
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(
                dict.fromkeys(_outline(part, defs, depth=depth - 1) or "any" for part in schema[key][:6])
            )
    if "enum" in schema:
        return " or ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"][:6])
    if "const" in schema:
        return json.dumps(schema["const"], ensure_ascii=False)
    if properties := schema.get("properties"):
        parts = [
            f"{json.dumps(name)}: {_outline(part, defs, depth=depth - 1) or 'any'}" for name, part in properties.items()
        ]
        return "{" + ", ".join(parts[:8]) + (", …" if len(parts) > 8 else "") + "}"
    kind = schema.get("type", "")
    if kind == "array":
        items = schema.get("items")
        return f"[{_outline(items, defs, depth=depth - 1) or 'any'}, …]" if isinstance(items, dict) else "[…]"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f'{{"…": {_outline(values, defs, depth=depth - 1) or "any"}}}' if isinstance(values, dict) else "{…}"
    return str(kind)


def _as_json(annotation: Any, value: Any) -> Any:
    """`value` as JSON text, or MISSING if it has none (then the model's default stands when nothing is typed)."""
    try:
        return json.dumps(TypeAdapter(annotation).dump_python(value, mode="json"), indent=2, ensure_ascii=False)
    except Exception:  # no schema for the annotation, or a value that JSON cannot hold
        return MISSING


def _json_or_str(value: Any) -> str:
    return value if value == "" else json.dumps(value, ensure_ascii=False, default=str)


def _whole(answer: Any) -> FieldSpec:
    spec = _spec(SOLE, "Answer", answer)
    known: dict[str, Any] = {}
    for part in fields_of(answer) if _is_model(answer) else ():
        if part.default is not MISSING:
            known[part.name] = json.loads(part.default) if part.kind == "json" and part.default else part.default
    return FieldSpec(SOLE, "Answer", "json", help=spec.help, default=_as_json(Any, known) if known else MISSING)
