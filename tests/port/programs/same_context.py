"""One context for several runs: each sees the state that the ones before it left, and what was set before the first."""

from workflows import Context, Workflow, step
from workflows.events import StartEvent, StopEvent


class Counter(Workflow):
    @step
    async def count(self, ctx: Context, ev: StartEvent) -> StopEvent:
        n = await ctx.store.get("n", default=0) + ev.by
        await ctx.store.set("n", n)
        return StopEvent(result=n)


async def main() -> object:
    flow = Counter(timeout=10)
    ctx = Context(flow)
    results = [await flow.run(ctx=ctx, by=by) for by in (1, 2, 3)]

    handler = flow.run(by=10)
    results.append(await handler)
    again = flow.run(ctx=handler.ctx, by=5)
    results.append(await again)

    seeded = Context(flow)
    await seeded.store.set("n", 100)
    results.append(await flow.run(ctx=seeded, by=1))

    kept = Context.from_dict(flow, again.ctx.to_dict())
    results.append(await flow.run(ctx=kept, by=7))
    return results


RIGHT = [1, 3, 6, 10, 15, 101, 22]
