"""Every past state is the state that was: for every tick of random runs, told by who was there."""

import asyncio
import gc
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from flownb import Context, Event, Run, StartEvent, StopEvent, Store, Workflow
from flownb.core.history import WORK, History
from flownb.core.reduce import begin
from flownb.core.state import RunState
from flownb.core.ticks import AnyTick
from flownb.moment import Moment
from flownb.retry_policy import retry_policy, stop_after_attempt, wait_fixed
from flownb.runtime.past import Past
from flownb.testing.drive import Drive, drive
from flownb.testing.plan import OPS, Plan
from tests.polling import until
from tests.runtime.flows import Approve, Begin, Done, Item
from tests.runtime.flows import Count as Counts

RUNS = 50


class Recorded(Drive):
    """A drive whose states are written down as they come, beside a history that hears of each tick."""

    def __init__(self, plan: Plan, **settings: Any) -> None:
        super().__init__(plan, **settings)
        self.states = [self.state]
        self.live = Past(self.ticks)
        self.live.note(self.state, self.ticks[0])

    def feed(self, tick: AnyTick) -> None:
        super().feed(tick)
        self.states.append(self.state)
        self.live.note(self.state, tick)


def plan_of(random: Random, depth: int | None = None, no: int = 1) -> Plan:
    """A tree of fan-outs, with sends, waits, questions, children and failures on the way."""
    depth = random.choice((1, 2, 2, 3)) if depth is None else depth
    ops = tuple(random.choice(OPS) for _ in range(random.randint(0, 3)))
    if depth and random.random() < 0.9:
        many = tuple(plan_of(random, depth - 1, 10 * no + i) for i in range(random.randint(1, 4)))
        return Plan(no, ops, many=many)
    return Plan(no, ops, asks=random.random() < 0.3, keeps=random.random() < 0.8)


@pytest.mark.parametrize("seed", range(RUNS))
def test_every_past_state_is_the_one_that_was_recorded(seed: int, monkeypatch: pytest.MonkeyPatch):
    """R1.3, C062: whether the history heard of the ticks as they came, folds a stored journal, or shares another's;
    looked at in any order, with the driver lost and the gate worked on the way."""
    monkeypatch.setattr("flownb.testing.drive.Drive", Recorded)
    random = Random(seed)
    run = drive(plan_of(random), random.randrange, num_workers=random.choice((1, 2, None)))
    assert isinstance(run, Recorded)
    cold = History(list(run.ticks))
    shares = History(list(run.ticks))
    shares.share(run.live, random.randint(1, len(run.ticks)))
    order = list(range(1, len(run.ticks) + 1))
    random.shuffle(order)
    for k in order:
        assert run.live.at(k) == cold.at(k) == shares.at(k) == run.states[k - 1]
    assert [passed.after for passed in cold.walk()] == run.states
    k = order[0]
    assert [passed.after for passed in cold.walk(k, len(order))] == run.states[k - 1 :]


def test_the_random_runs_are_of_every_kind():
    """Else the test above would prove little: long ones too, over several checkpoints."""
    kinds: set[str] = set()
    lengths = []
    for seed in range(RUNS):
        random = Random(seed)
        run = drive(plan_of(random), random.randrange, num_workers=random.choice((1, 2, None)))
        kinds |= {type(tick).__name__ for tick in run.ticks}
        lengths.append(len(run.ticks))
    assert {"StepFailed", "TimerFired", "RequestAnswered", "ChildFinished", "EventArrived", "RunOpened"} <= kinds
    assert {"GateClosed", "GateOpened", "StepsGranted", "StateWritten", "ValueRecorded", "WaitWithdrawn"} <= kinds
    assert max(lengths) > WORK


# The same with real code, on a real loop, by the words that people use.


