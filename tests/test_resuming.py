"""Snapshots, contexts as dicts, and going on: from a snapshot, by id, after a failure."""

import asyncio
import gc
import json
import threading
from typing import Any

import pytest
from pydantic import BaseModel

import flownb
from flownb import (
    Context,
    Event,
    HumanResponseEvent,
    InputRequiredEvent,
    Run,
    StartEvent,
    StopEvent,
    Store,
    Workflow,
    step,
)
from flownb.core.ticks import RunForked, RunOpened, StepFinished
from flownb.errors import (
    AlreadyAnswered,
    ContextSerdeError,
    ContextStateError,
    DefinitionChanged,
    RequestError,
    RunConflict,
    RunNotFound,
    WorkflowCancelledByUser,
    WorkflowConfigurationError,
    WorkflowDone,
    WorkflowNotDefined,
    WorkflowRuntimeError,
)
from flownb.retry_policy import retry_policy, stop_after_attempt, wait_fixed
from flownb.snapshot import Snapshot
from flownb.testing import ManualClock
from tests.polling import until, until_asked, wait_for_questions
from tests.runtime.flows import Approve, Asks, Begin, Count, Done, Item, Verdict


class Live:
    """Something that no journal can hold."""


class Holds(Event):
    what: Any


class Reply(HumanResponseEvent):
    name: str
    ok: bool


class Ask(InputRequiredEvent[Reply]):
    name: str


class Counter(Workflow[int]):
    @step
    async def count(self, ev: StartEvent, ctx: Context) -> StopEvent:
        n = ctx.state.get("n", 0) + ev["by"]
        ctx.state.set("n", n)
        return StopEvent(result=n)


class TwoWaits(Workflow[list[Any]]):
    """Two branches wait for a person at once."""

    @step
    async def split(self, ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(2)]

    @step
    async def wait(self, ev: Item, ctx: Context) -> Done | None:
        reply = await ctx.wait_for_event(Reply, waiter_event=Ask(name=f"n{ev.no}"), requirements={"name": f"n{ev.no}"})
        return Done(no=ev.no) if reply.ok else None

    @step
    async def join(self, ev: list[Done]) -> StopEvent:
        return StopEvent(result=[d.no for d in ev])


class Reads(Workflow[Any]):
    """Gives its question to whoever takes the answer."""

    @step
    async def ask(self, ev: Begin) -> Approve:
        return Approve(no=ev.n)

    @step
    async def take(self, ev: Verdict, ctx: Context) -> StopEvent:
        gate = ctx.state.get("gate", None)
        if gate is None:
            await asyncio.Event().wait()
        return StopEvent(result=[ctx.request(Approve).question.no, ev.ok])


def plain(run: Run[Any]) -> Any:
    """A snapshot as another process would read it."""
    return json.loads(json.dumps(run.snapshot()))


async def asked(run: Run[Any], n: int = 1) -> None:
    await until_asked(run, n)


# -- snapshots


def test_a_snapshot_is_plain_json_and_changes_nothing():
    """R6.31, R6.32."""

    async def main() -> None:
        run = Asks().run(n=7)
        await asked(run)
        before = run._runner.state, len(run._runner.ticks)
        taken = run.snapshot()
        assert json.loads(json.dumps(taken)) == taken
        assert (taken.run_id, taken.seq, taken.status, taken.missing) == (run.run_id, before[1], "waiting", [])
        assert taken["hash"] == run.workflow.definition.spec.hash
        assert (run._runner.state, len(run._runner.ticks)) == before
        run.answer(ok=True)
        assert await run is True

    asyncio.run(main())


def test_a_run_that_was_started_just_now_is_in_its_snapshot():
    """R6.31: at any moment, also before the first turn."""

    async def main() -> None:
        flow = Count()
        run = flow.run(n=4)
        assert run._runner.state.seq == 0
        taken = plain(run)
        assert await run == [0, 1, 2, 3]
        assert await flow.resume(taken) == [0, 1, 2, 3]

    asyncio.run(main())


def test_a_snapshot_can_be_taken_on_any_thread():
    """R6.31: it is taken on the thread that drives the run, between two turns."""
    run = Asks().run(n=1)
    wait_for_questions(run)
    found: list[Snapshot] = []
    thread = threading.Thread(target=lambda: found.append(run.snapshot()))
    thread.start()
    thread.join(20)
    assert found[0].status == "waiting"
    run.cancel().result(20)


