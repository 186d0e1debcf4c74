"""Another process with a store of its own, which does line by line what it is told."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

#: Processes are forked off one that has the package already: a hundred of them would else be a minute of imports. The
#: workflows are not among it, for some processes must not know their classes.
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    ["flownb.resuming", "flownb.agenda", "flownb.openings", "flownb.store.sqlite", "flownb.store.postgres", "sqlite3"]
)


class OtherError(Exception):
    """What the other process raised."""

    def __init__(self, kind: str, said: str) -> None:
        super().__init__(f"{kind}: {said}")
        self.kind, self.said = kind, said


class Other:
    """A process that another one is told through.

    Args:
        place: Of the store that it opens as `store`.
        lease_s: How long its leases last; None as usual.
        knows: Whether it has the workflows of `flows`, and their classes.
    """

    def __init__(self, place: str | Path, *, lease_s: float | None = None, knows: bool = True) -> None:
        self._line, theirs = _context.Pipe()
        self._process = _context.Process(target=serve, args=(theirs, str(place), lease_s, knows), daemon=True)
        self._process.start()
        theirs.close()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def do(self, code: str) -> None:
        """Run statements; names stay for later ones."""
        self._ask("do", code)

    def give(self, expression: str) -> Any:
        """The value of an expression, which is made of plain values."""
        return self._ask("give", expression)

    def wait(self, expression: str) -> None:
        """Wait until an expression is true there."""
        self._ask("wait", expression)

    def _ask(self, what: str, code: str) -> Any:
        self._line.send((what, code))
        try:
            kind, said = self._line.recv()
        except EOFError:
            raise AssertionError(f"the other process died over {code}") from None
        if kind:
            raise OtherError(kind, said)
        return said

    def kill(self) -> None:
        """As `kill -9` does it: at once, and nothing is tidied up."""
        self._process.kill()
        self._process.join(20)

    def freeze(self) -> None:
        """As a machine that sleeps."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def end(self) -> None:
        """As a program that comes to its end; kills one that does not."""
        if self._process.is_alive():
            self.thaw()
        self._line.close()
        self._process.join(20)
        if self._process.is_alive():
            self.kill()


def at_once(processes: Sequence[Other], code: str) -> None:
    """Let each of these processes run the same statements at the same moment; an error of one is raised."""
    with ThreadPoolExecutor(len(processes)) as pool:
        list(pool.map(lambda process: process.do(code), processes))


def serve(line: Connection, place: str, lease_s: float | None, knows: bool) -> None:
    """Do what comes along a line until it ends."""
    import flownb
    from flownb.runtime import stored, watching
    from tests.polling import wait_until

    if lease_s is not None:
        stored.LEASE_S = watching.LEASE_S = lease_s
    names: dict[str, Any] = {**vars(flownb), "Store": flownb.Store, "os": os, "store": flownb.Store(place)}
    if knows:
        from tests.stored import flows

        names.update(vars(flows))
    while True:
        try:
            what, code = line.recv()
        except EOFError:
            break
        try:
            value = None
            if what == "do":
                exec(code, names)
            elif what == "give":
                value = eval(code, names)
            else:
                wait_until(lambda code=code: eval(code, names))  # type: ignore[misc]
            line.send(("", value))
        except BaseException as error:
            line.send((type(error).__name__, str(error)))
    sys.stdout.flush()
    atexit._run_exitfuncs()  # as the end of a program does it: a forked process ends without
