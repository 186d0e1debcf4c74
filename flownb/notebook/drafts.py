"""An event as JSON text that a person edits, and the event that comes of it.

What JSON cannot say (a frame, a secret) is no part of the text and stays as it was. Only fields whose text was changed
are validated anew together with those that were not.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, SecretBytes, SecretStr, ValidationError

from flownb.core import ticks as t
from flownb.core.values import Out
from flownb.errors import AnswerInvalid

_WIDTH = 60


class Draft:
    """What of a tick, or of a delivery, a person may edit.

    Args:
        outs: The events, or the one value.
        is_list: They are edited as a list, of that length.
    """

    def __init__(self, outs: Sequence[Out], *, is_list: bool) -> None:
        self._values = [out.value for out in outs]
        self._is_list = is_list
        self._shown = [_shown(value) for value in self._values]

    @property
    def title(self) -> str:
        """Whose fields they are."""
        names = dict.fromkeys(type(value).__name__ for value in self._values)
        return f"{len(self._values)} × {', '.join(names)}" if self._is_list else ", ".join(names)

    @property
    def kept(self) -> list[str]:
        """Names of fields that are no JSON and stay as they are."""
        found: dict[str, None] = {}
        for value, shown in zip(self._values, self._shown, strict=True):
            if isinstance(value, BaseModel):
                found.update(dict.fromkeys(name for name in _fields(value) if name not in shown))
        return list(found)

    def text(self) -> str:
        """The JSON text to begin with."""
        return _pretty(self._shown if self._is_list else self._shown[0])

    def read(self, text: str) -> Any:
        """The event, the value or the list of them that a text stands for.

        Raises:
            AnswerInvalid: It is no JSON, or does not fit; says where.
        """
        try:
            given = json.loads(text)
        except json.JSONDecodeError as error:
            raise AnswerInvalid(f"This is no JSON: {error.msg}, line {error.lineno}, column {error.colno}.") from None
        if not self._is_list:
            return self._merged(0, given, "")
        if not isinstance(given, list) or len(given) != len(self._values):
            raise AnswerInvalid(f"These were {len(self._values)} events: give a list of as many.")
        return [self._merged(i, one, f"[{i}]") for i, one in enumerate(given)]

    def _merged(self, i: int, given: Any, where: str) -> Any:
        old, shown = self._values[i], self._shown[i]
        if not isinstance(old, BaseModel):
            return given
        name = type(old).__name__
        if not isinstance(given, Mapping):
            raise AnswerInvalid(f"{name}{where} has fields: give an object, like {_pretty(shown)}.")
        _refuse_misspelt(type(old), f"{name}{where}", shown, given)
        changed = {key: value for key, value in given.items() if key not in shown or shown[key] != value}
        kept = {key: value for key, value in _fields(old).items() if key not in shown or key in given}
        try:
            return type(old).model_validate({**kept, **changed})
        except ValidationError as error:
            faults = "; ".join(f"{'.'.join(map(str, e['loc'])) or name}: {e['msg']}" for e in error.errors())
            raise AnswerInvalid(f"{name}{where} cannot be that. {faults}.") from None


def _refuse_misspelt(kind: type[BaseModel], name: str, shown: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Events may have undeclared fields, so a name that is not known is only refused where it looks like one that is
    missing, or where the model takes no others.

    Raises:
        AnswerInvalid: A field is not known.
    """
    takes_others = kind.model_config.get("extra") == "allow"
    missing = [key for key in shown if key not in given]
    for key in given:
        close = difflib.get_close_matches(key, missing if takes_others else list(shown), n=1)
        if key not in shown and (close or not takes_others):
            mend = f"Did you mean {close[0]!r}?" if close else f"It has {', '.join(shown) or 'none'}."
            raise AnswerInvalid(f"{name} has no field {key!r}. {mend}")


def draft_of(tick: t.Tick) -> Draft | None:
    """What of a tick can be edited; None for one that brings nothing."""
    match tick:
        case t.StepFinished() if tick.outs:
            return Draft(tick.outs, is_list=tick.fan)
        case t.EventsSent():
            return Draft(tick.outs, is_list=len(tick.outs) != 1)
        case t.EventArrived() | t.ValueRecorded() | t.RunStarted():
            return Draft([tick.out], is_list=False)
        case t.RequestAnswered():
            return Draft([tick.answer], is_list=False)
        case t.StepFailed() if tick.failed is not None:
            return Draft([tick.failed], is_list=False)
        case t.ChildFinished() if tick.out is not None:
            return Draft([tick.out], is_list=False)
    return None


def draft_of_work(events: Sequence[Any]) -> Draft:
    """Of the events that a delivery brings to its step."""
    return Draft([Out("", event) for event in events], is_list=len(events) != 1)


def _fields(model: BaseModel) -> dict[str, Any]:
    held = {name: model.__dict__[name] for name in type(model).model_fields if name in model.__dict__}
    return {**held, **(model.model_extra or {})}


def _shown(value: Any) -> Any:
    """What JSON says of a value: of a model those of its fields that JSON can hold."""
    if not isinstance(value, BaseModel):
        return _json(value)
    infos = type(value).model_fields
    shown = {}
    for name, held in _fields(value).items():
        if isinstance(held, (SecretStr, SecretBytes)) or (name in infos and not infos[name].repr):
            continue
        said = _json(held)
        if said is not None or held is None:
            shown[name] = said
    return shown


def _json(value: Any) -> Any:
    """A value in JSON's own types; None for what has no such form, or hides something."""
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, BaseModel):
        return _shown(value) if len(_shown(value)) == len(_fields(value)) else None
    try:
        return json.loads(json.dumps(value, default=_plain))
    except (TypeError, ValueError, RecursionError):
        return None


def _plain(value: Any) -> Any:
    """Dates, paths, enums and the like, as pydantic writes them; raises TypeError for the others."""
    from pydantic_core import to_jsonable_python

    if isinstance(value, (SecretStr, SecretBytes)):
        raise TypeError("a secret is not shown")
    if isinstance(value, BaseModel):
        shown = _json(value)
        if shown is None:
            raise TypeError("hides something")
        return shown
    try:
        return to_jsonable_python(value)
    except Exception as error:
        raise TypeError(str(error)) from None


def _pretty(value: Any) -> str:
    """On one line what is short, else with a line for each field."""
    line = json.dumps(value, ensure_ascii=False)
    return line if len(line) <= _WIDTH else json.dumps(value, ensure_ascii=False, indent=2)


__all__ = ["Draft", "draft_of", "draft_of_work"]
