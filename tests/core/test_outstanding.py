"""What a run owes, and what it waits for, from its state alone."""

from flownb.core.commands import ArmTimer, FinishRun, OpenRequest, StartStep
from flownb.core.outstanding import describe, outstanding, waits_for, why_stalled
from flownb.core.ticks import Ask, CancelRequested, EventArrived, RunOpened, Sleep, WaitOpened
from flownb.testing import event, feed, finish, out, says, spec, started, step

FLOW = spec(
    step("begin", "Start", fans="A"),
    step("work", "A", "Stop", num_workers=3),
    types=(event("Ask", answer="Reply"),),
)


def test_a_new_driver_gets_every_start_timer_and_question():
    """R1.7, R1.8, R1.15, R3.60: what is queued waits for a worker, what waits for its timer or answer."""
    state, _ = finish(feed(started(FLOW))[0], "begin", *(out("A", n) for n in range(6)), fan=True)
    state, _ = feed(state, says(state, "work", WaitOpened, mark=1, wait=Sleep(30.0)))
    state, _ = feed(state, says(state, "work", WaitOpened, n=1, mark=1, wait=Ask(out("Ask"), 60.0)))
    state, commands = feed(state, RunOpened(9.0, "another"))

    assert [c.delivery.id for c in commands] == [4, 5, 6]
    assert outstanding(state) == (
        *commands,
        *(ArmTimer(timer) for timer in state.timers.values()),
        *(OpenRequest(request) for request in state.requests.values()),
    )
    assert len(outstanding(state)) == 6
    assert all(isinstance(c, StartStep) for c in commands)


def test_an_ended_run_owes_its_end():
    """R1.18: again and again, which is safe."""
    state, _ = feed(started(FLOW), CancelRequested(0.0))
    assert outstanding(state) == (FinishRun(),)


def test_a_run_says_who_can_move_it():
    """R5.34, R5.39: open questions, the outside's own too, and types that come from outside."""
    flow = spec(step("begin", "Start", "Ask"), step("x", "Order"), step("y", "Order"), outside="Order")
    state, _ = finish(feed(started(flow))[0], "begin", out("Ask"))
    state, _ = feed(state, EventArrived(1.0, out("AskMore")))

    assert waits_for(state) == [
        "begin asks Ask (request 1)",
        "the start asks AskMore (request 2)",
        "x takes Order from outside",
        "y takes Order from outside",
    ]


def test_a_stalled_run_says_why():
    """R5.36: the unhandled event, the mailbox, steps never reached; or that all is done without a stop."""
    state, _ = feed(started(FLOW))
    assert why_stalled(state) == "never reached: begin, work"
    state, _ = finish(state, "begin", out("Lost"))
    state, _ = feed(state, EventArrived(1.0, out("Later")), EventArrived(1.0, out("Latest")))
    assert why_stalled(state) == (
        "no step took the last Lost; the mailbox holds Later, Latest, which nobody waits for; never reached: work"
    )
    done, _ = finish(feed(started(spec(step("begin", "Start"))))[0], "begin")
    assert why_stalled(done) == "every step is done and none returned a StopEvent"


def test_a_delivery_is_named_by_what_it_carries():
    """One event, a list of events, an empty list."""
    assert [describe(o) for o in (out("m:A"), (out("m:A"), out("m:B")), ())] == ["A", "2 × A", "[]"]
