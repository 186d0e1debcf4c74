"""What is true of every state of every run. Tests call `broken` after each tick; a message is a bug of ours."""

from __future__ import annotations

from collections import Counter

from flownb.core.state import Path, RunState, is_ended


def broken(state: RunState) -> list[str]:
    """Every invariant that does not hold, in words; empty for a sound state."""
    said: list[str] = []
    if is_ended(state):
        left = [
            name
            for name, size in {
                "deliveries": sum(len(s.queue) + len(s.active) + len(s.waiting) for s in state.steps),
                "timers": len(state.timers),
                "requests": len(state.requests),
                "joins": len(state.joins),
                "busy": state.busy,
                "sleeps": state.sleeps,
            }.items()
            if size
        ]
        return [f"an ended run still has {name}" for name in left]
    said += _places(state)
    said += _tokens(state)
    said += _references(state)
    return said


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
        if room and (step.queue or due):
            said.append(f"{spec.name} has a free worker and work that waits for one")
        if {d.id for d in due} - set(step.front):
            said.append(f"a woken delivery of {spec.name} is not at the front")
        if any(not d.due and not d.waits for d in step.waiting.values()):
            said.append(f"a delivery of {spec.name} waits for nothing")
        if any(d.start < 1 for d in step.active.values()):
            said.append(f"a delivery of {spec.name} runs without a start")
    said += [f"delivery {key} is in {n} places" for key, n in ids.items() if n > 1]
    if busy != state.busy:
        said.append(f"busy is {state.busy}, counted {busy}")
    if busy and state.status == "waiting":
        said.append("a run with work is waiting")
    return said


def _tokens(state: RunState) -> list[str]:
    """`pending` of each join is what lives in its branches: deliveries, returned questions, inner fan-outs."""
    alive = Counter[int]()
    paths: list[Path | None] = [join.parent for join in state.joins.values()]
    for step in state.steps:
        paths += [d.path for d in (*step.queue, *step.active.values(), *step.waiting.values())]
    paths += [r.path for r in state.requests.values() if not r.delivery]
    for path in paths:
        if path is not None:
            alive[path.join] += 1
    said = [
        f"join {join.id} waits for {join.pending}, {alive[join.id]} live in it"
        for join in state.joins.values()
        if join.pending != alive[join.id]
    ]
    said += [f"something lives in the closed join {key}" for key in alive if key not in state.joins]
    return said


def _references(state: RunState) -> list[str]:
    """Waits, timers and requests name each other."""
    said, sleeps = [], 0
    timers, requests = set[int](), set[int]()
    for step in state.steps:
        for d in (*step.active.values(), *step.waiting.values()):
            if len({wait.mark for wait in d.waits}) != len(d.waits):
                said.append(f"two waits of delivery {d.id} have one mark")
            for wait in d.waits:
                if wait.kind == "sleep":
                    sleeps += 1
                    timers.add(wait.ref)
                    timer = state.timers.get(wait.ref)
                    if timer is None or timer.ref != d.id or timer.mark != wait.mark:
                        said.append(f"delivery {d.id} sleeps without its timer")
                else:
                    requests.add(wait.ref)
                    request = state.requests.get(wait.ref)
                    if request is None or request.delivery != d.id or request.mark != wait.mark:
                        said.append(f"delivery {d.id} asks without its request")
    if sleeps != state.sleeps:
        said.append(f"sleeps is {state.sleeps}, counted {sleeps}")
    for request in state.requests.values():
        if request.timer and request.timer not in state.timers:
            said.append(f"request {request.id} lost its deadline")
        if request.delivery and request.id not in requests:
            said.append(f"request {request.id} was asked by a delivery that does not wait for it")
    for timer in state.timers.values():
        if timer.kind == "deadline" and timer.ref not in state.requests:
            said.append(f"timer {timer.id} is for no request")
        if timer.kind == "sleep" and timer.id not in timers:
            said.append(f"timer {timer.id} wakes nobody")
    return said
