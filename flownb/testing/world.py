"""What a driver has in hand: code that runs or waits, timers that are armed, questions that are shown.

A model of the runner's acting side. It hears only commands, as a runner does; whatever the state owes must be there
without looking at the state (`missing`), and a new driver gets the same from `outstanding`.
"""

from __future__ import annotations

from collections.abc import Iterable

from flownb.core import commands as c
from flownb.core.outstanding import outstanding
from flownb.core.state import RunState, is_ended
from flownb.core.ticks import RunOpened, StepFailed, StepFinished, Tick, TimerFired, WaitOpened, WaitWithdrawn


class World:
    """One driver's hands."""

    def __init__(self) -> None:
        #: Delivery -> the start number of its code.
        self.code: dict[int, int] = {}
        #: Delivery -> marks of the waits whose outcome its code has not been handed.
        self.waits: dict[int, set[int]] = {}
        self.timers: set[int] = set()
        self.requests: set[int] = set()
        self.finished = 0

    def act(self, before: RunState, tick: Tick, state: RunState, commands: Iterable[c.AnyCommand]) -> None:
        """Carry out the commands of one tick.

        Raises:
            AssertionError: A command speaks of something that is not there.
        """
        if isinstance(tick, RunOpened):  # the driver before is gone, with all that it had in hand
            self.code, self.waits, self.timers, self.requests = {}, {}, set(), set()
            commands = outstanding(state)
        elif isinstance(tick, (StepFinished, StepFailed)) and state.ignored == before.ignored:
            del self.code[tick.delivery], self.waits[tick.delivery]
        elif isinstance(tick, WaitOpened) and state.ignored == before.ignored:
            self.waits[tick.delivery].add(tick.mark)
        elif isinstance(tick, WaitWithdrawn) and state.ignored == before.ignored:
            self.waits[tick.delivery].remove(tick.mark)
        elif isinstance(tick, TimerFired):
            self.timers.discard(tick.timer)
        for command in commands:
            self._do(command)

    def _do(self, command: c.AnyCommand) -> None:
        match command:
            case c.StartStep(d):
                assert d.id not in self.code, f"delivery {d.id} was started while its code runs"
                self.code[d.id] = d.start
                self.waits[d.id] = {wait.mark for wait in d.waits}
            case c.WakeStep(d, wakes):
                assert self.code.get(d.id) == d.start, f"delivery {d.id} was woken, but its code is not there"
                assert wakes, f"delivery {d.id} was woken by nothing"
                self.waits[d.id] -= {wake.mark for wake in wakes}
            case c.StopStep(_, delivery, _):
                self.code.pop(delivery, None)
                self.waits.pop(delivery, None)
            case c.ArmTimer(timer):
                assert timer.id not in self.timers, f"timer {timer.id} was armed twice"
                self.timers.add(timer.id)
            case c.DisarmTimer(timer_id):
                self.timers.discard(timer_id)
            case c.OpenRequest(request):
                assert request.id not in self.requests, f"request {request.id} was opened twice"
                self.requests.add(request.id)
            case c.CloseRequest(request_id, _):
                assert request_id in self.requests, f"request {request_id} was closed, but is not open"
                self.requests.remove(request_id)
            case c.FinishRun():
                self.finished += 1
            case c.Publish():
                pass  # nothing stays in hand

    def missing(self, state: RunState) -> list[str]:
        """Where hands and state differ, in words; empty when they agree."""
        if is_ended(state):
            left = {"code": self.code, "timers": self.timers, "requests": self.requests}
            said = [
                f"the run is over, but {name} of {sorted(held)} is still there" for name, held in left.items() if held
            ]
            return said if self.finished == 1 else [*said, f"FinishRun came {self.finished} times"]
        alive = [d for step in state.steps for d in (*step.active.values(), *step.waiting.values()) if not d.gone]
        pairs: list[tuple[str, object, object]] = [
            ("code", self.code, {d.id: d.start for d in alive}),
            ("waits", self.waits, {d.id: {w.mark for w in d.waits} | {w.mark for w in d.wakes} for d in alive}),
            ("timers", self.timers, set(state.timers)),
            ("requests", self.requests, set(state.requests)),
        ]
        return [f"{name} in hand: {has}, in the state: {owes}" for name, has, owes in pairs if has != owes]
