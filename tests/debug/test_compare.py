"""Two runs side by side."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from flownb import Context, Event, StopEvent, Store, Workflow
from flownb.errors import RunNotFound, WorkflowConfigurationError
from flownb.run import Run
from tests.polling import until
from tests.runtime.flows import Asks, Begin, Count, Done, Item


class Other(Event):
    no: int = 0


def flow_of(factor: int, notes: str = "") -> Workflow[Any]:
    flow = Workflow[Any]("times")

    @flow.step
    async def split(ev: Begin, ctx: Context) -> list[Item]:
        ctx.state.set("factor", factor)
        if notes:
            ctx.state.set("notes", notes)
        return [Item(no=i) for i in range(ev.n)]

    @flow.step(num_workers=1)
    async def times(ev: Item) -> Done:
        return Done(no=factor * ev.no)

    @flow.step
    async def end(ev: list[Done]) -> StopEvent:
        return StopEvent(result=sum(done.no for done in ev))

    return flow


async def ended(run: Run[Any]) -> Run[Any]:
    await run
    return run


def test_runs_of_the_same_are_the_same():
    """R6.43: times, ids and how they were driven are left out."""

    async def main() -> None:
        one = await ended(Count().run(n=3))
        two = Count().debug(n=3)
        while not two.is_done():
            await two.debug.step()
        found = one.debug.compare(two)
        assert found.is_same
        assert (found.what, found.shared, found.state) == ("", len(one.debug.ticks), {})
        assert (found.mine.followed, found.theirs.followed, found.mine.tick) == ((), (), None)
        assert f"the same for {found.shared} ticks" in repr(found)
        assert one.debug.compare(one.debug.replay()).mine.run_id == one.run_id

    asyncio.run(main())


def test_the_first_difference_and_what_followed_on_each_side():
    """R6.43: with numbers, words, and both ends."""

    async def main() -> None:
        one, two = await ended(flow_of(2).run(n=3)), await ended(flow_of(3, "x").run(n=3))
        found = one.debug.compare(two)
        assert not found.is_same
        assert found.shared == 1
        assert (found.mine.seq, found.theirs.seq) == (2, 2)
        assert found.mine.tick is one.debug.ticks[1] and found.theirs.tick is two.debug.ticks[1]
        assert found.what == "tick 2 (StateWritten of split): state was factor=2, and is factor=3"
        assert [seq for seq, _ in found.mine.followed] == list(range(2, len(one.debug.ticks) + 1))
        assert found.state == {"factor": (2, 3), "notes": (None, "x")}
        assert (found.mine.outcome, found.theirs.outcome) == ("StopEvent(result=6)", "StopEvent(result=9)")
        for words in (found.what, "state factor: 2 here, 3 there", "is completed with StopEvent(result=9)"):
            assert words in str(found)

    asyncio.run(main())


def test_a_fork_is_compared_with_its_base():
    """R6.37: what they share, and where the edited event leads."""

    async def main() -> None:
        run = await ended(flow_of(2).run(n=2))
        at = next(seq for seq, tick in enumerate(run.debug.ticks, 1) if getattr(tick, "step", "") == "times")
        fork = await ended(run.debug.fork(at, event=Done(no=50)))
        found = run.debug.compare(fork)
        assert found.shared == at - 1
        assert found.what == (
            f"tick {at} here, tick {at + 1} there (StepFinished of times): result was Done(no=0), and is Done(no=50)"
        )
        assert found.theirs.outcome == "StopEvent(result=52)"
        same = await ended(run.debug.fork(at))
        assert run.debug.compare(same).is_same
        assert run.debug.compare(same.run_id).is_same

    asyncio.run(main())


def test_another_order_is_told_as_such():
    """R1.5: of a race."""
    waits: list[asyncio.Event] = []
    flow = Workflow[Any]("race")

    @flow.step
    async def split(ev: Begin) -> list[Item]:
        return [Item(no=0), Item(no=1)]

    @flow.step
    async def work(ev: Item) -> Done:
        await waits[ev.no].wait()
        return Done(no=ev.no)

    @flow.step
    async def end(ev: list[Done]) -> StopEvent:
        return StopEvent(result=[done.no for done in ev])

    async def raced(first: int) -> Run[Any]:
        waits[:] = [asyncio.Event(), asyncio.Event()]
        run = flow.run()
        await until(lambda: len(run.now.running.get("work", ())) == 2)
        waits[first].set()
        await until(lambda: run.now.seq == 3)
        waits[1 - first].set()
        return await ended(run)

    async def main() -> None:
        one, two = await raced(0), await raced(1)
        found = one.debug.compare(two)
        assert found.what == "another order: StepFinished of work: Done(no=0) is tick 3 here and tick 4 there"
        assert found.mine.outcome == found.theirs.outcome

    asyncio.run(main())


def test_a_run_that_goes_on_where_the_other_has_nothing_more():
    """R6.43: an open run and one that was answered."""

    async def main() -> None:
        one, two = Asks().run(n=1), Asks().run(n=1)
        await until(lambda: one.status == two.status == "waiting")
        assert one.debug.compare(two).is_same
        two.answer(ok=True)
        await two
        found = one.debug.compare(two)
        assert f"run {one.run_id} has nothing more (waiting), and run {two.run_id} goes on with tick" in found.what
        assert "RequestAnswered" in found.what
        assert found.shared == len(one.debug.ticks)
        assert two.debug.compare(one).what.startswith(f"run {one.run_id} has nothing more (waiting)")
        assert f"{one.run_id}: nothing more" in repr(found)
        await one.cancel()

    asyncio.run(main())


def test_runs_of_a_store_and_imported_ones_are_compared(tmp_path: Path):
    """R7.12: by id; with what this process has of them."""

    async def main() -> None:
        here, there = Store(tmp_path / "here.db"), Store(tmp_path / "there.db")
        one = await ended(flow_of(2).with_options(store=here).run(n=2))
        two = await ended(flow_of(2).with_options(store=here).run(n=3))
        there.import_(here.export(one.run_id, tmp_path / "one.zip"))
        assert one.debug.compare(there.run(one.run_id)).is_same
        assert one.debug.compare(two.run_id).what.endswith("input was Begin(n=2), and is Begin(n=3)")
        with pytest.raises(RunNotFound, match="nowhere"):
            one.debug.compare("nowhere")
        with pytest.raises(WorkflowConfigurationError, match="takes a run or the id of one"):
            one.debug.compare(7)  # type: ignore[arg-type]
        alone = await ended(flow_of(2).run(n=1))
        with pytest.raises(RunNotFound, match="is in no store"):
            alone.debug.compare("nowhere")
        here.close()
        there.close()

    asyncio.run(main())


def test_long_ends_are_cut_in_words_only():
    async def main() -> None:
        one, two = await ended(flow_of(2).run(n=30)), await ended(flow_of(3).run(n=30))
        found = one.debug.compare(two)
        assert len(found.mine.followed) > 30
        assert f"and {len(found.mine.followed) - 8} more" in repr(found)

    asyncio.run(main())
