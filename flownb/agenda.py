"""What runs of a store wait for, and driving those for which it is time (R7.6 to R7.10)."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from flownb.core.state import ENDED
from flownb.errors import RunOwnedElsewhere, WorkflowConfigurationError
from flownb.moment import Moment
from flownb.runtime.pending import Pending
from flownb.runtime.stored import is_viewed
from flownb.store.drivers import describe, is_imported
from flownb.store.journal import Kind, Wakeup

if TYPE_CHECKING:
    from flownb.run import Run
    from flownb.runs import Store
    from flownb.runtime.runner import Runner

_log = logging.getLogger("flownb")


class Suspension(Struct, frozen=True):
    """One thing that a run waits for."""

    run_id: str
    kind: Kind
    #: Number of the timer or question.
    id: int
    step: str
    #: Unix seconds; None for a question without a deadline.
    due: float | None
    #: It is time.
    is_due: bool


def suspensions(store: Store, now: float | None) -> list[Suspension]:
    """All that runs wait for, by run, kind (timer, request, retry) and number."""
    at = time.time() if now is None else now
    return [
        Suspension(run_id, waits.kind, waits.id, waits.step, waits.due, waits.due is not None and waits.due <= at)
        for run_id, waits in store.journal.waiting()
    ]


def due(store: Store, now: float | None) -> list[str]:
    """Ids of the runs that have something to do by then, each once: something is due, or something came for one that
    nobody drives."""
    at = time.time() if now is None else now
    found = dict.fromkeys(run_id for run_id, _ in store.journal.waiting(due=at))
    found.update(dict.fromkeys(store.journal.came()))
    return sorted(found)


def next_wakeup(store: Store) -> Wakeup | None:
    """What is due first, with its run."""
    return store.journal.next_wakeup()


def resume_due(store: Store, now: float | None) -> list[Run[Any]]:
    """Drive those runs for which it is time and which nobody drives; a run that cannot be driven does not keep the
    others from it (R7.9)."""
    woken = []
    for run_id in dict.fromkeys(_driven_with(store, run_id) for run_id in due(store, now)):
        if is_driven(store, run_id):
            continue
        try:
            run = begin(store, run_id)
        except Exception:
            _log.warning("run %s could not be resumed", run_id, exc_info=True)
        else:
            if not is_viewed(run._runner):
                woken.append(run)
    return woken


def _driven_with(store: Store, run_id: str) -> str:
    """The run that is driven so that another one is: a child is driven by its parent, while that is not over."""
    row = store.journal.row(run_id)
    above = store.journal.row(row.parent) if row is not None and row.parent else None
    return run_id if above is None or above.status in ENDED else _driven_with(store, above.run_id)


def is_driven(store: Store, run_id: str) -> bool:
    """Whether a live process holds a run's lease."""
    return store.journal.holder(run_id).is_live()


def drive(store: Store, run_id: str, until: str) -> Pending[Run[Any]]:
    """Drive a run until it is quiet or over; one that is driven here already goes on.

    Raises:
        RunOwnedElsewhere: Another process drives it.
        WorkflowConfigurationError: `until` is neither "quiet" nor "end".
    """
    if until not in ("quiet", "end"):
        raise WorkflowConfigurationError(f'drive(until={until!r}): there are "quiet" and "end".')
    _refuse_driven(store, run_id)
    handle: Pending[Run[Any]] = Pending(f"run {run_id} to be {'quiet' if until == 'quiet' else 'over'}")
    if until == "quiet" and _is_quiet(store, run_id):
        handle.resolve(store.run(run_id))
        return handle
    run = begin(store, run_id)
    runner = run._runner
    if is_viewed(runner) and not runner.ended:  # another process was faster just now
        _refuse_driven(store, run_id)
    is_there: Pending[Moment] = run.when(handle._what, lambda: until == "quiet" and _is_still(runner), runner.state.seq)
    is_there.on_end(lambda: handle.resolve(run))
    return handle


def _is_quiet(store: Store, run_id: str) -> bool:
    """Whether a run waits, and nothing came or is due for it or a child of it."""
    row = store.journal.row(run_id)
    if row is None or row.status != "waiting" or is_imported(row.driver):
        return False
    return run_id not in {_driven_with(store, each) for each in due(store, None)}


def _is_still(runner: Runner) -> bool:
    """Whether a driven run waits, and nothing is on its way or due."""
    if runner.state.status != "waiting" or runner.inbox or runner.control:
        return False
    now = runner.clock.now()
    return all(timer.due_at > now for timer in runner.state.timers.values())


def _refuse_driven(store: Store, run_id: str) -> None:
    """Raises RunOwnedElsewhere if another process drives a run."""
    driver = store.journal.holder(run_id).driver
    if driver != store._committer.driver and is_driven(store, run_id):
        raise RunOwnedElsewhere(f"Run {run_id!r} is driven by {describe(driver)}.", run_id=run_id, driver=driver)


def begin(store: Store, run_id: str) -> Run[Any]:
    """A run of the store, driven from here if nobody else does; one that is over as it is."""
    from flownb.resuming import resume  # it builds on the store, as this module does

    row = store.journal.row(run_id)
    if row is not None and row.status in ENDED:
        return store.run(run_id)
    return resume(run_id, store=store)
