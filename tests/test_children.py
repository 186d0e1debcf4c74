"""Runs that steps run: ids, journals, what passes up and what passes down, several at once."""

import asyncio
import threading
import time
from typing import Any

import pytest

from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Workflow, step
from flownb.errors import (
    AmbiguousAnswer,
    ContextStateError,
    NoRetry,
    StepFailure,
    WorkflowCancelledByUser,
    WorkflowRuntimeError,
    WorkflowTimeoutError,
)
from flownb.retry_policy import retry_policy, stop_after_attempt, wait_fixed
from flownb.testing import ManualClock
from tests.polling import until_asked, wait_for_questions, wait_until
from tests.restarting import restart


class Begin(StartEvent):
    n: int = 3


class Inner(StartEvent):
    no: int = 0


class Item(Event):
    no: int


class Done(Event):
    no: int


class Shown(Event):
    no: int


class Verdict(HumanResponseEvent):
    ok: bool


class Approve(InputRequiredEvent[Verdict]):
    no: int = 0


class Report(StopEvent):
    no: int


def child(fn: Any, name: str = "inner", **options: Any) -> Workflow[Any]:
    """A workflow of one step."""
    flow = Workflow[Any](name, **options)
    flow.step(fn)
    return flow


def parent(fn: Any, **options: Any) -> Workflow[Any]:
    flow = Workflow[Any]("outer")
    flow.step(**options)(fn)
    return flow


async def double(ev: Inner) -> StopEvent:
    return StopEvent(result=ev.no * 2)


async def asks(ev: Inner, ctx: Context) -> StopEvent:
    return StopEvent(result=(await ctx.ask(Approve(no=ev.no))).ok)


async def breaks(ev: Inner) -> StopEvent:
    raise ValueError(f"no {ev.no}")


def names(run: Any) -> list[str]:
    return [type(tick).__name__ for tick in run.debug.ticks]


# -- one child


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_a_step_maps_its_input_to_a_child_and_the_childs_result_to_its_own(kind: str):
    """R6.18, R6.19: by fields, by an object, and with a stop class as the result."""
    inner = child(double)

    async def reports(ev: Inner) -> Report:
        return Report(no=ev.no + 1)

    other = child(reports, "reports")
    if kind == "async":

        async def work(ev: Begin, ctx: Context) -> StopEvent:
            found = await ctx.run(inner, no=ev.n)
            report = await ctx.run(other, Inner(no=found))
            return StopEvent(result=(found, report))
    else:

        def work(ev: Begin, ctx: Context) -> StopEvent:  # type: ignore[misc]
            found = ctx.run(inner, no=ev.n).result()
            report = ctx.run(other, Inner(no=found)).result(20)
            return StopEvent(result=(found, report))

    assert parent(work).run(n=4).result(20) == (8, Report(no=9))


def test_a_child_has_an_id_a_journal_and_links_both_ways():
    """R6.20: `parent/delivery/n`; the second child of a delivery is number 2."""
    inner = child(double)

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        first = ctx.run(inner, no=1)
        second = ctx.run(inner, no=2)
        return StopEvent(result=[first.run_id, second.run_id, await first, await second])

    run = parent(work).run(run_id="outer")
    assert run.result(20) == ["outer/1/1", "outer/1/2", 2, 4]
    assert list(run.children) == ["outer/1/1", "outer/1/2"]
    began = run.children["outer/1/2"].debug.ticks
    assert [type(tick).__name__ for tick in began] == ["RunStarted", "StepFinished"]
    assert (began[0].parent.run_id, began[0].parent.child) == ("outer", 2)
    assert [(t.wait.number, t.wait.out.value) for t in run.debug.ticks if hasattr(t, "wait")] == [
        (1, Inner(no=1)),
        (2, Inner(no=2)),
    ]


