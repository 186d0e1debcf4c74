"""Every verb of the debugger, as people use it: in async code, in a script, from a thread; what it gives and tells."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from flownb import Context, Event, StopEvent, Workflow
from flownb.core.ticks import CONTROL, GateClosed, StepFinished, TimerFired, WaitOpened, came_at
from flownb.moment import Moment
from flownb.notebook.screen import Screen
from flownb.notebook.timeline import timeline
from flownb.retry_policy import retry_policy, stop_after_attempt, wait_fixed
from flownb.testing import ManualClock
from tests.polling import until, wait_until
from tests.runtime.flows import Approve, Asks, Begin, Count, Done, Item

VERBS: dict[str, Callable[[Any], Any]] = {
    "step": lambda run: run.debug.step(),
    "step(3)": lambda run: run.debug.step(3),
    "over": lambda run: run.debug.over(),
    "out": lambda run: run.debug.out(),
    "run_to step": lambda run: run.debug.run_to(step="join"),
    "run_to event": lambda run: run.debug.run_to(event="Done"),
    "run_to tick": lambda run: run.debug.run_to(tick=4),
    "run_to when": lambda run: run.debug.run_to(when="event.no == 1"),
    "run_to a function": lambda run: run.debug.run_to(when=lambda moment: "work" in moment.running),
    "run_to request": lambda run: run.debug.run_to(request=True),
    "pause": lambda run: run.pause(),
    "cont": lambda run: run.cont(),
}


def is_tellable(run: Any, moment: Moment, before: int) -> None:
    """A verb's moment is where the run is or was, and tells of every tick that passed on the way."""
    assert isinstance(moment, Moment) and moment.seq <= run.now.seq
    assert [line.seq for line in moment.admitted] == list(range(before + 1, moment.seq + 1))
    assert [line.tick for line in moment.admitted] == list(run.debug.ticks[before : moment.seq])
    assert all(line.told and str(line).endswith(line.told) for line in moment.admitted)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_can_be_awaited(verb: str):
    """API §0.1, §7: a handle of the moment, and of what passed until then."""

    async def main() -> None:
        run = Count().debug(n=3)
        await until(lambda: run.now.seq and run.debug.inbox)
        before = run.now.seq
        is_tellable(run, await VERBS[verb](run), before)
        run.cont()
        assert await run == [0, 1, 2]

    asyncio.run(main())


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_can_be_waited_for_in_a_script(verb: str):
    """API §0.1: `.result(timeout)`, in plain code."""
    run = Count().debug(n=3)
    wait_until(lambda: run.now.seq and run.debug.inbox)
    before = run.now.seq
    is_tellable(run, VERBS[verb](run).result(20), before)
    run.cont()
    assert run.result(20) == [0, 1, 2]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_acts_at_the_call_from_any_thread(verb: str):
    """API §0.1: calling acts; what nobody waits for happens too."""
    run = Count().debug(n=3)
    wait_until(lambda: run.now.seq and run.debug.inbox)
    thread = threading.Thread(target=VERBS[verb], args=(run,))
    thread.start()
    thread.join(20)
    while not run.is_done():  # some stop where they are to stop
        run.cont().result(20)
    assert run.result(20) == [0, 1, 2]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_on_a_run_that_is_over_gives_its_last_moment(verb: str):
    run = Count().run(n=2)
    run.result(20)
    moment = VERBS[verb](run).result(20)
    assert (moment.seq, moment.status, tuple(moment.admitted)) == (run.now.seq, "completed", ())


def busy() -> Workflow[int]:
    """Eight workers that send, write and return in bursts, whatever the gate does."""
    flow = Workflow[int]("busy")

    class Aside(Event):
        no: int

    @flow.step
    def split(ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(ev.n)]

    @flow.step(num_workers=8)
    def work(ev: Item, ctx: Context) -> Done | Aside:
        for i in range(3):
            ctx.send_event(Aside(no=i))
            ctx.state.set(f"n{ev.no}", i)
            time.sleep(0.0005)
        return Done(no=ev.no)

    @flow.step
    def aside(ev: Aside) -> None:
        return None

    @flow.step
    def join(ev: list[Done]) -> StopEvent:
        return StopEvent(result=len(ev))

    return flow