def test_a_step_can_take_a_snapshot_of_its_own_run():
    """R6.35: in `def` and in `async def` steps."""
    flow = Workflow[Any]("looks")

    @flow.step
    def first(ev: Begin, ctx: Context) -> Item:
        return Item(no=ctx.to_dict()["seq"])

    @flow.step
    async def second(ev: Item, ctx: Context) -> StopEvent:
        return StopEvent(result=[ev.no, ctx.to_dict()["seq"]])

    assert flow.run().result(20) == [1, 2]


def test_a_snapshot_lists_what_it_could_not_hold():
    """R6.33: with event, field and type; while the value lives here, it is found again."""
    flow = Workflow[Any]("holds")

    @flow.step
    async def make(ev: Begin, ctx: Context) -> Holds:
        ctx.state.set("kept", live)
        return Holds(what=live)

    @flow.step
    async def wait(ev: Holds, ctx: Context) -> StopEvent:
        verdict = await ctx.ask(Approve())
        return StopEvent(result=(ev.what is live, verdict.ok))

    async def main() -> None:
        run = flow.run()
        await asked(run)
        taken = run.snapshot()
        key = f"{__name__}:Live"
        assert [(m["event"], m["field"], m["type"]) for m in taken.missing] == [
            (f"{__name__}:Holds", "what", key),
            (key, "kept", key),
        ]
        again = flow.resume(json.loads(json.dumps(taken)))
        await asked(again)
        again.answer(ok=True)
        assert await again == (True, True)
        run.cancel()

    live = Live()
    asyncio.run(main())


def test_a_restore_names_all_that_it_cannot_rebuild():
    """R6.33: lost values and unknown classes, in one error."""
    flow = Workflow[Any]("loses")

    @flow.step
    async def make(ev: Begin, ctx: Context) -> Holds:
        ctx.state.set("one", Live())
        ctx.state.set("two", Live())
        return Holds(what=1)

    @flow.step
    async def hang(ev: Holds) -> StopEvent:
        await asyncio.Event().wait()
        return StopEvent()

    async def taken() -> Any:
        run = flow.run()
        await until(lambda: bool(run.now.running.get("hang")))
        found = plain(run)
        run.cancel()
        return found

    data = asyncio.run(taken())
    text = json.dumps(data).replace(f"{__name__}:Holds", f"{__name__}:Nowhere")
    gc.collect()
    with pytest.raises(ContextSerdeError, match="3 values that cannot be rebuilt") as caught:
        flow.resume(json.loads(text))
    assert len(caught.value.values) == 3  # type: ignore[attr-defined]
    assert "Nowhere" in str(caught.value)
    assert str(caught.value).count("kept in memory only") == 2


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({}, "no snapshot"),
        ([1], "no snapshot"),
        ({"flownb": 99}, "format 99"),
        ({"flownb": 1, "state": {"spec": 3}}, "cannot be read"),
        ({"flownb": 1, "state": None}, "cannot be read"),
        ({"flownb": 1, "inbox": [{"kind": "Nothing", "at": 0, "body": {}}]}, "cannot be read"),
        ({"flownb": 1, "values": {"a": {"nothing": 1}}}, "cannot be read"),
    ],
)
def test_what_is_no_snapshot_is_refused_in_words(data: Any, said: str):
    """R6.33: never another kind of error."""
    with pytest.raises(ContextSerdeError, match=said):
        Context.from_dict(Count(), data)


# -- going on from a snapshot


def test_a_snapshot_of_a_known_run_is_opened_as_a_new_one():
    """R6.34: forked from it; its first tick holds the state, and both runs end."""

    async def main() -> None:
        flow = TwoWaits()
        run = flow.run()
        await asked(run, 2)
        await run.send_event(Reply(name="n0", ok=True))
        again = flow.resume(plain(run))
        assert again.run_id != run.run_id
        assert again.forked_from == (run.run_id, len(run._runner.ticks))
        assert isinstance(again._runner.first, RunForked)
        await asked(again, 1)
        for each in (again, run):
            await each.send_event(Reply(name="n1", ok=True))
            assert await each == [0, 1]

    asyncio.run(main())


def test_a_snapshot_of_an_unknown_run_is_opened_as_the_same_one():
    """R6.34: where neither the process nor the store has it."""

    async def taken() -> Any:
        run = Asks().run(run_id="as-before", n=3)
        await asked(run)
        found = plain(run)
        run.cancel()
        await until(run.is_done)
        return found

    data = asyncio.run(taken())
    gc.collect()

    async def main() -> None:
        run = Asks().resume(data)
        assert run.run_id == "as-before"
        await asked(run)
        assert run.requests[0].id == "as-before:1"
        run.answer(ok=False)
        assert await run is False
        assert Asks().resume(data).run_id != "as-before"

    asyncio.run(main())


