"""One tick's work on a state: mutable, local to a single `reduce`, frozen at its end.

A draft copies only what a tick touches. Deliveries that a tick makes are collected in `StepDraft.arrivals` and
started or queued once, when all is known (`settle`): so a fan-out of 10,000 costs one pass, and what one tick
starts is in step order, whatever order the events had.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from flownb.core.commands import AnyCommand, ArmTimer, DisarmTimer, StartStep, WakeStep
from flownb.core.persist import Table
from flownb.core.spec import StepSpec
from flownb.core.state import Delivery, Did, Ended, Ledger, Path, RunState, StepState, Timer, Tries
from flownb.core.values import Out


class StepDraft:
    """One step's state while a tick changes it."""

    __slots__ = ("active", "again", "arrivals", "done", "failed", "front", "queue", "ready_at", "timer", "waiting",
                 "workers")  # fmt: skip

    def __init__(self, state: StepState) -> None:
        self.front = state.front
        self.queue = state.queue
        self.active = state.active
        self.waiting = state.waiting
        self.workers = state.workers
        self.done = state.done
        self.failed = state.failed
        self.again = state.again
        self.ready_at = state.ready_at
        self.timer = state.timer
        self.arrivals: list[Delivery] = []

    def freeze(self) -> StepState:
        if self.arrivals:
            self.queue = self.queue.put_many(self.arrivals)
        return StepState(
            self.front,
            self.queue,
            self.active,
            self.waiting,
            self.workers,
            self.done,
            self.failed,
            self.again,
            self.ready_at,
            self.timer,
        )


_FIELDS = RunState.__struct_fields__