def test_a_childs_end_is_in_its_own_journal_before_its_parents():
    """R6.21: one tick tells the parent, and by then the child's last one is written."""
    seen: list[tuple[str, str]] = []
    inner = child(double)

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.run(inner, no=1))

    run = parent(work).debug(run_id="ends")

    def look(before: Any, tick: Any, after: Any, commands: Any) -> None:
        if type(tick).__name__ == "ChildFinished":
            found = run.children["ends/1/1"]
            seen.append((found.status, type(found.debug.ticks[-1]).__name__))

    run._runner.observers.append(look)
    run.cont()
    assert run.result(20) == 2
    assert seen == [("completed", "StepFinished")]
    assert names(run).count("ChildFinished") == 1


def test_the_second_try_of_a_child_has_an_id_of_its_own_and_a_good_one_is_not_run_again():
    """R6.20, R6.25, R3.51: retries follow the step's; `.2` is the child's second try, the other child stays."""
    calls: list[int] = []

    async def sometimes(ev: Inner) -> StopEvent:
        calls.append(ev.no)
        if ev.no == 2 and calls.count(2) == 1:
            raise ValueError("the first time")
        return StopEvent(result=ev.no)

    inner = child(sometimes)

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        one = await ctx.run(inner, no=1)
        again = ctx.run(inner, no=2)
        return StopEvent(result=(one, await again, again.run_id))

    run = parent(work, retry_policy=retry_policy(stop=stop_after_attempt(2))).run(run_id="tries")
    assert run.result(20) == (1, 2, "tries/1/2.2")
    assert calls == [1, 2, 2]
    assert [(c.run_id, c.status) for c in run.children.values()] == [
        ("tries/1/1", "completed"),
        ("tries/1/2", "failed"),
        ("tries/1/2.2", "completed"),
    ]


def test_a_failed_child_raises_its_own_error_naming_the_child():
    """R6.18: the step may catch it, or fail with it."""
    inner = child(breaks)

    async def catches(ev: Begin, ctx: Context) -> StopEvent:
        try:
            await ctx.run(inner, no=7)
        except ValueError as error:
            return StopEvent(result=(str(error), error.__notes__))
        return StopEvent()

    run = parent(catches).run(run_id="catches")
    said, notes = run.result(20)
    assert said == "no 7"
    assert notes[-1] == "In child run 'catches/1/1'."

    async def fails(ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.run(inner, no=8))

    run = parent(fails).run()
    with pytest.raises(ValueError, match="no 8"):
        run.result(20)
    assert run.status == "failed"


def test_a_childs_time_limit_is_its_workflows_and_covers_one_try():
    """R6.25: each try of the child gets the whole limit."""
    clock = ManualClock()
    tries: list[str] = []

    async def slow(ev: Inner, ctx: Context) -> StopEvent:
        tries.append(ctx.run_id)
        await ctx.sleep(100 if len(tries) == 1 else 8)
        return StopEvent(result="slept")

    inner = child(slow, timeout=10)

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.run(inner))

    run = (
        parent(work, retry_policy=retry_policy(stop=stop_after_attempt(2), wait=wait_fixed(0)))
        .with_options(clock=clock)
        .run()
    )
    wait_until(lambda: clock.next_due() is not None and len(tries) == 1)
    wait_until(lambda: clock.next_due() == clock.now() + 10)
    clock.advance(10)
    wait_until(lambda: len(tries) == 2)
    wait_until(lambda: clock.next_due() == clock.now() + 8)
    clock.advance(8)
    assert run.result(20) == "slept"
    assert [c.status for c in run.children.values()] == ["timed_out", "completed"]


def test_a_child_that_times_out_fails_its_step_with_the_timeout():
    clock = ManualClock()

    async def slow(ev: Inner, ctx: Context) -> StopEvent:
        await ctx.sleep(100)
        return StopEvent()

    inner = child(slow, timeout=10)

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.run(inner))

    run = parent(work).with_options(clock=clock).run()
    wait_until(lambda: clock.next_due() == clock.now() + 10)
    clock.advance(10)
    with pytest.raises(WorkflowTimeoutError, match="10"):
        run.result(20)
    assert run.status == "failed"


