"""What a run starts with: its start event, and the run that an id may have already."""

from __future__ import annotations

import re
import secrets
import threading
from typing import Any
from weakref import WeakValueDictionary

from pydantic import ValidationError

from flownb.core.graph import short
from flownb.core.spec import takers
from flownb.core.ticks import RunStarted
from flownb.core.values import alike
from flownb.definition import Definition
from flownb.errors import RunConflict, WorkflowConfigurationError, WorkflowValidationError
from flownb.events import Event, StartEvent, newest
from flownb.runs import Store
from flownb.runtime.runner import Runner

_RUN_ID = re.compile(r"[A-Za-z0-9._-]{1,128}\Z")
#: Runs of this process that are live, suspended or held by somebody, by store and id.
known: WeakValueDictionary[tuple[Store | None, str], Runner] = WeakValueDictionary()
#: Held while a run is looked for and put into `known`: of threads that ask at once all get the same runner.
finding = threading.RLock()
#: Suspended runs, which may be resumed though nobody holds them.
resting: set[Runner] = set()


def checked_id(run_id: str | None) -> str:
    """The id of a new run: the given one, or a new one (R5.3).

    Raises:
        WorkflowConfigurationError: It has other characters, or too many.
    """
    if run_id is None:
        return secrets.token_hex(4)
    if not _RUN_ID.match(run_id):
        raise WorkflowConfigurationError(
            f"run_id {run_id!r} is not 1 to 128 of letters, digits, '.', '_' and '-'.", run_id=run_id
        )
    return run_id


def same_run(store: Store | None, run_id: str, definition: Definition, first: StartEvent | None) -> Runner | None:
    """The run that has this id already (R5.1), None if the id is free.

    Args:
        store: Where the run would be kept.
        run_id: Its id.
        definition: Of the workflow.
        first: Its input; None for a run that goes on from a snapshot.

    Raises:
        RunConflict: It has another input or workflow.
    """
    found = known.get((store, run_id))
    if found is None and store is not None and store.journal.last_seq(run_id):
        from flownb.launch import PLAIN  # they build on this module
        from flownb.restoring import restored

        found = restored(store, run_id, None, PLAIN)
    if found is not None:
        started = found.first
        differs = ["workflow"] if started_spec(found).name != definition.spec.name else []
        if not isinstance(started, RunStarted) or first is None or not alike(started.out.value, first):
            differs.append("input")
        if differs:
            raise RunConflict(
                f"There is a run {run_id!r} already, with another {' and '.join(differs)}. Give another run_id.",
                run_id=run_id,
                differs=tuple(differs),
            )
        return found
    return None


def started_spec(runner: Runner) -> Any:
    """The spec that a run began with; it may have adopted a newer one since."""
    first = runner.ticks[0] if runner.ticks else runner.first
    return first.spec if isinstance(first, RunStarted) else first.snapshot.spec  # type: ignore[union-attr]


def start_event(definition: Definition, event: StartEvent | None, fields: dict[str, Any]) -> StartEvent:
    """The input of a run, from an object or from its fields.

    Raises:
        WorkflowConfigurationError: Both were given, or an object that no step takes.
        WorkflowValidationError: The fields do not fit.
    """
    kind = newest(definition.spec.start) or definition.start
    if event is not None:
        if fields:
            raise WorkflowConfigurationError("Give a start event or its fields, not both.")
        if not isinstance(event, StartEvent):
            raise WorkflowConfigurationError(f"{event!r} is no StartEvent; run takes {short(definition.spec.start)}.")
        key, role, bases = type(event).__flownb_kind__
        if not takers(definition.spec, key, role, bases):
            raise WorkflowConfigurationError(
                f"No step of workflow {definition.spec.name!r} takes {key}; run takes {short(definition.spec.start)}."
            )
        return event
    _refuse_misspelt(definition, kind, fields)
    try:
        return kind(**fields)  # type: ignore[return-value]
    except ValidationError as error:
        lacking = [str(e["loc"][0]) for e in error.errors() if e["type"] == "missing" and len(e["loc"]) == 1]
        said = [
            f"start field {'.'.join(map(str, e['loc']))}: {e['msg']}"
            for e in error.errors()
            if e["type"] != "missing" or len(e["loc"]) > 1
        ]
        if lacking:
            needs = ", ".join(name for name, f in kind.model_fields.items() if f.is_required())
            given = f"given: {', '.join(fields)}" if fields else "nothing was given"
            said.append(f"{kind.__name__} needs: {needs}; {given}.")
        raise WorkflowValidationError(definition.spec.name, said) from None


def _refuse_misspelt(definition: Definition, kind: type[Event], fields: dict[str, Any]) -> None:
    """An undeclared start field is kept, but one that looks like a declared one which was not given is a typo."""
    left = [name for name in kind.model_fields if name not in fields]
    for name in fields:
        if left and name not in kind.model_fields:
            import difflib  # only an undeclared name pays for it

            close = difflib.get_close_matches(name, left, n=1)
            if close:
                raise WorkflowValidationError(
                    definition.spec.name,
                    [f"{kind.__name__} has no start field {name!r}. Did you mean {close[0]!r}?"],
                )
