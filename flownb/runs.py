"""Stores: where runs are kept."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from flownb.errors import WorkflowConfigurationError, caller_level
from flownb.events import defined
from flownb.runtime.commit import Committer
from flownb.runtime.host import in_kernel
from flownb.store.journal import Journal, RunRow, Wakeup

if TYPE_CHECKING:
    from flownb.agenda import Suspension
    from flownb.moment import Moment
    from flownb.openings import StoreRequests
    from flownb.reviews import Reviews
    from flownb.run import Run
    from flownb.runtime.pending import Pending
    from flownb.store.artifacts import Artifacts
    from flownb.store.codec import Codec

#: How long the engine's thread waits for another process that writes, in seconds. It drives other runs and all panels
#: meanwhile; a run that cannot write is shown as blocked and tried again.
PATIENCE_S = 0.2

_open: dict[str, Store] = {}


class Store:
    """A place for runs: `Store("runs.db")`, `Store("postgresql://...")`, or `Store(":memory:")`.

    Frames, arrays, figures and all large values are files in a folder: of `runs.db` it is `runs.artifacts`.

    Args:
        place: Path of an SQLite file, URL of a PostgreSQL database (`?schema=name` picks a schema), or ":memory:".
        unserializable: What a value that cannot be saved does: "error", or "live" (kept in memory, marked in the
            journal). A workflow's own word wins.
        artifacts: Another folder for such files.
        trust: Whether values that have no other form are pickled there, and read again. To read a pickle runs what its
            author wanted to be run: only for a store that nobody else writes to.

    Raises:
        WorkflowConfigurationError: It cannot be opened; says why, and how to mend it.
    """

    def __init__(
        self,
        place: str | Path,
        *,
        unserializable: Literal["error", "live"] = "error",
        artifacts: str | Path | None = None,
        trust: bool = False,
    ) -> None:
        self._committer = _committer(str(place), unserializable, artifacts, trust)
        #: Where the files of large values lie; None for a store in memory.
        self.artifacts: Artifacts | None = self._committer.artifacts

    @property
    def journal(self) -> Journal:
        return self._committer.journal

    @property
    def place(self) -> str:
        """Where it is, in words."""
        return self.journal.place

    # -- looking

    def run(self, run_id: str) -> Run[Any]:
        """A run to look at, to answer, to pause and to cancel; `flow.resume(run_id)` drives it.

        Raises:
            RunNotFound: No such run.
            JournalDamaged: Not even its first tick can be read.
        """
        from flownb.restoring import look_at  # it builds on this module, as those below do

        return look_at(self, run_id)

    def runs(self, *, status: str | None = None, workflow: str | None = None, limit: int | None = None) -> list[RunRow]:
        """The runs, the newest first.

        Args:
            status: Only those of this status.
            workflow: Only those of this workflow, by its name or key.
            limit: So many at most.
        """
        return self.journal.runs(status=status, workflow=workflow, limit=limit)

    def requests(
        self, *, workflow: str | None = None, step: str | None = None, text: str | None = None
    ) -> StoreRequests:
        """The open questions of all runs, by run and number. As a cell's last line it is a table to answer them in.

        Args:
            workflow: Only those of this workflow, by its name or key.
            step: Only those that this step asks.
            text: Only those that have all of these words in their question, run, workflow or step, in whatever case.
        """
        from flownb.openings import StoreRequests

        return StoreRequests(self, workflow=workflow, step=step, text=text)

    def reviews(self, *, workflow: str | None = None, by: str | None = None, since: float | None = None) -> Reviews:
        """The record of what was decided: the questions of all runs that were answered, by whomever and however, or
        ended at a deadline or by `dispose`; the latest first. As a cell's last line it is a table.

        There is no index of it: it lists the runs that are asked for, lets the store look at the kinds of their ticks,
        and reads the whole journal of each run that may have such a question. `workflow` and `since` leave runs out
        before that, `by` does not. An answer that waits for its driver is not in it yet.

        Args:
            workflow: Only of this workflow, by its name or key.
            by: Only what this person answered or disposed of.
            since: Only what was decided at this moment or later, in Unix seconds.
        """
        from flownb.openings import reviews

        return reviews(self, workflow, by, since)

    def summary(self) -> dict[str, Any]:
        """Counts: `{"runs": {status: n, ...}, "requests": n, "timers": n, "retries": n}`; the last three of runs that
        are not over."""
        kinds = [waits.kind for _, waits in self.journal.waiting()]
        counts = {"requests": kinds.count("request"), "timers": kinds.count("timer"), "retries": kinds.count("retry")}
        return {"runs": self.journal.counts(), **counts}

    def history(self, run_id: str, from_: int = 1, to: int | None = None) -> list[Any]:
        """The ticks of a run.

        Raises:
            RunNotFound: No such run.
            JournalDamaged: One of them cannot be read; names it.
        """
        return list(self.journal.read(run_id, from_, to))

    def at(self, run_id: str, seq: int) -> Moment:
        """A run after one of its ticks, without reading all of its journal.

        Raises:
            RunNotFound: No such run.
            IndexError: It has no such tick.
            JournalDamaged: A tick that is needed cannot be read.
        """
        from flownb.moment import Moment
        from flownb.runtime.checkpoints import moment_at

        return Moment(*moment_at(self._committer, run_id, seq))

    def tail(self, run_id: str, n: int = 20) -> list[Any]:
        """The last ticks of a run, the oldest of them first.

        Raises:
            RunNotFound: No such run.
        """
        return list(self.journal.read(run_id, max(1, self.journal.last_seq(run_id) - n + 1)))

    # -- what is due

    def suspensions(self, now: float | None = None) -> list[Suspension]:
        """What runs wait for, by run, kind (timer, request, retry) and number; `now` in Unix seconds says what is
        due, None is the present."""
        from flownb import agenda

        return agenda.suspensions(self, now)

    def next_wakeup(self) -> Wakeup | None:
        """What is due first: `(due, run_id, kind, id)`; None if nothing is."""
        return self.journal.next_wakeup()

    def due(self, now: float | None = None) -> list[str]:
        """Ids of the runs that have something to do, each once."""
        from flownb import agenda

        return agenda.due(self, now)

    def resume_due(self, now: float | None = None) -> list[Run[Any]]:
        """Drive the runs that have something to do and that nobody drives.

        Returns:
            Those that it woke. One that cannot be driven is told in the log.
        """
        from flownb import agenda

        return agenda.resume_due(self, now)

    def drive(self, run_id: str, until: Literal["quiet", "end"] = "quiet") -> Pending[Run[Any]]:
        """Drive a run until it is quiet or over; on one that is, nothing happens.

        Returns:
            A handle of the run at that moment: `await` it, or `.result()`.

        Raises:
            RunNotFound: No such run.
            RunOwnedElsewhere: Another process drives it.
            WorkflowNotDefined: This process has not its workflow.
        """
        from flownb import agenda

        return agenda.drive(self, run_id, until)

    # -- acting

    def answer(self, token: str, answer: Any = None, /, *, by: str | None = None, **fields: Any) -> tuple[str, int]:
        """Answer the question of a token, whoever drives its run, also if nobody does.

        A token is a secret, so what a stranger sends can be passed on as it is. Who may look into the store answers by
        id: `store.requests()["7f3a:1"].answer(...)`.

        Returns:
            Run id and number of the question, for the same answer once more too.

        Raises:
            RequestError: No question has that token.
            AnswerInvalid, AlreadyAnswered, RequestClosed: As `Run.answer`.
        """
        from flownb.openings import answer_by_token

        return answer_by_token(self, token, answer, by, fields)

    def dispose(self, token: str, reason: str = "") -> tuple[str, int]:
        """End the question of a token without an answer.

        Returns:
            Run id and number of the question.

        Raises:
            RequestError: No question has that token.
        """
        from flownb.openings import dispose_by_token

        return dispose_by_token(self, token, reason)

    def prune(self, *, older_than: float, keep: int = 0) -> int:
        """Delete runs that ended long ago, with their children.

        Args:
            older_than: Seconds since their last tick.
            keep: So many of the newest ended runs of each workflow stay.

        Returns:
            How many runs went.
        """
        from flownb.pruning import prune

        return prune(self, older_than, keep)

    def export(self, run_id: str, path: str | Path) -> Path:
        """Write a run, its children and their files into one file, a zip that anybody can look into. It holds no
        secrets and no tokens.

        Returns:
            The file.

        Raises:
            RunNotFound: No such run.
            OSError: The file cannot be written.
        """
        from flownb.archiving import export_run

        return export_run(self, run_id, path)

    def import_(self, path: str | Path) -> str:
        """Take in a run from such a file. It can be looked at and forked; nobody drives, answers or cancels it. Of a
        damaged one that is what comes before the damage, and a warning says so.

        Returns:
            The run's id.

        Raises:
            RunNotFound: There is no such file.
            JournalDamaged: Nothing of it can be read.
            RunConflict: Another run has that id. The same run once more is none.
            WorkflowConfigurationError: This store reads pickles (`trust=True`), and a file may come from anybody.
        """
        from flownb.archiving import import_run

        found = import_run(self, path)
        for fault in found.faults:
            warnings.warn(fault, stacklevel=2)
        return found.run_id

    def close(self) -> None:
        """Close the file. Runs that are still driven cannot write any more."""
        if self._committer.watch is not None:
            self._committer.watch.give_back()
        self.journal.close()

    def __repr__(self) -> str:
        return f"<Store {self.place}: {sum(self.journal.counts().values())} runs>"


def _committer(
    place: str, unserializable: Literal["error", "live"], folder: str | Path | None, trust: bool
) -> Committer:
    from flownb.store.artifacts import Artifacts  # a run that is kept nowhere needs none of these
    from flownb.store.codec import Codec
    from flownb.store.sealing import sealer_of

    if place == ":memory:":
        from flownb.store.memory import MemoryJournal

        live = Codec(defined, "live")
        return Committer(MemoryJournal(codec=live), live)
    is_url = "://" in place
    files = Artifacts(folder or (_default_folder() / "artifacts" if is_url else Path(place).with_suffix(".artifacts")))
    files.trust = trust
    sealer = sealer_of(os.environ)
    codec = Codec(defined, "live", artifacts=files, sealer=sealer)
    check = Codec(defined, "error", artifacts=files, sealer=sealer).check
    return Committer(_journal(place, codec), codec, check, unserializable, files, seals=sealer is not None)


def _journal(place: str, codec: Codec) -> Journal:
    if "://" in place:
        if not place.startswith(("postgresql://", "postgres://")):
            raise WorkflowConfigurationError(
                f"There are no {place.split('://', maxsplit=1)[0]!r} stores: a path, 'postgresql://...' or ':memory:'."
            )
        from flownb.store.postgres import PostgresJournal

        return PostgresJournal(place, codec)
    from flownb.store.sqlite import SqliteJournal, open_default

    path = Path(place)
    journal = open_default(path.parent, codec) if path == _default_place() else SqliteJournal(path, codec)
    journal.set_patience(PATIENCE_S)
    return journal


def _default_folder() -> Path:
    return Path.cwd() / ".flownb"


def _default_place() -> Path:
    """The store of a notebook."""
    return _default_folder() / "runs.db"


def store_for(wish: Any) -> Store | None:
    """The store of a new run: what was asked for, else in a kernel `.flownb/runs.db` in the working folder, else
    none (the run is kept in memory with its handle)."""
    if isinstance(wish, Store):
        return wish
    if wish is not None:
        place = str(wish)
        return _cached(place if place == ":memory:" or "://" in place else str(Path(place).resolve()), "error")
    if not in_kernel():
        return None
    try:
        return _cached(str(_default_place()), "live")
    except WorkflowConfigurationError as error:  # a read-only folder, say: the run is worth more than its record
        warnings.warn(f"Runs are kept in memory only: {error}", stacklevel=caller_level())
        return None


def _cached(place: str, unserializable: Literal["error", "live"]) -> Store:
    found = _open.get(place)
    if found is None:
        found = _open[place] = Store(place, unserializable=unserializable)
    return found
