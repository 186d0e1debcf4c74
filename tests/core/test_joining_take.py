"""Steps that take the first n of a fan-out, and what becomes of the other branches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flownb.core.commands import CloseRequest, DisarmTimer, StartStep, StopChild, StopStep
from flownb.core.invariants import broken
from flownb.core.reduce import reduce
from flownb.core.state import Path
from flownb.core.ticks import (
    Ask,
    Await,
    CancelRequested,
    EventArrived,
    EventsSent,
    HoldChanged,
    RequestAnswered,
    RunChild,
    RunOpened,
    Sleep,
    StepFailed,
    StepFinished,
    TimerFired,
    WaitOpened,
)
from flownb.core.values import Failure, Limit
from flownb.testing import event, feed, finish, out, says, spec, started, step
from flownb.testing.feed import key, started_of, work_of

ASK = event("Ask", answer="Reply")


def flow_of(*gathering, workers=None):
    return spec(
        step("begin", "Start", fans="A", num_workers=None),
        step("work", "A", ("B", "A", "Ask"), num_workers=workers),
        step("hears", "Reply", "B"),
        *gathering,
        types=(ASK,),
        stalled="wait",
    )


FIRST = flow_of(step("first", gathers="B", take=2, returns="Stop"))
RACE = flow_of(step("first", gathers="B", take=1, cancel_rest=True, returns="Stop"))


def fanned(flow, n=4):
    state, _ = feed(started(flow))
    return finish(state, "begin", *(out("A", i) for i in range(n)), fan=True)[0]


def gathered(commands):
    """(step, values) of each gathering step that a tick starts."""
    return [
        (c.delivery.step, [each.value for each in c.delivery.out])
        for c in commands
        if isinstance(c, StartStep) and isinstance(c.delivery.out, tuple)
    ]


def test_a_step_that_takes_the_first_n_fires_at_the_nth_arrival():
    """R4.16: ordered by branch, whoever was first; once."""
    state = fanned(FIRST)
    state, commands = finish(state, "work", out("B", 3), n=3)
    assert gathered(commands) == []
    state, commands = finish(state, "work", out("B", 1), n=1)
    assert gathered(commands) == [(3, [1, 3])]
    for _ in range(2):
        state, commands = finish(state, "work", out("B", 9))
        assert gathered(commands) == []
    assert len(state.joins) == 0


def test_after_it_has_fired_the_other_branches_go_on():
    """R4.17: what they still send to it is counted as not taken, not as unhandled."""
    state = fanned(FIRST)
    for n in range(2):
        state, _ = finish(state, "work", out("B", n))
    state, commands = finish(state, "work", out("B", 2))
    assert commands == ()
    assert (state.counts.untaken, state.unhandled) == (1, 0)
    state, _ = finish(state, "work", out("A", "round again"))
    state, _ = finish(state, "work", out("B"))
    assert (state.counts.untaken, len(state.joins)) == (2, 0)


def test_with_fewer_it_fires_at_the_close():
    """R4.16: with those, or with none; like any other join."""
    state = fanned(FIRST, 2)
    state, _ = finish(state, "work", out("B", 0))
    _, commands = finish(state, "work")
    assert gathered(commands) == [(3, [0])]
    state = fanned(FIRST, 1)
    assert gathered(finish(state, "work")[1]) == [(3, [])]
    state, _ = feed(started(FIRST))
    assert gathered(finish(state, "begin", fan=True)[1]) == [(3, [])]


def test_one_event_may_make_several_steps_full():
    """R4.11, R4.16: each of them fires, and the branches end if one of them wants that."""
    race = step("race", gathers="B", take=1, cancel_rest=True)
    flow = flow_of(step("x", gathers="B", take=1), race, step("all", gathers="B"))
    state = fanned(flow, 2)
    state, commands = finish(state, "work", out("B", 0))
    assert gathered(commands) == [(3, [0]), (4, [0]), (5, [0])]
    assert [c for c in commands if isinstance(c, StopStep)] == [StopStep(1, 3, 1)]
    assert len(state.joins) == 0


def test_several_events_of_one_branch_count():
    """R4.16, R4.10: sent and returned."""
    state = fanned(FIRST, 2)
    state, commands = feed(state, says(state, "work", EventsSent, outs=(out("B", "one"), out("B", "two"), out("B"))))
    assert gathered(commands) == [(3, ["one", "two"])]
    assert state.counts.untaken == 1
    state, _ = finish(state, "work")
    state, _ = finish(state, "work")
    assert len(state.joins) == 0


def test_it_fires_beside_a_join_that_waits_for_all():
    """R4.16: the other gathering steps get everything, in the outer branch both count."""
    flow = spec(
        step("outer", "Start", fans="X", num_workers=None),
        step("begin", "X", fans="A", num_workers=None),
        step("work", "A", "B", num_workers=None),
        step("first", gathers="B", take=1, returns="C"),
        step("all", gathers="B", returns="C"),
        step("end", gathers="C", returns="Stop"),
    )
    state, _ = finish(feed(started(flow))[0], "outer", out("X"), fan=True)
    state, _ = finish(state, "begin", out("A", 0), out("A", 1), fan=True)
    state, commands = finish(state, "work", out("B", 0))
    assert gathered(commands) == [(3, [0])]
    assert state.joins[1].pending == 2  # the first one's delivery, and the inner fan-out
    state, commands = finish(state, "first", out("C", "first"))
    assert gathered(commands) == []
    state, commands = finish(state, "work", out("B", 1))
    assert gathered(commands) == [(4, [0, 1])]
    _, commands = finish(state, "all", out("C", "all"))
    assert gathered(commands) == [(5, ["first", "all"])]


# The rest is cancelled


def test_a_race_ends_the_other_branches():
    """R4.18: running, queued, waiting; their code is stopped, the queue is empty, the join is over."""
    flow = flow_of(step("first", gathers="B", take=1, cancel_rest=True), workers=2)
    state = fanned(flow, 5)
    state, _ = feed(state, says(state, "work", WaitOpened, mark=1, wait=Sleep(50.0)))
    assert [d.id for d in work_of(state, "work").queue] == [5, 6]
    state, commands = finish(state, "work", out("B", "won"), n=1)

    assert commands == (
        StopStep(1, 4, 1),
        StopStep(1, 2, 1),
        DisarmTimer(1),
        StartStep(work_of(state, "first").active[7]),
    )
    work = work_of(state, "work")
    assert (len(work.queue), len(work.active), len(work.waiting), work.workers) == (0, 0, 0, 0)
    assert (state.busy, state.sleeps, len(state.joins)) == (1, 0, 0)
    assert (work.done, work.failed) == (1, 0)


def test_a_race_closes_what_the_other_branches_asked_and_started():
    """R4.18: asked and returned questions, waits for events, children, next attempts, holds; but not the winner's."""
    state = fanned(RACE, 7)
    waits = (
        Ask(out("Ask"), due_at=60.0),
        Await(key("Row"), due_at=70.0, question=out("Ask")),
        RunChild("test:other", out("Start")),
    )
    for n, wait in enumerate(waits):
        state, _ = feed(state, says(state, "work", WaitOpened, n=n, mark=1, wait=wait))
    state, _ = finish(state, "work", out("Ask", "returned", limit=Limit(80.0)), n=3)  # 5
    no = Failure("E", "no")
    state, _ = feed(state, says(state, "work", StepFailed, n=3, failure=no, retry_at=90.0))  # 6
    state, _ = feed(state, HoldChanged(0.0, 1, "a webhook", 7), HoldChanged(0.0, 2, "the winner's", 8))
    state, _ = feed(state, says(state, "work", WaitOpened, n=5, mark=1, wait=Ask(out("Ask", "the winner's"))))  # 8
    assert (len(state.requests), len(state.timers), state.sleeps) == (4, 4, 1)
    state, commands = feed(state, says(state, "work", EventsSent, n=5, outs=(out("B", "won"),)))

    assert commands[:-1] == (
        StopStep(1, 7, 1),
        StopStep(1, 2, 1),
        CloseRequest(1, "withdrawn"),
        DisarmTimer(1),
        StopStep(1, 3, 1),
        DisarmTimer(2),
        CloseRequest(2, "withdrawn"),
        StopStep(1, 4, 1),
        StopChild(1, "withdrawn"),
        DisarmTimer(4),
        CloseRequest(3, "withdrawn"),
        DisarmTimer(3),
    )
    assert gathered(commands) == [(3, ["won"])]
    assert (list(state.requests), len(state.timers), state.sleeps) == ([4], 0, 0)
    side = state.side
    assert (len(side.waiters), len(side.children), side.working, list(side.holds)) == (0, 0, 0, [2])
    assert [d.id for d in started_of(state, "work")] == [8]
    assert state.joins[1].pending == 1


