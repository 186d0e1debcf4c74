"""The thread that looks at a store for others' writes."""

import gc
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from flownb import Store
from tests.polling import wait_until
from tests.runtime.flows import Asks


def has_thread(store: Store) -> bool:
    watch = store._committer.watch
    return watch is not None and watch._thread is not None


def left(path: Path) -> None:
    """A run that asks and that nobody drives."""
    with closing(Store(path)) as store:
        run = Asks().with_options(store=store).run(run_id="r")
        wait_until(lambda: run.status == "waiting" and len(run.requests) == 1)
        run.suspend().result(20)


def test_who_only_looks_writes_nothing(tmp_path: Path):
    """No lease either: a file that is looked at stays as it is."""
    path = tmp_path / "runs.db"
    left(path)

    def all_rows() -> list[Any]:
        with closing(sqlite3.connect(path)) as db:
            tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()]
            return [(table, db.execute(f"SELECT * FROM {table}").fetchall()) for table in tables]

    before = all_rows()
    with closing(Store(path)) as store:
        run = store.run("r")
        wait_until(lambda: run._runner.stored.committer.watch._version >= 0)  # it has looked
        assert run.status == "suspended"
        assert all_rows() == before
    assert all_rows() == before


def test_a_store_that_nobody_looks_at_any_more_has_no_thread(tmp_path: Path):
    """Nor does one that is closed; another look begins another thread."""
    path = tmp_path / "runs.db"
    left(path)
    with closing(Store(path)) as store:
        for _ in range(2):
            run = store.run("r")
            assert has_thread(store)
            del run
            gc.collect()
            wait_until(lambda: not has_thread(store))
