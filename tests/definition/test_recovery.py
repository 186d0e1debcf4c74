"""Failures that go on: `on_error="continue"`, `@catch_error`, and joins that take them."""

from typing import Any

import pytest

from flownb import Event, StartEvent, StopEvent, Workflow, catch_error, step
from flownb.errors import WorkflowConfigurationError
from flownb.events import StepFailedEvent
from tests.definition.checks import faults_in


class Begin(StartEvent):
    pass


class Row(Event):
    pass


class Done(Event):
    pass


class Flow(Workflow[Any]):
    @step
    def begin(self, ev: Begin) -> Row | Done:
        return Row()

    @step
    def work(self, ev: Row) -> Done:
        return Done()

    @step(on_error="fail")
    def end(self, ev: Done) -> StopEvent:
        return StopEvent()


class Scoped(Flow):
    @catch_error(for_steps=["work"], max_recoveries=3)
    def handle(self, ev: StepFailedEvent) -> Done:
        return Done()


class All(Scoped):
    @catch_error
    def handle_all(self, ev: StepFailedEvent) -> StopEvent:
        return StopEvent()


def table(flow: Workflow[Any]) -> dict[str, tuple[Any, ...]]:
    spec = flow.definition.spec
    return {
        step.name: (step.on_error, step.catches, step.max_recoveries, [spec.steps[i].name for i in spec.catchers[n]])
        for n, step in enumerate(spec.steps)
    }


def test_a_handler_covers_the_steps_that_it_names():
    """R3.36, R3.37: a step that says nothing goes on to its handler; all others fail the run (R3.35)."""
    assert table(Scoped()) == {
        "begin": ("fail", None, None, []),
        "work": ("continue", None, None, ["handle"]),
        "end": ("fail", None, None, []),
        "handle": ("fail", ("work",), 3, []),
    }


def test_a_handler_of_all_covers_what_no_other_names_and_nobody_who_says_fail():
    """R3.37, R3.39: handlers do not cover handlers."""
    assert table(All()) == {
        "begin": ("continue", None, None, ["handle_all"]),
        "work": ("continue", None, None, ["handle"]),
        "end": ("fail", None, None, ["handle_all"]),
        "handle": ("fail", ("work",), 3, []),
        "handle_all": ("fail", (), 1, []),
    }


def test_the_cell_style_says_the_same():
    """API §4: `@flow.catch_error`; None is no limit."""
    flow = Workflow[Any]("cells")

    @flow.step
    def begin(ev: Begin) -> StopEvent:
        return StopEvent()

    @flow.catch_error
    def handle(ev: StepFailedEvent) -> StopEvent:
        return StopEvent(result=ev.step_name)

    @flow.catch_error(for_steps=["begin"], max_recoveries=None)
    def scoped(ev: StepFailedEvent) -> StopEvent: ...  # type: ignore[empty-body]

    assert table(flow)["begin"] == ("continue", None, None, ["scoped"])
    assert table(flow)["scoped"] == ("fail", ("begin",), None, [])
    assert handle(StepFailedEvent.model_construct(step_name="x")).result == "x"


def test_a_free_handler_is_added_to_its_class():
    class Open(Workflow[Any]):
        @step
        def begin(self, ev: Begin) -> StopEvent:
            return StopEvent()

    flow = Open()

    @catch_error(workflow=Open)
    def handle(ev: StepFailedEvent) -> StopEvent: ...  # type: ignore[empty-body]

    assert table(flow)["handle"] == ("fail", (), 1, [])
    other = Open()

    @catch_error(workflow=other, max_recoveries=2, for_steps=("begin",))
    def more(ev: StepFailedEvent) -> StopEvent: ...  # type: ignore[empty-body]

    assert table(other)["more"] == ("fail", ("begin",), 2, [])
    assert list(Open().definition.spec.index) == ["begin", "handle"]


