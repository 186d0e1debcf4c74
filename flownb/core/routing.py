"""Where an event goes: an end, a person, waiters, a join, the steps that take it, or nobody."""

from __future__ import annotations

from typing import Literal

from flownb.core import matching
from flownb.core.closing import close_request, count_people, wake
from flownb.core.commands import OpenRequest, Publish
from flownb.core.draft import Draft
from flownb.core.ending import complete, fail
from flownb.core.joining import collect, pair
from flownb.core.spec import takers
from flownb.core.state import Counts, Outcome, Path, Request, Timer, Wake
from flownb.core.values import Failure, Out


def send(draft: Draft, out: Out, path: Path | None, source: int, to: str | None = None) -> int:
    """Route one event; how many new things live in its branch now.

    Args:
        draft: The tick's work.
        out: The event.
        path: The branch that it is sent in.
        source: Index of the step that sends it, -1 for the outside.
        to: Name of the one step that gets it, whatever else would take it.
    """
    role = out.role
    if role == "stop":
        complete(draft, out, source)
        return 0
    spec = draft.spec
    made = 0
    if role == "request":
        limit = out.limit
        if limit is None:
            open_request(draft, out, source, path)
        else:
            open_request(draft, out, source, path, due_at=limit.due_at, default=limit.default)
        made = 1
    if to is not None or spec.slotted or draft.side.waiters.n:
        return made + _send_with_care(draft, out, path, source, to)
    key = out.key
    table = spec.routes
    steps = table[key] if key in table else takers(spec, key, role, out.bases)
    for i in steps:
        draft.deliver(i, out, path)
    taken = bool(steps)
    if path is not None:
        lists = spec.lists
        gathering = lists[key] if key in lists else takers(spec, key, role, out.bases, gathering=True)
        if gathering:
            taken = collect(draft, path, gathering, out) or taken
    if not taken and role != "request":
        nobody_took(draft, out, source)
    return made + len(steps)


def _send_with_care(draft: Draft, out: Out, path: Path | None, source: int, to: str | None) -> int:
    """The same where waiters look for events, steps take several at once, or one step is meant."""
    spec, made = draft.spec, 0
    only = spec.index.get(to, -1) if to is not None else None
    woken = offer(draft, out, only) if draft.side.waiters.n else frozenset()
    steps = takers(spec, out.key, out.role, out.bases)
    if only is not None:
        steps = (only,) if only in steps else ()
    for i in steps:
        if i in woken:  # its waiter took the event (R4.33)
            continue
        if i in spec.slotted:
            made += pair(draft, i, out, path)
        else:
            draft.deliver(i, out, path)
            made += 1
    taken = bool(steps or woken)
    if path is not None and to is None:
        gathering = takers(spec, out.key, out.role, out.bases, gathering=True)
        taken = (bool(gathering) and collect(draft, path, gathering, out)) or taken
    if not taken and out.role != "request":
        nobody_took(draft, out, source, to)
    return made


def offer(draft: Draft, out: Out, only: int | None = None) -> frozenset[int]:
    """Wake the waiters that take an event, one a step (R4.30, R4.31); the steps of theirs."""
    found = matching.takers(draft, out, only)
    for waiter in found:
        resolve_waiter(draft, waiter.id, out)
    return frozenset([waiter.step for waiter in found])


def resolve_waiter(draft: Draft, number: int, out: Out) -> None:
    """A wait for an event is over: this one came."""
    waiter = matching.forget(draft, number)
    if waiter.request:
        if waiter.request in draft.requests:
            close_request(draft, draft.requests[waiter.request], "answered", out)
        draft.update(count_people(draft.find(waiter.step, waiter.delivery), draft.at))
    wake(draft, waiter.step, waiter.delivery, Wake(waiter.mark, Outcome("came", out)))


def open_request(
    draft: Draft,
    question: Out,
    source: int,
    path: Path | None,
    *,
    delivery: int = 0,
    mark: int = 0,
    due_at: float | None = None,
    default: Out | None = None,
    kind: Literal["ask", "event", "sent", "unknown"] = "sent",
    supersedes: int = 0,
    token: str = "",
) -> Request:
    """A question to a person: it is in the state until it is answered, expires, is disposed of or the run ends."""
    request = Request(
        draft.number("request"),
        question,
        source,
        draft.seq,
        draft.at,
        delivery,
        mark,
        path,
        due_at,
        draft.number("timer") if due_at is not None else 0,
        default,
        kind,
        supersedes,
        token,
        draft.recovered,
    )
    draft.requests = draft.requests.set(request.id, request)
    draft.commands.append(OpenRequest(request))
    draft.commands.append(Publish("request", question, source, {"request": request.id}, delivery))
    if due_at is not None:
        draft.arm(Timer(request.timer, due_at, "deadline", request.id))
    return request


def nobody_took(draft: Draft, out: Out, source: int, to: str | None = None) -> None:
    """Count, publish, and fail the run if its policy says so (R2.25 to R2.28)."""
    counts = draft.counts
    sender = draft.spec.steps[source] if source >= 0 else None
    is_hinted = sender is None or out.key in sender.returns or out.key in sender.fans
    by = "" if sender is None or is_hinted else sender.name
    draft.counts = Counts(counts.ignored, counts.unhandled + 1, counts.untaken, out.key, by, counts.dropped)
    draft.commands.append(Publish("unhandled", out, source, {"key": out.key, "step": to}))
    if draft.spec.unhandled == "error":
        message = (
            f"No step of workflow {draft.spec.name!r} takes {out.key!r}. Add a step with that type in its hint, "
            'or set unhandled="warn".'
        )
        fail(draft, Failure("flownb.errors:WorkflowRuntimeError", message), source)
