"""What stands for a token in a store: an open question, or how it ended."""

from __future__ import annotations

import time
from typing import Any, Literal, NamedTuple

from flownb.answering import answer_in_store, answer_request
from flownb.core.ticks import RequestAnswered
from flownb.errors import RequestClosed, RequestError, RunNotFound
from flownb.openings import by_token
from flownb.requests import Request
from flownb.runs import Store
from flownb.runtime.questions import Accepted

#: What follows a name that somebody gave with a link: nobody checked it.
BY_LINK = " (by link)"
#: So long it is waited for what the run makes of an answer, in seconds.
VERDICT_S = 1.0
_LOOK_S = 0.03

Verdict = Literal["taken", "refused", "waits"]


class Standing(NamedTuple):
    """A question, and what became of it until now."""

    request: Request[Any]
    #: "open", or as `Request.status`; "damaged" of a run that cannot go on.
    status: str
    #: The answer that was given, if one was.
    accepted: Accepted | None
    #: Why the run refused the last answer; "" if it refused none.
    refused: str = ""


def standing(store: Store, token: str) -> Standing | None:
    """What a token stands for; None for one that the store does not know.

    Raises:
        RequestClosed: What can be read of its run does not ask it.
        JournalDamaged: Nothing of its run can be read.
        WorkflowRuntimeError: The store cannot be used now.
    """
    try:
        request = by_token(store, token)
    except RequestClosed:  # its journal can only be read up to before it was asked
        raise
    except (RequestError, RunNotFound):  # the run was deleted
        return None
    runner, number = request._runner, request.number
    status: str = request.status
    accepted = runner.questions.accepted.get(number)
    stored = runner.stored
    if status == "open" and stored is not None and stored.damage:
        status = "damaged"
    if status == "open":
        accepted = answer_in_store(runner, number)
        if accepted is not None:
            status = "answered"
    refused = ""
    if status == "open":
        refused = runner.questions.errors.get(number) or store._committer.refusal(runner.run_id, number)
    return Standing(request, status, accepted, refused)


def give(request: Request[Any], answer: Any, name: str) -> None:
    """Answer a question for somebody who has its link.

    Raises:
        AnswerInvalid, AlreadyAnswered, RequestClosed: As `Run.answer`.
    """
    answer_request(request._runner, request._opened, answer, f"{name}{BY_LINK}", {})


def verdict(store: Store, request: Request[Any], patience_s: float = VERDICT_S) -> tuple[Verdict, str]:
    """What the run makes of an answer that was just given: its driver checks it once more (R4.46).

    Returns:
        Also why, if it refused it. "waits": nobody has taken it so far.
    """
    run_id, number, journal = request._runner.run_id, request.number, store.journal
    end = time.monotonic() + patience_s
    while True:
        # The inbox first: what leaves it closes the question in the same commit, or says why not.
        entries = journal.inbox([run_id])
        waits = any(isinstance(e.tick, RequestAnswered) and e.tick.request == number for e in entries)
        if not waits:
            is_open = any(row.id == number for _, row in journal.waiting(run_id=run_id, kind="request"))
            return ("refused", store._committer.refusal(run_id, number)) if is_open else ("taken", "")
        if time.monotonic() > end:
            return "waits", ""
        time.sleep(_LOOK_S)


__all__ = ["BY_LINK", "Standing", "Verdict", "give", "standing", "verdict"]