def handled(**scopes: Any) -> Workflow[Any]:
    """A workflow with handlers, by their names."""
    flow = Workflow[Any]("handled")

    @flow.step
    def begin(ev: Begin) -> Row: ...  # type: ignore[empty-body]

    @flow.step
    def work(ev: Row) -> StopEvent: ...  # type: ignore[empty-body]

    @flow.on_cancel
    def bye() -> None: ...

    for name, for_steps in scopes.items():

        def handler(ev: StepFailedEvent) -> StopEvent: ...  # type: ignore[empty-body]

        handler.__name__ = name
        flow.catch_error(for_steps=for_steps)(handler)
    return flow


@pytest.mark.parametrize(
    ("scopes", "fault"),
    [
        (
            {"h": ["wrk"]},
            "handler 'h': for_steps names 'wrk', which is no step. Did you mean 'work'?",
        ),
        (
            {"h": ["work"], "k": ["begin", "h"]},
            "handler 'k': for_steps names 'h', which takes failures itself. There are begin, work.",
        ),
        (
            {"h": ["h"]},
            "handler 'h': for_steps names 'h', which takes failures itself. There are begin, work.",
        ),
        (
            {"h": ["bye"]},
            "handler 'h': for_steps names 'bye', which runs when the run is cancelled. There are begin, work.",
        ),
        (
            {"h": ["work"], "k": ["begin", "work"]},
            "step 'work' has 2 handlers, 'h' and 'k'. Name it in the for_steps of one.",
        ),
        (
            {"h": None, "k": None},
            "'h' and 'k' are handlers of all steps. Leave one, or name steps: `@catch_error(for_steps=[...])`.",
        ),
    ],
)
def test_handlers_that_cannot_be_honoured_are_faults(scopes: dict[str, Any], fault: str):
    """R8.13, R3.37."""
    assert faults_in(handled(**scopes)) == [fault]


@pytest.mark.parametrize(
    ("hint", "fault"),
    [
        (Row, "is a handler of failures: give it one event parameter, `ev: StepFailedEvent`."),
        (StepFailedEvent | Row, "is a handler of failures: give it one event parameter, `ev: StepFailedEvent`."),
        (list[StepFailedEvent], "is a handler of failures: give it one event parameter, `ev: StepFailedEvent`."),
    ],
)
def test_a_handler_takes_failures_alone(hint: Any, fault: str):
    """R3.37."""
    flow = handled()

    def handle(ev: Any) -> StopEvent: ...  # type: ignore[empty-body]

    handle.__annotations__["ev"] = hint
    flow.catch_error(handle)
    assert f"step 'handle' {fault}" in faults_in(flow)


@pytest.mark.parametrize("number", [0, -1, True, 1.5])
def test_a_budget_of_recoveries_counts_from_one(number: Any):
    """R3.38, R8.13."""
    flow = handled()

    @flow.catch_error(max_recoveries=number)
    def handle(ev: StepFailedEvent) -> StopEvent: ...  # type: ignore[empty-body]

    (fault,) = faults_in(flow)
    assert fault.startswith(f"step 'handle': max_recoveries is {number!r}; give ")


@pytest.mark.parametrize("names", ["work", [], [1]])
def test_for_steps_is_a_list_of_names(names: Any):
    for mark in (Workflow[Any]("names").catch_error, catch_error):
        with pytest.raises(
            WorkflowConfigurationError, match=r"for_steps=.*; give a list of names of steps, or leave it"
        ):
            mark(for_steps=names)(lambda ev: None)


def test_an_option_that_catch_error_has_not_is_named():
    with pytest.raises(WorkflowConfigurationError, match=r"@catch_error has no option 'for_step'. Did you mean 'for_s"):
        catch_error(for_step=["a"])(lambda ev: None)  # type: ignore[call-overload]


# -- `on_error="continue"` and nobody who takes the failure


def fanned(join: Any, *, handler: bool = False, on_error: Any = "continue") -> Workflow[Any]:
    flow = Workflow[Any]("fanned")

    @flow.step
    def split(ev: Begin) -> list[Row]: ...  # type: ignore[empty-body]

    @flow.step(on_error=on_error)
    def work(ev: Row) -> Done: ...  # type: ignore[empty-body]

    def total(ev: Any) -> StopEvent: ...  # type: ignore[empty-body]

    total.__annotations__["ev"] = join
    flow.step(total)
    if handler:

        @flow.catch_error
        def handle(ev: StepFailedEvent) -> None: ...

    return flow


