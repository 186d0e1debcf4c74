"""How a run is waited for where the interrupt button may be pressed."""

import _thread
import asyncio
import signal
from typing import Any

import pytest

from flownb import awaiting
from flownb.errors import WorkflowCancelledByUser
from flownb.runtime.interrupts import Interrupts, held_back
from tests.polling import until, wait_until
from tests.runtime.flows import Forever


@pytest.fixture
def as_in_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flownb.awaiting.in_kernel", lambda: True)


@pytest.mark.usefixtures("as_in_a_kernel")
@pytest.mark.parametrize("on_interrupt", ["cancel", "detach"])
def test_interrupting_a_cell_that_awaits_cancels_the_run_or_lets_it_go_on(on_interrupt: str):
    """DESIGN §6: the kernel cancels the cell's task; the cell ends with KeyboardInterrupt."""
    run: Any = Forever().with_options(host="thread", on_interrupt=on_interrupt).run()

    async def run_cell_async() -> None:  # the name of IPython's
        await until(lambda: run.now.running)
        asyncio.get_running_loop().call_later(0.02, signal.raise_signal, signal.SIGINT)
        await run

    said = "is cancelled" if on_interrupt == "cancel" else "goes on. Await it again"
    with pytest.raises(KeyboardInterrupt, match=said):
        asyncio.run(run_cell_async())
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if on_interrupt == "cancel":
        with pytest.raises(WorkflowCancelledByUser, match="the cell was interrupted"):
            run.result(20)
    else:
        assert run.status == "running"
        run.cancel().result(20)


@pytest.mark.usefixtures("as_in_a_kernel")
@pytest.mark.parametrize("way", ["wait_for", "timeout", "cancel", "gather"])
def test_any_other_cancellation_leaves_the_run_alone(way: str):
    """API, rule 1: to abandon a wait never touches a run."""
    run: Any = Forever().with_options(host="thread").run()

    async def wait() -> None:
        await run

    async def cell() -> None:
        await until(lambda: run.now.running)
        if way == "wait_for":
            await asyncio.wait_for(run, 0.02)
        elif way == "timeout":
            async with asyncio.timeout(0.02):
                await run
        else:
            task = asyncio.gather(wait(), wait()) if way == "gather" else asyncio.create_task(wait())
            asyncio.get_running_loop().call_later(0.02, task.cancel)
            await task

    with pytest.raises(TimeoutError if way in ("wait_for", "timeout") else asyncio.CancelledError):
        asyncio.run(cell())
    assert run.status == "running"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    run.cancel().result(20)


@pytest.mark.usefixtures("as_in_a_kernel")
def test_an_interrupt_long_before_is_forgotten(monkeypatch: pytest.MonkeyPatch):
    """A wait in the background hears the interrupts of other cells too; a later cancellation is none of them."""
    monkeypatch.setattr("flownb.awaiting.HEARTBEAT_S", 0.01)
    slices, renew = [], Interrupts.renew

    def counted(self: Interrupts) -> None:
        renew(self)
        slices.append(1)

    monkeypatch.setattr(Interrupts, "renew", counted)
    run: Any = Forever().with_options(host="thread").run()

    async def wait() -> None:
        await run

    async def cell() -> None:
        before = signal.signal(signal.SIGINT, lambda *args: None)  # of the loop, which takes it off at its end
        task = asyncio.create_task(wait())
        await until(lambda: run.now.running)
        seen = len(slices)
        await until(lambda: len(slices) > seen)  # the handler that counts stands before this one now
        signal.raise_signal(signal.SIGINT)
        seen = len(slices)
        await until(lambda: len(slices) > seen + 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        signal.signal(signal.SIGINT, before)

    asyncio.run(cell())
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert run.status == "running"
    run.cancel().result(20)


@pytest.mark.usefixtures("as_in_a_kernel")
def test_a_cell_that_awaits_gets_its_result_too():
    async def cell() -> Any:
        from tests.runtime.flows import Count

        return await Count().with_options(host="thread").run(n=2)

    assert asyncio.run(cell()) == [0, 1]


@pytest.mark.parametrize("on_interrupt", ["cancel", "detach"])
def test_interrupting_a_call_that_blocks_cancels_the_run_or_lets_it_go_on(
    on_interrupt: str, monkeypatch: pytest.MonkeyPatch
):
    run = Forever().with_options(on_interrupt=on_interrupt).run()
    wait_until(lambda: run.now.running)

    def pressed(*args: Any, **kwargs: Any) -> bool:  # asked now and then while the call blocks
        _thread.interrupt_main()
        return False

    monkeypatch.setattr(awaiting, "refuses", pressed)
    with pytest.raises(KeyboardInterrupt):
        run.result(20)
    if on_interrupt == "cancel":
        wait_until(run.is_done)
        assert run.status == "cancelled"
    else:
        assert run.status == "running"
        run.cancel().result(20)


def test_an_interrupt_that_is_held_back_comes_at_the_end():
    """What is done inside is done whole, and the handler is the one from before."""
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt), held_back():
        signal.raise_signal(signal.SIGINT)
        done.append("whole")
    assert done == ["whole"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with held_back():
        done.append("none came")


def test_who_ignores_interrupts_still_does_inside():
    """As a kernel between two cells."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with held_back():
            signal.raise_signal(signal.SIGINT)
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
