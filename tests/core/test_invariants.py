"""Each invariant catches the break that it is there for."""

import pytest
from msgspec.structs import replace

from flownb.core.invariants import broken
from flownb.core.persist import Fifo, Table
from flownb.core.reduce import reduce
from flownb.core.state import Join, Path, Timer, Wait
from flownb.core.ticks import Ask, CancelRequested, Sleep, TimerFired, WaitOpened
from flownb.testing import event, feed, finish, out, says, spec, started, step

FLOW = spec(
    step("begin", "Start", fans="A"),
    step("work", "A", "B", num_workers=2),
    step("sum", gathers="B"),
    types=(event("Ask", answer="Reply"),),
)


def sound():
    """Deliveries of "work": 2 asks with a deadline, 3 sleeps, 4 is due, 5 and 6 run, 7 is queued; a join of six."""
    state, _ = finish(feed(started(FLOW))[0], "begin", *(out("A", n) for n in range(6)), fan=True)
    for n, wait in enumerate((Ask(out("Ask"), 60.0), Sleep(50.0), Sleep(10.0))):
        state, _ = feed(state, says(state, "work", WaitOpened, n=n, mark=1, wait=wait))
    return feed(state, TimerFired(10.0, 3))[0]


def with_work(state, **fields):
    return replace(state, steps=(state.steps[0], replace(state.steps[1], **fields), state.steps[2]))


def changed(state, where, key, **fields):
    """The state with one delivery of "work" changed."""
    table = getattr(state.steps[1], where)
    return with_work(state, **{where: table.set(key, replace(table[key], **fields))})


PLANTED = {
    "delivery 5 of step 0 is at step 1": lambda s: changed(s, "active", 5, step=0),
    "delivery 5 is in 2 places": lambda s: with_work(s, queue=s.steps[1].queue.put(s.steps[1].active[5])),
    "workers of work: [0, 0] against mask 11": lambda s: changed(s, "active", 5, worker=0),
    "workers of work: [0, 1] against mask 1": lambda s: with_work(s, workers=1),
    "work has a free worker and work that waits for one": lambda s: with_work(s, active=s.steps[1].active.drop(6)),
    "a woken delivery of work is not at the front": lambda s: with_work(s, front=Fifo()),
    "a delivery of work waits for nothing": lambda s: changed(s, "waiting", 3, waits=()),
    "a delivery of work runs without a start": lambda s: changed(s, "active", 5, start=0),
    "busy is 7, counted 4": lambda s: replace(s, busy=7),
    "a run with work is waiting": lambda s: replace(s, status="waiting"),
    "join 1 waits for 3, 6 live in it": lambda s: replace(s, joins=s.joins.set(1, replace(s.joins[1], pending=3))),
    "something lives in the closed join 1": lambda s: replace(s, joins=Table()),
    "join 2 waits for 1, 0 live in it": lambda s: replace(
        s, joins=s.joins.set(2, Join(2, 1, 1, 1, (2,), s.joins[1].got, Path(1, 0)))
    ),
    "two waits of delivery 3 have one mark": lambda s: changed(
        s, "waiting", 3, waits=(Wait(1, "sleep", 2), Wait(1, "ask", 1))
    ),
    "delivery 3 sleeps without its timer": lambda s: replace(s, timers=s.timers.drop(2)),
    "delivery 2 asks without its request": lambda s: replace(s, requests=Table()),
    "sleeps is 5, counted 1": lambda s: replace(s, sleeps=5),
    "request 1 lost its deadline": lambda s: replace(s, timers=s.timers.drop(1)),
    "request 1 was asked by a delivery that does not wait for it": lambda s: changed(s, "waiting", 2, waits=()),
    "timer 1 is for no request": lambda s: replace(s, requests=Table()),
    "timer 9 wakes nobody": lambda s: replace(s, timers=s.timers.set(9, Timer(9, 5.0, "sleep", 3, 1, 1))),
}


def test_a_sound_state_breaks_nothing():
    """R1.7: the state that the breaks are planted in has one of everything."""
    state = sound()
    assert broken(state) == []
    assert (len(state.steps[1].queue), len(state.steps[1].front), len(state.steps[1].active)) == (1, 1, 2)


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
        ("busy", lambda s, live: replace(s, busy=1)),
        ("sleeps", lambda s, live: replace(s, sleeps=1)),
    ],
)
def test_an_ended_run_has_nothing_left(what, break_it):
    """R2.41."""
    live = sound()
    ended, _ = reduce(live, CancelRequested(99.0))
    assert broken(ended) == []
    assert broken(break_it(ended, live)) == [f"an ended run still has {what}"]
