"""A live run takes newer definitions: steps are known by name, whatever their places."""

import pytest
from msgspec.structs import replace

from flownb.core.adopting import homeless
from flownb.core.commands import DisarmTimer, Publish, StartStep, WakeStep
from flownb.core.outstanding import is_quiet
from flownb.core.reduce import reduce
from flownb.core.spec import link
from flownb.core.ticks import (
    Ask,
    Await,
    ChildFinished,
    DefinitionAdopted,
    EventArrived,
    GateClosed,
    GateOpened,
    QuietNoticed,
    RequestAnswered,
    RunChild,
    RunOpened,
    Sleep,
    StepFailed,
    StepFinished,
    TimerFired,
    WaitOpened,
)
from flownb.core.values import Failure
from flownb.events import Event
from flownb.testing import event, feed, finish, out, says, spec, started, step
from flownb.testing.feed import key, started_of, work_of


class Row(Event):
    n: int = 0


ASK = event("Ask", answer="Reply")
NO = Failure("E", "no")
STEPS = (
    step("begin", "Start", fans="A"),
    step("work", "A", ("B", "A"), num_workers=2),
    step("rescue", "Failed", "B", catches="work", max_recoveries=1),
    step("sum", gathers="B", returns="Stop"),
)
FLOW = spec(*STEPS, types=(ASK,), stalled="wait")


def adopts(state, *steps, at=50.0, **options):
    return feed(state, DefinitionAdopted(at, spec(*steps, types=(ASK,), **{"stalled": "wait", **options})))


def fanned(n=4, flow=FLOW):
    return finish(feed(started(flow))[0], "begin", *(out("A", i) for i in range(n)), fan=True)[0]


def waits(state, wait, *, n=0, mark=1):
    return feed(state, says(state, "work", WaitOpened, n=n, mark=mark, wait=wait))[0]


def names(state, commands):
    return [(type(c).__name__, state.spec.steps[c.delivery.step].name) for c in commands if hasattr(c, "delivery")]


def test_everything_that_names_a_step_gets_its_new_place():
    """R2.23, R1.7: deliveries, timers, requests, waiters, children, joins, held starts; then all goes on."""
    state = fanned(7)
    state = waits(state, Ask(out("Ask"), due_at=60.0))  # 2
    state = waits(state, Await(key("Row"), {"n": out("Value", 1)}, 70.0), n=1)  # 3
    state = waits(state, RunChild("test:other", out("Start")), n=2)  # 4
    state, _ = feed(state, says(state, "work", StepFailed, n=3, failure=NO, retry_at=80.0))  # 5
    state, _ = feed(state, StepFinished(1.0, "work", 6, 1, (out("B", 4),), held=(8,)))  # 7 runs, 8 is held
    state, commands = adopts(state, step("new", "Other"), *reversed(STEPS))

    assert commands == ()
    assert [s.name for s in state.spec.steps] == ["new", "sum", "rescue", "work", "begin"]
    assert [d.id for d in started_of(state, "work")] == [2, 3, 4, 5, 7, 8]
    assert {d.step for d in started_of(state, "work")} == {3}
    assert state.joins[1].source == 4
    assert [t.step for t in state.joins[1].targets] == [1]
    assert dict(state.side.held.items()) == {8: 3}
    state, commands = feed(state, GateOpened(51.0, "breakpoint"))
    assert names(state, commands) == [("StartStep", "work")]
    state, commands = feed(state, ChildFinished(52.0, 1, "completed", out("Stop")))
    assert commands == ()  # 7 and 8 have the workers
    state, commands = finish(state, "work", out("B", 6), n=5)
    assert [(type(c), c.delivery.id, c.delivery.worker) for c in commands] == [(WakeStep, 4, 0)]
    for tick in (RequestAnswered(53.0, 1, out("Reply")), EventArrived(53.0, out("Row", Row(n=1))), TimerFired(80.0, 3)):
        state, _ = feed(state, tick)
    for _ in range(5):
        running = min(work_of(state, "work").active)
        state, commands = feed(state, StepFinished(81.0, "work", running, 1 + (running == 5), (out("B", running),)))
    assert names(state, commands) == [("StartStep", "sum")]
    assert [o.value for o in commands[0].delivery.out] == [2, 3, 4, 5, 4, 7, 6]


