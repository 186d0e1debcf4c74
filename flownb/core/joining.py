"""Fan-out and fan-in by counting, and steps that take several events at once.

A step that returned a list opens a `Join`. Its `pending` counts what lives in the branches: deliveries, open
requests, inner fan-outs. Whatever ends pays: one out, so many in that it made in the same branch. At zero nobody in
any branch can send any more, and the gathering steps fire once, with what came for them, in the order of branches. A
step that takes the first n (`Take`) fires before; then it is none of the join's any more.

Every way in which a delivery can end pays here, failures too: a join that is never paid hangs.

What waits for its partners before a step with several event parameters is no life of its own: the branch may end
without it. So such sets stand in the join, and go with it.
"""

from __future__ import annotations

from msgspec.structs import replace

from flownb.core.closing import close_request, cut
from flownb.core.draft import Draft, all_steps, bases_of, both
from flownb.core.persist import Chain, Fifo, Names
from flownb.core.spec import EVENT, ORDINARY
from flownb.core.state import Arrival, Delivery, Gathering, Join, Path, Sets
from flownb.core.values import Out


def open_join(draft: Draft, d: Delivery, size: int) -> Join:
    """A new fan-out of `size` elements; it holds one token of its own until its elements are routed."""
    targets = tuple([Gathering(i) for i in draft.spec.joins[d.step]])
    number, recovered = draft.number("join"), draft.recovered
    join = Join(number, d.step, size, 1, targets, Chain(), d.path, Names(), draft.chain, recovered, d.rank)
    draft.joins = draft.joins.set(join.id, join)
    return join


def collect(draft: Draft, path: Path, gathering: tuple[int, ...], out: Out) -> bool:
    """Keep an event for the gathering steps that its innermost fan-out owns; whether one of them takes it."""
    join = draft.joins[path.join]
    got, is_full = join.got, False
    targets: list[Gathering] = []
    left = len(gathering)
    for target in join.targets:
        if target.step not in gathering:
            targets.append(target)
            continue
        left -= 1
        got = got.add(Arrival(target.step, path.index, out))
        targets.append(Gathering(target.step, target.n + 1))
        is_full = is_full or target.n + 1 == draft.spec.steps[target.step].take
    if left:
        owned = draft.spec.joins[join.source]
        # A step that takes the first n has fired already (R4.17).
        fired = [i for i in gathering if i in owned and all(t.step != i for t in join.targets)]
        if left == len(gathering) and not fired:
            return False
        draft.counts = replace(draft.counts, untaken=draft.counts.untaken + len(fired))
    if draft.chain > join.chain or draft.recovered:  # what comes is one of the causes of what fires
        recovered = both(join.recovered, draft.recovered)
        join = replace(join, chain=max(join.chain, draft.chain), recovered=recovered)
    keep(draft, join, join.pending, tuple(targets), got)
    if is_full and fire_full(draft, join.id):
        _cancel_rest(draft, join.id, path.index)
    return True


def keep(draft: Draft, join: Join, pending: int, targets: tuple[Gathering, ...], got: Chain[Arrival]) -> None:
    draft.joins = draft.joins.set(
        join.id,
        Join(
            join.id,
            join.source,
            join.size,
            pending,
            targets,
            got,
            join.parent,
            join.sets,
            join.chain,
            join.recovered,
            join.rank,
        ),
    )


def pay(draft: Draft, path: Path | None, made: int) -> None:
    """One thing in a branch ended and made so many new ones in it."""
    while path is not None:
        join = draft.joins[path.join]
        pending = join.pending + made - 1
        if pending:
            keep(draft, join, pending, join.targets, join.got)
            return
        # The last token: fire, in the branch of the fan-out itself, and pay there in turn.
        made, path = _fire(draft, join), join.parent


def _fire(draft: Draft, join: Join) -> int:
    draft.joins = draft.joins.drop(join.id)
    got: dict[int, list[Arrival]] = {target.step: [] for target in join.targets}
    for arrival in join.got.oldest_first():
        if arrival.target in got:
            got[arrival.target].append(arrival)
    for step, arrivals in got.items():
        _deliver(draft, join, step, arrivals)
    return len(got)