NOBODY = (
    "step 'work' has on_error=\"continue\", but no step takes its failure: add a `@catch_error` step, or one with the "
    "hint `ev: StepFailedEvent`."
)


def test_a_failure_under_a_join_that_takes_none_is_a_fault():
    """R8.12; R4.20: a join whose hint names failures takes them, R4.19: so does whoever catches."""
    assert faults_in(fanned(list[Done])) == [
        "step 'work' has on_error=\"continue\", but 'total', which gathers its branch, takes no failures: hint "
        "`list[... | StepFailedEvent]`, or add a `@catch_error` step."
    ]
    fanned(list[Done | StepFailedEvent]).validate()
    fanned(list[Done], handler=True).validate()
    fanned(list[Done], on_error="fail").validate()


def test_a_failure_that_nobody_takes_is_a_fault():
    """R8.14, R3.40."""
    assert faults_in(fanned(Done)) == [NOBODY]
    fanned(Done, handler=True).validate()
    flow = fanned(Done)
    flow._skip = ("failure",)
    flow.validate()


def test_a_failure_is_looked_for_in_every_branch_in_which_a_step_may_run():
    """R8.12, R8.14: under a fan-out whose join takes it, and outside of all; under an inner one that takes none."""
    flow = fanned(list[Done | StepFailedEvent])

    @flow.step
    def also(ev: Begin) -> Row: ...  # type: ignore[empty-body]

    assert faults_in(flow) == [NOBODY]

    nested = Workflow[Any]("nested")

    @nested.step
    def outer(ev: Begin) -> list[Row]: ...  # type: ignore[empty-body]

    @nested.step
    def inner(ev: Row) -> list[Done]: ...  # type: ignore[empty-body]

    @nested.step(on_error="continue")
    def work(ev: Done) -> Done: ...  # type: ignore[empty-body]

    @nested.step
    def join_inner(ev: list[Done]) -> Row: ...  # type: ignore[empty-body]

    @nested.step
    def join_outer(ev: list[Row | StepFailedEvent]) -> StopEvent: ...  # type: ignore[empty-body]

    (fault,) = faults_in(nested)
    assert "'join_inner', which gathers its branch, takes no failures" in fault


def test_a_step_that_takes_failures_cannot_go_on_with_its_own():
    """R3.39."""
    flow = Workflow[Any]("own")

    @flow.step(on_error="continue")
    def begin(ev: Begin) -> StopEvent: ...  # type: ignore[empty-body]

    @flow.step(on_error="continue")
    def handle(ev: StepFailedEvent) -> StopEvent: ...  # type: ignore[empty-body]

    assert faults_in(flow) == [
        "step 'handle' takes failures, and its own fails the run: leave on_error=\"continue\" out."
    ]


def test_a_step_that_takes_failures_that_nobody_sends_is_never_reached():
    """R8.9; beside another type that comes, it warns (R8.8)."""
    flow = Workflow[Any]("idle")

    @flow.step
    def begin(ev: Begin) -> StopEvent: ...  # type: ignore[empty-body]

    @flow.step
    def handle(ev: StepFailedEvent) -> StopEvent: ...  # type: ignore[empty-body]

    assert faults_in(flow) == [
        "step 'handle' is never reached: no step that runs before it returns StepFailedEvent. Give the steps that may "
        'fail on_error="continue", or write `@catch_error` above the one that takes it.'
    ]

    def both(ev: StepFailedEvent | Begin) -> StopEvent: ...  # type: ignore[empty-body]

    both.__name__ = "handle"
    flow.step(both)
    said = r"step 'handle' takes StepFailedEvent, which no step returns\. Give the steps that may fail on_error="
    with pytest.warns(UserWarning, match=said):
        flow.validate()