def test_what_a_cancelled_branch_still_says_is_late():
    """R4.18, R3.19."""
    state = fanned(RACE)
    state, _ = finish(state, "work", out("B"))
    late, commands = feed(state, StepFinished(0.0, "work", 3, 1, (out("Stop"),)))
    assert (commands, late.ignored, late.status) == ((), 1, "running")


def test_the_winner_s_branch_goes_on():
    """R4.18, R4.17: it sent before it returned; the join ends with it."""
    state = fanned(RACE)
    state, commands = feed(state, says(state, "work", EventsSent, n=2, outs=(out("B", "won"),)))
    assert gathered(commands) == [(3, ["won"])]
    assert [d.id for d in started_of(state, "work")] == [4]
    state, _ = finish(state, "work", out("A", "more"))
    assert state.joins[1].pending == 1
    state, _ = finish(state, "work", out("B", "too late"))
    assert (state.counts.untaken, len(state.joins)) == (1, 0)


def test_a_race_of_the_elements_themselves_sends_no_more_of_them():
    """R4.18: those that were sent before are gone again, the others are never sent."""
    flow = spec(
        step("begin", "Start", fans=("A", "B", "Ask")),
        step("work", "A", "B"),
        step("first", gathers="B", take=2, cancel_rest=True),
        types=(ASK,),
    )
    state, _ = feed(started(flow))
    outs = [out("A", 0), out("B", 1), out("Ask", 2, limit=Limit(9.0)), out("B", 3), out("A", 4), out("B", 5)]
    state, commands = finish(state, "begin", *outs, fan=True)

    assert gathered(commands) == [(2, [1, 3])]
    assert [type(c).__name__ for c in commands] == [
        "OpenRequest", "Publish", "ArmTimer", "CloseRequest", "DisarmTimer", "StartStep",
    ]  # fmt: skip
    assert (len(state.joins), len(state.requests), len(state.timers), state.busy) == (0, 0, 0, 1)
    assert state.counts.untaken == 0


