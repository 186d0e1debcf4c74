# %% [markdown]
# # A batch of approvals, answered out of order

# %%
from typing import Literal, assert_type

from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Workflow


class Rows(StartEvent):
    amounts: list[float]


class Row(Event):
    no: int
    amount: float


class Verdict(HumanResponseEvent):
    decision: Literal["approve", "reject"]


class Approve(InputRequiredEvent[Verdict]):
    no: int
    amount: float


class Done(Event):
    no: int
    decision: str


class Report(StopEvent):
    decided: dict[int, str]


flow = Workflow[Report]("approvals")

# %%


@flow.step
def split(ev: Rows) -> list[Row]:
    return [Row(no=no, amount=amount) for no, amount in enumerate(ev.amounts)]


@flow.step(timeout=30)
def check(ev: Row) -> Approve | Done:
    if ev.amount < 100:
        return Done(no=ev.no, decision="approve")
    return Approve(no=ev.no, amount=ev.amount).with_deadline(120, default=Verdict(decision="reject"))


@flow.step
def note(ev: Verdict, ctx: Context) -> Done:
    asked = ctx.request(Approve)
    assert_type(asked.question, Approve)
    return Done(no=asked.question.no, decision=ev.decision)


@flow.step
def total(ev: list[Done]) -> Report:
    return Report(decided={done.no: done.decision for done in ev})


# %%
run = flow.run(amounts=[50, 150, 900])
run.debug.run_to(request=True).result(10)
run.cont()
while len(run.requests) < 2:
    pass
for request in run.requests.of(Approve):
    assert_type(request.question, Approve)
    if request.question.amount < 200:
        request.answer(decision="approve", by="ann")
run.answer(decision="reject", by="bob")
report = run.result(20)
assert_type(report, Report)
assert report.decided == {0: "approve", 1: "approve", 2: "reject"}
assert next(iter(run.requests.all())).by == "ann"
