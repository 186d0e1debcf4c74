"""`run.debug.replay`: the recording of a run, played back on the code as it is now (R6.43)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from flownb.core import commands as c
from flownb.core.spec import takers
from flownb.core.state import Child, Delivery, Outcome, Request
from flownb.core.ticks import AnyTick, RunForked, RunStarted
from flownb.debug.divergence import Replayed
from flownb.debug.playback import Playback
from flownb.debug.players import PlaybackClock
from flownb.debug.recording import Recording
from flownb.debug.subjects import step_name
from flownb.defaults import options
from flownb.definition import Definition, Step
from flownb.errors import WorkflowConfigurationError, WorkflowNotDefined, WorkflowRuntimeError
from flownb.forking import adopted, begun
from flownb.launch import Settings, equip, outfit, store_of
from flownb.run import Run
from flownb.runtime.gatekeeper import Seen
from flownb.runtime.host import host_for, in_kernel
from flownb.runtime.pending import Pending
from flownb.runtime.runner import Runner
from flownb.runtime.worker import Worker
from flownb.starting import checked_id

if TYPE_CHECKING:
    from flownb.workflow import Workflow


class Replayer(Runner):
    """Drives a run whose ticks come from a recording, as far as that goes."""

    __slots__ = ("playback",)

    playback: Playback

    def wake_up(self) -> None:
        """Take part in the next turn."""
        self._wake_up()

    def put(self, tick: AnyTick) -> None:
        if self.playback.lets(tick):
            super().put(tick)

    def act(self) -> None:
        super().act()
        self.playback.go_on()

    def _act_on(self, entry: Seen, starts: list[c.StartStep]) -> None:
        self.playback.took_in(entry)
        super()._act_on(entry, starts)

    def new_worker(self, delivery: Delivery, step: Step) -> Worker:
        return self.playback.cast.new_worker(delivery, step)

    def begin_child(self, child: Child) -> None:
        if not self.playback.cast.begins_child(child):
            return
        super().begin_child(child)
        runner = (self.children or {}).get(child.id)
        if runner is not None and runner.watch is not None:
            runner.watch = self._watching(runner.watch)

    def child_error(self, delivery: int, outcome: Outcome) -> BaseException | None:
        return self.playback.cast.child_error(outcome)

    def _watching(self, watch: Callable[[Runner], None]) -> Callable[[Runner], None]:
        """What a child that runs does may be what the playback waits for: it goes on after each turn of it."""

        def watched(child: Runner) -> None:
            watch(child)
            self._wake_up()

        return watched


def replay(run: Run[Any], workflow: Workflow[Any] | None = None, live: Collection[Any] = ()) -> Run[Any]:
    """Start a new run that plays the ticks of another one back, on the code as it is now.

    Args:
        run: The other one; it is not touched.
        workflow: Whose code; None: the newest definition of the run's own workflow.
        live: Further steps whose code runs, though its source is the same: functions or names.

    Raises:
        WorkflowNotDefined: This process has not its workflow.
        WorkflowConfigurationError: The workflow does not take the run's input.
        WorkflowRuntimeError: The run has no tick yet.
        WorkflowStepDoesNotExistError: `live` names no step.
        DefinitionChanged: It begins with a snapshot, in which a step has work that is gone.
    """
    old = run._runner
    flow = workflow if workflow is not None else newest(run)
    ticks = tuple(old.ticks)
    if not ticks:
        raise WorkflowRuntimeError(f"Run {run.run_id!r} has no tick yet: there is nothing to replay.")
    definition = flow.definition
    names = {step_name(each, definition.spec.name, definition.spec.index) for each in live}
    clock = PlaybackClock(ticks[0].at)
    settings: Settings = replace(run._settings, clock=clock, state=None, panel=run._settings.panel)
    store = store_of(flow, settings)
    runner = Replayer(
        definition,
        _first(ticks[0], checked_id(None), run.run_id, definition),
        host=host_for(settings.host or options.host),
        clock=clock,
        committer=store._committer if store is not None else None,
        make_context=outfit,
        quiet_output=in_kernel(),
    )
    equip(runner, flow, settings, store)
    children = [child.error for child in (old.children or {}).values() if child.error is not None]
    runner.playback = Playback(runner, Recording(run.run_id, ticks), names, dict(old.errors), children)
    _ask_nobody(runner)
    return begun(runner, flow, settings, full=False)


def _first(tick: AnyTick, run_id: str, replays: str, definition: Definition) -> RunStarted | RunForked:
    """The first tick of a recording, for a run of its own."""
    spec = definition.spec
    if isinstance(tick, RunForked):
        snapshot = adopted(tick.snapshot, spec)
        return replace(tick, run_id=run_id, replays=replays, snapshot=snapshot, entry=0)
    assert isinstance(tick, RunStarted)
    if not takers(spec, tick.out.key, tick.out.role, tick.out.bases):
        raise WorkflowConfigurationError(
            f"Run {replays!r} began with {tick.out.key}, which no step of workflow {spec.name!r} takes. Replay it on "
            f"the workflow that it is of, {tick.spec.name!r} ({tick.spec.key})."
        )
    return replace(tick, run_id=run_id, replays=replays, spec=spec, parent=None, entry=0)


def _ask_nobody(runner: Replayer) -> None:
    """Questions whose end is recorded are put to nobody: neither to answers given ahead, nor to who is told of them."""
    questions, playback = runner.questions, runner.playback

    def guarded(call: Callable[[Runner, Request], None]) -> Callable[[Runner, Request], None]:
        def ask(owner: Runner, request: Request) -> None:
            if not playback.is_answered(request):
                call(owner, request)

        return ask

    if questions.policy is not None:
        questions.policy = guarded(questions.policy)
    if questions.on_request is not None:
        questions.on_request = guarded(questions.on_request)


def newest(run: Run[Any]) -> Workflow[Any]:
    """The newest definition of a run's own workflow.

    Raises:
        WorkflowNotDefined: This process has none.
    """
    from flownb.workflow import newest_of  # it is built on launching

    spec = run._runner.state.spec
    flow = newest_of(spec.key) or run._workflow
    if flow is None:
        raise WorkflowNotDefined(
            f"Run {run.run_id!r} is of workflow {spec.name!r} ({spec.key}), which this process has not defined. Define "
            "or import it, or name the one to replay it on: replay(workflow).",
            workflow=spec.key,
        )
    return flow


def replayed(run: Run[Any]) -> Replayed:
    """What a replay took from its recording.

    Raises:
        WorkflowRuntimeError: The run is no replay, or one of another process.
    """
    runner = run._runner
    if isinstance(runner, Replayer):
        return runner.playback.report
    base = run.replay_of
    if not base:
        raise WorkflowRuntimeError(f"Run {run.run_id!r} is no replay. Make one: run.debug.replay().")
    raise WorkflowRuntimeError(
        f"Run {run.run_id!r} is a replay of {base!r}, and only the process that replayed it knows what ran. Compare "
        f"the two: store.run({base!r}).debug.compare(store.run({run.run_id!r}))."
    )


def settled(run: Run[Any]) -> Pending[None]:
    """A handle that ends when a replay is as far as it goes by itself: over, at the end of the recording, or waiting
    for an answer that is not recorded."""
    runner = run._runner
    assert isinstance(runner, Replayer)
    playback = runner.playback
    return runner.until("the replay", lambda: playback.is_over or playback.is_waiting)