def test_what_waits_is_resolved_in_its_new_place():
    """R2.23, R4.31: by answer, by event, by deadline."""
    state = fanned(2)
    state = waits(state, Ask(out("Ask")))
    state = waits(state, Await(key("Row"), due_at=70.0), n=1)
    state = waits(state, Sleep(80.0), n=1, mark=2)
    state, _ = adopts(state, step("new", "Other"), *reversed(STEPS))
    _, commands = feed(state, RequestAnswered(51.0, 1, out("Reply")))
    assert [(c.delivery.id, c.delivery.step) for c in commands if isinstance(c, WakeStep)] == [(2, 3)]
    for tick in (EventArrived(52.0, out("Row")), TimerFired(70.0, 1), TimerFired(80.0, 2)):
        _, commands = feed(state, tick)
        assert [(c.delivery.id, c.delivery.step) for c in commands if isinstance(c, WakeStep)] == [(3, 3)]


def test_a_budget_that_was_used_stays_used():
    """R3.38, R2.23: of deliveries, of open joins and of open questions, by the handler's new place."""
    steps = (*STEPS[:2], step("rescue", "Failed", ("B", "Ask"), catches="work", max_recoveries=1), STEPS[3])
    state = fanned(3, spec(*steps, step("hears", "Reply", "A"), types=(ASK,), stalled="wait"))
    for n in range(3):
        state, _ = feed(state, says(state, "work", StepFailed, failure=NO, failed=out("Failed", n)))
    state, _ = finish(state, "rescue", out("Ask"))
    state, _ = finish(state, "rescue", out("B"))
    assert state.joins[1].recovered == ((2, 1),)
    state, _ = adopts(state, step("hears", "Reply", "A"), *reversed(steps))
    assert [d.tries.recovered for d in started_of(state, "rescue")] == [((2, 1),)]
    assert state.requests[1].recovered == ((2, 1),)
    assert state.joins[1].recovered == ((2, 1),)
    moved, _ = adopts(state, step("hears", "Reply", "A"), *steps)
    assert moved.requests[1].recovered == ((3, 1),)
    state, _ = feed(state, RequestAnswered(51.0, 1, out("Reply")))
    state, _ = finish(state, "hears", out("A"))
    state, _ = feed(state, says(state, "work", StepFailed, failure=NO, failed=out("Failed")))
    assert state.status == "failed"


def test_a_handler_that_is_gone_counts_no_more():
    """R2.23, R3.38."""
    state = fanned(1)
    state, _ = feed(state, says(state, "work", StepFailed, failure=NO, failed=out("Failed")))
    state, _ = finish(state, "rescue", out("A"))
    assert started_of(state, "work")[0].tries.recovered == ((2, 1),)
    state, _ = adopts(state, STEPS[0], STEPS[1], STEPS[3])
    assert started_of(state, "work")[0].tries.recovered == ()


def test_later_deliveries_go_by_the_new_definitions():
    """R2.23: routes, workers."""
    _, commands = adopts(fanned(), STEPS[0], step("work", "A", "B", num_workers=None), STEPS[2], STEPS[3])
    assert [c.delivery.id for c in commands if isinstance(c, StartStep)] == [4, 5]
    fewer, commands = adopts(fanned(), STEPS[0], step("work", "A", "B", num_workers=1), STEPS[2], STEPS[3])
    assert commands == ()
    fewer, commands = finish(fewer, "work", out("B"))
    assert commands == ()
    _, commands = finish(fewer, "work", out("B"))
    assert [c.delivery.id for c in commands] == [4]