def test_due_times_move_for_a_new_run_and_stay_for_the_same_one():
    """R6.39, R6.34: the hour in which nobody drove it."""
    flow = Workflow[Any]("sleeps")

    @flow.step
    async def nap(ev: Begin, ctx: Context) -> StopEvent:
        await ctx.sleep(100)
        return StopEvent(result="awake")

    async def main() -> None:
        clock = ManualClock(1_000.0)
        run = flow.with_options(clock=clock).run(run_id="naps")
        await until(lambda: len(run._runner.state.timers) == 1)
        data = plain(run)
        clock.advance(60)
        new = flow.with_options(clock=clock).resume(data)
        await until(lambda: new._runner.state.seq > 0)
        assert [t.due_at for t in new._runner.state.timers.values()] == [1_160.0]
        flownb.starting.known.pop((None, "naps"))
        same = flow.with_options(clock=clock).resume(data)
        await until(lambda: same._runner.state.seq > 0)
        assert [t.due_at for t in same._runner.state.timers.values()] == [1_100.0]
        clock.advance(40)
        assert await same == "awake"
        assert not new.is_done()
        clock.advance(60)
        assert await new == "awake"
        assert await run == "awake"

    asyncio.run(main())


def test_a_snapshot_of_a_paused_run_keeps_its_inbox():
    """R6.31, R1.29: what steps brought while it was paused is not lost, and they do not run again."""
    started: list[int] = []
    flow = Workflow[Any]("paused")

    @flow.step
    async def split(ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(3)]

    @flow.step
    async def work(ev: Item, ctx: Context) -> Done:
        started.append(ev.no)
        ctx.state.set(f"n{ev.no}", ev.no)
        if ev.no == 2:
            await hold.wait()
        return Done(no=ev.no)

    @flow.step
    async def join(ev: list[Done], ctx: Context) -> StopEvent:
        return StopEvent(result=([d.no for d in ev], sorted(ctx.state.get())))

    async def main() -> None:
        nonlocal hold
        hold = asyncio.Event()
        run = flow.run()
        await run.debug.run_to(event=Item)
        await until(lambda: sum(isinstance(t, StepFinished) for t in run._runner.inbox) == 2)
        data = plain(run)
        assert [entry["kind"] for entry in data["inbox"]].count("StepFinished") == 2
        again = flow.resume(data)
        await until(lambda: again.now.paused_by == ("breakpoint",))
        hold.set()
        await until(lambda: sum(isinstance(t, StepFinished) for t in again._runner.inbox) == 3)
        again.cont()
        assert await again == ([0, 1, 2], ["n0", "n1", "n2"])
        assert again._runner.state.ignored == 0
        run.cancel()

    hold: Any = None
    asyncio.run(main())
    assert sorted(started) == [0, 1, 2, 2]


def test_an_answer_that_was_accepted_while_paused_stays_accepted():
    """R1.31, R6.31: it waits in the snapshot's inbox, and no other answer is taken."""

    async def main() -> None:
        run = Asks().run(n=1)
        await asked(run)
        await run.pause()
        run.answer(ok=True)
        again = Asks().resume(plain(run))
        await until(lambda: again.status == "paused")
        with pytest.raises(AlreadyAnswered):
            again.answer(1, ok=False)
        again.cont()
        assert await again is True
        run.cancel()

    asyncio.run(main())


def test_the_question_behind_an_answer_is_known_after_a_snapshot():
    """R6.35: `ctx.request` in a step that had its answer before."""

    async def main() -> None:
        flow = Reads()
        run = flow.run(n=9)
        await asked(run)
        run.answer(ok=True)
        await until(lambda: bool(run.now.running.get("take")))
        again = flow.with_options(state={"gate": 1}).run(ctx=Context.from_dict(flow, plain(run)))
        assert await again == [9, True]
        run.cancel()

    asyncio.run(main())


def test_a_snapshot_of_a_resumed_run_is_as_good():
    """R6.31: a checkpoint of a checkpoint."""

    async def main() -> None:
        flow, run = TwoWaits(), None
        run = flow.run()
        await asked(run, 2)
        for _ in range(3):
            before, run = run, flow.run(ctx=Context.from_dict(flow, plain(run)))
            await asked(run, 2)
            before.cancel()
        await run.send_event(Reply(name="n1", ok=True))
        await run.send_event(Reply(name="n0", ok=True))
        assert await run == [0, 1]

    asyncio.run(main())


