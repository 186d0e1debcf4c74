"""Fan-out and fan-in by counting.

A step that returned a list opens a `Join`. Its `pending` counts what lives in the branches: deliveries, open
requests, inner fan-outs. Whatever ends pays: one out, so many in that it made in the same branch. At zero nobody in
any branch can send any more, and the gathering steps fire once, with what came for them, in the order of branches.

Every way in which a delivery can end pays here, failures too: a join that is never paid hangs.
"""

from __future__ import annotations

from flownb.core.draft import Draft
from flownb.core.persist import Chain
from flownb.core.state import Arrival, Join, Path
from flownb.core.values import Out


def open_join(draft: Draft, source: int, size: int, parent: Path | None) -> Join:
    """A new fan-out of `size` elements; it holds one token of its own until its elements are routed."""
    join = Join(draft.next_join, source, size, 1, draft.spec.joins[source], Chain(), parent)
    draft.next_join += 1
    draft.joins = draft.joins.set(join.id, join)
    return join


def collect(draft: Draft, path: Path, targets: tuple[int, ...], out: Out) -> bool:
    """Keep an event for the gathering steps that its innermost fan-out owns; whether one of them takes it."""
    join = draft.joins[path.join]
    taken = [i for i in targets if i in join.targets]
    if not taken:
        return False
    got = join.got
    for i in taken:
        got = got.add(Arrival(i, path.index, out))
    draft.joins = draft.joins.set(
        join.id, Join(join.id, join.source, join.size, join.pending, join.targets, got, join.parent)
    )
    return True


def pay(draft: Draft, path: Path | None, made: int) -> None:
    """One thing in a branch ended and made so many new ones in it."""
    while path is not None:
        join = draft.joins[path.join]
        pending = join.pending + made - 1
        if pending:
            draft.joins = draft.joins.set(
                join.id, Join(join.id, join.source, join.size, pending, join.targets, join.got, join.parent)
            )
            return
        # The last token: fire, in the branch of the fan-out itself, and pay there in turn.
        made, path = _fire(draft, join), join.parent


def _fire(draft: Draft, join: Join) -> int:
    draft.joins = draft.joins.drop(join.id)
    got = join.got.oldest_first()
    got.sort(key=lambda arrival: arrival.index)  # stable: inside a branch in the order of sending
    for target in join.targets:
        draft.deliver(target, tuple([arrival.out for arrival in got if arrival.target == target]), join.parent)
    return len(join.targets)
