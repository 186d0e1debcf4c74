"""Starts of steps that need more than a task or a thread of the engine: resources first, or another executor."""

from __future__ import annotations

from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from flownb.definition.steps import arguments
from flownb.errors import AttemptOver
from flownb.runtime.capture import sink
from flownb.runtime.executors import RemoteCall, executor_for, runs_here, submit, submit_here
from flownb.runtime.remote import ContextElsewhere
from flownb.runtime.resources import Resources, Shelf
from flownb.runtime.threads import pool

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from flownb.runtime.runner import Runner
    from flownb.runtime.worker import Worker

#: What all runs of a workflow object share.
_shelves: WeakKeyDictionary[Any, Shelf] = WeakKeyDictionary()


def begin(worker: Worker, context: Context) -> None:
    """Start a worker's code.

    Raises:
        WorkflowConfigurationError: Nobody filled the slot that the step names.
    """
    runner, step = worker.runner, worker.step
    if step.resources:
        resources_of(runner)  # here, on the loop's thread: two threads could make two
    if step.is_async:
        worker.task = runner.host.loop.create_task(_run_async(worker), context=context)
        return
    executor = executor_for(step.options.executor, runner.executors, step=step.name)
    if executor is None:
        pool.submit(lambda: context.run(_run_sync, worker))
    elif runs_here(executor):
        worker.cancel_call = submit_here(
            executor, step.name, lambda: context.run(_run_sync, worker), lambda lost: worker.hand_in(worker.fail, lost)
        )
    elif step.resources:
        pool.submit(lambda: context.run(_run_remote, worker, executor))
    else:
        _run_remote(worker, executor)


async def _run_async(worker: Worker) -> None:
    sink.set(worker)
    try:
        resources = resources_of(worker.runner)
        make_context = partial(worker.runner.make_context, worker)
        worker.given = {name: await resources.get(each, make_context) for name, each in worker.step.resources}
    except AttemptOver:
        return
    except BaseException as error:  # a factory may raise anything
        if not worker.fenced:
            worker.failed_async(error)
        return
    await worker.run_async()


def _run_sync(worker: Worker) -> None:
    if _take_resources(worker):
        worker.run_sync()


def _take_resources(worker: Worker) -> bool:
    """Get what the step needs, blocking this thread; whether that went well."""
    if worker.step.resources:
        sink.set(worker)
        try:
            resources = resources_of(worker.runner)
            make_context = partial(worker.runner.make_context, worker)
            worker.given = {name: resources.get_sync(each, make_context) for name, each in worker.step.resources}
        except AttemptOver:
            return False
        except BaseException as error:  # a factory may raise anything
            worker.hand_in(worker.fail, error)
            return False
    return True


def _run_remote(worker: Worker, executor: Executor) -> None:
    """Send the step's function to another process."""
    if not _take_resources(worker):
        return
    runner, step, d = worker.runner, worker.step, worker.delivery
    real = runner.make_context(worker)
    stand_in = ContextElsewhere(
        run_id=runner.run_id,
        step_name=step.name,
        attempt=d.attempt,
        task_key=real.task_key,
        retry_info=real.retry_info(),
    )
    try:
        args, kwargs = arguments(step, worker.value(), stand_in)
    except Exception as error:  # an outdated event
        worker.hand_in(worker.fail, error)
        return
    call = RemoteCall(
        step.name,
        step.fn,
        args,
        {**kwargs, **(worker.given or {})},
        worker.take_output,
        real.progress,
        step.owner,
        runner.definition.class_of,
    )

    def done(value: Any, error: BaseException | None) -> None:
        worker.busy = False
        if isinstance(error, AttemptOver):
            return
        worker.hand_in(partial(_came_back, worker), value, error)

    worker.busy = True
    worker.cancel_call = submit(executor, call, done)
    if worker.fenced:  # it was stopped meanwhile
        worker.cancel_call()


def _came_back(worker: Worker, value: Any, error: BaseException | None) -> None:
    if error is not None:
        worker.fail(error)
    else:
        worker.returned_value(value)


def resources_of(runner: Runner) -> Resources:
    """What the steps of a run are handed."""
    if runner.resources is None:
        shelf = _shelves.setdefault(runner.owner, Shelf()) if runner.owner is not None else Shelf()
        runner.resources = Resources(runner.host, shelf)
    return runner.resources  # type: ignore[no-any-return]
