"""A run as its user holds it: waiting for it, pausing, stepping, streaming, looking."""

import asyncio
import threading
import time
from typing import Any

import pytest

from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Workflow, step
from flownb.core.ticks import GateOpened
from flownb.errors import (
    MailboxFull,
    NobodyToAnswer,
    RunConflict,
    StepFailure,
    WorkflowCancelledByUser,
    WorkflowConfigurationError,
    WorkflowDone,
    WorkflowRuntimeError,
    WorkflowStalled,
    WorkflowStepDoesNotExistError,
)
from flownb.events import StepFailedEvent, UnhandledEvent, WorkflowCancelledEvent, WorkflowFailedEvent
from tests.polling import until, until_asked, wait_until
from tests.runtime.flows import Asks, Count, Forever


class Begin(StartEvent):
    n: int = 3


class Item(Event):
    no: int


class Inner(Event):
    no: int


class Done(Event):
    no: int


class Lost(Event):
    pass


class Report(StopEvent):
    total: int


def flow_of(*steps: Any, name: str = "made", **settings: Any) -> Workflow[Any]:
    flow = Workflow[Any](name, **settings)
    for fn in steps:
        flow.step(fn)
    return flow


# -- results and ends


@pytest.mark.parametrize("result", [None, False, 0, [], "", {"a": 1}])
def test_every_result_is_a_result(result: Any):
    """R2.38."""

    def end(ev: Begin) -> StopEvent:
        return StopEvent(result=result)

    assert flow_of(end).run().result(20) == result


def test_a_stop_of_ones_own_is_itself_the_result():
    """R2.35, R2.38."""

    def end(ev: Begin) -> Report:
        return Report(total=ev.n)

    run = flow_of(end).run(n=7)
    assert run.result(20) == Report(total=7)
    assert run.get_stop_event() == Report(total=7)


def test_awaiting_twice_and_from_many_tasks_gives_the_same():
    async def main() -> None:
        run = Count().run()

        async def wait() -> Any:
            return await run

        assert await asyncio.gather(wait(), wait(), wait()) == [[0, 1, 2]] * 3
        assert await run == [0, 1, 2]

    asyncio.run(main())


def test_giving_up_a_wait_never_touches_the_run():
    """API §0.1."""

    async def main() -> None:
        run = Forever().run()
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(run, 0.01)
        assert run.status == "running"
        assert run._runner.end._call is None and not run._runner.end._calls
        await run.cancel()

    asyncio.run(main())


def test_result_with_a_limit_leaves_the_run_alone():
    run = Forever().run()
    with pytest.raises(TimeoutError, match=r"was not over after 0\.05 s; it goes on"):
        run.result(0.05)
    assert run.status == "running"
    run.cancel().result(20)


def test_result_with_a_limit_says_that_a_suspended_run_does_not_go_on():
    """R5.53: only a resume moves it."""
    run = Forever().run()
    run.suspend(0).result(20)
    with pytest.raises(TimeoutError, match=r"over after 0\.05 s; it is suspended, and only flow\.resume\(run_id\)"):
        run.result(0.05)
    Forever().resume(run.run_id).cancel().result(20)


def test_a_cancelled_run_says_who_and_why():
    """R5.49, R5.54, R5.58."""

    async def main() -> None:
        run = Forever().run()
        await run.cancel("not needed any more")
        await run.cancel("again")  # on an ended run nothing happens
        with pytest.raises(WorkflowCancelledByUser, match="was cancelled: not needed any more") as caught:
            await run
        assert caught.value.reason == "not needed any more"
        assert run.status == "cancelled"
        assert "not needed" in run.why()
        events = [event async for event in run.stream_events()]
        assert [type(event) for event in events] == [WorkflowCancelledEvent]
        assert events[0].reason == "not needed any more"

    asyncio.run(main())


def test_the_first_stop_wins():
    """R2.36, C037."""
    flow = Workflow[int]("two")

    @flow.step
    async def one(ev: Begin) -> StopEvent:
        return StopEvent(result=1)

    @flow.step
    async def two(ev: Begin) -> StopEvent:
        return StopEvent(result=2)

    async def main() -> None:
        for _ in range(50):
            run = flow.run()
            result = await run
            stops = [e async for e in run.stream_events() if isinstance(e, StopEvent)]
            assert [e.result for e in stops] == [result] == [1]

    asyncio.run(main())


