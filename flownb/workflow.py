"""Defining workflows: a class with steps, or `Workflow("name")` and one cell a step."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Never, get_args, get_origin, overload
from weakref import WeakValueDictionary

from typing_extensions import TypeVar as DefaultTypeVar

from flownb.context import is_context
from flownb.defaults import check_choice
from flownb.definition import Definition, Policies, Step, StepOptions, define, options_of, step_of
from flownb.definition.options import amount_fault, count_fault, flag_fault, policy_fault
from flownb.definition.table import Steps
from flownb.errors import WorkflowConfigurationError, WorkflowValidationError, near
from flownb.events import Event, StartEvent
from flownb.launch import PLAIN, SETTINGS, Launcher, Settings
from flownb.marking import C, F, Runs, cancel_options, check_names, handler_options, marked, step_options
from flownb.run import ROOMS, Run, room
from flownb.runtime.capture import sink

if TYPE_CHECKING:
    from flownb.debug.breakpoints import Breakpoints
    from flownb.retry_policy import AnyRetryPolicy

R = DefaultTypeVar("R", default=Any)
#: What every workflow has that is no attribute of the class.
_OF_EVERY_WORKFLOW = ("name", "steps", "breakpoints")


class Workflow(Generic[R]):
    """A workflow: steps that take and return events.

    Args:
        name: Shown to people; the class's name by default.
        timeout: Seconds for a run; None: no limit.
        timeout_clock: What counts for `timeout`: "active", the time in which something runs, is queued, sleeps or waits
            to be tried again; "wall", all.
        unhandled: What an event that no step takes does: "warn" publishes `UnhandledEvent`, "error" fails the run,
            "ignore" only counts.
        unserializable: What a value does that a durable run cannot save: "error" fails the attempt, "live" keeps it in
            memory; None: "live" in the store that a kernel opens by itself, "error" in one that was named.
        retry_policy: For steps and children that have none of their own.
        step_timeout: Seconds for one attempt of a step that has no `timeout` of its own.
        stalled: What a run that nobody can move does: "error" fails it with the reason, "wait" keeps it open.
        accepts: Event types that come from outside.
        max_starts: Step starts along one chain of causes, after which a run is taken for one that runs in circles;
            None: no guard.
        store: Where runs are kept: a `Store`, a path, ":memory:".
        num_concurrent_runs: At most so many runs of this object live at once, the others wait; None: no limit.
        disable_validation: Leaves the checks of the graph out.
        verbose: Prints what the steps of its runs do.
        skip_graph_checks: Names of single checks to leave out.
        workflow_name: Another word for `name`.

    Raises:
        WorkflowConfigurationError: A setting that cannot be honoured.
    """

    _added: ClassVar[dict[str, tuple[Callable[..., Any], StepOptions]]]
    #: `module:qualname` of a class, `module:name` of a workflow built in cells: what stored runs name.
    _key: str = ""

    def __init__(
        self,
        name: str | None = None,
        *,
        timeout: float | None = None,
        timeout_clock: Literal["active", "wall"] = "active",
        unhandled: Literal["warn", "error", "ignore"] = "warn",
        unserializable: Literal["error", "live"] | None = None,
        retry_policy: AnyRetryPolicy | None = None,
        step_timeout: float | None = None,
        stalled: Literal["error", "wait"] = "error",
        accepts: Iterable[type[Event]] = (),
        max_starts: int | None = 100_000,
        store: Any = None,
        num_concurrent_runs: int | None = None,
        disable_validation: bool = False,
        verbose: bool = False,
        skip_graph_checks: Iterable[str] | None = (),
        workflow_name: str | None = None,
        **unknown: Never,
    ) -> None:
        for setting in unknown:
            known = tuple(Workflow.__init__.__kwdefaults__ or ())
            raise WorkflowConfigurationError(f"Workflow has no setting {setting!r}. {near(setting, known, 'It has')}")
        check_choice("timeout_clock", timeout_clock)
        check_choice("unhandled", unhandled)
        check_choice("unserializable", unserializable)
        check_choice("stalled", stalled)
        _refuse(
            amount_fault("timeout", timeout, "seconds"),
            policy_fault("retry_policy", retry_policy),
            amount_fault("step_timeout", step_timeout, "seconds"),
            count_fault("max_starts", max_starts),
            count_fault("num_concurrent_runs", num_concurrent_runs),
            flag_fault("disable_validation", disable_validation),
            flag_fault("verbose", verbose),
        )
        kind = type(self)
        in_cells = kind is Workflow
        self.name = _name(name, workflow_name) or ("workflow" if in_cells else kind.__name__)
        if in_cells:
            self._key = f"{_calling_module()}:{self.name}"
        self._timeout = timeout
        self._timeout_clock: Literal["active", "wall"] = timeout_clock
        self._unhandled: Literal["warn", "error", "ignore"] = unhandled
        self._stalled: Literal["error", "wait"] = stalled
        self._accepts = _accepted(accepts)
        self._unserializable = unserializable
        self._retry_policy, self._step_timeout, self._max_starts = retry_policy, step_timeout, max_starts
        self._store = store
        self._num_concurrent_runs = num_concurrent_runs
        self._verbose = verbose
        self._check, self._skip = not disable_validation, check_names(skip_graph_checks or ())
        self._told_assigning = False
        #: Its enabled breakpoints: one list for all its runs.
        self._stands: list[Any] = []
        self._breakpoints: Breakpoints | None = None
        self._definition: Definition | None = None
        self._seen_added: list[Callable[..., Any]] = []
        self.steps = Steps(self._forget)
        for step_name, fn, found in _class_steps(kind):
            self.steps[step_name] = step_of(step_name, fn, found, self, is_context)
        _objects[self._key] = self

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._added = {}
        cls._key = f"{cls.__module__}:{cls.__qualname__}"
        _classes[cls._key] = cls
        clashes = [
            name
            for name, value in vars(cls).items()
            if options_of(value) is not None and (hasattr(Workflow, name) or name in _OF_EVERY_WORKFLOW)
        ]
        if clashes:
            raise WorkflowValidationError(
                cls.__name__,
                [f"step {name!r} has the name of something that every workflow has. Rename it." for name in clashes],
            )

    def __getstate__(self) -> dict[str, Any]:
        """Pickled (a method that runs in another process), it is what its user put on it: no steps, no store."""
        of_the_engine = vars(Workflow("any")).keys() - {"name"}
        return {name: value for name, value in vars(self).items() if name not in of_the_engine}

    def __setattr__(self, name: str, value: Any) -> None:
        if sink.get() is not None and name not in _OF_THE_ENGINE:
            self._warn_of_assigning(name)
        object.__setattr__(self, name, value)

    def _warn_of_assigning(self, name: str) -> None:
        """One object serves all deliveries of all runs, and no journal has what a step puts on it."""
        running: Step | None = getattr(sink.get(), "step", None)
        if running is None or running.owner is not self or self._told_assigning:
            return
        self._told_assigning = True
        warnings.warn(
            f"Step {running.name!r} of workflow {self.name!r} sets self.{name}: one object serves all runs, and "
            f'after a restart it is not there. Use ctx.state.set("{name}", ...).',
            UserWarning,
            stacklevel=3,
        )

    # -- defining

    @overload
    def step(self, fn: F, /) -> F: ...
    @overload
    def step(
        self,
        fn: None = None,
        /,
        *,
        num_workers: int | None = 4,
        retry_policy: AnyRetryPolicy | None = None,
        timeout: float | None = None,
        on_error: Literal["fail", "continue"] | None = None,
        executor: str | None = None,
        idempotent: bool = True,
        sends: Literal["at_once", "on_success"] = "at_once",
        rate: float | None = None,
        runs: Runs = (),
        skip_graph_checks: Iterable[str] = (),
        accept_event_subclasses: bool = True,
    ) -> Callable[[F], F]: ...
    def step(self, fn: Any = None, /, **options: Any) -> Any:
        """Add a function as a step; in a notebook, running its cell again replaces it. Options as in `flownb.step`."""
        return marked(fn, lambda f: self._add(f, step_options("@step", options)))

    @overload
    def catch_error(self, fn: F, /) -> F: ...
    @overload
    def catch_error(
        self, fn: None = None, /, *, for_steps: Sequence[str] | None = None, max_recoveries: int | None = 1
    ) -> Callable[[F], F]: ...
    def catch_error(self, fn: Any = None, /, **options: Any) -> Any:
        """Add a step that takes the failures of others. Options as in `flownb.catch_error`."""
        return marked(fn, lambda f: self._add(f, handler_options(options)))

    def on_cancel(self, fn: C, /) -> C:
        """Add a step that runs when a run is cancelled, as `flownb.on_cancel`."""
        self._add(fn, cancel_options())
        return fn

    def _add(self, fn: Any, made: StepOptions) -> Any:
        name = fn.__name__
        self.steps[name] = step_of(name, fn, made, None, is_context)
        _last_steps[self._key] = tuple(self.steps)
        return fn

    def _forget(self) -> None:
        self._definition = None

    @property
    def definition(self) -> Definition:
        """The checked definition; built on first need.

        Raises:
            WorkflowValidationError: With every fault.
        """
        added = [fn for base in type(self).__mro__ for fn, _ in vars(base).get("_added", {}).values()]
        if added != self._seen_added:
            self._take_added()
            self._seen_added = added
        if self._definition is None:
            self._drop_outdated()
            self._definition = define(
                self.name,
                self._key,
                list(self.steps.values()),
                accepts=self._accepts,
                unhandled=self._unhandled,
                stalled=self._stalled,
                policies=Policies(
                    self._retry_policy, self._step_timeout, self._timeout, self._timeout_clock, self._max_starts
                ),
                result=_result_of(self),
                check=self._check,
                skip=self._skip,
                notes=self._left_behind,
            )
        return self._definition

    def validate(self) -> bool:
        """Check the definition now; whether a step may ask a person.

        Raises:
            WorkflowValidationError: With every fault.
        """
        return any(step.asks for step in self.definition.spec.steps)

    def _take_added(self) -> None:
        """Free functions that were added to the class after this object was made."""
        for base in reversed(type(self).__mro__):
            for name, (fn, made) in vars(base).get("_added", {}).items():
                if name not in self.steps or self.steps[name].fn is not fn:
                    self.steps[name] = step_of(name, fn, made, None, is_context)

    def _drop_outdated(self) -> None:
        """Steps of an older run of a cell that does not define them any more (a function was renamed)."""
        last: dict[str, str] = {}
        for step in self.steps.values():
            at, execution = step.options.cell
            if at:
                last[at] = max(last.get(at, ""), execution)
        for name, step in list(self.steps.items()):
            at, execution = step.options.cell
            if at and execution != last[at]:
                del self.steps[name]
                print(f"flownb: step {name!r} is gone: its cell was run again and does not define it.", file=sys.stderr)

    def _left_behind(self) -> list[str]:
        """If the cell `flow = Workflow("x")` was run again, the steps are still on the older object."""
        older = _last_steps.get(self._key)
        if self.steps or not older:
            return []
        names = ", ".join(older)
        return [
            f"Workflow({self.name!r}) was made again and is empty; {names} are on the older object. "
            "Run their cells again."
        ]

    # -- running

    def run(
        self, ctx: Any = None, start_event: StartEvent | None = None, *, run_id: str | None = None, **fields: Any
    ) -> Run[R]:
        """Start a run and return its handle at once; `await` it or call `.result()` for the result.

        Args:
            ctx: A context (`Context(flow)`, `run.ctx`, `Context.from_dict(...)`): an unfinished run in it goes on as
                this one, without a start event; of a finished one the state is kept. A start event may stand here too.
            start_event: The input as an object.
            run_id: 1 to 128 of letters, digits, `.`, `_`, `-`; made up if None.
            fields: The start event's fields, in place of `start_event`.

        Raises:
            WorkflowValidationError: The workflow is defined wrongly, or the fields do not fit its start event.
            ContextStateError: The context's run goes on.
        """
        return Launcher(self, PLAIN).run(ctx, start_event, run_id=run_id, **fields)

    def debug(
        self, ctx: Any = None, start_event: StartEvent | None = None, *, run_id: str | None = None, **fields: Any
    ) -> Run[R]:
        """The same with the gate closed from the first tick on: step through it with `run.debug.step()`."""
        return Launcher(self, PLAIN).debug(ctx, start_event, run_id=run_id, **fields)

    def resume(self, run: Any = None, *, retry_failed: bool = False) -> Run[R]:
        """Go on with a run that nobody drives, or from a snapshot.

        Args:
            run: A run id: of a live run its handle, of a suspended one it goes on, of a completed one its handle with
                the result. Or a snapshot, also read back from JSON: as the same run where that is not known, else as
                a new one.
            retry_failed: Fork a failed or cancelled run just before that.

        Raises:
            RunNotFound: There is no such run.
            WorkflowRuntimeError: It failed or was cancelled.
            ContextSerdeError: Values in the snapshot cannot be rebuilt here; names all of them.
            DefinitionChanged: A step with work is gone.
        """
        return Launcher(self, PLAIN).resume(run, retry_failed=retry_failed)

    def with_options(self, **settings: Any) -> Launcher[R]:
        """The workflow with settings for its runs: `flow.with_options(store="runs.db").run(...)`.

        Args:
            settings: store, timeout (seconds of active time), state (the first state, a mapping), answers and
                answers_if ("always" or "headless"), input_handler, on_request, on_nobody ("wait" or "error"), host,
                executors, on_interrupt ("cancel" or "detach"), panel ("auto", "full" or "off"), clock, secrets (those
                that a stored run needs and its store has not, `{"Login.password": "..."}`), unload_after (seconds
                after which a run of which nothing runs gives back its coroutines and its lease).
        """
        for name, value in settings.items():
            if name not in SETTINGS:
                raise WorkflowConfigurationError(f"There is no option {name!r}. {near(name, SETTINGS, 'There are')}")
            check_choice(name, value)
        return Launcher(self, Settings(**settings))

    @property
    def breakpoints(self) -> Breakpoints:
        """Where its runs stop: one collection for all of them, `flow.breakpoints.add(step=...)`."""
        if self._breakpoints is None:
            self._breakpoints = room("breakpoints")(self)
        return self._breakpoints

    @property
    def view(self) -> Any:
        """Pictures of the definition: `.graph()`, `.to_dot()`, `.to_mermaid()`, `.to_svg()`."""
        return room("flow_view")(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """The graph as a cell's output; its faults in words."""
        try:
            return self.view._repr_mimebundle_()  # type: ignore[no-any-return]
        except WorkflowValidationError as error:
            return {"text/plain": f"{self!r}\n{error}"}

    def __repr__(self) -> str:
        return f"<Workflow {self.name}: {', '.join(self.steps) or 'no steps yet'}>"


