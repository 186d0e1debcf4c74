"""Stories of several rules at once: some ticks of one run, and what it owes after each of them.

`Told` acts on the commands as a driver does, so a story also fails where a command is missing or comes twice, or where
an invariant breaks on the way. Each hand-made fault in `tests/core/mutants.py` names the story here that shows it.
"""

from random import Random
from types import SimpleNamespace

import pytest

from flownb.core import ticks as t
from flownb.core.commands import CloseRequest, OpenRequest, StartChild, StartStep, StopChild, StopStep, WakeStep
from flownb.core.gate import may_pass
from flownb.core.invariants import broken
from flownb.core.outstanding import is_quiet
from flownb.core.reduce import begin, reduce
from flownb.core.state import active_time
from flownb.core.values import Failure, Limit
from flownb.testing.drive import drive
from flownb.testing.feed import event, out, says, spec, started, started_of, step, work_of
from flownb.testing.plan import OPS, Plan, expected
from flownb.testing.world import World

NO = Failure("builtins:ValueError", "no")
CATCHES = step("catch", "Failed", catches=(), max_recoveries=1)


class Told:
    """A run whose ticks are told one by one; time begins at 100."""

    def __init__(self, flow, **options):
        first = started(flow, at=100.0, **options)
        self.state, commands = begin(first)
        self.commands, self.world = tuple(commands), World()
        self._act(self.state, first)

    def _act(self, before, tick):
        self.world.act(before, tick, self.state, self.commands)
        assert broken(self.state) == []
        assert self.world.missing(self.state) == []

    def feed(self, tick):
        before = self.state
        self.state, commands = reduce(before, tick)
        self.commands = tuple(commands)
        self._act(before, tick)
        return self.commands

    def says(self, name, kind, *, n=0, after=0.0, **fields):
        """A tick of a step's n-th oldest started delivery."""
        return self.feed(says(self.state, name, kind, n=n, at=self.state.at + after, **fields))

    def finish(self, name, *outs, n=0, fan=False):
        return self.says(name, t.StepFinished, n=n, outs=outs, fan=fan)

    def opens(self, name, mark, wait, *, n=0):
        return self.says(name, t.WaitOpened, n=n, mark=mark, wait=wait)

    def fires(self, timer, late=0.0, closed=None):
        return self.feed(t.TimerFired(self.state.timers[timer].due_at + late, timer, closed))

    def names(self, kind):
        """Names of the steps that the last tick's commands of a kind are for."""
        steps = self.state.spec.steps
        return [steps[c.delivery.step].name for c in self.commands if isinstance(c, kind)]


def seen(told, *kinds):
    return [type(command) for command in told.commands if isinstance(command, kinds)]


PLAN = Plan(1, ("send", "fail"), many=(Plan(2, OPS), Plan(3, ("two sleeps", "collect", "first of two"), asks=True)))


def test_a_plan_with_everything_comes_to_its_result():
    """R1.15, R3.47, R3.51, R4.3, R4.8: in any order, with the driver lost now and then, each thing is done once."""
    for seed, workers in enumerate((1, 2, None, 1, 2, None)):
        run = drive(PLAN, Random(seed).randrange, num_workers=workers, limit=300)
        assert run.state.status == "completed"
        assert run.state.result.value == expected(PLAN)


# -- starts, attempts, failures


def test_a_step_has_so_many_workers_and_no_more():
    """R3.8, R3.9: the rest waits in its order and takes the smallest free worker."""
    told = Told(spec(step("first", "Start", fans="A"), step("work", "A", num_workers=2)))
    told.finish("first", out("A", 0), out("A", 1), out("A", 2), fan=True)

    assert [c.delivery.worker for c in told.commands if isinstance(c, StartStep)] == [0, 1]
    assert [d.out.value for d in work_of(told.state, "work").queue] == [2]
    told.finish("work")
    assert [(c.delivery.out.value, c.delivery.worker) for c in told.commands] == [(2, 0)]


def test_what_an_older_start_says_is_late():
    """R3.17, R3.18, R3.19: a lost driver's code is fenced off, by the start number that the new one gets."""
    told = Told(spec(step("work", "Start", "A"), step("next", "A")))
    old = says(told.state, "work", t.StepFinished, outs=(out("A"),))
    told.feed(t.RunOpened(101.0, "another"))

    assert told.feed(old) == ()
    assert (told.state.ignored, told.names(StartStep)) == (1, [])
    told.finish("work", out("A"))
    assert told.names(StartStep) == ["next"]


