"""What a person types into one field, as text, and the value that it stands for: both ways, for every kind of leaf.

    value_of(spec, text_of(spec, value)), checked by the answer's type, is the value again

Reading is generous and never guesses: a text that is no number stays a text, and the answer's type says so.
"""

from __future__ import annotations

import datetime
import enum
import json
import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final
from zoneinfo import ZoneInfo

from pydantic import Secret, SecretBytes, SecretStr
from pydantic_core import to_jsonable_python

from flownb.forms.fields import MISSING, Choice, FieldSpec, Kind

_YES: Final = frozenset(("true", "yes", "on", "1"))
_NO: Final = frozenset(("false", "no", "off", "0"))
#: "2026-12-24 18:30 Europe/Berlin": the moment, and a zone of its own after a blank.
_MOMENT: Final = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)\s*(\S*)")
_OFFSET: Final = re.compile(r"([+-])(\d\d):?(\d\d)(?::?(\d\d))?")


def value_of(spec: FieldSpec, text: str) -> Any:
    """The value that a typed text stands for, as the answer's type wants it; MISSING: nothing is typed.

    Raises:
        ValueError: It cannot be read, in words for the person.
    """
    return _READ[spec.kind](spec, text)


def text_of(spec: FieldSpec, value: Any) -> str:
    """The text that stands for a value; "" for MISSING, None, a secret, and what has no text."""
    if value is MISSING or value is None:
        return ""
    if isinstance(value, str) and spec.kind in ("date", "time", "datetime"):
        return value  # the default of a type that was made from a schema
    try:
        return _WRITE[spec.kind](spec, value)
    except Exception:  # a value that does not fit its field, or no JSON: then the field begins empty
        return ""


# ---- reading


def _text(spec: FieldSpec, text: str) -> Any:
    if spec.takes_empty and (spec.optional or not spec.required):
        return text
    return text if text.strip() else MISSING


def _secret(spec: FieldSpec, text: str) -> Any:
    return text or MISSING


def _parsed(parse: Callable[[str], Any]) -> Callable[[FieldSpec, str], Any]:
    def read(spec: FieldSpec, text: str) -> Any:
        stripped = text.strip()
        if not stripped:
            return MISSING
        try:
            return parse(stripped)
        except ValueError:
            return stripped  # the answer's type says what is wrong with it

    return read


def _whole(text: str) -> Any:
    """An int; a fraction as a float, so that the type finds better words for it than for a text."""
    try:
        return int(text)
    except ValueError:
        number = float(text)
        return text if number.is_integer() or not math.isfinite(number) else number


def _bool(spec: FieldSpec, text: str) -> Any:
    word = text.strip().lower()
    return True if word in _YES else False if word in _NO else text.strip() or MISSING


def _choice(spec: FieldSpec, text: str) -> Any:
    if not text:
        return MISSING
    for choice in spec.choices:
        if choice.label == text:
            return choice.value
    raise ValueError("Please choose one of those that are offered.")


def _datetime(spec: FieldSpec, text: str) -> Any:
    found = _MOMENT.fullmatch(text.strip())
    if found is None:
        return text.strip() or MISSING
    try:
        moment = datetime.datetime.fromisoformat(found[1].replace(",", "."))
    except ValueError:  # the 31st of June
        return text.strip()
    zone = zone_of(found[2])
    if zone is None and spec.zone == "needed":
        raise ValueError("Please give the time zone, such as +01:00 or Europe/Berlin.")
    return moment.replace(tzinfo=zone)


def zone_of(text: str) -> datetime.tzinfo | None:
    """The time zone that a text names: "Z", "UTC", "+01:00" or "Europe/Berlin"; None for "".

    Raises:
        ValueError: There is none of that name.
    """
    name = text.strip()
    if not name:
        return None
    if name.upper() in ("Z", "UTC"):
        return datetime.UTC
    if found := _OFFSET.fullmatch(name):
        sign = -1 if found[1] == "-" else 1
        seconds = int(found[2]) * 3600 + int(found[3]) * 60 + int(found[4] or 0)
        if seconds < 86_400:
            return datetime.timezone(sign * datetime.timedelta(seconds=seconds))
    else:
        with suppress(Exception):  # not found, no file name, a folder: whatever the system's files make of it
            return ZoneInfo(name)
    raise ValueError(f"There is no time zone {name[:40]!r}. Write it as +01:00 or Europe/Berlin.")


