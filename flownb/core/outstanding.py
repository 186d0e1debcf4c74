"""What a run still owes, read from its state alone, and what it waits for."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from flownb.core.commands import AnyCommand, ArmTimer, FinishRun, OpenRequest, StartChild, StartStep
from flownb.core.graph import short
from flownb.core.spec import takers
from flownb.core.state import RunState, is_ended
from flownb.core.values import Out


def outstanding(state: RunState) -> tuple[AnyCommand, ...]:
    """Every command that a new driver has to carry out: starts, timers, open questions, children; or the end.

    A driver that took the run over first gives it a `RunOpened`, which makes lost work start again.
    """
    if is_ended(state):
        return (FinishRun(),)
    starts = [StartStep(d) for step in state.steps for d in step.active.values()]
    timers = [ArmTimer(timer) for timer in state.timers.values()]
    requests = [OpenRequest(request) for request in state.requests.values()]
    children = [StartChild(child) for child in state.side.children.values()]
    return (*starts, *timers, *requests, *children)


def is_still(state: RunState) -> bool:
    """Nothing moves by itself: no queue, nothing running, no sleep, retry, active child, hold or held start."""
    side = state.side
    return not (state.busy or state.sleeps or side.working or side.holds.n or side.held.n)


def is_quiet(state: RunState) -> bool:
    """Nothing moves by itself any more, if the inbox is empty too (R5.33)."""
    return not state.busy and not state.sleeps and state.status == "running" and not state.gate and is_still(state)


def waits_for(state: RunState, at_most: int | None = None) -> list[str]:
    """Who outside can move the run, in words; empty for a run that nobody can move.

    Args:
        state: The run.
        at_most: So many are named, and the rest is "and more"; None names all.
    """
    found = list(islice(_movers(state), None if at_most is None else at_most + 1))
    return found if at_most is None or len(found) <= at_most else [*found[:at_most], "and more"]


def _movers(state: RunState) -> Iterator[str]:
    spec = state.spec
    for r in state.requests.values():
        asker = spec.steps[r.step].name if r.step >= 0 else "the start"
        yield f"{asker} asks {short(r.question.key)} (request {r.id})"
    for w in state.side.waiters.values():
        if not w.request:
            yield f"{spec.steps[w.step].name} waits for {short(w.event)}"
    for c in state.side.children.values():
        yield f"{spec.steps[c.step].name} waits for child {c.run_id}"
    types = {t.key: t for t in spec.types}
    for key in spec.outside:
        event = types[key]
        for i in takers(spec, key, event.role, event.bases):
            yield f"{spec.steps[i].name} takes {short(key)} from outside"


def why_stalled(state: RunState) -> str:
    """Why nobody can move a quiet run, in one sentence or two."""
    said = []
    if state.lost:
        said.append(f"no step took the last {short(state.lost)}{_undeclared(state)}")
    if state.counts.dropped:
        said.append(f"somebody dropped the last {short(state.counts.dropped)}")
    if len(state.mailbox):
        kept = ", ".join(short(out.key) for out in state.mailbox)
        said.append(f"the mailbox holds {kept}, which nobody waits for")
    for name, buffer in state.side.buffers.items():
        held = ", ".join(f"{queue.n} × {short(key)}" for key, queue in buffer.queues.items())
        said.append(f"step {name.split(' ')[0]} has collected {held} and misses the rest")
    for name, sets in state.side.sets.items():
        slots = spec_slots(state, name)
        missing = [slot for slot, queue in zip(slots, sets.queues, strict=True) if not queue.n]
        said.append(f"step {name} has no {' and no '.join(missing)} to go with what came")
    unreached = [s.name for s, step in zip(state.spec.steps, state.steps, strict=True) if not step.done]
    if unreached:
        said.append(f"never reached: {', '.join(unreached)}")
    return "; ".join(said) if said else "every step is done and none returned a StopEvent"


def _undeclared(state: RunState) -> str:
    """What the hint of the step says that sent the last event that nobody took, if it does not name that."""
    found = state.spec.index.get(state.counts.lost_by)
    if found is None:
        return ""
    step = state.spec.steps[found]
    hinted = [*map(short, step.returns), *(f"list[{short(key)}]" for key in step.fans)]
    return f", which step {step.name!r} sent though its hint says {' | '.join(hinted) or 'None'}"


def spec_slots(state: RunState, name: str) -> list[str]:
    """Short names of what each parameter of a step takes."""
    return [" | ".join(map(short, slot)) for slot in state.spec.steps[state.spec.index[name]].slots]


def describe(out: Out | tuple[Out, ...]) -> str:
    """Short name of what a delivery carries."""
    if isinstance(out, tuple):
        return f"{len(out)} × {short(out[0].key)}" if out else "[]"
    return short(out.key)
