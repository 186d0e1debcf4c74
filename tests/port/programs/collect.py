"""Waiting for several events of different types: `collect_events` gives them in the order of the list."""

import asyncio

from workflows import Context, Workflow, step
from workflows.events import Event, StartEvent, StopEvent


class Weather(Event):
    text: str


class News(Event):
    text: str


class Mail(Event):
    text: str


class Morning(Workflow):
    @step
    async def begin(self, ctx: Context, ev: StartEvent) -> Weather | News | Mail:
        ctx.send_event(Mail(text="two letters"))
        ctx.send_event(News(text="quiet"))
        await asyncio.sleep(0.01)
        return Weather(text="rain")

    @step
    async def read(self, ctx: Context, ev: Weather | News | Mail) -> StopEvent | None:
        found = ctx.collect_events(ev, [Weather, News, Mail])
        if found is None:
            return None
        return StopEvent(result=[(type(ev).__name__, ev.text) for ev in found])


class Pairs(Workflow):
    """Several buffers in one step."""

    @step
    async def begin(self, ctx: Context, ev: StartEvent) -> Weather | News:
        for n in range(4):
            ctx.send_event(Weather(text=f"w{n}"))
        return News(text="last")

    @step
    async def pair(self, ctx: Context, ev: Weather) -> Mail | None:
        buffer = "odd" if int(ev.text[1:]) % 2 else "even"
        two = ctx.collect_events(ev, [Weather] * 2, buffer_id=buffer)
        if two is None:
            return None
        return Mail(text=f"{buffer} " + "+".join(sorted(ev.text for ev in two)))

    @step
    async def end(self, ctx: Context, ev: Mail | News) -> StopEvent | None:
        found = ctx.collect_events(ev, [Mail, Mail, News])
        return StopEvent(result=sorted(ev.text for ev in found)) if found else None


class Nothing(Workflow):
    @step
    async def end(self, ctx: Context, ev: StartEvent) -> StopEvent:
        return StopEvent(result=ctx.collect_events(ev, []))


async def main() -> object:
    return [await flow(timeout=10).run() for flow in (Morning, Pairs, Nothing)]


RIGHT = [
    [("Weather", "rain"), ("News", "quiet"), ("Mail", "two letters")],
    ["even w0+w2", "last", "odd w1+w3"],
    [],
]
