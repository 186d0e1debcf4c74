"""A run that a step runs: as its parent's code holds it."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from typing_extensions import TypeVar

from flownb.core.graph import short
from flownb.core.state import Outcome
from flownb.core.ticks import RunChild
from flownb.core.values import Out
from flownb.errors import StepFailure, WorkflowCancelledByUser, WorkflowRuntimeError
from flownb.events import StopEvent
from flownb.run import Run
from flownb.runtime.copying import copied
from flownb.runtime.ledger import identity_of
from flownb.runtime.pending import Pending
from flownb.runtime.results import current
from flownb.runtime.runner import Runner
from flownb.runtime.threads import pool
from flownb.runtime.worker import Worker
from flownb.waits import then

R = TypeVar("R", default=Any)


class ChildRun(Run[R]):
    """A child of a step. Awaiting it is a wait of the step: it holds no worker meanwhile, and survives a restart."""

    def __init__(self, worker: Worker, workflow: Any, settings: Any, run_id: str, waited: Pending[Outcome]) -> None:
        self._worker = worker
        self._id = run_id
        self._workflow = workflow
        self._settings = settings
        self._told_waiting = False
        self._debug = self._view = None
        self._waited = waited
        self.over: Pending[R] = then(waited, worker, f"child {run_id}", self._read)

    @property
    def _runner(self) -> Runner:  # type: ignore[override]
        found = self._find()
        if found is None:
            raise WorkflowRuntimeError(f"Child {self._id!r} is not started yet; await it, or look a moment later.")
        return found

    def _find(self) -> Runner | None:
        children = self._worker.runner.children or {}
        return next((child for child in children.values() if child.run_id == self._id), None)

    @property
    def run_id(self) -> str:
        return self._id

    @property
    def status(self) -> str:
        """As of any run; running until it is started."""
        return super().status if self._find() is not None else "running"

    def __await__(self) -> Generator[Any, None, R]:
        return self.over.__await__()

    def result(self, timeout: float | None = None) -> R:
        """Wait, blocking the thread of a plain step, and give the result."""
        return self.over.result(timeout)

    def is_done(self) -> bool:
        return self.over.done()

    def cancel(self, reason: str = "") -> Pending[None]:
        """End the child; its step goes on with `WorkflowCancelledByUser`."""
        found = self._find()
        if found is not None:
            return super().cancel(reason)
        self._waited.abandon()
        ended: Pending[None] = Pending("the end")
        ended.resolve(None)
        return ended

    def give_up(self) -> None:
        """Nobody waits for it any more: it is cancelled."""
        self._waited.abandon()

    def _read(self, outcome: Outcome) -> R:
        if outcome.how == "finished":
            assert outcome.out is not None
            value = current(outcome.out, self._workflow.definition)
            return copied(value.result if type(value) is StopEvent else value)  # type: ignore[no-any-return]
        found = self._find()
        worker = self._worker
        error = found.error if found is not None else worker.runner.child_error(worker.delivery.id, outcome)
        if outcome.how == "cancelled":
            raise WorkflowCancelledByUser(f"Child {self._id!r} was cancelled.")
        if error is None:
            failure = outcome.failure
            said = f"{short(failure.type)}: {failure.message}" if failure is not None else "it failed"
            error = (super()._error() if found is not None else None) or StepFailure(f"Child {self._id!r}: {said}")
        told = f"In child run {self._id!r}."
        if told not in getattr(error, "__notes__", ()):
            error.add_note(told)
        raise error


def run_child(worker: Worker, workflow: Any, settings: Any, out: Out) -> ChildRun[Any]:
    """Begin a child, or find the one that an earlier start began."""
    runner, key = worker.runner, workflow._key
    make = runner.make_child
    assert make is not None
    runner.flows = {**(runner.flows or {}), key: make(runner, workflow)}
    identity = identity_of("child", key, out)
    found = worker.recorded(identity)
    what = f"child of {workflow.name}"
    number, attempt = (found[0].number, found[0].tries) if found else worker.child_number(identity)
    wait = RunChild(key, out, number, attempt)
    run_id = f"{runner.run_id}/{worker.delivery.id}/{number}" + (f".{attempt}" if attempt > 1 else "")

    def prepare(mark: int) -> None:  # of this very object: another one of its class may be begun at the same moment
        runner.expect_child(worker.delivery.id, mark, make(runner, workflow))

    waited = worker.reopen(*found, what, wait) if found else worker.open(what, wait, prepare)
    return ChildRun(worker, workflow, settings, run_id, waited)


def first(worker: Worker, runs: Sequence[ChildRun[R]]) -> Pending[R]:
    """The first of several children that succeeds; the others are cancelled (R6.28, R6.29).

    Raises:
        ValueError: There are none.
    """
    if not runs:
        raise ValueError("ctx.first([]) has no run to wait for; give at least one.")
    children = tuple(runs)

    def give_up() -> None:
        for child in children:
            child.give_up()

    def begin() -> None:
        for child in children:
            child.over.begin()

    handle: Pending[R] = Pending(f"the first of {len(children)} children", worker.runner.host.loop, give_up, begin)
    if not worker.step.is_async:
        handle.blocking = pool.waiting
    errors: dict[int, BaseException] = {}

    def look(place: int) -> None:
        child = children[place]
        try:
            value = child.over.result(0)
        except BaseException as error:
            errors[place] = error
            if len(errors) == len(children):
                handle.reject(_all_failed(children, errors))
            return
        if not handle.done():
            handle.resolve(value)
            for other in children:
                if not other.over.done():
                    other.give_up()

    for place, child in enumerate(children):
        child.over.on_end(lambda place=place: look(place))  # type: ignore[misc]
    return handle


def _all_failed(children: Sequence[ChildRun[Any]], errors: dict[int, BaseException]) -> BaseException:
    names = ", ".join(child.run_id for child in children)
    return BaseExceptionGroup(f"every child failed: {names}", [errors[place] for place in sorted(errors)])
