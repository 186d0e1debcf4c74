"""Saved states of stored runs, so that any past state is there in some milliseconds without folding a journal.

They are an economy: a store works without them, and they may be deleted. One is saved by work, as in memory: after so
many ticks and events, or more where the state itself is large, so that saving stays a small part of the work.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

import msgspec

from flownb.core.reduce import advance
from flownb.core.state import RunState, is_ended
from flownb.core.ticks import AnyTick
from flownb.errors import ContextSerdeError, WorkflowRuntimeError
from flownb.store.snapshots import SnapshotCodec, Taken

if TYPE_CHECKING:
    from flownb.runtime.commit import Committer
    from flownb.runtime.runner import Runner

#: So often what is alive lies between two of them, as work.
_ALIVE = 4
_log = logging.getLogger("flownb")
_lock = threading.Lock()  # a codec of snapshots is used by one thread at a time


def save_if_due(runner: Runner) -> None:
    """After a turn that is in the journal, when there was enough work; on the loop's thread."""
    stored, state = runner.stored, runner.state
    assert stored is not None
    if is_ended(state) or stored.work < _ALIVE * _alive(state):
        return
    stored.work = 0
    try:
        save(stored.committer, state)
    except Exception:  # nothing depends on it
        _log.debug("a checkpoint of run %s was not saved", runner.run_id, exc_info=True)


def _codec(committer: Committer) -> SnapshotCodec:
    """Its converters are made on first need, and are worth keeping."""
    if committer.snapshots is None:
        committer.snapshots = SnapshotCodec(committer.codec)
    return committer.snapshots


def _alive(state: RunState) -> int:
    return sum(step.queue.n + step.active.n + step.waiting.n for step in state.steps) + state.requests.n


def save(committer: Committer, state: RunState) -> None:
    """Write a checkpoint of a state.

    Raises:
        WorkflowRuntimeError: The store cannot be used now.
    """
    # A large value is the file that its tick made of it, and no second copy.
    with _lock, committer.codec.with_care():
        body = msgspec.json.encode(_codec(committer).dump(Taken(state)))
    committer.journal.put_checkpoint(state.run_id, state.seq, body)


def moment_at(committer: Committer, run_id: str, seq: int) -> tuple[RunState, RunState | None, AnyTick]:
    """The states of a stored run after and before a tick, and the tick, by the last checkpoint before it.

    Args:
        committer: Of the store.
        run_id: The run.
        seq: The tick, from 1.

    Raises:
        RunNotFound: There is no such run.
        IndexError: It has no such tick.
        JournalDamaged: A tick that is needed cannot be read.
    """
    journal = committer.journal
    last = journal.last_seq(run_id)
    if last and not 1 <= seq <= last:
        raise IndexError(f"Run {run_id!r} has ticks 1 to {last}, not {seq}.")
    state = _saved(committer, run_id, seq - 1)
    ticks = journal.read(run_id, state.seq + 1 if state is not None else 1, seq)
    before = None
    for tick in ticks:
        before = state
        state, _ = advance(before, tick)
    assert state is not None
    return state, before, ticks[-1]


def _saved(committer: Committer, run_id: str, seq: int) -> RunState | None:
    """The last state that was saved and can be read; None if there is none."""
    found = committer.journal.checkpoint(run_id, seq)
    while found is not None:
        at, body = found
        try:
            with _lock:
                state = _codec(committer).load(msgspec.json.decode(body)).state
        except (ContextSerdeError, msgspec.MsgspecError, WorkflowRuntimeError):
            state = None
        if state is not None and state.seq == at and state.run_id == run_id:
            return state
        found = committer.journal.checkpoint(run_id, at - 1)
    return None