def test_a_race_of_elements_that_nobody_wins_waits_for_its_branches():
    """R4.16, R4.18: each element is paid for; the branches go on until one is first."""
    flow = spec(
        step("begin", "Start", fans=("A", "B")),
        step("work", "A", "B"),
        step("first", gathers="B", take=3, cancel_rest=True),
    )
    state, _ = feed(started(flow))
    state, commands = finish(state, "begin", out("A", 0), out("B", 1), out("A", 2), fan=True)
    assert gathered(commands) == []
    assert state.joins[1].pending == 2
    state, _ = finish(state, "work", out("B", 2), n=1)
    state, commands = finish(state, "work", out("B", 0))
    assert gathered(commands) == [(2, [0, 1, 2])]
    assert gathered(finish(feed(started(flow))[0], "begin", out("B", 1), fan=True)[1]) == [(2, [1])]
    assert gathered(finish(feed(started(flow))[0], "begin", fan=True)[1]) == [(2, [])]


def test_a_race_whose_element_ends_the_run_is_over():
    """R2.28: under unhandled="error" the first that nobody takes is the last."""
    flow = spec(
        step("begin", "Start", fans=("A", "B")),
        step("first", gathers="B", take=1, cancel_rest=True),
        unhandled="error",
    )
    state, _ = finish(feed(started(flow))[0], "begin", out("A"), out("B"), fan=True)
    assert state.status == "failed"


NESTED = spec(
    step("begin", "Start", fans="A", num_workers=None),
    step("split", "A", ("D",), fans="B", num_workers=None),
    step("work", "B", "C", num_workers=None),
    step("inner", gathers="C", returns="D", num_workers=None),
    step("race", gathers="D", take=1, cancel_rest=True, returns="Stop"),
    stalled="wait",
)


