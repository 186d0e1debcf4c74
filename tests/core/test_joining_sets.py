"""Steps with several event parameters: one of each, first in first out, paired inside one branch."""

from hypothesis import given
from hypothesis import strategies as st

from flownb.core.commands import StartStep
from flownb.core.outstanding import why_stalled
from flownb.core.persist import Names
from flownb.core.spec import EVENT
from flownb.core.ticks import EventArrived, QuietNoticed, RunOpened, StepFailed
from flownb.core.values import Failure
from flownb.testing import event, feed, finish, out, says, spec, started, step

PAIR = spec(step("begin", "Start", ("A", "B"), fans=("A", "B")), step("pair", slots=("A", "B"), num_workers=None))


def arrives(state, *outs):
    """What the step is started with, as these come from outside."""
    fired = []
    for each in outs:
        state, commands = feed(state, EventArrived(1.0, each))
        fired += sets(commands)
    return state, fired


def sets(commands):
    return [tuple(each.value for each in c.delivery.out) for c in commands if isinstance(c, StartStep)]


def test_a_step_fires_once_per_set():
    """R4.77: one of each, first in first out; what has no partner waits."""
    outs = [out("A", 1), out("A", 2), out("B", "x"), out("B", "y"), out("B", "z")]
    state, fired = arrives(feed(started(PAIR))[0], *outs)
    assert fired == [(1, "x"), (2, "y")]
    assert list(state.side.sets) == ["pair"]
    state, fired = arrives(state, out("A", 3))
    assert fired == [(3, "z")]
    assert state.side.sets == Names()


def test_what_waits_for_its_partner_is_no_unhandled_event():
    """R4.77, R2.25: and survives a lost driver (R1.7)."""
    state, fired = arrives(feed(started(PAIR))[0], out("B", "x"))
    assert (fired, state.unhandled, len(state.mailbox), state.busy) == ([], 0, 0, 1)
    state, _ = feed(state, RunOpened(2.0, "another"))
    _, fired = arrives(state, out("A", 1))
    assert fired == [(1, "x")]


def test_a_set_fires_in_the_tick_that_completes_it():
    """R2.12, R4.77: from one list, with all that its causes passed through."""
    state, commands = finish(feed(started(PAIR))[0], "begin", out("A", 1), out("B", "x"), out("B", "y"), fan=True)
    assert sets(commands) == [(1, "x")]
    assert commands[0].delivery.chain == 2
    assert state.busy == 1


def test_a_type_that_stands_twice_binds_by_arrival():
    """R4.79: the first one is the first parameter's."""
    flow = spec(step("begin", "Start"), step("pair", slots=("A", "A"), num_workers=None))
    _, fired = arrives(feed(started(flow))[0], *(out("A", n) for n in range(5)))
    assert fired == [(0, 1), (2, 3)]


def test_an_event_that_fits_several_parameters_goes_where_fewest_wait():
    """R4.79, R2.8: by its bases too; a plain Event takes ordinary ones only."""
    flow = spec(
        step("begin", "Start"),
        step("pair", slots=(("A", "Base"), "Base", (EVENT, "AskMe")), num_workers=None),
        types=(event("A", bases="Base"), event("Base")),
    )
    state = feed(started(flow))[0]
    state, fired = arrives(state, out("A", 1), out("A", 2), out("A", 3))
    assert fired == [(1, 2, 3)]
    state, fired = arrives(state, out("Base", 4), out("Unknown", 6, bases=(EVENT,)), out("Base", 5))
    assert fired == [(4, 5, 6)]


def test_a_step_that_takes_exact_types_pairs_exact_types():
    """R2.8, R4.77: without subclasses."""
    flow = spec(
        step("begin", "Start"),
        step("pair", slots=("Base", "A"), exact=True, num_workers=None),
        types=(event("A", bases="Base"),),
    )
    state = feed(started(flow))[0]
    state, fired = arrives(state, out("A", 1), out("A", 2), out("Base", 0))
    assert fired == [(0, 1)]


BRANCHED = spec(
    step("begin", "Start", fans="X", num_workers=None),
    step("a", "X", ("A",), num_workers=None),
    step("b", "X", ("B",), num_workers=None),
    step("pair", slots=("A", "B"), returns="C", num_workers=None),
    step("sum", gathers="C", returns="Stop"),
)


def branches(n=2):
    return finish(feed(started(BRANCHED))[0], "begin", *(out("X", i) for i in range(n)), fan=True)[0]


def test_a_set_is_paired_inside_one_branch():
    """R4.78: never one of each of two branches; the result is gathered in its branch."""
    state = branches()
    state, commands = finish(state, "a", out("A", "a0"), n=0)
    state, commands = finish(state, "b", out("B", "b1"), n=1)
    assert sets(commands) == []
    state, commands = finish(state, "b", out("B", "b0"))
    assert sets(commands) == [("a0", "b0")]
    state, commands = finish(state, "a", out("A", "a1"))
    assert sets(commands) == [("a1", "b1")]
    assert state.joins[1].sets == Names()
    state, _ = finish(state, "pair", out("C", 1), n=1)
    _, commands = finish(state, "pair", out("C", 0))
    assert sets(commands) == [(0, 1)]


def test_outside_of_branches_a_set_is_apart():
    """R4.78: an event from outside is no partner of a branch's."""
    state = branches(1)
    state, _ = finish(state, "a", out("A", "a0"))
    state, fired = arrives(state, out("B", "outside"))
    assert fired == []
    state, fired = arrives(state, out("A", "outside too"))
    assert fired == [("outside too", "outside")]


def test_a_branch_does_not_wait_for_a_partner_that_never_comes():
    """R4.8, R4.13: what waits in a set keeps no branch open, and goes with the join."""
    state = branches()
    state, _ = finish(state, "a", out("A", "a0"), n=0)
    for name in ("a", "b", "b"):
        state, commands = finish(state, name)
    assert sets(commands) == [()]
    assert len(state.joins) == 0
    assert (state.busy, state.side.sets) == (1, Names())


def test_a_slotted_step_may_fail_and_be_tried_again_with_its_set():
    """R3.48: the same events."""
    state, _ = arrives(feed(started(PAIR))[0], out("A", 1), out("B", "x"))
    state, commands = feed(state, says(state, "pair", StepFailed, failure=Failure("E", "no"), retry_at=0.0))
    assert sets(commands) == [(1, "x")]
    assert commands[0].delivery.attempt == 2


def test_a_run_whose_sets_miss_a_partner_says_which():
    """R5.36: it is stalled."""
    flow = spec(step("begin", "Start", "A"), step("pair", slots=("A", ("B", "C"))))
    state, _ = finish(feed(started(flow))[0], "begin", out("A", 1))
    assert why_stalled(state) == "step pair has no B | C to go with what came; never reached: pair"
    state, _ = feed(state, QuietNoticed(2.0))
    assert state.status == "failed"


@given(st.lists(st.sampled_from("ABC"), max_size=40))
def test_sets_are_what_queues_side_by_side_would_give(letters):
    """R4.77: against the plain rule."""
    flow = spec(step("begin", "Start"), step("three", slots=("A", "B", "C"), num_workers=None))
    _, fired = arrives(feed(started(flow))[0], *(out(letter, n) for n, letter in enumerate(letters)))
    queues = [[n for n, letter in enumerate(letters) if letter == kind] for kind in "ABC"]
    assert fired == list(zip(*queues, strict=False))
