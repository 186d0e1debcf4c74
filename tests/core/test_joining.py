"""Fan-out and fan-in: every list step fires exactly once, when nothing lives in any branch."""

import pytest

from flownb.core.commands import StartStep
from flownb.core.reduce import reduce
from flownb.core.ticks import EventsSent, RequestAnswered, RequestDisposed, Sleep, StepFinished, TimerFired, WaitOpened
from flownb.core.values import Limit
from flownb.testing import event, feed, finish, out, says, spec, started, step

FLAT = spec(
    step("begin", "Start", fans="A", num_workers=None),
    step("work", "A", "B", num_workers=None),
    step("sum", gathers="B", returns="Stop"),
)


def fanned(flow=FLAT, n=3):
    state, _ = feed(started(flow))
    return finish(state, "begin", *(out("A", i) for i in range(n)), fan=True)


def gathered(commands):
    """What each gathering step is started with, as plain values."""
    return [
        (c.delivery.step, [each.value for each in c.delivery.out])
        for c in commands
        if isinstance(c, StartStep) and isinstance(c.delivery.out, tuple)
    ]


def test_a_list_step_fires_once_when_every_branch_is_finished():
    """R4.8: not before, not again."""
    state, _ = fanned()
    for _ in range(2):
        state, commands = finish(state, "work", out("B", "b"))
        assert gathered(commands) == []
    state, commands = finish(state, "work", out("B", "b"))

    assert gathered(commands) == [(2, ["b", "b", "b"])]
    assert len(state.joins) == 0


def test_results_are_ordered_by_branch():
    """R4.9: however they finish."""
    state, _ = fanned()
    state, _ = finish(state, "work", out("B", 2), n=2)
    state, _ = finish(state, "work", out("B", 0), n=0)
    _, commands = finish(state, "work", out("B", 1))

    assert gathered(commands) == [(2, [0, 1, 2])]


def test_inside_a_branch_results_are_ordered_by_sending():
    """R4.9, R4.10: what was sent comes before what was returned later; both belong to the branch."""
    state, _ = fanned(n=2)
    state, _ = feed(state, says(state, "work", EventsSent, n=1, outs=(out("B", "1 sent"), out("B", "1 more"))))
    state, _ = finish(state, "work", out("B", "1 returned"), n=1)
    state, _ = feed(state, says(state, "work", EventsSent, outs=(out("B", "0 sent"),)))
    _, commands = finish(state, "work", out("B", "0 returned"))

    assert gathered(commands) == [(2, ["0 sent", "0 returned", "1 sent", "1 more", "1 returned"])]


def test_an_empty_list_fires_its_joins_at_once():
    """R4.11: with []."""
    _, commands = fanned(n=0)
    assert gathered(commands) == [(2, [])]


def test_an_element_that_returns_none_drops_out():
    """R4.13: nobody waits for it; if all do, the list is empty."""
    state, _ = fanned(n=2)
    state, _ = finish(state, "work")
    _, one = finish(state, "work", out("B", 1))
    assert gathered(one) == [(2, [1])]
    _, none = finish(state, "work")
    assert gathered(none) == [(2, [])]


def test_an_element_that_nobody_takes_drops_out():
    """R4.13: published as unhandled, not waited for."""
    state, _ = feed(started(FLAT))
    state, _ = finish(state, "begin", out("A", 0), out("Lost", 1), fan=True)
    state, commands = finish(state, "work", out("B", 0))

    assert gathered(commands) == [(2, [0])]
    assert state.unhandled == 1


def test_elements_may_go_straight_to_the_join():
    """R4.8: a list step that takes what was fanned out fires in the same tick."""
    flow = spec(step("begin", "Start", fans="A"), step("sum", gathers="A"))
    _, commands = fanned(flow)
    assert gathered(commands) == [(1, [0, 1, 2])]


def test_a_broadcast_in_a_branch_belongs_to_it():
    """R4.10: the branch lives as long as all that it caused."""
    flow = spec(step("begin", "Start", fans="A"), step("x", "A", "B"), step("y", "A", "B"), step("sum", gathers="B"))
    state, _ = fanned(flow, n=2)
    for name, value in [("y", "y0"), ("y", "y1"), ("x", "x0")]:
        state, commands = finish(state, name, out("B", value))
        assert gathered(commands) == []
    _, commands = finish(state, "x", out("B", "x1"))

    assert gathered(commands) == [(3, ["y0", "x0", "y1", "x1"])]


