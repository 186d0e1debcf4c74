"""What a runner does about the commands of a tick that is in the journal, and after the ticks themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace

from flownb.core import commands as c
from flownb.core.state import RunState, Timer
from flownb.core.ticks import (
    BreakpointHit,
    DefinitionAdopted,
    EventArrived,
    GateClosed,
    GateOpened,
    RequestAnswered,
    StateWritten,
    StepFailed,
    StepFinished,
    Tick,
    TimerFired,
    ValueRecorded,
    WaitOpened,
)
from flownb.core.values import Failure, Out
from flownb.events import RequestClosedEvent
from flownb.runtime import children
from flownb.runtime.results import out_of
from flownb.runtime.stored import keep_inbox

if TYPE_CHECKING:
    from flownb.runtime.runner import Runner


def start(runner: Runner, command: c.StartStep) -> None:
    """Run the code of a delivery; one that cannot be started is a failed attempt (R1.17)."""
    d = command.delivery
    older = runner.workers.get(d.id)
    if older is not None and not older.returned:
        runner.cut_off(older)
    name, found = runner.state.spec.steps[d.step].name, runner.definition.steps
    place = d.step
    if place >= len(found) or found[place].name != name:  # opened with another definition than it has
        place = runner.definition.spec.index.get(name, len(found))
    if place >= len(found):  # opened where its code is not, to be cancelled (R5.13)
        failure = Failure("flownb.errors:StepLost", f"Step {name!r} is not defined in the process that drives the run.")
        runner.put(StepFailed(runner.clock.now(), name, d.id, d.start, failure))
        return
    worker = runner.new_worker(d, found[place])
    runner.workers[d.id] = worker
    try:
        worker.begin(runner.new_context())
    except Exception as error:
        worker.lose(f"{type(error).__name__}: {error}")


def still_runs(runner: Runner, command: c.StartStep) -> c.StartStep | None:
    """The command as the whole turn left it; what the same turn closed is not started (R1.14)."""
    d, steps = command.delivery, runner.state.steps
    found = steps[d.step].active.get(d.id) if d.step < len(steps) else None
    if found is d:
        return command
    if found is None:  # its step may stand elsewhere in a definition that the same turn adopted
        found = next((step.active[d.id] for step in steps if d.id in step.active), None)
    if found is None or found.start != d.start:
        return None
    return c.StartStep(found)


def is_owed(state: RunState, command: c.Command) -> bool:
    """Whether a command that could not be carried out is still to be (R1.18); what only ends something always is."""
    if isinstance(command, c.OpenRequest):
        return command.request.id in state.requests
    if isinstance(command, c.ArmTimer):
        return command.timer.id in state.timers
    if isinstance(command, c.StartChild):
        return command.child.id in state.side.children
    return True


def _wake(runner: Runner, command: c.WakeStep) -> None:
    worker = runner.workers.get(command.delivery.id)
    if worker is not None:
        worker.wake(command.wakes)


def _stop(runner: Runner, command: c.StopStep) -> None:
    worker = runner.workers.pop(command.delivery, None)
    if worker is not None:
        runner.cut_off(worker)


def _arm(runner: Runner, command: c.ArmTimer) -> None:
    timer = command.timer
    older = runner.timers.pop(timer.id, None)
    if older is not None:
        older.cancel()
    runner.timers[timer.id] = runner.clock.call_at(runner.host.loop, timer.due_at, lambda: _fire(runner, timer))


def _fire(runner: Runner, timer: Timer) -> None:
    runner.timers.pop(timer.id, None)
    if timer.id in runner.state.timers:
        closed = closed_at_deadline(runner, timer)
        runner.put(TimerFired(max(runner.clock.now(), timer.due_at), timer.id, closed))


def _disarm(runner: Runner, command: c.DisarmTimer) -> None:
    handle = runner.timers.pop(command.timer, None)
    if handle is not None:
        handle.cancel()


def _open_request(runner: Runner, command: c.OpenRequest) -> None:
    runner.questions.opened(runner, command.request)


def _close_request(runner: Runner, command: c.CloseRequest) -> None:
    runner.questions.close(command, runner.ticks[runner.acting - 1])


def _start_child(runner: Runner, command: c.StartChild) -> None:
    runner.begin_child(command.child)


def _stop_child(runner: Runner, command: c.StopChild) -> None:
    children.stop(runner, command.child, command.reason)


def _finish_run(runner: Runner, command: c.FinishRun) -> None:
    """Acted on once, after the turn."""


def _suspend(runner: Runner, command: c.Suspend) -> None:
    """Acted on once, after the turn."""


def closed_at_deadline(runner: Runner, timer: Timer) -> Out | None:
    """What the branch of a returned question hears at its deadline (R4.76)."""
    request = runner.state.requests[timer.ref] if timer.kind == "deadline" else None
    if request is None or request.delivery or request.default is not None:
        return None
    return closed_event(runner, timer.ref, "deadline")


def closed_event(runner: Runner, request: int, reason: Literal["deadline", "disposed"]) -> Out:
    """The event that tells a branch that its question ended without an answer."""
    question = runner.state.requests[request].question.value
    event = RequestClosedEvent(request_id=f"{runner.run_id}:{request}", question=question, reason=reason)
    return out_of(event, runner.definition, 0.0)


ACTIONS: dict[type[c.Command], Callable[[Runner, Any], None]] = {
    c.StartStep: start,
    c.WakeStep: _wake,
    c.StopStep: _stop,
    c.ArmTimer: _arm,
    c.DisarmTimer: _disarm,
    c.OpenRequest: _open_request,
    c.CloseRequest: _close_request,
    c.StartChild: _start_child,
    c.StopChild: _stop_child,
    c.FinishRun: _finish_run,
    c.Suspend: _suspend,
}


# After the ticks themselves, whatever commands they gave.


def _after_write(runner: Runner, before: RunState, tick: StateWritten, state: RunState) -> None:
    runner.user.admitted(tick)


def _after_value(runner: Runner, before: RunState, tick: ValueRecorded, state: RunState) -> None:
    worker = runner.workers.get(tick.delivery)
    if worker is not None and worker.delivery.start == tick.start:
        worker.was_recorded()


def _after_wait(runner: Runner, before: RunState, tick: WaitOpened, state: RunState) -> None:
    worker = runner.workers.get(tick.delivery)
    if worker is None or worker.delivery.start != tick.start:
        return
    # The step's own thread may have been slower than a wake for another of its waits.
    worker.holds_slot = tick.delivery in state.steps[worker.delivery.step].active
    if worker.deadline is not None:
        worker.count()


def _after_arrival(runner: Runner, before: RunState, tick: EventArrived, state: RunState) -> None:
    runner.has_arrived(tick)


def _after_answer(runner: Runner, before: RunState, tick: RequestAnswered | TimerFired, state: RunState) -> None:
    runner.questions.answered(before, tick, state.seq)


def _after_step(runner: Runner, before: RunState, tick: StepFinished | StepFailed, state: RunState) -> None:
    delivery = tick.delivery
    worker = runner.workers.get(delivery)
    if worker is not None and worker.delivery.start == tick.start:
        del runner.workers[delivery]
        worker.let_go()
    is_over = type(tick) is StepFinished or (type(tick) is StepFailed and tick.retry_at is None)
    if is_over and runner._errors and delivery in runner.errors and state.end.failed_delivery != delivery:
        del runner.errors[delivery]  # it was overcome


def _after_gate(runner: Runner, before: RunState, tick: Tick, state: RunState) -> None:
    for worker in tuple(runner.workers.values()):
        worker.count()
    if runner.children is not None:
        children.pass_gate(runner, bool(state.gate))
    if state.gate and runner.stored is not None:
        keep_inbox(runner)


def _after_adoption(runner: Runner, before: RunState, tick: DefinitionAdopted, state: RunState) -> None:
    adopted, runner.adopting = runner.adopting, None
    if adopted is not None:
        runner.definition, runner.policies = adopted, adopted.policies
    # Steps are known by name: their places may have changed.
    places = {i: state.spec.index.get(old.name, -1) for i, old in enumerate(before.spec.steps)}
    for worker in runner.workers.values():
        worker.delivery = replace(worker.delivery, step=places[worker.delivery.step])
    for n, request in runner.questions.all.copy().items():
        runner.questions.all[n] = replace(request, step=places.get(request.step, -1))


AFTER: dict[type[Tick], Callable[[Runner, RunState, Any, RunState], None]] = {
    EventArrived: _after_arrival,
    StateWritten: _after_write,
    ValueRecorded: _after_value,
    WaitOpened: _after_wait,
    RequestAnswered: _after_answer,
    TimerFired: _after_answer,
    StepFinished: _after_step,
    StepFailed: _after_step,
    GateClosed: _after_gate,
    GateOpened: _after_gate,
    BreakpointHit: _after_gate,
    DefinitionAdopted: _after_adoption,
}
