"""What is driven, lost and driven on here. `note` lines say how often which code ran, in whatever process."""

import asyncio
import os
from pathlib import Path
from typing import Any

from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Workflow, step
from flownb.retry_policy import retry_policy, stop_after_attempt, wait_fixed


class Begin(StartEvent):
    #: A file that steps write to, or none.
    log: str = ""
    n: int = 3


def note(log: str, what: str) -> None:
    """Say in a file that some code ran, and where."""
    if log:
        with Path(log).open("a") as file:
            file.write(f"{what} {os.getpid()}\n")


def notes(log: Path) -> list[str]:
    """What ran, in order."""
    return [line.rpartition(" ")[0] for line in log.read_text().splitlines()] if log.exists() else []


class Verdict(HumanResponseEvent):
    ok: bool
    words: str = ""


class Approve(InputRequiredEvent[Verdict]):
    no: int = 0


class Item(Event):
    no: int
    log: str = ""


class Done(Event):
    no: int


class Asks(Workflow[Any]):
    """Asks with `ctx.ask`, so its coroutine waits in memory."""

    @step
    async def ask(self, ev: Begin, ctx: Context) -> StopEvent:
        note(ev.log, "ask")
        verdict = await ctx.ask(Approve(no=ev.n))
        note(ev.log, "asked")
        return StopEvent(result=verdict.words or verdict.ok)


class Returns(Workflow[Any]):
    """Returns its question, so nothing of it runs while it waits."""

    @step
    async def ask(self, ev: Begin, ctx: Context) -> Approve:
        note(ev.log, "ask")
        ctx.state.set("log", ev.log)
        return Approve(no=ev.n)

    @step
    async def take(self, ev: Verdict, ctx: Context) -> StopEvent:
        note(ctx.state.get("log"), "take")
        return StopEvent(result=[ctx.request(Approve).question.no, ev.words or ev.ok])


class Sleeps(Workflow[float]):
    """Sleeps, and gives when it was over."""

    @step
    async def sleep(self, ev: Begin, ctx: Context) -> StopEvent:
        note(ev.log, "sleep")
        await ctx.sleep(ev.n / 10)
        note(ev.log, "slept")
        return StopEvent(result=ctx.now())


class Chain(Workflow[int]):
    """n steps, one after the other."""

    @step
    async def begin(self, ev: Begin) -> Item:
        return Item(no=ev.n, log=ev.log)

    @step
    async def go_on(self, ev: Item) -> Item | StopEvent:
        note(ev.log, f"go_on {ev.no}")
        await asyncio.sleep(0.005)
        return Item(no=ev.no - 1, log=ev.log) if ev.no else StopEvent(result=0)


class Blocks(Workflow[str]):
    """One step that runs until the file `<log>.go` is there."""

    @step
    async def block(self, ev: Begin, ctx: Context) -> StopEvent:
        note(ev.log, "block")
        while not Path(f"{ev.log}.go").exists():
            await asyncio.sleep(0.005)
        ctx.state.set("was", "here")
        note(ev.log, "blocked")
        return StopEvent(result="blocked")


class Once(Workflow[str]):
    """The same, and must not run again by itself."""

    @step(idempotent=False)
    async def charge(self, ev: Begin) -> StopEvent:
        note(ev.log, "charge")
        while not Path(f"{ev.log}.go").exists():
            await asyncio.sleep(0.005)
        return StopEvent(result="charged")


class Tries(Workflow[int]):
    """Fails twice, half a second apart."""

    @step(retry_policy=retry_policy(stop=stop_after_attempt(3), wait=wait_fixed(0.5)))
    async def work(self, ev: Begin, ctx: Context) -> StopEvent:
        note(ev.log, f"try {ctx.attempt}")
        if ctx.attempt < 3:
            raise ValueError("not yet")
        return StopEvent(result=ctx.attempt)


class News(Event):
    no: int


class Listens(Workflow[list[int]]):
    """Takes n events from outside; the result is their numbers, sorted."""

    def __init__(self) -> None:
        super().__init__(accepts=[News])

    @step
    async def begin(self, ev: Begin, ctx: Context) -> None:
        ctx.state.set("wanted", ev.n)

    @step(num_workers=1)
    async def hear(self, ev: News, ctx: Context) -> StopEvent | None:
        async with ctx.state.edit() as state:
            state["heard"] = [*state.get("heard", ()), ev.no]
        # Not what the block made: when the step runs again, its write is in, and the block works on a copy (R3.56).
        heard: list[Any] = ctx.state.get("heard")
        return StopEvent(result=sorted(heard)) if len(heard) == ctx.state.get("wanted") else None


class Parent(Workflow[list[Any]]):
    """A child that ends at once, one that asks, one that would come after it."""

    @step(runs=(Chain, Returns))
    async def run_them(self, ev: Begin, ctx: Context) -> StopEvent:
        note(ev.log, "run_them")
        first = await ctx.run(Chain(), n=2, log=ev.log)
        second = await ctx.run(Returns(), n=7, log=ev.log)
        return StopEvent(result=[first, second])


class Word(Event):
    text: str
    no: int = 0


class Writes(Workflow[str]):
    """Writes to its stream and state, prints, and asks in between."""

    @step
    async def write(self, ev: Begin, ctx: Context) -> Approve:
        for i in range(ev.n):
            ctx.write_event_to_stream(Word(text="before", no=i))
        ctx.state.set("seen.n", ev.n)
        print("words of the first process")
        return Approve(no=1)

    @step
    async def end(self, ev: Verdict, ctx: Context) -> StopEvent:
        ctx.write_event_to_stream(Word(text="after"))
        return StopEvent(result="done")
