"""The host's clock and its timers."""

import asyncio
import time

from flownb.runtime.clock import SystemClock


def test_a_timer_never_fires_early_and_one_in_the_past_fires_at_once():
    clock = SystemClock()

    async def main() -> tuple[float, float]:
        loop = asyncio.get_running_loop()
        fired: asyncio.Future[float] = loop.create_future()
        due = clock.now() + 0.03
        clock.call_at(loop, due, lambda: fired.set_result(clock.now()))
        past: asyncio.Future[float] = loop.create_future()
        begun = time.monotonic()
        clock.call_at(loop, clock.now() - 100, lambda: past.set_result(time.monotonic() - begun))
        return await fired - due, await past

    late, past = asyncio.run(main())
    assert late >= 0
    assert past < 5


def test_a_cancelled_timer_does_not_fire():
    clock = SystemClock()
    fired: list[int] = []

    async def main() -> None:
        clock.call_at(asyncio.get_running_loop(), clock.now() + 0.01, lambda: fired.append(1)).cancel()
        await asyncio.sleep(0.03)

    asyncio.run(main())
    assert fired == []


def test_a_timer_further_off_than_the_loop_can_hold_is_set_again():
    """asyncio's timers overflow; a year's sleep must not."""
    clock = SystemClock()
    clock.longest_s = 0.01

    async def main() -> float:
        loop = asyncio.get_running_loop()
        fired: asyncio.Future[float] = loop.create_future()
        due = clock.now() + 0.05
        clock.call_at(loop, due, lambda: fired.set_result(clock.now()))
        return await fired - due

    assert asyncio.run(main()) >= 0
