"""Values on their way to another process and back: cloudpickle, and words for what it cannot take.

The classes and functions of a notebook's cells travel by value, so the other process has what the cells say now. What
the engine keeps on a step's function (its options, its hints with their resources) stays here: it would take the
workflow along.
"""

from __future__ import annotations

import inspect
import io
import pickle
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from msgspec import Struct

from flownb.definition.options import ATTRIBUTE, StepOptions
from flownb.errors import WorkflowConfigurationError
from flownb.events import Event, fields_of, key_of, no_newer_classes
from flownb.runtime.results import is_event

MISSING = (
    "Steps in other processes need packages that are not installed: pip install 'flownb[processes]', then restart "
    "the kernel."
)


class NotShipped(Exception):
    """A value cannot be pickled; says which part of it, and why."""


class Parcel(Struct, frozen=True):
    """Values on their way."""

    data: bytes
    #: Classes that travel in it by value. Who sends a call holds them until its result is back.
    classes: list[type]


def packed(value: Any, what: str) -> Parcel:
    """A value that goes home; the classes that came from there go as their names.

    Args:
        value: Anything.
        what: In words, for the error.

    Raises:
        NotShipped: It cannot be pickled.
        WorkflowConfigurationError: cloudpickle is not installed.
    """
    pickler = _pickler()
    try:
        return _dump(pickler, value, to_home=True)
    except Exception as error:  # any: a user's __reduce__ may raise what it likes
        part, reason = next(_culprits(value, what), (what, error))
        raise NotShipped(f"{part} cannot be pickled ({type(reason).__name__}: {reason})") from error


def packed_call(step: str, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Parcel:
    """A function and its arguments.

    Args:
        step: Name of the step, for errors.
        fn: Its plain function.
        args: Positional arguments, for a method the workflow first.
        kwargs: The others.

    Raises:
        WorkflowConfigurationError: Something of it cannot be pickled, and what; or cloudpickle is not installed.
    """
    pickler = _pickler()
    try:
        return _dump(pickler, (fn, tuple(args), dict(kwargs)), to_home=False)
    except Exception as error:
        parts = [("its function", fn), *zip(_names(fn), args, strict=False), *kwargs.items()]
        found = (each for name, part in parts for each in _unfit(part, name))
        part, reason = next(found, ("what it takes", error))
        raise WorkflowConfigurationError(
            f"Step {step!r} runs in another process, but {part} cannot be pickled ({type(reason).__name__}: {reason}). "
            "Pass what such a thing is made from (a path, an address), or leave `executor` out.",
            step=step,
            part=part,
        ) from error


def unpacked_call(data: bytes) -> tuple[Callable[..., Any], Sequence[Any], Mapping[str, Any]]:
    """What `packed_call` packed, in the other process."""
    unpickler = pickle.Unpickler(io.BytesIO(data))
    call = unpickler.load()
    for name, cls in unpickler.load().items():
        _from_home[cls] = name
    return call  # type: ignore[no-any-return]


def unpacked(data: bytes, *, has_classes: bool) -> Any:
    """What `packed` packed, at home.

    Args:
        data: Pickled.
        has_classes: Whether classes travel in it by value: made over there, they must not pass for the newest here.
    """
    if not has_classes:
        return pickle.loads(data)
    with no_newer_classes():
        return pickle.loads(data)


#: Names of classes that were sent from here, and back.
_names_of: WeakKeyDictionary[type, str] = WeakKeyDictionary()
_sent: WeakValueDictionary[str, type] = WeakValueDictionary()
#: Names, at home, of classes that came from there.
_from_home: WeakKeyDictionary[type, str] = WeakKeyDictionary()


def _name_of(cls: type) -> str:
    name = _names_of.setdefault(cls, secrets.token_hex(8))
    _sent[name] = cls
    return name


def class_at_home(name: str) -> type:
    """The class that was sent under this name: itself, not what the other process made of it."""
    return _sent[name]


def of_here(value: Any, class_of: Callable[[str], type[Event] | None]) -> Any:
    """What came back, its events as instances of the classes that their keys mean here.

    Args:
        value: An event, a list or tuple of events, or anything else, which stays as it is.
        class_of: The class of a key, None for an unknown one.

    Returns:
        An event that the class here refuses stays as it is: its delivery then says what does not fit.
    """
    if is_event(value):
        cls = class_of(key_of(type(value)))
        if cls is None or cls is type(value):
            return value
        try:
            return cls.model_validate(value.model_dump())
        except ValueError:
            return value
    if type(value) in (list, tuple):
        return type(value)(of_here(item, class_of) for item in value)
    return value


@cache
def _pickler() -> Callable[[io.BytesIO, bool], Any]:
    try:
        import cloudpickle  # only steps in other processes need it
    except ImportError:
        raise WorkflowConfigurationError(MISSING) from None

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def __init__(self, into: io.BytesIO, to_home: bool) -> None:
            super().__init__(into)
            self.classes: list[type] = []
            self._to_home = to_home

        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, StepOptions):
                return StepOptions, ()
            if self._to_home and isinstance(obj, type) and obj in _from_home:
                return class_at_home, (_from_home[obj],)
            reduced = super().reducer_override(obj)
            if reduced is NotImplemented:
                return reduced
            if isinstance(obj, type):
                self.classes.append(obj)
            if isinstance(obj, FunctionType) and ATTRIBUTE in obj.__dict__:
                return super().reducer_override(_bare(obj))
            return reduced

    return Pickler


