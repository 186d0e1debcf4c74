"""A run's place in a store: its lease, what lies for it in the durable inbox, and what another process does with it.

A run is driven by one process at a time, the one that holds its lease. Every other one is a viewer: it reads the ticks
as they come and may put answers, events, cancels and pauses into the inbox, where the driver finds them (R5.7, R5.12).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from flownb.core.adopting import homeless
from flownb.core.gate import is_control
from flownb.core.history import work_of
from flownb.core.reduce import reduce
from flownb.core.state import ENDED, Request, RunState
from flownb.core.ticks import (
    AnyTick,
    CancelRequested,
    EventArrived,
    EventDropped,
    EventEdited,
    GateClosed,
    GateOpened,
    HoldChanged,
    QuietNoticed,
    RequestAnswered,
    RequestHeld,
    RunOpened,
    RunStarted,
    TimerFired,
)
from flownb.core.values import alike
from flownb.errors import (
    AnswerInvalid,
    EngineLost,
    JournalConflict,
    JournalDamaged,
    LeaseLost,
    RunNotFound,
    RunReadOnly,
    WorkflowError,
    WorkflowRuntimeError,
)
from flownb.runtime.following import follow
from flownb.store.drivers import describe, is_gone
from flownb.store.journal import Append

if TYPE_CHECKING:
    from flownb.runtime.commit import Committer
    from flownb.runtime.runner import Runner

#: What `runner.suspended` says of a run that was unloaded.
UNLOADED = "it is unloaded until something comes for it"
#: A lease runs so many seconds, and is renewed three times in that.
LEASE_S = 30.0
#: While its own turn cannot be written, an inbox that could not be written is tried again after so many seconds.
AGAIN_S = 0.5

#: So much work lies between two saved states at least.
WORK = 1_000
#: So many looks, a second apart, before a run that nobody drives is taken over: its process may be about to.
_PATIENCE = 2
#: So often in a row a driver decides again.
_CONFLICTS = 5
#: A run of such a status can be steered without its code.
_STEERED = frozenset({"running", "waiting"})

_log = logging.getLogger("flownb")


class Stored:
    """What a runner knows of its run's place in a store."""

    __slots__ = (
        "check",
        "committer",
        "conflicts",
        "damage",
        "dropped",
        "entries",
        "epoch",
        "is_imported",
        "is_late",
        "is_released",
        "is_viewer",
        "left",
        "notebook",
        "schema",
        "stands_by",
        "work",
    )

    def __init__(
        self,
        committer: Committer,
        check: Callable[[Runner, RequestAnswered], RequestAnswered],
        schema: Callable[[Runner, RunState, Request], dict[str, Any] | None],
        notebook: str = "",
    ) -> None:
        self.committer = committer
        #: How the driver takes an answer that another process took; raises AnswerInvalid (R4.46).
        self.check = check
        #: The JSON Schema of what answers a question.
        self.schema = schema
        #: Turns in a row that somebody else's ticks kept from being written.
        self.conflicts = 0
        #: Since the last checkpoint.
        self.work = 0
        #: Of the lease: grows with each change of the driver.
        self.epoch = 1
        #: Entries of the inbox that are on their way into the journal.
        self.entries: set[int] = set()
        #: Entries that nothing follows from; they go with the next append.
        self.dropped: list[int] = []
        #: Path of the notebook that the run was started in.
        self.notebook = notebook
        #: Why nobody can drive the run: its journal cannot be read behind the last tick that is known.
        self.damage = ""
        #: Another process drives the run, or nobody does and it is only looked at.
        self.is_viewer = False
        #: It would be driven here if nobody else did, and how often in a row it was seen that nobody does.
        self.stands_by = False
        self.left = 0
        #: It waits, and nothing of it runs here: anybody may claim it (R5.11).
        self.is_released = False
        #: Something in the inbox is not on the disk yet, and will be tried again.
        self.is_late = False
        #: It came from another store as a file: nobody drives it, and nothing of it is changed.
        self.is_imported = False


