"""Children across a restart: what is over is not run again, what is not goes on, and what nobody waits for ends."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flownb import Context, StartEvent, StopEvent, Store, Workflow
from flownb.core.ticks import CancelRequested, ChildFinished, RunOpened, RunStarted
from flownb.store.drivers import is_gone
from flownb.store.journal import Append
from tests.polling import wait_for_questions, wait_until
from tests.stored.flows import Parent, Returns, notes
from tests.stored.other import Other

Open = Callable[..., Store]
Start = Callable[..., Other]


def abandoned(place: str, store: Store, other: Start, log: Path, run_id: str = "p") -> None:
    """A parent whose first child is over and whose second one asks, and whose process is dead."""
    process = other(place)
    process.do(f"run = Parent().with_options(store=store).run(run_id={run_id!r}, log={str(log)!r})")
    wait_until(lambda: len(store.requests()) == 1)
    process.wait("run.status == 'waiting'")
    process.kill()


def test_a_finished_child_is_not_run_again_and_an_unfinished_one_goes_on(
    any_place: str, open_store: Open, other: Start, tmp_path: Path
):
    """R6.20, R3.48, R1.20: each from its own journal."""
    log, store = tmp_path / "log", open_store(any_place)
    abandoned(any_place, store, other, log)
    run = Parent().with_options(store=store).resume("p")
    wait_for_questions(run)
    assert run.requests[0].id == "p/1/2:1"
    run.answer(ok=True, words="on")

    assert run.result(20) == [0, [7, "on"]]
    assert notes(log) == ["run_them", "go_on 2", "go_on 1", "go_on 0", "ask", "take", "run_them"]
    rows = {row.run_id: row for row in store.runs()}
    assert {run_id: row.parent for run_id, row in rows.items()} == {"p": "", "p/1/1": "p", "p/1/2": "p"}
    assert {row.status for row in rows.values()} == {"completed"}
    opened = {name: sum(isinstance(tick, RunOpened) for tick in store.history(name)) for name in rows}
    assert opened == {"p": 1, "p/1/1": 0, "p/1/2": 1}


def test_r6_20_parent_and_child_name_each_other(place: str, open_store: Open):
    """R6.20: in both journals, and in the store's list."""
    store = open_store(place)
    run = Parent().with_options(store=store).run(run_id="p")
    wait_for_questions(run)
    first = store.history("p/1/2")[0]
    assert isinstance(first, RunStarted)
    assert (first.parent.run_id, first.parent.child) == ("p", 2)  # type: ignore[union-attr]
    assert [row.run_id for row in store.journal.runs(parent="p")] == ["p/1/2", "p/1/1"]
    looked_at = open_store(place).run("p")
    assert {child.run_id for child in looked_at._runner.state.side.children.values()} == {"p/1/2"}
    run.cancel().result(20)


def test_r6_21_the_end_of_a_child_is_on_the_disk_first(place: str, open_store: Open):
    """R6.21: then its parent hears of it, as one tick."""
    store = open_store(place)
    written: list[tuple[str, str, bool]] = []
    append = store.journal.append

    def spy(entries: list[Append], *, durable: bool = False) -> None:
        append(entries, durable=durable)
        written.extend((entry.run_id, type(tick).__name__, durable) for entry in entries for tick in entry.ticks)

    store.journal.append = spy  # type: ignore[method-assign]
    run = Parent().with_options(store=store).run(run_id="p")
    wait_for_questions(run)
    run.answer(ok=True)
    run.result(20)

    for child in ("p/1/1", "p/1/2"):
        end = max(i for i, (run_id, _, _) in enumerate(written) if run_id == child)
        heard = [i for i, (run_id, kind, _) in enumerate(written) if (run_id, kind) == ("p", "ChildFinished")]
        assert written[end][2]  # durable
        assert sum(i > end for i in heard) == (2 if child == "p/1/1" else 1)
    assert sum(isinstance(tick, ChildFinished) for tick in store.history("p")) == 2


