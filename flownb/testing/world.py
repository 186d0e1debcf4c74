"""What a driver has in hand: code that runs or waits, timers that are armed, questions that are shown, child runs.

A model of the runner's acting side. It hears only ticks and commands, as a runner does; whatever the state owes must
be there without looking at the state (`missing`), and a new driver gets the same from `outstanding`.
"""

from __future__ import annotations

from collections.abc import Iterable

from flownb.core import commands as c
from flownb.core.outstanding import outstanding
from flownb.core.state import Delivery, RunState, is_ended
from flownb.core.ticks import (
    ChildFinished,
    RequestDisposed,
    RunForked,
    RunOpened,
    StepFailed,
    StepFinished,
    Tick,
    TimerFired,
    WaitOpened,
    WaitWithdrawn,
)


class World:
    """One driver's hands."""

    def __init__(self) -> None:
        #: Delivery -> the start number of its code.
        self.code: dict[int, int] = {}
        #: Delivery -> marks of the waits whose outcome its code has not been handed, and the highest mark that it used.
        self.waits: dict[int, set[int]] = {}
        self.marks: dict[int, int] = {}
        self.timers: set[int] = set()
        self.requests: set[int] = set()
        self.children: set[int] = set()
        self.finished = 0

    def act(self, before: RunState, tick: Tick, state: RunState, commands: Iterable[c.AnyCommand]) -> None:
        """Carry out the commands of one tick.

        Raises:
            AssertionError: A command speaks of something that is not there.
        """
        if isinstance(tick, (RunOpened, RunForked)):  # the driver before is gone, with all that it had in hand
            self.code, self.waits, self.marks = {}, {}, {}
            self.timers, self.requests, self.children = set(), set(), set()
            if isinstance(tick, RunOpened):
                commands = outstanding(state)
            else:
                self._expect(state, tick)
        elif state.ignored == before.ignored:
            self._hear(before, tick)
        for command in commands:
            self._do(command)

    def _expect(self, state: RunState, tick: RunForked) -> None:
        """What a fork is told the end of at once: no code and no child of its own stands for that."""
        for step in state.steps:
            for d in (*step.active.values(), *step.waiting.values()):
                if d.id in tick.settled:
                    self._start(d)
        self.children.update(tick.over)

    def _hear(self, before: RunState, tick: Tick) -> None:
        """What a tick itself says of code and of what is in hand."""
        match tick:
            case StepFinished() | StepFailed():
                self._forget(tick.delivery)
            case WaitOpened():
                if tick.mark > self.marks[tick.delivery]:
                    self.marks[tick.delivery] = tick.mark
                    self.waits[tick.delivery].add(tick.mark)
            case WaitWithdrawn():
                self.waits[tick.delivery].remove(tick.mark)
            case TimerFired():
                self.timers.remove(tick.timer)
            case ChildFinished():
                self.children.remove(tick.child)
            case RequestDisposed(superseded=True):
                request = before.requests[tick.request]
                if request.delivery in self.waits:
                    self.waits[request.delivery].discard(request.mark)
            case _:
                pass  # what follows from it are its commands

    def _forget(self, delivery: int) -> None:
        del self.code[delivery], self.waits[delivery], self.marks[delivery]

    def _start(self, d: Delivery) -> None:
        self.code[d.id] = d.start
        self.waits[d.id] = {*d.waits, *(wake.mark for wake in d.wakes or ())}
        self.marks[d.id] = d.ledger.marks if d.ledger is not None else 0

    def _do(self, command: c.AnyCommand) -> None:
        match command:
            case c.StartStep(d):
                assert d.id not in self.code, f"delivery {d.id} was started while its code runs"
                self._start(d)
            case c.WakeStep(d, wakes):
                assert self.code.get(d.id) == d.start, f"delivery {d.id} was woken, but its code is not there"
                assert wakes, f"delivery {d.id} was woken by nothing"
                assert {wake.mark for wake in wakes} <= self.waits[d.id], f"delivery {d.id} was told {wakes} twice"
                self.waits[d.id] -= {wake.mark for wake in wakes}
            case c.StopStep(_, delivery, start):
                if self.code.get(delivery) == start:
                    self._forget(delivery)
            case c.ArmTimer(timer):
                assert timer.id not in self.timers, f"timer {timer.id} was armed twice"
                self.timers.add(timer.id)
            case c.DisarmTimer(timer_id):
                self.timers.discard(timer_id)
            case c.OpenRequest(request):
                assert request.id not in self.requests, f"request {request.id} was opened twice"
                self.requests.add(request.id)
            case c.CloseRequest(request_id):
                assert request_id in self.requests, f"request {request_id} was closed, but is not open"
                self.requests.remove(request_id)
            case c.StartChild(child):
                assert child.id not in self.children, f"child {child.id} was started twice"
                self.children.add(child.id)
            case c.StopChild(child_id):
                assert child_id in self.children, f"child {child_id} was stopped, but does not run"
                self.children.remove(child_id)
            case c.FinishRun():
                self.finished += 1
            case c.Publish() | c.Suspend():
                pass  # nothing stays in hand; who suspends keeps all until somebody opens the run again

    def missing(self, state: RunState) -> list[str]:
        """Where hands and state differ, in words; empty when they agree."""
        if is_ended(state):
            left = {
                "code": self.code,
                "timers": self.timers,
                "requests": self.requests,
                "children": self.children,
            }
            said = [
                f"the run is over, but {name} of {sorted(held)} is still there" for name, held in left.items() if held
            ]
            return said if self.finished == 1 else [*said, f"FinishRun came {self.finished} times"]
        alive = [d for step in state.steps for d in (*step.active.values(), *step.waiting.values()) if not d.gone]
        pairs: list[tuple[str, object, object]] = [
            ("code", self.code, {d.id: d.start for d in alive}),
            ("waits", self.waits, {d.id: {*d.waits, *(w.mark for w in d.wakes or ())} for d in alive}),
            ("timers", self.timers, set(state.timers)),
            ("requests", self.requests, set(state.requests)),
            ("children", self.children, set(state.side.children)),
        ]
        return [f"{name} in hand: {has}, in the state: {owes}" for name, has, owes in pairs if has != owes]
