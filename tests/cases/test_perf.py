"""Cases of the tag *perf*: what a store takes of time and disk."""

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flownb import Context, Event, StartEvent, StopEvent, Store, Workflow

Open = Callable[..., Store]


class Go(StartEvent):
    n: int
    big: Any = None


class Next(Event):
    no: int


flow = Workflow[Any]("counts down")


@flow.step
async def begin(ev: Go, ctx: Context) -> Next:
    if ev.big is not None:
        ctx.state.set("big", ev.big)
    return Next(no=ev.n)


@flow.step
async def go_on(ev: Next) -> Next | StopEvent:
    return Next(no=ev.no - 1) if ev.no else StopEvent()


def size_of(path: Path) -> int:
    """Of a closed store, with its files."""
    found = [path, *(file for file in path.with_suffix(".artifacts").rglob("*") if file.is_file())]
    return sum(file.stat().st_size for file in found)


def test_c125_a_store_does_not_grow_with_the_state(tmp_path: Path, open_store: Open):
    """5 MB that 1,000 ticks do not touch: at most 30 MB, the last ticks take as long as the first, and a store that was
    pruned is small again."""
    path = tmp_path / "runs.db"
    store = open_store(str(path))
    texts = [f"{i:07}" for i in range(500_000)]
    for i in range(20):  # so that there is something to give back
        flow.with_options(store=store).run(run_id=f"other{i}", n=300).result(60)
    run = flow.with_options(store=store, host="thread").debug(run_id="r", n=1000, big=texts)
    took: list[float] = []  # processor time of the engine's thread: other processes are none of the store's cost
    run._runner.observers.append(lambda before, tick, after, commands: took.append(time.thread_time()))
    run.cont()
    run.result(100)
    assert len(took) >= 1000
    windows = [later - earlier for earlier, later in zip(took[10::50], took[60::50], strict=False)]
    half = len(windows) // 2
    assert statistics.median(windows[half:]) < 2 * statistics.median(windows[:half])
    store.close()
    assert 5_000_000 < size_of(path) < 30_000_000

    before, store = path.stat().st_size, open_store(str(path))
    assert store.run("r").state["big"] == texts
    assert store.prune(older_than=0.0, keep=1) == 20
    store.close()
    assert path.stat().st_size < before / 3
    assert open_store(str(path)).run("r").state["big"] == texts


BIG: dict[str, Callable[[], Any]] = {
    "a text": lambda: "x" * 1_000_000,
    "a table": lambda: {f"row {i}": [i, i + 0.5, "text"] for i in range(30_000)},
    "an array": lambda: np.arange(125_000.0),
}


@pytest.mark.parametrize("what", BIG)
def test_ticks_beside_a_state_of_1_mb_take_what_they_take_beside_none(tmp_path: Path, open_store: Open, what: str):
    """No tick and no saved state holds a copy of it: bytes a tick are constant, over several checkpoints too."""

    def grows_by(big: Any) -> float:
        sizes = []
        for n in (500, 3500):
            path = tmp_path / f"{what} {big is None} {n}.db"
            store = open_store(str(path))
            flow.with_options(store=store).run(run_id="r", n=n, big=big).result(100)
            store.close()
            sizes.append(size_of(path))
        return (sizes[1] - sizes[0]) / 3000

    assert grows_by(BIG[what]()) == pytest.approx(grows_by(None), abs=10)


def test_ten_thousand_small_ticks_take_at_most_6_mb(tmp_path: Path, open_store: Open):
    """The file as it is when it is closed."""
    path = tmp_path / "runs.db"
    store = open_store(str(path))
    flow.with_options(store=store).run(run_id="r", n=10_000).result(100)
    assert store.journal.last_seq("r") > 10_000
    store.close()
    assert size_of(path) < 6_000_000
