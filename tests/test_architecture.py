"""The rules of the house that a tool can check: who imports whom, types, lint and layout."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "flownb"


def check(*command: str) -> None:
    """Run a Python module's command line in the repository; fail with all that it printed unless it exits with 0."""
    ran = subprocess.run(
        [sys.executable, *command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if ran.returncode:
        pytest.fail(f"{' '.join(command)} exited with {ran.returncode}:\n{ran.stdout}", pytrace=False)


def test_imports_go_one_way():
    """The contracts of pyproject.toml: layers, a pure core, widgets only in `notebook`, nothing uses `testing`."""
    check("-c", "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())")


def test_the_code_is_linted():
    """`ruff check` finds nothing, in the package, its tests and its notebooks."""
    check("-m", "ruff", "check", ".")


def test_the_code_is_formatted():
    """`ruff format` would change nothing."""
    check("-m", "ruff", "format", "--check", "--diff", ".")


@pytest.mark.timeout(300)  # without a cache mypy reads pydantic, IPython and jupyter_client first
def test_the_types_hold():
    """mypy --strict passes on the package."""
    check("-m", "mypy", "--strict", "-p", "flownb")


def test_the_front_end_never_parses_text_as_markup():
    """User text goes through `textContent`: nothing in `static/` names an API that turns a string into markup."""
    scripts = [*PACKAGE.glob("notebook/static/*.mjs"), *PACKAGE.glob("notebook/static/*.js")]
    assert scripts, "flownb/notebook/static holds no script: has it moved?"

    parses = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in scripts
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if parses.search(line)
    ]
    assert found == []


def test_the_front_end_loads_nothing_from_elsewhere():
    """No script or style names an address: the widgets work offline (an SVG namespace is a name, not an address)."""
    files = [path for path in PACKAGE.glob("notebook/static/*") if path.suffix in {".mjs", ".js", ".css"}]
    assert files, "flownb/notebook/static holds no script or style: has it moved?"

    addresses = re.compile(r"https?://(?!www\.w3\.org/)[^\s\"'`)]+")
    found = [f"{path.relative_to(ROOT)}: {m[0]}" for path in files for m in addresses.finditer(path.read_text("utf-8"))]
    assert found == []


def test_the_package_says_that_it_is_typed():
    """Type checkers read a package's annotations only if `py.typed` lies in it."""
    assert (PACKAGE / "py.typed").is_file()
