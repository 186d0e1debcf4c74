"""Waits of steps: for events, sleeps, several at once; who gets an event; what a restart leaves of them."""

import asyncio
import threading
import time
from typing import Any

import pytest

from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Workflow
from flownb.errors import AttemptOver
from flownb.retry_policy import retry_policy, stop_after_attempt, wait_fixed
from flownb.testing import ManualClock
from tests.polling import until, wait_until
from tests.restarting import restart


class Begin(StartEvent):
    n: int = 5


class Item(Event):
    no: int


class Done(Event):
    got: Any = None


class Ping(Event):
    no: int = 0
    tags: list[str] = []


class Pong(Ping):
    pass


class Shown(Event):
    pass


class Verdict(HumanResponseEvent):
    ok: bool


class Approve(InputRequiredEvent[Verdict]):
    pass


def one(fn: Any, **options: Any) -> Workflow[Any]:
    """A workflow of one step."""
    flow = Workflow[Any]("waits")
    flow.step(**options)(fn)
    return flow


def kinds(run: Any) -> list[str]:
    return [type(tick).__name__ for tick in run.debug.ticks]


def waiting(run: Any, n: int = 1) -> bool:
    """Whether the run waits, with so many open waits for events."""
    return run.status == "waiting" and run._runner.state.side.waiters.n == n


def in_each(fn: Any, n: int = 5, **options: Any) -> Workflow[list[Any]]:
    """One delivery of the step for each of n items; their results in order."""
    flow = Workflow[list[Any]]("each")

    @flow.step
    async def split(ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(n)]

    flow.step(**options)(fn)

    @flow.step
    async def total(ev: list[Done]) -> StopEvent:
        return StopEvent(result=[d.got for d in ev])

    return flow


# -- one wait


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_a_step_really_waits_and_nothing_before_it_runs_twice(kind: str):
    """R4.23, R3.12: in a plain step too."""
    before: list[int] = []

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        before.append(1)
        return StopEvent(result=(await ctx.wait_for_event(Ping)).no)

    def plain(ev: Begin, ctx: Context) -> StopEvent:
        before.append(1)
        return StopEvent(result=ctx.wait_for_event(Ping).result().no)

    run = one(work if kind == "async" else plain).run()
    wait_until(lambda: waiting(run))
    run.send_event(Ping(no=7))
    assert run.result(20) == 7
    assert before == [1]
    assert kinds(run) == ["RunStarted", "WaitOpened", "QuietNoticed", "EventArrived", "StepFinished"]


@pytest.mark.parametrize("again", ["restart", "retry"])
def test_what_a_wait_shows_is_shown_once(again: str):
    """R4.24: also when the code runs again."""

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        await ctx.wait_for_event(Ping, waiter_event=Shown(), waiter_id="a")
        if again == "retry" and ctx.attempt == 1:
            raise ValueError("again")
        await ctx.wait_for_event(Pong, waiter_id="b")
        return StopEvent(result="through")

    run = one(work, retry_policy=retry_policy(stop=stop_after_attempt(2), wait=wait_fixed(0))).run()
    wait_until(lambda: waiting(run))
    if again == "restart":
        restart(run)
    run.send_event(Ping()).result(20)
    wait_until(lambda: waiting(run) and next(iter(run._runner.state.side.waiters.values())).event.endswith("Pong"))
    if again == "restart":
        restart(run)
    run.send_event(Pong())
    assert run.result(20) == "through"
    written = [t.out.value for t in run.debug.ticks if type(t).__name__ == "StreamWritten"]
    assert written == [Shown()]


def test_a_wait_that_is_over_time_raises_and_the_deadline_is_in_the_state():
    """R4.36: it outlives the coroutine, with the moment that it had."""
    clock = ManualClock(100.0)

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        try:
            await ctx.wait_for_event(Ping, timeout=60)
        except TimeoutError as error:
            return StopEvent(result=str(error))
        return StopEvent()

    run = one(work).with_options(clock=clock).run()
    wait_until(lambda: waiting(run))
    assert [t.due_at for t in run._runner.state.timers.values()] == [160.0]
    clock.advance(30)
    restart(run)
    wait_until(lambda: clock.next_due() == 160.0)
    clock.advance(30)
    assert run.result(20) == "No Ping came in time for step 'work'."


