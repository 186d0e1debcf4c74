"""The fast lane in a real kernel, without a page: what passes the cell that runs, and what does not."""

import ast
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent
from types import SimpleNamespace
from typing import Any

import pytest

import flownb
from flownb.errors import WorkflowConfigurationError
from flownb.notebook import fastlane
from flownb.runtime.hearing import hearing
from tests.kernels.frontend import Kernel

DEFINE = """
import asyncio, threading, time
import ipywidgets
import flownb
from flownb import Context, StartEvent, StopEvent, Workflow
from flownb.notebook import fastlane, ours

asks = Workflow("asks")

@asks.step
async def ask(ev: StartEvent, ctx: Context) -> StopEvent:
    return StopEvent(result=await ctx.ask("Well?"))

took = []

def widget(name):
    made = ipywidgets.Text()
    def take(_, content, buffers):
        time.sleep(content.get("takes", 0))
        took.append((name, content["n"]))
        if "answer" in content:
            run.answer(None, content["answer"])
    made.on_msg(take)
    return made

mine, other = widget("mine"), widget("other")
ours.claim(mine)

def begin():
    run = asks.run()
    while not run.requests:
        time.sleep(0.01)
    return run

stream = fastlane._stream_of(get_ipython().kernel)
before = stream._recv_callback
print(mine.model_id, other.model_id)
"""
BLOCKS = "took.clear(); run = begin()\nprint('begun', flush=True)\nprint(run.result(), took)"
AWAITS = BLOCKS.replace("run.result()", "await run")


