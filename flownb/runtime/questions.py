"""What a driven run remembers of its questions beside its state: accepted answers, closed ones, who asked what."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from flownb.core.state import Request, RunState
from flownb.core.ticks import RequestAnswered, TimerFired
from flownb.core.values import Out

if TYPE_CHECKING:
    from flownb.core.ticks import How
    from flownb.runtime.runner import Runner


class Accepted(Struct, frozen=True):
    """An answer that passed the door; it is certain to be admitted, unless the run ends first."""

    answer: Out
    by: str
    at: float
    how: How = "person"


class Questions:
    """Open questions are in the run's state; this is what else people and code want to know of them."""

    def __init__(self) -> None:
        #: Held while an answer is checked and accepted, so that two of them cannot both pass.
        self.door = threading.Lock()
        self.accepted: dict[int, Accepted] = {}
        #: Questions whose end without an answer is on its way.
        self.disposing: set[int] = set()
        #: How a question ended, by its number.
        self.closed: dict[int, str] = {}
        #: Every question that was opened, by its number.
        self.all: dict[int, Request] = {}
        #: Those asked with `ctx.ask`, by (delivery, mark), and the types that answer those asked in words.
        self.asked: dict[tuple[int, int], Request] = {}
        self.asked_types: dict[tuple[int, int], Any] = {}
        self.answer_types: dict[int, Any] = {}
        #: The question that a tick answered, by seq: for `ctx.request` in the step that gets the answer.
        self.answered_by: dict[int, Request] = {}
        #: Answers without a person.
        self.policy: Callable[[Runner, Request], None] | None = None
        #: Questions that it is answering.
        self.underway: set[int] = set()
        #: Its tasks, which must not be collected while they run.
        self.tasks: set[Any] = set()
        #: Why such an answer did not come: shown with the question, which stays open.
        self.errors: dict[int, str] = {}

    def opened(self, runner: Runner, request: Request) -> None:
        self.all[request.id] = request
        if request.delivery:
            asked = request.delivery, request.mark
            self.asked[asked] = request
            if asked in self.asked_types:
                self.answer_types[request.id] = self.asked_types.pop(asked)
        if self.policy is not None:
            self.policy(runner, request)

    def answered(self, before: RunState, tick: RequestAnswered | TimerFired, seq: int) -> None:
        """A tick closed a question with an answer."""
        if isinstance(tick, RequestAnswered):
            request = before.requests.get(tick.request)
        else:
            timer = before.timers.get(tick.timer)
            request = before.requests.get(timer.ref) if timer is not None and timer.kind == "deadline" else None
            if request is not None and request.default is not None:
                self.accepted[request.id] = Accepted(request.default, "", tick.at, "default")
        if request is not None and not request.delivery:
            self.answered_by[seq] = request