@pytest.mark.parametrize("how", ["for", "until"])
def test_a_sleep_keeps_its_moment_over_a_restart_and_is_not_slept_twice(how: str):
    """R4.37: a durable timer."""
    clock = ManualClock(100.0)
    starts: list[int] = []

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        starts.append(1)
        await (ctx.sleep(60) if how == "for" else ctx.sleep_until(160.0))
        await ctx.wait_for_event(Ping)
        return StopEvent(result=len(starts))

    run = one(work).with_options(clock=clock).run()
    wait_until(lambda: clock.next_due() == 160.0)
    clock.advance(50)
    restart(run)
    wait_until(lambda: clock.next_due() == 160.0)
    assert starts == [1]  # R4.29: no code runs until the wait is over
    clock.advance(10)
    wait_until(lambda: waiting(run))
    restart(run)
    run.send_event(Ping())
    assert run.result(20) == 3
    assert clock.now() == 160.0


def test_no_code_runs_after_a_restart_until_a_wait_is_over():
    """R4.29: the waits stay in the state; then it runs from its top with its ledger."""
    lines: list[str] = []

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        lines.append("top")
        first = await ctx.wait_for_event(Ping, requirements={"no": 1})
        lines.append("first")
        second = await ctx.wait_for_event(Ping, requirements={"no": 2})
        return StopEvent(result=[first.no, second.no])

    run = one(work).run()
    wait_until(lambda: waiting(run))
    for _ in range(3):
        restart(run)
        wait_until(lambda: waiting(run))
    assert lines == ["top"]
    run.send_event(Ping(no=1)).result(20)
    wait_until(lambda: lines == ["top", "top", "first"] and waiting(run))
    restart(run)
    run.send_event(Ping(no=2))
    assert run.result(20) == [1, 2]
    assert lines == ["top", "top", "first", "top", "first"]


def test_except_exception_cannot_eat_the_end_of_an_attempt():
    """R3.20, R4.23: what tears a waiting coroutine down goes through it."""
    seen: list[str] = []

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        try:
            await ctx.wait_for_event(Ping)
        except Exception as error:
            seen.append(repr(error))
        except BaseException as error:
            seen.append(type(error).__name__)
            try:
                ctx.state.set("late", 1)
            except AttemptOver:
                seen.append("no hands")
            raise
        return StopEvent()

    run = one(work).run()
    wait_until(lambda: waiting(run))
    run.suspend(drain=0).result(20)
    wait_until(lambda: len(seen) == 2)
    assert seen in (["AttemptOver", "no hands"], ["CancelledError", "no hands"])
    run.workflow.resume(run.run_id)
    run.cancel().result(20)
    assert run.state == {}


def test_a_plain_step_that_waits_is_told_of_the_end_of_its_attempt():
    """R3.20, R3.14."""
    seen: list[str] = []

    def work(ev: Begin, ctx: Context) -> StopEvent:
        try:
            ctx.wait_for_event(Ping).result()
        except Exception as error:
            seen.append(repr(error))
        except BaseException as error:
            seen.append(type(error).__name__)
            raise
        return StopEvent()

    run = one(work).run()
    wait_until(lambda: waiting(run))
    run.cancel().result(20)
    wait_until(lambda: seen == ["AttemptOver"])


# -- several waits


def test_waits_in_a_task_group_are_waits_each():
    """R4.27: of one type, opened by tasks of the step."""

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        async def wait() -> int:
            return (await ctx.wait_for_event(Ping)).no

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(wait()) for _ in range(3)]
        return StopEvent(result=[task.result() for task in tasks])

    run = one(work).run()
    wait_until(lambda: waiting(run, 3))
    for i in range(3):
        run.send_event(Ping(no=i)).result(20)
    assert run.result(20) == [0, 1, 2]


def test_another_order_after_a_restart_does_no_harm():
    """R4.27: waits are known by what they wait for; the one that is over is given again."""
    starts: list[int] = []

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        starts.append(1)
        names = [1, 2] if len(starts) == 1 else [2, 1]
        waits = [ctx.wait_for_event(Ping, requirements={"no": no}) for no in names]
        got = await asyncio.gather(*waits)
        return StopEvent(result=[(no, event.no) for no, event in zip(names, got, strict=True)])

    run = one(work).run()
    wait_until(lambda: waiting(run, 2))
    restart(run)
    run.send_event(Ping(no=2)).result(20)
    wait_until(lambda: len(starts) == 2)
    run.send_event(Ping(no=1))
    assert run.result(20) == [(2, 2), (1, 1)]


