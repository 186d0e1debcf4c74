"""Who drives a run: the id of a process, and whether that process is still there.

    python:hub-3:6f1c0a52:4711:883201:9b1f44

Words that a person can read (`describe`), and enough of the process to see that it is dead without waiting for its
lease: a number alone would not do, since a new process gets the number of an old one sooner or later, at the latest
after the machine was started again.
"""

from __future__ import annotations

import os
import socket
import sys
from functools import cache
from typing import NamedTuple

_KIND = "python"
#: Stands where a driver would, and before the reason why some of it is missing: nobody drives an imported run, ever.
IMPORTED = "imported:"


class _Driver(NamedTuple):
    host: str
    #: Of the boot of that machine or container; "" where it does not tell.
    boot: str
    pid: int
    #: When the process began, in the machine's own count; "" where it does not tell.
    start: str


def driver_id() -> str:
    """A new id of this process as a driver: each open store is one of its own, so that of two that are open on the same
    runs only one drives."""
    pid = os.getpid()  # a forked child is another one
    parts = (_host(), _boot(), str(pid), _start_of(pid) or "", os.urandom(6).hex())
    return ":".join((_KIND, *(part.replace(":", "-") for part in parts)))


def is_gone(driver: str) -> bool:
    """Whether the process that a driver's id names is certainly dead. False if it lives, is on another machine, or is
    of no such id."""
    found = _parse(driver)
    if found is None or found.host != _host().replace(":", "-"):
        return False
    if found.boot != _boot():
        # The machine was started again, or it is another machine or container of the same name: its lease tells.
        return False
    if not _lives(found.pid):
        return True
    start = _start_of(found.pid)
    return bool(found.start and start and start != found.start)


def is_imported(driver: str) -> bool:
    """Whether a run that has this for its driver was imported."""
    return driver.startswith(IMPORTED)


def missing_in(driver: str) -> str:
    """What is missing of an imported run, to be put behind other words; "" if it is whole."""
    why = driver.removeprefix(IMPORTED)
    return f"; the rest of it is missing: {why}" if why else ""


def describe(driver: str) -> str:
    """A driver in words: "process 4711 on hub-3"."""
    if is_imported(driver):
        return "nobody"
    found = _parse(driver)
    if found is None:
        return repr(driver) if driver else "nobody"
    where = "" if found.host == _host().replace(":", "-") else f" on {found.host}"
    is_here = (found.host, found.boot, found.pid) == (_host().replace(":", "-"), _boot(), os.getpid())
    return "this process" if is_here else f"process {found.pid}{where}"


def _parse(driver: str) -> _Driver | None:
    parts = driver.split(":")
    if len(parts) != 6 or parts[0] != _KIND or not (parts[3].isascii() and parts[3].isdigit()) or len(parts[3]) > 9:
        return None
    return _Driver(parts[1], parts[2], int(parts[3]), parts[4])


def _host() -> str:
    return socket.gethostname()


@cache
def _boot() -> str:
    """One word for what a process number is unique in: a boot of the machine, and in it the container's own numbers."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip().replace("-", "")
        return f"{boot[:12]}.{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:  # macOS, Windows
        return ""


def _lives(pid: int) -> bool:
    if sys.platform == "win32":
        return True  # `os.kill` would end it; the lease tells
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's
        return True
    return _state_of(pid) != "Z"


def _stat_of(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            # The name of the program stands in parentheses and may hold spaces and parentheses itself.
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def _state_of(pid: int) -> str:
    fields = _stat_of(pid)
    return fields[0] if fields else ""


def _start_of(pid: int) -> str:
    """When a process began, in ticks since the boot; "" where the system does not tell."""
    fields = _stat_of(pid)
    return fields[19] if len(fields) > 19 else ""
