"""Runs that steps run: started, stopped and told of by their parent's runner (R6.18 to R6.25).

A child has its own journal and its own runner, on the same loop and in the same store. What the parent must know of it
(it waits, it goes on, it is over) comes as ticks of the parent, after the child's own.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from flownb.core.adopting import homeless
from flownb.core.state import Child, is_ended
from flownb.core.ticks import CancelRequested, ChildChanged, ChildFinished, GateClosed, GateOpened
from flownb.core.values import Failure, Out
from flownb.definition import Definition, inherited
from flownb.events import WorkflowCancelledEvent
from flownb.runtime.results import out_of
from flownb.runtime.stored import release, wake

if TYPE_CHECKING:
    from flownb.runtime.runner import Runner


def start(parent: Runner, child: Child) -> None:
    """Begin to drive a child; one that is driven already goes on."""
    if parent.children is None:
        parent.children = {}
    known = parent.children.get(child.id)
    if known is not None and known.run_id == child.run_id:
        known.watch = partial(_tell, parent, child.id, [child.active])
        _reopen(parent, known)
        _pass_gate(parent, known, bool(parent.state.gate))
        _tell(parent, child.id, [child.active], known)  # what it did while nobody drove its parent
        return
    make = parent.maker_of(child)
    if make is None:
        said = f"Child {child.run_id!r} cannot be run: workflow {child.workflow!r} is not defined in this process."
        failure = Failure("flownb.errors:WorkflowNotDefined", said)
        parent.put(ChildFinished(parent.clock.now(), child.id, "failed", None, failure))
        return
    runner = parent.children[child.id] = make(parent, child)
    runner.watch = partial(_tell, parent, child.id, [child.active])
    if runner.ended:  # an earlier process brought it to its end
        _tell(parent, child.id, [child.active], runner)
    elif runner.suspended:
        _reopen(parent, runner)
        _pass_gate(parent, runner, bool(parent.state.gate))
        _tell(parent, child.id, [child.active], runner)
    else:
        runner.launch()


def _reopen(parent: Runner, child: Runner) -> None:
    """Go on with a child, with the newest definition of its workflow; one that lost a step with work stays as it is."""
    if child.owner is None or not child.suspended:
        child.reopen()
        return
    definition: Definition = child.owner.definition
    lost = homeless(child.state, definition.spec)
    if lost:
        child.suspended = f"step {', '.join(lost)} is gone and has work: define it again, or cancel the run"
    else:
        child.reopen(replace(definition, policies=inherited(definition.policies, parent.policies)))


def _tell(parent: Runner, number: int, told: list[bool], child: Runner) -> None:
    """After each turn of a child: what its parent does not know yet."""
    state = child.state
    if parent.ended:
        return
    active = state.status in ("running", "cancelling") and not state.gate
    if parent.suspended:
        if is_ended(state) or active != told[0]:
            wake(parent)  # if it was unloaded; it is told then
        return
    if is_ended(state):
        child.watch = None
        child.is_heard = True
        parent.put(ChildFinished(parent.clock.now(), number, state.status, state.result, state.failure))  # type: ignore[arg-type]
        return
    if active != told[0]:
        told[0] = active
        parent.put(ChildChanged(parent.clock.now(), number, active))


def stop(parent: Runner, number: int, reason: str) -> None:
    """Nobody waits for a child any more."""
    child = (parent.children or {}).get(number)
    if child is not None and not child.ended and not child.suspended:
        child.watch = None
        child.put(cancel_tick(child, f"its parent {parent.run_id!r}: {reason}", ""))


def pass_gate(parent: Runner, is_closed: bool) -> None:
    """A pause passes down, as a reason of its own (R6.24)."""
    for child in (parent.children or {}).values():
        _pass_gate(parent, child, is_closed)


def _pass_gate(parent: Runner, child: Runner, is_closed: bool) -> None:
    if child.ended or child.suspended:
        return
    held = "parent" in child.gate()
    if is_closed and not held:
        child.put(GateClosed(parent.clock.now(), "parent"))
    elif held and not is_closed:
        child.put(GateOpened(parent.clock.now(), "parent"))


def rest(parent: Runner) -> None:
    """Nobody drives a parent any more, so another process may drive its children too; those that are in no store stay
    where they are, paused."""
    for child in (parent.children or {}).values():
        if child.stored is not None and not child.ended and not child.suspended:
            child.suspended = f"its parent {parent.run_id!r} is suspended"
            child.put_down()
            release(child)
            rest(child)
            child.tell()


def cancel_tick(runner: Runner, reason: str, by: str) -> CancelRequested:
    """The tick that cancels a run; with the event for its `@on_cancel` steps, where it has some."""
    out: Out | None = None
    if runner.state.spec.on_cancel:
        out = out_of(WorkflowCancelledEvent(reason=reason, by=by), runner.definition, 0.0)
    return CancelRequested(runner.clock.now(), reason, by, out)
