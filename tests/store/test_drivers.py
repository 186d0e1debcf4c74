"""Who drives a run, and whether that process is still there."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flownb.store import drivers
from flownb.store.drivers import describe, driver_id, is_gone

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = "import sys; from flownb.store.drivers import driver_id; print(driver_id(), flush=True); sys.stdin.read()"


@pytest.fixture
def other() -> Iterator[subprocess.Popen[str]]:
    """Another process, which prints its id and waits."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", PROGRAM], cwd=ROOT, text=True, **pipes) as process:
        yield process
        process.kill()


def id_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def changed(driver: str, place: int, value: str) -> str:
    parts = driver.split(":")
    return ":".join([*parts[:place], value, *parts[place + 1 :]])


def test_each_open_store_is_a_driver_of_its_own():
    """Two stores of one file in one process hold different leases; both are this process to people."""
    one, other = driver_id(), driver_id()
    assert one != other
    for driver in (one, other):
        assert f":{os.getpid()}:" in driver
        assert describe(driver) == "this process"
        assert not is_gone(driver)


def test_a_child_made_by_fork_is_another_driver():
    """Else two processes would hold one lease."""
    reading, writing = os.pipe()
    program = (
        "import os, sys; from flownb.store.drivers import driver_id; driver_id(); os.fork()\n"
        "os.write(int(sys.argv[1]), f'{driver_id()} '.encode()); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", program, str(writing)], cwd=ROOT, check=True, pass_fds=[writing])
    found: list[str] = []
    while len(found) < 2:
        found += os.read(reading, 4096).decode().split()
    os.close(reading)
    os.close(writing)

    assert len(set(found)) == 2


def test_a_killed_process_is_gone(other: subprocess.Popen[str]):
    """R5.7: at once, also while nobody has asked the system for its exit status."""
    driver = id_of(other)
    assert not is_gone(driver)
    assert describe(driver) == f"process {other.pid}"
    other.kill()
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)

    assert is_gone(driver)
    other.wait()
    assert is_gone(driver)


def test_a_number_that_another_process_has_now_does_not_count(other: subprocess.Popen[str]):
    """The time at which it began is part of the id; without it a living number counts as alive."""
    driver = id_of(other)

    assert is_gone(changed(driver, 4, "1"))
    assert not is_gone(changed(driver, 4, ""))


def test_of_another_boot_nothing_is_known(other: subprocess.Popen[str]):
    """It may be another machine of that name, or another container of this one, and alive: there the lease tells."""
    driver = id_of(other)

    assert not is_gone(changed(driver, 2, "earlier.1"))
    assert not is_gone(changed(driver, 2, ""))


def test_of_another_machine_nothing_is_known():
    """There the lease tells."""
    driver = changed(changed(driver_id(), 1, "hub-9"), 3, "99999")

    assert not is_gone(driver)
    assert describe(driver) == "process 99999 on hub-9"


@pytest.mark.parametrize("driver", ["", "d", "python:h:b:x:s:r", "python:h:b:-1:s:r", "a:b:c:1:e:f", "python:h:b:1:s"])
def test_what_is_no_id_is_nobody_that_is_gone(driver: str):
    """It may come from a newer version, or from a test."""
    assert not is_gone(driver)
    assert describe(driver) == (repr(driver) if driver else "nobody")


def test_without_proc_the_number_alone_tells(other: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch):
    """As on macOS: a process that can be signalled lives."""
    monkeypatch.setattr(drivers, "_stat_of", lambda pid: [])
    driver = id_of(other)
    assert not is_gone(driver)
    other.kill()
    other.wait()

    assert is_gone(driver)


def test_a_process_of_somebody_else_lives(monkeypatch: pytest.MonkeyPatch):
    """It may not be signalled, which says that it is there."""

    def refuse(pid: int, signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(drivers.os, "kill", refuse)
    assert not is_gone(driver_id())
