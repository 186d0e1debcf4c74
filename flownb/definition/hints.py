"""What a type hint says: which events, one or a list, or something else.

All spellings give the same answer: `A | B`, `Union`, `Optional`, `Annotated` at any depth, quoted hints, and
`from __future__ import annotations`.
"""

from __future__ import annotations

import collections.abc
import types
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Union, get_args, get_origin

from msgspec import Struct
from typing_extensions import TypeAliasType

from flownb.events import Event
from flownb.resource import hint_of

_LISTS = (list, tuple, collections.abc.Sequence, collections.abc.Iterable)


class Unresolved(Exception):
    """A hint names something that is not there."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(reason)
        self.name = name


class Meaning(Struct, frozen=True):
    """What one hint means."""

    #: Event classes that it names directly.
    events: tuple[type[Event], ...] = ()
    #: Event classes inside `list[...]`.
    lists: tuple[type[Event], ...] = ()
    #: It names a list of events, even an empty union of them.
    is_list: bool = False
    #: Something that is neither an event, a list of events nor None.
    others: tuple[Any, ...] = ()
    #: `Annotated` metadata, outermost first.
    metadata: tuple[Any, ...] = ()


NOTHING = Meaning()


def resolve(fn: Callable[..., Any], local: dict[str, Any] | None) -> dict[str, Any]:
    """The hints of a function, names resolved, `Annotated` kept.

    Args:
        fn: The step.
        local: Names of the place where it was defined, for classes made inside a function.

    Raises:
        Unresolved: A quoted name is not there.
    """
    hints: dict[str, Any] = {}
    for name, hint in getattr(fn, "__annotations__", {}).items():
        try:
            hints[name] = hint_of(fn, name, hint, local)
        except Exception as error:  # whatever a user's hint raises when evaluated
            raise Unresolved(name, f"{hint!r}: {type(error).__name__}: {error}") from error
    return hints


def meaning(hint: Any) -> Meaning:
    """What a hint means to the engine."""
    events: list[type[Event]] = []
    lists: list[type[Event]] = []
    others: list[Any] = []
    metadata: list[Any] = []
    is_list = False
    for part in _parts(hint, metadata):
        inner = _element(part)
        if inner is not None:
            elements = list(_parts(inner, metadata))
            if any(_is_event(e) for e in elements) or not elements:
                is_list = True
                lists += [e for e in elements if _is_event(e)]
                others += [e for e in elements if not _is_event(e)]
                continue
        if _is_event(part):
            events.append(_plain(part))
        elif part is not None and part is not type(None):
            others.append(part)
    return Meaning(
        tuple(dict.fromkeys(events)),
        tuple(dict.fromkeys(map(_plain, lists))),
        is_list,
        tuple(others),
        tuple(metadata),
    )


def _parts(hint: Any, metadata: list[Any]) -> Iterator[Any]:
    """The members of a union, `Annotated` and aliases peeled off at every depth."""
    if isinstance(hint, TypeAliasType):
        yield from _parts(hint.__value__, metadata)
        return
    origin = get_origin(hint)
    if origin is Annotated:
        metadata.extend(hint.__metadata__)
        yield from _parts(hint.__origin__, metadata)
    elif origin is Union or origin is types.UnionType:
        for part in get_args(hint):
            yield from _parts(part, metadata)
    else:
        yield hint


def _element(hint: Any) -> Any:
    """The hint inside `list[...]` or another sequence, None for what is no sequence."""
    if get_origin(hint) not in _LISTS:
        return None
    args = [arg for arg in get_args(hint) if arg is not Ellipsis]
    return Union[tuple(args)] if args else None  # noqa: UP007 - made of a tuple


def _is_event(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Event)


def _plain(cls: type[Event]) -> type[Event]:
    """The class itself for a subscripted generic: `Ask[Verdict]` is named by `Ask`."""
    origin: type[Event] | None = cls.__pydantic_generic_metadata__["origin"]  # type: ignore[assignment]
    return origin or cls
