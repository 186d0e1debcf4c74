"""Steps with several event parameters, which fire once per set (R4.77 to R4.79), and how steps are called."""

from typing import Annotated, Any

import pytest

from flownb import Context, Event, Resource, StartEvent, StopEvent, Workflow
from flownb.definition.steps import arguments
from tests.definition.checks import faults_in, faults_of, fine


class Begin(StartEvent):
    pass


class Left(Event):
    pass


class Right(Event):
    pass


class Part(Event):
    pass


def begin(ev: Begin) -> list[Part] | Left | Right: ...  # type: ignore[empty-body]
def pair(left: Left, right: Right) -> StopEvent: ...  # type: ignore[empty-body]


def keys(*classes: type[Event]) -> tuple[str, ...]:
    return tuple(f"{cls.__module__}:{cls.__qualname__}" for cls in classes)


def both(ev: Begin) -> list[Left | Right]: ...  # type: ignore[empty-body]


def test_each_event_parameter_is_a_slot():
    """R4.77; a type may stand twice (R4.79), and a slot may be a union."""

    def step(one: Left | Part, ctx: Context, two: Right, *, three: Left) -> StopEvent: ...  # type: ignore[empty-body]

    flow = fine(begin, step)
    spec = flow.definition.spec
    made = spec.steps[1]
    assert made.slots == (keys(Left, Part), keys(Right), keys(Left))
    assert made.accepts == keys(Left, Part, Right)
    assert spec.slotted == frozenset({1})
    assert flow.steps["step"].plan == (0, "context", 1)
    assert arguments(flow.steps["step"], ["a", "b", "c"], "ctx") == (["a", "ctx", "b"], {"three": "c"})


def test_a_step_with_one_event_parameter_has_no_slots():
    def step(ev: Left | Right) -> StopEvent: ...  # type: ignore[empty-body]

    assert fine(begin, step, skip_graph_checks=["unconsumed"]).definition.spec.steps[1].slots == ()


def test_a_list_beside_another_event_parameter_is_a_fault():
    """R8.5."""

    def step(rows: list[Part], left: Left) -> StopEvent: ...  # type: ignore[empty-body]
    def two(rows: list[Part], others: list[Left]) -> StopEvent: ...  # type: ignore[empty-body]

    said = "is a list beside other event parameters. A step gathers one list, or takes one event of each parameter."
    assert faults_of(begin, step) == [f"step 'step': 'rows' {said}"]
    assert faults_of(begin, two) == [f"step 'two': 'rows' {said}"]


def test_a_set_of_which_a_part_is_never_sent_is_a_fault():
    """R8.11."""

    def half(ev: Begin) -> Left: ...  # type: ignore[empty-body]

    assert faults_of(half, pair) == [
        "step 'pair' takes one each of Left, Right, a set that is never complete: no step returns Right. Return it "
        "somewhere, or name it in accepts=[...] if it comes from outside."
    ]
    with pytest.warns(UserWarning, match="'pair' takes Right, which no step returns"):
        fine(half, pair, skip_graph_checks=["join"])


def test_a_set_whose_parts_never_meet_in_one_branch_is_a_fault():
    """R8.11, R4.78: one part is sent inside of a fan-out, the other outside."""

    def split(ev: Begin) -> list[Part]: ...  # type: ignore[empty-body]
    def inside(ev: Part) -> Left | Part: ...  # type: ignore[empty-body]
    def join(ev: list[Part]) -> Right: ...  # type: ignore[empty-body]

    assert faults_of(split, inside, join, pair) == [
        "step 'pair' takes one each of Left, Right, a set that is never complete: they are never sent in one branch of "
        "a fan-out. Gather the branches in a `list[...]` step before it."
    ]

    def join_too(ev: list[Part]) -> Right | Left: ...  # type: ignore[empty-body]

    fine(split, inside, join_too, pair)
    fine(both, pair)  # a list that nothing gathers opens no branches