class Front(Kernel):
    """A kernel with a widget of ours and another one."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.mine, self.other = self.run(DEFINE).split()

    def took(self) -> Any:
        return ast.literal_eval(self.run("print(took)"))


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PLATFORM_DIRS", "1")
        made = Front(tmp_path_factory.mktemp("kernel"))
        try:
            yield made
        finally:
            made.stop()


@pytest.fixture
def lane(front: Front) -> Iterator[Front]:
    """The same with the lane open."""
    assert front.run("print(flownb.enable_fast_lane(), flownb.enable_fast_lane())") == "True True\n"
    yield front
    front.run("flownb.disable_fast_lane()")


@pytest.mark.kernels
@pytest.mark.parametrize("cell", [BLOCKS, AWAITS], ids=["block", "await"])
def test_messages_to_our_widgets_pass_the_cell_in_order_and_none_is_lost(lane: Front, cell: str):
    waits = lane.begin(cell)
    lane.until(waits, "begun")
    for n in range(120):
        lane.change(lane.mine, {"n": n})
    last = lane.change(lane.mine, {"n": 120, "answer": "yes"})

    assert lane.end(waits) == f"begun\nyes {[('mine', n) for n in range(121)]}\n"
    assert lane.statuses(last) == ["busy", "idle"], "the page holds back a widget's next change until then"


@pytest.mark.kernels
def test_all_else_waits_for_the_cell_and_comes_in_its_order(lane: Front):
    """A cell behind, widgets of others before and after it, a question to the kernel."""
    waits = lane.begin(BLOCKS)
    lane.until(waits, "begun")
    behind = ""
    for n in range(40):
        if n == 20:
            behind = lane.begin("took.append(('cell', 0)); print('behind')")
        lane.change(lane.other, {"n": n})
        lane.change(lane.mine, {"n": n})
    asked = lane.client.kernel_info()
    lane.change(lane.mine, {"n": 40, "answer": "yes"})

    ours = [("mine", n) for n in range(41)]
    assert lane.end(waits) == f"begun\nyes {ours}\n"
    assert lane.end(behind) == "behind\n"
    assert lane.replies(waits, behind, asked) == [waits, behind, asked]
    others = [("other", n) for n in range(40)]
    assert lane.took() == [*ours, *others[:20], ("cell", 0), *others[20:]]


@pytest.mark.kernels
def test_an_interrupt_in_the_middle_of_a_click_ends_the_call_and_loses_nothing(lane: Front):
    """The click is handled whole, those behind it come after the cell; the run is cancelled, the lane works on."""
    waits = lane.begin(BLOCKS)
    lane.until(waits, "begun")
    lane.change(lane.mine, {"n": 0, "takes": 0.8})
    time.sleep(0.4)
    lane.manager.interrupt_kernel()
    for n in (1, 2):
        lane.change(lane.other, {"n": n})
        lane.change(lane.mine, {"n": n})

    assert "KeyboardInterrupt" in lane.end(waits)
    found = lane.took()
    assert [n for name, n in found if name == "mine"] == [0, 1, 2]
    assert [n for name, n in found if name == "other"] == [1, 2]
    assert lane.run("print(run.status)") == "cancelled\n"

    waits = lane.begin(BLOCKS)
    lane.until(waits, "begun")
    lane.change(lane.mine, {"n": 3, "answer": "again"})
    assert lane.end(waits) == "begun\nagain [('mine', 3)]\n"


@pytest.mark.kernels
def test_between_cells_a_message_is_handled_and_the_kernel_stays_idle(lane: Front):
    lane.run("took.clear(); run = begin()")
    sent = lane.change(lane.mine, {"n": 7, "answer": "yes"})
    assert lane.run("print(await run, took)") == "yes [('mine', 7)]\n"
    assert lane.statuses(sent) == [] or lane.statuses(sent)[-1] == "idle"


@pytest.mark.kernels
def test_a_handler_that_raises_ends_neither_the_call_nor_the_lane(lane: Front):
    lane.run("took.clear()")
    waits = lane.begin(BLOCKS)
    lane.until(waits, "begun")
    lane.change(lane.mine, {"no": "n"})
    lane.change(lane.mine, {"n": 1, "answer": "yes"})
    assert "yes [('mine', 1)]" in lane.end(waits)


def test_closed_it_leaves_the_kernel_as_it_was(front: Front):
    """Closed twice, opened between; then a call that blocks fails in words again, at once, and the run stays open."""
    said = front.run("flownb.disable_fast_lane(); flownb.enable_fast_lane(); print(stream._recv_callback is before)")
    assert said == "False\n"
    said = front.run("flownb.disable_fast_lane(); flownb.disable_fast_lane(); print(stream._recv_callback is before)")
    assert said == "True\n"
    tries = f"begun = time.monotonic()\ntry:\n{indent(BLOCKS, '    ')}\nfinally: print(time.monotonic() - begun < 2)"
    said = front.run(tries)
    assert "NobodyToAnswer" in said and "this call blocks the cell" in said and "ask asks Question(" in said
    assert "True" in said
    assert front.run("print(run.status); run.cancel()") == "waiting\n"


@pytest.mark.kernels
def test_who_wrapped_the_callback_after_the_lane_keeps_that(front: Front):
    """The lane then only passes on."""
    front.run(
        """
flownb.enable_fast_lane()
above = stream._recv_callback
passed = []
def wrapper(frames):
    passed.append(1)
    return above(frames)
stream.on_recv(wrapper, copy=False)
flownb.disable_fast_lane()
"""
    )
    front.change(front.mine, {"n": 5})
    assert front.run("print(stream._recv_callback is wrapper, len(passed) > 1)") == "True True\n"
    front.run("stream.on_recv(before, copy=False)")


@pytest.mark.kernels
def test_a_shutdown_on_the_shell_channel_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Behind the cell that blocks, as without the lane."""
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    front = Front(tmp_path)
    try:
        front.run("flownb.enable_fast_lane()")
        waits = front.begin(BLOCKS)
        front.until(waits, "begun")
        front.client.shell_channel.send(front.client.session.msg("shutdown_request", {"restart": False}))
        time.sleep(0.5)
        assert front.manager.is_alive()
        front.change(front.mine, {"n": 1, "answer": "yes"})
        assert front.end(waits) == "begun\nyes [('mine', 1)]\n"
        end = time.monotonic() + 30
        while front.manager.is_alive():
            assert time.monotonic() < end, "the shutdown was lost"
            time.sleep(0.05)
    finally:
        front.stop()