def test_a_snapshot_keeps_what_a_delivery_did():
    """R6.31, R3.48: its ledger, so a restored step does not do it again."""
    calls: list[str] = []
    flow = Workflow[Any]("ledger")

    @flow.step
    async def work(ev: Begin, ctx: Context) -> StopEvent:
        first = await ctx.once(lambda: calls.append("once") or len(calls))
        ctx.state.set("n", ctx.state.get("n", 0) + 1)
        verdict = await ctx.ask(Approve())
        return StopEvent(result=(first, ctx.state.get("n"), verdict.ok))

    async def main() -> None:
        run = flow.run()
        await asked(run)
        again = flow.resume(plain(run))
        run.cancel()
        await asked(again)
        again.answer(ok=True)
        assert await again == (1, 1, True)

    asyncio.run(main())
    assert calls == ["once"]


def test_a_child_that_ran_runs_again_in_a_new_run():
    """R6.40: it has a new run of its own; the workflow is found in this process."""

    async def main() -> None:
        flow = Workflow[Any]("parent")
        inner = Asks()

        @flow.step
        async def outer(ev: Begin, ctx: Context) -> StopEvent:
            return StopEvent(result=await ctx.run(inner, n=5))

        run = flow.run()
        await asked(run)
        again = flow.resume(plain(run))
        await asked(again)
        assert list(again.children) == [f"{again.run_id}/1/1"]
        run.cancel()
        await until(run.is_done)
        again.answer(ok=True)
        assert await again is True

    asyncio.run(main())


def test_a_snapshot_goes_on_under_a_newer_definition():
    """R2.21, R6.44: steps are known by name; one with work that is gone is named."""

    def flow_of(*steps: Any) -> Workflow[Any]:
        made = Workflow[Any]("newer")
        for fn in steps:
            made.step(fn)
        return made

    async def begin(ev: Begin) -> Item:
        return Item(no=1)

    async def work(ev: Item, ctx: Context) -> StopEvent:
        await asyncio.Event().wait()
        return StopEvent()

    async def extra(ev: Done) -> StopEvent:
        return StopEvent(result="extra")

    async def newer(ev: Item) -> Done:
        return Done(no=ev.no)

    async def main() -> None:
        run = flow_of(begin, work).run()
        await until(lambda: bool(run.now.running.get("work")))
        data = plain(run)
        newer.__name__ = "work"
        assert await flow_of(extra, newer, begin).resume(data) == "extra"
        newer.__name__ = "other"
        with pytest.raises(DefinitionChanged, match="Step work is gone"):
            flow_of(extra, newer, begin).resume(data)
        with pytest.raises(ContextSerdeError, match="of workflow 'newer'"):
            Asks().resume(data)
        run.cancel()

    asyncio.run(main())


def test_a_snapshot_goes_into_a_store(tmp_path: Any):
    """R6.34, R1.33: its journal begins with the fork, and is read again from the file."""

    async def main() -> None:
        flow = TwoWaits()
        run = flow.run()
        await asked(run, 2)
        store = Store(tmp_path / "runs.db")
        again = flow.with_options(store=store).resume(plain(run))
        await asked(again, 2)
        for n in (0, 1):
            await again.send_event(Reply(name=f"n{n}", ok=True))
        assert await again == [0, 1]
        assert again.run_id == flow.with_options(store=store).resume(again.run_id).run_id
        store.close()
        read = Store(tmp_path / "runs.db").history(again.run_id)
        assert read == again._runner.ticks
        assert [row.workflow for row in Store(tmp_path / "runs.db").runs()] == ["TwoWaits"]
        run.cancel()

    asyncio.run(main())


def test_a_snapshot_that_a_store_cannot_hold_is_refused_at_the_door(tmp_path: Any):
    """R6.12: before there is a tick."""
    flow = Workflow[Any]("live")

    @flow.step
    async def make(ev: Begin, ctx: Context) -> StopEvent:
        ctx.state.set("live", live)
        await ctx.ask(Approve())
        return StopEvent()

    async def main() -> None:
        run = flow.run()
        await asked(run)
        with pytest.raises(flownb.NotStorable):
            flow.with_options(store=tmp_path / "runs.db").resume(run.snapshot())
        run.cancel()

    live = Live()
    asyncio.run(main())


def test_a_snapshot_of_a_completed_run_is_no_beginning():
    """R6.36: its state is, by a context."""

    async def main() -> None:
        flow = Counter()
        run = flow.run(by=2)
        assert await run == 2
        with pytest.raises(WorkflowDone, match="completed"):
            flow.resume(plain(run))

    asyncio.run(main())


# -- contexts