def accept(
    runner: Runner, tick: AnyTick, *, key: str = "", request: int = 0, certain: Callable[[], None] | None = None
) -> bool:
    """Something came from outside and is acknowledged: on the disk first, where there is one (R1.29), then on its way.
    On whatever thread.

    Args:
        runner: The run that it is for.
        tick: It.
        key: A second one of the same key is not taken.
        request: The question that must still be open.
        certain: Called once nothing can refuse it any more, before anybody can hear of it.

    Returns:
        False if there was one of that key.

    Raises:
        RequestClosed: The question is no longer open.
        EngineLost: Nothing drives the run any more, and it is in no store.
    """
    stored = runner.stored
    if stored is None or (not runner.suspended and _is_new(runner)):  # its start is on its way to the store
        if certain is not None:
            certain()
        runner.post(tick)
        return True
    kept = stored.committer.keep(runner, tick, key=key, request=request)
    if kept is None:
        return False
    if certain is not None:
        certain()
    try:
        runner.host.call(_take, runner, kept)
    except EngineLost:  # it lies in the store until somebody drives the run (R4.62)
        return True
    return True


def _is_new(runner: Runner) -> bool:
    """Whether nothing of a run is in the store yet; a fork begins with the ticks that it shares."""
    return not runner.before_seq or bool(runner.unwritten)


def pass_on(runner: Runner, tick: AnyTick) -> None:
    """What a person does to a run, on whatever thread: a viewer's word goes through the store's inbox (R5.12), and is
    done at once where nobody drives the run (R5.13)."""
    if not runner.suspended or runner.stored is None:
        runner.post(tick)
    elif is_viewed(runner) and is_control(tick):
        refuse_changes(runner)
        runner.host.call(_steer, runner, tick)
    else:
        accept(runner, tick)


def _steer(runner: Runner, tick: AnyTick) -> None:
    """A viewer's control tick; on the loop's thread."""
    try:
        if is_viewed(runner) and not runner.ended and not _steer_alone(runner, tick):
            accept(runner, tick)
    except WorkflowRuntimeError:  # the store cannot be used now
        runner.host.later(AGAIN_S, _steer, runner, tick)


def _steer_alone(runner: Runner, tick: AnyTick) -> bool:
    """If nobody drives a run, claim it, append this one tick and give it back; nothing of its code runs."""
    stored = runner.stored
    assert stored is not None
    if not _may_steer(runner, tick) or claim(runner):
        return False
    stored.is_viewer = True  # to all others it is looked at all the while
    journal, driver = stored.committer.journal, stored.committer.driver
    try:
        catch_up(runner)
        if not _may_steer(runner, tick):
            return runner.ended
        tick = replace(tick, at=max(tick.at, runner.state.at))
        stored.committer.append_alone(runner, (runner.state, tick, *reduce(runner.state, tick)))
    finally:
        journal.release(driver, [runner.run_id])
    follow(runner, [tick])  # who hears of it may drive the run at once
    return True


def _may_steer(runner: Runner, tick: AnyTick) -> bool:
    """Whether a run can take this control tick without its code. What somebody suspended takes only what may be its way
    out of a definition that has no place for its work (R6.46)."""
    status = runner.state.status
    return status in _STEERED or (status == "suspended" and isinstance(tick, (EventEdited, EventDropped)))


def _take(runner: Runner, tick: AnyTick) -> bool:
    """An entry of the inbox goes its way, once; on the loop's thread.

    Returns:
        Whether it was new.
    """
    stored = runner.stored
    assert stored is not None
    if runner.suspended or runner.ended or tick.entry in stored.entries:
        if runner.suspended is UNLOADED:  # that takes all that lies there
            wake(runner)
        return False
    checked = _checked(runner, tick)
    if checked is None:
        assert isinstance(tick, RequestAnswered)
        stored.committer.drop(runner, tick.entry, runner.state.requests[tick.request])
        runner.tell()
        return True
    stored.entries.add(tick.entry)
    runner.put(checked)
    return True


def _checked(runner: Runner, tick: AnyTick) -> AnyTick | None:
    """What came, after the driver's own validation of an answer; None if that refuses it: the question stays open, and
    shows why (R4.46)."""
    assert runner.stored is not None
    if not isinstance(tick, RequestAnswered):
        return tick
    try:
        return runner.stored.check(runner, tick)
    except AnswerInvalid as error:
        runner.questions.errors[tick.request] = str(error)
        return None


