"""What is seen of the deliveries that one tick moved."""

from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from flownb.core import ticks as t
from flownb.core.changes import Change, changes, differing
from flownb.core.persist import BITS, Table
from flownb.core.reduce import begin, reduce
from flownb.core.spec import Spec
from flownb.core.state import RunState
from flownb.core.values import Failure, Out
from flownb.testing.feed import event, finish, key, out, says, spec, started, step

ODD = Failure("m:Odd", "no")
PLAIN = spec(step("work", "Start", "Stop"))
FAN = spec(
    step("load", "Start", fans="Row"),
    step("score", "Row", "Done", num_workers=2),
    step("total", gathers="Done", returns="Stop"),
)


def after(state: RunState, tick: t.AnyTick) -> tuple[RunState, list[Change]]:
    """The state after one more tick, and what it changed."""
    new, _ = reduce(state, tick)
    return new, changes(state, tick, new)


def run_of(flow: Spec, at: float = 100.0) -> RunState:
    return begin(started(flow, at=at))[0]


def fanned(n: int, flow: Spec = FAN) -> RunState:
    return finish(run_of(flow), "load", *(out("Row", i) for i in range(n)), fan=True)[0]


def short(found: Iterable[Change]) -> list[tuple[Any, ...]]:
    return [(c.state, c.step, c.delivery, c.attempt, c.start, c.worker) for c in found]


def test_a_started_delivery_is_seen_with_all_that_is_known_of_it():
    """R5.64: delivery, worker, attempt, start, event, and when it started."""
    first = started(PLAIN, at=100.0)
    state, _ = begin(first)
    (change,) = changes(None, first, state)
    assert change == Change("running", 0, 1, 1, 1, first.out, 1, 0, started_at=100.0)


def test_a_finished_delivery_is_seen_with_what_it_returned_and_how_long_it_took():
    """R5.64."""
    state, (change,) = after(run_of(PLAIN), t.StepFinished(103.0, "work", 1, 1, (out("Stop", 7),)))
    assert state.status == "completed"
    assert (change.state, change.outs, change.started_at, change.finished_at, change.worker) == (
        "done",
        (out("Stop", 7),),
        100.0,
        103.0,
        -1,
    )
    assert change.is_own


def test_one_tick_tells_its_own_delivery_then_the_started_then_the_queued_in_step_order():
    """R2.46. Two workers, four elements, and a step behind them that takes each element too."""
    flow = spec(
        step("load", "Start", fans="Row"),
        step("score", "Row", "Done", num_workers=2),
        step("copy", "Row", num_workers=1),
        step("total", gathers="Done", returns="Stop"),
    )
    _, found = after(run_of(flow), t.StepFinished(101.0, "load", 1, 1, tuple(out("Row", i) for i in range(3)), True))
    assert short(found) == [
        ("done", 0, 1, 1, 1, -1),
        ("running", 1, 2, 1, 1, 0),
        ("running", 1, 4, 1, 1, 1),
        ("queued", 1, 6, 1, 0, -1),
        ("running", 2, 3, 1, 1, 0),
        ("queued", 2, 5, 1, 0, -1),
        ("queued", 2, 7, 1, 0, -1),
    ]
    assert [c.is_own for c in found] == [True] + [False] * 6


def test_what_leaves_the_queue_is_told_when_it_starts():
    """R3.8: and nothing is told of what goes on waiting."""
    state = fanned(5)
    state, found = after(state, says(state, "score", t.StepFinished, at=101.0, outs=(out("Done"),)))
    assert short(found) == [("done", 1, 2, 1, 1, -1), ("running", 1, 4, 1, 1, 0)]
    assert [c.started_at for c in found] == [100.0, 101.0]


