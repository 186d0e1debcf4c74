"""What joins, partners and collecting steps still lack."""

from flownb.core import ticks as t
from flownb.core.lacking import LACKS, Branch, Lack, lacking
from flownb.core.values import Failure
from flownb.testing.feed import event, feed, finish, key, out, says, spec, started, step

FAN = spec(
    step("load", "Start", fans="Row"),
    step("score", "Row", ("Done", "Ask"), num_workers=2),
    step("note", "Reply", "Done"),
    step("sum", gathers="Done"),
    types=[event("Ask", answer="Reply")],
)


def fanned(n, flow=FAN):
    return finish(feed(started(flow))[0], "load", *(out("Row", i) for i in range(n)), fan=True)[0]


def test_a_run_without_joins_lacks_nothing():
    assert lacking(feed(started(FAN))[0]) == []


def test_a_join_names_the_branches_that_have_not_come():
    """With the tick that sent what lives there, and where that is."""
    state, _ = finish(fanned(3), "score", out("Done"))
    state, _ = finish(state, "score", out("Done"))
    (lack,) = lacking(state)
    assert lack == Lack("sum", 2, 3, ("Done",), (Branch(2, "score", "running", "Row", 2),))
    assert lack.words() == "2 of 3 arrived, missing Done from #2 (score is running Row, branch 2)"
    assert lack.ticks == (2,)


def test_each_place_in_which_a_branch_can_be():
    """Running, waiting, tried again, queued; a returned question; a branch that ended without a word."""
    state = fanned(7)
    state, _ = feed(state, says(state, "score", t.WaitOpened, mark=1, wait=t.Ask(out("Ask"))))
    state, _ = feed(state, says(state, "score", t.StepFailed, n=1, failure=Failure("m:Odd", "no"), retry_at=9.0))
    state, _ = feed(state, says(state, "score", t.StepFinished, n=2, outs=(out("Ask"),)))
    state, _ = feed(state, says(state, "score", t.StepFinished, n=2))
    asked = state.requests[2].opened
    (lack,) = lacking(state)
    assert [(branch.index, branch.where, branch.tick) for branch in lack.branches] == [
        (0, "waiting", 2),
        (1, "retrying", 2),
        (2, "asking", asked),
    ]
    assert (lack.more, lack.without) == (3, 1)
    assert lack.words() == (
        "0 of 7 arrived, missing Done from #2 (score waits with Row, branch 0), #2 (score tries Row again later, "
        f"branch 1), #{asked} (score asks Ask, branch 2) and 3 more, 1 ended without one"
    )
    assert lack.ticks == (2, asked)
    state, _ = feed(state, t.RequestAnswered(1.0, 2, out("Reply")))
    (lack,) = lacking(state)
    assert lack.branches[2] == Branch(2, "note", "running", "Reply", state.seq)


def test_a_branch_that_has_come_is_not_missing_though_it_goes_on():
    state = fanned(1)
    state, _ = feed(state, says(state, "score", t.EventsSent, outs=(out("Done"), out("Done"))))
    assert lacking(state) == [Lack("sum", 1, 1, ())]
    assert lacking(state)[0].words() == "1 of 1 arrived"


def test_a_queued_delivery_and_one_of_an_inner_fan_out():
    flow = spec(
        step("load", "Start", fans="Page"),
        step("split", "Page", fans="Row"),
        step("score", "Row", "Done", num_workers=1),
        step("page", gathers="Done", returns="Book"),
        step("book", gathers="Book"),
    )
    state, _ = finish(feed(started(flow))[0], "load", out("Page"), fan=True)
    state, _ = finish(state, "split", out("Row"), out("Row"), fan=True)
    outer, inner = lacking(state)
    assert (outer.step, outer.wanted, inner.step, inner.wanted) == ("book", 1, "page", 2)
    assert outer.branches == (Branch(0, "score", "running", "Row", 3),)
    assert [branch.where for branch in inner.branches] == ["running", "queued"]


def test_a_step_that_takes_the_first_n_lacks_of_these():
    """R4.16."""
    flow = spec(step("load", "Start", fans="Row"), step("score", "Row", "Done"), step("best", gathers="Done", take=2))
    state, _ = finish(fanned(4, flow), "score", out("Done"))
    assert (
        lacking(state)[0].words().startswith("1 of 2 arrived, missing Done from #2 (score is running Row, branch 1), ")
    )


def test_partners_lack_each_other():
    """R4.77, in a branch and outside of one."""
    flow = spec(step("load", "Start", ("A", "B")), step("pair", slots=("A", ("B", "C"))))
    state, _ = feed(started(flow))
    state, _ = feed(state, says(state, "load", t.EventsSent, outs=(out("A"),)))
    assert lacking(state) == [Lack("pair", 1, 2, ("B | C",), has="A")]
    assert lacking(state)[0].words() == "1 of 2 arrived (A), missing B | C"
    flow = spec(
        *FAN.steps[:1],
        step("score", "Row", ("A", "B")),
        step("pair", slots=("A", "B"), returns="Done"),
        step("sum", gathers="Done"),
    )
    state, _ = finish(fanned(2, flow), "score", out("A"))
    assert [lack.step for lack in lacking(state)] == ["sum", "pair"]
    assert lacking(state)[1] == Lack("pair", 1, 2, ("B",), has="A")
    assert lacking(state)[0].without == 1  # the branch itself is over


def test_what_a_step_collects_lacks_what_it_asked_for():
    """R4.1: from the ticks; a state alone knows only what came."""
    flow = spec(step("load", "Start", fans="Row"), step("gather", "Row"))
    state = fanned(2, flow)
    wants = ((key("Row"), 3), (key("Other"), 1))
    journal = []
    for row in (0, 1):
        collect = t.Collect("mine", wants, out("Row", row), key("Row"))
        journal.append(says(state, "gather", t.StepFinished, collects=(collect,)))
        state, _ = feed(state, journal[-1])
    assert lacking(state, journal)[-1] == Lack("gather", 2, 4, ("Row", "Other"), has="2 × Row")
    assert lacking(state, journal)[-1].words() == "2 of 4 arrived (2 × Row), missing Row and Other"
    assert lacking(state)[-1].words() == "2 arrived (2 × Row)"
    other = t.Collect("other", wants, out("Row", 1), key("Row"))
    asked = [*journal, t.StepFinished(0.0, "gather", 9, 1, collects=(other,)), t.StepFinished(0.0, "gather", 9, 1)]
    assert lacking(state, asked)[-1].wanted == 4
    assert lacking(state, [t.GateClosed(0.0)])[-1].wanted == 0


def test_of_very_many_joins_the_first_are_told():
    """A fan-out of fan-outs."""
    flow = spec(
        step("load", "Start", fans="Page"),
        step("split", "Page", fans="Row", num_workers=None),
        step("score", "Row", "Done"),
        step("page", gathers="Done"),
    )
    state, _ = finish(feed(started(flow))[0], "load", *(out("Page") for _ in range(LACKS + 5)), fan=True)
    for _ in range(LACKS + 5):
        state, _ = finish(state, "split", out("Row"), fan=True)
    assert len(state.joins) >= LACKS + 5
    assert len(lacking(state)) == LACKS
