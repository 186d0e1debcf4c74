"""Threads of plain steps: daemons, made on demand, not counted while they wait."""

import threading

import pytest

from flownb.runtime.threads import ThreadPool
from tests.polling import wait_until


def test_jobs_run_at_once_on_daemon_threads_up_to_the_limit():
    pool = ThreadPool("test", limit=3)
    go, running = threading.Event(), []

    def job() -> None:
        running.append(threading.current_thread())
        go.wait(10)

    for _ in range(5):
        pool.submit(job)
    wait_until(lambda: len(running) == 3)
    assert all(thread.daemon for thread in running)
    assert len(set(running)) == 3
    go.set()
    wait_until(lambda: len(running) == 5)


def test_an_idle_thread_is_used_again():
    pool = ThreadPool("test")
    names: list[str] = []
    for n in range(20):
        pool.submit(lambda: names.append(threading.current_thread().name))
        wait_until(lambda n=n: len(names) == n + 1 and pool._idle > 0)
    assert set(names) == {"test-1"}


def test_a_waiting_job_makes_room_for_others():
    """R3.14: steps that wait never starve running ones."""
    pool = ThreadPool("test", limit=1)
    release, done = threading.Event(), []

    def waits() -> None:
        with pool.waiting():
            release.wait(10)
        done.append("waited")

    pool.submit(waits)
    pool.submit(lambda: done.append("ran"))
    wait_until(lambda: done == ["ran"])
    release.set()
    wait_until(lambda: done == ["ran", "waited"])


def test_a_job_that_raises_does_not_cost_a_thread(caplog: pytest.LogCaptureFixture):
    """Even SystemExit: a thread that is counted and gone would leave the next job waiting for ever."""
    pool = ThreadPool("test", limit=1)
    done: list[int] = []

    def bad(kind: type[BaseException]) -> None:
        raise kind("a bug")

    pool.submit(lambda: bad(ValueError))
    pool.submit(lambda: bad(SystemExit))
    pool.submit(lambda: done.append(1))
    wait_until(lambda: done == [1])
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
