"""What conditions, waits, stops and policies share: they are values, and check what is given to them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from numbers import Real
from typing import Any, ClassVar

from flownb.retry_policy.checks import as_written, function_of


class Value:
    """What conditions, waits, stops and policies share: frozen, equal by fields, shown as they are written."""

    #: "a wait": what errors call it.
    noun: ClassVar[str]
    #: What a number given in place of one was meant as; "" for nothing.
    of_number: ClassVar[str] = ""
    #: How many arguments are shown without their names.
    bare: ClassVar[int] = 1

    def _set(self, **fields: object) -> None:
        vars(self).update(fields)  # past __setattr__, which is for all others

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{self!r} is a value: its {name!r} cannot be set. Make another one.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{self!r} is a value: its {name!r} cannot be deleted.")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._arguments())})"

    def _arguments(self) -> Iterator[str]:
        in_order = True
        for position, parameter in enumerate(inspect.signature(type(self)).parameters.values()):
            value = getattr(self, parameter.name)
            if parameter.kind is parameter.VAR_POSITIONAL:
                yield from map(as_written, value)
            elif value == parameter.default:
                in_order = False
            else:
                bare = in_order and position < self.bare
                yield as_written(value) if bare else f"{parameter.name}={as_written(value)}"


def checked(family: type[Value], given: Any) -> Any:
    """`given` itself, if it can be one of `family`: one of ours, or any function or object that can be called."""
    noun = family.noun
    if isinstance(given, family):
        return given
    if isinstance(given, Value):
        raise TypeError(f"{given!r} is {given.noun}, not {noun}.")
    if isinstance(given, type):
        name = given.__name__
        mend = f"retry_if_exception_type({name})" if issubclass(given, BaseException) else f"{name}(...)"
        raise TypeError(f"{name} is a class, not {noun}. Write {mend}.")
    if not callable(given):
        mend = f" Write {family.of_number}({given!r})." if isinstance(given, Real) and family.of_number else ""
        raise TypeError(f"{given!r} is not {noun}.{mend}")
    return function_of(noun, given)


def flat(kind: type[Any], left: Any) -> tuple[Any, ...]:
    """So that `a | b | c` is one `any` of three, not two of two."""
    return tuple(left.parts) if type(left) is kind else (left,)