def test_a_context_keeps_the_state_from_run_to_run():
    """R6.36: it belongs to the last run, and is that run's context."""

    async def main() -> None:
        flow = Counter()
        ctx: Context[Any] = Context(flow)
        await ctx.store.set("n", 10)
        run = flow.run(ctx=ctx, by=1)
        assert run.ctx is ctx
        assert (await run, await flow.run(ctx=ctx, by=2)) == (11, 13)
        assert await ctx.store.get("n") == 13
        await ctx.store.set("n", 20)
        kept = Context.from_dict(flow, json.loads(json.dumps(ctx.to_dict())))
        assert await flow.run(ctx=kept, by=1) == 21

    asyncio.run(main())


def test_a_context_before_a_run_is_plain_json_too():
    """R6.35: `to_dict` of a context that no run used."""
    flow = Counter()
    ctx: Context[Any] = Context(flow)
    ctx.state.set("a.b", [1, 2])
    with ctx.state.edit() as edited:
        edited["c"] = 3
    data = json.loads(json.dumps(ctx.to_dict()))
    again = Context.from_dict(flow, data)
    assert again.state.get() == {"a": {"b": [1, 2]}, "c": 3}
    assert not again.is_running
    with pytest.raises(WorkflowConfigurationError, match="no run used"):
        flow.resume(data)


def test_a_context_without_its_state():
    """`include_state=False` leaves the user's state out."""

    async def main() -> None:
        flow = Counter()
        run = flow.run(by=5)
        await run
        kept = Context.from_dict(flow, run.ctx.to_dict(include_state=False))
        assert await flow.run(ctx=kept, by=1) == 1

    asyncio.run(main())


def test_a_typed_context_has_its_model_outside_too():
    """R6.1: `Context[Model](flow)`, and a context of a flow whose steps name a model."""

    class Tally(BaseModel):
        n: int = 0

    flow = Workflow[int]("typed")

    @flow.step
    async def count(ev: Begin, ctx: Context[Tally]) -> StopEvent:
        async with ctx.store.edit_state() as s:
            s.n += ev.n
        return StopEvent(result=s.n)

    async def main() -> None:
        ctx = Context[Tally](flow)
        async with ctx.store.edit_state() as s:
            s.n = 5
        run = flow.run(ctx=ctx, n=2)
        assert await run == 7
        assert await run.ctx.store.get_state() == Tally(n=7)
        plain_ctx: Context[Any] = Context(flow)
        assert plain_ctx.state.get() == Tally()

    asyncio.run(main())


def test_a_live_context_starts_no_other_run():
    """R6.36: one at a time."""

    async def main() -> None:
        flow = Asks()
        run = flow.run(n=1)
        await asked(run)
        assert run.ctx.is_running
        with pytest.raises(ContextStateError, match="goes on with this context"):
            flow.run(ctx=run.ctx, n=1)
        with pytest.raises(ContextStateError, match="written by its steps"):
            await run.ctx.store.set("n", 1)
        run.answer(ok=True)
        await run

    asyncio.run(main())


def test_an_unfinished_context_goes_on_without_a_start_event():
    """R6.36: as a new run; a start event that is given all the same is told of."""

    async def main() -> None:
        flow = Asks()
        run = flow.run(n=1)
        await asked(run)
        with pytest.warns(UserWarning, match="its start event is not used"):
            again = flow.run(ctx=Context.from_dict(flow, run.ctx.to_dict()), run_id="again", n=5)
        assert again.run_id == "again"
        assert again.forked_from is not None
        await asked(again)
        assert again.requests[0].question.no == 1
        again.answer(ok=True)
        assert await again is True
        with pytest.raises(RunConflict):
            flow.run(ctx=Context.from_dict(flow, run.ctx.to_dict()), run_id="again")
        run.cancel()

    asyncio.run(main())


@pytest.mark.parametrize("when", ["before the cancel", "after the cancel", "with the context itself"])
def test_a_cancelled_run_goes_on_from_before_the_cancel(when: str):
    """R6.45, R6.36: both orders of L's documents, and cancel stays the end of the old run."""

    async def main() -> None:
        flow = TwoWaits()
        run = flow.run()
        await asked(run, 2)
        data = run.ctx.to_dict()
        await run.cancel_run()
        if when == "after the cancel":
            data = run.ctx.to_dict()
        again = flow.run(ctx=run.ctx if when.startswith("with") else Context.from_dict(flow, data))
        await asked(again, 2)
        await again.send_event(Reply(name="n0", ok=True))
        await again.send_event(Reply(name="n1", ok=False))
        assert await again == [0]
        with pytest.raises(WorkflowCancelledByUser):
            await run

    asyncio.run(main())


