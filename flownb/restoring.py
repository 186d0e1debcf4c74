"""Runs of a store that are not in this process: read from their journals, looked at, and driven again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flownb.core.reduce import is_first
from flownb.core.ticks import AnyTick
from flownb.defaults import options
from flownb.definition import Definition
from flownb.errors import JournalDamaged
from flownb.events import StartEvent
from flownb.launch import Settings, runner_for
from flownb.run import Run
from flownb.runs import Store
from flownb.runtime.following import follow
from flownb.runtime.host import Host, host_for
from flownb.runtime.runner import Runner
from flownb.runtime.stored import is_viewed, watch
from flownb.starting import finding, known
from flownb.store.drivers import is_imported, missing_in
from flownb.store.journal import definition_of

if TYPE_CHECKING:
    from flownb.workflow import Workflow


def restored(
    store: Store, run_id: str, workflow: Workflow[Any] | None, settings: Settings, host: Host | None = None
) -> Runner:
    """A run as its journal has it, looked at and not driven.

    Args:
        store: Where it is kept.
        run_id: Its id.
        workflow: Its own, if this process has it.
        settings: Of who looks.
        host: Where it may be driven; None: by the settings.

    Raises:
        RunNotFound: There is no such run in the store.
        JournalDamaged: Not even its first tick can be read.
    """
    ticks, error = readable(store, run_id)
    if error is not None and not ticks:
        raise error
    damage, first = str(error or ""), ticks[0]
    assert is_first(first)
    spec = definition_of([first])
    if spec is None:
        reason = "its first tick tells of no workflow"
        raise JournalDamaged(f"Run {run_id!r} cannot be read: {reason}.", run_id=run_id, seq=1, reason=reason)
    flow = workflow if workflow is not None else flow_of(spec.key)
    definition = Definition(spec, (), {}, StartEvent) if flow is None else flow.definition
    runner = runner_for(flow, definition, first, settings, host or host_for(settings.host or options.host), store)
    runner.run_id = run_id
    runner.control.clear()
    assert runner.stored is not None
    runner.stored.is_viewer = True
    runner.is_heard = True  # of a failure elsewhere nobody has to be warned here
    runner.suspended = "it is only looked at here"
    driver = store.journal.holder(run_id).driver
    if is_imported(driver):
        runner.stored.is_imported = True
        runner.suspended = f"it was imported, so it can be looked at and forked{missing_in(driver)}"
    known[store, run_id] = runner
    try:
        follow(runner, ticks)
    except Exception as error:  # rows that can be read one by one and make no sense after each other
        seq = len(runner.ticks) + 1
        damage = f"Tick {seq} of run {run_id!r} does not follow from those before it: {type(error).__name__}: {error}."
    if damage:
        runner.stored.damage = damage
        runner.suspended = damage
    elif runner.ended:
        runner.suspended = ""
        runner.finish()
    elif not runner.stored.is_imported:
        watch(runner)
    return runner


def look_at(store: Store, run_id: str) -> Run[Any]:
    """A handle of a run of a store: the one of this process, or one that only looks (`Store.run`)."""
    settings = Settings(store=store)
    with finding:
        runner = known.get((store, run_id))
        if runner is None or _is_outdated(runner):
            runner = restored(store, run_id, None, settings)
    return Run(runner, runner.owner, settings)


def _is_outdated(runner: Runner) -> bool:
    """Whether a run that is only looked at has to be read anew: its loop is closed, so it hears of nothing more, or
    this process has got its workflow since."""
    if is_viewed(runner) and not runner.ended and runner.host.is_lost():
        return True
    return is_blind(runner) and flow_of(runner.state.spec.key) is not None


def is_blind(runner: Runner) -> bool:
    """Whether a run was read when this process had not its workflow, so that its events are of unknown classes: once it
    has the workflow, the run is read anew."""
    return runner.owner is None and runner.stored is not None and runner.stored.is_viewer


def flow_of(key: str) -> Workflow[Any] | None:
    from flownb.workflow import workflow_of  # it is built on launching, as this module is

    return workflow_of(key)


def readable(store: Store, run_id: str) -> tuple[list[AnyTick], JournalDamaged | None]:
    """The ticks of a run that can be read, and what is wrong with the first one that cannot.

    Raises:
        RunNotFound: There is no such run in the store.
    """
    try:
        return store.journal.read(run_id), None
    except JournalDamaged as error:
        seq = getattr(error, "seq", 0)
        return (store.journal.read(run_id, 1, seq - 1) if seq > 1 else []), error


def is_in(store: Store | None, run_id: str) -> bool:
    """Whether a store has a run."""
    return store is not None and store.journal.last_seq(run_id) > 0


__all__ = ["flow_of", "is_blind", "is_in", "look_at", "readable", "restored"]
