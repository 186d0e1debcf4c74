"""`Take(n)` beside a `list[...]`: when a step that gathers a fan-out fires (R4.16, R4.18)."""

from typing import Annotated, Any, Optional

import pytest

import flownb
from flownb import Event, StartEvent, StopEvent, Take, Workflow
from flownb.collect import All, Collect
from flownb.errors import WorkflowConfigurationError
from tests.definition.checks import faults_in


class Begin(StartEvent):
    pass


class Row(Event):
    pass


def gathering(hint: Any) -> Workflow[Any]:
    flow = Workflow[Any]("gathering")

    @flow.step
    def split(ev: Begin) -> list[Row]: ...  # type: ignore[empty-body]

    def gather(ev: Any) -> StopEvent: ...  # type: ignore[empty-body]

    gather.__annotations__["ev"] = hint
    flow.step(gather)
    return flow


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (list[Row], (0, False)),
        (Annotated[list[Row], All()], (0, False)),
        (Annotated[list[Row], Collect()], (0, False)),
        (Annotated[list[Row], Collect], (0, False)),
        (Annotated[list[Row], Collect(All())], (0, False)),
        (Annotated[list[Row], "a note", Take(3)], (3, False)),
        (Annotated[list[Row], Collect(Take(3))], (3, False)),
        (Annotated[list[Row], Take(1, cancel_rest=True)], (1, True)),
        (Annotated[list[Row], Take(2, True)], (2, True)),
        (Optional[Annotated[list[Row], Collect(Take(2, cancel_rest=True))]], (2, True)),  # noqa: UP045
        ("Annotated[list[Row], Take(4)]", (4, False)),
    ],
    ids=repr,
)
def test_every_spelling_of_when_a_join_fires(hint: Any, expected: tuple[int, bool]):
    """R4.16, R4.18; `Collect(Take(n))` is another spelling."""
    gather = gathering(hint).definition.spec.steps[1]
    assert (gather.take, gather.cancel_rest) == expected
    assert gather.gathers == (f"{__name__}:Row",)


@pytest.mark.parametrize(
    ("hint", "fault"),
    [
        (
            Annotated[Row, Take(2)],
            "'ev' is no list, so Take(n=2, cancel_rest=False) cannot be honoured. Hint `list[...]`.",
        ),
        (Annotated[list[Row], Take], "'ev' does not say how many it takes. Write Take(1)."),
        (Annotated[list[Row], Take(1), Collect(Take(2))], "'ev' says 2 times when it fires. Leave one."),
    ],
    ids=repr,
)
def test_a_word_that_cannot_be_honoured_is_a_fault(hint: Any, fault: str):
    """R8.13."""
    assert f"step 'gather': {fault}" in faults_in(gathering(hint))


@pytest.mark.parametrize("n", [0, -1, 1.5, True, "2", None])
def test_a_number_that_is_none_is_refused(n: Any):
    with pytest.raises(WorkflowConfigurationError, match=r"Take\(.*\): give a whole number above 0"):
        Take(n)


def test_another_word_for_a_collect_is_refused():
    with pytest.raises(WorkflowConfigurationError, match=r"Collect\(3\): give All\(\) or Take\(n\)"):
        Collect(3)  # type: ignore[arg-type]


def test_the_words_are_values_and_importable_flat():
    assert (Take(2), Collect(), Collect(Take(1))) == (flownb.Take(2), Collect(All()), Collect(Take(1, False)))
    assert (flownb.Collect, flownb.All) == (Collect, All)
