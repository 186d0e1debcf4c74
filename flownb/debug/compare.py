"""`run.debug.compare`: two runs side by side, up to the first difference and from there on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from flownb.core.graph import short
from flownb.core.state import RunState, shown_status
from flownb.core.ticks import AnyTick, QuietNoticed, Tick
from flownb.debug.sameness import DRIVING, content, differences, essence, is_alike, line_of, words_of
from flownb.errors import RunNotFound, WorkflowConfigurationError
from flownb.launch import store_of
from flownb.restoring import look_at
from flownb.run import Run
from flownb.runs import Store
from flownb.starting import known

#: So many ticks of each side are shown after the first difference.
SHOWN = 8
#: A tick of this one that comes later in the other is looked for among so many.
_AHEAD = 200
_LEFT_OUT: tuple[type[Tick], ...] = (*DRIVING, QuietNoticed)

Numbered = tuple[int, AnyTick]


class Side(Struct, frozen=True):
    """One of the two runs."""

    run_id: str
    #: Number and tick of the first difference; 0 and None: this run has nothing more to compare.
    seq: int
    tick: AnyTick | None
    #: What follows from there on, the first difference too: `((seq, tick), ...)`.
    followed: tuple[Numbered, ...]
    status: str
    #: The result of a completed run, the failure of a failed one, in words; "" for neither.
    outcome: str


class Comparison(Struct, frozen=True):
    """Two runs side by side. Times, ids, and how the runs were driven are left out."""

    mine: Side
    theirs: Side
    #: So many ticks of this run come before the first difference; all, if there is none.
    shared: int
    #: What differs first, in words; "" if nothing does.
    what: str
    #: `{name: (here, there)}` of the user's states at the end, where they differ; None is "not there".
    state: dict[str, tuple[Any, Any]]

    @property
    def is_same(self) -> bool:
        """Nothing differs."""
        return not self.what and not self.state and self.mine.status == self.theirs.status

    def __repr__(self) -> str:
        mine, theirs = self.mine, self.theirs
        lines = [f"Run {mine.run_id} and run {theirs.run_id}: the same for {_ticks(self.shared)}."]
        if self.what:
            lines.append(f"First difference: {self.what}.")
            for side in (mine, theirs):
                lines += _lines(side)
        lines.append(f"At the end: {_end(mine)}; {_end(theirs)}.")
        for name, (here, there) in self.state.items():
            lines.append(f"  state {name}: {words_of(here)} here, {words_of(there)} there")
        return "\n".join(lines)

    __str__ = __repr__


def compare(run: Run[Any], other: Run[Any] | str) -> Comparison:
    """Two runs side by side.

    Args:
        run: This one.
        other: The other one, or its id: one of this process, or of this one's store.

    Raises:
        RunNotFound: There is no run of that id.
        WorkflowConfigurationError: `other` is neither.
    """
    another = found(run, other)
    mine, theirs = (_told(tuple(each._runner.ticks)) for each in (run, another))
    at = 0
    while at < min(len(mine), len(theirs)) and _same(mine[at][1], theirs[at][1]):
        at += 1
    here, there = mine[at:], theirs[at:]
    what = _what(run, another, here, there)
    state, others = run._runner.state, another._runner.state
    return Comparison(
        _side(run, here if what else ()),
        _side(another, there if what else ()),
        here[0][0] - 1 if here and what else len(run._runner.ticks),
        what,
        _differing(state, others),
    )


def found(run: Run[Any], other: Run[Any] | str) -> Run[Any]:
    """Another run, by itself or by its id: one of the same store before one of another, where ids may come again.

    Raises:
        RunNotFound: There is no run of that id.
        WorkflowConfigurationError: It is neither.
    """
    if isinstance(other, Run):
        return other
    if not isinstance(other, str):
        raise WorkflowConfigurationError(f"compare takes a run or the id of one, not {other!r}.")
    store = store_near(run)
    here = {place: runner for (place, run_id), runner in list(known.items()) if run_id == other}
    near = next((runner for place, runner in here.items() if is_near(place, store)), None)
    if near is None and store is not None and (not here or store.journal.row(other) is not None):
        return look_at(store, other)
    runner = near if near is not None else next(iter(here.values()), None)
    if runner is None:
        raise RunNotFound(f"This process has no run {other!r}, and run {run.run_id!r} is in no store.", run_id=other)
    return Run(runner, runner.owner, run._settings)


def is_near(place: Store | None, store: Store | None) -> bool:
    """Whether two stores are one: objects of their own for one file are."""
    return place is store or (place is not None and store is not None and place._committer is store._committer)


def store_near(run: Run[Any]) -> Store | None:
    """The store that a run is kept in, None for one in memory."""
    stored = run._runner.stored
    if stored is None:
        return None
    for store, _ in list(known):
        if store is not None and store._committer is stored.committer:
            return store
    return store_of(run._workflow, run._settings) if run._workflow is not None else None


def _told(ticks: Sequence[AnyTick]) -> list[Numbered]:
    return [(seq, tick) for seq, tick in enumerate(ticks, 1) if not isinstance(tick, _LEFT_OUT)]


def _same(one: AnyTick, other: AnyTick) -> bool:
    return one is other or is_alike(one, other)


def _what(run: Run[Any], other: Run[Any], here: Sequence[Numbered], there: Sequence[Numbered]) -> str:
    """What differs first, in words."""
    if not here and not there:
        return ""
    if not here or not there:
        left, more = (other, there) if not here else (run, here)
        ended = run if not here else other
        return (
            f"run {ended.run_id} has nothing more ({shown_status(ended._runner.state)}), and run {left.run_id} goes on "
            f"with tick {more[0][0]}, {line_of(more[0][1])}"
        )
    (seq, tick), (other_seq, another) = here[0], there[0]
    later, earlier = _place(tick, there), _place(another, here)
    if later and earlier:
        return f"another order: {line_of(tick)} is tick {seq} here and tick {later} there"
    where = f"tick {seq} here, tick {other_seq} there" if seq != other_seq else f"tick {seq}"
    step = getattr(tick, "step", None)
    same_place = type(tick) is type(another) and step == getattr(another, "step", None)
    of = f" ({type(tick).__name__}{f' of {step}' if step else ''})" if same_place else ""
    return f"{where}{of}: {differences(tick, another)}"


def _place(tick: AnyTick, among: Sequence[Numbered]) -> int:
    """Where a tick comes among others; 0 for nowhere near."""
    wanted = essence(tick)
    return next((seq for seq, other in among[:_AHEAD] if essence(other) == wanted), 0)


def _side(run: Run[Any], followed: Sequence[Numbered]) -> Side:
    state = run._runner.state
    seq, tick = followed[0] if followed else (0, None)
    outcome = ""
    if state.result is not None:
        outcome = words_of(state.result)
    elif state.failure is not None:
        outcome = f"{short(state.failure.type)}: {state.failure.message}"
    return Side(run.run_id, seq, tick, tuple(followed), run.status, outcome)


def _differing(mine: RunState, theirs: RunState) -> dict[str, tuple[Any, Any]]:
    differing = {}
    for name in dict.fromkeys((*mine.user, *theirs.user)):
        here, there = mine.user.get(name), theirs.user.get(name)
        if content(here) != content(there):
            differing[name] = (here.value if here is not None else None, there.value if there is not None else None)
    return differing


def _end(side: Side) -> str:
    return f"{side.run_id} is {side.status}{f' with {side.outcome}' if side.outcome else ''}"


def _ticks(n: int) -> str:
    return f"{n} tick" if n == 1 else f"{n} ticks"


def _lines(side: Side) -> list[str]:
    lines = [f"  {side.run_id}:"]
    lines += [f"  {seq:>5}  {line_of(tick)}" for seq, tick in side.followed[:SHOWN]]
    if len(side.followed) > SHOWN:
        lines.append(f"         and {len(side.followed) - SHOWN} more")
    return lines if side.followed else [f"  {side.run_id}: nothing more"]
