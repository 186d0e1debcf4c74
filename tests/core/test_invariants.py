"""Each invariant catches the break that it is there for."""

import pytest
from msgspec.structs import replace

from flownb.core.invariants import broken
from flownb.core.persist import Chain, Fifo, Names, Table
from flownb.core.reduce import reduce
from flownb.core.state import UNKNOWN, Arrival, Buffer, Gathering, Hold, Join, Path, Sets, Timer, Tries, Wait
from flownb.core.ticks import Ask, Await, CancelRequested, EventArrived, RunChild, Sleep, StepFailed, Terms, TimerFired
from flownb.core.ticks import WaitOpened as Opened
from flownb.core.values import Failure
from flownb.testing import event, feed, finish, out, says, spec, started, step

FLOW = spec(
    step("begin", "Start", fans="A"),
    step("work", "A", "B", num_workers=2),
    step("sum", gathers="B", take=2),
    step("slow", "Order", rate=0.1),
    types=(event("Ask", answer="Reply"),),
)
WAITS = (
    Ask(out("Ask"), 60.0),
    Sleep(50.0),
    Sleep(10.0),
    Await(out("Reply").key, due_at=70.0, question=out("Ask")),
    RunChild("test:other", out("Start")),
)


def sound():
    """Deliveries of "work" in a join of ten: 2 asks with a deadline, 3 sleeps, 4 is due, 5 waits for an event, 6 for a
    child, 7 is tried again at 80, 8 and 9 run, 10 and 11 are queued. "slow" has run 12; 13 waits for its moment."""
    state, _ = feed(started(FLOW, terms=Terms(timeout_s=1_000.0)))
    state, _ = finish(state, "begin", *(out("A", n) for n in range(10)), fan=True)
    for n, wait in enumerate(WAITS):
        state, _ = feed(state, says(state, "work", Opened, n=n, mark=1, wait=wait))
    state, _ = feed(state, says(state, "work", StepFailed, n=5, failure=Failure("E", "no"), retry_at=80.0))
    state, _ = feed(state, EventArrived(5.0, out("Order")), EventArrived(5.0, out("Order")))
    return feed(state, TimerFired(10.0, 3))[0]


def at_step(state, i, **fields):
    return replace(state, steps=(*state.steps[:i], replace(state.steps[i], **fields), *state.steps[i + 1 :]))


def with_work(state, **fields):
    return at_step(state, 1, **fields)


def changed(state, where, key, **fields):
    """The state with one delivery of "work" changed."""
    table = getattr(state.steps[1], where)
    return with_work(state, **{where: table.set(key, replace(table[key], **fields))})


def beside(state, **fields):
    return replace(state, side=replace(state.side, **fields))


def join(state, **fields):
    return replace(state, joins=state.joins.set(1, replace(state.joins[1], **fields)))


def tries(state, key, **fields):
    return replace(state.steps[1].waiting[key].tries, **fields)


def entered(table, key, **fields):
    return table.set(key, replace(table[key], **fields))


