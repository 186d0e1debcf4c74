"""One run in the machine's hands: it is fed, and after each tick all that must hold is checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize
from msgspec.structs import replace

from flownb.core import ticks as t
from flownb.core.commands import StartStep
from flownb.core.gate import may_pass
from flownb.core.history import History
from flownb.core.invariants import broken
from flownb.core.life import lives
from flownb.core.reduce import Reduced, begin, fold, reduce
from flownb.core.spec import Spec
from flownb.core.state import Delivery, RunState, is_ended, is_open
from flownb.testing.feed import started
from flownb.testing.machine import flows
from flownb.testing.machine.plain import ended
from flownb.testing.world import World

#: A moment that is not 0: no clock of a driver shows that.
BEGINNING = 1_000.0


class Run(RuleBasedStateMachine):
    """A run, its journal and what its driver has in hand."""

    state: RunState
    #: The highest mark of a wait, and the highest number of a hold or a fork.
    marks: int
    numbers: int

    @initialize(flow=flows.flows, gate=st.sampled_from((*((),) * 9, ("person",))), terms=flows.terms)
    def starts(self, flow: Spec, gate: tuple[t.GateReason, ...], terms: t.Terms) -> None:
        #: What started code has said: any of it comes late once the delivery has gone on.
        self.said: list[t.AnyTick] = []
        self.marks = self.numbers = 0
        self._begin(started(flow, at=BEGINNING, gate=gate, terms=terms))

    def _begin(self, first: t.RunStarted | t.RunForked) -> None:
        """A journal begins here."""
        self.journal: list[t.AnyTick] = []
        self.states: list[RunState] = []
        self.world = World()
        self.live = History(self.journal)
        self._keep(first, begin(first))

    def feed(self, tick: t.AnyTick) -> None:
        """Reduce, append, act; a closed gate keeps a work tick out, as the runner would."""
        if not may_pass(self.state, tick):
            return
        before = self.state
        reduced = reduce(before, tick)
        again = reduce(before, tick)
        assert reduced == again and reduced[1] == again[1], "the same tick gave two answers (R1.4)"
        self._keep(tick, reduced)

    def feed_held(self, tick: t.AnyTick) -> None:
        """The same, while a breakpoint stands before what the tick would start (R5.25)."""
        if not may_pass(self.state, tick):
            return
        _, commands = reduce(self.state, tick)
        held = tuple(command.delivery.id for command in commands if isinstance(command, StartStep))[:2]
        self.feed(replace(tick, held=held))
        if held and not is_ended(self.state):
            assert not set(held) & {d.id for d in self.running()}, "a breakpoint held nothing (R5.25)"
            self.feed(t.BreakpointHit(self.state.at, 1, "before a start"))

    def _keep(self, tick: t.AnyTick, reduced: Reduced) -> None:
        after, commands = reduced
        before = self.states[-1] if self.states else after
        self.journal.append(tick)
        self.state = after
        self.states.append(after)
        self.live.note(after, tick)
        self.world.act(before, tick, after, commands)
        assert after.seq == len(self.journal), "seq is the place in the journal (R1.1)"
        assert after.at >= before.at and after.at >= tick.at, "time ran backwards (R1.2)"
        assert broken(after) == [], (tick, broken(after))
        assert self.world.missing(after) == [], (tick, self.world.missing(after))

    def says(self, d: Delivery, kind: Callable[..., Any], *, held: bool = False, **fields: Any) -> None:
        """A tick of a delivery's code; remembered, to be late one day."""
        tick = kind(at=self.state.at, step=self.name_of(d), delivery=d.id, start=d.start, **fields)
        self.said.append(tick)
        if held:
            self.feed_held(tick)
        else:
            self.feed(tick)

    def opens(self, d: Delivery, wait: t.Sleep | t.Ask | t.Await | t.RunChild) -> None:
        """A delivery's code begins a new wait, under a mark that no wait of the run had."""
        self.marks += 1
        self.says(d, t.WaitOpened, mark=self.marks, wait=wait)

    # -- what is there to act on

    def goes_on(self) -> bool:
        return not is_ended(self.state)

    def is_open(self) -> bool:
        """Work ticks come in: somebody drives, and the gate lets them pass."""
        return self.goes_on() and self.state.status != "suspended" and is_open(self.state)

    def name_of(self, d: Delivery) -> str:
        return self.state.spec.steps[d.step].name

    def running(self) -> list[Delivery]:
        """Deliveries whose code runs."""
        return [d for step in self.state.steps for d in step.active.values()]

    def asleep(self) -> list[Delivery]:
        """Deliveries whose code is in memory and waits."""
        return [d for step in self.state.steps for d in step.waiting.values() if not d.gone]

    def ghosts(self) -> list[Delivery]:
        """Deliveries whose code is lost, or was never started."""
        return [d for step in self.state.steps for d in step.waiting.values() if d.gone]

    def alive(self) -> list[Delivery]:
        return [*self.running(), *self.asleep()]

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
        if is_ended(self.state) or self.state.status == "cancelling":  # what another driver finds there is over
            return
        here = ended(self.state)
        there = ended(reduce(self.state, t.RunOpened(self.state.at, "another"))[0])
        fork = ended(reduce(self.state, t.RunForked(self.state.at + 7, "a fork", self.state.run_id, n))[0])
        assert here == there, "another driver comes to another end (R1.15)"
        assert here == fork, "a fork comes to another end (R6.38)"


def is_running(run: Run) -> bool:
    return run.is_open() and bool(run.running())


def is_alive(run: Run) -> bool:
    return run.is_open() and bool(run.alive())


def has_waiting_work(run: Run) -> bool:
    return run.goes_on() and run.state.status != "suspended" and any(d.worker < 0 for d in lives(run.state))


def is_idle(run: Run) -> bool:
    return run.is_open() and not run.running() and run.state.status != "cancelling"


def has_waits(run: Run) -> bool:
    return run.is_open() and any(d.waits.n for d in run.alive())


def has_timers(run: Run) -> bool:
    return run.is_open() and run.state.timers.n > 0


def has_requests(run: Run) -> bool:
    return run.is_open() and run.state.requests.n > 0


def has_children(run: Run) -> bool:
    return run.is_open() and run.state.side.children.n > 0


def is_open_now(run: Run) -> bool:
    return run.is_open()


def goes_on(run: Run) -> bool:
    return run.goes_on()


def is_over(run: Run) -> bool:
    return not run.goes_on()
