"""`Pending`: begun at the call, waited for from anywhere."""

import asyncio
import threading

import pytest

from flownb.errors import WrongLoop
from flownb.runtime.pending import Pending


def test_await_gives_the_value_on_any_loop():
    """One handle, awaited by two loops in two threads, resolved by a third thread."""
    pending: Pending[int] = Pending("the number")
    got: list[int] = []

    async def wait() -> None:
        got.append(await pending)

    threads = [threading.Thread(target=lambda: asyncio.run(wait())) for _ in range(2)]
    for thread in threads:
        thread.start()
    threading.Timer(0.02, lambda: pending.resolve(7)).start()
    for thread in threads:
        thread.join(10)
    assert got == [7, 7]


def test_await_of_an_ended_handle_does_not_yield():
    pending: Pending[int] = Pending("the number")
    pending.resolve(1)
    with pytest.raises(StopIteration) as end:
        pending.__await__().send(None)
    assert end.value.value == 1


def test_result_blocks_until_the_end():
    pending: Pending[str] = Pending("the word")
    threading.Timer(0.02, lambda: pending.resolve("late")).start()
    assert pending.result(10) == "late"


def test_result_in_time_or_timeout_error():
    """A timeout withdraws nothing, and a handle that is polled does not grow."""
    withdrawn: list[int] = []
    pending: Pending[int] = Pending("the number", None, lambda: withdrawn.append(1))
    for _ in range(5):
        with pytest.raises(TimeoutError, match=r"the number was not over after 0\.001 s"):
            pending.result(0.001)
    assert withdrawn == []
    assert pending._call is None and not pending._calls
    pending.resolve(3)
    assert pending.result() == 3


def test_only_the_first_end_counts():
    pending: Pending[int] = Pending("the number")
    pending.resolve(1)
    pending.resolve(2)
    pending.reject(ValueError())
    assert pending.result() == 1


def test_an_error_is_raised_by_every_wait_with_the_same_traceback():
    """Raising one exception again and again would pile frame on frame."""

    def boom() -> None:
        raise ValueError("x")

    pending: Pending[int] = Pending("the number")
    try:
        boom()
    except ValueError as error:
        pending.reject(error)
    depths = []
    for _ in range(3):
        with pytest.raises(ValueError, match="x") as caught:
            pending.result()
        depths.append(len(list(caught.traceback)))
    assert depths[0] == depths[1] == depths[2]
    assert caught.traceback[-1].name == "boom"


def test_result_on_the_loop_that_brings_it_is_refused_in_words():
    """It could never return (API §0.1)."""

    async def main() -> None:
        pending: Pending[int] = Pending("the answer to Approve", asyncio.get_running_loop())
        with pytest.raises(WrongLoop, match=r"the answer to Approve .* Use `await`"):
            pending.result()
        pending.resolve(1)
        assert pending.result() == 1  # over: nothing to wait for

    asyncio.run(main())


def test_result_on_another_loop_blocks_that_one_only():
    async def other(pending: Pending[int]) -> int:
        return pending.result(10)

    async def main() -> int:
        pending: Pending[int] = Pending("the number", asyncio.get_running_loop())
        asyncio.get_running_loop().call_later(0.02, pending.resolve, 5)
        return await asyncio.to_thread(lambda: asyncio.run(other(pending)))

    assert asyncio.run(main()) == 5


def test_a_cancelled_wait_is_withdrawn():
    """`asyncio.wait_for` and a cancelled task give the wait up (API §0.1)."""
    withdrawn: list[str] = []

    async def main() -> None:
        pending: Pending[int] = Pending("the number", None, lambda: withdrawn.append("gone"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(pending, 0.01)
        assert pending._call is None and not pending._calls
        pending.resolve(1)
        pending.abandon()

    asyncio.run(main())
    assert withdrawn == ["gone"]


def test_gather_and_wait_for_take_handles():
    async def main() -> list[int]:
        handles: list[Pending[int]] = [Pending(f"number {i}") for i in range(3)]
        for i, handle in enumerate(handles):
            asyncio.get_running_loop().call_soon(handle.resolve, i)
        return await asyncio.wait_for(asyncio.gather(*handles), 10)

    assert asyncio.run(main()) == [0, 1, 2]


def test_a_handle_used_as_its_value_says_so():
    pending: Pending[str] = Pending("the answer to Approve")
    with pytest.raises(AttributeError, match=r"handle of the answer to Approve.*'upper'.*await it.*\.result\(\)"):
        pending.upper()
    assert not hasattr(pending, "__len__")


def test_repr_says_what_and_how_it_ended():
    pending: Pending[int] = Pending("the number")
    assert repr(pending) == "<pending: the number>"
    pending.resolve(4)
    assert repr(pending) == "<the number: 4>"


def test_a_call_at_the_end_is_made_once_and_at_once_if_it_is_over():
    calls: list[str] = []
    pending: Pending[int] = Pending("the number")
    pending.on_end(lambda: calls.append("later"))
    pending.resolve(1)
    pending.on_end(lambda: calls.append("at once"))
    assert calls == ["later", "at once"]


def test_who_awaited_on_a_loop_that_is_closed_by_then_is_forgotten():
    pending: Pending[int] = Pending("the number")

    async def main() -> None:
        waiting = asyncio.ensure_future(asyncio.wait_for(pending, 60))
        await asyncio.sleep(0)
        waiting.cancel()

    asyncio.run(main())
    pending.resolve(1)  # must not raise "Event loop is closed"
    assert pending.done()
