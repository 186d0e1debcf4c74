"""State without a model: dotted paths, defaults, the whole state, and what is set before the run."""

from workflows import Context, Workflow, step
from workflows.events import Event, StartEvent, StopEvent


class Next(Event):
    pass


class Paths(Workflow):
    @step
    async def write(self, ctx: Context, ev: StartEvent) -> Next:
        await ctx.store.set("user.name", "Ann")
        await ctx.store.set("user.pets", [{"kind": "cat"}, {"kind": "dog"}])
        await ctx.store.set("count", 1)
        return Next()

    @step
    async def read(self, ctx: Context, ev: Next) -> StopEvent:
        try:
            await ctx.store.get("user.age")
        except ValueError:
            missing = "no age"
        else:
            missing = "an age"
        async with ctx.store.edit_state() as state:
            state["count"] += 1
            state.extra = "by attribute"
        state = await ctx.store.get_state()
        found = {
            "name": await ctx.store.get("user.name"),
            "second pet": await ctx.store.get("user.pets.1.kind"),
            "default": await ctx.store.get("user.age", default=7),
            "missing": missing,
            "count": state["count"],
            "extra": state.extra,
        }
        await ctx.store.clear()
        found["after clear"] = await ctx.store.get("count", default=None)
        return StopEvent(result=found)


async def main() -> object:
    return await Paths(timeout=10).run()


RIGHT = {
    "name": "Ann",
    "second pet": "dog",
    "default": 7,
    "missing": "no age",
    "count": 2,
    "extra": "by attribute",
    "after clear": None,
}
