"""Contexts outside of steps: before a run, of a run as its holder sees it, and read back from a dict."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Generic, NoReturn, get_args

from pydantic import BaseModel
from typing_extensions import TypeVar

from flownb.context import Context
from flownb.core.persist import Names
from flownb.core.state import is_ended
from flownb.core.values import Out, alike
from flownb.errors import ContextStateError, WorkflowConfigurationError
from flownb.events import Event
from flownb.run import Run
from flownb.runtime.copying import copied
from flownb.runtime.results import value_out
from flownb.snapshot import Snapshot, dump, load, take, user_of, with_values
from flownb.state import State, StateStore, whole
from flownb.store.snapshots import Taken

S = TypeVar("S", default=Any)


class OuterContext(Context[S]):
    """What `Context(workflow)`, `run.ctx` and `Context.from_dict(...)` are.

    It belongs to the last run that was started with it: the next one goes on from there. What belongs to one step
    alone (`ask`, `collect_events`, `attempt` and the like) raises `ContextStateError`.
    """

    def __init__(self, workflow: Any, model: type[BaseModel] | None = None, *, taken: Taken | None = None) -> None:
        self._workflow = workflow
        self._given_model = model
        self._taken = taken if taken is not None else Taken()
        self._run: Run[Any] | None = None
        #: What was written since the run ended, None for what was dropped.
        self._kept: dict[str, Out | None] = {}

    @property
    def _worker(self) -> NoReturn:  # type: ignore[override]
        raise ContextStateError("This is for the steps of a run, and this context is outside of them.")

    def __repr__(self) -> str:
        of = f"run {self._run.run_id!r}" if self._run is not None else "no run yet"
        return f"<Context of workflow {self._workflow.name!r}, {of}>"

    def bind(self, run: Run[Any]) -> None:
        """From now on it is the context of this run."""
        self._run, self._taken, self._kept = run, Taken(), {}
        run._ctx = self

    def taken(self) -> Taken:
        """What a run that is started with it begins with."""
        taken = take(self._run._runner) if self._run is not None else self._taken
        return with_values(taken, self._kept) if self._kept else taken

    @property
    def run_id(self) -> str:
        if self._run is not None:
            return self._run.run_id
        if self._taken.state is not None:
            return self._taken.state.run_id
        raise ContextStateError("This context belongs to no run yet.")

    @property
    def is_running(self) -> bool:
        """Whether its run goes on, or, of a context read from a dict, would go on."""
        if self._run is not None:
            return self._is_live()
        return self._taken.state is not None and not is_ended(self._taken.state)

    def _is_live(self) -> bool:
        run = self._run
        return run is not None and not run.is_done() and not run._runner.suspended

    def refuse_live(self) -> None:
        """Raises ContextStateError while its run goes on (R6.36)."""
        if self._is_live():
            raise ContextStateError(
                f"Run {self.run_id!r} goes on with this context: await it, or give each run a context of its own."
            )

    def running_steps(self) -> list[str]:
        """Names of the steps that run now."""
        state = self._run._runner.state if self._run is not None else None
        if state is None:
            return []
        return [spec.name for spec, step in zip(state.spec.steps, state.steps, strict=True) if step.active.n]

    def send_event(self, ev: Event, step: str | Callable[..., Any] | None = None) -> None:
        """Send its run an event from outside; see `Run.send_event`."""
        if self._run is None:
            raise ContextStateError("This context belongs to no run yet, so nobody could get the event.")
        self._run.send_event(ev, step)

    # -- state

    @property
    def _model(self) -> type[BaseModel] | None:  # type: ignore[override]
        """Of `Context[Model](workflow)`, else the model that its steps name."""
        if self._given_model is not None:
            return self._given_model
        named = get_args(getattr(self, "__orig_class__", None))
        if named and isinstance(named[0], type) and issubclass(named[0], BaseModel):
            return named[0]
        models = [s.state_model for s in self._workflow.definition.steps if s.state_model is not None]
        return max(models, key=lambda model: len(model.__mro__), default=None)

    @property
    def state(self) -> State[S]:
        """The state: of a live run to look at, else what the next run begins with."""
        return OuterState(self, self._model)

    @property
    def store(self) -> StateStore[S]:
        """The same data behind LlamaIndex's awaitable calls."""
        return StateStore(self.state)

    def user_view(self) -> Names[Out]:
        """Names and values of the state now."""
        if self._run is None:
            return user_of(self.taken())
        return user_of(with_values(Taken(values=dict(self._run._runner.user_view().items())), self._kept))

    def write(self, changes: dict[str, Any], dropped: tuple[str, ...] = ()) -> None:
        """Change the state that the next run begins with.

        Raises:
            ContextStateError: Its run goes on: the state of a live run is written by its steps.
        """
        if self._is_live():
            raise ContextStateError(
                f"Run {self.run_id!r} goes on, and its state is written by its steps alone. Send it an event."
            )
        self._kept.update({name: value_out(value) for name, value in changes.items()})
        self._kept.update(dict.fromkeys(dropped))

    # -- to dicts and back

    def to_dict(self, serializer: Any = None, include_state: bool = True) -> Snapshot:
        """As `Context.to_dict`."""
        taken = self.taken()
        return dump(taken if include_state else with_values(taken, dict.fromkeys(user_of(taken))))


