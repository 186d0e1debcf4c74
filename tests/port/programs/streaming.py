"""Streaming: what steps write is read while the run goes on, in order; the stop event comes last."""

import asyncio

from workflows import Context, Workflow, step
from workflows.events import Event, StartEvent, StopEvent


class Token(Event):
    text: str


class Story(Event):
    text: str


class Teller(Workflow):
    @step
    async def tell(self, ctx: Context, ev: StartEvent) -> Story:
        words = f"once there was {ev.who}".split()
        for word in words:
            ctx.write_event_to_stream(Token(text=word))
            await asyncio.sleep(0)
        return Story(text=" ".join(words))

    @step
    async def end(self, ctx: Context, ev: Story) -> StopEvent:
        ctx.write_event_to_stream(ev)
        return StopEvent(result=len(ev.text))


async def main() -> object:
    handler = Teller(timeout=10).run(who="a fox")
    seen = []
    async for ev in handler.stream_events():
        seen.append((type(ev).__name__, ev.result if isinstance(ev, StopEvent) else ev.text))
    early = seen, await handler

    handler = Teller(timeout=10).run(who="a crow")
    await handler
    late = [type(ev).__name__ async for ev in handler.stream_events()]  # after the end, all of it
    return early, late, handler.is_done()


RIGHT = (
    (
        [("Token", word) for word in ("once", "there", "was", "a", "fox")]
        + [("Story", "once there was a fox"), ("StopEvent", 20)],
        20,
    ),
    ["Token"] * 5 + ["Story", "StopEvent"],
    True,
)
