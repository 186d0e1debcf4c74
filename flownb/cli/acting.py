"""Doing something to a run from a terminal: none of it needs the run's code, and another process may drive the run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from flownb import openings
from flownb.answering import answer_request
from flownb.archiving import Imported, export_run, import_run
from flownb.cli.answers import answer_from
from flownb.cli.looking import full_id, see
from flownb.core.state import ENDED
from flownb.defaults import options
from flownb.errors import RequestClosed, RequestError, WorkflowError, WorkflowRuntimeError
from flownb.requests import Request
from flownb.runs import Store
from flownb.runtime.children import cancel_tick
from flownb.runtime.runner import Runner
from flownb.runtime.stored import accept, refuse_changes
from flownb.store.drivers import describe, is_imported

#: So long at most a cancel waits for the end of the run, in seconds.
CANCEL_S = 30.0
#: So long it waits for another process that may have the code of the run's `@on_cancel` steps, in seconds.
OTHERS_S = 2.0


def question_in(store: Store, named: str) -> Request[Any]:
    """The question that an id or a token names.

    Raises:
        RequestError: None; what was typed may be a token, so it is not repeated (R4.61).
    """
    run_id, colon, number = named.rpartition(":")
    if colon and run_id and number.isdigit() and store.journal.row(run_id) is None:
        with suppress(WorkflowError):  # it may be a token
            named = f"{full_id(store, run_id)}:{number}"
    try:
        return openings.named(store, named)
    except RequestClosed:
        raise
    except RequestError:
        raise RequestError(
            "That is neither the id of a question, such as 7f3a:1, nor a token of one. `python -m flownb requests` "
            "lists those that are open."
        ) from None


def answer(store: Store, named: str, words: list[str], by: str | None) -> tuple[str, int]:
    """Answer a question, whoever drives its run.

    Returns:
        Run and number of the question.
    """
    request = question_in(store, named)
    runner = request._runner
    schema = store._committer.schema(runner.run_id, request.number)
    value, fields = answer_from(words, schema)
    answer_request(runner, request._opened, value, by, fields)
    return runner.run_id, request.number


def driver_of(store: Store, run_id: str) -> str:
    """Who takes what lies in a run's inbox, in words; "" is nobody."""
    holder = store.journal.holder(run_id)
    return describe(holder.driver) if holder.is_live() else ""


def cancel(store: Store, run_id: str, reason: str) -> str:
    """End a run; where nobody drives it, it is driven for that, with those of its children that are left.

    Returns:
        Its status after that.

    Raises:
        WorkflowRuntimeError: Its journal is damaged, so nobody can drive it; or it did not end in time.
    """
    sight = see(store, run_id)
    if sight.damage and not is_imported(sight.row.driver) and sight.row.status not in ENDED:
        raise WorkflowRuntimeError(f"A damaged run is never driven again, so it cannot be cancelled: {sight.damage}")
    run = store.run(run_id)
    may_wait = run._runner.state.spec.on_cancel and sight.row.status == "waiting" and not sight.holder.is_live()
    if may_wait and _is_taken_by_others(store, run._runner, reason):
        return _status(store, run_id)
    try:
        run.cancel(reason).result(CANCEL_S)
    except TimeoutError:
        who = driver_of(store, run_id) or "nobody"
        raise WorkflowRuntimeError(
            f"Run {run_id!r} was not over after {CANCEL_S:.0f} s. The cancel is accepted; {who} drives the run."
        ) from None
    for child in _left(store, run_id):
        store.run(child).cancel(reason or "its parent is over").result(CANCEL_S)
    return _status(store, run_id)


def _status(store: Store, run_id: str) -> str:
    row = store.journal.row(run_id)
    return row.status if row is not None else ""


def _is_taken_by_others(store: Store, runner: Runner, reason: str) -> bool:
    """A run that waits is held by nobody, yet a process may wait with it that has the code of its `@on_cancel` steps:
    that one is given a moment to take the cancel, and then the time to run them."""
    refuse_changes(runner)
    accept(runner, cancel_tick(runner, reason, options.user))
    now = time.monotonic()
    until, end = now + OTHERS_S, now + CANCEL_S
    while time.monotonic() < until:
        status = _status(store, runner.run_id)
        if status in ENDED:
            return True
        if status == "cancelling":
            until = end
        time.sleep(0.05)
    return False


def _left(store: Store, run_id: str) -> Iterator[str]:
    """Children of a run that is over which nobody will end: those that lost their driver with it (R2.45)."""
    for row in store.journal.runs(parent=run_id):
        if row.status not in ENDED and not store.journal.holder(row.run_id).is_live():
            yield row.run_id


def export(store: Store, run_id: str, path: str) -> Path:
    target = Path(path)
    if target.is_dir():
        target /= f"{full_id(store, run_id).replace('/', '-')}.flownb.zip"
    return export_run(store, full_id(store, run_id), target)


def take_in(store: Store, path: str) -> Imported:
    return import_run(store, path)
