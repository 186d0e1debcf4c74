"""The state of a run as its steps use it: plain calls, and L's awaitable ones over the same data."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, Generic, overload

from pydantic import BaseModel
from typing_extensions import TypeVar

from flownb.core.persist import Names
from flownb.core.ticks import StateWritten
from flownb.core.values import Out, alike
from flownb.errors import ContextStateError, NotStorable, StatePathError
from flownb.runtime.copying import copied
from flownb.runtime.pending import Pending
from flownb.runtime.results import value_out
from flownb.runtime.threads import pool
from flownb.runtime.userstate import EDIT
from flownb.runtime.worker import Worker

S = TypeVar("S", default=Any)
_MISSING: Any = object()


class DictState(dict[str, Any]):
    """A free state: names and values, as items and as attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"The state has no {name!r}. It has {', '.join(self) or 'nothing'}.") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        del self[name]


class State(Generic[S]):
    """The run's state: plain calls, in `def` and `async def` steps alike.

    `get` then `set` is not atomic: between them another step may write, and one of the two writes is lost.

        n = ctx.state.get("n", 0)
        ctx.state.set("n", n + 1)            # two steps at once: one addition is lost

        async with ctx.state.edit() as s:    # one at a time: none is lost
            s["n"] = s.get("n", 0) + 1
    """

    def __init__(self, worker: Worker, model: type[BaseModel] | None) -> None:
        self._worker = worker
        self._model = model

    @overload
    def get(self) -> S: ...
    @overload
    def get(self, path: str, default: Any = ...) -> Any: ...
    def get(self, path: str | None = None, default: Any = _MISSING) -> Any:
        """The whole state (a copy; the model of `Context[Model]`, else a dict), or what stands at a dotted path.

        Raises:
            KeyError: Nothing stands there and no default was given.
        """
        values = self._worker.runner.user_view()
        return whole(values, self._model) if path is None else at_path(values, self._model, path, default)

    def set(self, path: str, value: Any) -> None:
        """Write what stands at a dotted path; missing dicts on the way are made."""
        self._write(with_path(self._worker.runner.user_view(), self._model, path, value))

    def __getitem__(self, path: str) -> Any:
        raise ContextStateError(f"The state is read by ctx.state.get({path!r}), or as a whole by ctx.state.get().")

    def __setitem__(self, path: str, value: Any) -> None:
        raise ContextStateError(
            f"The state is written by ctx.state.set({path!r}, ...), or as items inside `async with ctx.state.edit() as "
            "s:` (`with` in a def step)."
        )

    def clear(self) -> None:
        """Remove everything."""
        self._write({}, tuple(self._worker.runner.user_view()))

    def edit(self) -> Edit[S]:
        """The state to change, alone: `async with` in async steps, `with` in plain ones. Nothing is written if the
        block raises."""
        return Edit(self)

    def _write(self, changes: dict[str, Any], dropped: tuple[str, ...] = ()) -> None:
        worker = self._worker
        worker.check()
        if worker.next_write_is_in():
            return  # an earlier start wrote it (R3.55)
        runner, d = worker.runner, worker.delivery
        outs = {name: self._checked(name, value_out(value)) for name, value in changes.items()}
        tick = StateWritten(runner.clock.now(), worker.step.name, d.id, d.start, outs, dropped)
        runner.user.put(tick)  # its own run sees it at once, the journal when it is admitted
        worker.post(tick)

    def _checked(self, name: str, out: Out) -> Out:
        try:
            return self._worker.runner.checked(out)
        except NotStorable as error:
            raise NotStorable(f"The state cannot keep {name!r}. {error}", **{**vars(error), "field": name}) from None

    @property
    def is_written(self) -> bool:
        """An earlier start of this delivery made the next write."""
        worker = self._worker
        return worker.replay is not None and worker.writes < worker.replay.writes


class StateStore(Generic[S]):
    """The same data by LlamaIndex's awaitable calls: `ctx.store`."""

    def __init__(self, state: State[S]) -> None:
        self._state = state

    async def get(self, path: str, default: Any = _MISSING) -> Any:
        """What stands at a dotted path.

        Raises:
            KeyError: Nothing stands there and no default was given; it is a `ValueError` too.
        """
        return self._state.get(path, default)

    async def set(self, path: str, value: Any) -> None:
        """Write what stands at a dotted path."""
        self._state.set(path, value)

    async def get_state(self) -> S:
        """The whole state, a copy."""
        return self._state.get()

    async def set_state(self, state: S) -> None:
        """Write the whole state: of a typed one its model, of a free one a mapping."""
        values = dict(state)  # type: ignore[call-overload]
        held = self._state._worker.runner.user_view()
        self._state._write(
            {name: copied(value) for name, value in values.items()}, tuple(name for name in held if name not in values)
        )

    async def clear(self) -> None:
        """Remove everything."""
        self._state.clear()

    @asynccontextmanager
    async def edit_state(self) -> AsyncIterator[S]:
        """The state to change, alone; written when the block ends well."""
        async with self._state.edit() as edited:
            yield edited


#: The edit whose block the present code is in; tasks and threads begun inside it inherit that.
_editing: ContextVar[Edit[Any] | None] = ContextVar("flownb_editing", default=None)


def refuse_inside_edit(what: str) -> None:
    """Raises in an open `edit` block: all edits of the run stand in line behind it, so a wait could last for ever."""
    edit = _editing.get()
    if edit is not None and edit.is_open:
        raise ContextStateError(f"{what} cannot begin inside an edit of the state (R6.4). Leave the block first.")


