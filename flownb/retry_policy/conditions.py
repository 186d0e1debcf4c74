"""Which errors are worth another attempt."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, cast

from flownb.retry_policy.checks import function_of
from flownb.retry_policy.protocols import ExceptionTypes, RetryCondition
from flownb.retry_policy.values import Value, checked, flat


class Condition(Value, ABC):
    noun = "a retry condition"

    @abstractmethod
    def __call__(self, error: BaseException, /) -> bool:
        """Whether `error` is worth another attempt."""

    def __or__(self, other: RetryCondition) -> retry_any:
        return retry_any(*flat(retry_any, self), other)

    def __ror__(self, other: RetryCondition) -> retry_any:
        return retry_any(other, self)

    def __and__(self, other: RetryCondition) -> retry_all:
        return retry_all(*flat(retry_all, self), other)

    def __rand__(self, other: RetryCondition) -> retry_all:
        return retry_all(other, self)


class retry_if_exception(Condition):
    """Retries when `predicate(error)` is true.

    >>> retry_if_exception(lambda error: "busy" in str(error))(OSError("busy"))
    True
    """

    predicate: Callable[[Any], bool]

    def __init__(self, predicate: Callable[[Any], bool]) -> None:
        self._set(predicate=function_of("retry_if_exception: predicate", predicate))

    def __call__(self, error: BaseException, /) -> bool:
        return bool(self.predicate(error))


class _ByType(Condition):
    exception_types: tuple[type[BaseException], ...]

    def __init__(self, exception_types: ExceptionTypes = Exception) -> None:
        self._set(exception_types=_exception_types(type(self).__name__, exception_types))

    def __call__(self, error: BaseException, /) -> bool:
        return _is_a(error, self.exception_types)


class retry_if_exception_type(_ByType):
    """Retries errors of one of these types: a class or a tuple of them.

    >>> retry_if_exception_type((TimeoutError, ConnectionError))(ConnectionResetError())
    True
    """


class retry_if_not_exception_type(_ByType):
    """Retries errors of none of these types.

    >>> retry_if_not_exception_type(ValueError)(ValueError())
    False
    """

    def __call__(self, error: BaseException, /) -> bool:
        return not _is_a(error, self.exception_types)


class retry_unless_exception_type(retry_if_not_exception_type):
    """Retries until an error of one of these types comes: the same, as a success needs no retry either.

    >>> retry_unless_exception_type(ValueError)(KeyError())
    True
    """


class retry_if_exception_cause_type(_ByType):
    """Retries errors that were raised `from` one of these types, at any depth; the error itself does not count.

    >>> error = RuntimeError()
    >>> error.__cause__ = TimeoutError()
    >>> retry_if_exception_cause_type(TimeoutError)(error)
    True
    """

    def __call__(self, error: BaseException, /) -> bool:
        return any(_is_a(cause, self.exception_types) for cause in _causes(error))


class retry_if_exception_message(Condition):
    """Retries errors whose text is `message`, or holds the pattern `match`; exactly one of both.

    `match` is found anywhere in the text: begin it with `^` where it has to stand in front.

    >>> retry_if_exception_message(match="50[23]")(OSError("HTTP 503"))
    True
    """

    bare = 0
    message: str | None
    match: re.Pattern[str] | None

    def __init__(self, message: str | None = None, match: str | re.Pattern[str] | None = None) -> None:
        name = type(self).__name__
        if (message is None) == (match is None):
            raise TypeError(f"{name} takes either message= (the whole text) or match= (a pattern in it), exactly one.")
        self._set(message=_text(name, message), match=_pattern(name, match))

    def __call__(self, error: BaseException, /) -> bool:
        return str(error) == self.message if self.match is None else self.match.search(str(error)) is not None


class retry_if_not_exception_message(retry_if_exception_message):
    """Retries errors whose text is not `message`, or does not hold the pattern `match`; exactly one of both.

    >>> retry_if_not_exception_message("out of credit")(OSError("out of credit"))
    False
    """

    def __call__(self, error: BaseException, /) -> bool:
        return not super().__call__(error)


class _Conditions(Condition):
    retries: tuple[RetryCondition, ...]

    @property
    def parts(self) -> tuple[RetryCondition, ...]:
        return self.retries

    def __init__(self, *retries: RetryCondition) -> None:
        self._set(retries=tuple(checked(Condition, each) for each in retries))


class retry_any(_Conditions):
    """Retries when one of these conditions does; `a | b`. Without any: never.

    >>> retry_if_exception_type(OSError) | retry_if_exception_message("busy")
    retry_any(retry_if_exception_type(OSError), retry_if_exception_message(message='busy'))
    """

    def __call__(self, error: BaseException, /) -> bool:
        return any(retry(error) for retry in self.retries)


class retry_all(_Conditions):
    """Retries when all of these conditions do; `a & b`. Without any: always.

    >>> (retry_if_exception_type(OSError) & retry_if_exception_message("busy"))(OSError("gone"))
    False
    """

    def __call__(self, error: BaseException, /) -> bool:
        return all(retry(error) for retry in self.retries)


class retry_always(Condition):
    """Retries every error."""

    def __call__(self, error: BaseException, /) -> bool:
        return True


class retry_never(Condition):
    """Retries no error."""

    def __call__(self, error: BaseException, /) -> bool:
        return False


def _is_a(error: BaseException, kinds: tuple[type[BaseException], ...]) -> bool:
    """Like `isinstance`, also for a class of a notebook's that was made anew: by running its cell again, or by
    carrying it to another process. Such a class lives in `__main__` and is known by its name."""
    if isinstance(error, kinds):
        return True
    names = {kind.__qualname__ for kind in kinds if _is_of_a_cell(kind)}
    return bool(names) and any(base.__qualname__ in names and _is_of_a_cell(base) for base in type(error).__mro__)


def _is_of_a_cell(kind: type) -> bool:
    # Two calls of one function make two classes of one name that are meant to differ.
    return kind.__module__ == "__main__" and "<locals>" not in kind.__qualname__


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen = {id(error)}  # a chain may be tied to a ring by hand
    cause = error.__cause__
    while cause is not None and id(cause) not in seen:
        yield cause
        seen.add(id(cause))
        cause = cause.__cause__


def _exception_types(name: str, given: Any) -> tuple[type[BaseException], ...]:
    kinds: tuple[Any, ...] = cast(Any, given) if isinstance(given, tuple) else (given,)
    if not kinds:
        raise ValueError(f"{name}: exception_types is empty; name at least one exception class.")
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise TypeError(f"{name}: {kind!r} is no exception class; give one or a tuple of them.")
    return kinds


def _text(name: str, given: Any) -> str | None:
    if given is None or isinstance(given, str):
        return given
    raise TypeError(f"{name}: message is {given!r}; give the text, or a pattern as match=.")


def _pattern(name: str, given: Any) -> re.Pattern[str] | None:
    if given is None:
        return None
    if not isinstance(getattr(given, "pattern", given), str):
        raise TypeError(f"{name}: match is {given!r}; give a pattern of text.")
    try:
        return re.compile(given)
    except re.error as error:
        raise ValueError(f"{name}: match={given!r} is no regular expression: {error}.") from error
