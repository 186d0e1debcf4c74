"""The events that flow between steps: pydantic models, nothing to register.

    class Row(Event):
        no: int

Undeclared keyword fields are kept and readable as attributes and items: `Event(color="red")["color"]`.

A class whose stored events no longer fit it states a `__version__` (a whole number, 1 without one) and how they become
events of today:

    class Row(Event):
        __version__ = 2
        number: int

        @classmethod
        def upgrade(cls, version, data):
            data["number"] = data.pop("no")
            return data
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import importlib
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, PrivateAttr
from typing_extensions import TypeVar

from flownb.core.values import Role
from flownb.errors import WorkflowConfigurationError

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass

    from flownb.said import OutcomeDecision as OutcomeDecision
    from flownb.said import OutcomeUnknown as OutcomeUnknown
    from flownb.said import ProgressEvent as ProgressEvent
    from flownb.said import RunAgain as RunAgain
    from flownb.said import RunAgainDecision as RunAgainDecision
    from flownb.said import StepState as StepState
    from flownb.said import StepStateChanged as StepStateChanged
    from flownb.said import StreamRewoundEvent as StreamRewoundEvent
    from flownb.said import UnhandledEvent as UnhandledEvent
    from flownb.said import WorkflowFailedEvent as WorkflowFailedEvent
    from flownb.said import WorkflowIdleEvent as WorkflowIdleEvent
    from flownb.said import WorkflowTimedOutEvent as WorkflowTimedOutEvent
else:
    ModelMetaclass = type(BaseModel)

#: The newest class of each key; classes made inside functions are known to their workflow alone, since a function
#: that is called twice makes two classes of one key.
_newest: dict[str, type[Event]] = {}
#: The modules whose data classes may be met in a journal: those that have defined events.
_modules = {"__main__"}


#: Our own base classes by name: they are asked for while they are being made.
_ROLES: dict[str, Role] = {
    "StartEvent": "start",
    "StopEvent": "stop",
    "InputRequiredEvent": "request",
    "HumanResponseEvent": "answer",
    "StepFailedEvent": "failure",
    "RequestClosedEvent": "closed",
    "EngineEvent": "engine",
}


def role_of(cls: type[Event]) -> Role:
    """What an event class is to the engine."""
    return next(
        (_ROLES[base.__name__] for base in cls.__mro__ if base.__module__ == __name__ and base.__name__ in _ROLES),
        "event",
    )


def key_of(cls: type) -> str:
    """`module:qualname`, the name under which a class is known across cells, processes and journals.

    The parameters of a subscripted generic model do not belong to it.
    """
    origin = getattr(cls, "__pydantic_generic_metadata__", {}).get("origin") or cls
    return f"{origin.__module__}:{origin.__qualname__}"


def bases_of(cls: type[Event]) -> tuple[str, ...]:
    """Keys of the bases of an event class up to `Event`, nearest first."""
    own = key_of(cls)
    keys = [key_of(base) for base in cls.__mro__[1:] if issubclass(base, Event)]
    return tuple(dict.fromkeys(key for key in keys if key != own))


class Kind(NamedTuple):
    """What the engine reads off an event's class."""

    key: str
    role: Role
    bases: tuple[str, ...]


class _EventMeta(ModelMetaclass):
    """A field may be called `copy` or `json`: the user's field wins, and pydantic's warning of it helps nobody."""

    def __new__(mcs, *args: Any, **kwargs: Any) -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Field name .* shadows an attribute")
            return super().__new__(mcs, *args, **kwargs)


class Event(BaseModel, metaclass=_EventMeta):
    """A typed message between steps. Subclass it and declare fields."""

    model_config = ConfigDict(extra="allow", arbitrary_types_allowed=True)
    __flownb_kind__: ClassVar[Kind]

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        _check_version(cls)
        cls.__flownb_kind__ = Kind(key_of(cls), role_of(cls), bases_of(cls))
        if "<locals>" not in cls.__qualname__ and not cls.__pydantic_generic_metadata__["origin"]:
            _newest[key_of(cls)] = cls
            if not cls.__module__.startswith("flownb."):
                _modules.add(cls.__module__)

    def __getitem__(self, name: str) -> Any:
        extra = self.__pydantic_extra__
        if extra and name in extra:
            return extra[name]
        if name in type(self).model_fields:
            return getattr(self, name)
        raise KeyError(name)

    def __contains__(self, name: str) -> bool:
        return name in (self.__pydantic_extra__ or {}) or name in type(self).model_fields

    if not TYPE_CHECKING:
        # Hidden from type checkers: visible, they would forbid the commonest field names (`items`, `values`).

        def get(self, name, default=None):
            return self[name] if name in self else default

        def keys(self):
            return list(self.__pydantic_extra__ or {})

        def values(self):
            return list((self.__pydantic_extra__ or {}).values())

        def items(self):
            return list((self.__pydantic_extra__ or {}).items())

        def to_dict(self):
            return self.model_dump()


def _check_version(cls: type[Event]) -> None:
    stated = cls.__dict__.get("__version__", 1)
    if type(stated) is not int or stated < 1:
        raise WorkflowConfigurationError(
            f"Event {key_of(cls)!r}: __version__ = {stated!r} is no whole number from 1; count it up with each change "
            "that stored events do not fit."
        )


class StartEvent(Event):
    """Opens a run; `flow.run(**fields)` makes the workflow's own subclass of it."""


class StopEvent(Event):
    """Ends a run. Its `result` is what `await run` gives; a subclass is itself the result."""

    result: Any = None


class HumanResponseEvent(Event):
    """An answer of a person."""


A = TypeVar("A", default=HumanResponseEvent)


