"""Cells of a real kernel that are interrupted, and tasks in them that are cancelled otherwise."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kernels.frontend import Kernel

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


@pytest.mark.kernels
def test_an_interrupt_leaves_a_detached_run_alone(kernel: Kernel):
    kernel.run('run = flow.with_options(on_interrupt="detach").run()')
    said, took = kernel.interrupt("await run", after=0.7)
    assert "goes on. Await it again" in said
    assert 0 <= took < 1
    assert kernel.run("print(run.status); run.cancel()") == "running\n"


@pytest.mark.kernels
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