def _calling_module() -> str:
    """The module that makes a workflow; `Workflow[R]("x")` calls by way of `typing`."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") == "typing":
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", "__main__")) if frame is not None else "__main__"


def _class_steps(kind: type) -> Iterator[tuple[str, Callable[..., Any], StepOptions]]:
    """Methods of a class that are steps, in the order of their definition, bases first."""
    found: dict[str, tuple[Callable[..., Any], StepOptions]] = {}
    for base in reversed(kind.__mro__):
        for name, value in vars(base).items():
            made = options_of(value)
            if made is not None and made.workflow is None:
                found[name] = value, made
            elif name in found:
                del found[name]  # overridden by something that is no step
    for name, (fn, made) in found.items():
        yield name, fn, made


def workflow_of(key: str) -> Workflow[Any] | None:
    """The workflow that a key means in this process: the newest object, else one made of the newest class."""
    found = _objects.get(key)
    if found is not None:
        return found
    kind = _classes.get(key)
    try:
        return kind() if kind is not None else None
    except TypeError:  # its constructor takes arguments: only an object of it can go on
        return None


def newest_of(key: str) -> Workflow[Any] | None:
    """The same; of a class that was defined again an object of the new class, if it can be made without arguments."""
    found, kind = _objects.get(key), _classes.get(key)
    if kind is not None and type(found) is not kind:
        try:
            return kind()
        except TypeError:
            return found
    return found if found is not None else workflow_of(key)


#: Workflows of this process by key: the objects that somebody holds, and the classes.
_objects: WeakValueDictionary[str, Workflow[Any]] = WeakValueDictionary()
_classes: WeakValueDictionary[str, type[Workflow[Any]]] = WeakValueDictionary()
#: What the engine itself sets on a workflow, at any time.
_OF_THE_ENGINE = ("_definition", "_seen_added", "_told_assigning", "_breakpoints")
#: Steps of the workflows that were built in cells, by key: what a new one of that name leaves behind.
_last_steps: dict[str, tuple[str, ...]] = {}


def _refuse(*faults: str) -> None:
    """Raises WorkflowConfigurationError with all settings that cannot be honoured; "" is none."""
    found = [fault for fault in faults if fault]
    if found:
        raise WorkflowConfigurationError(f"Workflow: {' '.join(found)}")


def _name(name: Any, workflow_name: Any) -> str | None:
    if name is not None and workflow_name is not None:
        raise WorkflowConfigurationError("Workflow: give name or workflow_name, not both.")
    found = workflow_name if name is None else name
    if found is None or isinstance(found, str):
        return found
    raise WorkflowConfigurationError(f"Workflow: its name is {found!r}; give text. Other settings are given by name.")


def _accepted(given: Any) -> tuple[type[Event], ...]:
    found: tuple[Any, ...] = (given,) if isinstance(given, (type, str)) else tuple(given)
    for cls in found:
        if not (isinstance(cls, type) and issubclass(cls, Event)):
            raise WorkflowConfigurationError(f"Workflow: accepts names {cls!r}, which is no event type.")
    return found


def _result_of(workflow: Workflow[Any]) -> Any:
    """`Report` of `Workflow[Report]`, of the object or of its classes; None if nothing is said."""
    alias = getattr(workflow, "__orig_class__", None)
    bound: dict[Any, Any] = dict(zip(getattr(get_origin(alias), "__parameters__", ()), get_args(alias), strict=False))
    if type(workflow) is Workflow:
        return bound.get(R)
    for kind in type(workflow).__mro__:
        for base in vars(kind).get("__orig_bases__", ()):
            args = [bound.get(arg, arg) for arg in get_args(base)]
            if get_origin(base) is Workflow:
                return args[0]
            bound.update(zip(getattr(get_origin(base), "__parameters__", ()), args, strict=False))
    return None


ROOMS["flow_view"] = ("flownb.notebook.views", "FlowViews")

__all__ = ["Launcher", "Settings", "Steps", "Workflow"]