def test_a_run_that_is_being_cancelled_is_taken_before_that():
    """R6.45: with `@on_cancel` steps the terminal tick comes later."""
    flow = Workflow[Any]("tidy")

    @flow.step
    async def work(ev: Begin, ctx: Context) -> StopEvent:
        verdict = await ctx.ask(Approve())
        return StopEvent(result=verdict.ok)

    @flow.on_cancel
    async def tidy(ev: flownb.WorkflowCancelledEvent) -> None:
        await hold.wait()

    async def main() -> None:
        nonlocal hold
        hold = asyncio.Event()
        run = flow.run()
        await asked(run)
        run.cancel()
        await until(lambda: run._runner.state.status == "cancelling")
        data = plain(run)
        hold.set()
        again = flow.resume(data)
        await asked(again)
        again.answer(ok=True)
        assert await again is True

    hold: Any = None
    asyncio.run(main())


def test_a_failed_context_starts_anew_with_its_state():
    """R6.36: a failed run is over."""
    flow = Workflow[Any]("fails")

    @flow.step
    async def work(ev: Begin, ctx: Context) -> StopEvent:
        n = ctx.state.get("n", 0) + 1
        ctx.state.set("n", n)
        if n == 1:
            raise ValueError("once")
        return StopEvent(result=n)

    async def main() -> None:
        run = flow.run()
        with pytest.raises(ValueError, match="once"):
            await run
        assert await flow.run(ctx=Context.from_dict(flow, plain(run))) == 2

    asyncio.run(main())


def test_a_context_outside_of_steps_does_not_do_what_steps_do():
    """`ask`, `collect_events` and the like are for steps."""
    ctx: Context[Any] = Context(Counter())
    for use in (lambda: ctx.attempt, lambda: ctx.ask("?"), lambda: ctx.send_event(Event()), lambda: ctx.run_id):
        with pytest.raises(ContextStateError):
            use()
    with pytest.raises(WorkflowConfigurationError, match="no StartEvent"):
        Counter().run("ctx")


def test_a_step_s_own_context_starts_no_run():
    """R6.36: its run is live."""
    flow = Workflow[Any]("inside")

    @flow.step
    async def work(ev: Begin, ctx: Context) -> StopEvent:
        Counter().run(ctx=ctx, by=1)
        return StopEvent()

    with pytest.raises(ContextStateError, match=r"ctx\.run"):
        flow.run().result(20)


# -- by id


def test_a_live_run_is_found_by_its_id():
    """R5.1: the same run, in every way to ask for it."""

    async def main() -> None:
        flow = Asks()
        run = flow.run(run_id="found", n=1)
        for again in (flow.resume("found"), flownb.resume("found"), flow.resume(run)):
            assert again._runner is run._runner
        await asked(run)
        flow.resume("found").answer(ok=True)
        assert await flow.resume("found") is True
        assert await flow.resume("found") is True

    asyncio.run(main())


def test_a_suspended_run_goes_on_though_nobody_held_it():
    """R5.53, R1.20: same handles, one more tick that says who drives it."""

    async def main() -> None:
        flow = Asks()
        run = flow.run(run_id="rests", n=1)
        await asked(run)
        await run.suspend(0)
        assert run.status == "suspended"
        kept = run._runner.end
        del run
        gc.collect()
        again = flow.resume("rests")
        await until(lambda: again.status == "waiting")
        assert any(isinstance(tick, RunOpened) for tick in again._runner.ticks)
        assert again._runner.end is kept
        again.answer(ok=True)
        assert await again is True

    asyncio.run(main())


def test_a_run_that_was_suspended_twice_goes_on_once_it_is_resumed():
    """R5.54: the second one stops nobody who goes on with it."""

    async def main() -> None:
        flow = Asks()
        run = flow.run(run_id="twice")
        await asked(run)
        run.suspend()
        await run.suspend()
        again = flow.resume("twice")
        await until(lambda: again.status == "waiting")
        again.answer(ok=True)
        assert await asyncio.wait_for(again, 20) is True

    asyncio.run(main())


