"""Small versions of the two long measurements of `tests/store/kill`: kills with -9, and a race for the same runs."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.store.kill.hunt import Hunt
from tests.store.kill.race import race

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that is empty."""
    if request.param == "sqlite":
        return str(tmp_path / "runs.db")
    new_url: Callable[[], str] = request.getfixturevalue("new_url")
    return new_url()


def test_nothing_is_lost_when_the_driver_is_killed(place: str, tmp_path: Path):
    """R1.11, R1.28, R1.31, R5.7: every run has its right result, one dense journal, and all that was acknowledged."""
    hunt = Hunt(place, tmp_path, runs=15, seed=7)
    counts = hunt.run(6)
    assert not hunt.faults
    assert counts["kills"] >= 6
    assert counts["take-overs"] >= 6
    assert counts["answers acknowledged"] >= 10


def test_nothing_is_driven_or_answered_twice(place: str, tmp_path: Path):
    """R5.7, R5.8, R1.30: two processes start, drive and answer the same runs."""
    counts, faults = race(place, tmp_path, 3)
    assert not faults
    assert counts["runs"] >= 8
    assert counts["answers in journals"] == 2 * counts["runs"]
    assert len(counts["answers by process"]) == 2
