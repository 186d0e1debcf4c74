"""A run as a test for pytest, and replays of files (R6.43)."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flownb import Store
from flownb.archiving import fold_archive
from flownb.debug.archived import replay_file
from flownb.debug.totest import MARK
from flownb.errors import JournalDamaged, RunNotFound, WorkflowConfigurationError, WorkflowRuntimeError
from flownb.testing import assert_replayed, titles
from tests.runtime.flows import Asks, Count

ROOT = Path(__file__).resolve().parents[2]

SHOP = """
from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Workflow

class Order(StartEvent):
    n: int = 2
class Item(Event):
    no: int
class Priced(Event):
    price: int
class Verdict(HumanResponseEvent):
    ok: bool
class Approve(InputRequiredEvent[Verdict]):
    price: int

shop = Workflow("shop")

@shop.step
async def split(ev: Order) -> list[Item]:
    return [Item(no=i) for i in range(ev.n)]

@shop.step
async def price(ev: Item, ctx: Context) -> Priced:
    await ctx.sleep(0.01)
    return Priced(price=ev.no * 10)

@shop.step
async def total(ev: list[Priced], ctx: Context) -> StopEvent:
    price = sum(one.price for one in ev)
    verdict = await ctx.ask(Approve(price=price))
    return StopEvent(result=price if verdict.ok else 0)
"""
MAKE = """
from flownb.testing import replay_file
run = shop.run(run_id="order-1", n=3)
while not run.requests:
    pass
run.answer(ok=True, by="ann")
assert run.result(20) == 30
print(run.debug.to_test("tests/test_order.py"))
"""


def python(folder: Path, *argv: str) -> tuple[int, str]:
    """What a process in a folder exits with, and says."""
    done = subprocess.run(
        [sys.executable, *argv],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def pytest_in(folder: Path) -> tuple[int, str]:
    return python(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with a workflow in a module."""
    (tmp_path / "shop.py").write_text(SHOP, "utf-8")
    return tmp_path


def test_the_written_test_passes_and_fails_once_a_step_does_otherwise(folder: Path):
    """R6.43: in a process of its own; the failure names the first divergence in words."""
    code, said = python(folder, "-c", f"from shop import shop\n{MAKE}")
    assert code == 0, said
    text = (folder / "tests" / "test_order.py").read_text("utf-8")
    assert MARK in text and "from shop import shop" in text
    assert "def test_shop_order_1() -> None:" in text
    for line in (
        '"RunStarted: Order",',
        '"StepFinished of split: 3 Item",',
        '"WaitOpened of price: Sleep",',
        '"WaitOpened of total: Ask, Approve",',
        '"RequestAnswered: Verdict",',
        '"StepFinished of total: StopEvent",',
    ):
        assert f"        {line}" in text
    code, said = pytest_in(folder)
    assert code == 0, said
    source = folder / "shop.py"
    source.write_text(SHOP.replace("ev.no * 10", "10 * ev.no"), "utf-8")
    code, said = pytest_in(folder)
    assert code == 0, said
    source.write_text(SHOP.replace("ev.no * 10", "ev.no * 11"), "utf-8")
    code, said = pytest_in(folder)
    assert code == 1
    assert "The replay diverges in step 'price': result was Priced(price=10), and is Priced(price=11)." in said
    assert "changed steps: price" in said


def test_a_test_of_a_notebooks_workflow_says_what_to_fill_in(folder: Path):
    """R6.43: its events are then found in the module that it is imported from."""
    (folder / "notebook.py").write_text(SHOP + MAKE, "utf-8")
    code, said = python(folder, "-c", (folder / "notebook.py").read_text("utf-8"))
    assert code == 0, said
    test = folder / "tests" / "test_order.py"
    text = test.read_text("utf-8")
    assert "import pytest" in text and "@pytest.fixture\ndef flow():" in text
    code, said = pytest_in(folder)
    assert code == 1
    assert "Say where workflow shop is imported from: edit the fixture `flow` in this file." in said
    pieces = text.partition("    pytest.fail(")
    filled = pieces[2].partition("\n")[2]
    test.write_text(f"{pieces[0]}    from shop import shop\n\n    return shop\n{filled}", "utf-8")
    code, said = pytest_in(folder)
    assert code == 0, said


