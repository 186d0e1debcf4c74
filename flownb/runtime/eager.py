"""Tasks whose first stretch runs at once.

Most steps never suspend: they compute and return. For those a task that is first scheduled, and run in a later round of
the loop, costs more than the step. A task made here runs until its code suspends for the first time before `begin`
returns; only then does the loop hear of it. Inside that stretch `asyncio.current_task()` is the task, as always.

Python 3.12 has this in `asyncio.Task`; before that the pure Python task of the standard library is begun by hand.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import tasks as _tasks
from collections.abc import Coroutine
from contextvars import Context
from typing import Any

if sys.version_info >= (3, 12):

    def begin(loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, None], context: Context) -> asyncio.Task[None]:
        """Run a coroutine until it suspends or ends; on the loop's thread, inside one of its callbacks."""
        if asyncio.current_task(loop) is not None:  # somebody runs the loop inside one of its tasks
            return loop.create_task(coro, context=context)
        return asyncio.Task(coro, loop=loop, context=context, eager_start=True)

else:

    class _EagerTask(_tasks._PyTask):  # type: ignore[name-defined,misc]
        """The standard library's task without the call that would begin it in a later round."""

        _num_cancels_requested = 0
        _must_cancel = False
        _fut_waiter = None

        def __init__(self, loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, None], context: Context) -> None:
            self._loop = loop
            self._callbacks: list[Any] = []
            self._coro = coro
            self._context = context
            self._name = "flownb step"

    def begin(loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, None], context: Context) -> asyncio.Task[None]:
        """Run a coroutine until it suspends or ends; on the loop's thread, inside one of its callbacks."""
        if loop in _tasks._current_tasks:  # type: ignore[attr-defined]  # somebody runs the loop inside one of its tasks
            return loop.create_task(coro, context=context)
        task = _EagerTask(loop, coro, context)
        context.run(task._Task__step)
        if not task.done():
            _tasks._register_task(task)
        return task
