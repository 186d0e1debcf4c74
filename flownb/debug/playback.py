"""The order of a replay: which recorded tick comes next, and what live code may do meanwhile.

The recorded journal is gone through from its first tick to its last. What each tick was of decides what is done with
it, one tick a turn:

    of a step whose source is the same   it is put as it was, with the numbers of this run
    of a step that runs live             the code brings its own tick; it is let in here, in the recorded order
    an answer, an outside event,         it is put as it was, if what it is for is here and asks the same
    a timer, a child's end

So with the same code the same ticks come in the same order, and no code of a user runs. What live code brings is
compared with what was recorded of the same delivery; from the first difference on that delivery goes its own way. A
delivery with an event that was not recorded, which only a difference brings about, runs live.

Times do not pass: the clock jumps to each recorded tick, and where only sleeps of live code are left, to the next of
these.

The case that looks wrong but is right: ticks of a delivery that has not begun here are set aside, not dropped. Live
code may come to it by another way, and then finds them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace

from flownb.core import commands as c
from flownb.core import ticks as t
from flownb.core.editing import find
from flownb.core.outstanding import is_quiet
from flownb.core.state import Child, Request, RunState, Timer, is_ended
from flownb.core.ticks import AnyTick
from flownb.debug.cast import Cast
from flownb.debug.divergence import Divergence, report_of
from flownb.debug.pairs import Pair, Pairs
from flownb.debug.players import RUN_AGAIN, Asking, PlaybackClock, Played
from flownb.debug.recording import (
    Line,
    Recording,
    find_delivery,
    is_void,
    timer_of,
)
from flownb.debug.resting import MOVING, sleeps_of, works
from flownb.debug.sameness import DRIVING, content, differences, is_alike
from flownb.debug.subjects import outs_of
from flownb.runtime.acting import ACTIONS
from flownb.runtime.gatekeeper import Seen
from flownb.runtime.questions import accepted_of
from flownb.runtime.runner import Runner

if TYPE_CHECKING:
    from flownb.debug.replay import Replayer

#: Live code that does not come by at what was recorded of it is waited for; where that keeps other live code waiting
#: (a lock that both want, taken in another order), the recorded order is given up after so many seconds.
PATIENCE_S = 1.0

#: passed: it is dealt with. fed: it was put, and so was what comes first. wait: live code has to bring something first.
Verdict = Literal["passed", "fed", "let in", "wait"]
_GATE = (t.GateClosed, t.GateOpened, t.StepsGranted, t.BreakpointHit)
#: So many recorded ticks of a delivery may change places.
_NEAR = 3
_FROM_OUTSIDE = (t.EventArrived, t.RequestAnswered, t.RequestDisposed, t.CancelRequested)
_STAMPS = frozenset({"at", "held", "entry", "hand", "came"})


class Playback:
    """Plays a recording back in one run. On its loop's thread only.

    Args:
        runner: The run.
        recording: What is played back.
        live: Names of further steps whose code runs, though it is the same.
        live_errors: Live exceptions of the recorded run, by delivery.
        children: Those of its children.
    """

    def __init__(
        self,
        runner: Replayer,
        recording: Recording,
        live: Collection[str],
        live_errors: dict[int, BaseException],
        children: Collection[BaseException] = (),
    ) -> None:
        self.runner = runner
        self.recording = recording
        self.report = report_of(recording, runner.definition.spec)
        self.is_over = False
        #: Nothing goes on before somebody answers what is not recorded.
        self.is_waiting = False
        self._errors = live_errors
        self._cursor = 1
        self._fed: list[tuple[AnyTick, Line]] = []
        #: Recorded ticks that live code has brought.
        self.done: set[int] = set()
        self.pairs = Pairs(recording)
        self.cast = Cast(self, live, children)
        #: Pairs whose live code brought something that waits for its turn, those that began to wait first.
        self._holding: dict[int, Pair] = {}
        #: The gate goes its own way: a person works it, or the replay is no longer like the recording.
        self._is_free = False
        self._has_rest = False
        self._stuck: tuple[int, int] | None = None

    def is_answered(self, request: Request) -> bool:
        """Whether how a question ended is recorded, so that nobody has to be asked."""
        number = self.pairs.asked.get(request.id)
        return not self.is_over and number is not None and self.recording.requests[number].is_closed

    # -- what comes, and what was let in

    def lets(self, tick: AnyTick) -> bool:
        """Whether a tick that came by itself may stand before the gate now."""
        if self.is_over:
            return True
        if isinstance(tick, (t.QuietNoticed, t.TimerFired)):  # the recording says when, or the end of it
            return False
        if isinstance(tick, _GATE):
            self._is_free = True
        pair = self.pairs.here.get(getattr(tick, "delivery", 0)) if hasattr(tick, "start") else None
        if pair is not None and pair.is_live and not pair.is_off:
            pair.held.append(tick)
            self._holding[pair.delivery] = pair
            self.runner.wake_up()
            return False
        return True

    def let_in(self, tick: AnyTick) -> None:
        """Put a tick before the gate."""
        Runner.put(self.runner, tick)

    def took_in(self, entry: Seen) -> None:
        """A tick is in the journal."""
        before, tick, state, commands = entry
        self.is_waiting = False
        if self.is_over:
            return
        fed = next(((put, line) for put, line in self._fed if _is_same(put, tick)), None)
        if fed is not None:
            self._fed.remove(fed)
            self.pairs.seqs[state.seq] = fed[1].seq
        elif isinstance(tick, (t.RunOpened, t.RunSuspended)):  # somebody stopped the replay
            self._end()
        elif isinstance(tick, _GATE):
            self._is_free = True
        elif state.seq > 1:
            self._compare(before, tick, state)
        self.pairs.match_requests(state, commands)

    def _compare(self, before: RunState, tick: AnyTick, state: RunState) -> None:
        """What live code, or somebody outside, brought."""
        if not (hasattr(tick, "start") and hasattr(tick, "delivery")):
            asked = before.requests.get(getattr(tick, "request", 0))
            is_own = (asked is not None and asked.question.key == RUN_AGAIN) or getattr(tick, "superseded", False)
            if (
                isinstance(tick, (t.EventArrived, t.RequestAnswered, t.RequestDisposed, t.CancelRequested))
                and not is_own
            ):
                self._diverge("this came from outside, and was not recorded", None, tick, state.seq)
            return
        if isinstance(tick, t.WaitOpened) and isinstance(tick.wait, t.Ask) and tick.wait.question.key == RUN_AGAIN:
            return
        if is_void(tick, before, state):
            return
        pair = self.pairs.here.get(tick.delivery)
        while pair is not None and pair.expected and pair.expected[0] in self.done:
            pair.expected.popleft()
        if pair is None or pair.is_off or not pair.expected:
            what = "its event was not recorded" if pair is None else "this was not recorded of it"
            self._diverge(what, None, tick, state.seq)
            if pair is not None:
                pair.is_off = True
            return
        line = self._expected(pair, tick)
        pair.expected.remove(line.seq)
        self.done.add(line.seq)
        said = differences(line.tick, tick)
        if said:
            pair.is_off = True
            self._diverge(said, line, tick, state.seq)
        if type(line.tick) is type(tick):
            self.pairs.seqs[state.seq] = line.seq
            if isinstance(tick, t.WaitOpened) and not said:
                pair.marks[line.tick.mark] = tick.mark  # type: ignore[union-attr]

    def _expected(self, pair: Pair, tick: AnyTick) -> Line:
        """What a tick of live code is compared with: the next recorded one; but two waits, of which one is given up and
        one opened, may change places."""
        lines = [self.recording.lines[seq - 1] for seq in islice(pair.expected, _NEAR)]
        return next((line for line in lines if is_alike(line.tick, tick)), lines[0])

    def _diverge(self, what: str, line: Line | None, tick: AnyTick | None, seq: int) -> None:
        if self.report.divergence is None:
            shown = tick if tick is not None else line.tick if line is not None else None
            self.report.divergence = Divergence(
                what,
                str(getattr(shown, "step", None) or ""),
                line.tick if line is not None else None,
                line.seq if line is not None else 0,
                tick,
                seq if tick is not None else 0,
                self.report.changed,
            )
        self.free()

    def free(self) -> None:
        """From here on the gate is the replay's own: what was paused in the recording goes on."""
        if not self._is_free:
            self._is_free = True
            for reason in self.runner.gate():
                self.let_in(t.GateOpened(self.runner.clock.now(), reason, "replay"))

    # -- the order

    def go_on(self) -> None:
        """After each turn: put what comes next."""
        runner = self.runner
        if runner.ended or runner.suspended or not runner.state.seq:
            self.report.is_over = self.report.is_over or runner.ended
            return
        if self.is_over:
            self._begin_rest()
            return
        self._fed = [(tick, line) for tick, line in self._fed if self._still_waits(tick)]
        if self._fed:
            return
        while True:
            if self._let_off_go():
                return
            verdict = self._next()
            if verdict == "fed" or verdict == "let in":
                self._stuck = None
                return
            if verdict == "wait":
                self._be_patient()
                return
            if verdict is None:
                self._at_end()
                return

    def _next(self) -> Verdict | None:
        """Deal with the first tick that can be dealt with; None: there is none left."""
        verdict: Verdict | None = None
        if self.pairs.queue:
            verdict = self._play(self.pairs.queue[0])
            if verdict in ("passed", "fed"):
                self.pairs.queue.popleft()
            if verdict != "wait":
                return verdict
        if self._cursor < len(self.recording.lines):
            found = self._play(self.recording.lines[self._cursor])
            if found in ("passed", "fed"):
                self._cursor += 1
            return found
        return verdict

    def _still_waits(self, tick: AnyTick) -> bool:
        return any(_is_same(tick, waits) for waits in (*self.runner.control, *self.runner.inbox))

    def _feed(self, line: Line, tick: AnyTick) -> Verdict:
        """Put a recorded tick, with the numbers of this run."""
        made: AnyTick = replace(tick, entry=0, held=() if self._is_free else tick.held)
        self._clock.reach(made.at)
        self._fed.append((made, line))
        self.let_in(made)
        return "fed"

    @property
    def _clock(self) -> PlaybackClock:
        clock = self.runner.clock
        assert isinstance(clock, PlaybackClock)
        return clock

    def _play(self, line: Line) -> Verdict:
        tick, kind = line.tick, line.owner[0]
        if line.seq in self.done:
            return "passed"
        if isinstance(tick, DRIVING):
            return self._play_driving(line)
        if isinstance(tick, t.QuietNoticed):
            if self._is_at_work():
                return "wait"
            return self._feed(line, tick) if is_quiet(self.runner.state) else "passed"
        if kind == "nobody":  # it was late, and changed nothing
            return "passed" if self.report.divergence else self._feed(line, tick)
        if isinstance(tick, (t.EventEdited, t.EventDropped)):
            return self._play_hand(line, tick)
        if kind == "run":
            if hasattr(tick, "delivery"):
                pair = self.pairs.by_recorded.get(tick.delivery)
                return self._feed(line, replace(tick, delivery=pair.delivery)) if pair is not None else "passed"
            return self._feed(line, tick)
        if kind in ("request", "deadline"):
            return self._play_request(line)
        if kind in ("rate", "timeout", "grace"):
            return self._play_timer(line, None)
        return self._play_owned(line)

    def _play_hand(self, line: Line, tick: t.EventEdited | t.EventDropped) -> Verdict:
        """What a person made of something that waits: of the same delivery, if that brings the same here."""
        pair = self.pairs.by_recorded.get(tick.delivery)
        d = find(self.runner.state, tick.step, pair.delivery if pair is not None else tick.delivery)
        if d is None or content(outs_of(d)) != content(tick.original):
            return "passed"
        return self._feed(line, replace(tick, delivery=d.id))

    def _play_driving(self, line: Line) -> Verdict:
        """How the run was driven: its gate, and what began its code anew."""
        tick = line.tick
        if isinstance(tick, t.DefinitionAdopted):  # this run has the newest one from its beginning
            return "passed"
        if isinstance(tick, _GATE):
            return "passed" if self._is_free else self._feed(line, tick)
        if self._is_at_work():
            return "wait"
        if isinstance(tick, t.RunOpened):
            unknown = self.pairs.translated(tick.unknown)
            return self._feed(line, replace(tick, unknown=unknown, settled=tuple(self.pairs.numbers(tick.settled))))
        if isinstance(tick, t.RunForked):
            events, settled = self.pairs.translated(tick.events), tuple(self.pairs.numbers(tick.settled))
            return self._feed(line, replace(tick, run_id=self.runner.run_id, events=events, settled=settled))
        # Suspended, and opened again: both in one turn, for nobody would drive what is suspended.
        after = self.recording.lines[line.seq] if line.seq < len(self.recording.lines) else None
        if after is None or not isinstance(after.tick, (t.RunOpened, t.RunForked)):
            return "passed"
        self._feed(line, tick)
        self._play_driving(after)
        self.done.add(after.seq)
        return "fed"

    def _play_owned(self, line: Line) -> Verdict:
        """What belongs to a delivery: its own ticks, and the ends of what it waited for."""
        tick, kind, number = line.tick, line.owner[0], line.owner[1]
        if kind == "hold" and not number:
            return self._feed(line, tick)
        pair = self.pairs.by_recorded.get(number)
        if pair is None or pair.is_asking:
            return self._set_aside(line, pair)
        if kind == "step":
            return self._play_live(line, pair) if pair.is_live or pair.is_off else self._play_step(line, pair)
        if kind == "hold":
            held: Any = tick
            return (
                "passed" if pair.is_live else self._feed(line, replace(held, delivery=held.delivery and pair.delivery))
            )
        if kind != "child":
            return self._play_timer(line, pair)
        d = find_delivery(self.runner.state, pair.delivery)
        wait = d.waits.get(pair.mark(line.owner[2])) if d is not None else None
        if wait is None or wait.kind != "child" or (self.runner.children or {}).get(wait.ref) is not None:
            return "passed"
        child: Any = tick
        return self._feed(line, replace(child, child=wait.ref))

    def _set_aside(self, line: Line, pair: Pair | None) -> Verdict:
        self.pairs.set_aside("step", line)
        if pair is None and line.owner[0] == "step" and not self._is_asking():
            self._diverge(self._why_missing(line.tick), line, None, 0)
        return "passed"

    def _why_missing(self, tick: AnyTick) -> str:
        step = getattr(tick, "step", "")
        gone = step not in self.runner.state.spec.index
        return f"the workflow has no step {step!r} any more" if gone else f"step {step!r} was not given that event"

    def _is_asking(self) -> bool:
        return any(isinstance(worker, Asking) for worker in self.runner.workers.values())

    def _play_step(self, line: Line, pair: Pair) -> Verdict:
        """A tick of a step that is played back."""
        tick: Any = line.tick
        start = pair.starts.get(tick.start)
        if start is None:
            return "passed"
        made = replace(tick, delivery=pair.delivery, start=start)
        if isinstance(tick, (t.WaitOpened, t.WaitWithdrawn)):
            made = replace(made, mark=pair.mark(tick.mark))
        if isinstance(tick, t.WaitOpened) and isinstance(tick.wait, t.Ask) and tick.wait.supersedes:
            made = replace(made, wait=replace(tick.wait, supersedes=pair.mark(tick.wait.supersedes)))
        error = self._errors.get(tick.delivery) if isinstance(tick, t.StepFailed) else None
        if error is not None:
            self.runner.errors[pair.delivery] = error
        return self._feed(line, made)

    def _play_live(self, line: Line, pair: Pair) -> Verdict:
        """A tick that live code has to bring."""
        if pair.is_off or line.seq not in pair.expected:
            return "passed"
        if pair.held:
            self._release(pair)
            return "let in"
        if self._brings_more(pair):
            return "wait"
        self._diverge("this did not come", line, None, 0)
        return "passed"

    def _brings_more(self, pair: Pair) -> bool:
        """Whether live code may still bring something: it lives, or its last tick stands before the gate."""
        if find_delivery(self.runner.state, pair.delivery) is not None:
            return True
        return any(getattr(tick, "delivery", 0) == pair.delivery for tick in self.runner.inbox)

    def _play_timer(self, line: Line, pair: Pair | None) -> Verdict:
        owner = line.owner
        mark = pair.mark(owner[2]) if pair is not None and len(owner) > 2 else 0
        number = timer_of(self.runner.state, owner, pair.delivery if pair is not None else 0, mark, 0)
        tick: Any = line.tick
        return self._feed(line, replace(tick, timer=number)) if number is not None else "passed"

    def _play_request(self, line: Line) -> Verdict:
        """How a question ended."""
        number = self.pairs.requests.get(line.owner[1])
        if number is None:
            self.pairs.set_aside("request", line)
            return "passed"
        tick: Any = line.tick
        questions, state = self.runner.questions, self.runner.state
        if isinstance(tick, t.TimerFired):
            timer = timer_of(state, ("deadline",), 0, 0, number)
            return self._feed(line, replace(tick, timer=timer)) if timer is not None else "passed"
        with questions.door:
            if number not in state.requests or number in questions.accepted:  # somebody was faster
                return "passed"
            asker = self.pairs.here.get(state.requests[number].delivery)
            if isinstance(tick, t.RequestDisposed) and tick.superseded and asker is not None and asker.is_live:
                return "passed"  # live code says so itself
            made = replace(tick, request=number)
            if isinstance(made, t.RequestAnswered):
                questions.accepted[number] = accepted_of(made)
            elif isinstance(made, t.RequestDisposed):
                questions.disposing.add(number)
        return self._feed(line, made)

    # -- live code

    def _is_at_work(self) -> bool:
        """Whether live code runs, here or in a child."""
        state = self.runner.state
        for worker in self.runner.workers.values():
            if not isinstance(worker, Played) and worker.delivery.id in state.steps[worker.delivery.step].active:
                return True
        return any(works(child) for child in (self.runner.children or {}).values())

    def _let_off_go(self) -> bool:
        """Let in what live code brought that goes its own way, since it did something else, or since all does. What
        was cut off by the end of the recording has to wait for that."""
        for pair in self._holding.values():
            if pair.is_off or (not pair.expected and self.report.divergence is not None):
                self._release(pair)
                return True
        return False

    def _release(self, pair: Pair) -> None:
        """Let in the next thing that live code brought."""
        self.let_in(pair.held.popleft())
        if not pair.held:
            del self._holding[pair.delivery]

    def _be_patient(self) -> None:
        stuck = self._cursor, len(self.pairs.queue)
        if self._stuck != stuck:
            self._stuck = stuck
            self.runner.host.later(PATIENCE_S, self._lose_patience, stuck)

    def _lose_patience(self, stuck: tuple[int, int]) -> None:
        """Live code has not come to what was recorded of it: one that waits for something else goes its own way, and
        what other code brought is let in out of order."""
        if self._stuck != stuck or self.is_over or self.runner.ended or self.runner.suspended:
            return
        self._stuck = None
        line = self.pairs.queue[0] if self.pairs.queue else self.recording.lines[self._cursor]
        pair = self.pairs.by_recorded.get(line.owner[1]) if line.owner[0] == "step" else None
        d = find_delivery(self.runner.state, pair.delivery) if pair is not None else None
        if pair is not None and d is not None and d.worker < 0 and not d.due and not pair.held:
            pair.is_off = True
            self._diverge("it waits for something else", line, None, 0)
        else:
            oldest = min(self._holding.values(), key=lambda other: other.held[0].at, default=None)
            if oldest is not None:
                self._release(oldest)
        self.runner.wake_up()

    # -- the end of the recording

    def _at_end(self) -> None:
        """Nothing is left to put: live code goes on, and then this run is like any other."""
        if not is_ended(self.recording.state) and self.report.divergence is None and not self._is_asking():
            self._end()  # it was not over: what comes now comes after the recording
            while self._holding:
                self._release(next(iter(self._holding.values())))
            return
        if self._holding:
            self._release(next(iter(self._holding.values())))
            return
        if self._is_at_work():
            return
        timer = min(self._sleeps(), key=lambda found: found[1].due_at, default=None)
        if timer is not None:
            runner, sleeps = timer
            self._clock.reach(sleeps.due_at)
            fired = t.TimerFired(sleeps.due_at, sleeps.id)
            Runner.put(runner, fired)
            return
        if self._is_asking():
            if is_quiet(self.runner.state):
                self.let_in(t.QuietNoticed(self.runner.clock.now()))
            elif not self.is_waiting:
                self.is_waiting = True
                self.runner.tell()
            return
        first = self.pairs.first_missing()
        if first is not None:
            self._diverge(self._why_missing(first.tick), first, None, 0)
        elif is_ended(self.recording.state):
            self._diverge("the recorded run ended here", self.recording.lines[-1], None, 0)
        if self.report.divergence is not None and self._begin_unfinished():
            return
        self._end()

    def _sleeps(self) -> Iterator[tuple[Runner, Timer]]:
        """What only time moves, here and in children that run: of what is played back only once it went another way."""
        for timer in self.runner.state.timers.values():
            pair = self.pairs.here.get(timer.ref) if timer.kind in ("sleep", "retry") else None
            is_recorded = pair is not None and not pair.is_live and not pair.is_off
            if timer.kind in MOVING and (not is_recorded or self.report.divergence is not None):
                yield self.runner, timer
        for child in (self.runner.children or {}).values():
            yield from sleeps_of(child)

    def _unfinished(self) -> list[Played]:
        """Starts whose end is not recorded."""
        steps = self.runner.state.steps
        return [
            worker
            for worker in self.runner.workers.values()
            if isinstance(worker, Played)
            and not isinstance(worker, Asking)
            and worker.delivery.id in steps[worker.delivery.step].active
        ]

    def _unbegun(self) -> list[Child]:
        known = self.runner.children or {}
        return [child for child in self.runner.state.side.children.values() if child.id not in known]

    def _begin_unfinished(self) -> bool:
        """Run what the recording has no end of; whether there was something."""
        played, children = self._unfinished(), self._unbegun()
        for worker in played:
            pair = self.pairs.here.get(worker.delivery.id)
            if pair is not None:
                pair.is_off = True
            worker.go_live()
        for child in children:
            Runner.begin_child(self.runner, child)
        return bool(played or children)

    def _end(self) -> None:
        """From here on this is a run like any other; what the recording has no end of does not run unless somebody
        opens the gate."""
        if self.is_over:
            return
        runner, state = self.runner, self.runner.state
        self.is_over = self.report.is_over = True
        if runner.ended or state.status == "suspended":
            return
        runner.tell()
        self._has_rest = bool(self._unfinished() or self._unbegun() or state.sleeps)
        if self._has_rest and not runner.gate():
            self.let_in(t.GateClosed(runner.clock.now(), "person", "the recording ends here"))
        for timer in state.timers.values():
            ACTIONS[c.ArmTimer](runner, c.ArmTimer(timer))
        if is_quiet(state) and not runner.inbox and not runner.control:
            self.let_in(t.QuietNoticed(runner.clock.now()))

    def _begin_rest(self) -> None:
        if self._has_rest and not self.runner.gate() and not self.runner.state.gate:
            self._has_rest = False
            self._begin_unfinished()


def _is_same(one: AnyTick, other: AnyTick) -> bool:
    """Whether a tick is another one but for its stamps: put before the gate, it may get another time."""
    return type(one) is type(other) and all(
        getattr(one, name) is getattr(other, name) for name in type(one).__struct_fields__ if name not in _STAMPS
    )
