"""Who hears of every tick of a run, beside it."""

import asyncio
import logging
import threading
import time
from typing import Any

import pytest

from flownb.observers import observe
from tests.polling import wait_until
from tests.runtime.flows import Count, Forever


@pytest.mark.parametrize("start", [1, 3])
def test_an_observer_hears_of_each_tick_by_its_seq_from_any_seq(start: int):
    """R5.67: past ones too."""
    run = Count().run(n=3)
    heard: list[tuple[int, Any]] = []
    with observe(run._runner, lambda seq, tick: heard.append((seq, tick)), start) as live:
        run.result(20)
        assert live.wait(20)
    late: list[tuple[int, Any]] = []
    assert observe(run._runner, lambda seq, tick: late.append((seq, tick)), start).wait(20)
    assert heard == late == list(enumerate(run._runner.ticks, 1))[start - 1 :]
    assert run._runner.listeners == []


def test_an_observer_runs_on_a_thread_of_its_own():
    """R5.67."""
    names = set()
    run = Count().run(n=1, run_id="watched")
    watcher = observe(run._runner, lambda seq, tick: names.add(threading.current_thread().name))
    assert watcher.wait(20)
    assert names == {"flownb observer of watched"}
    assert repr(watcher) == "<observer of run watched: ended>"


def test_a_slow_observer_does_not_slow_the_run():
    """R5.68."""
    go_on = threading.Event()
    run = Count().run(n=5)
    heard: list[int] = []

    def slow(seq: int, tick: Any) -> None:
        heard.append(seq)
        assert go_on.wait(20)

    watcher = observe(run._runner, slow)
    assert run.result(20) == list(range(5))
    assert heard in ([], [1])
    assert "next is tick" in repr(watcher)
    go_on.set()
    assert watcher.wait(20)
    assert heard == list(range(1, run.now.seq + 1))


def test_what_an_observer_raises_is_logged_and_harms_nothing(caplog: pytest.LogCaptureFixture):
    """R5.68: it hears of the next tick all the same."""
    heard = []

    def bad(seq: int, tick: Any) -> None:
        heard.append(seq)
        raise (SystemExit if seq == 2 else ValueError)(f"bad at {seq}")

    with caplog.at_level(logging.ERROR, "flownb"):
        run = Count().run(n=2)
        assert observe(run._runner, bad).wait(20)
    assert run.result(20) == [0, 1]
    assert heard == list(range(1, run.now.seq + 1))
    assert f"an observer of run {run.run_id} failed at tick 2" in caplog.text
    assert "bad at 3" in caplog.text


def test_a_closed_observer_hears_nothing_more_and_leaves_nothing_behind():
    run = Forever().run()
    heard: list[int] = []
    watcher = observe(run._runner, lambda seq, tick: heard.append(seq))
    wait_until(lambda: heard == [1])
    watcher.close()
    assert watcher.wait(0)
    assert run._runner.listeners == []
    run.cancel().result(20)
    assert heard == [1]


def test_an_observer_may_close_itself():
    """From its own thread it cannot wait for its own end."""
    run = Count().run(n=2)
    heard: list[int] = []

    def once(seq: int, tick: Any) -> None:
        heard.append(seq)
        made.wait(20)
        watchers[0].close()

    made = threading.Event()
    watchers = [observe(run._runner, once)]
    made.set()
    assert watchers[0].wait(20)
    assert heard == [1]


def test_an_observer_ends_with_a_run_whose_loop_is_gone():
    """R5.5: nobody drives it any more."""
    heard: list[int] = []

    async def main() -> Any:
        run = Forever().with_options(host="loop").run()
        watcher = observe(run._runner, lambda seq, tick: heard.append(seq))
        await asyncio.sleep(0.01)
        return watcher

    watcher = asyncio.run(main())
    began = time.monotonic()
    assert watcher.wait(20)
    assert time.monotonic() - began < 10
    assert heard == [1]
