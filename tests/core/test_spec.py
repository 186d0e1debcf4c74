"""Which steps take an event, and which lists a fan-out joins in, by names alone."""

import pytest

from flownb.core.spec import EVENT, takers
from flownb.testing import event, spec, step
from flownb.testing.feed import key


def routes(flow, name):
    return [flow.steps[i].name for i in flow.routes[key(name)]]


def joins(flow, name):
    return [flow.steps[i].name for i in flow.joins[flow.index[name]]]


def test_a_step_takes_every_type_of_its_hint_and_what_derives_from_them():
    """R2.7, R2.8: unions and bases; once, even if several of its types fit."""
    flow = spec(
        step("begin", "Start", ("Row", "Special")),
        step("union", ("Row", "Special")),
        step("base", "Row"),
        step("exact", "Special"),
        types=(event("Row"), event("Special", bases="Row")),
    )

    assert routes(flow, "Row") == ["union", "base"]
    assert routes(flow, "Special") == ["union", "base", "exact"]
    assert routes(flow, "Start") == ["begin"]


def test_steps_take_an_event_in_the_order_of_their_definition():
    """R2.11: whatever the order in their hints."""
    flow = spec(step("second", ("B", "Start")), step("first", ("Start", "B")))

    assert routes(flow, "Start") == routes(flow, "B") == ["second", "first"]


@pytest.mark.parametrize(
    ("name", "taken"),
    [("Row", True), ("Reply", True), ("Start", False), ("Ask", False), ("Failed", False), ("Closed", False)],
)
def test_a_hint_of_plain_event_takes_ordinary_events_only(name, taken):
    """R2.9: starts, questions, failures and the engine's own events need their own type named; also unknown ones."""
    flow = spec(step("begin", "Start"), step("any", EVENT), types=(event(name),))
    role = event(name).role

    assert ("any" in routes(flow, name)) is taken
    assert takers(flow, key("Unknown"), role, (key("Row"), EVENT)) == ((1,) if taken else ())


def test_an_unknown_type_is_taken_by_its_bases():
    """R2.8, R2.19: an undeclared subclass goes where its bases go, in step order, once."""
    flow = spec(
        step("begin", "Start"),
        step("other", "Other"),
        step("row", "Row"),
        step("both", ("Row", "Special")),
        types=(event("Row"), event("Special", bases="Row")),
    )

    assert takers(flow, key("New"), "event", (key("Special"), key("Row"), EVENT)) == (2, 3)
    assert takers(flow, key("New"), "event", (key("Nobody's"), EVENT)) == ()
    assert takers(flow, key("Row"), "event", (key("Other"),)) == (2, 3)  # the spec knows it, so its word counts


def test_lists_are_looked_up_apart():
    """R4.8: who gathers a type does not take it one at a time."""
    flow = spec(step("begin", "Start", fans="Row"), step("sum", gathers="Row"), step("one", "Row"))

    assert takers(flow, key("Row"), "event", (), gathering=True) == (1,)
    assert takers(flow, key("Row"), "event", ()) == (2,)
    assert takers(flow, key("New"), "event", (key("Row"),), gathering=True) == (1,)


def test_a_fan_out_joins_in_every_list_that_its_elements_can_reach():
    """R4.11: at once, through steps, through loops, and not in those that they cannot reach."""
    flow = spec(
        step("begin", "Start", fans=("A", "B")),
        step("a", "A", ("C", "A")),
        step("c", "C", "D"),
        step("direct", gathers="B"),
        step("far", gathers="D"),
        step("never", gathers="E"),
        step("e", "Other", "E"),
    )

    assert joins(flow, "begin") == ["direct", "far"]
    assert joins(flow, "a") == joins(flow, "e") == []


def test_a_base_in_a_list_gathers_subclasses():
    """R2.8 for lists."""
    flow = spec(step("begin", "Start", fans="Sub"), step("sum", gathers="Row"), types=(event("Sub", bases="Row"),))
    assert joins(flow, "begin") == ["sum"]


def test_an_inner_fan_out_owns_the_lists_that_its_elements_reach():
    """R4.11, R4.12: the innermost joins; what its join returns goes on in the outer branch."""
    flow = spec(
        step("begin", "Start", fans="A"),
        step("a", "A", fans="B"),
        step("b", "B", "C"),
        step("inner", gathers="C", returns="D"),
        step("outer", gathers="D", returns="Stop"),
    )

    assert joins(flow, "begin") == ["outer"]
    assert joins(flow, "a") == ["inner"]


def test_three_levels_join_innermost_first():
    """R4.12, however deep."""
    flow = spec(
        step("one", "Start", fans="A"),
        step("two", "A", fans="B"),
        step("three", "B", fans="C"),
        step("work", "C", "D"),
        step("join three", gathers="D", returns="E"),
        step("join two", gathers="E", returns="F"),
        step("join one", gathers="F", returns="Stop"),
    )

    assert [joins(flow, name) for name in ("one", "two", "three")] == [["join one"], ["join two"], ["join three"]]


def test_a_list_that_nothing_joins_is_no_fan_out():
    """R4.11: its elements go on in the branch that they are sent in, so they may reach an outer join."""
    flow = spec(
        step("begin", "Start", fans="A"),
        step("a", "A", fans="B"),
        step("outer", gathers="B"),
        step("end", "Other", fans="Stop"),
    )

    assert joins(flow, "a") == ["outer"]  # its own list reaches one: it is the innermost
    assert joins(flow, "begin") == []
    assert joins(flow, "end") == []


