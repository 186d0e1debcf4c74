"""What is wrong with a workflow is told all at once, each with step, type and a mend (R8.1)."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Workflow, step
from flownb.errors import WorkflowConfigurationError, WorkflowValidationError
from tests.definition.checks import faults_of, fine


class Begin(StartEvent):
    pass


class Again(StartEvent):
    pass


class Row(Event):
    pass


class Done(Event):
    pass


class Answer(HumanResponseEvent):
    pass


class Ask(InputRequiredEvent[Answer]):
    pass


def good(ev: Begin) -> StopEvent:
    return StopEvent()


# Each returns its steps; the text is the whole fault, so that the words are reviewed too.


def no_start(ev: Row) -> StopEvent: ...  # type: ignore[empty-body]
def no_stop(ev: Begin) -> None: ...
def takes_stop(ev: StopEvent) -> None: ...
def second_start(ev: Again) -> StopEvent: ...  # type: ignore[empty-body]
def no_hint(ev) -> StopEvent: ...  # type: ignore[no-untyped-def, empty-body]
def no_return(ev: Begin): ...  # type: ignore[no-untyped-def]
def no_event(ctx: Context) -> StopEvent: ...  # type: ignore[empty-body]
def takes_int(ev: int) -> StopEvent: ...  # type: ignore[empty-body]
def takes_both(ev: Begin | int) -> StopEvent: ...  # type: ignore[empty-body]
def returns_int(ev: Begin) -> StopEvent | int: ...  # type: ignore[empty-body]
def star(*args: Begin) -> StopEvent: ...  # type: ignore[empty-body]
def unresolved(ev: "Begin") -> "Nowhere": ...  # type: ignore[name-defined] # noqa: F821
def mixes(ev: Begin | list[Row]) -> StopEvent: ...  # type: ignore[empty-body]
def generator(ev: Begin) -> list[Row]:  # type: ignore[misc]
    yield Row()


def unreached(ev: Row) -> StopEvent: ...  # type: ignore[empty-body]
def loops(ev: Begin | Done) -> Row: ...  # type: ignore[empty-body]
def loops_back(ev: Row) -> Done: ...  # type: ignore[empty-body]
def makes_rows(ev: Begin) -> Row: ...  # type: ignore[empty-body]
def joins(ev: list[Row]) -> StopEvent: ...  # type: ignore[empty-body]


CASES: list[tuple[str, tuple[Callable[..., Any], ...], str]] = [
    ("R8.2 no steps", (), "it has no steps. Define one: `@flow.step` above a function that takes a StartEvent."),
    ("R8.2 no start", (no_start,), "no step takes a StartEvent, so no run could begin. Hint one: `ev: StartEvent`."),
    ("R8.2 no stop", (no_stop,), "no step returns a StopEvent, so no run could end. Hint one: `-> StopEvent`."),
    (
        "R8.3 two starts",
        (good, second_start),
        "several start events: Begin (step 'good'), Again (step 'second_start'). Take one class everywhere.",
    ),
    (
        "R8.4 takes a stop",
        (good, takes_stop),
        "step 'takes_stop' takes a StopEvent, but an end reaches no step. Do its work before returning the stop.",
    ),
    (
        "R8.5 no hint",
        (good, no_hint),
        "step 'no_hint': parameter 'ev' has no type hint. Hint the event type that the step takes.",
    ),
    (
        "R8.5 no return",
        (good, no_return),
        "step 'no_return' has no return hint. Write what it returns, as in `-> StopEvent`, or `-> None` for nothing.",
    ),
    (
        "R8.5 no event",
        (good, no_event),
        "step 'no_event' takes no event. Give it a parameter with an event type, as in `ev: StartEvent`.",
    ),
    (
        "R8.5 takes an int",
        (good, takes_int),
        "step 'takes_int': parameter 'ev' has the hint builtins.int, which is no event. "
        "Hint the event type that the step takes.",
    ),
    ("R8.5 takes an int too", (good, takes_both), "step 'takes_both' takes builtins.int, which is no event type."),
    (
        "R8.5 returns an int",
        (good, returns_int),
        "step 'returns_int' returns builtins.int, which is no event type. Wrap it into an event.",
    ),
    (
        "R8.5 star",
        (good, star),
        f"step 'star': *args: {__name__}.Begin cannot be filled; name the event that the step takes.",
    ),
    (
        "R8.5 mixes",
        (good, mixes),
        "step 'mixes': 'ev' mixes single events and a list; take one of them.",
    ),
    (
        "R8.5 generator",
        (good, generator),
        "step 'generator' is a generator: return a list of events instead of yielding them.",
    ),
    (
        "R8.6 unresolved",
        (good, unresolved),
        "step 'unresolved': the hint of 'return' cannot be resolved ('Nowhere': NameError: name 'Nowhere' is not "
        "defined). Define that name before the first run.",
    ),
    (
        "R8.9 unreached",
        (good, unreached),
        "step 'unreached' is never reached: no step that runs before it returns Row. "
        "Return it somewhere, or name it in accepts=[...] if it comes from outside.",
    ),
    (
        "R8.15 join outside a fan-out",
        (makes_rows, joins),
        "step 'joins' gathers list[Row], but no step before it returns a list whose elements lead there, so it would "
        "never fire. Return a list where the work is split.",
    ),
]


@pytest.mark.parametrize(("steps", "fault"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_each_fault_in_words(steps: tuple[Callable[..., Any], ...], fault: str):
    assert fault in faults_of(*steps)


def test_a_circle_without_a_way_out_is_a_dead_end():
    """R8.10."""
    faults = faults_of(good, loops, loops_back)
    assert [fault.split(":")[0] for fault in faults] == [
        "step 'loops' leads nowhere",
        "step 'loops_back' leads nowhere",
    ]


def test_all_faults_come_at_once_and_in_the_order_of_steps():
    faults = faults_of(no_hint, takes_int, no_return, unresolved, returns_int)
    assert [fault.split("'")[1] for fault in faults] == [
        "no_hint",
        "takes_int",
        "no_return",
        "unresolved",
        "returns_int",
    ]


def test_several_faults_of_one_step_are_all_told():
    def bad(ev, other, *rest: int): ...  # type: ignore[no-untyped-def]

    assert [fault.split(".")[0][-20:] for fault in faults_of(good, bad)][:2]
    assert len(faults_of(good, bad)) == 4


@pytest.mark.parametrize("workers", [0, -1])
def test_numbers_of_workers_below_one(workers: int):
    """R8.13."""
    flow = Workflow[Any]("workers")
    flow.step(num_workers=workers)(good)
    with pytest.raises(WorkflowValidationError, match=f"num_workers is {workers}; give at least 1, or None"):
        flow.validate()


def test_an_event_that_no_step_takes_warns_or_is_a_fault_by_policy():
    """R8.8."""

    def gives(ev: Begin) -> Row | StopEvent: ...  # type: ignore[empty-body]

    with pytest.warns(UserWarning, match=r"Workflow 'fine': step 'gives' returns Row, which no step takes\."):
        fine(gives)
    assert faults_of(gives, unhandled="error") == ["step 'gives' returns Row, which no step takes."]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fine(gives, skip_graph_checks=["unconsumed"])


def test_a_type_that_nobody_returns_beside_one_that_somebody_does_warns():
    """R8.8."""

    def takes(ev: Begin | Row) -> StopEvent: ...  # type: ignore[empty-body]

    with pytest.warns(UserWarning, match=r"step 'takes' takes Row, which no step returns\."):
        fine(takes)


def test_a_branch_that_ends_on_purpose_is_no_fault():
    def gives(ev: Begin) -> Row: ...  # type: ignore[empty-body]
    def rest(ev: Row) -> None: ...

    fine(good, gives, rest)


@pytest.mark.parametrize("skip", ["reachability", "dead_end", "join"])
def test_single_checks_can_be_left_out(skip: str):
    steps = {"reachability": (good, unreached), "dead_end": (good, loops, loops_back), "join": (makes_rows, joins)}[
        skip
    ]
    faults_of(*steps)
    fine(*steps, skip_graph_checks=[skip])
    flow = Workflow[Any]("for single steps")
    for fn in steps:
        flow.step(skip_graph_checks=[skip])(fn)
    flow.validate()


def test_a_workflow_without_an_end_can_be_meant():
    """As a service that is cancelled from outside."""
    fine(no_stop, skip_graph_checks=["terminal_event"])


def test_an_unknown_check_names_the_near_miss():
    with pytest.raises(WorkflowConfigurationError, match=r"no graph check 'dead_ends'. Did you mean 'dead_end'"):
        Workflow[Any]("unknown", skip_graph_checks=["dead_ends"])
    with pytest.raises(WorkflowConfigurationError, match="There are reachability, terminal_event"):
        Workflow[Any]("unknown").step(skip_graph_checks="xyz")(good)


def test_all_checks_of_the_graph_can_be_left_out_but_not_those_of_steps():
    fine(no_stop, disable_validation=True)
    assert faults_of(no_hint, disable_validation=True)


def test_what_comes_from_outside_is_reached():
    """R5.35."""
    fine(good, unreached, accepts=[Row])


def test_answers_failures_and_engine_events_are_reached():
    from flownb.events import RequestClosedEvent, StepFailedEvent, WorkflowIdleEvent

    def ask(ev: Begin) -> Ask: ...  # type: ignore[empty-body]
    def note(ev: Answer) -> StopEvent: ...  # type: ignore[empty-body]
    def closed(ev: RequestClosedEvent) -> StopEvent: ...  # type: ignore[empty-body]
    def failed(ev: StepFailedEvent) -> StopEvent: ...  # type: ignore[empty-body]
    def idle(ev: WorkflowIdleEvent) -> None: ...

    flow = Workflow[Any]("reached")
    for fn in (ask, closed, failed, idle):
        flow.step(fn)
    flow.step(on_error="continue")(note)
    assert flow.validate() is True
    assert flow.definition.spec.outside == ()  # the answer has its question
    assert fine(good).validate() is False


def test_an_unparametrised_question_is_followed_by_the_answer_that_steps_take():
    """API §6, rule 3; several answers are all possible."""

    def ask(ev: Begin) -> InputRequiredEvent: ...  # type: ignore[empty-body]
    def note(ev: HumanResponseEvent) -> StopEvent: ...  # type: ignore[empty-body]
    def other(ev: Answer) -> StopEvent: ...  # type: ignore[empty-body]

    one = fine(ask, note).definition.spec
    assert one.outside == ()
    assert {t.key: t.answer for t in one.types if t.role == "request"} == {
        "flownb.events:InputRequiredEvent": "flownb.events:HumanResponseEvent"
    }
    fine(ask, note, other, skip_graph_checks=["subclasses"])


def test_a_join_of_a_nested_fan_out_belongs_to_the_inner_one():
    """R4.11."""

    def outer(ev: Begin) -> list[Row]: ...  # type: ignore[empty-body]
    def inner(ev: Row) -> list[Done]: ...  # type: ignore[empty-body]
    def join(ev: list[Done]) -> StopEvent: ...  # type: ignore[empty-body]

    spec = fine(outer, inner, join).definition.spec
    assert spec.joins == ((), (2,), ())


def test_the_names_of_a_workflow_are_no_step_names_in_a_class():
    """R8.7."""
    for name in ("run", "debug", "name", "steps", "definition", "view", "with_options", "_add"):
        with pytest.raises(WorkflowValidationError, match=f"step '{name}' has the name of something"):
            type("Clash", (Workflow,), {name: step(good)})


@pytest.mark.parametrize("name", ["run", "debug", "name", "cancel", "validate", "start", "stop", "__main__"])
def test_in_cells_a_step_may_have_any_name(name: str):
    def fn(ev: Begin) -> StopEvent:
        return StopEvent(result=name)

    fn.__name__ = name
    assert fine(fn).run().result(20) == name


def test_a_helper_method_is_no_step():
    """C015."""

    class Flow(Workflow[str]):
        def _clean(self, text: str) -> str:
            return text.strip()

        @step
        def only(self, ev: Begin) -> StopEvent:
            return StopEvent(result=self._clean(" x "))

    assert list(Flow().steps) == ["only"]
    assert Flow().run().result(20) == "x"


def test_unknown_options_name_the_near_miss():
    flow = Workflow[Any]("options")
    with pytest.raises(
        WorkflowConfigurationError, match=r"@step has no option 'num_worker'. Did you mean 'num_workers'"
    ):
        flow.step(num_worker=2)(good)
    with pytest.raises(WorkflowConfigurationError, match=r"There is no option 'answer'. Did you mean 'answers'"):
        flow.with_options(answer={})
    with pytest.raises(WorkflowConfigurationError, match="neither a workflow nor a class of one"):
        step(workflow=5)(good)
