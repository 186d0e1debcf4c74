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


def test_a_thread_that_cannot_be_started_takes_its_job_back(monkeypatch: pytest.MonkeyPatch):
    """The system gives no more: the caller hears of it, and the next job runs as if nothing had been."""
    pool = ThreadPool("test")
    done: list[str] = []

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            pool.submit(lambda: done.append("refused"))
    assert (pool._idle, pool._working, len(pool._jobs)) == (0, 0, 0)
    pool.submit(lambda: done.append("ran"))
    wait_until(lambda: done == ["ran"])


def test_a_job_that_waits_goes_on_where_no_thread_can_be_added(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """What is queued then runs on the thread that is there, when it is free."""
    pool = ThreadPool("test", limit=1)
    begun, queued, done = threading.Event(), threading.Event(), []

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def waits() -> None:
        begun.set()
        queued.wait(10)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            with pool.waiting():
                done.append("waited")

    pool.submit(waits)
    begun.wait(10)
    pool.submit(lambda: done.append("ran"))
    queued.set()
    wait_until(lambda: done == ["waited", "ran"])
    wait_until(lambda: (pool._idle, pool._working) == (1, 0))
    assert "no thread could be added" in caplog.text
