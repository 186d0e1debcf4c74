"""What a failed step leads to: another attempt, a handler, a join that counts with it, or the run's end."""

import pytest

from flownb.core.commands import ArmTimer, DisarmTimer, FinishRun, Publish, StartStep, StopChild, WakeStep
from flownb.core.outstanding import is_quiet, outstanding
from flownb.core.state import Delivery, Ended, Outcome, Timer, Tries
from flownb.core.ticks import (
    Ask,
    Await,
    CancelRequested,
    HoldChanged,
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
from flownb.testing import event, feed, finish, out, says, spec, started, step
from flownb.testing.feed import started_of, work_of

NO = Failure("builtins:ValueError", "no", "Traceback ...")
ASK = event("Ask", answer="Reply")
FLOW = spec(step("begin", "Start", fans="A"), step("work", "A", "Stop", num_workers=1), types=(ASK,))


def running(n=2, flow=FLOW):
    """Step "work", one worker, has been sent A(0) to A(n-1), at 1."""
    return finish(feed(started(flow, at=1.0))[0], "begin", *(out("A", i) for i in range(n)), fan=True)[0]


def fails(state, step="work", *, n=0, failure=NO, **fields):
    """The n-th oldest delivery of a step fails."""
    return feed(state, says(state, step, StepFailed, n=n, failure=failure, **fields))


def waits(state, wait, *, mark=1, n=0, at=None):
    return feed(state, says(state, "work", WaitOpened, n=n, mark=mark, wait=wait, at=at))


def starts(commands):
    """(delivery, attempt, start) of what a tick starts."""
    return [(c.delivery.id, c.delivery.attempt, c.delivery.start) for c in commands if isinstance(c, StartStep)]


# Another attempt


def test_a_delayed_attempt_is_a_timer_in_the_state():
    """R3.26, R3.28, R3.34, R1.8: as the tick says; it holds no worker, so the next in the queue starts."""
    state, commands = fails(running(), at=5.0, retry_at=65.0)

    timer = Timer(1, 65.0, "retry", ref=2, step=1)
    assert commands == (ArmTimer(timer), StartStep(work_of(state, "work").active[3]))
    assert work_of(state, "work").waiting[2] == Delivery(
        2, 1, out("A", 0), 2, 5.0, start=1, gone=True, chain=2, rank=2, tries=Tries(1.0, 0.0, 1, 65.0, NO)
    )
    assert ArmTimer(timer) in outstanding(state)
    assert (state.sleeps, state.busy, state.steps[1].failed) == (1, 1, 0)


def test_a_due_attempt_goes_ahead_of_the_queue():
    """R3.29, R3.17: with the next attempt and start number; its first attempt began when it did."""
    state, _ = fails(running(3), at=5.0, retry_at=65.0)
    state, commands = feed(state, TimerFired(65.0, 1))
    assert commands == ()  # delivery 3 has the only worker
    assert (state.sleeps, state.busy) == (0, 3)
    state, commands = finish(state, "work", n=1)

    assert starts(commands) == [(2, 2, 2)]
    assert commands[0].delivery.tries == Tries(1.0, 0.0, 0, 0.0, NO)
    assert [d.id for d in work_of(state, "work").queue] == [4]


def test_an_attempt_that_is_due_at_once_needs_no_timer():
    """R3.29: a delay of nothing; it takes its own worker again, ahead of the queue."""
    state, commands = fails(running(), at=5.0, retry_at=5.0)

    assert starts(commands) == [(2, 2, 2)]
    assert len(commands) == 1
    assert (len(state.timers), state.sleeps, state.busy) == (0, 0, 2)


def test_a_run_with_an_attempt_to_come_is_not_quiet():
    """R3.28, R5.33."""
    state, _ = fails(running(1), retry_at=65.0)
    assert not is_quiet(state)
    after, commands = feed(state, QuietNoticed(1.0))
    assert (commands, after.ignored, after.status) == ((), 1, "running")


def test_a_delayed_attempt_survives_a_lost_driver():
    """R3.28, R1.7: its timer is armed again, its count and the time of its first attempt stay."""
    state, _ = fails(running(1), at=5.0, retry_at=65.0)
    state, commands = feed(state, RunOpened(9.0, "another"))
    assert commands == ()
    assert outstanding(state) == (ArmTimer(Timer(1, 65.0, "retry", 2, 1)),)
    state, commands = feed(state, TimerFired(70.0, 1))

    assert starts(commands) == [(2, 2, 2)]
    state, _ = fails(state, at=71.0, retry_at=100.0)
    state, commands = feed(state, TimerFired(100.0, 2))
    assert starts(commands) == [(2, 3, 3)]
    assert commands[0].delivery.tries.first_at == 1.0


def test_due_attempts_start_in_the_order_in_which_they_became_due():
    """R3.63: woken waits, then crashed deliveries in the old order, then due retries by due time."""
    flow = spec(step("begin", "Start", fans="A"), step("work", "A", num_workers=3))
    state = running(7, flow)  # 2, 3 and 4 run
    state, _ = fails(state, at=1.0, retry_at=30.0)  # 2
    state, _ = fails(state, n=1, at=2.0, retry_at=20.0)  # 3; 4, 5 and 6 run
    state, _ = waits(state, Sleep(10.0), n=2, at=2.0)  # 4; 5, 6 and 7 run
    state, _ = feed(state, TimerFired(10.0, 3), TimerFired(20.0, 2), TimerFired(30.0, 1))
    assert (list(work_of(state, "work").front), list(work_of(state, "work").again)) == ([4], [3, 2])
    state, commands = feed(state, RunOpened(40.0, "another"))

    assert [d for d, _, _ in starts(commands)] == [4, 5, 6]
    assert list(work_of(state, "work").again) == [7, 3, 2]
    started_later = []
    for _ in range(3):
        state, commands = feed(state, StepFinished(41.0, "work", *_oldest_running(state)))
        started_later += [d for d, _, _ in starts(commands)]
    assert started_later == [7, 3, 2]


def _oldest_running(state):
    d = next(d for d in started_of(state, "work") if d.worker >= 0)
    return d.id, d.start


def test_an_attempt_that_became_due_keeps_its_place_when_the_driver_is_lost():
    """R3.63: it was woken, then failed while it waited for a worker: it is a due retry from then on, once."""
    state, _ = waits(running(3), Sleep(10.0))  # 2 sleeps, 3 runs, 4 is queued
    state, _ = waits(state, Sleep(99.0), mark=2)  # another task of 2 sleeps on
    state, _ = feed(state, TimerFired(10.0, 1))
    state, _ = fails(state, at=11.0, retry_at=11.0)  # 2 is due already
    state, commands = feed(state, RunOpened(12.0, "another"))

    assert starts(commands) == [(3, 1, 2)]
    assert list(work_of(state, "work").again) == [2]
    state, commands = finish(state, "work", n=1)
    assert starts(commands) == [(2, 2, 2)]
    state, commands = finish(state, "work", n=0)
    assert starts(commands) == [(4, 1, 1)]
    assert (state.sleeps, state.busy) == (0, 1)


def test_a_failed_attempt_keeps_its_waits_for_the_next_one():
    """R3.51, R4.29: but its children end with it (R6.27), and nobody answers its code any more."""
    state, _ = waits(running(1), Ask(out("Ask", "?")), mark=1)
    state, _ = waits(state, RunChild("test:other", out("Start")), mark=2)
    state, _ = waits(state, Sleep(40.0), mark=3)
    state, commands = fails(state, at=1.0, retry_at=50.0)
    assert commands == (StopChild(1, "withdrawn"), ArmTimer(Timer(2, 50.0, "retry", 2, 1)))
    assert (len(state.requests), state.side.working, len(state.side.children), state.sleeps) == (1, 0, 0, 2)
    assert next(iter(work_of(state, "work").waiting[2].ledger.did)) == Ended(2, Outcome("cancelled"))
    state, commands = feed(state, RequestAnswered(2.0, 1, out("Reply", "yes")))
    assert [type(c).__name__ for c in commands] == ["CloseRequest"]  # the next attempt is not due
    state, commands = feed(state, TimerFired(40.0, 1))
    assert commands == ()
    state, commands = feed(state, TimerFired(50.0, 2))

    assert starts(commands) == [(2, 2, 2)]
    again = commands[0].delivery
    outcomes = {entry.mark: entry.outcome for entry in again.ledger.did if isinstance(entry, Ended)}
    assert outcomes == {2: Outcome("cancelled"), 1: Outcome("answered", out("Reply", "yes")), 3: Outcome("slept")}
    assert len(again.waits) == 0


def test_a_wait_that_ends_while_the_next_attempt_is_due_starts_nothing_twice():
    """R3.48: it stands in line once."""
    state, _ = waits(running(2), Sleep(40.0))  # 2 sleeps, 3 has the worker
    state, _ = fails(state, at=1.0, retry_at=1.0)
    assert list(work_of(state, "work").again) == [2]
    state, commands = feed(state, TimerFired(40.0, 1))
    assert commands == ()
    assert (list(work_of(state, "work").again), state.busy) == ([2], 2)
    state, commands = finish(state, "work", n=1)
    assert starts(commands) == [(2, 2, 2)]
    assert finish(state, "work")[1] == ()


def test_the_time_that_people_take_is_left_out_of_a_policys_clock():
    """R3.31: two answers, one after the other; not what it ran, slept or waited for a worker meanwhile."""
    state, _ = waits(running(2), Ask(out("Ask", "first")), at=10.0)  # 3 runs
    state, _ = waits(state, Ask(out("Ask", "second")), mark=2, at=10.0)
    state, _ = feed(state, RequestAnswered(30.0, 1, out("Reply")))  # 2 waits for the worker
    assert work_of(state, "work").waiting[2].tries.asked_s == 20.0
    state, _ = feed(state, RequestAnswered(50.0, 2, out("Reply")))
    assert work_of(state, "work").waiting[2].tries.asked_s == 20.0
    state, _ = finish(state, "work", n=1, at=60.0)
    state, _ = waits(state, Ask(out("Ask", "third")), mark=3, at=70.0)
    state, _ = waits(state, Sleep(75.0), mark=4, at=70.0)
    state, _ = feed(state, TimerFired(75.0, 1))  # it runs
    state, _ = feed(state, RequestAnswered(99.0, 3, out("Reply")))
    assert work_of(state, "work").active[2].tries.asked_s == 20.0
    state, _ = waits(state, Ask(out("Ask", "fourth")), mark=5, at=100.0)
    state, _ = fails(state, at=110.0, retry_at=200.0)
    state, _ = feed(state, RequestAnswered(150.0, 4, out("Reply")))

    assert work_of(state, "work").waiting[2].tries == Tries(1.0, 20.0, 2, 200.0, NO)


def test_a_failed_attempt_is_late_from_then_on():
    """R3.18, R3.19: what its code still says counts only as ignored."""
    state, _ = fails(running(1), retry_at=65.0)
    late = StepFinished(1.0, "work", 2, 1, (out("Stop"),))
    after, commands = feed(state, late)
    assert (commands, after.ignored, after.status) == ((), 1, "running")
    again, _ = feed(after, TimerFired(65.0, 1), late)
    assert (again.ignored, again.status) == (2, "running")


def test_a_cancel_stops_retries():
    """R5.49."""
    state, _ = fails(running(1), retry_at=65.0)
    state, commands = feed(state, CancelRequested(1.0))
    assert DisarmTimer(1) in commands
    assert (len(state.timers), state.sleeps, state.status) == (0, 0, "cancelled")


def test_what_an_attempt_held_open_ends_with_it():
    """R5.38: its block is over; that of another step goes on."""
    state, _ = feed(running(2, spec(step("begin", "Start", fans="A"), step("work", "A"))))
    state, _ = feed(state, HoldChanged(1.0, 1, "a webhook", 2), HoldChanged(1.0, 2, "another", 3))
    state, _ = fails(state, retry_at=65.0)
    assert list(state.side.holds) == [2]
    state, _ = fails(state, n=1, retry_at=1.0)
    assert list(state.side.holds) == []


# For good: handlers


def caught(*handlers, gathers=(), **options):
    """begin fans out to "work", whose failures go to these steps; "other" fails by itself."""
    return spec(
        step("begin", "Start", "X", fans="A"),
        step("work", "A", ("B", "A")),
        step("other", "X"),
        step("sum", gathers=("B", *gathers)),
        *handlers,
        **options,
    )


ALL = step("rescue", "Failed", "B", catches=(), max_recoveries=1)
SCOPED = step("mend", "Failed", ("B", "A"), catches="work", max_recoveries=2)


def test_a_failure_for_good_fails_the_run_with_its_own_words():
    """R3.35, R3.42: one tick, step failure and run failure."""
    state, commands = fails(running(1))

    assert commands == (Publish("failed", None, 1, {"type": NO.type, "message": NO.message}, 2), FinishRun())
    assert (state.failure, state.failed_step, state.end.failed_delivery) == (NO, 1, 2)


def test_a_failure_is_routed_to_the_step_that_takes_it():
    """R3.36, R1.36: in the same tick, as the event that the tick carries; the run goes on."""
    flow = spec(step("begin", "Start", "A"), step("work", "A"), step("told", "Failed", "Stop"))
    state, _ = finish(feed(started(flow))[0], "begin", out("A"))
    state, commands = fails(state, failed=out("Failed", "why"))

    handler = Delivery(
        3, 2, out("Failed", "why"), 3, 0.0, start=1, worker=0, chain=3, rank=1, tries=Tries(recovered=((2, 1),))
    )
    assert commands == (StartStep(handler),)
    assert (state.steps[1].failed, state.status) == (1, "running")


def test_a_handler_that_names_the_step_goes_before_those_for_all():
    """R3.36, R3.37: all that take any failure get those of the other steps."""
    flow = caught(ALL, SCOPED, step("logs", "Failed"))
    state, _ = feed(started(flow))
    state, _ = finish(state, "begin", out("X"))
    state, commands = fails(state, "other", failed=out("Failed"))
    assert [flow.steps[c.delivery.step].name for c in commands] == ["rescue", "logs"]

    state, _ = finish(feed(started(flow))[0], "begin", out("A"), fan=True)
    _, commands = fails(state, failed=out("Failed"))
    assert [flow.steps[c.delivery.step].name for c in commands] == ["mend"]


def test_the_budget_of_a_handler_counts_along_the_chain_of_causes():
    """R3.38: twice in one chain; a chain beside it has its own budget; then the run fails with the last failure."""
    state, _ = finish(feed(started(caught(SCOPED)))[0], "begin", out("A", "one"), out("A", "other"), fan=True)
    for _ in range(2):
        place = [d.out.value for d in started_of(state, "work")].index("one")
        state, _ = fails(state, n=place, failed=out("Failed"))
        state, _ = finish(state, "mend", out("A", "one"))
    assert started_of(state, "work")[0].out.value == "other"
    beside, _ = fails(state, n=0, failed=out("Failed"))
    assert beside.status == "running"
    ended, _ = fails(state, n=1, failed=out("Failed"))

    assert (ended.status, ended.failure, ended.failed_step) == ("failed", NO, 1)


def test_a_budget_may_be_without_a_limit():
    """R3.37: max_recoveries=None."""
    flow = caught(step("mend", "Failed", "A", catches="work"))
    state, _ = finish(feed(started(flow))[0], "begin", out("A"), fan=True)
    for _ in range(5):
        state, _ = fails(state, failed=out("Failed"))
        state, _ = finish(state, "mend", out("A"))
    assert state.steps[1].active[12].tries.recovered == ((4, 5),)


def test_a_handlers_own_failure_fails_the_run():
    """R3.39: whoever else takes failures, and whatever a join would gather."""
    state, _ = finish(feed(started(caught(ALL, gathers=("Failed",))))[0], "begin", out("A"), fan=True)
    state, _ = fails(state, failed=out("Failed", "first"))
    state, commands = fails(state, "rescue", failed=out("Failed", "second"))

    assert (state.status, state.failure, state.failed_step) == ("failed", NO, 4)
    assert [type(c) for c in commands] == [Publish, FinishRun]


def test_a_step_that_joins_failures_is_no_handler():
    """R3.36, R3.39: what it fails with goes to the handlers like any other failure."""
    flow = spec(
        step("begin", "Start", fans="A"),
        step("work", "A", "B"),
        step("sum", gathers=("B", "Failed")),
        step("rescue", "Failed", catches="sum"),
    )
    state, _ = finish(feed(started(flow))[0], "begin", out("A"), fan=True)
    state, _ = fails(state, failed=out("Failed", "in a branch"))
    state, commands = fails(state, "sum", failed=out("Failed", "of the join"))

    assert state.status == "running"
    assert [(c.delivery.step, c.delivery.out.value) for c in commands] == [(3, "of the join")]


def test_a_failure_that_nobody_takes_fails_the_run():
    """R3.40: with the step's error, if no join is above."""
    flow = spec(step("begin", "Start", "A"), step("work", "A"))
    state, _ = finish(feed(started(flow))[0], "begin", out("A"))
    state, _ = fails(state, failed=out("Failed"))
    assert (state.status, state.failure, state.failed_step, state.end.failed_delivery) == ("failed", NO, 1, 2)


def test_a_handler_that_takes_two_events_gets_both():
    """R3.36, R4.77: the failure waits for its partner."""
    flow = spec(
        step("begin", "Start", "A", fans="B"),
        step("work", "A"),
        step("pair", slots=("Failed", "B"), catches=()),
    )
    state, _ = finish(feed(started(flow))[0], "begin", out("A"))
    state, commands = fails(state, failed=out("Failed", "why"))
    assert commands == ()
    state, _ = feed(state, StepFailed(1.0, "work", 2, 1, NO))  # late
    assert state.ignored == 1

    state, _ = finish(feed(started(flow))[0], "begin", out("A"), out("B", 1), fan=True)
    state, commands = fails(state, failed=out("Failed", "why"))
    assert [c.delivery.out for c in commands] == [(out("Failed", "why"), out("B", 1))]


def test_a_failure_without_a_handler_says_which_join_would_miss_it():
    """R4.21, R3.40: at once, with the step's error as its cause and its traceback."""
    state, _ = finish(feed(started(caught()))[0], "begin", out("A", 0), out("A", 1), fan=True)
    state, _ = fails(state, n=1, failed=out("Failed"))

    assert (state.status, state.failed_step, state.end.failed_delivery) == ("failed", 1, 3)
    assert state.failure == Failure(
        "flownb.errors:JoinIncomplete",
        "Element 1 of the list that step 'begin' returned failed in step 'work' (ValueError: no), and nobody takes its "
        "StepFailedEvent: sum would miss it. Catch it with @catch_error, or gather list[... | StepFailedEvent].",
        "Traceback ...",
    )


def test_a_join_whose_steps_have_fired_is_named_too():
    """R4.21: a branch that goes on after `Take` and fails is no silent hole either."""
    flow = spec(
        step("begin", "Start", fans="A"), step("work", "A", "B"), step("first", gathers="B", take=1, returns="Stop")
    )
    state, _ = finish(feed(started(flow))[0], "begin", out("A", 0), out("A", 1), fan=True)
    state, _ = finish(state, "work", out("B"))
    state, _ = fails(state, failed=out("Failed"))
    assert state.failure.type == "flownb.errors:JoinIncomplete"
    assert "its join would miss it" in state.failure.message


def test_a_join_may_gather_failures():
    """R4.20: the failure stands in the place of its branch."""
    state, _ = finish(feed(started(caught(gathers=("Failed",))))[0], "begin", *map(_a, range(3)), fan=True)
    state, _ = finish(state, "work", out("B", 2), n=2)
    state, _ = fails(state, n=1, failed=out("Failed", 1))
    _, commands = finish(state, "work", out("B", 0))

    assert [c.delivery.out for c in commands] == [(out("B", 0), out("Failed", 1), out("B", 2))]


def _a(n):
    return out("A", n)


def test_what_a_handler_returns_takes_the_place_of_the_branch():
    """R4.19, R4.22: the join waits for it, and gets no failure beside it from a handler of that step."""
    state, _ = finish(feed(started(caught(SCOPED, gathers=("Failed",))))[0], "begin", _a(0), _a(1), fan=True)
    state, _ = fails(state, n=0, failed=out("Failed", 0))
    state, commands = finish(state, "work", out("B", 1))
    assert commands == ()
    _, commands = finish(state, "mend", out("B", "mended"))

    assert [c.delivery.out for c in commands] == [(out("B", "mended"), out("B", 1))]


def test_a_handler_for_all_and_a_join_both_get_a_failure():
    """R3.36: "every step that takes it"; the branch lives on in the handler."""
    state, _ = finish(feed(started(caught(ALL, gathers=("Failed",))))[0], "begin", _a(0), fan=True)
    state, commands = fails(state, failed=out("Failed", 0))
    assert [c.delivery.step for c in commands] == [4]
    _, commands = finish(state, "rescue", out("B", "rescued"))

    assert [c.delivery.out for c in commands] == [(out("Failed", 0), out("B", "rescued"))]


def test_a_failure_of_a_join_is_in_the_outer_branch():
    """R3.36, R4.12: the budget that its branches used counts along."""
    flow = spec(
        step("begin", "Start", fans="A"),
        step("work", "A", "B"),
        step("sum", gathers="B", returns="A"),
        step("rescue", "Failed", "B", catches=(), max_recoveries=1),
    )
    state, _ = finish(feed(started(flow))[0], "begin", _a(0), _a(1), fan=True)
    state, _ = fails(state, n=0, failed=out("Failed", 0))
    state, _ = finish(state, "rescue", out("B"))
    state, _ = finish(state, "work", out("B"))  # the branch without a failure is the last one
    assert state.steps[2].active[5].tries == Tries(recovered=((3, 1),))
    state, _ = fails(state, "sum", failed=out("Failed", "too much"))

    assert (state.status, state.failed_step) == ("failed", 2)


def test_a_failure_wakes_no_more_than_it_should():
    """R3.36: a failed delivery's open waits are withdrawn, its holds end; the handler gets the failure alone."""
    flow = caught(ALL)
    state, _ = finish(feed(started(flow))[0], "begin", _a(0), fan=True)
    state, _ = waits(state, Sleep(40.0))
    state, _ = feed(state, HoldChanged(1.0, 1, "a webhook", 2))
    state, commands = fails(state, failed=out("Failed"))

    assert [type(c) for c in commands] == [DisarmTimer, StartStep]
    assert (state.sleeps, len(state.side.holds)) == (0, 0)


@pytest.mark.parametrize("retry_at", [None, 9.0])
def test_a_failure_that_comes_late_is_ignored(retry_at):
    """R3.19, R1.4: of a delivery that is gone, of a start that is over, of a step that nobody knows."""
    state, _ = finish(running(1), "work")
    for tick in (
        StepFailed(1.0, "work", 2, 1, NO, retry_at),
        StepFailed(1.0, "work", 99, 1, NO, retry_at),
        StepFailed(1.0, "nowhere", 2, 1, NO, retry_at),
    ):
        after, commands = feed(state, tick)
        assert (commands, after.ignored, after.steps) == ((), 1, state.steps)


def test_a_woken_delivery_that_fails_is_not_woken_any_more():
    """R3.18: the outcome that it was owed stays in its ledger, for the next attempt."""
    state, _ = waits(running(2), Sleep(10.0))
    state, _ = waits(state, Sleep(99.0), mark=2)
    state, _ = feed(state, TimerFired(10.0, 1))
    state, _ = fails(state, at=11.0, retry_at=12.0)
    assert work_of(state, "work").waiting[2].wakes is None
    state, commands = finish(state, "work", n=1)
    assert commands == ()
    state, commands = feed(state, TimerFired(12.0, 3))

    assert starts(commands) == [(2, 2, 2)]
    assert not any(isinstance(c, WakeStep) for c in commands)
    assert Ended(1, Outcome("slept")) in list(commands[0].delivery.ledger.did)


def test_a_handler_that_wakes_another_step_hands_its_budget_on():
    """R3.38: what it sent is one of the causes of what the woken step does from then on."""
    flow = spec(
        step("begin", "Start", fans=("A", "X")),
        step("work", "A"),
        step("waits", "X", waits=True),
        step("rescue", "Failed", "Row", catches=(), max_recoveries=1),
    )
    state, _ = finish(feed(started(flow, at=1.0))[0], "begin", out("A"), out("X"), fan=True)
    state, _ = feed(state, says(state, "waits", WaitOpened, mark=1, wait=Await("test:Row")))
    state, _ = fails(state, failed=out("Failed"))
    state, _ = finish(state, "rescue", out("Row"))
    assert started_of(state, "waits")[0].tries == Tries(1.0, recovered=((3, 1),))
    state, _ = fails(state, "waits", failed=out("Failed"))
    assert (state.status, state.failed_step) == ("failed", 2)