def test_a_list_with_a_stop_in_it_ends_the_run():
    """R2.40."""

    def split(ev: Begin) -> list[Item | StopEvent]:
        return [Item(no=1), StopEvent(result="stop"), Item(no=2)]

    def work(ev: Item) -> None: ...

    run = flow_of(split, work).run()
    assert run.result(20) == "stop"
    assert run.now.running == {}


# -- fan-out


def test_results_come_in_the_order_of_branches_not_of_their_ends():
    """R4.8, R4.9."""

    async def split(ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(5)]

    async def work(ev: Item, ctx: Context) -> Done:
        await ctx.sleep(0.005 * (5 - ev.no))
        return Done(no=ev.no)

    async def total(ev: list[Done]) -> StopEvent:
        return StopEvent(result=[d.no for d in ev])

    assert flow_of(split, work, total).run().result(20) == [0, 1, 2, 3, 4]


def test_an_empty_fan_out_fires_its_join_once():
    """R4.11, C051."""

    async def split(ev: Begin) -> list[Item]:
        return []

    async def work(ev: Item) -> Done:
        return Done(no=ev.no)

    async def total(ev: list[Done]) -> StopEvent:
        return StopEvent(result=ev)

    assert flow_of(split, work, total).run().result(20) == []


def test_elements_that_drop_out_are_missing_from_the_join():
    """R4.13."""

    async def split(ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(6)]

    async def work(ev: Item) -> Done | None:
        return Done(no=ev.no) if ev.no % 2 else None

    async def total(ev: list[Done]) -> StopEvent:
        return StopEvent(result=[d.no for d in ev])

    assert flow_of(split, work, total).run().result(20) == [1, 3, 5]


def test_nested_fan_outs_join_innermost_first():
    """R4.11, R4.12: outer 3, inner 0, 1, 2."""

    class Sum(Event):
        no: int

    async def split(ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(ev.n)]

    async def again(ev: Item) -> list[Inner]:
        return [Inner(no=ev.no * 10 + k) for k in range(ev.no)]

    async def work(ev: Inner, ctx: Context) -> Done:
        await ctx.sleep(0.001 * (30 - ev.no))
        return Done(no=ev.no)

    async def inner(ev: list[Done]) -> Sum:
        return Sum(no=sum(d.no for d in ev))

    async def outer(ev: list[Sum]) -> StopEvent:
        return StopEvent(result=[s.no for s in ev])

    assert flow_of(split, again, work, inner, outer).run().result(20) == [0, 10, 41]


def test_plain_steps_fan_out_and_join_too():
    def split(ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(50)]

    def work(ev: Item) -> Done:
        time.sleep(0.0005)
        return Done(no=ev.no)

    def total(ev: list[Done]) -> StopEvent:
        return StopEvent(result=[d.no for d in ev])

    assert flow_of(split, work, total).run().result(20) == list(range(50))


# -- events that nobody takes


def stray(ev: Begin) -> Lost | StopEvent | Item:
    return Lost()


def idle(ev: Item) -> StopEvent:
    return StopEvent()


@pytest.mark.filterwarnings("ignore:Workflow .* returns Lost, which no step takes")
def test_an_event_that_nobody_takes_is_published_and_stalls_the_run():
    """R2.25, R5.36, C013."""

    async def main() -> None:
        run = flow_of(stray, idle).run()
        with pytest.raises(WorkflowStalled, match="no step took the last Lost"):
            await run
        events = [event async for event in run.stream_events()]
        assert events[0] == UnhandledEvent(event_type="Lost", qualified_name=f"{__name__}:Lost", idle=True)
        assert isinstance(events[1], WorkflowFailedEvent)

    asyncio.run(main())


def test_unhandled_error_fails_the_run():
    """R2.28; the missing taker is a fault at definition already, unless that check is left out."""
    flow = flow_of(stray, idle, unhandled="error", skip_graph_checks=["unconsumed"])
    with pytest.raises(WorkflowRuntimeError, match=r"No step of workflow 'made' takes '.*:Lost'"):
        flow.run().result(20)


