"""What the engine says on a run's stream, and what a new driver or a replay asks: seldom met, so loaded on first use.

Users find these classes in `flownb.events`, and journals know them by that name: it is their module.
"""

from __future__ import annotations

import enum
from typing import Any, Literal

from pydantic import BaseModel, PrivateAttr

from flownb.events import EngineEvent, InputRequiredEvent


class WorkflowTimedOutEvent(EngineEvent, defer_build=True):
    """The run took longer than its limit."""

    __module__ = "flownb.events"

    #: The limit and what was used of it, in seconds.
    timeout: float
    elapsed_seconds: float = 0.0
    active_steps: list[str]
    #: Open questions, in words.
    open_requests: list[str] = []


class WorkflowFailedEvent(EngineEvent, defer_build=True):
    """The run failed; `step_name` is "" if the engine itself failed it."""

    __module__ = "flownb.events"

    step_name: str
    #: `module:qualname`.
    exception_type: str
    exception_message: str
    traceback: str = ""
    attempts: int = 1
    elapsed_seconds: float = 0.0

    _exception: BaseException | None = PrivateAttr(default=None)

    @property
    def exception(self) -> BaseException | None:
        """The live exception, in the process where the step failed."""
        return self._exception


class WorkflowIdleEvent(EngineEvent, defer_build=True):
    """Nothing moves by itself; `waits_for` says who can move the run."""

    __module__ = "flownb.events"

    waits_for: list[str] = []


class UnhandledEvent(EngineEvent, defer_build=True):
    """No step took an event."""

    __module__ = "flownb.events"

    event_type: str
    qualified_name: str
    #: The one step that it was sent to, if it was.
    step_name: str | None = None
    #: Nothing moves by itself any more.
    idle: bool = False
    #: Who dropped it before anybody could take it; None: nobody did.
    dropped_by: str | None = None


class StepState(enum.StrEnum):
    """LlamaIndex's names for what `StepStateChanged.step_state` says."""

    __module__ = "flownb.events"

    PREPARING = "preparing"
    RUNNING = "running"
    NOT_RUNNING = "not_running"


class StepStateChanged(EngineEvent, defer_build=True):
    """A delivery, one event on its way through one step, is in another state. Types are spelled `module:qualname`."""

    __module__ = "flownb.events"

    #: The step.
    name: str
    #: LlamaIndex's three names: preparing (queued, retrying), running, not_running (all others).
    step_state: Literal["preparing", "running", "not_running"]
    #: "" while no worker runs it.
    worker_id: str = ""
    #: Of several events at once, the first one's type; "" for an empty list. Of what it returned, likewise.
    input_event_name: str = ""
    output_event_name: str | None = None

    state: Literal["queued", "running", "waiting", "retrying", "done", "failed", "cancelled"]
    #: Of the tick that changed it.
    seq: int
    #: The same for all that is done with one event.
    event_id: str
    delivery: int
    attempt: int = 1
    input_events: list[str] = []
    output_events: list[str] = []
    #: Of a waiting one: what for.
    waits_for: list[Literal["person", "event", "timer", "child"]] = []
    #: Of a failed attempt, `module:qualname: message`.
    error: str | None = None
    #: Unix seconds; `duration` in seconds, once it finished.
    started_at: float | None = None
    finished_at: float | None = None
    duration: float | None = None
    #: When it moves by itself: its sleep's end, its deadline, its next attempt.
    due_at: float | None = None
    #: A breakpoint holds it back.
    held: bool = False


class StreamRewoundEvent(EngineEvent, defer_build=True):
    """A delivery runs again from its top: the `written` items that it wrote to the stream before are void, and come
    again."""

    __module__ = "flownb.events"

    step_name: str
    delivery: int
    written: int


class ProgressEvent(EngineEvent, defer_build=True):
    """How far a delivery is, as `ctx.progress` says, or the whole run (then `step` is ""); `total` None: unknown."""

    __module__ = "flownb.events"

    done: float
    total: float | None = None
    label: str = ""
    step: str = ""
    delivery: int = 0


class OutcomeDecision(BaseModel, defer_build=True):
    """What became of a step that was lost while it ran: try it again, it did its work (and returned this event, or
    nothing), or it failed."""

    __module__ = "flownb.events"

    decision: Literal["retry", "done", "fail"]
    event: Any = None


class OutcomeUnknown(InputRequiredEvent[OutcomeDecision], defer_build=True):
    """Asked after a crash for a step with `idempotent=False`: it must not simply run again."""

    __module__ = "flownb.events"

    step: str
    input_event: Any
    attempt: int = 1
    #: When it was started, in Unix seconds.
    started_at: float = 0.0


class RunAgainDecision(BaseModel, defer_build=True):
    """What a replay does with a step that must not simply run twice: run its code, take what was recorded of it (with
    no record: as if it had returned nothing), or skip it, as if it had returned nothing."""

    __module__ = "flownb.events"

    decision: Literal["run", "recorded", "skip"]


class RunAgain(InputRequiredEvent[RunAgainDecision], defer_build=True):
    """Asked by a replay before the code of a step with `idempotent=False` runs."""

    __module__ = "flownb.events"

    prefix: str
    step: str
    input_event: Any
    #: There is a recorded outcome of the same event.
    is_recorded: bool = True
