"""Stores of both kinds for tests of what is answered over HTTP, and other processes."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from flownb import Store
from tests.stored.other import Other


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store, as it is named; of each kind in turn."""
    if request.param == "sqlite":
        return str(tmp_path / "runs.db")
    new_url: Callable[[], str] = request.getfixturevalue("new_url")
    return new_url()


@pytest.fixture
def store(place: str, tmp_path: Path) -> Iterator[Store]:
    with closing(Store(place, artifacts=tmp_path / "artifacts")) as opened:
        yield opened


@pytest.fixture
def file_store(tmp_path: Path) -> Iterator[Store]:
    """A store in a file alone, for what is the same in both."""
    with closing(Store(tmp_path / "runs.db")) as opened:
        yield opened


@pytest.fixture
def other() -> Iterator[Callable[..., Other]]:
    """Starts another process with a store."""
    started: list[Other] = []

    def start(place: str, **settings: bool) -> Other:
        started.append(Other(place, **settings))
        return started[-1]

    yield start
    for process in started:
        process.end()
