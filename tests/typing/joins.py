# %% [markdown]
# # Fan-out with joins: all of them, the first two, those that failed

# %%
from typing import Annotated, assert_type

from flownb import Event, StartEvent, StopEvent, Take, Workflow
from flownb.events import StepFailedEvent
from flownb.retry_policy import retry_policy, stop_after_attempt, wait_fixed


class Begin(StartEvent):
    n: int


class Item(Event):
    no: int


class Score(Event):
    no: int
    value: float


class First(Event):
    nos: list[int]


class Sums(StopEvent):
    total: float
    failed: list[str]
    first: list[int]


flow = Workflow[Sums]("joins")

# %%


@flow.step
def split(ev: Begin) -> list[Item]:
    return [Item(no=no) for no in range(ev.n)]


@flow.step(
    num_workers=8, on_error="continue", retry_policy=retry_policy(stop=stop_after_attempt(2), wait=wait_fixed(0))
)
async def score(ev: Item) -> Score:
    if ev.no == 3:
        raise ValueError("three")
    return Score(no=ev.no, value=ev.no / 2)


@flow.step
def quick(ev: Annotated[list[Score], Take(2)]) -> First:
    assert_type(ev[0].value, float)
    return First(nos=[each.no for each in ev])


class All(Event):
    total: float
    failed: list[str]


@flow.step
def collect(ev: list[Score | StepFailedEvent]) -> All:
    scores = [each for each in ev if isinstance(each, Score)]
    failed = [each.step_name for each in ev if isinstance(each, StepFailedEvent)]
    return All(total=sum(each.value for each in scores), failed=failed)


@flow.step
def end(both: All, first: First) -> Sums:
    return Sums(total=both.total, failed=both.failed, first=first.nos)


# %%
sums = flow.run(n=5).result(20)
assert_type(sums, Sums)
assert (sums.total, sums.failed, len(sums.first)) == (3.5, ["score"], 2)