def test_the_parents_limit_does_not_count_while_its_child_waits_for_a_person():
    """R6.22: the child's change to waiting is a tick of the parent, so its clock and its quiet are right."""
    clock = ManualClock()
    inner = child(asks)

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.run(inner))

    flow = Workflow[Any]("limited", timeout=5)
    flow.step(work)
    run = flow.with_options(clock=clock).run()
    wait_until(lambda: run.status == "waiting")
    assert "ChildChanged" in names(run)
    clock.advance(1000)
    assert run.status == "waiting"
    why = str(run.why())
    assert "work (Begin) waits for child" in why
    assert "/1/1: Waiting: asks (Inner) asks Approve." in why
    run.answer(ok=True)
    assert run.result(20) is True


def test_a_child_that_is_restarted_with_its_parent_goes_on():
    """R6.20, R3.48: the run of its first start is found again, not begun anew."""
    calls: list[int] = []

    async def inner_step(ev: Inner, ctx: Context) -> StopEvent:
        calls.append(ev.no)
        return StopEvent(result=(await ctx.ask(Approve(no=ev.no))).ok)

    inner = child(inner_step)

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        again = ctx.run(inner, no=1)
        return StopEvent(result=(await again, again.run_id))

    run = parent(work).run(run_id="again")
    wait_until(lambda: run.status == "waiting")
    restart(run)
    wait_until(lambda: run.status == "waiting")
    assert [r.id for r in run.requests] == ["again/1/1:1"]
    run.answer(ok=True)
    assert run.result(20) == (True, "again/1/1")
    assert list(run.children) == ["again/1/1"]


def test_no_child_begins_inside_an_edit():
    """R6.4."""
    inner = child(double)

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        async with ctx.state.edit():
            with pytest.raises(ContextStateError, match="A child cannot begin inside an edit"):
                await ctx.run(inner)
        return StopEvent(result=await ctx.run(inner, no=1))

    assert parent(work).run().result(20) == 2


def test_a_child_has_a_state_of_its_own():
    """R6.20."""

    async def writes(ev: Inner, ctx: Context) -> StopEvent:
        ctx.state.set("n", ev.no)
        return StopEvent(result=ctx.state.get())

    inner = child(writes)

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        ctx.state.set("mine", 1)
        return StopEvent(result=(await ctx.run(inner, no=5), ctx.state.get()))

    assert parent(work).run().result(20) == ({"n": 5}, {"mine": 1})


def test_a_child_inherits_retries_and_its_own_win():
    """R6.18, R3.5."""
    counts = {"bare": 0, "own": 0}

    def failing(name: str) -> Any:
        async def fails(ev: Inner) -> StopEvent:
            counts[name] += 1
            raise ValueError(name)

        return fails

    bare = child(failing("bare"), "bare")
    own = child(failing("own"), "own", retry_policy=retry_policy(stop=stop_after_attempt(2), wait=wait_fixed(0)))

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        for flow in (bare, own):
            with pytest.raises(ValueError):
                await ctx.run(flow)
        return StopEvent(result=dict(counts))

    flow = Workflow[Any]("gives", retry_policy=retry_policy(stop=stop_after_attempt(3), wait=wait_fixed(0)))
    flow.step(work)
    assert flow.run().result(20) == {"bare": 3, "own": 2}


def test_a_step_names_the_workflow_that_it_runs_for_the_drawing():
    """R6.18."""
    inner = child(double, "shown_inner")

    class Other(Workflow[Any]):
        pass

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.run(inner))

    flow = parent(work, runs=Other)
    assert "Other" in flow.view.to_mermaid()
    assert "Other" in flow.view.to_svg()


# -- what passes up


def test_the_stream_of_a_child_passes_up_to_readers_who_want_it():
    """R6.23: with the run that each item is of; without `children=True` the parent's own alone."""

    async def shows(ev: Inner, ctx: Context) -> StopEvent:
        ctx.write_event_to_stream(Shown(no=ev.no))
        ctx.progress(1, 2, "half")
        return StopEvent()

    inner = child(shows)

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        for i in range(2):
            await ctx.run(inner, no=i)
        ctx.write_event_to_stream(Shown(no=9))
        return StopEvent()

    async def main() -> tuple[list[Any], list[Any]]:
        run = parent(work).run(run_id="up")
        both = [
            (item.run_id, item.event.no) async for item in run.stream(children=True) if isinstance(item.event, Shown)
        ]
        return both, [event.no async for event in run.stream_events() if isinstance(event, Shown)]

    both, own = asyncio.run(main())
    assert sorted(both) == [("up", 9), ("up/1/1", 0), ("up/1/2", 1)]
    assert own == [9]


