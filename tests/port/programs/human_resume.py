"""A person who answers later: leave the stream at the question, keep the context as a dict, go on from it."""

import json

from workflows import Context, Workflow, step
from workflows.events import HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent

started: list[str] = []


class Question(InputRequiredEvent):
    text: str


class Answer(HumanResponseEvent):
    text: str


class Interview(Workflow):
    @step
    async def begin(self, ctx: Context, ev: StartEvent) -> Question:
        started.append(ev.topic)
        await ctx.store.set("topic", ev.topic)
        return Question(text=f"What about {ev.topic}?")

    @step
    async def end(self, ctx: Context, ev: Answer) -> StopEvent:
        return StopEvent(result=(await ctx.store.get("topic"), ev.text))


async def until_asked(handler: object) -> str:
    async for ev in handler.stream_events():
        if isinstance(ev, Question):
            return ev.text
    return "never asked"


async def main() -> object:
    flow = Interview(timeout=10)

    handler = flow.run(topic="rain")
    asked = await until_asked(handler)
    kept = json.dumps(handler.ctx.to_dict())  # before the old run is ended
    await handler.cancel_run()
    handler = flow.run(ctx=Context.from_dict(flow, json.loads(kept)))
    handler.ctx.send_event(Answer(text="wet"))
    first = await handler

    handler = flow.run(topic="snow")
    await until_asked(handler)
    await handler.cancel_run()
    kept = json.dumps(handler.ctx.to_dict())  # and after
    handler = flow.run(ctx=Context.from_dict(flow, json.loads(kept)))
    await handler.send_event(Answer(text="cold"))
    second = await handler
    return asked, list(first), list(second), started


RIGHT = ("What about rain?", ["rain", "wet"], ["snow", "cold"], ["rain", "snow"])
