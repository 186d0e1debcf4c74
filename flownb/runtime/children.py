"""Runs that steps run: started, stopped and told of by their parent's runner (R6.18 to R6.25).

A child has its own journal and its own runner, on the same loop and in the same store. What the parent must know of it
(it waits, it goes on, it is over) comes as ticks of the parent, after the child's own.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from flownb.core.state import Child, is_ended
from flownb.core.ticks import CancelRequested, ChildChanged, ChildFinished, GateClosed, GateOpened
from flownb.core.values import Failure, Out
from flownb.events import WorkflowCancelledEvent
from flownb.runtime.results import out_of

if TYPE_CHECKING:
    from flownb.runtime.runner import Runner


def start(parent: Runner, child: Child) -> None:
    """Begin to drive a child; one that is driven already goes on."""
    if parent.children is None:
        parent.children = {}
    known = parent.children.get(child.id)
    if known is not None and known.run_id == child.run_id:
        known.watch = partial(_tell, parent, child.id, [child.active])
        known.reopen()
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
        runner.reopen()
        _tell(parent, child.id, [child.active], runner)
    else:
        runner.launch()


def _tell(parent: Runner, number: int, told: list[bool], child: Runner) -> None:
    """After each turn of a child: what its parent does not know yet."""
    state = child.state
    if parent.ended or parent.suspended:
        return
    if is_ended(state):
        child.watch = None
        child.is_heard = True
        parent.put(ChildFinished(parent.clock.now(), number, state.status, state.result, state.failure))  # type: ignore[arg-type]
        return
    active = state.status in ("running", "cancelling") and not state.gate
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
        if child.ended or child.suspended:
            continue
        held = "parent" in child.gate()
        if is_closed and not held:
            child.put(GateClosed(parent.clock.now(), "parent"))
        elif held and not is_closed:
            child.put(GateOpened(parent.clock.now(), "parent"))


def cancel_tick(runner: Runner, reason: str, by: str) -> CancelRequested:
    """The tick that cancels a run; with the event for its `@on_cancel` steps, where it has some."""
    out: Out | None = None
    if runner.state.spec.on_cancel:
        out = out_of(WorkflowCancelledEvent(reason=reason, by=by), runner.definition, 0.0)
    return CancelRequested(runner.clock.now(), reason, by, out)
