"""What those steps lack that take several events: which branches of a fan-out have not come, and where they are.

It is asked by people, now and then: it looks at all that lives in the run, once, and names a few of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Literal

from msgspec import Struct

from flownb.core.graph import short
from flownb.core.outstanding import describe, spec_slots
from flownb.core.state import Delivery, Join, Path, RunState
from flownb.core.ticks import StepFinished, Tick

#: So many branches of each are named, and so many steps in all; the rest is counted.
NAMED, LACKS = 3, 20


class Branch(Struct, frozen=True, gc=False):
    """Something that lives in a branch which has not come."""

    #: Of its element in the list that was returned, from 0.
    index: int
    #: The step that has it; of a returned question the one that asks.
    step: str
    where: Literal["queued", "running", "waiting", "retrying", "asking"]
    #: Short name of what it carries, or asks.
    event: str
    #: seq of the tick that sent, or asked, it.
    tick: int

    def words(self) -> str:
        """`#17 (score is running Row, branch 2)`."""
        doing = {
            "queued": f"{self.step} has {self.event} queued",
            "running": f"{self.step} is running {self.event}",
            "waiting": f"{self.step} waits with {self.event}",
            "retrying": f"{self.step} tries {self.event} again later",
            "asking": f"{self.step} asks {self.event}",
        }[self.where]
        return f"#{self.tick} ({doing}, branch {self.index})"


class Lack(Struct, frozen=True):
    """A step that takes several events, some of which have not come."""

    step: str
    #: How many came, of how many: branches of a fan-out, events of a `Take`, parameters, or collected events. `wanted`
    #: is 0 where nobody knows.
    arrived: int
    wanted: int
    #: Short names of the types that are missing; several in one name: any of them.
    misses: tuple[str, ...]
    #: Where the first of the missing branches are, and how many more there are.
    branches: tuple[Branch, ...] = ()
    more: int = 0
    #: Branches that ended without sending anything to it.
    without: int = 0
    #: Short names of what came, with counts; of steps that are fed one by one.
    has: str = ""

    @property
    def ticks(self) -> tuple[int, ...]:
        """seqs of the ticks that sent what has not come."""
        return tuple(dict.fromkeys(branch.tick for branch in self.branches))

    def words(self) -> str:
        """`2 of 3 arrived, missing Scored from #17 (score is running Row, branch 2)`."""
        came = f"{self.arrived:,} of {self.wanted:,} arrived" if self.wanted else f"{self.arrived:,} arrived"
        said = [came + (f" ({self.has})" if self.has else "")]
        if self.misses:
            where = [branch.words() for branch in self.branches] + ([f"{self.more:,} more"] if self.more else [])
            said.append(f"missing {' and '.join(self.misses)}{f' from {_and(where)}' if where else ''}")
        if self.without:
            said.append(f"{self.without:,} ended without one")
        return ", ".join(said)


def _and(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def lacking(state: RunState, ticks: Sequence[Tick] = ()) -> list[Lack]:
    """What gathering steps, steps with several event parameters and `ctx.collect_events` still lack.

    Args:
        state: The run.
        ticks: Its ticks, or the last ones, for what was asked of `ctx.collect_events`: no state knows that.
    """
    return list(islice(_lacks(state, ticks), LACKS))


def _lacks(state: RunState, ticks: Sequence[Tick]) -> Iterator[Lack]:
    living = _living(state) if len(state.joins) else {}
    for join in state.joins.values():
        yield from _of_join(state, join, living.get(join.id, {}))
        for name, sets in join.sets.items():
            yield _of_sets(state, name.partition(" ")[2], [queue.n for queue in sets.queues])
    for name, sets in state.side.sets.items():
        yield _of_sets(state, name, [queue.n for queue in sets.queues])
    for name, buffer in state.side.buffers.items():
        step, _, number = name.partition(" ")
        yield _of_buffer(step, {key: queue.n for key, queue in buffer.queues.items()}, _wants(step, number, ticks))


# Fan-outs.

#: Of each open fan-out, by the index of the branch, what lives in it.
_Living = dict[int, dict[int, Branch]]


def _living(state: RunState) -> _Living:
    found: _Living = {}
    steps = state.spec.steps
    for i, step in enumerate(state.steps):
        for d in (*step.active.values(), *step.waiting.values(), *step.queue):
            _note(found, d.path, steps[i].name, _where(d), describe(d.out), d.cause)
    for request in state.requests.values():
        if not request.delivery:  # else its delivery waits in the branch
            asker = steps[request.step].name if request.step >= 0 else "the start"
            _note(found, request.path, asker, "asking", short(request.question.key), request.opened)
    return found


def _note(
    found: _Living,
    path: Path | None,
    step: str,
    where: Literal["queued", "running", "waiting", "retrying", "asking"],
    event: str,
    tick: int,
) -> None:
    while path is not None:
        found.setdefault(path.join, {}).setdefault(path.index, Branch(path.index, step, where, event, tick))
        path = path.parent


def _where(d: Delivery) -> Literal["queued", "running", "waiting", "retrying"]:
    if d.worker >= 0:
        return "running"
    if d.tries is not None and d.tries.timer:
        return "retrying"
    return "waiting" if d.waits.n and not d.due else "queued"


def _of_join(state: RunState, join: Join, living: dict[int, Branch]) -> Iterator[Lack]:
    for target in join.targets:
        spec = state.spec.steps[target.step]
        came = {arrival.index for arrival in join.got if arrival.target == target.step}
        missing = [living[index] for index in sorted(living) if index not in came]
        arrived, wanted = (target.n, spec.take) if spec.take else (len(came), join.size)
        yield Lack(
            spec.name,
            arrived,
            wanted,
            (" | ".join(map(short, spec.gathers)),) if missing else (),
            tuple(missing[:NAMED]),
            max(0, len(missing) - NAMED),
            join.size - len(came) - len(missing),
        )


# Partners, and what steps collect themselves.


def _of_sets(state: RunState, step: str, counts: Sequence[int]) -> Lack:
    slots = spec_slots(state, step)
    has = [slot for slot, n in zip(slots, counts, strict=True) if n]
    misses = [slot for slot, n in zip(slots, counts, strict=True) if not n]
    return Lack(step, len(has), len(slots), tuple(misses), has=", ".join(has))


def _wants(step: str, buffer: str, ticks: Sequence[Tick]) -> tuple[tuple[str, int], ...]:
    """What a step wanted of a buffer when it asked last."""
    for tick in reversed(ticks):
        if isinstance(tick, StepFinished) and tick.step == step:
            for collect in tick.collects:
                if collect.buffer == buffer:
                    return collect.wants
    return ()


def _of_buffer(step: str, has: dict[str, int], wants: tuple[tuple[str, int], ...]) -> Lack:
    counted = ", ".join(f"{n:,} × {short(key)}" for key, n in has.items())
    left = {key: n - has.get(key, 0) for key, n in wants}
    misses = tuple(f"{n:,} × {short(key)}" if n > 1 else short(key) for key, n in left.items() if n > 0)
    arrived = sum(min(n, has.get(key, 0)) for key, n in wants) if wants else sum(has.values())
    return Lack(step, arrived, sum(n for _, n in wants), misses, has=counted)
