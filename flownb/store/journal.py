"""The journal: an append-only list of ticks per run, and the contract that every store of them keeps.

Rows are `(run_id, seq)` with `seq` dense from 1. An append names the seq that it expects to follow; a store that is
further than that refuses, and nothing of that entry is written.

Beside the ticks a store has what several processes need in order to share a run, and what can be asked without reading
a journal:

    runs      one row each: status, definition, and who drives it (driver, epoch)
    drivers   one row a process: until when its lease lasts
    inbox     what came for a run and is in no journal yet
    waiting   what a run waits for: questions, timers, retries
    tokens    which question a token answers

A driver claims a run; each change of holder raises its epoch, and an append that names an older one writes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, Protocol

from msgspec import Struct

from flownb.core.reduce import fold
from flownb.core.spec import Spec
from flownb.core.state import ENDED, shown_status
from flownb.core.ticks import AnyTick, DefinitionAdopted, RunForked, RunStarted
from flownb.errors import (
    InboxNotEmpty,
    JournalConflict,
    LeaseLost,
    RequestClosed,
    RunConflict,
    RunNotFound,
    RunReadOnly,
    TokenTaken,
)
from flownb.store.drivers import is_gone, is_imported

Kind = Literal["timer", "request", "retry"]
#: The order in which they are listed (R7.6).
KINDS: tuple[Kind, ...] = ("timer", "request", "retry")
#: A tick as it is stored: seq, at, kind, body.
Raw = tuple[int, float, str, bytes]
#: A seq behind all others.
ENDLESS = 2**62


class Waits(Struct, frozen=True):
    """One thing that a run waits for."""

    kind: Kind
    #: The number of its request or timer.
    id: int
    #: When it happens by itself (Unix seconds), of a question its deadline; None if nothing happens by itself.
    due: float | None = None
    step: str = ""
    #: The question, as a codec writes a value.
    body: bytes = b""
    #: Hash of the token that answers the question.
    token: str = ""


class Append(Struct, frozen=True):
    """Ticks to add to one run, after its tick `after`, and what else changes with them."""

    run_id: str
    after: int
    ticks: Sequence[AnyTick]
    #: The run's status after these ticks, as people read it (`shown_status`); without ticks, what it is from now on.
    #: A store that is not told folds the journal whenever it lists the run.
    status: str = ""
    #: The one that the driver's claim gave; 0 is not checked. A new run begins with it.
    epoch: int = 0
    #: Who drives a new run; "" is nobody.
    driver: str = ""
    #: Entries of the inbox that the ticks were made of; they leave it in the same transaction (R1.28).
    taken: Sequence[int] = ()
    #: Rows of `waiting` to put, after those to delete. The end of a run deletes all of its rows, and puts none.
    opened: Sequence[Waits] = ()
    closed: Sequence[tuple[Kind, int]] = ()
    #: Write nothing if anything but `taken` and `known` is in the run's inbox (R1.27).
    alone: bool = False
    #: Entries that the driver has seen, and that wait behind these ticks.
    known: Collection[int] = ()
    #: Of a new run: the run that it is a child of, and the path of its notebook.
    parent: str = ""
    notebook: str = ""


class RunRow(Struct, frozen=True):
    """What a store lists of a run without reading its journal."""

    run_id: str
    #: Its name.
    workflow: str
    status: str
    seq: int
    started_at: float
    updated_at: float
    #: Key of the workflow and hash of its definition.
    key: str = ""
    hash: str = ""
    parent: str = ""
    notebook: str = ""
    #: Who drives it, or did when it ended; "" is nobody, and nobody drives an imported one (`drivers.is_imported`).
    driver: str = ""


class Claim(Struct, frozen=True):
    """What came of a claim."""

    #: To be named by each append; 0 if the run is held by somebody else.
    epoch: int
    #: The run's last tick at that moment.
    seq: int
    is_mine: bool
    holder: str


class Holder(NamedTuple):
    """Who drives a run."""

    driver: str
    epoch: int
    #: Unix seconds by the store's clock; 0.0 if the driver has no lease.
    lease_until: float

    def is_live(self) -> bool:
        """Whether a living process holds the lease."""
        return bool(self.driver) and self.lease_until > time.time() and not is_gone(self.driver)


class Entry(NamedTuple):
    """One thing in a run's inbox."""

    n: int
    run_id: str
    tick: AnyTick


