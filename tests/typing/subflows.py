# %% [markdown]
# # Sub-workflows: one, many in parallel

# %%
import asyncio
from typing import assert_type

from flownb import Context, Run, StartEvent, StopEvent, Workflow, step


class Train(StartEvent):
    rate: float


class Model(StopEvent):
    rate: float
    loss: float


class Sweep(StartEvent):
    rates: list[float]


class Training(Workflow[Model]):
    @step
    async def train(self, ev: Train, ctx: Context) -> Model:
        ctx.progress(1, 1, "trained")
        return Model(rate=ev.rate, loss=(ev.rate - 0.3) ** 2)


training = Training()


class Search(Workflow[float]):
    @step(runs=Training)
    async def search(self, ev: Sweep, ctx: Context) -> StopEvent:
        runs = [ctx.run(training, rate=rate) for rate in ev.rates]
        assert_type(runs, list[Run[Model]])
        models = await asyncio.gather(*runs)
        best = min(models, key=lambda model: model.loss)
        assert_type(best, Model)
        return StopEvent(result=best.rate)


# %%
run = Search().run(rates=[0.1, 0.3, 0.9])
assert run.result(20) == 0.3
children: list[str] = sorted(run.children)
assert children == [f"{run.run_id}/1/{n}" for n in (1, 2, 3)]
