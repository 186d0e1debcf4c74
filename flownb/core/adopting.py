"""A live run takes newer definitions of its steps (R2.23). Steps are known by name: their places may have changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from flownb.core import matching
from flownb.core.draft import Draft, changed
from flownb.core.joining import fire_full
from flownb.core.life import offer_mailbox
from flownb.core.persist import Chain, Fifo, Table
from flownb.core.spec import Spec
from flownb.core.state import EMPTY_STEP, Arrival, Delivery, Gathering, Join, RunState, StepState
from flownb.core.ticks import DefinitionAdopted


def homeless(state: RunState, spec: Spec) -> list[str]:
    """Steps whose work has no place in a newer definition (R6.44), by name.

    They are gone, with deliveries or an open fan-out; or what waits there for its partners is not taken together any
    more.
    """
    sources = {join.source for join in state.joins.values()}
    paired = {*state.side.sets, *(name.partition(" ")[2] for join in state.joins.values() for name in join.sets)}
    found: list[str] = []
    for i, (old, step) in enumerate(zip(state.spec.steps, state.steps, strict=True)):
        place = spec.index.get(old.name)
        if place is None:
            is_lost = bool(step.queue.n or step.active.n or step.waiting.n or i in sources or old.name in paired)
        else:
            is_lost = old.name in paired and spec.steps[place].slots != old.slots
        if is_lost:
            found.append(old.name)
    return found


def on_definition_adopted(draft: Draft, tick: DefinitionAdopted) -> None:
    """Everything that names a step by its place gets the new place.

    Raises:
        ValueError: The work of a step has no place in it; the door refuses that before.
    """
    state, spec = draft.before, tick.spec
    lost = homeless(state, spec)
    if lost:
        raise ValueError(f"The new definition has no place for the work of {', '.join(lost)}.")
    places = {i: spec.index.get(old.name, -1) for i, old in enumerate(state.spec.steps)}
    places[-1] = -1
    steps = [EMPTY_STEP] * len(spec.steps)
    for i, step in enumerate(state.steps):
        if places[i] >= 0:
            steps[places[i]] = _moved_step(step, places)
    draft.spec, draft.steps = spec, tuple(steps)
    draft.joins = Table.of((j.id, _moved_join(j, places)) for j in draft.joins.values())
    asked = [replace(r, recovered=_moved_pairs(r.recovered, places)) for r in draft.requests.values()]
    draft.requests = Table.of((r.id, _moved(r, places)) for r in asked)
    for i, step in enumerate(state.steps):
        if places[i] < 0 and step.timer:  # of its rate
            draft.sleeps -= 1
            draft.disarm(step.timer)
    draft.timers = Table.of((t.id, _moved(t, places)) for t in draft.timers.values())
    waiters = list(draft.side.waiters.values())
    children = Table.of((c.id, _moved(c, places)) for c in draft.side.children.values())
    held = Table.of((key, places[i]) for key, i in draft.side.held.items())
    draft.set_side(waiters=Table(), wanted=type(draft.side.wanted)(), shapes={}, children=children, held=held)
    for waiter in waiters:
        matching.remember(draft, _moved(waiter, places))
    for i in range(len(spec.steps)):
        draft.step(i)  # a step may have more workers now
    for join in list(draft.joins.values()):
        fire_full(draft, join.id)
    if draft.status != "cancelling":  # nothing is routed then (R5.51)
        offer_mailbox(draft)
    if draft.status == "waiting":  # quiet anew: the new steps may wait for something else
        draft.status = "running"


def _moved(value: Any, places: dict[int, int]) -> Any:
    return replace(value, step=places[value.step])


def _moved_step(step: StepState, places: dict[int, int]) -> StepState:
    return replace(
        step,
        queue=Fifo.of([_moved_delivery(d, places) for d in step.queue]),
        active=Table.of((d.id, _moved_delivery(d, places)) for d in step.active.values()),
        waiting=Table.of((d.id, _moved_delivery(d, places)) for d in step.waiting.values()),
    )


def _moved_delivery(d: Delivery, places: dict[int, int]) -> Delivery:
    tries = d.tries
    if tries is not None and tries.recovered:
        tries = replace(tries, recovered=_moved_pairs(tries.recovered, places))
    return changed(d, step=places[d.step], tries=tries)


def _moved_pairs(pairs: Sequence[tuple[int, int]], places: dict[int, int]) -> tuple[tuple[int, int], ...]:
    return tuple((places[i], n) for i, n in pairs if places[i] >= 0)


def _moved_join(join: Join, places: dict[int, int]) -> Join:
    """Gathering steps that are gone take nothing any more."""
    targets = tuple(Gathering(places[t.step], t.n) for t in join.targets if places[t.step] >= 0)
    got = [Arrival(places[a.target], a.index, a.out) for a in join.got.oldest_first() if places[a.target] >= 0]
    return replace(
        join,
        source=places[join.source],
        targets=targets,
        got=Chain.of(got),
        recovered=_moved_pairs(join.recovered, places),
    )