class OuterState(State[S]):
    """The state outside of steps. Nobody else writes it, so an edit waits for nobody."""

    def __init__(self, ctx: OuterContext[S], model: type[BaseModel] | None) -> None:
        self._ctx = ctx
        self._model = model
        self._worker = _Desk(ctx)  # type: ignore[assignment]

    def edit(self) -> Any:
        """The state to change; written when the block ends well. `with` and `async with` do."""
        return _OuterEdit(self)

    def _write(self, changes: dict[str, Any], dropped: tuple[str, ...] = ()) -> None:
        self._ctx.write(changes, dropped)


class _Desk:
    """Stands where a step's state finds the values."""

    def __init__(self, ctx: OuterContext[Any]) -> None:
        self.runner = ctx


class _OuterEdit(Generic[S]):
    def __init__(self, state: OuterState[S]) -> None:
        self._sync, self._async = _edited(state), _edited_async(state)

    def __enter__(self) -> Any:
        return self._sync.__enter__()

    def __exit__(self, *error: Any) -> bool | None:
        return self._sync.__exit__(*error)

    async def __aenter__(self) -> Any:
        return await self._async.__aenter__()

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._async.__aexit__(*error)


@contextmanager
def _edited(state: OuterState[Any]) -> Iterator[Any]:
    before = {name: out.value for name, out in state._ctx.user_view().items()}
    edited = whole(state._ctx.user_view(), state._model)
    yield edited
    now = dict(edited)
    changes = {k: copied(v) for k, v in now.items() if k not in before or not alike(before[k], v)}
    state._ctx.write(changes, tuple(k for k in before if k not in now))


@asynccontextmanager
async def _edited_async(state: OuterState[Any]) -> AsyncIterator[Any]:
    with _edited(state) as edited:
        yield edited


def context_of(run: Run[Any]) -> OuterContext[Any]:
    """The context of a run, as its holder sees it."""
    ctx: OuterContext[Any] = OuterContext(run.workflow)
    ctx._run = run
    return ctx


def read_context(workflow: Any, data: Any) -> OuterContext[Any]:
    """As `Context.from_dict`."""
    return OuterContext(workflow, taken=load(data))


class JsonSerializer:
    """LlamaIndex's name for how values are written, which is the only way here; accepted wherever it is asked for."""

    def serialize(self, value: Any) -> str:
        """A value as JSON text."""
        return json.dumps(dump(Taken(values={"value": value_out(value)})))

    def deserialize(self, text: str) -> Any:
        """The value again.

        Raises:
            ContextSerdeError: It cannot be rebuilt here.
        """
        return load(json.loads(text)).values["value"].value


def outer(ctx: Any, start: str) -> OuterContext[Any]:
    """The context that a run is to be started with; `start` is the name of its start event, for the error.

    Raises:
        WorkflowConfigurationError: It is none.
        ContextStateError: Its run goes on.
    """
    if not isinstance(ctx, Context):
        raise WorkflowConfigurationError(
            f"{ctx!r} is no StartEvent; run takes {start}, or a context: Context(flow), run.ctx, "
            "Context.from_dict(flow, data)."
        )
    if not isinstance(ctx, OuterContext):
        raise ContextStateError(
            f"Run {ctx.run_id!r} goes on with this context. A step runs another workflow with ctx.run(...)."
        )
    ctx.refuse_live()
    return ctx
