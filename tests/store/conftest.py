"""A codec that knows the classes of this process, and a store in a temporary folder."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flownb.events import newest
from flownb.store.codec import Codec
from flownb.store.sqlite import SqliteJournal


@pytest.fixture
def codec() -> Codec:
    return Codec(newest)


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Callable[[], SqliteJournal]]:
    """Opens the same file each time, as another process would."""
    opened: list[SqliteJournal] = []

    def open_one() -> SqliteJournal:
        opened.append(SqliteJournal(tmp_path / "runs.db", Codec(newest)))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()
