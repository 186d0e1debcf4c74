"""Types of answers as JSON Schema and back, for processes that do not have the class (R4.46)."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Mapping
from functools import lru_cache, reduce
from operator import or_
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, Secret, SecretStr, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import SchemaError

#: Types that `ctx.ask` names by a word alone.
WORDS: dict[str, Any] = {"str": str, "int": int, "float": float, "bool": bool}
_PLAIN: dict[str, Any] = {"string": str, "integer": int, "number": float, "boolean": bool, "null": None}
#: Texts with a form of their own.
_FORMATS: dict[str, Any] = {
    "date": datetime.date,
    "time": datetime.time,
    "date-time": datetime.datetime,
    "duration": datetime.timedelta,
    "uuid": uuid.UUID,
}
#: Words of the schema that a field keeps, and what pydantic calls them.
_LIMITS = {
    "minimum": "ge",
    "maximum": "le",
    "exclusiveMinimum": "gt",
    "exclusiveMaximum": "lt",
    "minLength": "min_length",
    "maxLength": "max_length",
    "minItems": "min_length",
    "maxItems": "max_length",
    "pattern": "pattern",
    "multipleOf": "multiple_of",
}
#: A model inside itself is described again so often; what lies deeper is any JSON.
_ROUNDS = 2


class SecretsMarked(GenerateJsonSchema):
    """JSON Schema in which `Secret[...]` is marked as `SecretStr` is; pydantic itself leaves it out."""

    def json_or_python_schema(self, schema: Any) -> Any:
        found = super().json_or_python_schema(schema)
        function = schema.get("serialization", {}).get("function")
        is_secret = getattr(function, "__module__", "") == "pydantic.types" and function.__name__ == "_serialize_secret"
        return {**found, "writeOnly": True} if is_secret else found


@lru_cache(maxsize=256)
def _schema(kind: Any) -> dict[str, Any] | None:
    try:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind.model_json_schema(schema_generator=SecretsMarked)
        return TypeAdapter(kind).json_schema(schema_generator=SecretsMarked)
    except (PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError):
        return None


def schema_of(kind: Any) -> dict[str, Any] | None:
    """The JSON Schema of a type; None for one that has none."""
    try:
        return _schema(kind)
    except TypeError:  # a type that cannot be a key
        return None


def without_made(value: Any) -> Any:
    """A value in which what `type_of` made a class for is plain: the class is nobody else's."""
    if isinstance(value, BaseModel):
        return value.model_dump() if type(value).__module__ == __name__ else value
    if isinstance(value, dict):
        return {name: without_made(item) for name, item in value.items()}
    return list(map(without_made, value)) if type(value) is list else value


def type_of(schema: Mapping[str, Any]) -> Any:
    """A type that takes what a schema describes, near enough to check an answer and to draw its form. The driver, which
    has the class, checks again."""
    return _Types(schema.get("$defs", {})).of(schema, "Answer", ())


