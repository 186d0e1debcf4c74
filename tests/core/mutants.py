"""Hand-made faults of the reducer, each with the story that shows it.

`test_mutants` puts one after the other into a copy of the core in memory. A text that is not in its file any more, or
stands there twice, fails that test: then the fault belongs elsewhere, and its line here has to follow.
"""

from typing import NamedTuple


class Mutant(NamedTuple):
    """One fault."""

    #: Module of `flownb.core`.
    file: str
    old: str
    new: str
    #: What goes wrong with it.
    breaks: str
    #: The test of `tests/core/test_stories.py` that fails with it.
    story: str


PLAN = "test_a_plan_with_everything_comes_to_its_result"
WORKERS = "test_a_step_has_so_many_workers_and_no_more"
LATE = "test_what_an_older_start_says_is_late"
GHOST = "test_what_waits_without_its_code_says_nothing"
RETRY = "test_a_failed_attempt_waits_for_the_next_without_a_worker"
BUDGET = "test_a_handler_of_failures_has_a_budget"
HOLE = "test_a_failed_branch_nobody_hears_of_fails_the_run"
UNKNOWN = "test_somebody_says_what_became_of_a_lost_delivery"
RACE = "test_a_race_ends_its_losers"
PAIRS = "test_a_set_is_paired_inside_one_branch"
COLLECT = "test_what_was_collected_is_used_once"
WAITERS = "test_an_event_goes_to_the_oldest_waiter_that_it_fits"
OFFER = "test_a_waiter_takes_an_event_before_the_steps_and_its_own_step_not_twice"
MAILBOX = "test_a_reply_may_come_before_the_wait"
DEADLINE = "test_a_wait_for_an_event_ends_at_its_deadline"
DEFAULT = "test_a_default_is_never_a_person"
RETURNED = "test_a_question_that_was_returned_ends_in_its_branch"
QUIET = "test_a_quiet_run_is_quiet_only_without_a_child_at_work"
GATE = "test_each_reason_for_a_closed_gate_is_lifted_by_its_own_tick"
BREAKPOINT = "test_a_breakpoint_stands_before_a_start"
LIVELOCK = "test_a_long_chain_of_causes_is_stopped"
LIMIT = "test_the_time_limit_counts_active_time"
END = "test_an_end_closes_all_that_is_open"
TIDY = "test_a_cancelled_run_tidies_up"
FORK = "test_a_fork_begins_as_if_no_time_had_passed"
ADOPT = "test_a_newer_definition_finds_its_work"
UNHANDLED = "test_nobody_takes_an_event_and_the_run_fails_if_it_shall"
RATE = "test_a_slow_step_starts_so_many_a_second"
OVER = "test_a_run_that_is_over_takes_no_tick"