def test_stalled_wait_keeps_the_run_open():
    """R5.37."""

    async def main() -> None:
        run = flow_of(stray, idle, stalled="wait", skip_graph_checks=["unconsumed"]).run()
        await until(lambda: run.status == "waiting")
        events = [e async for e in _first(run.stream_events(expose_internal=True), 5)]
        assert [type(e).__name__ for e in events] == [
            "StepStateChanged",
            "StepStateChanged",
            "UnhandledEvent",
            "ProgressEvent",
            "WorkflowIdleEvent",
        ]
        await run.cancel()

    asyncio.run(main())


async def _first(stream: Any, n: int) -> Any:
    async for event in stream:
        yield event
        n -= 1
        if not n:
            return


# -- events from outside


def outside(name: str = "outside") -> Workflow[Any]:
    async def begin(ev: Begin) -> None: ...

    async def take(ev: Item) -> StopEvent:
        return StopEvent(result=ev.no)

    return flow_of(begin, take, name=name, accepts=[Item])


def test_a_run_waits_for_what_it_accepts_from_outside():
    """R5.34, R5.35."""
    run = outside().run()
    wait_until(lambda: run.status == "waiting")
    assert "take takes Item from outside" in run.why()
    run.send_event(Item(no=4)).result(20)
    assert run.result(20) == 4
    with pytest.raises(WorkflowDone, match="is completed; it takes no more events"):
        run.send_event(Item(no=5))


def test_a_send_from_outside_is_checked_at_the_call():
    """R2.14."""
    run = outside().run()
    with pytest.raises(WorkflowStepDoesNotExistError, match="Did you mean 'take'"):
        run.send_event(Item(no=1), step="tak")
    with pytest.raises(WorkflowRuntimeError, match="Only events can be sent"):
        run.send_event("x")  # type: ignore[arg-type]
    run.send_event(Item(no=1), step="take")
    assert run.result(20) == 1


def test_a_stop_from_outside_ends_the_run():
    """R2.39."""
    run = outside().run()
    run.send_event(StopEvent(result="enough"))
    assert run.result(20) == "enough"


def test_a_send_waits_behind_a_closed_gate():
    """R5.19."""

    async def main() -> None:
        run = outside().run()
        await run.pause()
        sent = run.send_event(Item(no=2))
        await asyncio.sleep(0.02)
        assert not sent.done()
        assert len(run.debug.inbox) >= 1
        run.cont()
        await sent
        assert await run == 2

    asyncio.run(main())


def test_what_nobody_takes_from_outside_is_kept_up_to_a_limit(monkeypatch: pytest.MonkeyPatch):
    """R2.30, R2.31."""
    monkeypatch.setattr("flownb.outside.MAILBOX_LIMIT", 3)

    async def main() -> None:
        run = outside().run()
        for _ in range(3):
            await run.send_event(Lost())
        with pytest.raises(MailboxFull, match="keeps 3 events"):
            run.send_event(Lost())
        assert len(run._runner.state.mailbox) == 3
        await run.send_event(Item(no=1))
        assert await run == 1

    asyncio.run(main())


# -- pause, continue


def test_a_paused_run_admits_nothing_and_its_steps_go_on():
    """R5.14, R5.15."""

    async def main() -> None:
        done: list[int] = []
        go = asyncio.Event()

        async def split(ev: Begin) -> list[Item]:
            return [Item(no=i) for i in range(3)]

        async def work(ev: Item) -> Done:
            await go.wait()
            done.append(ev.no)
            return Done(no=ev.no)

        async def total(ev: list[Done]) -> StopEvent:
            return StopEvent(result=len(ev))

        run = flow_of(split, work, total).run()
        await until(lambda: run.now.running.get("work"))
        moment = await run.pause()
        assert (moment.status, moment.paused_by, run.status) == ("paused", ("person",), "paused")
        go.set()
        await until(lambda: len(done) == 3)
        await asyncio.sleep(0.02)
        assert run.now.seq == moment.seq
        assert len(run.debug.inbox) == 3
        assert "Paused (person); 3 ticks wait in the inbox." in run.why()
        end = await run.cont()
        assert end.status == "completed"
        assert await run == 3

    asyncio.run(main())


