"""A question as a page, and what is sent back by it. Everything here waits, on threads of its own."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from flownb.errors import AlreadyAnswered, AnswerInvalid, RequestClosed
from flownb.forms.fields import MISSING
from flownb.runs import Store
from flownb.runtime.questions import secret_of
from flownb.serve import pages
from flownb.serve.bodies import Raw
from flownb.serve.form import LONGEST_NAME, NAME_FIELD, SEAL_FIELD, Form
from flownb.serve.guards import Seal
from flownb.serve.markup import Html
from flownb.serve.standing import BY_LINK, Standing, give, standing, verdict

#: Locks of so many questions are kept.
_LOCKS: Final = 1_000
OLD = "This page was open for a long time. Please look at your answer once more, and send it again."

Answer = tuple[int, Html]


class Answering:
    """Shows questions and takes their answers.

    Args:
        store: Where they are.
        told: Called with a line for each answer that was recorded.
    """

    def __init__(self, store: Store, told: Callable[[str], object]) -> None:
        self._store, self._told = store, told
        self._seal = Seal(store.journal.secret())
        self._lock = threading.Lock()
        self._locks: OrderedDict[str, threading.Lock] = OrderedDict()

    def knows(self, hashed: str) -> bool:
        """Whether the token of a hash answers a question, open or not."""
        return self._store.journal.token(hashed) is not None

    def show(self, token: str) -> Answer:
        """The page of a token."""
        found = self._standing(token)
        if isinstance(found, tuple) and not isinstance(found, Standing):
            return found
        closed = _closed(found)
        return closed if closed is not None else (200, self._page(found, token, Form(found.request)))

    def take(self, token: str, raw: Raw) -> Answer:
        """What a form sent."""
        with self._alone(secret_of(token)):
            return self._take(token, raw)

    def _take(self, token: str, raw: Raw) -> Answer:
        hashed = secret_of(token)
        found = self._standing(token)
        if not isinstance(found, Standing):
            return found
        if found.status not in ("open", "answered"):
            return _closed(found) or (410, pages.status_page(410))
        request = found.request
        seal = self._seal.check((raw.get(SEAL_FIELD) or [""])[0], hashed)
        if seal == "wrong":
            return 403, pages.status_page(403)
        form = Form(request, raw)
        name = _name_in(raw)
        if found.status == "open":
            if form.was_changed:  # a row more or less
                return 200, self._page(found, token, form, name)
            if seal == "old":
                return 200, self._page(found, token, form, name, said=OLD)
        answer = form.answer()
        is_good = answer is not MISSING
        if found.status == "open" and not (is_good and name):
            return 422, self._page(found, token, form, name, needs_name=not name)
        if not is_good:  # another answer stands, whatever this one says
            return _answered(found, is_late=True)
        try:
            give(request, answer, name)
        except AnswerInvalid as error:
            form.refuse(str(error))
            return 422, self._page(found, token, form, name)
        except AlreadyAnswered:
            return _answered(self._again(found, token), is_late=True)
        except RequestClosed:
            return _closed(self._again(found, token)) or (410, pages.status_page(410))
        return self._thank(found, token, form, name)

    def _thank(self, found: Standing, token: str, form: Form, name: str) -> Answer:
        """The answer is in."""
        request = found.request
        is_again = found.status == "answered"
        what, why = verdict(self._store, request)
        if what == "refused":
            form.refuse(why or "The run did not take this answer.")
            return 422, self._page(found, token, form, name)
        if not is_again:
            self._told(f"{request.id} was answered by {name}{BY_LINK}.")
        given = self._again(found, token).accepted
        by, at = (given.by, given.at) if given is not None else (f"{name}{BY_LINK}", request._runner.clock.now())
        thanks = pages.thanks_page(form.title, form.said(), by, at, was_taken=what == "taken", is_again=is_again)
        return 200, thanks

    def _standing(self, token: str) -> Standing | Answer:
        try:
            found = standing(self._store, token)
        except RequestClosed:
            return 410, pages.status_page(410)
        return (404, pages.status_page(404)) if found is None else found

    def _again(self, found: Standing, token: str) -> Standing:
        again = self._standing(token)
        return again if isinstance(again, Standing) else found

    def _page(
        self, found: Standing, token: str, form: Form, name: str = "", said: str = "", needs_name: bool = False
    ) -> Html:
        seal = self._seal.of(secret_of(token))
        return form.page(seal=seal, name=name, refused=found.refused, said=said, needs_name=needs_name)

    @contextmanager
    def _alone(self, key: str) -> Iterator[None]:
        """One answer to a question at a time: of two clicks the second one sees what the first one did."""
        with self._lock:
            lock = self._locks.pop(key, None) or threading.Lock()
            self._locks[key] = lock
            while len(self._locks) > _LOCKS:
                self._locks.popitem(last=False)
        with lock:
            yield


def _name_in(raw: Raw) -> str:
    """Who answers, as they wrote it: on one line, not too long."""
    words = " ".join("".join(c if c.isprintable() else " " for c in (raw.get(NAME_FIELD) or [""])[0]).split())
    return words[:LONGEST_NAME]


def _closed(found: Standing) -> Answer | None:
    """The page of a question that is not open; None for one that is."""
    if found.status == "open":
        return None
    if found.status == "answered":
        return _answered(found)
    return 410, pages.closed_page(found.status, found.request._now.due_at)


def _answered(found: Standing, *, is_late: bool = False) -> Answer:
    status = 409 if is_late else 410
    if found.accepted is None:  # by an event, of which nobody knows more
        return status, pages.status_page(410)
    if found.accepted.how == "default":
        return 410, pages.closed_page("default", found.request._now.due_at)
    return status, pages.answered_page(found.accepted.by, found.accepted.at, is_late=is_late)


__all__ = ["Answering"]