def flow_of(random: Random) -> tuple[Workflow[Any], int]:
    """Items that sleep, ask, fail, write, send and collect, as the dice say; how many there are."""
    n = random.randint(1, 6)
    does = {no: [random.choice(("sleep", "ask", "fail", "write", "once", "send")) for _ in range(2)] for no in range(n)}
    flow = Workflow[Any](f"random {n}")

    class Aside(Event):
        no: int

    @flow.step
    async def split(ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(n)]

    @flow.step(
        num_workers=random.randint(1, 8), retry_policy=retry_policy(stop=stop_after_attempt(3), wait=wait_fixed(0.001))
    )
    async def work(ev: Item, ctx: Context) -> Done | Aside:
        for op in does[ev.no]:
            if op == "sleep":
                await ctx.sleep(0.001)
            elif op == "ask":
                await ctx.ask(Approve(no=ev.no), key=op)
            elif op == "fail" and ctx.attempt == 1:
                raise ValueError(f"no {ev.no}")
            elif op == "write":
                ctx.state.set(f"seen{ev.no}", ctx.attempt)
            elif op == "once":
                await ctx.once(lambda: ev.no)
            elif op == "send":
                ctx.send_event(Aside(no=ev.no))
        return Done(no=ev.no)

    @flow.step(num_workers=1)
    async def aside(ev: Aside, ctx: Context) -> None:
        async with ctx.state.edit() as state:
            state["asides"] = state.get("asides", 0) + 1

    @flow.step
    async def join(ev: list[Done]) -> StopEvent:
        return StopEvent(result=sorted(done.no for done in ev))

    return flow, n


def told_live(run: Run[Any]) -> list[RunState]:
    """The states of a run as its observers hear of them."""
    states: list[RunState] = []
    run._runner.observers.append(lambda before, tick, after, commands: states.append(after))
    return states


async def pressed(run: Run[Any], random: Random) -> None:
    """A person who presses this and that, and answers."""
    while not run.is_done():
        for request in run.requests:
            request.answer(ok=True)
        verb = random.choice(("step", "steps", "over", "out", "pause", "cont", "to"))
        if verb == "step":
            await run.debug.step()
        elif verb == "steps":
            await run.debug.step(random.randint(2, 4))
        elif verb == "over":
            await run.debug.over()
        elif verb == "out":
            await run.debug.out()
        elif verb == "pause":
            await run.pause()
        elif verb == "to":
            await run.debug.run_to(tick=run.now.seq + random.randint(1, 5))
        else:
            run.cont()
        if run.debug.inbox or not run.now.running:
            run.cont()
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("seed", range(RUNS))
def test_time_travel_equals_the_states_recorded_live(seed: int):
    """R1.3, R5.32, C062: for every k, while the run goes on and when it is over."""

    async def main() -> None:
        random = Random(seed)
        flow, n = flow_of(random)
        run = flow.debug() if seed % 2 else flow.run()
        states = told_live(run)
        await asyncio.wait_for(pressed(run, random), 60)
        assert await run == list(range(n))
        assert len(states) == len(run.debug.ticks)
        for k, state in enumerate(states, 1):
            moment = run.debug.at(k)
            assert moment._state == state
            live = Moment(state, states[k - 2] if k > 1 else None, run.debug.ticks[k - 1])
            assert (moment.state, moment.status, moment.steps) == (live.state, live.status, live.steps)
            assert (moment.queued, moment.running, moment.waiting) == (live.queued, live.running, live.waiting)
            assert (moment.told, moment.causes, moment.diff()) == (live.told, live.causes, live.diff())

    asyncio.run(main())


def test_a_look_back_while_the_run_goes_on_sees_what_was():
    """Back is a view: it neither stops nor changes anything."""

    async def main() -> None:
        random, run = Random(3), Counts().run(n=200)
        states = told_live(run)
        looks = 0
        while not run.is_done():
            if states:
                k = random.randint(1, len(states))
                assert run.debug.at(k)._state == states[k - 1]
                looks += 1
            await asyncio.sleep(0)
        assert looks > 10 and await run == list(range(200))

    asyncio.run(main())


# What a look costs, and of which runs one can be had.

TICKS = 10_000
#: Seconds of processor time of one look, words included.
AT_MOST = 0.020


class Count(StartEvent):
    n: int = TICKS
    fails: bool = False