def test_a_step_is_exactly_one_tick_whatever_eight_workers_do_meanwhile():
    """R5.24, R1.23: they send and write from their threads while the gate lets one tick pass, and its moment says
    which."""
    run = busy().debug(n=16)
    wait_until(lambda: run.debug.inbox)
    steps, seen = 0, 0
    while not run.is_done():
        before = run.now.seq
        moment = run.debug.step().result(20)
        work = [line for line in moment.admitted if not isinstance(line.tick, CONTROL)]
        assert len(work) == 1 and work[0].seq == moment.seq and moment.told == work[0].told
        assert [line.seq for line in moment.admitted] == list(range(before + 1, moment.seq + 1))
        steps += 1
        seen = max(seen, len(run.debug.inbox))
        wait_until(lambda: run.debug.inbox or run.is_done())
    assert run.result(20) == 16
    assert steps == sum(not isinstance(tick, CONTROL) for tick in run.debug.ticks) > 100
    assert seen > 8  # they were far ahead


def test_a_pause_during_a_sleep_holds_its_end_back():
    """R1.26, R5.15: what fell due meanwhile is due the moment the gate opens."""
    clock = ManualClock()
    flow = Workflow[str]("sleeps")

    @flow.step
    async def nap(ev: Begin, ctx: Context) -> StopEvent:
        await ctx.sleep(30)
        return StopEvent(result="slept")

    async def main() -> None:
        run = flow.with_options(clock=clock).run()
        await until(lambda: run.now.waiting)
        await run.pause()
        clock.advance(31)
        await until(lambda: run.debug.inbox)
        await asyncio.sleep(0.01)
        assert run.now.waiting == {"nap": ["Begin: sleeps"]} and run.status == "paused"
        moment = await run.debug.step()
        assert isinstance(moment.tick, TimerFired) and moment.told == "nap has slept: nap goes on"
        run.cont()
        assert await run == "slept"

    asyncio.run(main())


def test_a_pause_while_a_question_is_open_keeps_it_open_and_takes_its_answer_later():
    """R5.19, R5.21: the answer waits before the gate; a step lets it in."""

    async def main() -> None:
        run = Asks().run(n=7)
        await until(lambda: run.requests)
        paused = await run.pause()
        assert (paused.status, [request[2] for request in paused.requests]) == ("paused", [Approve(no=7)])
        run.answer(ok=True)
        await until(lambda: run.debug.inbox)
        assert run.status == "paused"
        moment = await run.debug.step()
        assert moment.told == "a person answered ask's question Approve(no=7) with Verdict(ok=True): ask goes on"
        run.cont()
        assert await run is True

    asyncio.run(main())


def test_a_cancel_while_a_retry_a_timer_and_a_question_stand_before_a_closed_gate():
    """R5.20: it is over at once, and nothing of them comes any more."""
    flow = Workflow[None]("stands")

    @flow.step(retry_policy=retry_policy(stop=stop_after_attempt(2), wait=wait_fixed(30)))
    async def fails(ev: Begin) -> StopEvent:
        raise ValueError("x")

    @flow.step
    async def naps(ev: Begin, ctx: Context) -> None:
        await ctx.sleep(30)

    @flow.step
    async def asks(ev: Begin, ctx: Context) -> None:
        await ctx.ask(Approve())

    async def main() -> None:
        clock = ManualClock()
        run = flow.with_options(clock=clock).run()
        await until(lambda: run.now.retrying and len(run.now.waiting) == 2)
        await run.pause()
        clock.advance(31)
        run.answer(ok=True)
        await until(lambda: len(run.debug.inbox) == 3)
        await run.cancel("enough")
        assert (run.status, run.now.steps) == ("cancelled", {"fails": "skipped", "naps": "skipped", "asks": "skipped"})
        assert run.now.told == "a person cancels the run (enough): the run is cancelled; 3 deliveries are cut off"

    asyncio.run(main())


def loops(times: int) -> Workflow[int]:
    """Two steps that send each other one item."""
    flow = Workflow[int]("loops")

    @flow.step
    async def there(ev: Begin | Done) -> Item:
        return Item(no=ev.no if isinstance(ev, Done) else 0)

    @flow.step
    async def back(ev: Item) -> Done | StopEvent:
        return Done(no=ev.no + 1) if ev.no < times else StopEvent(result=ev.no)

    return flow


def test_over_in_a_loop_goes_over_one_pass_of_one_step():
    """R5.24: not over all later passes of the same step."""

    async def main() -> None:
        run = loops(3).debug()
        await until(lambda: run.debug.inbox)
        passes = []
        while not run.is_done():
            moment = await run.debug.over()
            passes.append([line.tick.step for line in moment.admitted if isinstance(line.tick, StepFinished)])
        # The result that waits first starts the step that is gone over; it stops when the result of that is in.
        assert passes == [["there", "back"]] * 4
        assert await run == 3

    asyncio.run(main())