def test_what_waits_without_its_code_says_nothing():
    """R3.19, R4.29: code that was lost while it waited is fenced off too."""
    told = Told(spec(step("work", "Start", "A"), step("next", "A")))
    told.opens("work", 1, t.Sleep(110.0))
    old = says(told.state, "work", t.EventsSent, outs=(out("A"),))
    told.feed(t.RunOpened(101.0, "another"))

    assert told.feed(old) == () and told.state.ignored == 1
    told.fires(1)
    assert told.names(StartStep) == ["work"]


def test_a_failed_attempt_waits_for_the_next_without_a_worker():
    """R3.28, R3.29, R6.27: others run meanwhile; its sleep goes on, its child ends with it."""
    told = Told(spec(step("first", "Start", fans="A"), step("work", "A", num_workers=1)))
    told.finish("first", out("A", "old"), out("A", "new"), fan=True)
    told.opens("work", 1, t.Sleep(150.0))
    told.opens("work", 2, t.RunChild("test:other", out("Start")))
    told.says("work", t.StepFailed, failure=NO, retry_at=110.0)

    assert seen(told, StopChild, StartStep) == [StopChild]
    assert told.state.sleeps == 2
    told.fires(1)
    assert told.commands == ()  # slept, but its next attempt is not due
    told.fires(2)
    assert told.commands == ()  # due, but the other one has the worker
    told.finish("work", n=1)
    again = told.commands[0].delivery
    assert (again.out.value, again.attempt, again.start, again.tries.failure) == ("old", 2, 2, NO)


def test_a_handler_of_failures_has_a_budget():
    """R3.36, R3.38: it counts along the chain of causes; what it returns takes the place of what failed."""
    flow = spec(step("first", "Start", fans="A"), step("work", "A", "B"), CATCHES, step("all", gathers="B"))
    told = Told(flow)
    told.finish("first", out("A"), fan=True)
    told.says("work", t.StepFailed, failure=NO, failed=out("Failed", 1))
    assert told.names(StartStep) == ["catch"]
    told.finish("catch", out("A"))
    assert told.names(StartStep) == ["work"]

    told.says("work", t.StepFailed, failure=NO, failed=out("Failed", 2))

    assert (told.state.status, told.state.failure) == ("failed", NO)


def test_a_failed_branch_nobody_hears_of_fails_the_run():
    """R4.21, R4.22: a join above would have a silent hole."""
    told = Told(spec(step("first", "Start", fans="A"), step("work", "A", "B"), step("all", gathers="B")))
    told.finish("first", out("A"), fan=True)
    told.says("work", t.StepFailed, failure=NO, failed=out("Failed"))
    assert told.state.failure.type == "flownb.errors:JoinIncomplete"


def test_somebody_says_what_became_of_a_lost_delivery():
    """R3.62: until then it does not run, even if something that it waited for comes."""
    told = Told(spec(step("work", "Start", idempotent=False)))
    told.opens("work", 1, t.Sleep(110.0))
    told.opens("work", 2, t.Sleep(120.0))
    told.fires(1)
    assert told.names(WakeStep) == ["work"]
    told.feed(t.RunOpened(111.0, "another", unknown={1: out("Ask", "what became of it")}))
    told.fires(2)
    assert told.names(StartStep) == []

    told.feed(t.RequestAnswered(121.0, 1, out("Value"), decision="retry"))

    assert told.names(StartStep) == ["work"]


# -- joins


RACE = spec(
    step("first", "Start", fans="A"),
    step("work", "A", ("B", "Ask"), fans="A", num_workers=1),
    step("best", gathers="B", take=1, cancel_rest=True),
    types=(event("Ask", answer="B"),),
)


