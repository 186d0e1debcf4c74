"""Replays of runs that lie in files, as `flownb export` and `run.debug.to_test` write them."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace

from flownb.archiving import import_run
from flownb.debug.replay import replay, settled
from flownb.errors import JournalDamaged
from flownb.events import RunAgain
from flownb.launch import Launcher, Settings
from flownb.run import Run
from flownb.runs import Store
from flownb.store import escapes
from flownb.store.archive import Row, read_archive, write_archive
from flownb.store.artifacts import Artifacts

if TYPE_CHECKING:
    from flownb.workflow import Workflow

#: What a class or a workflow of a notebook or a script is called in a journal.
_MAIN = "__main__:"
_KEY = re.compile(r"__main__:[A-Za-z_][\w.<>]*")

RunAgainAnswer = Literal["run", "recorded", "skip"]


def replay_file(
    path: str | Path,
    workflow: Workflow[Any] | Launcher[Any],
    *,
    live: Collection[Any] = (),
    run_again: RunAgainAnswer | None = None,
    timeout: float | None = 60.0,
) -> Run[Any]:
    """Play an exported run back on a workflow's code, in memory, as far as it goes by itself.

    The classes of its events are those of this process. Those of a notebook are taken for the ones of the same names in
    the workflow's module.

    Args:
        path: The file.
        workflow: Whose code runs where it changed.
        live: Further steps to run: functions or names.
        run_again: What changed steps with `idempotent=False` do; None opens the question.
        timeout: So many seconds the code of changed steps may take; None: any.

    Returns:
        The replay: over, or paused where the recording ends, or waiting for an answer that was not recorded.

    Raises:
        RunNotFound: There is no such file.
        JournalDamaged: Nothing of it, or not all, can be read.
        WorkflowConfigurationError: The workflow does not take the run's input.
        TimeoutError: It took longer.
    """
    flow, settings = (workflow._workflow, workflow._settings) if isinstance(workflow, Launcher) else (workflow, None)
    answers = None if run_again is None else {RunAgain: {"decision": run_again}}
    with TemporaryDirectory(prefix="flownb-") as folder:
        named = Path(folder, "named.zip")
        of_module = _of_module(path, named, flow)
        store = Store(Path(folder, "runs.db"))
        try:
            imported = import_run(store, of_module)
            if imported.faults:
                said = " ".join(imported.faults)
                raise JournalDamaged(f"{str(path)!r}: {said}", run_id=imported.run_id, seq=0, reason=said)
            recorded = store.run(imported.run_id)
            here = replace(settings or Settings(), store=Store(":memory:"), panel="off", on_interrupt="detach")
            if answers is not None:
                here = replace(here, answers={**(here.answers or {}), **answers})
            recorded._settings = here
            run = replay(recorded, flow, live)
            settled(run).result(timeout)
        finally:
            store.close()
    return run


def _of_module(path: str | Path, named: Path, workflow: Workflow[Any]) -> str | Path:
    """The file, or if its run was started in a notebook or a script and the workflow is of a module now, another file
    in which its classes are of that module."""
    module = workflow.definition.spec.key.partition(":")[0]
    if module == "__main__":
        return path
    artifacts = Artifacts(named.with_suffix(".artifacts"))
    archive = read_archive(path, artifacts)
    if not any(row[3].find(b'"__main__:') >= 0 for run in archive.runs for row in run.rows[:1]):
        return path
    runs = [replace(run, rows=[_row_of_module(row, module) for row in run.rows]) for run in archive.runs]
    write_archive(named, runs, artifacts)
    return named


def _row_of_module(row: Row, module: str) -> Row:
    seq, at, kind, body = row
    return seq, at, kind, escapes.dump(_moved(escapes.load(body), module))


def _moved(tree: Any, module: str) -> Any:
    if isinstance(tree, list):
        return [_moved(part, module) for part in tree]
    if isinstance(tree, dict):
        return {_moved(key, module): _moved(part, module) for key, part in tree.items()}
    if isinstance(tree, str) and tree.startswith(_MAIN) and _KEY.fullmatch(tree):
        return f"{module}:{tree.removeprefix(_MAIN)}"
    return tree


__all__ = ["RunAgainAnswer", "replay_file"]