def test_questions_of_children_are_asked_and_answered_at_the_parent():
    """R6.23: at any depth, each by its own id."""
    inner = child(asks)

    async def middle_step(ev: Inner, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.run(inner, no=ev.no))

    middle = child(middle_step, "middle")

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=await asyncio.gather(*(ctx.run(middle, no=i) for i in range(2))))

    run = parent(work).run(run_id="deep")
    wait_for_questions(run, 2)
    assert {r.id: r.question.no for r in run.requests} == {"deep/1/1/1/1:1": 0, "deep/1/2/1/1:1": 1}
    with pytest.raises(AmbiguousAnswer, match="deep/1/1/1/1:1"):
        run.answer(ok=True)
    run.answer("deep/1/2/1/1:1", ok=True)
    wait_until(lambda: len(run.requests) == 1)
    run.requests[0].answer(ok=False)
    assert run.result(20) == [False, True]


# -- what passes down


def test_a_pause_holds_the_children_as_a_reason_of_its_own():
    """R6.24: the parent's opening lifts that alone; a child that somebody paused stays paused."""
    inner = child(asks)

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=await asyncio.gather(*(ctx.run(inner, no=i) for i in range(2))))

    run = parent(work).run(run_id="pause")
    wait_for_questions(run, 2)
    run.pause().result(20)
    first, second = run.children.values()
    wait_until(lambda: [c.now.paused_by for c in (first, second)] == [("parent",), ("parent",)])
    first.pause().result(20)
    for request in run.requests:
        request.answer(ok=True)
    time.sleep(0.05)
    assert [c.status for c in (first, second)] == ["paused", "paused"]
    run.cont()
    wait_until(lambda: second.status == "completed")
    wait_until(lambda: first.now.paused_by == ("person",))
    assert not run.is_done()
    first.cont()
    assert run.result(20) == [True, True]


def test_a_child_of_a_paused_parent_begins_paused():
    """R6.24: what its step returned waits before its gate."""
    began: list[int] = []

    async def notes(ev: Inner) -> StopEvent:
        began.append(ev.no)
        return StopEvent(result=ev.no)

    inner = child(notes)

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.run(inner, no=3))

    run = parent(work).debug(run_id="held")
    run.debug.step().result(20)
    wait_until(lambda: began == [3])
    inner_run = run.children["held/1/1"]
    wait_until(lambda: len(inner_run.debug.inbox) == 1)
    assert (inner_run.status, inner_run.now.paused_by, names(inner_run)) == ("paused", ("parent",), ["RunStarted"])
    run.cont()
    assert run.result(20) == 3


def test_a_cancel_passes_down_to_every_depth():
    """R6.24, C047."""
    inner = child(asks)

    async def middle_step(ev: Inner, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.run(inner))

    middle = child(middle_step, "middle")

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.run(middle))

    run = parent(work).run(run_id="down")
    wait_for_questions(run)
    request = run.requests[0]
    run.cancel("enough").result(20)
    child_run = run.children["down/1/1"]
    wait_until(lambda: child_run.status == "cancelled")
    inner_run = child_run.children["down/1/1/1/1"]
    wait_until(inner_run.is_done)
    assert "'down'" in inner_run._runner.state.reason or "'down/1/1'" in inner_run._runner.state.reason
    assert request.status == "closed"


def test_the_parents_time_limit_ends_its_children():
    """R6.24."""
    clock = ManualClock()

    async def slow(ev: Inner, ctx: Context) -> StopEvent:
        await ctx.sleep(100)
        return StopEvent()

    inner = child(slow)

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.run(inner))

    flow = Workflow[Any]("limit", timeout=10)
    flow.step(work)
    run = flow.with_options(clock=clock).run()
    wait_until(lambda: run.children and clock.next_due() == clock.now() + 10)
    clock.advance(10)
    with pytest.raises(WorkflowTimeoutError):
        run.result(20)
    wait_until(lambda: [c.status for c in run.children.values()] == ["cancelled"])


