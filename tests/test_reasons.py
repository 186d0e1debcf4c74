"""Why a run does what it does, in words (R5.39)."""

import pickle
from typing import Any

import pytest

from flownb import Context, StopEvent, Workflow, options
from flownb.core import ticks as t
from flownb.core.reduce import begin, reduce
from flownb.core.spec import Spec
from flownb.core.state import RunState
from flownb.core.values import Failure
from flownb.reasons import Reason, reason_of
from flownb.testing.feed import event, finish, key, out, says, spec, started, step
from tests.polling import wait_until
from tests.runtime.flows import Begin, Forever

ODD = Failure("m:Odd", "it broke\nbadly")
PLAIN = spec(step("work", "Start", "Stop"))
FAN = spec(step("load", "Start", fans="Row"), step("score", "Row", "Done", num_workers=2), step("sum", gathers="Done"))


def play(*ticks: Any, flow: Spec = PLAIN, **fields: Any) -> RunState:
    state, _ = begin(started(flow, at=100.0, **fields))
    for tick in ticks:
        state, _ = reduce(state, tick)
    return state


def waiting(wait: Any) -> t.AnyTick:
    return t.WaitOpened(100.0, "work", 1, 1, 1, wait)


def fanned(n: int) -> RunState:
    return finish(play(flow=FAN), "load", *(out("Row") for _ in range(n)), fan=True)[0]


#: What is said of the tick that began a wait.
WAITED, ASKED = " Look at tick 2 (work began to wait).", " Look at tick 2 (work asked Ask)."

