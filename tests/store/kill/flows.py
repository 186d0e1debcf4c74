"""What the killed process drives: chains, fan-outs, retries, timers, questions, events from outside, children."""

from typing import Any

from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Workflow, step
from flownb.retry_policy import retry_policy, stop_after_attempt, wait_fixed
from tests.stored.flows import Listens


class Begin(StartEvent):
    n: int


class Link(Event):
    left: int
    sum: int = 0


class Chain(Workflow[int]):
    """n steps, one after the other; the result is the sum of 1 to n."""

    @step
    async def begin(self, ev: Begin) -> Link:
        return Link(left=ev.n)

    @step
    async def go_on(self, ev: Link, ctx: Context) -> Link | StopEvent:
        if ev.left == 0:
            return StopEvent(result=ev.sum)
        if ev.left % 5 == 0:
            await ctx.sleep(0.02)
        return Link(left=ev.left - 1, sum=ev.sum + ev.left)


class Item(Event):
    no: int


class Done(Event):
    no: int


class Fan(Workflow[list[int]]):
    """n items side by side; every third one fails at its first attempt."""

    @step
    async def split(self, ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(ev.n)]

    @step(retry_policy=retry_policy(stop=stop_after_attempt(3), wait=wait_fixed(0.05)))
    async def work(self, ev: Item, ctx: Context) -> Done:
        await ctx.sleep(0.01 * (ev.no % 4))
        if ev.no % 3 == 0 and ctx.attempt == 1:
            raise ValueError("not yet")
        return Done(no=ev.no)

    @step
    async def gather(self, ev: list[Done]) -> StopEvent:
        return StopEvent(result=[done.no for done in ev])


class Verdict(HumanResponseEvent):
    value: str


class Approve(InputRequiredEvent[Verdict]):
    no: int


class Approved(Event):
    no: int
    value: str


class Ask(Workflow[list[str]]):
    """n questions, returned and awaited in turn; the result is what was answered."""

    @step
    async def split(self, ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(ev.n)]

    @step(num_workers=2)
    async def ask(self, ev: Item, ctx: Context) -> Approve | Approved:
        if ev.no % 2:
            return Approve(no=ev.no)
        verdict = await ctx.ask(Approve(no=ev.no))
        return Approved(no=ev.no, value=verdict.value)

    @step
    async def take(self, ev: Verdict, ctx: Context) -> Approved:
        return Approved(no=ctx.request(Approve).question.no, value=ev.value)

    @step
    async def gather(self, ev: list[Approved]) -> StopEvent:
        return StopEvent(result=[f"{one.no}={one.value}" for one in ev])


class Listen(Listens):
    """Of events from outside, in whatever order they came."""


class Family(Workflow[list[int]]):
    """A chain and a fan as children."""

    @step
    async def run_them(self, ev: Begin, ctx: Context) -> StopEvent:
        chain = await ctx.run(Chain(), n=ev.n)
        fan = await ctx.run(Fan(), n=ev.n)
        return StopEvent(result=[chain, *fan])


KINDS: dict[str, type[Workflow[Any]]] = {kind.__name__.lower(): kind for kind in (Chain, Fan, Ask, Listen, Family)}
#: The input of each.
SIZES = {"chain": 40, "fan": 12, "ask": 5, "listen": 6, "family": 8}


def expected(kind: str) -> Any:
    """The right result; None where it depends on what was answered."""
    n = SIZES[kind]
    return {
        "chain": n * (n + 1) // 2,
        "fan": list(range(n)),
        "listen": list(range(n)),
        "family": [n * (n + 1) // 2, *range(n)],
    }.get(kind)