PLANTED = {
    "delivery 8 of step 0 is at step 1": lambda s: changed(s, "active", 8, step=0),
    "delivery 8 is in 2 places": lambda s: with_work(s, queue=s.steps[1].queue.put(s.steps[1].active[8])),
    "workers of work: [0, 0] against mask 11": lambda s: changed(s, "active", 9, worker=0),
    "workers of work: [0, 1] against mask 1": lambda s: with_work(s, workers=1),
    "work has a free worker and work that waits for one": lambda s: with_work(s, active=s.steps[1].active.drop(9)),
    "slow has a free worker and work that waits for one": lambda s: at_step(s, 3, timer=0),
    "slow has lost the timer of its rate": lambda s: replace(s, timers=s.timers.drop(s.steps[3].timer)),
    "a delivery of work that is due is not at the front": lambda s: with_work(s, front=Fifo()),
    "delivery 3 of work waits for nothing": lambda s: changed(s, "waiting", 3, waits=Table()),
    "delivery 7 of work waits for its next attempt and is due or alive": lambda s: changed(s, "waiting", 7, gone=False),
    "delivery 4 of work is due, and nobody said what became of it": lambda s: changed(
        s, "waiting", 4, waits=Table.of([(UNKNOWN, Wait(UNKNOWN, "ask", 1))])
    ),
    "delivery 3 of work is held, or not": lambda s: changed(s, "waiting", 3, held=True),
    "delivery 6 of work is held, or not": lambda s: beside(s, held=Table.of([(6, 1)])),
    "held delivery 99 is nowhere": lambda s: beside(s, held=Table.of([(99, 1)])),
    "a delivery of work runs without a start": lambda s: changed(s, "active", 8, start=0),
    "busy is 9, counted 7": lambda s: replace(s, busy=9),
    "a run with work is waiting": lambda s: replace(s, status="waiting"),
    "join 1 waits for 3, 10 live in it": lambda s: join(s, pending=3),
    "something lives in the closed join 1": lambda s: replace(s, joins=Table()),
    "join 2 waits for 1, 0 live in it": lambda s: replace(
        s, joins=s.joins.set(2, Join(2, 1, 1, 1, (Gathering(2),), s.joins[1].got, Path(1, 0)))
    ),
    "join 2 waits for 0, 0 live in it": lambda s: replace(
        s, joins=s.joins.set(2, Join(2, 1, 1, 0, (Gathering(2),), s.joins[1].got, Path(1, 0)))
    ),
    "join 1 counts 1 for step 2, 0 came": lambda s: join(s, targets=(Gathering(2, 1),)),
    "join 1 has enough for step 2 and did not fire it": lambda s: join(
        s, targets=(Gathering(2, 2),), got=Chain.of([Arrival(2, n, out("B")) for n in range(2)])
    ),
    "delivery 7 is to be tried again without its timer": lambda s: changed(
        s, "waiting", 7, tries=tries(s, 7, due_at=1.0)
    ),
    "delivery 3 waits for sleep 2, which is not there or of another": lambda s: replace(s, timers=s.timers.drop(2)),
    "delivery 2 waits for ask 1, which is not there or of another": lambda s: replace(s, requests=Table()),
    "delivery 5 waits for event 1, which is not there or of another": lambda s: beside(s, waiters=Table()),
    "delivery 6 waits for child 1, which is not there or of another": lambda s: beside(
        s, children=entered(s.side.children, 1, mark=7)
    ),
    "delivery 3 waits for sleep 1, which is not there or of another": lambda s: changed(
        s, "waiting", 3, waits=Table.of([(1, Wait(1, "sleep", 1))])
    ),
    "sleeps is 5, counted 3": lambda s: replace(s, sleeps=5),
    "request 1 lost its deadline": lambda s: replace(s, timers=s.timers.drop(1)),
    "request 1 was asked by a delivery that does not wait for it": lambda s: changed(s, "waiting", 2, waits=Table()),
    "request 2 is shown by no waiter": lambda s: beside(s, waiters=entered(s.side.waiters, 1, request=0)),
    "timer 1 (deadline) is for nobody": lambda s: replace(s, requests=Table()),
    "timer 4 (wait) is for nobody": lambda s: beside(s, waiters=Table()),
    "timer 5 (retry) is for nobody": lambda s: changed(s, "waiting", 7, tries=Tries()),
    "timer 6 (rate) is for nobody": lambda s: at_step(s, 3, timer=0),
    "timer 9 (sleep) is for nobody": lambda s: replace(s, timers=s.timers.set(9, Timer(9, 5.0, "sleep", 3, 1, 1))),
    "timer 0 (timeout) is for nobody": lambda s: replace(s, since=None),
    "waiter 1 is of nobody": lambda s: changed(s, "waiting", 5, waits=Table()),
    "child 1 is of nobody": lambda s: changed(s, "waiting", 6, waits=Table()),
    "working is 3": lambda s: beside(s, working=3),
    "waiters [1] are indexed as [], counted 1": lambda s: beside(s, wanted=Names()),
    "waiters [1] are indexed as [1], counted 0": lambda s: beside(s, shapes={}),
    "waiter 1 lost its deadline": lambda s: replace(s, timers=s.timers.drop(4)),
}


def test_a_sound_state_breaks_nothing():
    """R1.7: the state that the breaks are planted in has one of everything."""
    state = sound()
    work = state.steps[1]
    assert broken(state) == []
    assert (len(work.queue), len(work.front), len(work.active), len(work.waiting)) == (2, 1, 2, 6)
    assert {timer.kind for timer in state.timers.values()} == {"deadline", "sleep", "wait", "retry", "rate", "timeout"}


@pytest.mark.parametrize("words", PLANTED)
def test_a_planted_break_is_found(words):
    """One break, and the words that name it."""
    assert words in broken(PLANTED[words](sound()))


@pytest.mark.parametrize(
    ("what", "break_it"),
    [
        ("deliveries", lambda s, live: replace(s, steps=live.steps)),
        ("timers", lambda s, live: replace(s, timers=live.timers)),
        ("requests", lambda s, live: replace(s, requests=live.requests)),
        ("joins", lambda s, live: replace(s, joins=live.joins)),
        ("waiters", lambda s, live: beside(s, waiters=live.side.waiters)),
        ("waiters", lambda s, live: beside(s, wanted=live.side.wanted)),
        ("waiters", lambda s, live: beside(s, shapes=live.side.shapes)),
        ("children", lambda s, live: beside(s, children=live.side.children)),
        ("children", lambda s, live: beside(s, working=1)),
        ("holds", lambda s, live: beside(s, holds=Table.of([(1, Hold("a webhook"))]))),
        ("holds", lambda s, live: beside(s, held=Table.of([(1, 1)]))),
        ("collected events", lambda s, live: beside(s, buffers=Names.of([("work ", Buffer())]))),
        ("collected events", lambda s, live: beside(s, sets=Names.of([("work", Sets(()))]))),
        ("busy", lambda s, live: replace(s, busy=1)),
        ("sleeps", lambda s, live: replace(s, sleeps=1)),
        ("a running clock", lambda s, live: replace(s, since=1.0)),
    ],
)
def test_an_ended_run_has_nothing_left(what, break_it):
    """R2.41."""
    live = sound()
    ended, _ = reduce(live, CancelRequested(99.0))
    assert broken(ended) == []
    assert broken(break_it(ended, live)) == [f"an ended run still has {what}"]
