"""A run as it was after one tick."""

from random import Random

from msgspec.structs import replace

from flownb import Context, Event, StopEvent, Workflow
from flownb.core import ticks as t
from flownb.core.history import History
from flownb.core.progress import Progress
from flownb.core.reduce import begin, reduce
from flownb.core.values import Failure
from flownb.moment import Moment
from flownb.notebook.viewmodel import Projection
from flownb.testing.drive import drive
from flownb.testing.feed import finish, out, says, spec, started, step
from flownb.testing.plan import OPS, Plan
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


def test_a_moment_tells_what_its_tick_did_and_how_each_step_stands():
    """PANEL §2: the words of the panel."""
    run = Asks().run(n=5)
    wait_until(lambda: run.status == "waiting")
    assert (run.now.steps, run.debug.at(1).steps) == ({"ask": "person"}, {"ask": "running"})
    asked = next(seq for seq, tick in enumerate(run.debug.ticks, 1) if isinstance(tick, t.WaitOpened))
    assert run.debug.at(asked).told == "ask asks a person: Approve(no=5)"
    run.answer(Verdict(ok=True))
    run.result(20)
    assert (run.now.steps, run.debug.at(asked).steps) == ({"ask": "done"}, {"ask": "person"})
    assert run.now.told == "ask finished with StopEvent(result=True): the run is completed"
    assert Moment(run._runner.state, None, None).told.startswith("tick ")


def test_a_moment_knows_what_led_to_it_and_what_it_led_to():
    """PANEL §4: cause and effects, as numbers of ticks; effects as far as they have come."""
    run = Asks().run(n=5)
    wait_until(lambda: run.status == "waiting")
    kinds = {type(tick): seq for seq, tick in enumerate(run.debug.ticks, 1)}
    asked = kinds[t.WaitOpened]
    assert (run.debug.at(1).causes, run.debug.at(asked).causes) == ((), (1,))
    assert (run.debug.at(1).effects, run.debug.at(asked).effects) == ((asked,), ())
    run.answer(Verdict(ok=True))
    run.result(20)
    answered = next(seq for seq, tick in enumerate(run.debug.ticks, 1) if isinstance(tick, t.RequestAnswered))
    assert run.debug.at(asked).effects == (answered,)
    assert run.debug.at(answered).causes == (asked,)
    assert run.debug.at(1).effects == (asked, run.now.seq)
    assert (Moment(run._runner.state, None, None).causes, Moment(run._runner.state, None, None).effects) == ((), ())


def test_a_past_moment_says_that_it_is_a_view_and_that_nobody_knows_what_waited():
    """Back is a view, never an undo."""
    run = Asks().run(n=5)
    wait_until(lambda: run.status == "waiting")
    now, past = run.now, run.debug.at(1)
    assert (now.is_past, past.is_past) == (False, True)
    assert repr(past) == (
        "<Moment 1 (a look back: nothing is undone): the run begins with Begin(n=5): ask gets it and starts; "
        "running, running ask 1>"
    )
    assert "look back" not in repr(now)
    assert past.inbox == () and repr(past.inbox).startswith("<not known: ")
    assert repr(now.inbox) == "()"
    run.cancel().result(20)


def test_a_moment_before_the_first_tick_has_not_begun():
    state, _ = begin(started(spec(step("load", "Start"))))
    moment = Moment(replace(state, seq=0), None, None)
    assert (moment.told, moment.causes, moment.effects, moment.admitted) == ("the run has not begun", (), (), ())


def test_the_words_of_a_moment_are_those_of_the_panel_at_every_tick():
    """One function says how a step stands, whether it is asked tick by tick or once."""
    plan = Plan(1, ("send",), many=(Plan(2, OPS), Plan(3, ("first of two", "collect"), many=(Plan(4, asks=True),))))
    for seed in range(6):
        run = drive(plan, Random(seed).randrange)
        state, _ = begin(run.ticks[0])
        projection = Projection(state)
        for passed in History(run.ticks).walk():
            projection.apply(*passed)
            shown = {node.id: word for node, (word, *_) in zip(projection.graph.nodes, projection.nodes, strict=True)}
            steps = Moment(passed.after, passed.before, passed.tick).steps
            assert steps == {name: shown[name] for name in steps}
