"""The interpreter's switch interval, while the engine's thread drives stored runs (DESIGN §4)."""

import sys
from pathlib import Path

import pytest

from flownb import Store
from flownb.runtime import switching
from tests.polling import wait_for_questions, wait_until
from tests.restarting import end_all_runs
from tests.runtime.flows import Asks, Count


@pytest.fixture(autouse=True)
def no_other_run() -> None:
    """The interval is the process's: a stored run that another test left open would keep it short."""
    end_all_runs()


@pytest.mark.parametrize("kept", [True, False], ids=["stored", "in memory"])
def test_it_is_short_while_a_stored_run_is_driven_by_the_engines_thread(tmp_path: Path, kept: bool):
    before = sys.getswitchinterval()
    asks = Asks().with_options(host="thread", store=Store(tmp_path / "runs.db") if kept else None).run()
    wait_for_questions(asks)
    assert (sys.getswitchinterval() < before / 2) is kept
    asks.answer(ok=True)
    asks.result(20)
    wait_until(lambda: sys.getswitchinterval() == pytest.approx(before))


def test_what_somebody_else_set_meanwhile_stays(tmp_path: Path):
    before = sys.getswitchinterval()
    try:
        switching.begin()
        sys.setswitchinterval(0.01)
        Count().with_options(host="thread", store=Store(tmp_path / "runs.db")).run().result(20)
        switching.end()
        assert sys.getswitchinterval() == pytest.approx(0.01)
    finally:
        sys.setswitchinterval(before)