def test_a_file_of_somebody_else_is_never_overwritten(tmp_path: Path):
    """R6.43: its own it writes anew."""

    async def main() -> None:
        run = Count().run(n=1)
        await run
        mine = tmp_path / "test_mine.py"
        mine.write_text("def test_mine(): ...\n", "utf-8")
        with pytest.raises(WorkflowConfigurationError, match="to_test did not write it"):
            run.debug.to_test(mine)
        assert mine.read_text("utf-8") == "def test_mine(): ...\n"
        (tmp_path / "test_other.flownb.zip").write_bytes(b"something")
        with pytest.raises(WorkflowConfigurationError, match="there without its test"):
            run.debug.to_test(tmp_path / "test_other.py")
        with pytest.raises(WorkflowConfigurationError, match=r"does not end with \.py"):
            run.debug.to_test(tmp_path / "test_x.txt")
        written = run.debug.to_test(tmp_path / "new" / "test_x.py")
        before = written.read_text("utf-8")
        again = Count().run(n=2)
        await again
        assert again.debug.to_test(str(written)) == written
        assert written.read_text("utf-8") != before
        assert "from tests.runtime.flows import Count" in before and "replay_file(RECORDING, Count())" in before
        empty = Count().run(n=1)
        with pytest.raises(WorkflowRuntimeError, match="no tick yet"):
            empty.debug.to_test(tmp_path / "test_y.py")
        await empty

    asyncio.run(main())


def test_the_written_text_is_python_whatever_a_run_is_called(tmp_path: Path):
    """A name can neither end a string of the test nor make it another one."""

    async def main() -> None:
        flow = Count('"""\nimport os\n# é', disable_validation=False)
        run = flow.run(n=1, run_id="class")
        await run
        path = run.debug.to_test(tmp_path / "test_x.py")
        text = path.read_text("utf-8")
        compile(text, str(path), "exec")
        assert "\nimport os\n" not in text

    asyncio.run(main())


def test_runs_of_a_store_are_written_from_it(tmp_path: Path):
    """R7.12, R6.43: and replayed in memory: nothing is written to the store."""

    async def main() -> None:
        store = Store(tmp_path / "runs.db")
        run = Count().with_options(store=store).run(n=2)
        await run
        run.debug.to_test(tmp_path / "test_x.py")
        replay = await asyncio.to_thread(replay_file, tmp_path / "test_x.flownb.zip", Count())
        assert_replayed(replay)
        assert titles(replay.debug.ticks) == titles(run.debug.ticks)
        assert await replay == [0, 1]
        assert [row.run_id for row in store.runs()] == [run.run_id]
        store.close()

    asyncio.run(main())


def test_a_replay_of_a_file_that_cannot_go_on_says_so(tmp_path: Path):
    """R6.43: an assertion in words, not a test that hangs; files that are none, or damaged, are refused."""

    async def main() -> None:
        run = Asks().run(n=1)
        while run.status != "waiting":
            await asyncio.sleep(0.005)
        run.debug.to_test(tmp_path / "test_open.py")
        replay = await asyncio.to_thread(replay_file, tmp_path / "test_open.flownb.zip", Asks())
        assert_replayed(replay)
        assert replay.status == "waiting"
        await run.cancel()

    asyncio.run(main())
    with pytest.raises(RunNotFound):
        replay_file(tmp_path / "nowhere.zip", Asks())
    (tmp_path / "junk.zip").write_bytes(b"junk")
    with pytest.raises(JournalDamaged):
        replay_file(tmp_path / "junk.zip", Asks())


def test_a_file_is_folded_without_its_code(folder: Path):
    """R6.43, R7.12: what its ticks lead to is what it says; no class of it is needed."""
    code, said = python(folder, "-c", f"from shop import shop\n{MAKE}")
    assert code == 0, said
    (found,) = fold_archive(folder / "tests" / "test_order.flownb.zip")
    assert (found.run_id, found.workflow, found.status, found.said, found.fault) == (
        "order-1",
        "shop",
        "completed",
        "completed",
        "",
    )
    assert found.is_sound and found.ticks > 8
    assert "shop" not in sys.modules
