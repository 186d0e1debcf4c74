"""What running steps do: results, failures, sends, writes; workers; and what comes late."""

import pytest

from flownb.core.commands import ArmTimer, FinishRun, Publish, StartStep, StopStep, WakeStep
from flownb.core.outstanding import is_quiet, outstanding
from flownb.core.persist import Chain, Names
from flownb.core.state import Abandoned, Delivery, Did, Ledger, Timer, user_value
from flownb.core.ticks import (
    EventArrived,
    EventsSent,
    RunOpened,
    Sleep,
    StateWritten,
    StepFailed,
    StepFinished,
    StreamRewound,
    StreamWritten,
    TimerFired,
    ValueRecorded,
    WaitOpened,
    WaitWithdrawn,
)
from flownb.core.values import Failure
from flownb.testing import feed, finish, out, says, spec, started, step
from flownb.testing.feed import started_of


def running(*, workers=1, **options):
    """A run whose step "work" has been sent A(0), A(1), A(2)."""
    flow = spec(step("begin", "Start", fans="A"), step("work", "A", ("A", "Stop"), num_workers=workers), **options)
    return finish(feed(started(flow))[0], "begin", *(out("A", n) for n in range(3)), fan=True)


def test_a_step_has_so_many_workers_and_the_rest_queues():
    """R3.8: at most `num_workers` are active; first in, first out."""
    state, commands = running(workers=2)

    assert commands == tuple(
        StartStep(Delivery(n + 2, 1, out("A", n), 2, 0.0, start=1, worker=n, chain=2, rank=n + 2)) for n in range(2)
    )
    assert [d.out.value for d in state.steps[1].queue] == [2]
    state, commands = finish(state, "work")
    assert [(c.delivery.out.value, c.delivery.worker) for c in commands] == [(2, 0)]


def test_without_a_limit_nothing_queues():
    """R3.8, R3.3: num_workers=None."""
    state, commands = running(workers=None)
    assert [c.delivery.worker for c in commands] == [0, 1, 2]
    assert len(state.steps[1].queue) == 0


def test_a_delivery_gets_the_smallest_free_worker():
    """R3.9."""
    state, _ = running(workers=3)
    state, _ = finish(state, "work", n=1)
    _, commands = finish(state, "work", out("A", 9), n=1)

    assert [c.delivery.worker for c in commands] == [1]


def test_what_is_queued_goes_before_what_the_tick_sends():
    """R3.8: first in, first out also within one tick."""
    state, _ = running()
    _, commands = finish(state, "work", out("A", 9))

    assert [c.delivery.out.value for c in commands] == [1]


def test_a_free_worker_takes_the_rest_of_what_a_tick_sends():
    """R3.8: some of what arrives starts, the others queue behind."""
    state, _ = running(workers=4)
    state, commands = finish(state, "work", out("A", 7), out("A", 8), out("A", 9), fan=True)

    assert [c.delivery.out.value for c in commands] == [7, 8]
    assert [d.out.value for d in state.steps[1].queue] == [9]


def test_a_step_that_returns_none_sends_nothing():
    """R2.17."""
    state, _ = feed(started(spec(step("begin", "Start"))))
    state, commands = finish(state, "begin")

    assert commands == ()
    assert (state.busy, state.steps[0].done, state.next_delivery) == (0, 1, 2)


def test_a_stop_ends_the_run():
    """R2.35, R2.41, R2.42, R2.46: its own tick is the last one; what it cuts off is stopped and listed."""
    state, _ = running(workers=2)
    state, commands = finish(state, "work", out("Stop", 42))

    assert commands == (StopStep(1, 3, 1), Publish("stop", out("Stop", 42), 1), FinishRun())
    assert (state.status, state.result) == ("completed", out("Stop", 42))
    assert state.abandoned == (Abandoned(1, 3, "running"), Abandoned(1, 4, "queued"))


def test_a_stop_that_is_sent_ends_the_run_and_its_sender():
    """R2.39."""
    state, _ = running()
    state, commands = feed(state, says(state, "work", EventsSent, outs=(out("Stop", 1), out("A"), out("Stop", 2))))

    assert commands == (StopStep(1, 2, 1), Publish("stop", out("Stop", 1), 1), FinishRun())
    assert state.result == out("Stop", 1)


