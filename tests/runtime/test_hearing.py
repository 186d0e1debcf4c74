"""Whether a click can arrive while a cell waits, told by what a kernel has."""

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from flownb.runtime import hearing as module
from flownb.runtime.capture import sink
from flownb.runtime.hearing import Hearing, Wait

BLOCKED = "this call blocks the cell"
BETWEEN = "hears clicks only between cells. Let this cell end"


class Loop:
    """The kernel's tornado loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.asyncio_loop = loop

    def add_callback(self, fn: Callable[[], object]) -> None:
        self.asyncio_loop.call_soon_threadsafe(fn)


def older(loop: asyncio.AbstractEventLoop) -> Any:
    """As of ipykernel 6: one queue."""
    return SimpleNamespace(io_loop=Loop(loop), dispatch_shell=lambda msg: None)


def threaded(loop: asyncio.AbstractEventLoop, *, subshells: int) -> Any:
    """As of ipykernel 7.0 to 7.3: the page may make subshells."""
    kernel = older(loop)
    kernel.shell_channel_thread = SimpleNamespace(manager=SimpleNamespace(list_subshell=lambda: ["s"] * subshells))
    return kernel


def newer(loop: asyncio.AbstractEventLoop, *, subshells: int) -> Any:
    """As of ipykernel 7.4: messages of widgets go on beside a cell that awaits."""
    kernel = threaded(loop, subshells=subshells)
    kernel.dispatch_shell = lambda msg, subshell_id=None, *, concurrent=False: None
    return kernel


class Open:
    """A fast lane."""

    def __init__(self) -> None:
        self.polled = 0

    def serves(self) -> bool:
        return threading.current_thread() is threading.main_thread()

    def poll(self) -> None:
        self.polled += 1


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Hearing:
    """What is known, from the beginning on."""
    fresh = Hearing()
    monkeypatch.setattr(module, "hearing", fresh)
    monkeypatch.setattr(module, "kernel_message", lambda: {"header": {"session": "page"}})
    monkeypatch.setitem(sys.modules, "ipykernel.comm.comm", SimpleNamespace(BaseComm=object))
    return fresh


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch, heard: Hearing) -> Iterator[Callable[..., Any]]:
    """Sets the kernel that this process is, by how it is made."""
    loop = asyncio.new_event_loop()

    def use_it(make: Callable[..., Any], **about: Any) -> Any:
        kernel = make(loop, **about)
        monkeypatch.setattr(module, "_kernel", lambda: kernel)
        if make is newer:
            follows = SimpleNamespace(BaseComm=SimpleNamespace(_reply_subshell_for=None))
            monkeypatch.setitem(sys.modules, "ipykernel.comm.comm", follows)
        return kernel

    yield use_it
    loop.close()


def why_blocked() -> str:
    """What a call that blocks the cell is told."""
    return Wait(blocks=True).why_deaf()


def why_awaiting(kernel: Any) -> str:
    """What a cell that awaits is told."""

    async def run_cell_async() -> str:  # the name of IPython's
        return Wait(blocks=False).why_deaf()

    return str(kernel.io_loop.asyncio_loop.run_until_complete(run_cell_async()))


@pytest.mark.usefixtures("heard")
def test_outside_a_kernel_nobody_is_deaf():
    """R4.68: other code may answer there."""
    assert why_blocked() == ""
    assert Wait(blocks=False).why_deaf() == ""


def test_one_queue_hears_clicks_only_between_cells(use: Any):
    kernel = use(older)
    assert BLOCKED in why_blocked() and "hears clicks only between cells. Let" in why_blocked()
    assert BETWEEN in why_awaiting(kernel)
    assert "flownb.enable_fast_lane()" in why_blocked()
    assert "flownb.enable_fast_lane()" in why_awaiting(kernel)


@pytest.mark.parametrize("beside", [True, False])
def test_subshells_are_believed_in_when_a_message_came_over_one(use: Any, heard: Hearing, beside: bool):
    """No alarm where clicks arrive; at once where the setting is off."""
    kernel = use(threaded, subshells=1)
    if beside:
        thread = threading.Thread(target=heard.came, args=["page"])
        thread.start()
        thread.join()
    else:
        heard.came("page")
    assert (why_blocked() == "") is beside
    assert (why_awaiting(kernel) == "") is beside


def test_as_long_as_nothing_came_the_page_gets_a_moment_to_make_its_subshell(
    use: Any, heard: Hearing, monkeypatch: pytest.MonkeyPatch
):
    """It does when it hears of the first widget. What came from a page that is gone says nothing."""
    monkeypatch.setattr(module, "SUBSHELL_S", 0.1)
    heard.came("a page before")
    use(threaded, subshells=0)
    wait = Wait(blocks=True)
    assert wait.why_deaf() == ""
    time.sleep(0.15)
    assert BLOCKED in wait.why_deaf()


def test_a_subshell_is_believed_in_before_the_panel_is_drawn(use: Any, heard: Hearing, monkeypatch: pytest.MonkeyPatch):
    """A panel out of sight is drawn late."""
    monkeypatch.setattr(module, "SUBSHELL_S", 0.0)
    heard.came("a page before")
    use(threaded, subshells=1)
    assert why_blocked() == ""


def test_beside_an_awaiting_cell_messages_go_on_but_not_beside_one_that_blocks(use: Any, heard: Hearing):
    """Its subshell is no help: what a widget sends goes where it was last changed from. The words say: await."""
    kernel = use(newer, subshells=1)
    thread = threading.Thread(target=heard.came, args=["page"])
    thread.start()
    thread.join()
    assert why_awaiting(kernel) == ""
    said = why_blocked()
    assert BLOCKED in said and "only between cells and while a cell awaits. Await it instead (`await run`)" in said


@pytest.mark.parametrize("make", [older, threaded, newer])
def test_the_fast_lane_lets_clicks_in_everywhere(use: Any, heard: Hearing, make: Callable[..., Any]):
    kernel = use(make, **({} if make is older else {"subshells": 0}))
    heard.lane = lane = Open()
    assert why_blocked() == ""
    assert why_awaiting(kernel) == ""
    wait = Wait(blocks=True)
    assert wait.is_served()
    wait.poll()
    assert lane.polled == 1


def test_between_two_cells_nobody_is_deaf(use: Any):
    """A task of a cell that is over, and one that goes on after its cell."""
    kernel = use(older)
    loop = kernel.io_loop.asyncio_loop

    async def task() -> str:
        return Wait(blocks=False).why_deaf()

    assert loop.run_until_complete(task()) == ""

    async def run_cell_async() -> Wait:
        return Wait(blocks=False)

    wait = loop.run_until_complete(run_cell_async())
    assert wait.why_deaf() == ""


def test_a_step_that_awaits_a_run_is_never_failed(use: Any):
    """R4.66: its own run would fail with it."""
    kernel = use(older)
    token = sink.set(SimpleNamespace(take_output=lambda text: True))
    try:
        assert why_awaiting(kernel) == ""
    finally:
        sink.reset(token)
    assert why_awaiting(kernel) != ""


def test_the_cell_is_looked_for_once(use: Any, monkeypatch: pytest.MonkeyPatch):
    """A thousand runs may be awaited in one cell."""
    kernel = use(older)
    searched: list[Any] = []
    search = asyncio.all_tasks
    monkeypatch.setattr(asyncio, "all_tasks", lambda loop: searched.append(loop) or search(loop))

    async def run_cell_async() -> list[str]:
        return [Wait(blocks=False).why_deaf() for _ in range(20)]

    loop = kernel.io_loop.asyncio_loop
    for cell in (1, 2):
        told = loop.run_until_complete(run_cell_async())
        assert all(BETWEEN in said for said in told)
        assert len([one for one in searched if one is loop]) == cell


def in_a_thread(loop: asyncio.AbstractEventLoop, *, blocks: bool) -> list[str]:
    """What a thread is told whose wait begins while the main one is blocked or has a cell that awaits."""
    told: list[str] = []

    def waits() -> None:
        wait = Wait(blocks=True)
        time.sleep(0.2)
        told.append(wait.why_deaf())

    thread = threading.Thread(target=waits)

    async def run_cell_async() -> None:
        thread.start()
        while thread.is_alive():
            await asyncio.sleep(0.01)

    if blocks:
        thread.start()
        thread.join()
    else:
        loop.run_until_complete(run_cell_async())
    return told


@pytest.mark.parametrize("lane", [False, True])
def test_a_thread_is_as_deaf_as_the_cell_that_waits_for_it(
    use: Any, heard: Hearing, monkeypatch: pytest.MonkeyPatch, lane: bool
):
    """The lane needs the main thread: it helps where that awaits, not where it is blocked by something else."""
    monkeypatch.setattr(module, "BLOCKED_S", 0.1)
    kernel = use(older)
    heard.lane = Open() if lane else None
    loop = kernel.io_loop.asyncio_loop
    (blocked,) = in_a_thread(loop, blocks=True)
    assert BLOCKED in blocked
    assert ("enable_fast_lane" in blocked) is False
    (awaited,) = in_a_thread(loop, blocks=False)
    assert (awaited == "") is lane