def test_every_list_step_that_a_fan_out_reaches_fires():
    """R4.11: each with its own, [] if none of its type came; an event that two of them gather goes to both."""
    flow = spec(
        step("begin", "Start", fans="A"),
        step("work", "A", ("B", "C", "D")),
        step("b", gathers="B"),
        step("both", gathers=("B", "C")),
        step("d", gathers="D"),
    )
    state, _ = fanned(flow, n=2)
    state, _ = finish(state, "work", out("B", "b"))
    _, commands = finish(state, "work", out("C", "c"))

    assert gathered(commands) == [(2, ["b"]), (3, ["b", "c"]), (4, [])]


NESTED = spec(
    step("begin", "Start", fans="A", num_workers=None),
    step("split", "A", fans="B", num_workers=None),
    step("work", "B", "C", num_workers=None),
    step("inner", gathers="C", returns="D", num_workers=None),
    step("outer", gathers="D", returns="Stop"),
)


def test_nested_fan_outs_join_innermost_first():
    """R4.11, R4.12: the inner join fires per inner fan-out, in the outer branch, which stays open until then."""
    state, _ = fanned(NESTED, n=2)
    state, _ = finish(state, "split", out("B", "00"), out("B", "01"), fan=True)
    state, _ = finish(state, "split", out("B", "10"), fan=True)
    state, commands = finish(state, "work", out("C", "c10"), n=2)
    assert gathered(commands) == [(3, ["c10"])]
    state, commands = finish(state, "inner", out("D", "d1"))
    assert gathered(commands) == []
    state, _ = finish(state, "work", out("C", "c00"))
    state, commands = finish(state, "work", out("C", "c01"))
    assert gathered(commands) == [(3, ["c00", "c01"])]
    _, commands = finish(state, "inner", out("D", "d0"))

    assert gathered(commands) == [(4, ["d0", "d1"])]


def test_three_empty_inner_lists_give_three_empty_joins():
    """R4.11: nested 3×0; the outer join waits for all of them."""
    state, _ = fanned(NESTED)
    for _ in range(3):
        state, commands = finish(state, "split", fan=True)
        assert gathered(commands) == [(3, [])]
    for n in range(2):
        state, commands = finish(state, "inner", out("D", n))
        assert gathered(commands) == []
    _, commands = finish(state, "inner", out("D", 2))

    assert gathered(commands) == [(4, [0, 1, 2])]


def test_an_outer_list_of_nothing_is_an_outer_join_of_nothing():
    """R4.11: the inner join cannot be reached then."""
    _, commands = fanned(NESTED, n=0)
    assert gathered(commands) == [(4, [])]


def test_one_step_may_join_both_levels():
    """R4.11: a list step that an inner and an outer fan-out reach gathers the inner one first."""
    flow = spec(
        step("begin", "Start", fans="A", num_workers=None),
        step("work", "A", "B", fans="A", num_workers=None),
        step("sum", gathers="B", returns=("B", "Stop"), num_workers=None),
    )
    state, _ = fanned(flow, n=2)
    state, _ = finish(state, "work", out("A", "00"), out("A", "01"), fan=True)
    state, commands = finish(state, "work", out("B", "1"))
    assert gathered(commands) == []
    state, _ = finish(state, "work", out("B", "00"))
    state, commands = finish(state, "work", out("B", "01"))
    assert gathered(commands) == [(2, ["00", "01"])]
    _, commands = finish(state, "sum", out("B", "0"))

    assert gathered(commands) == [(2, ["0", "1"])]


def test_a_join_that_returns_a_list_is_joined_in_the_same_branch():
    """R4.12: one after the other, then the outer one."""
    flow = spec(
        step("begin", "Start", fans="A"),
        step("first", gathers="A", fans="B"),
        step("second", gathers="B", returns="Stop"),
    )
    state, commands = fanned(flow)
    assert gathered(commands) == [(1, [0, 1, 2])]
    _, commands = finish(state, "first", out("B", 3), out("B", 4), fan=True)
    assert gathered(commands) == [(2, [3, 4])]


def test_an_event_of_another_fan_outs_join_is_not_taken():
    """R4.11: a list step gathers for the fan-outs that can reach it; what strays there is unhandled."""
    flow = spec(
        step("begin", "Start", fans="A"),
        step("work", "A", "B"),
        step("sum", gathers="B"),
        step("else", "Other", fans="X"),
        step("others", gathers="X"),
    )
    state, _ = fanned(flow, n=1)
    state, commands = finish(state, "work", out("X"))

    assert state.unhandled == 1
    assert gathered(commands) == [(2, [])]