def test_a_stop_in_a_list_wins_over_its_other_elements():
    """R2.40: with or without a join."""
    flow = spec(step("begin", "Start", ("Stop",), fans="A"), step("a", "A", "B"), step("sum", gathers="B"))
    state, commands = finish(feed(started(flow))[0], "begin", out("A"), out("Stop", 1), out("A"), fan=True)
    assert commands == (Publish("stop", out("Stop", 1), 0), FinishRun())
    assert state.next_delivery == 2

    state, _ = finish(running()[0], "work", out("A", 5), out("Stop", 1), out("Stop", 2), fan=True)
    assert state.result == out("Stop", 1)
    assert state.abandoned == (Abandoned(1, 3, "queued"), Abandoned(1, 4, "queued"))

    strict = spec(step("begin", "Start", ("Stop",), fans="Lost"), unhandled="error")
    state, _ = finish(feed(started(strict))[0], "begin", out("Lost"), out("Stop", 1), fan=True)
    assert (state.status, state.unhandled) == ("completed", 0)


def test_a_run_that_failed_in_a_list_takes_no_more_of_it():
    """R2.28, R2.43: unhandled="error" ends it at the first element."""
    joined = spec(step("begin", "Start", fans="A"), step("a", "A", "B"), step("sum", gathers="B"), unhandled="error")
    state, commands = finish(feed(started(joined))[0], "begin", out("Lost"), out("A"), fan=True)
    assert [c.what for c in commands if isinstance(c, Publish)] == ["unhandled", "failed"]
    assert state.next_delivery == 2

    state, _ = running(unhandled="error")
    state, commands = feed(state, says(state, "work", EventsSent, outs=(out("Lost"), out("A"))))
    assert [c.what for c in commands if isinstance(c, Publish)] == ["unhandled", "failed"]


def test_a_failed_step_fails_the_run_in_one_tick():
    """R3.35, R3.42: words, never the live exception."""
    state, _ = running(workers=2)
    failure = Failure("builtins:ValueError", "no such row", "Traceback ...")
    state, commands = feed(state, says(state, "work", StepFailed, failure=failure))

    assert commands == (
        StopStep(1, 3, 1),
        Publish("failed", None, 1, {"type": "builtins:ValueError", "message": "no such row"}, 2),
        FinishRun(),
    )
    assert (state.status, state.failure, state.failed_step) == ("failed", failure, 1)
    assert state.steps[1].failed == 1


def test_what_a_step_does_is_in_its_ledger():
    """R3.46, R3.47, R3.52, R3.55, R3.57: sends and values with content and attempt, of writes how many there were."""
    state, _ = running()
    state, commands = feed(state, says(state, "work", StreamWritten, out=out("A", "shown")))
    assert commands == (Publish("event", out("A", "shown"), 1, {}, 2),)
    state, commands = feed(state, says(state, "work", StateWritten, changes={"n": out("Value", 1)}))
    assert commands == ()
    state, _ = feed(state, says(state, "work", EventsSent, outs=(out("A", 9),), target="work"))
    state, commands = feed(state, says(state, "work", ValueRecorded, name="now", out=out("Value", 5)))
    assert commands == ()

    sent = Did("send", 5, 1, out("A", 9), "work")
    once = Did("once", 6, 1, out("Value", 5), "now")
    assert state.steps[1].active[2].ledger == Ledger(Chain.of([sent, once]), writes=1, streams=1)
    assert [d.out.value for d in state.steps[1].queue] == [1, 2, 9]


def test_a_step_writes_the_users_state():
    """R6.5: top-level names; the state before is as it was."""
    before, _ = running()
    written, _ = feed(before, says(before, "work", StateWritten, changes={"a": out("Value", 1), "b": out("Value", 2)}))
    state, _ = feed(
        written, says(written, "work", StateWritten, changes={"a": out("Value", 3)}, dropped=("b", "never there"))
    )

    assert before.user == Names()
    assert written.user == Names.of([("a", out("Value", 1)), ("b", out("Value", 2))])
    assert state.user == Names.of([("a", out("Value", 3))])
    assert user_value(state, "a") == 3


def late(state, step, kind, **fields):
    return kind(at=state.at, step=step, delivery=2, start=1, **fields)


LATE = [
    (StepFinished, {"outs": (out("Stop"),)}),
    (StepFailed, {"failure": Failure("E", "zombie")}),
    (EventsSent, {"outs": (out("Stop"),)}),
    (StreamWritten, {"out": out("A")}),
    (StreamRewound, {}),
    (StateWritten, {"changes": {"a": out("Value", 1)}}),
    (ValueRecorded, {"name": "now", "out": out("Value", 1)}),
    (WaitOpened, {"mark": 1, "wait": Sleep(5.0)}),
    (WaitWithdrawn, {"mark": 1}),
]


