"""Fixtures of the browser tests: one server of each kind and one Chromium a session, one notebook and kernel a test."""

import os
import re
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

import pytest
from debugged import begin
from lab_harness import Browser, Lab, LabServer, Opener, make_notebook
from panel_page import Panel

SHOTS = Path(os.environ.get("FLOWNB_SHOTS", Path(__file__).resolve().parents[2] / ".shots"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever stands in this folder is a browser test, and a page may take its time on a busy machine."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.browser)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(240))


@pytest.fixture(scope="session")
def shots() -> Path:
    """Folder for screenshots to look at: `$FLOWNB_SHOTS`, else `.shots` in the repository."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    return SHOTS


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The one Chromium. A missing one is an error, in words."""
    with Browser() as chromium:
        yield chromium


@pytest.fixture(scope="session")
def lab(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A page on a JupyterLab whose kernel is this interpreter."""
    with LabServer(tmp_path_factory.mktemp("lab"), app="lab") as server:
        yield Lab(server, browser)


@pytest.fixture(scope="session")
def nb7(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A page on a Notebook 7 whose kernel is this interpreter."""
    with LabServer(tmp_path_factory.mktemp("nb7"), app="notebook") as server:
        yield Lab(server, browser)


@pytest.fixture(params=["lab", "nb7"])
def page(request: pytest.FixtureRequest) -> Lab:
    """The page of each application in turn: a test that uses this, or `notebook`, runs in both."""
    lab: Lab = request.getfixturevalue(request.param)
    return lab


@pytest.fixture
def notebook(page: Lab, request: pytest.FixtureRequest) -> Iterator[Opener]:
    """`notebook(cells)` opens a fresh notebook, in JupyterLab and in Notebook 7; its kernel ends with the test."""
    yield from _opener(page, request)


@pytest.fixture
def lab_notebook(lab: Lab, request: pytest.FixtureRequest) -> Iterator[Opener]:
    """The same in JupyterLab alone."""
    yield from _opener(lab, request)


@pytest.fixture
def debugged(lab_notebook: Opener) -> tuple[Lab, Panel]:
    """A run that stands before its first work tick, and its panel."""
    return begin(lab_notebook, "run = flow.debug()")


def _opener(page: Lab, request: pytest.FixtureRequest) -> Iterator[Opener]:
    stem = re.sub(r"\W+", "-", request.node.name).strip("-")
    opened: list[str] = []

    def open_notebook(cells: Sequence[str]) -> Lab:
        name = f"{stem}-{len(opened)}.ipynb" if opened else f"{stem}.ipynb"
        make_notebook(page.server.root / name, cells)
        page.console.clear()
        page.browser.external.clear()
        page.open(name)
        opened.append(name)
        return page

    yield open_notebook

    failed = request.node.stash.get(_FAILED, False)
    if opened and failed:
        page.screenshot(SHOTS / f"failed-{stem}.png")
    if opened:
        page.shut_down()
    if failed:
        print("Browser console:", *page.console[-20:], sep="\n  ")


_FAILED: pytest.StashKey[bool] = pytest.StashKey()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember a failure for the fixtures, which then leave a screenshot and the console's last lines."""
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report