class Wakeup(NamedTuple):
    """What happens next by itself."""

    due: float
    run_id: str
    kind: Kind
    id: int


class Journal(Protocol):
    """A store of journals. Any thread may call it; every method is synchronous.

    All raise WorkflowRuntimeError where the store cannot be used just now: nothing was written then.
    """

    #: `version` moves with every tick that another process appends, not only with what it lays into inboxes.
    hears_ticks: bool

    @property
    def place(self) -> str:
        """Where it is, in words, for people; never with a password."""
        ...

    def append(self, entries: Sequence[Append], *, durable: bool = False) -> None:
        """Write all entries in one transaction, or none.

        An entry whose very rows are there already, since an earlier call wrote them and could not say so, is written.

        Args:
            entries: At most one a run.
            durable: Flushed to the disk when it returns: a power cut loses nothing of it.

        Raises:
            JournalConflict: A run is at another seq than its entry expects, or something in `taken` was taken before.
            LeaseLost: A run has another epoch: somebody else drives it.
            InboxNotEmpty: An entry wants to be alone and is not.
            TokenTaken: A token that is put answers another open question.
            NotStorable: A value has no codec; names tick kind, event and field.
        """
        ...

    def read(self, run_id: str, start: int = 1, stop: int | None = None) -> list[AnyTick]:
        """Ticks `start` to `stop` (included; None: the last one).

        Raises:
            RunNotFound: No such run.
            JournalDamaged: A row cannot be read; names run, seq and reason.
        """
        ...

    def last_seq(self, run_id: str) -> int:
        """seq of a run's last tick, 0 if there is no such run."""
        ...

    def last_seqs(self, run_ids: Sequence[str]) -> dict[str, int]:
        """The same of many runs, of those that there are."""
        ...

    # Who drives.

    def claim(self, run_id: str, driver: str, ttl: float, *, was_lost: Callable[[str], bool] | None = None) -> Claim:
        """Drive a run that nobody holds, that `driver` holds already, or whose holder is gone: its lease is over by the
        store's clock, or `was_lost` says so. The driver's lease is renewed in either case.

        Args:
            run_id: The run.
            driver: Who wants it.
            ttl: How long the lease lasts from now on, in seconds.
            was_lost: Whether a holder is known to be dead, whatever its lease says.

        Returns:
            An imported run is held by nobody, for ever.

        Raises:
            RunNotFound: No such run.
        """
        ...

    def renew(self, driver: str, ttl: float) -> bool:
        """Make a driver's lease last `ttl` seconds from now on.

        Returns:
            False: it had none. It is new, or its lease was over and somebody claimed a run of it: the runs whose epoch
            is unchanged (`holder`) are still its own, the others are not. A lease that was over while nobody wanted
            its runs is renewed like any other (R5.10).
        """
        ...

    def release(self, driver: str, run_ids: Sequence[str] | None = None) -> None:
        """Give runs back that a driver holds, others are left alone. None: all of them, and its lease."""
        ...

    def holder(self, run_id: str) -> Holder:
        """Who drives a run.

        Raises:
            RunNotFound: No such run.
        """
        ...

    # What came.

    def put(self, run_id: str, tick: AnyTick, *, key: str = "", request: int = 0) -> int:
        """Lay a tick into a run's inbox, on the disk when this returns; its driver is told (`version`).

        A call that could not say whether it had written, since the connection broke, is tried again: an entry without
        a key may then come twice, if it was taken in between.

        Args:
            run_id: The run.
            tick: It.
            key: At most one entry of a key lies in a run's inbox; "" is no key.
            request: The question that it answers, which must be open.

        Returns:
            Its number, larger than those of all before; 0 if an entry of that key is there.

        Raises:
            RunNotFound: No such run.
            RunReadOnly: It was imported.
            RequestClosed: That question is not open.
            NotStorable: A value has no codec.
        """
        ...

    def edit(self, run_id: str, n: int, tick: AnyTick) -> bool:
        """Let an entry of a run's inbox be another tick; on the disk when this returns.

        Args:
            run_id: The run.
            n: Its number.
            tick: What it is from now on.

        Returns:
            False if it is not in the inbox any more.

        Raises:
            NotStorable: A value has no codec.
        """
        ...

    def inbox(self, run_ids: Iterable[str] | None) -> list[Entry]:
        """What lies in the inboxes of runs (None: of all), in order.

        Raises:
            JournalDamaged: An entry cannot be read; names the run.
        """
        ...

    def came(self) -> list[str]:
        """Ids of the runs that have something in their inbox, whether it can be read or not; each once, in order."""
        ...

    def version(self) -> int:
        """A number that is another one if another connection laid something into an inbox, or may have."""
        ...

    def wait(self, seconds: float) -> None:
        """Wait so long, or until `version` may have moved, where a store is told of it."""
        ...

    # What can be asked.

    def row(self, run_id: str) -> RunRow | None:
        """One run."""
        ...

    def runs(
        self,
        *,
        status: str | None = None,
        workflow: str | None = None,
        notebook: str | None = None,
        parent: str | None = None,
        limit: int | None = None,
    ) -> list[RunRow]:
        """Runs of that status, workflow (name or key), notebook and parent, the newest first; None is any."""
        ...

    def counts(self) -> dict[str, int]:
        """How many runs there are of each status."""
        ...

    def waiting(
        self, *, run_id: str | None = None, kind: Kind | None = None, due: float | None = None
    ) -> list[tuple[str, Waits]]:
        """What runs wait for, by run, kind and id; without tokens.

        Args:
            run_id: Of that run.
            kind: Of that kind.
            due: That is due at that moment or earlier.
        """
        ...

    def having(self, kinds: Collection[str], run_ids: Sequence[str]) -> list[str]:
        """Those of some runs that have a tick of one of these kinds (names of classes), in the order that was given. No
        tick is read: the store looks at the kinds of all ticks of those runs."""
        ...

    def next_wakeup(self) -> Wakeup | None:
        """What is due first; of several the first by run, kind and id."""
        ...

    def token(self, hash: str) -> tuple[str, int] | None:
        """Run and request that the token of a hash answers, open or not."""
        ...

    # What may be thrown away.

    def checkpoint(self, run_id: str, seq: int) -> tuple[int, bytes] | None:
        """The last saved state at or before a tick, and the tick that it is of. One that is not as it was written is
        passed over."""
        ...

    def put_checkpoint(self, run_id: str, seq: int, body: bytes) -> None: ...

    def drop_checkpoints(self) -> None: ...

    # As it is stored.

    def raw(self, run_id: str, to: int = ENDLESS) -> list[Raw]:
        """The ticks of a run up to one, as they are stored: damaged ones too, of which nothing is read.

        Raises:
            RunNotFound: No such run.
        """
        ...

    def sound(self, run_id: str) -> int:
        """How many of the ticks of a run, from the first, are as they were written; whether they can be read or not."""
        ...

    def restore(self, runs: Sequence[tuple[RunRow, Sequence[Raw]]]) -> None:
        """Write runs that were exported, all in one transaction; their `driver` says that they are imported. An
        imported run of the same id is replaced.

        Raises:
            RunConflict: There is a run of such an id that was not imported; nothing was written.
        """
        ...

    def bodies(self) -> Iterator[bytes]:
        """All that may name a file: the bodies of ticks, of inboxes, of questions and of saved states, in no order."""
        ...

    # The rest.

    def secret(self) -> bytes:
        """32 random bytes, the same for as long as the store is."""
        ...

    def delete(self, run_ids: Sequence[str]) -> None:
        """All that there is of runs, also while somebody drives them: its next append fails."""
        ...

    def shrink(self) -> None:
        """Give the space of deleted runs back, where that is worth it and nobody writes just now."""
        ...

    def close(self) -> None: ...

    def is_closed(self) -> bool:
        """Whether nothing can be written or read any more."""
        ...


