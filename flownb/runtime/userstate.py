"""The user's state as its own run sees it: with the writes that are on their way to the journal."""

from __future__ import annotations

import threading

from flownb.core.persist import Names
from flownb.core.ticks import StateWritten
from flownb.core.values import Out
from flownb.runtime.turns import Turns

#: What a handle says that ends when an edit may begin, or is in.
EDIT = "an edit of the state"


class UserState:
    """Writes are put, not awaited: a paused run's steps go on and read what they wrote (R5.15)."""

    def __init__(self) -> None:
        #: Put and not admitted yet, by the identity of their changes: a tick that waited is stamped anew.
        self._writes: dict[int, StateWritten] = {}
        self._lock = threading.Lock()
        #: Edits come one after the other.
        self.edits = Turns()

    def put(self, tick: StateWritten) -> None:
        with self._lock:
            self._writes[id(tick.changes)] = tick

    def admitted(self, tick: StateWritten) -> None:
        with self._lock:
            self._writes.pop(id(tick.changes), None)

    @property
    def is_writing(self) -> bool:
        """Something is put and not admitted yet."""
        return bool(self._writes)

    def over(self, user: Names[Out]) -> Names[Out]:
        """The journalled state with the writes on top."""
        with self._lock:
            writes = tuple(self._writes.values())
        for tick in writes:
            for name, out in tick.changes.items():
                user = user.set(name, out)
            for name in tick.dropped:
                user = user.drop(name) if name in user else user
        return user
