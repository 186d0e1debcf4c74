"""The helpers that feed ticks to the pure core."""

import pytest
from msgspec.structs import replace

from flownb.core.reduce import fold, reduce
from flownb.core.spec import EVENT, TypeSpec
from flownb.core.ticks import GateClosed, GateOpened, StepFinished
from flownb.core.values import Out
from flownb.testing import event, feed, finish, out, says, spec, started, step

FLOW = spec(step("work", "Start", "A"), step("next", "A", "Stop"))


def test_feed_takes_a_journal_its_first_tick_or_a_state():
    """And gives the commands of the last tick."""
    journal = [started(FLOW), GateClosed(1.0), GateOpened(2.0)]
    state = fold(journal)

    assert feed(journal) == feed(*journal) == feed(journal[:1], *journal[1:]) == (state, ())
    assert feed(fold(journal[:1]), *journal[1:]) == (state, ())
    assert feed(state) == (state, ())
    finished = says(state, "work", StepFinished, outs=(out("A"),))
    after, commands = reduce(state, finished)
    assert feed(state, finished) == finish(state, "work", out("A")) == (after, tuple(commands))


def test_feed_checks_the_invariants_after_each_tick():
    """A test that feeds a broken core fails there, with the tick and the words."""
    state, _ = feed(started(FLOW))
    with pytest.raises(AssertionError, match=r"after GateClosed.*busy is 7, counted 1"):
        feed(replace(state, busy=7), GateClosed(1.0))


def test_feed_wants_a_beginning():
    """Nothing is no run, and a run does not begin in its middle."""
    with pytest.raises(AssertionError, match="begins with RunStarted, not with GateClosed"):
        feed(GateClosed(1.0))
    with pytest.raises(AssertionError, match="no tick and no state"):
        feed([])


def test_names_stand_for_keys_and_roles():
    """What a name begins with is its role; a whole key stays as it is."""
    assert out("Row", 1) == Out("test:Row", 1, "event")
    assert out("StopNow") == Out("test:StopNow", None, "stop")
    assert out("m:Ask") == Out("m:Ask", None, "request")
    assert event("Ask", bases="Row", answer="Reply") == TypeSpec(
        "test:Ask", "request", ("test:Row", EVENT), "test:Reply"
    )
    assert event("Told", role="closed").role == "closed"


def test_a_spec_knows_the_types_that_its_steps_name():
    """With the answers of its questions."""
    flow = spec(step("work", ("Start", EVENT), "Ask", fans="B"), types=(event("Ask", answer="Reply"),), outside="C")
    assert {t.key: t.role for t in flow.types} == {
        "test:Ask": "request",
        "test:Start": "start",
        "test:C": "event",
        EVENT: "event",
        "test:B": "event",
        "test:Reply": "answer",
    }
