"""What a delivery did before, as its code finds it when it runs again (R3.46 to R3.56).

A ledger is read once, when a start begins that is not the first; a delivery that used no `ctx` has none, and a first
start never looks. Entries are found by what they are, not by when they were made: a second try that decides otherwise
must not be given what belongs to another call (R3.49).
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Hashable
from typing import Any

from pydantic import BaseModel

from flownb.core.state import Delivery, Did, Ended, Ledger, Outcome, Wake
from flownb.core.values import Out
from flownb.events import key_of

#: Outcomes that a new attempt tries anew (R3.51); a restart of the same attempt gives them back.
_BAD = frozenset({"expired", "disposed", "timed_out", "failed", "cancelled"})


class Replay:
    """What earlier starts of one delivery did, taken entry by entry as its code comes by again."""

    def __init__(self, delivery: Delivery, ledger: Ledger) -> None:
        #: Held while an entry is taken: threads that a step began may come by at once.
        self._lock = threading.Lock()
        self._sent: Counter[Hashable] = Counter()
        self._values: dict[str, list[Out]] = defaultdict(list)
        self._waits: dict[Hashable, list[Did]] = defaultdict(list)
        self._outcomes: dict[int, Outcome] = {}
        #: Writes to the state and to the stream that the journal has already.
        self.writes = ledger.writes
        self.streams = ledger.streams
        #: Children that failed in an earlier attempt: the next try of one has its number.
        self._failed: dict[Hashable, list[Did]] = defaultdict(list)
        #: The highest number of a child.
        self.children = 0
        entries = ledger.did.oldest_first()
        for entry in entries:
            if isinstance(entry, Ended):
                self._outcomes[entry.mark] = entry.outcome
        for entry in entries:
            if isinstance(entry, Did):
                self._keep(entry, delivery.attempt)

    def _keep(self, entry: Did, attempt: int) -> None:
        if entry.kind == "send":
            assert entry.out is not None
            self._sent[entry.name, token(entry.out)] += 1
        elif entry.kind == "once":
            assert entry.out is not None
            self._values[entry.name].append(entry.out)
        else:
            outcome = self._outcomes.get(entry.mark)
            identity = identity_of(entry.kind, entry.name, entry.out, entry.requires)
            self.children = max(self.children, entry.number)
            if outcome is not None and outcome.how == "cancelled" and entry.kind != "child":
                return  # its code gave it up: there is no outcome to give back, so it is opened anew
            if outcome is not None and (
                outcome.how == "superseded" or (outcome.how in _BAD and entry.attempt < attempt)
            ):
                self._failed[identity].append(entry)
                return
            self._waits[identity].append(entry)

    def has_sent(self, out: Out, target: str) -> bool:
        """Whether an equal event was sent before, once for each time that it was (R3.52)."""
        name = target, token(out)
        with self._lock:
            if self._sent[name] <= 0:
                return False
            self._sent[name] -= 1
            return True

    def value(self, name: str) -> Out | None:
        """The next value that was recorded under a name, None if the code gets there for the first time."""
        with self._lock:
            recorded = self._values.get(name)
            return recorded.pop(0) if recorded else None

    def wait(self, identity: Hashable) -> tuple[Did, Outcome | None] | None:
        """The next wait of that identity, and how it ended, if it has; None if the code opens it for the first time."""
        with self._lock:
            known = self._waits.get(identity)
            if not known:
                return None
            entry = known.pop(0)
            return entry, self._outcomes.get(entry.mark)

    def note(self, wake: Wake) -> None:
        """A wait ended after this start began."""
        self._outcomes[wake.mark] = wake.outcome

    def outcome(self, mark: int) -> Outcome | None:
        """How a wait ended, None while it is open."""
        return self._outcomes.get(mark)

    def child_number(self, identity: Hashable) -> tuple[int, int]:
        """The number of a child that this start begins, and which try of it this is."""
        with self._lock:
            failed = self._failed.get(identity)
            if failed:
                entry = failed.pop(0)
                return entry.number, entry.tries + 1
            self.children += 1
            return self.children, 1


def identity_of(kind: str, name: str, out: Out | None = None, requires: dict[str, Out] | None = None) -> Hashable:
    """What a wait is known by: a question by its type or key, all else by what it waits for too (R3.49)."""
    if kind == "ask":
        return kind, name or (out.key if out is not None else "")
    needs = frozenset((field, token(value)) for field, value in (requires or {}).items())
    return kind, name, token(out) if out is not None else None, needs


def token(value: Any) -> Hashable:
    """Something that is equal for equal content: field by field, an opaque object by identity."""
    if isinstance(value, Out):
        return value.key, token(value.value)
    if isinstance(value, BaseModel):
        extra = value.__pydantic_extra__ or {}
        return key_of(type(value)), token(value.__dict__), token(extra) if extra else None
    if isinstance(value, dict):
        return "dict", frozenset((token(key), token(item)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return type(value).__name__, tuple(map(token, value))
    if isinstance(value, (set, frozenset)):
        return "set", frozenset(map(token, value))
    if type(value).__hash__ is None or type(value).__module__ not in _HASHED_BY_CONTENT:
        return "is", id(value)
    return type(value).__name__, "nan" if value != value else value


#: Modules whose hashable types are compared by what they hold.
_HASHED_BY_CONTENT = frozenset({"builtins", "datetime", "decimal", "uuid", "pathlib", "enum", "fractions"})
