"""Runs a `Plan` with the core alone, tick by tick; its driver may be lost after any of them.

Code of a plan keeps nothing of its own: where it stands is read from its delivery, so a new driver, or the next
attempt, goes on exactly where the lost one stood. That is what a step's ledger promises (R3.47, R3.48, R3.51).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from flownb.core import ticks as t
from flownb.core.collecting import buffer_of, heads_of, is_complete
from flownb.core.gate import may_pass
from flownb.core.history import History
from flownb.core.invariants import broken
from flownb.core.reduce import begin, reduce
from flownb.core.state import Delivery, Did, Ended, Ledger, RunState, is_ended
from flownb.core.values import Failure, Out
from flownb.testing.feed import key, out, started
from flownb.testing.plan import FAILS, Plan, plan_of, plan_spec, returned
from flownb.testing.world import World

#: How a wait ends that a new attempt tries anew (R3.51).
BAD = ("expired", "disposed", "timed_out", "failed", "cancelled")


class Drive:
    """One run of a plan."""

    def __init__(self, plan: Plan, *, num_workers: int | None = 2) -> None:
        first = started(plan_spec(num_workers), plan)
        self.ticks: list[t.AnyTick] = [first]
        self.state, commands = begin(first)
        self.world = World()
        self.world.act(self.state, first, self.state, commands)

    def feed(self, tick: t.AnyTick) -> None:
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
        self.feed(t.RunOpened(self.state.at, "another"))

    def moves(self) -> list[t.AnyTick]:
        """Every work tick that may come next."""
        state, at = self.state, self.state.at + 1
        found: list[t.AnyTick] = []
        for step in state.steps:
            for d in (*step.active.values(), *step.waiting.values()):
                if not d.gone:
                    found += self._does(d)
        found += [t.TimerFired(max(state.at, timer.due_at), timer.id) for timer in state.timers.values()]
        found += [self._answer(request) for request in state.requests]
        found += [t.EventArrived(at, _note(waiter.requires["n"].value)) for waiter in state.side.waiters.values()]
        found += [t.ChildFinished(at, child, "completed", out("Value", "child")) for child in state.side.children]
        return [tick for tick in found if may_pass(state, tick)]

    def disturbances(self) -> list[t.AnyTick]:
        """What others may do now: work the gate, send what nobody waits for yet, let a child wait for the outside."""
        at, state = self.state.at, self.state
        found: list[t.AnyTick] = [t.GateOpened(at), t.StepsGranted(at, 1)] if state.gate else [t.GateClosed(at)]
        if may_pass(state, t.QuietNoticed(at)):
            found += [t.ChildChanged(at, child.id, not child.active) for child in state.side.children.values()]
            work = state.steps[state.spec.index["work"]]
            early = [plan for d in (*work.active.values(), *work.queue) if (plan := plan_of(d)) and "event" in plan.ops]
            found += [t.EventArrived(at, _note(plan.name)) for plan in early[:1]]
        return found

    def _does(self, d: Delivery) -> Iterator[t.AnyTick]:
        """What a delivery's code may do next; nothing while all that it can do is wait."""
        plan = plan_of(d)
        place = _Place(d)
        for n, op in enumerate(plan.ops if plan is not None else ()):
            assert plan is not None
            if op in ("send", "write", "once", "collect"):
                if not place.has_done(op, n):
                    yield self._acts(d, plan, n)
                    return
                continue
            waits = self._waits(plan, n)
            if op in FAILS and not place.fails_here():
                continue
            for name, wait in waits:
                if not place.has_opened(name):
                    yield self._says(d, t.WaitOpened, mark=place.marks + 1, wait=wait)
                    return
            still = [mark for name, _ in waits if (mark := place.open_mark(name))]
            if op in FAILS:
                yield self._fails(d, later=op == "fail later")
                if not still:
                    return
            elif op == "first of two" and len(still) == 1:
                yield self._says(d, t.WaitWithdrawn, mark=still[0])
            if still:
                if d.worker >= 0:  # it awaits again what is still open, and gives its worker back
                    yield self._says(d, t.WaitOpened, mark=still[0], wait=t.Sleep(0.0))
                return
        if d.worker >= 0:
            yield self._returns(d)

    def _waits(self, plan: Plan, n: int) -> list[tuple[str, t.Sleep | t.Ask | t.Await | t.RunChild]]:
        """What the n-th op waits for, with the names that the ledger knows these waits by."""
        due, op = self.state.at + 5, plan.ops[n]
        sleep = (f"{n} sleep", t.Sleep(due, f"{n} sleep"))
        other = (f"{n} other", t.Sleep(due, f"{n} other"))
        ask = (f"{n} ask", t.Ask(out("Ask", plan.name), name=f"{n} ask"))
        child = (key(f"{n} child"), t.RunChild(key(f"{n} child"), out("Start"), n + 1))
        requires, note = {"n": out("Value", plan.name)}, key("Note")
        event = (f"{note} {n}", t.Await(note, requires, name=f"{n}"))
        in_time = (f"{note} {n}", t.Await(note, requires, due, f"{n}"))
        found: dict[str, list[tuple[str, t.Sleep | t.Ask | t.Await | t.RunChild]]] = {
            "sleep": [sleep],
            "ask": [ask],
            "two sleeps": [sleep, other],
            "first of two": [ask, sleep],
            "event": [event],
            "event in time": [in_time],
            "child": [child],
            "fail while it waits": [child, sleep],
        }
        return found.get(op, [])

    def _acts(self, d: Delivery, plan: Plan, n: int) -> t.AnyTick:
        match plan.ops[n]:
            case "send":
                return self._says(d, t.EventsSent, outs=(out("Done", ("sent", plan.name, n)),))
            case "collect":
                half = out("Half", ("pair", plan.name, n))
                return self._says(d, t.EventsSent, outs=(half, half))
            case "once":
                return self._says(d, t.ValueRecorded, name=f"{n}", out=out("Value", len(self.ticks)))
            case _:
                return self._says(d, t.StateWritten, changes={f"{plan.name}.{n}": out("Value", n)})

    def _fails(self, d: Delivery, *, later: bool) -> t.AnyTick:
        retry_at = self.state.at + (3 if later else 1)
        return self._says(d, t.StepFailed, failure=Failure("builtins:ValueError", "not yet"), retry_at=retry_at)

    def _returns(self, d: Delivery) -> t.AnyTick:
        outs, fan = returned(d)
        if self.state.spec.steps[d.step].name != "pair":
            return self._says(d, t.StepFinished, outs=outs, fan=fan)
        assert isinstance(d.out, Out)
        assert d.path is not None
        wants, name = ((d.out.key, 2),), f"{d.path.join} {d.path.index} {d.out.value}"
        buffer = buffer_of(self.state, "pair", name)
        took = is_complete(buffer, wants, d.out.key)
        collect = t.Collect(name, wants, d.out, d.out.key, heads_of(buffer, wants) if took else (), took)
        return self._says(d, t.StepFinished, outs=outs if took else (), collects=(collect,))

    def _says(self, d: Delivery, kind: Callable[..., t.AnyTick], **fields: Any) -> t.AnyTick:
        name = self.state.spec.steps[d.step].name
        return kind(at=self.state.at + 1, step=name, delivery=d.id, start=d.start, **fields)

    def _answer(self, request: int) -> t.AnyTick:
        asked = self.state.requests[request].question.value
        return t.RequestAnswered(self.state.at + 1, request, out("Reply", ("answered", asked)))