@pytest.mark.parametrize(
    ("wait", "waits_for", "due_at"),
    [
        (t.Sleep(130.0), ("timer",), 130.0),
        (t.Ask(out("Ask"), 140.0), ("person",), 140.0),
        (t.Ask(out("Ask")), ("person",), 0.0),
        (t.Await(key("Mail"), due_at=150.0), ("event",), 150.0),
        (t.Await(key("Mail")), ("event",), 0.0),
        (t.Await(key("Mail"), question=out("Ask")), ("person",), 0.0),
        (t.RunChild("m:Kid", out("Start")), ("child",), 0.0),
    ],
)
def test_a_waiting_delivery_is_seen_with_what_it_waits_for_and_until_when(
    wait: Any, waits_for: tuple[str, ...], due_at: float
):
    """R3.10, R5.64: no worker, and it began when its first attempt did."""
    state, (change,) = after(run_of(PLAIN), t.WaitOpened(105.0, "work", 1, 1, 1, wait))
    assert short([change]) == [("waiting", 0, 1, 1, 1, -1)]
    assert (change.waits_for, change.due_at, change.started_at, change.is_own) == (waits_for, due_at, 100.0, True)
    # What it does meanwhile is not another state.
    _, found = after(state, t.StreamWritten(106.0, "work", 1, 1, out("One")))
    assert found == []


def test_another_wait_of_the_same_delivery_is_told():
    """Several waits: each kind once, and the first that is due."""
    state, _ = after(run_of(PLAIN), t.WaitOpened(105.0, "work", 1, 1, 1, t.Sleep(130.0)))
    state, _ = after(state, t.WaitOpened(105.0, "work", 1, 1, 2, t.Sleep(120.0)))
    _, (change,) = after(state, t.WaitOpened(105.0, "work", 1, 1, 3, t.Ask(out("Ask"))))
    assert (change.waits_for, change.due_at) == (("timer", "person"), 120.0)


def test_a_woken_delivery_goes_on_with_the_start_that_it_had():
    """Its start number tells that it goes on; its time is that of its first attempt."""
    state, _ = after(run_of(PLAIN), t.WaitOpened(105.0, "work", 1, 1, 1, t.Sleep(130.0)))
    _, (change,) = after(state, t.TimerFired(130.0, 1))
    assert short([change]) == [("running", 0, 1, 1, 1, 0)]
    assert (change.started_at, change.is_own) == (100.0, False)


def test_a_woken_delivery_without_a_free_worker_is_queued():
    flow = spec(step("load", "Start", fans="Row"), step("score", "Row", num_workers=1))
    state = fanned(2, flow)
    state, found = after(state, says(state, "score", t.WaitOpened, mark=1, wait=t.Sleep(130.0)))
    assert short(found) == [("waiting", 1, 2, 1, 1, -1), ("running", 1, 3, 1, 1, 0)]
    state, found = after(state, t.TimerFired(130.0, 1))
    assert short(found) == [("queued", 1, 2, 1, 1, -1)]


def test_a_failed_attempt_is_seen_with_its_error_and_when_the_next_one_is_due():
    """R3.34; then the next attempt, with why it is one."""
    state, (change,) = after(run_of(PLAIN), t.StepFailed(104.0, "work", 1, 1, ODD, 110.0))
    assert change == Change(
        "retrying",
        0,
        1,
        1,
        1,
        Out(key("Start"), None, "start"),
        1,
        failure=ODD,
        started_at=100.0,
        finished_at=104.0,
        due_at=110.0,
        is_own=True,
    )
    _, (change,) = after(state, t.TimerFired(110.0, 1))
    assert short([change]) == [("running", 0, 1, 2, 2, 0)]
    assert (change.failure, change.started_at) == (ODD, 110.0)


def test_an_attempt_that_follows_at_once_is_told_behind_the_failed_one():
    _, found = after(run_of(PLAIN), t.StepFailed(104.0, "work", 1, 1, ODD, 104.0))
    assert short(found) == [("retrying", 0, 1, 1, 1, -1), ("running", 0, 1, 2, 2, 0)]
    assert [c.due_at for c in found] == [104.0, 0.0]


def test_a_failure_for_good_ends_the_other_deliveries_too():
    """R2.41, R3.10: what was cut off is cancelled, queued or running."""
    state = fanned(4)
    state, found = after(state, says(state, "score", t.StepFailed, at=101.0, failure=ODD))
    assert state.status == "failed"
    assert short(found) == [
        ("failed", 1, 2, 1, 1, -1),
        ("cancelled", 1, 3, 1, 1, -1),
        ("cancelled", 1, 4, 1, 0, -1),
        ("cancelled", 1, 5, 1, 0, -1),
    ]
    assert [c.failure for c in found] == [ODD, None, None, None]
    assert [(c.started_at, c.finished_at) for c in found[1:]] == [(100.0, 101.0), (0.0, 101.0), (0.0, 101.0)]


