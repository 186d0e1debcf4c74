"""How a run is waited for where the interrupt button may be pressed."""

import _thread
import asyncio
import threading
from typing import Any

import pytest

from flownb.errors import WorkflowCancelledByUser
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

    async def cell() -> None:
        await until(lambda: run.now.running)
        asyncio.get_running_loop().call_later(0.02, asyncio.current_task().cancel)
        await run

    said = "is cancelled" if on_interrupt == "cancel" else "goes on. Await it again"
    with pytest.raises(KeyboardInterrupt, match=said):
        asyncio.run(cell())
    if on_interrupt == "cancel":
        with pytest.raises(WorkflowCancelledByUser, match="the cell was interrupted"):
            run.result(20)
    else:
        assert run.status == "running"
        run.cancel().result(20)


@pytest.mark.usefixtures("as_in_a_kernel")
def test_a_cell_that_awaits_gets_its_result_too():
    async def cell() -> Any:
        from tests.runtime.flows import Count

        return await Count().with_options(host="thread").run(n=2)

    assert asyncio.run(cell()) == [0, 1]


@pytest.mark.parametrize("on_interrupt", ["cancel", "detach"])
def test_interrupting_a_call_that_blocks_cancels_the_run_or_lets_it_go_on(on_interrupt: str):
    run = Forever().with_options(on_interrupt=on_interrupt).run()
    wait_until(lambda: run.now.running)
    threading.Timer(0.05, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        run.result(20)
    if on_interrupt == "cancel":
        wait_until(run.is_done)
        assert run.status == "cancelled"
    else:
        assert run.status == "running"
        run.cancel().result(20)
