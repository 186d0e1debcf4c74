"""What is true of every state of every run. Tests call `broken` after each tick; a message is a bug of ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from flownb.core.state import UNKNOWN, Delivery, Path, RunState, is_ended


def broken(state: RunState) -> list[str]:
    """Every invariant that does not hold, in words; empty for a sound state."""
    said: list[str] = []
    if is_ended(state):
        side = state.side
        left = [
            name
            for name, size in {
                "deliveries": sum(len(s.queue) + len(s.active) + len(s.waiting) for s in state.steps),
                "timers": len(state.timers),
                "requests": len(state.requests),
                "joins": len(state.joins),
                "waiters": len(side.waiters) + len(side.wanted) + len(side.shapes),
                "children": len(side.children) + side.working,
                "holds": len(side.holds) + len(side.held),
                "collected events": len(side.buffers) + len(side.sets),
                "busy": state.busy,
                "sleeps": state.sleeps,
                "a running clock": int(state.since is not None),
            }.items()
            if size
        ]
        return [f"an ended run still has {name}" for name in left]
    said += _places(state)
    said += _tokens(state)
    said += _references(state)
    said += _waiters(state)
    return said


def _deliveries(state: RunState) -> Iterator[Delivery]:
    for step in state.steps:
        yield from (*step.queue, *step.active.values(), *step.waiting.values())


def _places(state: RunState) -> list[str]:
    """Each delivery in one place, workers within their limit, counts as counted."""
    said, ids, busy = [], Counter[int](), 0
    for i, (spec, step) in enumerate(zip(state.spec.steps, state.steps, strict=True)):
        due = [d for d in step.waiting.values() if d.due]
        busy += len(step.queue) + len(step.active) + len(due)
        for d in (*step.queue, *step.active.values(), *step.waiting.values()):
            ids[d.id] += 1
            if d.step != i:
                said.append(f"delivery {d.id} of step {d.step} is at step {i}")
        workers = [d.worker for d in step.active.values()]
        if sum(1 << w for w in set(workers)) != step.workers or len(set(workers)) != len(workers):
            said.append(f"workers of {spec.name}: {sorted(workers)} against mask {step.workers:b}")
        room = spec.num_workers is None or len(step.active) < spec.num_workers
        may_start = spec.rate is None or not step.timer
        woken = any(not d.gone for d in due)
        if room and (woken or (may_start and (step.queue or due))):
            said.append(f"{spec.name} has a free worker and work that waits for one")
        if {d.id for d in due if not d.gone} - set(step.front) or {d.id for d in due if d.gone} - set(step.again):
            said.append(f"a delivery of {spec.name} that is due is not at the front")
        for d in step.waiting.values():
            retries = d.tries is not None and d.tries.timer
            if not (d.due or d.waits.n or retries or d.held):
                said.append(f"delivery {d.id} of {spec.name} waits for nothing")
            if retries and (d.due or not d.gone):
                said.append(f"delivery {d.id} of {spec.name} waits for its next attempt and is due or alive")
            if d.due and UNKNOWN in d.waits:
                said.append(f"delivery {d.id} of {spec.name} is due, and nobody said what became of it")
            if d.held != (d.id in state.side.held):
                said.append(f"delivery {d.id} of {spec.name} is held, or not")
        if any(d.start < 1 for d in step.active.values()):
            said.append(f"a delivery of {spec.name} runs without a start")
        if step.timer and step.timer not in state.timers:
            said.append(f"{spec.name} has lost the timer of its rate")
    said += [f"delivery {key} is in {n} places" for key, n in ids.items() if n > 1]
    said += [f"held delivery {key} is nowhere" for key in state.side.held if key not in ids]
    if busy != state.busy:
        said.append(f"busy is {state.busy}, counted {busy}")
    if busy and state.status == "waiting":
        said.append("a run with work is waiting")
    return said


def _tokens(state: RunState) -> list[str]:
    """`pending` of each join is what lives in its branches: deliveries, returned questions, inner fan-outs."""
    alive = Counter[int]()
    paths: list[Path | None] = [join.parent for join in state.joins.values()]
    paths += [d.path for d in _deliveries(state)]
    paths += [r.path for r in state.requests.values() if not r.delivery]
    for path in paths:
        if path is not None:
            alive[path.join] += 1
    said = [
        f"join {join.id} waits for {join.pending}, {alive[join.id]} live in it"
        for join in state.joins.values()
        if join.pending != alive[join.id] or not alive[join.id]
    ]
    said += [f"something lives in the closed join {key}" for key in alive if key not in state.joins]
    for join in state.joins.values():
        for target in join.targets:
            came = sum(arrival.target == target.step for arrival in join.got)
            if came != target.n:
                said.append(f"join {join.id} counts {target.n} for step {target.step}, {came} came")
            if 0 < state.spec.steps[target.step].take <= target.n:
                said.append(f"join {join.id} has enough for step {target.step} and did not fire it")
    return said


def _references(state: RunState) -> list[str]:
    """Waits, timers, requests, waiters and children name each other."""
    said, sleeps, retries = [], sum(step.timer > 0 for step in state.steps), set[int]()
    named: dict[str, set[int]] = {"sleep": set(), "ask": set(), "event": set(), "child": set()}
    for d in _deliveries(state):
        if d.tries is not None and d.tries.timer:
            sleeps += 1
            retries.add(d.tries.timer)
            timer = state.timers.get(d.tries.timer)
            if timer is None or timer.kind != "retry" or timer.ref != d.id or timer.due_at != d.tries.due_at:
                said.append(f"delivery {d.id} is to be tried again without its timer")
        for mark, wait in d.waits.items():
            named[wait.kind].add(wait.ref)
            sleeps += wait.kind == "sleep"
            if mark != wait.mark or _of(state, wait.kind, wait.ref) != (d.id, mark):
                said.append(f"delivery {d.id} waits for {wait.kind} {wait.ref}, which is not there or of another")
    if sleeps != state.sleeps:
        said.append(f"sleeps is {state.sleeps}, counted {sleeps}")
    for request in state.requests.values():
        if request.timer and request.timer not in state.timers:
            said.append(f"request {request.id} lost its deadline")
        if request.kind in ("ask", "unknown") and request.id not in named["ask"]:
            said.append(f"request {request.id} was asked by a delivery that does not wait for it")
        if request.kind == "event" and all(w.request != request.id for w in state.side.waiters.values()):
            said.append(f"request {request.id} is shown by no waiter")
    for timer in state.timers.values():
        orphan = {
            "deadline": timer.ref not in state.requests,
            "sleep": timer.id not in named["sleep"],
            "retry": timer.id not in retries,
            "wait": timer.ref not in state.side.waiters,
            "rate": timer.kind == "rate" and state.steps[timer.step].timer != timer.id,
            "timeout": state.since is None,
        }.get(timer.kind, False)
        if orphan:
            said.append(f"timer {timer.id} ({timer.kind}) is for nobody")
    said += [f"waiter {key} is of nobody" for key in state.side.waiters if key not in named["event"]]
    said += [f"child {key} is of nobody" for key in state.side.children if key not in named["child"]]
    if state.side.working != sum(child.active for child in state.side.children.values()):
        said.append(f"working is {state.side.working}")
    return said


def _of(state: RunState, kind: str, ref: int) -> tuple[int, int] | None:
    """The delivery and mark that something open belongs to."""
    if kind == "sleep":
        timer = state.timers.get(ref)
        return (timer.ref, timer.mark) if timer is not None and timer.kind == "sleep" else None
    found = (
        state.requests.get(ref)
        if kind == "ask"
        else state.side.waiters.get(ref)
        if kind == "event"
        else state.side.children.get(ref)
    )
    return (found.delivery, found.mark) if found is not None else None


def _waiters(state: RunState) -> list[str]:
    """The index of waiters holds each of them once."""
    indexed = [key for bucket in state.side.wanted.values() for key in bucket]
    counted = sum(n for shapes in state.side.shapes.values() for n in shapes.values())
    if sorted(indexed) != list(state.side.waiters) or counted != len(state.side.waiters):
        return [f"waiters {list(state.side.waiters)} are indexed as {sorted(indexed)}, counted {counted}"]
    return [
        f"waiter {w.id} lost its deadline"
        for w in state.side.waiters.values()
        if w.timer and w.timer not in state.timers
    ]
