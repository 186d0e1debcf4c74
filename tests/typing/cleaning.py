# %% [markdown]
# # Cleaning rows, with a person for those that are in doubt

# %%
from typing import Literal, assert_type

from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Workflow
from flownb.events import Question


class Rows(StartEvent):
    amounts: list[float]


class Row(Event):
    no: int
    amount: float


class Verdict(HumanResponseEvent):
    decision: Literal["keep", "drop"]


class Look(InputRequiredEvent[Verdict]):
    no: int
    amount: float


class Kept(Event):
    no: int


class Report(StopEvent):
    kept: list[int]


flow = Workflow[Report]("cleaning")

# %%


@flow.step
def split(ev: Rows) -> list[Row]:
    return [Row(no=no, amount=amount) for no, amount in enumerate(ev.amounts)]


@flow.step
async def check(ev: Row, ctx: Context) -> Kept | None:
    if ev.amount >= 0:
        return Kept(no=ev.no)
    verdict = await ctx.ask(Look(no=ev.no, amount=ev.amount), timeout=60, default=Verdict(decision="drop"))
    assert_type(verdict, Verdict)
    if verdict.decision == "keep" and await ctx.ask("Really?", bool):
        return Kept(no=ev.no)
    return None


@flow.step
def report(ev: list[Kept]) -> Report:
    return Report(kept=[kept.no for kept in ev])


# %%
run = flow.with_options(answers={Look: Verdict(decision="keep"), Question: True}).run(amounts=[1, -2, 3])
result = run.result(20)
assert_type(result, Report)
assert result.kept == [0, 1, 2]
