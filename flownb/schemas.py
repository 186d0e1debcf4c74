"""Types of answers as JSON Schema and back, for processes that do not have the class (R4.46)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, TypeAdapter, create_model
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError

#: Types that `ctx.ask` names by a word alone.
WORDS: dict[str, Any] = {"str": str, "int": int, "float": float, "bool": bool}
_PLAIN: dict[str, Any] = {"string": str, "integer": int, "number": float, "boolean": bool, "null": None}
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


@lru_cache(maxsize=256)
def _schema(kind: Any) -> dict[str, Any] | None:
    try:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind.model_json_schema()
        return TypeAdapter(kind).json_schema()
    except (PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError):
        return None


def schema_of(kind: Any) -> dict[str, Any] | None:
    """The JSON Schema of a type; None for one that has none."""
    try:
        return _schema(kind)
    except TypeError:  # a type that cannot be a key
        return None


def type_of(schema: Mapping[str, Any]) -> Any:
    """A type that takes what a schema describes, near enough to check an answer and to draw its form. The driver, which
    has the class, checks again."""
    return _type_of(schema, schema.get("$defs", {}), "Answer")


def _type_of(schema: Mapping[str, Any], defs: Mapping[str, Any], name: str) -> Any:
    if "$ref" in schema:
        ref = str(schema["$ref"]).rpartition("/")[2]
        return _type_of(defs[ref], defs, ref) if ref in defs else Any
    if "const" in schema:
        return Literal[schema["const"]]
    if "enum" in schema:
        return Literal[tuple(schema["enum"])]
    for word in ("anyOf", "oneOf"):
        if word in schema:
            found = tuple(_type_of(one, defs, name) for one in schema[word])
            union = found[0]
            for other in found[1:]:
                union = union | other if union is not Any and other is not Any else Any
            return union
    kind = schema.get("type")
    if kind == "string" and (schema.get("format") == "password" or schema.get("writeOnly")):
        return SecretStr
    if kind == "array":
        return list[_type_of(schema.get("items", {}), defs, name)]  # type: ignore[misc]
    if kind == "object" and "properties" in schema:
        return _model(schema, defs, str(schema.get("title", name)))
    if kind == "object":
        return dict[str, Any]
    return _PLAIN.get(str(kind), Any)


def _model(schema: Mapping[str, Any], defs: Mapping[str, Any], name: str) -> type[BaseModel]:
    required = set(schema.get("required", ()))
    fields: dict[str, Any] = {}
    for key, part in schema["properties"].items():
        limits = {_LIMITS[word]: value for word, value in part.items() if word in _LIMITS}
        default = ... if key in required else part.get("default")
        about = {word: part[word] for word in ("title", "description") if word in part}
        kind = _type_of(part, defs, key)
        if key not in required and "default" not in part:
            kind = kind | None if kind is not Any else Any
        fields[key] = (kind, Field(default, **limits, **about))
    return create_model(name, __module__=__name__, __config__=ConfigDict(protected_namespaces=()), **fields)


__all__ = ["WORDS", "schema_of", "type_of"]
