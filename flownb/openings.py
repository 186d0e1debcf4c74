"""Open questions across the runs of a store, found without reading a journal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any

from flownb.answering import answer_request
from flownb.errors import JournalDamaged, RequestClosed, RequestError, RunNotFound
from flownb.events import Event
from flownb.requests import Request
from flownb.restoring import readable
from flownb.reviews import DECIDES, Review, Reviews, digest_of_body, from_ticks, in_short
from flownb.runtime.pending import Pending
from flownb.runtime.questions import secret_of
from flownb.runtime.stored import is_viewed, look
from flownb.store.journal import RunRow, Waits

if TYPE_CHECKING:
    from flownb.runs import Store
    from flownb.runtime.commit import Asked
    from flownb.runtime.runner import Runner

#: So many seconds at most an answer waits for a look into the store.
_READING_S = 5.0


class StoreRequest:
    """An open question of a run that nobody has to have open here. To answer it opens the run."""

    def __init__(self, store: Store, run_id: str, row: Waits) -> None:
        self._store, self._row = store, row
        self.run_id = run_id
        #: The step that asks.
        self.step = row.step
        #: Unix seconds, None if it has no deadline.
        self.deadline = row.due

    @property
    def id(self) -> str:
        """`<run id>:<n>`."""
        return f"{self.run_id}:{self._row.id}"

    @property
    def number(self) -> int:
        return self._row.id

    @property
    def workflow(self) -> str:
        """Name of the workflow that asks."""
        row = self._store.journal.row(self.run_id)
        return row.workflow if row is not None else ""

    @property
    def question(self) -> Any:
        """What it asks; of a class that this process does not have, as it is stored.

        Raises:
            JournalDamaged: It cannot be read.
        """
        return self._store._committer.question(self._row).value

    @property
    def opened_at(self) -> float | None:
        """Unix seconds; None where its store does not tell, or cannot be read."""
        return self._asked.at if self._asked is not None else None

    @property
    def schema(self) -> dict[str, Any] | None:
        """JSON Schema of what answers it; None where there is none."""
        return self._asked.schema if self._asked is not None else None

    @property
    def refused(self) -> str:
        """Why the last answer was refused where the run is driven; "" if none was."""
        return self._asked.refused if self._asked is not None else ""

    @property
    def default(self) -> str:
        """The answer that is taken at its deadline, in short; "" for none."""
        return self._asked.default if self._asked is not None else ""

    @property
    def digest(self) -> str:
        """SHA-256 of what it shows, in hex, as the record of reviews will have it; "" if it cannot be read."""
        return digest_of_body(bytes(self._asked.question)) if self._asked is not None else ""

    @cached_property
    def _asked(self) -> Asked | None:
        try:
            return self._store._committer.asked(self._row)
        except JournalDamaged:
            return None

    def in_short(self) -> str:
        """What it asks, on one line; in words, if that cannot be read."""
        try:
            return in_short(self._store._committer.question(self._row))
        except JournalDamaged as error:
            return f"({error})"

    def opened(self) -> Request[Any]:
        """The same in its run, with all that a `Request` can do.

        Raises:
            RequestClosed: It is no longer open.
        """
        return request_in(self._store, self.run_id, self._row.id)

    def answer(self, answer: Any = None, /, *, by: str | None = None, **fields: Any) -> None:
        """Answer it; see `Run.answer`."""
        self.opened().answer(answer, by=by, **fields)

    def dispose(self, reason: str = "") -> str:
        """End it without an answer; see `Request.dispose`."""
        return self.opened().dispose(reason)

    def form(self) -> Any:
        """Its form alone, as a widget."""
        return self.opened().form()

    def __repr__(self) -> str:
        try:
            asks = repr(self.question)
        except JournalDamaged as error:
            asks = f"({error})"
        return f"<Request {self.id} of {self.step}: {asks}, open>"


def token_of(request: StoreRequest) -> str:
    """The token of a question that is open; "" where its step gave one of its own. No journal is read, and what is
    listed does not carry it around (R4.57)."""
    store, number = request._store, request.number
    token = store._committer.token(request.run_id, number)
    return token if store.journal.token(secret_of(token)) == (request.run_id, number) else ""


class StoreRequests:
    """The open questions of a store, by run and number; looking again looks at the present.

    Args:
        store: It.
        workflow: Only those of this workflow, by its name or key.
        step: Only those that this step asks.
        text: Only those that have all of these words.
        kind: Only those of this question class, as far as they can be read.
    """

    def __init__(
        self,
        store: Store,
        *,
        workflow: str | None = None,
        step: str | None = None,
        text: str | None = None,
        kind: type[Event] | None = None,
    ) -> None:
        #: Where they are.
        self.store = store
        self._workflow, self._step, self._kind = workflow, step, kind
        self._words = (text or "").casefold().split()

    def _open(self) -> list[StoreRequest]:
        workflows: dict[str, RunRow | None] = {}
        found = []
        for run_id, row in self.store.journal.waiting(kind="request"):
            if self._step not in (None, row.step):
                continue
            if self._workflow is not None or self._words:
                if run_id not in workflows:
                    workflows[run_id] = self.store.journal.row(run_id)
                if not self._is_wanted(StoreRequest(self.store, run_id, row), workflows[run_id]):
                    continue
            request = StoreRequest(self.store, run_id, row)
            if self._kind is None or _is_of(request, self._kind):
                found.append(request)
        return found

    def _is_wanted(self, request: StoreRequest, run: RunRow | None) -> bool:
        names = (run.workflow, run.key) if run is not None else ()
        if self._workflow is not None and self._workflow not in names:
            return False
        if not self._words:
            return True
        text = " ".join((request.id, *names[:1], request.step, request.in_short())).casefold()
        return all(word in text for word in self._words)

    def of(self, kind: type[Event]) -> StoreRequests:
        """Those of one question class, as far as they can be read."""
        found = copy(self)
        found._kind = kind
        return found

    def answer(self, answer: Any = None, /, *, by: str | None = None, **fields: Any) -> None:
        """The same answer for every one of these. The first that cannot be answered so ends it, with its error."""
        for request in self._open():
            request.answer(answer, by=by, **fields)

    def __len__(self) -> int:
        return len(self._open())

    def __iter__(self) -> Iterator[StoreRequest]:
        return iter(self._open())

    def __getitem__(self, which: int | str) -> StoreRequest:
        found = self._open()
        if isinstance(which, int):
            return found[which]
        for request in found:
            if request.id == which:
                return request
        raise KeyError(f"No open question {which!r}. Open: {', '.join(r.id for r in found) or 'none'}.")

    def _ipython_display_(self) -> None:
        from flownb.run import room  # it builds on this module

        room("review")(self)

    def __repr__(self) -> str:
        found = self._open()
        return f"<{len(found)} open questions{': ' * bool(found)}{', '.join(r.id for r in found)}>"


def _is_of(request: StoreRequest, kind: type[Event]) -> bool:
    try:
        return isinstance(request.question, kind)
    except JournalDamaged:
        return False


def reviews(store: Store, workflow: str | None, by: str | None, since: float | None) -> Reviews:
    """The record of a store, the latest first; see `Store.reviews`."""
    runs = {
        row.run_id: row for row in store.journal.runs(workflow=workflow) if since is None or row.updated_at >= since
    }
    found: list[Review] = []
    for run_id in store.journal.having([kind.__name__ for kind in DECIDES], list(runs)):
        try:
            ticks, _ = readable(store, run_id)
        except (RunNotFound, JournalDamaged):  # it was deleted just now; nothing of it can be read
            continue
        found += from_ticks(run_id, runs[run_id].workflow, ticks, store._committer.codec)
    wanted = [row for row in found if by in (None, row.by) and (since is None or (row.at or 0.0) >= since)]
    return Reviews(sorted(wanted, key=lambda row: (-(row.at or 0.0), row.run, row.id)))


def request_in(store: Store, run_id: str, number: int) -> Request[Any]:
    """A question in its run.

    Raises:
        RequestClosed: The run does not ask it, or not any more.
    """
    run = store.run(run_id)
    runner = run._runner
    opened = runner.state.requests.get(number) or runner.questions.all.get(number)
    if opened is None and is_viewed(runner):  # it may have been opened just now
        _read_on(runner)
        opened = runner.state.requests.get(number) or runner.questions.all.get(number)
    if opened is None:
        raise RequestClosed(f"Run {run_id!r} has no open question {number}.", run_id=run_id, request=number)
    return Request(runner, opened)


def _read_on(runner: Runner) -> None:
    """Let a run that is only looked at take in what its driver wrote until now."""
    read: Pending[None] = Pending("a look into the store", runner.host.loop)

    def begin() -> None:
        look([runner])
        read.resolve(None)

    runner.host.call(begin)
    if not runner.host.is_here():
        with suppress(TimeoutError):  # its loop is busy
            read.result(_READING_S)


def by_token(store: Store, token: str) -> Request[Any]:
    """The question that a token answers, in its run.

    Raises:
        RequestError: The store knows no such token; the token itself is not told (R4.61).
    """
    found = store.journal.token(secret_of(token))
    if found is None:
        raise RequestError(f"No question of {store.place} is answered by that token.")
    return request_in(store, *found)


def named(store: Store, name: str) -> Request[Any]:
    """The question that a token answers, else the one of that id (`<run id>:<n>`), in its run.

    Raises:
        RequestError: There is none; what was given may be a token, so it is not told (R4.61).
        RequestClosed: The run of that id does not ask it, or not any more.
    """
    run_id, _, number = name.rpartition(":")
    is_id = run_id and number.isascii() and number.isdigit() and store.journal.row(run_id) is not None
    if is_id and store.journal.token(secret_of(name)) is None:
        return request_in(store, run_id, int(number))
    return by_token(store, name)


def answer_by_token(store: Store, token: str, answer: Any, by: str | None, fields: dict[str, Any]) -> tuple[str, int]:
    """Answer the question of a token (R4.59).

    Returns:
        Run id and number of the question; the same for the same answer once more.
    """
    request = by_token(store, token)
    answer_request(request._runner, request._opened, answer, by, fields)
    return request._runner.run_id, request.number


def dispose_by_token(store: Store, token: str, reason: str) -> tuple[str, int]:
    """End the question of a token without an answer (R4.59)."""
    request = by_token(store, token)
    request.dispose(reason)
    return request._runner.run_id, request.number
