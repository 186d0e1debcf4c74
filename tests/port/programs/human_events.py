"""A person in the loop, by a pair of events: the stream shows the question, `send_event` brings the answer."""

from workflows import Context, Workflow, step
from workflows.events import HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent


class Naming(Workflow):
    @step
    async def ask(self, ctx: Context, ev: StartEvent) -> InputRequiredEvent:
        await ctx.store.set("greeting", ev.greeting)
        return InputRequiredEvent(prefix="Your name? ")

    @step
    async def greet(self, ctx: Context, ev: HumanResponseEvent) -> StopEvent:
        greeting = await ctx.store.get("greeting")
        return StopEvent(result=f"{greeting}, {ev.response}!")


class Question(InputRequiredEvent):
    text: str


class Verdict(HumanResponseEvent):
    ok: bool
    note: str = ""


class Drafts(Workflow):
    """Asks again until somebody agrees."""

    @step
    async def draft(self, ev: StartEvent) -> Question:
        return Question(text="draft 1")

    @step
    async def revise(self, ctx: Context, ev: Verdict) -> Question | StopEvent:
        n = await ctx.store.get("n", default=1)
        if ev.ok:
            return StopEvent(result=(n, ev.note))
        await ctx.store.set("n", n + 1)
        return Question(text=f"draft {n + 1}")


async def main() -> object:
    handler = Naming(timeout=10).run(greeting="Good day")
    async for ev in handler.stream_events():
        if isinstance(ev, InputRequiredEvent):
            handler.ctx.send_event(HumanResponseEvent(response=f"Ann (asked: {ev.prefix.strip()})"))
    named = await handler

    seen = []
    handler = Drafts(timeout=10).run()
    async for ev in handler.stream_events():
        if isinstance(ev, Question):
            seen.append(ev.text)
            await handler.send_event(Verdict(ok=len(seen) == 3, note=f"round {len(seen)}"))
    return named, await handler, seen


RIGHT = ("Good day, Ann (asked: Your name?)!", (3, "round 3"), ["draft 1", "draft 2", "draft 3"])