def test_a_race_ends_its_losers():
    """R4.16, R4.18: queued, running, waiting and asking ones, with their timers, requests and inner fan-outs."""
    told = Told(RACE)
    told.finish("first", *(out("A", n) for n in range(6)), fan=True)
    told.opens("work", 1, t.Sleep(110.0))
    told.finish("work", out("Ask", 1), n=1)
    told.finish("work", out("A", "inner"), fan=True, n=1)
    told.says("work", t.StepFailed, n=1, failure=NO, retry_at=120.0)

    told.finish("work", out("B", "first"), n=2)

    assert [work_of(told.state, "best").active[d].out[0].value for d in work_of(told.state, "best").active] == ["first"]
    assert CloseRequest(1, "withdrawn") in told.commands
    assert (told.state.joins.n, told.state.timers.n, told.state.requests.n, told.state.sleeps) == (0, 0, 0, 0)
    assert (work_of(told.state, "work").queue.n, work_of(told.state, "work").waiting.n) == (0, 0)


def test_a_set_is_paired_inside_one_branch():
    """R4.77, R4.78: halves of two branches make no whole."""
    both, ends = step("both", slots=("B", "C")), step("all", gathers="D")
    told = Told(spec(step("first", "Start", fans="A"), step("work", "A", ("B", "C", "D")), both, ends))
    told.finish("first", out("A", 0), out("A", 1), fan=True)
    told.finish("work", out("B", 0))
    assert told.names(StartStep) == []
    told.says("work", t.EventsSent, outs=(out("B", 1),))
    told.finish("work", out("C", 1))
    assert [[o.value for o in c.delivery.out] for c in told.commands] == [[1, 1]]


def test_what_was_collected_is_used_once():
    """R4.3, R4.4, R4.5: who decided on an old buffer runs again; the surplus stays for the next round."""
    told = Told(spec(step("first", "Start", fans="A"), step("pair", "A", num_workers=None)))
    told.finish("first", *(out("A", n) for n in range(3)), fan=True)
    wants = (("test:A", 2),)

    def finish(took, heads=()):
        d = started_of(told.state, "pair")[0]
        collect = t.Collect("", wants, d.out, d.out.key, heads, took)
        return told.says("pair", t.StepFinished, collects=(collect,))

    assert finish(False) == ()
    assert [c.delivery.start for c in finish(False)] == [2]  # it would be told now that both are there
    assert finish(True, (1, 1)) == ()
    assert told.state.side.buffers.n == 0
    assert finish(False) == ()
    assert [q.n for q in told.state.side.buffers["pair "].queues.values()] == [1]


# -- waits and questions


WAITS = spec(step("work", "Start", num_workers=2, waits=True), types=(event("Note"), event("More", bases="Note")))


def note(n, name="Note"):
    return out(name, SimpleNamespace(n=n))


def requires(value):
    return {"n": out("Value", value)}


def test_an_event_goes_to_the_oldest_waiter_that_it_fits():
    """R4.31 to R4.35: an exact type comes before a base; each waiter takes one, with the fields that it requires."""
    told = Told(WAITS)
    for mark, wait in enumerate(
        (t.Await("test:Note", requires([1])), t.Await("test:Note"), t.Await("test:More"), t.Await("test:Note")), 1
    ):
        told.opens("work", mark, wait)

    def came(event):
        told.feed(t.EventArrived(told.state.at, event))
        told.opens("work", 1, t.Sleep(0.0))
        return sorted(d.mark for d in told.state.side.waiters.values())

    assert came(note(0, "More")) == [1, 2, 4]
    assert came(note(0)) == [1, 4]
    assert came(note([1])) == [4]


def test_a_waiter_takes_an_event_before_the_steps_and_its_own_step_not_twice():
    """R4.30, R4.33: the others get it too."""
    told = Told(spec(step("work", ("Start", "Note")), step("other", "Note")))
    told.opens("work", 1, t.Await("test:Note"))
    told.feed(t.EventArrived(101.0, note(1)))
    assert (told.names(WakeStep), told.names(StartStep)) == (["work"], ["other"])


def test_a_reply_may_come_before_the_wait():
    """R2.30, R2.33: the mailbox keeps what nobody takes, in order, and a repeated key is no second event."""
    told = Told(WAITS)
    for n in (1, 2, 2, 3):
        told.feed(t.EventArrived(101.0, note(n), key=f"k{n}"))
    assert (told.state.mailbox.n, told.state.ignored) == (3, 1)

    told.opens("work", 1, t.Await("test:Note", requires(2)))

    assert [o.value.n for o in told.state.mailbox] == [1, 3]
    assert [w.outcome.out.value.n for w in told.commands[0].wakes] == [2]


