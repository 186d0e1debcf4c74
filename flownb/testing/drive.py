"""Runs a `Plan` with the core alone, tick by tick; its driver may be lost after any of them.

Code of a plan keeps nothing of its own: where it stands is read from its delivery's ledger and the journal, so a
new driver goes on exactly where the lost one stood. That is what a step's ledger promises (R3.47, R3.48).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from flownb.core.gate import may_pass
from flownb.core.history import History
from flownb.core.invariants import broken
from flownb.core.reduce import begin, reduce
from flownb.core.state import Delivery, RunState, is_ended
from flownb.core.ticks import (
    AnyTick,
    Ask,
    EventsSent,
    GateClosed,
    GateOpened,
    RequestAnswered,
    RunOpened,
    Sleep,
    StateWritten,
    StepFinished,
    StepsGranted,
    TimerFired,
    WaitOpened,
    WaitWithdrawn,
)
from flownb.testing.feed import out, started
from flownb.testing.plan import Plan, plan_of, plan_spec, returned
from flownb.testing.world import World


class Drive:
    """One run of a plan."""

    def __init__(self, plan: Plan, *, num_workers: int | None = 2) -> None:
        first = started(plan_spec(num_workers), plan)
        self.ticks: list[AnyTick] = [first]
        self.state, commands = begin(first)
        self.world = World()
        self.world.act(self.state, first, self.state, commands)

    def feed(self, tick: AnyTick) -> None:
        """Reduce, append, act.

        Raises:
            AssertionError: The state, or what the driver has in hand, is not as it must be.
        """
        before = self.state
        self.state, commands = reduce(before, tick)
        self.ticks.append(tick)
        self.world.act(before, tick, self.state, commands)
        assert broken(self.state) == [], (tick, broken(self.state))
        assert self.world.missing(self.state) == [], (tick, self.world.missing(self.state))

    def lose_driver(self) -> None:
        """The process is killed here; another one folds the journal and takes the run over."""
        replayed = History(list(self.ticks)).at(len(self.ticks))
        assert replayed == self.state, "the replay is another state"
        self.state = replayed
        self.feed(RunOpened(self.state.at, "another"))

    def moves(self) -> list[AnyTick]:
        """Every work tick that may come next."""
        state = self.state
        found: list[AnyTick] = []
        for step in state.steps:
            for d in (*step.active.values(), *step.waiting.values()):
                if not d.gone:
                    found += self._does(d)
        found += [TimerFired(max(state.at, timer.due_at), timer.id) for timer in state.timers.values()]
        found += [self._answer(request) for request in state.requests]
        return [tick for tick in found if may_pass(state, tick)]

    def disturbances(self) -> list[AnyTick]:
        """What a person may do to the gate now."""
        at = self.state.at
        return [GateOpened(at), StepsGranted(at, 1)] if self.state.gate else [GateClosed(at)]

    def _does(self, d: Delivery) -> Iterator[AnyTick]:
        """What a delivery's code may do next; nothing while all that it can do is wait."""
        plan = plan_of(d)
        done = [self.ticks[seq - 1] for seq in d.ledger.oldest_first()] if d.ledger is not None else []
        opened = {tick.mark for tick in done if isinstance(tick, WaitOpened)}
        acted = sum(isinstance(tick, (EventsSent, StateWritten)) for tick in done)
        still = [wait.mark for wait in d.waits]
        for n, op in enumerate(plan.ops if plan is not None else ()):
            assert plan is not None
            first = 10 * n + 1
            if op in ("send", "write"):
                acted -= 1
                if acted < 0:
                    yield self._acts(d, plan, n)
                    return
                continue
            marks = (first,) if op in ("sleep", "ask") else (first, first + 1)
            fresh = [mark for mark in marks if mark not in opened]
            if fresh:
                asks = op == "ask" or (op == "first of two" and fresh[0] == first)
                wait = Ask(out("Ask", plan.name)) if asks else Sleep(self.state.at + 5)
                yield self._says(d, WaitOpened, mark=fresh[0], wait=wait)
                return
            if still:
                if op == "first of two" and len(still) == 1:
                    yield self._says(d, WaitWithdrawn, mark=still[0])
                if d.worker >= 0:  # it awaits again what is still open, and gives its worker back
                    yield self._says(d, WaitOpened, mark=still[0], wait=Sleep(0.0))
                return
        if d.worker >= 0:
            outs, fan = returned(d)
            yield self._says(d, StepFinished, outs=outs, fan=fan)

    def _acts(self, d: Delivery, plan: Plan, n: int) -> AnyTick:
        if plan.ops[n] == "send":
            return self._says(d, EventsSent, outs=(out("Done", ("sent", plan.name, n)),))
        return self._says(d, StateWritten, changes={f"{plan.name}.{n}": out("Value", n)})

    def _says(self, d: Delivery, kind: Callable[..., AnyTick], **fields: Any) -> AnyTick:
        name = self.state.spec.steps[d.step].name
        return kind(at=self.state.at + 1, step=name, delivery=d.id, start=d.start, **fields)

    def _answer(self, request: int) -> AnyTick:
        asked = self.state.requests[request].question.value
        return RequestAnswered(self.state.at + 1, request, out("Reply", ("answered", asked)))


def drive(plan: Plan, choose: Callable[[int], int], *, num_workers: int | None = 2, limit: int = 5_000) -> Drive:
    """Run a plan to its end.

    Args:
        plan: What to do.
        choose: `choose(n)` gives a number below n: which of the ticks that may come is next, or a disturbance.
        num_workers: Of every step.
        limit: More ticks than this are taken for a run that never ends.

    Raises:
        AssertionError: It cannot go on, or never ends, or a state on the way is not sound.
    """
    run = Drive(plan, num_workers=num_workers)
    while not is_ended(run.state):
        assert len(run.ticks) < limit, f"{limit} ticks and no end: {run.state!r}"
        moves, disturbances = run.moves(), run.disturbances()
        assert moves or run.state.gate, f"nothing can come next: {run.state!r}"
        likely = moves * 4 + disturbances
        n = choose(len(likely) + 1)
        if n < len(likely):
            run.feed(likely[n])
        else:
            run.lose_driver()
    return run


def finished_in_order(plan: Plan, *, num_workers: int | None = 2) -> RunState:
    """The last state of a run in which nothing disturbs and the first move is always taken."""
    return drive(plan, lambda n: 0, num_workers=num_workers).state
