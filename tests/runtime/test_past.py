"""A run's past, looked at while the run goes on."""

import sys
import threading

from flownb.core.history import WORK
from flownb.core.reduce import begin, reduce
from flownb.core.ticks import AnyTick, GateClosed, GateOpened
from flownb.runtime.past import Past
from flownb.testing import spec, started, step


def test_looks_on_other_threads_while_ticks_are_noted_find_every_state():
    first = started(spec(step("begin", "Start")))
    state, _ = begin(first)
    ticks: list[AnyTick] = [first]
    states = [state]
    past = Past(ticks)
    past.note(state, first)
    wrong: list[object] = []
    over = threading.Event()

    def look(stride: int) -> None:
        k = 0
        while not over.is_set():
            seen = len(states)
            k = (k + stride) % seen
            try:
                if past.at(k + 1) != states[k]:
                    wrong.append(k)
            except Exception as error:
                wrong.append(error)

    lookers = [threading.Thread(target=look, args=(stride,)) for stride in (1, 37, 101)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in lookers:
            thread.start()
        for n in range(12 * WORK):
            tick = (GateClosed if n % 2 else GateOpened)(float(n))
            state, _ = reduce(state, tick)
            ticks.append(tick)
            past.note(state, tick)
            states.append(state)
    finally:
        over.set()
        sys.setswitchinterval(before)
        for thread in lookers:
            thread.join()
    assert wrong == []
    assert [past.at(k + 1) for k in range(len(states))] == states
