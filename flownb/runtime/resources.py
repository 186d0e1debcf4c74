"""Resources: each factory is called once for as long as its value lives, whoever comes first (R6.17).

Who asks first begins the making, on the loop of his run, as a task of its own: an attempt that is cancelled meanwhile
does not cancel it, since others may wait. Before that the whole tree of what a factory needs is looked at, so that two
runs can never wait for each other in a circle.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable, Iterator
from contextvars import copy_context
from functools import partial
from typing import Any, Protocol

from msgspec import Struct

from flownb.errors import EngineLost, WorkflowConfigurationError
from flownb.resource import Resource, needs, parameters_of, resource_faults
from flownb.runtime.host import LOST
from flownb.runtime.pending import Pending
from flownb.runtime.threads import pool

MakeContext = Callable[[], Any]


class Loop(Protocol):
    """What is needed of a host."""

    loop: asyncio.AbstractEventLoop

    def call(self, fn: Callable[..., object], *args: Any) -> None: ...

    def is_lost(self) -> bool: ...


class _Made(Struct):
    """A value that is there, or being made."""

    resource: Resource
    pending: Pending[Any]
    host: Loop

    def is_given_up(self) -> bool:
        """The loop that was to make it is closed."""
        return not self.pending.done() and self.host.is_lost()


class Shelf:
    """The cached values of one lifetime: a workflow object's, or a run's."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._made: dict[Any, _Made] = {}

    def get(self, resource: Resource) -> _Made | None:
        return self._made.get(_key(resource))

    def put(self, made: _Made) -> None:
        self._made[_key(made.resource)] = made

    def drop(self, made: _Made) -> None:
        """It could not be made: whoever asks next tries anew."""
        with self.lock:
            if self.get(made.resource) is made:
                del self._made[_key(made.resource)]


class Resources:
    """What the steps of one run are handed.

    Args:
        host: Whose loop runs asynchronous factories.
        shared: The values of `scope="workflow"`: one shelf for all runs of a workflow object.
    """

    def __init__(self, host: Loop, shared: Shelf) -> None:
        self._host = host
        self._shelves = {"workflow": shared, "run": Shelf()}

    async def get(self, resource: Resource, make_context: MakeContext) -> Any:
        """The value of a resource, for an async step.

        Args:
            resource: What is asked for.
            make_context: Gives the context of who asks, for a factory that takes it.

        Raises:
            WorkflowConfigurationError: It needs itself, or something that lives shorter, or what nobody gives.
            EngineLost: The run's loop ends.
            BaseException: Whatever the factory raises, for each who waits; the next one who asks calls it again.
        """
        while True:
            try:
                return await self._pending(resource, make_context)
            except _MakerGone as gone:
                self._refuse_own(gone)

    def get_sync(self, resource: Resource, make_context: MakeContext) -> Any:
        """The same for a plain step: blocks its thread."""
        while True:
            pending = self._pending(resource, make_context)
            pending.blocking = pool.waiting
            try:
                return pending.result()
            except _MakerGone as gone:
                self._refuse_own(gone)

    def _refuse_own(self, gone: _MakerGone) -> None:
        """Raises if it was the loop of this very run that ended."""
        if gone.host is self._host:
            raise EngineLost(LOST) from None

    def _pending(self, resource: Resource, make_context: MakeContext) -> Pending[Any]:
        """A handle of the value; its making has begun."""
        if not resource.cache:
            return self._begin(resource, make_context, None).pending
        shelf = self._shelves[resource.scope]
        with shelf.lock:
            made = shelf.get(resource)
        if made is not None and not made.is_given_up():
            return made.pending
        return self._begin(resource, make_context, shelf).pending

    def _begin(self, resource: Resource, make_context: MakeContext, shelf: Shelf | None) -> _Made:
        faults = [*resource_faults(resource), *_too_short(resource)]
        if faults:
            raise WorkflowConfigurationError(f"Resource {resource.name}: {' '.join(faults)}", resource=resource.name)
        host = self._host
        made = _Made(resource, Pending(f"the resource {resource.name}", host.loop), host)
        if shelf is not None:
            with shelf.lock:
                other = shelf.get(resource)
                if other is not None and not other.is_given_up():  # somebody was quicker
                    return other
                shelf.put(made)
        drop = partial(shelf.drop, made) if shelf is not None else _nothing
        try:
            host.call(self._start, made, drop, make_context, copy_context())
        except BaseException as error:
            drop()
            made.pending.reject(error)
        return made

    def _start(
        self, made: _Made, drop: Callable[[], None], make_context: MakeContext, context: contextvars.Context
    ) -> None:
        task = self._host.loop.create_task(self._make(made, drop, make_context), context=context)
        _at_work.add(task)
        task.add_done_callback(partial(_over, made, drop))

    async def _make(self, made: _Made, drop: Callable[[], None], make_context: MakeContext) -> None:
        try:
            value = await self._called(made.resource, make_context)
        except BaseException as error:  # also SystemExit: let through, it would end the loop
            drop()
            task = asyncio.current_task()
            gone = isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling()
            made.pending.reject(_MakerGone(made.host) if gone else error)
            if gone:
                raise
        else:
            made.pending.resolve(value)

    async def _called(self, resource: Resource, make_context: MakeContext) -> Any:
        given = {name: await self.get(needed, make_context) for name, needed in needs(resource)}
        wants_context = parameters_of(resource).context
        if wants_context:
            given[wants_context] = make_context()
        factory = resource.factory
        if inspect.iscoroutinefunction(factory):
            return await factory(**given)
        value = await _in_thread(partial(factory, **given))
        return await value if inspect.isawaitable(value) else value


class _MakerGone(Exception):
    """The run that made the value stopped with it half done: its loop ends. Somebody else makes it."""

    def __init__(self, host: Loop) -> None:
        super().__init__()
        self.host = host


#: A loop holds its tasks weakly.
_at_work: set[asyncio.Task[None]] = set()


def _over(made: _Made, drop: Callable[[], None], task: asyncio.Task[None]) -> None:
    _at_work.discard(task)
    if not made.pending.done():  # cancelled before its first step
        drop()
        made.pending.reject(_MakerGone(made.host))


async def _in_thread(fn: Callable[[], Any]) -> Any:
    """What a plain function gives, on a thread of the engine: it may be slow, and the loop drives other runs."""
    done: Pending[Any] = Pending("a factory")
    context = copy_context()

    def job() -> None:
        try:
            value = context.run(fn)
        except BaseException as error:
            done.reject(error)
        else:
            done.resolve(value)

    pool.submit(job)
    return await done


def _too_short(resource: Resource) -> Iterator[str]:
    """What would outlive something that it holds."""
    if resource.cache and resource.scope == "workflow":
        for needed in _held(resource):
            if needed.cache and needed.scope == "run":
                yield (
                    f"it lives as long as its workflow, and needs {needed.name}, which lives for one run. "
                    'Give both the same scope, as in Resource(..., scope="run").'
                )


def _held(resource: Resource) -> Iterator[Resource]:
    for _, needed in needs(resource):
        yield needed
        if not needed.cache:  # made for this one alone, so it is held with all that it holds
            yield from _held(needed)


def _key(resource: Resource) -> Any:
    """One value per factory."""
    try:
        hash(resource.factory)
    except TypeError:
        return id(resource.factory)  # whoever holds this key holds the resource
    return resource.factory


def _nothing() -> None:
    """There is nothing to put back."""


__all__ = ["Resources", "Shelf"]