def test_a_cancel_works_while_paused():
    """R5.20."""

    async def main() -> None:
        run = Forever().debug()
        await run.cancel()
        assert run.status == "cancelled"

    asyncio.run(main())


def test_an_answer_never_lifts_a_pause():
    """R5.21, R5.22."""

    async def main() -> None:
        run = Asks().run()
        await until_asked(run)
        await run.pause()
        run.answer(ok=True)
        await asyncio.sleep(0.02)
        assert run.status == "paused"
        assert run.requests.all()[0].status == "answered"
        await run.cont()
        assert await run is True

    asyncio.run(main())


def test_continue_without_an_answer_invents_none():
    async def main() -> None:
        run = Asks().run()
        await until_asked(run)
        await run.pause()
        going = run.cont()
        await asyncio.sleep(0.02)
        assert (run.status, going.done()) == ("waiting", False)
        await run.cancel()
        assert (await going).status == "cancelled"

    asyncio.run(main())


def test_pause_and_continue_from_another_thread():
    run = Forever().run()
    assert run.pause().result(20).status == "paused"
    run.cont()
    wait_until(lambda: run.status == "running")
    assert [t.reason for t in run.debug.ticks if isinstance(t, GateOpened)] == ["person"]
    run.cancel().result(20)


# -- newer definitions


def adopting(last: Any) -> Workflow[Any]:
    """A workflow whose last step, if `extra` goes, stands at another place."""
    flow = Workflow[Any]("adopts")

    @flow.step
    async def first(ev: Begin) -> Item:
        return Item(no=1)

    @flow.step
    async def extra(ev: Item) -> None: ...

    flow.step(on_error="continue")(last)

    @flow.step
    async def saved(ev: StepFailedEvent) -> StopEvent:
        return StopEvent(result=ev.step_name)

    return flow


async def adopt(run: Any) -> None:
    """Take the definition without `extra`."""
    await run.pause()
    del run.workflow.steps["extra"]
    await run.adopt()
    run.cont()


def test_a_running_step_goes_by_its_own_options_after_adopt():
    """R2.23: it waits, and is judged by the `on_error` of its own step, wherever that stands now."""

    async def main() -> Any:
        begun, go = asyncio.Event(), asyncio.Event()

        async def last(ev: Item, ctx: Context) -> None:
            begun.set()
            await go.wait()
            await ctx.sleep(0.01)
            raise ValueError("x")

        run = adopting(last).run()
        await begun.wait()
        await until(lambda: list(run.now.running) == ["last"])  # `extra`, which goes, has no work any more
        await adopt(run)
        go.set()
        return await asyncio.wait_for(run, 20)

    assert asyncio.run(main()) == "last"


def test_a_question_names_its_step_after_adopt():
    """R2.23: a handle of before, and the list."""

    async def main() -> Any:
        async def last(ev: Item, ctx: Context) -> StopEvent:
            return StopEvent(result=await ctx.ask("Well?"))

        run = adopting(last).run()
        await until_asked(run)
        held = run.requests[0]
        await adopt(run)
        assert [held.step, *(request.step for request in run.requests.all())] == ["last", "last"]
        held.answer("yes")
        return await asyncio.wait_for(run, 20)

    assert asyncio.run(main()) == "yes"


# -- streams


def test_several_readers_and_late_ones_read_the_same():
    """R5.62."""

    async def main() -> None:
        run = Count().run(n=5)

        async def read() -> list[Any]:
            return [(item.seq, item.n, item.step, item.event) async for item in run.stream()]

        first, second = await asyncio.gather(read(), read())
        assert first == second == await read()
        assert [item[2] for item in first] == ["join"]

    asyncio.run(main())


def test_a_stream_begins_where_it_is_told():
    def work(ev: Begin, ctx: Context) -> StopEvent:
        for i in range(5):
            ctx.write_event_to_stream(Item(no=i))
        return StopEvent()

    async def main() -> None:
        run = flow_of(work).run()
        await run
        whole = [item async for item in run.stream()]
        assert [item.seq for item in whole] == [2, 3, 4, 5, 6, 7]
        assert [item.event for item in whole[:5]] == [Item(no=i) for i in range(5)]
        assert {item.run_id for item in whole} == {run.run_id}
        assert [item.seq async for item in run.stream(5)] == [5, 6, 7]

    asyncio.run(main())