class Draft:
    """The state of a run while one tick is reduced."""

    __slots__ = (*_FIELDS, "before", "chain", "commands", "held", "rank", "recovered", "touched", "tripped")

    # Declared for the type checker; `__slots__` makes them.
    before: RunState
    commands: list[AnyCommand]
    touched: dict[int, StepDraft]

    def __init__(self, state: RunState, at: float, held: tuple[int, ...] = ()) -> None:
        self.before = state
        self.seq = state.seq + 1
        self.at = at if at > state.at else state.at
        self.commands = []
        self.touched = {}
        #: Deliveries that a breakpoint keeps from being started.
        self.held = held
        #: Of what this tick sends: starts in its chain of causes, handlers of failures in it, and its place in the
        #: order of sending (0: each event has its own).
        self.chain = 0
        self.recovered: tuple[tuple[int, int], ...] = ()
        self.rank = 0
        #: A chain of causes became too long (R5.70).
        self.tripped = False
        self.spec = state.spec
        self.head = state.head
        self.status = state.status
        self.gate = state.gate
        self.budget = state.budget
        self.steps = state.steps
        self.busy = state.busy
        self.sleeps = state.sleeps
        self.next_delivery = state.next_delivery
        self.ids = state.ids
        self.joins = state.joins
        self.requests = state.requests
        self.timers = state.timers
        self.user = state.user
        self.counts = state.counts
        self.side = state.side
        self.active_s = state.active_s
        self.since = state.since
        self.end = state.end

    def step(self, i: int) -> StepDraft:
        """The step to change."""
        found = self.touched.get(i)
        if found is None:
            found = self.touched[i] = StepDraft(self.steps[i])
        return found

    def live(self, step: str, delivery: int, start: int) -> Delivery | None:
        """The delivery that a tick speaks of; a late tick gives None, and is counted."""
        i = self.spec.index.get(step)
        if i is not None:
            found = self.steps[i].active.get(delivery)
            if found is None:
                found = self.steps[i].waiting.get(delivery)
            if found is not None and found.start == start and not found.gone:
                return found
        self.ignore()
        return None

    def ignore(self) -> None:
        """The tick is late: it changes nothing but this count (R3.19)."""
        self.counts = replace(self.counts, ignored=self.counts.ignored + 1)

    def set_side(self, **changes: Any) -> None:
        """Change what most runs have none of."""
        self.side = replace(self.side, **changes)

    def follow(self, delivery: Delivery) -> None:
        """What the tick sends from here on is caused by this delivery."""
        self.chain = delivery.chain
        if delivery.tries is not None:
            self.recovered = delivery.tries.recovered

    def number(self, kind: str) -> int:
        """The next number of a kind (R1.41)."""
        n: int = getattr(self.ids, kind)
        self.ids = replace(self.ids, **{kind: n + 1})
        return n

    def deliver(self, step: int, out: Out | tuple[Out, ...], path: Path | None) -> None:
        """Put an event before a step."""
        n = self.next_delivery
        chain = self.chain + 1
        if chain > self.head.terms.max_starts:
            self.tripped = True
        tries = Tries(recovered=self.recovered) if self.recovered else None
        # By position, here and below: names cost as much again.
        self.step(step).arrivals.append(Delivery(n, step, out, self.seq, self.at, path, chain, self.rank or n, tries))
        self.next_delivery = n + 1
        self.busy += 1

    def find(self, step: int, delivery: int) -> Delivery:
        """A delivery that is known to run or to wait."""
        found = self.step(step)
        return found.waiting.get(delivery) or found.active[delivery]

    def update(self, delivery: Delivery) -> None:
        """Store a changed delivery where it is: active or waiting."""
        step = self.step(delivery.step)
        if delivery.worker >= 0:
            step.active = step.active.set(delivery.id, delivery)
        else:
            step.waiting = step.waiting.set(delivery.id, delivery)

    def release(self, delivery: Delivery) -> StepDraft:
        """Take a delivery out of its step, and give its worker back if it holds one."""
        step = self.step(delivery.step)
        if delivery.worker >= 0:
            step.active = step.active.drop(delivery.id)
            step.workers &= ~(1 << delivery.worker)
            self.busy -= 1
        else:
            step.waiting = step.waiting.drop(delivery.id)
            if delivery.due:  # its id stays in `front` or `again`, where `settle` passes over it
                self.busy -= 1
        return step

    def line_up(self, delivery: Delivery, *, first: bool = False) -> None:
        """Let a delivery that is in no place, or in `waiting`, take the next free worker, ahead of the queue.

        Args:
            delivery: It.
            first: It was woken; else it starts again, behind those (R3.63).
        """
        step = self.step(delivery.step)
        step.waiting = step.waiting.set(delivery.id, changed(delivery, worker=-1, due=True, at=self.at))
        self.busy += 1
        if first:
            step.front = step.front.put(delivery.id)
        else:
            step.again = step.again.put(delivery.id)

    def arm(self, timer: Timer) -> None:
        self.timers = self.timers.set(timer.id, timer)
        self.commands.append(ArmTimer(timer))

    def disarm(self, timer: int) -> None:
        """Drop a timer that may have fired already."""
        if timer in self.timers:
            self.timers = self.timers.drop(timer)
            self.commands.append(DisarmTimer(timer))

    def note(self, delivery: Delivery, entry: Did | Ended) -> Delivery:
        """The delivery with one more entry in its ledger."""
        ledger = delivery.ledger
        if ledger is None:
            ledger = Ledger()
        marks = entry.mark if entry.mark > ledger.marks else ledger.marks
        return changed(delivery, ledger=Ledger(ledger.did.add(entry), ledger.writes, ledger.streams, marks))

    def settle(self) -> None:
        """Start what can be started, in step order; what waits for a worker stays queued, first in first out."""
        touched = self.touched
        for i in touched if len(touched) == 1 else sorted(touched):
            step = touched[i]
            ahead, queued, fresh = step.front.n + step.again.n, step.queue.n, len(step.arrivals)
            if not (ahead or queued or fresh):
                continue
            spec = self.spec.steps[i]
            limit = spec.num_workers
            room = ahead + queued + fresh if limit is None else limit - step.active.n
            if ahead and room > 0:
                room = self._go_on(step, room, spec)
            if spec.rate is not None or self.held:
                self._start_some(step, room, spec, i)
                continue
            while room > 0 and step.queue.n:
                first, step.queue = step.queue.get()
                self._start(step, first)
                room -= 1
            if room >= fresh:
                for arrival in step.arrivals:
                    self._start(step, arrival)
                step.arrivals = []
            elif room > 0:
                for arrival in step.arrivals[:room]:
                    self._start(step, arrival)
                del step.arrivals[:room]
        if self.busy and self.status == "waiting":
            self.status = "running"

    def _go_on(self, step: StepDraft, room: int, spec: StepSpec) -> int:
        """Woken deliveries first, then those that start again; how much room is left."""
        while room > 0 and step.front.n:
            key, step.front = step.front.get()
            woken = step.waiting.get(key)
            if woken is None or not woken.due or woken.gone:  # it ended, or starts again
                continue
            step.waiting = step.waiting.drop(key)
            running = self.occupy(step, woken)
            wakes = woken.wakes.oldest_first() if woken.wakes is not None else ()
            self.commands.append(WakeStep(running, tuple(wakes)))
            room -= 1
        if spec.rate is not None or self.held:
            return room
        while room > 0 and step.again.n:
            key, step.again = step.again.get()
            lost = step.waiting.get(key)
            if lost is not None and lost.due:
                step.waiting = step.waiting.drop(key)
                self._start(step, lost)
                room -= 1
        return room

    def _start_some(self, step: StepDraft, room: int, spec: StepSpec, i: int) -> None:
        """The same for a step with a rate, or while a breakpoint holds deliveries back."""
        step.queue = step.queue.put_many(step.arrivals)
        step.arrivals = []
        while room > 0 and (step.again.n or step.queue.n):
            if spec.rate is not None and self.at < step.ready_at:
                if not step.timer:
                    step.timer = self.number("timer")
                    self.sleeps += 1
                    self.arm(Timer(step.timer, step.ready_at, "rate", 0, i))
                return
            if step.again.n:
                key, step.again = step.again.get()
                again = step.waiting.get(key)
                if again is None or not again.due:
                    continue
                step.waiting = step.waiting.drop(key)
                first = again
            else:
                first, step.queue = step.queue.get()
            if first.id in self.held:
                self._hold(step, first)
                continue
            self._start(step, first)
            room -= 1
            if spec.rate is not None:
                step.ready_at = self.at + 1.0 / spec.rate

    def _hold(self, step: StepDraft, d: Delivery) -> None:
        """A breakpoint stands before its start: it waits until the gate is opened, marked."""
        step.waiting = step.waiting.set(d.id, changed(d, due=False, held=True, gone=True))
        self.busy -= 1
        self.set_side(held=self.side.held.set(d.id, d.step))

    def let_go(self) -> None:
        """What breakpoints hold back may start."""
        for key, i in self.side.held.items():
            self.line_up(changed(self.step(i).waiting[key], held=False))
        self.set_side(held=Table())

    def _start(self, step: StepDraft, d: Delivery) -> None:
        worker = _free_worker(step.workers) if step.workers else 0
        step.workers |= 1 << worker
        started = Delivery(
            d.id, d.step, d.out, d.cause, self.at, d.path, d.chain, d.rank, d.tries,
            d.attempt, d.start + 1, worker, d.ledger, d.waits,
        )  # fmt: skip
        step.active = step.active.set(d.id, started)
        self.commands.append(StartStep(started))

    def occupy(self, step: StepDraft, d: Delivery) -> Delivery:
        """The delivery as an active one, on the smallest free worker, its code going on."""
        worker = _free_worker(step.workers)
        step.workers |= 1 << worker
        running = changed(d, at=self.at, worker=worker, wakes=None, due=False)
        step.active = step.active.set(d.id, running)
        return running

    def freeze(self) -> RunState:
        """The state after the tick."""
        if self.touched:
            steps = list(self.steps)
            for i, step in self.touched.items():
                steps[i] = step.freeze()
            self.steps = tuple(steps)
        return RunState(
            self.spec,
            self.head,
            self.seq,
            self.at,
            self.status,
            self.gate,
            self.budget,
            self.steps,
            self.busy,
            self.sleeps,
            self.next_delivery,
            self.ids,
            self.joins,
            self.requests,
            self.timers,
            self.user,
            self.counts,
            self.side,
            self.active_s,
            self.since,
            self.end,
        )