def test_lists_in_a_row_inside_a_branch_lead_to_the_outer_join():
    """R4.12: a join that fans out in its turn is still in the outer branch, and so is what its own joins return."""
    flow = spec(
        step("begin", "Start", fans="A"),
        step("a", "A", fans="B"),
        step("b", gathers="B", fans="C"),
        step("c", gathers="C", fans="D"),
        step("d", gathers="D", returns="E"),
        step("outer", gathers="E"),
    )

    assert [joins(flow, name) for name in ("begin", "a", "b", "c")] == [["outer"], ["b"], ["c"], ["d"]]


def test_a_list_after_a_join_that_nothing_gathers_goes_on_in_the_outer_branch():
    """R4.10: what a join returns as a list without joins is like what it returns one by one."""
    flow = spec(
        step("begin", "Start", fans="A"),
        step("a", "A", fans="B"),
        step("inner", gathers="B", fans="C"),
        step("c", "C"),
        step("side", "C", "D"),
        step("outer", gathers="D"),
    )

    assert joins(flow, "a") == ["inner"]
    assert joins(flow, "inner") == ["outer"]
    assert joins(flow, "begin") == []


def test_a_question_in_a_branch_goes_on_as_its_answer():
    """R4.14: returned, in a list, or by a join; and R4.76: or as the event that says that it was closed."""
    ask = event("Ask", answer="Reply")
    returned = spec(
        step("begin", "Start", fans="A"),
        step("a", "A", "Ask"),
        step("r", "Reply", "B"),
        step("sum", gathers="B"),
        types=(ask,),
    )
    listed = spec(step("begin", "Start", fans="Ask"), step("r", "Reply", "B"), step("sum", gathers="B"), types=(ask,))
    joined = spec(
        step("begin", "Start", fans="A"),
        step("a", "A", fans="B"),
        step("inner", gathers="B", returns="Ask"),
        step("r", "Reply", "C"),
        step("sum", gathers="C"),
        types=(ask,),
    )
    closed = spec(step("begin", "Start", fans="Ask"), step("told", "Closed", "B"), step("sum", gathers="B"))
    gathered = spec(step("begin", "Start", fans="Ask"), step("sum", gathers="Reply"), types=(ask,))

    assert [joins(flow, "begin") for flow in (returned, listed, joined, closed, gathered)] == [["sum"]] * 5


def test_loops_between_joins_end():
    """Two joins that fan out into one another are described in finite time."""
    flow = spec(
        step("begin", "Start", fans="A"),
        step("ping", gathers="A", returns="Stop", fans="B"),
        step("pong", gathers="B", fans="A"),
    )

    assert [joins(flow, name) for name in ("begin", "ping", "pong")] == [["ping"], ["pong"], ["ping"]]


def test_two_lists_join_one_fan_out():
    """R4.11: each of them fires."""
    flow = spec(step("begin", "Start", fans=("A", "B")), step("x", gathers="A"), step("y", gathers=("A", "B")))
    assert joins(flow, "begin") == ["x", "y"]


def test_ways_that_meet_again_are_one():
    """R4.11: a step, or a join, that a branch reaches twice counts once."""
    flow = spec(
        step("begin", "Start", fans=("A", "B")),
        step("a", ("A", "B"), fans="C"),
        step("x", gathers="C", fans="D"),
        step("y", gathers="C", fans="D"),
        step("z", gathers="D", returns="E"),
        step("outer", gathers="E"),
    )

    assert [joins(flow, name) for name in ("begin", "a", "x", "y")] == [["outer"], ["x", "y"], ["z"], ["z"]]


def test_a_step_that_takes_exact_types_takes_no_subclasses():
    """R2.8: one at a time or in a list, known types or unknown ones; not even a plain Event."""
    flow = spec(
        step("begin", "Start", fans="Sub"),
        step("exact", "Row", exact=True),
        step("list", gathers="Row", exact=True),
        step("any", EVENT, exact=True),
        types=(event("Row"), event("Sub", bases="Row")),
    )

    assert (routes(flow, "Row"), routes(flow, "Sub")) == (["exact"], [])
    assert joins(flow, "begin") == []
    assert takers(flow, key("New"), "event", (key("Row"), EVENT)) == ()
    assert takers(flow, key("New"), "event", (key("Row"),), gathering=True) == ()


def test_failures_go_to_the_handler_that_names_the_step_else_to_all():
    """R3.36, R3.37, R3.39: and those of handlers to nobody."""
    flow = spec(
        step("begin", "Start", ("A", "B")),
        step("a", "A"),
        step("b", "B"),
        step("for a", "Failed", catches="a"),
        step("for both", "Failed", catches=("a", "b")),
        step("for all", "Failed", catches=()),
        step("plain", "Failed"),
        step("sum", gathers="Failed"),
    )

    names = [[flow.steps[i].name for i in found] for found in flow.catchers]
    assert names == [
        ["for all", "plain"],
        ["for a", "for both"],
        ["for both"],
        [],
        [],
        [],
        [],
        ["for all", "plain"],
    ]


def test_a_spec_knows_its_odd_steps_by_place():
    """R5.51, R4.77: those for a cancel, and those with several parameters."""
    flow = spec(
        step("begin", "Start"),
        step("tidy", "Cancelled", on_cancel=True),
        step("pair", slots=("A", ("B", "C"))),
    )
    assert (flow.on_cancel, flow.slotted) == ((1,), frozenset({2}))
    assert flow.steps[2].accepts == (key("A"), key("B"), key("C"))
    assert routes(flow, "C") == ["pair"]


def test_a_spec_shows_its_name_and_steps_alone():
    """A first tick that is printed would be pages long."""
    assert repr(spec(step("begin", "Start", "A"), step("work", "A", "Stop"))) == "<Spec of flow: begin, work>"