@pytest.mark.parametrize("how", ["wait_for", "timeout", "first of several", "task"])
def test_a_wait_that_is_given_up_takes_no_event(how: str):
    """R4.28: the tick that withdraws it is in the journal, and the event goes to the next wait."""

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        if how == "wait_for":
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(ctx.wait_for_event(Ping), 0.02)
        elif how == "timeout":
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await ctx.wait_for_event(Ping)
        elif how == "first of several":
            tasks = [asyncio.ensure_future(_wait(w)) for w in (ctx.wait_for_event(Ping), ctx.sleep(0.02))]
            _, late = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in late:
                task.cancel()
        else:
            task = asyncio.ensure_future(_wait(ctx.wait_for_event(Ping)))
            await asyncio.sleep(0.02)
            task.cancel()
        return StopEvent(result=(await ctx.wait_for_event(Ping)).no)

    run = one(work).run()
    wait_until(lambda: "WaitWithdrawn" in kinds(run))
    wait_until(lambda: waiting(run))
    run.send_event(Ping(no=9))
    assert run.result(20) == 9


def test_an_event_that_comes_just_after_a_wait_was_given_up_goes_to_the_next_one():
    """R4.28: a few rounds of the loop later, not when nobody thinks of it any more."""

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await ctx.wait_for_event(Ping)
        following = ctx.wait_for_event(Ping)
        for _ in range(10):
            await asyncio.sleep(0)
        ctx.send_event(Ping(no=9))
        return StopEvent(result=(await following).no)

    assert one(work).run().result(20) == 9


@pytest.mark.parametrize("kind", ["event", "sleep"])
def test_a_wait_that_was_given_up_is_given_up_again_after_a_restart(kind: str):
    """R4.28, R3.50: it had no outcome that could be given back."""

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        said = "it came"
        try:
            await asyncio.wait_for(ctx.wait_for_event(Ping) if kind == "event" else ctx.sleep(60), 0.02)
        except TimeoutError:
            said = "given up"
        await ctx.wait_for_event(Shown)
        return StopEvent(result=said)

    run = one(work).run()
    wait_until(lambda: kinds(run).count("WaitOpened") == 2)
    restart(run)
    run.send_event(Shown())
    assert run.result(10) == "given up"


async def _wait(pending: Any) -> Any:
    return await pending


def test_abandoning_a_question_withdraws_it():
    """R4.28: its request too."""

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ctx.wait_for_event(Verdict, waiter_event=Approve()), 0.02)
        return StopEvent(result=1)

    run = one(work).run()
    assert run.result(20) == 1
    assert [r.status for r in run.requests.all()] == ["withdrawn"]


# -- the slot


def test_a_waiting_delivery_gives_its_worker_back_and_goes_ahead_of_the_queue():
    """R4.26, R3.63: it takes the next free one, ahead of those that were queued."""
    order: list[str] = []
    go = asyncio.Event()

    async def work(ev: Item, ctx: Context) -> Done:
        order.append(f"begin {ev.no}")
        if ev.no == 0:
            await ctx.wait_for_event(Ping)
        elif ev.no == 1:
            await go.wait()
        order.append(f"end {ev.no}")
        return Done(got=ev.no)

    async def main() -> Any:
        run = in_each(work, 4, num_workers=1).run()
        await until(lambda: order == ["begin 0", "begin 1"])
        await run.send_event(Ping())
        assert len(run.now.queued["work"]) >= 2
        await asyncio.sleep(0.02)
        assert order == ["begin 0", "begin 1"]  # woken, but without a worker
        go.set()
        return await run

    assert asyncio.run(main()) == [0, 1, 2, 3]
    assert order[:4] == ["begin 0", "begin 1", "end 1", "end 0"]


def test_with_several_waits_open_the_worker_is_held_from_the_first_until_it_awaits_again():
    """R4.26: while its code works between two waits, nobody else gets that worker."""
    order: list[str] = []

    async def work(ev: Item, ctx: Context) -> Done:
        if ev.no:
            order.append(f"other {ev.no}")
            return Done(got=ev.no)
        second = ctx.wait_for_event(Ping, requirements={"no": 2})
        await ctx.wait_for_event(Ping, requirements={"no": 1})
        order.append("woken")
        await asyncio.sleep(0.1)  # works: the second wait is open, but it does not await it
        order.append("worked")
        await second
        order.append("second")
        return Done(got=0)

    async def main() -> Any:
        run = in_each(work, 1, num_workers=1).run()
        await until(lambda: waiting(run, 2))
        await run.send_event(Ping(no=1))
        await until(lambda: order == ["woken"])
        run.send_event(Item(no=5))  # queued behind the worker
        await until(lambda: "worked" in order)
        await until(lambda: "other 5" in order)
        await run.send_event(Ping(no=2))
        return await run

    assert asyncio.run(main()) == [0]
    assert order == ["woken", "worked", "other 5", "second"]


