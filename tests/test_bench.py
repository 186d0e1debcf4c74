"""The benchmarks still fit the package: every workload runs with flownb's adapter at a small size (DESIGN §7).

Each workload checks its own result, so a run that drops work fails here as it would there.
"""

import asyncio
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parent / "bench"
#: A workload and a mode of it, as `bench.workloads` names them.
CELLS = {
    ("W1", ""),
    ("W2", ""),
    ("W3", ""),
    ("W4", ""),
    ("W5", ""),
    ("W5c", "journal-sqlite"),
    ("W6", "int"),
    ("W6", "numpy"),
    ("W6", "pandas"),
    ("W8", ""),
}


@pytest.fixture(autouse=True)
def harness(monkeypatch: pytest.MonkeyPatch):
    """The harness stands outside the package and the other tests: it has a requirements file of its own."""
    monkeypatch.syspath_prepend(str(BENCH))


def test_flownb_takes_part_in_every_workload_in_every_mode():
    """A workload that is added runs here too, or is missed here."""
    from bench.adapters.flownb import Flownb
    from bench.workloads import WORKLOADS, modes_for

    assert {(work.id, mode) for work in WORKLOADS.values() for mode in modes_for(work, Flownb)} == CELLS
    assert not Flownb.unsupported


@pytest.mark.parametrize(("work", "mode"), sorted(CELLS))
def test_a_workload_runs_with_ten_of_everything(work: str, mode: str, tmp_path: Path):
    """It gives its figures, and raises if a result is wrong."""
    from bench.adapters.flownb import Flownb
    from bench.workloads import WORKLOADS

    workload, adapter = WORKLOADS[work], Flownb()
    adapter.setup(tmp_path)
    figures = asyncio.run(workload.run(adapter, 10, mode))

    assert figures["cpu"] > 0
    assert figures.keys() >= set(workload.columns)
