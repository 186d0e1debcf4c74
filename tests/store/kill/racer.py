"""One of two processes that want to drive and to answer the same runs.

    python -m tests.store.kill.racer STORE SECONDS LOG

It writes a line for each step that it ran, each answer that was acknowledged, and each error that is none of the game.
"""

import asyncio
import os
import sys
import time
import traceback
import warnings
from pathlib import Path

from flownb import Context, Event, Run, StopEvent, Store, Workflow, step
from flownb.errors import AlreadyAnswered, RequestClosed
from tests.store.kill.flows import Approve, Approved, Begin, Verdict

#: Runs that are raced for at a time.
AT_ONCE = 8
#: A question is answered by both when it is so many seconds old.
SEEN_S = 0.25


class Mark(Event):
    no: int


class Race(Workflow[list[str]]):
    """Some steps, a question that a step waits for, and one that is returned."""

    log: Path

    def _note(self, ctx: Context, what: str) -> None:
        write(self.log, f"step {ctx.task_key} {what} {ctx.attempt}")

    @step
    async def begin(self, ev: Begin, ctx: Context) -> list[Mark]:
        self._note(ctx, "begin")
        return [Mark(no=i) for i in range(2)]

    @step
    async def ask(self, ev: Mark, ctx: Context) -> Approve | Approved:
        if ev.no:
            self._note(ctx, "return")
            return Approve(no=ev.no)
        verdict = await ctx.ask(Approve(no=ev.no))
        self._note(ctx, "asked")
        return Approved(no=ev.no, value=verdict.value)

    @step
    async def take(self, ev: Verdict, ctx: Context) -> Approved:
        self._note(ctx, "take")
        return Approved(no=ctx.request(Approve).question.no, value=ev.value)

    @step
    async def gather(self, ev: list[Approved], ctx: Context) -> StopEvent:
        self._note(ctx, "gather")
        return StopEvent(result=[f"{one.no}={one.value}" for one in ev])


def write(log: Path, line: str) -> None:
    with log.open("a") as file:
        file.write(f"{os.getpid()} {line}\n")


async def main(place: str, seconds: float, log: Path) -> None:
    warnings.simplefilter("ignore")  # that the other one drives a run is no news here
    store, flow, until = Store(place), Race(), time.time() + seconds
    flow.log = log
    n = 0
    while time.time() < until:
        # Numbered alike in both; each begins at another end, and some are begun by both at the same moment.
        numbers = list(range(AT_ONCE))
        if os.getpid() % 2:
            numbers.reverse()
        runs = []
        for i in numbers:
            runs.append(flow.with_options(store=store).run(run_id=f"race-{n}-{i}", n=i))
            await asyncio.sleep(0.01)
        await asyncio.gather(*(play(run, log) for run in runs))
        n += 1


async def play(run: Run[list[str]], log: Path) -> None:
    """Answer whatever it asks until it is over: at a moment when the other one has seen the question too."""
    while not run.is_done():
        for request in run.requests:
            if time.time() < request.opened_at + SEEN_S:
                continue
            try:
                request.answer(value=f"{os.getpid()}")
            except (AlreadyAnswered, RequestClosed):
                continue  # the other one was faster
            write(log, f"answer {request.id} {request.question.no}={os.getpid()}")
        await asyncio.sleep(0.002)
    await run


if __name__ == "__main__":
    where = Path(sys.argv[3])
    try:
        asyncio.run(main(sys.argv[1], float(sys.argv[2]), where))
    except BaseException:
        write(where, "error " + traceback.format_exc().replace("\n", " | "))
        raise
