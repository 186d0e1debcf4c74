"""The public surface as ten kinds of notebook use it: strict type checkers find nothing, and the notebooks run.

They are cells in plain Python files (`tests/typing/`), so that a checker reads them as an editor does.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "typing"
NOTEBOOKS = sorted(HERE.glob("*.py"))


def run(*command: str) -> str:
    done = subprocess.run([sys.executable, *command], cwd=HERE.parents[1], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_there_are_ten_kinds():
    kinds = {"agent", "approvals", "cleaning", "debugging", "flaky", "joins", "port", "race", "restart", "subflows"}
    assert {path.stem for path in NOTEBOOKS} == kinds


@pytest.mark.timeout(300)
def test_strict_mypy_finds_nothing():
    assert run("-m", "mypy", "--strict", *map(str, NOTEBOOKS)) == ""


@pytest.mark.timeout(300)
def test_strict_pyright_finds_nothing():
    assert run("-m", "pyright", "-p", str(HERE / "pyrightconfig.json")) == ""


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path: Path):
    """Each ends with assertions of its own."""
    assert run("-W", "error", str(path)) == ""