def _json(spec: FieldSpec, text: str) -> Any:
    if not text.strip():
        return MISSING
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("This JSON is nested too deeply.") from None
    except ValueError as error:
        if spec.takes_text:
            return text
        place = f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        raise ValueError(f"This is not JSON{place}.") from error


_READ: Final[Mapping[Kind, Callable[[FieldSpec, str], Any]]] = {
    "text": _text,
    "area": _text,
    "secret": _secret,
    "int": _parsed(_whole),
    "float": _parsed(float),
    "bool": _bool,
    "choice": _choice,
    "date": _parsed(datetime.date.fromisoformat),
    "time": _parsed(datetime.time.fromisoformat),
    "datetime": _datetime,
    "json": _json,
}


# ---- writing


def choice_of(spec: FieldSpec, value: Any) -> Choice | None:
    """The choice that a value or a label means (a journal has the value of an Enum); None: no such choice."""
    for choice in spec.choices:
        meant = [choice.value, choice.value.value] if isinstance(choice.value, enum.Enum) else [choice.value]
        if any(type(one) is type(value) and bool(one == value) for one in meant):
            return choice
    return next((choice for choice in spec.choices if choice.label == value), None)


def _write_text(spec: FieldSpec, value: Any) -> str:
    return value if isinstance(value, str) else str(to_jsonable_python(value))


def _write_int(spec: FieldSpec, value: Any) -> str:
    return str(int(value))


def _write_float(spec: FieldSpec, value: Any) -> str:
    return repr(float(value)).removesuffix(".0")


def _write_time(spec: FieldSpec, value: Any) -> str:
    brief = value.second == 0 and value.microsecond == 0 and value.tzinfo is None
    return str(value.isoformat("minutes") if brief else value.isoformat())


def _write_datetime(spec: FieldSpec, value: Any) -> str:
    """With the zone's own name, except in the hour that comes twice, where only the offset tells which it is."""
    zone = value.tzinfo
    naive = value.replace(tzinfo=None)
    brief = naive.second == 0 and naive.microsecond == 0
    written = str(naive.isoformat(" ", "minutes") if brief else naive.isoformat(" "))
    if zone is None:
        return written
    if zone is datetime.UTC:
        return f"{written} UTC"
    if isinstance(zone, ZoneInfo) and zone.key and value.replace(fold=0).utcoffset() == value.utcoffset():
        return f"{written} {zone.key}"
    return f"{written} {value.isoformat(timespec='microseconds')[26:]}"


def _write_json(spec: FieldSpec, value: Any) -> str:
    plain = to_jsonable_python(_without_secrets(value), by_alias=False)
    if spec.takes_text and isinstance(plain, str) and not _is_json(plain):
        return plain
    return json.dumps(plain, indent=2, ensure_ascii=False)


def _without_secrets(value: Any) -> Any:
    if isinstance(value, (SecretStr, SecretBytes, Secret)):
        raise ValueError("A secret has no text.")
    if isinstance(value, Mapping):
        return {name: _without_secrets(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_without_secrets(item) for item in value]
    return value


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return not text.strip()  # blank text would be "nothing typed"
    return True


_WRITE: Final[Mapping[Kind, Callable[[FieldSpec, Any], str]]] = {
    "text": _write_text,
    "area": _write_text,
    "secret": lambda spec, value: "",
    "int": _write_int,
    "float": _write_float,
    "bool": lambda spec, value: "true" if value is True else "false" if value is False else "",
    "choice": lambda spec, value: found.label if (found := choice_of(spec, value)) is not None else "",
    "date": lambda spec, value: str(value.isoformat()),
    "time": _write_time,
    "datetime": _write_datetime,
    "json": _write_json,
}
