"""A place for a store, in SQLite or also in PostgreSQL; stores that are closed at the end; other processes."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flownb import Store
from tests.stored.other import Other


@pytest.fixture
def place(tmp_path: Path) -> str:
    """An SQLite file."""
    return str(tmp_path / "runs.db")


@pytest.fixture(params=["sqlite", "postgres"])
def any_place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of each kind of store that several processes share."""
    return str(tmp_path / "runs.db") if request.param == "sqlite" else request.getfixturevalue("new_url")()


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Callable[..., Store]]:
    """Opens a store as a new process would: nothing of before is known."""
    opened: list[Store] = []

    def open_one(place: str, **settings: Any) -> Store:
        if "://" in place:
            settings["artifacts"] = tmp_path / "artifacts"
        opened.append(Store(place, **settings))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def other() -> Iterator[Callable[..., Other]]:
    """Starts another process with a store."""
    started: list[Other] = []

    def start(place: str, **settings: Any) -> Other:
        started.append(Other(place, **settings))
        return started[-1]

    yield start
    for process in started:
        process.end()
