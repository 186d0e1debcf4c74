"""What reaches a run from outside its steps: events, cancels, pauses, holds, newer definitions."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from typing import Any

from flownb.answering import answer_request, answered_by, family, has_come
from flownb.core import matching
from flownb.core.adopting import homeless
from flownb.core.life import MAILBOX_LIMIT
from flownb.core.spec import takers
from flownb.core.state import is_ended
from flownb.core.ticks import (
    DefinitionAdopted,
    EventArrived,
    GateClosed,
    GateOpened,
    HoldChanged,
    RunSuspended,
    StepsGranted,
)
from flownb.core.values import Out
from flownb.defaults import options
from flownb.definition import Definition
from flownb.errors import DefinitionChanged, EngineLost, MailboxFull, WorkflowDone, WorkflowRuntimeError
from flownb.events import Event
from flownb.runtime.children import cancel_tick
from flownb.runtime.copying import copied
from flownb.runtime.pending import Pending
from flownb.runtime.results import out_of
from flownb.runtime.runner import Runner
from flownb.runtime.stored import AGAIN_S, accept, pass_on, refuse_changes, waits_still
from flownb.sending import check_target
from flownb.starting import resting


def send(runner: Runner, ev: Event, step: str | None, key: str | None) -> Pending[None]:
    """Send an event from outside; see `Run.send_event`."""
    if runner.ended or (runner.suspended and runner.stored is None and not waits_still(runner)):
        raise WorkflowDone(
            f"Run {runner.run_id!r} is {runner.state.status if runner.ended else 'suspended'}; it takes no more events."
        )
    check_target(runner, ev, step)
    if key and any(has_come(each, key) for each in family(runner)):
        return over("the event's admission")
    opened = answered_by(runner, ev) if step is None and type(ev).__flownb_kind__.role == "answer" else None
    if opened is not None:
        owner, request = opened
        answer_request(owner, request, copied(ev), None, {}, "event", key or "")
        if owner.suspended:
            return over("the answer's admission")
        return owner.until("the answer's admission", lambda: request.id not in owner.state.requests)
    now = runner.clock.now()
    out = runner.checked(out_of(copied(ev), runner.definition, now))
    tick = EventArrived(now, out, step, key or "", options.user)
    if runner.suspended and runner.stored is not None:  # it lies in the store until the run's driver takes it
        accept(runner, tick, key=key or "")
        return over("the event's admission")
    handle: Pending[None] = Pending("the event's admission", runner.host.loop)
    with runner.questions.door:  # of two threads that send the last one that is kept, one is told so
        if _keeps(runner, out, step) and len(runner.state.mailbox) + len(runner.arriving) >= MAILBOX_LIMIT:
            raise MailboxFull(f"Run {runner.run_id!r} keeps {MAILBOX_LIMIT:,} events that nobody takes, and no more.")
        runner.arriving[id(out)] = handle
    runner.post(tick)
    return handle


def _keeps(runner: Runner, out: Out, step: str | None) -> bool:
    """Whether an outside event would go to the mailbox (R2.30): no step takes it now, or not the one it is for, and no
    waiter does, or another event that is on its way may be there first."""
    spec = runner.state.spec
    found = takers(spec, *type(out.value).__flownb_kind__)
    only = None if step is None else spec.index[step]
    if out.role in ("stop", "request") or (found if only is None else only in found):
        return False
    return bool(runner.arriving) or not matching.takers(runner.state, out, only)


def cancel(runner: Runner, reason: str) -> Pending[None]:
    """End a run now, or when its `@on_cancel` steps are done; one that is suspended is opened for that.

    Returns:
        A handle that ends when the run is over and its steps are gone, or had the time for it.

    Raises:
        RunReadOnly: It was imported.
    """
    by = options.user
    refuse_changes(runner)

    def stop() -> None:
        tick = cancel_tick(runner, reason, by)
        resting.discard(runner)
        try:
            runner.reopen()
            pass_on(runner, tick)
        except WorkflowRuntimeError:  # the store cannot be used now
            runner.host.later(AGAIN_S, stop)
        except Exception as error:
            gone.reject(error)

    def over() -> None:
        try:
            runner.end.result(0)
        except BaseException as error:  # nobody can drive it any more
            gone.reject(error)
        else:
            with suppress(EngineLost):
                runner.host.call(runner.when_gone, gone)
            if runner.host.is_lost():
                gone.resolve(None)

    gone: Pending[None] = Pending("the end", runner.host.loop)
    runner.host.call(stop)
    runner.end.on_end(over)
    return gone


async def cancel_and_wait(runner: Runner, timeout: float) -> None:
    """The same, waiting so many seconds at most."""
    end = cancel(runner, "")
    try:
        await asyncio.wait_for(_waited(end), timeout)
    except TimeoutError:
        raise WorkflowRuntimeError(f"Run {runner.run_id!r} was not over {timeout} s after its cancel.") from None


async def _waited(end: Pending[None]) -> None:
    await end


class Suspension:
    """A run lets its steps finish before nobody drives it any more; one at a time, however often it is asked for
    (R5.54). On its loop's thread."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._is_asked = False
        self.over: Pending[None] = Pending("the suspension", runner.host.loop)
        runner.put(GateClosed(runner.clock.now(), "budget", options.user))
        runner.listeners.append(self.look)

    def stop(self) -> None:
        """Wait no longer."""
        runner = self._runner
        if not self._is_asked and not self.over.done():
            self._is_asked = True
            by = options.user
            runner.put(RunSuspended(runner.clock.now(), f"suspended{' by ' + by if by else ''}", by))

    def look(self) -> None:
        """Whether it is there, or nothing runs any more."""
        runner = self._runner
        if self.over.done():
            return
        if runner.suspended or runner.ended:
            if not runner.ended:
                resting.add(runner)
            self._end()
        elif not runs(runner):
            self.stop()

    def take_back(self) -> bool:
        """Somebody wants the run to go on; False if it is too late for that."""
        runner = self._runner
        if self._is_asked:
            return False
        runner.put(GateOpened(runner.clock.now(), "budget", options.user))
        self._end()
        return True

    def _end(self) -> None:
        self._runner.listeners.remove(self.look)
        self._runner.stopping = None
        self.over.resolve(None)


