"""flownb, as it is in this checkout. In a script the default store is memory, and runs live on the running loop."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from bench.adapters.base import Adapter

CHECKOUT = Path(__file__).resolve().parents[4]


class Flownb(Adapter):
    name = "flownb"
    dist = "flownb"
    module = "flownb"
    unsupported = {
        "snapshot_prepare": "flownb has no snapshots yet",
        "checkpointed_chain": "not written yet",
        "fold_prepare": "not written yet",
    }
    notes = {
        "W2": "a step returns list[Work]; the collector takes list[Done]",
        "W4": "await ctx.ask in the step; run.answer from outside",
    }

    @classmethod
    def requirement(cls) -> tuple[str, str]:
        return str(CHECKOUT), "checkout"

    def setup(self, scratch: Path) -> None:
        if str(CHECKOUT) not in sys.path:
            sys.path.insert(0, str(CHECKOUT))
        from bench.adapters import _flownb_defs as defs

        self.chain_flow = defs.Chain()
        self.fan_flow = defs.Fan()
        self.five_flow = defs.Five()
        self.ask_flow = defs.Ask()
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

    async def payload(self, obj: Any, n: int) -> Any:
        return await self.payload_flow.run(obj=obj, n=n)
