"""Small workflows that several tests of this room drive."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Workflow, step
from flownb.core.ticks import AnyTick
from flownb.store.journal import Append
from flownb.store.memory import MemoryJournal


class Begin(StartEvent):
    n: int = 3


class Item(Event):
    no: int


class Done(Event):
    no: int


class Verdict(HumanResponseEvent):
    ok: bool


class Approve(InputRequiredEvent[Verdict]):
    no: int = 0


class Count(Workflow[list[int]]):
    """Fans out `n` items, passes each through an async step, gathers their numbers."""

    @step
    async def split(self, ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(ev.n)]

    @step
    async def work(self, ev: Item) -> Done:
        await asyncio.sleep(0)
        return Done(no=ev.no)

    @step
    async def join(self, ev: list[Done]) -> StopEvent:
        return StopEvent(result=[d.no for d in ev])


class Plain(Workflow[list[int]]):
    """The same in plain functions."""

    @step
    def split(self, ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(ev.n)]

    @step
    def work(self, ev: Item) -> Done:
        time.sleep(0.001)
        return Done(no=ev.no)

    @step
    def join(self, ev: list[Done]) -> StopEvent:
        return StopEvent(result=[d.no for d in ev])


class Forever(Workflow[None]):
    """One async step that never ends."""

    @step
    async def hang(self, ev: Begin, ctx: Context) -> StopEvent:
        await asyncio.Event().wait()
        return StopEvent()


class Asks(Workflow[Any]):
    """Asks one question and gives what the person said."""

    @step
    async def ask(self, ev: Begin, ctx: Context) -> StopEvent:
        verdict = await ctx.ask(Approve(no=ev.n))
        return StopEvent(result=verdict.ok)


class CountingJournal(MemoryJournal):
    """A journal that can be told to fail, and that remembers how often it was written."""

    def __init__(self, fails: int = 0, error: Exception | None = None) -> None:
        super().__init__()
        self.fails = fails
        self.error = error or OSError(28, "No space left on device")
        self.appends: list[list[str]] = []

    def append(self, entries: Sequence[Append], *, durable: bool = False) -> None:
        if self.fails > 0:
            self.fails -= 1
            raise self.error
        self.appends.append([entry.run_id for entry in entries])
        super().append(entries, durable=durable)

    def ticks(self, run_id: str) -> list[AnyTick]:
        return self.read(run_id)
