"""`ctx.collect_events`: buffers of a step that a delivery looks at, adds to and takes from.

A delivery decides on the buffer that it sees; others may have changed it when its end is reduced. So the tick says what
it was told, and the decision is made again here: if the present buffer says the same, it is carried out, else the
delivery runs once more (R4.3). A buffer is emptied only by a delivery that finished, so a retry sees the same (R4.4).
"""

from __future__ import annotations

from itertools import islice

from flownb.core.draft import Draft
from flownb.core.persist import Fifo
from flownb.core.state import Buffer, Delivery, Entry, RunState
from flownb.core.ticks import Collect


def buffer_of(state: RunState | Draft, step: str, buffer: str) -> Buffer:
    """A step's buffer of that id, as it is."""
    return state.side.buffers.get(_name(step, buffer)) or Buffer()


def is_complete(buffer: Buffer, wants: tuple[tuple[str, int], ...], slot: str) -> bool:
    """Whether all that is wanted is there, with one more event that counts as `slot` ("" for none)."""
    return all(_count(buffer, key) + (key == slot) >= n for key, n in wants)


def heads_of(buffer: Buffer, wants: tuple[tuple[str, int], ...]) -> tuple[int, ...]:
    """For each wanted type the ids of the first and of the last entry that is taken, 0 where there is none.

    A buffer is a queue, so between these two are always the same ones.
    """
    heads: list[int] = []
    for key, n in wants:
        taken = [entry.id for entry in islice(buffer.queues.get(key, ()), n)]
        heads += (taken[0], taken[-1]) if taken else (0, 0)
    return tuple(heads)


def still_holds(draft: Draft, d: Delivery, collects: tuple[Collect, ...]) -> bool:
    """Whether every buffer would answer a delivery as it did."""
    step = draft.spec.steps[d.step].name
    for collect in collects:
        buffer = buffer_of(draft, step, collect.buffer)
        if is_complete(buffer, collect.wants, collect.slot) != collect.took:
            return False
        if collect.took and heads_of(buffer, collect.wants) != collect.heads:
            return False
    return True


def collect_all(draft: Draft, d: Delivery, collects: tuple[Collect, ...]) -> None:
    """Carry out what a finished delivery was told: keep its event, or take what was complete.

    All that it asked one buffer in a start, it asked the buffer as it was: twice the same entries are taken once.
    """
    step = draft.spec.steps[d.step].name
    for name in dict.fromkeys(collect.buffer for collect in collects):
        queues = dict(buffer_of(draft, step, name).queues)
        taken: dict[str, int] = {}
        kept: list[Collect] = []
        for collect in collects:
            if collect.buffer != name:
                continue
            wants = dict(collect.wants) if collect.took else {}
            for key, n in wants.items():
                taken[key] = max(n, taken.get(key, 0))
            held = queues[collect.slot].n if collect.slot in queues else 0
            if collect.slot and held >= wants.get(collect.slot, 0):  # else it is among those that were taken
                kept.append(collect)
        for key, n in taken.items():
            queue = queues.get(key, Fifo())
            for _ in range(min(n, queue.n)):
                _, queue = queue.get()
            queues[key] = queue
        for collect in kept:
            entry = Entry(draft.number("entry"), d.rank, collect.out)
            queues[collect.slot] = queues.get(collect.slot, Fifo()).put(entry)
        _store(draft, _name(step, name), {key: queue for key, queue in queues.items() if queue.n})


def _store(draft: Draft, name: str, queues: dict[str, Fifo[Entry]]) -> None:
    buffers = draft.side.buffers
    if queues:
        draft.set_side(buffers=buffers.set(name, Buffer(queues)))
    elif name in buffers:
        draft.set_side(buffers=buffers.drop(name))


def _count(buffer: Buffer, key: str) -> int:
    queue = buffer.queues.get(key)
    return queue.n if queue is not None else 0


def _name(step: str, buffer: str) -> str:
    return f"{step} {buffer}"