class Gated(Workflow[str]):
    """Ends when it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go = asyncio.Event(), asyncio.Event()

    @step
    async def work(self, ev: StartEvent) -> StopEvent:
        self.begun.set()
        await self.go.wait()
        return StopEvent(result="done")


def test_a_resume_takes_a_suspension_back_that_still_drains():
    """R5.53, R5.54: it was asked for, and its steps run still."""

    async def main() -> None:
        flow = Gated()
        run = flow.run(run_id="drains-still")
        await flow.begun.wait()
        suspension = run.suspend(drain=60)
        again = flow.resume("drains-still")
        flow.go.set()
        assert await asyncio.wait_for(again, 20) == "done"
        await asyncio.wait_for(suspension, 20)
        assert [type(tick).__name__ for tick in run.debug.ticks if "Suspended" in type(tick).__name__] == []

    asyncio.run(main())


def test_a_suspension_waits_no_longer_than_its_steps():
    """R5.53: what they bring waits before the gate."""

    async def main() -> None:
        flow = Gated()
        run = flow.run(run_id="patient")
        await flow.begun.wait()
        suspension = run.suspend(drain=60)
        flow.go.set()
        await asyncio.wait_for(suspension, 20)
        assert run.status == "suspended"
        assert await flow.resume("patient") == "done"

    asyncio.run(main())


def test_what_ended_before_a_suspension_does_not_run_again():
    """R5.53: running steps finish into the inbox; what was torn down runs again."""
    started: list[int] = []
    flow = Workflow[Any]("drains")

    @flow.step
    async def split(ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(2)]

    @flow.step
    async def work(ev: Item) -> Done:
        started.append(ev.no)
        await hold[ev.no].wait()
        return Done(no=ev.no)

    @flow.step
    async def join(ev: list[Done]) -> StopEvent:
        return StopEvent(result=[d.no for d in ev])

    async def main() -> None:
        hold.extend([asyncio.Event(), asyncio.Event()])
        run = flow.run(run_id="drains")
        await until(lambda: len(started) == 2)
        suspended = run.suspend(0.2)
        await until(lambda: run.status == "paused")
        hold[0].set()
        await suspended
        hold[1].set()
        assert await flow.resume("drains") == [0, 1]
        assert run._runner.state.ignored == 0

    hold: list[asyncio.Event] = []
    asyncio.run(main())
    assert started == [0, 1, 1]


def test_a_child_of_a_suspended_run_rests_too():
    """R5.53, R6.24: an answer to it waits until somebody drives its parent again."""
    inner, flow = Asks(), Workflow[Any]("parent")

    @flow.step
    async def outer(ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.run(inner, n=1))

    async def main() -> None:
        run = flow.run(run_id="rests-above")
        await asked(run)
        child = run.children["rests-above/1/1"]
        await run.suspend(0)
        assert child.status == "paused"
        child.answer(ok=True)
        assert await flow.resume("rests-above") is True
        assert child.status == "completed"

    asyncio.run(main())


def test_a_suspended_run_s_snapshot_goes_on():
    """R6.31, R5.53: as a new run, whose gate is open."""

    async def main() -> None:
        run = Asks().run(n=1)
        await asked(run)
        await run.suspend(0)
        again = Asks().resume(plain(run))
        await until(lambda: again.status == "waiting")
        again.answer(ok=True)
        assert await again is True
        assert run.status == "suspended"

    asyncio.run(main())


def test_a_step_that_must_not_run_again_is_asked_about():
    """R3.62: after a suspension that tore it down; only an answer can say what became of it."""
    started: list[int] = []
    flow = Workflow[Any]("charges")

    @flow.step(idempotent=False)
    async def charge(ev: Begin) -> StopEvent:
        started.append(1)
        await asyncio.Event().wait()
        return StopEvent()

    async def main() -> None:
        run = flow.run(run_id="charges", n=4)
        await until(lambda: bool(started))
        await run.suspend(0)
        flow.resume("charges")
        await asked(run)
        question = run.requests[0].question
        assert isinstance(question, flownb.OutcomeUnknown)
        assert (question.step, question.input_event.n, question.attempt) == ("charge", 4, 1)
        with pytest.raises(RequestError, match=r'what became of step .charge., .* answer\(decision="retry"\)'):
            run.requests[0].dispose("no")
        run.answer(decision="done", event=StopEvent(result="charged"))
        assert await run == "charged"

    asyncio.run(main())
    assert started == [1]


def test_a_failed_run_is_not_continued_in_place():
    """R6.42: the error names the way, which forks it; done branches are not run again (R6.41)."""
    ran: list[str] = []
    flow = Workflow[Any]("breaks")

    @flow.step
    async def first(ev: Begin) -> Item:
        ran.append("first")
        return Item(no=1)

    @flow.step
    async def second(ev: Item) -> StopEvent:
        ran.append("second")
        if len(ran) == 2:
            raise ValueError("broken")
        return StopEvent(result="mended")

    async def main() -> None:
        run = flow.run(run_id="breaks")
        with pytest.raises(ValueError, match="broken"):
            await run
        with pytest.raises(WorkflowRuntimeError, match="retry_failed=True"):
            flow.resume("breaks")
        again = flow.resume("breaks", retry_failed=True)
        assert again.run_id != "breaks"
        assert await again == "mended"
        assert run.status == "failed"

    asyncio.run(main())
    assert ran == ["first", "second", "second"]


def test_a_cancelled_run_is_forked_before_its_cancel():
    """R6.42."""

    async def main() -> None:
        flow = Asks()
        run = flow.run(run_id="cancelled", n=1)
        await asked(run)
        await run.cancel_run()
        with pytest.raises(WorkflowRuntimeError, match="is cancelled"):
            flow.resume("cancelled")
        again = flow.resume("cancelled", retry_failed=True)
        await asked(again)
        again.answer(ok=True)
        assert await again is True

    asyncio.run(main())


def test_a_run_whose_loop_is_gone_gets_another_driver():
    """R5.5: the same run and journal, from where it was."""
    flow = Asks()

    async def begins() -> Run[Any]:
        run = flow.run(run_id="orphan", n=2)
        await asked(run)
        return run

    lost = asyncio.run(begins())
    assert lost.status == "suspended"

    async def main() -> None:
        run = flow.resume("orphan")
        await asked(run)
        assert run._runner.ticks[: len(lost._runner.ticks)] == lost._runner.ticks
        run.answer(ok=True)
        assert await run is True
        assert flow.resume("orphan")._runner is run._runner

    asyncio.run(main())


@pytest.mark.parametrize("kept", ["in memory", "in a store"])
def test_a_child_of_a_run_whose_loop_is_gone_goes_on_too(kept: str, tmp_path: Any):
    """R5.5, R6.20: from where it was, and what it asked can be answered."""
    begun: list[int] = []
    inner = Workflow[Any]("inner")
    flow = Workflow[Any]("parent", store=tmp_path / "runs.db" if kept == "in a store" else None)

    @inner.step
    async def first(ev: Begin) -> Item:
        begun.append(ev.n)
        return Item(no=ev.n)

    @inner.step
    async def second(ev: Item, ctx: Context) -> StopEvent:
        return StopEvent(result=(ev.no, (await ctx.ask(Approve())).ok))

    @flow.step
    async def outer(ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.run(inner, n=7))

    async def begins() -> Run[Any]:
        run = flow.run(run_id="orphans")
        await asked(run)
        return run

    async def goes_on() -> Any:
        run = flow.resume("orphans")
        await asked(run)
        run.answer(ok=True)
        return await asyncio.wait_for(run, 20)

    lost = asyncio.run(begins())
    assert lost.status == "suspended"
    assert asyncio.run(goes_on()) == (7, True)
    assert begun == [7]


def test_unknown_ids_are_told_in_words():
    """Which runs there are, what is not there yet, and which workflow is missing."""

    async def main() -> None:
        flow = Asks()
        run = flow.run(run_id="here-it-is", n=1)
        with pytest.raises(RunNotFound, match="Did you mean 'here-it-is'"):
            flow.resume("here-it-si")
        with pytest.raises(RunConflict, match="is of workflow 'Asks'"):
            Counter().resume("here-it-is")
        with pytest.raises(WorkflowConfigurationError, match="run id or a snapshot"):
            flow.resume(3)
        await asked(run)
        data = plain(run)
        run.cancel()
        with pytest.raises(WorkflowNotDefined, match="not defined"):
            flownb.resume({**data, "key": "nowhere:Flow"})
        with pytest.raises(ContextSerdeError):
            flownb.resume({})

    asyncio.run(main())


def test_a_snapshot_finds_its_workflow_by_itself():
    """`flownb.resume`: the newest object of that key, or one made of the class."""

    async def main() -> None:
        run = Asks().run(n=1)
        await asked(run)
        data = plain(run)
        run.cancel()
        again = flownb.resume(data)
        await asked(again)
        again.answer(ok=True)
        assert await again is True

    asyncio.run(main())


def test_a_retry_delay_survives_a_snapshot():
    """R6.31, R3.28: the attempt waits as long as it had to; of the error before it the words are left."""
    flow = Workflow[Any]("retries")

    @flow.step(retry_policy=retry_policy(wait=wait_fixed(30), stop=stop_after_attempt(3)))
    async def work(ev: Begin, ctx: Context) -> StopEvent:
        if ctx.attempt < 2:
            raise ValueError("not yet")
        return StopEvent(result=(ctx.attempt, repr(ctx.retry_info().last_exception)))

    async def main() -> None:
        clock = ManualClock(1_000.0)
        run = flow.with_options(clock=clock).run()
        await until(lambda: len(run._runner.state.timers) == 1)
        data = plain(run)
        clock.advance(10)
        again = flow.with_options(clock=clock).resume(data)
        await until(lambda: again._runner.state.seq > 0)
        assert [t.due_at for t in again._runner.state.timers.values()] == [1_040.0]
        clock.advance(31)
        assert await run == (2, "ValueError('not yet')")
        assert await again == (2, "StepFailure('ValueError: not yet')")

    asyncio.run(main())
