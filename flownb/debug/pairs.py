"""Which recorded delivery, and which recorded question, one of a replay is.

They are found by what they are: a delivery by its step and event, a question by who asks and what; where several are
equal, by the tick that brought them, else in their order. A number of one journal says nothing in another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, field

from flownb.core import commands as c
from flownb.core.state import Delivery, RunState
from flownb.core.ticks import AnyTick
from flownb.core.values import Out
from flownb.debug.recording import Line, Recorded, Recording, event_key, question_key


class Pair(Struct):
    """A delivery here, and the recorded one that it is."""

    recorded: Recorded
    delivery: int
    #: Start numbers here by the recorded ones, and how many starts there were here.
    starts: dict[int, int] = field(default_factory=dict)
    begun: int = 0
    #: Its code runs; and it did something else than what was recorded.
    is_live: bool = False
    is_off: bool = False
    #: Somebody is asked what becomes of it; decided so; with that question's mark.
    is_asking: bool = False
    decision: str = ""
    asked: int = 0
    #: seqs of what its code is expected to bring, and what it brought that waits for its turn.
    expected: deque[int] = field(default_factory=deque)
    held: deque[AnyTick] = field(default_factory=deque)
    #: Marks of live code by the recorded ones.
    marks: dict[int, int] = field(default_factory=dict)

    def mark(self, recorded: int) -> int:
        """A mark here; 0: live code opened no such wait."""
        if self.is_live:
            return self.marks.get(recorded, 0)
        return recorded + 1 if self.asked and recorded >= self.asked else recorded

    def recorded_mark(self, mark: int) -> int:
        """The recorded mark of a wait here; 0 for none."""
        if self.is_live:
            return next((old for old, new in self.marks.items() if new == mark), 0)
        return mark - 1 if self.asked and mark > self.asked else mark


class Pairs:
    """What was found.

    Args:
        recording: What is played back.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        #: By the number of the recorded delivery, and of that here.
        self.by_recorded: dict[int, Pair] = {}
        self.here: dict[int, Pair] = {}
        for d in recording.under_way:
            pair = Pair(recording.deliveries[d.id], d.id, {d.start: d.start}, 1)
            self.by_recorded[d.id] = self.here[d.id] = pair
        #: Questions here by the recorded ones, and the other way.
        self.requests: dict[int, int] = {}
        self.asked: dict[int, int] = {}
        #: The recorded seq of a tick here.
        self.seqs: dict[int, int] = {1: 1}
        #: What was set aside, by the recorded delivery or question that has not begun here; what of that has begun.
        self._later: dict[tuple[str, int], list[Line]] = {}
        self.queue: deque[Line] = deque()

    def match(self, state: RunState, d: Delivery) -> Pair | None:
        """The recorded delivery that one is: of the same step and event, by the same way if there are several."""
        ids = self._recording.by_event.get(event_key(state, d))
        if not ids:
            return None
        cause = self.seqs.get(d.cause)
        found = next((i for i in ids if self._recording.deliveries[i].cause == cause), ids[0])
        ids.remove(found)
        pair = self.by_recorded[found] = self.here[d.id] = Pair(self._recording.deliveries[found], d.id)
        self.has_begun("step", found)
        return pair

    def match_requests(self, state: RunState, commands: list[c.AnyCommand]) -> None:
        """Find the recorded question that each question is which a tick opens: of the same step and content."""
        for command in commands:
            if not isinstance(command, c.OpenRequest) or command.request.id in self.asked:
                continue
            ids = self._recording.by_question.get(question_key(state, command.request))
            if not ids:
                continue
            opened = self.seqs.get(command.request.opened)
            found = next((i for i in ids if self._recording.requests[i].opened == opened), ids[0])
            ids.remove(found)
            self.requests[found], self.asked[command.request.id] = command.request.id, found
            self.has_begun("request", found)

    def numbers(self, deliveries: Iterable[int]) -> Iterator[int]:
        """Recorded numbers of deliveries as those here, of those that have begun here."""
        return (self.by_recorded[n].delivery for n in deliveries if n in self.by_recorded)

    def translated(self, outs: Mapping[int, Out]) -> dict[int, Out]:
        """Events by the recorded numbers of their deliveries, by those here."""
        return {self.by_recorded[n].delivery: out for n, out in outs.items() if n in self.by_recorded}

    def set_aside(self, kind: str, line: Line) -> None:
        """Keep a recorded tick until what it belongs to has begun here."""
        self._later.setdefault((kind, line.owner[1]), []).append(line)

    def has_begun(self, kind: str, number: int) -> None:
        """What was set aside for it may come now."""
        self.queue.extend(self._later.pop((kind, number), ()))

    def first_missing(self) -> Line | None:
        """The first tick of a step that was set aside and is so still."""
        missing = [line for (kind, _), lines in self._later.items() if kind == "step" for line in lines]
        return min(missing, key=lambda line: line.seq, default=None)
