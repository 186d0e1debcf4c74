# %% [markdown]
# # A workflow written for LlamaIndex Workflows: only its import lines are other ones

# %%
import asyncio
from typing import Any

from flownb import Context, Workflow, step
from flownb.errors import WorkflowRuntimeError
from flownb.events import Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent
from flownb.retry_policy import retry_policy, stop_after_attempt, wait_fixed


class Query(Event):
    text: str


class Hit(Event):
    text: str


class Rag(Workflow):
    @step
    async def begin(self, ctx: Context, ev: StartEvent) -> Query | None:
        await ctx.store.set("n", 2)
        for text in ("a", "b"):
            ctx.send_event(Query(text=text))
        return None

    @step(num_workers=2, retry_policy=retry_policy(stop=stop_after_attempt(2), wait=wait_fixed(0.001)))
    async def search(self, ctx: Context, ev: Query) -> Hit:
        ctx.write_event_to_stream(ev)
        return Hit(text=ev.text.upper())

    @step
    async def collect(self, ctx: Context, ev: Hit) -> InputRequiredEvent | None:
        n: int = await ctx.store.get("n")
        hits = ctx.collect_events(ev, [Hit] * n)
        if hits is None:
            return None
        await ctx.store.set("hits", sorted(hit.text for hit in hits))
        return InputRequiredEvent(prefix="Which?")

    @step
    async def end(self, ctx: Context, ev: HumanResponseEvent) -> StopEvent:
        async with ctx.store.edit_state() as state:
            state["answers"] = [ev["response"]]
        hits: list[str] = await ctx.store.get("hits")
        return StopEvent(result=hits[int(ev["response"])])


# %%


async def main() -> Any:
    handler = Rag(timeout=10).run()
    async for ev in handler.stream_events():
        if isinstance(ev, InputRequiredEvent):
            handler.ctx.send_event(HumanResponseEvent(response="1"))
    try:
        return await handler
    except WorkflowRuntimeError as error:
        return str(error)


assert asyncio.run(main()) == "B"
