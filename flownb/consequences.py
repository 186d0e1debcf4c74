"""What follows from one tick, in words: who gets its events, who starts, goes on or stops, what joins still lack.

It is read off the commands and the two states. What a tick left alone is not looked through, and of much only the
count is told, so that a fan-out of 10,000 is told as fast as one of ten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from flownb.core import commands as c
from flownb.core import ticks as t
from flownb.core.causes import delivery_of
from flownb.core.changes import differing
from flownb.core.collecting import buffer_of
from flownb.core.graph import short
from flownb.core.outstanding import spec_slots
from flownb.core.state import EMPTY_STEP, Delivery, Join, RunState, Sets, StepState, is_ended
from flownb.wording import asker_of, failure_words, listed, named, some, span

#: Ticks after which nothing is where it was: what is there now did not come by them.
_REARRANGE = (t.RunForked, t.RunOpened, t.DefinitionAdopted)


def consequences(
    before: RunState | None, tick: t.AnyTick, after: RunState, commands: Sequence[c.AnyCommand], carried: int
) -> Iterator[str]:
    """What follows, one clause after the other.

    Args:
        before: The state before the tick; None for the first one.
        tick: It.
        after: The state after it.
        commands: What the reducer said is to be done.
        carried: How many events the tick brings: a single one is "it".
    """
    if is_ended(after):
        yield from _end(tick, after, carried)
        return
    yield from _nobody(before, tick, after, commands)
    if not isinstance(tick, t.WaitOpened):  # that one says itself what it asks
        yield from _asked(after, commands, carried)
    yield from _closed(tick, after, commands)
    yield from _delivered(before, tick, after, commands, carried)
    yield from _woken(tick, after, commands)
    yield from _gathered(before, tick, after)
    if isinstance(tick, t.StepFinished) and tick.collects and not _restarts(tick, commands):
        yield from _collected(tick, after)
    yield from _later(tick, after, commands)
    yield from _stopped(after, commands)
    yield from _gate(before, tick, after)


def _end(tick: t.AnyTick, after: RunState, carried: int) -> Iterator[str]:
    if after.status == "completed":
        with_it = f" with {named(after.result)}" if after.result is not None and carried != 1 else ""
        yield f"the run is completed{with_it}"
    elif after.status == "cancelled":
        yield "the run is cancelled"
    elif after.failure is not None:
        is_told = isinstance(tick, t.StepFailed) and tick.failure is after.failure
        with_it = "" if is_told else f" with {failure_words(after.failure)}"
        yield "the run has timed out" if after.status == "timed_out" else f"the run fails{with_it}"
    if after.abandoned:
        n = len(after.abandoned)
        yield f"{n:,} {'delivery is' if n == 1 else 'deliveries are'} cut off"


def _nobody(
    before: RunState | None, tick: t.AnyTick, after: RunState, commands: Iterable[c.AnyCommand]
) -> Iterator[str]:
    said = [command for command in commands if type(command) is c.Publish and command.what == "unhandled"]
    if any("dropped_by" in command.info for command in said):
        yield "it goes nowhere"
        return
    lost = [short(each.out.key) for each in said if each.out is not None]
    if lost:
        yield f"nobody takes {some(lost)}, so {'it is' if len(lost) == 1 else 'they are'} unhandled"
    if before is not None and after.counts.untaken > before.counts.untaken:
        yield "it comes after the first that were wanted, so it is not taken"
    if isinstance(tick, t.EventArrived) and before is not None and len(after.mailbox) > len(before.mailbox):
        yield "nobody takes it yet, so it waits in the mailbox"


def _asked(after: RunState, commands: Iterable[c.AnyCommand], carried: int) -> Iterator[str]:
    asked = [command.request for command in commands if type(command) is c.OpenRequest]
    if len(asked) == 1 and carried == 1:
        yield "a person is asked"
    elif len(asked) == 1:
        yield f"{asker_of(after, asked[0])} asks a person: {named(asked[0].question)}"
    elif asked:
        yield f"a person is asked {len(asked):,} questions: {listed([request.question for request in asked])}"


def _closed(tick: t.AnyTick, after: RunState, commands: Iterable[c.AnyCommand]) -> Iterator[str]:
    own = getattr(tick, "request", 0)
    closed = [
        command
        for command in commands
        if type(command) is c.CloseRequest and command.request != own and command.how in ("withdrawn", "answered")
    ]
    for how, said in (("answered", "answered by it"), ("withdrawn", "closed, since nobody waits for it any more")):
        numbers = [f"question {command.request}" for command in closed if command.how == how]
        if numbers and not (how == "withdrawn" and isinstance(tick, t.WaitWithdrawn)):
            yield f"{some(numbers)} {'is' if len(numbers) == 1 else 'are'} {said}"


# Deliveries: new ones, and those that waited for a worker.


def _delivered(
    before: RunState | None, tick: t.AnyTick, after: RunState, commands: Iterable[c.AnyCommand], carried: int
) -> Iterator[str]:
    starts: dict[int, list[Delivery]] = {}
    for command in commands:
        if type(command) is c.StartStep:
            starts.setdefault(command.delivery.step, []).append(command.delivery)
    steps = before.steps if before is not None and before.spec is after.spec else (EMPTY_STEP,) * len(after.steps)
    for i, (was, step) in enumerate(zip(steps, after.steps, strict=True)):
        if was is step:
            continue
        started = starts.get(i, [])
        fresh = [d for d in started if d.cause == after.seq and d.start == 1]
        made = len(fresh) if isinstance(tick, _REARRANGE) else max(len(fresh), _all(step) - _all(was))
        if made:
            yield _got(after, i, made, fresh, carried, bool(tick.held))
        others = [d for d in started if d.cause != after.seq or d.start > 1]
        if others:
            yield _begun(after, i, others)
    held = [after.spec.steps[i].name for i in after.side.held.values()] if tick.held else []
    if held:
        yield f"a breakpoint holds back the start of {some(list(dict.fromkeys(held)))}"


def _all(step: StepState) -> int:
    """Deliveries that ever came: each is in one place."""
    return step.queue.n + step.active.n + step.waiting.n + step.done + step.failed


def _got(after: RunState, i: int, made: int, fresh: Sequence[Delivery], carried: int, is_held: bool) -> str:
    spec = after.spec.steps[i]
    name, started = spec.name, len(fresh)
    if made > 1:
        if started == made:
            return f"{name} gets {made:,} and starts them"
        begun = f", starts {started:,}" if started else ""
        return f"{name} gets {made:,}{begun} and queues {made - started:,}"
    what = "it"
    if fresh and isinstance(fresh[0].out, tuple):
        outs = fresh[0].out
        what = f"one of each, {listed(outs)}," if spec.slots else f"all that came, {_counted(outs)}," if outs else "[]"
    elif spec.gathers or spec.slots:
        what = "what it gathers"
    elif carried != 1 and fresh and not isinstance(fresh[0].out, tuple):
        what = named(fresh[0].out)
    if started:
        return f"{name} gets {what} and starts"
    return f"{name} gets {what.rstrip(',')}" + ("" if is_held else ", which waits for a free worker")


def _counted(outs: Sequence[object]) -> str:
    return f"{len(outs):,} event{'s' if len(outs) != 1 else ''}"


def _begun(after: RunState, i: int, begun: Sequence[Delivery]) -> str:
    name = after.spec.steps[i].name
    if len(begun) > 1:
        again = all(d.start > 1 for d in begun)
        return f"{name} starts {len(begun):,} {'again' if again else 'that waited'}"
    d = begun[0]
    if d.attempt > 1:
        return f"{name} starts again, attempt {d.attempt}"
    if d.start > 1:
        return f"{name} starts again from its top"
    return f"{name} starts the next, {_of(d)}"


def _of(d: Delivery) -> str:
    return listed(d.out) if isinstance(d.out, tuple) and d.out else "[]" if isinstance(d.out, tuple) else named(d.out)


def _woken(tick: t.AnyTick, after: RunState, commands: Iterable[c.AnyCommand]) -> Iterator[str]:
    names = [after.spec.steps[command.delivery.step].name for command in commands if type(command) is c.WakeStep]
    if names:
        unique = list(dict.fromkeys(names))
        many = f" ({len(names):,} of them)" if len(names) > len(unique) else ""
        yield f"{some(unique)} {'goes' if len(unique) == 1 else 'go'} on{many}"


# What comes together.


def _gathered(before: RunState | None, tick: t.AnyTick, after: RunState) -> Iterator[str]:
    if isinstance(tick, _REARRANGE) or before is None:
        return
    names = [step.name for step in after.spec.steps]
    for _, was, now in differing(before.joins, after.joins):
        if now is not None:
            yield from _arrived(names, was, now, after)
    if not after.spec.slotted:
        return
    d = delivery_of(tick, before)
    path = d.path if d is not None else None
    join = after.joins.get(path.join) if path is not None else None
    old = before.joins.get(path.join) if path is not None else None
    for i in sorted(after.spec.slotted):
        if path is None:
            yield from _paired(after, i, before.side.sets.get(names[i]), after.side.sets.get(names[i]))
        elif join is not None:
            name = f"{path.index} {names[i]}"
            yield from _paired(after, i, old.sets.get(name) if old is not None else None, join.sets.get(name))


def _arrived(names: Sequence[str], was: Join | None, now: Join, after: RunState) -> Iterator[str]:
    old = {target.step: target.n for target in was.targets} if was is not None else {}
    for target in now.targets:
        if was is None or target.n > old.get(target.step, 0):
            wanted = after.spec.steps[target.step].take or now.size
            # A branch may send several, so there may be more events than branches.
            yield f"{names[target.step]} has {target.n:,}{f' of {wanted:,}' if target.n <= wanted else ''}"


def _paired(after: RunState, i: int, was: Sets | None, now: Sets | None) -> Iterator[str]:
    if now is None or now is was:
        return
    slots = spec_slots(after, after.spec.steps[i].name)
    has = [slot for slot, queue in zip(slots, now.queues, strict=True) if queue.n]
    lacks = [slot for slot, queue in zip(slots, now.queues, strict=True) if not queue.n]
    yield f"{after.spec.steps[i].name} has {' and '.join(has)}, and waits for {' and '.join(lacks)}"


def _collected(tick: t.StepFinished, after: RunState) -> Iterator[str]:
    for collect in {each.buffer: each for each in tick.collects}.values():
        if collect.took:
            yield "what it collected is complete"
            continue
        queues = buffer_of(after, tick.step, collect.buffer).queues
        has = [f"{queues[key].n if key in queues else 0:,} of {n:,} {short(key)}" for key, n in collect.wants]
        yield f"it has collected {some(has)}"


def _restarts(tick: t.StepFinished | t.StepFailed, commands: Iterable[c.AnyCommand]) -> bool:
    """Whether a delivery runs again at once: it failed, or decided on a buffer that another one changed (R4.3)."""
    return any(type(command) is c.StartStep and command.delivery.id == tick.delivery for command in commands)


# What comes later, and what stops.


def _later(tick: t.AnyTick, after: RunState, commands: Iterable[c.AnyCommand]) -> Iterator[str]:
    for command in commands:
        if type(command) is c.ArmTimer and command.timer.kind in ("retry", "rate"):
            timer = command.timer
            due = span(timer.due_at - after.at)
            is_retry = timer.kind == "retry"
            name = after.spec.steps[timer.step].name
            yield f"it is tried again in {due}" if is_retry else f"{name} may start the next in {due}"
            return
    if isinstance(tick, t.StepFailed) and tick.retry_at is not None and not _restarts(tick, commands):
        yield "it is tried again by the next free worker"


def _stopped(after: RunState, commands: Iterable[c.AnyCommand]) -> Iterator[str]:
    names = [after.spec.steps[command.step].name for command in commands if type(command) is c.StopStep]
    if names:
        unique = list(dict.fromkeys(names))
        yield f"{some(unique)} {'is' if len(unique) == 1 else 'are'} stopped"
    children = sum(type(command) is c.StopChild for command in commands)
    if children:
        yield f"{children:,} child run{'s are' if children > 1 else ' is'} stopped"


def _gate(before: RunState | None, tick: t.AnyTick, after: RunState) -> Iterator[str]:
    old = before.gate if before is not None else ()
    if "livelock" in after.gate and "livelock" not in old:
        yield f"the run pauses, since more than {after.head.terms.max_starts:,} steps started one after the other"
    if isinstance(tick, t.GateOpened) and after.gate:
        yield f"it is still paused ({', '.join(after.gate)})"
    if isinstance(tick, t.QuietNoticed) and after.status == "waiting":
        yield "the run waits"
