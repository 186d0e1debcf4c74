"""Defining workflows: a class with steps, or `Workflow("name")` and one cell a step."""

from __future__ import annotations

import re
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from types import FrameType
from typing import Any, ClassVar, Generic, Literal, TypeVar, overload
from weakref import WeakValueDictionary

from msgspec import Struct
from msgspec.structs import replace
from pydantic import ValidationError
from typing_extensions import TypeVar as DefaultTypeVar

from flownb.awaiting import is_headless
from flownb.context import Context, is_context
from flownb.core.graph import short
from flownb.core.spec import takers
from flownb.core.ticks import RunStarted
from flownb.core.values import alike
from flownb.defaults import check_choice, options
from flownb.definition import CHECKS, Definition, Step, StepOptions, define, options_of, step_of
from flownb.definition.steps import ATTRIBUTE, nested_names
from flownb.errors import RunConflict, WorkflowConfigurationError, WorkflowValidationError, near
from flownb.events import Event, StartEvent, newest
from flownb.policy import AnswerPolicy
from flownb.run import ROOMS, Run, room
from flownb.runs import Store, store_for
from flownb.runtime.clock import Clock, SystemClock
from flownb.runtime.copying import copied
from flownb.runtime.host import Host, cell, host_for, in_kernel
from flownb.runtime.results import out_of
from flownb.runtime.runner import Runner
from flownb.runtime.worker import Worker

R = DefaultTypeVar("R", default=Any)
F = TypeVar("F", bound=Callable[..., Any])

_RUN_ID = re.compile(r"[A-Za-z0-9._-]{1,128}\Z")
_clock = SystemClock()
#: Runs of this process that are live or that somebody holds, by store and id.
_known: WeakValueDictionary[tuple[Store | None, str], Runner] = WeakValueDictionary()


class Settings(Struct, frozen=True):
    """What `with_options` sets; None takes what the workflow or `flownb.options` says."""

    store: Any = None
    state: Mapping[str, Any] | None = None
    answers: Mapping[Any, Any] | None = None
    answers_if: Literal["always", "headless"] = "always"
    input_handler: Callable[..., Any] | None = None
    host: str | None = None
    on_interrupt: str | None = None
    panel: str | None = None
    clock: Clock | None = None


#: What every workflow has that is no attribute of the class.
_OF_EVERY_WORKFLOW = ("name", "steps", "breakpoints")

_SETTINGS = Settings.__struct_fields__