def wake(runner: Runner) -> None:
    """Something came for a run that was unloaded, or is due: it is driven again; on the loop's thread."""
    if runner.suspended is not UNLOADED:
        return
    try:
        runner.reopen()
    except WorkflowRuntimeError:  # the store cannot be used now
        runner.host.later(AGAIN_S, wake, runner)
        return
    handle = runner.timers.pop(0, None)  # 0 is no timer of the run's: when it wakes by itself
    if handle is not None:
        handle.cancel()


def look(runners: Sequence[Runner]) -> None:
    """Another process wrote into the store of these runs; on the loop's thread."""
    live = [runner for runner in runners if runner.stored is not None and not runner.ended]
    if not live:
        return
    try:
        left = _look(live)
    except WorkflowError:  # the store cannot be used now
        left = live
    if left and not left[0].stored.committer.is_closed():  # type: ignore[union-attr]
        left[0].host.later(AGAIN_S, look, left)


def _look(runners: list[Runner]) -> list[Runner]:
    """Gives those for which the store could not be used."""
    driven: dict[str, Runner] = {}
    left: list[Runner] = []
    passive = [runner for runner in runners if runner.stored.is_viewer or runner.stored.is_released]  # type: ignore[union-attr]
    # One call for all: each gives Python's lock away, or goes over the network.
    last = passive[0].stored.committer.journal.last_seqs([r.run_id for r in passive]) if passive else {}  # type: ignore[union-attr]
    for runner in runners:
        stored = runner.stored
        assert stored is not None
        is_further = last.get(runner.run_id, 0) > runner.before_seq
        try:
            if stored.is_viewer:
                if is_further or runner.questions.accepted:
                    _look_on(runner)
            elif stored.is_released and is_further:
                _follow_on(runner)
            elif not runner.suspended or runner.suspended is UNLOADED:
                driven[runner.run_id] = runner
        except WorkflowError:  # as above
            left.append(runner)
    try:
        if driven:
            look_into_inbox(driven)
    except WorkflowError:  # as above
        left += driven.values()
    return left


def _follow_on(runner: Runner) -> None:
    """Another process went on with a run that waited here."""
    before = runner.before_seq
    become_viewer(runner, "another process went on with it")
    _look_on(runner)
    if runner.state.status != "suspended" and not any(type(tick) is RunOpened for tick in runner.ticks[before:]):
        _decide_again(runner)  # it was only steered there (R5.13), and is still this process's


def _look_on(runner: Runner) -> None:
    """A viewer reads what is new."""
    try:
        _forget_refused(runner)
    except WorkflowRuntimeError:  # the store cannot be used now
        runner.host.later(AGAIN_S, look, [runner])
    except Exception as error:
        _cannot_read(runner, error)


def _forget_refused(runner: Runner) -> None:
    """Read what the driver did; an answer from here that is neither in the inbox any more nor in the journal was
    refused by the driver's own validation (R4.46), so its question is open again."""
    assert runner.stored is not None
    questions, committer = runner.questions, runner.stored.committer
    with questions.door:  # no answer is on its way into the inbox meanwhile
        given = [n for n in questions.accepted if n in runner.state.requests]
        came = committer.journal.inbox([runner.run_id]) if given else ()
        waits = {getattr(entry.tick, "request", 0) for entry in came}
        catch_up(runner)
        refused = [n for n in given if n not in waits and n in runner.state.requests]
        for n in refused:
            del questions.accepted[n]
            questions.errors[n] = committer.refusal(runner.run_id, n)
    if refused:
        runner.tell()


def check_leases(runners: Sequence[Runner]) -> None:
    """This process's lease was over for a while: who lost a run to another one stops at once (R5.9), the others go on
    (R5.10); on the loop's thread."""
    for runner in runners:
        stored = runner.stored
        if stored is None or stored.is_viewer or stored.is_released or runner.suspended or runner.ended:
            continue
        if not runner.before_seq:  # the store has nothing of it yet
            continue
        try:
            holder = stored.committer.journal.holder(runner.run_id)
        except WorkflowError:  # the store cannot be used now
            if not stored.committer.is_closed():
                runner.host.later(AGAIN_S, check_leases, [runner])
            continue
        if holder.epoch != stored.epoch:
            become_viewer(runner, f"{describe(holder.driver)} drives it")


