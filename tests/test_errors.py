"""Every error says what, where and how to mend it, and survives pickling."""

import copy
import inspect
import os
import pickle
from typing import Any

import pytest

import flownb
from flownb import errors
from flownb.errors import WorkflowError, WorkflowStepDoesNotExistError, WorkflowValidationError, near

CLASSES = [
    cls
    for _, cls in inspect.getmembers(errors, inspect.isclass)
    if issubclass(cls, BaseException) and cls.__module__ == errors.__name__
]
MADE: dict[str, Any] = {
    "WorkflowValidationError": lambda: WorkflowValidationError("triage", ["one fault", "another"]),
    "WorkflowStepDoesNotExistError": lambda: WorkflowStepDoesNotExistError("fid", workflow="t", known=["find", "sort"]),
}


def one_of(cls: type[BaseException]) -> BaseException:
    if cls.__name__ in MADE:
        return MADE[cls.__name__]()
    return cls("words", step="s", run_id="r", n=3) if issubclass(cls, WorkflowError) else cls("words")


def test_there_are_errors_to_test():
    assert len(CLASSES) > 25


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
@pytest.mark.parametrize("again", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy, copy.deepcopy])
def test_every_error_comes_back_whole(cls: type[BaseException], again: Any):
    error = one_of(cls)
    error.add_note("a note")
    back = again(error)
    assert type(back) is cls
    assert (str(back), back.args) == (str(error), error.args)
    assert vars(back) == vars(error)
    assert back.__notes__ == ["a note"]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_every_error_has_a_docstring_and_is_importable_flat(cls: type[BaseException]):
    assert cls.__doc__
    assert getattr(flownb, cls.__name__) is cls


def test_families():
    """API §8: which builtin and which of ours each one is."""
    for name in ("WorkflowTimeoutError", "AnswerTimeout"):
        assert issubclass(getattr(errors, name), TimeoutError)
    for name in [
        "AlreadyAnswered",
        "RequestClosed",
        "RequestDisposed",
        "AmbiguousAnswer",
        "NobodyToAnswer",
        "AnswerTimeout",
        "AnswerInvalid",
    ]:
        assert issubclass(getattr(errors, name), errors.RequestError)
    assert issubclass(errors.WorkflowStepDoesNotExistError, LookupError)
    assert not issubclass(errors.AttemptOver, Exception)
    assert all(issubclass(cls, WorkflowError) for cls in CLASSES if cls is not errors.AttemptOver)


def test_fields_stand_on_the_error():
    error = WorkflowStepDoesNotExistError("fid", workflow="triage", known=["find", "sort"])
    assert (error.step, error.workflow, error.known) == ("fid", "triage", ("find", "sort"))
    assert str(error) == "Workflow 'triage' has no step 'fid'. Did you mean 'find'?"
    assert WorkflowValidationError("t", ["x"]).faults == ("x",)


def test_validation_errors_count_their_faults():
    assert str(WorkflowValidationError("t", ["x"])) == "Workflow 't' has a fault:\n  1. x"
    assert str(WorkflowValidationError("t", ["x", "y"])) == "Workflow 't' has 2 faults:\n  1. x\n  2. y"


def test_near_misses_are_suggested_else_all_are_listed():
    assert near("fid", ["find", "sort"], "There are") == "Did you mean 'find'?"
    assert near("zzz", ["find", "sort"], "There are") == "There are find, sort."
    assert near("zzz", [], "There are") == "There are none."


def test_a_warning_of_a_definition_points_at_the_users_line(recwarn: pytest.WarningsRecorder):
    """Whatever stands between: `run`, `with_options(...).run`, `validate`."""
    from flownb import Event, StartEvent, StopEvent, Workflow

    class Lost(Event):
        pass

    for begin in ("run", "options", "validate"):
        flow = Workflow("warned")

        @flow.step
        async def work(ev: StartEvent) -> Lost | StopEvent:
            return StopEvent()

        if begin == "run":
            flow.run().result(20)
        elif begin == "options":
            flow.with_options(timeout=5).run().result(20)
        else:
            flow.validate()
    assert [os.path.basename(each.filename) for each in recwarn] == ["test_errors.py"] * 3
