"""Where an event goes: an end, a person, a join, the steps that take it, or nobody."""

from __future__ import annotations

from flownb.core.commands import ArmTimer, OpenRequest, Publish
from flownb.core.draft import Draft
from flownb.core.ending import complete, fail
from flownb.core.joining import collect
from flownb.core.spec import takers
from flownb.core.state import Path, Request, Timer
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
    made = 0
    if role == "request":
        limit = out.limit
        if limit is None:
            open_request(draft, out, source, path)
        else:
            open_request(draft, out, source, path, due_at=limit.due_at, default=limit.default)
        made = 1
    if to is not None:
        draft.deliver(draft.spec.index[to], out, path)
        return made + 1
    key = out.key
    table = draft.spec.routes
    steps = table[key] if key in table else takers(draft.spec, key, role, out.bases)
    for i in steps:
        draft.deliver(i, out, path)
    taken = bool(steps)
    if path is not None:
        lists = draft.spec.lists
        gathering = lists[key] if key in lists else takers(draft.spec, key, role, out.bases, gathering=True)
        if gathering:
            taken = collect(draft, path, gathering, out) or taken
    if not taken and role != "request":
        nobody_took(draft, out, source)
    return made + len(steps)


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
) -> Request:
    """A question to a person: it is in the state until it is answered, expires, is disposed of or the run ends."""
    timer = 0
    if due_at is not None:
        timer = draft.next_timer
        draft.next_timer += 1
    request = Request(
        draft.next_request,
        question,
        source,
        draft.seq,
        draft.at,
        delivery,
        mark,
        path,
        due_at,
        timer,
        default,
    )
    draft.next_request += 1
    draft.requests = draft.requests.set(request.id, request)
    draft.commands.append(OpenRequest(request))
    draft.commands.append(Publish("request", question, source, {"request": request.id}))
    if due_at is not None:
        armed = Timer(timer, due_at, "deadline", request.id)
        draft.timers = draft.timers.set(timer, armed)
        draft.commands.append(ArmTimer(armed))
    return request


def nobody_took(draft: Draft, out: Out, source: int) -> None:
    """Count, publish, and fail the run if its policy says so (R2.25 to R2.28)."""
    draft.unhandled += 1
    draft.lost = out.key
    draft.commands.append(Publish("unhandled", out, source, {"key": out.key}))
    if draft.spec.unhandled == "error":
        message = (
            f"No step of workflow {draft.spec.name!r} takes {out.key!r}. Add a step with that type in its hint, "
            'or set unhandled="warn".'
        )
        fail(draft, Failure("flownb.errors:WorkflowRuntimeError", message), source)