def look_into_inbox(driven: Mapping[str, Runner]) -> bool:
    """Take what others put into the inbox of runs of one store that this process drives; on the loop's thread.

    Returns:
        Whether something was new.
    """
    journal = next(iter(driven.values())).stored.committer.journal  # type: ignore[union-attr]
    try:
        entries = journal.inbox(list(driven))
    except JournalDamaged as error:
        if len(driven) == 1:
            _log.warning("what lies in the inbox of run %s cannot be read: %s", next(iter(driven)), error)
            return False
        # One bad entry holds no other run back.
        return sum(look_into_inbox({run_id: runner}) for run_id, runner in driven.items()) > 0
    return sum(_take(driven[entry.run_id], replace(entry.tick, entry=entry.n)) for entry in entries) > 0


def _cannot_read(runner: Runner, error: Exception) -> None:
    """The journal is damaged behind what was read: the run can be looked at up to there."""
    forget(runner)
    assert runner.stored is not None
    runner.stored.damage = runner.suspended = str(error)
    runner.tell()


def catch_up(runner: Runner) -> None:
    """Read what the driver did since; on the loop's thread.

    Raises:
        JournalDamaged: A tick cannot be read; those before it are taken in.
    """
    assert runner.stored is not None
    follow(runner, runner.stored.committer.journal.read(runner.run_id, runner.before_seq + 1))
    if runner.ended:
        runner.finish()


def keep_inbox(runner: Runner) -> None:
    """The gate was closed: what waits before it lies on the disk too (R1.29); on the loop's thread."""
    stored = runner.stored
    if stored is None or not runner.state.gate or runner.suspended or runner.ended:
        return
    inbox = runner.inbox
    for i, tick in enumerate(inbox):
        after = kept(runner, tick)
        if stored.is_late:  # each further try would block the loop as long
            return
        if after is not tick:
            inbox[i] = after
            if runner.gatekeeper is not None:
                runner.gatekeeper.replaced(tick, after)


def kept(runner: Runner, tick: AnyTick) -> AnyTick:
    """A tick that comes while the gate is closed, as it lies in the durable inbox. What comes by itself again does not
    lie there; on the loop's thread."""
    stored = runner.stored
    assert stored is not None
    if tick.entry or stored.is_late or _is_new(runner) or isinstance(tick, (TimerFired, QuietNoticed)):
        return tick
    try:
        after = stored.committer.keep(runner, tick)
    except WorkflowRuntimeError:  # the store cannot be used now
        stored.is_late = True
        runner.host.later(AGAIN_S, _keep_late, runner)
        return tick
    assert after is not None
    stored.entries.add(after.entry)
    return after


def _keep_late(runner: Runner) -> None:
    """Try again what could not be written."""
    assert runner.stored is not None
    runner.stored.is_late = False
    keep_inbox(runner)


def what_came(runner: Runner) -> list[AnyTick]:
    """What lies in the durable inbox of a run that this process drives from now on, after a look at what the driver
    before it did; on the loop's thread."""
    assert runner.stored is not None
    catch_up(runner)
    came: list[AnyTick] = []
    for entry in runner.stored.committer.journal.inbox([runner.run_id]):
        tick = _checked(runner, replace(entry.tick, entry=entry.n))
        if tick is None:
            runner.stored.dropped.append(entry.n)
        else:
            came.append(tick)
    return came


def written(runner: Runner) -> None:
    """A turn is in the journal, and its entries are gone from the inbox."""
    stored = runner.stored
    if stored is None:
        return
    stored.conflicts = 0
    for entry in runner.seen:
        stored.work += work_of(entry[1])
    if stored.work >= WORK:
        from flownb.runtime.checkpoints import save_if_due  # most runs are shorter

        save_if_due(runner)
    if stored.dropped:
        stored.dropped.clear()
    if stored.entries:
        stored.entries.difference_update(tick.entry for _, tick, _, _ in runner.seen)


