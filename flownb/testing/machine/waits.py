"""Waits of steps and how they end: sleeps, questions, events, children; timers, answers."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from flownb.core import ticks as t
from flownb.core.spec import EVENT
from flownb.core.state import Delivery, Request, Timer, Wait, is_ended
from flownb.core.values import Out
from flownb.testing.feed import key, out
from flownb.testing.machine import flows
from flownb.testing.machine.run import Run, has_children, has_requests, has_timers, has_waits, is_alive


class Waits(Run):
    """Rules of waits."""

    def _waiter(self, i: int, woken: bool) -> Delivery:
        """Any whose code is there; or rather one whose wait is over, but that has no worker yet."""
        alive = self.alive()
        if woken:
            alive = [d for d in alive if d.due] or alive
        return alive[i % len(alive)]

    @precondition(is_alive)
    @rule(i=flows.index, after=flows.delays, woken=st.booleans())
    def a_step_sleeps(self, i: int, after: float, woken: bool) -> None:
        self.opens(self._waiter(i, woken), t.Sleep(self.state.at + after, f"{after}"))

    @precondition(is_alive)
    @rule(i=flows.index)
    def a_step_goes_on_while_another_wait_is_open(self, i: int) -> None:
        """It holds a worker from the first that ends until it awaits again (R4.26)."""
        d = self._waiter(i, False)
        first = self.state.ids.timer
        self.opens(d, t.Sleep(self.state.at + 1))
        if self.is_open():
            self.opens(d, t.Ask(out("Ask")))
        if self.is_open() and first in self.state.timers:
            self.feed(t.TimerFired(max(self.state.at, self.state.timers[first].due_at), first))

    @precondition(is_alive)
    @rule(i=flows.index, after=flows.delays, kind=st.sampled_from(("plain", "until", "default")), woken=st.booleans())
    def a_step_asks(self, i: int, after: float, kind: str, woken: bool) -> None:
        default = out("Reply", "default") if kind == "default" else None
        due = None if kind == "plain" else self.state.at + after
        self.opens(self._waiter(i, woken), t.Ask(out("Ask"), due, default))

    @precondition(is_alive)
    @rule(
        i=flows.index,
        event=st.sampled_from(("A", "A", "SubA", "C", "Reply", EVENT)),
        n=st.none() | flows.index,
        due=st.none() | flows.delays,
        asks=st.booleans(),
    )
    def a_step_awaits_an_event(self, i: int, event: str, n: int | None, due: float | None, asks: bool) -> None:
        """The n-th value is required of its field, or none is."""
        requires = {} if n is None else {"n": out("Value", flows.VALUES[n % len(flows.VALUES)])}
        question = out("Ask", "shown") if asks else None
        due_at = None if due is None else self.state.at + due
        self.opens(self._waiter(i, False), t.Await(key(event), requires, due_at, "", question))

    @precondition(is_alive)
    @rule(i=flows.index, n=flows.few)
    def a_step_runs_a_child(self, i: int, n: int) -> None:
        self.opens(self._waiter(i, False), t.RunChild("test:other", out("Start", n), n + 1))

    @precondition(has_waits)
    @rule(i=flows.index)
    def a_step_gives_a_wait_up(self, i: int) -> None:
        d, wait = self._pair(i)
        self.says(d, t.WaitWithdrawn, mark=wait.mark)
        left = self.state.steps[d.step]
        now = left.active.get(d.id) or left.waiting.get(d.id)
        assert now is not None and wait.mark not in now.waits, "a wait that was given up is open (R4.28)"

    @precondition(has_waits)
    @rule(i=flows.index)
    def a_step_awaits_a_wait_again(self, i: int) -> None:
        d, wait = self._pair(i)
        self.says(d, t.WaitOpened, mark=wait.mark, wait=t.Sleep(0.0))
        assert self.state.steps[d.step].active.get(d.id) is None or d.due, "a waiting step holds a worker (R4.26)"

    def _pair(self, i: int) -> tuple[Delivery, Wait]:
        pairs = [(d, wait) for d in self.alive() for wait in d.waits.values()]
        return pairs[i % len(pairs)]

    # -- ends

    @precondition(has_timers)
    @rule(i=flows.index, late=flows.delays, really=flows.rarely)
    def a_timer_fires(self, i: int, late: float, really: bool) -> None:
        """Those that end the run do so only rarely."""
        timers = [timer for timer in self.state.timers.values() if really or not self._ends_the_run(timer)]
        if not timers:
            return
        timer = timers[i % len(timers)]
        at = max(self.state.at, timer.due_at + late)
        self.feed(t.TimerFired(at, timer.id, flows.CLOSED))
        assert not self.state.timers.get(timer.id) or self.state.timers[timer.id].due_at > timer.due_at

    def _ends_the_run(self, timer: Timer) -> bool:
        if timer.kind == "deadline":
            request = self.state.requests[timer.ref]
            return request.kind == "sent" and request.default is None and not self._is_heard()
        return timer.kind in ("timeout", "grace")

    def _is_heard(self) -> bool:
        """Whether somebody takes the end of a question that was returned (R4.76)."""
        return bool(self.state.spec.routes.get(flows.CLOSED.key))

    @precondition(has_requests)
    @rule(
        i=flows.index,
        answer=st.sampled_from(("Reply", "A", "OtherA")),
        how=st.sampled_from(("person", "default")),
        decision=st.sampled_from((*("retry", "done", "skip") * 3, "fail")),
    )
    def a_request_is_answered(self, i: int, answer: str, how: t.How, decision: str) -> None:
        """Of one about a lost delivery: what became of it (R3.62)."""
        request = self._request(i)
        value = out(answer, request.id, bases=(key("A"), EVENT) if answer == "OtherA" else ())
        at = self.state.at
        if request.kind != "unknown":
            self.feed(t.RequestAnswered(at, request.id, value, "ann", how))
        elif decision == "done":
            self.feed(t.RequestAnswered(at, request.id, value, decision="done"))
        elif decision == "skip":
            self.feed(t.RequestAnswered(at, request.id, out("Value"), decision="done"))
        elif decision == "retry":
            self.feed(t.RequestAnswered(at, request.id, out("Value"), decision="retry"))
        else:
            self.feed(t.RequestAnswered(at, request.id, out("Value"), "ann", decision="fail"))
            assert self.state.status == "failed"
        assert request.id not in self.state.requests, "an answered question is open"

    @precondition(has_requests)
    @rule(i=flows.index, really=flows.rarely)
    def a_request_is_disposed_of(self, i: int, really: bool) -> None:
        request = self._request(i)
        if request.kind == "unknown" or not (request.kind != "sent" or self._is_heard() or really):
            return
        self.feed(t.RequestDisposed(self.state.at, request.id, "not needed", "ann", flows.CLOSED))
        assert request.id not in self.state.requests

    @precondition(has_requests)
    @rule(i=flows.index)
    def a_request_is_held(self, i: int) -> None:
        request = self._request(i)
        self.feed(t.RequestHeld(self.state.at, request.id, "ann"))
        assert self.state.requests[request.id].due_at is None, "a held countdown goes on (R4.56)"

    @precondition(has_requests)
    @rule(i=flows.index)
    def a_step_asks_another_question_instead(self, i: int) -> None:
        """Its code runs, from the top, and came to another question than the one that is open (R4.80)."""
        asked = [r for r in self.state.requests.values() if r.kind == "ask"]
        pairs = [(d, r) for r in asked for d in [self.state.steps[r.step].active.get(r.delivery)] if d is not None]
        if not pairs:
            return
        d, request = pairs[i % len(pairs)]
        self.feed(t.RequestDisposed(self.state.at, request.id, "superseded", superseded=True))
        if self.is_open():
            self.opens(d, t.Ask(out("Ask", "another"), supersedes=request.mark))
            assert not is_ended(self.state) and request.id not in self.state.requests

    def _request(self, i: int) -> Request:
        requests = list(self.state.requests.values())
        return requests[i % len(requests)]

    # -- children

    @precondition(has_children)
    @rule(i=flows.index)
    def a_child_changes(self, i: int) -> None:
        children = list(self.state.side.children.values())
        child = children[i % len(children)]
        self.feed(t.ChildChanged(self.state.at, child.id, not child.active))

    @precondition(has_children)
    @rule(i=flows.index, status=st.sampled_from(("completed", "failed", "timed_out", "cancelled")))
    def a_child_is_over(self, i: int, status: str) -> None:
        children = list(self.state.side.children)
        result: Out | None = out("Value", "result") if status == "completed" else None
        failure = None if result is not None else flows.NO
        self.feed(t.ChildFinished(self.state.at, children[i % len(children)], status, result, failure))  # type: ignore[arg-type]