class Steps(MutableMapping[str, Step]):
    """The steps of a workflow by name; `del flow.steps["find"]` takes one out."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._steps: dict[str, Step] = {}
        self._changed = changed

    def __getitem__(self, name: str) -> Step:
        if name not in self._steps:
            raise KeyError(f"There is no step {name!r}. {near(name, list(self._steps), 'There are')}")
        return self._steps[name]

    def __setitem__(self, name: str, step: Step) -> None:
        self._steps[name] = step
        self._changed()

    def __delitem__(self, name: str) -> None:
        del self._steps[name]
        self._changed()

    def __iter__(self) -> Iterator[str]:
        return iter(self._steps)

    def __len__(self) -> int:
        return len(self._steps)

    def __repr__(self) -> str:
        return f"<steps {', '.join(self._steps) or 'none'}>"


class Workflow(Generic[R]):
    """A workflow: steps that take and return events.

    Args:
        name: Shown to people; the class's name by default.
        unhandled: What an event that no step takes does: "warn" publishes `UnhandledEvent`, "error" fails the run,
            "ignore" only counts.
        stalled: What a run that nobody can move does: "error" fails it with the reason, "wait" keeps it open.
        accepts: Event types that come from outside.
        store: Where runs are kept: a `Store`, a path, ":memory:".
        disable_validation: Leaves the checks of the graph out.
        skip_graph_checks: Names of single checks to leave out.
    """

    _added: ClassVar[dict[str, tuple[Callable[..., Any], StepOptions]]]

    def __init__(
        self,
        name: str | None = None,
        *,
        unhandled: Literal["warn", "error", "ignore"] = "warn",
        stalled: Literal["error", "wait"] = "error",
        accepts: Iterable[type[Event]] = (),
        store: Any = None,
        disable_validation: bool = False,
        skip_graph_checks: Iterable[str] = (),
    ) -> None:
        check_choice("unhandled", unhandled)
        check_choice("stalled", stalled)
        kind = type(self)
        in_cells = kind is Workflow
        self.name = name or ("workflow" if in_cells else kind.__name__)
        module = _calling_module() if in_cells else kind.__module__
        self._key = f"{module}:{self.name if in_cells else kind.__qualname__}"
        self._unhandled, self._stalled, self._accepts = unhandled, stalled, tuple(accepts)
        self._store = store
        self._check, self._skip = not disable_validation, _checks(skip_graph_checks)
        self._definition: Definition | None = None
        self._seen_added: list[Callable[..., Any]] = []
        self.steps = Steps(self._forget)
        for step_name, fn, found in _class_steps(kind):
            self.steps[step_name] = step_of(step_name, fn, found, self, is_context)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._added = {}
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

    # -- defining

    @overload
    def step(self, fn: F, /) -> F: ...
    @overload
    def step(self, fn: None = None, /, **found: Any) -> Callable[[F], F]: ...
    def step(self, fn: Any = None, /, **found: Any) -> Any:
        """Add a function as a step; in a notebook, running its cell again replaces it. Options as in `flownb.step`."""
        if fn is None:
            return lambda f: self._add(f, found)
        return self._add(fn, found)

    def _add(self, fn: Any, found: dict[str, Any]) -> Any:
        made = _options(found)
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

    def run(self, start_event: StartEvent | None = None, *, run_id: str | None = None, **fields: Any) -> Run[R]:
        """Start a run and return its handle at once; `await` it or call `.result()` for the result.

        Args:
            start_event: The input as an object.
            run_id: 1 to 128 of letters, digits, `.`, `_`, `-`; made up if None.
            fields: The start event's fields, in place of `start_event`.

        Raises:
            WorkflowValidationError: The workflow is defined wrongly, or the fields do not fit its start event.
        """
        return Launcher(self, Settings()).run(start_event, run_id=run_id, **fields)

    def debug(self, start_event: StartEvent | None = None, *, run_id: str | None = None, **fields: Any) -> Run[R]:
        """The same with the gate closed from the first tick on: step through it with `run.debug.step()`."""
        return Launcher(self, Settings()).debug(start_event, run_id=run_id, **fields)

    def with_options(self, **settings: Any) -> Launcher[R]:
        """The workflow with settings for its runs: `flow.with_options(store="runs.db").run(...)`.

        Args:
            settings: store, state (the first state, a mapping), answers and answers_if ("always" or "headless"),
                input_handler, host, on_interrupt ("cancel" or "detach"), panel ("auto", "full" or "off"), clock.
        """
        for name, value in settings.items():
            if name not in _SETTINGS:
                raise WorkflowConfigurationError(f"There is no option {name!r}. {near(name, _SETTINGS, 'There are')}")
            check_choice(name, value)
        return Launcher(self, Settings(**settings))

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


class Launcher(Generic[R]):
    """A workflow with settings for its runs."""

    def __init__(self, workflow: Workflow[R], settings: Settings) -> None:
        self._workflow = workflow
        self._settings = settings

    def with_options(self, **settings: Any) -> Launcher[R]:
        """More settings on top of these."""
        self._workflow.with_options(**settings)
        return Launcher(self._workflow, replace(self._settings, **settings))

    def run(self, start_event: StartEvent | None = None, *, run_id: str | None = None, **fields: Any) -> Run[R]:
        """See `Workflow.run`."""
        return self._start(start_event, run_id, fields, ())

    def debug(self, start_event: StartEvent | None = None, *, run_id: str | None = None, **fields: Any) -> Run[R]:
        """See `Workflow.debug`."""
        return self._start(start_event, run_id, fields, ("person",))

    def _start(
        self, event: StartEvent | None, run_id: str | None, fields: dict[str, Any], gate: tuple[Any, ...]
    ) -> Run[R]:
        workflow, settings = self._workflow, self._settings
        definition = workflow.definition
        first = _start_event(definition, event, fields)
        if run_id is None:
            run_id = secrets.token_hex(4)
        elif not _RUN_ID.match(run_id):
            raise WorkflowConfigurationError(
                f"run_id {run_id!r} is not 1 to 128 of letters, digits, '.', '_' and '-'.", run_id=run_id
            )
        clock = settings.clock or _clock
        store: Store | None = store_for(settings.store or workflow._store or options.store)
        same = _same_run(store, run_id, definition, first)
        if same is not None:
            return Run(same, workflow, settings)
        host: Host = host_for(settings.host or options.host)
        now = clock.now()
        started = RunStarted(now, run_id, definition.spec, out_of(copied(first), definition, now), gate)
        runner = Runner(
            definition,
            started,
            host=host,
            clock=clock,
            committer=store._committer if store is not None else None,
            make_context=_context_for,
            quiet_output=in_kernel(),
        )
        runner.checked(started.out)
        if settings.state:
            runner.set_first_state(settings.state)
        run: Run[R] = Run(runner, workflow, settings)
        if (settings.answers or settings.input_handler) and (settings.answers_if == "always" or is_headless()):
            runner.questions.policy = AnswerPolicy(settings.answers, settings.input_handler)
        _known[store, run_id] = runner
        panel = (settings.panel or options.panel) if in_kernel() else "off"
        show = room("display") if panel != "off" else None
        if in_kernel():
            room("capture")()  # before the first step can display anything
        host.call(runner.launch)
        if show is not None:
            show(run, full=bool(gate) or panel == "full")
        return run


def _same_run(store: Store | None, run_id: str, definition: Definition, first: StartEvent) -> Runner | None:
    """The run that has this id already (R5.1), None if the id is free.

    Raises:
        RunConflict: It has another input or workflow, or is of an earlier process.
    """
    known = _known.get((store, run_id))
    if known is not None:
        started = known.first
        differs = [
            word
            for word, same in (
                ("workflow", started.spec.name == definition.spec.name),
                ("input", alike(started.out.value, first)),
            )
            if not same
        ]
        if differs:
            raise RunConflict(
                f"There is a run {run_id!r} already, with another {' and '.join(differs)}. Give another run_id.",
                run_id=run_id,
                differs=tuple(differs),
            )
        return known
    if store is not None and store.journal.last_seq(run_id):
        raise RunConflict(
            f"There is a run {run_id!r} in {store.place} already, of an earlier process. Give another run_id.",
            run_id=run_id,
            differs=(),
        )
    return None


def _start_event(definition: Definition, event: StartEvent | None, fields: dict[str, Any]) -> StartEvent:
    kind = newest(definition.spec.start) or definition.start
    if event is not None:
        if fields:
            raise WorkflowConfigurationError("Give a start event or its fields, not both.")
        if not isinstance(event, StartEvent):
            raise WorkflowConfigurationError(f"{event!r} is no StartEvent; run takes {short(definition.spec.start)}.")
        key, role, bases = type(event).__flownb_kind__
        if not takers(definition.spec, key, role, bases):
            raise WorkflowConfigurationError(
                f"No step of workflow {definition.spec.name!r} takes {key}; run takes {short(definition.spec.start)}."
            )
        return event
    _refuse_misspelt(definition, kind, fields)
    try:
        return kind(**fields)  # type: ignore[return-value]
    except ValidationError as error:
        said = [f"start field {'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
        if any(e["type"] == "missing" for e in error.errors()):
            needs = ", ".join(name for name, f in kind.model_fields.items() if f.is_required())
            said.append(f"{kind.__name__} needs: {needs}.")
        raise WorkflowValidationError(definition.spec.name, said) from None


def _refuse_misspelt(definition: Definition, kind: type[Event], fields: dict[str, Any]) -> None:
    """An undeclared start field is kept, but one that looks like a declared one which was not given is a typo."""
    left = [name for name in kind.model_fields if name not in fields]
    for name in fields:
        if left and name not in kind.model_fields:
            import difflib  # only an undeclared name pays for it

            close = difflib.get_close_matches(name, left, n=1)
            if close:
                raise WorkflowValidationError(
                    definition.spec.name,
                    [f"{kind.__name__} has no start field {name!r}. Did you mean {close[0]!r}?"],
                )


def _calling_module() -> str:
    """The module that makes a workflow; `Workflow[R]("x")` calls by way of `typing`."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") == "typing":
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", "__main__")) if frame is not None else "__main__"


