"""Journals in this process. The model that the other stores are tested against."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from flownb.core.state import ENDED
from flownb.core.ticks import AnyTick, DefinitionAdopted
from flownb.store.drivers import is_imported
from flownb.store.journal import (
    ENDLESS,
    KINDS,
    Append,
    Claim,
    Entry,
    Holder,
    Kind,
    Raw,
    RunRow,
    Waits,
    Wakeup,
    definition_of,
    not_found,
    refuse_company,
    refuse_conflict,
    refuse_imported,
    refuse_lost,
    refuse_taken,
    refuse_there,
    request_closed,
    status_of,
    tells_status,
    token_taken,
)

if TYPE_CHECKING:
    from flownb.store.codec import Codec


class _Run(Struct):
    """One run and all that belongs to it."""

    run_id: str
    status: str
    driver: str
    epoch: int
    parent: str
    notebook: str
    workflow: str = ""
    key: str = ""
    hash: str = ""
    ticks: list[AnyTick] = []
    #: By number, in order.
    inbox: dict[int, tuple[str, AnyTick]] = {}
    waiting: dict[tuple[Kind, int], Waits] = {}
    checkpoints: dict[int, bytes] = {}


class MemoryJournal:
    """A store that is gone with its process.

    Args:
        clock: Gives Unix seconds; leases are measured by it.
        codec: For what goes to other stores and comes from there.
    """

    hears_ticks = True
    place = ":memory:"

    def __init__(self, *, clock: Callable[[], float] = time.time, codec: Codec | None = None) -> None:
        self._clock = clock
        self._given_codec = codec
        self._lock = threading.RLock()
        self._runs: dict[str, _Run] = {}
        self._drivers: dict[str, float] = {}
        self._tokens: dict[str, tuple[str, int]] = {}
        self._numbers = itertools.count(1)
        self._secret = os.urandom(32)

    # Writing.

    def append(self, entries: Sequence[Append], *, durable: bool = False) -> None:
        """As `Journal.append` says."""
        with self._lock:
            todo = [entry for entry in entries if self._refuse(entry)]
            tokens = self._new_tokens(todo)
            for entry in todo:
                self._write(entry)
            self._tokens.update(tokens)

    def _refuse(self, entry: Append) -> bool:
        """Raises what stands against an entry; False: it is written already."""
        run = self._runs.get(entry.run_id)
        last = 0
        if run is not None:
            last = len(run.ticks)
            refuse_lost(entry, run.driver, run.epoch)
            if entry.ticks and last == entry.after + len(entry.ticks) and self._wrote(run, entry):
                return False
        refuse_conflict(entry, last)
        if run is None and not entry.ticks:
            return False
        if entry.taken or entry.alone:
            inbox = run.inbox if run is not None else {}
            refuse_taken(entry, len(set(entry.taken) - inbox.keys()))
            refuse_company(entry, len(inbox.keys() - set(entry.taken) - set(entry.known)))
        return True

    def _wrote(self, run: _Run, entry: Append) -> bool:
        if not entry.after and entry.driver and (run.driver, run.epoch) != (entry.driver, entry.epoch):
            return False
        return all(map(_is_same, run.ticks[entry.after :], entry.ticks))

    def _new_tokens(self, entries: Sequence[Append]) -> dict[str, tuple[str, int]]:
        """The tokens that entries put; raises TokenTaken."""
        ended = {entry.run_id for entry in entries if entry.status in ENDED}
        closed = {(entry.run_id, id) for entry in entries for kind, id in entry.closed if kind == "request"}
        opened = [
            (waits.token, (entry.run_id, waits.id))
            for entry in entries
            if entry.run_id not in ended
            for waits in entry.opened
            if waits.kind == "request"
        ]
        open_now = {question for _, question in opened}
        found: dict[str, tuple[str, int]] = {}
        for token, question in opened:
            other = found.get(token) or self._tokens.get(token, question)
            was_open = other not in closed and other[0] not in ended and self._is_open(*other)
            if token and other != question and (was_open or other in open_now):
                raise token_taken(*question)
            if token:
                found[token] = question
        return found

    def _is_open(self, run_id: str, request: int) -> bool:
        run = self._runs.get(run_id)
        return run is not None and ("request", request) in run.waiting

    def _write(self, entry: Append) -> None:
        run = self._runs.get(entry.run_id)
        if run is None:
            run = self._runs[entry.run_id] = _Run(
                entry.run_id, "", entry.driver, entry.epoch, entry.parent, entry.notebook
            )
        if entry.ticks:
            if not run.ticks or any(type(tick) is DefinitionAdopted for tick in entry.ticks):
                spec = definition_of(entry.ticks)
                if spec is not None:
                    run.workflow, run.key, run.hash = spec.name, spec.key, spec.hash
            run.ticks.extend(entry.ticks)
            run.status = entry.status
        elif tells_status(entry):
            run.status = entry.status
        for n in set(entry.taken):
            del run.inbox[n]
        for key in entry.closed:
            run.waiting.pop(key, None)
        if entry.status in ENDED:
            run.waiting.clear()
            return
        for waits in entry.opened:
            run.waiting[waits.kind, waits.id] = replace(waits, token="")

    # Reading.

    def read(self, run_id: str, start: int = 1, stop: int | None = None) -> list[AnyTick]:
        """As `Journal.read` says."""
        with self._lock:
            return self._run(run_id).ticks[start - 1 : stop]

    def last_seq(self, run_id: str) -> int:
        """As `Journal.last_seq` says."""
        run = self._runs.get(run_id)
        return 0 if run is None else len(run.ticks)

    def last_seqs(self, run_ids: Sequence[str]) -> dict[str, int]:
        """As `Journal.last_seqs` says."""
        with self._lock:
            return {run_id: len(self._runs[run_id].ticks) for run_id in run_ids if run_id in self._runs}

    def _run(self, run_id: str) -> _Run:
        try:
            return self._runs[run_id]
        except KeyError:
            raise not_found(run_id, self.place) from None

    # Who drives.

    def claim(self, run_id: str, driver: str, ttl: float, *, was_lost: Callable[[str], bool] | None = None) -> Claim:
        """As `Journal.claim` says."""
        with self._lock:
            run = self._run(run_id)
            self._drivers[driver] = self._clock() + ttl
            holder = run.driver
            if holder != driver:
                if is_imported(holder):
                    return Claim(0, len(run.ticks), False, holder)
                if holder and self._drivers.get(holder, 0.0) > self._clock() and not (was_lost and was_lost(holder)):
                    return Claim(0, len(run.ticks), False, holder)
                self._drivers.pop(holder, None)
                run.driver, run.epoch = driver, run.epoch + 1
            return Claim(run.epoch, len(run.ticks), True, driver)

    def renew(self, driver: str, ttl: float) -> bool:
        """As `Journal.renew` says."""
        with self._lock:
            was_there = driver in self._drivers
            self._drivers[driver] = self._clock() + ttl
            return was_there

    def release(self, driver: str, run_ids: Sequence[str] | None = None) -> None:
        """As `Journal.release` says."""
        with self._lock:
            wanted = None if run_ids is None else set(run_ids)
            for run in self._runs.values():
                if run.driver == driver and (wanted is None or run.run_id in wanted):
                    run.driver = ""
            if run_ids is None:
                self._drivers.pop(driver, None)

    def holder(self, run_id: str) -> Holder:
        """As `Journal.holder` says."""
        with self._lock:
            run = self._run(run_id)
            return Holder(run.driver, run.epoch, self._drivers.get(run.driver, 0.0))

    # What came.

    def put(self, run_id: str, tick: AnyTick, *, key: str = "", request: int = 0) -> int:
        """As `Journal.put` says."""
        with self._lock:
            run = self._run(run_id)
            refuse_imported(run_id, run.driver)
            if key and any(key == other for other, _ in run.inbox.values()):
                return 0
            if request and ("request", request) not in run.waiting:
                raise request_closed(run_id, request)
            n = next(self._numbers)
            run.inbox[n] = (key, tick)
            return n

    def edit(self, run_id: str, n: int, tick: AnyTick) -> bool:
        """As `Journal.edit` says."""
        with self._lock:
            run = self._runs.get(run_id)
            if run is None or n not in run.inbox:
                return False
            run.inbox[n] = run.inbox[n][0], tick
            return True

    def inbox(self, run_ids: Iterable[str] | None) -> list[Entry]:
        """As `Journal.inbox` says."""
        with self._lock:
            wanted = self._runs if run_ids is None else set(run_ids)
            runs = [self._runs[run_id] for run_id in wanted if run_id in self._runs]
            return sorted(
                (Entry(n, run.run_id, tick) for run in runs for n, (_, tick) in run.inbox.items()),
                key=lambda entry: entry.n,
            )

    def came(self) -> list[str]:
        """As `Journal.came` says."""
        with self._lock:
            return sorted(run.run_id for run in self._runs.values() if run.inbox and run.status not in ENDED)

    def version(self) -> int:
        """As `Journal.version` says: there is no other connection."""
        return 0

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    # What can be asked.

    def row(self, run_id: str) -> RunRow | None:
        """As `Journal.row` says."""
        with self._lock:
            run = self._runs.get(run_id)
            return None if run is None else _row(run)

    def runs(
        self,
        *,
        status: str | None = None,
        workflow: str | None = None,
        notebook: str | None = None,
        parent: str | None = None,
        limit: int | None = None,
    ) -> list[RunRow]:
        """As `Journal.runs` says."""
        with self._lock:
            rows = [_row(run) for run in self._runs.values()]
        found = [
            row
            for row in rows
            if status in (None, row.status)
            and workflow in (None, row.workflow, row.key)
            and notebook in (None, row.notebook)
            and parent in (None, row.parent)
        ]
        return sorted(found, key=lambda row: (-row.started_at, row.run_id))[:limit]

    def counts(self) -> dict[str, int]:
        """As `Journal.counts` says."""
        found: dict[str, int] = {}
        for row in self.runs():
            found[row.status] = found.get(row.status, 0) + 1
        return found

    def waiting(
        self, *, run_id: str | None = None, kind: Kind | None = None, due: float | None = None
    ) -> list[tuple[str, Waits]]:
        """As `Journal.waiting` says."""
        with self._lock:
            found = [
                (run.run_id, waits)
                for run in self._runs.values()
                for waits in run.waiting.values()
                if run_id in (None, run.run_id)
                and kind in (None, waits.kind)
                and (due is None or (waits.due is not None and waits.due <= due))
            ]
        return sorted(found, key=lambda row: (row[0], KINDS.index(row[1].kind), row[1].id))

    def having(self, kinds: Collection[str], run_ids: Sequence[str]) -> list[str]:
        """As `Journal.having` says."""
        with self._lock:
            runs = [self._runs[run_id] for run_id in run_ids if run_id in self._runs]
            return [run.run_id for run in runs if any(type(tick).__name__ in kinds for tick in run.ticks)]

    def next_wakeup(self) -> Wakeup | None:
        """As `Journal.next_wakeup` says."""
        found = [
            Wakeup(waits.due, run_id, waits.kind, waits.id) for run_id, waits in self.waiting() if waits.due is not None
        ]
        return min(found, key=lambda wakeup: (*wakeup[:2], KINDS.index(wakeup.kind), wakeup.id), default=None)

    def token(self, hash: str) -> tuple[str, int] | None:
        """As `Journal.token` says."""
        return self._tokens.get(hash)

    # As it is stored elsewhere.

    @property
    def _codec(self) -> Codec:
        if self._given_codec is None:
            from flownb.store.codec import Codec  # most stores in memory need none

            self._given_codec = Codec(_no_class)
        return self._given_codec

    def raw(self, run_id: str, to: int = ENDLESS) -> list[Raw]:
        """As `Journal.raw` says."""
        with self._lock:
            ticks = self._run(run_id).ticks[:to]
        return [(seq, float(tick.at), *self._codec.encode(tick)) for seq, tick in enumerate(ticks, 1)]

    def sound(self, run_id: str) -> int:
        """As `Journal.sound` says: nobody else can change them."""
        return self.last_seq(run_id)

    def restore(self, runs: Sequence[tuple[RunRow, Sequence[Raw]]]) -> None:
        """As `Journal.restore` says."""
        made: list[_Run] = []
        for row, rows in runs:
            ticks = [self._codec.decode(*raw) for raw in rows]
            run = _Run(row.run_id, row.status, row.driver, 0, row.parent, row.notebook, row.workflow, row.key, row.hash)
            run.ticks.extend(ticks)
            made.append(run)
        with self._lock:
            for run in made:
                if run.run_id in self._runs:
                    refuse_there(run.run_id, self._runs[run.run_id].driver, self.place)
            self._runs.update((run.run_id, run) for run in made)

    def bodies(self) -> Iterator[bytes]:
        """As `Journal.bodies` says: it has no files."""
        return iter(())

    # The rest.

    def checkpoint(self, run_id: str, seq: int) -> tuple[int, bytes] | None:
        """As `Journal.checkpoint` says."""
        with self._lock:
            run = self._runs.get(run_id)
            found = [at for at in run.checkpoints if at <= seq] if run is not None else []
            return (max(found), run.checkpoints[max(found)]) if run is not None and found else None

    def put_checkpoint(self, run_id: str, seq: int, body: bytes) -> None:
        """As `Journal.put_checkpoint` says."""
        with self._lock:
            self._run(run_id).checkpoints[seq] = body

    def drop_checkpoints(self) -> None:
        """As `Journal.drop_checkpoints` says."""
        with self._lock:
            for run in self._runs.values():
                run.checkpoints.clear()

    def secret(self) -> bytes:
        """As `Journal.secret` says."""
        return self._secret

    def delete(self, run_ids: Sequence[str]) -> None:
        """As `Journal.delete` says."""
        with self._lock:
            gone = set(run_ids)
            for run_id in gone:
                self._runs.pop(run_id, None)
            self._tokens = {hash: found for hash, found in self._tokens.items() if found[0] not in gone}

    def shrink(self) -> None:
        """As `Journal.shrink` says: there is nothing to do."""
        return

    def close(self) -> None:
        """As `Journal.close` says."""
        with self._lock:
            self._runs.clear()

    def is_closed(self) -> bool:
        """As `Journal.is_closed` says: what is put into it later is kept."""
        return False


def _no_class(key: str) -> None:
    return None


def _is_same(there: AnyTick, new: AnyTick) -> bool:
    # Not by their values: those may be of classes that say nothing of being equal.
    return there is new


def _row(run: _Run) -> RunRow:
    first, last = run.ticks[0], run.ticks[-1]
    status = run.status or status_of(run.ticks)
    return RunRow(
        run.run_id,
        run.workflow,
        status,
        len(run.ticks),
        first.at,
        last.at,
        run.key,
        run.hash,
        run.parent,
        run.notebook,
        run.driver,
    )
