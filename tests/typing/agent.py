# %% [markdown]
# # An agent loop: think, use a tool, think again

# %%
from typing import assert_type

from pydantic import BaseModel

from flownb import Context, Event, StartEvent, StopEvent, Workflow, step


class Task(StartEvent):
    goal: str


class Think(Event):
    seen: list[str]


class Use(Event):
    tool: str
    argument: str


class Memory(BaseModel):
    goal: str = ""
    steps: int = 0
    notes: list[str] = []


class Agent(Workflow[str]):
    @step
    async def begin(self, ev: Task, ctx: Context[Memory]) -> Think:
        ctx.state.set("goal", ev.goal)
        return Think(seen=[])

    @step
    async def think(self, ev: Think, ctx: Context[Memory]) -> Use | StopEvent:
        async with ctx.state.edit() as memory:
            memory.steps += 1
            memory.notes.append(f"seen {len(ev.seen)}")
        known = ctx.state.get()
        assert_type(known, Memory)
        ctx.write_event_to_stream(Think(seen=ev.seen))
        if known.steps > 2:
            return StopEvent(result=f"{known.goal}: {', '.join(ev.seen)}")
        return Use(tool="look", argument=str(known.steps))

    @step
    async def use(self, ev: Use, ctx: Context[Memory]) -> Think:
        found = await ctx.once(look, ev.argument)
        assert_type(found, str)
        return Think(seen=[found])


async def look(argument: str) -> str:
    return f"found {argument}"


# %%
answer = Agent().run(goal="find it").result(20)
assert_type(answer, str)
assert answer == "find it: found 2"
