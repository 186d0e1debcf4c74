"""What a tick costs does not depend on what is queued, collected or waiting (R1.6)."""

import gc
import time
from statistics import median

import pytest

from flownb.core.reduce import reduce
from flownb.core.ticks import Ask, EventsSent, Sleep, StateWritten, StepFinished, TimerFired, WaitOpened
from flownb.testing import event, feed, out, spec, started, step

FEW, MANY = 100, 10_000
#: A tick at MANY may cost so many times what it costs at FEW. A path through a tree of 10,000 is longer than one
#: through a dict of 64 entries by a little; a copy of 10,000 entries would be 20 times dearer.
AT_MOST = 1.5
#: Noise of a shared machine: the best of so many comparisons counts.
TRIES = 5
#: Elements that are there beside those that a case is about.
SPARE = 100

FLOW = spec(
    step("begin", "Start", fans="A"),
    step("work", "A", ("A", "B"), num_workers=4),
    step("idle", "Other", num_workers=None),
    step("sum", gathers="B", returns="Stop"),
    types=(event("Ask", answer="Reply"),),
)
OPEN = spec(*(s if s.name != "work" else step("work", "A", ("A", "B"), num_workers=None) for s in FLOW.steps))


def fanned(n, flow=FLOW):
    """`begin` fanned out into n elements, and enough more to measure with."""
    state, _ = feed(started(flow))
    outs = tuple(out("A", i) for i in range(n + SPARE))
    return reduce(state, StepFinished(0.0, "begin", 1, 1, outs, True))[0]


def first(state):
    return next(state.steps[1].active.values())


def finishes(state):
    d = first(state)
    return StepFinished(0.0, "work", d.id, d.start, (out("B"),))


def sends(state):
    d = first(state)
    return EventsSent(0.0, "work", d.id, d.start, (out("A"),))


def writes(state):
    d = first(state)
    return StateWritten(0.0, "work", d.id, d.start, {"n": out("Value")})


def sleeps(state):
    d = first(state)
    return WaitOpened(0.0, "work", d.id, d.start, d.id * 1_000 + len(d.waits), Sleep(9.0))


def queued(n):
    return fanned(n)


def collected(n):
    state = fanned(2 * n)
    for _ in range(n):
        state, _ = reduce(state, finishes(state))
    return state


def waiting(n):
    """n sleep, n ask with a deadline, some run."""
    state = fanned(2 * n)
    for i in range(2 * n):
        d = first(state)
        wait = Sleep(9.0) if i % 2 else Ask(out("Ask"), 9.0)
        state, _ = reduce(state, WaitOpened(0.0, "work", d.id, d.start, 1, wait))
    return state


def running(n):
    return fanned(n, OPEN)


def fires(state):
    return TimerFired(9.0, next(timer.id for timer in state.timers.values() if timer.kind == "sleep"))


def cost(state, tick_of, ticks=60):
    """Seconds of processor time of one tick: the median of many, each on the state that the one before left."""
    took = []
    for _ in range(ticks):
        tick = tick_of(state)
        begun = time.process_time_ns()
        state, _ = reduce(state, tick)
        took.append(time.process_time_ns() - begun)
    return median(took)


CASES = [
    (queued, finishes),
    (queued, sends),
    (queued, writes),
    (queued, sleeps),
    (collected, finishes),
    (waiting, finishes),
    (waiting, sleeps),
    (waiting, fires),
    (running, sends),
    (running, finishes),
]


@pytest.mark.parametrize(("of", "tick"), CASES, ids=[f"{tick.__name__} with many {of.__name__}" for of, tick in CASES])
def test_a_tick_costs_the_same_however_much_there_is(of, tick):
    """R1.6: at 10,000 what it costs at 100."""
    few, many = of(FEW), of(MANY)
    gc.collect()
    gc.disable()  # a collection in the middle of a tick is not the tick's cost
    try:
        ratios = []
        for _ in range(TRIES):
            ratios.append(cost(many, tick) / cost(few, tick))
            if ratios[-1] <= AT_MOST:
                break
    finally:
        gc.enable()
    assert min(ratios) <= AT_MOST, ratios


def test_a_fan_out_is_one_pass():
    """R1.6: ten times the elements cost ten times as much, all ticks together, not a hundred times."""

    def whole(n):
        begun = time.process_time()
        state = fanned(n)
        while state.steps[1].active:
            state, _ = reduce(state, finishes(state))
        assert len(next(state.steps[3].active.values()).out) == n + SPARE
        return time.process_time() - begun

    growth = min(whole(20_000) / whole(2_000) for _ in range(3))
    assert growth < 16, growth
