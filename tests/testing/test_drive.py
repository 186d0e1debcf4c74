"""Plans and what drives them: the check that a cut run comes to the same result can fail."""

from random import Random

import pytest

from flownb.core.ticks import ChildFinished, EventArrived, RunOpened, StepFailed, StepFinished, ValueRecorded
from flownb.testing.drive import drive, finished_in_order
from flownb.testing.plan import OPS, Plan, arranged, expected


def test_a_plan_says_its_result_without_an_engine():
    """R4.9: by branch, inside a branch in the order of sending; what was paired stands in front."""
    leaf = Plan(2, ("send", "collect", "send"))
    assert expected(leaf) == (("pair", 2, 1), ("sent", 2, 0), ("sent", 2, 2), 2)
    assert expected(Plan(3, keeps=False)) == ()
    assert expected(Plan(4, asks=True)) == (("answered", 4),)
    assert expected(Plan(1, ("send",), many=(Plan(5), leaf))) == (
        ("sent", 1, 0),
        (("pair", 2, 1), 5, ("sent", 2, 0), ("sent", 2, 2), 2),
    )
    assert arranged([1, ("pair", 2, 0), ("pair", 1, 0)]) == (("pair", 1, 0), ("pair", 2, 0), 1)


def test_a_drive_goes_through_everything_that_a_plan_names():
    """R3.48, R3.51: failures, children, events and old buffers come; a value is recorded once however often it ran."""
    plan = Plan(1, many=(Plan(2, OPS), Plan(3, ("once", "fail later", "collect"))))
    run = drive(plan, Random(5).randrange)

    kinds = {type(tick) for tick in run.ticks}
    assert {StepFailed, ChildFinished, EventArrived, RunOpened, ValueRecorded} <= kinds
    assert sum(isinstance(tick, ValueRecorded) for tick in run.ticks) == 2
    assert any(tick.collects and not tick.collects[0].took for tick in run.ticks if isinstance(tick, StepFinished))
    assert run.state.result.value == expected(plan)


def test_a_drive_that_never_ends_is_noticed():
    """It says how many ticks were too many."""
    with pytest.raises(AssertionError, match="3 ticks and no end"):
        drive(Plan(1, OPS), lambda n: 0, limit=3)


def test_without_disturbance_the_first_move_is_taken():
    """The plainest run of a plan, always the same."""
    plan = Plan(1, ("sleep", "child"), many=(Plan(2), Plan(3)))
    assert finished_in_order(plan) == finished_in_order(plan, num_workers=2)
    assert finished_in_order(plan).result.value == expected(plan) == ((2, 3),)