# What all stores say and do alike.


def refuse_imported(run_id: str, driver: str) -> None:
    """Raises RunReadOnly if a run was imported."""
    if is_imported(driver):
        raise RunReadOnly(
            f"Run {run_id!r} was imported: it can be looked at, and nothing of it can be changed. To go on from it, "
            "fork it: run.debug.fork(seq).",
            run_id=run_id,
        )


def refuse_there(run_id: str, driver: str, place: str) -> None:
    """Raises RunConflict unless the run that is there was imported."""
    if not is_imported(driver):
        raise RunConflict(
            f"There is another run {run_id!r} in {place}. Import it into another store: Store('other.db').",
            run_id=run_id,
            differs=("ticks",),
        )


def refuse_conflict(entry: Append, last: int) -> None:
    """Raises JournalConflict unless the run's last tick is the one that an entry expects to follow."""
    if last != entry.after:
        raise JournalConflict(
            f"Run {entry.run_id!r} is at tick {last}, not at {entry.after}: somebody else drives it.",
            run_id=entry.run_id,
            expected=entry.after,
            found=last,
        )


def refuse_lost(entry: Append, driver: str, epoch: int) -> None:
    """Raises LeaseLost if an entry names another epoch than the run's."""
    if entry.epoch and entry.after and entry.epoch != epoch:
        raise LeaseLost(
            f"Run {entry.run_id!r} was taken over (epoch {epoch}; this driver has {entry.epoch}).",
            run_id=entry.run_id,
            epoch=entry.epoch,
            found=epoch,
            holder=driver,
        )