def wide() -> Workflow[Any]:
    """All at once: one tick has 10,000 events."""
    flow = Workflow[Any]("wide")

    @flow.step
    async def split(ev: Count) -> list[Item]:
        return [Item(no=i) for i in range(ev.n)]

    @flow.step
    async def work(ev: Item) -> Done:
        return Done(no=ev.no)

    @flow.step
    async def join(ev: list[Done], ctx: Context) -> StopEvent:
        if len(ev) == TICKS:
            raise ValueError("too many")
        return StopEvent(result=len(ev))

    return flow


def long() -> Workflow[Any]:
    """One after the other, each with a write."""
    flow = Workflow[Any]("long")

    @flow.step
    async def loop(ev: Count | Item, ctx: Context) -> Item | StopEvent:
        no = ev.no if isinstance(ev, Item) else 0
        ctx.state.set("no", no)
        return Item(no=no + 1) if no < TICKS // 2 else StopEvent(result=no)

    return flow


def dearest(run: Run[Any], looks: int = 40) -> float:
    """Seconds of processor time of the dearest of many looks; of several tries at each the cheapest counts, since
    noise of a shared machine makes a look slower, never faster."""
    random, last = Random(1), len(run.debug.ticks)
    assert last >= TICKS
    dear = 0.0
    gc.collect()
    gc.disable()
    try:
        for k in [last, last - 1, *(random.randint(1, last) for _ in range(looks))]:
            cheap = float("inf")
            for _ in range(3):
                begun = time.process_time()
                moment = run.debug.at(k)
                assert moment.seq == k and moment.steps and moment.told and moment.state is not None
                cheap = min(cheap, time.process_time() - begun)
            dear = max(dear, cheap)
    finally:
        gc.enable()
    return dear


def ended(run: Run[Any]) -> Run[Any]:
    try:
        run.result(100)
    except ValueError:
        assert run.status == "failed"
    return run


@pytest.mark.parametrize("flow", [wide, long])
@pytest.mark.timeout(240)
def test_any_moment_of_ten_thousand_ticks_is_there_at_once(flow: Callable[[], Workflow[Any]], tmp_path: Path):
    """DESIGN §7: at most 20 ms of processor time, of a run in memory, of a stored one that was driven here, and of one
    that was read from an archive; finished (`long`) and failed (`wide`)."""
    here, there = Store(str(tmp_path / "here.db")), Store(str(tmp_path / "there.db"))
    try:
        assert dearest(ended(flow().run())) < AT_MOST
        stored = ended(flow().with_options(store=here).run(run_id="r"))
        assert dearest(stored) < AT_MOST
        there.import_(here.export("r", tmp_path / "r.zip"))
        imported = there.run("r")
        assert dearest(imported) < AT_MOST
        for k in (1, 2, 3, 5_000, len(stored.debug.ticks)):
            assert imported.debug.at(k).state == stored.debug.at(k).state
            assert imported.debug.at(k).told == stored.debug.at(k).told
    finally:
        here.close(), there.close()


def test_what_a_tick_led_to_is_folded_once():
    """PANEL §4: the first question folds the journal, the next ones look it up."""
    run = ended(long().run())
    begun = time.process_time()
    assert run.debug.at(1).effects == (2, 3)
    once = time.process_time() - begun
    begun = time.process_time()
    for k in range(101, 300, 2):  # every other tick ends a delivery, the ones between write
        assert run.debug.at(k).effects == (k + 1, k + 2)
    assert (time.process_time() - begun) < max(once, 0.1) * 2


def test_a_moment_of_a_run_that_was_forked_and_of_its_fork():
    """R6.37: the shared past is one."""

    async def main() -> None:
        random = Random(8)
        flow, _ = flow_of(random)
        run = flow.run()
        await pressed(run, random)
        fork = run.debug.fork(at=2)
        await until(lambda: fork.is_done() or bool(fork.requests))
        assert [fork.debug.at(k)._state for k in (1, 2)] == [run.debug.at(k)._state for k in (1, 2)]
        assert fork.debug.at(3).told.startswith(f"the run begins as a fork of {run.run_id} at tick 2")
        assert begin(run.debug.ticks[0])[0] == fork.debug.at(1)._state
        if not fork.is_done():
            await fork.cancel()

    asyncio.run(main())
