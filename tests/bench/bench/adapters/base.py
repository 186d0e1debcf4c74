"""The adapter protocol: what a system under test implements.

An adapter is a class with a no-argument constructor.  Each benchmark *cell*
(workload x size x adapter x mode x repetition) runs in its own process, which
calls ``setup(scratch)`` once, then the methods of one workload, then
``teardown()``.  Import the system inside ``setup`` so that listing adapters
costs nothing, and build graphs there too: only running them is timed.

Every workload method has a default that raises ``Unsupported``.  Override the
ones the system can express; for the others set ``unsupported[method]`` to the
reason, which is printed in the tables.

Each method returns something the harness checks, so that a system which
silently drops work cannot win.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar


class Unsupported(Exception):
    """The system cannot express this workload."""


class Adapter:
    name: ClassVar[str] = ""
    """Name used on the command line and in tables."""
    dist: ClassVar[str | None] = None
    """Name of the installed distribution (None: not one of its own, left out of W7)."""
    module: ClassVar[str | None] = None
    """Module a user imports to define and run a workflow."""
    only: ClassVar[tuple[str, ...]] = ()
    """Workload ids to take part in (empty: all); for variants of another adapter."""
    unsupported: ClassVar[dict[str, str]] = {}
    """Method name -> why the system cannot do it."""
    limits: ClassVar[dict[str, int]] = {}
    """Workload id -> largest size worth trying (larger sizes are skipped)."""
    notes: ClassVar[dict[str, str]] = {}
    """Workload id -> remark on how the system expresses it."""
    checkpoint_modes: ClassVar[tuple[str, ...]] = ()
    """Modes accepted by ``checkpointed_chain``."""

    @classmethod
    def requirement(cls) -> tuple[str, str]:
        """What pip is to install for W7, and the version to show: by default the one installed here."""
        from importlib.metadata import version

        found = version(cls.dist or "")
        return f"{cls.dist}=={found}", found

    def setup(self, scratch: Path) -> None:
        """Import the system and build its workflows; ``scratch`` is an empty folder."""

    def teardown(self) -> None:
        """Release what ``setup`` acquired."""

    def _no(self, method: str) -> Unsupported:
        return Unsupported(self.unsupported.get(method, "not implemented by this adapter"))

    # W1 -------------------------------------------------------------------
    async def chain(self, n: int) -> int:
        """One run: a counter event goes ``n`` times through one step; return the counter."""
        raise self._no("chain")

    # W2 -------------------------------------------------------------------
    async def fan_out(self, m: int) -> int:
        """One run: ``m`` events to a 4-worker step, all gathered; return the sum 0+1+..+m-1."""
        raise self._no("fan_out")

    # W3 -------------------------------------------------------------------
    async def small_run(self) -> int:
        """One run of a chain of five *distinct* steps, each adding 1; return 5."""
        raise self._no("small_run")

    # W4 -------------------------------------------------------------------
    async def suspend(self, k: int) -> Any:
        """Start ``k`` runs; return a token once all of them wait for human input."""
        raise self._no("suspend")

    async def resume(self, token: Any) -> int:
        """Answer every waiting run; return how many completed."""
        raise self._no("resume")

    # W5 -------------------------------------------------------------------
    async def snapshot_prepare(self, m: int) -> Any:
        """Bring a run to where it holds ``m`` pending or collected events; return a token."""
        raise self._no("snapshot_prepare")

    async def snapshot_dump(self, token: Any) -> bytes | str:
        """Serialise the run held by ``token``."""
        raise self._no("snapshot_dump")

    async def snapshot_load(self, data: bytes | str) -> int:
        """Restore a run from ``data``; return the number of events it holds."""
        raise self._no("snapshot_load")

    async def checkpointed_chain(self, n: int, mode: str) -> int:
        """W1 with durability after every step; return the bytes written."""
        raise self._no("checkpointed_chain")

    # W6 -------------------------------------------------------------------
    async def payload(self, obj: Any, n: int) -> Any:
        """Pass ``obj`` through ``n`` steps; return the object the last step received."""
        raise self._no("payload")

    # W8 -------------------------------------------------------------------
    async def fold_prepare(self, m: int) -> Any:
        """Do a W2 run and return its recorded ticks or journal."""
        raise self._no("fold_prepare")

    def fold(self, token: Any) -> int:
        """Rebuild the state from what ``fold_prepare`` returned; return the tick count."""
        raise self._no("fold")


def db_bytes(path: Path) -> int:
    """Size of a SQLite database including its write-ahead log."""
    total = 0
    for suffix in ("", "-wal"):
        f = path.with_name(path.name + suffix)
        if f.exists():
            total += f.stat().st_size
    return total
