"""The drawing's view of a spec."""

from flownb.core.graph import Edge, Graph, Node, graph_of, short
from flownb.testing import event, spec, step
from flownb.testing.feed import key


def test_the_graph_has_the_steps_between_start_and_stop():
    """R2.19: one edge per declared event and taker, a fan-out's steps marked, a person where somebody is asked."""
    flow = spec(
        step("load", "Start", ("Row", "Stop"), fans="Row"),
        step("check", "Row", ("Done", "Ask"), asks=True),
        step("hears", ("Reply", "Order"), "Done"),
        step("sum", gathers="Done", returns="Stop"),
        types=(event("Ask", answer="Reply"),),
        outside="Order",
    )

    assert graph_of(flow) == Graph(
        "flow",
        (
            Node("start", "start", "start"),
            Node("load", "load", "step"),
            Node("check", "check", "person"),
            Node("hears", "hears", "step"),
            Node("sum", "sum", "step"),
            Node("stop", "stop", "stop"),
        ),
        (
            Edge(0, 1, "Start", key=key("Start")),
            Edge(0, 3, "Order", key=key("Order")),
            Edge(1, 2, "Row", key=key("Row")),
            Edge(1, 5, "Stop", key=key("Stop")),
            Edge(2, 4, "Done", key=key("Done")),
            Edge(2, 3, "Reply", "answer", key("Reply")),
            Edge(3, 4, "Done", key=key("Done")),
            Edge(4, 5, "Stop", key=key("Stop")),
        ),
        "hash",
    )


def test_steps_inside_a_fan_out_are_drawn_as_many():
    """R4.8: those that take its elements, and only if something joins them."""
    joined = graph_of(spec(step("load", "Start", fans="Row"), step("work", "Row", "D"), step("sum", gathers="D")))
    loose = graph_of(spec(step("load", "Start", fans="Row"), step("work", "Row", "Stop")))

    assert [node.shape for node in joined.nodes] == ["start", "step", "fan", "step", "stop"]
    assert [node.shape for node in loose.nodes] == ["start", "step", "step", "stop"]


def test_a_question_without_a_named_answer_has_no_answer_edge():
    """R4.39: nobody knows what type it is; one that the workflow does not name leads nowhere."""
    flow = spec(step("load", "Start", ("Ask", "AskMore")), types=(event("AskMore", answer="Reply"), event("Ask")))
    assert graph_of(flow).edges == (Edge(0, 1, "Start", key=key("Start")),)


def test_a_short_name_is_the_class_alone():
    """Whatever its module and the classes around it."""
    assert [short(k) for k in ("m.n:A", "m:A.B", "A", "m:f.<locals>.A")] == ["A", "B", "A", "A"]
