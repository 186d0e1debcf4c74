"""For all tests: a clean environment, Hypothesis profiles, and no skips where CI=true."""

import itertools
import os
from collections.abc import Callable, Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.postgres import Server

IN_CI = os.environ.get("CI", "").lower() in {"1", "true", "yes"}

# A shared, busy machine makes single examples slow: time is pytest-timeout's business, not Hypothesis's.
settings.register_profile("default", deadline=None)
settings.register_profile(
    "ci", deadline=None, derandomize=True, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if IN_CI else "default"))

# Before any test imports flownb: options are read from the environment, and a user's own must not change a test.
_KEPT = ("FLOWNB_SHOTS", "FLOWNB_README_PNG")  # where the browser tests put their pictures
for _name in [name for name in os.environ if name.startswith("FLOWNB_") and name not in _KEPT]:
    del os.environ[_name]
os.environ["FLOWNB_USER"] = ""  # nor may their name


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With CI=true a skipped test is a failed one: what CI says is green has run."""
    report = yield
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"Skipped, and with CI=true nothing may be: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a whole module that skips itself."""
    report = yield
    if IN_CI and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"Skipped, and with CI=true nothing may be: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL server, started for the first test that needs it."""
    server = Server()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="session")
def new_url(postgres: Server) -> Callable[[], str]:
    """Gives the URL of an empty store each time."""
    numbers = itertools.count(1)
    return lambda: postgres.url(f"test_{next(numbers)}")
