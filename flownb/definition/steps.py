"""One step: the user's function, its options, and how it is called."""

from __future__ import annotations

import hashlib
import inspect
import sys
import textwrap
from collections.abc import Callable, Sequence
from types import CodeType, FrameType, MethodType, ModuleType
from typing import Any, get_args, get_origin

from msgspec import Struct
from pydantic import BaseModel
from typing_extensions import TypeAliasType

from flownb.definition.hints import NOTHING, Meaning, Unresolved, meaning, resolve
from flownb.events import Event, InputRequiredEvent, answer_of, role_of

ATTRIBUTE = "__flownb_step__"


class StepOptions(Struct, frozen=True):
    """What `@step(...)` was told, and where it stood."""

    num_workers: int | None = 4
    workflow: Any = None
    skip_graph_checks: tuple[str, ...] = ()
    #: Id of the notebook cell, and of the execution of it.
    cell: tuple[str, str] = ("", "")
    #: Names around a step that is defined inside a function.
    local: dict[str, Any] | None = None


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
    #: Parameters in the order of the signature: "event", "list", "context".
    plan: tuple[str, ...] = ()
    #: Names of keyword-only parameters by what they take.
    keywords: tuple[tuple[str, str], ...] = ()
    source: str = ""
    faults: list[str] = []

    def __repr__(self) -> str:
        kind = "async " if self.is_async else ""
        takes = " | ".join(c.__name__ for c in (*self.takes.events, *self.takes.lists))
        return f"<{kind}step {self.name}({takes})>"


def options_of(fn: Any) -> StepOptions | None:
    """The options of a function that is a step, None for any other object."""
    found = getattr(fn, ATTRIBUTE, None)
    return found if isinstance(found, StepOptions) else None


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
    return isinstance(value, (type, ModuleType, TypeAliasType)) or get_origin(value) is not None


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
    if options.num_workers is not None and options.num_workers < 1:
        step.faults.append(f"{where}: num_workers is {options.num_workers}; give at least 1, or None for no limit.")
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        step.faults.append(f"{where} is a generator: return a list of events instead of yielding them.")
    try:
        hints = resolve(fn, options.local)
    except Unresolved as error:
        step.faults.append(
            f"{where}: the hint of {error.name!r} cannot be resolved ({error}). Define that name before the first run."
        )
        return step
    _read_parameters(step, hints, is_context, where)
    _read_return(step, hints, where)
    return step


def _read_parameters(step: Step, hints: dict[str, Any], is_context: Callable[[Any], bool], where: str) -> None:
    plan: list[str] = []
    keywords: list[tuple[str, str]] = []
    parameters = list(inspect.signature(step.fn).parameters.values())
    taken: list[Meaning] = []
    for parameter in parameters[1:] if step.owner is not None else parameters:
        hint = hints.get(parameter.name, inspect.Parameter.empty)
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            step.faults.append(f"{where}: {parameter} cannot be filled; name the event that the step takes.")
            continue
        if is_context(hint):
            kind = "context"
            step.state_model = _model_of(hint)
        else:
            found = meaning(hint) if hint is not parameter.empty else NOTHING
            if not found.events and not found.is_list:
                if parameter.default is parameter.empty:
                    said = "no type hint" if hint is parameter.empty else f"the hint {_spell(hint)}, which is no event"
                    step.faults.append(
                        f"{where}: parameter {parameter.name!r} has {said}. Hint the event type that the step takes."
                    )
                continue
            kind = "list" if found.is_list else "event"
            taken.append(found)
            if found.events and found.is_list:
                step.faults.append(f"{where}: {parameter.name!r} mixes single events and a list; take one of them.")
        if parameter.kind is parameter.KEYWORD_ONLY:
            keywords.append((parameter.name, kind))
        else:
            plan.append(kind)
    if len(taken) > 1:
        step.faults.append(f"{where} has {len(taken)} event parameters; take one, or a union of the types.")
    elif taken:
        step.takes = taken[0]
        for other in taken[0].others:
            step.faults.append(f"{where} takes {_spell(other)}, which is no event type.")
    elif not step.faults:
        step.faults.append(f"{where} takes no event. Give it a parameter with an event type, as in `ev: StartEvent`.")
    step.plan, step.keywords = tuple(plan), tuple(keywords)


def _read_return(step: Step, hints: dict[str, Any], where: str) -> None:
    if "return" not in hints:
        step.faults.append(
            f"{where} has no return hint. Write what it returns, as in `-> StopEvent`, or `-> None` for nothing."
        )
        return
    step.gives = meaning(hints["return"])
    for other in step.gives.others:
        step.faults.append(f"{where} returns {_spell(other)}, which is no event type. Wrap it into an event.")


def _model_of(hint: Any) -> type[BaseModel] | None:
    found = next(iter(get_args(hint)), None)
    return found if isinstance(found, type) and issubclass(found, BaseModel) else None


def asks_people(step: Step) -> bool:
    """Whether a step may ask a person, as far as its hints and code tell."""
    if any(role_of(cls) == "request" for cls in (*step.gives.events, *step.gives.lists)):
        return True
    code = getattr(step.fn, "__code__", None)
    return (
        "context" in (*step.plan, *(kind for _, kind in step.keywords)) and code is not None and "ask" in code.co_names
    )


def answers_of(step: Step) -> list[type[Event]]:
    """The event classes that answer the questions that a step returns."""
    found = (answer_of(cls) for cls in (*step.gives.events, *step.gives.lists) if issubclass(cls, InputRequiredEvent))
    return [cls for cls in found if isinstance(cls, type) and issubclass(cls, Event)]


def arguments(step: Step, value: Any, context: Any) -> tuple[Sequence[Any], dict[str, Any]]:
    """How to call a step: positional and keyword arguments."""
    args = [context if kind == "context" else value for kind in step.plan]
    kwargs = {name: context if kind == "context" else value for name, kind in step.keywords}
    return args, kwargs


def source_hash(fn: Callable[..., Any]) -> str:
    """Hash of a step's dedented source; without source of its code's bytes and constants (R1.43)."""
    try:
        text = textwrap.dedent(inspect.getsource(fn))
    except (OSError, TypeError):
        code = getattr(fn, "__code__", None)
        text = _code_text(code) if isinstance(code, CodeType) else repr(fn)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _code_text(code: CodeType) -> str:
    inner = [_code_text(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {inner}"


def _spell(hint: Any) -> str:
    return f"{hint.__module__}.{hint.__qualname__}" if isinstance(hint, type) else repr(hint)