def refuse_taken(entry: Append, left: int) -> None:
    """Raises JournalConflict if some of an entry's `taken` were not in the inbox any more."""
    if left:
        raise JournalConflict(
            f"What came for run {entry.run_id!r} was admitted before: somebody else drives it.",
            run_id=entry.run_id,
            expected=entry.after,
            found=entry.after,
        )


def refuse_company(entry: Append, count: int) -> None:
    """Raises InboxNotEmpty if an entry wants to be alone and something else is in the inbox."""
    if entry.alone and count:
        raise InboxNotEmpty(f"Something came for run {entry.run_id!r} meanwhile.", run_id=entry.run_id)


def token_taken(run_id: str, request: int) -> TokenTaken:
    # Never the token, nor its hash.
    return TokenTaken(
        f"The token of request {request} of run {run_id!r} is that of another open request. Give each its own.",
        run_id=run_id,
        request=request,
    )


def request_closed(run_id: str, request: int) -> RequestClosed:
    return RequestClosed(
        f"Request {f'{run_id}:{request}'!r} is not open: it was answered or closed before.",
        run_id=run_id,
        request=request,
    )


def not_found(run_id: str, place: str) -> RunNotFound:
    return RunNotFound(f"There is no run {run_id!r} in {place}.", run_id=run_id)


def tells_status(entry: Append) -> bool:
    """Whether an entry without ticks says what the status of a run is that is not over."""
    return not entry.ticks and entry.after > 0 and bool(entry.status) and entry.status not in ENDED


def definition_of(ticks: Iterable[AnyTick]) -> Spec | None:
    """The newest definition that some ticks of a run tell, None if they tell none."""
    found = None
    for tick in ticks:
        if isinstance(tick, (RunStarted, DefinitionAdopted)):
            found = tick.spec
        elif isinstance(tick, RunForked) and tick.snapshot is not None:
            found = tick.snapshot.spec
    return found


def status_of(ticks: Sequence[AnyTick]) -> str:
    """A run's status, folded from its journal."""
    return shown_status(fold(ticks))