def test_a_delivery_waits_while_it_has_an_open_wait_whatever_its_code_does():
    """R4.25: its code sleeps in asyncio, the run shows it as waiting."""

    async def main() -> None:
        seen: list[Any] = []

        async def work(ev: Begin, ctx: Context) -> StopEvent:
            wait = ctx.wait_for_event(Ping)
            await asyncio.sleep(0.05)
            seen.append((list(run.now.running), list(run.now.waiting)))
            return StopEvent(result=(await wait).no)

        run = one(work).run()
        await until(lambda: seen)
        assert seen == [([], ["work"])]
        run.send_event(Ping(no=3))
        assert await run == 3

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_what_comes_before_a_second_attempt_reaches_the_wait_is_not_lost(kind: str):
    """R3.48, R4.26: the wait of the first attempt is open still, and ends while the second one works before it."""
    second, go = threading.Event(), threading.Event()
    attempts: list[int] = []

    async def wait_async(ev: Begin, ctx: Context) -> StopEvent:
        attempts.append(1)
        if len(attempts) == 1:
            ctx.wait_for_event(Ping)
            raise ValueError("after it began to wait")
        second.set()
        await until(go.is_set)
        return StopEvent(result=(await ctx.wait_for_event(Ping)).no)

    def wait_plain(ev: Begin, ctx: Context) -> StopEvent:
        attempts.append(1)
        if len(attempts) == 1:
            ctx.wait_for_event(Ping)
            raise ValueError("after it began to wait")
        second.set()
        assert go.wait(10)
        return StopEvent(result=ctx.wait_for_event(Ping).result().no)

    retried = retry_policy(wait=wait_fixed(0), stop=stop_after_attempt(2))
    run = one(wait_async if kind == "async" else wait_plain, retry_policy=retried).run()
    wait_until(second.is_set)
    run.send_event(Ping(no=7)).result(10)
    go.set()
    assert run.result(10) == 7


# -- who gets an event


def test_five_equal_waits_take_five_events():
    """R4.34, R4.35: oldest first, each resolved once."""

    async def work(ev: Item, ctx: Context) -> Done:
        return Done(got=(await ctx.wait_for_event(Ping)).no)

    run = in_each(work, 5, num_workers=None).run()
    for i in range(5):
        wait_until(lambda: waiting(run, 5 - i))  # noqa: B023 - used at once
        run.send_event(Ping(no=i)).result(20)
    assert run.result(20) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("requires", "sent", "fits"),
    [
        ({"no": 1}, Ping(no=1), True),
        ({"no": 1}, Ping(no=2), False),
        ({"no": "1"}, Ping(no=1), False),
        ({"no": 1.0}, Ping(no=1), True),
        ({"tags": ["a"]}, Ping(tags=["a"]), True),
        ({"tags": ["a"]}, Ping(tags=["b"]), False),
        ({"room": "a"}, Ping(room="a"), True),
        ({"room": "a"}, Ping(), False),
        ({"room": None}, Ping(), False),
        ({"no": 1, "room": "a"}, Ping(no=1, room="a"), True),
        ({"no": 1, "room": "a"}, Ping(no=1, room="b"), False),
        ({"no": 1}, Pong(no=1), True),
    ],
    ids=repr,
)
def test_a_wait_takes_what_meets_every_requirement(requires: dict[str, Any], sent: Event, fits: bool):
    """R4.31: declared and undeclared fields, a subclass; what is absent never matches."""

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        await ctx.wait_for_event(Ping, requirements=requires)
        return StopEvent(result="came")

    run = one(work).run()
    wait_until(lambda: waiting(run))
    run.send_event(sent).result(20)
    if fits:
        assert run.result(20) == "came"
    else:
        wait_until(lambda: waiting(run))
        assert [out.value for out in run._runner.state.mailbox] == [sent]
        run.cancel().result(20)


@pytest.mark.parametrize("older", [{"no": 1}, {}, {"no": 1, "tags": []}], ids=str)
def test_of_waits_of_a_step_that_an_event_fits_the_oldest_takes_it(older: dict[str, Any]):
    """R4.31: however many fields each requires."""

    async def work(ev: Item, ctx: Context) -> Done:
        if ev.no:
            await ctx.sleep(0.02 * ev.no)
        needs = [older, {}, {"no": 1}, {"tags": []}][ev.no]
        await ctx.wait_for_event(Ping, requirements=needs)
        return Done(got=ev.no)

    run = in_each(work, 4).run()
    wait_until(lambda: waiting(run, 4))
    for left in (3, 2, 1):
        run.send_event(Ping(no=1)).result(20)
        wait_until(lambda: waiting(run, left))  # noqa: B023 - used at once
        assert [w.delivery for w in run._runner.state.side.waiters.values()] == [5, 4, 3][:left][::-1]
    run.send_event(Ping(no=1))
    assert run.result(20) == [0, 1, 2, 3]