def test_new_takers_get_what_the_mailbox_holds():
    """R2.30, R2.23: in order; the rest stays, addressed ones for their step."""
    waiter = step("waits", "X", waits=True)
    flow = spec(*STEPS, waiter, types=(ASK,), stalled="wait")
    state, _ = finish(feed(started(flow))[0], "begin")
    mail = (out("Later", 1), out("Other"), out("Later", 2))
    state, _ = feed(state, *(EventArrived(1.0, each) for each in mail), EventArrived(1.0, out("Later", 3), "waits"))
    state, commands = adopts(state, *STEPS, waiter, step("hears", "Later", num_workers=None))
    assert [c.delivery.out.value for c in commands] == [1, 2]
    assert list(state.mailbox) == [out("Other"), out("Later", 3)]
    hears = step("hears", "Later", num_workers=None)
    _, commands = adopts(state, *STEPS, step("waits", ("X", "Later"), waits=True), hears)
    assert [(c.delivery.out.value, c.delivery.step) for c in commands] == [(3, 4)]


@pytest.mark.parametrize("what", ["queued", "running", "waiting", "fanned out", "paired", "paired in a branch"])
def test_a_definition_without_a_place_for_work_is_refused(what):
    """R6.44, R1.10: never a tick; the door asks first."""
    pair = step("pair", slots=("A", "P"), num_workers=1)
    flow = spec(*STEPS, step("other", ("O", "P")), pair, types=(ASK,), stalled="wait")
    state, _ = feed(started(flow))
    if what == "fanned out":
        state, _ = finish(state, "begin", out("A"), fan=True)
        gone = "begin"
    elif what == "paired in a branch":
        state, _ = finish(state, "begin", out("P"), fan=True)
        gone = "pair"
    elif what == "paired":
        state, _ = feed(state, EventArrived(1.0, out("P")))
        gone = "pair"
    else:
        state, _ = finish(state, "begin", *(out("O") for _ in range(5)), fan=True)
        gone = "other"
        if what == "waiting":
            state, _ = feed(state, says(state, "other", WaitOpened, mark=1, wait=Sleep(99.0)))
        for _ in range(0 if what == "queued" else 4):
            if work_of(state, "other").active.n > (what == "running"):
                busy = next(iter(work_of(state, "other").active.values()))
                state, _ = feed(state, StepFinished(1.0, "other", busy.id, busy.start))
    rest = spec(*(s for s in flow.steps if s.name != gone), types=(ASK,))
    assert homeless(state, rest) == [gone]
    with pytest.raises(ValueError, match=f"The new definition has no place for the work of {gone}."):
        reduce(state, DefinitionAdopted(2.0, rest))
    assert homeless(state, flow) == []


def test_a_step_that_pairs_otherwise_is_no_place_for_what_waits_there():
    """R6.44, R4.77: its parameters are others now; without a set that waits they may be."""
    pair = step("pair", slots=("A", "P"))
    flow = spec(*STEPS, pair, stalled="wait")
    state, _ = feed(started(flow))
    wider = spec(*STEPS, step("pair", slots=("A", "P", "Q")))
    assert homeless(state, wider) == []
    state, _ = feed(state, EventArrived(1.0, out("P")))
    assert homeless(state, wider) == ["pair"]


def test_a_step_without_work_may_go():
    """R2.23: what it was to gather is taken by nobody then."""
    state = fanned(2)
    state, _ = finish(state, "work", out("B", 0))
    state, _ = adopts(state, *STEPS[:3])
    assert (state.joins[1].targets, len(state.joins[1].got)) == ((), 0)
    state, commands = finish(state, "work", out("B", 1))
    assert [c.what for c in commands] == ["unhandled"]
    assert len(state.joins) == 0


