"""What "approve" and "reject" answer, read from the stored schema of a question's answer: no class is needed for it.

An answer that is a yes or no (a bool), or a choice with one word that says yes and one that says no. Of a model that
has such a field, if nothing else in it has to be filled in. A word is looked at, not its place: nobody shall approve
what he meant to reject since somebody wrote the choices the other way round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

Schema = Mapping[str, Any]

_YES: Final = frozenset({
    "accept", "accepted", "agree", "agreed", "allow", "allowed", "approve", "approved", "confirm", "confirmed", "keep",
    "merge", "ok", "okay", "pass", "passed", "publish", "release", "yes",
})  # fmt: skip
_NO: Final = frozenset({
    "block", "blocked", "decline", "declined", "deny", "denied", "disagree", "disallow", "discard", "drop", "fail",
    "failed", "no", "refuse", "refused", "reject", "rejected",
})  # fmt: skip
_NO_FORM: Final = "What answers it is not known here."


@dataclass(frozen=True, slots=True)
class Shortcuts:
    """The two answers that need no form."""

    #: The whole answers: a value, or the fields of a model.
    approve: Any = None
    reject: Any = None
    #: As people read them: "Approve", "Reject"; "" if there are none.
    yes: str = ""
    no: str = ""
    #: Why there are none, a sentence; "" if there are.
    why: str = ""


def shortcuts(schema: Schema | None) -> Shortcuts:
    """What "approve" and "reject" answer, by the JSON Schema of an answer; None where it is not known."""
    if schema is None:
        return Shortcuts(why=_NO_FORM)
    defs = schema.get("$defs", {})
    schema = _resolved(schema, defs)
    if "properties" not in schema:
        found = _pair(schema)
        if found is None:
            return Shortcuts(why="Its answer is no choice between yes and no.")
        return Shortcuts(*found, *_labels(found))
    required = set(schema.get("required", ()))
    pairs: dict[str, tuple[Any, Any]] = {}
    for name, part in schema["properties"].items():
        pair = _pair(_resolved(part, defs))
        if pair is not None and not (
            pair == (True, False) and _words(name) & _NO
        ):  # `rejected: bool` says no with True
            pairs[name] = pair
    fields = [name for name in pairs if name in required] or list(pairs)
    if not fields:
        return Shortcuts(why="No field of its answer is a choice between yes and no.")
    if len(fields) > 1:
        return Shortcuts(why=f"It would not be clear which one is meant: {', '.join(fields)}.")
    (name,) = fields
    rest = sorted(required - {name})
    if rest:
        return Shortcuts(why=f"Its answer has to be filled in: {', '.join(rest)}.")
    yes, no = pairs[name]
    return Shortcuts({name: yes}, {name: no}, *_labels((yes, no)))


def _resolved(schema: Schema, defs: Schema) -> Schema:
    ref = str(schema.get("$ref", "")).rpartition("/")[2]
    found: Schema = {**defs.get(ref, {}), **schema} if ref else schema
    return found


def _pair(schema: Schema) -> tuple[Any, Any] | None:
    """Yes and no among the values of a schema, None if it has not one of each."""
    if schema.get("type") == "boolean":
        return True, False
    values = schema.get("enum", ())
    yes = [value for value in values if _says(value, _YES)]
    no = [value for value in values if _says(value, _NO)]
    return (yes[0], no[0]) if len(yes) == len(no) == 1 else None


def _says(value: Any, words: frozenset[str]) -> bool:
    return isinstance(value, str) and value.strip().casefold() in words


def _words(name: str) -> set[str]:
    return set(name.casefold().split("_"))


def _labels(pair: tuple[Any, Any]) -> tuple[str, str]:
    if pair == (True, False):
        return "Approve", "Reject"
    return pair[0].strip().capitalize(), pair[1].strip().capitalize()


__all__ = ["Shortcuts", "shortcuts"]