def test_a_wait_for_an_event_ends_at_its_deadline():
    """R4.36: with the question that it showed; an event that comes in time takes the deadline away."""
    told = Told(WAITS)
    told.opens("work", 1, t.Await("test:Note", {}, 110.0, "", out("Ask", "shown")))
    told.fires(1)
    assert [w.outcome.how for c in told.commands if isinstance(c, WakeStep) for w in c.wakes] == ["timed_out"]
    assert seen(told, CloseRequest) == [CloseRequest]
    told.opens("work", 2, t.Await("test:Note", {}, 120.0, "", out("Ask", "shown")))
    told.feed(t.EventArrived(111.0, note(1)))
    assert (told.state.timers.n, told.state.requests.n, told.state.side.wanted.n) == (0, 0, 0)


def test_a_default_is_never_a_person():
    """R4.54, R4.56: the deadline says so; a question that somebody holds has none any more."""
    told = Told(WAITS)
    told.opens("work", 1, t.Ask(out("Ask"), 110.0, out("Reply", "default")))
    told.fires(1)
    assert [w.outcome.how for c in told.commands if isinstance(c, WakeStep) for w in c.wakes] == ["default"]
    told.opens("work", 2, t.Ask(out("Ask"), 120.0))
    told.feed(t.RequestHeld(112.0, 2, "ann"))
    assert (told.state.timers.n, told.state.requests[2].due_at) == (0, None)


def test_a_question_that_was_returned_ends_in_its_branch():
    """R4.76: answered in time its deadline goes with it; else the end is heard of, and the branch is paid for."""
    flow = spec(
        step("first", "Start", fans="Ask"),
        step("told", "Closed", "B"),
        step("all", gathers=("Reply", "B")),
        types=(event("Ask", answer="Reply"),),
    )
    told = Told(flow)
    first, second = out("Ask", 1, limit=Limit(110.0)), out("Ask", 2, limit=Limit(120.0))
    told.finish("first", first, second, fan=True)
    told.feed(t.RequestAnswered(101.0, 1, out("Reply", 1)))
    assert told.state.timers.n == 1
    told.fires(2, closed=out("Closed"))
    told.finish("told", out("B", 2))
    assert [[o.value for o in c.delivery.out] for c in told.commands if isinstance(c, StartStep)] == [[1, 2]]


# -- the run's life


def test_a_quiet_run_is_quiet_only_without_a_child_at_work():
    """R5.33, R6.22: a child that waits for the outside lets it be quiet."""
    told = Told(WAITS)
    told.opens("work", 1, t.RunChild("test:other", out("Start")))
    assert not is_quiet(told.state)
    told.feed(t.ChildChanged(101.0, 1, False))
    assert is_quiet(told.state)
    told.feed(t.QuietNoticed(102.0))
    assert told.state.status == "waiting"
    told.feed(t.ChildFinished(103.0, 1, "completed", out("Value", 7)))
    assert [w.outcome.out.value for w in told.commands[0].wakes] == [7]
    told.opens("work", 2, t.RunChild("test:other", out("Start")))
    told.feed(t.ChildFinished(104.0, 2, "failed", failure=NO))
    assert [w.outcome.how for w in told.commands[0].wakes] == ["failed"]


def test_each_reason_for_a_closed_gate_is_lifted_by_its_own_tick():
    """R5.21, R5.23: and so many steps are granted as somebody said."""
    told = Told(WAITS, gate=("person", "parent"))
    told.feed(t.GateOpened(101.0, "person"))
    assert told.state.gate == ("parent",)
    told.feed(t.StepsGranted(102.0, 1))
    written = says(told.state, "work", t.StreamWritten, out=out("A"))
    assert may_pass(told.state, written)
    told.feed(written)
    assert not may_pass(told.state, written)


def test_a_breakpoint_stands_before_a_start():
    """R5.25: what it holds starts when its gate is opened."""
    told = Told(spec(step("work", "Start", "A"), step("next", "A")))
    told.feed(says(told.state, "work", t.StepFinished, outs=(out("A"),), held=(2,)))
    assert told.names(StartStep) == []
    told.feed(t.BreakpointHit(101.0, 1))
    told.feed(t.GateOpened(102.0, "breakpoint"))
    assert told.names(StartStep) == ["next"]


