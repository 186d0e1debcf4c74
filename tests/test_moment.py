"""A run as it was after one tick."""

from flownb import Context, Event, StopEvent, Workflow
from tests.polling import wait_until
from tests.runtime.flows import Approve, Asks, Begin, Verdict


class Row(Event):
    no: int


def test_a_moment_of_a_run_that_asks():
    run = Asks().run(n=5)
    wait_until(lambda: run.status == "waiting")
    moment = run.now
    assert moment.requests == [(1, "ask", Approve(no=5))]
    assert (moment.queued, moment.running, moment.waiting) == ({}, {}, {"ask": ["Begin"]})
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