def fire_full(draft: Draft, number: int) -> bool:
    """Fire the steps of a fan-out that have their n, beside its branches, which go on (R4.16).

    Returns:
        Whether one of them wants these branches to end.
    """
    join = draft.joins[number]
    steps = draft.spec.steps
    full = [target.step for target in join.targets if 0 < steps[target.step].take <= target.n]
    if full:
        keep(draft, join, join.pending, tuple([t for t in join.targets if t.step not in full]), join.got)
    for step in full:
        _deliver(draft, join, step, [a for a in join.got.oldest_first() if a.target == step])
        pay(draft, join.parent, 2)
    return any(steps[step].cancel_rest for step in full)


def _deliver(draft: Draft, join: Join, step: int, arrivals: list[Arrival]) -> None:
    arrivals.sort(key=_index)  # stable: inside a branch in the order of sending
    # Its causes are the fan-out itself and what came of it; in the order of sending it stands where that stood.
    before = draft.chain, draft.recovered, draft.rank
    draft.chain, draft.recovered, draft.rank = join.chain, join.recovered, join.rank
    draft.deliver(step, tuple([arrival.out for arrival in arrivals]), join.parent)
    draft.chain, draft.recovered, draft.rank = before


def _index(arrival: Arrival) -> int:
    return arrival.index


def _cancel_rest(draft: Draft, number: int, index: int) -> None:
    """End the other branches of a fan-out, with their waits, requests and inner fan-outs (R4.18).

    It visits all that lives in the run, since a queue cannot be searched by branch: the price of ending work that is
    spread over it.
    """
    ended = 0

    def is_cut(path: Path | None) -> bool:
        while path is not None:
            if path.join == number:
                return path.index != index
            path = path.parent
        return False

    for _, step in all_steps(draft):
        queued = [d for d in step.queue if not is_cut(d.path)]
        fresh = [d for d in step.arrivals if not is_cut(d.path)]
        for d in (*step.queue, *step.arrivals):
            ended += d.path is not None and d.path.join == number and d.path.index != index
        draft.busy -= step.queue.n - len(queued) + len(step.arrivals) - len(fresh)
        if len(queued) < step.queue.n:
            step.queue = Fifo.of(queued)
        step.arrivals = fresh
        for d in (*step.active.values(), *step.waiting.values()):
            if is_cut(d.path):
                ended += d.path is not None and d.path.join == number
                cut(draft, d)
    for request in list(draft.requests.values()):
        if not request.delivery and is_cut(request.path):
            ended += request.path is not None and request.path.join == number
            close_request(draft, request, "withdrawn")
    for inner in list(draft.joins.values()):
        if is_cut(inner.parent):
            ended += inner.parent is not None and inner.parent.join == number
            draft.joins = draft.joins.drop(inner.id)
    if ended:
        join = draft.joins[number]
        # What takes the last token away would fire it here; but the branch that goes on still holds one.
        keep(draft, join, join.pending - ended, join.targets, join.got)


def pair(draft: Draft, step: int, out: Out, path: Path | None) -> int:
    """Put an event before a step that takes several at once; how many deliveries that made (R4.77 to R4.79)."""
    spec = draft.spec.steps[step]
    name = spec.name if path is None else f"{path.index} {spec.name}"
    join = draft.joins[path.join] if path is not None else None
    held = (draft.side.sets if join is None else join.sets).get(name)
    queues = held.queues if held is not None else tuple(Fifo[Out]() for _ in spec.slots)
    keys = (out.key,) if spec.exact else (out.key, *bases_of(draft, out))
    fits = [n for n, slot in enumerate(spec.slots) if _fits(out, keys, slot)]
    place = min(fits, key=lambda n: queues[n].n)  # a type that stands twice binds by arrival
    queues = (*queues[:place], queues[place].put(out), *queues[place + 1 :])
    made = 0
    if all(queue.n for queue in queues):
        taken = [queue.get() for queue in queues]
        queues = tuple(rest for _, rest in taken)
        draft.deliver(step, tuple(first for first, _ in taken), path)
        made = 1
    is_empty = not any(queue.n for queue in queues)
    if join is None:
        sets = draft.side.sets
        draft.set_side(sets=sets.drop(name) if is_empty else sets.set(name, Sets(queues)))
    else:
        sets = join.sets.drop(name) if is_empty else join.sets.set(name, Sets(queues))
        draft.joins = draft.joins.set(join.id, replace(draft.joins[join.id], sets=sets))
    return made


def _fits(out: Out, keys: tuple[str, ...], slot: tuple[str, ...]) -> bool:
    return any(key in slot and (key != EVENT or out.role in ORDINARY) for key in keys)