THREAD = """
said = []
def waits():
    try:
        said.append(run.result())
    except Exception as error:
        said.append(str(error))
took.clear(); run = begin()
thread = threading.Thread(target=waits, daemon=True)
thread.start()
"""


@pytest.mark.kernels
def test_a_thread_hears_clicks_while_no_cell_runs(front: Front):
    """No alarm: the kernel's loop is free."""
    front.run(THREAD)
    time.sleep(2)
    front.change(front.mine, {"n": 1, "answer": "yes"})
    assert front.run("thread.join(20); print(said, run.status)") == "['yes'] completed\n"


def test_a_thread_for_which_the_cell_blocks_fails_in_words(front: Front):
    """As a pool does whose results the cell collects."""
    assert "No click can arrive here" in front.run(f"{THREAD}\nthread.join(20); print(said, run.status); run.cancel()")


def test_a_thread_for_which_the_cell_awaits_hears_clicks_where_that_does(front: Front):
    """ipykernel 7.4 hands messages on beside a cell that awaits."""
    waits = front.begin("took.clear(); run = begin()\nprint('begun')\nprint(await asyncio.to_thread(run.result))")
    front.until(waits, "begun")
    time.sleep(2)
    front.change(front.mine, {"n": 1, "answer": "yes"})
    assert front.end(waits) == "begun\nyes\n"


# ---- without a kernel


def test_outside_a_kernel_there_is_no_lane():
    assert flownb.enable_fast_lane() is False
    flownb.disable_fast_lane()
    assert hearing.lane is None


@pytest.fixture
def as_in_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fastlane, "in_kernel", lambda: True)


@pytest.mark.usefixtures("as_in_a_kernel")
def test_another_thread_cannot_open_it():
    caught: list[BaseException] = []

    def opens() -> None:
        try:
            flownb.enable_fast_lane()
        except WorkflowConfigurationError as error:
            caught.append(error)

    thread = threading.Thread(target=opens)
    thread.start()
    thread.join()
    assert "is opened in a cell" in str(caught[0])


STREAM = ("_recv_callback", "_recv_copy", "on_recv", "flush")
KERNEL = ("session", "iopub_socket", "shell_handlers", "set_parent", "get_parent", "_parent_ident", "shell")


def older(*, lacks: str) -> SimpleNamespace:
    """A kernel as of ipykernel 6 that lacks a name."""
    stream = SimpleNamespace(**{name: object() for name in STREAM if name != lacks})
    kernel = SimpleNamespace(**{name: object() for name in KERNEL if name != lacks})
    if lacks != "shell_stream":
        kernel.shell_stream = stream
    return kernel


@pytest.mark.parametrize("name", [*STREAM, *KERNEL, "shell_stream"])
def test_a_kernel_that_lacks_a_name_is_left_alone_in_words(name: str):
    with pytest.raises(
        WorkflowConfigurationError, match=rf"cannot be opened .*has no '{name}'.*with_options\(answers="
    ):
        fastlane.FastLane(older(lacks=name))


def test_so_is_one_of_today_that_lacks_its_inner_stream():
    kernel = older(lacks="nothing")
    kernel.shell_channel_thread = SimpleNamespace(manager=SimpleNamespace())
    with pytest.raises(WorkflowConfigurationError, match="has no '_shell_channel_to_main'"):
        fastlane.FastLane(kernel)


def test_what_cannot_be_read_goes_to_the_kernel():
    kernel: Any = older(lacks="nothing")
    passed: list[Any] = []
    kernel.shell_stream._recv_callback = passed.append
    lane = fastlane.FastLane(kernel)
    lane._is_open = True
    lane([os.urandom(8)])
    assert len(passed) == 1
