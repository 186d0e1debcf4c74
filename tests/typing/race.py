# %% [markdown]
# # A race: the first to succeed, the others are cancelled

# %%
from typing import assert_type

from flownb import Context, StartEvent, StopEvent, Workflow


class Ask(StartEvent):
    delay: float
    fails: bool = False


class Race(StartEvent):
    delays: list[float]


source = Workflow[float]("source")
race = Workflow[float]("race", timeout=30)

# %%


@source.step
async def answer(ev: Ask, ctx: Context) -> StopEvent:
    await ctx.sleep(ev.delay)
    if ev.fails:
        raise ValueError("no answer")
    return StopEvent(result=ev.delay)


@race.step
async def go(ev: Race, ctx: Context) -> StopEvent:
    runs = [ctx.run(source, delay=delay, fails=delay == min(ev.delays)) for delay in ev.delays]
    winner = await ctx.first(runs)
    assert_type(winner, float)
    return StopEvent(result=winner)


# %%
run = race.run(delays=[5.0, 0.01, 0.05])
assert run.result(20) == 0.05
assert sorted(child.status for child in run.children.values()) == ["cancelled", "completed", "failed"]