# Who drives it.


def is_viewed(runner: Runner) -> bool:
    """Whether a run is only looked at here."""
    return runner.stored is not None and runner.stored.is_viewer


def waits_still(runner: Runner) -> bool:
    """Whether a run that is not driven here just now is to its readers what its journal says."""
    return is_viewed(runner) or runner.suspended is UNLOADED


def may_move(runner: Runner) -> bool:
    """Whether a run that is not driven here just now may go on without being resumed here."""
    stored = runner.stored
    if stored is None or not waits_still(runner) or stored.damage or stored.is_imported:
        return False
    return runner.state.status != "suspended"


def mark(runner: Runner, status: str) -> None:
    """Let the store list a run that nobody drives with another status, until somebody drives it; its journal stays as
    it is. One that is driven is left alone.

    Raises:
        WorkflowRuntimeError: The store cannot be used now.
    """
    stored = runner.stored
    assert stored is not None
    if not is_viewed(runner) and not runner.suspended:
        return
    journal, driver = stored.committer.journal, stored.committer.driver
    found = journal.claim(runner.run_id, driver, LEASE_S, was_lost=is_gone)
    if not found.epoch:
        return
    try:
        journal.append([Append(runner.run_id, found.seq, (), status, found.epoch, driver)])
    finally:
        stored.epoch = found.epoch
        journal.release(driver, [runner.run_id])


def claim(runner: Runner) -> str:
    """Take the lease, if nobody has it.

    Returns:
        "" if this process may drive the run now, else who does, in words.
    """
    stored = runner.stored
    assert stored is not None
    committer = stored.committer
    found = committer.journal.claim(runner.run_id, committer.driver, LEASE_S, was_lost=is_gone)
    if not found.epoch:
        return describe(found.holder)
    stored.epoch, stored.is_viewer, stored.is_released = found.epoch, False, False
    return ""


def claim_again(runner: Runner) -> None:
    """A run that waited without a lease goes on.

    Raises:
        LeaseLost: Another process drives it by now.
    """
    holder = claim(runner)
    if holder:
        raise LeaseLost(f"{holder} drives it", run_id=runner.run_id)


def refuse_changes(runner: Runner) -> None:
    """Raises RunReadOnly if a run was imported."""
    if runner.stored is not None and runner.stored.is_imported:
        raise RunReadOnly(
            f"Run {runner.run_id!r} was imported: it can be looked at, and nothing of it can be changed. To go on from "
            f"it, fork it: run.debug.fork({len(runner.ticks)}).",
            run_id=runner.run_id,
        )


def release(runner: Runner) -> None:
    """Give the lease back: anybody may drive the run."""
    stored = runner.stored
    if stored is None or stored.is_viewer or stored.is_released or not runner.before_seq:
        return
    stored.is_released = True
    _give_back(runner)


def _give_back(runner: Runner) -> None:
    stored = runner.stored
    assert stored is not None
    if not stored.is_released:  # it went on meanwhile
        return
    try:
        stored.committer.journal.release(stored.committer.driver, [runner.run_id])
    except WorkflowRuntimeError:  # the store cannot be used now; while this process lives the lease does not run out
        with suppress(EngineLost):
            runner.host.call(runner.host.later, AGAIN_S, _give_back, runner)


def become_viewer(runner: Runner, why: str) -> None:
    """Stop driving at once, and act on nothing more; its ticks are read from now on (R5.9)."""
    assert runner.stored is not None
    runner.stored.is_viewer = runner.stored.stands_by = True
    runner.stored.entries.clear()
    runner.stored.dropped.clear()
    runner.suspended = why
    for tick in [*runner.control, *runner.inbox]:
        pass_over(runner, tick)
    runner.put_down()
    runner.clear_inbox()
    watch(runner)
    runner.tell()


