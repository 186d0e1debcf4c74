"""Breakpoints as the panel shows and sets them: by a click on a step, on an edge, on a tick, or by a form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flownb.core import ticks as t
from flownb.core.causes import delivery_of
from flownb.core.graph import Graph, short
from flownb.core.state import RunState
from flownb.debug.breakpoints import Breakpoint, Breakpoints
from flownb.debug.subjects import carried, outs_of
from flownb.errors import WorkflowError

#: What a breakpoint stands at, as `Breakpoints.add` takes it.
Spot = dict[str, Any]


def lines(breakpoints: Iterable[Breakpoint], at_ticks: dict[int, int]) -> list[dict[str, Any]]:
    """`[{"n", "what", "on", "half", "hits", "failed", "step", "narrow", "event", "seq"}, ...]`, oldest first.

    `half`: it has a condition. `step`, `event`: of the node and the edges at which it is shown, "" for none. `narrow`:
    it does not mean every event of its step.

    Args:
        breakpoints: Those of the workflow, set in code too.
        at_ticks: The ticks of this run at which some of them were set, by their number.
    """
    return [
        {
            "n": point.number,
            "what": point.what,
            "on": point.enabled,
            "half": _has_condition(point),
            "hits": point.hits,
            "failed": point.failed,
            "step": point.step if _is_plain(point) and point.step is not None else "",
            "narrow": point.step is not None and point.event is not None,
            "event": point.event if _is_plain(point) and point.step is None and point.event is not None else "",
            "seq": at_ticks.get(point.number, 0),
        }
        for point in breakpoints
    ]


def _has_condition(point: Breakpoint) -> bool:
    return point.when is not None or point.hit > 1


def _is_plain(point: Breakpoint) -> bool:
    """It means a step or an event, no error and no place in the state."""
    return not point.error and point.state is None


def spot_of_node(graph: Graph, node: int) -> Spot:
    """Before a step starts.

    Raises:
        WorkflowError: The node is no step.
    """
    if not 0 < node < len(graph.nodes) - 1:
        raise WorkflowError("A breakpoint stands at a step; start and stop are none.")
    return {"step": graph.nodes[node].id}


def spot_of_edge(graph: Graph, edge: int) -> Spot:
    """Before a tick that brings the event of an edge."""
    return {"event": graph.edges[edge].key}


def spot_of_tick(tick: t.Tick, before: RunState | None) -> Spot:
    """Where the next tick of the same kind would stop the run: the step and event of this one.

    Raises:
        WorkflowError: It is of no step and brings no event.
    """
    step = getattr(tick, "step", None)
    if isinstance(tick, t.StepFailed):
        return {"step": step, "error": True}
    if isinstance(tick, t.StateWritten) and (tick.changes or tick.dropped):
        return {"step": step, "state": next(iter((*tick.changes, *tick.dropped)))}
    if isinstance(tick, t.StepFinished):
        delivery = delivery_of(tick, before)
        outs = outs_of(delivery) if delivery is not None else ()
        return {"step": step, "at": "after", **({"event": outs[0].key} if outs else {})}
    brought = carried(before, tick) if before is not None else [out for out in (getattr(tick, "out", None),) if out]
    if brought:
        return {"event": brought[0].key}
    if step:
        return {"step": step}
    raise WorkflowError("This tick is of no step and brings no event, so no breakpoint can stand at it.")


def toggle(breakpoints: Breakpoints, spot: Spot, is_on: bool) -> Breakpoint | None:
    """Let runs stop at a spot, or not any more. What has a condition is kept and disabled, not lost by a click.

    Returns:
        The breakpoint that stands there now, None if there is none.
    """
    there = [point for point in breakpoints if _is_there(point, spot)]
    if is_on:
        for point in there:
            point.enable()
        return there[0] if there else breakpoints.add(**spot)
    for point in there:
        if _has_condition(point):
            point.disable()
        else:
            point.remove()
    return None


def _is_there(point: Breakpoint, spot: Spot) -> bool:
    """Whether it stands at a spot; at a node stands whatever means its step."""
    if set(spot) == {"step"}:
        return _is_plain(point) and point.step == spot["step"]
    event = spot.get("event")
    if event is not None and point.event is not None and short(event) == point.event:  # set in code, by its short name
        event = point.event
    named = (point.step, point.event, point.error, point.state)
    wanted = (spot.get("step"), event, spot.get("error", False), spot.get("state"))
    return named == wanted and (point.at == "after") == (spot.get("at") == "after")


def numbered(breakpoints: Breakpoints, number: int) -> Breakpoint:
    """The breakpoint with a number.

    Raises:
        WorkflowError: It was removed meanwhile.
    """
    for point in breakpoints:
        if point.number == number:
            return point
    raise WorkflowError(f"There is no breakpoint {number} any more.")


__all__ = ["Spot", "lines", "numbered", "spot_of_edge", "spot_of_node", "spot_of_tick", "toggle"]
