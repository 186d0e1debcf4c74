"""`run.debug.tree`: the runs that come from one another, by fork or by replay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from flownb.core.ticks import AnyTick, RunForked, RunStarted
from flownb.debug.compare import is_near, store_near
from flownb.errors import WorkflowError
from flownb.run import Run
from flownb.runs import Store
from flownb.starting import known
from flownb.store import escapes
from flownb.store.journal import Raw


class Link(Struct, frozen=True):
    """Where a run comes from."""

    #: The other run; "" for one that began with its input.
    base: str = ""
    #: fork: it shares ticks 1 to `seq` of that one. snapshot: it goes on from its state after that tick. replay: it
    #: plays back its recording.
    how: str = ""
    seq: int = 0

    def __str__(self) -> str:
        if not self.base:
            return ""
        if self.how == "replay":
            return "replay"
        return f"{self.how} after tick {self.seq}" if self.seq else "fork with another input"


class Branch(Struct):
    """One run of a tree, with those that come from it, the oldest first."""

    run_id: str
    link: Link = Link()
    #: As people read it; "" for a run that is not here any more, of which only others tell.
    status: str = ""
    #: How many ticks it has.
    ticks: int = 0
    started_at: float = 0.0
    #: The tree was asked for from this run.
    is_this: bool = False
    children: list[Branch] = []

    def walk(self) -> Iterator[Branch]:
        """This one and all that come from it, each before its own."""
        yield self
        for child in self.children:
            yield from child.walk()

    def __getitem__(self, run_id: str) -> Branch:
        found = next((branch for branch in self.walk() if branch.run_id == run_id), None)
        if found is None:
            raise KeyError(run_id)
        return found

    def __len__(self) -> int:
        return sum(1 for _ in self.walk())

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return "\n".join(self._lines("", ""))

    __str__ = __repr__

    def _lines(self, first: str, rest: str) -> Iterator[str]:
        said = [str(self.link)] if self.link.base else []
        said.append(f"{self.status}, {self.ticks} ticks" if self.status else "not here any more")
        yield f"{first}{self.run_id}  {': '.join(said)}{'  <- this run' if self.is_this else ''}"
        for n, child in enumerate(self.children, 1):
            is_last = n == len(self.children)
            yield from child._lines(f"{rest}{'└─ ' if is_last else '├─ '}", f"{rest}{'   ' if is_last else '│  '}")


def tree(run: Run[Any]) -> Branch:
    """The tree that a run is in, from its root: the runs of this process and of its store."""
    store = store_near(run)
    branches: dict[str, Branch] = {}
    for (place, run_id), runner in list(known.items()):
        if is_near(place, store) and runner.state.head.parent is None:
            link, state = link_of(run_id, runner.ticks or [runner.first]), runner.state
            branches[run_id] = Branch(
                run_id, link, Run(runner, runner.owner, run._settings).status, len(runner.ticks), state.started_at
            )
    own = run._runner
    branches[run.run_id] = Branch(
        run.run_id, link_of(run.run_id, own.ticks or [own.first]), run.status, len(own.ticks), own.state.started_at
    )
    if store is not None:
        for row in store.journal.runs(workflow=own.state.spec.key):
            if row.run_id not in branches and not row.parent:
                branches[row.run_id] = Branch(
                    row.run_id, _stored_link(store, row.run_id), row.status, row.seq, row.started_at
                )
    branches[run.run_id].is_this = True
    return _grown(branches, run.run_id)


def _grown(branches: dict[str, Branch], run_id: str) -> Branch:
    """The tree of one of some runs."""
    for branch in list(branches.values()):
        base = branch.link.base
        if base and base != branch.run_id:
            parent = branches.setdefault(base, Branch(base))
            parent.children = [*parent.children, branch]
    for branch in branches.values():
        branch.children = sorted(branch.children, key=lambda child: (child.started_at, child.run_id))
    root, seen = branches[run_id], {run_id}
    while root.link.base in branches and root.link.base not in seen:
        root = branches[root.link.base]
        seen.add(root.run_id)
    return root


def link_of(run_id: str, ticks: Any) -> Link:
    """Where a run comes from, as its ticks tell."""
    first: AnyTick = ticks[0]
    if isinstance(first, (RunStarted, RunForked)) and first.run_id == run_id and first.replays:
        return Link(first.replays, "replay")
    if isinstance(first, RunStarted) and first.run_id == run_id:
        return Link()
    forked = next((tick for tick in ticks if isinstance(tick, RunForked) and tick.run_id == run_id), None)
    if forked is None:
        return Link()
    return Link(forked.base, "snapshot" if forked.snapshot is not None else "fork", forked.base_seq)


class _Said(Struct):
    """What matters of the body of a first tick, or of a fork's."""

    run_id: str = ""
    base: str = ""
    base_seq: int = 0
    replays: str = ""
    snapshot: Any = None


def _stored_link(store: Store, run_id: str) -> Link:
    """The same of a run that is not read otherwise: nothing of its values is."""
    try:
        rows = store.journal.raw(run_id, 1)
        first = _said(rows[0]) if rows else _Said()
        if first.run_id == run_id and first.replays:
            return Link(first.replays, "replay")
        if first.run_id != run_id:  # a fork begins with what it shares
            rows = store.journal.raw(run_id)
    except WorkflowError:  # deleted meanwhile
        return Link()
    for row in rows:
        said = _said(row) if row[2] == "RunForked" else _Said()
        if said.run_id == run_id:
            return Link(said.base, "snapshot" if said.snapshot is not None else "fork", said.base_seq)
    return Link()


def _said(row: Raw) -> _Said:
    try:
        body = row[3]
        if body.startswith(escapes.ESCAPED):
            return msgspec.convert(escapes.load(body), _Said)
        return msgspec.json.decode(body, type=_Said)
    except (ValueError, RecursionError):  # damaged: it tells nothing
        return _Said()
