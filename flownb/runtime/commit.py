"""Group commit: the ticks of all runs of one turn, in one transaction of their store."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from flownb.core.state import shown_status
from flownb.core.ticks import EventArrived, RequestAnswered, RunForked, RunStarted
from flownb.core.values import Out
from flownb.errors import JournalConflict, NotStorable, WorkflowRuntimeError
from flownb.store.journal import Append, Journal

if TYPE_CHECKING:
    from flownb.runtime.runner import Runner

#: What is acknowledged to the outside is flushed first (R1.12).
_ACKNOWLEDGED = (RunStarted, RunForked, EventArrived, RequestAnswered)

#: The fault of one run, which stays: that run is suspended with the reason.
_LASTING = (NotStorable, JournalConflict)

#: The store cannot be used just now (locked, full, closed): the fault of no run.
_UNUSABLE = WorkflowRuntimeError


class Committer:
    """Writes turns into one journal.

    Args:
        journal: It.
        check: Raises NotStorable for a value that can be kept in memory only: asked before a tick is made of it
            (R6.12). None: the journal is in memory itself.
        unserializable: Whether it is asked where the workflow does not say (R6.10, R6.11).
    """

    def __init__(
        self,
        journal: Journal,
        check: Callable[[Out], None] | None = None,
        unserializable: Literal["error", "live"] = "error",
    ) -> None:
        self.journal = journal
        self.check = check
        self.unserializable: Literal["error", "live"] = unserializable

    def commit(self, runners: list[Runner]) -> None:
        """Append what each runner admitted; a run whose append fails is put back as it was (R1.16).

        If the store itself cannot be used, that goes for the whole group at once: each try of a locked file blocks
        the thread that drives all runs. Else the group is tried again run by run, so that one bad run does not hold
        the others.
        """
        ready = [runner for runner in runners if runner.batch]
        if not ready:
            return
        try:
            self._write(ready)
        except _UNUSABLE as error:
            self._take_back(ready, error)
        except Exception as error:  # whatever the store raises: the turn did not happen
            if len(ready) == 1:
                self._take_back(ready, error)
                return
            for i, runner in enumerate(ready):
                try:
                    self._write([runner])
                except _UNUSABLE as error:
                    self._take_back(ready[i:], error)
                    return
                except Exception as error:  # as above
                    self._take_back([runner], error)

    def _take_back(self, runners: list[Runner], error: Exception) -> None:
        lasting = isinstance(error, _LASTING) or self._is_closed()
        for runner in runners:
            runner.take_back(error, lasting=lasting)

    def _is_closed(self) -> bool:
        """Whether trying again cannot help, since nobody opens a closed store again."""
        return bool(getattr(self.journal, "_closed", False))

    def _write(self, runners: list[Runner]) -> None:
        durable = any(runner.ended or any(type(tick) in _ACKNOWLEDGED for tick in runner.batch) for runner in runners)
        entries = [
            Append(
                runner.run_id,
                runner.before_seq - len(runner.unwritten),
                [*runner.unwritten, *runner.batch] if runner.unwritten else runner.batch,
                shown_status(runner.state),
            )
            for runner in runners
        ]
        self.journal.append(entries, durable=durable)
