"""The decorators give back the function; `@on_cancel`, and where steps may stand."""

from typing import Any

import pytest

from flownb import (
    Context,
    Event,
    Run,
    StartEvent,
    StopEvent,
    Workflow,
    catch_error,
    decorators,
    handler,
    on_cancel,
    step,
)
from flownb.errors import WorkflowConfigurationError
from flownb.events import StepFailedEvent, WorkflowCancelledEvent
from tests.definition.checks import faults_in, fine


class Begin(StartEvent):
    pass


class Row(Event):
    pass


def only(ev: Begin) -> StopEvent:
    return StopEvent()


class Tidy(Workflow[None]):
    @step
    def only(self, ev: Begin) -> StopEvent:
        return StopEvent()

    @on_cancel
    def plain(self) -> None: ...

    @on_cancel
    async def told(self, ev: WorkflowCancelledEvent, ctx: Context) -> None: ...


def test_a_step_for_cancelled_runs_takes_no_part_in_the_graph():
    """R5.51: it stands in no route, and is neither unreached nor a dead end."""
    flow = Tidy()
    spec = flow.definition.spec
    assert [(s.name, s.on_cancel, s.accepts) for s in spec.steps[1:]] == [("plain", True, ()), ("told", True, ())]
    assert spec.on_cancel == (1, 2)
    assert spec.routes["flownb.events:WorkflowCancelledEvent"] == ()
    assert flow.definition.class_of("flownb.events:WorkflowCancelledEvent") is WorkflowCancelledEvent
    assert [flow.steps[name].plan for name in ("plain", "told")] == [(), ("event", "context")]


def test_in_cells_and_for_classes_too():
    """API §4."""
    flow = fine(only)

    @flow.on_cancel
    def bye() -> None: ...

    class Open(Workflow[None]):
        @step
        def only(self, ev: Begin) -> StopEvent:
            return StopEvent()

    @on_cancel(workflow=Open)
    def free(ctx: Context): ...  # type: ignore[no-untyped-def]

    assert flow.definition.spec.on_cancel == (1,)
    assert Open().definition.spec.on_cancel == (1,)


@pytest.mark.parametrize("hint", [Row, Begin, list[WorkflowCancelledEvent], WorkflowCancelledEvent | Row])
def test_it_takes_the_event_that_says_so_or_nothing(hint: Any):
    """R8.5."""
    flow = fine(only)

    def bye(ev: Any) -> None: ...

    bye.__annotations__["ev"] = hint
    flow.on_cancel(bye)
    assert faults_in(flow) == [
        "step 'bye' runs when the run is cancelled: it takes `ev: WorkflowCancelledEvent` or no event, and may take "
        "the context."
    ]


def test_it_returns_nothing():
    """R5.51: no send is routed."""
    flow = fine(only)

    @flow.on_cancel  # type: ignore[type-var]
    def bye() -> StopEvent: ...  # type: ignore[empty-body]

    assert faults_in(flow) == [
        "step 'bye' runs when the run is cancelled, where nothing is routed any more. Write `-> None`."
    ]


def test_the_function_itself_is_given_back():
    """API §4."""
    assert step(only) is only
    assert step(num_workers=1)(only) is only
    assert catch_error(only) is only
    assert on_cancel(only) is only  # type: ignore[type-var]
    assert Workflow[Any]("w").catch_error(max_recoveries=2)(only) is only
    assert Tidy.plain(Tidy()) is None  # type: ignore[func-returns-value]


@pytest.mark.parametrize("mark", [step, catch_error, on_cancel])
def test_a_free_function_is_added_to_a_workflow_or_its_class(mark: Any):
    with pytest.raises(WorkflowConfigurationError, match="workflow=5 is neither a workflow nor a class of one"):
        mark(workflow=5)(only)
    with pytest.raises(WorkflowConfigurationError, match="is neither a workflow nor a class of one"):
        mark(workflow=Workflow)(only)


def test_the_same_function_in_two_workflows():
    """A reused step keeps the options that each workflow gave it."""
    one, two = Workflow[Any]("one"), Workflow[Any]("two")
    one.step(num_workers=1)(only)
    two.step(num_workers=2)(only)
    assert (one.steps["only"].options.num_workers, two.steps["only"].options.num_workers) == (1, 2)


def test_older_import_lines_find_their_names():
    """API §1."""
    import flownb

    assert (decorators.step, decorators.catch_error) == (step, catch_error)
    assert handler.WorkflowHandler is Run
    assert flownb.WorkflowHandler is Run
    assert flownb.StepFailedEvent is StepFailedEvent
    assert flownb.stop_after_attempt is flownb.retry_policy.stop_after_attempt
    assert flownb.RetryPolicy is flownb.retry_policy.RetryPolicy


def test_the_retry_policy_is_the_module():
    """API §1: never the class of that name, which would hide the module."""
    import subprocess
    import sys

    code = (
        "import flownb; flownb.RetryInfo; import flownb.retry_policy as rp; from flownb import retry_policy;"
        "print(rp.__name__, retry_policy is rp, flownb.retry_policy is rp)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["flownb.retry_policy", "True", "True"]


def test_an_unknown_name_of_the_package_is_an_attribute_error():
    import flownb

    for name in ("nothing", "call_policy", "near", "_key"):
        with pytest.raises(AttributeError, match=f"no attribute '{name}'"):
            getattr(flownb, name)


def test_a_fault_names_all_that_is_wrong_with_a_step_for_cancelled_runs():
    """R8.1."""

    def wrong(ev: Row, more: Row) -> Row: ...  # type: ignore[empty-body]

    flow = fine(only)
    flow.on_cancel(wrong)  # type: ignore[type-var]
    assert len(faults_in(flow)) == 2