MUTANTS = (
    # -- starts and workers
    Mutant(
        "draft", "self.commands.append(StartStep(started))", "pass", "a delivery is active and nobody runs it", PLAN
    ),
    Mutant("draft", "self.commands.append(WakeStep(running, tuple(wakes)))", "pass", "what waited hears nothing", PLAN),
    Mutant("draft", "self.commands.append(ArmTimer(timer))", "pass", "a timer is in the state alone", PLAN),
    Mutant("draft", "self.commands.append(DisarmTimer(timer))", "pass", "a timer outlives what it is for", PLAN),
    Mutant("draft", "step.workers &= ~(1 << delivery.worker)", "pass", "a worker is never given back", PLAN),
    Mutant(
        "draft", "d.start + 1, worker, d.ledger,", "d.start + 1, worker, None,", "a restart forgets the ledger", PLAN
    ),
    Mutant("draft", "d.attempt, d.start + 1,", "d.attempt, max(1, d.start),", "a new start keeps the old number", LATE),
    Mutant("draft", "found.start == start and", "", "what an older start says counts", LATE),
    Mutant("draft", "and not found.gone:", "and True:", "lost code may still speak", GHOST),
    Mutant("draft", "else limit - step.active.n", "else limit - step.active.n + 1", "one worker too many", WORKERS),
    Mutant(
        "draft",
        "return (~busy & (busy + 1)).bit_length() - 1",
        "return busy.bit_length()",
        "a worker id is left out",
        WORKERS,
    ),
    Mutant("draft", "step.ready_at = self.at + 1.0 / spec.rate", "pass", "no rate holds a step back", RATE),
    Mutant("draft", "if first.id in self.held:", "if False:", "a breakpoint holds nothing", BREAKPOINT),
    # -- what steps do
    Mutant(
        "steps",
        "if tick.collects and not still_holds(draft, d, tick.collects):",
        "if False:",
        "an old buffer decides",
        COLLECT,
    ),
    Mutant(
        "steps", "ledger.writes + 1, ledger.streams", "ledger.writes, ledger.streams", "a write is made again", PLAN
    ),
    Mutant(
        "steps", "pay(draft, d.path, made + 1)  #", "pay(draft, d.path, made)  #", "who sends is taken for ended", PLAN
    ),
    Mutant("collecting", "_, queue = queue.get()", "pass", "what was taken stays collected", COLLECT),
    # -- failures
    Mutant(
        "retrying",
        "step = draft.release(d)\n    if tick.retry_at",
        "step = draft.step(d.step)\n    if tick.retry_at",
        "a retry keeps its slot",
        PLAN,
    ),
    Mutant(
        "retrying",
        "draft.sleeps += 1\n    draft.arm(timer)\n",
        "draft.arm(timer)\n",
        "a pending retry is no sleep",
        RETRY,
    ),
    Mutant(
        "retrying",
        "attempt=d.attempt + 1, chain=0",
        "attempt=d.attempt, chain=0",
        "a late attempt is not counted",
        RETRY,
    ),
    Mutant("retrying", "d = withdraw_children(draft, d)", "pass", "a child outlives the attempt that failed", RETRY),
    Mutant("retrying", "return limit is None or used < limit", "return True", "a handler has no budget", BUDGET),
    Mutant(
        "retrying",
        "pay(draft, d.path, made)",
        "pay(draft, d.path, made + 1)",
        "a failed branch is never paid for",
        BUDGET,
    ),
    Mutant("retrying", "if not taken:", "if False:", "a failure that nobody takes is a silent hole", HOLE),
    # -- joins
    Mutant(
        "joining",
        "pending = join.pending + made - 1",
        "pending = join.pending + made - 2",
        "a join is paid twice",
        PLAN,
    ),
    Mutant("joining", "arrivals.sort(key=_index)", "pass", "a join is in the order of ends", PLAN),
    Mutant(
        "joining",
        "is_full = is_full or target.n + 1 ==",
        "is_full = is_full or target.n ==",
        "`Take` comes too late",
        RACE,
    ),
    Mutant(
        "joining",
        "keep(draft, join, join.pending - ended,",
        "keep(draft, join, join.pending,",
        "ended branches are waited for",
        RACE,
    ),
    Mutant("joining", 'close_request(draft, request, "withdrawn")', "pass", "a loser's question stays open", RACE),
    Mutant("joining", 'f"{path.index} {spec.name}"', "spec.name", "a set is made of two branches", PAIRS),
    # -- routing
    Mutant("routing", "if i in woken:", "if False:", "a step gets what its waiter took", OFFER),
    Mutant("routing", 'if draft.spec.unhandled == "error":', "if False:", "a lost event fails nothing", UNHANDLED),
    Mutant(
        "routing",
        'draft.arm(Timer(request.timer, due_at, "deadline", request.id))',
        "pass",
        "a question has no deadline",
        DEFAULT,
    ),
    Mutant(
        "routing",
        'close_request(draft, draft.requests[waiter.request], "answered", out)',
        "pass",
        "a shown question stays open",
        DEADLINE,
    ),
    Mutant(
        "matching",
        "if waiter.timer:\n        draft.disarm(waiter.timer)",
        "pass",
        "a wait's deadline outlives it",
        DEADLINE,
    ),
    Mutant("matching", "waiter.step in found or", "", "a base comes before the exact type", WAITERS),
    Mutant("matching", "if _meets_all(waiter, out):", "if True:", "what is required is not looked at", WAITERS),
    # -- waits
    Mutant(
        "closing",
        "if request.timer:\n        draft.disarm(request.timer)",
        "pass",
        "an answered question has a deadline",
        RETURNED,
    ),
    Mutant(
        "closing",
        "draft.sleeps -= 1\n        draft.disarm(wait.ref)",
        "draft.disarm(wait.ref)",
        "a sleep that was given up counts",
        PLAN,
    ),
    Mutant(
        "closing", "draft.commands.append(StopChild(child.id, how))", "pass", "a child that nobody wants runs on", PLAN
    ),
    Mutant("closing", "or UNKNOWN in d.waits:", "or False:", "a lost delivery runs before anybody said so", UNKNOWN),
    Mutant(
        "waiting",
        'case "sleep":\n            draft.sleeps -= 1',
        'case "sleep":',
        "a sleep never ends for the count",
        PLAN,
    ),
    Mutant(
        "waiting",
        "mailbox=Fifo.of(kept[:i] + kept[i + 1 :])",
        "mailbox=Fifo.of(kept[i + 1 :])",
        "the mailbox loses an event",
        MAILBOX,
    ),
    Mutant(
        "waiting",
        '_resolve(draft, request, request.default, "default")',
        '_resolve(draft, request, request.default, "answered")',
        "a default passes for an answer",
        DEFAULT,
    ),
    Mutant(
        "waiting",
        "draft.disarm(request.timer)\n        draft.requests",
        "draft.requests",
        "a held countdown goes on",
        DEFAULT,
    ),
    Mutant(
        "waiting",
        'draft.arm(Timer(timer, wait.due_at, "wait", number, d.step, mark))',
        "pass",
        "a wait has no deadline",
        DEADLINE,
    ),
    Mutant("waiting", "withdraw(draft, wait)\n    _give_up", "_give_up", "a wait that was given up stays open", PLAN),
    Mutant(
        "waiting",
        "working=side.working - (1 if child.active else 0)",
        "working=side.working",
        "a child that is over works on",
        QUIET,
    ),
    Mutant(
        "outstanding", "side.working or side.holds.n", "side.holds.n", "a run is quiet while its child works", QUIET
    ),
    # -- the run's life
    Mutant(
        "life", "again = [d.id for d in lost if d.id not in unknown]", "again = []", "lost work never runs again", PLAN
    ),
    Mutant("life", "tick.key in side.keys", "False", "a repeated webhook is a second event", MAILBOX),
    Mutant("life", "if reason != tick.reason)", "if False)", "one reason lifts them all", GATE),
    Mutant("reduce", "draft.budget -= 1", "pass", "granted steps are never used up", GATE),
    Mutant("reduce", "if draft.tripped:", "if False:", "an endless loop runs on", LIVELOCK),
    Mutant("life", "replace(t, due_at=t.due_at + later)", "t", "a fork keeps the old due times", FORK),
    Mutant(
        "life",
        "tick.run_id + c.run_id.removeprefix(tick.base)",
        "c.run_id",
        "a fork drives another run's children",
        FORK,
    ),
    Mutant(
        "life",
        "draft.commands += [StartChild(child) for child in children",
        "_ = [StartChild(child) for child in children",
        "a fork's children are not started",
        FORK,
    ),
    Mutant("timing", "not draft.gate\n", "True\n", "a pause uses the time limit up", LIMIT),
    Mutant("timing", "limit_s - draft.active_s", "limit_s", "each stop gives the whole limit back", LIMIT),
    Mutant(
        "adopting",
        "draft.timers = Table.of((t.id, _moved(t, places)) for t in draft.timers.values())",
        "pass",
        "a timer wakes another step",
        ADOPT,
    ),
    # -- ends
    Mutant(
        "ending",
        "handlers = draft.spec.on_cancel if out is not None else ()",
        "handlers = ()",
        "nobody tidies up",
        TIDY,
    ),
    Mutant(
        "ending",
        'draft.arm(Timer(draft.number("timer"), draft.at + draft.head.terms.grace_s, "grace"))',
        "pass",
        "tidying up has no end",
        TIDY,
    ),
    Mutant(
        "ending",
        'draft.commands += [CloseRequest(request.id, "closed") for request in draft.requests.values()]',
        "pass",
        "an end leaves questions open",
        END,
    ),
    Mutant(
        "ending",
        "draft.commands += [StopChild(child.id, status) for child in draft.side.children.values()]",
        "pass",
        "an end leaves children",
        END,
    ),
    Mutant(
        "ending",
        "draft.commands += [DisarmTimer(timer.id) for timer in draft.timers.values()]",
        "pass",
        "an end leaves timers",
        END,
    ),
    Mutant(
        "reduce",
        "if state.status in ENDED:\n        raise",
        "if False:\n        raise",
        "something comes after the end",
        OVER,
    ),
)
