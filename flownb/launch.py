"""Starting runs: the settings of a launch, and the runner that drives what is launched."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal
from weakref import WeakKeyDictionary

from msgspec import Struct
from msgspec.structs import replace
from typing_extensions import TypeVar

from flownb.answering import readmitted, schema_in
from flownb.awaiting import is_headless
from flownb.context import Context
from flownb.core.state import Child
from flownb.core.ticks import GateReason, Parent, RunForked, RunOpened, RunStarted, Terms
from flownb.core.values import Out
from flownb.defaults import options
from flownb.definition import Definition, inherited
from flownb.errors import caller_level
from flownb.events import StartEvent
from flownb.policy import AnswerPolicy, Notice
from flownb.run import Run, room
from flownb.runs import Store, store_for
from flownb.runtime.clock import Clock, SystemClock
from flownb.runtime.copying import copied, is_flat
from flownb.runtime.host import Host, host_for, in_kernel
from flownb.runtime.line import Line
from flownb.runtime.results import out_of
from flownb.runtime.runner import Runner, Shared
from flownb.runtime.stored import Stored
from flownb.runtime.worker import Worker
from flownb.starting import checked_id, finding, known, same_run, start_event

if TYPE_CHECKING:
    from flownb.workflow import Workflow

R = TypeVar("R", default=Any)
_clock = SystemClock()
#: Of most runs: shared, and never changed.
_NO_STATE: dict[str, Out] = {}
#: Of workflows with `num_concurrent_runs`: their runs that wait to begin.
lines: WeakKeyDictionary[Workflow[Any], Line] = WeakKeyDictionary()


class Settings(Struct, frozen=True):
    """What `with_options` sets; None takes what the workflow or `flownb.options` says."""

    store: Any = None
    #: Seconds of active time for the whole run.
    timeout: float | None = None
    state: Mapping[str, Any] | None = None
    answers: Mapping[Any, Any] | None = None
    answers_if: Literal["always", "headless"] = "always"
    input_handler: Callable[..., Any] | None = None
    #: "error": waiting for a run that asks a person whom nobody can ask raises, in a script too.
    on_nobody: Literal["wait", "error"] | None = None
    #: Slot -> executor, for steps with `executor=`.
    executors: Mapping[str, Any] | None = None
    host: str | None = None
    on_interrupt: str | None = None
    panel: str | None = None
    clock: Clock | None = None
    #: Called with each question that opens.
    on_request: Callable[..., Any] | None = None
    #: Secrets that a stored run needs and its store has not: `{"Login.password": "..."}`.
    secrets: Mapping[str, Any] | None = None
    #: Seconds after which a run of which nothing runs gives back its coroutines and its lease; they run again from
    #: their top when something comes.
    unload_after: float | None = None


#: Those of most runs.
PLAIN = Settings()
#: What `with_options` takes.
SETTINGS = Settings.__struct_fields__


class Launcher(Generic[R]):
    """A workflow with settings for its runs."""

    def __init__(self, workflow: Workflow[R], settings: Settings) -> None:
        self._workflow = workflow
        self._settings = settings

    def with_options(self, **settings: Any) -> Launcher[R]:
        """More settings on top of these."""
        self._workflow.with_options(**settings)
        return Launcher(self._workflow, replace(self._settings, **settings))

    def run(
        self, ctx: Any = None, start_event: StartEvent | None = None, *, run_id: str | None = None, **fields: Any
    ) -> Run[R]:
        """See `Workflow.run`."""
        return self._begin(ctx, start_event, run_id, fields, ())

    def debug(
        self, ctx: Any = None, start_event: StartEvent | None = None, *, run_id: str | None = None, **fields: Any
    ) -> Run[R]:
        """See `Workflow.debug`."""
        return self._begin(ctx, start_event, run_id, fields, ("person",))

    def resume(self, run: Any = None, *, retry_failed: bool = False) -> Run[R]:
        """See `Workflow.resume`."""
        from flownb.resuming import resume_run  # it builds on this module

        return resume_run(self._workflow, self._settings, run, retry_failed=retry_failed)

    def _begin(
        self, ctx: Any, event: StartEvent | None, run_id: str | None, fields: dict[str, Any], gate: tuple[Any, ...]
    ) -> Run[R]:
        workflow, settings = self._workflow, self._settings
        if isinstance(ctx, StartEvent):  # it may come first
            ctx, event = None, ctx
        state: Mapping[str, Any] = settings.state or {}
        if ctx is not None:
            from flownb.resuming import go_on  # it builds on this module

            resumed, state = go_on(workflow, settings, ctx, run_id, gate, state)
            if resumed is not None:
                if event is not None or fields:
                    warnings.warn(
                        f"Run {resumed.run_id!r} goes on from an unfinished one, so its start event is not used.",
                        UserWarning,
                        stacklevel=caller_level(),
                    )
                return resumed
        definition = workflow.definition
        first = start_event(definition, event, fields)
        run_id = checked_id(run_id)
        store = store_of(workflow, settings)
        with finding:
            same = same_run(store, run_id, definition, first)
            runner = same or self._new(definition, first, event is not None, run_id, gate, state, store)
            known[store, run_id] = runner
        if same is not None:
            from flownb.resuming import driven  # it builds on this module

            same.notice_loss()
            known_run = Run(same, workflow, settings)
            return known_run if same.ended else driven(known_run)
        run = launched(runner, workflow, settings, full=bool(gate))
        if ctx is not None:
            ctx.bind(run)
        return run

    def _new(
        self,
        definition: Definition,
        first: StartEvent,
        is_given: bool,
        run_id: str,
        gate: tuple[Any, ...],
        state: Mapping[str, Any],
        store: Store | None,
    ) -> Runner:
        """A run that is ready to be launched.

        Args:
            definition: Of the workflow.
            first: The start event.
            is_given: It is somebody else's object.
            run_id: Its id.
            gate: Why its gate is closed.
            state: The user's state.
            store: Where it is kept.

        Raises:
            NotStorable: The journal cannot hold one of the values.
        """
        workflow, settings = self._workflow, self._settings
        now = (settings.clock or _clock).now()
        if is_given or not is_flat(first):  # made here of plain values, it is nobody's but ours
            first = copied(first)
        out = out_of(first, definition, now)
        started = RunStarted(now, run_id, definition.spec, out, gate, _NO_STATE, terms_of(definition, settings))
        host = host_for(settings.host or options.host)
        runner = runner_for(workflow, definition, started, settings, host, store)
        runner.checked(started.out)
        if state:
            runner.set_first_state(state)
        return runner


def store_of(workflow: Workflow[Any], settings: Settings) -> Store | None:
    """Where a run is kept."""
    return store_for(settings.store or workflow._store or options.store)


def terms_of(definition: Definition, settings: Settings) -> Terms:
    """What a run is started with, beside its workflow and input."""
    policies = definition.policies
    return Terms(
        timeout_s=policies.timeout if settings.timeout is None else settings.timeout,
        timeout_clock=policies.timeout_clock,
        max_starts=policies.max_starts if policies.max_starts is not None else 1 << 62,
        livelock="pause" if in_kernel() and not is_headless() else "fail",
    )


def runner_for(
    workflow: Workflow[Any] | None,
    definition: Definition,
    first: RunStarted | RunForked | RunOpened,
    settings: Settings,
    host: Host,
    store: Store | None,
    shared: Shared | None = None,
) -> Runner:
    """A runner that is ready to be launched; `shared` is the past of one that does not begin with its first tick."""
    runner = Runner(
        definition,
        first,
        host=host,
        clock=settings.clock or _clock,
        committer=store._committer if store is not None else None,
        make_context=outfit,
        quiet_output=in_kernel(),
        shared=shared,
    )
    equip(runner, workflow, settings, store)
    return runner


def equip(runner: Runner, workflow: Workflow[Any] | None, settings: Settings, store: Store | None) -> None:
    """Give a runner what its workflow and its launch say beside the definition; a run of no workflow that this process
    has can be looked at."""
    if store is not None and runner.stored is None:
        runner.stored = Stored(store._committer, readmitted, schema_in, notebook())
    runner.unload_after = settings.unload_after
    if settings.executors:
        runner.executors = settings.executors
    if (settings.answers or settings.input_handler) and (settings.answers_if == "always" or is_headless()):
        runner.questions.policy = AnswerPolicy(settings.answers, settings.input_handler)
    if settings.on_request is not None:
        runner.questions.on_request = Notice(settings.on_request)
    if workflow is not None:
        runner.owner, runner.stands, runner.unserializable = workflow, workflow._stands, workflow._unserializable
    runner.make_child, runner.settings, runner.store = child_maker, settings, store


def notebook() -> str:
    """Path of the notebook whose kernel this is, as the front end told it; "" where that is not known (R1.39)."""
    return os.environ.get("JPY_SESSION_NAME", "") if in_kernel() else ""


def launched(runner: Runner, workflow: Workflow[Any], settings: Settings, *, full: bool) -> Run[Any]:
    """Drive one that is known by its id, and show its panel where there is one."""
    run: Run[Any] = Run(runner, workflow, settings)
    if in_kernel():
        room("capture")()  # before the first step can display anything
    line = line_of(workflow)
    if line is None:
        runner.host.call(runner.launch)
    else:
        line.enter(runner, runner.launch)
    shown_at_start(run, full=full)
    return run


def line_of(workflow: Workflow[Any]) -> Line | None:
    """Where its runs wait for their turn, if not all of them may live at once."""
    limit = workflow._num_concurrent_runs
    return None if limit is None else lines.setdefault(workflow, Line(limit))


def shown_at_start(run: Run[Any], *, full: bool) -> None:
    """Show its panel, where there is one."""
    panel = (run._settings.panel or options.panel) if in_kernel() else "off"
    if panel != "off":
        room("display")(run, full=full or panel == "full")


def make_known(runner: Runner, workflow: Workflow[Any], settings: Settings) -> None:
    """From now on this process finds it by its store and id."""
    known[store_of(workflow, settings), runner.run_id] = runner


def child_maker(runner: Runner, flow: Workflow[Any]) -> Callable[[Runner, Child], Runner]:
    """How a run of this workflow is made as a child of a run; it is driven where that is."""
    settings: Settings = runner.settings
    store: Store | None = runner.store

    def make(parent: Runner, child: Child) -> Runner:
        from flownb.restoring import is_in, restored  # it builds on this module

        own = replace(settings, clock=parent.clock)
        if is_in(store, child.run_id):  # an earlier process began it
            assert store is not None
            old = restored(store, child.run_id, flow, own, parent.host)
            _take_in(old, flow, parent)
            return old
        definition = flow.definition
        gate: tuple[GateReason, ...] = ("parent",) if parent.state.gate else ()
        terms = terms_of(definition, replace(settings, timeout=None))
        link = Parent(parent.run_id, child.id)
        now = parent.clock.now()
        started = RunStarted(now, child.run_id, definition.spec, child.out, gate, terms=terms, parent=link)
        runner = runner_for(flow, definition, started, own, parent.host, store)
        _take_in(runner, flow, parent)
        known[store, child.run_id] = runner
        return runner

    return make


def _take_in(runner: Runner, flow: Workflow[Any], parent: Runner) -> None:
    """A child inherits from its parent."""
    runner.policies = inherited(flow.definition.policies, parent.policies)
    runner._context = parent._context  # its steps see what the caller of its parent had set


def outfit(worker: Worker) -> Context[Any]:
    """The context that a step gets."""
    return Context(worker, worker.step.state_model)


__all__ = ["PLAIN", "SETTINGS", "Launcher", "Settings"]
