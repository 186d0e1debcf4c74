# %% [markdown]
# # Debugging: step by step, breakpoints, the past, a fork

# %%
from typing import Any, assert_type

from flownb import Context, Event, Run, StartEvent, StopEvent, Workflow


class Begin(StartEvent):
    n: int


class Row(Event):
    no: int


flow = Workflow[int]("debugging")

# %%


@flow.step
async def first(ev: Begin, ctx: Context) -> Row:
    ctx.state.set("n", ev.n)
    return Row(no=ev.n)


@flow.step
async def second(ev: Row, ctx: Context) -> StopEvent:
    return StopEvent(result=ev.no + ctx.state.get("n", 0))


# %%
run = flow.debug(n=2)
assert_type(run, Run[int])
moment = run.debug.step().result(10)
assert moment.seq >= 1
stop = run.debug.breakpoints.add(step=second, at="start")
run.cont().result(10)
stop.remove()
moment = run.debug.run_to(step="second").result(10)
print(moment.running, moment.queued, moment.paused_by, run.why())
run.cont()
assert run.result(20) == 4
past = run.debug.at(2)
state: dict[str, Any] = past.state
print(past.seq, state, past.tick, len(run.debug.ticks), run.debug.diff(1, 3))
steps: dict[str, str] = past.steps
led: tuple[int, ...] = past.causes + past.effects
print(past.told, past.admitted, past.is_past, steps, led, run.why().ticks)
probe = run.debug.probe("state.n", start=2)
values: list[tuple[int, Any, str]] = [(row.seq, row.value, row.error) for row in probe]
print(values, probe.to_dicts(), probe.errors, run.debug.probe(lambda m: len(m.running)).sparkline)
fork = run.debug.fork(at=len(run.debug.ticks) - 1)
assert fork.result(20) == 4