def test_a_late_tick_changes_no_state():
    """R3.19."""
    assert after(run_of(PLAIN), t.StepFinished(101.0, "work", 1, 9, (out("Stop"),)))[1] == []
    assert after(run_of(PLAIN), t.StepFailed(101.0, "nobody", 1, 1, ODD, 105.0))[1] == []


def test_ticks_that_move_no_delivery_change_no_state():
    state = run_of(PLAIN)
    for tick in (t.GateClosed(101.0), t.HoldChanged(101.0, 1, "robot", 1), t.EventArrived(101.0, out("Mail"))):
        assert after(state, tick)[1] == []


def test_a_lost_driver_s_work_is_told_when_it_starts_again():
    """R3.60: the same attempt, the next start."""
    _, (change,) = after(run_of(PLAIN), t.RunOpened(110.0, "d"))
    assert short([change]) == [("running", 0, 1, 1, 2, 0)]


@pytest.mark.parametrize(
    ("decision", "answer", "state", "outs", "failure"),
    [
        ("done", out("Row", 1), "done", (out("Row", 1),), ""),
        ("done", out("Value"), "done", (), ""),
        ("fail", out("Value"), "failed", (), "flownb.errors:StepLost"),
    ],
)
def test_what_became_of_a_lost_delivery_is_told_when_somebody_said_it(
    decision: Any, answer: Out, state: str, outs: tuple[Out, ...], failure: str
):
    """R3.62: until then it waits for a person."""
    flow = spec(step("load", "Start", "Row"), step("other", "Row"), step("more", "Start"))
    lost, found = after(run_of(flow), t.RunOpened(110.0, "d", 0, {1: out("Ask")}))
    assert short(found) == [("waiting", 0, 1, 1, 1, -1), ("running", 2, 2, 1, 2, 0)]
    assert found[0].waits_for == ("person",)
    _, found = after(lost, t.RequestAnswered(111.0, 1, answer, "ann", decision=decision))
    assert (found[0].state, found[0].delivery, found[0].outs) == (state, 1, outs)
    assert (found[0].failure.type if found[0].failure is not None else "") == failure
    assert found[0].is_own is False
    rest = {"done": "running" if outs else "", "fail": "cancelled"}[decision]
    assert [c.state for c in found[1:]] == ([rest] if rest else [])


def test_a_lost_delivery_that_is_tried_again_starts():
    lost, _ = after(run_of(PLAIN), t.RunOpened(110.0, "d", 0, {1: out("Ask")}))
    _, (change,) = after(lost, t.RequestAnswered(111.0, 1, out("Value"), decision="retry"))
    assert short([change]) == [("running", 0, 1, 1, 2, 0)]


def test_a_start_that_a_breakpoint_holds_back_is_queued_and_marked():
    """R5.25."""
    flow = spec(step("load", "Start", "Row"), step("work", "Row", "Stop"))
    state, found = after(run_of(flow), t.StepFinished(101.0, "load", 1, 1, (out("Row"),), held=(2,)))
    assert [(c.state, c.held) for c in found] == [("done", False), ("queued", True)]
    _, found = after(state, t.StepsGranted(102.0))
    assert [(c.state, c.held) for c in found] == [("running", False)]


def test_what_a_rate_holds_back_says_when_it_may_start():
    """`rate=`: queued, with a due time."""
    flow = spec(step("load", "Start", fans="Row"), step("score", "Row", rate=2.0))
    state, found = after(
        run_of(flow), t.StepFinished(100.0, "load", 1, 1, tuple(out("Row", i) for i in range(3)), True)
    )
    assert [(c.state, c.delivery, c.due_at) for c in found] == [
        ("done", 1, 0.0),
        ("running", 2, 0.0),
        ("queued", 3, 100.5),
        ("queued", 4, 100.5),
    ]
    # The queue was turned round when its first one left; what comes behind it is told all the same.
    _, found = after(state, t.TimerFired(100.5, 1))
    assert [(c.state, c.delivery) for c in found] == [("running", 3)]


