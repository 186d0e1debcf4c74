"""Editing, dropping, admitting and firing what comes next, through `run.debug`."""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flownb import Context, Event, StartEvent, StopEvent, Store, Workflow, step
from flownb.core.gate import is_control
from flownb.core.reduce import fold
from flownb.core.ticks import (
    EventArrived,
    EventDropped,
    EventEdited,
    EventsSent,
    RequestAnswered,
    StepFinished,
    TimerFired,
)
from flownb.errors import AnswerInvalid, NotStorable, WorkflowConfigurationError, WorkflowDone, WorkflowRuntimeError
from flownb.events import UnhandledEvent
from flownb.retry_policy import retry_policy, stop_after_attempt, wait_fixed
from flownb.runtime.results import out_of
from flownb.snapshot import between_turns
from flownb.testing import ManualClock
from tests.polling import wait_until
from tests.runtime.flows import Approve, Asks, Begin, Count, Done, Forever, Item, Verdict


@pytest.fixture(autouse=True)
def _ann(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flownb.defaults.options.user", "ann")


def waits(run: Any, n: int = 1) -> Any:
    """The run, paused, with so many work ticks before its gate."""
    wait_until(lambda: sum(not is_control(tick) for tick in run.debug.inbox) == len(run.debug.inbox) == n)
    return run


def split(n: int = 3) -> Any:
    """A paused run of `Count` whose `n` items are done and wait before the gate."""
    run = Count().debug(n=n)
    run.debug.step().result(20)
    return waits(run, n)


def values(run: Any, kind: type) -> list[Any]:
    return [tick for tick in run.debug.ticks if isinstance(tick, kind)]


# -- edit


@pytest.mark.parametrize("way", ["tick", "place"])
def test_the_next_event_is_another_one(way: str):
    """R5.29, R1.24: the journal has both, and who it was; nothing else of the run is another one."""
    run = split()
    inbox = run.debug.inbox
    moment = run.debug.edit(inbox[0] if way == "tick" else 0, Done(no=70)).result(20)
    assert moment.seq == run.now.seq == 3, "nothing was admitted"
    assert run.debug.inbox[0].outs[0].value == Done(no=70)
    run.cont()
    assert run.result(20) == [70, 1, 2]
    edited = [tick for tick in values(run, StepFinished) if tick.hand is not None]
    assert [(t.hand.by, [o.value for o in t.hand.original], t.hand.is_dropped) for t in edited] == [  # type: ignore[union-attr]
        ("ann", [Done(no=0)], False)
    ]
    assert fold(run.debug.ticks) == run._runner.state


def test_some_fields_are_enough_and_the_first_original_stays():
    """R5.29: edited twice it still says what came."""
    run = split(1)
    (first,) = run.debug.inbox
    run.debug.edit(first, {"no": 5})
    run.debug.edit(first, {"no": 6})
    run.cont()
    assert run.result(20) == [6]
    (tick,) = [tick for tick in values(run, StepFinished) if tick.step == "work"]
    assert [out.value for out in tick.hand.original] == [Done(no=0)]  # type: ignore[union-attr]


def test_of_two_that_came_at_one_moment_the_one_that_is_named_is_edited():
    """R5.29: also once the other was edited, so that its event is another one."""
    run = outside(clock=ManualClock(100.0))
    sent = [run.send_event(Item(no=no)) for no in (1, 2)]
    first, second = waits(run, 2).debug.inbox
    assert first.at == second.at
    run.debug.edit(first, Item(no=10))
    run.debug.edit(second, Item(no=20))
    assert [tick.out.value.no for tick in run.debug.inbox] == [10, 20]
    run.debug.edit(second, {"no": 30})
    assert [tick.out.value.no for tick in run.debug.inbox] == [10, 30]
    run.cancel()
    for handle in sent:
        handle.result(20)


def test_a_list_is_edited_as_a_list():
    """R5.29, R4.10."""
    run = Count().debug(n=2)
    waits(run)
    with pytest.raises(WorkflowConfigurationError, match="Step 'split' returned a list of 2"):
        run.debug.edit(0, Item(no=1))
    run.debug.edit(0, [Item(no=4), {"no": 5}])
    run.cont()
    assert run.result(20) == [4, 5]


def test_an_answer_is_edited_as_the_answer_that_people_see():
    """R5.29, R4.45: it is checked as every answer is."""
    run = Asks().run(n=1)
    wait_until(lambda: run.status == "waiting")
    run.pause().result(20)
    run.answer(ok=True)
    waits(run)
    with pytest.raises(AnswerInvalid, match="ok"):
        run.debug.edit(0, {"ok": "what"})
    run.debug.edit(0, {"ok": False})
    assert run._runner.questions.accepted[1].answer.value == Verdict(ok=False)
    run.cont()
    assert run.result(20) is False
    (answered,) = values(run, RequestAnswered)
    assert answered.hand is not None and answered.hand.original[0].value == Verdict(ok=True)


class Outside(Workflow[Any]):
    """Ends with the first `Item` that comes from outside."""

    accepts = (Item,)

    @step
    async def begin(self, ev: Begin) -> None:
        return None

    @step
    async def take(self, ev: Item) -> StopEvent:
        return StopEvent(result=ev.no)


def outside(**settings: Any) -> Any:
    run = Outside(accepts=[Item]).with_options(**settings).run()
    wait_until(lambda: run.status == "waiting")
    run.pause().result(20)
    return run


def test_who_sent_an_event_is_told_also_when_it_was_edited():
    """R5.29, R2.32: its handle ends with the tick that it became."""
    run = outside()
    sent = run.send_event(Item(no=1))
    waits(run)
    run.debug.edit(0, Item(no=2))
    assert not sent.done()
    run.cont()
    sent.result(20)
    assert run.result(20) == 2


def busy(*, workers: int = 1, n: int = 3) -> tuple[Any, Callable[[], None]]:
    """A run whose step `work` holds its only worker until it is let go; the other items wait for that."""
    gate = asyncio.Event()
    flow = Workflow[Any]("busy")

    @flow.step
    async def split(ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(ev.n)]

    @flow.step(num_workers=workers)
    async def work(ev: Item) -> Done:
        await gate.wait()
        return Done(no=ev.no)

    @flow.step
    async def join(ev: list[Done]) -> StopEvent:
        return StopEvent(result=[d.no for d in ev])

    run = flow.run(n=n)
    wait_until(lambda: len(run.now.running.get("work", ())) == workers)
    return run, lambda: run._runner.host.call(gate.set)


def test_what_waits_for_a_worker_can_be_edited():
    """R5.29: by a tick of its own, paused or not; what has begun cannot."""
    run, go = busy()
    running, second, _ = [w for w in run.debug.inbox.work if w.step == "work"]
    assert (running.where, second.where, second.events) == ("running", "queued", (Item(no=1),))
    run.debug.edit(second, {"no": 50}).result(20)
    with pytest.raises(WorkflowRuntimeError, match="has begun with this event"):
        run.debug.edit(running, Item(no=9))
    go()
    assert run.result(20) == [0, 50, 2]
    (tick,) = values(run, EventEdited)
    assert (tick.by, tick.outs[0].value, tick.original[0].value) == ("ann", Item(no=50), Item(no=1))
    with pytest.raises(WorkflowDone, match="is completed"):
        run.debug.edit(second, Item(no=9))


def test_a_delivery_is_not_edited_into_what_its_step_does_not_take():
    """R5.29: the step's code would get an event of a type that it does not know."""
    run, go = busy()
    second = next(w for w in run.debug.inbox.work if w.where == "queued")
    with pytest.raises(WorkflowConfigurationError, match=r"'work' does not take .*Done"):
        run.debug.edit(second, Done(no=9))
    go()
    assert run.result(20) == [0, 1, 2]


def test_what_the_store_cannot_hold_is_refused_before_it_is_a_tick(tmp_path: Path):
    """R6.12: of an edit and of a fork, as of what steps send."""

    class Holds(Event):
        value: Any = None

    flow = Workflow[str]("any", accepts=[Holds], store=Store(tmp_path / "runs.db"))

    @flow.step
    async def begin(ev: StartEvent) -> None: ...

    @flow.step
    async def take(ev: Holds) -> StopEvent:
        return StopEvent(result=type(ev.value).__name__)

    run = flow.run()
    run.pause().result(20)
    run.send_event(Holds(value=1))
    wait_until(lambda: run.debug.inbox)
    with pytest.raises(NotStorable, match="Holds"):
        run.debug.edit(0, Holds(value=threading.Lock()))
    run.cont()
    assert run.result(20) == "int"
    seq = next(n for n, tick in enumerate(run.debug.ticks, 1) if isinstance(tick, EventArrived))
    with pytest.raises(NotStorable, match="Holds"):
        run.debug.fork(seq, event=Holds(value=threading.Lock()))


def test_a_failed_attempt_is_tried_again_with_another_event():
    """R5.29, R3.28: edit and retry, in the run itself."""
    flow = Workflow[Any]("picky")

    @flow.step(retry_policy=retry_policy(wait=wait_fixed(600), stop=stop_after_attempt(2)))
    async def work(ev: Begin) -> StopEvent:
        if ev.n < 5:
            raise ValueError("too small")
        return StopEvent(result=ev.n)

    run = flow.run(n=1)
    wait_until(lambda: run.now.retrying)
    (work_,) = run.debug.inbox.work
    assert work_.where == "retrying" and "ValueError" in work_.why
    run.debug.edit(work_, {"n": 7})
    run.debug.fire("work")
    assert run.result(20) == 7
    (fired,) = values(run, TimerFired)
    assert fired.hand is not None and 590 < fired.hand.early_s <= 600


def test_what_brings_no_event_cannot_be_edited():
    """R5.29: said in words, and nothing is changed."""
    flow = Workflow[Any]("writes")

    @flow.step
    async def work(ev: Begin, ctx: Context) -> StopEvent:
        ctx.state.set("n", 1)
        return StopEvent()

    run = waits(flow.debug(), 2)
    with pytest.raises(WorkflowConfigurationError, match="StateWritten brings no event"):
        run.debug.edit(0, Done(no=1))
    with pytest.raises(WorkflowConfigurationError, match="event=5 is none"):
        run.debug.edit(1, 5)
    with pytest.raises(WorkflowConfigurationError, match=r"Name a tick of run\.debug\.inbox"):
        run.debug.edit("first", Done(no=1))
    with pytest.raises(WorkflowRuntimeError, match=r"Nothing of run .* waits at place 2: 2 wait there"):
        run.debug.edit(2, Done(no=1))
    written = run.debug.inbox[0]
    run.debug.step().result(20)
    with pytest.raises(WorkflowRuntimeError, match="StateWritten does not wait before the gate"):
        run.debug.drop(written)
    run.cont()
    run.result(20)
    assert [tick.hand for tick in run.debug.ticks] == [None] * len(run.debug.ticks)


# -- drop


class Sends(Workflow[list[int]]):
    """Sends two items and gathers what becomes of them."""

    @step
    async def split(self, ev: Begin) -> list[Item]:
        return [Item(no=0), Item(no=1)]

    @step
    async def work(self, ev: Item, ctx: Context) -> Done | None:
        ctx.send_event(Done(no=ev.no))
        return None

    @step
    async def join(self, ev: list[Done]) -> StopEvent:
        return StopEvent(result=[d.no for d in ev])


def test_a_dropped_event_ends_its_branch_as_unhandled():
    """R5.30: at once; the stream and the journal say who dropped what."""
    run = Sends().debug()
    waits(run)
    run.debug.step().result(20)
    waits(run, 4)
    sent = run.debug.inbox[0]
    assert isinstance(sent, EventsSent)
    moment = run.debug.drop(sent).result(20)
    assert (len(run.debug.inbox), moment.tick.outs) == (3, ())
    run.cont()
    assert run.result(20) == [1]
    (tick,) = [tick for tick in values(run, EventsSent) if tick.hand is not None]
    assert (tick.hand.by, tick.hand.is_dropped, tick.hand.original[0].value) == ("ann", True, Done(no=0))

    async def unhandled() -> list[UnhandledEvent]:
        return [ev async for ev in run.stream_events(expose_internal=True) if isinstance(ev, UnhandledEvent)]

    (said,) = asyncio.run(unhandled())
    assert (said.event_type, said.dropped_by) == ("Done", "ann")


def test_what_is_dropped_behind_others_of_its_attempt_passes_in_its_turn():
    """R5.73, R3.49: by a ledger in another order, code that runs again would send the dropped one, not the other."""
    flow = Workflow[int]("two", accepts=[Item])

    @flow.step
    async def send(ev: StartEvent, ctx: Context) -> None:
        await asyncio.sleep(0.01)  # else it is done before the gate closes
        ctx.send_event(Item(no=1))
        ctx.send_event(Item(no=2))

    @flow.step
    async def take(ev: Item) -> StopEvent:
        return StopEvent(result=ev.no)

    run = flow.debug()
    wait_until(lambda: len(run.debug.inbox) == 3)
    seq = run.now.seq
    _, second = (tick for tick in run.debug.inbox if isinstance(tick, EventsSent))
    moment = run.debug.drop(second).result(20)
    assert (moment.seq, len(run.debug.inbox)) == (seq, 3), "nothing is admitted out of order"
    run.debug.step(2).result(20)
    sent = values(run, EventsSent)
    assert [(t.hand is not None, (t.hand.original if t.hand else t.outs)[0].value) for t in sent] == [
        (False, Item(no=1)),
        (True, Item(no=2)),
    ]
    run.cont()
    assert run.result(20) == 1


@pytest.mark.parametrize("verb", ["drop", "admit"])
def test_what_is_refused_for_an_open_gate_is_left_as_it_is(verb: str):
    """R5.30, R5.73: an event that came just now is in the inbox for a moment, also of a run that goes on."""
    run = outside()
    run.cont()
    wait_until(lambda: not run.now.paused_by)

    def come_and_go() -> None:
        runner = run._runner
        for no in (1, 2):
            runner.put(EventArrived(runner.clock.now(), out_of(Item(no=no), runner.definition, 0.0)))
        with pytest.raises(WorkflowRuntimeError, match="is open: pause it first"):
            getattr(run.debug, verb)(1)

    between_turns(run._runner, come_and_go)
    assert run.result(20) == 1
    assert [tick.hand for tick in values(run, EventArrived)] == [None, None], "neither marked nor gone"


def test_an_event_from_outside_is_dropped_and_its_sender_told():
    """R5.30."""
    run = outside()
    sent = run.send_event(Item(no=1))
    waits(run)
    run.debug.drop(0).result(20)
    sent.result(20)
    run.send_event(Item(no=2))
    run.cont()
    assert run.result(20) == 2
    assert [tick.hand is not None and tick.hand.is_dropped for tick in values(run, EventArrived)] == [True, False]


def test_what_is_dropped_out_of_turn_says_so():
    """R5.30, R5.73: those that stood before it still do."""
    run = outside()
    run.send_event(Item(no=1))
    run.send_event(Item(no=2))
    waits(run, 2)
    moment = run.debug.drop(1).result(20)
    assert (moment.tick.hand.is_dropped, moment.tick.hand.ahead) == (True, 1)
    assert moment.told == "Item(no=2) came from ann, dropped and admitted ahead of 1 by ann: it goes nowhere"
    run.cont()
    assert run.result(20) == 1


def test_what_waits_for_a_worker_is_dropped_alone_or_with_all_of_its_step():
    """R5.30: its branch is paid, so the join does not wait for it."""
    run, go = busy(n=4)
    second = next(w for w in run.debug.inbox.work if w.where == "queued")
    run.debug.drop(second).result(20)
    assert len(run.now.queued["work"]) == 2
    run.debug.drop("work").result(20)
    assert not run.now.queued
    with pytest.raises(WorkflowRuntimeError, match=r"1 of it runs\. A step's result itself cannot be dropped"):
        run.debug.drop("work")
    with pytest.raises(WorkflowRuntimeError, match="nothing of it waits"):
        run.debug.drop("join")
    go()
    assert run.result(20) == [0]
    assert [tick.by for tick in values(run, EventDropped)] == ["ann"] * 3


def test_a_result_or_an_answer_cannot_be_dropped():
    """R5.30, R1.31."""
    run = split(1)
    with pytest.raises(WorkflowRuntimeError, match="StepFinished of step 'work' cannot be dropped, only edited"):
        run.debug.drop(0)
    run.cancel()
    asks = Asks().run(n=1)
    wait_until(lambda: asks.status == "waiting")
    asks.pause().result(20)
    asks.answer(ok=True)
    waits(asks)
    with pytest.raises(WorkflowRuntimeError, match="answer that was accepted cannot be dropped"):
        asks.debug.drop(0)
    asks.cont()
    assert asks.result(20) is True


# -- admit


def test_a_tick_is_admitted_ahead_of_others():
    """R5.73: exactly that one, marked; the others keep their order."""
    run = split(3)
    third = run.debug.inbox[2]
    moment = run.debug.admit(third).result(20)
    assert moment.tick.delivery == third.delivery
    assert (moment.tick.hand.by, moment.tick.hand.ahead) == ("ann", 2)
    assert [tick.outs[0].value.no for tick in run.debug.inbox] == [0, 1]
    run.debug.admit(0).result(20)
    run.cont()
    assert run.result(20) == [0, 1, 2], "a gathering step has the order of the branches"
    hands = [tick.hand for tick in values(run, StepFinished)]
    assert [hand.ahead if hand else 0 for hand in hands] == [0, 2, 0, 0, 0]
    assert hands.count(None) == 4, "the first in its turn is nothing to mark"


def test_a_race_ends_the_other_way_round():
    """R5.73: the lesson that it is for."""
    flow = Workflow[str]("race")

    class Slow(Event):
        pass

    class Quick(Event):
        pass

    @flow.step
    async def begin(ev: StartEvent, ctx: Context) -> Slow | Quick | None:
        ctx.send_event(Quick())
        ctx.send_event(Slow())
        return None

    @flow.step
    async def quick(ev: Quick) -> StopEvent:
        return StopEvent(result="quick")

    @flow.step
    async def slow(ev: Slow) -> StopEvent:
        return StopEvent(result="slow")

    run = waits(flow.debug(), 3)
    run.debug.step(3).result(20)
    waits(run, 2)
    assert [tick.step for tick in run.debug.inbox] == ["quick", "slow"]
    assert run.debug.inbox.does == (
        "quick finished with StopEvent(result='quick'): the run is completed; 1 delivery is cut off",
        "slow finished with StopEvent(result='slow'), too late: the run is over by then",
    )
    run.debug.admit(1)
    assert run.result(20) == "slow"


def test_what_one_attempt_did_keeps_its_order():
    """R5.73: else what it sent would come after its end, and be lost."""
    run = Sends().debug()
    waits(run)
    run.debug.step().result(20)
    waits(run, 4)
    finished = next(tick for tick in run.debug.inbox if isinstance(tick, StepFinished))
    with pytest.raises(WorkflowRuntimeError, match="comes behind EventsSent of the same attempt"):
        run.debug.admit(finished)
    run.cont()
    assert run.result(20) == [0, 1]


def test_nothing_is_admitted_by_hand_while_the_gate_is_open_or_after_the_end():
    """R5.73."""
    run = Forever().run()
    with pytest.raises(WorkflowRuntimeError, match=r"waits at place 0: the gate is open; run.pause\(\) closes it"):
        run.debug.admit(0)
    run.cancel()
    wait_until(run.is_done)
    for verb in (run.debug.admit, run.debug.drop, run.debug.fire):
        with pytest.raises(WorkflowDone, match=r"is cancelled: nothing of it comes any more.*debug.fork"):
            verb(0)


def test_what_runs_is_waited_for_before_the_gate():
    """R5.15, R5.28: so that its order is for the person to choose."""
    run, go = busy(workers=3)
    with pytest.raises(WorkflowRuntimeError, match="is open: pause it first"):
        run.debug.settle()
    run.pause()
    settled = run.debug.settle()  # asked for before the gate is closed
    assert not settled.done()
    go()
    moment = settled.result(20)
    assert [tick.step for tick in moment.inbox] == ["work"] * 3
    run.cont()
    assert run.result(20) == [0, 1, 2]


# -- fire


class Sleeps(Workflow[str]):
    @step
    async def nap(self, ev: Begin, ctx: Context) -> StopEvent:
        await ctx.sleep(3600)
        return StopEvent(result="woken")


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_timer_is_fired_early(is_paused: bool):
    """R5.31: paused, it alone is admitted; the journal says how early it was."""
    run = Sleeps().run()
    wait_until(lambda: run.debug.inbox.timers)
    (alarm,) = run.debug.inbox.timers
    assert (alarm.step, alarm.kind) == ("nap", "sleep") and 3590 < alarm.in_s <= 3600
    if is_paused:
        run.pause().result(20)
        moment = run.debug.fire(alarm).result(20)
        assert isinstance(moment.tick, TimerFired) and moment.running == {"nap": ["Begin"]}
        run.cont()
    else:
        run.debug.fire(alarm.number)
    assert run.result(20) == "woken"
    (fired,) = values(run, TimerFired)
    assert fired.hand is not None and fired.hand.by == "ann" and 3590 < fired.hand.early_s <= 3600
    assert not run._runner.timers


def test_a_deadline_is_fired_early_and_gives_the_default():
    """R5.31, R4.53; but never against an answer that waits (R1.27)."""
    flow = Workflow[Any]("asks")

    @flow.step
    async def ask(ev: Begin, ctx: Context) -> StopEvent:
        verdict = await ctx.ask(Approve(no=1), timeout=3600, default=Verdict(ok=False))
        return StopEvent(result=verdict.ok)

    run = flow.run()
    wait_until(lambda: run.debug.inbox.timers)
    run.debug.fire("ask")
    assert run.result(20) is False

    run = flow.run()
    wait_until(lambda: run.status == "waiting")
    run.pause().result(20)
    run.answer(ok=True)
    waits(run)
    run.debug.fire("ask").result(20)
    run.cont()
    assert run.result(20) is True


def test_a_timer_that_is_not_there_is_named():
    run = Sleeps().run()
    wait_until(lambda: run.debug.inbox.timers)
    with pytest.raises(WorkflowRuntimeError, match=r"has no timer 99 \(any more\)"):
        run.debug.fire(99)
    run.cancel()
    run = Forever().run()
    with pytest.raises(WorkflowRuntimeError, match="Step 'hang' has no timer"):
        run.debug.fire("hang")
    run.cancel()


# -- played back


def test_a_replay_does_what_people_did():
    """R6.43, R5.29 to R5.31: at its place, so that the same code comes to the same ticks."""
    run, go = busy(n=4)
    queued = [w for w in run.debug.inbox.work if w.where == "queued"]
    run.debug.edit(queued[0], {"no": 50}).result(20)
    run.debug.drop(queued[1]).result(20)
    run.pause().result(20)
    go()
    waits(run)
    run.debug.edit(0, {"no": 7})
    run.cont()
    assert run.result(20) == [7, 50, 3]
    again = run.debug.replay()
    assert again.result(20) == [7, 50, 3]
    assert again.debug.divergence is None
    assert [type(tick) for tick in again.debug.ticks] == [type(tick) for tick in run.debug.ticks]


# -- the inbox in words


def test_the_inbox_says_what_comes_next_and_who_waits_for_what():
    """R5.28: and what each tick would do, tried out and not done."""
    run = split(2)
    inbox = run.debug.inbox
    assert inbox.does == (
        "work finished with Done(no=0): join has 1 of 2",
        "work finished with Done(no=1): join gets all that came, 2 events, and starts",
    )
    text = repr(inbox)
    assert f"<Inbox of {run.run_id}: 2 ticks, the gate is closed (person)" in text
    assert "work running: Item(no=0), its end waits before the gate" in text
    assert "join: 0 of 2 arrived, missing Done from #3 (work is running Item, branch 0)" in text
    assert run.now.seq == 3
    run.cont()
    run.result(20)
    assert repr(run.debug.inbox) == f"<Inbox of {run.run_id}: 0 ticks, the gate is open>"
    asks = Asks().run(n=1)
    wait_until(lambda: asks.status == "waiting")
    assert asks.debug.inbox.people == ("ask asks Approve (request 1)",)
    assert "ask waiting: Begin(n=1), asks Approve" in repr(asks.debug.inbox)
    asks.cancel()


def test_a_long_inbox_is_counted_not_listed():
    run = Count().debug(n=500)
    run.debug.step().result(20)
    wait_until(lambda: len(run.debug.inbox) >= 4)
    begin = time.perf_counter()
    text = repr(run.debug.inbox)
    assert time.perf_counter() - begin < 1.0
    assert "more" in text and len(text.splitlines()) < 40
    run.cancel()