def test_somebody_cancels_a_child_and_its_step_hears_of_it():
    inner = child(asks)

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        with pytest.raises(WorkflowCancelledByUser, match="Child 'one/1/1' was cancelled"):
            await ctx.run(inner)
        return StopEvent(result="went on")

    run = parent(work).run(run_id="one")
    wait_for_questions(run)
    run.children["one/1/1"].cancel("not this one")
    assert run.result(20) == "went on"


# -- several at once


def test_gathered_children_give_their_results_in_the_order_of_the_branches():
    """R6.26: the last one is over first."""
    gates = [threading.Event() for _ in range(3)]

    def waits(ev: Inner) -> StopEvent:
        gates[ev.no].wait(20)
        return StopEvent(result=ev.no)

    inner = child(waits)

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=await asyncio.gather(*(ctx.run(inner, no=i) for i in range(3))))

    run = parent(work).run(run_id="order")
    for i in (2, 0, 1):
        gates[i].set()
        wait_until(lambda: run.children.get(f"order/1/{i + 1}") and run.children[f"order/1/{i + 1}"].is_done())  # noqa: B023
    assert run.result(20) == [0, 1, 2]


def test_children_of_two_objects_of_one_class_run_each_its_own():
    """R6.18, R6.26: also if both begin at the same moment."""

    class Gives(Workflow[int]):
        def __init__(self, n: int) -> None:
            super().__init__()
            self.n = n

        @step
        async def give(self, ev: Inner) -> StopEvent:
            return StopEvent(result=self.n)

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=await asyncio.gather(*(ctx.run(Gives(n)) for n in (1, 2))))

    assert parent(work).run().result(20) == [1, 2]


def test_a_fan_out_runs_a_child_in_each_branch():
    """R6.26: the results come in the order of the branches."""
    inner = child(double)
    flow = Workflow[list[int]]("fan")

    @flow.step
    async def split(ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(ev.n)]

    @flow.step(num_workers=2)
    async def each(ev: Item, ctx: Context) -> Done:
        return Done(no=await ctx.run(inner, no=ev.no))

    @flow.step
    async def total(ev: list[Done]) -> StopEvent:
        return StopEvent(result=[d.no for d in ev])

    run = flow.run(n=5)
    assert run.result(20) == [0, 2, 4, 6, 8]
    assert len(run.children) == 5


def test_failures_of_gathered_children_may_be_kept_in_their_places():
    """R6.27."""

    async def odd(ev: Inner) -> StopEvent:
        if ev.no % 2:
            raise ValueError(f"no {ev.no}")
        return StopEvent(result=ev.no)

    inner = child(odd)

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        found = await asyncio.gather(*(ctx.run(inner, no=i) for i in range(4)), return_exceptions=True)
        return StopEvent(result=[str(v) if isinstance(v, Exception) else v for v in found])

    assert parent(work).run().result(20) == [0, "no 1", 2, "no 3"]


@pytest.mark.parametrize("ends", ["fails", "returns"])
def test_children_end_with_their_steps_attempt(ends: str):
    """R6.27: they belong to it; a failed attempt leaves none behind."""
    inner = child(asks)

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        kept = ctx.run(inner)
        while True:  # until it asks
            await asyncio.sleep(0.005)
            if kept.status == "waiting":
                break
        if ends == "fails":
            raise NoRetry("gives up")
        return StopEvent(result="left it")

    run = parent(work).run()
    if ends == "fails":
        with pytest.raises(NoRetry):
            run.result(20)
    else:
        assert run.result(20) == "left it"
    wait_until(lambda: [c.status for c in run.children.values()] == ["cancelled"])


