"""What a driven run remembers of its questions beside its state: accepted answers, closed ones, who asked what."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from flownb.core.commands import CloseRequest
from flownb.core.state import Request, RunState
from flownb.core.ticks import RequestAnswered, TimerFired
from flownb.core.values import Out
from flownb.errors import TokenTaken

if TYPE_CHECKING:
    from flownb.core.ticks import AnyTick, How
    from flownb.runtime.runner import Runner


def secret_of(token: str) -> str:
    """The hash of a token; what is kept of it."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _is_taken_elsewhere(runner: Runner, secret: str) -> bool:
    """Whether an open question of another run of the store has a token."""
    if runner.stored is None:
        return False
    journal = runner.stored.committer.journal
    run_id, request = journal.token(secret) or ("", 0)
    if run_id in ("", runner.run_id):
        return False
    return any(waits.id == request for _, waits in journal.waiting(run_id=run_id, kind="request"))


class Accepted(Struct, frozen=True):
    """An answer that passed the door; it is certain to be admitted, unless the run ends first."""

    answer: Out
    by: str
    at: float
    how: How = "person"
    #: The sender's own name for it.
    key: str = ""


class Ended(Struct, frozen=True):
    """When, by whom and why a question ended without an answer."""

    at: float
    by: str = ""
    reason: str = ""


#: What is made on first need, for a run may wait for months and an empty set is as large as many a run's answers.
_LATE: dict[str, Callable[[], Any]] = {
    **dict.fromkeys(("disposing", "underway", "tasks"), set),
    **dict.fromkeys(("accepted", "answer_types", "answered_by", "asked_types", "closed", "drafts", "ends"), dict),
    **dict.fromkeys(("errors", "notices", "tokens"), dict),
    "door": threading.RLock,
}


def accepted_of(tick: RequestAnswered) -> Accepted:
    """What is known of an answer by its tick."""
    return Accepted(tick.answer, tick.by, tick.at, tick.how, tick.key)


class Questions:
    """Open questions are in the run's state; this is what else people and code want to know of them."""

    #: Questions whose end without an answer is on its way.
    disposing: set[int]
    #: Questions that `policy` is answering.
    underway: set[int]
    #: Its tasks, which must not be collected while they run.
    tasks: set[Any]
    accepted: dict[int, Accepted]
    #: How a question ended, by its number.
    closed: dict[int, str]
    #: Of those that ended without an answer.
    ends: dict[int, Ended]
    #: The types that answer questions asked in words, by (delivery, mark) until they are open, then by number.
    asked_types: dict[tuple[int, int], Any]
    answer_types: dict[int, Any]
    #: Old answers that are shown with a question that took the place of the answered one, by the old one's number.
    drafts: dict[int, Out]
    #: The question that a tick answered, by seq: for `ctx.request` in the step that gets the answer.
    answered_by: dict[int, Request]
    #: Held while an answer is checked and accepted, so that two of them cannot both pass; who hears of an answer
    #: meanwhile may give the next one.
    door: threading.RLock
    #: Hashes of tokens of questions that are on their way to be opened, with who asks: delivery and start.
    tokens: dict[str, tuple[int, int]]
    #: Why an answer that a policy was to give did not come: shown with the question, which stays open.
    errors: dict[int, str]
    #: What went wrong when somebody was to be told of a question (`on_request=`): for who runs the flow, not for who
    #: is asked.
    notices: dict[int, str]

    def __init__(self) -> None:
        #: Every question that was opened, by its number.
        self.all: dict[int, Request] = {}
        #: Those asked with `ctx.ask`, by (delivery, mark).
        self.asked: dict[tuple[int, int], Request] = {}
        #: Answers without a person.
        self.policy: Callable[[Runner, Request], None] | None = None
        #: Open readers of the run's stream: any of them may answer.
        self.readers = 0
        #: Told of each question that opens.
        self.on_request: Callable[[Runner, Request], None] | None = None

    def __getattr__(self, name: str) -> Any:
        make = _LATE.get(name)
        if make is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self.__dict__.setdefault(name, make())  # threads that ask at once all get the first one

    def trouble(self, number: int) -> str:
        """All that went wrong with a question; "" if nothing did."""
        return "; ".join(filter(None, (self.notices.get(number), self.errors.get(number))))

    def take_token(self, runner: Runner, secret: str, delivery: int, start: int, instead_of: int) -> None:
        """A question with a token of the caller's is about to be opened.

        Args:
            runner: The run.
            secret: The hash of the token; the token itself is kept nowhere (R4.57).
            delivery: Who asks, and in which start.
            start: As above.
            instead_of: Number of the question that it takes the place of, 0 for none.

        Raises:
            TokenTaken: Another open question has it (R4.58).
        """
        with self.door:
            taken = any(r.token == secret and r.id != instead_of for r in runner.state.requests.values())
            asker = self.tokens.get(secret)
            if asker is not None:
                worker = runner.workers.get(asker[0])
                taken = taken or (worker is not None and worker.delivery.start == asker[1] and not worker.fenced)
            if taken or _is_taken_elsewhere(runner, secret):
                raise TokenTaken("That token is of another open question already. Give another one.")  # never the token
            self.tokens[secret] = delivery, start

    def opened(self, runner: Runner, request: Request) -> None:
        self.note(request)
        if self.on_request is not None:
            self.on_request(runner, request)
        if self.policy is not None:
            self.policy(runner, request)

    def note(self, request: Request) -> None:
        """Keep a question in mind that is open, whoever drives the run."""
        self.all[request.id] = request
        if request.delivery:
            asked = request.delivery, request.mark
            self.asked[asked] = request
            if "asked_types" in self.__dict__ and asked in self.asked_types:
                self.answer_types[request.id] = self.asked_types.pop(asked)
        if request.token:
            self.tokens.pop(request.token, None)

    def close(self, command: CloseRequest, tick: AnyTick) -> None:
        """A question is no longer open; an event, from outside or of a step, may have answered it."""
        self.closed[command.request] = command.how
        if command.answer is not None and command.request not in self.accepted:
            self.accepted[command.request] = Accepted(command.answer, getattr(tick, "by", ""), tick.at, "event")
        elif command.how not in ("answered", "default"):
            self.ends[command.request] = Ended(tick.at, getattr(tick, "by", ""), getattr(tick, "reason", ""))

    def answered(self, before: RunState, tick: RequestAnswered | TimerFired, seq: int) -> None:
        """A tick closed a question with an answer."""
        if isinstance(tick, RequestAnswered):
            request = before.requests.get(tick.request)
            if request is not None and request.id not in self.accepted:  # another process took it
                self.accepted[request.id] = accepted_of(tick)
        else:
            timer = before.timers.get(tick.timer)
            request = before.requests.get(timer.ref) if timer is not None and timer.kind == "deadline" else None
            if request is not None and request.default is not None:
                self.accepted[request.id] = Accepted(request.default, "", tick.at, "default")
        if request is not None and not request.delivery:
            self.answered_by[seq] = request
