"""`resume`: a run goes on in this terminal, which asks its questions if somebody sits there."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any

from flownb.answering import answer_request
from flownb.cli.answers import Schema, command_for, fields_of, prompts_for, value_of
from flownb.cli.words import brief, clean, question_of, words_of
from flownb.errors import (
    AnswerInvalid,
    RequestError,
    RunOwnedElsewhere,
    WorkflowConfigurationError,
    WorkflowError,
    WorkflowNotDefined,
    near,
)
from flownb.launch import Launcher
from flownb.requests import Request
from flownb.run import Run
from flownb.runs import Store
from flownb.runtime.stored import UNLOADED, is_viewed
from flownb.store.drivers import describe
from flownb.workflow import Workflow

#: Between two looks at what a run asks, in seconds.
LOOK_S = 0.2
#: In so many seconds running steps may finish, and their ends be written, when somebody presses Ctrl-C.
DRAIN_S = 1.0

Say = Callable[[str], None]


class Interrupted(Exception):
    """Somebody pressed Ctrl-C; the run is suspended."""


class Held:
    """Ctrl-C while a run is taken over counts when it is there, so that it is suspended and not just left; a second one
    counts at once."""

    def __init__(self) -> None:
        self._is_pressed = False
        self._before: Any = None

    def __enter__(self) -> Held:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._press)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._before is not None and signal.getsignal(signal.SIGINT) == self._press:
            signal.signal(signal.SIGINT, self._before)
        self._before = None

    def _press(self, *signalled: object) -> None:
        if self._is_pressed:
            raise KeyboardInterrupt
        self._is_pressed = True

    def let_go(self) -> None:
        """From now on it counts as ever, and what was held counts now.

        Raises:
            KeyboardInterrupt: It was pressed meanwhile.
        """
        self.__exit__()
        if self._is_pressed:
            raise KeyboardInterrupt


def workflow_at(place: str) -> Launcher[Any] | Workflow[Any]:
    """The workflow that `module:workflow` names, from the working folder first.

    Raises:
        WorkflowNotDefined: It is not there, or its module cannot be imported.
        WorkflowConfigurationError: What is there is no workflow.
    """
    name, _, path = place.partition(":")
    module = _module(name)
    if not path:
        flows = [each for each, value in vars(module).items() if isinstance(value, Workflow)]
        if len(flows) != 1:
            raise WorkflowNotDefined(
                f"Module {name!r} has {len(flows)} workflows: say which, {name}:{flows[0] if flows else 'workflow'}.",
                workflow=place,
            )
        path = flows[0]
    found: Any = module
    named = [value for value in vars(module).values() if isinstance(value, Workflow) and value.name == path]
    for part in path.split("."):
        if not hasattr(found, part):
            if named:  # by its own name, as runs know it
                return named[0]
            known = [each for each, value in vars(module).items() if _is_flow(value)]
            raise WorkflowNotDefined(
                f"Module {name!r} has no {path!r}. {near(path, known, 'Its workflows are')}", workflow=place
            )
        found = getattr(found, part)
    if isinstance(found, type) and issubclass(found, Workflow):
        try:
            return found()
        except TypeError as error:
            raise WorkflowConfigurationError(
                f"{place} cannot be made without arguments ({clean(error)}): make one in its module, and name that."
            ) from None
    if not isinstance(found, Workflow | Launcher):
        raise WorkflowConfigurationError(f"{place} is no workflow, but {brief(repr(found))}.")
    return found


def _is_flow(value: Any) -> bool:
    return isinstance(value, Workflow | Launcher) or (
        isinstance(value, type) and issubclass(value, Workflow) and value is not Workflow
    )


def _module(name: str) -> ModuleType:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except Exception as error:  # whatever the code of a user raises
        if isinstance(error, ModuleNotFoundError) and error.name and (name + ".").startswith(f"{error.name}."):
            raise WorkflowNotDefined(
                f"There is no module {name!r}, neither in {here} nor installed.", workflow=name
            ) from None
        last = traceback.extract_tb(error.__traceback__)[-1]
        raise WorkflowNotDefined(
            f"Module {name!r} cannot be imported: {type(error).__name__}: {clean(error)} "
            f"({last.filename}, line {last.lineno}).",
            workflow=name,
        ) from error


def resume(place: str, store: Store, run_id: str | None) -> Run[Any]:
    """Drive a run of a workflow from here: that one, or its latest that is not over.

    Raises:
        RunOwnedElsewhere: Another process drives it.
        WorkflowNotDefined: Its classes are of a notebook or a script, which nobody can import.
    """
    flow = workflow_at(place)
    row = store.journal.row(run_id) if run_id else None
    if row is not None and row.key.startswith("__main__:"):
        raise WorkflowNotDefined(
            f"Run {run_id!r} was started in a notebook or by `python script.py`: its events are classes of that, and "
            f"no module has them. Go on there: flow.resume({run_id!r}). To be resumed from here, a workflow is defined "
            "in a module that the script imports.",
            workflow=row.key,
        )
    if run_id:
        driver = store.journal.holder(run_id).driver if row is not None else ""
        _refuse_driven(store, run_id, driver)
    run = flow.with_options(store=store, on_interrupt="detach", panel="off").resume(run_id)
    if is_viewed(run._runner) and not run.is_done():
        raise RunOwnedElsewhere(f"Run {run.run_id!r} cannot be driven from here: {run._runner.suspended}.")
    return run


def _refuse_driven(store: Store, run_id: str, driver: str) -> None:
    if driver and driver != store._committer.driver and store.journal.holder(run_id).is_live():
        raise RunOwnedElsewhere(
            f"Run {run_id!r} is driven by {describe(driver)}. It can be looked at, answered and cancelled from here.",
            run_id=run_id,
            driver=driver,
        )


def wait(
    run: Run[Any],
    say: Say,
    ask: Callable[[str], str] | None,
    store_part: list[str],
    begin: Callable[[], None] = lambda: None,
) -> None:
    """Wait for the end, and let its questions be answered.

    Args:
        run: It is driven here.
        say: Prints a line for people.
        ask: Asks somebody for a line; None: nobody sits there.
        store_part: What a command that is told has to say of the store.
        begin: Called where Ctrl-C suspends the run already.

    Raises:
        Interrupted: Somebody pressed Ctrl-C; it is suspended.
        RunOwnedElsewhere: Another process drives it by now, or somebody suspended it.
    """
    told: set[str] = set()
    try:
        begin()
        while not run.is_done():
            for request in list(run.requests):
                if request.id not in told and request.status == "open":
                    told.add(request.id)
                    if ask is None or not _put(request, say, ask):
                        _tell(request, say, store_part)
            if run._runner.suspended not in ("", UNLOADED) and not run.is_done():
                raise RunOwnedElsewhere(
                    f"Run {run.run_id!r} is not driven from here any more: {run._runner.suspended}."
                )
            try:
                run._runner.end.result(LOOK_S)
            except TimeoutError:
                continue
            except Exception:  # the run's own end, which is told by `result`
                return
    except KeyboardInterrupt:
        if run.is_done():
            return
        run.suspend(DRAIN_S).result(DRAIN_S + 5)
        raise Interrupted from None


def _tell(request: Request[Any], say: Say, store_part: list[str]) -> None:
    schema = _schema(request)
    say(f"{clean(request.step)} asks: {question_of(request.question)}")
    say(f"  {words_of(command_for(request.id, schema, store_part))}")
    for line in fields_of(schema):
        say(f"      {line}")


def _schema(request: Request[Any]) -> dict[str, Any] | None:
    stored = request._runner.stored
    return None if stored is None else stored.committer.schema(request._runner.run_id, request.number)


def _put(request: Request[Any], say: Say, ask: Callable[[str], str]) -> bool:
    """Ask a question in the terminal. False: it was left open."""
    schema = _schema(request)
    say(f"{clean(request.step)} asks: {question_of(request.question)}")
    while request.status == "open":
        typed = _typed(schema, ask)
        if typed is None:
            say("It stays open.")
            return False
        value, fields = typed
        try:
            answer_request(request._runner, request._opened, value, None, fields)
        except AnswerInvalid as error:
            say(f"{error} (Ctrl-D leaves it open.)")
        except RequestError as error:  # somebody was faster, or its time is over
            say(str(error))
    return True


def _typed(schema: Schema | None, ask: Callable[[str], str]) -> tuple[Any, dict[str, Any]] | None:
    """What somebody types for each field; None: nothing for the first that must be there."""
    fields: dict[str, Any] = {}
    defs = (schema or {}).get("$defs", {})
    for name, part, words, must in prompts_for(schema):
        try:
            text = ask(f"  {name or 'answer'} ({words}){'' if must else ', Enter leaves it out'}: ")
        except EOFError:
            return None
        if not text.strip():
            if must:
                return None
            continue
        value = value_of(text, part, defs)
        if not name:
            return value, {}
        fields[name] = value
    return None, fields


def outcome_of(run: Run[Any]) -> Any:
    """The result.

    Raises:
        WorkflowError: It did not complete; says why.
    """
    if run.error is not None:  # it is told here: nobody else has to be warned of it
        raise WorkflowError(f"Run {run.run_id!r}: {clean(run.why())}")
    return run.result(10)
