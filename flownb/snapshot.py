"""Snapshots of a run: all that is alive in it, taken between two turns, as plain JSON."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar

from msgspec.structs import replace

from flownb.core.life import lives
from flownb.core.persist import Names
from flownb.core.reduce import reduce
from flownb.core.state import RunState, is_ended
from flownb.core.ticks import AnyTick, CancelRequested, RunSuspended
from flownb.core.values import Out
from flownb.events import defined
from flownb.runtime.pending import Pending
from flownb.runtime.runner import Runner
from flownb.store.codec import Codec
from flownb.store.snapshots import Answered, SnapshotCodec, Taken

T = TypeVar("T")
_lock = threading.Lock()


class Snapshot(dict[str, Any]):
    """A run as plain JSON: `json.dumps(snapshot)` works, and `flow.resume(snapshot)` goes on from it, or from what
    `json.loads` gives of it."""

    @property
    def run_id(self) -> str:
        return str(self.get("run_id", ""))

    @property
    def seq(self) -> int:
        """The last tick that is in it."""
        return int(self.get("seq", 0))

    @property
    def status(self) -> str:
        return str(self.get("status", ""))

    @property
    def missing(self) -> list[dict[str, str]]:
        """The values that it could not hold: `[{"event": key, "field": name, "type": key, "text": preview}, ...]`.
        While they live in this process they are found again."""
        return list(self.get("missing", ()))

    def __repr__(self) -> str:
        lacks = f", without {len(self.missing)} values" if self.missing else ""
        return f"<Snapshot of {self.run_id or 'no run yet'} after tick {self.seq}: {self.status or 'new'}{lacks}>"


@cache
def codec() -> SnapshotCodec:
    """Between what is taken of runs and plain JSON."""
    return SnapshotCodec(Codec(defined, "live"))


def dump(taken: Taken) -> Snapshot:
    with _lock:
        return Snapshot(codec().dump(taken))


def load(plain: Any) -> Taken:
    """What was dumped.

    Raises:
        ContextSerdeError: It is no snapshot, or it cannot be rebuilt here; with all values that cannot.
    """
    with _lock:
        return codec().load(plain)


def outs_in(taken: Taken) -> list[Out]:
    """Every user value of it."""
    return codec().outs_in(taken)


def take(runner: Runner) -> Taken:
    """What a run is now; of a cancelled one, what it was before that (R6.45). It goes on as if nobody had looked."""
    return between_turns(runner, lambda: _take(runner))


def between_turns(runner: Runner, look: Callable[[], T]) -> T:
    """Look at a run while no turn of it is under way; on whatever thread."""
    host = runner.host
    if runner.end.done() or runner.suspended or host.is_here() or host.is_lost():
        return look()
    handle: Pending[T] = Pending("a look at the run", host.loop)

    def now() -> None:
        try:
            handle.resolve(look())
        except BaseException as error:
            handle.reject(error)

    host.call(now)
    return handle.result()


def _take(runner: Runner) -> Taken:
    state, inbox, now = runner.state, tuple(runner.inbox), runner.clock.now()
    if state.status in ("cancelled", "cancelling"):
        seq = before_cancel(runner)
        state, inbox, now = runner.history.at(seq), (), runner.ticks[seq].at
    elif not is_ended(state):
        state = _with_control(state, runner.control)
    if not is_ended(state):  # what was to happen has come nearer since the last tick
        state = replace(state, at=max(state.at, now))
    answered: tuple[Answered, ...] = ()
    if runner._questions is not None:
        answered = tuple(_answered(runner, state))
    return Taken(state, inbox, answered)


def _with_control(state: RunState, control: list[AnyTick]) -> RunState:
    """The state with what is certain to come first: a run that was started just now has its input there."""
    for tick in control:
        if not isinstance(tick, (CancelRequested, RunSuspended)) and not is_ended(state):
            state, _ = reduce(state, tick)
    return state


def _answered(runner: Runner, state: RunState) -> list[Answered]:
    questions, found = runner.questions, {}
    for d in lives(state):
        request = questions.answered_by.get(d.cause)
        if request is not None and d.cause not in found:
            known = questions.accepted.get(request.id)
            found[d.cause] = (
                Answered(d.cause, request)
                if known is None
                else Answered(d.cause, request, known.answer, known.by, known.at, known.how)
            )
    return list(found.values())


def before_cancel(runner: Runner) -> int:
    """seq of the last tick before a run's cancel, 0 for a run that was not cancelled."""
    for seq in range(len(runner.ticks), 0, -1):
        if isinstance(runner.ticks[seq - 1], CancelRequested):
            return seq - 1
    return 0


def with_values(taken: Taken, values: Mapping[str, Out | None]) -> Taken:
    """The same with other values of the user's state; None drops one."""
    if taken.state is None:
        held = dict(taken.values)
        for name, out in values.items():
            if out is None:
                held.pop(name, None)
            else:
                held[name] = out
        return replace(taken, values=held)
    user: Names[Out] = taken.state.user
    for name, out in values.items():
        if out is not None:
            user = user.set(name, out)
        elif name in user:
            user = user.drop(name)
    return replace(taken, state=replace(taken.state, user=user))


def user_of(taken: Taken) -> Names[Out]:
    """The user's state in it."""
    return taken.state.user if taken.state is not None else Names.of(taken.values.items())
