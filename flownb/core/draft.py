"""One tick's work on a state: mutable, local to a single `reduce`, frozen at its end.

A draft copies only what a tick touches. Deliveries that a tick makes are collected in `StepDraft.arrivals` and
started or queued once, when all is known (`settle`): so a fan-out of 10,000 costs one pass, and what one tick
starts is in step order, whatever order the events had.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from flownb.core.commands import AnyCommand, StartStep, WakeStep
from flownb.core.persist import Chain
from flownb.core.state import Delivery, Path, RunState, StepState
from flownb.core.values import Out


class StepDraft:
    """One step's state while a tick changes it."""

    __slots__ = ("active", "arrivals", "done", "failed", "front", "queue", "waiting", "workers")

    def __init__(self, state: StepState) -> None:
        self.front = state.front
        self.queue = state.queue
        self.active = state.active
        self.waiting = state.waiting
        self.workers = state.workers
        self.done = state.done
        self.failed = state.failed
        self.arrivals: list[Delivery] = []

    def freeze(self) -> StepState:
        if self.arrivals:
            self.queue = self.queue.put_many(self.arrivals)
        return StepState(self.front, self.queue, self.active, self.waiting, self.workers, self.done, self.failed)


_FIELDS = RunState.__struct_fields__


class Draft:
    """The state of a run while one tick is reduced."""

    __slots__ = (*_FIELDS, "before", "commands", "touched")

    # Declared for the type checker; `__slots__` makes them.
    before: RunState
    commands: list[AnyCommand]
    touched: dict[int, StepDraft]

    def __init__(self, state: RunState, at: float) -> None:
        self.before = state
        self.seq = state.seq + 1
        self.at = at if at > state.at else state.at
        self.commands = []
        self.touched = {}
        self.spec = state.spec
        self.run_id = state.run_id
        self.started_at = state.started_at
        self.status = state.status
        self.gate = state.gate
        self.budget = state.budget
        self.steps = state.steps
        self.busy = state.busy
        self.sleeps = state.sleeps
        self.next_delivery = state.next_delivery
        self.next_join = state.next_join
        self.next_request = state.next_request
        self.next_timer = state.next_timer
        self.joins = state.joins
        self.requests = state.requests
        self.timers = state.timers
        self.user = state.user
        self.mailbox = state.mailbox
        self.ignored = state.ignored
        self.unhandled = state.unhandled
        self.lost = state.lost
        self.result = state.result
        self.failure = state.failure
        self.failed_step = state.failed_step
        self.reason = state.reason
        self.by = state.by
        self.abandoned = state.abandoned

    def step(self, i: int) -> StepDraft:
        """The step to change."""
        found = self.touched.get(i)
        if found is None:
            found = self.touched[i] = StepDraft(self.steps[i])
        return found

    def live(self, step: str, delivery: int, start: int) -> Delivery | None:
        """The delivery that a tick speaks of, None if the tick is late."""
        i = self.spec.index.get(step)
        if i is None:
            return None
        found = self.steps[i].active.get(delivery)
        if found is None:
            found = self.steps[i].waiting.get(delivery)
        return found if found is not None and found.start == start and not found.gone else None

    def deliver(self, step: int, out: Out | tuple[Out, ...], path: Path | None) -> None:
        """Put an event before a step."""
        self.step(step).arrivals.append(Delivery(self.next_delivery, step, out, self.seq, self.at, path))
        self.next_delivery += 1
        self.busy += 1

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
            if delivery.due:  # its id stays in `front`, where `settle` passes over it
                self.busy -= 1
        return step

    def record(self, delivery: Delivery) -> Delivery:
        """The delivery with this tick in its ledger."""
        ledger = delivery.ledger if delivery.ledger is not None else Chain()
        return changed(delivery, ledger=ledger.add(self.seq))

    def settle(self) -> None:
        """Start what can be started, in step order; what waits for a worker stays queued, first in first out."""
        touched = self.touched
        for i in touched if len(touched) == 1 else sorted(touched):
            step = touched[i]
            ahead, queued, fresh = step.front.n, step.queue.n, len(step.arrivals)
            if not (ahead or queued or fresh):
                continue
            limit = self.spec.steps[i].num_workers
            room = ahead + queued + fresh if limit is None else limit - step.active.n
            while room > 0 and step.front.n:
                key, step.front = step.front.get()
                woken = step.waiting.get(key)
                if woken is not None and woken.due:
                    step.waiting = step.waiting.drop(key)
                    self._resume(step, woken)
                    room -= 1
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

    def _resume(self, step: StepDraft, d: Delivery) -> None:
        if d.gone:
            self._start(step, d)
        else:
            self.commands.append(WakeStep(self.occupy(step, d), d.wakes))

    def _start(self, step: StepDraft, d: Delivery) -> None:
        worker = _free_worker(step.workers)
        step.workers |= 1 << worker
        started = Delivery(
            d.id, d.step, d.out, d.cause, self.at, d.path, d.attempt, d.start + 1, worker, d.ledger, d.waits
        )
        step.active = step.active.set(d.id, started)
        self.commands.append(StartStep(started))

    def occupy(self, step: StepDraft, d: Delivery) -> Delivery:
        """The delivery as an active one, on the smallest free worker."""
        worker = _free_worker(step.workers)
        step.workers |= 1 << worker
        running = Delivery(d.id, d.step, d.out, d.cause, self.at, d.path, d.attempt, d.start, worker, d.ledger, d.waits)
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
            self.run_id,
            self.seq,
            self.at,
            self.started_at,
            self.status,
            self.gate,
            self.budget,
            self.steps,
            self.busy,
            self.sleeps,
            self.next_delivery,
            self.next_join,
            self.next_request,
            self.next_timer,
            self.joins,
            self.requests,
            self.timers,
            self.user,
            self.mailbox,
            self.ignored,
            self.unhandled,
            self.lost,
            self.result,
            self.failure,
            self.failed_step,
            self.reason,
            self.by,
            self.abandoned,
        )


def changed(delivery: Delivery, **fields: Any) -> Delivery:
    """A copy of a delivery with other fields; names are checked, which `msgspec.structs.replace` does too."""
    return replace(delivery, **fields)


def _free_worker(busy: int) -> int:
    """The smallest worker id whose bit is not set."""
    return (~busy & (busy + 1)).bit_length() - 1


def all_steps(draft: Draft) -> Iterable[tuple[int, StepDraft]]:
    """Every step of the run, to change; for rare ticks only."""
    return [(i, draft.step(i)) for i in range(len(draft.steps))]