def nested():
    """Three outer branches, each split in two: works 0 to 5."""
    state, _ = finish(feed(started(NESTED))[0], "begin", *(out("A", n) for n in range(3)), fan=True)
    for n in range(3):
        state, _ = finish(state, "split", out("B", 2 * n), out("B", 2 * n + 1), fan=True)
    return state


def test_a_race_ends_inner_fan_outs_of_the_other_branches():
    """R4.18, R4.12: with all that lives in them."""
    state = nested()
    state, _ = finish(state, "work", out("C"), n=2)
    state, commands = finish(state, "work", out("C"), n=2)
    assert gathered(commands) == [(3, [None, None])]
    assert list(state.joins) == [1, 2, 4]
    state, commands = finish(state, "inner", out("D", "won"))

    assert [c.delivery for c in commands if isinstance(c, StopStep)] == [5, 6, 9, 10]
    assert gathered(commands) == [(4, ["won"])]
    assert (len(state.joins), state.busy) == (0, 1)


def test_a_race_inside_a_branch_leaves_the_outer_branches_alone():
    """R4.18: the inner one ends its own."""
    flow = spec(
        step("begin", "Start", fans="A", num_workers=None),
        step("split", "A", fans="B", num_workers=None),
        step("work", "B", "C", num_workers=None),
        step("race", gathers="C", take=1, cancel_rest=True, returns="D", num_workers=None),
        step("outer", gathers="D", returns="Stop"),
    )
    state, _ = finish(feed(started(flow))[0], "begin", out("A", 0), out("A", 1), fan=True)
    for n in range(2):
        state, _ = finish(state, "split", out("B", n), out("B", n), fan=True)
    state, commands = finish(state, "work", out("C", "a"))
    assert [c.delivery for c in commands if isinstance(c, StopStep)] == [5]
    assert [d.path.join for d in started_of(state, "work")] == [3, 3]
    assert started_of(state, "race")[0].path == Path(1, 0)
    state, _ = finish(state, "race", out("D", 0))
    state, _ = finish(state, "work", out("C", "b"), n=1)
    _, commands = finish(state, "race", out("D", 1))
    assert gathered(commands) == [(4, [0, 1])]


def test_a_race_ends_starts_that_breakpoints_hold_back_and_ids_that_stand_in_line():
    """R4.18, R5.25, R3.63: held, lost and due, due attempts, woken: none of them starts later."""
    flow = flow_of(step("first", gathers="B", take=1, cancel_rest=True), workers=2)
    state = fanned(flow, 6)
    state, _ = feed(state, says(state, "work", WaitOpened, mark=1, wait=Sleep(5.0)))  # 2; 3 and 4 run
    state, _ = feed(state, RunOpened(1.0, "another"))
    state, _ = feed(state, TimerFired(5.0, 1))  # 2 starts again when there is room
    state, _ = feed(state, StepFinished(5.0, "work", 3, 2, (), held=(2,)))  # a breakpoint holds it
    assert list(state.side.held) == [2]
    state, _ = feed(state, says(state, "work", StepFailed, n=1, failure=Failure("E", "no"), retry_at=5.0))  # 4 again
    state, commands = feed(state, StepFinished(6.0, "work", 4, 3, (out("B", "won"),)))

    assert gathered(commands) == [(3, ["won"])]
    assert (len(state.side.held), state.busy, len(state.joins)) == (0, 1, 0)
    work = work_of(state, "work")
    assert (len(work.queue), len(work.active), len(work.waiting)) == (0, 0, 0)
    state, commands = feed(state, EventArrived(7.0, out("A", "outside")))
    assert [c.delivery.out.value for c in commands] == ["outside"]


def test_a_race_that_empties_a_slow_queue_leaves_a_harmless_timer():
    """R3.4, R4.18: it fires and starts nothing; an end of the run before takes it away."""
    flow = spec(
        step("begin", "Start", fans="A"),
        step("work", "A", "B", rate=0.1),
        step("first", gathers="B", take=1, cancel_rest=True),
        step("tidy", "Cancelled", on_cancel=True),
    )
    state = fanned(flow, 3)
    state, _ = finish(state, "work", out("B"))
    assert [timer.kind for timer in state.timers.values()] == ["rate"]
    assert (len(work_of(state, "work").queue), state.sleeps) == (0, 1)
    fired, commands = feed(state, TimerFired(10.0, 1))
    assert (commands, fired.sleeps) == ((), 0)
    ended, commands = feed(state, CancelRequested(1.0, out=out("Cancelled")))
    assert DisarmTimer(1) in commands
    assert (ended.status, ended.sleeps) == ("cancelling", 0)


