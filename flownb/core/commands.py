"""What the runner must now do. Derived from a tick, never journalled; each is safe to repeat."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from flownb.core.state import Child, Delivery, Request, Timer, Wake
from flownb.core.values import Out

Notice = Literal[
    "event", "request", "stop", "unhandled", "idle", "failed", "cancelled", "timed_out", "rewound", "not_taken"
]


class Command(Struct, frozen=True):
    """One thing to do."""


class StartStep(Command, frozen=True):
    """Run the code of an active delivery from its top."""

    delivery: Delivery


class WakeStep(Command, frozen=True):
    """Let the waiting code of an active delivery go on with the outcomes of its waits."""

    delivery: Delivery
    wakes: tuple[Wake, ...]


class StopStep(Command, frozen=True):
    """Cancel the code of a delivery; whatever still comes from it is late."""

    step: int
    delivery: int
    start: int


class ArmTimer(Command, frozen=True):
    timer: Timer


class DisarmTimer(Command, frozen=True):
    timer: int


class OpenRequest(Command, frozen=True):
    """Show a question to people, or let a policy answer it."""

    request: Request


class CloseRequest(Command, frozen=True):
    """A question is no longer open; `how` is answered, default, expired, disposed, superseded, withdrawn or closed."""

    request: int
    how: str
    #: Its answer, of an event that answered it.
    answer: Out | None = None


class StartChild(Command, frozen=True):
    """Begin to drive a child run, or go on with it."""

    child: Child


class StopChild(Command, frozen=True):
    """Cancel a child run: nobody waits for it any more."""

    child: int
    reason: str


#: Of an item that says nothing but its event; shared, for each run that ends has one, and never changed.
NO_INFO: dict[str, Any] = {}


class Publish(Command, frozen=True):
    """Put one event on the run's stream. `out` is the user's event, or empty for what the engine says itself."""

    what: Notice
    out: Out | None = None
    #: Index of the step that it comes from, -1 for the outside and the engine.
    step: int = -1
    info: dict[str, Any] = {}
    #: The delivery that it comes from, 0 for none.
    delivery: int = 0


class FinishRun(Command, frozen=True):
    """The run is over; its status says how."""


class Suspend(Command, frozen=True):
    """Stop driving; the run can be opened again."""


AnyCommand = (
    StartStep
    | WakeStep
    | StopStep
    | ArmTimer
    | DisarmTimer
    | OpenRequest
    | CloseRequest
    | StartChild
    | StopChild
    | Publish
    | FinishRun
    | Suspend
)