def test_a_retry_begins_the_children_of_the_failed_attempt_anew():
    """R6.27, R3.51: what was open ended with the attempt, and counts as tried."""
    calls: list[str] = []

    async def asks_too(ev: Inner, ctx: Context) -> StopEvent:
        calls.append(ctx.run_id)
        return StopEvent(result=(await ctx.ask(Approve())).ok)

    inner = child(asks_too)

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        kept = ctx.run(inner)
        if ctx.attempt == 1:
            while kept.status != "waiting":
                await asyncio.sleep(0.005)
            raise ValueError("again")
        return StopEvent(result=await kept)

    run = parent(work, retry_policy=retry_policy(stop=stop_after_attempt(2))).run(run_id="anew")
    wait_until(lambda: len(calls) == 2 and len(run.requests) == 1)
    assert calls == ["anew/1/1", "anew/1/1.2"]
    run.answer(ok=True)
    assert run.result(20) is True
    assert [c.status for c in run.children.values()] == ["cancelled", "completed"]


def test_the_first_success_wins_and_the_others_are_cancelled():
    """R6.28: a child that fails before does not count."""

    async def race(ev: Inner, ctx: Context) -> StopEvent:
        if ev.no == 0:
            raise ValueError("at once")
        if ev.no == 1:
            await ctx.ask(Approve())
        return StopEvent(result=ev.no)

    inner = child(race)

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        winner = await ctx.first([ctx.run(inner, no=i) for i in range(3)])
        await ctx.wait_for_event(Shown)
        return StopEvent(result=winner)

    run = parent(work).run(run_id="race")
    wait_until(lambda: run._runner.state.side.waiters.n == 1)
    wait_until(lambda: [c.status for c in run.children.values()] == ["failed", "cancelled", "completed"])
    run.send_event(Shown(no=1))
    assert run.result(20) == 2


def test_a_plain_step_takes_the_first_too():
    """R6.28, R3.12."""

    async def race(ev: Inner, ctx: Context) -> StopEvent:
        if ev.no:
            await ctx.ask(Approve())
        return StopEvent(result=ev.no)

    inner = child(race)

    def work(ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=ctx.first([ctx.run(inner, no=i) for i in (1, 0)]).result())

    run = parent(work).run()
    assert run.result(20) == 0
    wait_until(lambda: sorted(c.status for c in run.children.values()) == ["cancelled", "completed"])


def test_if_every_child_fails_all_their_errors_come_each_with_its_child():
    """R6.29."""
    inner = child(breaks)

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        try:
            await ctx.first([ctx.run(inner, no=i) for i in range(2)])
        except ExceptionGroup as group:
            return StopEvent(result=[(type(e).__name__, str(e), e.__notes__[-1]) for e in group.exceptions])
        return StopEvent()

    assert parent(work).run(run_id="all").result(20) == [
        ("ValueError", "no 0", "In child run 'all/1/1'."),
        ("ValueError", "no 1", "In child run 'all/1/2'."),
    ]


def test_the_first_of_none_raises_at_the_call_and_of_others_runs_too():
    """R6.30."""
    other = child(double)

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        with pytest.raises(ValueError, match="no run to wait for"):
            ctx.first([])
        with pytest.raises(WorkflowRuntimeError, match=r"takes what ctx\.run"):
            ctx.first([other.run(no=1)])
        return StopEvent(result=1)

    assert parent(work).run().result(20) == 1


def test_a_first_that_is_given_up_cancels_all_its_children():
    """R6.28, R4.28."""
    inner = child(asks)

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ctx.first([ctx.run(inner, no=i) for i in range(2)]), 0.1)
        return StopEvent(result="gave up")

    run = parent(work).run()
    assert run.result(20) == "gave up"
    wait_until(lambda: [c.status for c in run.children.values()] == ["cancelled", "cancelled"])


def test_a_cancelled_error_of_a_childs_own_is_its_failure():
    """R3.43 for children: the parent is not cancelled by it."""

    async def odd(ev: Inner) -> StopEvent:
        raise asyncio.CancelledError

    inner = child(odd)

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        with pytest.raises(StepFailure, match="raised CancelledError by itself"):
            await ctx.run(inner)
        return StopEvent(result=1)

    assert parent(work).run().result(20) == 1


def test_children_are_driven_in_async_code_too():
    """R6.18 on the caller's own loop."""
    inner = child(asks)

    async def work(ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.run(inner))

    async def main() -> Any:
        run = parent(work).run()
        await until_asked(run)
        run.answer(ok=True)
        return await run

    assert asyncio.run(main()) is True