def test_a_long_chain_of_causes_is_stopped():
    """R5.70, R5.71: it pauses with a reason, or fails."""
    loop = spec(step("work", ("Start", "A"), "A"))
    told = Told(loop, terms=t.Terms(max_starts=2, livelock="pause"))
    told.finish("work", out("A"))
    assert told.state.gate == ()
    told.finish("work", out("A"))
    assert told.state.gate == ("livelock",)


def test_the_time_limit_counts_active_time():
    """R5.45, R5.46: not a person's, not while it is paused, and not the time of a driver that was lost."""
    told = Told(WAITS, terms=t.Terms(timeout_s=30.0))
    assert told.state.timers[0].due_at == 130.0
    told.feed(t.GateClosed(110.0))
    told.feed(t.GateOpened(150.0))
    assert told.state.timers[0].due_at == 170.0
    told.says("work", t.StreamWritten, after=5.0, out=out("A"))
    told.feed(t.RunOpened(400.0, "another"))
    assert (active_time(told.state), told.state.timers[0].due_at) == (15.0, 415.0)
    told.opens("work", 1, t.Ask(out("Ask")))
    assert told.state.timers.n == 0


OPEN = spec(
    step("first", "Start", fans="A"),
    step("work", "A", num_workers=5),
    step("tidy", "Cancelled", on_cancel=True),
)


def told_with_all_open():
    told = Told(OPEN)
    told.finish("first", *(out("A", n) for n in range(5)), fan=True)
    told.opens("work", 1, t.Sleep(110.0))
    told.opens("work", 2, t.Ask(out("Ask")), n=1)
    told.opens("work", 3, t.RunChild("test:other", out("Start")), n=2)
    return told


def test_an_end_closes_all_that_is_open():
    """R2.41, R2.42, R5.49, R5.50: code, timers, questions and children; what was cut off is listed."""
    told = told_with_all_open()
    told.feed(t.CancelRequested(105.0, "enough", "ann"))
    assert told.state.status == "cancelled"
    assert seen(told, StopStep, CloseRequest, StopChild) == [StopStep] * 5 + [CloseRequest, StopChild]
    assert len(told.state.abandoned) == 5


def test_a_cancelled_run_tidies_up():
    """R5.51: only its `@on_cancel` steps run, nothing that they send is routed, and their time is short."""
    told = told_with_all_open()
    told.feed(t.CancelRequested(105.0, "enough", "ann", out("Cancelled")))
    assert (told.state.status, told.names(StartStep)) == ("cancelling", ["tidy"])
    assert [timer.kind for timer in told.state.timers.values()] == ["grace"]
    assert told.finish("tidy", out("A"))[-1:] != ()
    assert (told.state.status, told.state.reason) == ("cancelled", "enough")

    other = told_with_all_open()
    other.feed(t.CancelRequested(105.0, "enough", "ann", out("Cancelled")))
    other.feed(t.RunOpened(106.0, "another"))
    assert other.state.status == "cancelled"


def test_a_fork_begins_as_if_no_time_had_passed():
    """R6.38, R6.39, R6.40: later due times, children of its own, and what was running starts again."""
    told = told_with_all_open()
    told.feed(t.RunForked(200.0, "fork", "run", told.state.seq))
    assert [timer.due_at for timer in told.state.timers.values()] == [210.0]
    assert [child.run_id for child in told.state.side.children.values()] == ["fork/4/1"]
    assert seen(told, StartStep, OpenRequest, StartChild).count(StartStep) == 2


def test_a_newer_definition_finds_its_work():
    """R2.23: steps are known by name, wherever they stand now."""
    told = told_with_all_open()
    first, work, tidy = OPEN.steps
    told.feed(t.DefinitionAdopted(106.0, spec(tidy, step("new", "C"), work, first)))
    told.fires(1)
    assert told.names(WakeStep) == ["work"]
    told.feed(t.RequestAnswered(111.0, 1, out("Reply")))
    told.feed(t.ChildFinished(112.0, 1, "completed"))
    assert told.names(WakeStep) == ["work"]


def test_nobody_takes_an_event_and_the_run_fails_if_it_shall():
    """R2.28."""
    told = Told(spec(step("work", "Start"), unhandled="error"))
    told.finish("work", out("A"))
    assert told.state.failure.type == "flownb.errors:WorkflowRuntimeError"