def runs(runner: Runner) -> bool:
    """Whether code of a step runs that has not said how it ended."""
    return any(not worker.returned for worker in runner.workers.values() if worker.holds_slot)


def suspend(runner: Runner, drain: float) -> Pending[None]:
    """Let running steps finish into the inbox for so many seconds, then stop driving (R5.53)."""
    handle: Pending[None] = Pending("the suspension", runner.host.loop)

    def begin() -> None:
        if runner.ended or runner.suspended:
            handle.resolve(None)
            return
        if runner.stopping is None:
            runner.stopping = Suspension(runner)
        stopping: Suspension = runner.stopping
        stopping.over.on_end(lambda: handle.resolve(None))
        runner.host.later(max(0.0, drain), stopping.stop)
        runner.host.soon(stopping.look)

    runner.host.call(begin)
    return handle


class OpenHold(AbstractAsyncContextManager[None], AbstractContextManager[None]):
    """Keeps a run from being quiet until `release()`, or the end of a `with` block."""

    def __init__(self, runner: Runner, reason: str) -> None:
        self._runner = runner
        self._number = runner.new_hold()
        pass_on(runner, HoldChanged(runner.clock.now(), self._number, reason))

    def release(self) -> None:
        """Nothing more will be sent."""
        number, self._number = self._number, 0
        if number and not self._runner.ended:
            pass_on(self._runner, HoldChanged(self._runner.clock.now(), number))

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: object) -> None:
        self.release()

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, *exc: object) -> None:
        self.release()


def adopt(runner: Runner, definition: Definition) -> Pending[None]:
    """Take newer definitions of the steps for all later deliveries (R2.23).

    Raises:
        WorkflowRuntimeError: The run is neither paused nor quiet.
        DefinitionChanged: A step with work is gone.
    """
    state = runner.state
    if is_ended(state):
        raise WorkflowDone(f"Run {runner.run_id!r} is {state.status}; it takes no newer definitions.")
    if not state.gate and state.status == "running":
        raise WorkflowRuntimeError(f"Run {runner.run_id!r} runs: pause it, or wait until it is quiet, then adopt.")
    lost = homeless(state, definition.spec)
    if lost:
        raise DefinitionChanged(
            f"Step {', '.join(lost)} is gone and has work in run {runner.run_id!r}. Define it again, or cancel that.",
            steps=tuple(lost),
        )
    runner.adopting = definition
    tick = DefinitionAdopted(runner.clock.now(), definition.spec, options.user)
    runner.post(tick)
    return runner.until("the new definition", lambda: runner.definition is definition)


def over(what: str) -> Pending[Any]:
    """A handle of what is over."""
    handle: Pending[Any] = Pending(what)
    handle.resolve(None)
    return handle


def open_gate(runner: Runner) -> None:
    """Lift what a person and breakpoints closed, and what the guard against endless loops did; on the loop's thread."""
    for reason in runner.gate():
        if reason in ("person", "breakpoint", "livelock", "budget"):
            pass_on(runner, GateOpened(runner.clock.now(), reason, options.user))


def step_ticks(runner: Runner, n: int) -> list[GateClosed | StepsGranted]:
    """The control ticks of `run.debug.step(n)`: close an open gate first, then let n ticks pass, less those that may
    pass already and have not come. On the loop's thread."""
    now = runner.clock.now()
    ticks: list[GateClosed | StepsGranted] = []
    granted = 0
    if runner.gate():
        granted = runner.granted()
    else:
        ticks.append(GateClosed(now, "person", options.user))
    if n > granted:
        ticks.append(StepsGranted(now, n - granted))
    return ticks
