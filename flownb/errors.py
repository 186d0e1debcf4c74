"""Every exception of flownb. Each says what happened, where, and how to mend it, and survives pickling.

Fields stand on the exception, so that tests and the panel read `err.step`, never the text.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any


class WorkflowError(Exception):
    """The base of all of them."""

    def __init__(self, message: str = "", **fields: Any) -> None:
        super().__init__(message)
        self.__dict__.update(fields)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, dict(self.__dict__))


def _rebuild(kind: type[BaseException], args: tuple[Any, ...], fields: dict[str, Any]) -> BaseException:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(fields)
    return error


class WorkflowValidationError(WorkflowError, ValueError):
    """A workflow is defined wrongly; `faults` lists every fault, the most actionable first."""

    faults: tuple[str, ...] = ()

    def __init__(self, workflow: str, faults: Sequence[str]) -> None:
        count = "a fault" if len(faults) == 1 else f"{len(faults)} faults"
        lines = "\n".join(f"  {i}. {fault}" for i, fault in enumerate(faults, 1))
        super().__init__(f"Workflow {workflow!r} has {count}:\n{lines}", workflow=workflow, faults=tuple(faults))


class WorkflowConfigurationError(WorkflowError, ValueError):
    """A setting cannot be honoured."""


class WorkflowRuntimeError(WorkflowError, RuntimeError):
    """A run cannot go on."""


class WorkflowStalled(WorkflowRuntimeError):
    """Nobody, inside or outside, can move the run any more."""


class Livelock(WorkflowRuntimeError):
    """Steps caused each other without an end, and nothing from outside came between."""


class WorkflowTimeoutError(WorkflowError, TimeoutError):
    """The run took longer than its limit."""


class WorkflowCancelledByUser(WorkflowError):
    """The run was cancelled; awaiting it raises this."""


class WorkflowStepDoesNotExistError(WorkflowError, LookupError):
    """A step was addressed by a name that its workflow does not have."""

    def __init__(self, step: str, *, workflow: str, known: Sequence[str]) -> None:
        super().__init__(
            f"Workflow {workflow!r} has no step {step!r}. {near(step, known, 'Its steps are')}",
            step=step,
            workflow=workflow,
            known=tuple(known),
        )


class WorkflowDone(WorkflowError):
    """The run is over; it takes no more events."""


class ContextStateError(WorkflowError):
    """The run's state was used in a way that cannot work."""


class StatePathError(ContextStateError, KeyError, ValueError):
    """Nothing stands at a path of the state."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""  # a KeyError would show its repr


class ContextSerdeError(WorkflowError):
    """A context could not be written or read."""


class RunNotFound(WorkflowError, LookupError):
    """No run of that id is in the store."""


class RunConflict(WorkflowError):
    """A run of that id exists with another input or workflow."""


class RunOwnedElsewhere(WorkflowError):
    """Another process drives the run; here it can be looked at, answered and cancelled."""


class RunReadOnly(WorkflowError):
    """The run was imported: it can be looked at and forked, not driven, answered or cancelled."""


class LeaseLost(RunOwnedElsewhere):
    """Another process took the run over: nothing of this turn was written, and nothing of it may be acted on."""


class JournalConflict(WorkflowError):
    """Somebody else appended to the run's journal."""


class InboxNotEmpty(WorkflowError):
    """Something came for the run that has to be admitted first; nothing of this turn was written."""


class JournalDamaged(WorkflowError):
    """A record of a journal cannot be read."""


class NotStorable(WorkflowError, TypeError):
    """A value cannot be written to a journal; names event and field."""


class LiveValueLost(WorkflowError):
    """A value is not to be had: it was kept in memory only and that process is gone, or its file or key is missing."""


class WrongLoop(WorkflowRuntimeError):
    """A wait would block the loop that has to drive what is waited for."""


class StepFailure(WorkflowError):
    """A step failed with an exception that cannot be raised here as it was: it happened in another process or an
    earlier kernel and only its words are left, or it is a CancelledError of the step's own, then the cause."""


class StepLost(WorkflowError):
    """A step could not be started, or its worker vanished."""


class NoRetry(WorkflowError):
    """Raised by a step that knows that another attempt would not help: no retry policy is asked."""


class JoinIncomplete(WorkflowError):
    """A branch of a fan-out failed, and nobody takes its failure: the join would have a silent hole."""


class NonDeterministic(WorkflowError):
    """A step ran again and asked another question than the one that was answered; names both."""


class DefinitionChanged(WorkflowError):
    """A step with queued work is gone, or no longer takes it."""


class WorkflowNotDefined(WorkflowError, LookupError):
    """A run is of a workflow that this process has not defined; names it."""


class EventOutdated(WorkflowError):
    """An event of an older definition does not fit the present class."""


class MailboxFull(WorkflowError):
    """The run keeps no more events that nobody takes."""


class EngineLost(WorkflowError):
    """The engine's thread died; the run can be resumed from its journal."""


class RequestError(WorkflowError):
    """The base of what can go wrong with a question."""


class AlreadyAnswered(RequestError):
    """Somebody gave another answer before."""


class RequestClosed(RequestError):
    """The question is no longer open."""


class RequestDisposed(RequestError):
    """The question was withdrawn by somebody; its asker gets this."""


class AmbiguousAnswer(RequestError):
    """Several questions are open and the answer names none."""


class TokenTaken(RequestError):
    """Another open question has that token."""


class NobodyToAnswer(RequestError):
    """The run asks a person and nobody is there."""


class AnswerTimeout(RequestError, TimeoutError):
    """Nobody answered before the deadline."""


class AnswerInvalid(RequestError, ValueError):
    """The answer does not fit its model; nothing was appended."""


class AttemptOver(BaseException):
    """The step's attempt is over: nothing that it still does counts. Not an `Exception`, so that code that catches
    everything lets it through."""


def caller_level() -> int:
    """The `stacklevel` of a warning that is to point at the caller's line, however deep in the package it is given."""
    here = f"{os.path.dirname(__file__)}{os.sep}"
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(here):
        frame, level = frame.f_back, level + 1
    return level


def near(name: str, known: Sequence[str], introduction: str) -> str:
    """A sentence that mends a wrong name: the nearest one, or all of them."""
    import difflib  # only a wrong name pays for it

    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"{introduction} {', '.join(known)}." if known else "There are none."