def test_a_breakpoint_on_the_second_visit_of_a_step():
    """R5.26: the first visit passes; it stands from the second on, and in each run anew."""

    async def main() -> None:
        flow = loops(3)
        stop = flow.breakpoints.add(step="back", hit=2)
        for _ in range(2):
            run = flow.run()
            await run.cont()
            assert [tick.outs[0].value for tick in run.debug.ticks if isinstance(tick, StepFinished)] == [
                Item(no=0),
                Done(no=1),
            ]
            assert isinstance(run.debug.inbox[0], StepFinished) and run.debug.inbox[0].outs[0].value == Item(no=1)
            assert "before step back, from hit 2 on" in run.why()
            moment = await run.cont()
            assert moment.told == f"breakpoint {stop.number} (before step back, from hit 2 on) pauses the run"
            stop.disable()
            run.cont()
            assert await run == 3
            stop.enable()
        assert stop.hits == 4

    asyncio.run(main())


def test_out_of_a_fan_out_tells_all_that_passed_on_the_way():
    """R5.24."""

    async def main() -> None:
        run = Count().debug(n=3)
        await until(lambda: run.debug.inbox)
        await run.debug.step()
        await until(lambda: run.debug.inbox)
        moment = await run.debug.out()
        finished = [line for line in moment.admitted if isinstance(line.tick, StepFinished)]
        assert [line.tick.step for line in finished] == ["work"] * 3
        assert finished[-1].told.endswith("join gets all that came, 3 events, and starts")
        assert isinstance(moment.admitted[-1].tick, GateClosed)
        assert moment.told == "the run pauses where it was to run to"
        run.cont()
        assert await run == [0, 1, 2]

    asyncio.run(main())


def test_out_of_a_sub_workflow_stops_where_its_parent_knows():
    """R5.24, R6.24."""
    inner = Count()
    outer = Workflow[Any]("outer")

    @outer.step
    async def begin(ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.run(inner, n=2))

    async def main() -> None:
        stop = inner.breakpoints.add(step="join")
        run = outer.run()
        await until(lambda: any(child.now.paused_by for child in run.children.values()))
        (child,) = run.children.values()
        stop.remove()
        while not child.is_done():  # out of its fan-out first
            await child.debug.out()
        await until(lambda: run.now.paused_by)
        assert run.now.paused_by == ("breakpoint",) and run.now.running == {"begin": ["Begin"]}
        run.cont()
        assert await run == [0, 1]

    asyncio.run(main())


def test_a_step_that_gets_no_tick_tells_that_nothing_passed_but_the_gate_s_own():
    """API §7: after a second the present moment, with who still runs."""

    async def main() -> None:
        go = asyncio.Event()
        flow = Workflow[str]("slow")

        @flow.step
        async def wait(ev: Begin) -> StopEvent:
            await go.wait()
            return StopEvent(result="came")

        run = flow.debug()
        await until(lambda: run.now.running)
        moment = await run.debug.step()
        assert [line.told for line in moment.admitted] == ["1 tick may pass while the run is paused"]
        assert moment.running == {"wait": ["Begin"]}
        go.set()
        assert await run == "came"

    asyncio.run(main())


def test_breakpoints_are_listed_with_what_they_are_and_did():
    """API §4: one collection of the workflow, oldest first, by number."""

    async def main() -> None:
        flow = Count()
        assert (len(flow.breakpoints), repr(flow.breakpoints)) == (0, "<Breakpoints of Count: none>")
        one = flow.breakpoints.add(step=Count.work)
        two = flow.breakpoints.add(event=Done, when="event.no > 1", at="after")
        three = flow.breakpoints.add(error=True)
        three.disable()
        assert list(flow.breakpoints) == [one, two, three] and flow.breakpoints[1] is two
        run = flow.debug(n=3)
        await run.cont()
        assert (
            repr(run.debug.breakpoints)
            == repr(flow.breakpoints)
            == "\n".join(
                [
                    "<Breakpoints of Count:",
                    "  <Breakpoint 1: before step work; hit 1 ×>",
                    "  <Breakpoint 2: after event Done, when event.no > 1; hit 0 ×>",
                    "  <Breakpoint 3: before an error, disabled; hit 0 ×>>",
                ]
            )
        )
        flow.breakpoints.disable()
        assert [each.enabled for each in flow.breakpoints] == [False] * 3
        run.cont()
        assert await run == [0, 1, 2]
        flow.breakpoints.enable()
        assert [each.enabled for each in flow.breakpoints] == [True] * 3
        two.remove()
        assert [each.number for each in flow.breakpoints] == [1, 3]

    asyncio.run(main())


