"""Group commit: the ticks of all runs of one turn, in one transaction of their store."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from flownb.core.state import shown_status
from flownb.core.ticks import EventArrived, RequestAnswered, RunStarted
from flownb.core.values import Out
from flownb.errors import JournalConflict, NotStorable
from flownb.store.journal import Append, Journal

if TYPE_CHECKING:
    from flownb.runtime.runner import Runner

#: What is acknowledged to the outside is flushed first (R1.12).
_ACKNOWLEDGED = (RunStarted, EventArrived, RequestAnswered)

#: Trying again cannot help: the run is suspended with the reason.
_LASTING = (NotStorable, JournalConflict)


class Committer:
    """Writes turns into one journal."""

    def __init__(self, journal: Journal, check: Callable[[Out], None] | None = None) -> None:
        self.journal = journal
        #: Raises NotStorable for a value that the journal refuses: asked before a tick is made of it (R6.12).
        self.check = check

    def commit(self, runners: list[Runner]) -> None:
        """Append what each runner admitted; a run whose append fails is put back as it was (R1.16).

        A group that fails is tried again run by run, so that one bad run does not hold the others.
        """
        ready = [runner for runner in runners if runner.batch]
        if not ready:
            return
        try:
            self._write(ready)
        except Exception:
            for runner in ready:
                try:
                    self._write([runner])
                except Exception as error:  # whatever the store raises: the turn did not happen
                    runner.take_back(error, lasting=isinstance(error, _LASTING))

    def _write(self, runners: list[Runner]) -> None:
        durable = any(runner.ended or any(type(tick) in _ACKNOWLEDGED for tick in runner.batch) for runner in runners)
        entries = [
            Append(runner.run_id, runner.before_seq, runner.batch, shown_status(runner.state)) for runner in runners
        ]
        self.journal.append(entries, durable=durable)