class _Place:
    """Where the code of a delivery stands, read from its ledger alone."""

    def __init__(self, d: Delivery) -> None:
        ledger = d.ledger or Ledger()
        self._attempt, self._open = d.attempt, d.waits
        self._writes = ledger.writes
        entries = ledger.did.oldest_first()
        did = [entry for entry in entries if isinstance(entry, Did)]
        self._done = Counter(entry.kind if entry.kind == "send" else entry.name for entry in did)
        self._ended = {entry.mark: entry.outcome for entry in entries if isinstance(entry, Ended)}
        self._waits = {entry.name: entry for entry in did if entry.mark}
        self.marks = ledger.marks
        self._fails = 0

    def has_done(self, op: str, n: int) -> bool:
        """Whether it did this already; each one is asked for once, in order."""
        if op == "once":
            return self._done[f"{n}"] > 0
        if op == "write":
            self._writes -= 1
            return self._writes >= 0
        self._done["send"] -= 2 if op == "collect" else 1
        return self._done["send"] >= 0

    def fails_here(self) -> bool:
        """Whether this attempt ends at the next op that fails; each one is asked for once, in order."""
        self._fails += 1
        return self._attempt == self._fails

    def has_opened(self, name: str) -> bool:
        """Whether a wait is open, or was; one that ended badly in an attempt before counts as never opened."""
        entry = self._waits.get(name)
        ended = self._ended.get(entry.mark) if entry is not None else None
        return entry is not None and not (ended is not None and ended.how in BAD and entry.attempt < self._attempt)

    def open_mark(self, name: str) -> int:
        """The mark of an open wait, 0 of one that is over."""
        mark = self._waits[name].mark
        assert (mark in self._open) != (mark in self._ended), f"the ledger has lost wait {name!r}"
        return 0 if mark in self._ended else mark


def _note(name: int) -> Out:
    return out("Note", SimpleNamespace(n=name))


def drive(plan: Plan, choose: Callable[[int], int], *, num_workers: int | None = 2, limit: int = 5_000) -> Drive:
    """Run a plan to its end.

    Args:
        plan: What to do.
        choose: `choose(n)` gives a number below n: which of the ticks that may come is next, or a disturbance.
        num_workers: Of every step.
        limit: More ticks than this are taken for a run that never ends.

    Raises:
        AssertionError: It cannot go on, or never ends, or does something twice, or a state on the way is not sound.
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
    once = Counter((tick.delivery, tick.name) for tick in run.ticks if isinstance(tick, t.ValueRecorded))
    assert set(once.values()) <= {1}, f"a value was recorded twice (R3.57): {once}"
    return run


def finished_in_order(plan: Plan, *, num_workers: int | None = 2) -> RunState:
    """The last state of a run in which nothing disturbs and the first move is always taken."""
    return drive(plan, lambda n: 0, num_workers=num_workers).state