def test_a_stream_is_read_from_another_loop_while_the_run_goes_on():
    """The run is the engine thread's, the reader's loop is its own."""

    async def read(run: Any) -> list[int]:
        return [event.no async for event in run.stream_events() if isinstance(event, Item)]

    def work(ev: Begin, ctx: Context) -> StopEvent:
        for i in range(200):
            ctx.write_event_to_stream(Item(no=i))
        return StopEvent()

    run = flow_of(work).run()
    got: list[list[int]] = []
    threads = [threading.Thread(target=lambda: got.append(asyncio.run(read(run)))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert got == [list(range(200))] * 3


@pytest.mark.parametrize("how", ["error", "cancel"])
def test_a_stream_always_ends(how: str):
    """R5.60, C039."""

    async def main() -> None:
        if how == "error":

            def boom(ev: Begin) -> StopEvent:
                raise ValueError("x")

            run, error, last = flow_of(boom).run(), ValueError, WorkflowFailedEvent
        else:
            run, error, last = Forever().run(), WorkflowCancelledByUser, WorkflowCancelledEvent
            asyncio.get_running_loop().call_later(0.01, run.cancel)
        events = [event async for event in run.stream_events()]
        assert isinstance(events[-1], last)
        with pytest.raises(error):
            await run

    asyncio.run(main())


def test_a_failure_on_the_stream_names_step_and_exception():
    """R5.56."""

    def boom(ev: Begin) -> StopEvent:
        raise ValueError("x")

    async def main() -> None:
        run = flow_of(boom).run()
        (event,) = [event async for event in run.stream_events()]
        assert (event.step_name, event.exception_type, event.exception_message) == ("boom", "builtins:ValueError", "x")
        assert "raise ValueError" in event.traceback
        assert event.model_dump_json()
        assert run.why() == (
            "Failed at tick 2 in boom: ValueError: x. Look at tick 2 (boom failed) and tick 1 "
            "(boom was given Begin(n=3))."
        )
        assert run.why().ticks == (2, 1)

    asyncio.run(main())


def test_a_reader_who_leaves_takes_its_listener_along():
    async def main() -> None:
        run = Forever().run()
        reader = asyncio.ensure_future(_first(run.stream_events(), 1).__anext__())
        await asyncio.sleep(0.01)
        assert len(run._runner.listeners) == 1
        reader.cancel()
        await asyncio.wait([reader])
        await asyncio.sleep(0)
        assert run._runner.listeners == []
        await run.cancel()

    asyncio.run(main())


# -- run ids


def test_the_same_id_and_input_give_the_same_run():
    """R5.1."""
    flow = Count()
    first = flow.run(run_id="mine", n=2)
    second = flow.run(run_id="mine", n=2)
    assert second._runner is first._runner
    assert second.result(20) == first.result(20) == [0, 1]


def test_the_same_id_with_other_input_or_workflow_is_a_conflict():
    """R5.2."""
    first = Count().run(run_id="taken", n=2)
    first.result(20)
    with pytest.raises(RunConflict, match="already, with another input") as caught:
        Count().run(run_id="taken", n=3)
    assert caught.value.differs == ("input",)
    with pytest.raises(RunConflict, match="with another workflow and input"):
        outside().run(run_id="taken")


@pytest.mark.parametrize("bad", ["", "a b", "a/b", "x" * 129, "ü", "a\n"])
def test_a_bad_run_id_is_refused(bad: str):
    """R5.3."""
    with pytest.raises(WorkflowConfigurationError, match="is not 1 to 128 of letters"):
        Count().run(run_id=bad)


def test_an_id_that_a_store_has_already_is_the_same_run(tmp_path: Any):
    """R5.1, R5.2: also in another process; with another input it is a conflict, not a hang."""
    place = tmp_path / "runs.db"
    flow = Count().with_options(store=place)
    flow.run(run_id="a").result(20)
    import flownb.runs as runs
    import flownb.starting as starting

    starting.known.clear()  # as in another process
    runs._open.clear()
    again = flow.run(run_id="a")
    assert again.result(20) == [0, 1, 2]
    assert again.now.seq == again._runner.committer.journal.last_seq("a")
    with pytest.raises(RunConflict, match="another input"):
        flow.run(run_id="a", n=7)


def test_a_failure_in_another_process_is_told_in_words(tmp_path: Any):
    """R3.42: the exception itself is not here; its class, its text and its traceback are."""

    def boom(ev: Begin) -> StopEvent:
        raise ValueError("x")

    flow = flow_of(boom).with_options(store=tmp_path / "runs.db")
    with pytest.raises(ValueError, match="x"):
        flow.run(run_id="broke").result(20)
    import flownb.runs as runs
    import flownb.starting as starting

    starting.known.clear()  # as in another process
    runs._open.clear()
    with pytest.raises(StepFailure, match=r"^ValueError: x\nTraceback"):
        flow.run(run_id="broke").result(20)


# -- looking


def test_words_that_people_try_are_pointed_elsewhere():
    """API §7."""
    run = Count().run()
    run.result(20)
    for word, said in {"step": "run.debug.step", "inbox": "run.debug.inbox", "state_at": "run.debug.at"}.items():
        with pytest.raises(AttributeError, match=rf"A run has no '{word}': use {said}"):
            getattr(run, word)
    with pytest.raises(AttributeError, match="'Run' object has no attribute 'nonsense'"):
        run.nonsense


def test_repr_and_why_of_a_completed_run():
    run = Count().run(run_id="shown")
    run.result(20)
    assert repr(run) == "<Run shown of Count: completed, 6 ticks, 0 questions>"
    assert repr(run.why()) == "Completed at tick 6."
    assert run.error is None


def test_on_nobody_there_says_what_is_asked(monkeypatch: pytest.MonkeyPatch):
    """R4.67: as in a kernel without a front end."""
    run = Asks().run()
    wait_until(lambda: run.status == "waiting")
    monkeypatch.setattr("flownb.awaiting.in_kernel", lambda: True)
    with pytest.raises(NobodyToAnswer, match=r"ask asks Approve\(no=3\).*with_options\(answers=") as caught:
        run.result(5)
    assert caught.value.__context__ is None, "the cell shows these words alone"

    async def main() -> None:
        with pytest.raises(NobodyToAnswer):
            await run

    asyncio.run(main())
    assert run.status == "waiting"  # R4.66: the run itself stays open
    run.answer(ok=True)
    assert run.result(20) is True


@pytest.mark.parametrize("way", ["await", "result"])
@pytest.mark.parametrize("stands", ["asks", "is suspended"])
def test_a_script_is_told_once_what_it_waits_for(
    way: str, stands: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """R4.68."""
    monkeypatch.setattr("flownb.awaiting.PATIENCE_S", 0.05)
    run = Asks().with_options(host="thread").run()
    wait_until(lambda: run.status == "waiting")
    if stands == "is suspended":
        run.suspend(drain=0).result(20)

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(run, 1.5)

    if way == "await":
        asyncio.run(main())
    else:
        with pytest.raises(TimeoutError):
            run.result(1.5)
    said = capfd.readouterr().err
    assert said.count(f"flownb: run {run.run_id!r}: ") == 1
    assert ("ask asks Approve (request 1)" if stands == "asks" else "Only flow.resume(") in said
    run.cancel().result(20)


class Sub(Workflow[str]):
    @step
    async def ask(self, ev: Begin) -> InputRequiredEvent:
        return InputRequiredEvent(prefix="Name?")

    @step
    async def end(self, ev: HumanResponseEvent) -> StopEvent:
        return StopEvent(result=ev.response)


def test_questions_appear_on_the_stream_and_are_answered_by_its_reader():
    """L's documented way: read the stream, answer what it asks."""

    async def main() -> Any:
        run = Sub().run()
        async for event in run.stream_events():
            if isinstance(event, InputRequiredEvent):
                run.answer(response="ann")
        return await run

    assert asyncio.run(main()) == "ann"