class InputRequiredEvent(Event, Generic[A]):
    """A question to a person. Returned or sent, it opens a request; `InputRequiredEvent[Verdict]` names the answer."""

    #: The time limit as it was given, checked, and the default.
    _deadline: tuple[float | dt.timedelta | dt.datetime, Any] | None = PrivateAttr(default=None)

    def with_deadline(self, within: float | dt.timedelta | dt.datetime, *, default: A | None = None) -> Self:
        """The question with a time limit.

        Args:
            within: Seconds or a timedelta from now, or an aware moment.
            default: Taken when the time is over. Without it the branch gets a `RequestClosedEvent`.

        Raises:
            ValueError: `within` is a moment without a time zone.
        """
        question = self.model_copy()
        deadline_at(within, 0.0)
        question._deadline = within, default
        return question


class Question(InputRequiredEvent[Any], defer_build=True):
    """A question in words, as `ctx.ask("Send it?", bool)` opens it."""

    prefix: str
    #: Words for the type of the answer: "bool", "str", or the name of a model.
    answer: str = "str"
    #: Its JSON Schema, of a type that the word alone does not tell.
    answer_schema: dict[str, Any] | None = None


class RequestClosedEvent(Event, defer_build=True):
    """A question that was returned or sent ended without an answer."""

    request_id: str
    question: Any
    reason: Literal["deadline", "disposed"]


class StepFailedEvent(Event, defer_build=True):
    """A step failed for good."""

    step_name: str
    input_event: Any
    exception: Any
    attempts: int
    elapsed_seconds: float
    failed_at: float


class EngineEvent(Event, defer_build=True):
    """What the engine itself says on a run's stream; no step takes it unless it names it."""


class WorkflowCancelledEvent(EngineEvent, defer_build=True):
    reason: str = ""
    by: str = ""


Event.__flownb_kind__ = Kind("flownb.events:Event", "event", ())


#: Classes that `flownb.said` defines, when one of them is first asked for.
_SAID = frozenset(
    (
        "WorkflowTimedOutEvent",
        "WorkflowFailedEvent",
        "WorkflowIdleEvent",
        "UnhandledEvent",
        "StepState",
        "StepStateChanged",
        "StreamRewoundEvent",
        "ProgressEvent",
        "OutcomeDecision",
        "OutcomeUnknown",
        "RunAgainDecision",
        "RunAgain",
    )
)


def __getattr__(name: str) -> Any:
    if name in _SAID:
        found = globals()[name] = getattr(importlib.import_module("flownb.said"), name)
        return found
    raise AttributeError(f"module 'flownb.events' has no attribute {name!r}")


def _know_said(key: str) -> None:
    """A key may be that of a class which was not needed so far."""
    module, _, name = key.partition(":")
    if module == "flownb.events" and name in _SAID:
        importlib.import_module("flownb.said")


#: The same of those that were needed so far, for who has one of them.
needed = _newest.get


def newest(key: str) -> type[Event] | None:
    """The class that a key means now: of a cell that was run again, the last one. None for local and unknown ones."""
    found = _newest.get(key)
    if found is None:
        _know_said(key)
        found = _newest.get(key)
    return found


def defined(key: str) -> type | None:
    """The class that a key means now, for what is stored: an event, or a model, dataclass, named tuple or enum that
    stands beside events: at the top of `__main__` or of a module that has defined some. Nothing is imported for it."""
    event = newest(key)
    if event is not None:
        return event
    module, _, name = key.partition(":")
    if module not in _modules:
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, "__dict__", {}).get(part)  # past any `__getattr__`
    return found if isinstance(found, type) and key_of(found) == key and _is_data(found) else None


def _is_data(cls: type) -> bool:
    return (
        issubclass(cls, (BaseModel, enum.Enum))
        or dataclasses.is_dataclass(cls)
        or (issubclass(cls, tuple) and hasattr(cls, "_fields"))
    )


@contextmanager
def no_newer_classes() -> Iterator[None]:
    """Classes that come into being inside (by unpickling) are no new definitions: keys mean what they meant."""
    importlib.import_module("flownb.said")  # else its classes would be taken for new ones
    before = dict(_newest)
    try:
        yield
    finally:
        for key in [key for key, cls in _newest.items() if before.get(key) is not cls]:
            if key in before:
                _newest[key] = before[key]
            else:
                del _newest[key]


def answer_of(cls: type[InputRequiredEvent[Any]]) -> Any:
    """The type that answers a question class, through generic subclasses; None where none is named."""
    bound: dict[Any, Any] = {}
    for base in cls.__mro__:
        made = getattr(base, "__pydantic_generic_metadata__", None)
        if not made or not made["origin"]:
            continue
        args = [bound.get(arg, arg) for arg in made["args"]]
        if made["origin"] is InputRequiredEvent:
            return None if isinstance(args[0], TypeVar) or args[0] is Any else args[0]
        bound.update(zip(made["origin"].__pydantic_generic_metadata__["parameters"], args, strict=True))
    return None


def deadline_at(within: float | dt.timedelta | dt.datetime, now: float) -> float:
    """A time limit as a moment, in Unix seconds.

    Args:
        within: Seconds or a timedelta from `now`, or an aware moment.
        now: Unix seconds.

    Raises:
        ValueError: A moment without a time zone.
    """
    if isinstance(within, dt.datetime):
        if within.tzinfo is None:
            raise ValueError(f"{within!r} has no time zone: give an aware datetime, or seconds from now.")
        return within.timestamp()
    return now + (within.total_seconds() if isinstance(within, dt.timedelta) else float(within))


def fields_of(event: Event) -> Iterator[tuple[str, Any]]:
    """Name and value of every field, declared ones first."""
    yield from ((name, event.__dict__[name]) for name in type(event).model_fields if name in event.__dict__)
    yield from (event.__pydantic_extra__ or {}).items()