def _dump(pickler: Callable[[io.BytesIO, bool], Any], value: Any, *, to_home: bool) -> Parcel:
    into = io.BytesIO()
    pickling = pickler(into, to_home)
    pickling.dump(value)
    if not to_home:  # by the same pickler, so these are the very classes of the value
        pickling.dump({_name_of(cls): cls for cls in pickling.classes})
    return Parcel(into.getvalue(), pickling.classes)


def _bare(fn: FunctionType) -> FunctionType:
    """A step's function without what the engine reads off it."""
    bare = FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    bare.__kwdefaults__, bare.__module__, bare.__qualname__, bare.__doc__ = (
        fn.__kwdefaults__,
        fn.__module__,
        fn.__qualname__,
        fn.__doc__,
    )
    bare.__dict__.update({name: value for name, value in fn.__dict__.items() if name != ATTRIBUTE})
    return bare


def _names(fn: Callable[..., Any]) -> list[str]:
    try:
        return list(inspect.signature(fn).parameters)
    except (TypeError, ValueError):
        return []


#: How far below a value the reason is looked for: it may hold itself.
_DEPTH = 4


def _unfit(value: Any, what: str, depth: int = _DEPTH) -> Iterator[tuple[str, Exception]]:
    """What of a value cannot be pickled, in words, and why; the innermost part that has a name comes first."""
    try:
        _dump(_pickler(), value, to_home=False)
    except Exception as error:
        yield from _culprits(value, what, depth)
        yield what, error


def _culprits(value: Any, what: str, depth: int = _DEPTH) -> Iterator[tuple[str, Exception]]:
    if depth:
        for name, part in _parts(value, what):
            yield from _unfit(part, name, depth - 1)


def _parts(value: Any, what: str) -> Iterator[tuple[str, Any]]:
    if is_event(value):
        yield from ((f"field {name!r} of {type(value).__name__}", part) for name, part in fields_of(value))
    elif isinstance(value, FunctionType):
        for name, part in _used(value):
            yield f"the name {name!r} that the code of {value.__name__} uses", part
    elif type(value) in (list, tuple):
        yield from ((f"{what}[{n}]", part) for n, part in enumerate(value))
    elif type(value) is dict:
        yield from ((f"{what}[{name!r}]", part) for name, part in value.items())
    elif not isinstance(value, type) and hasattr(value, "__dict__"):
        yield from ((f"{what}.{name}", part) for name, part in _state(value).items() if not name.startswith("__"))


def _state(value: Any) -> dict[str, Any]:
    """What of an object is pickled, as far as it tells."""
    state = value.__getstate__()
    return state if type(state) is dict and "__dict__" not in state else vars(value)


def _used(fn: FunctionType) -> Iterator[tuple[str, Any]]:
    """What a function's code takes from around it."""
    try:
        found = inspect.getclosurevars(fn)
    except ValueError:  # a name that is not filled yet
        return
    for name, value in {**found.nonlocals, **found.globals}.items():
        if value is not fn:
            yield name, value
