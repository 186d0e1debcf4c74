"""Who plays in a replay: for each start its recorded ticks, its code, or the question which of the two."""

from __future__ import annotations

import builtins
from collections import deque
from collections.abc import Collection
from typing import TYPE_CHECKING

from flownb import errors
from flownb.core.state import Child, Delivery, Outcome
from flownb.debug.pairs import Pair
from flownb.debug.players import Asking, Played
from flownb.definition import Step
from flownb.events import key_of
from flownb.runtime.worker import Worker

if TYPE_CHECKING:
    from flownb.debug.playback import Playback


class Cast:
    """The workers of a replay.

    Args:
        playback: Theirs.
        live: Names of further steps whose code runs, though it is the same.
        live_errors: Live exceptions of the children of the recorded run.
    """

    def __init__(self, playback: Playback, live: Collection[str], live_errors: Collection[BaseException]) -> None:
        self._playback = playback
        self._runner, self._recording, self._pairs = playback.runner, playback.recording, playback.pairs
        self._live = frozenset(live)
        self._errors = live_errors
        self._decisions: dict[int, str] = {}

    def new_worker(self, d: Delivery, step: Step) -> Worker:
        """What stands for a start: its recorded ticks, or its code."""
        if self._playback.is_over:
            return self.code_for(d, step)
        pair = self._pairs.here.get(d.id) or self._pairs.match(self._runner.state, d)
        if pair is None:
            return self.code_for(d, step, "its event was not recorded")
        starts, n = pair.recorded.starts, pair.begun
        pair.begun += 1
        if n >= len(starts):
            pair.is_off = pair.is_off or not pair.is_live
            return self.code_for(d, step, "this start of it was not recorded", pair)
        start = starts[n]
        pair.starts[start.number] = d.start
        is_lost = not start.is_over and n + 1 < len(starts)
        is_changed = start.source != step.source
        if (is_changed or step.name in self._live) and not is_lost:
            return self.code_for(d, step, "its source changed" if is_changed else "it is to run live", pair)
        pair.is_live = False
        return self.played(d, step)

    def played(self, d: Delivery, step: Step) -> Worker:
        """Its recorded ticks."""
        self._playback.report.played[step.name] += 1
        return Played(self._runner, d, step, self._playback)

    def code_for(
        self, d: Delivery, step: Step, why: str = "the recording has no end of it", pair: Pair | None = None
    ) -> Worker:
        """Its code; of a step that must not simply run twice the question whether it shall."""
        decision = self._decisions.get(d.id)
        if step.options.idempotent or decision == "run":
            return self.live(d, step, pair)
        if decision == "recorded" and pair is not None and not pair.is_off:
            return self.played(d, step)
        if pair is not None:
            pair.is_asking = True
        self._playback.free()
        return Asking(self._runner, d, step, self._playback, pair, why)

    def live(self, d: Delivery, step: Step, pair: Pair | None) -> Worker:
        """Its code."""
        self._playback.report.live[step.name] += 1
        worker = Worker(self._runner, d, step)
        if pair is not None:
            worker.key = pair.recorded.key
            self._expect(pair, d)
        return worker

    def _expect(self, pair: Pair, d: Delivery) -> None:
        if pair.is_live or pair.is_off:
            return
        pair.is_live = True
        pair.marks = {}
        first = next((old for old, new in pair.starts.items() if new == d.start), 0)
        void, done = self._recording.void, self._playback.done
        brings = (seq for seq, start in pair.recorded.seqs if start >= first)
        pair.expected = deque(seq for seq in brings if seq not in void and seq not in done)

    def decided(self, d: Delivery, pair: Pair | None, decision: str, mark: int) -> None:
        """Somebody said what becomes of a delivery."""
        self._decisions[d.id] = decision
        if pair is not None:
            pair.is_asking, pair.decision = False, decision
            if decision == "recorded":
                pair.asked = mark
            elif decision == "skip":
                self._expect(pair, d)
            self._pairs.has_begun("step", pair.recorded.id)

    def begins_child(self, child: Child) -> bool:
        """Whether a child runs: not if its end is recorded, or its step's code does not run."""
        pair = self._pairs.here.get(child.delivery)
        if self._playback.is_over or pair is None or (self._runner.children or {}).get(child.id) is not None:
            return True
        if not pair.is_live:
            return False
        mark = pair.recorded_mark(child.mark)
        return not mark or (pair.recorded.id, mark) not in self._recording.ended_children

    def child_error(self, outcome: Outcome) -> BaseException | None:
        """What live code gets of a child whose failure is recorded: its exception, or one of the same built-in type."""
        failure = outcome.failure
        if failure is None:
            return None
        for error in self._errors:
            if key_of(type(error)) == failure.type and str(error) == failure.message:
                return error
        module, _, name = failure.type.partition(":")
        known = {"builtins": builtins, "flownb.errors": errors}.get(module)
        kind = getattr(known, name, None)
        return kind(failure.message) if isinstance(kind, type) and issubclass(kind, Exception) else None
