"""`run.debug.to_test`: a run as a test for pytest, which replays it and asserts its ticks."""

from __future__ import annotations

import hashlib
import json
import keyword
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flownb.archiving import export_unstored
from flownb.core.ticks import AnyTick
from flownb.debug.compare import store_near
from flownb.debug.sameness import TITLED, title_of
from flownb.errors import WorkflowConfigurationError, WorkflowRuntimeError
from flownb.run import Run
from flownb.workflow import Workflow

#: In the first lines of every test that was written here.
MARK = "Written by run.debug.to_test"
SUFFIX = ".flownb.zip"
_HEAD = 2_000
_SEAL = "\n# As it was written: "

_TEST = '''\
"""Run {run_id} of {workflow}, replayed on the code as it is now.

{mark}. Steps whose source is the same are not run, their ticks are recorded; those that changed
run, and the test fails at the first place where they do otherwise. If that is right now, write the test anew.
"""

from pathlib import Path
{imports}
RECORDING = Path(__file__).with_name({recording})

{fixture}
def test_{name}({parameter}) -> None:
    run = replay_file(RECORDING, {flow})

    assert_replayed(run)
    assert titles(run.debug.ticks) == [
{titles}
    ]
'''
_FIXTURE = '''
@pytest.fixture
def flow():
    """The workflow that the run is of: it was defined in a notebook, and a test has to import it.

    Put the workflow into a module, import it here, and return it. Its events are found there by their names.
    """
    pytest.fail("Say where workflow {workflow} is imported from: edit the fixture `flow` in this file.")

'''


def to_test(run: Run[Any], path: str | Path) -> Path:
    """Write the test and, beside it, the recording.

    Args:
        run: The run.
        path: Of the test, `tests/test_x.py`.

    Returns:
        The test's file.

    Raises:
        WorkflowConfigurationError: A file is there that was not written here or was edited since, or the name ends
            otherwise.
        WorkflowRuntimeError: The run has no tick yet.
        NotStorable: A value of the run can be in no file.
        OSError: A file cannot be written.
    """
    target = Path(path)
    if target.suffix != ".py":
        raise WorkflowConfigurationError(f"A test is a file of Python: {str(target)!r} does not end with .py.")
    recording = target.with_suffix(SUFFIX)
    _refuse_other(target, recording)
    if not run._runner.ticks:
        raise WorkflowRuntimeError(f"Run {run.run_id!r} has no tick yet: there is nothing to test.")
    target.parent.mkdir(parents=True, exist_ok=True)
    store = store_near(run)
    if store is not None:
        store.export(run.run_id, recording)
    else:
        export_unstored(run._runner, recording)
    target.write_text(_sealed(text_of(run, recording.name)), "utf-8")
    return target


def _refuse_other(target: Path, recording: Path) -> None:
    """Raises WorkflowConfigurationError if something would be lost."""
    if target.exists():
        with target.open(encoding="utf-8", errors="replace") as file:
            text = file.read()
        if MARK not in text[:_HEAD]:
            raise WorkflowConfigurationError(
                f"{str(target)!r} is there, and to_test did not write it: name another file, or remove that one."
            )
        if not _is_as_written(text):
            raise WorkflowConfigurationError(
                f"{str(target)!r} was edited since to_test wrote it: name another file, or remove that one."
            )
    elif recording.exists():
        raise WorkflowConfigurationError(
            f"{str(recording)!r} is there without its test {target.name!r}, so it may be something else: name another "
            "file, or remove that one."
        )


def _sealed(text: str) -> str:
    """The text with a last line that tells whether it is as it was written."""
    return f"{text}{_SEAL}{hashlib.sha256(text.encode()).hexdigest()[:16]}\n"


def _is_as_written(text: str) -> bool:
    before, seal, _ = text.rpartition(_SEAL)
    return bool(seal) and _sealed(before) == text


def text_of(run: Run[Any], recording: str) -> str:
    """The test as text."""
    spec = run._runner.state.spec
    module, expression = place_of(run)
    testing = "from flownb.testing import assert_replayed, replay_file, titles\n"
    if module:
        name = expression.partition("(")[0]
        imports = "\n" + "".join(sorted([testing, f"from {module} import {name}\n"]))
        fixture, parameter, flow = "", "", expression
    else:
        imports = f"\nimport pytest\n\n{testing}"
        fixture, parameter, flow = _FIXTURE.format(workflow=_in_text(spec.name)), "flow", "flow"
    lines = [f"        {json.dumps(title, ensure_ascii=False)}," for title in titles(run._runner.ticks)]
    return _TEST.format(
        run_id=_in_text(run.run_id),
        workflow=_in_text(spec.name),
        mark=MARK,
        imports=imports,
        recording=json.dumps(recording, ensure_ascii=False),
        fixture=fixture,
        name=_identifier(f"{spec.name}_{run.run_id}"),
        parameter=parameter,
        flow=flow,
        titles="\n".join(lines),
    )


def titles(ticks: Iterable[AnyTick]) -> list[str]:
    """One line a tick, kind, step and events by their types; without those that tell how the run was driven."""
    return [title_of(tick) for tick in ticks if isinstance(tick, TITLED)]


def place_of(run: Run[Any]) -> tuple[str, str]:
    """Where a run's workflow is imported from: a module, and the expression that gives it; ("", "") for a notebook's,
    and for one that stands in no module by a name."""
    flow = run._workflow
    key = flow.definition.spec.key if flow is not None else run._runner.state.spec.key
    module, _, qualname = key.partition(":")
    space = vars(sys.modules[module]) if module in sys.modules and module != "__main__" else {}
    for name, value in space.items():
        if value is flow and flow is not None and not name.startswith("_"):
            return module, name
    kind = space.get(qualname)
    if isinstance(kind, type) and issubclass(kind, Workflow) and _is_made_alone(kind):
        return module, f"{qualname}()"
    return "", ""


def _is_made_alone(kind: type[Workflow[Any]]) -> bool:
    try:
        kind()
    except Exception:  # its constructor takes arguments, or is not to be called here
        return False
    return True


def _identifier(text: str) -> str:
    found = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").lower() or "run"
    return f"{found}_" if keyword.iskeyword(found) else found


def _in_text(text: str) -> str:
    """Somebody's words inside a string of the test: nothing of them can end it."""
    return re.sub(r"[^\w .,:/()-]", "?", text)


__all__ = ["MARK", "place_of", "text_of", "titles", "to_test"]