CASES: dict[str, tuple[RunState, str]] = {
    "running": (play(), "Running: work (Start)."),
    "many": (
        fanned(20),
        "Running: score (Row, Row). Queued: score (Row, Row, Row, Row, Row, Row, Row, Row and 10 more).",
    ),
    "sleeping": (play(waiting(t.Sleep(130.0))), f"Waiting: work (Start) sleeps for another 30.0 s.{WAITED}"),
    "sleeping long": (play(waiting(t.Sleep(1_300.0))), f"Waiting: work (Start) sleeps for another 20 min.{WAITED}"),
    "sleeping very long": (
        play(waiting(t.Sleep(36_100.0))),
        f"Waiting: work (Start) sleeps for another 10.0 h.{WAITED}",
    ),
    "asking": (
        play(waiting(t.Ask(out("Ask")))),
        f"Waiting: work (Start) asks Ask. It waits for the outside: work asks Ask (request 1).{ASKED}",
    ),
    "an event": (
        play(waiting(t.Await(key("Mail")))),
        f"Waiting: work (Start) waits for Mail. It waits for the outside: work waits for Mail.{WAITED}",
    ),
    "an event that asks": (
        play(waiting(t.Await(key("Mail"), question=out("Ask")))),
        "Waiting: work (Start) waits for Mail and asks Ask. It waits for the outside: work asks Ask (request 1)."
        f"{ASKED}",
    ),
    "a child": (
        play(waiting(t.RunChild("m:Kid", out("Start")))),
        "Waiting: work (Start) waits for child run/1/1. It waits for the outside: work waits for child run/1/1."
        f"{WAITED}",
    ),
    "retrying": (
        play(t.StepFailed(100.0, "work", 1, 1, ODD, 112.0)),
        "Retrying: work (Start), attempt 1 failed with Odd (it broke), due in 12.0 s.",
    ),
    "paused": (play(t.GateClosed(100.0)), "Paused (person); 3 ticks wait in the inbox. Running: work (Start)."),
    "a granted step": (
        play(t.GateClosed(100.0), t.StepsGranted(100.0, 2)),
        "Paused (person); 3 ticks wait in the inbox. 2 more may pass. Running: work (Start).",
    ),
    "its parent paused": (
        play(t.GateClosed(100.0, "parent"), parent=t.Parent("up", 1)),
        "Paused (parent); 3 ticks wait in the inbox. Its parent up is paused. Running: work (Start).",
    ),
    "held open": (
        play(waiting(t.Ask(out("Ask"))), t.HoldChanged(100.0, 1, "the robot answers")),
        "Waiting: work (Start) asks Ask. It waits for the outside: work asks Ask (request 1). "
        f"It is held open: the robot answers.{ASKED}",
    ),
    "failed": (
        play(t.StepFailed(101.0, "work", 1, 1, ODD)),
        "Failed at tick 2 in work: Odd: it broke\nbadly. Look at tick 2 (work failed).",
    ),
    "cancelled": (play(t.CancelRequested(101.0, "off", "ann")), "Cancelled by ann: off."),
    "cancelled without a word": (play(t.CancelRequested(101.0)), "Cancelled: no reason given."),
    "completed": (play(t.StepFinished(101.0, "work", 1, 1, (out("Stop"),))), "Completed at tick 2."),
    "completed with rests": (
        play(t.EventArrived(100.0, out("Mail")), t.EventArrived(101.0, out("Stop"))),
        "Completed at tick 3; 1 deliveries were cut off, the mailbox still holds Mail.",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_state_has_its_words(name: str):
    """R5.39."""
    state, words = CASES[name]
    assert reason_of(state, 100.0, inbox=3) == words


def test_a_run_before_its_first_tick_has_not_begun():
    """R5.39: `flow.debug()` in a coroutine gives the run before its loop takes the first tick."""
    assert reason_of(RunState(PLAIN, play().head), 100.0) == "It has not begun: its first tick is still to come."


def test_what_runs_longest_is_pointed_at():
    """The oldest start of those that run."""
    state = fanned(2)
    state, _ = reduce(state, says(state, "score", t.StepFinished, at=150.0))
    reason = reason_of(state, 160.5)
    assert "Longest: score has been running Row for 60.5 s." in reason
    assert reason.endswith("Look at tick 2 (score was given Row).") and reason.ticks == (2,)
    assert "Longest" not in reason_of(fanned(2), 100.5)


def test_one_tick_in_the_inbox_is_one():
    assert "1 tick waits in the inbox" in reason_of(CASES["paused"][0], 100.0, inbox=1)
    assert "the inbox is empty" in reason_of(CASES["paused"][0], 100.0)


@pytest.mark.parametrize(
    ("hit", "words"),
    [
        (t.BreakpointHit(100.0, 3, "before work"), "Breakpoint 3 was hit (before work)."),
        (
            t.BreakpointHit(100.0, 3, "before work", "NameError: x"),
            "Breakpoint 3 was hit (before work, whose condition failed: NameError: x).",
        ),
    ],
)
def test_a_breakpoint_that_was_hit_is_named(hit: t.AnyTick, words: str):
    """R5.25."""
    journal = [hit, t.EventArrived(101.0, out("Mail"))]
    assert words in reason_of(play(*journal), 100.0, ticks=journal)


def test_starts_that_a_breakpoint_holds_back_are_named():
    flow = spec(step("load", "Start", "Row"), step("work", "Row", "Stop"))
    state = play(t.StepFinished(101.0, "load", 1, 1, (out("Row"),), held=(2,)), flow=flow)
    assert reason_of(state, 101.0) == "Queued: work (Row). A breakpoint holds back the start of work."


def test_a_chain_that_became_too_long_is_explained():
    """R5.71."""
    flow = spec(step("loop", ("Start", "Row"), "Row"))
    terms = t.Terms(max_starts=1, livelock="pause")
    state = play(t.StepFinished(101.0, "loop", 1, 1, (out("Row"),)), flow=flow, terms=terms)
    assert "Paused (livelock)" in reason_of(state, 101.0)
    assert "More than 1 steps started one after the other" in reason_of(state, 101.0)


def test_a_run_that_is_being_cancelled_says_what_still_runs():
    """R5.51."""
    flow = spec(step("work", "Start"), step("tidy", "Off", on_cancel=True), types=[event("Off", role="engine")])
    state = play(t.CancelRequested(101.0, "late", "ann", out("Off")), flow=flow)
    assert reason_of(state, 101.0) == (
        "It is being cancelled by ann (late): only @on_cancel steps run. Running: tidy (Off)."
    )


def test_a_stalled_run_that_is_kept_open_says_what_it_misses():
    """R5.37."""
    flow = spec(step("work", "Start", "Row"), stalled="wait")
    state = play(t.StepFinished(101.0, "work", 1, 1, (out("Row"),)), t.QuietNoticed(101.0), flow=flow)
    assert reason_of(state, 101.0) == "It is stalled and kept open: no step took the last Row."


def test_a_run_in_which_nothing_moves_says_why_before_that_is_noticed():
    state = play(t.StepFinished(101.0, "work", 1, 1))
    assert reason_of(state, 101.0) == "Nothing moves: every step is done and none returned a StopEvent."


def test_a_run_that_took_too_long_says_so():
    """R5.48."""
    state = play(t.TimerFired(105.0, 0), terms=t.Terms(timeout_s=5.0))
    assert reason_of(state, 105.0).startswith(
        "Timed out at tick 2: Run 'run' of workflow 'flow' took longer than 5.0 s."
    )


@pytest.mark.parametrize("user", ["", "ann"])
def test_a_suspended_run_says_why(monkeypatch: pytest.MonkeyPatch, user: str):
    """R5.53: and that nothing but a resume moves it."""
    monkeypatch.setattr(options, "user", user)
    run = Forever().run(run_id=f"rests-here-{user}")
    run.suspend(drain=0).result(20)
    by = f" by {user}" if user else ""
    assert run.why() == f"Suspended{by}. Only flow.resume('rests-here-{user}') moves it."


def test_a_run_says_its_reason_as_text():
    flow = Workflow[Any]("naps")

    @flow.step
    async def nap(ev: Begin, ctx: Context) -> StopEvent:
        await ctx.sleep(60)
        return StopEvent()

    run = flow.run()
    wait_until(lambda: run.now.waiting)
    assert repr(run.why()).startswith("Waiting: nap (Begin) sleeps for another ")
    assert run.now.waiting == {"nap": ["Begin: sleeps"]}
    run.cancel().result(20)


def looked_at(*ticks: Any, flow: Spec = PLAIN, now: float = 100.0, **fields: Any) -> Any:
    """The reason after these ticks, of somebody who has them all."""
    journal = [started(flow, at=100.0, **fields), *ticks]
    return reason_of(play(*ticks, flow=flow, **fields), now, ticks=journal)


def test_a_reason_is_text_with_the_ticks_to_look_at():
    """R5.39: it can be shown, pickled and asked."""
    reason = looked_at(waiting(t.Ask(out("Ask"))))
    assert (reason.ticks, repr(reason)) == ((2,), str(reason))
    again = pickle.loads(pickle.dumps(reason))
    assert (type(again), again, again.ticks) == (Reason, reason, (2,))
    assert Reason("no ticks").ticks == () and Reason("twice", [3, 2, 3]).ticks == (3, 2)
    assert looked_at().ticks == () and "Look at" not in looked_at()


def test_a_run_that_tries_again_points_at_what_failed():
    first = t.StepFailed(101.0, "work", 1, 1, ODD, 101.0)
    reason = looked_at(first, t.StepFailed(102.0, "work", 1, 2, ODD, 112.0), now=102.0)
    assert reason.endswith("due in 10.0 s. Look at tick 3 (work failed) and tick 2 (work failed).")
    assert reason.ticks == (3, 2)


def test_a_failed_run_points_at_its_attempts_and_at_what_its_step_was_given():
    flow = spec(step("load", "Start", "Row"), step("score", "Row"))
    ticks = [
        t.StepFinished(101.0, "load", 1, 1, (out("Row"),)),
        t.StepFailed(102.0, "score", 2, 1, ODD, 102.0),
        t.StepFailed(103.0, "score", 2, 2, ODD),
    ]
    before = play(*ticks[:-1], flow=flow)
    reason = reason_of(play(*ticks, flow=flow), 103.0, ticks=[started(flow), *ticks], before=before)
    assert reason.ticks == (4, 3, 2)
    assert reason.endswith(
        "Look at tick 4 (score failed), tick 3 (score failed before) and tick 2 (score was given Row)."
    )
    late = looked_at(t.TimerFired(105.0, 0), terms=t.Terms(timeout_s=5.0), now=105.0)
    assert late.endswith("Look at tick 2 (its time was over).") and late.ticks == (2,)
    assert looked_at(t.StepFinished(101.0, "work", 1, 1, (out("Stop"),))).ticks == (2,)


def test_a_stalled_run_points_at_the_event_that_nobody_took():
    """R5.36: whether it failed, is kept open, or nobody noticed yet."""
    ends = t.StepFinished(101.0, "work", 1, 1, (out("Lost"),))
    flow = spec(step("work", "Start", "Lost"), stalled="wait")
    words = "Look at tick 2 (work sent Lost)."
    assert looked_at(ends).ticks == (2,) and looked_at(ends).endswith(words)
    kept = looked_at(ends, t.QuietNoticed(101.0), flow=flow)
    assert kept.ticks == (2,) and kept.endswith(words)
    failed = looked_at(ends, t.QuietNoticed(101.0))
    assert failed.ticks == (3, 2)
    assert failed.endswith("Look at tick 3 (it failed with WorkflowStalled) and tick 2 (work sent Lost).")
    nothing = looked_at(t.StepFinished(101.0, "work", 1, 1))
    assert nothing.endswith("none returned a StopEvent. Look at tick 2 (work ended last).")
    outside = [t.StepFinished(101.0, "work", 1, 1), t.EventArrived(102.0, out("Start"), "nobody")]
    assert looked_at(*outside).endswith("Look at tick 3 (somebody sent Start) and tick 2 (work ended last).")


def test_a_paused_run_points_at_what_closed_its_gate():
    asks = waiting(t.Ask(out("Ask")))
    reason = looked_at(t.GateClosed(100.0, "person", "ann"), asks)
    assert reason.endswith("Look at tick 2 (ann paused it) and tick 3 (work asked Ask).") and reason.ticks == (2, 3)
    assert looked_at(t.GateClosed(100.0)).endswith("Look at tick 2 (somebody paused it).")
    assert looked_at(t.BreakpointHit(100.0, 3)).endswith("Look at tick 2 (breakpoint 3 was hit).")
    assert looked_at(t.GateClosed(100.0, "parent")).endswith("Look at tick 2 (it was paused).")
    assert looked_at(t.GateClosed(100.0, "breakpoint")) == (
        "Paused (breakpoint); the inbox is empty. It is where it was to run to. Running: work (Start). "
        "Look at tick 2 (it was run to here)."
    )
    hit, go_on = t.BreakpointHit(100.0, 3), t.GateOpened(100.0, "breakpoint")
    assert "Breakpoint" not in looked_at(hit, go_on, t.GateClosed(100.0, "breakpoint"))  # it was another stop
    assert "Breakpoint 3 was hit" in looked_at(t.GateClosed(100.0, "breakpoint"), hit)
    last = t.GateClosed(100.0, "person", "bob")
    state = play(t.GateClosed(100.0), t.GateOpened(100.0), last)
    assert reason_of(state, 100.0, ticks=[last]).ticks == (4,)  # of a run whose last ticks alone are at hand


def test_joins_say_what_they_lack():
    """R5.39: once something came, or when nothing moves by itself any more."""
    state, _ = finish(fanned(3), "score", out("Done"))
    reason = reason_of(state, 100.0)
    assert (
        "sum: 1 of 3 arrived, missing Done from #2 (score is running Row, branch 1) and #2 (score is running Row, "
        "branch 2)."
    ) in reason
    assert reason.ticks == (2,)
    for n in (0, 0):
        state, _ = reduce(state, says(state, "score", t.WaitOpened, n=n, mark=1, wait=t.Ask(out("Ask"))))
    assert "sum: 1 of 3 arrived, missing Done from #2 (score waits with Row, branch 1)" in reason_of(state, 100.0)
    asks = fanned(1)
    asks, _ = reduce(asks, says(asks, "score", t.WaitOpened, mark=1, wait=t.Ask(out("Ask"))))
    assert "sum: 0 of 1 arrived" in reason_of(asks, 100.0)
    assert "arrived" not in reason_of(fanned(3), 100.0)


def test_a_run_on_its_way_to_a_suspension_says_so_in_words():
    """R5.53: "budget" is the engine's word, not a person's."""
    closed = play(t.GateClosed(100.0, "budget"))
    assert reason_of(closed, 100.0, inbox=2) == (
        "It is about to be suspended: what running steps still bring is kept, and nothing new starts; 2 ticks wait in "
        "the inbox. Running: work (Start)."
    )
    both = play(t.GateClosed(100.0, "person"), t.GateClosed(100.0, "budget"))
    assert reason_of(both, 100.0).startswith("Paused (person); the inbox is empty.")
    rests = play(t.GateClosed(100.0, "budget"), t.RunSuspended(100.0))
    assert reason_of(rests, 100.0).startswith("Nobody drives it until it is resumed; the inbox is empty.")


def test_a_suspended_run_points_at_its_suspension():
    run = Forever().run(run_id="rests-there")
    run.suspend(drain=0).result(20)
    (seq,) = run.why().ticks
    assert isinstance(run.debug.ticks[seq - 1], t.RunSuspended)
    assert "budget" not in run.why()
