"""What a tick costs does not depend on what is queued, collected or waiting (R1.6)."""

import gc
import time

import pytest
from msgspec.structs import replace

from flownb.core.collecting import buffer_of, heads_of, is_complete
from flownb.core.reduce import reduce
from flownb.core.ticks import (
    Ask,
    Await,
    ChildChanged,
    ChildFinished,
    Collect,
    EventArrived,
    EventsSent,
    QuietNoticed,
    RequestAnswered,
    RunChild,
    Sleep,
    StateWritten,
    StepFailed,
    StepFinished,
    TimerFired,
    WaitOpened,
    WaitWithdrawn,
)
from flownb.core.values import Failure
from flownb.events import Event
from flownb.testing import event, feed, out, spec, started, step
from flownb.testing.feed import key

FEW, MANY = 100, 10_000
#: A tick at MANY may cost so many times what it costs at FEW. A path through a tree of 10,000 is longer than one
#: through a tree of 100 by a little; a copy of 10,000 entries would be 20 times dearer.
AT_MOST = 1.3
#: Noise of a shared machine makes a call slower, never faster: of so many rounds of so many calls the fastest counts.
ROUNDS, CALLS = 20, 25


class Row(Event):
    n: int = 0


STEPS = (
    step("begin", "Start", fans="A", num_workers=None),
    step("work", "A", ("A", "B"), num_workers=4, waits=True),
    step("idle", "Other", num_workers=None),
    step("pair", slots=("X", "Y"), num_workers=None),
    step("sum", gathers="B", returns="Stop"),
)
ASK = event("Ask", answer="Reply")
FLOW = spec(*STEPS, types=(ASK,), stalled="wait")
OPEN = spec(*(replace(s, num_workers=None) for s in STEPS), types=(ASK,), stalled="wait")


def fanned(n, flow=FLOW):
    """`begin` fanned out into n elements, and a few more to measure with; "work" has been finished once."""
    state, _ = feed(started(flow))
    outs = tuple(out("A", i) for i in range(n + 8))
    state, _ = reduce(state, StepFinished(0.0, "begin", 1, 1, outs, True))
    return reduce(state, finishes(state))[0]


def first(state):
    return next(state.steps[1].active.values())


def says(state, kind, *rest):
    d = first(state)
    return kind(0.0, "work", d.id, d.start, *rest)


# What there is much of


def queued(n):
    return fanned(n)


def running(n):
    return fanned(n, OPEN)


def gathered(n):
    state = fanned(2 * n)
    for _ in range(n):
        state, _ = reduce(state, finishes(state))
    return state


def waiting(n, wait_of, flow=FLOW):
    """So many deliveries that wait."""
    state = fanned(n, flow)
    for i in range(n):
        state, _ = reduce(state, says(state, WaitOpened, 1, wait_of(i)))
    return state


def asleep(n):
    return waiting(n, lambda i: Sleep(9.0))


def asking(n):
    return waiting(n, lambda i: Ask(out("Ask"), 9.0))


def looking(n):
    """Each waits for another value, with a deadline."""
    return waiting(n, lambda i: Await(key("Row"), {"n": out("Value", i)}, 9.0))


def with_children(n):
    return waiting(n, lambda i: RunChild("test:other", out("Start")))


def to_be_tried_again(n):
    state = fanned(n)
    for _ in range(n):
        state, _ = reduce(state, says(state, StepFailed, Failure("E", "no"), 9.0))
    return state


def one(n, wait_of):
    """One delivery has so many waits open."""
    state = fanned(0, OPEN)
    d = first(state)
    for i in range(n):
        state, _ = reduce(state, WaitOpened(0.0, "work", d.id, d.start, i + 1, wait_of(i)))
    return state


def one_asleep(n):
    return one(n, lambda i: Sleep(9.0))


def one_asking(n):
    return one(n, lambda i: Ask(out("Ask"), 9.0))


def one_looking(n):
    return one(n, lambda i: Await(key("Row"), {"n": out("Value", i)}, 9.0))


def one_with_children(n):
    return one(n, _child)


def _child(n):
    return RunChild("test:other", out("Start"), n)


def with_names(n):
    state = fanned(0)
    for i in range(n):
        state, _ = reduce(state, says(state, StateWritten, {f"name {i}": out("Value", i)}))
    return state


def with_sets(n):
    """Each branch has one of a pair."""
    state = running(n)
    for _ in range(n):
        state, _ = reduce(state, says(state, StepFinished, (out("X"), out("A")), True))
    return state


def with_keys(n):
    state = fanned(0)
    for i in range(n):
        state, _ = reduce(state, EventArrived(0.0, out("Other"), key=f"key {i}"))
    return state


def collected(n):
    """So many events in one buffer, and one in each of so many others; the one has been taken from once."""
    state = running(n)
    for i in range(n):
        d = first(state)
        kept = [Collect(name, ((key("A"), n + 9),), d.out, key("A")) for name in ("", f"buffer {i}")]
        state, _ = reduce(state, StepFinished(0.0, "work", d.id, d.start, collects=tuple(kept)))
    return reduce(state, takes_from_a_buffer(state))[0]


def with_a_long_ledger(n):
    state = fanned(0)
    state, _ = reduce(state, says(state, EventsSent, tuple(out("Z") for _ in range(n))))
    return state


def quiet(n):
    """Nothing runs, and so many ask."""
    state = asking(n)
    while state.steps[1].active.n:
        state, _ = reduce(state, says(state, StepFinished))
    return state


