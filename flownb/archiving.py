"""Runs of a store as files, and back: with their children, and with the files of large values (R7.12).

What an archive tells of a run is not believed: status, workflow and parent are read from its ticks, as far as those are
sound, with no class of a user and no file opened. So nothing of it is run, and one that was cut off is never completed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from msgspec import Struct

from flownb.answering import family
from flownb.core.reduce import advance
from flownb.core.state import RunState, shown_status
from flownb.core.ticks import AnyTick
from flownb.errors import JournalDamaged, RunConflict, RunNotFound, WorkflowConfigurationError
from flownb.runtime.runner import Runner
from flownb.starting import known
from flownb.store.archive import ArchivedRun, read_archive, without_secrets, write_archive
from flownb.store.artifacts import Artifacts
from flownb.store.codec import Codec
from flownb.store.drivers import IMPORTED, is_imported
from flownb.store.journal import Journal, Raw, RunRow, definition_of

if TYPE_CHECKING:
    from flownb.runs import Store

_ID = re.compile(r"[A-Za-z0-9._-]{1,128}(/[A-Za-z0-9._-]{1,128})*")
_ID_LENGTH = 1000


class Imported(Struct, frozen=True):
    """What came of an import."""

    run_id: str
    #: What is not there of it, in sentences.
    faults: tuple[str, ...] = ()
    #: Something was written; else the same run was there already.
    is_new: bool = True


def export_run(store: Store, run_id: str, path: str | Path) -> Path:
    """As `Store.export` says. A file of a value that is missing here is missing there."""
    journal = store.journal
    rows = [journal.row(run_id)]
    if rows[0] is None:
        raise RunNotFound(f"There is no run {run_id!r} in {store.place}.", run_id=run_id)
    for row in rows:  # grows while it is walked: children of children
        assert row is not None
        rows += reversed(journal.runs(parent=row.run_id))
    runs = [
        ArchivedRun(
            row.run_id,
            journal.raw(row.run_id),
            {"workflow": row.workflow, "status": row.status},
            sound=journal.sound(row.run_id),
        )
        for row in rows
        if row is not None
    ]
    path = Path(path)
    write_archive(path, runs, store.artifacts)
    return path


def export_unstored(runner: Runner, path: str | Path) -> Path:
    """The same of a run that is in no store, with its children.

    Raises:
        NotStorable: A value of it can be in no file; names event and field.
        OSError: The file cannot be written.
    """
    with TemporaryDirectory(prefix="flownb-") as folder:
        artifacts = Artifacts(folder)
        codec = Codec(_no_class, "error", artifacts=artifacts)
        runs = [
            ArchivedRun(
                each.run_id,
                [(seq, tick.at, *codec.encode(tick)) for seq, tick in enumerate(tuple(each.ticks), 1)],
                {"workflow": each.state.spec.name, "status": shown_status(each.state)},
            )
            for each in family(runner)
        ]
        path = Path(path)
        write_archive(path, runs, artifacts)
    return path


class Folded(Struct, frozen=True):
    """What the ticks of an archived run fold to, and what its file says of it."""

    run_id: str
    #: Of the workflow; "" if nothing of it can be read.
    workflow: str
    #: How many ticks are sound.
    ticks: int
    #: As the ticks tell, and as the file does; "" if that says nothing.
    status: str
    said: str
    #: Why the ticks are sound only so far; "" if all are.
    fault: str = ""

    @property
    def is_sound(self) -> bool:
        """All its ticks follow from each other, and lead to what the file says."""
        return not self.fault and self.said in ("", self.status)


def fold_archive(path: str | Path) -> list[Folded]:
    """Fold the ticks of an exported run and of its children: no class of a user is made, and no code is run.

    Raises:
        RunNotFound: There is no such file.
        JournalDamaged: It is no such file.
    """
    found = []
    for archived in read_archive(path).runs:
        row, rows, fault = _sound(archived)
        said = archived.about.get("status")
        found.append(
            Folded(
                archived.run_id,
                row.workflow if row is not None else "",
                len(rows),
                row.status if row is not None else "",
                said if isinstance(said, str) else "",
                fault,
            )
        )
    return found


def import_run(store: Store, path: str | Path) -> Imported:
    """As `Store.import_` says."""
    if store.artifacts is not None and store.artifacts.trust:
        raise WorkflowConfigurationError(
            f"{store.place} reads pickles (trust=True), which run what their author wanted, and a file may come from "
            "anybody: import it into a store without trust."
        )
    archive = read_archive(path, store.artifacts)
    first = archive.runs[0]
    new, faults = [], []
    for archived in archive.runs:
        _check_id(archived.run_id, first.run_id, path)
        row, rows, fault = _sound(archived)
        if row is None:
            if archived is first:
                raise JournalDamaged(
                    f"{str(path)!r} cannot be read as a run: {fault}.", run_id=archived.run_id, seq=1, reason=fault
                )
            faults.append(f"Child {archived.run_id!r} is missing: {fault}.")
            continue
        if fault:
            faults.append(f"Run {row.run_id!r} ends with its tick {row.seq}: {fault}.")
        if not _is_there(store.journal, row, rows, store.place):
            new.append((row, rows))
    if archive.missing:
        faults.append(f"{len(archive.missing)} files of large values are missing or damaged.")
    if new:
        store.journal.restore(new)
        for row, _ in new:  # who looked at an older copy looks anew
            known.pop((store, row.run_id), None)
    return Imported(first.run_id, tuple(faults), bool(new))


def _check_id(run_id: str, first: str, path: str | Path) -> None:
    is_own = run_id == first or run_id.startswith(f"{first}/")
    if not is_own or len(run_id) > _ID_LENGTH or not _ID.fullmatch(run_id):
        reason = f"{run_id[:80]!r} is no id of a run, or not of a child of {first[:80]!r}"
        raise JournalDamaged(f"{str(path)!r} cannot be read as a run: {reason}.", run_id="", seq=0, reason=reason)


def _sound(archived: ArchivedRun) -> tuple[RunRow | None, Sequence[Raw], str]:
    """What a store lists of a run, its ticks up to the first that cannot be read or makes no sense after the others,
    and what is wrong with that one."""
    codec = Codec(_no_class, opens_files=False)
    ticks: list[AnyTick] = []
    state: RunState | None = None
    fault = archived.fault
    for raw in archived.rows:
        try:
            tick = codec.decode(*raw)
            state, _ = advance(state, tick)
        except JournalDamaged as error:
            fault = str(error).rstrip(".")
            break
        except Exception as error:  # as in `restoring`: it can be read, and makes no sense here
            fault = f"tick {raw[0]} does not follow from those before it: {type(error).__name__}: {error}"
            break
        ticks.append(tick)
    spec = definition_of(ticks)
    if state is None or spec is None:
        return None, (), fault or "it has no tick"
    row = RunRow(
        archived.run_id,
        spec.name,
        shown_status(state),
        len(ticks),
        ticks[0].at,
        ticks[-1].at,
        spec.key,
        spec.hash,
        state.head.parent.run_id if state.head.parent is not None else "",
        driver=f"{IMPORTED}{fault}",
    )
    return row, archived.rows[: len(ticks)], fault


def _is_there(journal: Journal, row: RunRow, rows: Sequence[Raw], place: str) -> bool:
    """Whether a store has a run already, at this tick or a later one.

    Raises:
        RunConflict: It has another one of that id.
    """
    found = journal.row(row.run_id)
    if found is None:
        return False
    there = [(seq, at, kind, without_secrets(kind, body)) for seq, at, kind, body in journal.raw(row.run_id)]
    n = min(len(there), len(rows))
    if there[:n] != list(rows[:n]) or (len(there) < len(rows) and not is_imported(found.driver)):
        raise RunConflict(
            f"There is another run {row.run_id!r} in {place}. Import it into another store: Store('other.db').",
            run_id=row.run_id,
            differs=("ticks",),
        )
    return len(there) >= len(rows)


def _no_class(key: str) -> None:
    return None
