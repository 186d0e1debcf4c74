"""Going on: with a run that nobody drives, from a snapshot, from a context."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from flownb.contexts import context_of, outer
from flownb.core.graph import short
from flownb.core.life import ends_in
from flownb.core.state import ENDED, is_ended
from flownb.core.ticks import DefinitionAdopted, GateOpened, GateReason, RunOpened, StateWritten
from flownb.defaults import options
from flownb.definition import Definition
from flownb.errors import (
    DefinitionChanged,
    JournalDamaged,
    RunConflict,
    RunNotFound,
    WorkflowConfigurationError,
    WorkflowNotDefined,
    WorkflowRuntimeError,
    caller_level,
    near,
)
from flownb.forking import begun, go_on_from, refuse_homeless, refuse_other, retry_run, with_children
from flownb.launch import PLAIN, Settings, equip, line_of, notebook, runner_for, shown_at_start, store_of
from flownb.restoring import flow_of, is_blind, is_in, restored
from flownb.resupply import resupply
from flownb.run import Run
from flownb.runs import Store, store_for
from flownb.runtime.host import Host, host_for
from flownb.runtime.opening import driver_of, unknown_outcomes
from flownb.runtime.pending import Pending
from flownb.runtime.runner import Runner, Shared
from flownb.runtime.stored import is_viewed, mark, refuse_changes
from flownb.snapshot import Snapshot, dump, load, take, user_of
from flownb.starting import finding, known, resting
from flownb.store.drivers import is_imported
from flownb.store.snapshots import Taken
from flownb.workflow import workflow_of

if TYPE_CHECKING:
    from flownb.workflow import Workflow

#: So long at most a call of `resume` waits for the loop that drives the run.
_REOPENING_S = 5.0

#: Reasons of a closed gate that a resumed snapshot keeps.
_KEPT_REASONS: tuple[GateReason, ...] = ("person", "breakpoint", "livelock")

RunContext = context_of


def snapshot_of(run: Run[Any]) -> Snapshot:
    """All of a run as it is now, as plain JSON can hold it (R6.31)."""
    return dump(take(run._runner))


def resume(run: str | Mapping[str, Any], *, store: Any = None) -> Run[Any]:
    """Go on with a run, or from a snapshot, with its workflow as this process defines it.

    Args:
        run: A run id, or what `run.snapshot()` gave, also read back from JSON.
        store: Where the run is kept.

    Raises:
        WorkflowNotDefined: This process has not defined its workflow; names it.
        RunNotFound: There is no such run.
    """
    if isinstance(run, str):
        found = _find(None, Settings(store=store), run)
        if found is None:
            raise _not_found(store_of_any(store), run)
        if found.owner is None:
            key, name = found.state.spec.key, found.state.spec.name
            raise WorkflowNotDefined(
                f"Run {run!r} is of workflow {name!r} ({key}), which this process has not defined. Define it, or make "
                "an instance of it and call its resume(...).",
                workflow=key,
            )
        return resume_run(found.owner, Settings(store=store), run, retry_failed=False)
    key = str(run.get("key", "")) if isinstance(run, Mapping) else ""
    workflow = workflow_of(key) if key else None
    if key and workflow is None:
        raise WorkflowNotDefined(
            f"The snapshot is of workflow {run.get('workflow')!r} ({key}), which this process has not defined. "
            "Define it, or make an instance of it and call its resume(...).",
            workflow=key,
        )
    if workflow is None:
        load(run)  # says what is wrong with it
        raise WorkflowConfigurationError("This snapshot is of a context that no run used yet: flow.run(ctx=...).")
    return resume_run(workflow, Settings(store=store), run, retry_failed=False)


def resume_run(workflow: Workflow[Any], settings: Settings, run: Any, *, retry_failed: bool) -> Run[Any]:
    """As `Workflow.resume` says."""
    if isinstance(run, Mapping):
        return _resume_snapshot(workflow, settings, run)
    if isinstance(run, Run):
        run = run.run_id
    if run is None:
        run = _latest(workflow, settings)
    if not isinstance(run, str):
        raise WorkflowConfigurationError(f"resume takes a run id or a snapshot, not {run!r}.")
    runner = _find(workflow, settings, run)
    if runner is None:
        raise _not_found(store_of(workflow, settings), run)
    spec, own = runner.state.spec, workflow.definition.spec
    if spec.key != own.key and (spec.name != own.name or workflow_of(spec.key) is not None):
        raise RunConflict(
            f"Run {run!r} is of workflow {spec.name!r} ({spec.key}), not of {own.name!r} ({own.key}). Resume it "
            "with its own.",
            run_id=run,
            differs=("workflow",),
        )
    if runner.suspended and (runner.owner is not workflow or replace(settings, store=None) != PLAIN):
        equip(runner, workflow, settings, store_of(workflow, settings))
    handle: Run[Any] = Run(runner, workflow, settings)
    runner.notice_loss()
    if runner.ended:
        if runner.state.status == "completed":
            return handle
        if retry_failed:
            return retry_run(handle)
        raise WorkflowRuntimeError(
            f"Run {run!r} is {runner.state.status}, and such a run is never continued in place. "
            f"flow.resume({run!r}, retry_failed=True) forks it just before that."
        )
    return driven(handle)


def driven(run: Run[Any]) -> Run[Any]:
    """A run that is not over; if nobody drives it, somebody does from now on, with the newest definition (R2.21).

    Raises:
        DefinitionChanged: A step with work is gone from it.
        RunReadOnly: It was imported.
    """
    runner, workflow, settings = run._runner, run._workflow, run._settings
    if not runner.suspended:
        if not runner.ended:
            _reopen(runner, workflow)  # a suspension may be under way
        return run
    stored = runner.stored
    refuse_changes(runner)
    if stored is not None and stored.damage:
        raise JournalDamaged(
            f"{stored.damage} The run can be looked at up to there, and forked: run.debug.fork({len(runner.ticks)}).",
            run_id=runner.run_id,
            seq=len(runner.ticks) + 1,
            reason=stored.damage,
        )
    if stored is not None and (runner.end.done() or runner.host.is_lost()):
        store = store_of(workflow, settings)
        assert store is not None
        runner = restored(store, runner.run_id, workflow, settings)
        run = Run(runner, workflow, settings)
        if runner.ended:  # another process brought it to its end
            return run
    _refuse_changed(runner, workflow.definition)
    if stored is not None:
        resupply(runner, settings.secrets)
    resting.discard(runner)
    if runner.end.done() or runner.host.is_lost():
        return run if runner.ended else _drive_anew(workflow, settings, runner)  # its end may just have been read
    if runner.make_child is not None:
        with_children(runner)
    is_turn = _reopen(runner, workflow)
    if stored is not None and is_turn and is_viewed(runner):
        warnings.warn(
            f"Run {runner.run_id!r}: {runner.suspended}. Here it can be looked at, answered, paused and cancelled.",
            UserWarning,
            stacklevel=caller_level(),
        )
    else:
        shown_at_start(run, full=False)
    return run


def _refuse_changed(runner: Runner, definition: Definition) -> None:
    """Raises DefinitionChanged if a step with work is gone from a definition; the store lists the run so (R6.44)."""
    try:
        refuse_homeless(runner.state, definition.spec)
    except DefinitionChanged:
        if runner.stored is not None:
            with suppress(WorkflowRuntimeError):  # the store cannot be used now: the refusal counts
                mark(runner, "definition_changed")
        raise


def _reopen(runner: Runner, workflow: Workflow[Any]) -> bool:
    """Drive it again, when it is its turn; then, when this returns, it takes answers.

    Returns:
        False if it has to wait for its turn (`num_concurrent_runs`).
    """
    definition = workflow.definition
    reopened: Pending[None] = Pending("the reopening", runner.host.loop)

    def reopen() -> None:
        stopping = runner.stopping
        if stopping is not None and not stopping.take_back():
            stopping.over.on_end(lambda: runner.host.soon(reopen))
            return
        resting.discard(runner)
        try:
            runner.reopen(definition)
        except Exception as error:  # the store cannot be used now, say
            reopened.reject(error)
        else:
            reopened.resolve(None)

    line = line_of(workflow) if runner.suspended and runner.state.head.parent is None else None
    if line is None:
        runner.host.call(reopen)
    elif not line.enter(runner, reopen):
        return False
    if not runner.host.is_here():
        with suppress(TimeoutError):  # its loop is busy: it follows
            reopened.result(_REOPENING_S)
    return True


def _resume_snapshot(workflow: Workflow[Any], settings: Settings, plain: Mapping[str, Any]) -> Run[Any]:
    """As the same run where that is not known, else as a new one (R6.34)."""
    taken = load(dict(plain))
    if taken.state is None:
        raise WorkflowConfigurationError("This snapshot is of a context that no run used yet: flow.run(ctx=...).")
    run_id, store = taken.state.run_id, store_of(workflow, settings)
    is_known = (store, run_id) in known or is_in(store, run_id)
    is_child = "/" in run_id
    gate = tuple(reason for reason in taken.state.gate if reason in _KEPT_REASONS)
    return go_on_from(workflow, settings, taken, run_id=None if is_known or is_child else run_id, gate=gate)


def _find(workflow: Workflow[Any] | None, settings: Settings, run_id: str) -> Runner | None:
    """The run that has an id: the one in the store that is meant, also of an earlier process, else the only one that
    this process has."""
    with finding:
        return _found(workflow, settings, run_id)


def _found(workflow: Workflow[Any] | None, settings: Settings, run_id: str) -> Runner | None:
    store = store_of(workflow, settings) if workflow is not None else store_of_any(settings.store)
    if workflow is not None:
        found = known.get((store, run_id))
        if found is not None and not is_blind(found):
            return found
    matching = [(at, runner) for (at, name), runner in list(known.items()) if name == run_id and _is_in(at, settings)]
    if len(matching) > 1:
        raise RunConflict(
            f"There are {len(matching)} runs {run_id!r}, in several stores. Say which: store=...",
            run_id=run_id,
            differs=("store",),
        )
    if matching:
        store, found = matching[0]
        if not is_blind(found) or (workflow is None and flow_of(found.state.spec.key) is None):
            return found
    return restored(store, run_id, workflow, settings) if store is not None and is_in(store, run_id) else None


def _is_another(key: str, own: str) -> bool:
    """Whether keys of one name mean two workflows: several modules may have one of that name. A script is the same
    where it is run and where it is imported, and of a damaged run the key is not known."""
    return bool(key) and key != own and "__main__" not in (key.partition(":")[0], own.partition(":")[0])


def _latest(workflow: Workflow[Any], settings: Settings) -> str:
    """The newest run of a workflow in its store that is not over; in a kernel of this notebook's, if there is one
    (R1.39).

    Raises:
        RunNotFound: There is none.
    """
    store, spec = store_of(workflow, settings), workflow.definition.spec
    if store is not None:
        rows = [row for row in store.runs(workflow=spec.name) if row.status not in ENDED and not row.parent]
        rows = [row for row in rows if not (is_imported(row.driver) or _is_another(row.key, spec.key))]
        own = [row for row in rows if row.notebook == notebook()] if notebook() else []
        if rows:
            return (own or rows)[0].run_id
    where = f"in {store.place}" if store is not None else "in a store"
    raise RunNotFound(f"There is no run of workflow {spec.name!r} {where} that is not over.", workflow=spec.name)


def _is_in(store: Store | None, settings: Settings) -> bool:
    return settings.store is None or store is store_of_any(settings.store)


def store_of_any(store: Any) -> Store | None:
    return store_for(store or options.store)


def _not_found(store: Store | None, run_id: str) -> Exception:
    ids = sorted({name for _, name in list(known)})
    return RunNotFound(
        f"There is no run {run_id!r} in this process{f' and none in {store.place}' if store is not None else ''}. "
        f"{near(run_id, ids, 'There are') if ids else 'A run in memory is gone when nobody holds it any more.'}",
        run_id=run_id,
    )


def _drive_anew(workflow: Workflow[Any], settings: Settings, old: Runner) -> Run[Any]:
    """Another driver takes over where the one before is lost (R5.5): the same run, its handles of before are not."""
    host, store = host_for(settings.host or options.host), store_of(workflow, settings)
    runner = _anew(workflow, settings, old, host, store)
    run = begun(runner, workflow, settings, full=False)
    _drive_children(settings, old, runner, store)
    return run


def _drive_children(settings: Settings, old: Runner, runner: Runner, store: Store | None) -> None:
    """Its children go on where they were, those of a lost loop with another driver too."""
    for number, child in (old.children or {}).items():
        child.notice_loss()
        again = child
        if child.suspended and not child.ended and (child.end.done() or child.host.is_lost()):
            again = _anew(child.owner, settings, child, runner.host, store)
            again.policies, again._context = child.policies, runner._context
            known[store, again.run_id] = again
        runner.children = {**(runner.children or {}), number: again}
        if again is not child:
            _drive_children(settings, child, again, store)
            runner.host.call(again.launch)


def _anew(workflow: Workflow[Any], settings: Settings, old: Runner, host: Host, store: Store | None) -> Runner:
    """A runner that goes on where one that is lost was."""
    newest = workflow.definition
    is_changed = newest.spec.hash != old.state.spec.hash
    definition = old.definition if is_changed else newest
    settled, _ = ends_in(old.state, old.inbox)
    now = max(old.clock.now(), old.state.at)
    opened = RunOpened(now, driver_of(old), unknown=unknown_outcomes(old, settled), settled=settled)
    shared = Shared(old.run_id, tuple(old.ticks), old.history, is_new=False)
    runner = runner_for(workflow, definition, opened, settings, host, store, shared=shared)
    runner.first, runner.committer, runner.clock = old.first, old.committer, old.clock
    runner._errors, runner.flows, runner.late = old._errors, old.flows, old.late
    runner._questions = old._questions
    if old._questions is not None:  # who was asked there does not answer any more
        old._questions.underway.clear()
        old._questions.tasks.clear()
    runner.published, runner._logs = old.published, old._logs
    if is_changed:
        runner.adopting = newest
        runner.control.append(DefinitionAdopted(now, newest.spec))
    if "budget" in old.state.gate:
        runner.control.append(GateOpened(now, "budget"))
    runner.control.extend(old.control)
    for tick in old.inbox:
        if isinstance(tick, StateWritten):
            runner.user.put(tick)
        runner.inbox.append(tick)
    return runner


def go_on(
    workflow: Workflow[Any],
    settings: Settings,
    ctx: Any,
    run_id: str | None,
    gate: tuple[GateReason, ...],
    state: Mapping[str, Any],
) -> tuple[Run[Any] | None, Mapping[str, Any]]:
    """The run that a context's unfinished run goes on as, or None and the state that a new one begins with (R6.36).

    Raises:
        ContextStateError: The context's run goes on.
    """
    held = outer(ctx, short(workflow.definition.spec.start))
    taken: Taken = held.taken()
    if taken.state is not None and not is_ended(taken.state):
        run = go_on_from(workflow, settings, taken, run_id=run_id, gate=gate, state=state)
        held.bind(run)
        return run, state
    if taken.state is not None:
        refuse_other(taken.state.spec, workflow.definition)
    return None, {**{name: out.value for name, out in user_of(taken).items()}, **state}
