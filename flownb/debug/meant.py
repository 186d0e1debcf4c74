"""What a person means who names something that waits, and what cannot be done to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import fields

from flownb.core.editing import may_be_edited
from flownb.core.state import Delivery, is_ended
from flownb.core.ticks import AnyTick, EventArrived, EventsSent, RequestAnswered, StepFinished
from flownb.debug.editing import BRINGING, original_of
from flownb.debug.inbox import Alarm, Work, inbox_of, work_of
from flownb.debug.subjects import step_name
from flownb.errors import WorkflowConfigurationError, WorkflowDone, WorkflowRuntimeError
from flownb.runtime.runner import Runner
from flownb.runtime.stored import is_viewed, refuse_changes

#: Ticks whose event may go nowhere: nobody is told that it was taken.
_DROPPED = (EventArrived, EventsSent)


def place_of(runner: Runner, what: Any) -> int:
    """Where a tick stands in the inbox, behind the control ticks.

    Raises:
        WorkflowRuntimeError: It is not there any more, or another process has the inbox.
        WorkflowConfigurationError: It is no tick and no place.
    """
    refuse_viewer(runner)
    inbox = runner.inbox
    if isinstance(what, int) and not isinstance(what, bool):
        i = what - len(runner.control)
        if 0 <= i < len(inbox):
            return i
        raise WorkflowRuntimeError(f"Nothing of run {runner.run_id!r} waits at place {what}: {_waits(runner)}.")
    for i, tick in enumerate(inbox):
        if tick is what or _is_same(tick, what):
            return i
    if not hasattr(what, "__struct_fields__"):
        raise WorkflowConfigurationError(
            f"Name a tick of run.debug.inbox, or its place there (0 is the next one), not {what!r:.100}."
        )
    raise WorkflowRuntimeError(
        f"{type(what).__name__} does not wait before the gate of run {runner.run_id!r} (any more): {_waits(runner)}."
    )


def _is_same(tick: AnyTick, what: Any) -> bool:
    """Whether they are one tick, that lies in the durable inbox by now or was edited since it was looked at."""
    if type(tick) is not type(what) or tick.at != what.at:
        return False
    # What they bring now may be another event, in one of them or in both; what they brought when they came is not.
    brought = [list(map(id, original_of(each))) for each in (tick, what)]
    named = [f.name for f in fields(tick) if f.name not in ("entry", "hand", "came", *BRINGING)]
    return brought[0] == brought[1] and all(getattr(tick, name) is getattr(what, name) for name in named)


def _waits(runner: Runner) -> str:
    n = len(runner.inbox)
    if n:
        return f"{n} wait{'s' if n == 1 else ''} there"
    return "nothing does" if runner.gate() else "the gate is open; run.pause() closes it"


def unbegun(runner: Runner, work: Work) -> Delivery:
    """The delivery that is meant, which no code has in hand.

    Raises:
        WorkflowRuntimeError: It began, or is gone.
    """
    found = next((d for d in work_of(runner.state) if d.id == work.delivery), None)
    if found is None:
        raise WorkflowRuntimeError(f"Delivery {work.delivery} of step {work.step!r} is over: look again.")
    if not may_be_edited(found):
        raise WorkflowRuntimeError(
            f"Step {work.step!r} has begun with this event. To run it with another one, fork before: "
            f"run.debug.fork({found.cause}, event=...)."
        )
    return found


def droppable(runner: Runner, what: Any) -> list[Delivery] | None:
    """Deliveries to drop: one, or all of a step that no worker has in hand; None for a tick of the inbox.

    Raises:
        WorkflowRuntimeError: There are none.
    """
    if isinstance(what, Work):
        found, name = [d for d in work_of(runner.state) if d.id == what.delivery], what.step
    elif isinstance(what, str) or callable(what):
        spec = runner.state.spec
        name = step_name(what, spec.name, spec.index)
        found = [d for d in work_of(runner.state) if d.step == spec.index[name]]
    else:
        return None
    still = [d for d in found if d.worker < 0 or is_viewed(runner) or runner.suspended]
    if not still:
        runs = f"{len(found)} of it run{'s' if len(found) == 1 else ''}" if found else "nothing of it waits"
        raise WorkflowRuntimeError(
            f"Step {name!r} has nothing that could be dropped: {runs}. A step's result itself cannot be dropped."
        )
    return still


def timer_of(runner: Runner, what: Any) -> int:
    """The number of a timer that is given as that, as an `Alarm`, or by the step that it is for.

    Raises:
        WorkflowRuntimeError: There is none, or several.
    """
    timers, spec = runner.state.timers, runner.state.spec
    if isinstance(what, Alarm):
        number = what.number
    elif isinstance(what, int) and not isinstance(what, bool):
        number = what
    else:
        name = step_name(what, spec.name, spec.index)
        of_step = [alarm for alarm in inbox_of(runner).timers if alarm.step == name]
        if len(of_step) != 1:
            raise WorkflowRuntimeError(
                f"Step {name!r} has {len(of_step) or 'no'} timer{'s' if len(of_step) != 1 else ''}: name one of "
                f"run.debug.inbox.timers."
            )
        number = of_step[0].number
    if number not in timers:
        raise WorkflowRuntimeError(f"Run {runner.run_id!r} has no timer {number} (any more).")
    return number


def refuse_end(runner: Runner) -> None:
    if is_ended(runner.state):
        raise WorkflowDone(
            f"Run {runner.run_id!r} is {runner.state.status}: nothing of it comes any more. To go on from an earlier "
            "tick, fork it: run.debug.fork(seq)."
        )
    refuse_changes(runner)


def refuse_viewer(runner: Runner) -> None:
    if is_viewed(runner):
        raise WorkflowRuntimeError(
            f"Run {runner.run_id!r} is only looked at here; what comes next is known to the process that drives it. "
            f"Step it or edit it there, or take it over: flow.resume({runner.run_id!r})."
        )


def refuse_steps(runner: Runner) -> None:
    """Whoever only looks at a run that goes on has no gate to work tick by tick; on whatever thread."""
    if not runner.ended:
        refuse_changes(runner)
        refuse_viewer(runner)


def refuse_drop(tick: AnyTick) -> None:
    if isinstance(tick, RequestAnswered):
        raise WorkflowRuntimeError("An answer that was accepted cannot be dropped; it can be edited.")
    if not isinstance(tick, _DROPPED):
        name = f"of step {tick.step!r} " if isinstance(tick, StepFinished) else ""
        raise WorkflowRuntimeError(
            f"{type(tick).__name__} {name}cannot be dropped, only edited: the run would wait for it for ever. What can "
            "be: events that a step sends or that come from outside, and deliveries that wait for a worker."
        )


def refuse_open(runner: Runner) -> None:
    """On the loop's thread."""
    if not runner.gate():
        raise WorkflowRuntimeError(f"The gate of run {runner.run_id!r} is open: pause it first, run.pause().")


def refuse_order(tick: AnyTick, ahead: Iterable[AnyTick]) -> None:
    """What one attempt did keeps its order. (That no deadline beats an answer, R1.27, the gate itself sees to.)"""
    other = before_it(tick, ahead)
    if other is not None:
        raise WorkflowRuntimeError(
            f"{type(tick).__name__} of step {tick.step!r} comes behind {type(other).__name__} of the same attempt: "  # type: ignore[union-attr]
            "what one attempt did keeps its order. Admit that first."
        )


def before_it(tick: AnyTick, ahead: Iterable[AnyTick]) -> AnyTick | None:
    """The first of what stands before a tick that the same attempt did."""
    own = getattr(tick, "delivery", 0), getattr(tick, "start", 0)
    return next((t for t in ahead if own[0] and own == (getattr(t, "delivery", 0), getattr(t, "start", 0))), None)
