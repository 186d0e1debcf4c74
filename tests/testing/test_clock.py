"""The clock that stands still until it is told."""

import asyncio
import threading

import pytest

from flownb import Context, StartEvent, StopEvent, Workflow
from flownb import step as flow_step
from flownb.testing import ManualClock


class Naps(Workflow):
    """One step that sleeps for a day."""

    @flow_step
    async def nap(self, ev: StartEvent, ctx: Context) -> StopEvent:
        await ctx.sleep(86_400.0)
        return StopEvent(result="rested")


def test_time_passes_only_by_advance():
    """Unix seconds; not backwards."""
    clock = ManualClock(100.0)
    assert clock.now() == 100.0
    assert clock.advance(0) == 0
    clock.advance(2.5)
    assert clock.now() == 102.5
    with pytest.raises(ValueError, match="seconds must be 0 or more, got -1"):
        clock.advance(-1)


def test_calls_are_made_in_the_order_in_which_they_fall_due():
    """Each at its own moment; equal ones as they were set; cancelled ones not at all."""

    async def main():
        loop, clock, made = asyncio.get_running_loop(), ManualClock(0.0), []

        def note(name):
            return lambda: made.append((name, clock.now()))

        clock.call_at(loop, 5.0, note("later"))
        clock.call_at(loop, 2.0, note("first"))
        clock.call_at(loop, 2.0, note("second"))
        clock.call_at(loop, 1.0, note("cancelled")).cancel()
        clock.call_at(loop, 9.0, note("not yet"))

        assert clock.next_due() == 2.0
        assert clock.advance(6.0) == 3
        assert made == [("first", 2.0), ("second", 2.0), ("later", 5.0)]
        assert (clock.now(), clock.next_due()) == (6.0, 9.0)

    asyncio.run(main())


def test_a_call_for_the_past_is_made_soon():
    """Not inside `call_at` itself: its caller has no handle yet."""

    async def main():
        loop, clock, made = asyncio.get_running_loop(), ManualClock(10.0), []
        clock.call_at(loop, 10.0, lambda: made.append("now"))
        clock.call_at(loop, 3.0, lambda: made.append("past"))
        clock.call_at(loop, 3.0, lambda: made.append("cancelled")).cancel()
        assert made == []
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert made == ["now", "past"]
        assert clock.next_due() is None

    asyncio.run(main())


def test_a_call_set_by_a_call_is_made_in_the_same_advance():
    """If it falls due in it too."""

    async def main():
        loop, clock, made = asyncio.get_running_loop(), ManualClock(0.0), []

        def again():
            made.append(clock.now())
            if len(made) < 5:
                clock.call_at(loop, clock.now() + 2.0, again)

        clock.call_at(loop, 1.0, again)
        assert clock.advance(6.0) == 3
        assert made == [1.0, 3.0, 5.0]

    asyncio.run(main())


def test_calls_of_a_loop_in_another_thread_are_made_there():
    """So a test in plain code may turn the clock of the engine's thread."""
    loop, clock, made, done = asyncio.new_event_loop(), ManualClock(0.0), [], threading.Event()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:

        def call():
            made.append(threading.current_thread())
            done.set()

        clock.call_at(loop, 1.0, call)
        assert clock.advance(1.0) == 1
        assert done.wait(5.0)
        assert made == [thread]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_a_day_s_sleep_takes_no_time():
    """R4.37: a run on a real loop, its timer fired by the clock at the moment that the state names."""

    async def main():
        clock = ManualClock(1_000.0)
        run = Naps().with_options(clock=clock).run()
        while clock.next_due() is None:
            await asyncio.sleep(0)
        assert clock.next_due() == 87_400.0
        clock.advance(100_000.0)
        assert await run == "rested"
        fired = [tick for tick in run.debug.ticks if type(tick).__name__ == "TimerFired"]
        assert [tick.at for tick in fired] == [87_400.0]

    asyncio.run(main())
