"""The open questions of a store as a list that follows it: what is new, what was answered here, what went elsewhere.

No widgets. It is looked at from one thread; every look is one query by index, and decodes only what is new.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final, Literal

from flownb.core.state import ENDED
from flownb.core.ticks import RequestAnswered, RequestDisposed
from flownb.errors import AlreadyAnswered, JournalDamaged, RequestClosed, RunNotFound, WorkflowError
from flownb.forms.approving import Shortcuts, shortcuts
from flownb.openings import StoreRequest, StoreRequests
from flownb.preview import one_line

#: Questions that are listed; the rest are counted.
LISTED: Final = 500
#: So many seconds a question that is done stays in the list, with a word.
STAYS_S: Final = 4.0
#: Ticks at the end of a journal in which a look finds out how a question ended.
_TAIL: Final = 100
State = Literal["open", "sending", "failed", "done", "gone"]


@dataclass(frozen=True, slots=True)
class Row:
    """One question as the list shows it."""

    request: StoreRequest
    workflow: str
    text: str
    since: float | None
    due: float | None
    default: str
    shortcuts: Shortcuts
    #: Equal for questions whose answers are of one type.
    group: str
    #: open, sending, failed (it is open still, and `said` is why the answer was refused), done (answered here), gone.
    state: State = "open"
    said: str = ""
    #: When it was done or gone, by the list's clock.
    ended: float | None = None

    @property
    def id(self) -> str:
        return self.request.id

    @property
    def is_open(self) -> bool:
        return self.state in ("open", "failed")

    def shown(self) -> dict[str, Any]:
        """As the page gets it."""
        keys = self.shortcuts
        return {
            "id": self.id,
            "run": self.request.run_id,
            "workflow": self.workflow,
            "step": self.request.step,
            "text": self.text,
            "since": self.since,
            "due": self.due,
            "default": self.default,
            "yes": keys.yes,
            "no": keys.no,
            "why": keys.why,
            "group": self.group,
            "state": self.state,
            "said": self.said,
        }


class Listing:
    """The list.

    Args:
        view: The questions that it follows.
        clock: Gives seconds, for how long a question that is done stays.
    """

    def __init__(self, view: StoreRequests, clock: Callable[[], float] = time.monotonic) -> None:
        self._view, self._clock = view, clock
        self._store = view.store
        self._rows: dict[str, Row] = {}
        self._workflows: dict[str, str] = {}
        #: Ids of all that were ever in the list, and of those that are done.
        self._seen: set[str] = set()
        self._done: set[str] = set()
        #: Why the store could not be read, "" if it could.
        self.fault = ""

    def get(self, name: str) -> Row | None:
        """A question of the list, by its id."""
        return self._rows.get(name)

    def look(self) -> None:
        """Take in what changed in the store."""
        try:
            found = {request.id: request for request in self._view}
            answered = self._answered(found.values())
        except WorkflowError as error:  # locked, or gone: it is tried again
            self.fault = str(error)
            return
        self.fault = ""
        for name, request in found.items():
            row = self._rows.get(name)
            if name in answered:
                if row is not None and row.state not in ("done", "gone"):
                    self._end(row, "gone", answered[name])
            elif (row is None or row.ended is not None) and (name not in self._done or request.refused):
                self._seen.add(name)
                self._done.discard(name)  # the driver refused what was answered here
                self._rows[name] = self._row(request)
            elif row is not None and row.due != request.deadline:  # somebody stopped its countdown
                self._rows[name] = replace(row, due=request.deadline)
        for name, row in list(self._rows.items()):
            if name not in found and row.state not in ("done", "gone"):
                self._end(row, "gone", self._how_ended(row))
            elif row.ended is not None and self._clock() >= row.ended + STAYS_S:
                del self._rows[name]

    def answer(self, name: str, *, approves: bool) -> None:
        """Answer a question with its approve or reject; what came of it stands in its row."""
        row = self._rows.get(name)
        if row is None or row.state in ("done", "gone") or row.shortcuts.why:
            return
        keys = row.shortcuts
        answer, word = (keys.approve, keys.yes) if approves else (keys.reject, keys.no)
        try:
            row.request.answer(answer)
        except (AlreadyAnswered, RequestClosed) as error:
            self._end(row, "gone", str(error))
        except RunNotFound:
            self._end(row, "gone", "its run was deleted")
        except WorkflowError as error:
            self._rows[name] = replace(row, state="failed", said=one_line(str(error), 400))
        except Exception as error:  # a validator of the user's, say
            self._rows[name] = replace(row, state="failed", said=one_line(f"{type(error).__name__}: {error}", 400))
        else:
            self._end(row, "done", word)

    def sending(self, names: Iterable[str]) -> list[str]:
        """Mark those of some questions that are open and that approve and reject answer; gives them."""
        marked = []
        for name in names:
            row = self._rows.get(name)
            if row is not None and row.is_open and not row.shortcuts.why:
                self._rows[name] = replace(row, state="sending", said="")
                marked.append(name)
        return marked

    def ended(self, name: str, word: str) -> None:
        """A question was answered in its form."""
        row = self._rows.get(name)
        if row is not None and row.state not in ("done", "gone"):
            self._end(row, "done", word)

    def shown(self) -> dict[str, Any]:
        """As the page gets it: `{"rows": [...], "done": int, "total": int, "more": int, "fault": str}`."""
        rows = list(self._rows.values())
        return {
            "rows": [row.shown() for row in rows[:LISTED]],
            "done": len(self._done),
            "total": len(self._seen),
            "more": max(0, len(rows) - LISTED),
            "fault": self.fault,
        }

    def _row(self, request: StoreRequest) -> Row:
        if request.run_id not in self._workflows:
            self._workflows[request.run_id] = request.workflow
        schema = request.schema
        keys = shortcuts(schema)
        return Row(
            request,
            self._workflows[request.run_id],
            request.in_short(),
            request.opened_at,
            request.deadline,
            _in_a_word(request.default, keys),
            keys,
            sha256(repr(schema).encode("utf-8", "replace")).hexdigest()[:12],
            said=f"The last answer was refused: {one_line(request.refused, 300)}" if request.refused else "",
            state="failed" if request.refused else "open",
        )

    def _end(self, row: Row, state: State, said: str) -> None:
        self._done.add(row.id)
        self._rows[row.id] = replace(row, state=state, said=one_line(said, 300), ended=self._clock())

    def _answered(self, requests: Iterable[StoreRequest]) -> dict[str, str]:
        """Those whose answer waits for the driver of their run, with a word."""
        try:
            entries = self._store.journal.inbox({request.run_id for request in requests})
        except JournalDamaged:  # of some run: the others are not held up
            return {}
        return {
            f"{entry.run_id}:{entry.tick.request}": f"{_by('answered', entry.tick.by)}, waits for its driver"
            for entry in entries
            if isinstance(entry.tick, RequestAnswered)
        }

    def _how_ended(self, row: Row) -> str:
        """A word on a question that is no longer open, from the last ticks of its run."""
        run_id, number = row.request.run_id, row.request.number
        try:
            for tick in reversed(self._store.tail(run_id, _TAIL)):
                if isinstance(tick, RequestAnswered) and tick.request == number:
                    return _by("answered", tick.by)
                if isinstance(tick, RequestDisposed) and tick.request == number:
                    return "asked anew" if tick.superseded else _by("disposed of", tick.by)
            run = self._store.journal.row(run_id)
        except RunNotFound:
            return "its run was deleted"
        except WorkflowError:
            return "closed"
        if run is not None and run.status in ENDED and (row.due is None or run.updated_at < row.due):
            return f"closed: its run is {run.status}"
        if row.due is not None and time.time() >= row.due - 1:
            return f"its deadline passed: {row.default}" if row.default else "its deadline passed"
        return "closed"


def _in_a_word(default: str, keys: Shortcuts) -> str:
    """A default that approve or reject would answer, by their word."""
    for answer, word in ((keys.approve, keys.yes), (keys.reject, keys.no)):
        if keys.why:
            break
        if not isinstance(answer, dict):
            if default == repr(answer):
                return word
        elif all(f"{name}={value!r}" in default for name, value in answer.items()):
            return word
    return default


def _by(what: str, who: str) -> str:
    return f"{what} by {one_line(who, 40)}" if who else what


__all__ = ["LISTED", "STAYS_S", "Listing", "Row"]