@pytest.mark.parametrize(("kind", "fields"), LATE)
@pytest.mark.parametrize("why", ["it finished", "it was started again", "it waits to be started again", "no such step"])
def test_what_is_late_changes_nothing_but_a_count(kind, fields, why):
    """R3.18, R3.19: only the live start of a delivery counts; zombies finish no runs."""
    state, _ = running(workers=1)
    if why == "it finished":
        state, _ = finish(state, "work")
    elif why == "it was started again":
        state, _ = feed(state, RunOpened(0.0, "another"))
    elif why == "it waits to be started again":
        state, _ = feed(state, says(state, "work", WaitOpened, mark=7, wait=Sleep(9.0)), RunOpened(0.0, "another"))
    tick = late(state, "gone" if why == "no such step" else "work", kind, **fields)
    after, commands = feed(state, tick)

    assert commands == ()
    assert (after.ignored, after.seq) == (state.ignored + 1, state.seq + 1)
    for name in ("steps", "status", "user", "requests", "timers", "busy", "sleeps", "result"):
        assert getattr(after, name) == getattr(state, name)


# What runs again


def test_a_stream_that_is_written_again_is_void():
    """R3.54: from the top; how many writes that were is said, and counted anew."""
    state, _ = running()
    for n in range(2):
        state, _ = feed(state, says(state, "work", StreamWritten, out=out("A", n)))
    state, _ = feed(state, RunOpened(1.0, "another"))
    state, commands = feed(state, says(state, "work", StreamRewound))
    assert commands == (Publish("rewound", None, 1, {"written": 2}, 2),)
    assert state.steps[1].active[2].ledger == Ledger(Chain(), streams=0)
    state, _ = feed(state, says(state, "work", StreamWritten, out=out("A", 0)))
    assert state.steps[1].active[2].ledger.streams == 1


def test_a_ledger_lives_until_its_delivery_ends():
    """R3.47, R3.48: through a lost driver and another attempt, and not beyond."""
    state, _ = running()
    state, _ = feed(state, says(state, "work", EventsSent, outs=(out("A", 9),)), RunOpened(1.0, "another"))
    failed = says(state, "work", StepFailed, failure=Failure("E", "no"), retry_at=1.0)
    state, commands = feed(state, failed)
    d = commands[0].delivery
    assert (d.id, d.attempt, d.start) == (2, 2, 3)
    assert d.ledger == Ledger(Chain.of([Did("send", 3, 1, out("A", 9))]))
    state, _ = finish(state, "work")
    assert not any(d.ledger for d in started_of(state, "work"))


def test_a_step_that_waits_or_is_due_may_write_send_and_record():
    """R4.25: its other tasks go on while one of them waits."""
    state, _ = running()
    state, _ = feed(state, says(state, "work", WaitOpened, mark=1, wait=Sleep(5.0)))
    for tick, fields in (
        (EventsSent, {"outs": (out("A", 9),)}),
        (StreamWritten, {"out": out("A")}),
        (StateWritten, {"changes": {"a": out("Value", 1)}}),
        (ValueRecorded, {"name": "now", "out": out("Value", 1)}),
        (StreamRewound, {}),
    ):
        state, _ = feed(state, says(state, "work", tick, **fields))
    d = state.steps[1].waiting[2]
    assert [entry.kind for entry in d.ledger.did] == ["once", "send", "sleep"]
    assert (d.ledger.writes, d.ledger.streams, d.ledger.marks, state.ignored) == (1, 0, 1, 0)
    assert [d.out.value for d in state.steps[1].queue] == [2, 9]


# A rate


SLOW = spec(step("begin", "Start", fans="A"), step("work", "A", rate=0.5, num_workers=None))


def test_a_rate_limits_starts_per_second():
    """R3.4, R1.8: the next one waits for its moment, which is a timer in the state; first in, first out."""
    state, commands = finish(feed(started(SLOW, at=10.0))[0], "begin", *(out("A", n) for n in range(3)), fan=True)
    timer = Timer(1, 12.0, "rate", 0, 1)
    assert commands == (StartStep(state.steps[1].active[2]), ArmTimer(timer))
    assert (state.sleeps, is_quiet(state), outstanding(state)[-1]) == (1, False, ArmTimer(timer))
    state, commands = feed(state, TimerFired(12.0, 1))
    assert [(type(c), c.delivery.id) for c in commands[:1]] == [(StartStep, 3)]
    assert commands[1:] == (ArmTimer(Timer(2, 14.0, "rate", 0, 1)),)
    state, commands = feed(state, TimerFired(15.0, 2))
    assert [c.delivery.id for c in commands] == [4]
    assert (state.sleeps, state.steps[1].ready_at) == (0, 17.0)