def test_parts_that_come_as_answers_failures_or_subclasses_count():
    """R8.11."""
    from flownb import HumanResponseEvent, InputRequiredEvent
    from flownb.events import StepFailedEvent

    class Below(Right):
        pass

    def asks(ev: Begin) -> InputRequiredEvent | Left | Below: ...  # type: ignore[empty-body]
    def answered(answer: HumanResponseEvent, left: Left, right: Right) -> StopEvent: ...  # type: ignore[empty-body]

    fine(asks, answered)

    flow = Workflow[Any]("failures")
    flow.step(on_error="continue")(begin)
    flow.step(skip_graph_checks=["subclasses"])(pair)

    @flow.step
    def failed(ev: StepFailedEvent, left: Left) -> StopEvent: ...  # type: ignore[empty-body]

    flow._skip = ("unconsumed",)
    flow.validate()
    flow.steps["pair"].options = flow.steps["pair"].options
    exact = Workflow[Any]("exact")
    exact.step(asks)
    exact.step(accept_event_subclasses=False)(pair)

    @exact.step
    def answer(ev: HumanResponseEvent) -> StopEvent: ...  # type: ignore[empty-body]

    (fault,) = faults_in(exact)
    assert "never complete: no step returns Right" in fault


def test_what_follows_something_that_is_no_event_is_passed_by_name():
    """A resource, or a parameter with a default, fills no place."""

    def step(
        db: Annotated[str, Resource(lambda: "db")], ev: Begin, ctx: Context, n: int = 1, *, last: Left
    ) -> StopEvent: ...  # type: ignore[empty-body]

    flow = Workflow[Any]("by name")
    flow.step(step)
    made = flow.steps["step"]
    assert (made.plan, made.keywords) == ((), (("ev", 0), ("ctx", "context"), ("last", 1)))
    assert arguments(made, ["b", "l"], "c", {"db": "d"}) == ([], {"ev": "b", "ctx": "c", "last": "l", "db": "d"})


@pytest.mark.parametrize("order", ["[Left, Right]", "[Left, Right] * 2", "[Left] + [Left] + [Right]", "(Left, Right)"])
def test_a_collect_of_what_the_step_does_not_take_is_a_fault(order: str, tmp_path: Any):
    """R8.11."""
    source = f"""
from flownb import *
from tests.definition.test_sets import Begin, Left, Right
flow = Workflow("collects")
@flow.step
def begin(ev: Begin) -> Left | Right: ...
@flow.step
def gather(ev: Left, ctx: Context) -> StopEvent:
    found = ctx.collect_events(ev, {order})
    return StopEvent()
@flow.step
def gathers_both(ev: Left | Right, ctx: Context) -> StopEvent:
    found = ctx.collect_events(ev, expected={order})
    return StopEvent()
@flow.step
def gathers_more(ev: Left | Right, ctx: Context) -> StopEvent:
    found = ctx.collect_events(ev.other, [Begin]), ctx.collect_events(ev, list(ev)), ctx.collect_events(ev, [ev.kind])
    return StopEvent()
"""
    place = tmp_path / "collects.py"
    place.write_text(source)
    space: dict[str, Any] = {"__name__": "collects_cell"}
    exec(compile(source, str(place), "exec"), space)
    assert faults_in(space["flow"]) == [
        "step 'gather' collects Right, which it does not take, so the collect is never complete. Take it too: "
        "`ev: Left | Right`."
    ]


def test_a_collect_of_a_base_or_of_a_local_class_may_be_complete():
    """R8.11: a step that takes a subclass collects its base, and the other way round."""

    class Below(Left):
        pass

    def begin(ev: Begin) -> Below: ...  # type: ignore[empty-body]
    def gather(ev: Below, ctx: Context) -> StopEvent:
        ctx.collect_events(ev, [Left])  # type: ignore[attr-defined]
        return StopEvent()

    def wide(ev: Left, ctx: Context) -> StopEvent:
        ctx.collect_events(ev, [Below, Below])  # type: ignore[attr-defined]
        return StopEvent()

    fine(begin, gather, wide, skip_graph_checks=["subclasses"])
