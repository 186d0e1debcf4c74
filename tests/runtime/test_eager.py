"""Tasks whose first stretch runs at once: to the code inside them they are tasks like all others."""

from __future__ import annotations

import asyncio
import contextvars
import gc
from collections.abc import Coroutine
from typing import Any

import pytest

from flownb.runtime.eager import begin


def in_a_callback(coro: Coroutine[Any, Any, None]) -> asyncio.Future[asyncio.Task[None] | None]:
    """What `begin` gives, called as the runner calls it: by the loop, outside of any task."""
    loop = asyncio.get_running_loop()
    given: asyncio.Future[asyncio.Task[None] | None] = loop.create_future()
    loop.call_soon(lambda: given.set_result(begin(loop, coro, contextvars.Context())))
    return given


def test_code_that_never_suspends_is_over_when_begin_returns():
    done: list[asyncio.Task[Any] | None] = []

    async def main() -> None:
        async def code() -> None:
            done.append(asyncio.current_task())

        assert await in_a_callback(code()) is None

    asyncio.run(main())
    assert done[0] is not None
    assert done[0].done()


def test_code_that_suspends_goes_on_in_the_same_task():
    seen: list[asyncio.Task[Any] | None] = []

    async def main() -> None:
        async def code() -> None:
            seen.append(asyncio.current_task())
            await asyncio.sleep(0)  # a bare yield
            seen.append(asyncio.current_task())
            await asyncio.sleep(0.001)  # a future
            seen.append(asyncio.current_task())

        task = await in_a_callback(code())
        assert task in asyncio.all_tasks()
        await task
        assert seen == [task, task, task]

    asyncio.run(main())


def test_time_limits_and_task_groups_work_in_the_first_stretch():
    said: list[str] = []

    async def main() -> None:
        async def code() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.sleep(0))
            try:
                async with asyncio.timeout(0.001):
                    await asyncio.sleep(10)
            except TimeoutError:
                said.append("too late")

        await (await in_a_callback(code()))

    asyncio.run(main())
    assert said == ["too late"]


def test_a_task_that_cancels_itself_is_cancelled_at_its_first_wait():
    async def main() -> None:
        waited = asyncio.get_running_loop().create_future()

        async def code() -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel("enough")
            await waited

        task = await in_a_callback(code())
        with pytest.raises(asyncio.CancelledError, match="enough"):
            await task
        assert waited.cancelled()

    asyncio.run(main())


def test_what_no_task_may_wait_for_is_an_error_inside_the_code():
    said: list[str] = []

    class Odd:
        def __await__(self) -> Any:
            yield "no future"

    async def main() -> None:
        async def code() -> None:
            try:
                await Odd()
            except RuntimeError as error:
                said.append(str(error))

        await (await in_a_callback(code()))

    asyncio.run(main())
    assert "no future" in said[0]


def test_an_end_by_an_error_or_a_cancellation_is_told_as_of_any_task():
    told: list[str] = []
    tasks: list[asyncio.Task[Any] | None] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context["message"]))

        async def fails() -> None:
            raise ValueError("no")

        async def gives_up() -> None:
            tasks.append(asyncio.current_task())
            raise asyncio.CancelledError

        assert await in_a_callback(fails()) is None
        assert await in_a_callback(gives_up()) is None
        gc.collect()

    asyncio.run(main())
    assert [said.partition(" ")[2] for said in told] == ["exception was never retrieved"]
    assert tasks[0] is not None
    assert tasks[0].cancelled()


def test_a_task_that_is_lost_while_it_waits_is_complained_of():
    told: list[str] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context["message"]))

        async def code() -> None:
            await asyncio.get_running_loop().create_future()

        assert await in_a_callback(code()) is not None
        await asyncio.sleep(0)
        gc.collect()

    asyncio.run(main())
    assert told == ["Task was destroyed but it is pending!"]