def test_a_condition_that_raises_pauses_and_its_error_is_everywhere_that_people_look():
    """R5.27: the tick, the sentence, the breakpoint, why()."""

    async def main() -> None:
        flow = Count()
        stop = flow.breakpoints.add(event=Done, when="event.missing")
        run = flow.run(n=2)
        moment = await run.cont()
        error = "AttributeError: 'Done' object has no attribute 'missing'"
        assert moment.tick.error == error and f"since its condition failed with {error}" in moment.told
        assert error in stop.failed and error in repr(stop)
        assert f"whose condition failed: {error}" in run.why() and run.why().ticks[0] == moment.seq
        stop.remove()
        run.cont()
        assert await run == [0, 1]

    asyncio.run(main())


def test_breakpoints_stay_with_the_workflow_from_run_to_run_and_when_a_step_is_defined_anew():
    """API §4: a cell that is run again replaces the step; the breakpoint on its name stands."""

    async def main() -> None:
        flow = Workflow[int]("cells")

        @flow.step
        async def first(ev: Begin) -> Item:
            return Item(no=1)

        @flow.step
        async def last(ev: Item) -> StopEvent:
            return StopEvent(result=ev.no)

        stop = flow.breakpoints.add(step=last, at="start")
        for hits in (1, 2):
            run = flow.run()
            assert (await run.cont()).queued == {"last": ["Item"]}
            assert stop.hits == hits
            run.cont()
            assert await run == 1

        @flow.step  # the cell is run again
        async def last(ev: Item) -> StopEvent:
            return StopEvent(result=2)

        run = flow.run()
        assert (await run.cont()).queued == {"last": ["Item"]}
        fork = run.debug.fork()
        assert (await fork.cont()).queued == {"last": ["Item"]}
        for each in (run, fork):
            each.cont()
            assert await each == 2
        assert list(flow.breakpoints) == [stop]

    asyncio.run(main())


def test_a_wait_that_is_stepped_over_is_told_in_full():
    """R5.24: from the start of the step to its result, with the wait in it."""
    clock = ManualClock()
    flow = Workflow[int]("naps")

    @flow.step
    async def first(ev: Begin) -> Item:
        return Item(no=1)

    @flow.step
    async def nap(ev: Item, ctx: Context) -> Done:
        await ctx.sleep(5)
        return Done(no=1)

    @flow.step
    async def last(ev: Done) -> StopEvent:
        await asyncio.sleep(0.01)
        return StopEvent(result=1)

    async def main() -> None:
        run = flow.with_options(clock=clock).debug()
        await until(lambda: run.debug.inbox)
        over = run.debug.over()
        await until(lambda: any(isinstance(tick, WaitOpened) for tick in run.debug.ticks))
        clock.advance(5)
        moment = await over
        assert [line.told for line in moment.admitted if not isinstance(line.tick, CONTROL)] == [
            "first finished with Item(no=1): nap gets it and starts",
            "nap sleeps for 5 s",
            "nap has slept: nap goes on",
            "nap finished with Done(no=1): last gets it and starts",
        ]
        assert repr(moment.admitted).count("\n") == len(moment.admitted) - 1
        run.cont()
        assert await run == 1

    asyncio.run(main())


def test_a_person_who_thinks_is_no_time_of_a_step():
    """R5.64: a step's time ends when its code does, not when somebody lets its end in: in its tick, its state event,
    the panel's table and the timeline."""
    clock = ManualClock(100.0)
    flow = Workflow[int]("quick")

    @flow.step
    async def quick(ev: Begin) -> StopEvent:
        clock.advance(2.0)
        return StopEvent(result=ev.n)

    async def main() -> None:
        run = flow.with_options(clock=clock).debug(n=1)
        await until(lambda: run.now.seq and run.debug.inbox)
        clock.advance(898.0)
        await run.debug.step()
        assert await run == 1
        ended = run.debug.ticks[-1]
        assert (type(ended), ended.at, came_at(ended)) == (StepFinished, 1000.0, 102.0)
        done = [
            e async for e in run.stream_events(expose_internal=True) if getattr(e, "step_state", None) == "not_running"
        ]
        assert [(e.finished_at, e.duration) for e in done] == [(102.0, 2.0)]
        assert [row[4] for row in Screen(run).wait().projection.rows if row[0] == "finished"] == [2000]
        bars = [span for lane in timeline(run.debug.ticks).lanes for span in lane.spans]
        assert [(bar.start, bar.end) for bar in bars] == [(100.0, 102.0)]

    asyncio.run(main())