def changed(delivery: Delivery, **fields: Any) -> Delivery:
    """A copy of a delivery with other fields; names are checked, which `msgspec.structs.replace` does too."""
    return replace(delivery, **fields)


def tries_of(delivery: Delivery) -> Tries:
    """What a delivery went through; of one that only began, when that was."""
    tries = delivery.tries
    if tries is None:
        return Tries(first_at=delivery.at)
    return tries if tries.first_at else replace(tries, first_at=delivery.at)


def both(one: tuple[tuple[int, int], ...], other: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """What two causes together passed through: of each handler of failures the higher count (R3.38)."""
    counts = dict(one)
    for handler, n in other:
        counts[handler] = max(n, counts.get(handler, 0))
    return tuple(counts.items())


def bases_of(draft: Draft | RunState, out: Out) -> tuple[str, ...]:
    """Keys of the bases of a value's class, nearest first."""
    found = draft.spec.bases.get(out.key)
    return out.bases if found is None else found


def _free_worker(busy: int) -> int:
    """The smallest worker id whose bit is not set."""
    return (~busy & (busy + 1)).bit_length() - 1


def all_steps(draft: Draft) -> Iterable[tuple[int, StepDraft]]:
    """Every step of the run, to change; for rare ticks only."""
    return [(i, draft.step(i)) for i in range(len(draft.steps))]