def test_a_rate_counts_starts_and_not_ends():
    """R3.4: a free worker is not enough; after its moment a delivery starts at once."""
    state, _ = finish(feed(started(SLOW, at=10.0))[0], "begin", out("A"), fan=True)
    state, _ = finish(state, "work", at=11.0)
    state, commands = feed(state, EventArrived(11.0, out("A")))
    assert commands == (ArmTimer(Timer(1, 12.0, "rate", 0, 1)),)
    state, _ = feed(state, TimerFired(12.0, 1))
    _, commands = feed(state, EventArrived(99.0, out("A")))
    assert [type(c) for c in commands] == [StartStep]


def test_a_rate_that_waits_arms_one_timer():
    """R3.4: whatever comes meanwhile; it is still too early if the timer is fired by hand."""
    state, _ = finish(feed(started(SLOW, at=10.0))[0], "begin", out("A"), out("A"), fan=True)
    state, commands = feed(state, EventArrived(11.0, out("A")))
    assert (commands, state.sleeps) == ((), 1)
    state, commands = feed(state, TimerFired(11.0, 1))
    assert commands == (ArmTimer(Timer(2, 12.0, "rate", 0, 1)),)
    assert state.sleeps == 1


def test_code_that_goes_on_needs_no_moment_and_next_attempts_do():
    """R3.4, R3.63: a woken delivery is no start; a due attempt goes ahead of the queue."""
    state, _ = finish(feed(started(SLOW, at=10.0))[0], "begin", *(out("A", n) for n in range(3)), fan=True)
    state, _ = feed(state, says(state, "work", WaitOpened, mark=1, wait=Sleep(10.5)))
    state, commands = feed(state, TimerFired(10.5, 2))
    assert [type(c) for c in commands] == [WakeStep]
    state, commands = feed(state, says(state, "work", StepFailed, failure=Failure("E", "no"), retry_at=10.5))
    assert commands == ()
    assert list(state.steps[1].again) == [2]
    state, commands = feed(state, TimerFired(12.0, 1))
    assert [(c.delivery.id, c.delivery.attempt) for c in commands[:1]] == [(2, 2)]


def test_a_rate_keeps_workers_within_their_limit():
    """R3.4, R3.8: both hold."""
    flow = spec(step("begin", "Start", fans="A"), step("work", "A", rate=100.0, num_workers=1))
    state, commands = finish(feed(started(flow, at=10.0))[0], "begin", out("A"), out("A"), fan=True)
    assert [type(c) for c in commands] == [StartStep]
    state, commands = finish(state, "work", at=11.0)
    assert [c.delivery.id for c in commands] == [3]


def test_a_lost_driver_starts_slow_work_slowly():
    """R3.4, R3.60: its moment is in the state, and its timer armed again."""
    state, _ = finish(feed(started(SLOW, at=10.0))[0], "begin", *(out("A", n) for n in range(3)), fan=True)
    state, _ = feed(state, TimerFired(12.0, 1), RunOpened(20.0, "another"))
    assert sorted(state.steps[1].active) == [2]
    assert list(state.steps[1].again) == [3]
    assert state.steps[1].ready_at == 22.0
    state, commands = feed(state, TimerFired(22.0, state.steps[1].timer))
    assert [c.delivery.id for c in commands if isinstance(c, StartStep)] == [3]


def test_ids_that_stand_in_line_for_nothing_take_no_moment():
    """R3.4, R4.18: a race ended what stood there."""
    flow = spec(
        step("begin", "Start", fans="A"),
        step("work", ("A", "X"), "B", rate=0.5),
        step("first", gathers="B", take=1, cancel_rest=True),
    )
    state, _ = finish(feed(started(flow, at=10.0))[0], "begin", out("A"), out("A"), fan=True)
    state, _ = feed(state, TimerFired(12.0, 1))
    state, _ = feed(state, says(state, "work", StepFailed, failure=Failure("E", "no"), retry_at=12.0))
    assert list(state.steps[1].again) == [2]
    state, _ = finish(state, "work", out("B"), n=1)
    state, commands = feed(state, EventArrived(20.0, out("X")))
    assert [c.delivery.out.key for c in commands if isinstance(c, StartStep)] == ["test:X"]
    assert state.steps[1].ready_at == 22.0
