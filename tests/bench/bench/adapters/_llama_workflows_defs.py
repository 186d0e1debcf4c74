"""Workflows of the llama-index-workflows adapters.

In a module of their own because restoring a context imports event classes by
qualified name.
"""

from typing import Any

from workflows import Context, Workflow, step
from workflows.events import (
    Event,
    HumanResponseEvent,
    InputRequiredEvent,
    StartEvent,
    StopEvent,
)


class Tick(Event):
    n: int
    left: int


class Chain(Workflow):
    @step
    async def begin(self, ev: StartEvent) -> Tick:
        return Tick(n=0, left=ev.n)

    @step
    async def loop(self, ev: Tick) -> Tick | StopEvent:
        if ev.left == 0:
            return StopEvent(result=ev.n)
        return Tick(n=ev.n + 1, left=ev.left - 1)


class SavingChain(Workflow):
    @step
    async def begin(self, ev: StartEvent) -> Tick:
        return Tick(n=0, left=ev.n)

    @step
    async def loop(self, ctx: Context, ev: Tick) -> Tick | StopEvent:
        if ev.left == 0:
            return StopEvent(result=ev.n)
        ctx.write_event_to_stream(ev)
        return Tick(n=ev.n + 1, left=ev.left - 1)


class Work(Event):
    i: int


class Done(Event):
    i: int


class Fan(Workflow):
    @step
    async def emit(self, ctx: Context, ev: StartEvent) -> Work | None:
        await ctx.store.set("m", ev.m)
        for i in range(ev.m):
            ctx.send_event(Work(i=i))
        return None

    @step(num_workers=4)
    async def work(self, ev: Work) -> Done:
        return Done(i=ev.i)

    @step
    async def collect(self, ctx: Context, ev: Done) -> StopEvent | None:
        m = await ctx.store.get("m")
        got = ctx.collect_events(ev, [Done] * m)
        if got is None:
            return None
        return StopEvent(result=sum(d.i for d in got))


class A(Event):
    n: int


class B(Event):
    n: int


class C(Event):
    n: int


class D(Event):
    n: int


class Five(Workflow):
    @step
    async def s1(self, ev: StartEvent) -> A:
        return A(n=1)

    @step
    async def s2(self, ev: A) -> B:
        return B(n=ev.n + 1)

    @step
    async def s3(self, ev: B) -> C:
        return C(n=ev.n + 1)

    @step
    async def s4(self, ev: C) -> D:
        return D(n=ev.n + 1)

    @step
    async def s5(self, ev: D) -> StopEvent:
        return StopEvent(result=ev.n + 1)


class Ask(Workflow):
    @step
    async def ask(self, ctx: Context, ev: StartEvent) -> StopEvent:
        answer = await ctx.wait_for_event(HumanResponseEvent, waiter_event=InputRequiredEvent(prefix="?"))
        return StopEvent(result=answer.response)


class Hold(Workflow):
    """Collects m of m+1 events and then waits for the last one."""

    @step
    async def emit(self, ctx: Context, ev: StartEvent) -> Done | None:
        await ctx.store.set("m", ev.m)
        for i in range(ev.m):
            ctx.send_event(Done(i=i))
        return None

    @step(num_workers=1)
    async def collect(self, ctx: Context, ev: Done) -> StopEvent | None:
        m = await ctx.store.get("m")
        if ctx.collect_events(ev, [Done] * (m + 1)) is None:
            if ev.i == m - 1:
                ctx.write_event_to_stream(InputRequiredEvent(prefix="?"))
            return None
        return StopEvent(result=m)


class Carry(Event):
    obj: Any
    left: int


class Payload(Workflow):
    @step
    async def begin(self, ev: StartEvent) -> Carry:
        return Carry(obj=ev.obj, left=ev.n)

    @step
    async def loop(self, ev: Carry) -> Carry | StopEvent:
        if ev.left == 0:
            return StopEvent(result=ev.obj)
        return Carry(obj=ev.obj, left=ev.left - 1)


class FanList(Workflow):
    @step
    async def emit(self, ev: StartEvent) -> list[Work]:
        return [Work(i=i) for i in range(ev.m)]

    @step(num_workers=4)
    async def work(self, ev: Work) -> Done:
        return Done(i=ev.i)

    @step
    async def collect(self, events: list[Done]) -> StopEvent:
        return StopEvent(result=sum(d.i for d in events))
