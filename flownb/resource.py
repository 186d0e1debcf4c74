"""What a step is handed besides its event: `db: Annotated[Db, Resource(open_db)]`.

Here is the declaration alone: which factory, for how long, and what the factory itself needs. Runs make the values.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Generic, Literal, TypeVar, get_args, get_origin
from weakref import WeakKeyDictionary

from msgspec import Struct

from flownb.errors import WorkflowConfigurationError

Scope = Literal["workflow", "run"]


T = TypeVar("T")


class Transient(Generic[T]):
    """A live object that belongs to this process alone, in an event or in the state: `Transient(connection)`.

    Steps read its `.value`. No journal and no snapshot holds it, whatever `unserializable=` says; after a restart
    using it raises `LiveValueLost` (R6.16).
    """

    __flownb_transient__ = True
    __slots__ = ("__weakref__", "value")

    def __init__(self, value: T) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"<transient {type(self.value).__qualname__}>"


@dataclass(frozen=True)
class Resource:
    """The value of a parameter that a factory makes.

    Args:
        factory: A function, `def` or `async def`, or a class. Its own parameters may be resources, and one may be the
            `Context`.
        cache: Make it once and hand the same value to all; False: once for each use.
        scope: How long a cached value lives: as long as the workflow object, or one run.

    Raises:
        WorkflowConfigurationError: `factory` cannot be called, or `scope` is none of its words.
    """

    factory: Callable[..., Any]
    cache: bool = True
    _: KW_ONLY
    scope: Scope = "workflow"

    def __post_init__(self) -> None:
        if not callable(self.factory):
            raise WorkflowConfigurationError(f"Resource({self.factory!r}): give a function that makes the value.")
        if self.scope not in ("workflow", "run"):
            raise WorkflowConfigurationError(f"Resource: scope={self.scope!r} is not one of workflow, run.")

    @property
    def name(self) -> str:
        """The factory's name, for people."""
        return str(getattr(self.factory, "__qualname__", type(self.factory).__name__))


class Parameters(Struct, frozen=True):
    """What a factory takes."""

    resources: tuple[tuple[str, Resource], ...] = ()
    #: Name of the parameter that is the `Context`, "" if none is.
    context: str = ""
    faults: tuple[str, ...] = ()


#: Read once: the hints of a factory that is defined inside a function need the names around it, which only the
#: definition of a workflow knows.
_read: WeakKeyDictionary[Callable[..., Any], Parameters] = WeakKeyDictionary()


def parameters_of(resource: Resource, local: dict[str, Any] | None = None) -> Parameters:
    """What a resource's factory takes.

    Args:
        resource: The resource.
        local: Names around a factory that is defined inside a function, for hints that are text.
    """
    try:
        found = _read.get(resource.factory)
    except TypeError:  # an object without a hash or weak references: read each time
        return _parameters(resource, local)
    if found is None:
        found = _parameters(resource, local)
        if not found.faults:  # a name that is missing now may be there the next time
            _read[resource.factory] = found
    return found


def needs(resource: Resource) -> tuple[tuple[str, Resource], ...]:
    """The resources that a resource's factory takes, by the names of its parameters."""
    return parameters_of(resource).resources


def resource_faults(resource: Resource, local: dict[str, Any] | None = None) -> list[str]:
    """What is wrong with a resource and all that it needs: parameters that nobody fills, and circles."""
    return list(dict.fromkeys(_faults(resource, local, ())))


def resource_in(hint: Any) -> Resource | str | None:
    """The resource that a hint declares, a fault if it does so wrongly, None for any other hint."""
    if get_origin(hint) is not Annotated:
        return None
    found = [item for item in get_args(hint)[1:] if isinstance(item, Resource)]
    if Resource in get_args(hint)[1:]:
        return "names Resource without a factory. Write Resource(factory)."
    if len(found) > 1:
        return f"names {len(found)} resources. Leave one."
    return found[0] if found else None


def _faults(resource: Resource, local: dict[str, Any] | None, above: tuple[Resource, ...]) -> Iterator[str]:
    factories = [each.factory for each in above]
    if resource.factory in factories:
        circle = [each.name for each in (*above[factories.index(resource.factory) :], resource)]
        yield f"the resource {circle[0]} needs itself: {' -> '.join(circle)}. Break the circle."
        return
    found = parameters_of(resource, local)
    yield from found.faults
    for _, needed in found.resources:
        yield from _faults(needed, local, (*above, resource))


def _parameters(resource: Resource, local: dict[str, Any] | None) -> Parameters:
    try:
        signature = inspect.signature(resource.factory)
    except (TypeError, ValueError):  # compiled code that does not tell: it is called without arguments
        return Parameters()
    resources: list[tuple[str, Resource]] = []
    faults: list[str] = []
    context = ""
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        is_needed = parameter.default is parameter.empty
        where = f"the factory {resource.name} of a resource"
        try:
            hint = hint_of(_function(resource.factory), parameter.name, parameter.annotation, local)
        except Exception as error:  # whatever a user's hint raises when evaluated
            if is_needed:
                faults.append(
                    f"{where}: the hint of {parameter.name!r} cannot be resolved ({parameter.annotation!r}: "
                    f"{type(error).__name__}: {error}). Define that name before the first run."
                )
            continue
        found = resource_in(hint)
        if isinstance(found, str):
            faults.append(f"{where}: {parameter.name!r} {found}")
        elif (found is not None or _is_context(hint)) and parameter.kind is parameter.POSITIONAL_ONLY:
            faults.append(f"{where}: {parameter.name!r} is positional only, but is passed by name. Leave the `/` out.")
        elif found is not None:
            resources.append((parameter.name, found))
        elif _is_context(hint):
            context = parameter.name
        elif is_needed:
            faults.append(
                f"{where}: nobody fills its parameter {parameter.name!r}. Give it a default, or hint "
                "`Annotated[..., Resource(factory)]`."
            )
    return Parameters(tuple(resources), context, tuple(faults))


def _function(factory: Any) -> Any:
    """The function whose hints are those of a factory: of a class, a callable object, a partial."""
    while isinstance(factory, functools.partial):
        factory = factory.func
    if isinstance(factory, type):
        factory = factory.__init__  # type: ignore[misc]
    elif not hasattr(factory, "__code__") and not hasattr(factory, "__func__"):
        factory = type(factory).__call__
    return inspect.unwrap(getattr(factory, "__func__", factory))


def hint_of(function: Any, name: str, hint: Any, local: dict[str, Any] | None) -> Any:
    """One hint of a function with its names resolved, `Annotated` kept; raises whatever evaluating it raises."""
    holder = types.SimpleNamespace(__annotations__={name: hint})
    names = {**closure_of(function), **(local or {})}
    spaces = getattr(function, "__globals__", {})
    return typing.get_type_hints(holder, globalns=spaces, localns=names, include_extras=True)[name]


def closure_of(function: Any) -> dict[str, Any]:
    """The names of the functions around a function that it uses itself, with their values."""
    cells = getattr(function, "__closure__", None) or ()
    names = function.__code__.co_freevars if hasattr(function, "__code__") else ()
    found: dict[str, Any] = {}
    for name, cell in zip(names, cells, strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not filled yet
            continue
    return found


def _is_context(hint: Any) -> bool:
    """Whether a hint is the `Context`, which stands above this module: known by its name."""
    found = get_origin(hint) or hint
    return any(
        (base.__module__, base.__qualname__) == ("flownb.context", "Context") for base in getattr(found, "__mro__", ())
    )


__all__ = ["Resource"]