def test_r2_45_a_child_whose_parent_is_over_cancels_itself(
    any_place: str, open_store: Open, other: Start, tmp_path: Path
):
    """R2.45: a crash between the two ends leaves no orphan: whoever opens it, ends it."""
    log, store = tmp_path / "log", open_store(any_place)
    abandoned(any_place, store, other, log)
    seq = store.journal.last_seq("p")
    journal = store.journal
    journal.claim("p", store._committer.driver, 5.0, was_lost=is_gone)
    end = CancelRequested(store.tail("p", 1)[0].at, "its process died just then")
    journal.append([Append("p", seq, [end], "cancelled", 2, store._committer.driver)])
    looked_at = store.run("p/1/2")
    assert looked_at.status == "waiting"
    child = Returns().with_options(store=store).resume("p/1/2")
    wait_until(lambda: child.status == "cancelled")

    assert "its parent 'p' is over: cancelled" in child.why()
    assert notes(log).count("ask") == 1
    assert len(store.requests()) == 0
    assert [type(tick).__name__ for tick in store.tail("p/1/2", 2)] == ["RunOpened", "CancelRequested"]


def test_what_is_due_in_a_child_drives_its_parent(place: str, open_store: Open, other: Start, tmp_path: Path):
    """R7.8: else nobody would tell the parent of its end."""
    log, store = tmp_path / "log", open_store(place)
    abandoned(place, store, other, log)
    store.requests()[0].answer(ok=True, words="late")
    assert store.due() == ["p/1/2"]
    (run,) = store.resume_due()

    assert run.run_id == "p"
    assert run.result(20) == [0, [7, "late"]]


def test_a_pause_of_a_parent_that_nobody_drives_reaches_its_children_when_somebody_does(
    place: str, open_store: Open, other: Start, tmp_path: Path
):
    """R6.24, R5.13."""
    log, store = tmp_path / "log", open_store(place)
    abandoned(place, store, other, log)
    store.run("p").pause().result(20)
    assert {row.run_id: row.status for row in store.runs()}["p"] == "paused"
    run = Parent().with_options(store=store).resume("p")
    wait_until(lambda: run.children and run.children["p/1/2"].status == "paused")
    run.answer(ok=True)
    assert run.children["p/1/2"].status == "paused"
    run.cont()

    assert run.result(20)[1] == [7, True]


def test_a_child_goes_on_with_the_newest_definition_of_its_workflow(place: str, open_store: Open):
    """R2.21, R3.5: of a re-opened one too, and with what its parent says for it."""
    store = open_store(place)
    inner = Workflow[Any]("inner")
    inner.step(_asks)
    outer = Workflow[Any]("outer", step_timeout=30.0)

    @outer.step
    async def begin(ev: StartEvent, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.run(inner))

    run = outer.with_options(store=store).run(run_id="o")
    wait_for_questions(run)
    run.suspend(drain=0).result(20)
    wait_until(lambda: run.children["o/1/1"].status == "suspended")

    async def asks(ev: StartEvent, ctx: Context) -> StopEvent:
        return StopEvent(result=f"new: {await ctx.ask('Well?', str)}")

    asks.__name__ = asks.__qualname__ = "_asks"
    newer = Workflow[Any]("inner")
    newer.step(asks)
    again = outer.with_options(store=open_store(place)).resume("o")
    wait_for_questions(again)
    again.answer("yes")

    assert again.result(20) == "new: yes"
    assert any(type(tick).__name__ == "DefinitionAdopted" for tick in store.history("o/1/1"))
    assert again.children["o/1/1"]._runner.policies.step_timeout == 30.0


async def _asks(ev: StartEvent, ctx: Context) -> StopEvent:
    return StopEvent(result=f"old: {await ctx.ask('Well?', str)}")


def test_a_suspended_parent_and_its_child_go_on_in_another_process(
    any_place: str, open_store: Open, other: Start, tmp_path: Path
):
    """R5.53, R5.11: the child's lease is given back with its parent's."""
    log, store, process = tmp_path / "log", open_store(any_place), other(any_place)
    process.do(f"run = Parent().with_options(store=store).run(run_id='p', log={str(log)!r})")
    process.wait("len(run.requests) == 1")
    process.do("run.suspend(drain=0).result(20)")
    assert {store.journal.holder(run_id).driver for run_id in ("p", "p/1/2")} == {""}
    run = Parent().with_options(store=store).resume("p")
    wait_until(lambda: len(run.requests) == 1 and run.children["p/1/2"].status == "waiting")
    run.answer(ok=True)

    assert run.result(20) == [0, [7, True]]
