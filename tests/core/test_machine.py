"""The properties of the core, tried on many runs.

`python -m flownb.testing.machine 5000` tries more of them; so does a Hypothesis profile with more than 200 examples.
"""

from random import Random

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from flownb.core.history import History
from flownb.core.reduce import fold
from flownb.core.ticks import RunOpened
from flownb.testing.drive import drive, finished_in_order
from flownb.testing.machine import RunMachine
from flownb.testing.plan import OPS, Plan, expected

#: At least so many runs of each property, however a profile is set.
RUNS = max(200, settings.default.max_examples)


class TestRuns(RunMachine.TestCase):
    """R1.3, R1.4, R1.7, R1.15, R3.18, R3.19, R3.60, R6.38: any legal order of ticks (`flownb.testing.machine`)."""

    settings = settings(
        max_examples=RUNS, stateful_step_count=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )


def plans(depth: int = 2) -> st.SearchStrategy[Plan]:
    """Trees of fan-outs, with sends, waits, questions, children and failures on the way."""
    ops = st.lists(st.sampled_from(OPS), max_size=3).map(tuple)
    leaf = st.builds(Plan, st.integers(0, 99), ops, asks=st.booleans(), keeps=st.sampled_from((True, True, False)))
    if not depth:
        return leaf
    many = st.lists(plans(depth - 1), max_size=3).map(tuple)
    return st.one_of(leaf, st.builds(Plan, st.integers(0, 99), ops, many=many))


EVERYTHING = Plan(
    1,
    ("send", "two sleeps", "fail"),
    many=(
        Plan(2, OPS),
        Plan(3, ("first of two",), many=()),
        Plan(4, (), many=(Plan(5, ("ask", "write", "collect")), Plan(6, asks=True), Plan(7, ("child",), keeps=False))),
    ),
)


@settings(max_examples=RUNS, suppress_health_check=[HealthCheck.too_slow])
@given(plan=plans(), workers=st.sampled_from((1, 2, None)), random=st.randoms(use_true_random=False))
@example(plan=EVERYTHING, workers=1, random=Random(1))
def test_a_run_cut_anywhere_comes_to_the_same_result(plan, workers, random):
    """R1.7, R1.15, R3.47, R3.48, R3.51, R3.60, R4.3, R4.9: in any order the result is the plan's."""
    plain = finished_in_order(plan)
    assert (plain.status, plain.result.value) == ("completed", expected(plan))

    run = drive(plan, random.randrange, num_workers=workers)

    assert (run.state.status, run.state.result.value) == ("completed", expected(plan))
    assert dict(run.state.user.items()) == dict(plain.user.items())
    assert fold(run.ticks) == run.state
    seq = random.randint(1, len(run.ticks))
    assert History(run.ticks).at(seq) == fold(run.ticks[:seq])


def test_a_run_that_loses_its_driver_after_every_tick_comes_to_the_same_result():
    """R1.15, R3.60: the densest cut there is."""
    turns = iter(range(10**9))
    run = drive(EVERYTHING, lambda n: n - 1 if next(turns) % 2 else 0, num_workers=2)

    assert run.state.result.value == expected(EVERYTHING)
    assert sum(isinstance(tick, RunOpened) for tick in run.ticks) > 50
