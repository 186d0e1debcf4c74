"""Group commit: the ticks of all runs of one turn, in one transaction of their store."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from flownb.core.commands import StartStep
from flownb.core.state import ENDED, Request, RunState, shown_status
from flownb.core.ticks import AnyTick, EventArrived, QuietNoticed, RequestAnswered, RunForked, RunStarted, TimerFired
from flownb.core.values import Out
from flownb.errors import JournalConflict, JournalDamaged, NotStorable, RunOwnedElsewhere, WorkflowRuntimeError
from flownb.runtime.indexing import has_more, question_row, waits_after
from flownb.runtime.questions import secret_of
from flownb.runtime.stored import claim_again
from flownb.store.drivers import driver_id
from flownb.store.journal import Append, Journal, Waits

if TYPE_CHECKING:
    from flownb.runtime.gatekeeper import Seen
    from flownb.runtime.runner import Runner
    from flownb.runtime.watching import Watch
    from flownb.store.artifacts import Artifacts
    from flownb.store.codec import Codec
    from flownb.store.snapshots import SnapshotCodec

#: What is acknowledged to the outside is flushed first (R1.12).
_ACKNOWLEDGED = frozenset({RunStarted, RunForked, EventArrived, RequestAnswered})

#: The fault of one run, which stays: that run is suspended with the reason.
_LASTING = (NotStorable, JournalConflict, RunOwnedElsewhere)

#: The store cannot be used just now (locked, full, closed): the fault of no run.
_UNUSABLE = WorkflowRuntimeError


class Asked(Struct, frozen=True, omit_defaults=True):
    """What stands in the row of an open question."""

    question: msgspec.Raw
    #: JSON Schema of what answers it.
    schema: dict[str, Any] | None = None
    #: Why its driver refused an answer that another process took.
    refused: str = ""
    #: When it was opened, in Unix seconds; None in rows of before.
    at: float | None = None
    #: The answer that is taken at its deadline, in short; "" for none.
    default: str = ""


class Committer:
    """Writes turns into one journal.

    Args:
        journal: It.
        codec: How questions are written beside the journal.
        check: Raises NotStorable for a value that can be kept in memory only: asked before a tick is made of it
            (R6.12). None: the journal is in memory itself.
        unserializable: Whether it is asked where the workflow does not say (R6.10, R6.11).
        artifacts: Where the files of large values lie.
        seals: Whether secrets are written, sealed with a key.
    """

    def __init__(
        self,
        journal: Journal,
        codec: Codec,
        check: Callable[[Out], None] | None = None,
        unserializable: Literal["error", "live"] = "error",
        artifacts: Artifacts | None = None,
        *,
        seals: bool = False,
    ) -> None:
        self.artifacts = artifacts
        self.seals = seals
        self.journal = journal
        self.codec = codec
        self.check = check
        self.unserializable: Literal["error", "live"] = unserializable
        #: This process, as others know who drives a run.
        self.driver = driver_id()
        #: What keeps its leases and hears of other processes; made with the first run that needs it.
        self.watch: Watch | None = None
        self._secret: bytes | None = None
        #: How states are written; made on first need.
        self.snapshots: SnapshotCodec | None = None

    def commit(self, runners: list[Runner]) -> None:
        """Append what each runner admitted, something of each; a run whose append fails is put back as it was (R1.16).

        If the store itself cannot be used, that goes for the whole group at once: each try of a locked file blocks
        the thread that drives all runs. Else the group is tried again run by run, so that one bad run does not hold
        the others.
        """
        try:
            self._write(runners)
        except _UNUSABLE as error:
            self._take_back(runners, error)
        except Exception as error:  # whatever the store raises: the turn did not happen
            if len(runners) == 1:
                self._take_back(runners, error)
                return
            for i, runner in enumerate(runners):
                try:
                    self._write([runner])
                except _UNUSABLE as error:
                    self._take_back(runners[i:], error)
                    return
                except Exception as error:  # as above
                    self._take_back([runner], error)

    def _take_back(self, runners: list[Runner], error: Exception) -> None:
        lasting = isinstance(error, _LASTING) or self.is_closed()
        for runner in runners:
            runner.take_back(error, lasting=lasting)

    def is_closed(self) -> bool:
        """Whether trying again cannot help, since nobody opens a closed store again."""
        return self.journal.is_closed()

    def _write(self, runners: list[Runner]) -> None:
        durable = False
        for runner in runners:
            if _must_last(runner):
                durable = True
                break
        self.journal.append([self._entry(runner) for runner in runners], durable=durable)

    def _entry(self, runner: Runner) -> Append:
        if runner.stored is not None and runner.stored.is_released:
            claim_again(runner)
        ticks, state, stored = runner.batch, runner.after, runner.stored
        if stored is not None and runner.before_seq and not stored.dropped and not has_more(runner.seen):
            # Most turns: nothing but ticks.
            return Append(runner.run_id, runner.before_seq, ticks, shown_status(state), stored.epoch, self.driver)
        opened, closed = waits_after(runner.seen, partial(self.row, runner))
        return Append(
            runner.run_id,
            runner.before_seq - len(runner.unwritten),
            [*runner.unwritten, *ticks] if runner.unwritten else ticks,
            shown_status(state),
            epoch=runner_epoch(runner),
            driver=self.driver,
            taken=[*(stored.dropped if stored is not None else ()), *(tick.entry for tick in ticks if tick.entry)],
            opened=opened,
            closed=closed,
            alone=any(type(tick) is QuietNoticed or _is_deadline(runner, tick) for tick in ticks),
            known=stored.entries if stored is not None else (),
            parent=state.head.parent.run_id if state.head.parent is not None else "",
            notebook=stored.notebook if stored is not None else "",
        )

    def append_alone(self, runner: Runner, seen: Seen) -> None:
        """Append one tick of a run that is not driven here, on the disk when this returns.

        Raises:
            WorkflowError: It is not written.
        """
        runner.batch, runner.seen, runner.after = (seen[1],), (seen,), seen[2]
        try:
            self.journal.append([self._entry(runner)], durable=True)
        finally:
            runner.batch = runner.seen = ()

    # What lies in the store beside the ticks.

    def keep(self, runner: Runner, tick: AnyTick, *, key: str = "", request: int = 0) -> AnyTick | None:
        """Put a tick into the durable inbox, on the disk when this returns; on whatever thread.

        Args:
            runner: The run that it is for.
            tick: It.
            key: A second one of the same key is not taken.
            request: The question that must still be open.

        Returns:
            The tick with its entry; None if there was one of that key.

        Raises:
            RequestClosed: The question is no longer open.
            WorkflowRuntimeError: The store cannot be used now.
        """
        n = self.journal.put(runner.run_id, tick, key=key, request=request)
        return replace(tick, entry=n) if n else None

    def edit(self, runner: Runner, tick: AnyTick) -> None:
        """What lies in the durable inbox as a tick's entry is this tick from now on, on the disk when this returns.

        Raises:
            WorkflowRuntimeError: It is not there any more, or the store cannot be used now.
        """
        if not self.journal.edit(runner.run_id, tick.entry, replace(tick, entry=0)):
            raise WorkflowRuntimeError(f"What came for run {runner.run_id!r} was admitted meanwhile: look again.")

    def drop(self, runner: Runner, entry: int, request: Request) -> None:
        """Take an answer that does not fit out of the durable inbox; the row of its question says why."""
        last, status = runner.before_seq, shown_status(runner.state)
        said, epoch = [self.row(runner, runner.state, request)], runner_epoch(runner)
        self.journal.append([Append(runner.run_id, last, (), status, epoch, self.driver, [entry], said)])

    def row(self, runner: Runner, state: RunState, request: Request) -> Waits:
        """The row of a question that is open in a state."""
        token = request.token or secret_of(self.token(runner.run_id, request.id))
        schema = runner.stored.schema(runner, state, request) if runner.stored is not None else None
        refused = runner.questions.errors.get(request.id, "") if runner.stored is not None else ""
        default = _in_short(request.default) if request.default is not None else ""
        body = msgspec.Raw(self.codec.encode_out(request.question))
        asked = Asked(body, schema, refused, request.opened_at, default)
        return question_row(state, request, msgspec.json.encode(asked), token)

    def question(self, row: Waits) -> Out:
        """The question of a row."""
        return self.codec.decode_out(bytes(_asked_in(row).question))

    def asked(self, row: Waits) -> Asked:
        """What stands in the row of a question.

        Raises:
            JournalDamaged: It cannot be read.
        """
        return _asked_in(row)

    def schema(self, run_id: str, request: int) -> dict[str, Any] | None:
        """The JSON Schema of what answers an open question, None where there is none."""
        asked = self._asked(run_id, request)
        return asked.schema if asked is not None else None

    def refusal(self, run_id: str, request: int) -> str:
        """Why the driver refused the last answer of an open question; "" if it refused none."""
        asked = self._asked(run_id, request)
        return asked.refused if asked is not None else ""

    def _asked(self, run_id: str, request: int) -> Asked | None:
        for _, row in self.journal.waiting(run_id=run_id, kind="request"):
            if row.id == request:
                return _asked_in(row)
        return None

    def token(self, run_id: str, request: int) -> str:
        """The token that answers a question, the same each time; it stands nowhere (R4.57)."""
        if self._secret is None:
            self._secret = self.journal.secret()
        digest = hmac.digest(self._secret, f"{run_id}:{request}".encode(), hashlib.sha256)
        return base64.urlsafe_b64encode(digest[:24]).decode("ascii")


def _must_last(runner: Runner) -> bool:
    """Whether a turn is on the disk before anything follows from it: it is acknowledged to the outside, or starts a
    step that must not run twice (R3.61)."""
    state = runner.after
    if state.status in ENDED:
        return True
    for tick in runner.batch:
        if type(tick) in _ACKNOWLEDGED:
            return True
    once = state.spec.once
    return bool(once) and any(
        type(command) is StartStep and command.delivery.step in once
        for _, _, _, commands in runner.seen
        for command in commands
    )


def _in_short(default: Out) -> str:
    from flownb.preview import preview  # few questions have one

    return preview(default.value)


def _asked_in(row: Waits) -> Asked:
    try:
        return msgspec.json.decode(row.body, type=Asked)
    except (ValueError, RecursionError) as error:  # somebody, or a disk, changed it
        reason = str(error) or type(error).__name__
        raise JournalDamaged(f"A question cannot be read: {reason}.", run_id="", seq=0, reason=reason) from error


def runner_epoch(runner: Runner) -> int:
    """Of the lease; 0 for a run that was put into a store by hand."""
    return runner.stored.epoch if runner.stored is not None else 0


def _is_deadline(runner: Runner, tick: AnyTick) -> bool:
    """Whether an answer in the store's inbox would beat a tick (R1.27)."""
    if type(tick) is not TimerFired:
        return False
    timer = runner.state.timers.get(tick.timer)
    return timer is not None and timer.kind in ("deadline", "wait")