def test_a_wait_for_the_exact_type_comes_before_an_older_one_for_its_base():
    """R4.32, R4.31: the base's wait gets what no exact one takes."""

    async def work(ev: Item, ctx: Context) -> Done:
        got = await ctx.wait_for_event(Ping if ev.no == 0 else Pong)
        return Done(got=(type(got).__name__, got.no))

    run = in_each(work, 2).run()
    wait_until(lambda: waiting(run, 2))
    run.send_event(Pong(no=1)).result(20)
    wait_until(lambda: waiting(run, 1))
    run.send_event(Pong(no=2)).result(20)
    assert run.result(20) == [("Pong", 2), ("Pong", 1)]


def test_an_event_goes_to_the_waiter_of_a_step_and_to_the_other_steps():
    """R4.30, R4.33: a step whose waiter took it does not get it as input too."""
    inputs: list[str] = []
    flow = Workflow[Any]("offered")

    @flow.step
    async def begin(ev: Begin) -> Ping:
        return Ping(no=0)

    @flow.step
    async def both(ev: Ping, ctx: Context) -> Done | None:
        inputs.append(f"both {ev.no}")
        if ev.no == 0:
            return Done(got=(await ctx.wait_for_event(Ping)).no)
        return None

    @flow.step
    async def other(ev: Ping) -> None:
        inputs.append(f"other {ev.no}")

    @flow.step
    async def end(ev: Done) -> StopEvent:
        return StopEvent(result=ev.got)

    run = flow.run()
    wait_until(lambda: waiting(run) and len(inputs) == 2)
    run.send_event(Ping(no=1)).result(20)
    assert run.result(20) == 1
    wait_until(lambda: len(inputs) == 3 or run.is_done())
    assert [name for name in inputs if name.startswith("both")] == ["both 0"]
    assert "other 0" in inputs


def test_events_that_steps_send_reach_waiters_too():
    """R4.30."""
    flow = Workflow[Any]("inside")

    @flow.step
    async def begin(ev: Begin, ctx: Context) -> list[Item]:
        return [Item(no=0), Item(no=1)]

    @flow.step
    async def work(ev: Item, ctx: Context) -> Done:
        if ev.no == 0:
            return Done(got=(await ctx.wait_for_event(Ping)).no)
        await ctx.sleep(0.01)
        ctx.send_event(Ping(no=8))
        return Done(got="sent")

    @flow.step
    async def total(ev: list[Done]) -> StopEvent:
        return StopEvent(result=[d.got for d in ev])

    assert flow.run().result(20) == [8, "sent"]


def test_a_reply_may_come_before_the_wait_for_it():
    """R2.30: kept in the mailbox in order, for the first wait that it fits."""

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        await ctx.sleep(0.05)
        second = await ctx.wait_for_event(Ping, requirements={"no": 2})
        first = await ctx.wait_for_event(Ping)
        return StopEvent(result=[second.tags, first.tags])

    run = one(work).run()
    for no, tag in ((1, "a"), (2, "b"), (1, "c")):
        run.send_event(Ping(no=no, tags=[tag]))
    assert run.result(20) == [["b"], ["a"]]
    assert [out.value.tags for out in run._runner.state.mailbox] == [["c"]]


def test_a_wait_gives_the_class_that_was_sent_a_copy_of_its_own():
    """R2.3: two steps that wait for one event do not see each other's changes."""
    kept = Ping(no=1, tags=["x"])

    async def work(ev: Item, ctx: Context) -> Done:
        got = await ctx.wait_for_event(Ping)
        got.tags.append("y")
        return Done(got=got.tags)

    run = in_each(work, 2).run()
    wait_until(lambda: waiting(run, 2))
    for _ in range(2):
        run.send_event(kept).result(20)
    assert run.result(20) == [["x", "y"], ["x", "y"]]
    assert kept.tags == ["x"]


def test_a_waiting_run_stands_still_and_says_for_what():
    """R4.25, R5.34: no thread or timer turns meanwhile."""

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=(await ctx.wait_for_event(Ping)).no)

    run = one(work).run()
    wait_until(lambda: waiting(run))
    before = run.debug.ticks
    time.sleep(0.05)
    assert run.debug.ticks == before
    assert "work waits for Ping" in str(run.why())
    run.send_event(Ping(no=1))
    assert run.result(20) == 1
