"""Arguments that are looked at when they are given, and said as one would write them."""

from __future__ import annotations

import inspect
import math
import re
from datetime import timedelta
from numbers import Integral, Real
from typing import Any, cast


def function_of(where: str, given: Any) -> Any:
    if not callable(given):
        raise TypeError(f"{where} is {given!r}; give a function.")
    if inspect.iscoroutinefunction(given) or inspect.iscoroutinefunction(getattr(given, "__call__", None)):  # noqa: B004
        raise TypeError(
            f"{where} is {as_written(given)}, which is async; it is called, not awaited: write it with `def`."
        )
    return given


def count_of(where: str, given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, Integral):
        raise TypeError(f"{where} is {given!r}; give a whole number.")
    if int(given) < 1:
        raise ValueError(f"{where} counts from 1, got {given!r}.")
    return int(given)


def seconds_of(where: str, given: Any, *, signed: bool = False, endless: bool = False) -> float:
    if isinstance(given, timedelta):
        given = given.total_seconds()
    return number_of(where, given, "a number of seconds or a timedelta", signed=signed, endless=endless)


def number_of(
    where: str, given: Any, wanted: str = "a number", *, signed: bool = False, endless: bool = False
) -> float:
    if isinstance(given, bool) or not isinstance(given, Real):
        raise TypeError(f"{where} is {given!r}; give {wanted}.")
    try:
        number = float(given)
    except OverflowError:
        number = math.inf
    if math.isnan(number) or (math.isinf(number) and not (endless and number > 0)):
        raise ValueError(f"{where} is {given!r}; give a finite number.")
    if number < 0 and not signed:
        raise ValueError(f"{where} is {given!r}; it cannot be negative.")
    return number


def as_written(value: Any) -> str:
    """As one would write it: whole seconds without a point, classes and functions by their names."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return repr(int(value))
    if isinstance(value, tuple):
        shown = [as_written(each) for each in cast("tuple[object, ...]", value)]
        return shown[0] if len(shown) == 1 else f"({', '.join(shown)})"
    if isinstance(value, re.Pattern):
        pattern = cast("re.Pattern[str]", value)
        return repr(pattern.pattern if pattern.flags == re.UNICODE else pattern)  # the flag all text has
    if isinstance(value, type) or inspect.isroutine(value):
        return getattr(value, "__qualname__", repr(value))
    return repr(value)