class _Types:
    """Makes the types of one schema; a model that is named twice is the same class.

    Args:
        defs: Its definitions by name.
    """

    def __init__(self, defs: Mapping[str, Any]) -> None:
        self._defs = defs
        self._made: dict[str, Any] = {}

    def of(self, schema: Mapping[str, Any], name: str, above: tuple[str, ...]) -> Any:
        """The type of a schema.

        Args:
            schema: The part of the whole that is meant.
            name: For a model without a title.
            above: Definitions that it lies in, for those that contain themselves.
        """
        if "$ref" in schema:
            return self._of_ref(str(schema["$ref"]).rpartition("/")[2], above)
        if "const" in schema:
            return Literal[schema["const"]]
        if "enum" in schema:
            return Literal[tuple(schema["enum"])]
        for word in ("anyOf", "oneOf"):
            if word in schema:
                return self._union(schema, schema[word], name, above)
        kind = schema.get("type")
        if schema.get("writeOnly") and schema.get("format") != "password":
            held: Any = self.of({k: v for k, v in schema.items() if k != "writeOnly"}, name, above)
            return Secret[held]
        if kind == "string":
            return _text_type(schema)
        if kind == "array":
            return self._array(schema, name, above)
        if kind == "object" and "properties" in schema and not any(key.startswith("_") for key in schema["properties"]):
            return self._model(schema, str(schema.get("title", name)), above)
        if kind == "object":
            return dict[str, Any]
        return _PLAIN.get(str(kind), Any)

    def _of_ref(self, ref: str, above: tuple[str, ...]) -> Any:
        if ref not in self._defs or above.count(ref) >= _ROUNDS:
            return Any
        if ref in above:
            return self.of(self._defs[ref], ref, (*above, ref))
        if ref not in self._made:
            self._made[ref] = self.of(self._defs[ref], ref, (*above, ref))
        return self._made[ref]

    def _union(self, schema: Mapping[str, Any], parts: Any, name: str, above: tuple[str, ...]) -> Any:
        found = [self._limited(part, self.of(part, name, above)) for part in parts]
        if any(one is Any for one in found):
            return Any
        union = reduce(or_, found)
        by = schema.get("discriminator", {}).get("propertyName")
        return Annotated[union, Field(discriminator=by)] if by else union

    def _array(self, schema: Mapping[str, Any], name: str, above: tuple[str, ...]) -> Any:
        part = schema.get("items", {})
        if not isinstance(part, Mapping) or "prefixItems" in schema:
            return list[Any]
        item = self._limited(part, self.of(part, name, above))
        return list[item]  # type: ignore[valid-type]

    def _model(self, schema: Mapping[str, Any], name: str, above: tuple[str, ...]) -> type[BaseModel]:
        required = set(schema.get("required", ()))
        fields: dict[str, Any] = {}
        for key, part in schema["properties"].items():
            kind = self.of(part, key, above)
            default: Any = ... if key in required else _default(kind, part.get("default"))
            if key not in required and "default" not in part:
                kind = kind | None if kind is not Any else Any
            fields[key] = (kind, Field(default, **_limits(part, kind), **_words(part)))
        try:  # what a stranger types must not keep Python's engine busy for ever
            return _made(name, fields, "rust-regex")
        except SchemaError:  # Rust's has no look-around
            return _made(name, fields, "python-re")

    def _limited(self, part: Mapping[str, Any], kind: Any) -> Any:
        limits = _limits(part, kind)
        return Annotated[kind, Field(**limits)] if limits else kind


def _made(name: str, fields: Mapping[str, Any], engine: Literal["rust-regex", "python-re"]) -> type[BaseModel]:
    config = ConfigDict(protected_namespaces=(), regex_engine=engine)
    return create_model(name, __module__=__name__, __config__=config, **fields)


def _text_type(schema: Mapping[str, Any]) -> Any:
    if schema.get("format") == "password" or schema.get("writeOnly"):
        return SecretStr
    return _FORMATS.get(str(schema.get("format")), str)


def _default(kind: Any, written: Any) -> Any:
    """A default as JSON has it, as a value of its type."""
    try:
        return TypeAdapter(kind).validate_python(written)
    except (ValidationError, PydanticUserError):
        return written


def _limits(part: Mapping[str, Any], kind: Any) -> dict[str, Any]:
    limits = {_LIMITS[word]: value for word, value in part.items() if word in _LIMITS}
    if kind in _FORMATS.values():
        return {}
    return limits


def _words(part: Mapping[str, Any]) -> dict[str, Any]:
    """What a field says of itself beside its type."""
    about: dict[str, Any] = {word: part[word] for word in ("title", "description", "examples") if word in part}
    if "widget" in part:
        about["json_schema_extra"] = {"widget": part["widget"]}
    return about


__all__ = ["WORDS", "schema_of", "type_of", "without_made"]
