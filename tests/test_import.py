"""`import flownb` is light: no widget or data library is loaded, and it costs little more than what it stands on."""

import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

#: What every process that defines one event and writes one journal has to load (DESIGN §7).
FLOOR = """
import asyncio, sqlite3, msgspec, pydantic
class Row(pydantic.BaseModel):
    no: int
    amount: float
"""

#: Imports every headless module of the package, then prints the widget libraries that came along.
HEADLESS = """
import importlib, pkgutil, sys
import flownb

def headless(name):
    return not name.startswith(("flownb.notebook", "flownb.testing", "flownb.__main__"))

def walk(package):
    for info in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        if headless(info.name):
            module = importlib.import_module(info.name)
            if info.ispkg:
                walk(module)

walk(flownb)
print(*sorted({"ipywidgets", "IPython", "anywidget", "ipykernel", "traitlets"} & set(sys.modules)))
"""


def run(code: str) -> str:
    """What `code` prints in a fresh interpreter; its traceback is the test's message if it fails."""
    # With PYTHONDONTWRITEBYTECODE the package would be compiled anew each time, its floor never.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False, env=env)
    if ran.returncode:
        pytest.fail(f"exit {ran.returncode}:\n{ran.stderr}", pytrace=False)
    return ran.stdout.strip()


def cpu_s(code: str) -> float:
    """CPU seconds, user and system, that a fresh interpreter spends on `code`, its own start included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)  # in microseconds; `os.times` counts hundredths of a second
    run(code)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_import_loads_no_widget_or_data_library():
    """Everything headless (API §0.6): scripts and workers never pay for the notebook."""
    heavy = {"ipywidgets", "IPython", "anywidget", "pandas", "numpy"}
    assert run(f"import flownb, sys; print(*sorted({heavy!r} & set(sys.modules)))") == ""


def test_only_the_notebook_room_loads_widgets():
    """Import contracts see import statements; this sees what is really loaded, module by module."""
    assert run(HEADLESS) == ""


def test_every_public_name_resolves():
    """A lazy name that points to a module which has moved would fail only in a user's hands."""
    missing = "print(*[name for name in flownb.__all__ if getattr(flownb, name, None) is None])"
    assert run(f"import flownb; assert flownb.__all__; {missing}") == ""


def test_import_stays_within_its_bar():
    """At most 1.25 times the process that imports asyncio, sqlite3, msgspec and defines one pydantic model.

    The two take turns, and the median of the pairs' ratios counts: noise of the machine hits both.
    """
    full = "import flownb"
    run(FLOOR), run(full)  # bytecode is written, files are in the cache

    ratios = [cpu_s(full) / cpu_s(FLOOR) for _ in range(15)]

    assert statistics.median(ratios) <= 1.25, f"import flownb / its floor: {[round(r, 2) for r in ratios]}"
