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
from typing import Any, cast

Begun = asyncio.Task[None] | None

if sys.version_info >= (3, 12):

    def begin(loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, None], context: Context) -> Begun:
        """Run a coroutine until it suspends or ends; on the loop's thread, inside one of its callbacks.

        Returns:
            Its task, None if it has ended.
        """
        if asyncio.current_task(loop) is not None:  # somebody runs the loop inside one of its tasks
            return loop.create_task(coro, context=context)
        task = asyncio.Task(coro, loop=loop, context=context, eager_start=True)
        return None if task.done() else task

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

        def __del__(self) -> None:
            if self._state == _PENDING or self._exception is not None:  # else there is nothing to complain of
                super().__del__()

    _PENDING, _FINISHED = "PENDING", "FINISHED"

    def begin(loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, None], context: Context) -> Begun:
        """Run a coroutine until it suspends or ends; on the loop's thread, inside one of its callbacks.

        Returns:
            Its task, None if it has ended.
        """
        if loop in _tasks._current_tasks:  # type: ignore[attr-defined]  # somebody runs the loop inside one of its tasks
            return loop.create_task(coro, context=context)
        task = _EagerTask(loop, coro, context)
        _tasks._enter_task(loop, task)
        try:
            awaited = context.run(coro.send, None)
        except StopIteration:  # what the task's own step would do, without its price: most steps end here
            task._state = _FINISHED
            return None
        except asyncio.CancelledError:
            super(_tasks._PyTask, task).cancel()  # type: ignore[attr-defined]
            return None
        except BaseException as error:
            super(_tasks._PyTask, task).set_exception(error)  # type: ignore[attr-defined]
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            return None
        finally:
            _tasks._leave_task(loop, task)
        _wait(task, awaited)
        _tasks._register_task(task)
        return cast("asyncio.Task[None]", task)

    def _wait(task: Any, awaited: Any) -> None:
        """Go on when what the coroutine waits for is over, as a task does."""
        loop, step, context = task._loop, task._Task__step, task._context
        if getattr(awaited, "_asyncio_future_blocking", False) and awaited.get_loop() is loop and awaited is not task:
            awaited._asyncio_future_blocking = False
            awaited.add_done_callback(task._Task__wakeup, context=context)
            task._fut_waiter = awaited
            if task._must_cancel and awaited.cancel(msg=task._cancel_message):
                task._must_cancel = False
        elif awaited is None:  # a bare yield: one round
            loop.call_soon(step, context=context)
        else:
            wrong = RuntimeError(f"Task {task!r} cannot wait for {awaited!r} here.")
            loop.call_soon(step, wrong, context=context)
