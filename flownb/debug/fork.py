"""`run.debug.fork` and `run.debug.retry`: another run from a point of this one's past (R6.37 to R6.42)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from flownb.core.life import first_state
from flownb.core.persist import Names
from flownb.core.reduce import reduce
from flownb.core.state import RunState, is_ended
from flownb.core.ticks import (
    AnyTick,
    ChildFinished,
    EventArrived,
    RequestAnswered,
    RunForked,
    RunStarted,
    StepFailed,
    StepFinished,
    ValueRecorded,
)
from flownb.core.values import Out
from flownb.errors import WorkflowConfigurationError, WorkflowNotDefined, WorkflowRuntimeError
from flownb.events import Event
from flownb.forking import fork_run, go_on_from, retry_run
from flownb.run import Run
from flownb.runtime.copying import copied
from flownb.runtime.results import out_of, value_out
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
    arrived = EventArrived(tick.at, out_of(copied(event), workflow.definition, tick.at))
    settings = replace(settings, clock=settings.clock or run._runner.clock)
    return go_on_from(workflow, settings, Taken(base, (arrived,)), state=state)


def _edited(run: Run[Any], at: int, tick: AnyTick, base: RunState, event: Any) -> AnyTick:
    """Tick `at` with another event."""
    definition = run._workflow.definition

    def out(value: Any) -> Out:
        return out_of(copied(value), definition, base.at) if isinstance(value, Event) else value_out(copied(value))

    if isinstance(tick, EventArrived):
        return replace(tick, out=out(event), held=())
    if isinstance(tick, StepFinished):
        return replace(tick, outs=_outs(at, tick, event, out), held=())
    if isinstance(tick, StepFailed) and tick.failed is not None:
        return replace(tick, failed=out(event), held=())
    if isinstance(tick, RequestAnswered):
        return replace(tick, answer=out(event), held=())
    if isinstance(tick, ChildFinished) and tick.out is not None:
        return replace(tick, out=out(event), held=())
    if isinstance(tick, ValueRecorded):
        return replace(tick, out=out(event), start=_start_in_fork(at, tick, base), held=())
    raise WorkflowConfigurationError(
        f"Tick {at} ({type(tick).__name__}) has no event that could be another one. Ticks that have one: a step's "
        "end, an event from outside, an answer, a child's end, a recorded value."
    )


def _outs(at: int, tick: StepFinished, event: Any, out: Any) -> tuple[Out, ...]:
    is_list = isinstance(event, Sequence) and not isinstance(event, (str, bytes))
    if is_list is not tick.fan:
        has = f"a list of {len(tick.outs)}" if tick.fan else "one event"
        raise WorkflowConfigurationError(f"Step {tick.step!r} returned {has} at tick {at}: give the same, event=...")
    given = list(event) if is_list else [event]
    if not all(isinstance(one, Event) for one in given):
        raise WorkflowConfigurationError(f"Step {tick.step!r} returns events, and event={event!r} is none.")
    return tuple(map(out, given))


def _start_in_fork(at: int, tick: ValueRecorded, base: RunState) -> int:
    """The number of the start that the fork gives to the delivery, whose code runs again and finds the value."""
    forked, _ = reduce(base, RunForked(base.at, base.run_id, base.run_id, base.seq))
    d = forked.steps[forked.spec.index[tick.step]].active.get(tick.delivery)
    if d is None:
        raise WorkflowRuntimeError(
            f"Tick {at} cannot be another one: after the fork step {tick.step!r} waits for a worker first."
        )
    return d.start
