"""Answers as they are typed: `decision=approve note="as agreed"`, one value, or JSON; by the stored schema of the
question, so that no class is needed (R4.46)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flownb.errors import AnswerInvalid

Schema = Mapping[str, Any]
_FIELD = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
#: What stands in a command for a value of a type.
_PLACES = {"string": "TEXT", "integer": "NUMBER", "number": "NUMBER", "array": "LIST", "object": "JSON"}
_NAMES = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true | false", "null": "null"}


def answer_from(words: Sequence[str], schema: Schema | None) -> tuple[Any, dict[str, Any]]:
    """What was typed, as an answer and its fields: one of them is empty.

    Raises:
        AnswerInvalid: It is neither fields nor one value.
    """
    if schema is None or not _is_object(schema):
        if len(words) == 1 and (schema is not None or not _FIELD.fullmatch(words[0])):
            return value_of(words[0], schema or {}, {}), {}
        if schema is not None:
            raise AnswerInvalid(f"This question takes one value ({_type_words(schema, {})}): quote it.")
    elif len(words) == 1 and not _FIELD.fullmatch(words[0]):
        return _whole(words[0], schema), {}
    fields: dict[str, Any] = {}
    known = (schema or {}).get("properties", {})
    for word in words:
        found = _FIELD.fullmatch(word)
        if found is None:
            raise AnswerInvalid(f"{word!r} is no field: write name=value, or one value in JSON.")
        name, text = found.groups()
        if name in fields:
            raise AnswerInvalid(f"The field {name!r} was given twice.")
        fields[name] = value_of(text, known.get(name, {}), (schema or {}).get("$defs", {}))
    return None, fields


def _whole(text: str, schema: Schema) -> Any:
    """An answer with fields that was typed as one word."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if isinstance(found, dict):
        return found
    if not schema.get("properties"):  # a bare answer is one text
        return {"response": text}
    raise AnswerInvalid(f"The answer has fields: {', '.join(_examples(schema))}.")


def value_of(text: str, schema: Schema, defs: Schema) -> Any:
    """A typed text as a value of a schema: a text stays one where a text may stand, all else is JSON if it can be."""
    parts = list(_alternatives(schema, defs))
    choices = [choice for part in parts for choice in part.get("enum", [part["const"]] if "const" in part else [])]
    if text in choices:
        return text
    types = {part.get("type") for part in parts}
    if text == "null" and "null" in types:
        return None
    if "string" in types and not choices:
        return text
    try:
        return json.loads(text)
    except ValueError:
        if types == {"boolean"} and text.lower() in ("yes", "no", "y", "n"):
            return text.lower().startswith("y")
        return text


def _alternatives(schema: Schema, defs: Schema) -> Iterator[Schema]:
    if "$ref" in schema:
        yield from _alternatives(defs.get(str(schema["$ref"]).rpartition("/")[2], {}), {})
        return
    found = [part for word in ("anyOf", "oneOf", "allOf") for part in schema.get(word, ())]
    if not found:
        yield schema
    for part in found:
        yield from _alternatives(part, defs)


def _is_object(schema: Schema) -> bool:
    return schema.get("type") == "object" or "properties" in schema


# For people.


def command_for(request_id: str, schema: Schema | None, store_part: Sequence[str]) -> list[str]:
    """The command that answers a question, with words in capitals where a value has to stand."""
    begin = ["python", "-m", "flownb", "answer", request_id]
    if schema is None:
        return [*begin, "JSON", *store_part]
    if not _is_object(schema):
        return [*begin, _example(schema, schema.get("$defs", {})), *store_part]
    return [*begin, *(_examples(schema) or ["TEXT"]), *store_part]


def _examples(schema: Schema) -> list[str]:
    """The fields that must be there, or all where none must."""
    properties, defs = schema.get("properties", {}), schema.get("$defs", {})
    names = [name for name in properties if name in schema.get("required", ())] or list(properties)
    return [f"{name}={_example(properties[name], defs)}" for name in names]


def _example(schema: Schema, defs: Schema) -> str:
    part = next(_alternatives(schema, defs), {})
    if "const" in part or part.get("enum"):
        choice = part["const"] if "const" in part else part["enum"][0]
        return choice if isinstance(choice, str) else json.dumps(choice)
    if part.get("type") == "boolean":
        return "true"
    return _PLACES.get(str(part.get("type")), "JSON")


def fields_of(schema: Schema | None) -> list[str]:
    """What each field may be."""
    if schema is None or not _is_object(schema):
        return []
    defs = schema.get("$defs", {})
    return [
        f"{name}: {_type_words(part, defs)}{_default_words(name, part, schema)}"
        for name, part in schema.get("properties", {}).items()
    ]


def _default_words(name: str, part: Schema, schema: Schema) -> str:
    if name in schema.get("required", ()):
        return ""
    return f" (if left out: {json.dumps(part['default'])})" if "default" in part else " (may be left out)"


def _type_words(schema: Schema, defs: Schema) -> str:
    words: list[str] = []
    for part in _alternatives(schema, defs):
        if "const" in part or part.get("enum"):
            choices = [part["const"]] if "const" in part else part["enum"]
            words += [choice if isinstance(choice, str) else json.dumps(choice) for choice in choices]
        else:
            words.append(_NAMES.get(str(part.get("type")), "JSON"))
    return " | ".join(dict.fromkeys(words))


def prompts_for(schema: Schema | None) -> list[tuple[str, Schema, str, bool]]:
    """What a terminal asks: name, schema, words and whether it must be there, for each field; name "" is the value."""
    if schema is None:
        return [("", {}, "JSON", True)]
    defs = schema.get("$defs", {})
    if not _is_object(schema):
        return [("", schema, _type_words(schema, defs), True)]
    properties = schema.get("properties", {}) or {"response": {"type": "string"}}
    required = schema.get("required", ())
    return [(name, part, _type_words(part, defs), name in required) for name, part in properties.items()]