# What happens then


def finishes(state):
    return says(state, StepFinished, (out("B"),))


def sends(state):
    return says(state, EventsSent, (out("A"),))


def writes(state):
    return says(state, StateWritten, {"name 5": out("Value", -1), "another": out("Value")})


def fails(state):
    return says(state, StepFailed, Failure("E", "no"), 9.0)


def sleeps(state):
    return says(state, WaitOpened, 1_000_000, Sleep(9.0))


def asks(state):
    return says(state, WaitOpened, 1_000_000, Ask(out("Ask"), 9.0))


def waits(state):
    return says(state, WaitOpened, 1_000_000, Await(key("Row"), {"n": out("Value", -1)}, 9.0))


def runs_a_child(state):
    return says(state, WaitOpened, 1_000_000, _child(2))


def fires(state):
    return TimerFired(9.0, next(iter(state.timers)))


def answers(state):
    return RequestAnswered(1.0, next(iter(state.requests)), out("Reply"))


def arrives(state):
    wanted = next(iter(state.side.waiters.values())).requires["n"].value
    return EventArrived(1.0, out("Row", Row(n=wanted)))


def arrives_with_a_key(state):
    return EventArrived(1.0, out("Other"), key="a new one")


def arrives_for_nobody(state):
    return EventArrived(1.0, out("Row", Row(n=-5)))


def child_ends(state):
    return ChildFinished(1.0, next(iter(state.side.children)), "completed", out("Stop"))


def child_waits(state):
    return ChildChanged(1.0, next(iter(state.side.children)), False)


def gives_up(state):
    d = next(state.steps[1].waiting.values())
    return WaitWithdrawn(1.0, "work", d.id, d.start, next(iter(d.waits)))


def completes_a_set(state):
    """In the branch of the delivery that sends the partner."""
    return says(state, EventsSent, (out("Y"),))


def adds_to_a_buffer(state):
    d = first(state)
    wants = ((key("A"), MANY * 2),)
    return StepFinished(0.0, "work", d.id, d.start, collects=(Collect("", wants, d.out, key("A")),))


def takes_from_a_buffer(state):
    d = first(state)
    wants, buffer = ((key("A"), 2),), buffer_of(state, "work", "")
    assert is_complete(buffer, wants, key("A"))
    collect = Collect("", wants, d.out, key("A"), heads_of(buffer, wants), True)
    return StepFinished(0.0, "work", d.id, d.start, collects=(collect,))


def is_noticed(state):
    return QuietNoticed(1.0)


CASES = [
    (queued, finishes),
    (queued, sends),
    (queued, writes),
    (queued, sleeps),
    (queued, fails),
    (running, sends),
    (running, finishes),
    (gathered, finishes),
    (collected, adds_to_a_buffer),
    (collected, takes_from_a_buffer),
    (asleep, finishes),
    (asleep, sleeps),
    (asleep, fires),
    (asking, asks),
    (asking, fires),
    (asking, answers),
    (looking, waits),
    (looking, arrives),
    (looking, arrives_for_nobody),
    (looking, fires),
    (looking, gives_up),
    (with_children, runs_a_child),
    (with_children, child_ends),
    (with_children, child_waits),
    (to_be_tried_again, fires),
    (one_asleep, gives_up),
    (one_asleep, fires),
    (one_asking, answers),
    (one_looking, arrives),
    (one_with_children, child_ends),
    (with_names, writes),
    (with_sets, completes_a_set),
    (with_keys, arrives_with_a_key),
    (with_a_long_ledger, sends),
    (quiet, is_noticed),
]


def cost(state, tick):
    """Nanoseconds of processor time of one tick: of several calls the fastest, since `reduce` is a function."""
    best = 10**12
    for _ in range(CALLS):
        begun = time.process_time_ns()
        reduce(state, tick)
        best = min(best, time.process_time_ns() - begun)
    return best


@pytest.fixture(scope="module")
def made():
    """States are dear to make: each once, for all the ticks that are tried on it."""
    return {}


@pytest.mark.parametrize(("of", "tick"), CASES, ids=[f"{tick.__name__} {of.__name__}" for of, tick in CASES])
def test_a_tick_costs_the_same_however_much_there_is(made, of, tick):
    """R1.6: at 10,000 what it costs at 100."""
    if of not in made:
        made.clear()
        made[of] = of(FEW), of(MANY)
    few, many = made[of]
    tick_few, tick_many = tick(few), tick(many)
    assert reduce(many, tick_many)[0].ignored == many.ignored, "the tick was late"
    gc.collect()
    gc.disable()  # a collection in the middle of a tick is not the tick's cost
    try:
        least_few = least_many = 10**12
        for _ in range(ROUNDS):
            least_many = min(least_many, cost(many, tick_many))
            least_few = min(least_few, cost(few, tick_few))
            if least_many <= AT_MOST * least_few:
                break
    finally:
        gc.enable()
    assert least_many <= AT_MOST * least_few, f"{least_many} ns at {MANY}, {least_few} ns at {FEW}"


def test_a_fan_out_is_one_pass():
    """R1.6: ten times the elements cost ten times as much, all ticks together, not a hundred times."""

    def whole(n):
        begun = time.process_time()
        state = fanned(n)
        while state.steps[1].active:
            state, _ = reduce(state, finishes(state))
        assert len(next(state.steps[4].active.values()).out) == n + 8
        return time.process_time() - begun

    growth = min(whole(20_000) / whole(2_000) for _ in range(3))
    assert growth < 16, growth