def test_a_loop_in_a_branch_keeps_it_open():
    """R4.10: as long as it goes round."""
    flow = spec(step("begin", "Start", fans="A"), step("work", "A", ("A", "B")), step("sum", gathers="B"))
    state, _ = fanned(flow, n=1)
    for n in range(5):
        state, commands = finish(state, "work", out("A", n))
        assert gathered(commands) == []
    _, commands = finish(state, "work", out("B", "out"))

    assert gathered(commands) == [(2, ["out"])]


def test_sends_in_a_loop_are_no_fan_out():
    """R4.15: outside of one, a list step gets nothing."""
    state, _ = feed(started(FLAT))
    state, _ = feed(state, says(state, "begin", EventsSent, outs=(out("A", 0), out("B", 1))))
    assert state.unhandled == 1
    state, commands = finish(state, "work", out("B", 0))

    assert gathered(commands) == []
    assert state.unhandled == 2


ASKING = spec(
    step("begin", "Start", fans="A"),
    step("work", "A", ("B", "Ask")),
    step("hears", "Reply", "B"),
    step("told", "Closed", "B"),
    step("sum", gathers="B"),
    types=(event("Ask", answer="Reply"),),
)


def test_an_open_question_keeps_its_branch_open():
    """R4.14: returned in a branch, its answer goes on in it."""
    state, _ = fanned(ASKING, n=2)
    state, _ = finish(state, "work", out("Ask", "?"))
    state, commands = finish(state, "work", out("B", 1))
    assert gathered(commands) == []
    state, commands = feed(state, RequestAnswered(1.0, 1, out("Reply", "yes")))
    assert gathered(commands) == []
    _, commands = finish(state, "hears", out("B", 0))

    assert gathered(commands) == [(4, [0, 1])]


def test_an_answer_that_is_gathered_itself_fires_the_join():
    """R4.14: the answer may be what the join takes."""
    flow = spec(step("begin", "Start", fans="Ask"), step("sum", gathers="Reply"), types=(event("Ask", answer="Reply"),))
    state, _ = finish(feed(started(flow))[0], "begin", out("Ask", 0), out("Ask", 1), fan=True)
    state, commands = feed(state, RequestAnswered(1.0, 2, out("Reply", "second")))
    assert gathered(commands) == []
    _, commands = feed(state, RequestAnswered(2.0, 1, out("Reply", "first")))

    assert gathered(commands) == [(1, ["first", "second"])]


@pytest.mark.parametrize("how", ["expired", "disposed"])
def test_a_question_that_ends_without_an_answer_goes_on_in_its_branch(how):
    """R4.76: RequestClosedEvent is sent in the branch."""
    state, _ = fanned(ASKING, n=1)
    state, _ = finish(state, "work", out("Ask", "?", limit=Limit(9.0)))
    ends = {"expired": TimerFired(9.0, 1, out("Closed")), "disposed": RequestDisposed(9.0, 1, "no", "", out("Closed"))}
    state, commands = feed(state, ends[how])
    assert gathered(commands) == []
    _, commands = finish(state, "told", out("B", "without"))

    assert gathered(commands) == [(4, ["without"])]


def test_a_waiting_branch_is_unfinished():
    """R4.14: a sleep in it too."""
    state, _ = fanned(n=1)
    state, _ = feed(state, says(state, "work", WaitOpened, mark=1, wait=Sleep(5.0)))
    state, commands = feed(state, TimerFired(5.0, 1))
    assert gathered(commands) == []
    _, commands = finish(state, "work", out("B", 1))

    assert gathered(commands) == [(2, [1])]


def test_a_fan_out_of_10_000_is_joined():
    """R1.6: and the queue, the join and the order hold at that size."""
    flow = spec(step("begin", "Start", fans="A"), step("work", "A", "B"), step("sum", gathers="B"))
    state, _ = fanned(flow, n=10_000)
    commands = []
    while state.steps[1].active:
        state, commands = reduce(state, says_first(state))
    assert gathered(commands) == [(2, list(range(10_000)))]


def says_first(state):
    d = next(state.steps[1].active.values())
    return StepFinished(state.at, "work", d.id, d.start, (out("B", d.out.value),))
