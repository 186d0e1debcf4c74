"""`run.debug.fork` and `run.debug.retry`: another run from a point of this one's past (R6.37 to R6.42)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from flownb.core.life import first_state
from flownb.core.persist import Names
from flownb.core.reduce import reduce
from flownb.core.state import RunState, is_ended
from flownb.core.ticks import (
    AnyTick,
    EventArrived,
    EventsSent,
    Hand,
    RunForked,
    RunStarted,
    ValueRecorded,
)
from flownb.core.values import Out
from flownb.debug.editing import an_event, edited, maker, outs_in
from flownb.defaults import options
from flownb.errors import WorkflowConfigurationError, WorkflowNotDefined, WorkflowRuntimeError
from flownb.events import Event
from flownb.forking import fork_run, go_on_from, retry_run
from flownb.run import Run
from flownb.snapshot import before_cancel
from flownb.store.snapshots import Taken


def fork(run: Run[Any], at: int | None = None, event: Any = None, state: Mapping[str, Any] | None = None) -> Run[Any]:
    """Start a run that shares ticks 1 to `at` of this one, and then goes its own way at once. This one is not touched.

    Steps that were running at that point start again, times that were to pass are to pass anew, open questions are
    asked anew.

    Args:
        run: This one.
        at: The last shared tick; None: the present, and of a run that is over the moment before its end.
        event: What tick `at` brings in place of its event: an event, of a fan-out a list of them, of an answer or a
            recorded value that value. Then ticks 1 to `at - 1` are shared.
        state: The user's state in place of what it was then.

    Raises:
        IndexError: There is no such tick.
        WorkflowDone: The run was over at that tick.
        WorkflowConfigurationError: That tick has no event that could be another one.
        DefinitionChanged: A step with work is gone from the newest definition.
        WorkflowNotDefined: This process has not its workflow.
    """
    runner = run._runner
    _refuse_unknown(run)
    if event is None:
        return fork_run(run, _now(run) if at is None else at, state=state)
    if at is None:
        raise WorkflowConfigurationError("fork(event=...) takes the place of a tick's event: name the tick, at=...")
    runner.history.at(at)  # there is such a tick
    tick = runner.ticks[at - 1]
    if isinstance(tick, RunStarted):
        return _begin_otherwise(run, tick, event, state)
    if at == 1:
        raise WorkflowConfigurationError("Tick 1 is where this fork begins; it has no event.")
    base = runner.history.at(at - 1)
    return fork_run(run, at - 1, state=state, edited=_edited(run, at, tick, base, event))


def retry(run: Run[Any], step: Any = None, event: Event | None = None) -> Run[Any]:
    """Fork a failed run just before its failure: what was done before is not done again (R6.41).

    Args:
        run: The failed run; a cancelled one is forked before the cancel.
        step: A step whose last failure counts instead, by function or name; also of a run that goes on.
        event: Another event for the delivery that failed.

    Raises:
        WorkflowRuntimeError: Nothing failed.
        WorkflowConfigurationError: The event cannot take the place of the old one.
    """
    _refuse_unknown(run)
    return retry_run(run, step if step is None or isinstance(step, str) else step.__name__, event)


def _refuse_unknown(run: Run[Any]) -> None:
    if run._workflow is None:
        spec = run._runner.state.spec
        raise WorkflowNotDefined(
            f"Run {run.run_id!r} is of workflow {spec.name!r} ({spec.key}), which this process has not defined. Define "
            f"it, then look again: store.run({run.run_id!r}).",
            workflow=spec.key,
        )


def _now(run: Run[Any]) -> int:
    runner = run._runner
    if not is_ended(runner.state) and runner.state.status != "cancelling":
        return len(runner.ticks)
    return before_cancel(runner) or len(runner.ticks) - 1


def _begin_otherwise(run: Run[Any], tick: RunStarted, event: Any, state: Mapping[str, Any] | None) -> Run[Any]:
    """With another start event: no tick is shared, the event comes right behind the fork's first tick."""
    workflow, settings = run._workflow, run._settings
    user = Names.of(tick.state.items()) if state is None else Names[Out]()
    base = replace(first_state(tick), user=user)
    make = maker(run._runner, workflow.definition, tick.at)
    arrived = EventArrived(tick.at, make(an_event(event, tick.out, "tick 1"), tick.out))
    settings = replace(settings, clock=settings.clock or run._runner.clock)
    return go_on_from(workflow, settings, Taken(base, (arrived,)), state=state)


def _edited(run: Run[Any], at: int, tick: AnyTick, base: RunState, event: Any) -> AnyTick:
    """Tick `at` with another event."""
    made = edited(tick, event, maker(run._runner, run._workflow.definition, base.at), f"tick {at}")
    if made is None or isinstance(tick, EventsSent):
        raise WorkflowConfigurationError(
            f"Tick {at} ({type(tick).__name__}) has no event that could be another one. Ticks that have one: a step's "
            "end, an event from outside, an answer, a child's end, a recorded value."
        )
    made = replace(made, held=(), entry=0, hand=Hand(options.user, outs_in(tick)))
    if isinstance(made, ValueRecorded):
        return replace(made, start=_start_in_fork(at, made, base))
    return made


def _start_in_fork(at: int, tick: ValueRecorded, base: RunState) -> int:
    """The number of the start that the fork gives to the delivery, whose code runs again and finds the value."""
    forked, _ = reduce(base, RunForked(base.at, base.run_id, base.run_id, base.seq))
    d = forked.steps[forked.spec.index[tick.step]].active.get(tick.delivery)
    if d is None:
        raise WorkflowRuntimeError(
            f"Tick {at} cannot be another one: after the fork step {tick.step!r} waits for a worker first."
        )
    return d.start
