"""Open questions across the runs of a store, found without reading a journal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from flownb.answering import answer_request
from flownb.errors import JournalDamaged, RequestClosed, RequestError
from flownb.events import Event
from flownb.requests import Request
from flownb.runtime.pending import Pending
from flownb.runtime.questions import secret_of
from flownb.runtime.stored import is_viewed, look
from flownb.store.journal import Waits

if TYPE_CHECKING:
    from flownb.runs import Store
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
    def question(self) -> Any:
        """What it asks; of a class that this process does not have, as it is stored.

        Raises:
            JournalDamaged: It cannot be read.
        """
        return self._store._committer.question(self._row).value

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


class StoreRequests:
    """The open questions of a store, by run and number; looking again looks at the present."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def _open(self) -> list[StoreRequest]:
        return [StoreRequest(self._store, run_id, row) for run_id, row in self._store.journal.waiting(kind="request")]

    def of(self, kind: type[Event]) -> list[StoreRequest]:
        """Those of one question class, as far as they can be read."""
        found = []
        for request in self._open():
            with suppress(JournalDamaged):
                if isinstance(request.question, kind):
                    found.append(request)
        return found

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

    def __repr__(self) -> str:
        return f"<{len(self)} open questions: {', '.join(r.id for r in self)}>"


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
