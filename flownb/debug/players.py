"""What stands in place of a step's code in a replay, and the clock of one.

A step whose ticks are recorded is not run: its `Played` worker says nothing, and the playback puts the recorded ticks.
"""

from __future__ import annotations

import time
from contextvars import Context
from typing import TYPE_CHECKING

from flownb.core.state import Delivery, Wake
from flownb.core.ticks import Ask, StepFinished, WaitOpened
from flownb.debug.recording import find_delivery
from flownb.definition import Step
from flownb.events import RunAgain, RunAgainDecision, key_of
from flownb.runtime.clock import SystemClock
from flownb.runtime.results import out_of
from flownb.runtime.worker import Worker

if TYPE_CHECKING:
    from flownb.debug.pairs import Pair
    from flownb.debug.playback import Playback
    from flownb.debug.replay import Replayer

#: The question that is the replay's own.
RUN_AGAIN = key_of(RunAgain)


class PlaybackClock(SystemClock):
    """Unix seconds as they were recorded: they jump to each tick that is played back, and pass as usual while code
    runs, so that time limits of live steps count what these really take.

    Args:
        start: The first moment.
    """

    def __init__(self, start: float) -> None:
        self._base = start
        self._since = time.monotonic()

    def now(self) -> float:
        """Unix seconds."""
        return self._base + time.monotonic() - self._since

    def reach(self, at: float) -> None:
        """It is this moment, if it is not later already."""
        if at > self.now():
            self._base, self._since = at, time.monotonic()


class Played(Worker):
    """A start whose ticks are recorded: none of its code runs, unless the recording ends before it."""

    def __init__(self, runner: Replayer, delivery: Delivery, step: Step, playback: Playback) -> None:
        super().__init__(runner, delivery, step)
        self.playback = playback

    def begin(self, context: Context) -> None:
        """Nothing: its ticks come from the recording."""

    def wake(self, wakes: tuple[Wake, ...]) -> None:
        """What it waited for is there: the recording has what it did next, as far as that goes."""
        if self.playback.is_over:
            self.go_live()

    def go_live(self) -> None:
        """Run its code after all, from its top, with the ledger of what it did before."""
        now = find_delivery(self.runner.state, self.delivery.id)
        if now is not None:
            self.replace(self.playback.cast.code_for(now, self.step))

    def replace(self, worker: Worker) -> None:
        """Another worker stands in its place."""
        self.runner.workers[self.delivery.id] = worker
        worker.begin(self.runner.new_context())


class Asking(Played):
    """A start of a step that must not simply run twice: somebody has to say what becomes of it."""

    #: Of the question.
    mark = 0

    def __init__(
        self, runner: Replayer, delivery: Delivery, step: Step, playback: Playback, pair: Pair | None, why: str
    ) -> None:
        super().__init__(runner, delivery, step, playback)
        self.pair = pair
        self.why = why

    def begin(self, context: Context) -> None:
        """Open the question."""
        runner, d = self.runner, self.delivery
        given = [out.value for out in d.out] if isinstance(d.out, tuple) else d.out.value
        mends = "run its code, take what was recorded, or skip it?" if self.pair else "run its code, or skip it?"
        question = RunAgain(
            prefix=f"Step {self.step.name!r} must not simply run twice (idempotent=False), and {self.why}: {mends}",
            step=self.step.name,
            input_event=given,
            is_recorded=self.pair is not None,
        )
        self.mark = self.number + 1
        asked = Ask(out_of(question, runner.definition, 0.0))
        self.playback.let_in(WaitOpened(runner.clock.now(), self.step.name, d.id, d.start, self.mark, asked))

    def wake(self, wakes: tuple[Wake, ...]) -> None:
        """The answer is there, or something else that an earlier start waited for."""
        for wake in wakes:
            decision = wake.outcome.out.value if wake.mark == self.mark and wake.outcome.out is not None else None
            if isinstance(decision, RunAgainDecision):
                self.decide(decision.decision)

    def decide(self, decision: str) -> None:
        """What becomes of it."""
        d = find_delivery(self.runner.state, self.delivery.id)
        if d is None:
            return
        playback, runner = self.playback, self.runner
        playback.cast.decided(d, self.pair, decision, self.mark)
        if decision == "run":
            self.replace(playback.cast.live(d, self.step, self.pair))
        elif decision == "recorded" and self.pair is not None and not playback.is_over:
            self.replace(playback.cast.played(d, self.step))
        else:
            playback.let_in(StepFinished(runner.clock.now(), self.step.name, d.id, d.start))