def take_over_left(runners: Sequence[Runner]) -> None:
    """Drive on what this process drove before, or was asked to, if nobody else does any more: its driver is gone, or
    something that came or is due waits in vain; on the loop's thread, every second or so."""
    for runner in runners:
        stored = runner.stored
        if stored is None or not stored.is_viewer or not stored.stands_by or stored.damage or runner.ended:
            continue
        try:
            stored.left = stored.left + 1 if _is_left(runner) else 0
            if stored.left >= _PATIENCE and runner.owner is not None:
                stored.left = 0
                definition = runner.owner.definition
                if not homeless(runner.state, definition.spec):
                    runner.reopen(definition)
        except WorkflowRuntimeError as error:  # the store cannot be used now
            _log.debug("run %s could not be taken over: %s", runner.run_id, error)
        except Exception:
            _log.exception("run %s could not be taken over", runner.run_id)


def _is_left(runner: Runner) -> bool:
    assert runner.stored is not None
    journal, now = runner.stored.committer.journal, time.time()
    holder = journal.holder(runner.run_id)
    if holder.driver:
        return not holder.is_live()
    if journal.inbox([runner.run_id]):
        return True
    return any(row.due is not None and row.due <= now for _, row in journal.waiting(run_id=runner.run_id))


#: What people and code outside brought, and nobody brings again.
_FROM_OUTSIDE = (EventArrived, CancelRequested, GateClosed, GateOpened, HoldChanged, RequestHeld)


def pass_over(runner: Runner, tick: AnyTick) -> None:
    """What came from outside for a run that is not driven here any more is for its driver (R1.31); on the loop's
    thread."""
    stored = runner.stored
    if stored is None or tick.entry or not isinstance(tick, _FROM_OUTSIDE) or _is_new(runner):
        return
    if isinstance(tick, GateClosed | GateOpened) and tick.reason not in ("person", "breakpoint"):
        return
    handle = runner.arriving.pop(id(tick.out), None) if isinstance(tick, EventArrived) else None
    try:
        stored.committer.keep(runner, tick, key=getattr(tick, "key", ""))
    except WorkflowError as error:
        _log.warning("%s for run %s was lost: %s", type(tick).__name__, runner.run_id, error)
        if handle is not None:
            handle.reject(error)
    else:
        if handle is not None:
            handle.resolve(None)


def has_lost(runner: Runner, error: BaseException) -> bool:
    """Whether an append failed because somebody else went on with the run; then it is only looked at, at first.

    A driver that lost its lease stays a viewer (R5.9). One whose lease is still its own reads what is there and decides
    again (R5.6), but not for ever.
    """
    stored = runner.stored
    if stored is None or not isinstance(error, (JournalConflict, LeaseLost)):
        return False
    if isinstance(error, JournalConflict):
        stored.conflicts += 1
        if stored.conflicts > _CONFLICTS or (not runner.before_seq and not _is_same(runner)):
            return False
    become_viewer(runner, str(error))
    if isinstance(error, LeaseLost):
        runner.host.soon(look, [runner])
    else:
        runner.host.later(AGAIN_S / 10, _decide_again, runner)
    return True


def _is_same(runner: Runner) -> bool:
    """Whether another process that started a run of this id at the same moment started the same one (R5.1)."""
    assert runner.stored is not None
    first, own = None, runner.first
    with suppress(RunNotFound):
        first = runner.stored.committer.journal.read(runner.run_id, 1, 1)[0]
    if not isinstance(first, RunStarted) or not isinstance(own, RunStarted):
        return False
    return first.spec.name == own.spec.name and alike(first.out.value, own.out.value)


def _decide_again(runner: Runner) -> None:
    if is_viewed(runner) and not runner.ended:
        try:
            runner.reopen()
        except WorkflowRuntimeError:  # the store cannot be used now
            runner.host.later(AGAIN_S, _decide_again, runner)
        except Exception as error:
            _cannot_read(runner, error)


def watch(runner: Runner) -> None:
    """Hear of what other processes write, and keep the lease."""
    if runner.stored is None or runner.state.status in ENDED:
        return
    from flownb.runtime.watching import Watch  # only stored runs need it

    committer = runner.stored.committer
    if committer.watch is None:
        committer.watch = Watch(committer.journal, committer.driver)
    if not runner.stored.is_viewer:
        committer.watch.keep_lease()
    committer.watch.add(runner)


def forget(runner: Runner) -> None:
    if runner.stored is not None and runner.stored.committer.watch is not None:
        runner.stored.committer.watch.discard(runner)