def test_an_open_fan_out_gathers_for_the_steps_that_it_began_with():
    """R2.23, R4.11: another list step that the new definition adds fires in later ones only."""
    state = fanned(2)
    state, _ = adopts(state, *STEPS, step("also", gathers="B"))
    state, _ = finish(state, "work", out("B", 0))
    state, commands = finish(state, "work", out("B", 1))
    assert names(state, commands) == [("StartStep", "sum")]

    state = fanned(1)
    state, _ = adopts(state, step("begin", "Start", fans="X"), *STEPS[1:])
    assert state.spec.joins[0] == ()
    state, commands = finish(state, "work", out("B", 0))
    assert names(state, commands) == [("StartStep", "sum")]
    assert state.unhandled == 0


def test_a_smaller_take_fires_with_what_came():
    """R4.16, R2.23: in the tick that makes it enough."""
    first = step("sum", gathers="B", take=3)
    state = fanned(4, spec(*STEPS[:3], first, types=(ASK,), stalled="wait"))
    for n in range(2):
        state, _ = finish(state, "work", out("B", n))
    state, commands = adopts(state, *STEPS[:3], replace(first, take=2))
    assert [[o.value for o in c.delivery.out] for c in commands] == [[0, 1]]
    assert state.joins[1].targets == ()


def test_a_slow_step_that_is_gone_takes_its_timer_with_it():
    """R3.4, R2.23: its queue was emptied by a race."""
    flow = spec(
        step("begin", "Start", fans="A"),
        step("work", "A", "B", rate=0.1),
        step("first", gathers="B", take=1, cancel_rest=True),
        step("other", "O"),
        stalled="wait",
    )
    state, _ = finish(feed(started(flow))[0], "begin", out("A"), out("A"), fan=True)
    state, _ = finish(state, "work", out("B"))
    assert state.sleeps == 1
    state, commands = feed(state, DefinitionAdopted(1.0, spec(flow.steps[0], *flow.steps[2:], stalled="wait")))
    assert DisarmTimer(1) in commands
    assert (state.sleeps, len(state.timers)) == (0, 0)


def test_a_step_that_is_slow_no_more_starts_its_queue():
    """R3.4, R2.23: and the timer that still runs does no harm."""
    flow = spec(step("begin", "Start", fans="A"), step("work", "A", rate=0.1), stalled="wait")
    state, _ = finish(feed(started(flow))[0], "begin", *(out("A") for _ in range(3)), fan=True)
    state, commands = feed(state, DefinitionAdopted(1.0, spec(flow.steps[0], step("work", "A"), stalled="wait")))
    assert [c.delivery.id for c in commands] == [3, 4]
    state, commands = feed(state, TimerFired(10.0, 1))
    assert (commands, state.sleeps, work_of(state, "work").timer) == ((), 0, 0)


def test_a_waiting_run_is_quiet_anew():
    """R5.34, R5.40: it may wait for something else now, or be stalled."""
    flow = spec(step("begin", "Start"), step("hears", "Order"), outside="Order")
    state, _ = finish(feed(started(flow))[0], "begin")
    state, _ = feed(state, QuietNoticed(1.0), GateClosed(2.0))
    assert state.status == "waiting"
    state, _ = feed(state, DefinitionAdopted(3.0, spec(flow.steps[0])), GateOpened(4.0))
    assert is_quiet(state)
    state, commands = feed(state, QuietNoticed(5.0))
    assert state.failure.type == "flownb.errors:WorkflowStalled"
    assert Publish("failed", None, -1, {"type": state.failure.type, "message": state.failure.message}) in commands


def test_a_lost_driver_after_it_goes_on_with_the_new_definitions():
    """R2.23, R1.20: the tick holds them."""
    state, _ = adopts(fanned(2), *reversed(STEPS))
    state, commands = feed(state, RunOpened(60.0, "another"))
    assert names(state, commands) == [("StartStep", "work")] * 2
    assert state.spec == link(state.spec)