class Edit(Generic[S]):
    """One isolated change of the state; edits of a run come one after the other, in the order of asking.

    It begins when the writes put before it are in, and ends when its own is (R5.16, R5.17); so both stand still while
    the gate is closed. One that an earlier start made already runs on a copy that is thrown away (R3.56).
    """

    def __init__(self, state: State[S]) -> None:
        self._state = state
        self._before: dict[str, Any] = {}
        self._now: Any = None
        self._is_replayed = False
        #: Ends with the block, or with its attempt: a thread that is stuck in one must not hold all others up (R3.16).
        self._turn: Pending[None] | None = None
        self.is_open = False

    async def __aenter__(self) -> Any:
        if not self._state._worker.step.is_async:
            raise ContextStateError("A plain def step edits the state with `with`, not `async with`.")
        turn = self._ask()
        if turn is not None:
            try:
                await turn
                settled = self._settled()
                if settled is not None:
                    await settled
            except BaseException:
                self._edits.give_up(turn)
                raise
        return self._open()

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        try:
            if self._close(kind):
                settled = self._settled()
                if settled is not None:
                    await settled
        finally:
            self._pass_on()

    def __enter__(self) -> Any:
        if self._state._worker.step.is_async:
            raise ContextStateError("An async step edits the state with `async with`, not `with`.")
        turn = self._ask()
        if turn is not None:
            try:
                self._block(turn)
                self._block(self._settled())
            except BaseException:
                self._edits.give_up(turn)
                raise
        return self._open()

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        try:
            if self._close(kind):
                self._block(self._settled())
        finally:
            self._pass_on()

    def _block(self, pending: Pending[None] | None) -> None:
        if pending is not None:
            pending.blocking = pool.waiting
            pending.result()

    @property
    def _edits(self) -> Any:
        return self._state._worker.runner.user.edits

    def _ask(self) -> Pending[None] | None:
        worker = self._state._worker
        worker.check()
        refuse_inside_edit("Another edit")
        self._is_replayed = self._state.is_written
        return None if self._is_replayed else self._edits.ask()

    def _settled(self) -> Pending[None] | None:
        """A handle that ends when the gate is open and all that was written before is in; None if that is so now."""
        worker = self._state._worker
        runner = worker.runner
        if not runner.state.gate and not runner.user.is_writing:
            return None
        return worker.guard(runner.until(EDIT, lambda: not runner.state.gate and not runner.user.is_writing))

    def _open(self) -> Any:
        if not self._is_replayed:
            self._turn = Pending("the turn of an edit")
            self._turn.on_end(self._edits.next)
            self._state._worker.guard(self._turn)
        try:
            values = self._state._worker.runner.user_view()
            self._before = {name: out.value for name, out in values.items()}
            self._now = whole(values, self._state._model)
        except BaseException:
            self._pass_on()
            raise
        self.is_open = True
        _editing.set(self)
        return self._now

    def _close(self, kind: type[BaseException] | None) -> bool:
        """Write what the block changed; whether there was something."""
        self.is_open = False
        if kind is not None:
            return False
        now = dict(self._now)
        changes = {k: v for k, v in now.items() if k not in self._before or not alike(self._before[k], v)}
        dropped = tuple(k for k in self._before if k not in now)
        if not (changes or dropped or self._is_replayed):
            return False
        self._state._write({name: copied(value) for name, value in changes.items()}, dropped)
        return not self._is_replayed

    def _pass_on(self) -> None:
        if self._turn is not None:
            self._turn.resolve(None)


def whole(values: Names[Out], model: type[BaseModel] | None) -> Any:
    """All of it, a copy: the model, or a dict."""
    found = DictState({name: copied(out.value) for name, out in values.items()})
    return model.model_validate(dict(found)) if model is not None else found


def at_path(values: Names[Out], model: type[BaseModel] | None, path: str, default: Any) -> Any:
    """What stands at a dotted path, a copy.

    Raises:
        StatePathError: Nothing, and there is no default.
    """
    name, *rest = path.split(".")
    held = values.get(name)
    if held is not None:
        return copied(_at(held.value, rest, path, default))
    if model is not None and name in model.model_fields:
        return copied(_at(getattr(model(), name), rest, path, default))
    if default is _MISSING:
        raise StatePathError(f"The state has no {name!r}. It has {', '.join(values) or 'nothing'}.")
    return default


def with_path(values: Names[Out], model: type[BaseModel] | None, path: str, value: Any) -> dict[str, Any]:
    """The one top-level name that a write changes, with its new value."""
    name, *rest = path.split(".")
    if not rest:
        return {name: copied(value)}
    held = values.get(name)
    if held is not None:
        changed = copied(held.value)
    elif model is not None and name in model.model_fields:
        changed = copied(getattr(model(), name))
    else:
        changed = {}
    _put(changed, rest, copied(value), path)
    return {name: changed}


def _at(value: Any, rest: list[str], path: str, default: Any) -> Any:
    for part in rest:
        try:
            value = value[int(part)] if isinstance(value, (list, tuple)) else _item(value, part)
        except (KeyError, IndexError, AttributeError, ValueError):
            if default is _MISSING:
                raise StatePathError(f"The state has no {path!r}: there is no {part!r}.") from None
            return default
    return value


def _item(value: Any, part: str) -> Any:
    return value[part] if isinstance(value, dict) else getattr(value, part)


def _put(value: Any, rest: list[str], new: Any, path: str) -> None:
    *way, last = rest
    for part in way:
        if isinstance(value, dict):
            value = value.setdefault(part, {})
        elif isinstance(value, list):
            value = value[int(part)]
        else:
            value = getattr(value, part)
    if isinstance(value, dict):
        value[last] = new
    elif isinstance(value, list):
        value[int(last)] = new
    elif isinstance(value, BaseModel):
        setattr(value, last, new)
    else:
        raise ContextStateError(f"Nothing can be written at {path!r}: a {type(value).__name__} stands on the way.")
