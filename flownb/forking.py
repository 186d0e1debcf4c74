"""Runs that begin from another one: from a state of it as it was taken, or after the ticks that they share with it.

Either way the first own tick is `RunForked`, and what is to be edited or was in the inbox follows it at once, before
anything starts: what that ends is not started again (R1.14).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from flownb.core.adopting import homeless
from flownb.core.life import ends_in, lives
from flownb.core.persist import Fifo, Table
from flownb.core.reduce import reduce
from flownb.core.spec import Spec, takers
from flownb.core.state import Delivery, RunState, StepState, is_ended
from flownb.core.ticks import (
    AnyTick,
    DefinitionAdopted,
    GateReason,
    RunForked,
    StepFailed,
)
from flownb.core.values import Out
from flownb.defaults import options
from flownb.definition import Definition
from flownb.errors import (
    ContextSerdeError,
    DefinitionChanged,
    WorkflowConfigurationError,
    WorkflowDone,
    WorkflowRuntimeError,
)
from flownb.events import Event
from flownb.launch import Settings, launched, make_known, runner_for, store_of
from flownb.run import Run
from flownb.runtime.clock import SystemClock
from flownb.runtime.copying import copied
from flownb.runtime.host import host_for
from flownb.runtime.opening import put_inbox
from flownb.runtime.questions import Accepted
from flownb.runtime.results import out_of, value_out
from flownb.runtime.runner import Runner, Shared
from flownb.snapshot import before_cancel, outs_in
from flownb.starting import checked_id, same_run
from flownb.store.snapshots import Answered, Taken

if TYPE_CHECKING:
    from flownb.workflow import Workflow

_clock = SystemClock()


# -- from a state


def go_on_from(
    workflow: Workflow[Any],
    settings: Settings,
    taken: Taken,
    *,
    run_id: str | None = None,
    gate: tuple[GateReason, ...] = (),
    state: Mapping[str, Any] | None = None,
) -> Run[Any]:
    """Start a run that goes on from a state, without a start event.

    Args:
        workflow: What it runs; its newest definition counts.
        settings: Of the launch.
        taken: The state, with the inbox.
        run_id: Its id; that of the state's own run means that run itself, whose due times stay as they are.
        gate: Why its gate is closed at the beginning.
        state: More of the user's state, over what is there.

    Raises:
        WorkflowDone: The state is that of a run that is over.
        DefinitionChanged: A step with work is gone from the definition.
        RunConflict: There is a run of that id.
    """
    base = taken.state
    assert base is not None
    if is_ended(base):
        raise WorkflowDone(
            f"Run {base.run_id!r} was {base.status} there, so it cannot go on. Start anew with its state: "
            "flow.run(ctx=Context.from_dict(flow, snapshot))."
        )
    definition, store = workflow.definition, store_of(workflow, settings)
    refuse_other(base.spec, definition)
    name = base.run_id if run_id == base.run_id else checked_id(run_id)
    same_run(store, name, definition, None)
    now = (settings.clock or _clock).now()
    settled, over = ends_in(base, taken.inbox)
    tick = RunForked(
        now,
        name,
        base.run_id,
        base.seq,
        gate=gate,
        snapshot=_before_its_journal(adopted(base, definition.spec)),
        settled=settled,
        over=over,
    )
    runner = runner_for(workflow, definition, tick, settings, host_for(settings.host or options.host), store)
    _check_values(runner, taken)
    if state:
        given = {key: runner.checked(value_out(copied(value))) for key, value in state.items()}
        runner.control[0] = replace(tick, state={**dict(base.user.items()), **given})
    _know_answers(runner, taken.answered, base.seq)
    later = 0.0 if name == base.run_id else max(0.0, now - base.at)
    put_inbox(runner, base, taken.inbox, later)
    return begun(runner, workflow, settings, full=bool(gate))


def refuse_other(spec: Spec, definition: Definition) -> None:
    """Raises ContextSerdeError for a state of another workflow: neither its key nor its name is that of this one."""
    if spec.key != definition.spec.key and spec.name != definition.spec.name:
        raise ContextSerdeError(
            f"This is a run of workflow {spec.name!r} ({spec.key}), and this workflow is {definition.spec.name!r} "
            f"({definition.spec.key}). Resume it with its own."
        )


def adopted(state: RunState, spec: Spec) -> RunState:
    """The state under a newer definition.

    Raises:
        DefinitionChanged: A step with work is gone.
    """
    if state.spec.hash == spec.hash:
        return replace(state, spec=spec)
    refuse_homeless(state, spec)
    moved, _ = reduce(state, DefinitionAdopted(state.at, spec))
    return replace(moved, seq=state.seq)


def refuse_homeless(state: RunState, spec: Spec) -> None:
    lost = homeless(state, spec)
    if lost:
        was, now = ([step.name for step in known.steps] for known in (state.spec, spec))
        raise DefinitionChanged(
            f"Step {', '.join(lost)} is gone and has work in run {state.run_id!r}. Define it again, then resume. The "
            f"steps were {', '.join(was)}; they are {', '.join(now)}.",
            steps=tuple(lost),
        )


def _before_its_journal(state: RunState) -> RunState:
    """The state as the beginning of a journal: the ticks that caused what is alive are none of it, so they have
    numbers below 1, which no tick of it will ever have."""
    shift = state.seq

    def moved(d: Delivery) -> Delivery:
        return replace(d, cause=d.cause - shift)

    def moved_step(step: StepState) -> StepState:
        if not (step.queue.n or step.active.n or step.waiting.n):
            return step
        return replace(
            step,
            queue=Fifo.of([moved(d) for d in step.queue]),
            active=Table.of((d.id, moved(d)) for d in step.active.values()),
            waiting=Table.of((d.id, moved(d)) for d in step.waiting.values()),
        )

    return replace(state, steps=tuple(map(moved_step, state.steps)))


def _check_values(runner: Runner, taken: Taken) -> None:
    """Find out before there is a tick whether its journal can hold them (R6.12)."""
    committer = runner.committer
    if committer is not None and committer.check is not None:
        runner.checked(value_out(None), *outs_in(taken))


def _know_answers(runner: Runner, answered: Sequence[Answered], shift: int) -> None:
    for known in answered:
        questions, n = runner.questions, known.request.id
        questions.answered_by[known.cause - shift] = known.request
        questions.all[n] = known.request
        questions.closed[n] = "default" if known.how == "default" else "answered"
        if known.answer is not None:
            questions.accepted[n] = Accepted(known.answer, known.by, known.at, known.how)  # type: ignore[arg-type]


# -- after shared ticks


def fork_run(
    run: Run[Any],
    at: int,
    *,
    state: Mapping[str, Any] | None = None,
    events: Mapping[int, Out] | None = None,
    edited: AnyTick | None = None,
) -> Run[Any]:
    """Start a run that shares ticks 1 to `at` of another one, which goes on as if nothing had happened.

    Args:
        run: The other one.
        at: The last shared tick.
        state: The user's state in place of what it was then.
        events: Other events, by the delivery that has them.
        edited: A work tick that follows the fork at once.

    Raises:
        IndexError: There is no such tick.
        WorkflowDone: The run was over there, or being cancelled.
        DefinitionChanged: A step with work is gone from the newest definition.
    """
    old, workflow = run._runner, run._workflow
    settings = replace(run._settings, clock=run._settings.clock or old.clock)
    base = old.history.at(at)
    _refuse_end(base)
    definition, store = workflow.definition, store_of(workflow, settings)
    refuse_homeless(base, definition.spec)
    now = max(old.clock.now(), base.at)
    settled, over = ends_in(base, () if edited is None else (edited,))
    user: dict[str, Out] | None = None
    if state is not None:
        user = {key: value_out(copied(value)) for key, value in state.items()}
    name = checked_id(None)
    tick = RunForked(now, name, old.run_id, at, user, dict(events or {}), settled=settled, over=over)
    shared = Shared(name, old.ticks[:at], old.history)
    runner = runner_for(
        workflow, definition, tick, settings, host_for(settings.host or options.host), store, shared=shared
    )
    runner.checked(value_out(None), *(user or {}).values(), *(events or {}).values())
    if definition.spec.hash != base.spec.hash:
        runner.control.append(DefinitionAdopted(now, definition.spec, options.user))
    if edited is not None:
        runner.inbox.append(edited)
    _share_what_is_beside(runner, old, base)
    return begun(runner, workflow, settings, full=False)


def _refuse_end(base: RunState) -> None:
    if is_ended(base) or base.status == "cancelling":
        was = "being cancelled" if base.status == "cancelling" else base.status
        raise WorkflowDone(f"Run {base.run_id!r} was {was} after tick {base.seq}: fork it at an earlier tick.")


def _share_what_is_beside(runner: Runner, old: Runner, base: RunState) -> None:
    """What the runner knows beside the state, as far as it is of the shared ticks."""
    runner.errors.update(old.errors)
    runner.flows = dict(old.flows or {})
    runner.published += [item for item in list(old.published) if item.seq <= base.seq]
    if old._questions is None:
        return
    new, known = runner.questions, old._questions
    for n, request in list(known.all.items()):
        if request.opened > base.seq:
            continue
        new.all[n] = request
        if n in known.answer_types:
            new.answer_types[n] = known.answer_types[n]
        if request.delivery:
            new.asked[request.delivery, request.mark] = request
        if n not in base.requests:
            new.closed[n] = known.closed.get(n, "closed")
            if n in known.accepted:
                new.accepted[n] = known.accepted[n]
            if n in known.drafts:
                new.drafts[n] = known.drafts[n]
    new.answered_by.update({seq: request for seq, request in list(known.answered_by.items()) if seq <= base.seq})


def retry_run(run: Run[Any], step: str | None = None, event: Event | None = None) -> Run[Any]:
    """Fork a run just before a failure, so that what was done before is not done again (R6.41).

    Args:
        run: A failed or cancelled run; with `step` any.
        step: The step whose last failure counts; None: what ended the run.
        event: The failed delivery's event in place of the old one.

    Raises:
        WorkflowRuntimeError: It did not fail.
        WorkflowConfigurationError: An event was given, and no single delivery failed.
    """
    runner = run._runner
    state, at, failed = runner.state, 0, None
    if step is None and state.status == "cancelled":
        at = before_cancel(runner)
    elif step is None and state.status in ("failed", "timed_out"):
        at = len(runner.ticks) - 1
        last = runner.ticks[-1]
        failed = last if isinstance(last, StepFailed) else None
    elif step is not None:
        for seq in range(len(runner.ticks), 0, -1):
            tick = runner.ticks[seq - 1]
            if isinstance(tick, StepFailed) and tick.step == step:
                at, failed = seq - 1, tick
                break
    if not at:
        what = f"step {step!r} of run" if step is not None else "run"
        raise WorkflowRuntimeError(
            f"There is nothing to try again: {what} {run.run_id!r} has not failed. It is {run.status}."
        )
    if event is None:
        return fork_run(run, at)
    if failed is None:
        raise WorkflowConfigurationError(
            f"Run {run.run_id!r} was ended by no single event, so event= has no place. Leave it out, or fork at a tick."
        )
    base = runner.history.at(at)
    d = next(d for d in lives(base) if d.id == failed.delivery)
    if isinstance(d.out, tuple):
        raise WorkflowConfigurationError(
            f"Step {failed.step!r} takes a list, which is no single event. Fork at the tick that sent one of them."
        )
    out = out_of(copied(event), run._workflow.definition, base.at)
    refuse_stranger(run._workflow.definition.spec, failed.step, out)
    return fork_run(run, at, events={d.id: out})


def refuse_stranger(spec: Spec, step: str, out: Out) -> None:
    """Raises WorkflowConfigurationError for an event that a step takes neither alone nor in a list."""
    ways = (takers(spec, out.key, out.role, out.bases, gathering=gathering) for gathering in (False, True))
    if not any(spec.index.get(step) in found for found in ways):
        raise WorkflowConfigurationError(f"Step {step!r} does not take {out.key}, so that cannot be its event.")


def begun(runner: Runner, workflow: Workflow[Any], settings: Settings, *, full: bool) -> Run[Any]:
    """Drive it, with what its children need."""
    with_children(runner)
    make_known(runner, workflow, settings)
    return launched(runner, workflow, settings, full=full)


def with_children(runner: Runner) -> None:
    """Let a runner make the children that its state has, as far as this process has their workflows."""
    from flownb.workflow import workflow_of  # it is built on launching, as this module is

    if runner.make_child is not None:
        for child in runner.state.side.children.values():
            flow = workflow_of(child.workflow)
            if flow is not None and child.workflow not in (runner.flows or {}):
                runner.flows = {**(runner.flows or {}), child.workflow: runner.make_child(runner, flow)}
