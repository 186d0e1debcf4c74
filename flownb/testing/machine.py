"""Any legal order of ticks, tried by Hypothesis: what must hold for every run, held.

After each tick: `invariants.broken` is empty; time does not run backwards; what the commands put into a driver's
hands is what the state owes; a late tick changes nothing but a count. At the end: replay equals live, at the last
tick and at random ones; and the run can be driven to its end, by this driver or by another one, with the same result.

    python -m flownb.testing.machine 5000      # that many runs
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import asdict

from flownb.core import ticks as t
from flownb.core.gate import may_pass
from flownb.core.history import History
from flownb.core.invariants import broken
from flownb.core.outstanding import is_quiet, outstanding
from flownb.core.reduce import Reduced, begin, fold, reduce
from flownb.core.spec import EVENT, Spec
from flownb.core.state import Delivery, Request, RunState, is_ended
from flownb.core.values import Failure, Limit, Out
from flownb.testing.feed import event, key, out, spec, started, step
from flownb.testing.world import World

#: Names of types that specs and ticks of the machine use; `Other*` are known to no spec.
ORDINARY = ("A", "B", "C", "SubA")
NAMES = (*ORDINARY, "Start", "Ask", "AskMore", "Reply", "OtherA", "OtherAsk")
#: A base of each that has one beside `Event`.
BASES = {"SubA": "A", "AskMore": "Ask", "OtherA": "A", "OtherAsk": "Ask"}
TYPES = tuple(event(n, bases=BASES.get(n, ()), answer="Reply" if "Ask" in n else "") for n in NAMES if "Other" not in n)

#: What may change when a late tick is counted.
COUNTS = {"seq", "at", "ignored", "budget"}

rarely = st.sampled_from((False,) * 29 + (True,))
index = st.integers(0, 1_000)
delays = st.sampled_from((0.0, 0.5, 3.0))
names = st.lists(st.sampled_from(ORDINARY), max_size=2, unique=True)


@st.composite
def outs(draw: st.DrawFn) -> Out:
    """One event of whatever type; questions with a deadline, with a default, or neither."""
    name = draw(st.sampled_from(NAMES))
    bases = (key(BASES[name]), EVENT) if "Other" in name else ()
    if "Ask" not in name:
        return out(name, draw(st.integers(0, 9)), bases=bases)
    until = draw(st.none() | st.integers(0, 50))
    default = draw(st.sampled_from((None, out("Reply", "default"))))
    return Out(key(name), name, "request", bases, None if until is None else Limit(until, default))


many = st.lists(outs(), max_size=4).map(tuple)


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    """Any workflow: joins, broadcasts and loops as they fall."""
    steps = []
    for i in range(draw(st.integers(1, 5))):
        gathers = draw(names) if i and draw(st.booleans()) else []
        takes = [] if gathers else draw(st.lists(st.sampled_from((*NAMES[:8], EVENT)), max_size=3, unique=True))
        workers = draw(st.sampled_from((1, 1, 2, None)))
        fans = draw(names) if draw(st.booleans()) else []
        steps.append(step(f"s{i}", takes, draw(names), fans=fans, gathers=gathers, num_workers=workers))
    closed = [step("is told", "Closed", num_workers=1)] if draw(st.integers(0, 3)) else []
    first = step("first", "Start", draw(names), fans=draw(names), num_workers=draw(st.sampled_from((1, 4))))
    return spec(
        first,
        *steps,
        *closed,
        types=TYPES,
        outside=draw(st.sampled_from(((), ("C",)))),
        unhandled=draw(st.sampled_from(("warn", "warn", "warn", "ignore", "error"))),
        stalled=draw(st.sampled_from(("wait", "wait", "wait", "error"))),
    )


#: Fan-outs inside fan-outs, three steps deep, with a question on the way.
NESTED = spec(
    step("first", "Start", fans="A"),
    step("outer", "A", ("B", "Ask"), fans="B", num_workers=1),
    step("inner", "B", "C", fans="C", num_workers=1),
    step("hears", "Reply", "C", num_workers=None),
    step("is told", "Closed", "C"),
    step("join", gathers="C", returns="C", num_workers=1),
    step("both", gathers=("C", "B"), returns="C"),
    types=TYPES,
    stalled="wait",
)


class RunMachine(RuleBasedStateMachine):
    """One run, and all that may happen to it."""

    state: RunState

    @initialize(flow=st.one_of(st.just(NESTED), specs()), gate=st.sampled_from(((), (), (), ("person",))))
    def starts(self, flow: Spec, gate: tuple[t.GateReason, ...]) -> None:
        first = started(flow, gate=gate)
        self.journal: list[t.AnyTick] = [first]
        self.states: list[RunState] = []
        self.world = World()
        self.marks = 0
        self.live = History(self.journal)
        #: What started code has said: any of it comes late once the delivery has gone on.
        self.said: list[t.AnyTick] = []
        self._keep(first, first_of=begin(first))

    # -- one tick

    def feed(self, tick: t.AnyTick) -> None:
        """Reduce, append, act; a closed gate keeps a work tick out, as the runner would."""
        if not may_pass(self.state, tick):
            return
        before = self.state
        reduced = reduce(before, tick)
        assert reduced == reduce(before, tick), "the same tick gave two answers (R1.4)"
        self.journal.append(tick)
        self._keep(tick, reduced)

    def _keep(self, tick: t.AnyTick, reduced: Reduced | None = None, *, first_of: Reduced | None = None) -> None:
        reduced = reduced or first_of
        assert reduced is not None
        after, commands = reduced
        before = self.states[-1] if self.states else after
        self.state = after
        self.states.append(after)
        self.live.note(after, tick)
        self.world.act(before, tick, after, commands)
        assert after.seq == len(self.journal), "seq is the place in the journal (R1.1)"
        assert after.at >= before.at and after.at >= tick.at, "time ran backwards (R1.2)"
        assert broken(after) == [], (tick, broken(after))
        assert self.world.missing(after) == [], (tick, self.world.missing(after))

    def goes_on(self) -> bool:
        return not is_ended(self.state)

    @precondition(lambda self: not self.goes_on())
    @rule()
    def nothing_comes_after_the_end(self) -> None:
        at = self.state.at
        for tick in (t.QuietNoticed(at), t.CancelRequested(at), t.RunOpened(at, "another"), t.GateClosed(at)):
            try:
                reduce(self.state, tick)
            except ValueError:
                continue
            raise AssertionError(f"{tick!r} came after the end (R2.41)")

    # -- what is there to act on

    def is_open(self) -> bool:
        return self.goes_on() and may_pass(self.state, t.QuietNoticed(0.0))

    def running(self) -> list[Delivery]:
        """Deliveries whose code runs."""
        return [d for step in self.state.steps for d in step.active.values()]

    def alive(self) -> list[Delivery]:
        """Deliveries whose code is in memory, running or waiting."""
        return [*self.running(), *(d for s in self.state.steps for d in s.waiting.values() if not d.gone)]

    def says(self, d: Delivery, kind: Callable[..., Any], **fields: Any) -> None:
        """A tick of a delivery's code; remembered, to be late one day."""
        tick = kind(at=self.state.at, step=self.state.spec.steps[d.step].name, delivery=d.id, start=d.start, **fields)
        self.said.append(tick)
        self.feed(tick)

    def has_running(self) -> bool:
        return self.is_open() and bool(self.running())

    def has_alive(self) -> bool:
        return self.is_open() and bool(self.alive())

    def has_waits(self) -> bool:
        return self.is_open() and any(d.waits for d in self.alive())

    def has_timers(self) -> bool:
        return self.is_open() and len(self.state.timers) > 0

    def has_requests(self) -> bool:
        return self.is_open() and len(self.state.requests) > 0

    # -- steps

    @precondition(has_running)
    @rule(i=index, outs=many, fan=st.booleans())
    def a_step_finishes(self, i: int, outs: tuple[Out, ...], fan: bool) -> None:
        running = self.running()
        self.says(running[i % len(running)], t.StepFinished, outs=outs if fan else outs[:1], fan=fan)

    @precondition(has_running)
    @rule(each=st.lists(st.tuples(index, many, st.booleans()), min_size=2, max_size=8))
    def some_steps_finish(self, each: list[tuple[int, tuple[Out, ...], bool]]) -> None:
        for i, outs, fan in each:
            if self.has_running():
                running = self.running()
                d = running[i % len(running)]
                self.says(d, t.StepFinished, outs=outs if fan else outs[:1], fan=fan)

    @precondition(has_running)
    @rule(i=index, rarely=rarely, stops=st.booleans(), with_list=st.booleans())
    def a_step_ends_the_run(self, i: int, rarely: bool, stops: bool, with_list: bool) -> None:
        if not rarely:
            return
        running = self.running()
        d = running[i % len(running)]
        if stops:
            elements = (out("A"), out("Stop"), out("B")) if with_list else (out("Stop"),)
            self.says(d, t.StepFinished, outs=elements, fan=with_list)
        else:
            self.says(d, t.StepFailed, failure=Failure("builtins:ValueError", "no"))
        assert is_ended(self.state)

    @precondition(has_alive)
    @rule(i=index, outs=many, only=st.none() | index)
    def a_step_sends(self, i: int, outs: tuple[Out, ...], only: int | None) -> None:
        alive = self.alive()
        steps = self.state.spec.steps
        self.says(
            alive[i % len(alive)],
            t.EventsSent,
            outs=outs,
            target=None if only is None else steps[only % len(steps)].name,
        )

    @precondition(has_alive)
    @rule(i=index, n=st.integers(0, 2), drops=st.booleans())
    def a_step_writes(self, i: int, n: int, drops: bool) -> None:
        alive = self.alive()
        d = alive[i % len(alive)]
        if drops:
            self.says(d, t.StateWritten, changes={"x": out("Value", n)}, dropped=("y",))
        else:
            self.says(d, t.StreamWritten, out=out("A", n))

    # -- waits

    @precondition(has_alive)
    @rule(
        i=index,
        after=delays,
        kind=st.sampled_from(("sleep", "ask", "ask until", "ask with default")),
        woken=st.booleans(),
    )
    def a_step_waits(self, i: int, after: float, kind: str, woken: bool) -> None:
        alive = self.alive()
        if woken:  # rather one whose wait is over, but that has no worker yet
            alive = [d for d in alive if d.due] or alive
        self.marks += 1
        due = self.state.at + after
        wait: t.Sleep | t.Ask
        if kind == "sleep":
            wait = t.Sleep(due)
        else:
            default = out("Reply", "default") if kind == "ask with default" else None
            wait = t.Ask(out("Ask"), None if kind == "ask" else due, default)
        self.says(alive[i % len(alive)], t.WaitOpened, mark=self.marks, wait=wait)

    @precondition(has_waits)
    @rule(i=index, again=st.booleans())
    def a_step_gives_a_wait_up_or_awaits_it_again(self, i: int, again: bool) -> None:
        pairs = [(d, wait) for d in self.alive() for wait in d.waits]
        d, wait = pairs[i % len(pairs)]
        if again:
            self.says(d, t.WaitOpened, mark=wait.mark, wait=t.Sleep(0.0))
        else:
            self.says(d, t.WaitWithdrawn, mark=wait.mark)

    @precondition(has_timers)
    @rule(i=index, late=delays, hears=st.booleans())
    def a_timer_fires(self, i: int, late: float, hears: bool) -> None:
        timers = list(self.state.timers.values())
        timer = timers[i % len(timers)]
        at = max(self.state.at, timer.due_at + late)
        closed = out("ClosedRequest", bases=EVENT) if hears else out("Closed")
        self.feed(t.TimerFired(at, timer.id, closed))

    @precondition(has_requests)
    @rule(i=index, disposes=rarely, answer=st.sampled_from(("Reply", "A", "OtherA")))
    def a_request_ends(self, i: int, disposes: bool, answer: str) -> None:
        request = self._request(i)
        if disposes:
            self.feed(t.RequestDisposed(self.state.at, request.id, "not needed", "ann", out("Closed")))
        else:
            bases = (key("A"), EVENT) if answer == "OtherA" else ()
            self.feed(t.RequestAnswered(self.state.at, request.id, out(answer, request.id, bases=bases), "ann"))

    def _request(self, i: int) -> Request:
        requests = list(self.state.requests.values())
        return requests[i % len(requests)]

    # -- from outside

    @precondition(is_open)
    @rule(event=outs(), only=st.none() | index)
    def an_event_arrives(self, event: Out, only: int | None) -> None:
        steps = self.state.spec.steps
        self.feed(t.EventArrived(self.state.at, event, None if only is None else steps[only % len(steps)].name))

    @precondition(is_open)
    @rule()
    def quiet_is_noticed(self) -> None:
        if is_quiet(self.state):
            self.feed(t.QuietNoticed(self.state.at))

    # -- late

    @precondition(is_open)
    @rule(i=index, lost=st.booleans())
    def something_comes_late(self, i: int, lost: bool) -> None:
        """What old code says, and timers, answers and marks of what is over (R3.19)."""
        at = self.state.at
        late: list[t.AnyTick] = [
            tick
            for tick in self.said
            if (tick.delivery, tick.start) not in self.world.code.items()  # type: ignore[union-attr]
        ]
        late += [
            t.TimerFired(at, self.state.next_timer),
            t.RequestAnswered(at, self.state.next_request, out("Reply")),
            t.RequestDisposed(at, self.state.next_request),
            t.StepFinished(at, "no such step", 1, 1),
        ]
        late += [
            t.WaitWithdrawn(at, self.state.spec.steps[d.step].name, d.id, d.start, self.marks + 1) for d in self.alive()
        ]
        ghosts = [d for s in self.state.steps for d in s.waiting.values() if d.gone]
        if lost and ghosts:  # rather from code that is lost with its driver
            late = [t.StepFinished(at, self.state.spec.steps[d.step].name, d.id, d.start) for d in ghosts]
        before, finished = self.state, self.world.finished
        self.feed(late[i % len(late)])
        changed = {k for k, v in asdict(self.state).items() if v != getattr(before, k)}
        assert self.state.ignored == before.ignored + 1 and changed <= COUNTS, (late[i % len(late)], changed)
        assert self.world.finished == finished

    # -- control

    @precondition(goes_on)
    @rule(
        what=st.sampled_from(("close", "open", "open all", "open all", "grant", "grant")),
        reason=st.sampled_from(("person", "breakpoint", "budget")),
    )
    def somebody_works_the_gate(self, what: str, reason: t.GateReason) -> None:
        at = self.state.at
        if what == "close":
            self.feed(t.GateClosed(at, reason, "ann"))
            assert reason in self.state.gate and not self.state.budget
        elif what == "open":
            self.feed(t.GateOpened(at, reason, "ann"))
            assert reason not in self.state.gate
        elif what == "grant":
            self.feed(t.StepsGranted(at, 2))
        else:
            for closed in self.state.gate:
                self.feed(t.GateOpened(at, closed, "ann"))
            assert self.state.gate == ()

    @precondition(goes_on)
    @rule(now=st.sampled_from((False, False, True)))
    def the_driver_is_lost(self, now: bool) -> None:
        if not now:
            return
        lost = {d.id: d for d in self.running()}
        self.feed(t.RunOpened(self.state.at, "another"))
        for d in self.running():
            assert d.id not in lost or d.start == lost[d.id].start + 1, "lost code keeps its start number (R3.17)"
        waiting = {d.id for s in self.state.steps for d in s.waiting.values() if d.due}
        assert lost.keys() <= {d.id for d in self.running()} | waiting, "lost work does not run again (R3.60)"

    @precondition(goes_on)
    @rule(rarely=rarely)
    def somebody_cancels(self, rarely: bool) -> None:
        if rarely:
            self.feed(t.CancelRequested(self.state.at, "enough", "ann"))
            assert self.state.status == "cancelled"

    # -- at the end

    def teardown(self) -> None:
        if not hasattr(self, "state"):
            return
        assert fold(self.journal) == self.state, "replay is not live (R1.3)"
        folded = History(self.journal)
        n = len(self.journal)
        for seq in {1, 2, n // 3, n // 2, n - 1, n}:
            if 1 <= seq <= n:
                assert folded.at(seq) == self.states[seq - 1] == self.live.at(seq), f"replay to tick {seq} is not live"
        if not is_ended(self.state):
            here = ended(self.state)
            there = ended(reduce(self.state, t.RunOpened(self.state.at, "another"))[0])
            assert here == there, "another driver comes to another end"


def ended(state: RunState) -> tuple[object, ...]:
    """Where a run comes to if all that is open ends in the plainest way: how often each step was done, and the status.

    What a step returns depends on its input alone: so it is the same for whichever driver, in whichever order.
    """
    for reason in state.gate:
        state, _ = reduce(state, t.GateOpened(state.at, reason))
    for _ in range(5_000):
        tick = _next_plain(state)
        if tick is None:
            break
        state, _ = reduce(state, tick)
        assert broken(state) == [], (tick, broken(state))
        if is_ended(state):
            break
    else:
        raise AssertionError(f"the run goes on for ever: {state!r}")
    assert is_ended(state) or not (state.busy or state.sleeps or state.requests or state.timers or state.joins), state
    assert len(outstanding(state)) == is_ended(state), "a run with nothing to do owes something"
    return state.status, state.failed_step, [step.done for step in state.steps], state.unhandled


def _next_plain(state: RunState) -> t.AnyTick | None:
    at = state.at + 1
    for step_spec, step_state in zip(state.spec.steps, state.steps, strict=True):
        for d in step_state.active.values():
            return t.StepFinished(at, step_spec.name, d.id, d.start)
    for timer in state.timers.values():
        if timer.kind == "sleep":
            return t.TimerFired(max(at, timer.due_at), timer.id)
    for request in state.requests.values():
        return t.RequestAnswered(at, request.id, out("Reply", "plain"))
    return t.QuietNoticed(at) if is_quiet(state) else None


def check(runs: int, *, steps: int = 80, shrink: bool = True) -> None:
    """Try so many runs, of so many rules at most; a broken one is shown as short as it can be made."""
    run_state_machine_as_test(
        RunMachine,
        settings=settings(
            max_examples=runs,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            phases=[phase for phase in Phase if shrink or phase is not Phase.shrink],
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )


if __name__ == "__main__":
    check(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000)
    print("Every run held.")
