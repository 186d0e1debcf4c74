"""A run as it was after one tick."""

from flownb import Context, Event, StopEvent, Workflow
from flownb.core import ticks as t
from flownb.core.progress import Progress
from flownb.core.reduce import begin, reduce
from flownb.core.values import Failure
from flownb.moment import Moment
from flownb.testing.feed import finish, out, says, spec, started, step
from tests.polling import wait_until
from tests.runtime.flows import Approve, Asks, Begin, Verdict


class Row(Event):
    no: int


def test_a_moment_of_a_run_that_asks():
    run = Asks().run(n=5)
    wait_until(lambda: run.status == "waiting")
    moment = run.now
    assert moment.requests == [(1, "ask", Approve(no=5))]
    assert (moment.queued, moment.running, moment.waiting) == ({}, {}, {"ask": ["Begin: asks Approve"]})
    assert (moment.status, moment.paused_by, moment.inbox, moment.state) == ("waiting", (), (), {})
    run.answer(Verdict(ok=True))
    run.result(20)
    assert moment.requests == [(1, "ask", Approve(no=5))]  # a view of then


def test_a_diff_shows_what_came_changed_and_went():
    flow = Workflow[None]("diffs")

    @flow.step
    def work(ev: Begin, ctx: Context) -> StopEvent:
        ctx.state.set("kept", 1)
        ctx.state.set("changed", [1])
        ctx.state.set("changed", [1, 2])
        with ctx.state.edit() as state:
            del state["kept"]
        return StopEvent()

    run = flow.run()
    run.result(20)
    diffs = [run.debug.at(seq).diff() for seq in range(1, run.now.seq + 1)]
    assert diffs == [
        {},
        {"kept": (None, 1)},
        {"changed": (None, [1])},
        {"changed": ([1], [1, 2])},
        {"kept": (1, None)},
        {},
    ]


def test_a_moment_says_what_each_waiting_delivery_waits_for():
    """R3.10: a woken one, one that a breakpoint holds back and one that is tried again are in places of their own."""
    flow = spec(step("load", "Start", fans="Row"), step("work", "Row", num_workers=1))
    state, _ = begin(started(flow))
    state, _ = finish(state, "load", *(out("Row") for _ in range(3)), fan=True)
    for wait in (t.Await("m:Mail", question=out("Ask")), t.RunChild("m:Kid", out("Start"))):
        state, _ = reduce(state, says(state, "work", t.WaitOpened, n=-1, mark=1, wait=wait))
    moment = Moment(state, None, None)
    assert moment.waiting == {"work": ["Row: waits for Mail and asks Ask", "Row: waits for child run/3/1"]}
    state, _ = reduce(state, t.ChildFinished(1.0, 1, "completed"))
    woken = Moment(state, None, None)
    assert (woken.waiting, woken.queued) == ({"work": ["Row: waits for Mail and asks Ask"]}, {"work": ["Row"]})
    assert woken.running == {"work": ["Row"]}
    odd = Failure("m:Odd", "no")
    state, _ = reduce(state, says(state, "work", t.StepFailed, n=-1, failure=odd, retry_at=9.0))
    assert Moment(state, None, None).retrying == {"work": ["Row: attempt 1 failed with Odd"]}


def test_the_progress_of_a_moment_names_the_step_that_its_tick_completed():
    """R5.66."""
    run = Asks().run(n=5)
    wait_until(lambda: run.status == "waiting")
    assert run.now.progress == Progress(0, 1, "")
    run.answer(Verdict(ok=True))
    run.result(20)
    assert run.now.progress == Progress(1, 1, "ask")
    assert run.debug.at(1).progress == Progress(0, 1, "")
