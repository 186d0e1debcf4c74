"""Workflows of the flownb adapter, step for step those of the llama-index-workflows one."""

from typing import Any

from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Workflow, step


class Count(StartEvent):
    n: int


class Tick(Event):
    n: int
    left: int


class Chain(Workflow[int]):
    @step
    async def begin(self, ev: Count) -> Tick:
        return Tick(n=0, left=ev.n)

    @step
    async def loop(self, ev: Tick) -> Tick | StopEvent:
        if ev.left == 0:
            return StopEvent(result=ev.n)
        return Tick(n=ev.n + 1, left=ev.left - 1)


class Spread(StartEvent):
    m: int


class Work(Event):
    i: int


class Done(Event):
    i: int


class Fan(Workflow[int]):
    @step
    async def emit(self, ev: Spread) -> list[Work]:
        return [Work(i=i) for i in range(ev.m)]

    @step(num_workers=4)
    async def work(self, ev: Work) -> Done:
        return Done(i=ev.i)

    @step
    async def collect(self, events: list[Done]) -> StopEvent:
        return StopEvent(result=sum(done.i for done in events))


class A(Event):
    n: int


class B(Event):
    n: int


class C(Event):
    n: int


class D(Event):
    n: int


class Five(Workflow[int]):
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


class Reply(HumanResponseEvent):
    value: int


class Question(InputRequiredEvent[Reply]):
    prefix: str = "?"


class Ask(Workflow[int]):
    @step
    async def ask(self, ctx: Context, ev: StartEvent) -> StopEvent:
        reply = await ctx.ask(Question())
        return StopEvent(result=reply.value)


class Hold(Workflow[int]):
    """A join that gets all but one of its events; the branch of -1 waits for a person."""

    @step
    async def emit(self, ev: Spread) -> list[Work]:
        return [Work(i=i) for i in range(-1, ev.m)]

    @step(num_workers=4)
    async def work(self, ctx: Context, ev: Work) -> Done:
        if ev.i < 0:
            await ctx.ask(Question())
        return Done(i=ev.i)

    @step
    async def collect(self, events: list[Done]) -> StopEvent:
        return StopEvent(result=len(events))


class Load(StartEvent):
    obj: Any
    n: int


class Carry(Event):
    obj: Any
    left: int


class Payload(Workflow[Any]):
    @step
    async def begin(self, ev: Load) -> Carry:
        return Carry(obj=ev.obj, left=ev.n)

    @step
    async def loop(self, ev: Carry) -> Carry | StopEvent:
        if ev.left == 0:
            return StopEvent(result=ev.obj)
        return Carry(obj=ev.obj, left=ev.left - 1)