def _context_for(worker: Worker) -> Context[Any]:
    return Context(worker, worker.step.state_model)


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


_OPTIONS = ("num_workers", "skip_graph_checks", "workflow")
#: Steps of the workflows that were built in cells, by key: what a new one of that name leaves behind.
_last_steps: dict[str, tuple[str, ...]] = {}


def _checks(names: Iterable[str]) -> tuple[str, ...]:
    """Names of checks, each of which there is."""
    names = (names,) if isinstance(names, str) else tuple(names)
    for name in names:
        if name not in CHECKS:
            raise WorkflowConfigurationError(f"There is no graph check {name!r}. {near(name, CHECKS, 'There are')}")
    return names


def _options(found: dict[str, Any]) -> StepOptions:
    for name in found:
        if name not in _OPTIONS:
            raise WorkflowConfigurationError(f"@step has no option {name!r}. {near(name, _OPTIONS, 'It has')}")
    if "skip_graph_checks" in found:
        found = {**found, "skip_graph_checks": _checks(found["skip_graph_checks"])}
    return StepOptions(**found, cell=cell(), local=nested_names((__name__, "flownb.definition.steps")))


@overload
def step(fn: F, /) -> F: ...
@overload
def step(
    fn: None = None,
    /,
    *,
    num_workers: int | None = 4,
    workflow: Any = None,
    skip_graph_checks: Iterable[str] = (),
) -> Callable[[F], F]: ...
def step(fn: Any = None, /, **found: Any) -> Any:
    """Mark a method of a `Workflow` as a step, or add a free function with `workflow=Flow`.

    The function itself is returned, so a step can be called in a test.

    Args:
        fn: The function, where the decorator is used without options.
        found: num_workers (deliveries that are active at once, None: no limit), workflow (a class or an object that
            a free function is added to), skip_graph_checks.
    """

    def mark(f: Any) -> Any:
        to = found.get("workflow")
        if isinstance(to, Workflow):
            return to._add(f, {k: v for k, v in found.items() if k != "workflow"})
        if to is not None and not (isinstance(to, type) and issubclass(to, Workflow) and to is not Workflow):
            raise WorkflowConfigurationError(f"workflow={to!r} is neither a workflow nor a class of one.")
        made = _options(found)
        setattr(f, ATTRIBUTE, made)
        if to is not None:
            to._added[f.__name__] = f, made
        return f

    return mark if fn is None else mark(fn)


ROOMS["flow_view"] = ("flownb.notebook.views", "FlowViews")

__all__ = ["Launcher", "Settings", "Steps", "Workflow", "step"]
