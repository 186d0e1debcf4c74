"""Buffers of `ctx.collect_events`: what a delivery was told is carried out when it finishes, if it still holds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flownb.core.collecting import buffer_of, heads_of, is_complete
from flownb.core.commands import StartStep
from flownb.core.persist import Fifo
from flownb.core.reduce import reduce
from flownb.core.state import Entry
from flownb.core.ticks import Collect, RunOpened, Sleep, StepFailed, StepFinished, TimerFired, WaitOpened
from flownb.core.values import Failure
from flownb.testing import feed, finish, out, says, spec, started, step
from flownb.testing.feed import key, started_of, work_of

FLOW = spec(
    step("begin", "Start", fans=("A", "B")), step("gather", ("A", "B"), "C", num_workers=None), step("use", "C", "Stop")
)
A, B = key("A"), key("B")
TWO = ((A, 2),)
PAIR = ((A, 1), (B, 1))


def running(*outs):
    """Step "gather" runs on each of these."""
    return finish(feed(started(FLOW))[0], "begin", *outs, fan=True)[0]


def told(state, d, wants=TWO, buffer=""):
    """What a delivery is told by the buffer as it is now."""
    found = buffer_of(state, "gather", buffer)
    slot = d.out.key if d.out.key in dict(wants) else ""
    took = is_complete(found, wants, slot)
    return Collect(buffer, wants, d.out, slot, heads_of(found, wants) if took else (), took)


def ends(state, n, *collects, outs=()):
    """The n-th oldest delivery of "gather" finishes with what it was told, or is told now."""
    d = started_of(state, "gather")[n]
    return feed(state, StepFinished(0.0, "gather", d.id, d.start, outs, False, collects or (told(state, d),)))


def held(state, buffer=""):
    queues = buffer_of(state, "gather", buffer).queues
    return {kind: [entry.out.value for entry in queue] for kind, queue in queues.items()}


def test_what_is_not_complete_is_kept():
    """R4.1, R4.2: per step and id, in order of arrival, with its place in the order of sending."""
    state = running(out("A", 1), out("A", 2), out("B", 3))
    state, _ = ends(state, 1, told(state, started_of(state, "gather")[1], ((A, 3),)))
    state, _ = ends(state, 0, told(state, started_of(state, "gather")[0], ((A, 3),)))
    state, commands = ends(state, 0, told(state, started_of(state, "gather")[0], PAIR, "other"))

    assert commands == ()
    assert buffer_of(state, "gather", "").queues == {A: Fifo.of([Entry(1, 3, out("A", 2)), Entry(2, 2, out("A", 1))])}
    assert held(state, "other") == {B: [3]}
    assert held(state, "nobody's") == {}
    assert buffer_of(state, "use", "").queues == {}


def test_what_is_complete_empties_the_buffer_when_the_step_completes():
    """R4.4: not before."""
    state = running(out("A", 1), out("A", 2))
    state, _ = ends(state, 0)
    assert held(state) == {A: [1]}
    d = started_of(state, "gather")[0]
    collect = told(state, d)
    assert (collect.took, collect.heads) == (True, (1, 1))
    assert held(state) == {A: [1]}
    state, commands = ends(state, 0, collect, outs=(out("C"),))

    assert [c.delivery.step for c in commands] == [2]
    assert held(state) == {}
    assert len(state.side.buffers) == 0


def test_an_attempt_that_fails_leaves_the_buffer_as_it_was():
    """R4.4: a retry sees the same events."""
    state = running(out("A", 1), out("A", 2))
    state, _ = ends(state, 0)
    state, _ = feed(state, says(state, "gather", StepFailed, failure=Failure("E", "no"), retry_at=0.0))
    assert held(state) == {A: [1]}
    state, _ = ends(state, 0)
    assert held(state) == {}


def test_surplus_events_stay_for_the_next_round():
    """R4.5: of a type that is wanted less often than it came; the brought one too."""
    state = running(*(out("A", n) for n in range(4)), out("B", "b"))
    for _ in range(4):
        state, _ = ends(state, 0, told(state, started_of(state, "gather")[0], PAIR))
    assert held(state) == {A: [0, 1, 2, 3]}
    state, _ = ends(state, 0, told(state, started_of(state, "gather")[0], PAIR))

    assert held(state) == {A: [1, 2, 3]}


def test_a_brought_event_that_is_one_too_many_stays():
    """R4.5: the buffer alone was enough, so what the step brought is for the next round."""
    state = running(*(out("A", n) for n in range(4)))
    for _ in range(2):
        state, _ = ends(state, 0, told(state, started_of(state, "gather")[0], ((A, 3),)))
    state, _ = ends(state, 0, told(state, started_of(state, "gather")[0], ((A, 2),)))

    assert held(state) == {A: [2]}


def test_an_event_of_a_type_that_is_not_wanted_is_not_kept():
    """R4.1: it may still complete nothing, and takes nothing away."""
    state = running(out("B", 1), out("A", 2))
    state, _ = ends(state, 0)
    assert held(state) == {}
    assert len(state.side.buffers) == 0
    state, _ = ends(state, 0)
    assert held(state) == {A: [2]}


def test_two_that_were_told_none_are_kept_both():
    """R4.3: the newer buffer would not have answered otherwise, so neither runs again."""
    state = running(*(out("A", n) for n in range(2)), out("B"))
    first, second = [told(state, d, ((A, 3),)) for d in started_of(state, "gather")[:2]]
    state, commands = ends(state, 0, first)
    assert commands == ()
    state, commands = ends(state, 0, second)
    assert commands == ()
    assert held(state) == {A: [0, 1]}


def test_an_attempt_whose_buffer_became_complete_meanwhile_runs_again():
    """R4.3, R3.17: on its own worker, with the next start number; nothing of its end counts."""
    state = running(out("A", 1), out("A", 2))
    first, second = [told(state, d) for d in started_of(state, "gather")]
    state, _ = ends(state, 0, first)
    d = started_of(state, "gather")[0]
    state, commands = ends(state, 0, second, outs=(out("C"),))

    again = work_of(state, "gather").active[3]
    assert commands == (StartStep(again),)
    assert (again.start, again.attempt, again.worker) == (2, 1, d.worker)
    assert (held(state), work_of(state, "gather").done, state.busy) == ({A: [1]}, 1, 1)
    late, _ = feed(state, StepFinished(0.0, "gather", 3, 1, (out("C"),)))
    assert late.ignored == 1
    state, commands = ends(state, 0, outs=(out("C"),))
    assert held(state) == {}
    assert [c.delivery.step for c in commands] == [2]


def test_an_attempt_that_took_what_another_took_runs_again():
    """R4.3: two that were complete with the same entries; nobody gets an event twice."""
    state = running(out("A", 1), out("A", 2), out("A", 3))
    state, _ = ends(state, 0)
    one, other = [told(state, d) for d in started_of(state, "gather")]
    assert one.took and other.took
    state, _ = ends(state, 0, one)
    state, commands = ends(state, 0, other)
    assert [(c.delivery.id, c.delivery.start) for c in commands] == [(4, 2)]
    state, _ = ends(state, 0)
    assert held(state) == {A: [3]}


def test_an_attempt_that_would_now_be_given_another_event_runs_again():
    """R4.3: it took its own as the last one, since then one came before it."""
    state = running(out("A", 1), out("A", 2), out("A", 3))
    state, _ = ends(state, 0)
    first = told(state, started_of(state, "gather")[0])  # took 1 and its own 2
    state, _ = ends(state, 1, told(state, started_of(state, "gather")[1], ((A, 5),)))  # 3 is kept
    assert held(state) == {A: [1, 3]}
    state, commands = ends(state, 0, first)

    assert [(c.delivery.id, c.delivery.start) for c in commands] == [(3, 2)]
    state, _ = ends(state, 0)
    assert held(state) == {A: [2]}


def test_an_attempt_whose_first_event_is_gone_runs_again():
    """R4.3: the last one is the same."""
    state = running(*(out("A", n) for n in range(4)))
    for _ in range(2):
        state, _ = ends(state, 0, told(state, started_of(state, "gather")[0], ((A, 9),)))
    both = told(state, started_of(state, "gather")[0])
    state, _ = ends(state, 1, told(state, started_of(state, "gather")[1], ((A, 1),)))  # takes the first
    assert held(state) == {A: [1, 3]}
    _, commands = ends(state, 0, both)
    assert [c.delivery.start for c in commands] == [2]


def test_an_attempt_that_runs_again_keeps_its_open_waits():
    """R4.3, R4.29: active with a wait open, or returned while it waits; in both it starts from the top."""
    state = running(out("A", 1), out("A", 2))
    first, second = [told(state, d) for d in started_of(state, "gather")]
    state, _ = feed(state, says(state, "gather", WaitOpened, n=1, mark=1, wait=Sleep(5.0)))
    state, _ = ends(state, 0, first)
    waiting, commands = ends(state, 0, second)
    assert [(c.delivery.id, c.delivery.start, list(c.delivery.waits)) for c in commands] == [(3, 2, [1])]
    assert (waiting.sleeps, waiting.busy) == (1, 1)
    again, commands = feed(waiting, TimerFired(5.0, 1))
    assert [type(c).__name__ for c in commands] == ["WakeStep"]
    assert ends(again, 0)[0].busy == 0


def test_one_that_stands_in_line_and_runs_again_stands_there_once():
    """R4.3: woken, but without a worker yet, when its end was reduced; then it starts, and is not woken."""
    flow = spec(step("begin", "Start", fans="A"), step("gather", "A", num_workers=1))
    state, _ = finish(feed(started(flow))[0], "begin", *(out("A", n) for n in range(3)), fan=True)
    stale = told(state, started_of(state, "gather")[0])
    state, _ = feed(state, says(state, "gather", WaitOpened, mark=1, wait=Sleep(5.0)))
    state, _ = feed(state, says(state, "gather", WaitOpened, mark=2, wait=Sleep(9.0)))
    state, _ = ends(state, 1)  # 3 is kept; 4 runs
    state, _ = feed(state, TimerFired(5.0, 1))
    state, commands = ends(state, 0, stale)
    assert commands == ()
    assert state.busy == 2
    state, commands = ends(state, 1, told(state, started_of(state, "gather")[1], ((A, 9),)))
    assert [(type(c).__name__, c.delivery.id, c.delivery.start) for c in commands] == [("StartStep", 2, 2)]


def test_what_is_collected_survives_a_lost_driver():
    """R1.7: and the attempt that was lost asks anew."""
    state = running(out("A", 1), out("A", 2))
    state, _ = ends(state, 0)
    state, _ = feed(state, RunOpened(1.0, "another"))
    assert held(state) == {A: [1]}
    state, _ = ends(state, 0)
    assert held(state) == {}


def test_a_buffer_that_is_asked_twice_in_one_attempt_gives_its_events_once():
    """R1.4, R4.4: both calls saw the buffer as it was; whatever they were told, the reducer goes on."""
    state = running(out("A", 1), out("A", 2), out("A", 3))
    state, _ = ends(state, 0)
    d = started_of(state, "gather")[0]
    twice = told(state, d), told(state, d)
    state, _ = ends(state, 0, *twice)
    assert held(state) == {}
    d = started_of(state, "gather")[0]
    state, _ = ends(state, 0, told(state, d), told(state, d, ((A, 9),)), told(state, d, ((A, 9),), "other"))
    assert (held(state), held(state, "other")) == ({A: [3, 3]}, {A: [3]})


def test_the_order_of_sending_is_kept_beside_that_of_arrival():
    """R4.7: however deliveries finish, a rank says where what they brought was sent; what one returns keeps it."""
    flow = spec(
        step("begin", "Start", fans="A"),
        step("work", "A", "B", num_workers=None),
        step("inner", "B", "C", num_workers=None),
        step("gather", "C", num_workers=None),
    )
    state, _ = finish(feed(started(flow))[0], "begin", *(out("A", n) for n in range(3)), fan=True)
    for n in (2, 0, 0):
        state, _ = finish(state, "work", out("B", n), n=n)
    for _ in range(3):
        state, _ = finish(state, "inner", out("C"), n=state.steps[2].active.n - 1)
    brought = [(d.id, d.rank) for d in started_of(state, "gather")]
    assert sorted(rank for _, rank in brought) == [2, 3, 4]
    assert [rank for _, rank in brought] != [2, 3, 4]
    for _ in range(3):
        state, _ = ends(state, 0, told(state, started_of(state, "gather")[0], ((key("C"), 9),)))
    entries = list(buffer_of(state, "gather", "").queues[key("C")])
    assert [entry.rank for entry in entries] == [rank for _, rank in brought]


def test_a_join_stands_where_its_fan_out_was_sent():
    """R4.7: what the joins of inner fan-outs return is in the order of the outer elements, whoever splits first."""
    flow = spec(
        step("begin", "Start", fans="A"),
        step("split", "A", fans="B", num_workers=None),
        step("work", "B", "C", num_workers=None),
        step("inner", gathers="C", returns="D", num_workers=None),
        step("gather", "D", num_workers=None),
    )
    state, _ = finish(feed(started(flow))[0], "begin", out("A", 0), out("A", 1), fan=True)
    state, _ = finish(state, "split", out("B", 10), n=1, fan=True)
    state, _ = finish(state, "split", out("B", 0), fan=True)
    for _ in range(2):
        state, _ = finish(state, "work", out("C"))
        state, _ = finish(state, "inner", out("D"))
    assert [d.rank for d in started_of(state, "gather")] == [3, 2]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 3), st.booleans()), max_size=30))
def test_no_event_is_dropped_or_given_twice(plan):
    """R4.3, R4.5: whatever is told when, all that came is given once, or still there."""
    state = running(*(out("A", n) for n in range(8)))
    given_out, stale = [], {}
    for n, wants, looks in plan:
        alive = started_of(state, "gather")
        if not alive:
            break
        d = alive[n % len(alive)]
        look = (told(state, d, ((A, wants),)), buffer_of(state, "gather", ""))
        if looks:
            stale[d.id, d.start] = look
            continue
        collect, buffer = stale.pop((d.id, d.start), look)
        state, commands = reduce(state, StepFinished(0.0, "gather", d.id, d.start, (), False, (collect,)))
        if not commands and collect.took:
            taken = [entry.out.value for entry in buffer.queues.get(A, ())][: collect.wants[0][1]]
            given_out += taken if len(taken) == collect.wants[0][1] else [*taken, d.out.value]
    left = held(state).get(A, [])
    running_still = [d.out.value for d in started_of(state, "gather")]
    assert sorted([*given_out, *left, *running_still]) == list(range(8))


@pytest.mark.parametrize("wants", [(), ((A, 0),)])
def test_nothing_wanted_is_there_at_once(wants):
    """R4.6: and takes nothing."""
    state = running(out("A", 1))
    collect = told(state, started_of(state, "gather")[0], wants)
    assert collect.took
    state, _ = ends(state, 0, collect)
    assert held(state) == ({A: [1]} if wants else {})
