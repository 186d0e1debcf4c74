"""Cells of a real kernel that are interrupted, and tasks in them that are cancelled otherwise."""

import os
import queue
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import KernelManager

ROOT = Path(__file__).resolve().parents[2]

DEFINE = """
import asyncio
from flownb import *
flow = Workflow("slow")
@flow.step
async def wait(ev: StartEvent) -> StopEvent:
    await asyncio.sleep(60)
    return StopEvent(result="done")
asks = Workflow("asks")
@asks.step
async def ask(ev: StartEvent, ctx: Context) -> StopEvent:
    return StopEvent(result=await ctx.ask("Well?"))
async def until_over(run):
    return await run
"""


class Kernel:
    """A kernel with a front end that may be asked for input, unless told otherwise."""

    def __init__(self, folder: Path) -> None:
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(cwd=str(folder), env={**os.environ, "PYTHONPATH": str(ROOT)})
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(60)

    def run(self, source: str, *, interrupt_after: float | None = None, stdin: bool = True) -> str:
        """What a cell prints and raises."""
        asked = self.client.execute(source.strip(), allow_stdin=stdin)
        said, begun, end = "", time.monotonic(), time.monotonic() + 30
        while time.monotonic() < end:
            if interrupt_after is not None and time.monotonic() - begun > interrupt_after:
                self.interrupted_at, interrupt_after = time.time(), None
                self.manager.interrupt_kernel()
            try:
                message = self.client.get_iopub_msg(timeout=0.05)
            except queue.Empty:
                assert self.manager.is_alive(), f"the kernel died: {said}"
                continue
            if message["parent_header"].get("msg_id") != asked:
                continue
            content: Any = message["content"]
            if message["msg_type"] == "stream":
                said += content["text"]
            elif message["msg_type"] == "error":
                said += f"{content['ename']}: {content['evalue']}\n"
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                return said
        raise AssertionError(f"the cell did not end: {said}")

    def interrupt(self, source: str, after: float) -> tuple[str, float]:
        """What a cell says that is interrupted, and the seconds that its code went on, by its own clock."""
        said = self.run(f"import time\ntry:\n    {source}\nfinally:\n    ended_at = time.time()", interrupt_after=after)
        return said, float(self.run("print(ended_at)")) - self.interrupted_at

    def stop(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    before = os.environ.get("JUPYTER_PLATFORM_DIRS")
    os.environ["JUPYTER_PLATFORM_DIRS"] = "1"
    made = Kernel(tmp_path_factory.mktemp("kernel"))
    try:
        made.run(DEFINE)
        yield made
    finally:
        made.stop()
        if before is None:
            del os.environ["JUPYTER_PLATFORM_DIRS"]


@pytest.mark.parametrize(
    ("wait", "error"),
    [
        ("await asyncio.wait_for(run, 0.5)", "TimeoutError"),
        ("async with asyncio.timeout(0.5): await run", "TimeoutError"),
        (
            "task = asyncio.create_task(until_over(run)); await asyncio.sleep(0.3); task.cancel(); await task",
            "Cancelled",
        ),
        (
            "both = asyncio.gather(until_over(run), run); await asyncio.sleep(0.3); both.cancel(); await both",
            "Cancelled",
        ),
    ],
)
def test_a_cancellation_is_no_interrupt(kernel: Kernel, wait: str, error: str):
    """API, rule 1: it never touches the run, and the kernel lives on."""
    said = kernel.run(f"run = flow.run()\n{wait}")
    assert error in said
    assert "KeyboardInterrupt" not in said
    assert kernel.run("print(run.status); run.cancel(); print(1 + 1)") == "running\n2\n"


@pytest.mark.parametrize(
    ("wait", "error"),
    [
        ("await run", "KeyboardInterrupt: The cell was interrupted; run"),
        ("async with asyncio.timeout(50): await run", "KeyboardInterrupt: The cell was interrupted; run"),
        ("await asyncio.gather(until_over(run), run)", "CancelledError"),
        ("await asyncio.create_task(until_over(run))", "CancelledError"),
        ("run.result()", "KeyboardInterrupt"),
    ],
)
def test_an_interrupt_cancels_the_run_and_ends_the_cell_soon(kernel: Kernel, wait: str, error: str):
    """C072: within 1 s; the next cell runs, and so does the next run."""
    kernel.run("run = flow.run()")
    said, took = kernel.interrupt(wait, after=0.7)
    assert error in said
    assert 0 <= took < 1
    ends = "while not run.is_done(): await asyncio.sleep(0.01)"
    assert kernel.run(f"{ends}\nprint(run.status)") == "cancelled\n"


def test_an_interrupt_leaves_a_detached_run_alone(kernel: Kernel):
    kernel.run('run = flow.with_options(on_interrupt="detach").run()')
    said, took = kernel.interrupt("await run", after=0.7)
    assert "goes on. Await it again" in said
    assert 0 <= took < 1
    assert kernel.run("print(run.status); run.cancel()") == "running\n"


def test_a_cell_without_runs_is_interrupted_as_ever(kernel: Kernel):
    """The kernel's own handlers are back in their places."""
    assert "KeyboardInterrupt" in kernel.run("import time; time.sleep(20)", interrupt_after=0.5)
    said, took = kernel.interrupt("for _ in range(100): await asyncio.sleep(0.1)", after=0.5)
    assert "CancelledError" in said
    assert 0 <= took < 1


@pytest.mark.parametrize("stdin", [True, False])
def test_answers_for_where_nobody_looks_are_taken_there_alone(tmp_path: Path, stdin: bool, monkeypatch: Any):
    """Also by the first run of a kernel, and with panels off: no panel has been there to tell who looks."""
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    kernel = Kernel(tmp_path)
    try:
        kernel.run(DEFINE)
        status, patience_s = ("waiting", 1) if stdin else ("completed", 20)
        first = "run = asks.with_options(answers={'ask': 'given'}, answers_if='headless', panel='off').run()\n"
        first += f"while run.status != {status!r}: await asyncio.sleep(0.01)\nawait asyncio.sleep(0.3)\n"
        assert kernel.run(f"{first}print(run.status)", stdin=stdin) == f"{status}\n"
        wait = f"run = asks.with_options(panel='off').run()\nawait asyncio.wait_for(run, {patience_s})"
        said = kernel.run(wait, stdin=stdin)
        assert said.startswith("TimeoutError" if stdin else "NobodyToAnswer")
    finally:
        kernel.stop()
