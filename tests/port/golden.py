"""A run in the middle of its work, as a dict that was written once and must be readable for ever.

`python -c "from tests.port.golden import write; write()"` writes `data/snapshot_<format>.json` for a new format; the
files of older formats stay as they are.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Workflow, step
from flownb.retry_policy import retry_policy, stop_after_attempt, wait_fixed
from tests.polling import until

DATA = Path(__file__).resolve().parent / "data"


class Begin(StartEvent):
    names: list[str]


class Item(Event):
    name: str


class Done(Event):
    name: str
    ok: bool


class Ask(InputRequiredEvent):
    name: str


class Reply(HumanResponseEvent):
    name: str
    ok: bool


class Note(Event):
    n: int


class Golden(Workflow):
    """Two branches wait for a person, one event of three is collected, one attempt waits to be tried again."""

    @step
    async def split(self, ev: Begin, ctx: Context) -> list[Item]:
        ctx.state.set("asked.names", ev.names)
        return [Item(name=name) for name in ev.names]

    @step
    async def ask(self, ev: Item, ctx: Context) -> Done:
        reply = await ctx.wait_for_event(Reply, waiter_event=Ask(name=ev.name), requirements={"name": ev.name})
        return Done(name=ev.name, ok=reply.ok)

    @step
    async def join(self, ev: list[Done]) -> Note:
        return Note(n=sum(done.ok for done in ev))

    @step
    async def begin(self, ev: Begin, ctx: Context) -> Note:
        return Note(n=10)

    @step(retry_policy=retry_policy(wait=wait_fixed(0.3), stop=stop_after_attempt(2)))
    async def flaky(self, ev: Begin, ctx: Context) -> Note:
        if ctx.attempt == 1:
            raise ConnectionError("busy")
        return Note(n=100)

    @step
    async def gather(self, ev: Note, ctx: Context) -> StopEvent | None:
        found = ctx.collect_events(ev, [Note] * 3)
        if found is None:
            return None
        return StopEvent(result=(ctx.state.get("asked.names"), sorted(note.n for note in found)))


async def finish(kept: dict[str, Any]) -> Any:
    """The result of the run that goes on from it."""
    flow = Golden()
    run = flow.run(ctx=Context.from_dict(flow, kept))
    for name, ok in (("b", True), ("a", False)):
        await run.send_event(Reply(name=name, ok=ok))
    return await run


async def _kept() -> dict[str, Any]:
    run = Golden().run(names=["a", "b"])
    await until(lambda: len(run.now.waiting.get("ask", ())) == 2 and "Retrying: flaky" in run.why())
    await until(lambda: not run.now.running and not run.now.queued)
    kept = run.ctx.to_dict()
    await run.cancel()
    return kept


def write() -> None:
    """Write the file of the present format."""
    kept = asyncio.run(_kept())
    DATA.mkdir(exist_ok=True)
    text = json.dumps(kept, indent=1).replace(f"{DATA.parent.parent.parent}/", "")  # tracebacks name files
    (DATA / f"snapshot_{kept['flownb']}.json").write_text(text + "\n", "utf-8")