def test_a_slow_step_starts_so_many_a_second():
    """R3.4: the next start is a timer in the state, and keeps the run from being quiet."""
    told = Told(spec(step("first", "Start", fans="A"), step("work", "A", rate=0.5)))
    told.finish("first", out("A", 1), out("A", 2), fan=True)
    assert (len(told.names(StartStep)), told.state.timers[1].due_at, told.state.sleeps) == (1, 102.0, 1)
    told.fires(1)
    assert told.names(StartStep) == ["work"]


def test_a_run_that_is_over_takes_no_tick():
    """R2.41, R2.36: the first stop is the last tick."""
    told = Told(spec(step("work", "Start", "Stop")))
    told.finish("work", out("Stop", 1))
    with pytest.raises(ValueError, match="is completed"):
        told.feed(t.QuietNoticed(101.0))


# -- what once went wrong


def test_the_end_of_an_unknown_hold_changes_nothing():
    """R3.19, R5.38: a waiting run stays waiting."""
    told = Told(WAITS)
    told.opens("work", 1, t.Ask(out("Ask")))
    told.feed(t.QuietNoticed(101.0))
    told.feed(t.HoldChanged(102.0, 7))
    assert (told.state.status, told.state.ignored) == ("waiting", 1)


def test_a_cancelled_run_that_is_suspended_is_over():
    """R5.51, R5.53: nobody would let it tidy up; and a wall clock does not turn a cancel into a timeout."""
    told = Told(OPEN, terms=t.Terms(timeout_s=30.0, timeout_clock="wall"))
    told.feed(t.CancelRequested(105.0, "enough", "ann", out("Cancelled")))
    assert [timer.kind for timer in told.state.timers.values()] == ["grace"]
    told.feed(t.RunSuspended(106.0))
    assert told.state.status == "cancelled"


def test_a_fork_of_a_suspended_run_goes_on():
    """R6.38: and what a breakpoint held there starts, since the fork's gate is open."""
    told = Told(spec(step("work", "Start", "A"), step("next", "A")))
    told.feed(says(told.state, "work", t.StepFinished, outs=(out("A"),), held=(2,)))
    told.feed(t.BreakpointHit(101.0, 1))
    told.feed(t.RunSuspended(102.0, "for the night"))
    told.feed(t.RunForked(103.0, "fork", "run", told.state.seq))
    assert (told.state.status, told.state.reason, told.names(StartStep)) == ("running", "", ["next"])


def test_a_step_that_is_gone_takes_the_timer_of_its_rate_along():
    """R2.23, R3.4: no timer is left for nobody."""
    told = Told(RACE_OF_ONE)
    told.finish("first", *(out("A") for _ in range(3)), fan=True)
    told.finish("work", out("B"))
    assert told.state.sleeps == 1  # the queue behind the rate was ended with the race
    told.feed(t.DefinitionAdopted(101.0, spec(*(s for s in RACE_OF_ONE.steps if s.name != "work"))))
    assert (told.state.timers.n, told.state.sleeps) == (0, 0)


RACE_OF_ONE = spec(
    step("first", "Start", fans="A"),
    step("work", "A", "B", rate=0.5),
    step("best", gathers="B", take=1, cancel_rest=True),
)


def test_a_step_whose_fan_out_is_open_cannot_go():
    """R6.44: its elements would have lost their join."""
    flow = spec(step("first", "Start", fans="A"), step("work", "A", "B"), step("all", gathers="B"))
    told = Told(flow)
    told.finish("first", out("A"), fan=True)
    with pytest.raises(ValueError, match="first"):
        told.feed(t.DefinitionAdopted(101.0, spec(*flow.steps[1:])))


def test_a_returned_question_keeps_the_budget_of_its_causes():
    """R2.23, R3.38: also where the handlers stand at another place."""
    flow = spec(step("work", "Start"), CATCHES, types=(event("Ask", answer="Reply"),))
    told = Told(flow)
    told.says("work", t.StepFailed, failure=NO, failed=out("Failed"))
    told.finish("catch", out("Ask"))
    assert told.state.requests[1].recovered == ((1, 1),)
    told.feed(t.DefinitionAdopted(101.0, spec(*reversed(flow.steps), types=(event("Ask", answer="Reply"),))))
    assert told.state.requests[1].recovered == ((0, 1),)
