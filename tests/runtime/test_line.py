"""Runs of one workflow that may not all live at once."""

import asyncio

from flownb import StopEvent, Workflow
from tests.polling import until
from tests.runtime.flows import Begin


def test_what_is_put_to_a_run_in_the_line_does_not_start_it():
    """API §4, `num_concurrent_runs`: it is taken in when its turn has come."""
    begun: list[int] = []

    async def main() -> None:
        go = asyncio.Event()
        flow = Workflow[None]("one", num_concurrent_runs=1)

        @flow.step
        async def work(ev: Begin) -> StopEvent:
            begun.append(ev.n)
            await go.wait()
            return StopEvent()

        first, second = flow.run(n=1), flow.run(n=2)
        await until(lambda: begun)
        second.pause()
        second.cont()
        for _ in range(20):
            await asyncio.sleep(0)
        assert begun == [1]
        go.set()
        await asyncio.wait_for(first, 20)
        await asyncio.wait_for(second, 20)

    asyncio.run(main())
    assert begun == [1, 2]