def test_the_rest_of_a_fan_out_that_is_cut_off_is_cancelled():
    """R4.18: what ran and what was queued, beside the step that fires."""
    flow = spec(
        step("load", "Start", fans="Row"),
        step("score", "Row", "Done", num_workers=2),
        step("first", gathers="Done", returns="Stop", take=1, cancel_rest=True),
    )
    state = fanned(4, flow)
    _, found = after(state, says(state, "score", t.StepFinished, at=101.0, outs=(out("Done"),)))
    assert short(found) == [
        ("done", 1, 2, 1, 1, -1),
        ("cancelled", 1, 3, 1, 1, -1),
        ("cancelled", 1, 4, 1, 0, -1),
        ("cancelled", 1, 5, 1, 0, -1),
        ("running", 2, 6, 1, 1, 0),
    ]


def test_what_is_queued_from_elsewhere_stays_and_starts_when_a_fan_out_is_cut_off():
    """R4.18: the free workers take what is left, and only what was cut off is cancelled."""
    flow = spec(
        step("load", "Start", fans="Row"),
        step("score", "Row", "Done", num_workers=2),
        step("first", gathers="Done", returns="More", take=1, cancel_rest=True),
    )
    state = fanned(4, flow)
    for _ in range(4):
        state, _ = after(state, t.EventArrived(100.5, out("Row")))
    _, found = after(state, says(state, "score", t.StepFinished, at=101.0, outs=(out("Done"),)))
    assert [(c.state, c.delivery) for c in found] == [
        ("done", 2),
        ("cancelled", 3),
        ("cancelled", 4),
        ("cancelled", 5),
        ("running", 6),
        ("running", 7),
        ("running", 10),
    ]


def test_what_is_queued_while_its_queue_is_turned_round_is_told():
    """One that came before leaves the queue in the same tick."""
    flow = spec(step("load", "Start", fans="Row"), step("score", "Row", rate=2.0))
    state = fanned(2, flow)  # 2 starts at 100, 3 at 100.5
    state, _ = after(state, t.TimerFired(100.5, 1))
    state, _ = after(state, t.EventArrived(100.6, out("Row")))
    state, _ = after(state, t.EventArrived(100.7, out("Row")))
    _, found = after(state, t.EventArrived(101.1, out("Row")))
    assert [(c.state, c.delivery) for c in found] == [("running", 4), ("queued", 6)]


def test_the_first_tick_of_a_fork_tells_of_all_that_lives():
    """R6.38: what ran starts again."""
    state = fanned(4)
    state, _ = after(state, says(state, "score", t.StepFailed, failure=ODD, retry_at=110.0))
    first = t.RunForked(200.0, "fork", "run", 3, snapshot=state)
    forked, _ = begin(first)
    found = changes(None, first, forked)
    assert [(c.state, c.delivery, c.start, c.due_at) for c in found] == [
        ("retrying", 2, 1, 210.0),
        ("running", 3, 2, 0.0),
        ("running", 4, 2, 0.0),
        ("queued", 5, 0, 0.0),
    ]


def test_an_attempt_that_decided_on_an_old_buffer_is_seen_to_start_again():
    """R4.3: it was told that not all is there, and now it is."""
    told = t.Collect("b", ((key("Start"), 1),), out("Start"), key("Start"), (0, 0), False)
    _, (change,) = after(run_of(PLAIN), t.StepFinished(101.0, "work", 1, 1, collects=(told,)))
    assert short([change]) == [("running", 0, 1, 1, 2, 0)]
    assert (change.started_at, change.is_own) == (101.0, False)


def test_a_newer_definition_that_moves_a_step_changes_no_state():
    """R2.23: steps are known by name."""
    flow = spec(step("load", "Start", fans="Row"), step("score", "Row", num_workers=1))
    state = fanned(3, flow)
    newer = spec(step("fresh", "Start"), flow.steps[1], flow.steps[0])
    state, found = after(state, t.DefinitionAdopted(101.0, newer))
    assert found == []
    _, found = after(state, says(state, "score", t.StepFinished, at=102.0))
    assert short(found) == [("done", 1, 2, 1, 1, -1), ("running", 1, 3, 1, 1, 0)]


