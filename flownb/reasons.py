"""Why a run does what it does, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from flownb.core.graph import short
from flownb.core.outstanding import describe, waits_for, why_stalled
from flownb.core.state import Delivery, RunState, is_ended
from flownb.core.ticks import AnyTick, BreakpointHit, RunSuspended
from flownb.errors import WorkflowError
from flownb.moment import deliveries, failure_of, waits_of
from flownb.pointers import (
    SLOW_S,
    Reason,
    closed_by_breakpoint,
    latest,
    longest_of,
    looks_at,
    looks_at_a_stall,
    looks_at_the_end,
    pointing,
    telling,
)
from flownb.runtime.gatekeeper import standing_still
from flownb.runtime.runner import Runner
from flownb.runtime.stored import waits_still
from flownb.store import drivers

#: Events that are named of each step, waits that are named of a run; the rest is counted.
_NAMED = 8


def why(runner: Runner) -> Reason:
    """The reason of the present moment (R5.39)."""
    if runner.suspended and waits_still(runner):
        waits = _present(runner, 0)
        return Reason(" ".join([waits, *_unanswered(runner), *_where(runner)]), waits.ticks)
    if runner.suspended:
        by = _by(runner.state)
        because = "" if runner.suspended == f"suspended{by}" else f": {runner.suspended.rstrip('.')}"
        found = (seq for seq, tick in latest(runner.state, runner.ticks) if isinstance(tick, RunSuspended))
        return Reason(f"Suspended{by}{because}. Only flow.resume({runner.run_id!r}) moves it.", [*islice(found, 1)])
    if runner.blocked:
        return Reason(f"Blocked: the journal cannot be written ({runner.blocked}); it is tried again.")
    reason = _present(runner, len(runner.inbox))
    said: list[str] = [reason, *_still_there(runner)]
    if is_outdated(runner):
        said.append("It goes by an older definition of its steps: adopt() takes the newest.")
    if runner.state.gate:
        said += [f"Step {step} stands still at {what}." for step, what in standing_still(runner)]
    said += _unanswered(runner)
    if runner.state.side.children.n:
        children = list((runner.children or {}).values())
        said += [
            f"Child {child.run_id}: {why(child)}"
            for child in children
            if child.suspended or child.state.status == "waiting"
        ]
    return Reason(" ".join(said), reason.ticks)


def _present(runner: Runner, inbox: int) -> Reason:
    state = runner.state
    before = (
        runner.history.at(state.seq - 1) if state.failure is not None and 1 < state.seq <= len(runner.ticks) else None
    )
    return reason_of(state, runner.clock.now(), inbox, runner.ticks, before)


def _unanswered(runner: Runner) -> list[str]:
    """Why answers did not come that were to come, or that came and did not fit."""
    requests = runner.state.requests
    if not requests.n:
        return []
    questions = runner.questions
    numbers = {**questions.notices, **questions.errors}
    return [f"For request {n}: {questions.trouble(n)}" for n in numbers if requests.get(n) is not None]


def _where(runner: Runner) -> Iterator[str]:
    """Who drives a run that this process does not drive just now; nothing of one that is over."""
    stored = runner.stored
    if stored is None or not stored.is_viewer:  # unloaded
        yield f"{runner.suspended[0].upper()}{runner.suspended[1:]}."
    elif stored.damage:
        yield stored.damage
    elif stored.is_imported:
        yield f"{runner.suspended[0].upper()}{runner.suspended[1:].rstrip('.')}."
    elif not runner.ended:
        driver = stored.committer.journal.holder(runner.run_id).driver
        if driver and not drivers.is_gone(driver):
            yield f"It is looked at here; {drivers.describe(driver)} drives it."
        else:
            yield f"It is looked at here, and nobody drives it: flow.resume({runner.run_id!r}) does."


def is_outdated(runner: Runner) -> bool:
    """Whether a live run goes by an older definition than its workflow has now (R2.22)."""
    if runner.ended or runner.owner is None:
        return False
    try:
        newest = runner.owner.definition
    except WorkflowError:  # it is being changed just now
        return True
    return bool(newest.spec.hash != runner.definition.spec.hash)


def _still_there(runner: Runner) -> Iterator[str]:
    """Code that was cut off and still runs: a thread cannot be stopped, nor can a call in another process (R3.16)."""
    names = [worker.step.name for worker in tuple(runner.left) if worker.is_at_work()]
    if names:
        yield f"Abandoned: {_some(names)} still {'runs' if len(names) == 1 else 'run'}, and nobody hears it."


def reason_of(
    state: RunState, now: float, inbox: int = 0, ticks: Sequence[AnyTick] = (), before: RunState | None = None
) -> Reason:
    """Why a state is what it is, and which ticks tell more.

    Args:
        state: It.
        now: Unix seconds.
        inbox: How many ticks wait before the gate.
        ticks: Those that led to it, or the last ones.
        before: The state before the last tick, if it is known: of a run that failed, it tells what the step was given.
    """
    if is_ended(state):
        looks = list(looks_at_the_end(state, ticks, before))
        return pointing(_why_ended(state), looks if state.failure is not None else [], state.seq)
    if not state.seq:
        return Reason("It has not begun: its first tick is still to come.")
    now = max(now, state.at)
    said = [*_why_closed(state, inbox, ticks), *_doing(state, now), *_waiting(state), *_lacks(state, ticks)]
    looks = list(looks_at(state, now, ticks))
    if said:
        return pointing(" ".join(said), looks)
    return pointing(f"Nothing moves: {why_stalled(state)}.", looks or list(looks_at_a_stall(state, ticks)))


def _by(state: RunState) -> str:
    return f" by {state.by}" if state.by else ""


def _why_ended(state: RunState) -> str:
    failure = state.failure
    if state.status == "failed" and failure is not None:
        where = state.spec.steps[state.failed_step].name if state.failed_step >= 0 else "the engine"
        return f"Failed at tick {state.seq} in {where}: {short(failure.type)}: {failure.message}"
    if state.status == "timed_out" and failure is not None:
        return f"Timed out at tick {state.seq}: {failure.message}"
    if state.status == "cancelled":
        return f"Cancelled{_by(state)}: {state.reason or 'no reason given'}."
    rest = []
    if state.abandoned:
        rest.append(f"{len(state.abandoned)} deliveries were cut off")
    if len(state.mailbox):
        rest.append(f"the mailbox still holds {_some([short(out.key) for out in state.mailbox])}")
    return f"Completed at tick {state.seq}{'; ' if rest else ''}{', '.join(rest)}."


def _why_closed(state: RunState, n: int, ticks: Sequence[AnyTick]) -> Iterator[str]:
    """What the gate, a cancel and an inbox that waits have to do with it."""
    if state.status == "cancelling":
        yield f"It is being cancelled{_by(state)} ({state.reason or 'no reason given'}): only @on_cancel steps run."
    if not state.gate:
        return
    waits = f"{n} tick{'s wait' if n != 1 else ' waits'} in the inbox" if n else "the inbox is empty"
    reasons = [reason for reason in state.gate if reason != "budget"]
    if reasons:
        yield f"Paused ({', '.join(reasons)}); {waits}."
    elif state.status == "suspended":
        yield f"Nobody drives it until it is resumed; {waits}."
    else:
        yield f"It is about to be suspended: what running steps still bring is kept, and nothing new starts; {waits}."
    if state.budget:
        yield f"{state.budget} more may pass."
    if "breakpoint" in state.gate:
        hit = closed_by_breakpoint(ticks)
        if isinstance(hit, BreakpointHit):
            failed = f", whose condition failed: {hit.error}" if hit.error else ""
            yield f"Breakpoint {hit.breakpoint} was hit ({hit.what or 'no condition'}{failed})."
        elif hit is not None:
            yield "It is where it was to run to."
    if "parent" in state.gate:
        parent = state.head.parent
        yield f"Its parent{f' {parent.run_id}' if parent is not None else ''} is paused."
    if "livelock" in state.gate:
        yield (
            f"More than {state.head.terms.max_starts:,} steps started one after the other, each caused by the one "
            "before and nothing from outside among them. cont() lets it go on."
        )


def _doing(state: RunState, now: float) -> Iterator[str]:
    """What its deliveries do."""
    for word, where in (("Running", "running"), ("Queued", "queued")):
        found = {i: [describe(d.out) for d in deliveries(state, i, where)] for i in range(len(state.steps))}
        steps = state.spec.steps
        said = [f"{steps[i].name} ({_some(events)})" for i, events in found.items() if events]
        if said:
            yield f"{word}: {', '.join(said)}."
    yield from _slow(state, now)
    waits, again = [], []
    for i, spec in enumerate(state.spec.steps):
        for d in deliveries(state, i, "waiting"):
            left = _left(state, d, now)
            waits.append(f"{spec.name} ({describe(d.out)}) {waits_of(state, d)}{left}")
        for d in deliveries(state, i, "retrying"):
            due = d.tries.due_at if d.tries is not None else now
            again.append(f"{spec.name} ({describe(d.out)}), {failure_of(d)}{_message(d)}, due in {_time(due - now)}")
    if waits:
        yield f"Waiting: {_some(waits, '; ')}."
    if again:
        yield f"Retrying: {_some(again, '; ')}."
    if state.side.held.n:
        held = [state.spec.steps[i].name for i in state.side.held.values()]
        yield f"A breakpoint holds back the start of {_some(held)}."


def _message(d: Delivery) -> str:
    failure = d.tries.failure if d.tries is not None else None
    return f" ({failure.message.splitlines()[0][:200]})" if failure is not None and failure.message else ""


def _slow(state: RunState, now: float) -> Iterator[str]:
    """What runs longest."""
    longest = longest_of(state)
    if longest is not None and now - longest.at >= SLOW_S:
        name = state.spec.steps[longest.step].name
        yield f"Longest: {name} has been running {describe(longest.out)} for {_time(now - longest.at)}."


def _lacks(state: RunState, ticks: Sequence[AnyTick]) -> Iterator[str]:
    """What joins still lack."""
    yield from (f"{lack.step}: {lack.words()}." for lack in telling(state, ticks))


def _left(state: RunState, d: Delivery, now: float) -> str:
    """When a sleeping delivery moves by itself."""
    due = [state.timers[wait.ref].due_at for wait in d.waits.values() if wait.kind == "sleep"]
    return f" for another {_time(min(due) - now)}" if due else ""


def _waiting(state: RunState) -> Iterator[str]:
    """Who outside can move it, or what keeps it open."""
    waiting = waits_for(state)
    if waiting:
        yield f"It waits for the outside: {_some(waiting, '; ')}."
    if state.side.holds.n:
        yield f"It is held open: {_some([hold.reason for hold in state.side.holds.values()], '; ')}."
    if state.status == "waiting" and not waiting:
        yield f"It is stalled and kept open: {why_stalled(state)}."


def _some(words: list[str], between: str = ", ") -> str:
    """The first of many words, and how many more there are."""
    more = len(words) - _NAMED
    return between.join(words[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _time(seconds: float) -> str:
    """A span of time as people say it."""
    seconds = max(0.0, seconds)
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


__all__ = ["Reason", "is_outdated", "reason_of", "why"]
