"""flownb, as it is in this checkout. In a script the default store is memory, and runs live on the running loop."""

from __future__ import annotations

import asyncio
import itertools
import sys
from pathlib import Path
from typing import Any

import msgspec

from bench.adapters.base import Adapter, db_bytes

CHECKOUT = Path(__file__).resolve().parents[4]


class Flownb(Adapter):
    name = "flownb"
    dist = "flownb"
    module = "flownb"
    checkpoint_modes = ("journal-sqlite",)
    notes = {
        "W2": "a step returns list[Work]; the collector takes list[Done]",
        "W4": "await ctx.ask in the step; run.answer from outside",
        "W5": "M of M+1 branches of a list join are in, the last one asks a person; a load resumes it; JSON by msgspec",
        "W5c": "a journal in SQLite, committed before anything follows from it",
        "W8": "flownb.core.reduce.fold over run.debug.ticks",
    }

    @classmethod
    def requirement(cls) -> tuple[str, str]:
        return str(CHECKOUT), "checkout"

    def setup(self, scratch: Path) -> None:
        if str(CHECKOUT) not in sys.path:
            sys.path.insert(0, str(CHECKOUT))
        from bench.adapters import _flownb_defs as defs

        self.scratch = scratch
        self.files = itertools.count(1)
        self.chain_flow = defs.Chain()
        self.fan_flow = defs.Fan()
        self.five_flow = defs.Five()
        self.ask_flow = defs.Ask()
        self.hold_flow = defs.Hold()
        self.payload_flow = defs.Payload()

    async def chain(self, n: int) -> int:
        return await self.chain_flow.run(n=n)

    async def fan_out(self, m: int) -> int:
        return await self.fan_flow.run(m=m)

    async def small_run(self) -> int:
        return await self.five_flow.run()

    async def suspend(self, k: int) -> Any:
        runs = [self.ask_flow.run() for _ in range(k)]
        for run in runs:
            while not len(run.requests):
                await asyncio.sleep(0)
        return runs

    async def resume(self, token: Any) -> int:
        for run in token:
            run.answer(value=1)
        return sum(await asyncio.gather(*token))

    async def snapshot_prepare(self, m: int) -> Any:
        run = self.hold_flow.run(m=m)
        while not run.requests or _collected(run) < m:
            await asyncio.sleep(0)
        return run

    async def snapshot_dump(self, token: Any) -> bytes:
        return msgspec.json.encode(token.snapshot())

    async def snapshot_load(self, data: bytes | str) -> int:
        run = self.hold_flow.resume(msgspec.json.decode(data))
        while not run.requests:
            await asyncio.sleep(0)
        return _collected(run)

    async def checkpointed_chain(self, n: int, mode: str) -> int:
        from flownb import Store

        path = self.scratch / f"flownb{next(self.files)}.db"
        store = Store(path)
        assert await self.chain_flow.with_options(store=store).run(n=n) == n
        size = db_bytes(path)
        store.close()
        return size

    async def payload(self, obj: Any, n: int) -> Any:
        return await self.payload_flow.run(obj=obj, n=n)

    async def fold_prepare(self, m: int) -> Any:
        run = self.fan_flow.run(m=m)
        await run
        return run.debug.ticks

    def fold(self, token: Any) -> int:
        from flownb.core.reduce import fold

        return fold(token).seq


def _collected(run: Any) -> int:
    """How many events the run's open join holds."""
    return sum(len(join.got) for join in run._runner.state.joins.values())