def test_a_newer_definition_with_more_workers_starts_what_was_queued():
    flow = spec(step("load", "Start", fans="Row"), step("score", "Row", num_workers=1))
    state = fanned(3, flow)
    newer = spec(flow.steps[0], replace(flow.steps[1], num_workers=2))
    _, found = after(state, t.DefinitionAdopted(101.0, newer))
    assert short(found) == [("running", 1, 3, 1, 1, 1)]


def test_a_cancel_cuts_off_what_there_is_and_starts_its_handlers():
    """R5.49, R5.51."""
    flow = spec(step("work", "Start"), step("tidy", "Off", on_cancel=True), types=[event("Off", role="engine")])
    state, found = after(run_of(flow), t.CancelRequested(101.0, "off", "ann", out("Off")))
    assert short(found) == [("cancelled", 0, 1, 1, 1, -1), ("running", 1, 2, 1, 1, 0)]
    _, found = after(state, says(state, "tidy", t.StepFinished, at=102.0))
    assert short(found) == [("done", 1, 2, 1, 1, -1)]


def test_what_is_sent_and_cut_off_by_the_same_tick_was_never_seen():
    """R2.40, R2.41: an event and then an end, of one call."""
    flow = spec(step("work", "Start"), step("more", "Row"))
    _, found = after(run_of(flow), t.EventsSent(101.0, "work", 1, 1, (out("Row"), out("Stop"))))
    assert short(found) == [("cancelled", 0, 1, 1, 1, -1)]


def test_a_later_attempt_that_waits_does_not_say_when_it_began():
    """It is not known any more, so nothing wrong is told."""
    state, _ = after(run_of(PLAIN), t.StepFailed(104.0, "work", 1, 1, ODD, 104.0))
    _, (change,) = after(state, t.WaitOpened(105.0, "work", 1, 2, 1, t.Sleep(130.0)))
    assert (change.state, change.attempt, change.started_at) == ("waiting", 2, 0.0)


# -- tables


def table(n: int) -> Table[str]:
    return Table.of((i, f"v{i}") for i in range(n))


@pytest.mark.parametrize("n", [0, 5, 64, 65, 300, 5000])
def test_the_difference_of_two_tables_is_what_was_set_and_dropped(n: int):
    """As a dict while small and as a tree."""
    old = table(n)
    new = old.set(n, "new").set(n // 2, "other")
    expected = {n: (None, "new"), n // 2: (old.get(n // 2), "other")} if n else {0: (None, "other")}
    assert {key: (a, b) for key, a, b in differing(old, new)} == expected
    assert {key: (a, b) for key, b, a in differing(new, old)} == expected
    assert list(differing(old, old)) == []
    assert list(differing(new, new.set(n, new[n]))) == []


def test_the_difference_of_two_tables_crosses_from_tree_to_dict_and_to_another_depth():
    large = table(70)
    small = large
    for i in range(45):
        small = small.drop(i)
    assert small.small is not None
    assert large.small is None
    assert [key for key, _, _ in differing(large, small)] == list(range(45))
    deeper = large.set(100_000, "far")
    assert list(differing(large, deeper)) == [(100_000, None, "far")]
    assert list(differing(deeper, large)) == [(100_000, "far", None)]


def test_the_difference_of_two_tables_reads_only_what_differs():
    """A tick costs what it moved, whatever there is."""
    reads = 0

    class Counting(tuple):  # type: ignore[type-arg]
        def __getitem__(self, i: Any) -> Any:
            nonlocal reads
            reads += 1
            return super().__getitem__(i)

    def counted(node: Any, shift: int) -> Any:
        return node if node is None or not shift else Counting(counted(kid, shift - BITS) for kid in node)

    large = table(20_000)
    large = Table(None, large.n, counted(large.root, large.shift), large.shift)
    assert list(differing(large, large.set(7, "x"))) == [(7, "v7", "x")]
    assert reads < 300