def test_an_answer_may_win_a_race():
    """R4.18, R4.14: a returned question's branch, whose answer is gathered."""
    flow = spec(
        step("begin", "Start", fans=("A", "Ask")),
        step("work", "A", "Reply"),
        step("first", gathers="Reply", take=1, cancel_rest=True),
        types=(ASK,),
    )
    state, _ = finish(feed(started(flow))[0], "begin", out("Ask", 0), out("A", 1), out("Ask", 2), fan=True)
    state, commands = feed(state, RequestAnswered(1.0, 2, out("Reply", "won")))
    assert commands[:3] == (CloseRequest(2, "answered"), StopStep(1, 2, 1), CloseRequest(1, "withdrawn"))
    assert gathered(commands) == [(2, ["won"])]
    assert len(state.joins) == 0


@given(st.lists(st.tuples(st.integers(0, 20), st.sampled_from(["ends", "wins", "loops", "sends", "fails", "sleeps"]))))
def test_a_race_keeps_its_account_whatever_happens(plan):
    """R4.12, R4.18, R4.22: tokens, busy and sleeps agree after every tick, and at the end every join has fired."""
    state = nested()
    mark = 100
    for n, what in plan:
        alive = [d for name in ("work", "inner", "race") for d in started_of(state, name)]
        if not alive or state.status != "running":
            break
        d = alive[n % len(alive)]
        name = state.spec.steps[d.step].name
        at = (state.at, name, d.id, d.start)
        mark += 1
        sent = {"work": "C", "inner": "D", "race": "X"}[name]
        ticks = {
            "ends": StepFinished(*at),
            "wins": StepFinished(*at, (out("D"),)),
            "loops": StepFinished(*at, (out(sent),)),
            "sends": EventsSent(*at, (out(sent), out("D"))),
            "fails": StepFailed(*at, Failure("E", "no"), state.at + 5.0),
            "sleeps": WaitOpened(*at, mark, Sleep(state.at + 3.0)),
        }
        state, _ = reduce(state, ticks[what])
        assert broken(state) == []
    for _ in range(200):
        alive = [(state.spec.steps[d.step].name, d) for s in state.steps for d in s.active.values()]
        if alive:
            name, d = alive[0]
            state, _ = reduce(state, StepFinished(state.at, name, d.id, d.start))
        elif state.timers.n:
            state, _ = reduce(state, TimerFired(state.at, next(iter(state.timers))))
        else:
            break
        assert broken(state) == []
    assert (len(state.joins), state.busy, state.sleeps) == (0, 0, 0)


@pytest.mark.parametrize("cancel_rest", [True, False])
def test_a_first_one_survives_a_lost_driver(cancel_rest):
    """R1.7: how many came is in the state."""
    flow = flow_of(step("first", gathers="B", take=2, cancel_rest=cancel_rest))
    state = fanned(flow)
    state, _ = finish(state, "work", out("B", 0))
    state, _ = feed(state, RunOpened(1.0, "another"))
    _, commands = finish(state, "work", out("B", 1))
    assert gathered(commands) == [(3, [0, 1])]


def test_lost_work_that_a_race_ended_leaves_its_place_to_others():
    """R4.18, R3.63: it stood in line to start again."""
    flow = flow_of(step("first", gathers="B", take=1, cancel_rest=True), workers=1)
    state = fanned(flow, 3)
    state, _ = feed(state, says(state, "work", WaitOpened, mark=1, wait=Sleep(5.0)))  # 2 sleeps, 3 runs
    state, _ = feed(state, RunOpened(1.0, "another"), TimerFired(5.0, 1))
    assert list(work_of(state, "work").again) == [2]
    state, commands = finish(state, "work", out("B", "won"), n=1)
    assert gathered(commands) == [(3, ["won"])]
    assert (list(work_of(state, "work").again), state.busy) == ([], 1)
    _, commands = feed(state, EventArrived(7.0, out("A", "outside")))
    assert [c.delivery.out.value for c in commands] == ["outside"]
