"""All stores agree: any order of calls, right and wrong, has the same outcomes and leaves the same behind."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flownb.core.ticks import AnyTick, GateClosed
from flownb.errors import WorkflowError
from flownb.events import newest
from flownb.store.codec import Codec
from flownb.store.journal import Append, Journal, Waits
from flownb.store.memory import MemoryJournal
from flownb.store.postgres import PostgresJournal
from flownb.store.sqlite import SqliteJournal
from tests.store.samples import started

RUNS, DRIVERS, HASHES = "abc", "de", "xy"
EXAMPLES = itertools.count()

some = st.sampled_from
rows = st.builds(
    lambda kind, id, due, token: Waits(kind, id, due, "s", b"q", token if kind == "request" else ""),
    some(["timer", "request", "retry"]),
    st.integers(1, 2),
    some([None, 1.0, 2.0]),
    some(["", *HASHES]),
)
keys = st.tuples(some(["timer", "request", "retry"]), st.integers(1, 2))
entries = st.fixed_dictionaries({
    "run": some(RUNS),
    "off": some([0, 0, 0, 0, 0, -1, 1]),
    "count": some([0, 1, 1, 1, 2]),
    "status": some(["", "running", "running", "waiting", "completed"]),
    "epoch": some(["right", "right", "right", "none", "wrong"]),
    "driver": some(DRIVERS),
    "taken": st.lists(st.integers(0, 3), max_size=2),
    "opened": st.lists(rows, max_size=2, unique_by=lambda row: (row.kind, row.id)),
    "closed": st.lists(keys, max_size=2),
    "alone": some([False, False, False, True]),
})  # fmt: skip
calls = st.one_of(
    st.tuples(st.just("append"), st.lists(entries, min_size=1, max_size=2, unique_by=lambda entry: entry["run"])),
    st.tuples(st.just("append"), st.lists(entries, min_size=1, max_size=2, unique_by=lambda entry: entry["run"])),
    st.tuples(st.just("again")),
    st.tuples(st.just("claim"), some(RUNS), some(DRIVERS), some([0.0, 1e6]), st.booleans()),
    st.tuples(st.just("renew"), some(DRIVERS), some([0.0, 1e6])),
    st.tuples(st.just("release"), some(DRIVERS), some([None, "a", "bc"])),
    st.tuples(st.just("put"), some(RUNS), some(["", "k"]), some([0, 0, 1, 2])),
    st.tuples(st.just("delete"), some(RUNS)),
)


class Pair:
    """The model and a store, asked the same; ids are new in each example, since the store is not."""

    def __init__(self, store: Journal) -> None:
        self.journals = (MemoryJournal(), store)
        self.prefix = f"{next(EXAMPLES)} "
        self.times = itertools.count(1)
        #: Numbers of what was put: each store has its own.
        self.put: list[tuple[str, tuple[int, int]]] = []
        self.last: list[list[Append]] = []

    def both(self, call: Callable[[Journal, int], Any]) -> list[Any]:
        outcomes = []
        for i, journal in enumerate(self.journals):
            try:
                outcomes.append(call(journal, i))
            except WorkflowError as error:
                outcomes.append((type(error), vars(error)))
        return outcomes

    def agree(self, call: Callable[[Journal, int], Any]) -> None:
        one, two = self.both(call)
        assert two == one

    def do(self, name: str, *values: Any) -> None:
        at = self.prefix
        match name, values:
            case "append", (wanted,):
                self.last = [[], []]
                for entry in wanted:
                    for group, made in zip(self.last, self.made(entry), strict=True):
                        group.append(made)
                self.agree(lambda journal, i: journal.append(self.last[i]))
            case "again", () if self.last:
                self.agree(lambda journal, i: journal.append(self.last[i]))
            case "claim", (run, driver, ttl, lost):
                self.agree(lambda journal, _: journal.claim(at + run, at + driver, ttl, was_lost=lambda name: lost))
            case "renew", (driver, ttl):
                self.agree(lambda journal, _: journal.renew(at + driver, ttl))
            case "release", (driver, runs):
                ids = None if runs is None else [at + run for run in runs]
                self.agree(lambda journal, _: journal.release(at + driver, ids))
            case "put", (run, key, request):
                tick = GateClosed(float(next(self.times)))
                found = self.both(lambda journal, _: journal.put(at + run, tick, key=key, request=request))
                if all(type(n) is int and n for n in found):
                    self.put.append((run, (found[0], found[1])))
                else:
                    assert found[0] == found[1]
            case "delete", (run,):
                self.agree(lambda journal, _: journal.delete([at + run]))

    def made(self, entry: dict[str, Any]) -> list[Append]:
        model, run_id = self.journals[0], self.prefix + entry["run"]
        last = model.last_seq(run_id)
        epoch = model.holder(run_id).epoch if last else 1
        after = max(0, last + entry["off"])
        ticks: list[AnyTick] = [GateClosed(float(next(self.times))) for _ in range(entry["count"])]
        if after == 0 and ticks:
            ticks[0] = started(run_id, float(next(self.times)))
        numbers = [pair for run, pair in self.put if run == entry["run"]]
        taken = [numbers[n] for n in entry["taken"] if n < len(numbers)]
        return [
            Append(
                run_id,
                after,
                ticks,
                entry["status"],
                {"right": epoch, "none": 0, "wrong": epoch + 1}[entry["epoch"]],
                self.prefix + entry["driver"],
                [pair[i] for pair in taken],
                [
                    Waits(w.kind, w.id, w.due, w.step, w.body, w.token and self.prefix + w.token)
                    for w in entry["opened"]
                ],
                entry["closed"],
                entry["alone"],
            )
            for i in range(2)
        ]

    def compare(self) -> None:
        def seen(journal: Journal, _: int) -> list[Any]:
            ids = [self.prefix + run for run in RUNS]
            found: list[Any] = []
            for run_id in ids:
                found += [journal.last_seq(run_id), journal.row(run_id), journal.waiting(run_id=run_id)]
                if journal.last_seq(run_id):
                    found += [journal.read(run_id), journal.holder(run_id)[:2]]
            found += [(entry.run_id, entry.tick) for entry in journal.inbox(ids)]
            found += [journal.token(self.prefix + hash) for hash in HASHES]
            return found

        self.agree(seen)


def check(store: Journal, script: list[tuple[Any, ...]]) -> None:
    pair = Pair(store)
    for call in script:
        pair.do(*call)
        pair.compare()


scripts = st.lists(calls, min_size=1, max_size=14)


@given(scripts)
@settings(max_examples=80)
def test_a_file_agrees_with_the_model(tmp_path_factory: pytest.TempPathFactory, script: list[tuple[Any, ...]]):
    """R1.45, R5.6 to R5.10: each outcome, each error with its fields, and all that can be read after each call."""
    store = SqliteJournal(tmp_path_factory.getbasetemp() / "agreement" / "runs.db", Codec(newest))
    check(store, script)
    store.close()


@given(scripts)
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_database_agrees_with_the_model(new_url: Callable[[], str], script: list[tuple[Any, ...]]):
    """The same of PostgreSQL."""
    store = PostgresJournal(_url(new_url), Codec(newest))
    check(store, script)
    store.close()


_made: list[str] = []


def _url(new_url: Callable[[], str]) -> str:
    """One schema for all examples: they keep apart by their ids."""
    if not _made:
        _made.append(new_url())
    return _made[0]


def test_the_model_is_not_compared_with_itself(tmp_path: Path):
    """Of a long script most calls succeed: else little would be said by that all agree."""
    store = SqliteJournal(tmp_path / "runs.db", Codec(newest))
    pair = Pair(store)
    entry = {
        "run": "a", "off": 0, "count": 1, "status": "running", "epoch": "right", "driver": "d",
        "taken": [], "opened": [Waits("request", 1, None, "s", b"q", "x")], "closed": [], "alone": False,
    }  # fmt: skip
    for call in [("append", [entry]), ("put", "a", "k", 1), ("append", [{**entry, "taken": [0], "alone": True}])]:
        pair.do(*call)
        pair.compare()

    assert store.last_seq(f"{pair.prefix}a") == 2
    assert store.inbox([f"{pair.prefix}a"]) == []
    store.close()
