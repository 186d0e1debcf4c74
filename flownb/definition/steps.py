"""One step: the user's function, its options, and how it is called."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType, FunctionType, MethodType, ModuleType
from typing import Any, get_origin

from msgspec import Struct
from pydantic import BaseModel
from typing_extensions import TypeAliasType

from flownb.collect import Collect, Take
from flownb.definition.code import mentions, source_hash
from flownb.definition.hints import NOTHING, Meaning, Unresolved, resolve
from flownb.definition.options import ATTRIBUTE, StepOptions, option_faults, options_of
from flownb.definition.parameters import read_parameters, read_return
from flownb.events import Event, InputRequiredEvent, answer_of, role_of
from flownb.resource import Resource


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Stands for a call that is not bound yet."""


class Step(Struct):
    """A step as its workflow holds it: hints are read once, on first need."""

    name: str
    fn: Callable[..., Any]
    options: StepOptions
    #: Instance that methods are bound to; None for free functions.
    owner: Any = None
    is_async: bool = False
    #: `fn`, bound to its owner.
    call: Callable[..., Any] = _nothing
    #: `Model` of `Context[Model]`.
    state_model: type[BaseModel] | None = None
    takes: Meaning = NOTHING
    gives: Meaning = NOTHING
    #: Per event parameter the classes that it takes, for a step with several of them; `takes` is their union.
    slots: tuple[tuple[type[Event], ...], ...] = ()
    #: A gathering step fires with the n-th arrival; 0: when every branch is finished.
    take: int = 0
    #: It ends the other branches then.
    cancel_rest: bool = False
    #: Positional parameters in order: "event", "list", "context", or the place in the set of a step with several.
    plan: tuple[str | int, ...] = ()
    #: Parameters that are passed by name, by what they take.
    keywords: tuple[tuple[str, str | int], ...] = ()
    #: Parameters that resources fill, always passed by name.
    resources: tuple[tuple[str, Resource], ...] = ()
    source: str = ""
    faults: list[str] = []
    #: It is called with its event and nothing else, and runs where its run is driven.
    is_plain: bool = False

    def __repr__(self) -> str:
        kind = "async " if self.is_async else ""
        takes = " | ".join(c.__name__ for c in (*self.takes.events, *self.takes.lists))
        return f"<{kind}step {self.name}({takes})>"


def nested_names(skip: tuple[str, ...]) -> dict[str, Any] | None:
    """Types and modules that are known where a decorator is used but are not global: of a class body and of the
    function around it. For hints that are strings.

    Args:
        skip: Modules whose own frames stand between.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") in skip:
        frame = frame.f_back
    names: dict[str, Any] = {}
    while frame is not None and frame.f_locals is not frame.f_globals:
        names = {**{name: v for name, v in frame.f_locals.items() if _may_be_hinted(v)}, **names}
        if frame.f_code.co_flags & inspect.CO_OPTIMIZED:  # a function: its caller is not around it
            break
        frame = frame.f_back
    return names or None


def _may_be_hinted(value: Any) -> bool:
    # Not all locals: a step would keep the frames and arrays of its surroundings alive.
    # A function may be the factory of a resource.
    kinds = (type, ModuleType, FunctionType, TypeAliasType, Resource, Take, Collect)
    return isinstance(value, kinds) or get_origin(value) is not None


def step_of(
    name: str, fn: Callable[..., Any], options: StepOptions, owner: Any, is_context: Callable[[Any], bool]
) -> Step:
    """Read the hints of a step. What is wrong is collected in `faults`, all of it, never raised.

    Args:
        name: The step's name.
        fn: The user's function; for a method the plain function.
        options: What the decorator was told.
        owner: The workflow that a method is bound to, None for a free function.
        is_context: Whether a hint is the `Context`, which this room does not know.
    """
    call = fn if owner is None else MethodType(fn, owner)
    step = Step(name, fn, options, owner, inspect.iscoroutinefunction(fn), call, source=source_hash(fn))
    where = f"step {name!r}"
    step.faults += [f"{where}: {said}" for said in option_faults(options, step.is_async)]
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        step.faults.append(f"{where} is a generator: return a list of events instead of yielding them.")
    try:
        hints = resolve(fn, options.local)
    except Unresolved as error:
        step.faults.append(
            f"{where}: the hint of {error.name!r} cannot be resolved ({error}). Define that name before the first run."
        )
        return step
    read_parameters(step, hints, is_context, where)
    read_return(step, hints, where)
    return step


def asks_people(step: Step) -> bool:
    """Whether a step may ask a person, as far as its hints and code tell."""
    if any(role_of(cls) == "request" for cls in (*step.gives.events, *step.gives.lists)):
        return True
    return _has_context(step) and mentions(step.fn, "ask")


def waits_for_events(step: Step) -> bool:
    """Whether a step may wait for events, as far as its code tells."""
    return _has_context(step) and mentions(step.fn, "wait_for_event")


def _has_context(step: Step) -> bool:
    return "context" in (*step.plan, *(kind for _, kind in step.keywords))


def answers_of(step: Step) -> list[type[Event]]:
    """The event classes that answer the questions that a step returns."""
    found = (answer_of(cls) for cls in (*step.gives.events, *step.gives.lists) if issubclass(cls, InputRequiredEvent))
    return [cls for cls in found if isinstance(cls, type) and issubclass(cls, Event)]


def arguments(
    step: Step, value: Any, context: Any, injected: Mapping[str, Any] | None = None
) -> tuple[Sequence[Any], dict[str, Any]]:
    """How to call a step: positional and keyword arguments.

    Args:
        step: The step.
        value: The event, the list that it gathers, or, of a step with several event parameters, the set in their order.
        context: Its context.
        injected: The values of its resources, by parameter.
    """
    args = [_argument(kind, value, context) for kind in step.plan]
    kwargs = {name: _argument(kind, value, context) for name, kind in step.keywords}
    return args, {**kwargs, **injected} if injected else kwargs


def _argument(kind: str | int, value: Any, context: Any) -> Any:
    if isinstance(kind, int):
        return value[kind]
    return context if kind == "context" else value


__all__ = [
    "ATTRIBUTE",
    "Step",
    "StepOptions",
    "answers_of",
    "arguments",
    "asks_people",
    "nested_names",
    "options_of",
    "step_of",
    "waits_for_events",
]
